/* SPDX-License-Identifier: MIT */
#include "src/store/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/store/lease_list.h"
#include "src/store/pending_calls.h"

/* A claim locks a byte range of a buffer while the range is in use. This file detects conflicts
 * between claims, and manages the table of a buffer's open claims. */

/* Returns the index of the first range in the sorted set `spans` that ends after the byte `at`. */
static size_t
first_after(const struct ferryi_interval_set *spans, size_t at)
{
    size_t low = 0, high = spans->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans->items[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

enum meeting { APART, READERS, WRITER };

static enum meeting
spans_meet(const struct ferryi_interval_set *a, const struct ferryi_interval_set *b)
{
    enum meeting found = APART;
    size_t i = first_after(a, b->items[0].begin), j = first_after(b, a->items[0].begin);
    while (i < a->count && j < b->count) {
        const struct ferryi_interval *x = &a->items[i], *y = &b->items[j];
        if (ferryi_overlap(x->begin, x->end, y->begin, y->end)) {
            if (x->writes || y->writes)
                return WRITER;
            found = READERS;
        }
        if (x->end <= y->end)
            i++;
        else
            j++;
    }
    return found;
}

/* Returns how a claim (range lock) and an access overlap: not at all, only in bytes that both read,
 * or in bytes that at least one of them writes. */
static enum meeting
meet(const struct ferryi_claim *claim, const struct ferryi_access *access)
{
    if (!ferryi_overlap(claim->begin, claim->end, access->begin, access->end))
        return APART;
    bool claim_writes = ferryi_claim_writes(claim->access),
         access_writes = ferryi_claim_writes(access->access);
    bool scattered = claim->state == FERRYI_CLAIM_SCATTERED;
    if (!scattered && !access->pieces)
        return claim_writes || access_writes ? WRITER : READERS;
    const struct ferryi_interval whole_claim = {claim->begin, claim->end, claim_writes},
                                 whole_access = {access->begin, access->end, access_writes};
    const struct ferryi_interval_set one_claim = {&whole_claim, 1}, one_access = {&whole_access, 1};
    return spans_meet(scattered ? claim->pieces : &one_claim,
                      access->pieces ? access->pieces : &one_access);
}

/* Returns whether dropping a replica would remove the last copy of the old value of bytes in the
 * range of an open write. The old value is needed if the write is abandoned. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
takes_last_old_value(const ferryi_store *store, const struct ferryi_claim *write,
                     const struct ferryi_access *drop)
{
    ferryi_places going = FERRYI_PLACE_BIT(drop->place),
                  unstable = ferryi_store_sharers(store, write->place);
    size_t end = ferryi_min_size(ferryi_min_size(write->end, drop->end), store->map.bytes);
    for (size_t at = ferryi_max_size(write->begin, drop->begin); at < end;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        if (ferryi_places_written(segment.places) && (segment.places & going) &&
            !(segment.places & ~going & ~unstable))
            return true;
        at = segment.end;
    }
    return false;
}

enum ferryi_conflict
ferryi_claim_conflict(ferryi_store *store, const struct ferryi_claim *claim,
                      const struct ferryi_access *access, bool is_hit)
{
    enum meeting meeting = meet(claim, access);
    if (meeting == APART)
        return FERRYI_CONFLICT_NONE;
    bool held = claim->state == FERRYI_CLAIM_HELD;

    /* A replica can be dropped while scopes use other replicas. But while a write is open, at least
     * one replica must keep the old value, because the write may be abandoned. */
    if (access->access == FERRYI_ACCESS_DROP && held) {
        bool theirs = ferryi_store_same_memory(store, claim->place, access->place);
        bool needed =
            ferryi_claim_writes(claim->access) && takes_last_old_value(store, claim, access);
        return theirs || needed ? FERRYI_CONFLICT_BUSY : FERRYI_CONFLICT_NONE;
    }
    if (meeting == READERS) {
        /*
         * Another call may already be copying the same bytes to the same replica. This access then
         * waits for that call, so that the bytes are copied only once. An access that belongs to a
         * larger call must not wait. The larger call has locked other ranges, and the other call
         * may be waiting for one of them, so both would wait forever.
         */
        bool same_move = !access->under && claim->state != FERRYI_CLAIM_HELD &&
                         claim->place != FERRYI_PLACE_NONE && access->place != FERRYI_PLACE_NONE &&
                         ferryi_store_same_memory(store, claim->place, access->place);
        return same_move && !is_hit ? FERRYI_CONFLICT_WAIT : FERRYI_CONFLICT_NONE;
    }
    if (!held)
        return FERRYI_CONFLICT_WAIT;
    return ferryi_claim_same_stream(claim, access) ? FERRYI_CONFLICT_OWN : FERRYI_CONFLICT_BUSY;
}

enum ferryi_conflict
ferryi_access_conflict(ferryi_store *store, const struct ferryi_access *access, bool is_hit)
{
    enum ferryi_conflict worst = FERRYI_CONFLICT_NONE;
    uint32_t left = store->claim_count;
    /* Reads of current bytes never conflict with each other, however many of them are open. */
    if (is_hit && access->access == FERRY_READ && store->write_claims == 0)
        return FERRYI_CONFLICT_NONE;
    for (uint32_t slot = 0; left > 0; slot++) {
        const struct ferryi_claim *claim = &store->claims[slot];
        if (claim->state == FERRYI_CLAIM_FREE)
            continue;
        left--;
        /* If the access is a step of a longer call, that call's own claim causes no conflict and is
         * skipped. The claim of a scope that is being closed has the id 0. It is not skipped,
         * because `under` is not 0 here. */
        if (access->under && claim->id == access->under)
            continue;
        enum ferryi_conflict conflict = ferryi_claim_conflict(store, claim, access, is_hit);
        if (conflict > worst)
            worst = conflict;
    }
    return worst;
}

void
ferryi_claim_add(struct ferryi_access *access, uint32_t slot)
{
    ferryi_store *store = access->store;
    access->slot = slot;
    access->id = ferryi_access_fill_claim(
        store, slot, access->begin, access->end, access->access, access->place, access->timeline,
        access->pieces ? FERRYI_CLAIM_SCATTERED : FERRYI_CLAIM_CALL);
    store->claims[slot].pieces = access->pieces;
    store->claims[slot].thread = ferryi_thread_id();
    store->claims[slot].site = access->site;
    access->lacks_memory =
        access->place != FERRYI_PLACE_NONE && !ferryi_store_copy(store, access->place)->pointer;
}

ferry_status
ferryi_claim_grow_table(ferryi_store *store, uint32_t seen_capacity)
{
    uint32_t capacity = seen_capacity ? seen_capacity * 2 : 4;
    struct ferryi_claim *claims = calloc(capacity, sizeof(*claims));
    if (!claims)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open buffer \"%s\": no memory for %u scopes",
                           ferryi_store_name(store), capacity);
    ferryi_store_lock(store);
    if (store->claim_capacity < capacity) {
        struct ferryi_claim *old = store->claims;
        if (store->claim_high > 0)
            memcpy(claims, old, store->claim_high * sizeof(*claims));
        store->claims = claims;
        store->claim_capacity = capacity;
        claims = old;
    }
    ferryi_store_unlock(store);
    free(claims);
    return FERRY_OK;
}

