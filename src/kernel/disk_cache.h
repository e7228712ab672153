/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DISK_CACHE_H
#define FERRYI_DISK_CACHE_H

/*
 * A cache of compiled code on disk, so that a source is not compiled again in every process. An
 * entry is a file named by its key, a hash of everything that determines the code. The file holds
 * the key, the code, and a hash of both, and is verified as a whole before any of it is used.
 *
 * The folder is FERRY_CACHE_DIR (empty: no cache), else ferry/ in XDG_CACHE_HOME, else
 * .cache/ferry/ in HOME; src/base/private_folder.h describes which folders are refused. An error of
 * the cache only costs a compilation, so these functions do not fail: they log errors.
 *
 * The folder's permissions, not the hash, protect against code of other users, who could compute
 * the hash as well. The hash detects damaged and truncated entries, and code that was stored under
 * another key.
 */

#include "src/base/base.h"
#include "src/base/sha256.h"

struct ferryi_disk_cache_key {
    unsigned char bytes[FERRYI_SHA256_BYTES];
};

/* Begins the hash that becomes a key. It already contains the format of entries; the caller adds
 * pieces and ends it. */
void ferryi_disk_cache_key_begin(struct ferryi_sha256 *state);

/* Finds the code of a key. Returns false if there is no valid entry; a damaged one is removed. The
 * caller frees `*out_bytes`, which a NUL follows. */
bool ferryi_disk_cache_find(const struct ferryi_disk_cache_key *key, const char *name,
                            const struct ferryi_log *log, void **out_bytes, size_t *out_size);
/* Stores a copy of the code. Removes the least recently used entries if the cache is too large. */
void ferryi_disk_cache_keep(const struct ferryi_disk_cache_key *key, const char *name,
                            const struct ferryi_log *log, const void *bytes, size_t size);

#endif
