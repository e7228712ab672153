/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_TIMES_H
#define BENCH_POOL_TIMES_H

/* Times of one allocation and one free in Ferry's pool and in other allocators, and functions that
 * report these times. */

#include "bench.h"
#include "heaps.h"

/* The general-purpose allocators that are installed. */
struct heaps {
    struct heap items[HEAPS_MAX];
    size_t count;
};

/* Times of one allocation and one free in nanoseconds, for each allocator: Ferry's pool, the free
 * list and the general-purpose allocators. A time is 0 if it was not measured. */
struct times {
    double pool, peer, heap[HEAPS_MAX];
};

/* Reports `value` and its ratio to `peer_value`, the value of the alternative that `peer` names.
 * The goal is a ratio of at most `limit`. If `limit` is 0, there is no goal. */
void times_add_peer(struct bench_report *report, const char *case_name, double value,
                    const char *peer, double peer_value, double limit);
/* Reports the pool's time and its ratio to the time of every other allocator that was measured. The
 * goal is a ratio of at most `limit` to the time of the free list. If `limit` is 0, there is no
 * goal. */
void times_add(struct bench_report *report, const char *case_name, const struct times *time,
               const struct heaps *heaps, double limit);

#endif