/* -- making and removing claims ---------------------------------------------------------------- */

void
ferryi_access_describe_busy(const struct ferryi_access *access, char *text, size_t text_bytes)
{
    ferryi_store *store = access->store;
    *text = 0;
    FERRYI_EACH_CLAIM (store, claim) {
        if (claim->state != FERRYI_CLAIM_HELD ||
            ferryi_claim_conflict(store, claim, access, true) != FERRYI_CONFLICT_BUSY)
            continue;
        int length = ferryi_store_describe_scope(store, claim, text, text_bytes);
        if (!store->context->debug && !ferryi_lease_label(store, claim) && length < (int)text_bytes)
            snprintf(text + length, text_bytes - (size_t)length,
                     "; FERRY_DEBUG=1 shows where it was opened");
        return;
    }
}

FERRYI_REQUIRES(ferryi_store_spin)
static ferry_status
fail_busy(const struct ferryi_access *access)
{
    char scope[FERRYI_SCOPES_TEXT];
    ferryi_access_describe_busy(access, scope, sizeof(scope));
    return ferryi_fail(FERRY_ERROR_BUSY,
                       "%s bytes %zu to %zu of buffer \"%s\": an open scope overlaps and one of "
                       "the two writes: %s",
                       access->reason, access->begin, access->end, ferryi_store_name(access->store),
                       scope);
}

