/* SPDX-License-Identifier: MIT */
#include "src/buffer/share.h"

#include <stdio.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/buffer/buffer.h"
#include "src/store/claim.h"
#include "src/store/shared.h"

/*
 * Buffers whose memory several processes use. Such a buffer wraps its shared memory. While another
 * process may use it, the store has the bit FERRYI_STORE_AWAY, and no range of it can be claimed.
 */

FERRY_STATIC_ASSERT(sizeof(ferry_share) == sizeof(struct ferryi_shared_file_name),
                    "a handle is the name of a shared file");

/* Makes a buffer of shared memory. It takes `shared` over, also if it fails. */
static ferry_status
make_buffer(struct ferryi_shared *shared, const ferry_element *interned, size_t count, size_t bytes,
            const ferry_buffer_options *options, ferry_buffer **out)
{
    ferryi_store *store = NULL;
    ferry_status status = FERRY_OK;
    if ((uintptr_t)shared->pointer & (options->align ? options->align - 1 : 0))
        status =
            ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                        "share memory: it is aligned to pages, not to %zu bytes", options->align);
    if (status == FERRY_OK)
        status = ferryi_store_create(shared->context, bytes, options, true, &store);
    struct ferryi_store_cold *cold = status == FERRY_OK ? ferryi_store_make_cold(store) : NULL;
    if (!cold) {
        if (store)
            ferryi_store_release(store);
        ferryi_shared_end(shared);
        return status != FERRY_OK
                   ? status
                   : ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "share memory: no memory for counters");
    }
    ferryi_store_lock(store);
    cold->shared = shared;
    ferryi_store_borrow(store, shared->place, shared->pointer, 0, shared->memory.read_only);
    if (!shared->is_owner)
        atomic_fetch_or(&store->word, FERRYI_STORE_AWAY);
    ferryi_store_unlock(store);
    *out = ferryi_store_open(store, interned, count);
    return FERRY_OK;
}

ferry_status
ferryi_share_create(ferry_context *context, const ferry_element *interned, size_t count,
                    size_t bytes, const ferry_buffer_options *options, ferry_buffer **out)
{
    const struct ferryi_shared_content content = {
        .identity = interned->identity, .element_bytes = interned->bytes, .count = count};
    struct ferryi_shared *shared;
    FERRYI_OR_RETURN(ferryi_shell_check_place(context, options->place, "create a shared buffer"));
    FERRYI_OR_RETURN(ferryi_shared_make(context, options->place, &content, &shared));
    return make_buffer(shared, interned, count, bytes, options, out);
}

/* -- export and import ------------------------------------------------------------------------- */

/* Checks the handle of a shared buffer, and the stream of a call unless it is NULL. */
static ferry_status
check_shared(ferry_buffer *buffer, ferry_stream *stream, const char *what,
             struct ferryi_shared **out, ferryi_timeline **out_timeline)
{
    struct ferryi_range whole;
    FERRYI_OR_RETURN(ferryi_buffer_check(buffer, NULL, FERRY_READ, 0, FERRY_REST, what, &whole));
    ferryi_store *store = buffer->store;
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    if (!cold || !cold->shared)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "%s buffer \"%s\": it was not created with FERRY_MEMORY_SHARED", what,
                           ferryi_store_name(store));
    if (buffer != &store->first)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s buffer \"%s\": the handle is a view",
                           what, ferryi_store_name(store));
    *out = cold->shared;
    *out_timeline = NULL;
    if (!stream)
        return FERRY_OK;
    FERRYI_OR_RETURN(ferryi_stream_find_timeline(store->context, stream, what, out_timeline));
    /* A device that uses the host's replica shares memory of the host. */
    const int place = (*out_timeline)->place;
    if ((store->context->coherent >> place & 1 ? FERRY_PLACE_HOST : place) != cold->shared->place)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s buffer \"%s\" on a stream of %s: its memory is that of %s", what,
                           ferryi_store_name(store), store->context->names[place],
                           store->context->names[cold->shared->place]);
    return ferryi_timeline_check_capture(*out_timeline);
}

