/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/buffer/lease.h"
#include "src/move/bring.h"
#include "src/move/move.h"
#include "src/store/claim.h"
#include "src/store/pending_calls.h"
#include "src/store/watch.h"
#include "src/transfer/engine.h"

/* Public functions for programs that keep raw pointers to replicas. The functions mark, invalidate,
 * evict and hold replicas. */

ferry_status
ferryi_buffer_bring_back(ferryi_store *store, ferryi_timeline *timeline)
{
    ferryi_claim_is_held(); /* no claim (range lock) is needed, because the length of wrapped memory
                               never changes */
    struct ferryi_range whole = {0, ferryi_claimed_bytes(store)};
    int place = store->borrowed_place;
    if (store->read_only || whole.end == 0)
        return FERRY_OK;
    struct ferryi_access access = ferryi_access_of(store, whole, FERRY_READ, place, "unwrap");
    access.timeline = timeline && timeline->place == place ? timeline : NULL;
    ferry_status status = ferryi_access_open(&access, 1);
    return status == FERRY_OK ? ferryi_access_close(&access, FERRYI_CLOSE_COMMIT, access.timeline)
                              : status;
}

ferry_status
ferryi_place_check(ferry_buffer *buffer, ferry_access access, size_t offset, size_t count,
                   int place, const char *what, struct ferryi_range *out)
{
    ferry_status status = ferryi_buffer_check(buffer, NULL, access, offset, count, what, out);
    return status == FERRY_OK ? ferryi_shell_check_place(buffer->store->context, place, what)
                              : status;
}

static ferry_status
check_whole(ferry_buffer *buffer, int place, const char *what)
{
    struct ferryi_range whole;
    return ferryi_place_check(buffer, FERRY_READ, 0, FERRY_REST, place, what, &whole);
}

ferry_status
ferryi_place_timeline(ferryi_store *store, int place, const char *reason, ferryi_timeline **out)
{
    *out = NULL;
    if (ferryi_store_same_memory(store, place, 0))
        return FERRY_OK;
    return ferryi_store_timeline(store, place, place, reason, out);
}

ferry_status
ferryi_place_wait(ferryi_store *store, int place)
{
    return ferryi_store_same_memory(store, place, 0) ? ferryi_store_order(store, 0, NULL, true)
                                                     : FERRY_OK;
}

/* -- marking ----------------------------------------------------------------------------------- */

static ferry_status
check_mark(ferryi_store *store, struct ferryi_range range, int place)
{
    ferry_status status = FERRY_OK;
    ferryi_store_lock(store);
    if (!ferryi_store_copy(store, place)->pointer || !(store->exists & FERRYI_PLACE_BIT(place)))
        status = FERRY_ERROR_CONFLICT;
    size_t at = range.begin;
    while (status == FERRY_OK && at < range.end) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        /* Lost bytes are current nowhere, so the program may declare that it has rewritten them. */
        if (ferryi_places_written(segment.places) && !(segment.places & FERRYI_PLACE_BIT(place)))
            break;
        at = segment.end;
    }
    ferryi_store_unlock(store);
    if (status != FERRY_OK)
        return ferryi_fail(status, "mark buffer \"%s\" as written at %s: it has no copy there",
                           ferryi_store_name(store), store->context->names[place]);
    if (at < range.end)
        return ferryi_fail(
            FERRY_ERROR_CONFLICT,
            "mark bytes %zu to %zu of buffer \"%s\" as written at %s: byte %zu is newer elsewhere",
            range.begin, range.end, ferryi_store_name(store), store->context->names[place], at);
    return FERRY_OK;
}

/* Records a write that the program made through a raw pointer. The caller then marks the range as
 * written. The write was queued on `timeline`. If `timeline` is NULL, the host wrote the range, or
 * the write is already complete. */
