/* SPDX-License-Identifier: MIT */
#include "src/device/disk_cache.h"

#include <ferry/kernel.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/private_folder.h"

/* Identifies the format of cache entries. Change it whenever the format changes, so that no version
 * of Ferry finds entries that it cannot read. */
#define FORMAT          "FERRYKC2"

#define IMAGE_BYTES_MAX ((size_t)64 << 20)
#define CACHE_BYTES_MAX ((uint64_t)256 << 20)
enum { CACHE_ENTRIES_MAX = 4096 };

/* A cache entry is a file whose name is its key. The file contains a hash of the key and the code,
 * followed by the code. */
enum { HASH_BYTES = FERRYI_SHA256_BYTES };

/* -- the folder -------------------------------------------------------------------------------- */

static const char *
folder_variable(const char *name)
{
    const char *value = ferryi_getenv(name);
    return value && *value ? value : NULL;
}

static ferry_status
find_path(char path[PATH_MAX])
{
    const char *own = ferryi_getenv("FERRY_CACHE_DIR"), *base = own, *below = "";
    if (own && !*own)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "FERRY_CACHE_DIR is empty, which turns it off");
    if (!own) {
        base = folder_variable("XDG_CACHE_HOME");
        below = "/ferry";
        /* The XDG Base Directory Specification requires that a relative path in XDG_CACHE_HOME is
         * ignored. */
        if (!base || *base != '/') {
            base = folder_variable("HOME");
            below = "/.cache/ferry";
        }
    }
    if (!base)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "none of FERRY_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    if (*base != '/')
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s is \"%s\", which is no absolute path",
                           own ? "FERRY_CACHE_DIR" : "HOME", base);
    if ((size_t)snprintf(path, PATH_MAX, "%s%s", base, below) >= PATH_MAX)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "its path is longer than %d bytes",
                           PATH_MAX - 1);
    return FERRY_OK;
}

/* Reports once a process that FERRY_CACHE_DIR names no folder that can be used. */
static void
report_variable(const struct ferryi_log *log)
{
    static atomic_bool reported;
    const char *own = ferryi_getenv("FERRY_CACHE_DIR");
    if (own && *own && !atomic_exchange(&reported, true))
        ferryi_log_setting(log, FERRY_LOG_WARNING, "kernels are not kept: %s", ferry_last_error());
}

static ferry_status
open_folder(bool make, const struct ferryi_log *log, int *out)
{
    char path[PATH_MAX];
    *out = -1;
    ferry_status status = find_path(path);
    if (status == FERRY_OK)
        status = ferryi_private_folder_open(path, make, out);
    if (status != FERRY_OK)
        report_variable(log);
    return status;
}

/* -- entries ----------------------------------------------------------------------------------- */

enum { NAME_BYTES = 2 * FERRYI_SHA256_BYTES + 1 };

static void
make_name(const struct ferryi_disk_cache_key *key, char name[NAME_BYTES])
{
    for (int i = 0; i < FERRYI_SHA256_BYTES; i++)
        snprintf(name + 2 * i, 3, "%02x", key->bytes[i]);
}

/* Returns whether the name is that of a cache entry, or of the temporary file of an unfinished
 * entry. */
static bool
is_ours(const char *name)
{
    size_t digits = strspn(name, "0123456789abcdef");
    return digits == NAME_BYTES - 1 && (name[digits] == 0 || name[digits] == '.');
}

static void
hash_entry(const struct ferryi_disk_cache_key *key, const void *image, size_t size,
           unsigned char out[HASH_BYTES])
{
    struct ferryi_sha256 state;
    ferryi_sha256_begin(&state);
    ferryi_sha256_add_piece(&state, key->bytes, sizeof(key->bytes));
    ferryi_sha256_add_piece(&state, image, size);
    ferryi_sha256_end(&state, out);
}

static ferry_status
read_entry(struct ferryi_file *file, const struct ferryi_disk_cache_key *key, void **out_bytes,
           size_t *out_size)
{
    unsigned char hash[HASH_BYTES], expected[HASH_BYTES];
    size_t done;
    if (file->bytes <= HASH_BYTES || file->bytes - HASH_BYTES > IMAGE_BYTES_MAX)
        return ferryi_fail(FERRY_ERROR_IO, "it has %llu bytes", (unsigned long long)file->bytes);
    size_t size = (size_t)file->bytes - HASH_BYTES;
    char *image = malloc(size + 1);
    if (!image)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes of code", size);
    image[size] = 0;
    ferry_status status = ferryi_file_read(file, 0, expected, HASH_BYTES, &done);
    if (status == FERRY_OK)
        status = ferryi_file_read(file, HASH_BYTES, image, size, &done);
    if (status == FERRY_OK) {
        hash_entry(key, image, size, hash);
        if (memcmp(hash, expected, HASH_BYTES) != 0)
            status = ferryi_fail(FERRY_ERROR_IO, "its content does not match its hash");
    }
    if (status != FERRY_OK) {
        free(image);
        return status;
    }
    *out_bytes = image;
    *out_size = size;
    return FERRY_OK;
}

