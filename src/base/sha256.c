/* SPDX-License-Identifier: MIT */
#include "src/base/sha256.h"

#include <string.h>

#include "src/base/base.h"

enum { BLOCK_BYTES = 64, ROUNDS = 64, LENGTH_BYTES = 8 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t
rotate(uint32_t value, unsigned bits)
{
    return value >> bits | value << (32 - bits);
}

/* Computes the message schedule of SHA-256 for one block: its sixteen words, and forty-eight words
 * that are derived from them. */
static void
spread(const unsigned char *block, uint32_t schedule[ROUNDS])
{
    for (int i = 0; i < 16; i++)
        schedule[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                      (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < ROUNDS; i++) {
        uint32_t a = schedule[i - 15], b = schedule[i - 2];
        uint32_t low = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3,
                 high = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
        schedule[i] = schedule[i - 16] + low + schedule[i - 7] + high;
    }
}

/* Processes one 64-byte block of SHA-256 input. The variables a to h have the names that FIPS 180-4
 * uses. */
static void
mix_block(uint32_t words[8], const unsigned char *block)
{
    uint32_t schedule[ROUNDS], w[8];
    spread(block, schedule);
    memcpy(w, words, sizeof(w));
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = w[0], b = w[1], c = w[2], e = w[4], f = w[5], g = w[6];
        uint32_t first = w[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                         ((e & f) ^ (~e & g)) + constants[i] + schedule[i];
        uint32_t second =
            (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        memmove(w + 1, w, 7 * sizeof(w[0]));
        w[4] += first;
        w[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        words[i] += w[i];
}

void
ferryi_sha256_begin(struct ferryi_sha256 *state)
{
    /* The initial hash value: the first 32 bits of the fractional parts of the square roots of the
     * first eight primes. */
    *state = (struct ferryi_sha256){.words = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void
ferryi_sha256_add(struct ferryi_sha256 *state, const void *bytes, size_t count)
{
    const unsigned char *from = bytes;
    while (count > 0) {
        size_t used = state->byte_count % BLOCK_BYTES;
        size_t part = ferryi_min_size(count, BLOCK_BYTES - used);
        memcpy(state->block + used, from, part);
        state->byte_count += part;
        from += part;
        count -= part;
        if (used + part == BLOCK_BYTES)
            mix_block(state->words, state->block);
    }
}

static void
put_big_endian(uint64_t value, unsigned char out[LENGTH_BYTES])
{
    for (int i = 0; i < LENGTH_BYTES; i++)
        out[i] = (unsigned char)(value >> (56 - 8 * i));
}

void
ferryi_sha256_add_piece(struct ferryi_sha256 *state, const void *bytes, size_t count)
{
    unsigned char length[LENGTH_BYTES];
    put_big_endian(count, length);
    ferryi_sha256_add(state, length, sizeof(length));
    ferryi_sha256_add(state, bytes, count);
}

void
ferryi_sha256_end(struct ferryi_sha256 *state, unsigned char out[FERRYI_SHA256_BYTES])
{
    static const unsigned char padding[BLOCK_BYTES] = {0x80};
    unsigned char bits[LENGTH_BYTES];
    put_big_endian(state->byte_count * 8, bits);
    size_t used = state->byte_count % BLOCK_BYTES, room = BLOCK_BYTES - LENGTH_BYTES;
    ferryi_sha256_add(state, padding, used < room ? room - used : BLOCK_BYTES + room - used);
    ferryi_sha256_add(state, bits, sizeof(bits));
    for (int i = 0; i < FERRYI_SHA256_BYTES; i++)
        out[i] = (unsigned char)(state->words[i / 4] >> (24 - 8 * (i % 4)));
}
