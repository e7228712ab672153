/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/copy/async.h"
#include "src/copy/copy.h"
#include "src/stream/event.h"

/* -- any call ---------------------------------------------------------------------------------- */

static void
run_job(struct ferryi_job *job)
{
    struct ferryi_async *async = (struct ferryi_async *)job;
    ferry_context *context = async->context;
    ferryi_sync_point last = 0;
    for (size_t i = 0; i < async->claim_count; i++)
        ferryi_access_take_over(&async->claims[i]);
    ferryi_site_lend(async->site);
    ferry_status status = async->run(async, &last);
    ferryi_site_lend(FERRYI_SITE_NONE);
    ferryi_event_finish(async->event, status, last);
    ferryi_event_release(async->event);
    async->free(async);
    ferryi_shell_release(context);
}

ferry_status
ferryi_async_start(struct ferryi_async *async, ferry_context *context, size_t bytes,
                   ferry_event **out)
{
    ferry_event *event;
    ferry_status status = ferryi_event_new(context, true, &event);
    if (status != FERRY_OK) {
        async->free(async);
        return status;
    }
    /* The event has two owners: the call and the caller. */
    atomic_fetch_add(&event->references, 1);
    event->bytes = bytes;
    event->is_hint = async->is_hint;
    async->event = event;
    async->context = context;
    async->job.run = run_job;
    status = ferryi_access_claim(async->claims, async->claim_count);
    if (status != FERRY_OK) {
        ferryi_event_release(event);
        ferryi_event_release(event);
        async->free(async);
        return status;
    }
    for (size_t i = 0; i < async->claim_count; i++)
        ferryi_access_queue(&async->claims[i]);
    ferryi_shell_retain(context);
    async->site = ferryi_shell_site(context, FERRYI_SITE_NONE);
    /* If no worker accepts the call, it runs on this thread. The result is the same, but this
     * function returns only after the call has run. */
    if (ferryi_worker_submit(context, &async->job) != FERRY_OK)
        run_job(&async->job);
    if (out)
        *out = event;
    else
        ferryi_event_release(event);
    return FERRY_OK;
}

ferry_status
ferryi_async_place(ferry_context *context, ferry_stream *stream, const char *what, int *out)
{
    ferryi_timeline *timeline;
    *out = -1;
    if (!stream)
        return FERRY_OK;
    ferry_status status = ferryi_stream_find_timeline(context, stream, what, &timeline);
    if (status == FERRY_OK)
        *out = timeline->place;
    return status;
}

ferry_status
ferryi_async_finished(ferry_context *context, ferry_event **out)
{
    return out ? ferryi_event_new(context, false, out) : FERRY_OK;
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
    ferry_status status = ferryi_copy_run_claimed(call);
    *out_last = call->main.timeline ? ferryi_timeline_sync_point(call->main.timeline) : 0;
    return status;
}

static void
free_copy_job(struct ferryi_async *async)
{
    free(async);
}

/* Returns the number of the helper thread for the call's transfer direction, or 0 if both places
 * share memory. The direction of a READ is a guess, because other calls may move the bytes first.
 */
static unsigned
way_of(const struct ferryi_copy_call *call)
{
    const struct ferryi_access *main = &call->main;
    bool stays = main->place == FERRY_PLACE_HOST || main->place == FERRYI_PLACE_NONE;
    int place = main->place;
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
    /* The caller may free its options and its fill value before the call runs, so both are copied.
     */
    if (call->options) {
        job->options = *call->options;
        job->call.options = &job->options;
    }
    if (call->value_bytes > 0)
        job->call.value = memcpy(job->value, call->value, call->value_bytes);
    job->async = (struct ferryi_async){.job.way = way_of(call),
                                       .is_hint = call->is_hint,
                                       .claims = job->call.accesses,
                                       .claim_count = call->access_count,
                                       .run = run_copy_job,
                                       .free = free_copy_job};
    return ferryi_async_start(&job->async, call->main.store->context, call->bytes, out);
}

ferry_status
ferryi_async_run(struct ferryi_copy_call *call)
{
    return call->options && call->options->event ? ferryi_async_copy(call, call->options->event)
                                                 : ferryi_copy_run(call);
}
