/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/buffer/claim.h"
#include "src/buffer/guard.h"

/*
 * Scopes, and the hit path: when the range is where it should be, opening and closing are one atomic exchange each and
 * a few dozen plain loads and stores under the store's spin bit. Everything else goes through access.c.
 */

static inline void
set_scope(ferry_scope *scope, const struct ferryi_access *access)
{
    scope->store = access->store;
    scope->id = access->id;
    scope->slot = access->slot;
    scope->flags = 0;
}

/*
 * The commonest case by far: a READ of a buffer whose bytes all have one set of places, with nobody writing. It calls nothing, so
 * that the compiler saves no registers; whatever it does not cover goes to a function with the same arguments.
 */
FERRYI_INLINE bool
open_read_hit(ferry_buffer *buffer, int place, ferryi_lane *lane, size_t offset, size_t count, ferry_scope *scope, void **out)
{
    ferryi_store *store = buffer->store;
    struct ferryi_range range = ferryi_buffer_range(buffer, offset, count);
    if (range.begin == range.end || !ferryi_store_lock_plain(store))
        return false;
    /* A place that holds bytes has memory for them. */
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    uint32_t slot = store->claim_high;
    /* A resize may have cut the range since it was checked. */
    bool hit = ferryi_valid_map_holds_fast(&store->map, place) && range.end <= store->map.bytes && store->write_claims == 0 &&
               slot < store->claim_capacity &&
               (copy->written == 0 || ferryi_stamp_is_ordered(&store->context->order, lane, copy->written));
    if (hit) {
        struct ferryi_claim *claim = &store->claims[slot];
        uint64_t id = ++store->next_id;
        store->claim_high = slot + 1;
        store->claim_count++;
        claim->begin = range.begin;
        claim->end = range.end;
        claim->id = id;
        claim->lane = lane;
        claim->kind = ferryi_claim_kind(FERRY_READ, place, FERRYI_CLAIM_HELD);
        claim->generation = lane ? lane->generation : 0;
        if (lane && lane->by_thread)
            claim->thread = ferryi_thread_id();
        scope->store = store;
        scope->id = id;
        scope->slot = slot;
        *out = (char *)copy->pointer + range.begin;
    }
    ferryi_store_unlock_plain(store);
    return hit;
}

/* Under the lock: a write, or a read beside others, without moving, reserving or waiting for anything. */
FERRYI_INLINE bool
open_locked(ferryi_store *store, struct ferryi_range range, ferry_access kind, int place, ferryi_lane *lane, ferry_scope *scope, void **out)
{
    struct ferryi_map_supply none = {0};
    uint32_t slot = ferryi_access_free_slot(store);
    /* A resize may have cut the range since it was checked. */
    bool hit = slot < store->claim_capacity && range.end <= store->map.bytes &&
               ferryi_access_is_hit(store, range.begin, range.end, (uint8_t)kind, place, lane);
    if (kind == FERRY_READ)
        hit = hit && store->write_claims == 0;
    else
        hit = hit && store->claim_count == 0 && !store->read_only && ferryi_valid_map_promise(&store->map, &none);
    if (hit) {
        *out = (char *)ferryi_store_copy(store, place)->pointer + range.begin;
        scope->store = store;
        scope->slot = slot;
        scope->id = ferryi_access_fill_claim(store, slot, range.begin, range.end, (uint8_t)kind, place, lane, FERRYI_CLAIM_HELD);
    }
    return hit;
}

/* Under the lock: does a write of every byte lack nothing but memory to write to? */
static inline bool
lacks_memory(ferryi_store *store, struct ferryi_range range, int place)
{
    return !ferryi_store_copy(store, place)->pointer && store->claim_count == 0 && store->claim_capacity > 0 && !store->read_only &&
           !store->scrub && range.end <= store->map.bytes;
}

/* The first write into a new copy is a hit as soon as it has memory. */
static __attribute__((noinline)) ferry_status
open_new(ferryi_store *store, size_t bytes, struct ferryi_range range, int place, ferryi_lane *lane, ferry_scope *scope, void **out,
         bool *out_open)
{
    struct ferryi_place_copy fresh;
    ferry_status status = ferryi_store_take(store, place, bytes, &fresh);
    if (status != FERRY_OK)
        return status;
    ferryi_store_lock(store);
    bool there = ferryi_store_install(store, place, &fresh);
    *out_open = there && open_locked(store, range, FERRY_OVERWRITE, place, lane, scope, out);
    ferryi_store_unlock(store);
    ferryi_store_give_back(store->context, &fresh);
    return FERRY_OK;
}

