/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "src/base/callback.h"
#include "src/buffer/buffer.h"
#include "src/buffer/recording.h"
#include "src/buffer/scope.h"
#include "src/buffer/scope_hit.h"
#include "src/store/claim.h"
#include "src/store/watch.h"

/*
 * Opens and closes scopes. If the range of a scope is current at its place, a fast path, called the
 * hit path, opens or closes the scope. The hit path takes one atomic exchange, and a few dozen
 * plain loads and stores under the buffer's spin lock. The functions of access.c handle all other
 * scopes.
 */

/* Opens a scope on the hit path, the fast path of scopes. Returns false if the hit path does not
 * apply (see scope_hit.h). */
FERRYI_INLINE bool
open_hit(const ferry_buffer *buffer, ferry_access access, size_t offset, size_t count,
         ferryi_timeline *timeline, struct ferryi_scope *scope, void **out)
{
    ferryi_store *store = buffer->store;
    if (!ferryi_store_lock_plain(store))
        return false;
    bool hit =
        ferryi_scope_open_current(buffer, store, access, offset, count, timeline, scope, out);
    ferryi_store_unlock_plain(store);
    return hit;
}

/* Returns whether an OVERWRITE of the range could use the fast path (the hit path) if the replica
 * had memory. Called under the buffer's lock. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
lacks_memory(ferryi_store *store, struct ferryi_range range, int place)
{
    return !ferryi_store_copy(store, place)->pointer && store->claim_count == 0 &&
           store->claim_capacity > 0 && !store->scrub && range.end <= store->map.bytes;
}

/* Opens a scope for the first write to a replica that has no memory. Allocates the memory, and then
 * tries the fast path (the hit path). */
static __attribute__((noinline)) ferry_status
open_new(ferryi_store *store, size_t bytes, struct ferryi_range range, bool to_end, int place,
         ferryi_timeline *timeline, struct ferryi_scope *scope, void **out, bool *out_open)
{
    struct ferryi_place_copy fresh;
    ferry_status status = ferryi_store_take(store, place, bytes, timeline, &fresh);
    if (status != FERRY_OK)
        return status;
    ferryi_store_lock(store);
    bool there = ferryi_store_install(store, place, &fresh);
    *out_open = there && ferryi_scope_open_locked(store, range, to_end, FERRY_OVERWRITE, place,
                                                  timeline, scope, out);
    ferryi_store_unlock(store);
    ferryi_store_give_back(store->context, &fresh);
    return FERRY_OK;
}

/* Returns whether a trace is the only reason why the fast path cannot lock the buffer. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_plain_but_traced(const ferryi_store *store)
{
    return atomic_load_explicit(&store->word, memory_order_relaxed) ==
               (FERRYI_STORE_WATCHED | FERRYI_STORE_SPIN) &&
           !store->context->debug;
}

/* Tries the hit path in a traced context. */
FERRYI_COLD static bool
open_traced(ferryi_store *store, struct ferryi_range range, bool to_end, ferry_access kind,
            int place, ferryi_timeline *timeline, struct ferryi_scope *scope, void **out)
{
    if (timeline && !ferryi_timeline_is_numbered(timeline))
        return false;
    ferryi_store_lock(store);
    bool open = is_plain_but_traced(store) &&
                ferryi_scope_open_locked(store, range, to_end, kind, place, timeline, scope, out);
    ferryi_store_unlock(store);
    if (open)
        ferryi_watch_opened(&(struct ferryi_access){.store = store,
                                                    .begin = range.begin,
                                                    .end = range.end,
                                                    .access = (uint8_t)kind,
                                                    .place = (uint8_t)place,
                                                    .timeline = timeline,
                                                    .reason = ferryi_scope_call(kind, place),
                                                    .id = scope->id});
    return open;
}

