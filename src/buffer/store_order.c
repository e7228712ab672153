/* SPDX-License-Identifier: MIT */
#include "src/buffer/store.h"

/* Returns whether the last write or one of the readers of a replica was on a stream of the program.
 * After a wait for such a use, the next scope on the replica records an event when the scope is
 * closed. A later wait for that scope then waits for this event, and not for work that is queued
 * after the scope. */
static bool
is_users(const ferryi_order *order, ferryi_sync_point point, uint64_t readers)
{
    if (point)
        readers |= UINT64_C(1) << ferryi_sync_point_number(point);
    for (; readers; readers &= readers - 1)
        if (!order->timelines[__builtin_ctzll(readers)]->internal)
            return true;
    return false;
}

/* Waits for the readers of a replica. A lost device no longer reads. So if the host waits, it skips
 * the readers on lost devices, and returns the set of these readers in `*out_lost`. */
static ferry_status
wait_for_readers(ferryi_order *order, ferryi_timeline *timeline, uint64_t readers,
                 uint64_t *out_lost)
{
    for (; readers; readers &= readers - 1) {
        uint64_t reader = readers & -readers;
        ferry_status status = ferryi_timelines_wait(order, timeline, reader);
        if (status == FERRY_ERROR_DEVICE_LOST && !timeline)
            *out_lost |= reader;
        else if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

static bool
is_ordered(const ferryi_order *order, const ferryi_timeline *timeline, ferryi_sync_point written,
           uint64_t readers)
{
    return ferryi_sync_point_is_ordered(order, timeline, written) &&
           ferryi_timelines_are_ordered(order, timeline, readers);
}

ferry_status
ferryi_store_order_move(ferryi_store *store, int source, int target, ferryi_timeline *timeline)
{
    const ferryi_order *order = &store->context->order;
    ferryi_store_lock(store);
    const struct ferryi_place_copy *from = ferryi_store_copy(store, source),
                                   *to = ferryi_store_copy(store, target);
    bool ordered = is_ordered(order, timeline, from->written, 0) &&
                   is_ordered(order, timeline, to->written, to->readers);
    ferryi_store_unlock(store);
    if (ordered)
        return FERRY_OK;
    FERRYI_OR_RETURN(ferryi_store_order(store, source, timeline, false));
    return ferryi_store_order(store, target, timeline, true);
}

ferry_status
ferryi_store_order(ferryi_store *store, int place, ferryi_timeline *timeline, bool writes)
{
    ferryi_order *order = &store->context->order;
    ferryi_store_lock(store);
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    ferryi_sync_point written = copy->written;
    uint64_t readers = writes ? copy->readers : 0;
    bool waits = !is_ordered(order, timeline, written, readers);
    if (waits && is_users(order, written, readers))
        copy->eager = true;
    ferryi_store_unlock(store);
    if (!waits)
        return FERRY_OK;

    uint64_t lost = 0;
    ferry_status status = ferryi_sync_point_wait(order, timeline, written);
    if (status == FERRY_OK)
        status = wait_for_readers(order, timeline, readers, &lost);
    if (status != FERRY_OK || timeline)
        return status;

    /* The host has waited for these uses, so no timeline needs to wait for them. */
    ferryi_store_lock(store);
    copy = ferryi_store_copy(store, place);
    if (ferryi_sync_point_is_done(order, copy->written))
        copy->written = 0;
    copy->readers &= ~lost;
    if (ferryi_timelines_are_ordered(order, NULL, copy->readers))
        copy->readers = 0;
    ferryi_store_unlock(store);
    return FERRY_OK;
}

/* Returns the sync point of a use on a timeline. For a retired timeline, this is the sync point of
 * the timeline's closing event. It covers the use, because no work was queued after this event. */
static ferryi_sync_point
point_use(ferryi_timeline *timeline)
{
    return ferryi_timeline_is_retired(timeline)
               ? ferryi_timeline_sync_point_since(timeline, timeline->generation)
               : ferryi_timeline_sync_point(timeline);
}

void
ferryi_store_note_read(ferryi_store *store, int place, ferryi_timeline *timeline)
{
    ferryi_store_lock(store);
    point_use(timeline);
    ferryi_store_copy(store, place)->readers |= UINT64_C(1) << timeline->number;
    ferryi_store_unlock(store);
}

void
ferryi_store_note_write(ferryi_store *store, int place, ferryi_timeline *timeline)
{
    ferryi_order *order = &store->context->order;
    for (;;) {
        ferryi_store_lock(store);
        struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
        ferryi_sync_point other = copy->written;
        if (ferryi_sync_point_is_ordered(order, timeline, other)) {
            copy->written = point_use(timeline);
            if (ferryi_timelines_are_ordered(order, timeline, copy->readers))
                copy->readers = 0;
            ferryi_store_unlock(store);
            return;
        }
        ferryi_store_unlock(store);
        /* A different stream has written a disjoint range of the replica since `timeline` was
         * ordered. The replica has one sync point for both writes, so `timeline` waits for the
         * other write. */
        if (ferryi_sync_point_wait(order, timeline, other) != FERRY_OK &&
            ferryi_sync_point_wait(order, NULL, other) != FERRY_OK) {
            ferryi_log(&store->context->log, FERRY_LOG_ERROR, "order writes of buffer \"%s\": %s",
                       ferryi_store_name(store), ferry_last_error());
            ferryi_store_lock(store);
            if (copy->written == other)
                copy->written = 0;
            ferryi_store_unlock(store);
        }
    }
}
