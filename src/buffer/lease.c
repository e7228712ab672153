/* SPDX-License-Identifier: MIT */
#include "src/buffer/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/buffer/scope_hit.h"
#include "src/debug/debug.h"
#include "src/store/watch.h"

/* -- opening ----------------------------------------------------------------------------------- */

static ferry_status
check_options(const ferry_buffer *buffer, const ferry_lease_options *options, int *out_place)
{
    ferry_stream *stream = options->stream;
    int place = options->place;
    if (options->access < FERRY_READ || options->access > FERRY_OVERWRITE)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open a lease: access %d is unknown; options.access is needed",
                           (int)options->access);
    if (stream && stream->context != buffer->store->context)
        return ferryi_stream_refuse(stream, "open a lease");
    if (stream && place == FERRY_PLACE_HOST)
        place = stream->timeline->place;
    if (stream && place != stream->timeline->place)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open a lease at place %d on a stream of place %d", place,
                           stream->timeline->place);
    *out_place = place;
    return ferryi_shell_check_place(buffer->store->context, place, "open a lease");
}

static ferry_status
open_scope(ferry_buffer *buffer, const ferry_element *element, const ferry_lease_options *options,
           int place, size_t count, ferry_scope *scope, void **out)
{
    if (place == FERRY_PLACE_HOST)
        return ferry_buffer_open_host(buffer, element, options->access, options->offset, count,
                                      scope, out);
    if (options->stream)
        return ferry_buffer_open_device(buffer, element, options->access, options->offset, count,
                                        options->stream, scope, out);
    return ferryi_scope_open_ready(buffer, element, options->access, place, options->offset, count,
                                   ferryi_scope_of(scope), out);
}

/* Adds a lease to the buffer's list of leases after the lease's scope was opened. Called under the
 * buffer's lock. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE void
attach_open(ferry_lease *lease, ferryi_store *store, int place)
{
    const struct ferryi_claim *claim = &store->claims[lease->scope.slot];
    ferryi_lease_attach(lease, store, place);
    lease->bytes = claim->end - claim->begin;
}

/* Fast path that opens the most common lease: a READ on the host. Returns false and changes nothing
 * if the fast path does not apply. */
FERRYI_INLINE bool
open_host_read_hit(ferry_lease *lease, const ferry_buffer *buffer, const ferry_element *element,
                   const ferry_lease_options *options, size_t count, void **out)
{
    ferryi_store *store = buffer->store;
    if (options->access != FERRY_READ || options->place != FERRY_PLACE_HOST || options->stream ||
        element->identity != buffer->identity || !ferryi_store_lock_plain(store))
        return false;
    bool hit = ferryi_scope_open_current(buffer, store, FERRY_READ, options->offset, count, NULL,
                                         &lease->scope, out);
    if (hit)
        attach_open(lease, store, FERRY_PLACE_HOST);
    ferryi_store_unlock_plain(store);
    return hit;
}

/* Fast path that opens a lease for any access on the host or on a stream. It applies if no
 * transfer, allocation, wait or driver call is needed. Otherwise returns false and changes nothing.
 */
static __attribute__((noinline)) bool
open_hit(ferry_lease *lease, const ferry_buffer *buffer, const ferry_element *element,
         const ferry_lease_options *options, size_t count, void **out)
{
    ferryi_store *store = buffer->store;
    ferry_stream *stream = options->stream;
    struct ferryi_range range;
    if (element->identity != buffer->identity || !ferryi_buffer_allows(buffer, options->access) ||
        (stream && stream->plain_context != store->context) ||
        !ferryi_buffer_range(buffer, options->offset, count, &range) || range.begin == range.end)
        return false;
    ferryi_timeline *timeline = stream ? stream->timeline : NULL;
    int place = timeline ? timeline->place : FERRY_PLACE_HOST;
    if ((options->place != FERRY_PLACE_HOST && options->place != place) ||
        !ferryi_store_lock_plain(store))
        return false;
    bool hit = ferryi_scope_open_current(buffer, store, options->access, options->offset, count,
                                         timeline, &lease->scope, out) ||
               ferryi_scope_open_locked(store, range, ferryi_scope_goes_to_end(buffer, count),
                                        options->access, place, timeline, &lease->scope, out);
    if (hit)
        attach_open(lease, store, place);
    ferryi_store_unlock_plain(store);
    return hit;
}

