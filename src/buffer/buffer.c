/* SPDX-License-Identifier: MIT */
#include "src/buffer/buffer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/buffer/lease.h"
#include "src/buffer/share.h"
#include "src/debug/debug.h"
#include "src/store/checked.h"
#include "src/store/claim.h"

#define MAX_ALIGN ((size_t)2 << 20)

/* -- creation ---------------------------------------------------------------------------------- */

/* Returns whether every device of the context can use managed memory, which the first one that can
 * allocates. Coherent devices use all memory of the host. */
static bool
can_manage(const ferry_context *context)
{
    const ferryi_device *first = NULL;
    bool any = false;
    for (int place = 1; place <= context->place_count; place++) {
        const ferryi_device *device = context->devices[place];
        const bool can = device->capabilities & FERRY_CAN_MANAGE;
        any = any || can;
        if (device->capabilities & FERRYI_DEVICE_COHERENT)
            continue;
        if (!can || (first && !ferryi_device_is_peer(first, device)))
            return false;
        first = device;
    }
    return any;
}

static ferry_status
check_options(const ferry_context *context, const ferry_buffer_options *options)
{
    if (!options)
        return FERRY_OK;
    if (options->align && (!ferryi_is_power_of_two(options->align) || options->align > MAX_ALIGN))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "create a buffer: alignment %zu is no power of two up to %zu",
                           options->align, MAX_ALIGN);
    if (options->memory < FERRY_MEMORY_DEFAULT || options->memory > FERRY_MEMORY_SHARED ||
        options->memory == FERRY_MEMORY_DEVICE)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "create a buffer: memory kind %d is not one for buffers",
                           (int)options->memory);
    if (options->place != FERRY_PLACE_HOST && options->memory != FERRY_MEMORY_SHARED)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "create a buffer: a place is given, but only shared memory has one");
    if (options->memory == FERRY_MEMORY_MANAGED && !can_manage(context))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "create a managed buffer: not every device of the context has managed "
                           "memory that the host and the other devices may use at any time");
    return FERRY_OK;
}

ferry_status
ferry_buffer_create(ferry_context *context, const ferry_element *element, size_t count,
                    const ferry_buffer_options *options, ferry_buffer **out)
{
    const ferry_element *interned;
    size_t bytes;
    ferryi_store *store;
    FERRYI_OR_RETURN(ferryi_buffer_check_creation(context, element, count, out, "create a buffer",
                                                  &interned, &bytes));
    FERRYI_OR_RETURN(check_options(context, options));
    if (options && options->memory == FERRY_MEMORY_SHARED)
        return ferryi_share_create(context, interned, count, bytes, options, out);
    FERRYI_OR_RETURN(ferryi_store_create(context, bytes, options, true, &store));
    *out = ferryi_store_open(store, interned, count);
    return FERRY_OK;
}

/* -- wrapping ---------------------------------------------------------------------------------- */

static ferry_status
wrap(ferry_context *context, const ferry_element *interned, size_t bytes, void *memory,
     size_t count, int place, const ferry_wrap_options *options, ferryi_sync_point written,
     ferry_buffer **out)
{
    static const ferry_wrap_options defaults;
    if (!options)
        options = &defaults;
    ferryi_store *store;
    /* The alignment of the wrapped memory limits which element types a view may have. Replicas at
     * other places impose no limit, because the pool aligns them sufficiently. */
    size_t lowest_bit = bytes ? (uintptr_t)memory & -(uintptr_t)memory : 0;
    ferry_buffer_options named = {
        .name = options->name,
        .align = lowest_bit ? ferryi_min_size(lowest_bit, FERRYI_POOL_ALIGN) : FERRYI_POOL_ALIGN};
    FERRYI_OR_RETURN(ferryi_checked_wrap(context, options->name, memory, bytes, place));
    FERRYI_OR_RETURN(ferryi_store_create(context, bytes, &named, true, &store));
    bool needs_cold = options->on_release || options->release_on || place != FERRY_PLACE_HOST;
    struct ferryi_store_cold *cold = needs_cold ? ferryi_store_make_cold(store) : NULL;
    if (needs_cold && !cold) {
        ferryi_store_release(store);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "wrap memory: no memory for its owner and its counters");
    }
    if (cold) {
        cold->on_release = options->on_release;
        cold->on_release_user = options->user;
        cold->release_on = options->release_on;
        if (cold->release_on)
            ferryi_stream_retain(cold->release_on);
    }
    /* Other threads find the store in the context's list, and look at it under its lock. */
    ferryi_store_lock(store);
    ferryi_store_borrow(store, place, memory, written, options->read_only);
    ferryi_valid_map_commit_whole(&store->map, place, FERRYI_CHANGE_OVERWRITE);
    ferryi_store_unlock(store);
    *out = ferryi_store_open(store, interned, count);
    ferryi_checked_wrapped(store);
    return FERRY_OK;
}