ferry_status
ferry_buffer_export(ferry_buffer *buffer, ferry_share *out)
{
    struct ferryi_shared *shared;
    ferryi_timeline *timeline;
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "export a buffer: out is NULL");
    FERRYI_OR_RETURN(check_shared(buffer, NULL, "export", &shared, &timeline));
    memcpy(out, &shared->name, sizeof(*out));
    return FERRY_OK;
}

static ferry_status
check_element(const struct ferryi_shared *shared, const ferry_element *interned)
{
    const struct ferryi_shared_content *content = &shared->facts.content;
    return content->identity == interned->identity && content->element_bytes == interned->bytes
               ? FERRY_OK
               : ferryi_fail(FERRY_ERROR_WRONG_TYPE,
                             "import a buffer: its elements have %llu bytes, and are not %s",
                             (unsigned long long)content->element_bytes, interned->name);
}

ferry_status
ferry_buffer_import(ferry_context *context, const ferry_element *element, const ferry_share *share,
                    const ferry_share_options *options, ferry_buffer **out)
{
    static const char what[] = "import a buffer";
    static const ferry_share_options defaults;
    const ferry_element *interned;
    struct ferryi_shared *shared;
    struct ferryi_shared_file_name name;
    size_t bytes;
    if (!options)
        options = &defaults;
    FERRYI_OR_RETURN(
        ferryi_buffer_check_creation(context, element, 0, out, what, &interned, &bytes));
    if (!share)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the handle is NULL", what);
    FERRYI_OR_RETURN(ferryi_callback_check(what));
    FERRYI_OR_RETURN(ferryi_shell_check_place(context, options->place, what));
    memcpy(&name, share, sizeof(name));
    FERRYI_OR_RETURN(
        ferryi_shared_open(context, &name, options->place, options->read_only, &shared));
    const size_t count = (size_t)shared->facts.content.count;
    ferry_status status = check_element(shared, interned);
    if (status == FERRY_OK)
        status =
            ferryi_buffer_check_creation(context, element, count, out, what, &interned, &bytes);
    if (status != FERRY_OK) {
        ferryi_shared_end(shared);
        return status;
    }
    return make_buffer(shared, interned, count, bytes,
                       &(ferry_buffer_options){.name = options->name}, out);
}

/* -- handing over ------------------------------------------------------------------------------ */

/* Orders this process after the uses of the others. Sets `*out_written` to the sync point behind
 * them, or to 0 if they are done. */
static ferry_status
order_after_others(const struct ferryi_shared *shared, ferryi_timeline *timeline,
                   ferryi_sync_point *out_written)
{
    ferryi_device *device = shared->context->devices[shared->place];
    *out_written = 0;
    if (!shared->event)
        return FERRY_OK;
    if (!timeline)
        return ferryi_device_wait_event(device, shared->event);
    FERRYI_OR_RETURN(FERRYI_CALL(device, stream_wait, timeline->native, shared->event));
    return ferryi_timeline_note(timeline, ferryi_thread_id(), out_written);
}

/* Says whether the memory is that of other processes. Other threads that hold the lock store the
 * whole word when they unlock it, so the bit changes only under the lock. */
static void
set_away(ferryi_store *store, bool away)
{
    ferryi_store_lock(store);
    if (away)
        atomic_fetch_or(&store->word, FERRYI_STORE_AWAY);
    else
        atomic_fetch_and(&store->word, ~(uint64_t)FERRYI_STORE_AWAY);
    ferryi_store_unlock(store);
}

/* Makes the shared memory the only current replica. */
static void
take_over(ferryi_store *store, const struct ferryi_shared *shared, ferryi_sync_point written)
{
    ferryi_store_lock(store);
    struct ferryi_place_copy *copy = ferryi_store_copy(store, shared->place);
    copy->written = written;
    copy->reads = 0;
    ferryi_valid_map_commit_whole(&store->map, shared->place, FERRYI_CHANGE_OVERWRITE);
    ferryi_store_unlock(store);
}