/* Opens a lease in all cases that the fast paths exclude. The lease's pin is added before memory is
 * allocated, so that an eviction cannot free the new memory. */
static ferry_status
open_slow(ferry_lease *lease, ferry_buffer *buffer, const ferry_element *element,
          const ferry_lease_options *options, size_t count, void **out)
{
    struct ferryi_range range;
    int place = 0;
    FERRYI_OR_RETURN(ferryi_buffer_check(buffer, element, options->access, options->offset, count,
                                         "open a lease", &range));
    FERRYI_OR_RETURN(check_options(buffer, options, &place));
    ferryi_store *store = buffer->store;
    ferryi_store_lock(store);
    ferryi_lease_attach(lease, store, place);
    ferryi_store_unlock(store);

    ferry_scope scope;
    lease->is_unordered = place != FERRY_PLACE_HOST && !options->stream;
    ferry_status status = open_scope(buffer, element, options, place, count, &scope, out);
    ferryi_store_lock(store);
    if (status == FERRY_OK) {
        lease->scope = *ferryi_scope_of(&scope);
        const struct ferryi_claim *claim =
            lease->scope.store ? &store->claims[lease->scope.slot] : NULL;
        lease->bytes = claim ? claim->end - claim->begin : 0;
    } else {
        ferryi_lease_detach(lease, store);
    }
    store->references -= status != FERRY_OK;
    ferryi_store_unlock(store);
    if (status == FERRY_OK && lease->scope.store)
        ferryi_watch_leased(store, place, &lease->note, lease->label, range);
    return status;
}

/* -- ending ------------------------------------------------------------------------------------ */

/* Closes the scope of the lease. If several threads call this function at the same time, one of
 * them closes the scope, and the others return FERRY_OK. */
static ferry_status
end_scope(ferry_lease *lease, enum ferryi_close how)
{
    ferry_scope scope;
    ferry_status status;
    if (atomic_load(&lease->closed))
        return FERRY_OK;
    *ferryi_scope_of(&scope) = lease->scope;
    if (lease->is_unordered)
        status = ferryi_scope_end_unordered(ferryi_scope_of(&scope), how);
    else
        status =
            how == FERRYI_CLOSE_ABANDON ? ferry_scope_abandon(&scope) : ferry_scope_close(&scope);
    if (!ferryi_scope_of(&scope)->store)
        atomic_store(&lease->closed, true);
    return status;
}

static ferry_status
check(ferry_lease *lease, const char *what)
{
    if (!lease)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: it is NULL", what);
    if (atomic_load_explicit(&lease->shares, memory_order_relaxed) <= 0)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s: it was destroyed; it was held by %s",
                           what, lease->label);
    return FERRY_OK;
}

ferry_status
ferry_lease_close(ferry_lease *lease)
{
    ferry_status status = check(lease, "close a lease");
    return status == FERRY_OK ? end_scope(lease, FERRYI_CLOSE_COMMIT) : status;
}

ferry_status
ferry_lease_abandon(ferry_lease *lease)
{
    ferry_status status = check(lease, "abandon a lease");
    if (status == FERRY_OK)
        status = ferryi_callback_check("abandon a lease");
    return status == FERRY_OK ? end_scope(lease, FERRYI_CLOSE_ABANDON) : status;
}

bool
ferry_lease_is_open(const ferry_lease *lease)
{
    return lease && !atomic_load(&lease->closed) && !lease->context->inherited;
}

ferry_lease *
ferry_lease_retain(ferry_lease *lease)
{
    if (lease)
        atomic_fetch_add_explicit(&lease->shares, 1, memory_order_relaxed);
    return lease;
}

bool
ferryi_lease_share(ferry_lease *lease)
{
    const struct ferryi_scope *scope = &lease->scope;
    ferryi_store *store = scope->store;
    if (!ferry_lease_is_open(lease))
        return false;
    /* A lease of zero elements has no claim. */
    if (!store)
        return ferry_lease_retain(lease);
    ferryi_store_lock(store);
    bool open = scope->slot < store->claim_high && store->claims[scope->slot].id == scope->id;
    if (open)
        (void)ferry_lease_retain(lease);
    ferryi_store_unlock(store);
    return open;
}

/* Same as ferryi_scope_close_locked(), but not inlined, so that the fast path of a READ pushes few
 * registers onto the stack. */
