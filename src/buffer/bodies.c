/* SPDX-License-Identifier: MIT */
#include "src/buffer/bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/buffer/claim.h"

#define YIELDS_BEFORE_LANES 64
#define FIRST_ROOM 8 /* entries */

/* One range in the log. */
struct ferryi_body_entry {
    size_t begin, end;
    uint8_t place;
    bool reads;    /* a launch, READ or UPDATE */
    bool is_write; /* a launch, UPDATE or OVERWRITE */
    bool replaces; /* a write that was committed */
    bool pending;  /* a launch that has not ended */
    bool failed;   /* a launch whose host function failed, or was not called */
    bool poisoned; /* a launch that reads what was lost */
};

static struct ferryi_bodies *
bodies_new(ferryi_store *store)
{
    struct ferryi_bodies *bodies = calloc(1, sizeof(*bodies));
    if (!bodies)
        return NULL;
    atomic_init(&bodies->references, 1);
    ferryi_mutex_init(&bodies->mutex);
    ferryi_mutex_is_needless(&bodies->mutex);
    bodies->store = store;
    bodies->first_number = 1;
    return bodies;
}

static void
release(struct ferryi_bodies *bodies)
{
    if (atomic_fetch_sub(&bodies->references, 1) != 1)
        return;
    ferryi_mutex_is_needless(&bodies->mutex);
    ferryi_mutex_destroy(&bodies->mutex);
    free(bodies->log);
    free(bodies->text);
    free(bodies);
}

/* -- the log --------------------------------------------------------------------------------------- */

FERRYI_REQUIRES(ferryi_bodies_mutex)
static struct ferryi_body_entry *
entry_at(const struct ferryi_bodies *bodies, size_t index)
{
    return &bodies->log[bodies->first + index];
}

/* NULL for a use that has no entry, or none any more. */
FERRYI_REQUIRES(ferryi_bodies_mutex)
static struct ferryi_body_entry *
entry_of(const struct ferryi_body_use *use)
{
    const struct ferryi_bodies *bodies = use->bodies;
    return use->number < bodies->first_number ? NULL : entry_at(bodies, use->number - bodies->first_number);
}

/* Room for one more entry: at least as much moves down as was freed, or the room doubles. */
FERRYI_REQUIRES(ferryi_bodies_mutex)
static bool
make_room(struct ferryi_bodies *bodies)
{
    if (bodies->first + bodies->count < bodies->room)
        return true;
    if (bodies->first <= bodies->room / 2) {
        size_t room = bodies->room ? 2 * bodies->room : FIRST_ROOM;
        struct ferryi_body_entry *log = realloc(bodies->log, room * sizeof(*log));
        if (!log)
            return false;
        bodies->log = log;
        bodies->room = room;
    }
    if (bodies->first > 0)
        memmove(bodies->log, entry_at(bodies, 0), bodies->count * sizeof(*bodies->log));
    bodies->first = 0;
    return true;
}

/* Returns the entry's number, or 0 without memory. */
FERRYI_REQUIRES(ferryi_bodies_mutex)
static uint64_t
append(struct ferryi_bodies *bodies, struct ferryi_body_entry entry)
{
    if (!make_room(bodies))
        return 0;
    *entry_at(bodies, bodies->count) = entry;
    return bodies->first_number + bodies->count++;
}

/* Nothing is older than the first entry: a launch that only reads can come to no harm any more. */
FERRYI_REQUIRES(ferryi_bodies_mutex)
static void
drop_first_entries(struct ferryi_bodies *bodies)
{
    while (bodies->count > 0 && (!entry_at(bodies, 0)->pending || !(entry_at(bodies, 0)->is_write || entry_at(bodies, 0)->poisoned))) {
        bodies->first++;
        bodies->first_number++;
        bodies->count--;
    }
    if (bodies->count > 0)
        return;
    bodies->first = 0;
    bodies->places = 0;
    if (bodies->room > FIRST_ROOM) {
        free(bodies->log);
        bodies->log = NULL;
        bodies->room = 0;
    }
}

/*
 * The range, written by the entry's launch, which failed, from the entry `index` on: those who read what is left of it are poisoned.
 * What is left in the end is lost, if that is wanted. Entries at other places have nothing to do with it: a launch that reads there
 * found its bytes there.
 */
