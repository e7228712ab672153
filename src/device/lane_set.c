/* SPDX-License-Identifier: MIT */
#include "src/device/lane.h"

/* Sets of lanes: what they have been used for is asked about, waited for and joined. */

/* The stamp of a lane's last noted use; 0 when it has none. */
static ferryi_stamp
last_use(const ferryi_order *order, unsigned number)
{
    uint64_t used = atomic_load_explicit(&order->lanes[number]->used, memory_order_acquire);
    return used ? ferryi_stamp_make(number, used - 1) : 0;
}

bool
ferryi_lanes_are_ordered(const ferryi_order *order, const ferryi_lane *lane, uint64_t set)
{
    for (; set; set &= set - 1)
        if (!ferryi_stamp_is_ordered(order, lane, last_use(order, (unsigned)__builtin_ctzll(set))))
            return false;
    return true;
}

ferry_status
ferryi_lanes_wait(ferryi_order *order, ferryi_lane *lane, uint64_t set)
{
    for (; set; set &= set - 1) {
        ferry_status status = ferryi_stamp_wait(order, lane, last_use(order, (unsigned)__builtin_ctzll(set)));
        if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

static ferry_status
join_all(ferryi_order *order, ferryi_stamp stamp, uint64_t set, ferryi_stamp *out)
{
    unsigned number = stamp ? ferryi_stamp_number(stamp) : (unsigned)__builtin_ctzll(set);
    ferryi_lane *any = order->lanes[number];
    ferryi_lane *join;
    ferry_status status = ferryi_lane_of_joins(order, any->device, any->place, &join);
    if (status == FERRY_OK)
        status = ferryi_stamp_wait(order, join, stamp);
    if (status == FERRY_OK)
        status = ferryi_lanes_wait(order, join, set);
    if (status == FERRY_OK)
        *out = ferryi_lane_stamp(join);
    return status;
}

static void
wait_on_host(ferryi_order *order, ferryi_stamp stamp, uint64_t set)
{
    if (ferryi_stamp_wait(order, NULL, stamp) != FERRY_OK || ferryi_lanes_wait(order, NULL, set) != FERRY_OK)
        ferryi_log(order->log, FERRY_LOG_ERROR, "wait for the uses of a block: %s", ferry_last_error());
}

/* A new stamp of unknown streams covers all that their device has been given. Only what other devices do must be waited for before. */
static ferryi_stamp
join_unknown(ferryi_order *order, ferryi_lane *lane, uint64_t set)
{
    for (; set; set &= set - 1) {
        unsigned number = (unsigned)__builtin_ctzll(set);
        if (order->lanes[number]->device != lane->device)
            wait_on_host(order, 0, UINT64_C(1) << number);
    }
    return ferryi_lane_stamp(lane);
}

ferryi_stamp
ferryi_stamps_join(ferryi_order *order, ferryi_stamp stamp, uint64_t set)
{
    if (ferryi_stamp_is_done(order, stamp))
        stamp = 0;
    uint64_t pending = 0;
    for (uint64_t left = set; left; left &= left - 1) {
        unsigned number = (unsigned)__builtin_ctzll(left);
        bool same = stamp && ferryi_stamp_number(stamp) == number;
        if (same)
            stamp = 0;
        if (!ferryi_stamp_is_done(order, last_use(order, number)))
            pending |= UINT64_C(1) << number;
    }
    if (!pending)
        return stamp;
    uint64_t all = stamp ? pending | UINT64_C(1) << ferryi_stamp_number(stamp) : pending;
    uint64_t unknown = all & atomic_load(&order->unknown_set);
    if (unknown)
        return join_unknown(order, order->lanes[__builtin_ctzll(unknown)], all);
    if (!stamp && !(pending & (pending - 1)))
        return last_use(order, (unsigned)__builtin_ctzll(pending));

    ferryi_stamp joined = 0;
    if (join_all(order, stamp, pending, &joined) == FERRY_OK)
        return joined;
    wait_on_host(order, stamp, pending);
    return 0;
}