FERRYI_COLD static ferry_status
open_slow(ferryi_store *store, struct ferryi_range range, bool to_end, ferry_access kind, int place,
          ferryi_timeline *timeline, struct ferryi_scope *scope, void **out)
{
    if (range.begin == range.end) {
        if (!ferryi_store_is_usable(store))
            return ferryi_store_fail_unusable(store, ferryi_scope_call(kind, place));
        memset(scope, 0, sizeof(*scope));
        *out = NULL;
        return FERRY_OK;
    }
    if (store->context->trace &&
        open_traced(store, range, to_end, kind, place, timeline, scope, out))
        return FERRY_OK;
    ferry_status status = ferryi_callback_check(ferryi_scope_call(kind, place));
    if (status != FERRY_OK)
        return status;
    struct ferryi_access access = {.store = store,
                                   .begin = range.begin,
                                   .end = range.end,
                                   .to_end = to_end,
                                   .access = (uint8_t)kind,
                                   .place = (uint8_t)place,
                                   .user = true,
                                   .timeline = timeline,
                                   .reason = ferryi_scope_call(kind, place),
                                   .site = ferryi_shell_site(store->context, FERRYI_SITE_NONE)};
    status = ferryi_access_open(&access, 1);
    if (status != FERRY_OK)
        return status;
    ferryi_scope_set(scope, &access);
    ferryi_watch_opened(&access);
    *out = ferryi_watch_pointer(store, place, access.pointer, access.reason, access.site, range);
    return FERRY_OK;
}

/* Opens a scope. If the stream has no number in the context's table of timelines, ordering the
 * stream needs a driver call. The fast path makes no driver calls, so it is then not tried. */
static ferry_status
open_at(ferryi_store *store, struct ferryi_range range, bool to_end, ferry_access kind, int place,
        ferryi_timeline *timeline, struct ferryi_scope *scope, void **out)
{
    if (range.begin != range.end && (!timeline || ferryi_timeline_is_numbered(timeline)) &&
        ferryi_store_lock_plain(store)) {
        bool is_new = kind == FERRY_OVERWRITE && lacks_memory(store, range, place) &&
                      !(!timeline && !ferryi_callback_only_watches() &&
                        ferryi_store_install_cached(store, place));
        bool open = !is_new && ferryi_scope_open_locked(store, range, to_end, kind, place, timeline,
                                                        scope, out);
        size_t bytes = store->map.bytes;
        ferryi_store_unlock_plain(store);
        if (is_new && !ferryi_callback_only_watches() &&
            (!timeline || ferryi_timeline_check_capture(timeline) == FERRY_OK)) {
            ferry_status status =
                open_new(store, bytes, range, to_end, place, timeline, scope, out, &open);
            if (status != FERRY_OK)
                return status;
        }
        if (open)
            return FERRY_OK;
    }
    return open_slow(store, range, to_end, kind, place, timeline, scope, out);
}

FERRYI_COLD static ferry_status
refuse_open(const ferry_buffer *buffer, const ferry_element *element, ferry_access access,
            size_t offset, size_t count, int place, const struct ferryi_scope *scope,
            void *const *out)
{
    const char *what = ferryi_scope_call(access, place);
    if (!scope || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: scope or out is NULL", what);
    if (access < FERRY_READ || access > FERRY_OVERWRITE)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: access %d is unknown", what,
                           (int)access);
    if (!element)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the element is NULL", what);
    return ferryi_buffer_refuse(buffer, element, access, offset, count, what);
}

static inline bool
open_fits(const ferry_buffer *buffer, const ferry_element *element, ferry_access access,
          size_t offset, size_t count, const struct ferryi_scope *scope, void *const *out,
          struct ferryi_range *range)
{
    return ferryi_scope_arguments_fit(buffer, element, scope, out) &&
           ferryi_buffer_allows(buffer, access) &&
           ferryi_buffer_range(buffer, offset, count, range);
}