FERRYI_REQUIRES(ferryi_bodies_mutex)
static void
spread(struct ferryi_bodies *bodies, size_t index, size_t begin, size_t end, int place, bool loses)
{
    for (; index < bodies->count && begin < end; index++) {
        struct ferryi_body_entry *entry = entry_at(bodies, index);
        if (entry->place != place || entry->end <= begin || end <= entry->begin)
            continue;
        entry->poisoned = entry->poisoned || entry->reads;
        if (!entry->replaces)
            continue;
        size_t left_end = ferryi_max_size(entry->begin, begin), right_begin = ferryi_min_size(entry->end, end);
        /* The smaller part goes by recursion, so that its depth is bounded by the bits of a size. */
        if (left_end - begin < end - right_begin) {
            spread(bodies, index + 1, begin, left_end, place, loses);
            begin = right_begin;
        } else {
            spread(bodies, index + 1, right_begin, end, place, loses);
            end = left_end;
        }
    }
    if (begin < end && loses && bodies->store)
        ferryi_store_lose(bodies->store, place, begin, end, bodies->status, bodies->text);
}

FERRYI_REQUIRES(ferryi_bodies_mutex)
static void
spread_from(struct ferryi_bodies *bodies, size_t index, bool loses)
{
    const struct ferryi_body_entry *entry = entry_at(bodies, index);
    spread(bodies, index + 1, entry->begin, entry->end, entry->place, loses);
}

/* -- uses ------------------------------------------------------------------------------------------ */

FERRYI_REQUIRES(ferryi_bodies_mutex)
static void
count_pending(struct ferryi_bodies *bodies, int more)
{
    uint32_t pending = atomic_fetch_add(&bodies->pending, (uint32_t)more) + (uint32_t)more;
    ferryi_store *store = bodies->store;
    if (!store)
        return;
    ferryi_store_lock(store);
    uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed) & ~(uint64_t)FERRYI_STORE_BODIES;
    atomic_store_explicit(&store->word, word | (pending > 0 ? FERRYI_STORE_BODIES : 0), memory_order_relaxed);
    ferryi_store_unlock(store);
}

/* The store's link, with a reference for the caller. */
static struct ferryi_bodies *
obtain(ferryi_store *store)
{
    struct ferryi_store_extra *extra = ferryi_store_make_extra(store);
    struct ferryi_bodies *bodies = extra ? atomic_load(&extra->bodies) : NULL;
    if (!bodies) {
        struct ferryi_bodies *fresh = extra ? bodies_new(store) : NULL;
        if (!fresh)
            return NULL;
        if (atomic_compare_exchange_strong(&extra->bodies, &bodies, fresh))
            bodies = fresh;
        else
            release(fresh);
    }
    atomic_fetch_add(&bodies->references, 1);
    return bodies;
}

/* What open writes of the same stream cover has a value again. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_lost(const ferryi_store *store, const struct ferryi_access *access)
{
    struct ferryi_range part = {0, access->begin};
    while (part.end < access->end) {
        part = ferryi_claim_uncovered(store, access, part.end);
        size_t end = ferryi_min_size(part.end, store->map.bytes);
        for (size_t at = part.begin; at < end;) {
            struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
            if (segment.places & FERRYI_LOST)
                return true;
            at = segment.end;
        }
    }
    return false;
}

/* The map knows all failures of launches that have ended; for the others the log does. */
static ferry_status
check_lost(const struct ferryi_access *access)
{
    char text[512];
    ferryi_store *store = access->store;
    ferryi_store_lock(store);
    const struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    bool lost = is_lost(store, access);
    ferry_status status = extra->lost_status ? extra->lost_status : FERRY_ERROR_DEVICE_LOST;
    if (lost)
        snprintf(text, sizeof(text), "%s", ferryi_store_lost_text(extra));
    ferryi_store_unlock(store);
    return lost ? ferryi_fail(status, "its input was lost: %s", text) : FERRY_OK;
}

FERRYI_REQUIRES(ferryi_bodies_mutex)
static ferry_status
begin_use(struct ferryi_body_use *use, const struct ferryi_access *access, const struct ferryi_body_entry *entry)
{
    struct ferryi_bodies *bodies = use->bodies;
    ferry_status status = entry->reads ? check_lost(access) : FERRY_OK;
    /* A launch that only reads, with no pending write before it, needs no entry. */
    if (status != FERRY_OK || (bodies->count == 0 && !entry->is_write))
        return status;
    use->number = append(bodies, *entry);
    if (!use->number)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory to track kernels that use buffer \"%s\"", ferryi_store_name(access->store));
    if (entry->is_write) {
        bodies->places |= FERRYI_PLACE_BIT(entry->place);
        count_pending(bodies, 1);
    }
    return FERRY_OK;
}