static ferry_status
check_wrapped(ferry_context *context, const ferry_element *interned, const void *memory,
              size_t count, const ferry_wrap_options *options, const char *what)
{
    ferryi_timeline *timeline;
    if (!memory && count > 0)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: memory is NULL", what);
    if (count > 0 && (uintptr_t)memory % interned->align)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: memory at %p is not aligned to %zu bytes", what, memory,
                           interned->align);
    return options && options->release_on
               ? ferryi_stream_find_timeline(context, options->release_on, what, &timeline)
               : FERRY_OK;
}

ferry_status
ferry_buffer_wrap_host(ferry_context *context, const ferry_element *element, size_t count,
                       void *memory, const ferry_wrap_options *options, ferry_buffer **out)
{
    const ferry_element *interned;
    size_t bytes;
    ferry_status status = ferryi_buffer_check_creation(context, element, count, out,
                                                       "wrap host memory", &interned, &bytes);
    if (status == FERRY_OK)
        status = check_wrapped(context, interned, memory, count, options, "wrap host memory");
    return status == FERRY_OK
               ? wrap(context, interned, bytes, memory, count, FERRY_PLACE_HOST, options, 0, out)
               : status;
}

/* Fails if `place` is a coherent device and the host cannot use `memory`. The host and a coherent
 * device use the same memory, so a buffer has no separate replica at a coherent device. */
static ferry_status
check_of_host(const ferry_context *context, int place, const void *memory)
{
    ferryi_device *device = context->devices[place];
    unsigned users = FERRYI_USER_HOST;
    if (!memory || !(context->coherent >> place & 1))
        return FERRY_OK;
    ferry_status status = FERRYI_CALL(device, memory_users, memory, &users);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "wrap device memory");
    return users & FERRYI_USER_HOST
               ? FERRY_OK
               : ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                             "wrap device memory: the host may not use it, and buffers of %s "
                             "have no other memory; use managed or pinned memory",
                             context->names[place]);
}

ferry_status
ferry_buffer_wrap_device(ferry_context *context, const ferry_element *element, size_t count,
                         ferry_stream *ready_on, void *memory, const ferry_wrap_options *options,
                         ferry_buffer **out)
{
    const ferry_element *interned;
    size_t bytes;
    ferryi_timeline *timeline;
    ferryi_sync_point written = 0;
    ferry_status status = ferryi_buffer_check_creation(context, element, count, out,
                                                       "wrap device memory", &interned, &bytes);
    if (status == FERRY_OK)
        status = check_wrapped(context, interned, memory, count, options, "wrap device memory");
    if (status == FERRY_OK)
        status = ferryi_stream_find_timeline(context, ready_on, "wrap device memory", &timeline);
    if (status == FERRY_OK)
        status = check_of_host(context, timeline->place, count > 0 ? memory : NULL);
    if (status == FERRY_OK)
        status = ferryi_timeline_note(timeline, ferryi_thread_id(), &written);
    return status == FERRY_OK ? wrap(context, interned, bytes, memory, count, timeline->place,
                                     options, written, out)
                              : status;
}

