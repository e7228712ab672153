/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/recording.h"
#include "src/copy/async.h"
#include "src/copy/copy.h"
#include "src/store/claim.h"
#include "src/stream/event.h"

/* -- any call ---------------------------------------------------------------------------------- */

static void
run_job(struct ferryi_job *job)
{
    struct ferryi_async *async = (struct ferryi_async *)job;
    ferry_context *context = async->context;
    ferryi_sync_point last = 0;
    for (size_t i = 0; i < async->claim_count; i++)
        ferryi_access_set_thread(&async->claims[i], ferryi_thread_id());
    ferryi_site_lend(async->site);
    ferry_status status = async->run(async, &last);
    ferryi_site_lend(FERRYI_SITE_NONE);
    ferryi_event_finish(async->event, status, last);
    ferryi_event_release(async->event);
    async->free(async);
    ferryi_shell_release(context);
}

/* Creates the event of an asynchronous call that moves `bytes` bytes, locks the call's ranges, and
 * submits the call to a worker thread. If no worker thread accepts the call, runs it on this
 * thread. Frees the call, even after a failure. `out` may be NULL. */
static ferry_status
start(struct ferryi_async *async, size_t bytes, ferry_event **out)
{
    ferry_context *context = async->context;
    ferry_event *event;
    ferry_status status = ferryi_event_new(context, true, &event);
    if (status != FERRY_OK) {
        async->free(async);
        return status;
    }
    /* The event has two owners: the running call and the caller. */
    atomic_fetch_add(&event->references, 1);
    event->bytes = bytes;
    event->hint = async->hint;
    event->is_unseen = !out;
    async->event = event;
    async->job.run = run_job;
    status = ferryi_access_claim(async->claims, async->claim_count);
    if (status != FERRY_OK) {
        ferryi_event_release(event);
        ferryi_event_release(event);
        async->free(async);
        return status;
    }
    for (size_t i = 0; i < async->claim_count; i++)
        ferryi_access_set_thread(&async->claims[i], FERRYI_THREAD_QUEUED);
    ferryi_shell_retain(context);
    async->site = ferryi_shell_site(context, FERRYI_SITE_NONE);
    /* If no worker thread accepts the call, it runs on this thread. The result is the same, but
     * this function returns only after the call has run. */
    if (ferryi_worker_submit(context, &async->job) != FERRY_OK)
        run_job(&async->job);
    if (out)
        *out = event;
    else
        ferryi_event_release(event);
    return FERRY_OK;
}

ferry_status
ferryi_async_check_policy(const ferry_copy_options *options, const char *what)
{
    if (options && (unsigned)options->convert > FERRY_CONVERT_TRUNCATE)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: conversion policy %d is unknown",
                           what, (int)options->convert);
    return FERRY_OK;
}

ferry_status
ferryi_async_place(ferry_context *context, const ferry_copy_options *options, const char *what,
                   int *out)
{
    ferryi_timeline *timeline;
    *out = -1;
    FERRYI_OR_RETURN(ferryi_async_check_policy(options, what));
    if (!options || !options->stream)
        return FERRY_OK;
    ferry_status status = ferryi_stream_find_timeline(context, options->stream, what, &timeline);
    if (status == FERRY_OK && ferryi_timeline_recording(timeline))
        return ferryi_fail_in(ferryi_timeline_refuse_recording(timeline), "%s", what);
    if (status == FERRY_OK)
        *out = timeline->place;
    return status;
}

struct ferryi_recording *
ferryi_async_recording(ferry_context *context, const ferry_copy_options *options,
                       struct ferryi_caller caller)
{
    const ferry_stream *stream = options ? options->stream : NULL;
    if (!stream || stream->context != context || caller.goes_on || options->keep_going)
        return NULL;
    return ferryi_recording_of(stream->timeline);
}

ferry_status
ferryi_async_finished(ferry_context *context, struct ferryi_caller caller)
{
    return caller.event ? ferryi_event_new(context, false, caller.event) : FERRY_OK;
}

/* -- copies and fills -------------------------------------------------------------------------- */

struct copy_job {
    struct ferryi_async async;
    struct ferryi_copy_call call;
    ferry_copy_options options; /* copy of the call's options */
    unsigned char value[];      /* copy of a fill's value */
};

static ferry_status
run_copy_job(struct ferryi_async *async, ferryi_sync_point *out_last)
{
    struct ferryi_copy_call *call = &((struct copy_job *)async)->call;
    call->cancelled = &async->event->cancelled;
    call->arrived = &async->event->arrived;
    ferry_status status = call->run(call);
    *out_last = ferryi_sync_points_join(&async->context->order, 0, call->timelines);
    if (call->main.timeline)
        *out_last = ferryi_timeline_sync_point(call->main.timeline);
    return status;
}