static ferry_status
note_mark(ferryi_store *store, struct ferryi_range range, int place, ferryi_timeline *timeline)
{
    ferryi_timeline *on = NULL;
    FERRYI_OR_RETURN(check_mark(store, range, place));
    if (timeline)
        FERRYI_OR_RETURN(
            ferryi_timeline_join(timeline, ferryi_thread_id(), timeline->generation, &on));
    if (on)
        ferryi_store_note_write(store, place, on);
    ferryi_pending_calls_overwritten(store, place, range.begin, range.end);
    return FERRY_OK;
}

/* Marks the range as written at the place; see note_mark(). If `change` is FERRYI_CHANGE_DISCARD,
 * marks the range as never written instead. The place and the timeline are then ignored. */
static ferry_status
mark_range(ferryi_store *store, struct ferryi_range range, int place, ferryi_timeline *timeline,
           enum ferryi_change change)
{
    bool discards = change == FERRYI_CHANGE_DISCARD;
    struct ferryi_access claim = ferryi_access_of(store, range, FERRY_OVERWRITE, FERRYI_PLACE_NONE,
                                                  discards ? "discard" : "mark_dirty");
    ferry_status status = ferryi_access_open(&claim, 1);
    if (status != FERRY_OK)
        return status;
    if (!discards)
        status = note_mark(store, range, place, timeline);
    if (status == FERRY_OK) {
        ferryi_store_lock(store);
        ferryi_claim_commit(store, &store->claims[claim.slot], place, change);
        ferryi_store_unlock(store);
    }
    (void)ferryi_access_close(&claim, FERRYI_CLOSE_CANCEL, NULL);
    return status;
}

ferry_status
ferry_buffer_mark_dirty(ferry_buffer *buffer, size_t offset, size_t count, int place,
                        ferry_stream *written_on)
{
    ferry_status status;
    do {
        struct ferryi_range range;
        ferryi_timeline *timeline = NULL;
        status =
            ferryi_place_check(buffer, FERRY_UPDATE, offset, count, place, "mark_dirty", &range);
        if (status == FERRY_OK && written_on)
            status = ferryi_stream_find_timeline(buffer->store->context, written_on, "mark_dirty",
                                                 &timeline);
        if (status == FERRY_OK && timeline && timeline->place != place)
            status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                                 "mark a copy at place %d as written on a stream of place %d",
                                 place, timeline->place);
        if (status == FERRY_OK && timeline && ferryi_timeline_recording(timeline))
            status = ferryi_fail_in(ferryi_timeline_refuse_recording(timeline), "mark_dirty");
        if (status != FERRY_OK || range.begin == range.end)
            return status;
        status = mark_range(buffer->store, range, place, timeline, FERRYI_CHANGE_OVERWRITE);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}

ferry_status
ferry_buffer_discard(ferry_buffer *buffer, size_t offset, size_t count)
{
    ferry_status status;
    do {
        struct ferryi_range range;
        status =
            ferryi_buffer_check(buffer, NULL, FERRY_OVERWRITE, offset, count, "discard", &range);
        if (status != FERRY_OK || range.begin == range.end)
            return status;
        status = mark_range(buffer->store, range, 0, NULL, FERRYI_CHANGE_DISCARD);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}

/* -- freeing replicas -------------------------------------------------------------------------- */

/* Returns the place to which a replica's bytes are copied before the replica is freed. For the
 * replica of a device this is the host. For the host replica it is a device, preferably one that
 * has a replica. */
static int
fallback_of(ferryi_store *store, int place)
{
    if (place != 0)
        return 0;
    ferryi_store_lock(store);
    ferryi_places devices = store->exists & ~FERRYI_PLACE_BIT(0);
    ferryi_store_unlock(store);
    return devices ? __builtin_ctz(devices) : 1;
}

/* Fails because the program uses the address of a replica, so the replica cannot be freed. Returns
 * BUSY if a lease uses the address, because a lease can end without an action of this caller.
 * Returns INVALID_STATE for a hold or wrapped memory, because the program itself must end these
 * uses. The use that the caller found may have ended on another thread: that is BUSY as well. */
static ferry_status
refuse_to_evict(ferryi_store *store, int place)
{
    const char *name = ferryi_store_name(store), *where = store->context->names[place];
    if (store->borrowed_place == place)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "evict buffer \"%s\" from %s: its copy there is the caller's memory",
                           name, where);
    FERRYI_OR_RETURN(ferryi_leases_check_none(store, place, "evict"));
    ferryi_store_lock(store);
    bool held = store->copies[place].pins > ferryi_leases_at(store, place);
    ferryi_store_unlock(store);
    if (held)
        return ferryi_fail(
            FERRY_ERROR_INVALID_STATE,
            "evict buffer \"%s\" from %s: its copy there is pinned, because the program "
            "holds it",
            name, where);
    return ferryi_fail(FERRY_ERROR_BUSY,
                       "evict buffer \"%s\" from %s: a lease or a hold of another thread kept its "
                       "copy there until just now; try again",
                       name, where);
}