FERRYI_AT_EDGE static ferry_status
open_host(ferry_buffer *buffer, const ferry_element *element, ferry_access access, size_t offset,
          size_t count, struct ferryi_scope *scope, void **out)
{
    struct ferryi_range range;
    ferry_status status;
    do {
        if (!open_fits(buffer, element, access, offset, count, scope, out, &range))
            return refuse_open(buffer, element, access, offset, count, 0, scope, out);
        status = open_at(buffer->store, range, ferryi_scope_goes_to_end(buffer, count), access,
                         FERRY_PLACE_HOST, NULL, scope, out);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}

ferry_status
ferry_buffer_open_host(ferry_buffer *buffer, const ferry_element *element, ferry_access access,
                       size_t offset, size_t count, ferry_scope *scope, void **out)
{
    struct ferryi_scope *body = ferryi_scope_of(scope);
    if (ferryi_scope_arguments_fit(buffer, element, body, out)) {
        if (open_hit(buffer, access, offset, count, NULL, body, out))
            return FERRY_OK;
        element =
            buffer
                ->element; /* same value as the argument `element`; read again, so that the compiler
                              need not keep the argument in a register on the fast path */
    }
    return open_host(buffer, element, access, offset, count, body, out);
}

ferry_status
ferryi_scope_open_ready(ferry_buffer *buffer, const ferry_element *element, ferry_access access,
                        int place, size_t offset, size_t count, struct ferryi_scope *scope,
                        void **out)
{
    struct ferryi_range range;
    ferry_status status;
    do {
        if (!open_fits(buffer, element, access, offset, count, scope, out, &range))
            return refuse_open(buffer, element, access, offset, count, place, scope, out);
        status = open_at(buffer->store, range, ferryi_scope_goes_to_end(buffer, count), access,
                         place, NULL, scope, out);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}

/* Records that work of the program, which the driver captures, uses a range. The scope is closed at
 * once, because that work runs when the graph does. */
FERRYI_COLD static ferry_status
open_recorded(ferryi_store *store, struct ferryi_range range, ferry_access kind,
              ferryi_timeline *timeline, struct ferryi_scope *scope, void **out)
{
    struct ferryi_access access = ferryi_access_of(store, range, (uint8_t)kind, timeline->place,
                                                   ferryi_scope_call(kind, timeline->place));
    access.timeline = timeline;
    access.is_launch = true;
    ferry_status status = ferryi_callback_check(access.reason);
    if (status == FERRY_OK)
        status = ferryi_recording_use(ferryi_recording_of(timeline), &access);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "%s buffer \"%s\"", access.reason, ferryi_store_name(store));
    memset(scope, 0, sizeof(*scope));
    *out = access.pointer;
    return FERRY_OK;
}

FERRYI_AT_EDGE static ferry_status
open_device(ferry_buffer *buffer, const ferry_element *element, ferry_access access, size_t offset,
            size_t count, ferry_stream *stream, struct ferryi_scope *scope, void **out)
{
    ferryi_timeline *timeline;
    struct ferryi_range range;
    ferry_status status;
    do {
        if (!open_fits(buffer, element, access, offset, count, scope, out, &range))
            return refuse_open(buffer, element, access, offset, count, 1, scope, out);
        status = ferryi_stream_find_timeline(buffer->store->context, stream,
                                             ferryi_scope_call(access, 1), &timeline);
        if (status != FERRY_OK)
            return status;
        if (ferryi_timeline_recording(timeline) && range.begin != range.end)
            return open_recorded(buffer->store, range, access, timeline, scope, out);
        status = open_at(buffer->store, range, ferryi_scope_goes_to_end(buffer, count), access,
                         timeline->place, timeline, scope, out);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}

/* Returns the timeline on which an access to the buffer on `stream` can use the fast path, or NULL.
 * The caller may only use it while it holds a lock of the buffer that it took with
 * ferryi_store_lock_plain(): while the buffer has this lock, its context is not destroyed. */
FERRYI_INLINE ferryi_timeline *
plain_timeline(const ferry_buffer *buffer, const ferry_stream *stream)
{
    const ferry_context *context = buffer->store->context;
    if (!stream)
        return context->only_timeline;
    if (stream->plain_context != context)
        return NULL;
    if (!stream->timeline)
        __builtin_unreachable(); /* every stream has a timeline */
    return stream->timeline;
}

ferry_status
ferry_buffer_open_device(ferry_buffer *buffer, const ferry_element *element, ferry_access access,
                         size_t offset, size_t count, ferry_stream *stream, ferry_scope *scope,
                         void **out)
{
    struct ferryi_scope *body = ferryi_scope_of(scope);
    if (ferryi_scope_arguments_fit(buffer, element, body, out)) {
        ferryi_timeline *timeline = plain_timeline(buffer, stream);
        if (timeline && open_hit(buffer, access, offset, count, timeline, body, out))
            return FERRY_OK;
        element = buffer->element; /* as in ferry_buffer_open_host() */
    }
    return open_device(buffer, element, access, offset, count, stream, body, out);
}

/* -- closing ----------------------------------------------------------------------------------- */

/* Returns the claim (range lock) of an open scope and leaves the buffer locked. If the scope is
 * closed, returns NULL and leaves the buffer unlocked. */
FERRYI_TRY_ACQUIRES(true, ferryi_store_spin)
static struct ferryi_claim *
find_claim(const struct ferryi_scope *scope)
{
    ferryi_store *store = scope->store;
    ferryi_store_lock(store);
    struct ferryi_claim *claim =
        scope->slot < store->claim_high ? &store->claims[scope->slot] : NULL;
    if (claim && claim->id == scope->id && claim->state == FERRYI_CLAIM_HELD)
        return claim;
    ferryi_store_unlock(store);
    return NULL;
}

/* Copies the claim (range lock) of an open scope to `*out`. Returns false if the scope is closed.
 */
static bool
find_open(const struct ferryi_scope *scope, struct ferryi_claim *out)
{
    const struct ferryi_claim *claim = find_claim(scope);
    if (!claim)
        return false;
    *out = *claim;
    ferryi_store_unlock(scope->store);
    return true;
}

/* Marks the claim (range lock) of a scope as being closed by this thread. A different thread that
 * has a copy of the scope can then no longer close the scope. Conflicting accesses wait until the
 * close is complete. Called under the buffer's lock. */
static void
take_claim(struct ferryi_claim *claim)
{
    claim->id = 0;
    claim->state = FERRYI_CLAIM_CALL;
    if (!claim->timeline || !claim->timeline->by_thread)
        claim->thread = ferryi_thread_id();
}

FERRYI_COLD static ferry_status
close_slow(struct ferryi_scope *scope, const struct ferryi_claim *claim, enum ferryi_close how,
           ferryi_timeline *timeline)
{
    struct ferryi_access access = {.store = scope->store,
                                   .begin = claim->begin,
                                   .end = claim->end,
                                   .access = claim->access,
                                   .place = claim->place,
                                   .id = claim->id,
                                   .slot = scope->slot};
    scope->store = NULL;
    return ferryi_access_close(&access, how, timeline);
}

/* Returns whether the fast path could close the scope if its context recorded no trace. The context
 * does record a trace, so the fast path did not apply. A callback may close only scopes that the
 * fast path can close. This function makes sure that tracing does not change which scopes these
 * are. */
FERRYI_COLD static bool
closes_freely(const struct ferryi_scope *scope)
{
    ferryi_store *store = scope->store;
    ferryi_store_lock(store);
    const struct ferryi_claim *claim = &store->claims[scope->slot];
    const ferryi_timeline *timeline = claim->timeline;
    bool free =
        is_plain_but_traced(store) && scope->slot < store->claim_high && claim->id == scope->id;
    if (free && timeline) {
        const struct ferryi_place_copy *copy = ferryi_store_copy(store, claim->place);
        free = timeline->bit && ferryi_scope_notes_freely(claim, timeline, claim->copy) &&
               (claim->access == FERRY_READ ||
                ferryi_sync_point_is_ordered(&store->context->order, timeline, copy->written));
    }
    ferryi_store_unlock(store);
    return free;
}

/* Closes a scope. `last_use` is the timeline of the last use, or NULL for the scope's own stream.
 */
FERRYI_COLD static ferry_status
close_how(struct ferryi_scope *scope, enum ferryi_close how, ferryi_timeline *last_use)
{
    ferryi_store *store = scope->store;
    if (how != FERRYI_CLOSE_COMMIT || last_use || !store->context->trace || !closes_freely(scope))
        FERRYI_OR_RETURN(ferryi_callback_check("close a scope"));
    for (;;) {
        struct ferryi_claim *claim = find_claim(scope);
        if (!claim)
            break;
        struct ferryi_claim copy = *claim;
        /* A running call may rely on the write of this scope. This thread waits until that call has
         * ended. */
        const struct ferryi_claim *relying =
            how == FERRYI_CLOSE_ABANDON ? ferryi_claim_relying(store, claim) : NULL;
        if (relying) {
            if (!ferryi_claim_outlast(store, relying))
                return ferryi_callback_refuse_wait("abandon a scope");
            continue;
        }
        take_claim(claim);
        ferryi_store_unlock(store);
        return close_slow(scope, &copy, how, last_use ? last_use : copy.timeline);
    }
    scope->store = NULL;
    return FERRY_OK;
}

/* Closes a scope that close_write() cannot close. The caller has locked the buffer with
 * ferryi_store_lock_plain(). If the scope is already closed, the claim (range lock) in its slot may
 * belong to a different scope. */
FERRYI_RELEASES(ferryi_store_spin)
static __attribute__((noinline)) ferry_status
close_locked(struct ferryi_scope *scope)
{
    ferryi_store *store = scope->store;
    struct ferryi_claim *claim = &store->claims[scope->slot];
    bool hit = scope->slot < store->claim_high && claim->id == scope->id &&
               ferryi_scope_close_locked(store, claim);
    if (hit) {
        ferryi_access_remove_spent(store, scope->slot);
        scope->store = NULL;
    }
    ferryi_store_unlock_plain(store);
    return hit ? FERRY_OK : close_how(scope, FERRYI_CLOSE_COMMIT, NULL);
}

/* Closes an open scope that ferryi_scope_close_read() cannot close, as close_locked() does. Calls
 * no function if the scope is a write of the whole buffer, so the compiled code then pushes no
 * registers onto the stack. */
FERRYI_RELEASES(ferryi_store_spin)
static __attribute__((noinline)) ferry_status
close_write(struct ferryi_scope *scope, ferryi_store *store, const struct ferryi_claim *claim,
            const ferryi_timeline *timeline)
{
    if (!ferryi_scope_close_whole(store, claim, timeline))
        return close_locked(scope);
    store->claim_counts = 0;
    store->write_claims = 0;
    scope->store = NULL;
    ferryi_store_unlock_plain(store);
    return FERRY_OK;
}

static __attribute__((noinline)) ferry_status
close_scope(struct ferryi_scope *scope)
{
    if (!scope)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "close a scope: it is NULL");
    return scope->store ? close_how(scope, FERRYI_CLOSE_COMMIT, NULL) : FERRY_OK;
}

ferry_status
ferry_scope_close(ferry_scope *scope)
{
    struct ferryi_scope *body = ferryi_scope_of(scope);
    ferryi_store *store = body ? body->store : NULL;
    if (store && ferryi_store_lock_plain(store)) {
        uint32_t slot = body->slot;
        if (slot >= store->claim_high)
            return close_locked(body);
        struct ferryi_claim *claim = &store->claims[slot];
        if (claim->id != body->id)
            return close_locked(body);
        if (!ferryi_scope_close_read(claim))
            return close_write(body, store, claim, claim->timeline);
        ferryi_access_free_claim(store, claim, slot);
        body->store = NULL;
        ferryi_store_unlock_plain(store);
        return FERRY_OK;
    }
    return close_scope(body);
}

ferry_status
ferry_scope_abandon(ferry_scope *scope)
{
    if (!scope)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "abandon a scope: it is NULL");
    FERRYI_OR_RETURN(ferryi_callback_check("abandon a scope"));
    struct ferryi_scope *body = ferryi_scope_of(scope);
    return body->store ? close_how(body, FERRYI_CLOSE_ABANDON, NULL) : FERRY_OK;
}

