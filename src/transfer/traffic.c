/* SPDX-License-Identifier: MIT */
#include "src/transfer/traffic.h"

#include "src/base/base.h"

static struct ferryi_counter *
counter_of(struct ferryi_traffic *traffic, ferry_direction direction)
{
    switch (direction) {
    case FERRY_DIRECTION_UPLOAD:
        return &traffic->to_device;
    case FERRY_DIRECTION_DOWNLOAD:
        return &traffic->to_host;
    case FERRY_DIRECTION_PEER:
        return &traffic->between_devices;
    default:
        return NULL;
    }
}

void
ferryi_traffic_count(struct ferryi_traffic *traffic, ferry_direction direction, size_t bytes)
{
    struct ferryi_counter *counter = traffic ? counter_of(traffic, direction) : NULL;
    if (!counter)
        return;
    ferryi_counter_add(counter, bytes);
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
    out->to_device = ferryi_counter_read(&traffic->to_device);
    out->to_host = ferryi_counter_read(&traffic->to_host);
    out->between_devices = ferryi_counter_read(&traffic->between_devices);
    out->evictions = atomic_load_explicit(&traffic->evictions, memory_order_relaxed);
    out->last_transfer_ns = atomic_load_explicit(&traffic->last_ns, memory_order_relaxed);
}

void
ferryi_traffic_reset(struct ferryi_traffic *traffic)
{
    ferryi_counter_clear(&traffic->to_device);
    ferryi_counter_clear(&traffic->to_host);
    ferryi_counter_clear(&traffic->between_devices);
    atomic_store_explicit(&traffic->evictions, 0, memory_order_relaxed);
    atomic_store_explicit(&traffic->last_ns, 0, memory_order_relaxed);
}
