/* SPDX-License-Identifier: MIT */
#include "src/transfer/traffic.h"

#include "src/base/base.h"

void
ferryi_traffic_count(struct ferryi_traffic *traffic, ferry_direction direction, size_t bytes)
{
    bool crosses = direction == FERRY_DIRECTION_UPLOAD || direction == FERRY_DIRECTION_DOWNLOAD ||
                   direction == FERRY_DIRECTION_PEER;
    if (!traffic || !crosses)
        return;
    ferryi_counter_add(&traffic->counters[direction], bytes);
    atomic_store_explicit(&traffic->last_ns, ferryi_now_ns(), memory_order_relaxed);
}

void
ferryi_traffic_count_eviction(struct ferryi_traffic *traffic)
{
    if (traffic)
        atomic_fetch_add_explicit(&traffic->evictions, 1, memory_order_relaxed);
}

void
ferryi_traffic_read(const struct ferryi_traffic *traffic, ferry_buffer_info *out)
{
    out->to_device = ferryi_counter_read(&traffic->counters[FERRY_DIRECTION_UPLOAD]);
    out->to_host = ferryi_counter_read(&traffic->counters[FERRY_DIRECTION_DOWNLOAD]);
    out->between_devices = ferryi_counter_read(&traffic->counters[FERRY_DIRECTION_PEER]);
    out->evictions = atomic_load_explicit(&traffic->evictions, memory_order_relaxed);
    out->last_transfer_ns = atomic_load_explicit(&traffic->last_ns, memory_order_relaxed);
}

void
ferryi_traffic_reset(struct ferryi_traffic *traffic)
{
    for (int direction = 0; direction <= FERRY_DIRECTION_PEER; direction++)
        ferryi_counter_clear(&traffic->counters[direction]);
    atomic_store_explicit(&traffic->evictions, 0, memory_order_relaxed);
    atomic_store_explicit(&traffic->last_ns, 0, memory_order_relaxed);
}