ferry_status
ferry_scope_close_on(ferry_scope *scope, ferry_stream *last_use)
{
    if (!scope || !last_use)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "close a scope on a stream: scope or stream is NULL");
    FERRYI_OR_RETURN(ferryi_callback_check("close a scope on a stream"));
    struct ferryi_scope *body = ferryi_scope_of(scope);
    ferryi_store *store = body->store;
    if (!store)
        return FERRY_OK;
    if (last_use->context != store->context)
        return ferryi_fail(FERRY_ERROR_WRONG_CONTEXT,
                           "close a scope on a stream: the stream belongs to another context");
    struct ferryi_claim claim;
    if (!find_open(body, &claim)) {
        body->store = NULL;
        return FERRY_OK;
    }
    if (claim.place != last_use->timeline->place)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "close a scope of place %d on a stream of place %d", claim.place,
                           last_use->timeline->place);
    return close_how(body, FERRYI_CLOSE_COMMIT, last_use->timeline);
}

/* -- streams that Ferry does not know ---------------------------------------------------------- */

/* Sets `*out` to the timeline that represents all streams that Ferry does not know. If there is no
 * such timeline, waits for the device and sets `*out` to NULL. All uses are then complete, so none
 * needs to be recorded. */
static ferry_status
find_unknown_timeline(ferry_context *context, int place, ferryi_timeline **out)
{
    *out = NULL;
    if (ferryi_timeline_of_unknown(&context->order, context->devices[place], place, out) ==
        FERRY_OK)
        return FERRY_OK;
    return ferryi_order_synchronize(&context->order, context->devices[place]);
}

