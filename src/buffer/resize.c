/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/copy.h"
#include "src/buffer/guard.h"

/*
 * Resizing: new memory is taken and filled for every place that holds something before anything changes, so that a
 * failure leaves the buffer as it was.
 */

/* Fresh memory for one copy, with the kept prefix in it. */
static ferry_status
move_copy(ferryi_store *store, int place, size_t kept, ferryi_store *fresh)
{
    ferryi_lane *lane;
    ferry_status status = ferryi_store_reserve(fresh, place);
    if (status == FERRY_OK)
        status = ferryi_copy_lane(store, place, &lane);
    if (status == FERRY_OK)
        status = ferryi_store_order(store, place, lane, false);
    if (status == FERRY_OK)
        status = ferryi_store_order(fresh, place, lane, true);
    if (status != FERRY_OK)
        return status;
    struct ferryi_transfer_job job = {.buffer = ferryi_store_name(store), .reason = "resize"};
    int memory = lane ? place : 0;
    status = ferryi_engine_copy(store->context->engine, ferryi_access_memory(fresh, memory, 0), ferryi_access_memory(store, memory, 0), kept, lane,
                                &job);
    if (lane) {
        ferryi_store_note_read(store, place, lane);
        ferryi_store_note_write(fresh, place, lane);
    }
    return status;
}

/* Places with their own memory that hold some of the kept bytes. */
static ferryi_places
places_to_keep(ferryi_store *store, size_t kept)
{
    ferryi_places places = 0;
    ferryi_store_lock(store);
    for (size_t at = 0; at < kept;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        places |= segment.places & ~FERRYI_LOST;
        at = segment.end;
    }
    ferryi_store_unlock(store);
    return places;
}

/* With the lock. */
static bool
is_pinned(const ferryi_store *store)
{
    for (int place = 0; place <= store->context->place_count; place++)
        if (store->copies[place].pins > 0)
            return true;
    return false;
}

static ferry_status
refuse(const ferryi_store *store, const char *why)
{
    return ferryi_fail(FERRY_ERROR_INVALID_STATE, "resize buffer \"%s\": %s", ferryi_store_name(store), why);
}

/* A pin needs no claim: one may have come meanwhile, and its memory stays. */
static ferry_status
swap_copies(ferryi_store *store, ferryi_store *fresh, ferryi_places kept)
{
    ferryi_store_lock(store);
    bool pinned = is_pinned(store);
    for (int place = 0; place <= store->context->place_count && !pinned; place++) {
        struct ferryi_place_copy old = store->copies[place];
        store->copies[place] = fresh->copies[place];
        fresh->copies[place] = old;
    }
    if (!pinned)
        store->exists &= kept;
    ferryi_store_unlock(store);
    return pinned ? refuse(store, "its copy is pinned") : FERRY_OK;
}

/* Copies that fit where they are stay; here they do not. */
static ferry_status
relocate(ferryi_store *store, size_t bytes, size_t kept)
{
    ferry_buffer_options options = {.memory = (ferry_memory_kind)store->memory, .align = ferryi_store_align(store)};
    ferryi_store *fresh;
    ferry_status status = ferryi_store_create(store->context, bytes, &options, false, &fresh);
    if (status != FERRY_OK)
        return status;
    ferryi_places places = places_to_keep(store, kept), done = 0;
    for (int place = 0; place <= store->context->place_count && status == FERRY_OK; place++) {
        if (!(places >> place & 1))
            continue;
        ferryi_places same = (store->shared >> place & 1) ? store->shared : FERRYI_PLACE_BIT(place);
        if (!(done & same))
            status = move_copy(store, place, kept, fresh);
        done |= FERRYI_PLACE_BIT(place);
    }
    if (status == FERRY_OK)
        status = swap_copies(store, fresh, places);
    if (status == FERRY_OK && store->context->debug)
        ferryi_guard_retire(fresh->copies[0].pointer, "was moved by resize since");
    ferryi_store_release(fresh);
    return status;
}

static ferry_status
check_resizable(ferry_buffer *buffer)
{
    ferryi_store *store = buffer->store;
    const char *why = NULL;
    ferryi_store_lock(store);
    if (is_pinned(store))
        why = "its copy is pinned";
    if (store->references > 1)
        why = "views or batches of it live";
    ferryi_store_unlock(store);
    if (buffer != &store->first)
        why = "it is a view";
    if (store->borrowed_place != FERRYI_PLACE_NONE)
        why = "it wraps memory of the caller";
    return why ? refuse(store, why) : FERRY_OK;
}

/* The whole store is claimed. */
static ferry_status
resize_claimed(ferry_buffer *buffer, size_t bytes, size_t count)
{
    ferryi_store *store = buffer->store;
    size_t kept = ferryi_min_size(bytes, store->map.bytes);
    ferry_status status = ferryi_store_promise(store, 1);
    if (status != FERRY_OK)
        return status;
    if (bytes > store->map.bytes)
        status = relocate(store, bytes, kept);
    ferryi_store_lock(store);
    if (status == FERRY_OK) {
        if (!ferryi_valid_map_resize_takes_promise(&store->map, bytes))
            ferryi_valid_map_unpromise(&store->map);
        ferryi_valid_map_resize(&store->map, bytes);
        atomic_store_explicit(&buffer->count, count, memory_order_relaxed);
    } else {
        ferryi_valid_map_unpromise(&store->map);
    }
    ferryi_store_unlock(store);
    return status;
}

ferry_status
ferry_buffer_resize(ferry_buffer *buffer, size_t count)
{
    struct ferryi_range range;
    size_t bytes;
    ferry_status status = ferryi_buffer_check(buffer, NULL, 0, FERRY_REST, "resize", &range);
    if (status == FERRY_OK)
        status = check_resizable(buffer);
    if (status != FERRY_OK || count == ferryi_buffer_count(buffer))
        return status;
    ferryi_store *store = buffer->store;
    if (!ferryi_mul_size(count, buffer->element_bytes, &bytes) || bytes > store->context->buffer_bytes_limit || bytes > PTRDIFF_MAX)
        return ferryi_fail(FERRY_ERROR_OVERFLOW, "resize buffer \"%s\" to %zu elements of %u bytes: above the limit of %zu bytes",
                           ferryi_store_name(store), count, buffer->element_bytes, store->context->buffer_bytes_limit);
    struct ferryi_access claim = {.store = store, .whole = true, .access = FERRY_OVERWRITE, .place = FERRYI_PLACE_NONE, .reason = "resize"};
    status = ferryi_access_open(&claim, 1);
    if (status != FERRY_OK)
        return status;
    /* A pin may have come before the claim. */
    status = check_resizable(buffer);
    if (status == FERRY_OK)
        status = resize_claimed(buffer, bytes, count);
    (void)ferryi_access_close(&claim, FERRYI_CLOSE_CANCEL, NULL);
    return status;
}
