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

static void
count_pending(struct ferryi_bodies *bodies, int more)
{
    ferryi_mutex_lock(&bodies->mutex);
    uint32_t pending = atomic_fetch_add(&bodies->pending, (uint32_t)more) + (uint32_t)more;
    ferryi_store *store = bodies->store;
    if (store) {
        ferryi_store_lock(store);
        uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed) & ~(uint64_t)FERRYI_STORE_BODIES;
        atomic_store_explicit(&store->word, word | (pending > 0 ? FERRYI_STORE_BODIES : 0), memory_order_relaxed);
        ferryi_store_unlock(store);
    }
    ferryi_mutex_unlock(&bodies->mutex);
}

ferry_status
ferryi_bodies_add(ferryi_store *store, bool writes, struct ferryi_bodies **out)
{
    struct ferryi_store_extra *extra = ferryi_store_make_extra(store);
    struct ferryi_bodies *bodies = extra ? atomic_load(&extra->bodies) : NULL;
    if (!bodies) {
        struct ferryi_bodies *fresh = extra ? bodies_new(store) : NULL;
        if (!fresh)
            return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory to follow kernels on buffer \"%s\"", ferryi_store_name(store));
        if (atomic_compare_exchange_strong(&extra->bodies, &bodies, fresh))
            bodies = fresh;
        else
            release(fresh);
    }
    atomic_fetch_add(&bodies->references, 1);
    if (writes)
        count_pending(bodies, 1);
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
    if (writes)
        count_pending(bodies, -1);
    release(bodies);
}

void
ferryi_bodies_cut(ferryi_store *store)
{
    struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    struct ferryi_bodies *bodies = extra ? atomic_exchange(&extra->bodies, NULL) : NULL;
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
            status = ferryi_lanes_wait(&store->context->order, NULL, atomic_load(&atomic_load(&ferryi_store_extra_of(store)->bodies)->lanes));
        /* A device that cannot be waited for says so again to whoever needs it. */
        if (status == FERRY_OK && ferryi_bodies_are_pending(store))
            ferryi_yield();
    }
}

/* -- what bodies write and read -------------------------------------------------------------------- */

void
ferryi_bodies_expect(struct ferryi_bodies *bodies, struct ferryi_body_write *write)
{
    ferryi_mutex_lock(&bodies->mutex);
    write->next = bodies->writes;
    bodies->writes = write;
    ferryi_mutex_unlock(&bodies->mutex);
}

static void
unlist(struct ferryi_body_write **link)
{
    struct ferryi_body_write *gone = *link;
    *link = gone->next;
    if (gone->is_piece)
        free(gone);
}

/* The middle goes. Without memory for the second part it stays: more is lost than need be, never less. */
static void
split(struct ferryi_body_write *write, size_t begin, size_t end)
{
    struct ferryi_body_write *piece = malloc(sizeof(*piece));
    if (!piece)
        return;
    *piece = (struct ferryi_body_write){.next = write->next, .begin = end, .end = write->end, .body = write->body, .is_piece = true};
    write->end = begin;
    write->next = piece;
}

/* With the mutex held: the range leaves all writes but those of one body. */
static void
cut_out(struct ferryi_bodies *bodies, const void *but, size_t begin, size_t end)
{
    for (struct ferryi_body_write **link = &bodies->writes; *link;) {
        struct ferryi_body_write *write = *link;
        bool meets = write->body != but && write->begin < end && begin < write->end;
        if (meets && begin <= write->begin && write->end <= end) {
            unlist(link);
            continue;
        }
        if (meets && write->begin < begin && end < write->end)
            split(write, begin, end);
        else if (meets && write->begin < begin)
            write->end = begin;
        else if (meets)
            write->begin = end;
        link = &write->next;
    }
}

void
ferryi_bodies_take_over(struct ferryi_bodies *bodies, const void *body, size_t begin, size_t end)
{
    ferryi_mutex_lock(&bodies->mutex);
    cut_out(bodies, body, begin, end);
    ferryi_mutex_unlock(&bodies->mutex);
}

void
ferryi_bodies_overwritten(ferryi_store *store, size_t begin, size_t end)
{
    if (ferryi_bodies_are_pending(store))
        ferryi_bodies_take_over(atomic_load(&ferryi_store_extra_of(store)->bodies), NULL, begin, end);
}

/* The range within the store, which may have shrunk meanwhile. */
static size_t
end_within(const ferryi_store *store, size_t end)
{
    return ferryi_min_size(end, store->map.bytes);
}

/* With the store locked. */
static bool
is_lost(const ferryi_store *store, size_t begin, size_t end)
{
    end = end_within(store, end);
    for (size_t at = begin; at < end;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        if (segment.places & FERRYI_LOST)
            return true;
        at = segment.end;
    }
    return false;
}

ferry_status
ferryi_bodies_inputs(struct ferryi_bodies *bodies, size_t begin, size_t end, void (*visit)(void *body, void *user), void *user)
{
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&bodies->mutex);
    for (struct ferryi_body_write *write = bodies->writes; write; write = write->next)
        if (write->begin < end && begin < write->end)
            visit(write->body, user);
    ferryi_store *store = bodies->store;
    char text[512] = "";
    ferryi_store_lock(store);
    if (is_lost(store, begin, end)) {
        const struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
        status = extra->lost_status ? extra->lost_status : FERRY_ERROR_DEVICE_LOST;
        snprintf(text, sizeof(text), "%s", ferryi_store_lost_text(extra));
    }
    ferryi_store_unlock(store);
    ferryi_mutex_unlock(&bodies->mutex);
    return status == FERRY_OK ? FERRY_OK : ferryi_fail(status, "its input was lost: %s", text);
}

void
ferryi_bodies_settle(struct ferryi_bodies *bodies, const void *body, int place, ferry_status status, const char *text)
{
    ferryi_mutex_lock(&bodies->mutex);
    ferryi_store *store = bodies->store;
    for (struct ferryi_body_write **link = &bodies->writes; *link;) {
        struct ferryi_body_write *write = *link;
        if (write->body != body) {
            link = &write->next;
            continue;
        }
        if (status != FERRY_OK && store && write->begin < store->map.bytes)
            ferryi_store_lose(store, place, write->begin, end_within(store, write->end), status, text);
        unlist(link);
    }
    ferryi_mutex_unlock(&bodies->mutex);
}