static ferry_status
write_entry(int folder, const struct ferryi_disk_cache_key *key, const void *image, size_t size)
{
    char name[NAME_BYTES];
    unsigned char *entry = malloc(HASH_BYTES + size);
    if (!entry)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes", HASH_BYTES + size);
    hash_entry(key, image, size, entry);
    memcpy(entry + HASH_BYTES, image, size);
    make_name(key, name);
    ferry_status status = ferryi_private_folder_put(folder, name, entry, HASH_BYTES + size);
    free(entry);
    return status;
}

/* -- finding and keeping ----------------------------------------------------------------------- */

void
ferryi_disk_cache_key_begin(struct ferryi_sha256 *state)
{
    ferryi_sha256_begin(state);
    ferryi_sha256_add_piece(state, FORMAT, strlen(FORMAT));
}

static void
tell(const struct ferryi_log *log, ferry_log_level level, const char *name, const char *what)
{
    ferryi_log(log, level, "compile kernel \"%s\": %s: %s", name, what, ferry_last_error());
}

/* Reads a cache entry from an open folder. Removes the entry if it is damaged. An entry that cannot
 * be read for a different reason stays until it is overwritten. */
static bool
take_entry(int folder, const struct ferryi_disk_cache_key *key, const char *name,
           const struct ferryi_log *log, void **out_bytes, size_t *out_size)
{
    char file_name[NAME_BYTES];
    struct ferryi_file file;
    make_name(key, file_name);
    ferry_status status = ferryi_private_folder_find(folder, file_name, &file);
    if (status != FERRY_OK) {
        tell(log, FERRY_LOG_WARNING, name, "its entry in the cache is not used");
        return false;
    }
    if (file.fd < 0)
        return false;
    status = read_entry(&file, key, out_bytes, out_size);
    if (status == FERRY_OK) {
        ferryi_private_folder_touch(&file);
    } else if (status == FERRY_ERROR_OUT_OF_MEMORY) {
        tell(log, FERRY_LOG_DEBUG, name, "its entry in the cache is not used");
    } else {
        ferryi_private_folder_remove(folder, file_name);
        tell(log, FERRY_LOG_WARNING, name, "its entry in the cache is damaged, and removed");
    }
    (void)ferryi_file_close(&file);
    return status == FERRY_OK;
}

bool
ferryi_disk_cache_find(const struct ferryi_disk_cache_key *key, const char *name,
                       const struct ferryi_log *log, void **out_bytes, size_t *out_size)
{
    int folder;
    if (open_folder(false, log, &folder) != FERRY_OK)
        tell(log, FERRY_LOG_DEBUG, name, "there is no cache");
    if (folder < 0)
        return false;
    bool found = take_entry(folder, key, name, log, out_bytes, out_size);
    ferryi_private_folder_close(folder);
    if (found)
        ferryi_log(log, FERRY_LOG_DEBUG, "compile kernel \"%s\": its code was found in the cache",
                   name);
    return found;
}

void
ferryi_disk_cache_keep(const struct ferryi_disk_cache_key *key, const char *name,
                       const struct ferryi_log *log, const void *bytes, size_t size)
{
    int folder;
    if (size == 0 || size > IMAGE_BYTES_MAX)
        return;
    ferry_status status = open_folder(true, log, &folder);
    if (status == FERRY_OK)
        status = write_entry(folder, key, bytes, size);
    if (status == FERRY_OK)
        status = ferryi_private_folder_trim(folder, is_ours, CACHE_BYTES_MAX, CACHE_ENTRIES_MAX);
    if (status != FERRY_OK)
        tell(log, FERRY_LOG_DEBUG, name, "its code is not kept in the cache");
    ferryi_private_folder_close(folder);
}

/* -- public ------------------------------------------------------------------------------------ */

ferry_status
ferry_kernel_cache_path(char *out, size_t out_bytes)
{
    char path[PATH_MAX];
    int folder;
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "get the path of the kernel cache: out is NULL");
    if (find_path(path) != FERRY_OK || ferryi_private_folder_open(path, false, &folder) != FERRY_OK)
        return ferryi_fail_in(FERRY_ERROR_UNSUPPORTED, "get the path of the kernel cache");
    ferryi_private_folder_close(folder);
    if (strlen(path) >= out_bytes)
        return ferryi_fail(
            FERRY_ERROR_OUT_OF_RANGE,
            "get the path of the kernel cache: it has %zu bytes, but out has room for %zu",
            strlen(path) + 1, out_bytes);
    memcpy(out, path, strlen(path) + 1);
    return FERRY_OK;
}
