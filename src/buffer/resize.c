/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/buffer/checked.h"
#include "src/buffer/claim.h"
#include "src/buffer/lease.h"
#include "src/transfer/engine.h"

/*
 * Resizes buffers. To lengthen a buffer, first allocates new memory at every place that has current
 * bytes, and copies these bytes to it. The buffer itself is changed only afterwards, so a resize
 * that fails leaves the buffer unchanged.
 */

/* Allocates new memory for one replica and copies the first `kept` bytes of the old replica to it.
 */
static ferry_status
move_copy(ferryi_store *store, int place, size_t kept, ferryi_store *fresh)
{
    ferryi_claim_is_held();
    ferryi_timeline *timeline;
    ferry_status status = ferryi_store_reserve(fresh, place);
    if (status == FERRY_OK)
        status = ferryi_place_timeline(store, place, &timeline);
    if (status == FERRY_OK)
        status = ferryi_store_order(store, place, timeline, false);
    if (status == FERRY_OK)
        status = ferryi_store_order(fresh, place, timeline, true);
    if (status != FERRY_OK)
        return status;
    struct ferryi_transfer_job job = {0};
    ferryi_store_name_job(store, &job, "resize", 0);
    int memory = timeline ? place : 0;
    status = ferryi_engine_copy(store->context->engine, ferryi_access_memory(fresh, memory, 0),
                                ferryi_access_memory(store, memory, 0), kept, timeline, &job);
    if (timeline) {
        ferryi_store_note_read(store, place, timeline);
        ferryi_store_note_write(fresh, place, timeline);
    }
    return status;
}

/* Returns the places at which some of the first `kept` bytes are current. */
static ferryi_places
places_to_keep(ferryi_store *store, size_t kept)
{
    ferryi_places places = 0;
    ferryi_store_lock(store);
    for (size_t at = 0; at < kept;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        places |= segment.places & FERRYI_EVERY_PLACE;
        at = segment.end;
    }
    ferryi_store_unlock(store);
    return places;
}

/* Creates a temporary store of `bytes` bytes with memory at `places`. Copies the first `kept` bytes
 * of the old store to it. The caller has claimed the old store, so no other access to it is open.
 */
static ferry_status
copy_for(ferryi_store *store, size_t bytes, size_t kept, ferryi_places places, ferryi_store **out)
{
    ferry_buffer_options options = {.memory = (ferry_memory_kind)store->memory,
                                    .align = ferryi_store_align(store)};
    ferryi_store *fresh;
    ferry_status status = ferryi_store_create(store->context, bytes, &options, false, &fresh);
    if (status != FERRY_OK)
        return status;
    ferryi_places done = 0;
    for (int place = 0; place <= store->context->place_count && status == FERRY_OK; place++) {
        if (!(places >> place & 1))
            continue;
        ferryi_places same = (store->shared >> place & 1) ? store->shared : FERRYI_PLACE_BIT(place);
        if (!(done & same))
            status = move_copy(store, place, kept, fresh);
        done |= FERRYI_PLACE_BIT(place);
    }
    if (status == FERRY_OK)
        *out = fresh;
    else
        ferryi_store_release(fresh);
    return status;
}

/* Returns the reason why the store cannot be resized, or NULL if it can. */
FERRYI_REQUIRES(ferryi_store_spin)
static const char *
why_not(const ferryi_store *store)
{
    const char *why = NULL;
    for (int place = 0; place <= store->context->place_count; place++)
        if (store->copies[place].pins > 0)
            why = "its copy is pinned";
    if (store->references > 1)
        why = "views or batches of it live";
    if (store->borrowed_place != FERRYI_PLACE_NONE)
        why = "it wraps memory of the caller";
    return why;
}

static ferry_status
refuse(const ferryi_store *store, const char *why)
{
    return why ? ferryi_fail(FERRY_ERROR_INVALID_STATE, "resize buffer \"%s\": %s",
                             ferryi_store_name(store), why)
               : FERRY_OK;
}

static ferry_status
check_resizable(ferry_buffer *buffer)
{
    ferryi_store *store = buffer->store;
    if (buffer != &store->first)
        return refuse(store, "it is a view");
    /* A lease prevents the resize. The lease would have to keep the old memory. The program could
     * then not know which memory the lease uses. */
    ferry_status status = ferryi_leases_check_none(store, FERRYI_PLACE_NONE, "resize");
    if (status != FERRY_OK)
        return status;
    ferryi_store_lock(store);
    const char *why = why_not(store);
    ferryi_store_unlock(store);
    return refuse(store, why);
}

/* Changes the length, the valid map and the replicas of a store together. Uses the reservation in
 * the map that the resize's claim owns. The store takes the replicas of `fresh`, and `fresh` takes
 * the old ones. If `fresh` is NULL, the store keeps its replicas. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
change_length(ferryi_store *store, uint32_t slot, size_t bytes, size_t count, ferryi_store *fresh,
              ferryi_places places)
{
    for (int place = 0; fresh && place <= store->context->place_count; place++) {
        struct ferryi_place_copy old = store->copies[place];
        store->copies[place] = fresh->copies[place];
        fresh->copies[place] = old;
    }
    if (fresh)
        store->exists &= places;
    store->claims[slot].spent = true;
    ferryi_valid_map_resize(&store->map, bytes);
    atomic_store_explicit(&store->first.count, count, memory_order_relaxed);
}

/* Resizes a store. The caller's claim covers all bytes, so no other call can change the length.
 * Views and pins can be added without a claim, so this function checks again under the lock that
 * there are none. */
static ferry_status
resize_claimed(const struct ferryi_access *claim, size_t bytes, size_t count)
{
    ferryi_claim_is_held();
    ferryi_store *store = claim->store;
    size_t kept = ferryi_min_size(bytes, ferryi_claimed_bytes(store));
    ferryi_places places = places_to_keep(store, kept);
    ferryi_store *fresh = NULL;
    ferry_status status = FERRY_OK;
    /* A buffer that shrinks keeps its memory. */
    if (bytes > ferryi_claimed_bytes(store))
        status = copy_for(store, bytes, kept, places, &fresh);
    ferryi_store_lock(store);
    const char *why = status == FERRY_OK ? why_not(store) : NULL;
    if (status == FERRY_OK && !why)
        change_length(store, claim->slot, bytes, count, fresh, places);
    ferryi_store_unlock(store);
    if (fresh && !why)
        ferryi_checked_gone(store->context, ferryi_claimed_copy(fresh, 0)->pointer,
                            "was moved by resize since");
    if (fresh)
        ferryi_store_release(fresh);
    return status == FERRY_OK ? refuse(store, why) : status;
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
    if (!ferryi_mul_size(count, buffer->element_bytes, &bytes) ||
        bytes > store->context->buffer_bytes_limit || bytes > PTRDIFF_MAX)
        return ferryi_fail(
            FERRY_ERROR_OVERFLOW,
            "resize buffer \"%s\" to %zu elements of %u bytes: above the limit of %zu bytes",
            ferryi_store_name(store), count, buffer->element_bytes,
            store->context->buffer_bytes_limit);
    struct ferryi_access claim = {.store = store,
                                  .whole = true,
                                  .access = FERRY_OVERWRITE,
                                  .place = FERRYI_PLACE_NONE,
                                  .reason = "resize"};
    status = ferryi_access_open(&claim, 1);
    if (status != FERRY_OK)
        return status;
    status = resize_claimed(&claim, bytes, count);
    (void)ferryi_access_close(&claim, FERRYI_CLOSE_CANCEL, NULL);
    return status;
}