/* Returns whether a replica's memory must stay, because it is pinned or belongs to the program. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_kept(const ferryi_store *store, int place)
{
    return store->copies[place].pins > 0 || store->borrowed_place == place;
}

/* Marks the range of `claim` (a range lock) as stale at the claim's place. Bytes that are current
 * only at this place are first copied to a different place. If the claim covers the whole buffer,
 * the function also frees the replica's memory, unless this memory is pinned or belongs to the
 * program. If the memory must stay and `evicts` is true, the function marks nothing and fails. */
static ferry_status
drop_claimed(const struct ferryi_access *claim, bool evicts)
{
    ferryi_store *store = claim->store;
    struct ferryi_range range = {claim->begin, claim->end};
    int place = claim->place;
    FERRYI_OR_RETURN(
        ferryi_move_only_at(store, range, place, fallback_of(store, place), claim->reason));
    struct ferryi_place_copy gone = {0};
    ferryi_store_lock(store);
    /* The claim locks the range but does not prevent other threads from adding a pin. So the pins
     * are checked again under the lock. */
    bool kept = is_kept(store, place), refuses = evicts && kept;
    range.end = ferryi_min_size(range.end, store->map.bytes);
    if (!refuses && range.begin < range.end) {
        assert(!ferryi_store_find_only_at(store, range, FERRYI_PLACE_BIT(place),
                                          &(struct ferryi_range){0}));
        ferryi_claim_commit(store, &store->claims[claim->slot], place, FERRYI_CHANGE_FORGET);
        if (!kept && range.begin == 0 && range.end == store->map.bytes)
            gone = ferryi_store_detach(store, place);
    }
    ferryi_store_unlock(store);
    ferryi_store_give_back(store->context, &gone);
    return refuses ? refuse_to_evict(store, place) : FERRY_OK;
}

static ferry_status
drop(struct ferryi_access *claim, bool evicts)
{
    FERRYI_OR_RETURN(ferryi_access_open(claim, 1));
    ferry_status status = drop_claimed(claim, evicts);
    (void)ferryi_access_close(claim, FERRYI_CLOSE_CANCEL, NULL);
    return status;
}

/* Fails because read-only wrapped memory cannot be invalidated. The next use of the buffer at its
 * place would have to copy bytes into this memory. */
static ferry_status
refuse_to_forget(const ferryi_store *store, int place)
{
    return ferryi_fail(
        FERRY_ERROR_INVALID_ARGUMENT,
        "invalidate buffer \"%s\" at %s: its copy there is the caller's memory, wrapped read-only",
        ferryi_store_name(store), store->context->names[place]);
}

