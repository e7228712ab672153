/* SPDX-License-Identifier: MIT */
#include "src/store/store.h"

static bool
is_pending_of_user(const ferryi_order *order, ferryi_sync_point point)
{
    return !ferryi_sync_point_is_done(order, point) &&
           !order->timelines[ferryi_sync_point_number(point)]->internal;
}

bool
ferryi_uses_of_users_are_pending(const ferryi_order *order, const struct ferryi_uses *uses)
{
    for (uint64_t readers = uses->readers; readers; readers &= readers - 1)
        if (!order->timelines[__builtin_ctzll(readers)]->internal &&
            !ferryi_timelines_are_ordered(order, NULL, readers & -readers))
            return true;
    return is_pending_of_user(order, uses->written) || is_pending_of_user(order, uses->read);
}

/* Returns whether the point is a use by a stream of the program, and `timeline` depends on the end
 * of that use alone, which may be known already. It does not if it is the same stream or another
 * one of the program that waited, or if the stream of the use was synchronized since. */
static bool
is_apart(const ferryi_order *order, const ferryi_timeline *timeline, ferryi_sync_point point)
{
    const ferryi_timeline *user = order->timelines[ferryi_sync_point_number(point)];
    if (!point || user->internal ||
        atomic_load_explicit(&user->synchronized, memory_order_relaxed) >
            ferryi_sync_point_tick(point))
        return false;
    return !timeline || !ferryi_timeline_is_numbered(timeline) ||
           (timeline->internal ? atomic_load(&user->uploads) != timeline
                               : !ferryi_timeline_has_seen(timeline, point));
}

bool
ferryi_uses_are_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                        const struct ferryi_uses *uses)
{
    return ferryi_sync_point_is_ordered(order, timeline, uses->written) &&
           ferryi_sync_point_is_ordered(order, timeline, uses->read) &&
           ferryi_timelines_are_ordered(order, timeline, uses->readers);
}

/* The host need not wait for a reader on a lost device, which no longer reads. */
static ferry_status
forgive(ferry_status status, const ferryi_timeline *timeline, uint64_t reader, uint64_t *out_lost)
{
    if (status != FERRY_ERROR_DEVICE_LOST || timeline || !out_lost)
        return status;
    *out_lost |= reader;
    return FERRY_OK;
}

ferry_status
ferryi_uses_wait(ferryi_order *order, ferryi_timeline *timeline, const struct ferryi_uses *uses,
                 uint64_t *out_lost)
{
    ferry_status status = ferryi_sync_point_wait(order, timeline, uses->written);
    if (status == FERRY_OK && uses->read)
        status = forgive(ferryi_sync_point_wait(order, timeline, uses->read), timeline,
                         UINT64_C(1) << ferryi_sync_point_number(uses->read), out_lost);
    for (uint64_t readers = uses->readers; readers && status == FERRY_OK; readers &= readers - 1) {
        uint64_t reader = readers & -readers;
        status =
            forgive(ferryi_timelines_wait(order, timeline, reader), timeline, reader, out_lost);
    }
    return status;
}

void
ferryi_store_forget_done(ferryi_store *store, int place, uint64_t lost)
{
    const ferryi_order *order = &store->context->order;
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    if (ferryi_sync_point_is_done(order, copy->written))
        copy->written = 0;
    const struct ferryi_uses uses = ferryi_copy_uses(copy);
    if (!uses.read)
        copy->reads &= ~lost;
    if ((uses.read && lost >> ferryi_sync_point_number(uses.read) & 1) ||
        ferryi_copy_reads_are_ordered(order, NULL, copy))
        copy->reads = 0;
}

static struct ferryi_uses
see_uses(ferryi_store *store, int place)
{
    ferryi_store_lock(store);
    struct ferryi_uses uses = ferryi_store_uses(store, place);
    ferryi_store_unlock(store);
    return uses;
}