FERRYI_COLD static ferry_status
open_slow(ferryi_store *store, struct ferryi_range range, ferry_access kind, int place, ferryi_lane *lane, ferry_scope *scope, void **out)
{
    if (range.begin == range.end) {
        if (ferryi_store_is_dead(store))
            return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s buffer \"%s\": its context %s", ferryi_scope_call(kind, place),
                               ferryi_store_name(store), ferryi_context_why_closed(store->context));
        memset(scope, 0, sizeof(*scope));
        *out = NULL;
        return FERRY_OK;
    }
    struct ferryi_access access = {.store = store, .begin = range.begin, .end = range.end, .access = (uint8_t)kind,
                                   .place = (uint8_t)place, .user = true, .lane = lane, .reason = ferryi_scope_call(kind, place),
                                   .site = ferryi_context_site(store->context, FERRYI_SITE_NONE)};
    ferry_status status = ferryi_access_open(&access, 1);
    if (status != FERRY_OK)
        return status;
    set_scope(scope, &access);
    *out = ferryi_guard_hand_out(store, place, access.pointer, access.reason, range.begin, range.end);
    return FERRY_OK;
}

/* Streams without a number are never ordered without asking, so they have no hits of their own. */
static ferry_status
open_at(ferry_buffer *buffer, ferry_access kind, int place, ferryi_lane *lane, size_t offset, size_t count, ferry_scope *scope, void **out)
{
    struct ferryi_range range = ferryi_buffer_range(buffer, offset, count);
    ferryi_store *store = buffer->store;
    if (range.begin != range.end && (!lane || ferryi_lane_is_numbered(lane)) && ferryi_store_lock_plain(store)) {
        bool open = open_locked(store, range, kind, place, lane, scope, out);
        bool is_new = !open && kind == FERRY_OVERWRITE && lacks_memory(store, range, place);
        size_t bytes = store->map.bytes;
        ferryi_store_unlock_plain(store);
        if (is_new && (!lane || ferryi_lane_check_capture(lane) == FERRY_OK)) {
            ferry_status status = open_new(store, bytes, range, place, lane, scope, out, &open);
            if (status != FERRY_OK)
                return status;
        }
        if (open)
            return FERRY_OK;
    }
    return open_slow(store, range, kind, place, lane, scope, out);
}

FERRYI_INLINE bool
arguments_fit(const ferry_buffer *buffer, const ferry_element *element, ferry_access access, size_t offset, size_t count,
              const ferry_scope *scope, void *const *out)
{
    return buffer && element && scope && out && element->identity == buffer->identity && access >= FERRY_READ &&
           access <= FERRY_OVERWRITE && ferryi_buffer_range_fits(buffer, offset, count);
}