ferry_status
ferry_buffer_invalidate(ferry_buffer *buffer, size_t offset, size_t count, int place)
{
    ferry_status status;
    do {
        struct ferryi_range range;
        status = ferryi_place_check(buffer, FERRY_READ, offset, count, place, "invalidate", &range);
        if (status != FERRY_OK || range.begin == range.end)
            return status;
        ferryi_store *store = buffer->store;
        ferryi_store_lock(store);
        bool exists = store->exists & FERRYI_PLACE_BIT(place);
        bool is_read_only = store->read_only && store->borrowed_place == place;
        ferryi_store_unlock(store);
        if (!exists)
            return FERRY_OK;
        if (is_read_only)
            return refuse_to_forget(store, place);
        struct ferryi_access claim =
            ferryi_access_of(store, range, FERRYI_ACCESS_DROP, place, "invalidate");
        status = drop(&claim, false);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}

ferry_status
ferry_buffer_evict(ferry_buffer *buffer, int place)
{
    FERRYI_OR_RETURN(check_whole(buffer, place, "evict"));
    ferryi_store *store = buffer->store;
    ferryi_store_lock(store);
    bool kept = is_kept(store, place), exists = store->exists & FERRYI_PLACE_BIT(place);
    ferryi_store_unlock(store);
    if (kept)
        return refuse_to_evict(store, place);
    struct ferryi_access claim = {.store = store,
                                  .whole = true,
                                  .access = FERRYI_ACCESS_DROP,
                                  .place = (uint8_t)place,
                                  .reason = "evict"};
    return exists ? drop(&claim, true) : FERRY_OK;
}

/* -- memory ------------------------------------------------------------------------------------ */

ferry_status
ferry_buffer_reserve(ferry_buffer *buffer, int place)
{
    ferry_status status = check_whole(buffer, place, "reserve");
    return status == FERRY_OK ? ferryi_store_reserve(buffer->store, place, NULL) : status;
}

ferry_status
ferry_buffer_wait_idle(ferry_buffer *buffer, int place)
{
    FERRYI_OR_RETURN(check_whole(buffer, place, "wait until idle"));
    ferry_status status = ferryi_access_wait_calls(buffer->store, "wait until idle");
    return status == FERRY_OK ? ferryi_store_order(buffer->store, place, NULL, true) : status;
}

static void
count_pins(ferryi_store *store, int place, int more)
{
    ferryi_store_lock(store);
    store->copies[place].pins += (uint32_t)more;
    ferryi_store_unlock(store);
}

ferry_status
ferry_buffer_hold(ferry_buffer *buffer, int place, void **out)
{
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "hold a copy: out is NULL");
    FERRYI_OR_RETURN(check_whole(buffer, place, "hold a copy"));
    ferryi_store *store = buffer->store;
    /* The pin is added before memory is allocated, so that an eviction cannot free the new memory.
     */
    count_pins(store, place, 1);
    ferry_status status = ferryi_store_reserve(store, place, NULL);
    if (status != FERRY_OK) {
        count_pins(store, place, -1);
        return status;
    }
    ferryi_store_lock(store);
    char *pointer = ferryi_store_copy(store, place)->pointer;
    size_t bytes =
        atomic_load_explicit(&buffer->count, memory_order_relaxed) * buffer->element_bytes;
    ferryi_store_unlock(store);
    *out = ferryi_watch_held(store, place, pointer + buffer->offset,
                             (struct ferryi_range){buffer->offset, buffer->offset + bytes});
    return FERRY_OK;
}

ferry_status
ferry_buffer_release(ferry_buffer *buffer, int place)
{
    FERRYI_OR_RETURN(check_whole(buffer, place, "release a copy"));
    ferryi_store *store = buffer->store;
    ferryi_store_lock(store);
    bool pinned = store->copies[place].pins > ferryi_leases_at(store, place);
    store->copies[place].pins -= pinned;
    ferryi_store_unlock(store);
    ferryi_watch_pages(store);
    if (!pinned)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "release buffer \"%s\" at %s: it is not held there",
                           ferryi_store_name(store), store->context->names[place]);
    return FERRY_OK;
}