ferry_status
ferryi_store_order_seen(ferryi_store *store, int place, ferryi_timeline *timeline, bool writes,
                        const struct ferryi_uses *seen)
{
    ferryi_order *order = &store->context->order;
    struct ferryi_uses uses = seen ? *seen : see_uses(store, place);
    if (!writes)
        uses.read = uses.readers = 0;
    if (is_apart(order, timeline, uses.written) || is_apart(order, timeline, uses.read)) {
        ferryi_store_lock(store);
        ferryi_store_copy(store, place)->eager = true;
        ferryi_store_unlock(store);
    }
    if (ferryi_uses_are_ordered(order, timeline, &uses))
        return FERRY_OK;
    uint64_t lost = 0;
    ferry_status status = ferryi_uses_wait(order, timeline, &uses, &lost);
    if (status != FERRY_OK || timeline)
        return status;
    ferryi_store_lock(store);
    ferryi_store_forget_done(store, place, lost);
    ferryi_store_unlock(store);
    return FERRY_OK;
}

ferry_status
ferryi_store_order(ferryi_store *store, int place, ferryi_timeline *timeline, bool writes)
{
    return ferryi_store_order_seen(store, place, timeline, writes, NULL);
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
ferryi_store_add_reader(ferryi_store *store, int place, ferryi_timeline *timeline)
{
    ferryi_copy_add_read(ferryi_store_copy(store, place), point_use(timeline));
}

void
ferryi_store_note_read(ferryi_store *store, int place, ferryi_timeline *timeline)
{
    ferryi_store_lock(store);
    ferryi_store_add_reader(store, place, timeline);
    ferryi_store_unlock(store);
}

ferryi_sync_point
ferryi_store_try_note_write(ferryi_store *store, int place, ferryi_timeline *timeline,
                            ferryi_sync_point *out_other)
{
    const ferryi_order *order = &store->context->order;
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    *out_other = copy->written;
    if (!ferryi_sync_point_is_ordered(order, timeline, copy->written))
        return 0;
    ferryi_store_set_written(store, copy, timeline, point_use(timeline));
    return copy->written;
}

/* Makes `timeline` wait for `other`, the sync point of a write by a different stream to a disjoint
 * range of the replica. The write was recorded after `timeline` was ordered for its own write. The
 * replica has one sync point for both writes, so `timeline` must also wait for the other write. */
void
ferryi_store_await_write(ferryi_store *store, int place, ferryi_timeline *timeline,
                         ferryi_sync_point other)
{
    ferryi_order *order = &store->context->order;
    if (ferryi_sync_point_wait(order, timeline, other) == FERRY_OK ||
        ferryi_sync_point_wait(order, NULL, other) == FERRY_OK ||
        ferryi_sync_point_wait_for_device(order, other) == FERRY_OK)
        return;
    /* The device does nothing more that succeeds. */
    ferryi_log(&store->context->log, FERRY_LOG_ERROR, "order writes of buffer \"%s\": %s",
               ferryi_store_name(store), ferry_last_error());
    ferryi_store_lock(store);
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    if (copy->written == other)
        copy->written = 0;
    ferryi_store_unlock(store);
}

void
ferryi_store_note_write(ferryi_store *store, int place, ferryi_timeline *timeline)
{
    for (ferryi_sync_point point = 0; !point;) {
        ferryi_sync_point other;
        ferryi_store_lock(store);
        point = ferryi_store_try_note_write(store, place, timeline, &other);
        ferryi_store_unlock(store);
        if (!point)
            ferryi_store_await_write(store, place, timeline, other);
    }
}

ferry_status
ferryi_store_timeline(const ferryi_store *store, int target_place, int source_place,
                      const char *what, ferryi_timeline **out)
{
    ferry_status status =
        ferryi_engine_timeline(store->context->engine, target_place, source_place, out);
    return status == FERRY_OK ? FERRY_OK
                              : ferryi_fail_in(status, "%s: open a stream to move buffer \"%s\"",
                                               what, ferryi_store_name(store));
}
