/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_TIMES_H
#define BENCH_POOL_TIMES_H

/* The times of an allocation and its free, in the pool and in each of its peers, and their report.
 */

#include "bench.h"
#include "heaps.h"

/* The general-purpose allocators that are installed. */
struct heaps {
    struct heap items[HEAPS_MAX];
    size_t count;
};

/* Nanoseconds for one pair of calls; 0: not timed. */
struct times {
    double pool, peer, heap[HEAPS_MAX];
};

/* Reports a value against one peer. The goal is a ratio of at most `limit`; 0: no goal. */
void times_add_peer(struct bench_report *report, const char *case_name, double value,
                    const char *peer, double peer_value, double limit);
/* Reports the pool's time against every timed peer. The goal is for the ratio to the free list: at
 * most `limit`; 0: no goal. */
void times_add(struct bench_report *report, const char *case_name, const struct times *time,
               const struct heaps *heaps, double limit);

#endif
