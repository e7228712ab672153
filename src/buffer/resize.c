/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/buffer/lease.h"
#include "src/move/move.h"
#include "src/store/claim.h"
#include "src/store/watch.h"

/*
 * Resizes buffers. To lengthen a buffer, first allocates new memory at every place that has current
 * bytes, and copies these bytes to it, unless the replica can become longer where it is. The buffer
 * itself is changed only afterwards, so a resize that fails leaves the buffer unchanged.
 */

/* Makes the replicas at `places` longer at their addresses where the memory behind them is free, so
 * that none of their bytes is copied. Returns the places of these replicas. They can stay so if the
 * resize fails. */
static ferryi_places
extend(ferryi_store *store, size_t bytes, ferryi_places places)
{
    ferryi_claim_is_held();
    ferryi_places extended = 0;
    for (int place = 0; place <= store->context->place_count; place++) {
        if (!(places >> place & 1) || ferryi_store_home(store, place) != place)
            continue;
        ferryi_store_lock(store);
        ferry_block *block = store->copies[place].block; /* the claim keeps it there */
        ferryi_store_unlock(store);
        ferry_block *longer =
            block && !store->context->debug ? ferryi_block_extend(block, bytes) : NULL;
        if (!longer)
            continue;
        extended |= FERRYI_PLACE_BIT(place);
        if (longer == block)
            continue;
        ferryi_store_lock(store);
        store->copies[place].block = longer;
        ferryi_store_unlock(store);
        ferryi_block_retire(block);
    }
    return extended;
}

/* Allocates blocks of `bytes` bytes for the replicas at `places`, and copies the first `kept` bytes
 * of the replicas to them. The blocks that were allocated before a failure stay in `fresh`. Sets
 * `*out_failed` to the place at which it failed. */
static ferry_status
copy_for(ferryi_store *store, size_t bytes, size_t kept, ferryi_places places,
         struct ferryi_place_copy *fresh, int *out_failed)
{
    ferryi_claim_is_held();
    ferry_status status = FERRY_OK;
    for (int place = 0; place <= store->context->place_count && status == FERRY_OK; place++) {
        struct ferryi_place_copy *copy = &fresh[ferryi_store_home(store, place)];
        if (!(places >> place & 1) || copy->block)
            continue;
        *out_failed = place;
        status = ferryi_store_take(store, place, bytes, NULL, copy);
        if (status == FERRY_OK)
            status =
                ferryi_move_to_block(store, place, (struct ferryi_range){0, kept}, "resize", copy);
    }
    return status;
}

/* Returns the reason why the buffer cannot be resized, or NULL if it can. */
FERRYI_REQUIRES(ferryi_store_spin)
static const char *
why_not(const ferryi_store *store)
{
    const char *why = NULL;
    for (int place = 0; place <= store->context->place_count; place++)
        if (store->copies[place].pins > 0)
            why = "its copy is held";
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
    /* A lease prevents the resize. If it did not, the lease would have to keep the old memory. The
     * program could then not know which memory the lease uses. */
    FERRYI_OR_RETURN(ferryi_leases_check_none(store, FERRYI_PLACE_NONE, "resize"));
    ferryi_store_lock(store);
    const char *why = why_not(store);
    ferryi_store_unlock(store);
    return refuse(store, why);
}

/* Changes the length, the valid map and the replicas of a buffer together. This cannot fail,
 * because the claim in `slot` has reserved the room that the change needs in the valid map. The
 * buffer takes the replicas in `fresh`, and `fresh` receives the old replicas. The buffer keeps the
 * replicas at the places `kept`, and all of them if `fresh` is NULL. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
change_length(ferryi_store *store, uint32_t slot, size_t bytes, size_t count,
              struct ferryi_place_copy *fresh, ferryi_places places, ferryi_places kept)
{
    for (int place = 0; fresh && place <= store->context->place_count; place++) {
        if (kept >> place & 1)
            continue;
        struct ferryi_place_copy old = store->copies[place];
        store->copies[place] = fresh[place];
        fresh[place] = old;
    }
    if (fresh)
        store->exists &= places;
    store->claims[slot].flags |= FERRYI_CLAIM_SPENT;
    ferryi_valid_map_resize(&store->map, bytes);
    atomic_store_explicit(&store->first.count, count, memory_order_relaxed);
}

/* Frees the replica at a device, whose own bytes go to the host first. Returns false if that fails,
 * or if the program has begun to hold the replica. */
