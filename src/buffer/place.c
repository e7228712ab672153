/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "src/buffer/bodies.h"
#include "src/buffer/buffer.h"
#include "src/buffer/guard.h"

/* For code that keeps raw pointers: what is valid where, said by hand. */

/* How often a call starts over because others wrote in between, before it says so. */
#define RETRIES 64

ferry_status
ferryi_buffer_bring(ferryi_store *store, struct ferryi_range range, int place, const char *reason, const ferry_transfer_options *options)
{
    struct ferryi_access access = {.store = store, .begin = range.begin, .end = range.end, .access = FERRY_READ,
                                   .place = (uint8_t)place, .reason = reason, .options = options};
    ferry_status status = ferryi_access_open(&access, 1);
    return status == FERRY_OK ? ferryi_access_close(&access, FERRYI_CLOSE_COMMIT, NULL) : status;
}

static ferry_status
check(ferry_buffer *buffer, size_t offset, size_t count, int place, const char *what, struct ferryi_range *out)
{
    ferry_status status = ferryi_buffer_check(buffer, NULL, offset, count, what, out);
    return status == FERRY_OK ? ferryi_context_check_place(buffer->store->context, place, what) : status;
}

ferry_status
ferry_buffer_sync_to_with(ferry_buffer *buffer, size_t offset, size_t count, int place, const ferry_transfer_options *options)
{
    struct ferryi_range range;
    ferry_status status = check(buffer, offset, count, place, "sync", &range);
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    status = ferryi_buffer_bring(buffer->store, range, place, "sync_to", options);
    /* Who edits the host copy by hand now must not disturb copies that still read it. */
    if (status == FERRY_OK && ferryi_store_same_memory(buffer->store, place, 0))
        status = ferryi_store_order(buffer->store, 0, NULL, true);
    return status;
}

ferry_status
ferry_buffer_sync_to(ferry_buffer *buffer, size_t offset, size_t count, int place)
{
    return ferry_buffer_sync_to_with(buffer, offset, count, place, NULL);
}

/* -- marking --------------------------------------------------------------------------------------- */

static ferry_status
check_mark(ferryi_store *store, struct ferryi_range range, int place)
{
    const struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    ferry_status status = FERRY_OK;
    ferryi_store_lock(store);
    if (!copy->pointer || !(store->exists & FERRYI_PLACE_BIT(place)))
        status = FERRY_ERROR_CONFLICT;
    size_t at = range.begin;
    while (status == FERRY_OK && at < range.end) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        if (segment.places && !(segment.places & FERRYI_PLACE_BIT(place)))
            break;
        at = segment.end;
    }
    ferryi_store_unlock(store);
    if (status != FERRY_OK)
        return ferryi_fail(status, "mark buffer \"%s\" as written at %s: it has no copy there", ferryi_store_name(store),
                           store->context->names[place]);
    if (at < range.end)
        return ferryi_fail(FERRY_ERROR_CONFLICT, "mark bytes %zu to %zu of buffer \"%s\" as written at %s: byte %zu is newer elsewhere",
                           range.begin, range.end, ferryi_store_name(store), store->context->names[place], at);
    return FERRY_OK;
}

ferry_status
ferry_buffer_mark_dirty(ferry_buffer *buffer, size_t offset, size_t count, int place, ferry_stream *written_on)
{
    struct ferryi_range range;
    ferryi_lane *lane = NULL;
    ferry_status status = check(buffer, offset, count, place, "mark", &range);
    if (status == FERRY_OK && written_on)
        status = ferryi_context_lane(buffer->store->context, written_on, "mark", &lane);
    if (status == FERRY_OK && lane && lane->place != place)
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "mark a copy at place %d as written on a stream of place %d", place, lane->place);
    if (status != FERRY_OK || range.begin == range.end)
        return status;

    ferryi_store *store = buffer->store;
    struct ferryi_access claim = {.store = store, .begin = range.begin, .end = range.end, .access = FERRY_OVERWRITE,
                                  .place = FERRYI_PLACE_NONE, .reason = "mark"};
    FERRY_TRY(status, out, ferryi_access_open(&claim, 1));
    ferryi_stamp stamp = 0;
    FERRY_TRY(status, fail, check_mark(store, range, place));
    if (lane)
        FERRY_TRY(status, fail, ferryi_lane_note(lane, ferryi_thread_id(), &stamp));
    FERRY_TRY(status, fail, ferryi_store_promise(store, 1));
    if (stamp)
        ferryi_store_note_write(store, place, store->context->order.lanes[ferryi_stamp_number(stamp)]);
    ferryi_bodies_overwritten(store, range.begin, range.end);
    ferryi_store_lock(store);
    ferryi_valid_map_commit(&store->map, place, FERRYI_CHANGE_OVERWRITE, range.begin, range.end);
    ferryi_store_unlock(store);
