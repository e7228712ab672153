/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SHA256_H
#define FERRYI_SHA256_H

/*
 * SHA-256 (FIPS 180-4), for what must not be taken for something else: bytes that are found again
 * on disk. Begin, add any number of pieces, end. One thread at a time uses a state.
 */

#include <stddef.h>
#include <stdint.h>

#define FERRYI_SHA256_BYTES 32

struct ferryi_sha256 {
    uint32_t words[8];
    uint64_t byte_count;
    unsigned char block[64]; /* what came since the last whole one */
};

void ferryi_sha256_begin(struct ferryi_sha256 *state);
void ferryi_sha256_add(struct ferryi_sha256 *state, const void *bytes, size_t count);
/* The length before the bytes, so that two lists of pieces never read the same. */
void ferryi_sha256_add_piece(struct ferryi_sha256 *state, const void *bytes, size_t count);
void ferryi_sha256_end(struct ferryi_sha256 *state, unsigned char out[FERRYI_SHA256_BYTES]);

#endif
