/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_COUNTER_H
#define FERRYI_COUNTER_H

#include <stdatomic.h>

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

#endif
