/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DISK_CACHE_H
#define FERRYI_DISK_CACHE_H

/*
 * A cache of compiled code on disk, so that a source is not compiled again in every process. An
 * entry is a file whose name is its key, a hash of everything that determines the code. The file
 * contains the key, the code, and a hash of both. The whole file is verified before the code is
 * used.
 *
 * If FERRY_CACHE_DIR is set, it is the folder of the cache; if it is empty, there is no cache.
 * Otherwise the folder is ferry/ in XDG_CACHE_HOME, or else .cache/ferry/ in HOME.
 * src/base/private_folder.h describes which folders are refused. The functions log errors and do
 * not fail, because an error of the cache only costs a compilation.
 *
 * The folder's permissions protect against code of other users. The hash does not, because other
 * users could compute it as well. The hash detects damaged and truncated entries, and code that was
 * stored under a different key.
 */

#include "src/base/base.h"
#include "src/base/sha256.h"

struct ferryi_disk_cache_key {
    unsigned char bytes[FERRYI_SHA256_BYTES];
};

/* Begins the SHA-256 hash that becomes the key of a cache entry, and adds the version of the entry
 * format to the hash. The caller adds everything else that determines the code, and then ends the
 * hash. */
void ferryi_disk_cache_key_begin(struct ferryi_sha256 *state);

/* Finds the compiled code that is stored under a key. Returns false if there is no valid entry. A
 * damaged entry is removed. The caller frees `*out_bytes`. A NUL follows the code. */
bool ferryi_disk_cache_find(const struct ferryi_disk_cache_key *key, const char *name,
                            const struct ferryi_log *log, void **out_bytes, size_t *out_size);
/* Stores a copy of the code under a key. If the cache is then too large, removes the least recently
 * used entries. */
void ferryi_disk_cache_keep(const struct ferryi_disk_cache_key *key, const char *name,
                            const struct ferryi_log *log, const void *bytes, size_t size);

#endif