FERRYI_REQUIRES(ferryi_store_spin)
static __attribute__((noinline)) bool
close_locked(ferryi_store *store, struct ferryi_claim *claim)
{
    return ferryi_scope_close_locked(store, claim);
}

/* Fast path that closes the lease's scope and drops the lease's reference to the buffer's storage.
 * The scope must be open, and must close without a driver call. The reference must not be the last
 * one. If one of these conditions is not met, returns false and changes nothing. */
static bool
end_hit(ferry_lease *lease)
{
    struct ferryi_scope scope = lease->scope;
    ferryi_store *store = scope.store;
    if (!store || lease->is_unordered ||
        atomic_load_explicit(&lease->closed, memory_order_relaxed) ||
        !ferryi_store_lock_plain(store))
        return false;
    struct ferryi_claim *claim = &store->claims[scope.slot];
    bool alone = store->references > 1 && scope.slot < store->claim_high && claim->id == scope.id;
    bool hit = alone && (ferryi_scope_close_read(claim) || close_locked(store, claim));
    if (hit) {
        ferryi_access_remove_spent(store, scope.slot);
        ferryi_lease_detach(lease, store);
        store->references--;
    }
    ferryi_store_unlock_plain(store);
    return hit;
}

static void
end_slow(ferry_lease *lease)
{
    ferryi_store *store = lease->store;
    if (end_scope(lease, FERRYI_CLOSE_COMMIT) != FERRY_OK)
        ferryi_log(&store->context->log, FERRY_LOG_ERROR,
                   "destroy a lease of buffer \"%s\", held by %s: %s", ferryi_store_name(store),
                   lease->label, ferry_last_error());
    ferryi_watch_unleased(store, &lease->note);
    ferryi_lease_let_go(lease);
}

/* Returns whether the lease may be destroyed by the callback that this thread runs. Called only if
 * the fast path end_hit() cannot end the lease. */
static bool
may_end_now(const ferry_lease *lease)
{
    ferryi_store *store = lease->store;
    if (ferryi_callback_only_watches())
        return false;
    ferryi_store_lock(store);
    bool last = store->references == 1;
    ferryi_store_unlock(store);
    return !last || ferryi_store_may_end(store);
}

/* Ends the lease's use of the buffer and drops the lease's reference to the buffer's storage. If
 * this thread runs a callback that must not end a lease, returns false and changes nothing. */
static bool
end_use(ferry_lease *lease)
{
    bool in_callback = ferryi_callback_thread.innermost;
    if (!lease->store)
        return true;
    if (in_callback && ferryi_shell_is_last_refused(lease->context))
        return false;
    if (!end_hit(lease)) {
        if (in_callback && !may_end_now(lease))
            return false;
        end_slow(lease);
    }
    return true;
}

static void
release_quarantined(void *header)
{
    ferry_lease *lease = header;
    ferryi_shell_release(lease->context);
    free(lease);
}

/* Destroys a lease in a checked run (FERRY_DEBUG). The lease is first quarantined instead of freed,
 * so that a later use of it is reported. Until it is freed, it keeps the context's struct alive. */
static void
end_checked(ferry_lease *lease)
{
    ferry_context *context = lease->context;
    ferryi_shell_retain(context);
    ferryi_shell_disown(&context);
    if (context) {
        ferryi_shell_release(context);
        return;
    }
    atomic_store(&lease->shares, 0);
    ferryi_quarantine_add(lease, release_quarantined);
}

/* Destroys the lease. If this thread runs a callback that must not destroy the lease, logs the
 * failure. The lease then stays, and the program must destroy it again. */
static void
end(ferry_lease **lease)
{
    ferry_lease *gone = *lease;
    atomic_store_explicit(&gone->shares, 1, memory_order_relaxed);
    if (!end_use(gone)) {
        (void)ferryi_callback_refuses_end(&gone->context->log, true, "destroy a lease");
        return;
    }
    if (gone->guest && !gone->context->inherited)
        ferryi_stream_release(gone->guest);
    gone->store = NULL;
    atomic_store_explicit(&gone->closed, true, memory_order_relaxed);
    if (gone->context->debug) {
        end_checked(gone);
        if (atomic_load(&gone->shares) == 0)
            *lease = NULL;
        return;
    }
    ferryi_shell_disown(&gone->context);
    if (gone->context)
        return;
    *lease = NULL;
    free(gone);
}

