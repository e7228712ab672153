/* SPDX-License-Identifier: MIT */
/*
 * The input is a file in the cache of compiled kernels. Its first byte selects fields that are
 * corrected before the file is read, so that inputs also reach the later checks. The bits of this
 * byte are 1 for the format, 2 for the key, 4 for the size and 8 for the hash. The cache must find
 * the content of the file if all fields are correct, and must find nothing otherwise.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/kernel/disk_cache.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/folder.h"

enum {
    FORMAT_AT = 0,
    KEY_AT = 8,
    HASH_AT = 40,
    SIZE_AT = 72,
    HEADER_BYTES = 80,
    FILE_BYTES_MAX = 65536
};

static const struct ferryi_disk_cache_key key = {"the key of every file of these.."};
static char root[FOLDER_PATH_BYTES], path[3 * FOLDER_PATH_BYTES];

static void
clean_up(void)
{
    folder_remove(root);
}

/* Stores an entry in the cache, so that the path of the entry's file is known. */
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
    ferryi_sha256_add_piece(&state, file + HEADER_BYTES, count - HEADER_BYTES);
    ferryi_sha256_end(&state, out);
}

/* Corrects the fields that the bits of `what` select. Returns whether all fields are correct
 * afterwards. */
static int
repair(unsigned char *file, size_t count, unsigned what)
{
    unsigned char right[HEADER_BYTES];
    uint64_t size = count - HEADER_BYTES;
    memcpy(right + FORMAT_AT, "FERRYKC1", KEY_AT - FORMAT_AT);
    memcpy(right + KEY_AT, key.bytes, HASH_AT - KEY_AT);
    memcpy(right + SIZE_AT, &size, HEADER_BYTES - SIZE_AT);
    hash_entry(file, count, right + HASH_AT);
    static const size_t parts[4][2] = {
        {FORMAT_AT, KEY_AT}, {KEY_AT, HASH_AT}, {SIZE_AT, HEADER_BYTES}, {HASH_AT, SIZE_AT}};
    for (int i = 0; i < 4; i++)
        if (what >> i & 1)
            memcpy(file + parts[i][0], right + parts[i][0], parts[i][1] - parts[i][0]);
    return size > 0 && memcmp(file, right, HEADER_BYTES) == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static unsigned char file[FILE_BYTES_MAX];
    void *found = NULL;
    size_t size = 0;
    if (!*root)
        start();
    if (count == 0)
        return 0;
    size_t length = count - 1 < FILE_BYTES_MAX ? count - 1 : FILE_BYTES_MAX;
    memcpy(file, bytes + 1, length);
    int right = length >= HEADER_BYTES && repair(file, length, bytes[0]);
    folder_write_file(path, file, length);
    if (ferryi_disk_cache_find(&key, "k", NULL, &found, &size) != right)
        abort();
    if (right && (size != length - HEADER_BYTES || memcmp(found, file + HEADER_BYTES, size) != 0))
        abort();
    /* The cache has deleted an invalid file. */
    if ((access(path, F_OK) == 0) != right)
        abort();
    free(found);
    return 0;
}