ferry_status
ferryi_scope_end_unordered(struct ferryi_scope *scope, enum ferryi_close how)
{
    ferryi_store *store = scope->store;
    struct ferryi_claim claim;
    ferry_status status = store ? ferryi_callback_check("close a scope") : FERRY_OK;
    if (!store || status != FERRY_OK)
        return status;
    if (!find_open(scope, &claim)) {
        scope->store = NULL;
        return FERRY_OK;
    }
    ferryi_timeline *timeline = NULL;
    /* If the context was destroyed, its timelines are freed, and no use needs to be recorded. */
    if (claim.place != FERRY_PLACE_HOST && !ferryi_store_is_dead(store))
        status = find_unknown_timeline(store->context, claim.place, &timeline);
    if (status == FERRY_ERROR_UNSUPPORTED)
        return status; /* the scope stays open until the capture has ended */
    ferry_status closed = close_how(scope, how, timeline);
    return status == FERRY_OK ? closed : status;
}

ferry_status
ferry_scope_close_unordered(ferry_scope *scope)
{
    if (!scope)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "close a scope without an order: it is NULL");
    FERRYI_OR_RETURN(ferryi_callback_check("close a scope without an order"));
    return ferryi_scope_end_unordered(ferryi_scope_of(scope), FERRYI_CLOSE_COMMIT);
}

