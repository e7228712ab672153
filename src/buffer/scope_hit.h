/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_SCOPE_HIT_H
#define FERRYI_BUFFER_SCOPE_HIT_H

/*
 * The hit path: the fast path that opens and closes scopes. All functions in this file are called
 * with the buffer locked by ferryi_store_lock_plain(). scope.c and lease.c inline these functions
 * to avoid a call.
 */

#include "src/buffer/buffer.h"
#include "src/buffer/scope.h"
#include "src/store/claim.h"

/* Returns the buffer's replica at the place of the timeline, as ferryi_store_copy() does. */
FERRYI_INLINE struct ferryi_place_copy *
ferryi_scope_copy(ferryi_store *store, const ferryi_timeline *timeline)
{
    struct ferryi_place_copy *copy =
        &store->copies[__builtin_expect((store->shared & timeline->place_bit) != 0, 0)
                           ? 0
                           : (unsigned)timeline->place];
    /* Keeps the address in a register, which the compiler would compute again at each use. */
    __asm__("" : "+r"(copy));
    return copy;
}

/* Returns whether later work on the timeline is known to run after the replica's last write. A
 * timeline of NULL means the host. Makes no driver call. Called under the buffer's lock. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_can_read(const ferryi_store *store, const struct ferryi_place_copy *copy,
                      const ferryi_timeline *timeline)
{
    ferryi_sync_point written = copy->written;
    return (timeline && ferryi_timeline_has_seen(timeline, written)) || written == 0 ||
           ferryi_sync_point_is_done(&store->context->order, written);
}

/* Returns whether later work on the timeline is known to run after the reads of the replica, as
 * ferryi_copy_reads_are_ordered() does. Returns false if they were on several timelines, because
 * the comparison of sets takes a call. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_reads_are_ordered(const ferryi_store *store, const struct ferryi_place_copy *copy,
                               const ferryi_timeline *timeline)
{
    if (copy->reads == 0)
        return true;
    const ferryi_sync_point read = ferryi_copy_uses(copy).read;
    return read && ((timeline && ferryi_timeline_has_seen(timeline, read)) ||
                    ferryi_sync_point_is_done(&store->context->order, read));
}

/* Fills in the claim (range lock) in the free entry `slot` of the table, and the scope. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE void
ferryi_scope_fill(ferryi_store *store, uint32_t slot, size_t begin, size_t end, uint64_t kind,
                  struct ferryi_place_copy *copy, ferryi_timeline *timeline,
                  struct ferryi_scope *scope, void **out)
{
    struct ferryi_claim *claim = &store->claims[slot];
    uint64_t id = ++store->next_id;
    store->claim_counts += FERRYI_CLAIM_ONE;
    claim->begin = begin;
    claim->end = end;
    claim->id = id;
    claim->timeline = timeline;
    claim->kind = kind;
    if (timeline) {
        claim->copy = copy;
        claim->generation = timeline->generation;
    }
    scope->store = store;
    scope->id = id;
    scope->slot = slot;
    *out = (char *)copy->pointer + begin;
}

/* Returns the buffer's replica at the place of the timeline if the bytes of the whole buffer are
 * current there, and if later work on the timeline runs after their last write. Otherwise returns
 * NULL. The replica has memory. Called under the buffer's lock. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE struct ferryi_place_copy *
ferryi_scope_current_copy(ferryi_store *store, const ferryi_timeline *timeline)
{
    if (!(store->map.whole & (timeline ? timeline->place_bit : FERRYI_PLACE_BIT(FERRY_PLACE_HOST))))
        return NULL;
    struct ferryi_place_copy *copy =
        timeline ? ferryi_scope_copy(store, timeline) : &store->copies[0];
    return ferryi_scope_can_read(store, copy, timeline) ? copy : NULL;
}

/* Opens a READ while no write is open. Returns false and changes nothing if the range is empty or
 * out of bounds, or if the table of claims is full. Called under the buffer's lock. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_add_read(const ferry_buffer *buffer, ferryi_store *store, size_t offset, size_t count,
                      struct ferryi_place_copy *copy, ferryi_timeline *timeline,
                      struct ferryi_scope *scope, void **out)
{
    size_t all = atomic_load_explicit(&buffer->count, memory_order_relaxed);
    size_t last = all;
    uint32_t slot = store->claim_high;
    if (store->write_claims > 0)
        return false;
    if (count != FERRY_REST) {
        last = offset + count;
        if (last > all)
            return false;
    }
    /* If offset + count overflowed, `last` is less than `offset`, so the range is refused here. */
    if (offset >= last || slot >= store->claim_capacity)
        return false;
    ferryi_scope_fill(store, slot, buffer->offset + offset * buffer->element_bytes,
                      buffer->offset + last * buffer->element_bytes,
                      ferryi_claim_kind(FERRY_READ, timeline ? timeline->place : FERRY_PLACE_HOST,
                                        FERRYI_CLAIM_HELD, 0),
                      copy, timeline, scope, out);
    return true;
}

