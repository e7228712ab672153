/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRAFFIC_H
#define FERRYI_TRAFFIC_H

/*
 * The transfer counters of one buffer. The engine adds each transfer to the counters of the
 * context, and to the counters of the buffer that the transfer is for. Any thread may change any
 * member. A zeroed struct is a valid initial state.
 */

#include <ferry/buffer.h>

#include "src/transfer/counter.h"

struct ferryi_traffic {
    struct ferryi_counter to_device, to_host, between_devices;
    _Atomic uint64_t evictions;
    /* time of the last transfer, from ferryi_now_ns(); 0: no transfer was made yet */
    _Atomic uint64_t last_ns;
};

/* Counts one transfer in the buffer's counters. Transfers within one place are not counted. Does
 * nothing if `traffic` is NULL. */
void ferryi_traffic_count(struct ferryi_traffic *traffic, ferry_direction direction, size_t bytes);
void ferryi_traffic_count_eviction(struct ferryi_traffic *traffic);
/* Sets the members of `out` that are counters. */
void ferryi_traffic_read(const struct ferryi_traffic *traffic, ferry_buffer_info *out);
void ferryi_traffic_reset(struct ferryi_traffic *traffic);

#endif