ferry_status
ferryi_bodies_begin(const struct ferryi_access *access, struct ferryi_body_use *out)
{
    const struct ferryi_body_entry entry = {.begin = access->begin, .end = access->end, .place = access->place,
                                            .reads = access->access != FERRY_OVERWRITE, .is_write = access->access != FERRY_READ, .pending = true};
    *out = (struct ferryi_body_use){.bodies = obtain(access->store), .is_write = entry.is_write};
    if (!out->bodies)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory to track kernels that use buffer \"%s\"", ferryi_store_name(access->store));
    ferryi_mutex_lock(&out->bodies->mutex);
    ferry_status status = begin_use(out, access, &entry);
    ferryi_mutex_unlock(&out->bodies->mutex);
    return status;
}

void
ferryi_bodies_commit(const struct ferryi_body_use *use)
{
    ferryi_mutex_lock(&use->bodies->mutex);
    struct ferryi_body_entry *entry = entry_of(use);
    if (entry)
        entry->replaces = entry->is_write;
    ferryi_mutex_unlock(&use->bodies->mutex);
}

void
ferryi_bodies_queued(const struct ferryi_body_use *use, const ferryi_lane *lane)
{
    /* Uses of streams without a number are noted on the join lane of their place. */
    if (!ferryi_lane_is_numbered(lane))
        lane = lane->order->joins[lane->place];
    if (lane && use->is_write)
        atomic_fetch_or(&use->bodies->lanes, UINT64_C(1) << lane->number);
}

/* Launches that failed and whose writes are not committed yet have poisoned nothing so far. */
FERRYI_REQUIRES(ferryi_bodies_mutex)
static void
spread_failing(struct ferryi_bodies *bodies)
{
    for (size_t i = 0; bodies->failing > 0 && i < bodies->count; i++)
        if (entry_at(bodies, i)->failed && entry_at(bodies, i)->pending)
            spread_from(bodies, i, false);
}

ferry_status
ferryi_bodies_input(const struct ferryi_body_use *use, char *text, size_t text_bytes)
{
    struct ferryi_bodies *bodies = use->bodies;
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&bodies->mutex);
    spread_failing(bodies);
    const struct ferryi_body_entry *entry = entry_of(use);
    if (entry && entry->poisoned) {
        status = bodies->status;
        snprintf(text, text_bytes, "%s", bodies->text ? bodies->text : "there was no memory to keep the reason");
    }
    ferryi_mutex_unlock(&bodies->mutex);
    return status;
}

void
ferryi_bodies_fail(const struct ferryi_body_use *use, ferry_status status, const char *text)
{
    struct ferryi_bodies *bodies = use->bodies;
    char *old = strdup(text);
    ferryi_mutex_lock(&bodies->mutex);
    struct ferryi_body_entry *entry = entry_of(use);
    if (entry && entry->is_write) {
        char *newest = old;
        old = bodies->text;
        bodies->text = newest;
        bodies->status = status;
        bodies->failing++;
        entry->failed = true;
    }
    ferryi_mutex_unlock(&bodies->mutex);
    free(old);
}

void
ferryi_bodies_end(struct ferryi_body_use *use)
{
    struct ferryi_bodies *bodies = use->bodies;
    if (!bodies)
        return;
    ferryi_mutex_lock(&bodies->mutex);
    struct ferryi_body_entry *entry = entry_of(use);
    if (entry) {
        if (entry->failed) {
            spread_from(bodies, use->number - bodies->first_number, true);
            bodies->failing--;
        }
        if (entry->is_write)
            count_pending(bodies, -1);
        entry->pending = false;
        drop_first_entries(bodies);
    }
    ferryi_mutex_unlock(&bodies->mutex);
    release(bodies);
    use->bodies = NULL;
}

void
ferryi_bodies_overwritten(ferryi_store *store, int place, size_t begin, size_t end)
{
    if (!ferryi_bodies_are_pending(store))
        return;
    struct ferryi_bodies *bodies = atomic_load(&ferryi_store_extra_of(store)->bodies);
    ferryi_mutex_lock(&bodies->mutex);
    /* Without memory more is lost than need be, never less. */
    if (bodies->places & FERRYI_PLACE_BIT(place))
        (void)append(bodies, (struct ferryi_body_entry){.begin = begin, .end = end, .place = (uint8_t)place, .replaces = true});
    ferryi_mutex_unlock(&bodies->mutex);
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
