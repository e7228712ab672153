/* SPDX-License-Identifier: MIT */
#include "src/buffer/access.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hold.h"
#include "src/buffer/buffer.h"
#include "src/move/bring.h"
#include "src/store/claim.h"
#include "src/store/pending_calls.h"
#include "src/store/watch.h"
#include "src/transfer/engine.h"

/* Smallest upload for which a replica that is in use gets other memory. Smaller ones gain less than
 * the other memory costs. Builds that check themselves do so with small buffers, too, because their
 * tests have mostly these. */
#ifdef FERRYI_DEBUG_CHECKS
#define REPLACED_FROM ((size_t)1)
#else
#define REPLACED_FROM ((size_t)64 << 10)
#endif

/* This file implements the two main steps of an access to a range of a buffer. "Prepare" copies
 * stale bytes to the place of the access. "Close" records the use of the range and commits a write.
 */

static bool
is_scrubbed(const struct ferryi_access *access)
{
    return access->access == FERRY_OVERWRITE && access->store->scrub &&
           access->place != FERRYI_PLACE_NONE;
}

static ferry_status
scrub(struct ferryi_access *access)
{
    ferryi_claim_is_held();
    FERRYI_OR_RETURN(ferryi_bring_zeros(access));
    ferry_status status = ferryi_store_order(access->store, access->place, access->timeline, true);
    /* The old values are gone, so a wait that the stream cannot make is made by this thread. */
    if (status != FERRY_OK && access->timeline)
        status = ferryi_store_order(access->store, access->place, NULL, true);
    return status;
}

/* Allocates memory for the replica at the place of the access. The caller installs it in the store.
 */
static ferry_status
take_memory(const struct ferryi_access *access, struct ferryi_place_copy *out)
{
    ferryi_claim_is_held();
    return ferryi_store_take(access->store, access->place, ferryi_claimed_bytes(access->store),
                             access->access == FERRY_OVERWRITE ? access->timeline : NULL, out);
}

/* Returns whether the access uploads the whole buffer into memory that work of the program still
 * uses, as far as Ferry knows without asking the driver, and all of whose bytes are stale. No other
 * access of the buffer has begun, so none has an address in this memory. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
replaces_what_is_used(const struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    const struct ferryi_place_copy *copy = ferryi_store_copy(store, access->place);
    const struct ferryi_uses uses = ferryi_store_uses(store, access->place);
    const struct ferryi_segment all = ferryi_valid_map_at(&store->map, 0);
    return access->begin == 0 && access->end == store->map.bytes && all.end == store->map.bytes &&
           ferryi_places_written(all.places) && !(all.places & FERRYI_PLACE_BIT(access->place)) &&
           copy->block && copy->pins == 0 && store->claim_count == 1 &&
           !ferryi_pending_calls_are_pending(store) &&
           ferryi_uses_of_users_are_pending(&store->context->order, &uses);
}

/* Gives the replica other memory, if an upload would have to wait for work that uses the old memory
 * and the pool has memory to spare. The upload then runs beside that work. */
static ferry_status
replace_memory(struct ferryi_access *access)
{
    ferryi_claim_is_held();
    ferryi_store *store = access->store;
    if (access->access == FERRY_OVERWRITE || access->end - access->begin < REPLACED_FROM ||
        ferryi_store_home(store, access->place) == FERRY_PLACE_HOST)
        return FERRY_OK;
    ferryi_store_lock(store);
    bool replaces = replaces_what_is_used(access);
    ferryi_store_unlock(store);
    if (!replaces)
        return FERRY_OK;
    if (access->timeline)
        FERRYI_OR_RETURN(ferryi_timeline_check_own(access->timeline));
    FERRYI_KEEP_ERROR(kept);
    struct ferryi_place_copy fresh = {0}, gone = {0};
    if (ferryi_store_take_spare(store, access->place, access->end, &fresh) != FERRY_OK)
        return FERRY_OK;
    ferryi_store_lock(store);
    if (replaces_what_is_used(access)) {
        gone = ferryi_store_detach(store, access->place);
        (void)ferryi_store_install(store, access->place, &fresh);
    }
    ferryi_store_unlock(store);
    ferryi_store_give_back(store->context, &fresh);
    ferryi_store_give_back(store->context, &gone);
    return FERRY_OK;
}

/* Reads under the lock all that the preparation of an access depends on: whether the access is a
 * hit, which bytes to move, and which uses to wait for. Allocates memory if the place has none. */