bool
ferryi_claim_outlast(ferryi_store *store, const struct ferryi_claim *claim)
{
    const struct ferryi_runner runner = {claim->thread, store->context};
    if (!ferryi_callback_thread.innermost) {
        ferryi_store_unlock_and_park(store, &runner, 0);
        return true;
    }
    /* The list of blocked threads has a mutex, which no thread locks while it holds the lock of a
     * buffer. */
    ferryi_store_unlock(store);
    if (ferryi_blocked_includes(runner))
        return false;
    ferryi_store_lock(store);
    ferryi_store_unlock_and_park(store, &runner, ferryi_callback_look_again_ns());
    return true;
}

/* Returns a claim (range lock) of a call for which the access must wait, if possible one of this
 * thread. Called only if there is one. */
FERRYI_REQUIRES(ferryi_store_spin)
static const struct ferryi_claim *
find_awaited(ferryi_store *store, const struct ferryi_access *access, bool is_hit)
{
    const struct ferryi_claim *found = NULL;
    FERRYI_EACH_CLAIM (store, claim)
        if (!(access->under && claim->id == access->under) &&
            ferryi_claim_conflict(store, claim, access, is_hit) == FERRYI_CONFLICT_WAIT &&
            (!found || claim->thread == ferryi_thread_id()))
            found = claim;
    return found;
}

/* Waits for a call that holds bytes of the access. Fails with BUSY if this thread runs a callback,
 * and that call is blocked. Releases the buffer's lock. */
FERRYI_RELEASES(ferryi_store_spin)
static ferry_status
wait_for_call(const struct ferryi_access *access, bool is_hit)
{
    char what[200];
    ferryi_store *store = access->store;
    if (ferryi_claim_outlast(store, find_awaited(store, access, is_hit)))
        return FERRY_OK;
    snprintf(what, sizeof(what), "%s bytes %zu to %zu of buffer \"%.100s\"", access->reason,
             access->begin, access->end, ferryi_store_name(store));
    return ferryi_callback_refuse_wait(what);
}

/* Tries once to lock the range of the access. Sets `*out_again` if this thread had to wait or to
 * enlarge the table of claims, so that the caller must try again. */
static ferry_status
try_claim(struct ferryi_access *access, struct ferryi_map_supply *supply, bool *out_again)
{
    ferryi_store *store = access->store;
    ferry_status status = FERRY_OK;
    *out_again = false;

    ferryi_store_lock(store);
    /* The caller checked the range without the lock. Since that check, a resize may have shortened
     * the buffer. */
    if (access->whole) {
        access->begin = 0;
        access->end = ferryi_max_size(store->map.bytes, 1);
    }
    bool fits = access->whole || (access->to_end ? access->end == store->map.bytes
                                                 : access->end <= store->map.bytes);
    bool is_hit = fits && !access->whole && ferryi_claim_is_hit(store, access);
    enum ferryi_conflict conflict = ferryi_access_conflict(store, access, is_hit);
    access->meets_own = conflict == FERRYI_CONFLICT_OWN;
    if (!fits && ferryi_store_is_usable(store)) {
        ferryi_explain(
            "%s bytes %zu to %zu of buffer \"%s\": another thread resized it to %zu bytes",
            access->reason, access->begin, access->end, ferryi_store_name(store), store->map.bytes);
        status = ferryi_fail_resized();
    } else if (!ferryi_store_is_usable(store)) {
        status = ferryi_store_fail_unusable(store, access->reason);
    } else if (conflict == FERRYI_CONFLICT_BUSY) {
        status = fail_busy(access);
    } else if (conflict == FERRYI_CONFLICT_WAIT) {
        *out_again = true;
        return wait_for_call(access, is_hit);
    } else if (ferryi_claim_writes(access->access) &&
               !ferryi_valid_map_reserve(&store->map, 1, supply)) {
        ferryi_store_unlock(store);
        *out_again = true;
        return ferryi_map_supply_make(supply);
    } else if (ferryi_access_free_slot(store) == store->claim_capacity) {
        uint32_t capacity = store->claim_capacity;
        if (ferryi_claim_writes(access->access))
            ferryi_valid_map_unreserve(&store->map, 1);
        ferryi_store_unlock(store);
        *out_again = true;
        return ferryi_claim_grow_table(store, capacity);
    } else {
        ferryi_claim_add(access, ferryi_access_free_slot(store));
    }
    ferryi_store_unlock(store);
    return status;
}