/* Fails if a kernel that should have written bytes of an open scope has failed. The bytes of an
 * OVERWRITE scope do not matter, unless later work on the scope's stream has replaced them. */
static ferry_status
check_bytes(ferryi_store *store, const struct ferryi_claim *claim)
{
    struct ferryi_range range = {claim->begin, claim->end};
    struct ferryi_access bytes =
        ferryi_access_of(store, range, FERRY_READ, claim->place, "wait for");
    bool matter = claim->access != FERRY_OVERWRITE || (claim->flags & FERRYI_CLAIM_SEEN);
    return matter ? ferryi_access_check_kernels(&bytes) : FERRY_OK;
}

ferry_status
ferry_scope_wait(ferry_scope *scope)
{
    if (!scope)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "wait for the bytes of a scope: it is NULL");
    struct ferryi_scope *body = ferryi_scope_of(scope);
    struct ferryi_claim claim;
    ferry_status status = ferryi_callback_check("wait for the bytes of a scope");
    if (!body->store || status != FERRY_OK)
        return status;
    if (!find_open(body, &claim))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "wait for the bytes of a scope: it was closed");
    if (ferryi_store_is_dead(body->store))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "wait for the bytes of a scope: the context of buffer \"%s\" %s",
                           ferryi_store_name(body->store),
                           ferryi_shell_why_closed(body->store->context));
    if (claim.place == FERRY_PLACE_HOST)
        return FERRY_OK;
    /* If the buffer is zeroed before each OVERWRITE, the zeroing was queued when the scope was
     * opened. It may still run. It is recorded here, so that the following wait includes it. */
    if (claim.access == FERRY_OVERWRITE && body->store->scrub)
        status = ferryi_access_note_use(body->store, &claim, claim.timeline);
    if (status == FERRY_OK)
        status = ferryi_store_order(body->store, claim.place, NULL, claim.access != FERRY_READ);
    return status == FERRY_OK ? check_bytes(body->store, &claim) : status;
}

/* -- waiting for scopes ------------------------------------------------------------------------ */

ferry_status
ferry_buffer_wait_available(ferry_buffer *buffer, ferry_access access, uint64_t timeout_ns)
{
    struct ferryi_range range;
    ferry_status status =
        ferryi_buffer_check(buffer, NULL, FERRY_READ, 0, FERRY_REST, "wait for scopes", &range);
    if (status == FERRY_OK && (access < FERRY_READ || access > FERRY_OVERWRITE))
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "wait for scopes: access %d is unknown",
                             (int)access);
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    ferryi_store *store = buffer->store;
    struct ferryi_access wanted =
        ferryi_access_of(store, range, (uint8_t)access, FERRYI_PLACE_NONE, "wait for scopes on");
    uint64_t now = ferryi_now_ns();
    uint64_t deadline = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
    for (bool in_time = timeout_ns > 0;;) {
        ferryi_store_lock(store);
        bool busy = ferryi_access_conflict(store, &wanted, true) == FERRYI_CONFLICT_BUSY;
        if (!busy) {
            ferryi_store_unlock(store);
            return FERRY_OK;
        }
        if (!in_time) {
            char scope[FERRYI_SCOPES_TEXT];
            ferryi_access_describe_busy(&wanted, scope, sizeof(scope));
            ferryi_store_unlock(store);
            return ferryi_fail(FERRY_ERROR_BUSY,
                               "wait for scopes of buffer \"%s\": still open after %llu ns: %s",
                               ferryi_store_name(store), (unsigned long long)timeout_ns, scope);
        }
        in_time = ferryi_store_unlock_and_park(store, NULL, deadline);
    }
}