static ferry_status
look(struct ferryi_bringing *bringing, bool *out_hit)
{
    struct ferryi_access *access = bringing->access;
    ferryi_store *store = access->store;
    const bool overwrites = access->access == FERRY_OVERWRITE;
    struct ferryi_place_copy fresh = {0};
    struct ferryi_map_supply supply = {0};
    ferry_status status = FERRY_OK;
    bool ready = false, own = !access->timeline;
    if (access->lacks_memory) {
        status = own ? FERRY_OK : ferryi_timeline_check_own(access->timeline);
        own = true;
        if (status == FERRY_OK)
            status = take_memory(access, &fresh);
    } else {
        status = replace_memory(access);
    }
    for (bool first = true; !ready && status == FERRY_OK; first = false) {
        ferryi_store_lock(store);
        if (first)
            ferryi_claim_rely(access);
        *out_hit = ferryi_claim_is_hit(store, access);
        bool has_memory = ferryi_store_install(store, access->place, &fresh);
        ferryi_bring_see_uses(bringing);
        ready = *out_hit ||
                (has_memory && (overwrites || ferryi_bring_plan(bringing, access->begin, &supply)));
        ferryi_store_unlock(store);
        /* If a different thread installed a block first, `fresh` was not used and returns to the
         * pool. */
        ferryi_store_give_back(store->context, &fresh);
        if (!*out_hit && !own)
            status = ferryi_timeline_check_own(access->timeline);
        own = true;
        if (status == FERRY_OK && !ready)
            status = has_memory ? ferryi_map_supply_make(&supply) : take_memory(access, &fresh);
    }
    ferryi_map_supply_free(&supply);
    return status;
}

/* Refuses an access to a replica that is not held, on a stream that is being captured. A graph
 * would use the address of the replica, which is free for other buffers later. Called only in
 * checked runs, because it costs a driver call. */
static ferry_status
check_held(const struct ferryi_access *access)
{
    ferryi_claim_is_held();
    ferryi_store *store = access->store;
    if (!access->timeline || ferryi_store_same_memory(store, access->place, 0))
        return FERRY_OK;
    ferryi_store_lock(store);
    bool is_held = ferryi_store_copy(store, access->place)->pins > 0;
    ferryi_store_unlock(store);
    if (is_held || !ferryi_timeline_is_captured(access->timeline))
        return FERRY_OK;
    return ferryi_fail(
        FERRY_ERROR_UNSUPPORTED,
        "%s buffer \"%s\" on a stream that is being captured into a graph: the "
        "graph would keep an address that may belong to another buffer when it "
        "runs; call hold before the capture and release after the graph's last launch",
        access->reason, ferryi_store_name(store));
}

static ferry_status
prepare_one(struct ferryi_access *access)
{
    ferryi_claim_is_held();
    ferryi_store *store = access->store;
    bool is_hit;
    if (access->place == FERRYI_PLACE_NONE || access->access == FERRYI_ACCESS_DROP)
        return FERRY_OK;
    if (access->timeline && ferryi_timeline_recording(access->timeline))
        return ferryi_timeline_refuse_recording(access->timeline);
    if (access->store->context->debug)
        FERRYI_OR_RETURN(check_held(access));
    struct ferryi_bringing bringing;
    ferryi_bring_begin(&bringing, access);
    ferry_status status = look(&bringing, &is_hit);
    if (status == FERRY_OK && access->relied > 0)
        status = ferryi_store_reserve_changes(store, access->relied);
    if (status != FERRY_OK)
        access->relied = 0;
    if (status == FERRY_OK && !is_hit) {
        status = ferryi_bring_run(&bringing);
        if (status == FERRY_OK)
            status = ferryi_bring_order(&bringing);
        bool replaces = !access->timeline && access->access == FERRY_OVERWRITE &&
                        ferryi_store_same_memory(store, access->place, 0);
        if (status == FERRY_ERROR_DEVICE_LOST && replaces)
            status = ferryi_store_give_host_copy_up(store);
    }
    if (status == FERRY_OK)
        access->pointer =
            (char *)ferryi_claimed_copy(store, access->place)->pointer + access->begin;
    ferryi_bring_end(&bringing);
    return status;
}

/* Zeroes the ranges that will be overwritten. Zeroing destroys the old values, so it is the last
 * step that can fail when a list of accesses is opened. If an earlier step fails, every buffer is
 * unchanged. */