/* Returns whether `buffer` is the only handle of its storage, and no scope on this storage is open.
 */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_only_user(const ferry_buffer *buffer)
{
    return atomic_load(&buffer->owners) / FERRYI_HANDLE_OWNER == 1 &&
           buffer->store->references == 1 && ferryi_store_scopes(buffer->store) == 0;
}

/* Checks that a buffer may stop using the program's memory that it wraps. A read-only view may not
 * end a wrap: the memory would change, or stay behind without newer bytes. Waits for queued calls,
 * including prefetches, and for evictions in other threads. The program itself cannot wait for a
 * prefetch, because a prefetch has no event. `verb` is "unwrap" or "abandon". If `stream`
 * is not NULL, `*out_timeline` becomes its timeline. */
static ferry_status
check_wrap_end(ferry_buffer *const *buffer, ferry_stream *stream, const char *what,
               const char *verb, ferryi_timeline **out_timeline)
{
    struct ferryi_range range;
    if (!buffer || !*buffer)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: it is NULL", what);
    ferryi_store *store = (*buffer)->store;
    bool is_base = *buffer == &store->first;
    ferry_status status = ferryi_buffer_check(*buffer, NULL, is_base ? FERRY_READ : FERRY_UPDATE, 0,
                                              FERRY_REST, what, &range);
    if (status == FERRY_OK && stream)
        status = ferryi_stream_find_timeline(store->context, stream, what, out_timeline);
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    if (status == FERRY_OK &&
        (store->borrowed_place == FERRYI_PLACE_NONE || (cold && cold->shared)))
        status = ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s buffer \"%s\": it wraps no memory",
                             verb, ferryi_store_name(store));
    if (status == FERRY_OK)
        status = ferryi_access_wait_calls(store, what);
    return status == FERRY_OK ? ferryi_leases_check_none(store, FERRYI_PLACE_NONE, verb) : status;
}

ferry_status
ferry_buffer_unwrap(ferry_buffer **buffer, ferry_stream *stream)
{
    ferryi_timeline *timeline = NULL;
    FERRYI_OR_RETURN(check_wrap_end(buffer, stream, "unwrap a buffer", "unwrap", &timeline));
    ferryi_store *store = (*buffer)->store;
    ferryi_store_lock(store);
    bool only = is_only_user(*buffer);
    bool scopes = ferryi_store_scopes(store) > 0;
    ferryi_store_unlock(store);
    if (!only)
        return ferryi_fail(scopes ? FERRY_ERROR_BUSY : FERRY_ERROR_INVALID_STATE,
                           "unwrap buffer \"%s\": %s", ferryi_store_name(store),
                           scopes ? "a scope is open"
                                  : "other handles, views or batches of it live");
    /* The callback on_release may free the wrapped memory. If the owner named no stream for the
     * release, the host must therefore wait for all uses of the memory. A wait by the caller's
     * stream is not enough. */
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    ferryi_timeline *release = cold && cold->release_on ? cold->release_on->timeline : NULL;
    ferryi_timeline *on = release || (cold && cold->on_release) ? release : timeline;
    FERRYI_OR_RETURN(ferryi_buffer_bring_back(store, on));
    FERRYI_OR_RETURN(ferryi_store_order(store, store->borrowed_place, on, true));
    if (release && timeline && timeline != release)
        FERRYI_OR_RETURN(ferryi_store_order(store, store->borrowed_place, timeline, true));
    ferryi_store_lock(store);
    if (on) {
        /* The timeline `on` is already ordered after all uses of the memory. So the sync points of
         * these uses are cleared, and releasing the memory does not wait for them. */
        struct ferryi_place_copy *copy = ferryi_store_copy(store, store->borrowed_place);
        copy->written = copy->reads = 0;
    }
    store->borrowed_place = FERRYI_PLACE_NONE;
    ferryi_store_unlock(store);
    ferry_buffer_destroy(buffer);
    return FERRY_OK;
}

/*
 * Marks the wrapped memory as current and read-only. From then on, neither an eviction nor an
 * unwrap copies bytes to this memory. Fails if another handle, an open scope or a running call may
 * use the memory.
 */