static void
free_copy_job(struct ferryi_async *async)
{
    free(async);
}

/* Returns the number of the worker thread for the call's transfer direction, or 0 if both places
 * share memory. The direction of a read is a guess, because other calls may first move the bytes to
 * a different place. */
static unsigned
way_of(const struct ferryi_copy_call *call)
{
    const struct ferryi_access *main = &call->main;
    int place = call->row.target_store ? call->place : main->place;
    bool stays = place == FERRY_PLACE_HOST || place == FERRYI_PLACE_NONE;
    if (stays && main->access == FERRY_READ)
        place = ferryi_copy_home(main->store, (struct ferryi_range){main->begin, main->end});
    else if (stays)
        place = FERRY_PLACE_HOST;
    if (ferryi_store_same_memory(main->store, place, FERRY_PLACE_HOST))
        return 0;
    return stays ? FERRYI_WAY_FROM(place) : FERRYI_WAY_TO(place);
}

ferry_status
ferryi_async_copy(const struct ferryi_copy_call *call, ferry_event **out)
{
    struct copy_job *job = calloc(1, sizeof(*job) + call->value_bytes);
    if (!job)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "queue an asynchronous call: no memory");
    job->call = *call;
    /* The caller may free its options and its fill value before the call runs, so the call has
     * copies of them. */
    if (call->options) {
        job->options = *call->options;
        job->call.options = &job->options;
    }
    if (call->value_bytes > 0)
        job->call.value = memcpy(job->value, call->value, call->value_bytes);
    job->async = (struct ferryi_async){.job.way = way_of(call),
                                       .context = call->main.store->context,
                                       .hint = call->is_hint ? call->main.reason : NULL,
                                       .claims = job->call.accesses,
                                       .claim_count = call->access_count,
                                       .run = run_copy_job,
                                       .free = free_copy_job};
    return start(&job->async, call->bytes, out);
}

ferry_status
ferryi_async_run(struct ferryi_copy_call *call, struct ferryi_caller caller)
{
    return caller.goes_on ? ferryi_async_copy(call, caller.event) : ferryi_copy_run(call);
}

/* -- calls with many ranges ------------------------------------------------------------------ */

/* Runs a call and then unlocks its ranges. If the call fails, preserves its error message. Unless
 * `out_last` is NULL, sets *out_last to the sync point of the work that the call queued. */
static ferry_status
run_whole(struct ferryi_whole_call *call, ferryi_sync_point *out_last)
{
    struct ferryi_claim_list *claims = &call->claims;
    struct ferryi_kept_error why;
    ferryi_access_await_kernels(claims->items, claims->count);
    ferry_status status = call->run(call);
    if (status != FERRY_OK)
        ferryi_last_error_keep(&why);
    if (out_last)
        *out_last = ferryi_sync_points_join(&call->async.context->order, 0, call->timelines);
    for (size_t i = 0; i < claims->count; i++)
        ferryi_claim_drop(&claims->items[i]);
    claims->count = 0;
    if (status != FERRY_OK)
        ferryi_last_error_restore(&why);
    return status;
}

static ferry_status
run_started(struct ferryi_async *async, ferryi_sync_point *out_last)
{
    struct ferryi_whole_call *call = (struct ferryi_whole_call *)async;
    call->job.cancelled = &async->event->cancelled;
    call->job.arrived = &async->event->arrived;
    return run_whole(call, out_last);
}

void
ferryi_whole_call_init(struct ferryi_whole_call *call, ferry_context *context, const char *reason,
                       const ferry_copy_options *options)
{
    call->async.context = context;
    call->async.run = run_started;
    call->job.reason = reason;
    if (options) {
        call->options = *options;
        call->job.options = &call->options;
    }
}

uint64_t
ferryi_whole_call_claim(const struct ferryi_whole_call *call, const ferryi_store *store)
{
    size_t at = ferryi_claim_list_find(&call->claims, store);
    return at < call->claims.count ? call->claims.items[at].id : 0;
}

void
ferryi_whole_call_note(struct ferryi_whole_call *call, const struct ferryi_transfer_job *job,
                       uint64_t timelines)
{
    call->job.done = job->done;
    call->job.reported = job->reported;
    call->timelines |= timelines;
}

ferry_status
ferryi_whole_call_do(struct ferryi_whole_call *call, struct ferryi_caller caller)
{
    call->async.claims = call->claims.items;
    call->async.claim_count = call->claims.count;
    if (caller.goes_on)
        return start(&call->async, call->job.total, caller.event);
    ferry_status status = ferryi_access_claim(call->claims.items, call->claims.count);
    if (status == FERRY_OK)
        status = run_whole(call, NULL);
    call->async.free(&call->async);
    return status;
}