FERRYI_COLD static ferry_status
refuse_open(const ferry_buffer *buffer, const ferry_element *element, ferry_access access, size_t offset, size_t count, int place,
            const ferry_scope *scope, void *const *out)
{
    const char *what = ferryi_scope_call(access, place);
    if (!scope || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: scope or out is NULL", what);
    if (access < FERRY_READ || access > FERRY_OVERWRITE)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: access %d is unknown", what, (int)access);
    if (!element)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the element is NULL", what);
    return ferryi_buffer_refuse(buffer, element, offset, count, what);
}

FERRYI_AT_EDGE static ferry_status
open_host(ferry_buffer *buffer, const ferry_element *element, ferry_access access, size_t offset, size_t count, ferry_scope *scope,
          void **out)
{
    if (!arguments_fit(buffer, element, access, offset, count, scope, out))
        return refuse_open(buffer, element, access, offset, count, 0, scope, out);
    return open_at(buffer, access, FERRY_PLACE_HOST, NULL, offset, count, scope, out);
}

ferry_status
ferry_buffer_open_host(ferry_buffer *buffer, const ferry_element *element, ferry_access access, size_t offset, size_t count,
                       ferry_scope *scope, void **out)
{
    if (access == FERRY_READ && arguments_fit(buffer, element, access, offset, count, scope, out) &&
        open_read_hit(buffer, FERRY_PLACE_HOST, NULL, offset, count, scope, out))
        return FERRY_OK;
    return open_host(buffer, element, access, offset, count, scope, out);
}

FERRYI_AT_EDGE static ferry_status
open_device(ferry_buffer *buffer, const ferry_element *element, ferry_access access, ferry_stream *stream, size_t offset, size_t count,
            ferry_scope *scope, void **out)
{
    ferryi_lane *lane;
    if (!arguments_fit(buffer, element, access, offset, count, scope, out))
        return refuse_open(buffer, element, access, offset, count, 1, scope, out);
    ferry_status status = ferryi_context_lane(buffer->store->context, stream, ferryi_scope_call(access, 1), &lane);
    return status == FERRY_OK ? open_at(buffer, access, lane->place, lane, offset, count, scope, out) : status;
}

ferry_status
ferry_buffer_open_device(ferry_buffer *buffer, const ferry_element *element, ferry_access access, ferry_stream *stream, size_t offset,
                         size_t count, ferry_scope *scope, void **out)
{
    if (access == FERRY_READ && stream && arguments_fit(buffer, element, access, offset, count, scope, out) &&
        stream->context == buffer->store->context && ferryi_lane_is_numbered(stream->lane) &&
        open_read_hit(buffer, stream->lane->place, stream->lane, offset, count, scope, out))
        return FERRY_OK;
    return open_device(buffer, element, access, stream, offset, count, scope, out);
}

/* -- closing --------------------------------------------------------------------------------------- */

/* Under the lock: may the use be stamped right here? Not on streams that need a driver call for it. */
FERRYI_INLINE bool
stamps_freely(const struct ferryi_claim *claim, const struct ferryi_place_copy *copy)
{
    const ferryi_lane *lane = claim->lane;
    return ferryi_lane_is_numbered(lane) && !copy->eager && lane->generation == claim->generation &&
           !atomic_load_explicit(&lane->retired, memory_order_relaxed);
}

/* Under the lock: close a READ that nobody shares. */
FERRYI_INLINE bool
close_read_hit(ferryi_store *store, struct ferryi_claim *claim)
{
    ferryi_lane *lane = claim->lane;
    if (claim->access != FERRY_READ || claim->shares != 1)
        return false;
    if (!lane)
        return true;
    struct ferryi_place_copy *copy = ferryi_store_copy(store, claim->place);
    if (!stamps_freely(claim, copy))
        return false;
    ferryi_lane_stamp(lane);
    copy->readers |= UINT64_C(1) << lane->number;
    return true;
}

/* Under the lock: close a write, if that takes no driver call. */
static bool
close_write_hit(ferryi_store *store, struct ferryi_claim *claim)
{
    const ferryi_order *order = &store->context->order;
    struct ferryi_place_copy *copy = ferryi_store_copy(store, claim->place);
    ferryi_lane *lane = claim->lane;
    if (claim->access == FERRY_READ || claim->shares != 1)
        return false;
    if (lane && (!stamps_freely(claim, copy) || !ferryi_stamp_is_ordered(order, lane, copy->written)))
        return false;
    ferryi_valid_map_commit(&store->map, claim->place, FERRYI_CHANGE_WRITE, claim->begin, claim->end);
    if (lane) {
        copy->written = ferryi_lane_stamp(lane);
        if (copy->readers && ferryi_lanes_are_ordered(order, lane, copy->readers))
            copy->readers = 0;
    }
    return true;
}

/* The claim of an open scope, with the store locked; NULL, unlocked, when it was closed before. */
static struct ferryi_claim *
find_claim(const ferry_scope *scope)
{
    ferryi_store *store = scope->store;
    ferryi_store_lock(store);
    struct ferryi_claim *claim = scope->slot < store->claim_high ? &store->claims[scope->slot] : NULL;
    if (claim && claim->id == scope->id && claim->state == FERRYI_CLAIM_HELD)
        return claim;
    ferryi_store_unlock(store);
    return NULL;
}

/* Locked: one of several scopes that share the claim goes, unlocked then; false when it is the last, or the only one. */
static bool
drop_share(ferryi_store *store, struct ferryi_claim *claim, ferry_scope *scope)
{
    uint32_t mine = 1u << (scope->flags & (FERRYI_CLAIM_SHARES - 1));
    if (claim->shares == 1)
        return false;
    if (claim->shares == mine) {
        claim->shares = 1;
        return false;
    }
    claim->shares &= ~mine;
    ferryi_store_unlock(store);
    scope->store = NULL;
    return true;
}

/* Locked: the claim is this thread's to close. It is no scope any more, for copies of the scope that others close; who conflicts waits. */
static struct ferryi_claim
take_claim(struct ferryi_claim *claim)
{
    claim->id = 0;
    claim->state = FERRYI_CLAIM_CALL;
    return *claim;
}

FERRYI_COLD static ferry_status
close_slow(ferry_scope *scope, const struct ferryi_claim *claim, enum ferryi_close how, ferryi_lane *lane)
{
    struct ferryi_access access = {.store = scope->store, .begin = claim->begin, .end = claim->end, .access = claim->access,
                                   .place = claim->place, .id = claim->id, .slot = scope->slot};
    scope->store = NULL;
    return ferryi_access_close(&access, how, lane);
}

FERRYI_COLD static ferry_status
close_how(ferry_scope *scope, enum ferryi_close how)
{
    struct ferryi_claim *claim = find_claim(scope);
    if (!claim) {
        scope->store = NULL;
        return FERRY_OK;
    }
    if (drop_share(scope->store, claim, scope))
        return FERRY_OK;
    struct ferryi_claim copy = take_claim(claim);
    ferryi_store_unlock(scope->store);
    return close_slow(scope, &copy, how, copy.lane);
}

/* No READ hit: with the plain lock held, and a claim that may be another's. */
static __attribute__((noinline)) ferry_status
close_locked(ferry_scope *scope)
{
    ferryi_store *store = scope->store;
    struct ferryi_claim *claim = &store->claims[scope->slot];
    bool hit = scope->slot < store->claim_high && claim->id == scope->id && close_write_hit(store, claim);
    if (hit) {
        ferryi_access_remove_claim(store, scope->slot);
        scope->store = NULL;
    }
    ferryi_store_unlock_plain(store);
    return hit ? FERRY_OK : close_how(scope, FERRYI_CLOSE_COMMIT);
}

static __attribute__((noinline)) ferry_status
close_scope(ferry_scope *scope)
{
    if (!scope)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "close a scope: it is NULL");
    return scope->store ? close_how(scope, FERRYI_CLOSE_COMMIT) : FERRY_OK;
}

