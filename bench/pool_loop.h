/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_LOOP_H
#define BENCH_POOL_LOOP_H

/*
 * Patterns of allocations and frees. The memory pool and the allocators that it is compared with
 * run the same patterns. Random numbers are computed before the timing starts.
 *
 * A pattern is named size/live/order, where `live` is a number of blocks. In the order "lifo", the
 * loop allocates `live` blocks and then frees them in reverse order. In the order "random", `live`
 * blocks exist, and the loop repeatedly frees and allocates eight of them. "mixed" sizes are
 * log-uniform: from 4 KiB to 64 MiB for 64 live blocks, and from 4 KiB to 4 MiB for 1024 live
 * blocks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/ferry.h>

#include "freelist.h"
#include "heaps.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum {
    LIVE_MAX = 1024,
    TURN = 8,      /* number of blocks that the loop frees and then allocates in each iteration of a
                      "random" pattern */
    SCRIPT = 4096, /* number of precomputed random numbers; the loop cycles through them */
    PATTERN_COUNT = 25
};

struct pattern {
    const char *name;
    size_t bytes; /* 0: mixed sizes */
    size_t mixed_to;
    size_t live;
    bool random;
};

extern const struct pattern patterns[PATTERN_COUNT];

/* Returns the allocation pattern with this name, or NULL if there is none. */
const struct pattern *pattern_find(const char *name);

struct pattern_script {
    size_t bytes[SCRIPT], slot[SCRIPT];
};

void pattern_write(struct pattern_script *script, const struct pattern *pattern, uint64_t seed);

/* One allocator of each kind: Ferry's pool, the free list and a general-purpose allocator. A loop
 * uses only the allocator that it measures. */
struct subject {
    ferry_pool *pool;
    struct freelist *list;
    const struct heap *heap;
};

/* Runs one pattern with one allocator. Makes at least `pairs` pairs of an allocation and a free.
 * Sets `*out_ns` to the time of one pair in nanoseconds, without set-up and clean-up. Returns false
 * if a call failed. */
typedef bool pattern_loop(const struct subject *subject, const struct pattern *pattern,
                          const struct pattern_script *script, size_t pairs, double *out_ns);
pattern_loop pool_loop, peer_loop, heap_loop;

/* -- one allocation, one free ------------------------------------------------------------------ */

static inline bool
pool_take(const struct subject *subject, size_t bytes, ferry_block **out)
{
    return ferry_pool_allocate(subject->pool, bytes, NULL, out) == FERRY_OK;
}

static inline bool
pool_give(const struct subject *subject, ferry_block **block)
{
    (void)subject;
    return ferry_block_free(block, NULL) == FERRY_OK;
}

static inline bool
peer_take(const struct subject *subject, size_t bytes, struct freelist_block **out)
{
    *out = freelist_take(subject->list, bytes);
    return *out != NULL;
}

static inline bool
peer_give(const struct subject *subject, struct freelist_block **block)
{
    (void)subject;
    freelist_give(*block);
    return true;
}

static inline bool
heap_take(const struct subject *subject, size_t bytes, void **out)
{
    *out = subject->heap->take(bytes);
    return *out != NULL;
}

static inline bool
heap_give(const struct subject *subject, void **memory)
{
    subject->heap->give(*memory);
    return true;
}

#endif
