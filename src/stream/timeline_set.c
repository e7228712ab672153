/* SPDX-License-Identifier: MIT */
#include "src/stream/timeline.h"

/* Functions for sets of timelines. They check or wait for all uses of memory on the timelines of a
 * set, or join these uses into one sync point. */

/* Returns the sync point of the last use of memory that was noted on a timeline. Returns 0 if no
 * use was noted. */
static ferryi_sync_point
last_use(const ferryi_order *order, unsigned number)
{
    uint64_t used = atomic_load_explicit(&order->timelines[number]->used, memory_order_acquire);
    return used ? ferryi_sync_point_make(number, used - 1) : 0;
}

bool
ferryi_timelines_are_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                             uint64_t set)
{
    for (; set; set &= set - 1)
        if (!ferryi_sync_point_is_ordered(order, timeline,
                                          last_use(order, (unsigned)__builtin_ctzll(set))))
            return false;
    return true;
}

ferry_status
ferryi_timelines_wait(ferryi_order *order, ferryi_timeline *timeline, uint64_t set)
{
    for (; set; set &= set - 1)
        FERRYI_OR_RETURN(ferryi_sync_point_wait(order, timeline,
                                                last_use(order, (unsigned)__builtin_ctzll(set))));
    return FERRY_OK;
}

/* Blocks until the timeline's work is complete. If the program created the stream, waits only for
 * the uses that Ferry noted. The reason is that the program may already have destroyed that stream.
 */
static ferry_status
wait_for_timeline(ferryi_order *order, ferryi_timeline *timeline)
{
    if (timeline->is_unknown || ferryi_timeline_is_gone(timeline))
        return ferryi_sync_point_wait(order, NULL, last_use(order, timeline->number));
    if (ferryi_timeline_check_capture(timeline) != FERRY_OK)
        return FERRY_OK; /* captured work does not run now, so there is nothing to wait for */
    bool is_default = timeline->native == timeline->device->default_stream;
    return timeline->owned || is_default
               ? ferryi_timeline_synchronize(timeline)
               : ferryi_sync_point_wait(order, NULL, last_use(order, timeline->number));
}

ferry_status
ferryi_timelines_wait_all(ferryi_order *order, const ferryi_device *device)
{
    ferry_status first = FERRY_OK;
    for (ferryi_timeline *timeline = ferryi_timeline_next(order, NULL);
         timeline && ferryi_timeline_is_numbered(timeline) && first == FERRY_OK;
         timeline = ferryi_timeline_next(order, timeline))
        if (timeline->device == device)
            first = wait_for_timeline(order, timeline);
    return first;
}

static ferry_status
join_all(ferryi_order *order, ferryi_sync_point point, uint64_t set, ferryi_sync_point *out)
{
    unsigned number = point ? ferryi_sync_point_number(point) : (unsigned)__builtin_ctzll(set);
    ferryi_timeline *any = order->timelines[number];
    ferryi_timeline *join;
    ferry_status status = ferryi_timeline_of_joins(order, any->device, any->place, &join);
    if (status == FERRY_OK)
        status = ferryi_sync_point_wait(order, join, point);
    if (status == FERRY_OK)
        status = ferryi_timelines_wait(order, join, set);
    if (status == FERRY_OK)
        *out = ferryi_timeline_sync_point(join);
    return status;
}

/* Blocks until the uses are complete. If no event can be recorded, for example for lack of memory,
 * waits for the whole device. */
static void
wait_on_host(ferryi_order *order, ferryi_sync_point point, uint64_t set)
{
    if (ferryi_sync_point_wait(order, NULL, point) == FERRY_OK &&
        ferryi_timelines_wait(order, NULL, set) == FERRY_OK)
        return;
    if (point)
        set |= UINT64_C(1) << ferryi_sync_point_number(point);
    for (; set; set &= set - 1) {
        ferryi_device *device = order->timelines[__builtin_ctzll(set)]->device;
        if (ferryi_device_synchronize(device) != FERRY_OK)
            ferryi_log(order->log, FERRY_LOG_ERROR, "wait for the uses of a block: %s",
                       ferry_last_error());
    }
}

/* Returns a sync point on `timeline`, which represents all streams of a device that Ferry does not
 * know. This sync point covers all work of that device. If `set` contains timelines of other
 * devices, the host waits for their uses before the function returns. */
static ferryi_sync_point
join_unknown(ferryi_order *order, ferryi_timeline *timeline, uint64_t set)
{
    for (; set; set &= set - 1) {
        unsigned number = (unsigned)__builtin_ctzll(set);
        if (order->timelines[number]->device != timeline->device)
            wait_on_host(order, 0, UINT64_C(1) << number);
    }
    return ferryi_timeline_sync_point(timeline);
}

ferryi_sync_point
ferryi_sync_points_join(ferryi_order *order, ferryi_sync_point point, uint64_t set)
{
    if (ferryi_sync_point_is_done(order, point))
        point = 0;
    uint64_t pending = 0;
    for (uint64_t left = set; left; left &= left - 1) {
        unsigned number = (unsigned)__builtin_ctzll(left);
        bool same = point && ferryi_sync_point_number(point) == number;
        if (same)
            point = 0;
        if (!ferryi_sync_point_is_done(order, last_use(order, number)))
            pending |= UINT64_C(1) << number;
    }
    if (!pending)
        return point;
    uint64_t all = point ? pending | UINT64_C(1) << ferryi_sync_point_number(point) : pending;
    uint64_t unknown = all & atomic_load(&order->unknown_set);
    if (unknown)
        return join_unknown(order, order->timelines[__builtin_ctzll(unknown)], all);
    if (!point && !(pending & (pending - 1)))
        return last_use(order, (unsigned)__builtin_ctzll(pending));

    ferryi_sync_point joined = 0;
    ferry_status status = join_all(order, point, pending, &joined);
    if (status == FERRY_OK)
        return joined;
    ferryi_timeline *any = order->timelines[__builtin_ctzll(all)], *later;
    if (status == FERRY_ERROR_UNSUPPORTED &&
        ferryi_timeline_of_unknown(order, any->device, any->place, &later) == FERRY_OK)
        return join_unknown(order, later, all);
    wait_on_host(order, point, pending);
    return 0;
}
