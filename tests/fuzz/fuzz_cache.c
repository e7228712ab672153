/* SPDX-License-Identifier: MIT */
/*
 * The input is a file in the cache of compiled kernels. If its first byte is odd, the hash is
 * corrected before the file is read, so that inputs also contain valid entries. The cache must find
 * the content of the file if the hash is correct, and must find nothing otherwise.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/device/disk_cache.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/folder.h"

enum { HASH_BYTES = 32, FILE_BYTES_MAX = 65536 };

static const struct ferryi_disk_cache_key key = {"the key of every file of these.."};
static char root[FOLDER_PATH_BYTES], path[3 * FOLDER_PATH_BYTES];

static void
clean_up(void)
{
    folder_remove(root);
}

/* Stores an entry in an empty cache, to find out the path of the entry's file. */
static void
start(void)
{
    char name[FOLDER_PATH_BYTES];
    folder_make(root);
    atexit(clean_up);
    snprintf(path, sizeof(path), "%s/cache", root);
    setenv("FERRY_CACHE_DIR", path, 1);
    ferryi_disk_cache_keep(&key, "k", NULL, "code", 4);
    folder_only_file(path, name);
    snprintf(path, sizeof(path), "%s/cache/%s", root, name);
}

static void
hash_entry(const unsigned char *file, size_t count, unsigned char *out)
{
    struct ferryi_sha256 state;
    ferryi_sha256_begin(&state);
    ferryi_sha256_add_piece(&state, key.bytes, sizeof(key.bytes));
    ferryi_sha256_add_piece(&state, file + HASH_BYTES, count - HASH_BYTES);
    ferryi_sha256_end(&state, out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static unsigned char file[FILE_BYTES_MAX];
    unsigned char hash[HASH_BYTES];
    void *found = NULL;
    size_t size = 0;
    if (!*root)
        start();
    if (count == 0)
        return 0;
    size_t length = count - 1 < FILE_BYTES_MAX ? count - 1 : FILE_BYTES_MAX;
    memcpy(file, bytes + 1, length);
    int right = 0;
    if (length > HASH_BYTES) {
        hash_entry(file, length, hash);
        if (bytes[0] & 1)
            memcpy(file, hash, HASH_BYTES);
        right = memcmp(file, hash, HASH_BYTES) == 0;
    }
    folder_write_file(path, file, length);
    if (ferryi_disk_cache_find(&key, "k", NULL, &found, &size) != right)
        abort();
    if (right && (size != length - HASH_BYTES || memcmp(found, file + HASH_BYTES, size) != 0))
        abort();
    /* The cache must delete the file if and only if it is invalid. */
    if ((access(path, F_OK) == 0) != right)
        abort();
    free(found);
    return 0;
}
