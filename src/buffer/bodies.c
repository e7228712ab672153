/* SPDX-License-Identifier: MIT */
#include "src/buffer/bodies.h"

#include <stdio.h>
#include <stdlib.h>

#define YIELDS_BEFORE_LANES 64

static struct ferryi_bodies *
bodies_new(ferryi_store *store)
{
    struct ferryi_bodies *bodies = calloc(1, sizeof(*bodies));
    if (!bodies)
        return NULL;
    atomic_init(&bodies->references, 1);
    ferryi_mutex_init(&bodies->mutex);
    bodies->store = store;
    return bodies;
}

static void
release(struct ferryi_bodies *bodies)
{
    if (atomic_fetch_sub(&bodies->references, 1) != 1)
        return;
    ferryi_mutex_destroy(&bodies->mutex);
    free(bodies);
}

ferry_status
ferryi_bodies_add(ferryi_store *store, bool writes, struct ferryi_bodies **out)
{
    struct ferryi_bodies *bodies = atomic_load(&store->bodies);
    if (!bodies) {
        struct ferryi_bodies *fresh = bodies_new(store);
        if (!fresh)
            return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory to follow kernels on buffer \"%s\"", ferryi_store_name(store));
        if (atomic_compare_exchange_strong(&store->bodies, &bodies, fresh))
            bodies = fresh;
        else
            release(fresh);
    }
    atomic_fetch_add(&bodies->references, 1);
    atomic_fetch_add(&bodies->pending, writes);
    *out = bodies;
    return FERRY_OK;
}

void
ferryi_bodies_queued(struct ferryi_bodies *bodies, const ferryi_lane *lane)
{
    /* Uses of streams without a number are noted on the join lane of their place. */
    if (!ferryi_lane_is_numbered(lane))
        lane = lane->order->joins[lane->place];
    if (lane)
        atomic_fetch_or(&bodies->lanes, UINT64_C(1) << lane->number);
}

void
ferryi_bodies_remove(struct ferryi_bodies *bodies, bool writes)
{
    atomic_fetch_sub(&bodies->pending, writes);
    release(bodies);
}

void
ferryi_bodies_cut(ferryi_store *store)
{
    struct ferryi_bodies *bodies = atomic_exchange(&store->bodies, NULL);
    if (!bodies)
        return;
    ferryi_mutex_lock(&bodies->mutex);
    bodies->store = NULL;
    ferryi_mutex_unlock(&bodies->mutex);
    release(bodies);
}

static ferry_status
wait_for_writes(ferryi_store *store)
{
    ferry_status status = FERRY_OK;
    for (int place = 1; place <= store->context->place_count && status == FERRY_OK; place++) {
        ferryi_store_lock(store);
        ferryi_stamp written = ferryi_store_copy(store, place)->written;
        ferryi_store_unlock(store);
        status = ferryi_stamp_wait(&store->context->order, NULL, written);
    }
    return status;
}

/*
 * Waiting for a write's stamp runs the body; that it has ended shows a moment later. A body whose copy was given up
 * since has no stamp there any more: its lane is waited for.
 */
void
ferryi_bodies_wait(ferryi_store *store)
{
    ferry_status status = FERRY_OK;
    for (unsigned tries = 0; status == FERRY_OK && ferryi_bodies_are_pending(store); tries++) {
        if (tries < YIELDS_BEFORE_LANES)
            status = wait_for_writes(store);
        else
            status = ferryi_lanes_wait(&store->context->order, NULL, atomic_load(&atomic_load(&store->bodies)->lanes));
        /* A device that cannot be waited for says so again to whoever needs it. */
        if (status == FERRY_OK && ferryi_bodies_are_pending(store))
            ferryi_yield();
    }
}

/* -- from a body's thread -------------------------------------------------------------------------- */

/* The range within the store, which may have shrunk meanwhile. */
static size_t
end_within(const ferryi_store *store, size_t end)
{
    return ferryi_min_size(end, store->map.bytes);
}

/* The first segment of the range with lost bytes, clipped to it; false when there is none. With the store locked. */
static bool
find_lost(const ferryi_store *store, size_t begin, size_t end, struct ferryi_segment *out)
{
    end = end_within(store, end);
    while (begin < end) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, begin);
        if (segment.places & FERRYI_LOST) {
            *out = (struct ferryi_segment){begin, ferryi_min_size(segment.end, end), segment.places};
            return true;
        }
        begin = segment.end;
    }
    return false;
}

ferry_status
ferryi_bodies_input(struct ferryi_bodies *bodies, size_t begin, size_t end, char *text, size_t text_bytes)
{
    ferry_status status = FERRY_OK;
    struct ferryi_segment lost;
    ferryi_mutex_lock(&bodies->mutex);
    ferryi_store *store = bodies->store;
    if (store) {
        ferryi_store_lock(store);
        if (find_lost(store, begin, end, &lost)) {
            status = store->lost_status ? store->lost_status : FERRY_ERROR_DEVICE_LOST;
            snprintf(text, text_bytes, "its input was lost: %s", store->lost_text ? store->lost_text : "the device that had it is lost");
        }
        ferryi_store_unlock(store);
    }
    ferryi_mutex_unlock(&bodies->mutex);
    return status;
}

void
ferryi_bodies_regain(struct ferryi_bodies *bodies, int place, size_t begin, size_t end)
{
    ferryi_mutex_lock(&bodies->mutex);
    ferryi_store *store = bodies->store;
    struct ferryi_segment lost;
    for (bool more = store != NULL; more;) {
        ferryi_store_lock(store);
        more = (store->exists & FERRYI_PLACE_BIT(place)) && find_lost(store, begin, end, &lost);
        ferryi_store_unlock(store);
        if (!more || ferryi_store_promise(store, 1) != FERRY_OK)
            break;
        ferryi_store_lock(store);
        if (find_lost(store, lost.begin, lost.end, &lost))
            ferryi_valid_map_commit(&store->map, place, FERRYI_CHANGE_WRITE, lost.begin, lost.end);
        else
            ferryi_valid_map_unpromise(&store->map);
        ferryi_store_unlock_waking(store);
    }
    ferryi_mutex_unlock(&bodies->mutex);
}

void
ferryi_bodies_lose(struct ferryi_bodies *bodies, int place, size_t begin, size_t end, ferry_status status, const char *text)
{
    ferryi_mutex_lock(&bodies->mutex);
    ferryi_store *store = bodies->store;
    if (store && begin < store->map.bytes)
        ferryi_store_lose(store, place, begin, end_within(store, end), status, text);
    ferryi_mutex_unlock(&bodies->mutex);
}