static ferry_status
acquire(ferryi_store *store, struct ferryi_shared *shared, ferryi_timeline *timeline)
{
    uint32_t writer;
    ferryi_sync_point written;
    char why[100];
    if (!ferryi_store_is_away(store))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "this process has already acquired it");
    FERRYI_OR_RETURN(ferryi_shared_acquire(shared, &writer));
    ferry_status status = order_after_others(shared, timeline, &written);
    if (status != FERRY_OK) {
        ferryi_shared_release(shared, writer);
        return status;
    }
    take_over(store, shared, written);
    if (writer != 0) {
        snprintf(why, sizeof(why), "process %u shared the buffer, and ended before it released it",
                 writer);
        const struct ferryi_range whole = {0, shared->memory.bytes};
        ferryi_store_lose_value(store, whole, FERRY_ERROR_DEVICE_LOST, why);
    }
    set_away(store, false);
    return FERRY_OK;
}

ferry_status
ferry_buffer_acquire_shared(ferry_buffer *buffer, ferry_stream *stream)
{
    struct ferryi_shared *shared;
    ferryi_timeline *timeline;
    FERRYI_OR_RETURN(check_shared(buffer, stream, "acquire_shared", &shared, &timeline));
    ferryi_mutex_lock(&shared->mutex);
    ferry_status status = acquire(buffer->store, shared, timeline);
    ferryi_mutex_unlock(&shared->mutex);
    return status == FERRY_OK ? FERRY_OK
                              : ferryi_fail_in(status, "acquire_shared buffer \"%s\"",
                                               ferryi_store_name(buffer->store));
}

/* Copies bytes that are newer at other places to the shared memory. `claim` covers the buffer. */
static ferry_status
bring_back(const struct ferryi_access *claim, const struct ferryi_shared *shared,
           ferryi_timeline *timeline)
{
    ferryi_claim_is_held();
    const struct ferryi_range whole = {0, ferryi_claimed_bytes(claim->store)};
    if (shared->memory.read_only || whole.end == 0)
        return FERRY_OK;
    struct ferryi_access access =
        ferryi_access_of(claim->store, whole, FERRY_READ, shared->place, claim->reason);
    access.timeline = timeline;
    access.under = claim->id;
    FERRYI_OR_RETURN(ferryi_access_open(&access, 1));
    return ferryi_access_close(&access, FERRYI_CLOSE_COMMIT, timeline);
}

/* Lets the other processes wait for the uses by this one, or waits for them. */
static ferry_status
order_before_others(ferryi_store *store, const struct ferryi_shared *shared,
                    ferryi_timeline *timeline)
{
    FERRYI_OR_RETURN(ferryi_store_order(store, shared->place, timeline, true));
    return timeline ? ferryi_timeline_record(timeline, shared->event) : FERRY_OK;
}

static ferry_status
release(ferryi_store *store, struct ferryi_shared *shared, ferryi_timeline *timeline)
{
    static const char reason[] = "release_shared";
    if (ferryi_store_is_away(store))
        return ferryi_store_fail_unusable(store, reason);
    /* The event has room for the newest use of one process, and only one process may write. */
    if (!shared->event || shared->memory.read_only || (timeline && timeline->scope))
        timeline = NULL;
    struct ferryi_access claim = ferryi_access_of(store, (struct ferryi_range){0, 0},
                                                  FERRY_OVERWRITE, FERRYI_PLACE_NONE, reason);
    claim.whole = true;
    FERRYI_OR_RETURN(ferryi_access_open(&claim, 1));
    ferry_status status = bring_back(&claim, shared, timeline);
    if (status == FERRY_OK)
        status = order_before_others(store, shared, timeline);
    if (status == FERRY_OK)
        set_away(store, true);
    (void)ferryi_access_close(&claim, FERRYI_CLOSE_CANCEL, NULL);
    if (status == FERRY_OK)
        ferryi_shared_release(shared, 0);
    return status;
}

ferry_status
ferry_buffer_release_shared(ferry_buffer *buffer, ferry_stream *stream)
{
    struct ferryi_shared *shared;
    ferryi_timeline *timeline;
    FERRYI_OR_RETURN(check_shared(buffer, stream, "release_shared", &shared, &timeline));
    ferryi_mutex_lock(&shared->mutex);
    ferry_status status = release(buffer->store, shared, timeline);
    ferryi_mutex_unlock(&shared->mutex);
    return status;
}