fail:
    (void)ferryi_access_close(&claim, FERRYI_CLOSE_CANCEL, NULL);
out:
    return status;
}

ferry_status
ferry_buffer_discard(ferry_buffer *buffer, size_t offset, size_t count)
{
    struct ferryi_range range;
    ferry_status status = ferryi_buffer_check(buffer, NULL, offset, count, "discard", &range);
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    ferryi_store *store = buffer->store;
    struct ferryi_access claim = {.store = store, .begin = range.begin, .end = range.end, .access = FERRY_OVERWRITE,
                                  .place = FERRYI_PLACE_NONE, .reason = "discard"};
    FERRY_TRY(status, out, ferryi_access_open(&claim, 1));
    status = ferryi_store_promise(store, 1);
    if (status == FERRY_OK) {
        ferryi_bodies_overwritten(store, range.begin, range.end);
        ferryi_store_lock(store);
        ferryi_valid_map_commit(&store->map, 0, FERRYI_CHANGE_DISCARD, range.begin, range.end);
        ferryi_store_unlock(store);
    }
    (void)ferryi_access_close(&claim, FERRYI_CLOSE_CANCEL, NULL);
out:
    return status;
}

/* -- giving copies up ------------------------------------------------------------------------------ */

/* Where the bytes of a copy go when it is given up: the other side, as near as there is one. */
static int
refuge_of(ferryi_store *store, int place)
{
    if (place != 0)
        return 0;
    ferryi_store_lock(store);
    ferryi_places devices = store->exists & ~FERRYI_PLACE_BIT(0);
    ferryi_store_unlock(store);
    return devices ? __builtin_ctz(devices) : 1;
}

/* Move what only `place` holds to the refuge, for the call `what`. */
static ferry_status
rescue(ferryi_store *store, struct ferryi_range range, int place, const char *what)
{
    int refuge = refuge_of(store, place);
    for (size_t at = range.begin; at < range.end;) {
        ferryi_store_lock(store);
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        ferryi_store_unlock(store);
        struct ferryi_range part = {at, ferryi_min_size(segment.end, range.end)};
        if (segment.places == FERRYI_PLACE_BIT(place)) {
            ferry_status status = ferryi_buffer_bring(store, part, refuge, what, NULL);
            if (status != FERRY_OK)
                return status;
        }
        at = part.end;
    }
    return FERRY_OK;
}

/* Under the lock. */
static bool
is_only_here(ferryi_store *store, struct ferryi_range range, int place)
{
    for (size_t at = range.begin; at < range.end;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        if (segment.places == FERRYI_PLACE_BIT(place))
            return true;
        at = segment.end;
    }
    return false;
}

/* Only memory that nobody keeps an address of can go. */
static ferry_status
refuse_to_evict(ferryi_store *store, int place)
{
    return ferryi_fail(FERRY_ERROR_INVALID_STATE, "evict buffer \"%s\" from %s: its copy there is %s", ferryi_store_name(store),
                       store->context->names[place], store->borrowed_place == place ? "the caller's memory" : "pinned");
}

/*
 * Forget the copy on the range. The memory of a whole copy goes as well, unless it is pinned by now; who evicts is then refused,
 * since a pin that came between would be left without its memory.
 */
FERRYI_AT_EDGE static ferry_status
drop(ferryi_store *store, struct ferryi_range range, int place, bool evicts, const char *what)
{
    struct ferryi_access claim = {.store = store, .begin = range.begin, .end = range.end, .access = FERRYI_ACCESS_DROP,
                                  .place = (uint8_t)place, .reason = what};
    struct ferryi_place_copy gone = {0};
    for (int i = 0; i < RETRIES; i++) {
        ferry_status status = rescue(store, range, place, what);
        if (status == FERRY_OK)
            status = ferryi_access_open(&claim, 1);
        if (status != FERRY_OK)
            return status;
        status = ferryi_store_promise(store, 1);
        bool dropped = false;
        ferryi_store_lock(store);
        bool keeps = store->copies[place].pins > 0 || store->borrowed_place == place;
        if (status == FERRY_OK && ((evicts && keeps) || is_only_here(store, range, place))) {
            /* Somebody pinned the copy, or wrote here, between the rescue and the claim. */
            ferryi_valid_map_unpromise(&store->map);
        } else if (status == FERRY_OK) {
            dropped = true;
            ferryi_valid_map_commit(&store->map, place, FERRYI_CHANGE_FORGET, range.begin, range.end);
            if (!keeps && range.begin == 0 && range.end == store->map.bytes)
                gone = ferryi_store_detach(store, place);
        }
        ferryi_store_unlock(store);
        (void)ferryi_access_close(&claim, FERRYI_CLOSE_CANCEL, NULL);
        ferryi_store_give_back(store->context, &gone);
        if (status == FERRY_OK && evicts && keeps)
            return refuse_to_evict(store, place);
        if (dropped || status != FERRY_OK)
            return status;
    }
    return ferryi_fail(FERRY_ERROR_BUSY, "%s buffer \"%s\" at %s: others keep writing it there", what, ferryi_store_name(store),
                       store->context->names[place]);
}