static ferry_status
scrub_all(struct ferryi_access *list, size_t count)
{
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < count && status == FERRY_OK; i++)
        if (is_scrubbed(&list[i]))
            status = scrub(&list[i]);
    if (status == FERRY_OK)
        return FERRY_OK;
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    for (size_t i = 0; i < count; i++)
        (void)ferryi_access_close(&list[i], FERRYI_CLOSE_CANCEL, list[i].timeline);
    ferryi_last_error_restore(&why);
    return status;
}

/* Turns the claim (range lock) of an access into that of an open scope. */
static void
open_scope(struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    ferryi_store_lock(store);
    struct ferryi_claim *claim = &store->claims[access->slot];
    ferryi_claim_end_relied(access, true);
    claim->state = FERRYI_CLAIM_HELD;
    claim->copy = ferryi_store_copy(store, claim->place);
    ferryi_store_unlock_waking(store);
}

ferry_status
ferryi_access_prepare(struct ferryi_access *list, size_t count)
{
    ferry_status status = FERRY_OK;
    size_t prepared = 0;
    ferryi_access_await_kernels(list, count);
    ferryi_hold_begin();
    for (; prepared < count && status == FERRY_OK; prepared++)
        status = prepare_one(&list[prepared]);
    ferryi_hold_end();
    if (status != FERRY_OK) {
        for (size_t i = 0; i < count; i++)
            ferryi_claim_drop(&list[i]);
        return status;
    }
    status = scrub_all(list, count);
    for (size_t i = 0; i < count && status == FERRY_OK; i++)
        if (list[i].user)
            open_scope(&list[i]);
    return status;
}

ferry_status
ferryi_access_open(struct ferryi_access *list, size_t count)
{
    ferry_status status = ferryi_access_claim(list, count);
    return status == FERRY_OK ? ferryi_access_prepare(list, count) : status;
}

/* -- closing ----------------------------------------------------------------------------------- */

static void
record_early(ferryi_timeline *timeline)
{
    FERRYI_KEEP_ERROR(kept);
    if (ferryi_timeline_flush(timeline) != FERRY_OK)
        ferryi_log(timeline->order->log, FERRY_LOG_DEBUG, "record an event early: %s",
                   ferry_last_error());
}

/* Returns whether the timeline has another open access to the buffer than the one that ends now. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
has_other_access(const ferryi_store *store, const ferryi_timeline *timeline)
{
    unsigned found = 0;
    FERRYI_EACH_CLAIM (store, claim) {
        found += claim->timeline == timeline;
        if (found == 2)
            return true;
    }
    return false;
}

/* Does what ferryi_access_note_use() does. If an event must be recorded at once (`eager` of struct
 * ferryi_place_copy), records it, or sets `*early` so that the caller records it. */
static ferry_status
note_use(ferryi_store *store, const struct ferryi_claim *claim, ferryi_timeline *timeline,
         bool *early)
{
    int place = claim->place;
    if (!timeline || place == FERRYI_PLACE_NONE || claim->access == FERRYI_ACCESS_DROP)
        return FERRY_OK;
    bool is_own = timeline == claim->timeline;
    ferryi_timeline *on;
    ferry_status status =
        ferryi_timeline_join(timeline, is_own ? claim->thread : ferryi_thread_id(),
                             is_own ? claim->generation : timeline->generation, &on);
    if (!on)
        return status;
    if (ferryi_claim_writes(claim->access))
        ferryi_store_note_write(store, place, on);
    else
        ferryi_store_note_read(store, place, on);

    ferryi_store_lock(store);
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    /* Of several accesses that end one after the other, the last one records the event. */
    bool eager = copy->eager && on == timeline && !timeline->internal &&
                 (store->claim_count == 1 || !has_other_access(store, timeline));
    copy->eager = copy->eager && !eager;
    ferryi_store_unlock(store);
    if (eager && early)
        *early = true;
    else if (eager)
        record_early(timeline);
    return status;
}

ferry_status
ferryi_access_note_use(ferryi_store *store, const struct ferryi_claim *claim,
                       ferryi_timeline *timeline)
{
    return note_use(store, claim, timeline, NULL);
}

/* Returns the change that closing a write makes to the valid map. `how` states whether the write is
 * committed, abandoned or cancelled. */