/* Opens a write of all elements of a buffer that is not a view, while nothing else is open. The
 * write changes the valid map as a whole, so its claim (range lock) reserves no room there. Returns
 * false and changes nothing in all other cases. Called under the buffer's lock. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_add_write(const ferry_buffer *buffer, ferryi_store *store, ferry_access access,
                       size_t offset, size_t count, struct ferryi_place_copy *copy,
                       ferryi_timeline *timeline, struct ferryi_scope *scope, void **out)
{
    if (store->claim_counts != 0 || store->scrub || !store->claims || offset != 0 ||
        buffer != &store->first ||
        (count != FERRY_REST &&
         count != atomic_load_explicit(&buffer->count, memory_order_relaxed)) ||
        !ferryi_buffer_allows(buffer, access) ||
        !ferryi_scope_reads_are_ordered(store, copy, timeline))
        return false;
    store->write_claims = 1;
    ferryi_scope_fill(store, 0, 0, store->map.bytes,
                      ferryi_claim_kind(access, timeline ? timeline->place : FERRY_PLACE_HOST,
                                        FERRYI_CLAIM_HELD, FERRYI_CLAIM_SPENT),
                      copy, timeline, scope, out);
    return true;
}

/*
 * The fast path of the most common cases: the bytes of the whole buffer are current at the place,
 * and the access is a READ, or a write of the whole buffer. Returns false and changes nothing in
 * all other cases. All called functions are inlined, and the slow path needs few arguments. So the
 * compiled code pushes few registers onto the stack.
 *
 * `timeline` is NULL for the host. If it is not NULL, it must have a number in the context's table
 * and must not be a per-thread stream's timeline. The range is checked under the lock. A resize
 * needs the same lock, so the checked range stays valid.
 */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_open_current(const ferry_buffer *buffer, ferryi_store *store, ferry_access access,
                          size_t offset, size_t count, ferryi_timeline *timeline,
                          struct ferryi_scope *scope, void **out)
{
    struct ferryi_place_copy *copy = ferryi_scope_current_copy(store, timeline);
    if (!copy)
        return false;
    return access == FERRY_READ
               ? ferryi_scope_add_read(buffer, store, offset, count, copy, timeline, scope, out)
               : ferryi_scope_add_write(buffer, store, access, offset, count, copy, timeline, scope,
                                        out);
}

/* Checks all arguments except the range. */
FERRYI_INLINE bool
ferryi_scope_arguments_fit(const ferry_buffer *buffer, const ferry_element *element,
                           const struct ferryi_scope *scope, void *const *out)
{
    return buffer && element && scope && out && element->identity == buffer->identity;
}

/* Returns whether a range that was computed earlier still fits the buffer. A resize may have
 * changed the buffer's length since then. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_fits(const ferryi_store *store, struct ferryi_range range, bool to_end)
{
    return to_end ? range.end == store->map.bytes : range.end <= store->map.bytes;
}

/* Opens a scope for a write while no other claim (range lock) is open, or for a read while only
 * reads are open. The range is not empty, and the handle allows the access. `timeline` is NULL for
 * the host, or a timeline with a number in the context's table. Returns false and changes nothing
 * if a transfer, an allocation or a wait is needed. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_open_locked(ferryi_store *store, struct ferryi_range range, bool to_end,
                         ferry_access kind, int place, ferryi_timeline *timeline,
                         struct ferryi_scope *scope, void **out)
{
    uint32_t slot = ferryi_access_free_slot(store);
    bool hit = slot < store->claim_capacity && ferryi_scope_fits(store, range, to_end) &&
               ferryi_access_is_hit(store, range.begin, range.end, (uint8_t)kind, place, timeline);
    /* A write of the whole buffer needs no room in the valid map. */
    bool whole = range.begin == 0 && range.end == store->map.bytes;
    if (kind == FERRY_READ)
        hit = hit && store->write_claims == 0;
    else
        hit = hit && store->claim_count == 0 &&
              (whole || ferryi_valid_map_reserve(&store->map, 1, NULL));
    if (hit) {
        struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
        *out = (char *)copy->pointer + range.begin;
        scope->store = store;
        scope->slot = slot;
        scope->id = ferryi_access_fill_claim(store, slot, range.begin, range.end, (uint8_t)kind,
                                             place, timeline, FERRYI_CLAIM_HELD);
        store->claims[slot].copy = copy;
        if (kind != FERRY_READ && whole)
            store->claims[slot].flags = FERRYI_CLAIM_SPENT;
    }
    return hit;
}