ferry_status
ferry_scope_close(ferry_scope *scope)
{
    ferryi_store *store = scope ? scope->store : NULL;
    if (store && ferryi_store_lock_plain(store)) {
        struct ferryi_claim *claim = &store->claims[scope->slot];
        bool hit = scope->slot < store->claim_high && claim->id == scope->id && close_read_hit(store, claim);
        if (!hit)
            return close_locked(scope);
        ferryi_access_free_claim(store, claim, scope->slot);
        scope->store = NULL;
        ferryi_store_unlock_plain(store);
        return FERRY_OK;
    }
    return close_scope(scope);
}

ferry_status
ferry_scope_abandon(ferry_scope *scope)
{
    if (!scope)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "abandon a scope: it is NULL");
    return scope->store ? close_how(scope, FERRYI_CLOSE_ABANDON) : FERRY_OK;
}

ferry_status
ferry_scope_close_on(ferry_scope *scope, ferry_stream *last_use)
{
    if (!scope || !last_use)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "close a scope on a stream: scope or stream is NULL");
    ferryi_store *store = scope->store;
    if (!store)
        return FERRY_OK;
    if (last_use->context != store->context)
        return ferryi_fail(FERRY_ERROR_WRONG_CONTEXT, "close a scope on a stream: the stream belongs to another context");
    struct ferryi_claim *claim = find_claim(scope);
    if (!claim) {
        scope->store = NULL;
        return FERRY_OK;
    }
    int place = claim->place;
    bool wrong = place != last_use->lane->place;
    if (!wrong && drop_share(store, claim, scope))
        return FERRY_OK;
    struct ferryi_claim taken = wrong ? *claim : take_claim(claim);
    ferryi_store_unlock(store);
    if (wrong)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "close a scope of place %d on a stream of place %d", place,
                           last_use->lane->place);
    return close_slow(scope, &taken, FERRYI_CLOSE_COMMIT, last_use->lane);
}