static enum ferryi_change
change_of(uint8_t access, enum ferryi_close how)
{
    if (how == FERRYI_CLOSE_ABANDON)
        return FERRYI_CHANGE_FORGET;
    return access == FERRY_UPDATE ? FERRYI_CHANGE_WRITE : FERRYI_CHANGE_OVERWRITE;
}

/* Returns the places other than `place` that use the same memory as the replica at `place`. The set
 * is empty if `place` is FERRYI_PLACE_NONE. */
static ferryi_places
other_sharers(const ferryi_store *store, int place)
{
    if (place == FERRYI_PLACE_NONE)
        return 0;
    ferryi_places known = (2u << store->context->place_count) - 1;
    return ferryi_store_sharers(store, place) & known & ~FERRYI_PLACE_BIT(place);
}

static ferry_status
close_one(struct ferryi_access *access, enum ferryi_close how, ferryi_timeline *timeline,
          bool *early)
{
    ferryi_store *store = access->store;
    ferry_status status = FERRY_OK;
    ferryi_store_lock(store);
    struct ferryi_claim claim = store->claims[access->slot];
    ferryi_store_unlock(store);
    bool changes = claim.access == FERRY_UPDATE || claim.access == FERRY_OVERWRITE;
    /* The range was zeroed when this write was opened, so the place has lost the old value.
     * Therefore a cancelled write is closed in the same way as an abandoned one. */
    if (how == FERRYI_CLOSE_CANCEL && claim.access == FERRY_OVERWRITE && is_scrubbed(access))
        how = FERRYI_CLOSE_ABANDON;

    if (how != FERRYI_CLOSE_CANCEL)
        status = note_use(store, &claim, timeline, early);

    /* Records that this write replaced the bytes of its range. If a kernel that was queued before
     * this write fails, these bytes are then not marked as lost. Nothing is recorded if a later
     * scope or launch on the same stream has already committed this write. */
    if (claim.access == FERRY_OVERWRITE && claim.place != FERRYI_PLACE_NONE &&
        how == FERRYI_CLOSE_COMMIT && !(claim.flags & FERRYI_CLAIM_SEEN) && !access->is_launch)
        ferryi_pending_calls_overwritten(store, claim.place, claim.begin, claim.end);

    ferryi_places scribbled =
        changes && how == FERRYI_CLOSE_ABANDON ? other_sharers(store, claim.place) : 0;
    bool room = scribbled && ferryi_store_reserve_changes(
                                 store, (uint32_t)__builtin_popcount(scribbled)) == FERRY_OK;
    ferryi_store_lock(store);
    ferryi_claim_end_relied(access, how == FERRYI_CLOSE_COMMIT);
    if (changes && claim.place != FERRYI_PLACE_NONE && how != FERRYI_CLOSE_CANCEL)
        ferryi_claim_commit(store, &store->claims[access->slot], claim.place,
                            change_of(claim.access, how));
    for (; scribbled; scribbled &= scribbled - 1)
        ferryi_store_withdraw(store, __builtin_ctz(scribbled), FERRYI_CHANGE_FORGET, claim.begin,
                              claim.end, room);
    if (ferryi_store_is_watched(store)) {
        /* The claim (range lock) of this access still exists, so the buffer's storage stays alive
         * while it is unlocked. A second close of the same scope does nothing, because it no longer
         * finds the claim. */
        ferryi_store_unlock(store);
        ferryi_watch_closed(access, &claim, how);
        ferryi_store_lock(store);
    }
    ferryi_access_remove_claim(store, access->slot);
    bool last = ferryi_store_is_over(store);
    struct ferryi_map_supply excess = {0};
    if (ferryi_valid_map_has_excess(&store->map))
        ferryi_valid_map_take_excess(&store->map, &excess);
    ferryi_store_unlock_waking(store);
    ferryi_map_supply_free(&excess);
    if (last)
        ferryi_store_free(store);
    return status;
}

ferry_status
ferryi_access_close(struct ferryi_access *access, enum ferryi_close how, ferryi_timeline *timeline)
{
    return close_one(access, how, timeline, NULL);
}

ferry_status
ferryi_access_close_all(struct ferryi_access *list, size_t count, enum ferryi_close how,
                        ferryi_timeline *timeline)
{
    bool early = false;
    ferry_status first = FERRY_OK;
    for (size_t i = 0; i < count; i++) {
        ferry_status status = close_one(&list[i], how, timeline, &early);
        first = first == FERRY_OK ? status : first;
    }
    if (early)
        record_early(timeline);
    return first;
}