static bool
give_replica_up(ferryi_store *store, int place)
{
    FERRYI_KEEP_ERROR(why);
    if (ferryi_store_same_memory(store, place, FERRY_PLACE_HOST) ||
        ferryi_move_only_at(store, (struct ferryi_range){0, SIZE_MAX}, place, FERRY_PLACE_HOST,
                            "resize") != FERRY_OK)
        return false;
    struct ferryi_place_copy gone = {0};
    ferryi_store_lock(store);
    /* The claim locks all bytes but does not prevent other threads from adding a pin. */
    bool held = store->copies[place].pins > 0;
    if (!held) {
        ferryi_valid_map_commit_whole(&store->map, place, FERRYI_CHANGE_FORGET);
        gone = ferryi_store_detach(store, place);
    }
    ferryi_store_unlock(store);
    ferryi_store_give_back(store->context, &gone);
    return !held;
}

/* Makes the longer replicas at all places that have some of the first `kept` bytes: in place where
 * that is possible, and otherwise in `fresh`. Where a device
 * has no memory for the old and the new replica together, its bytes go to the host, and it gets a
 * replica at its next use. Sets `*out_places` to the places of the longer replicas, and
 * `*out_extended` to those of them that are at their old addresses. */
static ferry_status
make_longer(ferryi_store *store, size_t bytes, size_t kept, struct ferryi_place_copy *fresh,
            ferryi_places *out_places, ferryi_places *out_extended)
{
    const struct ferryi_range range = {0, kept};
    for (;;) {
        int failed = 0;
        *out_places = ferryi_store_validity(store, range).any;
        *out_extended = extend(store, bytes, *out_places);
        ferry_status status =
            copy_for(store, bytes, kept, *out_places & ~*out_extended, fresh, &failed);
        if (status != FERRY_ERROR_OUT_OF_MEMORY)
            return status;
        for (int place = 0; place <= store->context->place_count; place++)
            ferryi_store_give_back(store->context, &fresh[place]);
        if (!give_replica_up(store, failed))
            return status;
    }
}

/* Resizes a buffer. The caller has locked all bytes with a claim, so no other call can change the
 * length. Views and pins can be added without a claim. So this function checks under the lock that
 * there are none. */
static ferry_status
resize_claimed(const struct ferryi_access *claim, size_t bytes, size_t count)
{
    ferryi_claim_is_held();
    ferryi_store *store = claim->store;
    size_t kept = ferryi_min_size(bytes, ferryi_claimed_bytes(store));
    ferryi_places places = 0, extended = 0;
    struct ferryi_place_copy fresh[FERRYI_DEVICES_MAX + 1] = {0};
    /* A buffer that shrinks keeps its memory. */
    bool grows = bytes > ferryi_claimed_bytes(store);
    ferry_status status =
        grows ? make_longer(store, bytes, kept, fresh, &places, &extended) : FERRY_OK;
    ferryi_store_lock(store);
    const char *why = status == FERRY_OK ? why_not(store) : NULL;
    if (status == FERRY_OK && !why)
        change_length(store, claim->slot, bytes, count, grows ? fresh : NULL, places, extended);
    ferryi_store_unlock(store);
    if (status == FERRY_OK && !why)
        ferryi_watch_gone(store->context, fresh[0].pointer, "was moved by resize since");
    for (int place = 0; place <= store->context->place_count; place++)
        ferryi_store_give_back(store->context, &fresh[place]);
    return status == FERRY_OK ? refuse(store, why) : status;
}

ferry_status
ferry_buffer_resize(ferry_buffer *buffer, size_t count)
{
    struct ferryi_range range;
    size_t bytes;
    ferry_status status =
        ferryi_buffer_check(buffer, NULL, FERRY_UPDATE, 0, FERRY_REST, "resize", &range);
    if (status == FERRY_OK)
        status = check_resizable(buffer);
    if (status != FERRY_OK || count == ferryi_buffer_count(buffer))
        return status;
    ferryi_store *store = buffer->store;
    if (!ferryi_mul_size(count, buffer->element_bytes, &bytes) || bytes > PTRDIFF_MAX)
        return ferryi_fail(
            FERRY_ERROR_OVERFLOW,
            "resize buffer \"%s\" to %zu elements of %u bytes: more bytes than a size can count",
            ferryi_store_name(store), count, buffer->element_bytes);
    if (bytes > store->context->buffer_bytes_limit)
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
    FERRYI_OR_RETURN(ferryi_access_open(&claim, 1));
    status = resize_claimed(&claim, bytes, count);
    (void)ferryi_access_close(&claim, FERRYI_CLOSE_CANCEL, NULL);
    return status;
}