static ferry_status
disown(ferry_buffer *buffer)
{
    ferryi_store *store = buffer->store;
    ferryi_store_lock(store);
    ferryi_access_outlast_calls(store);
    bool only = is_only_user(buffer), scopes = ferryi_store_scopes(store) > 0,
         ends = only && store->claim_count == 0;
    if (ends) {
        ferryi_valid_map_commit_whole(&store->map, store->borrowed_place, FERRYI_CHANGE_OVERWRITE);
        store->read_only = true;
    }
    ferryi_store_unlock(store);
    if (ends)
        return FERRY_OK;
    if (only)
        return ferryi_callback_refuse_wait("abandon a buffer");
    return ferryi_fail(scopes ? FERRY_ERROR_BUSY : FERRY_ERROR_INVALID_STATE,
                       "abandon buffer \"%s\": %s", ferryi_store_name(store),
                       scopes ? "a scope is open" : "other handles or views of it live");
}

ferry_status
ferry_buffer_abandon(ferry_buffer **buffer)
{
    FERRYI_OR_RETURN(check_wrap_end(buffer, NULL, "abandon a buffer", "abandon", NULL));
    FERRYI_OR_RETURN(disown(*buffer));
    ferry_buffer_destroy(buffer);
    return *buffer ? ferryi_callback_refuse_wait("abandon a buffer") : FERRY_OK;
}

/* -- views ------------------------------------------------------------------------------------- */

/* Creates a view of a buffer's storage. The caller has added a reference to the storage, and the
 * view takes over this reference. If the function fails, it drops the reference. */
static ferry_status
view_new(ferryi_store *store, const ferry_element *interned, bool read_only, size_t offset,
         size_t count, ferry_buffer **out)
{
    ferry_buffer *view = calloc(1, sizeof(*view));
    if (!view) {
        ferryi_store_release(store);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "view buffer \"%s\": no memory for %zu bytes",
                           ferryi_store_name(store), sizeof(*view));
    }
    *view =
        (ferry_buffer){.identity = interned->identity,
                       .offset = offset,
                       .count = count,
                       .store = store,
                       .element = interned,
                       .element_bytes = (uint32_t)interned->bytes,
                       .owners = FERRYI_HANDLE_OWNER | (read_only ? FERRYI_HANDLE_READ_ONLY : 0)};
    *out = view;
    return FERRY_OK;
}

static ferry_status
view(ferry_buffer *base, const ferry_element *element, bool read_only, size_t offset, size_t count,
     ferry_buffer **out)
{
    struct ferryi_range range = {0, 0};
    if (!out || !element)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "view a buffer: element or out is NULL");
    do {
        FERRYI_OR_RETURN(
            ferryi_buffer_check(base, element, FERRY_READ, offset, count, "view a buffer", &range));
    } while (!ferryi_store_retain(
        base->store,
        range.end)); /* repeat if a resize shortened the buffer after the range was checked */
    return view_new(base->store, base->element, read_only || ferryi_buffer_is_read_only(base),
                    range.begin, (range.end - range.begin) / base->element_bytes, out);
}

ferry_status
ferry_buffer_view(ferry_buffer *base, const ferry_element *element, size_t offset, size_t count,
                  ferry_buffer **out)
{
    return view(base, element, false, offset, count, out);
}

ferry_status
ferry_buffer_view_read_only(ferry_buffer *base, const ferry_element *element, size_t offset,
                            size_t count, ferry_buffer **out)
{
    return view(base, element, true, offset, count, out);
}

/* Computes the range of `count` elements of a view whose element type differs from the buffer's.
 * Uses the buffer's current length. FERRY_REST means all elements up to the end of the buffer. */