/* Returns the claim (range lock) of a running call whose id is at most `until`, or NULL. Ids
 * increase, so these are the calls that claimed their ranges before that id was assigned. If
 * `thread` is not 0, considers only calls of this thread. */
FERRYI_REQUIRES(ferryi_store_spin)
static const struct ferryi_claim *
find_call(const ferryi_store *store, uint64_t until, uint64_t thread)
{
    FERRYI_EACH_CLAIM (store, claim)
        if (claim->state != FERRYI_CLAIM_HELD && claim->id <= until &&
            (!thread || claim->thread == thread))
            return claim;
    return NULL;
}

/* Waits until the function find_call() finds none. The buffer's lock is released while the thread
 * waits. Returns false if the thread must not wait for one of these calls. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
outlast(ferryi_store *store, uint64_t until)
{
    bool goes_on = true;
    const struct ferryi_claim *call;
    while (goes_on && (call = find_call(store, until, 0))) {
        goes_on = ferryi_claim_outlast(store, call);
        ferryi_store_lock(store);
    }
    return goes_on;
}

ferry_status
ferryi_access_wait_calls(ferryi_store *store, const char *what)
{
    ferryi_store_lock(store);
    bool ended = outlast(store, store->next_id);
    ferryi_store_unlock(store);
    return ended ? FERRY_OK : ferryi_callback_refuse_wait(what);
}

void
ferryi_access_outlast_calls(ferryi_store *store)
{
    (void)outlast(store, UINT64_MAX);
}

bool
ferryi_access_has_call(ferryi_store *store, uint64_t thread)
{
    ferryi_store_lock(store);
    bool has = find_call(store, UINT64_MAX, thread);
    ferryi_store_unlock(store);
    return has;
}

void
ferryi_access_set_thread(const struct ferryi_access *access, uint64_t thread)
{
    /* On a per-thread stream, the thread id in the claim (range lock) identifies the stream. So
     * this thread id must not be replaced. */
    if (!access->store || (access->timeline && access->timeline->by_thread))
        return;
    ferryi_store_lock(access->store);
    access->store->claims[access->slot].thread = thread;
    ferryi_store_unlock(access->store);
}

void
ferryi_claim_drop(struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    ferryi_store_lock(store);
    ferryi_claim_end_relied(access, false);
    ferryi_access_remove_claim(store, access->slot);
    bool last = ferryi_store_is_over(store);
    ferryi_store_unlock_waking(store);
    if (last)
        ferryi_store_free(store);
}

ferry_status
ferryi_claim_one(struct ferryi_access *access)
{
    struct ferryi_map_supply supply = {0};
    ferry_status status = FERRY_OK;
    for (bool again = true; again && status == FERRY_OK;)
        status = try_claim(access, &supply, &again);
    ferryi_map_supply_free(&supply);
    return status;
}

/* Returns whether the access must wait until all pending kernels that use the buffer have ended. A
 * pending kernel can still fail, and its output is then lost. So the wait is needed if the call
 * copies the kernels' output to a different place, or computes other bytes from this output. It is
 * also needed if the host itself waits for the kernels, because it then reports their failure. */
static bool
needs_outcome(const struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    if (!ferryi_pending_calls_are_pending(store) || access->access == FERRY_OVERWRITE)
        return false;
    if (access->derives || access->place == FERRYI_PLACE_NONE ||
        access->access == FERRYI_ACCESS_DROP)
        return true;
    if (!access->timeline &&
        ferryi_pending_calls_are_at(store, ferryi_store_sharers(store, access->place)))
        return true;
    bool held = true;
    ferryi_store_lock(store);
    for (size_t at = access->begin; held && at < access->end;) {
        struct ferryi_range part = ferryi_claim_uncovered(store, access, at);
        held = ferryi_valid_map_holds(&store->map, access->place, part.begin, part.end);
        at = part.end;
    }
    ferryi_store_unlock(store);
    return !held;
}

void
ferryi_access_await_kernels(const struct ferryi_access *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (needs_outcome(&list[i]))
            ferryi_pending_calls_wait(list[i].store);
}

ferry_status
ferryi_access_check_kernels(const struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    ferryi_access_await_kernels(access, 1);
    ferryi_store_lock(store);
    const struct ferryi_range range = {access->begin, access->end};
    bool lost = ferryi_store_has_lost(store, range);
    ferryi_store_unlock(store);
    return lost ? ferryi_store_fail_lost(store, range, access->reason) : FERRY_OK;
}
