/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ACCESS_H
#define FERRYI_ACCESS_H

/*
 * One access: a range of a store, at a place, for work on a lane. Everything that touches a buffer's bytes goes through these steps:
 *
 *   claim     conflicts are found, the range is taken; BUSY at once, internal work is waited for
 *   prepare   memory is reserved, what the range lacks is moved, the lane is ordered after earlier uses
 *   close     a write is committed to the map, the use is noted, the claim goes
 *
 * ferryi_access_open() does the first two for several accesses: all or none. Ranges of one store in one list must not
 * overlap if one writes: merge them first.
 *
 * A launch: fill one ferryi_access per merged range with access, place and lane of the stream, `user` false; open; use `pointer`; queue the work on
 * the lane; close each with FERRYI_CLOSE_COMMIT, or FERRYI_CLOSE_CANCEL when the launch was refused.
 */

#include "src/buffer/store.h"

struct ferryi_access {
    /* in */
    ferryi_store *store;
    size_t begin, end;  /* bytes, begin < end */
    uint8_t access;     /* ferry_access, or FERRYI_ACCESS_DROP */
    uint8_t place;      /* or FERRYI_PLACE_NONE: claim only, nothing is prepared */
    bool user;          /* a scope of the user: others fail with BUSY; else they wait */
    bool writes_all;    /* the call itself writes every byte that it commits: there is nothing to scrub */
    ferryi_lane *lane;  /* NULL: the host's own use */
    const char *reason; /* for traces and messages, such as "read_device" */
    /* out */
    void *pointer;      /* of byte `begin` in the copy */
    uint64_t id;
    uint32_t slot;
};

/*
 * Merge overlapping ranges of one store, sorted as claims are taken: `merged` has room for `count`, `group[i]` tells where wanted[i] went.
 * READ with a write, and OVERWRITE with UPDATE, is UPDATE. @return how many are left
 */
size_t ferryi_access_merge(const struct ferryi_access *wanted, size_t count, struct ferryi_access *merged, size_t *group);

enum ferryi_close {
    FERRYI_CLOSE_COMMIT,  /* a write counts now; a read is noted */
    FERRYI_CLOSE_ABANDON, /* a write may have scribbled: the place leaves where others hold the value; the use is noted */
    FERRYI_CLOSE_CANCEL   /* nothing was queued: the map and the stamps stay as they are */
};

/* Sorts `list` by store and range. */
ferry_status ferryi_access_open(struct ferryi_access *list, size_t count);

/* The two halves, for calls that go on in another thread. After a failing prepare the claims are gone. */
ferry_status ferryi_access_claim(struct ferryi_access *list, size_t count);
ferry_status ferryi_access_prepare(struct ferryi_access *list, size_t count);

/* Close one. `lane` is where the last use was queued (usually the access's own; NULL for the host). */
ferry_status ferryi_access_close(struct ferryi_access *access, enum ferryi_close how, ferryi_lane *lane);
/* Close a write of which only [begin, done_end) arrived: that part is committed. */
ferry_status ferryi_access_close_part(struct ferryi_access *access, size_t done_end, ferryi_lane *lane);

/* The copy at `place` from byte `begin`, as the engine takes it. */
struct ferryi_memory ferryi_access_memory(ferryi_store *store, int place, size_t begin);
/* Note a transfer of the engine, queued on `lane` until now, between copies of two stores (or of one). */
void ferryi_access_note_transfer(ferryi_store *target, int target_place, ferryi_store *source, int source_place, ferryi_lane *lane);
/* Note the loss when a transfer that involves `place` failed with DEVICE_LOST; returns `status`. */
ferry_status ferryi_access_note_loss(ferryi_store *store, int place, ferry_status status);

/* Block until the calls that are under way on the store now, asynchronous ones too, have ended. Scopes are not waited for. */
void ferryi_access_wait_calls(ferryi_store *store);
/* The failure of reading bytes whose value was lost. */
ferry_status ferryi_access_fail_lost(const struct ferryi_access *access);

/* -- for the hit path (scope.c): all under the lock ------------------------------------------------ */

/* May `access` at `place` on `lane` go on beside the open claims? */
enum ferryi_conflict { FERRYI_CONFLICT_NONE, FERRYI_CONFLICT_WAIT, FERRYI_CONFLICT_BUSY };
enum ferryi_conflict ferryi_access_conflict(ferryi_store *store, const struct ferryi_access *access, bool is_hit);

/* True when nothing must be moved, reserved or waited for. */
FERRYI_INLINE bool
ferryi_access_is_hit(ferryi_store *store, size_t begin, size_t end, uint8_t access, int place, const ferryi_lane *lane)
{
    const ferryi_order *order = &store->context->order;
    const struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    if (!copy->pointer || !(store->exists & FERRYI_PLACE_BIT(place)))
        return false;
    if (access == FERRY_OVERWRITE) {
        if (store->scrub)
            return false;
    } else if (!ferryi_valid_map_holds_fast(&store->map, place) && !ferryi_valid_map_holds(&store->map, place, begin, end)) {
        return false;
    }
    if (copy->written && !ferryi_stamp_is_ordered(order, lane, copy->written))
        return false;
    return access == FERRY_READ || copy->readers == 0 || ferryi_lanes_are_ordered(order, lane, copy->readers);
}

/* A free slot, or the capacity when the table is full. */
FERRYI_INLINE uint32_t
ferryi_access_free_slot(const ferryi_store *store)
{
    if (store->claim_count == store->claim_high)
        return store->claim_high;
    uint32_t slot = 0;
    while (store->claims[slot].state != FERRYI_CLAIM_FREE)
        slot++;
    return slot;
}

FERRYI_INLINE uint64_t
ferryi_claim_kind(uint8_t access, int place, enum ferryi_claim_state state)
{
    union ferryi_claim_kind all = {.each = {.access = access, .place = (uint8_t)place, .state = (uint8_t)state, .shares = 1}};
    return all.kind;
}

/* Fill a free slot; returns the claim's id. Streams without a number add their thread, and are held, by the caller. */
FERRYI_INLINE uint64_t
ferryi_access_fill_claim(ferryi_store *store, uint32_t slot, size_t begin, size_t end, uint8_t access, int place,
                         ferryi_lane *lane, enum ferryi_claim_state state)
{
    struct ferryi_claim *claim = &store->claims[slot];
    if (slot == store->claim_high)
        store->claim_high++;
    store->claim_count++;
    if (access != FERRY_READ)
        store->write_claims++;
    claim->begin = begin;
    claim->end = end;
    claim->lane = lane;
    claim->kind = ferryi_claim_kind(access, place, state);
    if (lane) {
        claim->generation = lane->generation;
        claim->thread = lane->by_thread ? ferryi_thread_id() : 0;
    }
    return claim->id = ++store->next_id;
}

/* What is above the last open slot is free; a hole below it is found again when the table is empty, or by looking. */
FERRYI_INLINE void
ferryi_access_free_claim(ferryi_store *store, struct ferryi_claim *claim, uint32_t slot)
{
    claim->kind = 0;
    claim->id = 0;
    if (--store->claim_count == 0)
        store->claim_high = 0;
    else if (slot + 1 == store->claim_high)
        store->claim_high = slot;
}

FERRYI_INLINE void
ferryi_access_remove_claim(ferryi_store *store, uint32_t slot)
{
    struct ferryi_claim *claim = &store->claims[slot];
    if (claim->access != FERRY_READ)
        store->write_claims--;
    ferryi_access_free_claim(store, claim, slot);
}

#endif
