/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_SCOPE_HIT_H
#define FERRYI_BUFFER_SCOPE_HIT_H

/*
 * The hit path of READ scopes, under the plain lock of the store. Scopes (scope.c) and leases (lease.c) compile it into their own
 * functions, so that neither makes a call for it.
 */

#include "src/buffer/buffer.h"
#include "src/buffer/claim.h"
#include "src/buffer/scope.h"

/* The bytes of a range of the handle; false when it is empty, or not inside. */
FERRYI_INLINE bool
ferryi_scope_range(const ferry_buffer *buffer, size_t offset, size_t count, struct ferryi_range *out)
{
    size_t all = ferryi_buffer_count(buffer), left = all - offset;
    size_t elements = count == FERRY_REST ? left : count;
    if (offset >= all || elements - 1 >= left)
        return false;
    out->begin = buffer->offset + offset * buffer->element_bytes;
    out->end = out->begin + elements * buffer->element_bytes;
    return true;
}

/* Whoever asks for the rest of a buffer goes by its count while the scope is open, so that the scope must reach as far. */
FERRYI_INLINE bool
ferryi_scope_goes_to_end(const ferry_buffer *buffer, size_t count)
{
    return count == FERRY_REST && buffer == &buffer->store->first;
}

/* A resize may have come since the range was found. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_still_fits(const ferryi_store *store, struct ferryi_range range, bool to_end)
{
    return to_end ? range.end == store->map.bytes : range.end <= store->map.bytes;
}

/* ferryi_store_copy() at the lane's place. */
FERRYI_INLINE struct ferryi_place_copy *
ferryi_scope_copy(ferryi_store *store, const ferryi_lane *lane)
{
    return &store->copies[(store->shared & lane->place_bit) ? 0 : (unsigned)lane->place];
}

/*
 * The commonest case by far: a READ of a buffer whose bytes all have one set of places, with nobody writing. It calls nothing, and what it leaves
 * to others needs little of what it was given, so that the compiler saves few registers. `lane` is NULL, the host, or plain.
 */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_open_read(ferryi_store *store, struct ferryi_range range, bool to_end, ferryi_lane *lane, struct ferryi_scope *scope, void **out)
{
    int place = lane ? lane->place : FERRY_PLACE_HOST;
    /* A place that holds bytes has memory for them. */
    const struct ferryi_place_copy *copy = lane ? ferryi_scope_copy(store, lane) : &store->copies[0];
    ferryi_stamp written = copy->written;
    uint32_t slot = store->claim_high;
    bool hit = (store->map.whole & (lane ? lane->place_bit : FERRYI_PLACE_BIT(FERRY_PLACE_HOST))) && ferryi_scope_still_fits(store, range, to_end) &&
               store->write_claims == 0 && slot < store->claim_capacity &&
               (written == 0 || (lane && ferryi_lane_has_seen(lane, written)) || ferryi_stamp_is_done(&store->context->order, written));
    if (hit) {
        struct ferryi_claim *claim = &store->claims[slot];
        uint64_t id = ++store->next_id;
        store->claim_counts += FERRYI_CLAIM_ONE;
        claim->begin = range.begin;
        claim->end = range.end;
        claim->id = id;
        claim->lane = lane;
        claim->kind = ferryi_claim_kind(FERRY_READ, place, FERRYI_CLAIM_HELD);
        if (lane)
            claim->generation = lane->generation;
        scope->store = store;
        scope->id = id;
        scope->slot = slot;
        *out = (char *)copy->pointer + range.begin;
    }
    return hit;
}

/* All but the range. */
FERRYI_INLINE bool
ferryi_scope_arguments_fit(const ferry_buffer *buffer, const ferry_element *element, const struct ferryi_scope *scope, void *const *out)
{
    return buffer && element && scope && out && element->identity == buffer->identity;
}

/* Under the lock: may the use be stamped right here? Not on streams that need a driver call for it. */
FERRYI_INLINE bool
ferryi_scope_stamps_freely(const struct ferryi_claim *claim, const struct ferryi_place_copy *copy)
{
    const ferryi_lane *lane = claim->lane;
    return lane->bit && !copy->eager && lane->generation == claim->generation &&
           !atomic_load_explicit(&lane->retired, memory_order_relaxed);
}

/* Under the lock: close a READ that nobody shares, of the host or of a lane that was used since its last event. */
FERRYI_INLINE bool
ferryi_scope_close_read(ferryi_store *store, struct ferryi_claim *claim)
{
    ferryi_lane *lane = claim->lane;
    if (claim->access != FERRY_READ || claim->shares != 1)
        return false;
    if (!lane)
        return true;
    struct ferryi_place_copy *copy = ferryi_scope_copy(store, lane);
    if (!ferryi_scope_stamps_freely(claim, copy) || !ferryi_lane_is_stamped(lane))
        return false;
    if (!(copy->readers & lane->bit))
        copy->readers |= lane->bit;
    return true;
}

#endif