static ferry_status
find_reinterpreted(const ferry_buffer *base, const ferry_element *interned, size_t offset_bytes,
                   size_t count, struct ferryi_range *out)
{
    struct ferryi_range whole;
    FERRYI_OR_RETURN(ferryi_buffer_check(base, NULL, FERRY_READ, 0, FERRY_REST,
                                         "view a buffer as another element", &whole));
    size_t room = whole.end - whole.begin, bytes;
    if (offset_bytes > room)
        return ferryi_fail(FERRY_ERROR_OUT_OF_RANGE,
                           "view buffer \"%s\" as %s: offset %zu is past its %zu bytes",
                           ferryi_store_name(base->store), interned->name, offset_bytes, room);
    if ((whole.begin + offset_bytes) % interned->align ||
        (count == FERRY_REST && (room - offset_bytes) % interned->bytes))
        return ferryi_fail(FERRY_ERROR_WRONG_TYPE,
                           "view buffer \"%s\" as %s: %zu bytes at offset %zu do not divide into "
                           "elements of %zu bytes aligned to %zu",
                           ferryi_store_name(base->store), interned->name, room - offset_bytes,
                           offset_bytes, interned->bytes, interned->align);
    if (interned->bytes > UINT32_MAX)
        return ferryi_fail(FERRY_ERROR_OVERFLOW,
                           "view buffer \"%s\" as %s: elements of %zu bytes are larger than 4 GiB",
                           ferryi_store_name(base->store), interned->name, interned->bytes);
    if (count == FERRY_REST)
        count = (room - offset_bytes) / interned->bytes;
    if (!ferryi_mul_size(count, interned->bytes, &bytes) || bytes > room - offset_bytes)
        return ferryi_fail(FERRY_ERROR_OUT_OF_RANGE,
                           "view buffer \"%s\" as %s: %zu elements of %zu bytes at offset %zu "
                           "reach past its %zu bytes",
                           ferryi_store_name(base->store), interned->name, count, interned->bytes,
                           offset_bytes, room);
    /* A view needs memory that is aligned for its element type. Ferry aligns replicas to at least
     * 256 bytes. Wrapped memory is only as aligned as its address. */
    if (interned->align > ferryi_store_align(base->store))
        return ferryi_fail(FERRY_ERROR_WRONG_TYPE,
                           "view buffer \"%s\" as %s: its memory is aligned to %zu bytes, not %zu",
                           ferryi_store_name(base->store), interned->name,
                           ferryi_store_align(base->store), interned->align);
    out->begin = whole.begin + offset_bytes;
    out->end = out->begin + bytes;
    return FERRY_OK;
}

ferry_status
ferry_buffer_reinterpret(ferry_buffer *base, const ferry_element *element, size_t offset_bytes,
                         size_t count, ferry_buffer **out)
{
    struct ferryi_range range = {0, 0};
    const ferry_element *interned;
    if (!out || !element)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "view a buffer as another element: element or out is NULL");
    ferry_status status = ferryi_element_intern(element, &interned);
    if (status != FERRY_OK)
        return status;
    do {
        status = find_reinterpreted(base, interned, offset_bytes, count, &range);
        if (status != FERRY_OK)
            return status;
    } while (!ferryi_store_retain(
        base->store,
        range.end)); /* repeat if a resize shortened the buffer after the range was checked */
    return view_new(base->store, interned, ferryi_buffer_is_read_only(base), range.begin,
                    (range.end - range.begin) / interned->bytes, out);
}

ferry_status
ferry_buffer_from_raw(ferry_buffer *raw, const ferry_element *element, ferry_buffer **out)
{
    struct ferryi_range range;
    if (!out || !element)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "take a raw buffer: element or out is NULL");
    ferry_status status =
        ferryi_buffer_check(raw, element, FERRY_READ, 0, FERRY_REST, "take a raw buffer", &range);
    if (status == FERRY_OK)
        *out = raw;
    return status;
}

/* -- owners ------------------------------------------------------------------------------------ */

ferry_buffer *
ferry_buffer_retain(ferry_buffer *buffer)
{
    if (!buffer || buffer->identity == FERRYI_BUFFER_FREED)
        return NULL;
    if (buffer->identity == FERRYI_BUFFER_GONE) {
        ferryi_log(&buffer->store->context->log, FERRY_LOG_ERROR,
                   "retain buffer \"%s\": it was destroyed", ferryi_store_name(buffer->store));
        return NULL;
    }
    atomic_fetch_add(&buffer->owners, FERRYI_HANDLE_OWNER);
    return buffer;
}

