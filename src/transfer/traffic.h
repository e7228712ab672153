/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRAFFIC_H
#define FERRYI_TRAFFIC_H

/*
 * The counters of one buffer: what its transfers add up to. The engine counts a transfer for the
 * traffic that its job names, where it counts it for the context. All members are changed by any
 * thread, and zero is their beginning.
 */

#include <ferry/buffer.h>

#include "src/transfer/counter.h"

struct ferryi_traffic {
    struct ferryi_counter to_device, to_host, between_devices;
    _Atomic uint64_t evictions;
    _Atomic uint64_t last_ns; /* of ferryi_now_ns(); 0: none yet */
};

/* One more transfer. Those that stay at one place are not counted. Without counters (NULL) nothing
 * is counted. */
void ferryi_traffic_count(struct ferryi_traffic *traffic, ferry_direction direction, size_t bytes);
void ferryi_traffic_count_eviction(struct ferryi_traffic *traffic);
/* Writes the members of the info that are counters. */
void ferryi_traffic_read(const struct ferryi_traffic *traffic, ferry_buffer_info *out);
void ferryi_traffic_reset(struct ferryi_traffic *traffic);

#endif