void
ferry_scope_close_all(ferry_scope *scopes, size_t count)
{
    for (size_t i = 0; scopes && i < count; i++) {
        ferryi_store *store = scopes[i].store;
        ferry_context *context = store ? store->context : NULL;
        if (ferry_scope_close(&scopes[i]) != FERRY_OK && context)
            ferryi_log(&context->log, FERRY_LOG_ERROR, "close scope %zu of %zu: %s", i, count, ferry_last_error());
    }
}

/* -- several at once ------------------------------------------------------------------------------- */

static ferry_status
check_argument(const ferry_argument *argument, size_t index, const ferry_context *context)
{
    if (argument->is_value)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "open several buffers: argument %zu is a value", index);
    if (argument->access < FERRY_READ || argument->access > FERRY_OVERWRITE)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "open several buffers: argument %zu has no access; see ferry_argument_with()", index);
    struct ferryi_range range;
    ferry_status status = ferryi_buffer_check(argument->buffer, argument->element, argument->offset, argument->count,
                                              "open several buffers", &range);
    if (status == FERRY_OK && argument->buffer->store->context != context)
        status = ferryi_fail(FERRY_ERROR_WRONG_CONTEXT, "open several buffers: argument %zu belongs to another context", index);
    return status;
}

/* Fill `wanted` with the arguments that are not empty; index[i] tells where argument i went, or SIZE_MAX. */
static size_t
collect(const ferry_argument *arguments, size_t count, int place, ferryi_lane *lane, struct ferryi_access *wanted, size_t *index)
{
    size_t used = 0;
    ferryi_site site = ferryi_context_site(arguments[0].buffer->store->context, FERRYI_SITE_NONE);
    for (size_t i = 0; i < count; i++) {
        struct ferryi_range range = ferryi_buffer_range(arguments[i].buffer, arguments[i].offset, arguments[i].count);
        index[i] = range.begin == range.end ? SIZE_MAX : used;
        if (range.begin != range.end)
            wanted[used++] = (struct ferryi_access){.store = arguments[i].buffer->store, .begin = range.begin, .end = range.end,
                                                    .access = (uint8_t)arguments[i].access, .place = (uint8_t)place, .user = true,
                                                    .lane = lane, .reason = "open_all", .site = site};
    }
    return used;
}

/* Scopes of one open_all have shares 1, 2 ... of their claim. Share 0 is that of other scopes, which the hit path closes. */
static void
share_claim(const struct ferryi_access *from, ferry_scope *scope)
{
    ferryi_store_lock(from->store);
    uint32_t *shares = &from->store->claims[from->slot].shares;
    if (*shares == 0) {
        *shares = 1u << 1;
        scope->flags = 1;
    } else {
        scope->flags = 32u - (uint32_t)__builtin_clz(*shares);
        *shares |= 1u << scope->flags;
    }
    ferryi_store_unlock(from->store);
}

static void *
hand_out_one(const struct ferryi_access *from, const struct ferryi_access *wanted)
{
    void *pointer = (char *)from->pointer + (wanted->begin - from->begin);
    return ferryi_guard_hand_out(from->store, from->place, pointer, from->reason, wanted->begin, wanted->end);
}

static void
hand_out(ferry_scope *scopes, void **pointers, size_t count, const struct ferryi_access *wanted, const struct ferryi_access *merged,
         const size_t *index, const size_t *group)
{
    for (size_t i = 0; i < count; i++) {
        memset(&scopes[i], 0, sizeof(scopes[i]));
        if (pointers)
            pointers[i] = NULL;
        if (index[i] == SIZE_MAX)
            continue;
        const struct ferryi_access *from = &merged[group[index[i]]];
        set_scope(&scopes[i], from);
        if (pointers)
            pointers[i] = hand_out_one(from, &wanted[index[i]]);
        share_claim(from, &scopes[i]);
    }
}