/* Returns whether the last handle of the buffer may be destroyed now. Returns false if a running
 * callback of this thread may only use the handle, or if a call still uses the buffer's storage. */
static bool
may_end_now(const ferry_buffer *buffer)
{
    return !ferryi_callback_lends(buffer) && ferryi_store_may_end(buffer->store);
}

FERRYI_COLD static void
refuse_end(const ferry_buffer *buffer)
{
    char what[200];
    snprintf(what, sizeof(what), "destroy buffer \"%.150s\"", ferryi_store_name(buffer->store));
    (void)ferryi_callback_refuses_end(&buffer->store->context->log, true, what);
}

/*
 * Adds an owner to the context, so that the context lives until ferry_buffer_destroy() returns.
 * Otherwise destroying an imported buffer could destroy the context during the call. The import may
 * be the last owner of a lease, and this lease may be the last owner of the same context.
 *
 * Returns NULL if the buffer is not an import, or if the calling thread runs a callback of the
 * context.
 */
static ferry_context *
keep_context(const ferryi_store *store)
{
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    ferry_context *context = store->context;
    if (!cold || !atomic_load_explicit(&cold->is_import, memory_order_relaxed) ||
        context->inherited)
        return NULL;
    if (ferryi_callback_thread.innermost && ferryi_callback_may_be_inside(context))
        return NULL;
    return ferryi_shell_try_own(context) ? context : NULL;
}

void
ferry_buffer_destroy(ferry_buffer **buffer)
{
    if (!buffer || !*buffer)
        return;
    ferry_buffer *gone = *buffer;
    ferryi_store *store = gone->store;
    int owners = atomic_fetch_sub(&gone->owners, FERRYI_HANDLE_OWNER) / FERRYI_HANDLE_OWNER;
    if (owners == 1 && ferryi_callback_thread.innermost && !may_end_now(gone)) {
        atomic_fetch_add(&gone->owners, FERRYI_HANDLE_OWNER);
        refuse_end(gone);
        return;
    }
    *buffer = NULL;
    if (owners <= 0)
        ferryi_log(&store->context->log, FERRY_LOG_ERROR,
                   "destroy buffer \"%s\": it was destroyed before", ferryi_store_name(store));
    if (owners != 1)
        return;
    bool is_view = gone != &store->first;
    if (store->context->debug)
        gone->identity = FERRYI_BUFFER_GONE;
    /* The handle is put into quarantine before its storage. Messages about the handle need its
     * name, which the storage contains. So the storage must be freed after the handle. */
    if (is_view)
        ferryi_quarantine_free(store->context->debug, gone, free);
    ferry_context *context = keep_context(store);
    ferryi_store_release(store);
    if (context)
        ferryi_shell_disown(&context);
}

ferry_status
ferry_context_find(ferry_context *context, const char *name, ferry_buffer **out)
{
    if (!context || !name || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "find a buffer: context, name or out is NULL");
    FERRYI_OR_RETURN(ferryi_shell_check_open(context, "find a buffer"));
    ferry_buffer *found = NULL;
    ferryi_mutex_lock(&context->store_mutex);
    for (ferryi_store *store = context->stores; store && !found; store = store->next) {
        const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
        if (!cold || !cold->name || strcmp(cold->name, name) != 0)
            continue;
        /* If the handle has no owner, another thread is already destroying it. Then no owner must
         * be added. */
        int owners = atomic_load(&store->first.owners);
        while (owners >= FERRYI_HANDLE_OWNER &&
               !atomic_compare_exchange_weak(&store->first.owners, &owners,
                                             owners + FERRYI_HANDLE_OWNER))
            ;
        found = owners >= FERRYI_HANDLE_OWNER ? &store->first : NULL;
    }
    ferryi_mutex_unlock(&context->store_mutex);
    if (!found)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "find a buffer: none is called \"%s\"",
                           name);
    *out = found;
    return FERRY_OK;
}