/* Returns whether the scope's use of the replica can be recorded without a driver call. This is not
 * possible if the close must record an event, or if the timeline is no longer alive. Called under
 * the lock. */
FERRYI_INLINE bool
ferryi_scope_notes_freely(const struct ferryi_claim *claim, const ferryi_timeline *timeline,
                          const struct ferryi_place_copy *copy)
{
    return !copy->eager && atomic_load_explicit(&timeline->live_generation, memory_order_relaxed) ==
                               claim->generation;
}

/* Records the end of a READ. A READ by a device is recorded only if its timeline has noted a use of
 * memory since the last event on the timeline. Returns false for all other scopes, and if the
 * record needs a driver call. After a success, the caller removes the claim. Called under the
 * buffer's lock. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_close_read(struct ferryi_claim *claim)
{
    ferryi_timeline *timeline = claim->timeline;
    if (claim->access != FERRY_READ)
        return false;
    if (!timeline)
        return true;
    struct ferryi_place_copy *copy = claim->copy;
    ferryi_sync_point point;
    if (!timeline->bit || !ferryi_timeline_noted_point(timeline, &point) ||
        !ferryi_scope_notes_freely(claim, timeline, copy))
        return false;
    ferryi_copy_add_read(copy, point);
    return true;
}

/* Commits a write that ferryi_scope_add_write() has opened on `timeline`, if nothing else has used
 * the buffer since then. The write was ordered after all uses of the replica when it was opened, so
 * it still is. Returns false for all other scopes, and if the record needs a driver call. After a
 * success, the caller removes the claim (range lock). Called under the buffer's lock. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_close_whole(ferryi_store *store, const struct ferryi_claim *claim,
                         const ferryi_timeline *timeline)
{
    if (claim->flags != FERRYI_CLAIM_SPENT || store->claim_count != 1 || !store->map.whole)
        return false;
    if (timeline) {
        struct ferryi_place_copy *copy = claim->copy;
        ferryi_sync_point point;
        if (!ferryi_timeline_noted_point(timeline, &point) ||
            !ferryi_scope_notes_freely(claim, timeline, copy))
            return false;
        copy->written = point;
        copy->reads = 0;
        copy->reads_follow = true;
    }
    store->map.whole = timeline ? timeline->place_bit : FERRYI_PLACE_BIT(FERRY_PLACE_HOST);
    return true;
}

/* Closes a READ scope on a timeline that has noted no use of memory since its last event. This
 * function notes such a use first, because ferryi_scope_close_read() alone refuses to close the
 * scope. `claim` is the claim (range lock) of a READ. Returns false if the close needs a driver
 * call. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_close_first_read(struct ferryi_claim *claim)
{
    if (!claim->timeline || !claim->timeline->bit ||
        !ferryi_scope_notes_freely(claim, claim->timeline, claim->copy))
        return false;
    ferryi_timeline_sync_point(claim->timeline);
    return ferryi_scope_close_read(claim);
}

/* Commits a write if this needs no driver call, and returns whether it was committed. The commit
 * uses the room that the opening of the scope reserved in the valid map, so it cannot fail for lack
 * of memory. After a success, the caller removes the claim (range lock). Called under the buffer's
 * lock. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_close_write(ferryi_store *store, struct ferryi_claim *claim)
{
    const ferryi_order *order = &store->context->order;
    struct ferryi_place_copy *copy = ferryi_store_copy(store, claim->place);
    ferryi_timeline *timeline = claim->timeline;
    if (timeline && (!timeline->bit || !ferryi_scope_notes_freely(claim, timeline, claim->copy) ||
                     !ferryi_sync_point_is_ordered(order, timeline, copy->written)))
        return false;
    ferryi_claim_commit(store, claim, claim->place, FERRYI_CHANGE_WRITE);
    if (timeline)
        ferryi_store_set_written(store, copy, timeline, ferryi_timeline_sync_point(timeline));
    return true;
}

/* Closes a scope that the function ferryi_scope_close_read() cannot close. Returns false and
 * changes nothing if a driver call is needed. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE bool
ferryi_scope_close_locked(ferryi_store *store, struct ferryi_claim *claim)
{
    return claim->access == FERRY_READ ? ferryi_scope_close_first_read(claim)
                                       : ferryi_scope_close_write(store, claim);
}

#endif
