/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SHA256_H
#define FERRYI_SHA256_H

/*
 * SHA-256 (FIPS 180-4), which verifies bytes that are read back from disk. To compute a hash, call
 * ferryi_sha256_begin(), then ferryi_sha256_add() any number of times, then ferryi_sha256_end().
 * Only one thread at a time may use a struct ferryi_sha256.
 */

#include <stddef.h>
#include <stdint.h>

#define FERRYI_SHA256_BYTES 32

struct ferryi_sha256 {
    uint32_t words[8];
    uint64_t byte_count;
    unsigned char block[64]; /* bytes of the last, incomplete block */
};

void ferryi_sha256_begin(struct ferryi_sha256 *state);
void ferryi_sha256_add(struct ferryi_sha256 *state, const void *bytes, size_t count);
/* Hashes `count`, and then `count` bytes. Because the lengths are hashed, two different lists of
 * byte strings never have the same hash input. */
void ferryi_sha256_add_piece(struct ferryi_sha256 *state, const void *bytes, size_t count);
void ferryi_sha256_end(struct ferryi_sha256 *state, unsigned char out[FERRYI_SHA256_BYTES]);

#endif
