/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRAFFIC_H
#define FERRYI_TRAFFIC_H

/*
 * Declares counters of transfers, and the set of counters of one buffer. The engine adds each
 * transfer to the counters of the context, and to the counters of the buffer that the transfer is
 * for. Any thread may change any member. A zeroed struct is a valid initial state.
 */

#include <stdatomic.h>

#include <ferry/buffer.h>
#include <ferry/context.h>

/* Counts transfers and their bytes. Any thread may add to it. A zeroed struct is a valid initial
 * state. */
struct ferryi_counter {
    _Atomic uint64_t copies, bytes;
};

static inline void
ferryi_counter_add(struct ferryi_counter *counter, size_t bytes)
{
    atomic_fetch_add_explicit(&counter->copies, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counter->bytes, bytes, memory_order_relaxed);
}

static inline ferry_transfer_count
ferryi_counter_read(const struct ferryi_counter *counter)
{
    return (ferry_transfer_count){
        .copies = atomic_load_explicit(&counter->copies, memory_order_relaxed),
        .bytes = atomic_load_explicit(&counter->bytes, memory_order_relaxed),
    };
}

static inline void
ferryi_counter_clear(struct ferryi_counter *counter)
{
    atomic_store_explicit(&counter->copies, 0, memory_order_relaxed);
    atomic_store_explicit(&counter->bytes, 0, memory_order_relaxed);
}

struct ferryi_traffic {
    struct ferryi_counter counters[FERRY_DIRECTION_PEER + 1]; /* by direction */
    _Atomic uint64_t evictions;
    /* time of the last transfer, from ferryi_now_ns(); 0: there was no transfer */
    _Atomic uint64_t last_ns;
};

/* Counts one transfer in the counters of a buffer. Does not count a transfer within one place. Does
 * nothing if `traffic` is NULL. */
void ferryi_traffic_count(struct ferryi_traffic *traffic, ferry_direction direction, size_t bytes);
void ferryi_traffic_count_eviction(struct ferryi_traffic *traffic);
/* Copies the counters and the time of the last transfer to the members of `out`. */
void ferryi_traffic_read(const struct ferryi_traffic *traffic, ferry_buffer_info *out);
void ferryi_traffic_reset(struct ferryi_traffic *traffic);

#endif