/* -- opening and destroying -------------------------------------------------------------------- */

static ferry_status
open_lease(ferry_lease *lease, ferry_buffer *buffer, const ferry_element *element,
           const ferry_lease_options *options, void **out_pointer)
{
    size_t count = options->count ? options->count : FERRY_REST;
    if (open_host_read_hit(lease, buffer, element, options, count, out_pointer) ||
        open_hit(lease, buffer, element, options, count, out_pointer))
        return FERRY_OK;
    return open_slow(lease, buffer, element, options, count, out_pointer);
}

/* Opens a lease for a library that uses the memory on its own stream. What Ferry has queued on that
 * stream is recorded at once, because the stream may not exist later. If Ferry could not notice the
 * end of the stream, opens the lease without a stream. */
static ferry_status
open_for_guest(ferry_lease *lease, ferry_buffer *buffer, const ferry_element *element,
               const ferry_lease_options *options, void **out_pointer)
{
    ferry_context *context = buffer->store->context;
    ferry_lease_options own = *options;
    own.native_stream = NULL;
    if (own.stream || own.place == FERRY_PLACE_HOST)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open a lease of buffer \"%s\": options.native_stream is for a device "
                           "place, without options.stream",
                           ferryi_store_name(buffer->store));
    ferry_status status =
        ferryi_stream_open_guest(context, own.place, options->native_stream, &own.stream);
    if (status == FERRY_ERROR_UNSUPPORTED)
        return open_lease(lease, buffer, element, &own, out_pointer);
    if (status == FERRY_OK)
        status = open_lease(lease, buffer, element, &own, out_pointer);
    if (status == FERRY_OK && ferryi_timeline_flush(own.stream->timeline) != FERRY_OK)
        ferryi_log(&context->log, FERRY_LOG_WARNING, "open a lease: %s", ferry_last_error());
    if (status == FERRY_OK)
        lease->guest = own.stream;
    else if (own.stream)
        ferryi_stream_release(own.stream);
    return status;
}

ferry_status
ferry_lease_open(ferry_buffer *buffer, const ferry_element *element,
                 const ferry_lease_options *options, ferry_lease **out, void **out_pointer)
{
    if (!buffer || !element || !options || !out || !out_pointer)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open a lease: buffer, element, options, out or out_pointer is NULL");
    bool has_list = ferryi_store_cold_of(buffer->store) || ferryi_store_make_cold(buffer->store);
    ferry_lease *lease = has_list ? ferryi_lease_new(options->label) : NULL;
    if (!lease)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "open a lease of buffer \"%s\": no memory for it",
                           ferryi_store_name(buffer->store));
    ferryi_store *store = buffer->store;
    lease->context = store->context;
    ferry_status status = options->native_stream
                              ? open_for_guest(lease, buffer, element, options, out_pointer)
                              : open_lease(lease, buffer, element, options, out_pointer);
    if (status != FERRY_OK) {
        free(lease);
        return status;
    }
    if (!ferryi_shell_try_own(store->context)) {
        /* The context is being destroyed, so the new lease is ended at once. may_end_now() need not
         * be called, even within a callback. The caller's handle keeps the buffer's storage alive,
         * and the lease does not own the context yet. So ending the lease frees neither of them. */
        if (!end_hit(lease))
            end_slow(lease);
        if (lease->guest)
            ferryi_stream_release(lease->guest);
        free(lease);
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "open a lease of buffer \"%s\": its context is being destroyed",
                           ferryi_store_name(store));
    }
    lease->element = buffer->element;
    lease->pointer = *out_pointer;
    lease->access = options->access;
    *out = lease;
    return FERRY_OK;
}

void
ferry_lease_destroy(ferry_lease **lease)
{
    if (!lease || !*lease)
        return;
    ferry_lease *gone = *lease;
    /* The only owner needs no atomic exchange. */
    int shares = atomic_load_explicit(&gone->shares, memory_order_acquire);
    if (shares > 1)
        shares = atomic_fetch_sub_explicit(&gone->shares, 1, memory_order_acq_rel);
    if (shares == 1) {
        end(lease);
        return;
    }
    *lease = NULL;
    if (shares <= 0)
        ferryi_log(&gone->context->log, FERRY_LOG_ERROR,
                   "destroy a lease: it was destroyed before; it was held by %s", gone->label);
}
