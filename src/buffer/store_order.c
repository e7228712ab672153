/* SPDX-License-Identifier: MIT */
#include "src/buffer/store.h"

/* A use on a user's stream that had to be waited for: the next one is recorded early, so that loops overlap. */
static bool
is_users(const ferryi_order *order, ferryi_stamp stamp, uint64_t readers)
{
    if (stamp)
        readers |= UINT64_C(1) << ferryi_stamp_number(stamp);
    for (; readers; readers &= readers - 1)
        if (!order->lanes[__builtin_ctzll(readers)]->internal)
            return true;
    return false;
}

/* Lost devices read nothing any more; the host goes on without them. */
static ferry_status
wait_for_readers(ferryi_order *order, ferryi_lane *lane, uint64_t readers, uint64_t *out_lost)
{
    for (; readers; readers &= readers - 1) {
        uint64_t reader = readers & -readers;
        ferry_status status = ferryi_lanes_wait(order, lane, reader);
        if (status == FERRY_ERROR_DEVICE_LOST && !lane)
            *out_lost |= reader;
        else if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

ferry_status
ferryi_store_order(ferryi_store *store, int place, ferryi_lane *lane, bool writes)
{
    ferryi_order *order = &store->context->order;
    ferryi_store_lock(store);
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    ferryi_stamp written = copy->written;
    uint64_t readers = writes ? copy->readers : 0;
    bool waits = !ferryi_stamp_is_ordered(order, lane, written) || !ferryi_lanes_are_ordered(order, lane, readers);
    if (waits && is_users(order, written, readers))
        copy->eager = true;
    ferryi_store_unlock(store);
    if (!waits)
        return FERRY_OK;

    uint64_t lost = 0;
    ferry_status status = ferryi_stamp_wait(order, lane, written);
    if (status == FERRY_OK)
        status = wait_for_readers(order, lane, readers, &lost);
    if (status != FERRY_OK || lane)
        return status;

    /* The host waited: these uses are over for everybody. */
    ferryi_store_lock(store);
    copy = ferryi_store_copy(store, place);
    if (ferryi_stamp_is_done(order, copy->written))
        copy->written = 0;
    copy->readers &= ~lost;
    if (ferryi_lanes_are_ordered(order, NULL, copy->readers))
        copy->readers = 0;
    ferryi_store_unlock(store);
    return FERRY_OK;
}

/* The closing event of a retired lane covers the use: nothing was queued on it later. */
static ferryi_stamp
stamp_use(ferryi_lane *lane)
{
    return ferryi_lane_is_retired(lane) ? ferryi_lane_stamp_since(lane, lane->generation) : ferryi_lane_stamp(lane);
}

void
ferryi_store_note_read(ferryi_store *store, int place, ferryi_lane *lane)
{
    ferryi_store_lock(store);
    stamp_use(lane);
    ferryi_store_copy(store, place)->readers |= UINT64_C(1) << lane->number;
    ferryi_store_unlock(store);
}

void
ferryi_store_note_write(ferryi_store *store, int place, ferryi_lane *lane)
{
    ferryi_order *order = &store->context->order;
    for (;;) {
        ferryi_store_lock(store);
        struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
        ferryi_stamp other = copy->written;
        if (ferryi_stamp_is_ordered(order, lane, other)) {
            copy->written = stamp_use(lane);
            if (ferryi_lanes_are_ordered(order, lane, copy->readers))
                copy->readers = 0;
            ferryi_store_unlock(store);
            return;
        }
        ferryi_store_unlock(store);
        /* Another stream wrote a disjoint range meanwhile: one stamp must stand for both. */
        if (ferryi_stamp_wait(order, lane, other) != FERRY_OK && ferryi_stamp_wait(order, NULL, other) != FERRY_OK) {
            ferryi_log(&store->context->log, FERRY_LOG_ERROR, "order writes of buffer \"%s\": %s", ferryi_store_name(store),
                       ferry_last_error());
            ferryi_store_lock(store);
            if (copy->written == other)
                copy->written = 0;
            ferryi_store_unlock(store);
        }
    }
}
