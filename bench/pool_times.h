/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_TIMES_H
#define BENCH_POOL_TIMES_H

/* What a pair of take and give cost, in the pool and in each of its peers, and how that is
 * reported. */

#include "bench.h"
#include "heaps.h"

/* The general-purpose allocators that are here. */
struct heaps {
    struct heap items[HEAPS_MAX];
    size_t count;
};

/* Nanoseconds of a pair; 0: not timed. */
struct times {
    double pool, peer, heap[HEAPS_MAX];
};

/* Against one peer; limit 0 is no goal. */
void times_add_peer(struct bench_report *report, const char *case_name, double value,
                    const char *peer, double peer_value, double limit);
/* Against every peer that was timed; the goal (0: none) is against the free list. */
void times_add(struct bench_report *report, const char *case_name, const struct times *time,
               const struct heaps *heaps, double limit);

#endif