ferry_status
ferry_buffer_invalidate(ferry_buffer *buffer, size_t offset, size_t count, int place)
{
    struct ferryi_range range;
    ferry_status status = check(buffer, offset, count, place, "invalidate", &range);
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    ferryi_store *store = buffer->store;
    ferryi_store_lock(store);
    bool exists = store->exists & FERRYI_PLACE_BIT(place);
    ferryi_store_unlock(store);
    return exists ? drop(store, range, place, false, "invalidate") : FERRY_OK;
}

ferry_status
ferry_buffer_evict(ferry_buffer *buffer, int place)
{
    ferry_status status = ferryi_buffer_check_place(buffer, place, "evict");
    if (status != FERRY_OK)
        return status;
    ferryi_store *store = buffer->store;
    ferryi_store_lock(store);
    bool pinned = store->copies[place].pins > 0;
    bool exists = store->exists & FERRYI_PLACE_BIT(place);
    ferryi_store_unlock(store);
    if (pinned || store->borrowed_place == place)
        return refuse_to_evict(store, place);
    struct ferryi_range whole = {0, store->map.bytes};
    return exists && whole.end > 0 ? drop(store, whole, place, true, "evict") : FERRY_OK;
}

/* -- memory ---------------------------------------------------------------------------------------- */

ferry_status
ferry_buffer_reserve(ferry_buffer *buffer, int place)
{
    ferry_status status = ferryi_buffer_check_place(buffer, place, "reserve");
    return status == FERRY_OK ? ferryi_store_reserve(buffer->store, place) : status;
}

ferry_status
ferry_buffer_wait_idle(ferry_buffer *buffer, int place)
{
    ferry_status status = ferryi_buffer_check_place(buffer, place, "wait until idle");
    if (status != FERRY_OK)
        return status;
    ferryi_access_wait_calls(buffer->store);
    return ferryi_store_order(buffer->store, place, NULL, true);
}

static void
count_pins(ferryi_store *store, int place, int more)
{
    ferryi_store_lock(store);
    store->copies[place].pins += (uint32_t)more;
    ferryi_store_unlock(store);
}

ferry_status
ferry_buffer_pin(ferry_buffer *buffer, int place, void **out)
{
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "pin a copy: out is NULL");
    ferry_status status = ferryi_buffer_check_place(buffer, place, "pin a copy");
    if (status != FERRY_OK)
        return status;
    ferryi_store *store = buffer->store;
    /* The pin comes first, so that the memory stays from the moment it is there. */
    count_pins(store, place, 1);
    status = ferryi_store_reserve(store, place);
    if (status != FERRY_OK) {
        count_pins(store, place, -1);
        return status;
    }
    ferryi_store_lock(store);
    char *pointer = ferryi_store_copy(store, place)->pointer;
    ferryi_store_unlock(store);
    *out = ferryi_guard_hand_out(store, place, pointer + buffer->offset, "pin", buffer->offset, buffer->offset + ferry_buffer_bytes(buffer));
    return FERRY_OK;
}

ferry_status
ferry_buffer_unpin(ferry_buffer *buffer, int place)
{
    ferry_status status = ferryi_buffer_check_place(buffer, place, "unpin a copy");
    if (status != FERRY_OK)
        return status;
    ferryi_store *store = buffer->store;
    ferryi_store_lock(store);
    bool pinned = store->copies[place].pins > 0;
    store->copies[place].pins -= pinned;
    ferryi_store_unlock(store);
    ferryi_guard_refresh(store);
    if (!pinned)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "unpin buffer \"%s\" at %s: it is not pinned there", ferryi_store_name(store),
                           store->context->names[place]);
    return FERRY_OK;
}
