/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DISK_CACHE_H
#define FERRYI_DISK_CACHE_H

/*
 * Compiled code on disk, so that a source is compiled once, and not once in every process. An entry
 * is a file named by its key, the hash of all that determines the code; it holds the key again, the
 * code, and a hash of both, and is looked at as a whole before any of it is used.
 *
 * The folder: FERRY_CACHE_DIR (empty: none), else ferry/ in XDG_CACHE_HOME, else .cache/ferry/ in
 * HOME; see src/base/private_folder.h for which are refused. Whatever goes wrong with it costs a
 * compilation and nothing else, so these calls do not fail: they tell the log.
 *
 * That others cannot write the folder keeps their code out. The hash does not: who can write can
 * hash. It finds damage, entries that were cut short, and code that was kept under another key.
 */

#include "src/base/base.h"
#include "src/base/sha256.h"

struct ferryi_disk_cache_key {
    unsigned char bytes[FERRYI_SHA256_BYTES];
};

/* Hash of everything that follows: begin with this, which distinguishes formats of entries, add
 * pieces, end. */
void ferryi_disk_cache_key_begin(struct ferryi_sha256 *state);

/* False when there is none that can be trusted; a damaged one is removed. The caller frees
 * `*out_bytes`; a NUL lies behind them. */
bool ferryi_disk_cache_find(const struct ferryi_disk_cache_key *key, const char *name,
                            const struct ferryi_log *log, void **out_bytes, size_t *out_size);
/* Keep a copy. What was used longest ago goes when there is too much. */
void ferryi_disk_cache_keep(const struct ferryi_disk_cache_key *key, const char *name,
                            const struct ferryi_log *log, const void *bytes, size_t size);

#endif