/* Whether no merged range has more members than a claim has shares. */
static bool
shares_suffice(const size_t *group, size_t used)
{
    for (size_t i = 0; i < used; i++) {
        size_t members = 0;
        for (size_t j = 0; j < used; j++)
            members += group[j] == group[i];
        if (members >= FERRYI_CLAIM_SHARES)
            return false;
    }
    return true;
}

ferry_status
ferry_scope_open_all(ferry_scope *scopes, void **out_pointers, const ferry_argument *arguments, size_t count, int place,
                     ferry_stream *stream)
{
    if (count == 0)
        return FERRY_OK;
    if (!scopes || !arguments || !arguments[0].buffer)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "open several buffers: scopes, arguments or the first buffer is NULL");
    ferry_context *context = arguments[0].buffer->store->context;
    ferryi_lane *lane = NULL;
    ferry_status status = ferryi_context_check_place(context, place, "open several buffers");
    if (status == FERRY_OK && place == 0 && stream)
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "open several buffers: a stream at the host");
    if (status == FERRY_OK && place != 0)
        status = ferryi_context_lane(context, stream ? stream : context->defaults[place], "open several buffers", &lane);
    if (status == FERRY_OK && lane && lane->place != place)
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "open several buffers at place %d on a stream of place %d", place, lane->place);
    for (size_t i = 0; i < count && status == FERRY_OK; i++)
        status = check_argument(&arguments[i], i, context);
    if (status != FERRY_OK)
        return status;

    struct ferryi_access *wanted = calloc(count, 2 * sizeof(*wanted));
    size_t *index = calloc(count, 2 * sizeof(*index));
    if (wanted && index) {
        struct ferryi_access *merged = wanted + count;
        size_t *group = index + count;
        size_t used = collect(arguments, count, place, lane, wanted, index);
        size_t left = ferryi_access_merge(wanted, used, merged, group);
        status = shares_suffice(group, used) ? ferryi_access_open(merged, left)
                                             : ferryi_fail(FERRY_ERROR_UNSUPPORTED, "open %zu buffers: more than %d ranges of one buffer overlap", count,
                                                           FERRYI_CLAIM_SHARES - 1);
        if (status == FERRY_OK) {
            for (size_t i = 0; i < left; i++) {
                ferryi_store_lock(merged[i].store);
                merged[i].store->claims[merged[i].slot].shares = 0;
                ferryi_store_unlock(merged[i].store);
            }
            hand_out(scopes, out_pointers, count, wanted, merged, index, group);
        }
    } else {
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open %zu buffers: no memory for their scopes", count);
    }
    free(wanted);
    free(index);
    return status;
}

/* -- waiting for scopes ---------------------------------------------------------------------------- */

ferry_status
ferry_buffer_wait_free(ferry_buffer *buffer, ferry_access access, uint64_t timeout_ns)
{
    struct ferryi_range range;
    ferry_status status = ferryi_buffer_check(buffer, NULL, 0, FERRY_REST, "wait for scopes", &range);
    if (status == FERRY_OK && (access < FERRY_READ || access > FERRY_OVERWRITE))
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "wait for scopes: access %d is unknown", (int)access);
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    ferryi_store *store = buffer->store;
    struct ferryi_access wanted = {.store = store, .begin = range.begin, .end = range.end, .access = (uint8_t)access,
                                   .place = FERRYI_PLACE_NONE, .reason = "wait for scopes on"};
    uint64_t now = ferryi_now_ns();
    uint64_t deadline = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
    for (bool in_time = timeout_ns > 0;;) {
        ferryi_store_lock(store);
        bool busy = ferryi_access_conflict(store, &wanted, true) == FERRYI_CONFLICT_BUSY;
        if (!busy || !in_time) {
            ferryi_store_unlock(store);
            return !busy ? FERRY_OK
                         : ferryi_fail(FERRY_ERROR_BUSY, "wait for scopes of buffer \"%s\": still open after %llu ns",
                                       ferryi_store_name(store), (unsigned long long)timeout_ns);
        }
        in_time = ferryi_store_unlock_and_park(store, deadline);
    }
}
