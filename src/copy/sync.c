/* SPDX-License-Identifier: MIT */
#include "src/buffer/buffer.h"
#include "src/copy/async.h"
#include "src/copy/copy.h"
#include "src/store/claim.h"

/* Syncs and prefetches. These calls make a range of a buffer current at a place without writing new
 * bytes. */

static struct ferryi_copy_call
plan_read(ferryi_store *store, struct ferryi_range range, int place, const char *reason,
          ferry_status (*run)(struct ferryi_copy_call *call))
{
    return (struct ferryi_copy_call){.main =
                                         ferryi_access_of(store, range, FERRY_READ, place, reason),
                                     .access_count = 1,
                                     .run = run};
}

/* -- syncs ------------------------------------------------------------------------------------- */

static ferry_status
run_sync(struct ferryi_copy_call *call)
{
    ferryi_store *store = call->main.store;
    struct ferryi_transfer_job job = {
        .options = call->options, .cancelled = call->cancelled, .arrived = call->arrived};
    if (call->options || call->arrived)
        call->main.job = &job;
    ferry_status status = ferryi_access_prepare(&call->main, 1);
    if (status != FERRY_OK)
        return status;
    if (call->arrived)
        atomic_store(call->arrived, call->bytes);
    /* The wait comes first: if the program has destroyed the buffer, it ends with the access. */
    status = ferryi_place_wait(store, call->main.place);
    ferry_status closed = ferryi_access_close(&call->main, FERRYI_CLOSE_COMMIT, NULL);
    return status == FERRY_OK ? closed : status;
}

FERRYI_INLINE ferry_status
sync_to(ferry_buffer *buffer, size_t offset, size_t count, int place,
        const ferry_copy_options *options, struct ferryi_caller caller)
{
    ferry_status status;
    do {
        struct ferryi_range range;
        status = ferryi_place_check(buffer, FERRY_READ, offset, count, place, "sync_to", &range);
        if (status == FERRY_OK && options && options->convert)
            status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                                 "sync_to: it converts nothing, but options.convert is %d",
                                 (int)options->convert);
        if (status != FERRY_OK)
            return status;
        if (range.begin == range.end)
            return ferryi_async_finished(buffer->store->context, caller);
        struct ferryi_copy_call call = plan_read(buffer->store, range, place, "sync_to", run_sync);
        call.bytes = range.end - range.begin;
        call.options = options;
        status = ferryi_async_run(&call, caller);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}

ferry_status
ferry_buffer_sync_to(ferry_buffer *buffer, size_t offset, size_t count, int place,
                     const ferry_copy_options *options)
{
    return sync_to(buffer, offset, count, place, options, (struct ferryi_caller){0});
}

ferry_status
ferry_buffer_sync_to_async(ferry_buffer *buffer, size_t offset, size_t count, int place,
                           const ferry_copy_options *options, ferry_event **event)
{
    return sync_to(buffer, offset, count, place, options, (struct ferryi_caller){true, event});
}

/* -- prefetch ---------------------------------------------------------------------------------- */

static ferry_status
run_prefetch(struct ferryi_copy_call *call)
{
    ferry_status status = ferryi_access_prepare(&call->main, 1);
    return status == FERRY_OK ? ferryi_access_close(&call->main, FERRYI_CLOSE_CANCEL, NULL)
                              : status;
}

/* Returns whether the range is already current at the place and no open access conflicts with a
 * prefetch. The prefetch then does nothing. An asynchronous call would be useless, and it would
 * delay other calls that need the range exclusively. */
static bool
is_there(ferryi_store *store, const struct ferryi_access *access)
{
    ferryi_store_lock(store);
    bool there = ferryi_store_is_usable(store) && access->end <= store->map.bytes &&
                 ferryi_store_copy(store, access->place)->pointer &&
                 ferryi_valid_map_holds(&store->map, access->place, access->begin, access->end) &&
                 ferryi_access_conflict(store, access, true) == FERRYI_CONFLICT_NONE;
    ferryi_store_unlock(store);
    return there;
}

static ferry_status
prefetch(ferry_buffer *buffer, struct ferryi_range range, int place, ferryi_timeline *timeline)
{
    ferry_status status = FERRY_OK;
    if (buffer->store->memory == FERRY_MEMORY_MANAGED)
        status = ferryi_managed_prefetch(buffer->store, range, place, timeline);
    struct ferryi_copy_call call = plan_read(buffer->store, range, place, "prefetch", run_prefetch);
    call.is_hint = true;
    /* The prefetch uses an internal stream, because the program might destroy its own stream before
     * a worker runs the prefetch. */
    if (status == FERRY_OK)
        status = ferryi_place_timeline(buffer->store, place, call.main.reason, &call.main.timeline);
    if (status == FERRY_OK && is_there(buffer->store, &call.main))
        return FERRY_OK;
    return status == FERRY_OK ? ferryi_async_copy(&call, NULL) : status; /* without an event */
}

ferry_status
ferry_buffer_prefetch(ferry_buffer *buffer, size_t offset, size_t count, int place,
                      ferry_stream *stream)
{
    ferry_status status;
    do {
        struct ferryi_range range;
        ferryi_timeline *timeline = NULL;
        status = ferryi_place_check(buffer, FERRY_READ, offset, count, place, "prefetch", &range);
        if (status == FERRY_OK)
            status = ferryi_stream_find_timeline(
                buffer->store->context,
                stream ? stream : buffer->store->context->defaults[place ? place : 1], "prefetch",
                &timeline);
        if (status == FERRY_OK && place != 0 && timeline->place != place)
            status =
                ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                            "prefetch to place %d on a stream of place %d", place, timeline->place);
        if (status == FERRY_OK && ferryi_timeline_recording(timeline))
            status = ferryi_fail_in(ferryi_timeline_refuse_recording(timeline), "prefetch");
        if (status != FERRY_OK || range.begin == range.end)
            return status;
        status = prefetch(buffer, range, place, timeline);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}
