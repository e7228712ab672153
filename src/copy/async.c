/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/claim.h"
#include "src/buffer/managed.h"
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
    /* The caller's reference, and the call's own. */
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
    /* Without a helper thread it is done here: the result is the same, only later. */
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
    ferry_copy_options options; /* of the call */
    unsigned char value[];      /* of a fill */
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

/* Between places that share memory nothing is on its way. What a READ will find where is a guess:
 * others may move it until then. */
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
    /* The caller's options and value may be gone by the time they are needed. */
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

/* -- syncs that an event follows --------------------------------------------------------------- */

/* keep_going of the access: the event's progress and its cancel, then the caller's own. */
static bool
follow(size_t bytes_done, size_t bytes_total, void *user)
{
    const struct ferryi_copy_call *call = user;
    atomic_store(call->arrived, bytes_done);
    if (atomic_load(call->cancelled))
        return false;
    return !call->options->keep_going ||
           call->options->keep_going(bytes_done, bytes_total, call->options->user);
}

static ferry_status
run_sync(struct ferryi_copy_call *call)
{
    ferryi_store *store = call->main.store;
    const ferry_copy_options options = {
        .chunk_bytes = call->options->chunk_bytes, .keep_going = follow, .user = call};
    call->main.options = &options;
    ferry_status status = ferryi_access_prepare(&call->main, 1);
    if (status != FERRY_OK)
        return status;
    atomic_store(call->arrived, call->main.end - call->main.begin);
    status = ferryi_access_close(&call->main, FERRYI_CLOSE_COMMIT, NULL);
    return status == FERRY_OK ? ferryi_place_settle(store, call->main.place) : status;
}

/* A call that brings the range to a place and writes nothing. */
static struct ferryi_copy_call
plan_read(ferryi_store *store, struct ferryi_range range, int place, const char *reason,
          ferry_status (*run)(struct ferryi_copy_call *call))
{
    return (struct ferryi_copy_call){.main = {.store = store,
                                              .begin = range.begin,
                                              .end = range.end,
                                              .access = FERRY_READ,
                                              .place = (uint8_t)place,
                                              .reason = reason},
                                     .access_count = 1,
                                     .run = run};
}

ferry_status
ferryi_async_sync(ferryi_store *store, struct ferryi_range range, int place,
                  const ferry_copy_options *options)
{
    struct ferryi_copy_call call = plan_read(store, range, place, "sync_to", run_sync);
    call.bytes = range.end - range.begin;
    call.options = options;
    return ferryi_async_copy(&call, options->event);
}

/* -- prefetch ---------------------------------------------------------------------------------- */

static ferry_status
run_prefetch(struct ferryi_copy_call *call)
{
    ferry_status status = ferryi_access_prepare(&call->main, 1);
    return status == FERRY_OK ? ferryi_access_close(&call->main, FERRYI_CLOSE_CANCEL, NULL)
                              : status;
}

/* What is there needs no job: calls in a row would keep whoever wants the range for itself waiting.
 */
static bool
is_there(ferryi_store *store, const struct ferryi_access *access)
{
    ferryi_store_lock(store);
    bool there = !ferryi_store_is_dead(store) && access->end <= store->map.bytes &&
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
    /* The caller's stream may be gone when the helper thread comes to it. */
    if (status == FERRY_OK)
        status = ferryi_place_timeline(buffer->store, place, &call.main.timeline);
    if (status == FERRY_OK && is_there(buffer->store, &call.main))
        return FERRY_OK;
    return status == FERRY_OK ? ferryi_async_copy(&call, NULL) : status; /* nobody follows it */
}

ferry_status
ferry_buffer_prefetch(ferry_buffer *buffer, size_t offset, size_t count, int place,
                      ferry_stream *stream)
{
    ferry_status status;
    do {
        struct ferryi_range range;
        ferryi_timeline *timeline = NULL;
        status = ferryi_buffer_check(buffer, NULL, offset, count, "prefetch", &range);
        if (status == FERRY_OK)
            status = ferryi_shell_check_place(buffer->store->context, place, "prefetch");
        if (status == FERRY_OK)
            status = ferryi_stream_find_timeline(
                buffer->store->context,
                stream ? stream : buffer->store->context->defaults[place ? place : 1], "prefetch",
                &timeline);
        if (status == FERRY_OK && place != 0 && timeline->place != place)
            status =
                ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                            "prefetch to place %d on a stream of place %d", place, timeline->place);
        if (status != FERRY_OK || range.begin == range.end)
            return status;
        status = prefetch(buffer, range, place, timeline);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}
