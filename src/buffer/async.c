/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/copy.h"
#include "src/buffer/worker.h"

/* Calls that claim now and move later, on the helper thread. */

struct copy_job {
    struct ferryi_job job;
    struct ferryi_copy_call call;
    ferry_context *context;
    ferry_event *event;
    unsigned char value[]; /* of a fill */
};

/* The last work of the call on its lane, for those who wait for the event on a device. */
static ferryi_stamp
last_stamp(const struct ferryi_copy_call *call)
{
    return call->main.lane ? ferryi_lane_stamp(call->main.lane) : 0;
}

static void
run_copy_job(struct ferryi_job *opaque)
{
    struct copy_job *job = (struct copy_job *)opaque;
    ferry_event *event = job->event;
    ferry_context *context = job->context;
    /* Read before the claim goes: the lane outlives it, the call does not. */
    ferry_status status = job->call.run(&job->call);
    ferryi_stamp stamp = last_stamp(&job->call);
    if (event) {
        ferryi_event_finish(event, status, stamp);
        ferryi_event_release(event);
    } else if (status != FERRY_OK) {
        ferryi_log(&context->log, FERRY_LOG_ERROR, "asynchronous copy without an event: %s", ferry_last_error());
    }
    ferryi_context_release(context);
    free(job);
}

/* A job for a planned call, with two references to its event: the caller's and its own. */
static ferry_status
job_new(ferry_context *context, const struct ferryi_copy_call *call, struct copy_job **out)
{
    struct copy_job *job = calloc(1, sizeof(*job) + call->value_bytes);
    if (!job)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "queue an asynchronous call: no memory");
    ferry_status status = ferryi_event_new(context, true, &job->event);
    if (status != FERRY_OK) {
        free(job);
        return status;
    }
    atomic_fetch_add(&job->event->references, 1);
    job->job.run = run_copy_job;
    job->context = context;
    job->call = *call;
    job->call.cancelled = &job->event->cancelled;
    /* The caller's value may be gone by the time it is needed. */
    if (call->value_bytes > 0)
        job->call.value = memcpy(job->value, call->value, call->value_bytes);
    *out = job;
    return FERRY_OK;
}

/* Claims now, in the order of calls, and lets the helper thread do the rest. */
static ferry_status
start(ferry_context *context, const struct ferryi_copy_call *call, ferry_event **out)
{
    struct copy_job *job;
    ferry_status status = job_new(context, call, &job);
    if (status != FERRY_OK)
        return status;
    ferry_event *event = job->event;
    status = ferryi_copy_claim(&job->call);
    if (status != FERRY_OK) {
        ferryi_event_release(event);
        ferryi_event_release(event);
        free(job);
        return status;
    }
    ferryi_context_retain(context);
    /* Without a helper thread it is done here: the result is the same, only later. */
    if (ferryi_worker_submit(context, &job->job) != FERRY_OK)
        run_copy_job(&job->job);
    if (out)
        *out = event;
    else
        ferryi_event_release(event);
    return FERRY_OK;
}

/* The place that a stream argument means; -1 without one. */
static ferry_status
place_of_stream(const ferry_buffer *buffer, ferry_stream *stream, const char *what, int *out)
{
    ferryi_lane *lane;
    *out = -1;
    if (!stream)
        return FERRY_OK;
    ferry_status status = ferryi_context_lane(buffer->store->context, stream, what, &lane);
    if (status == FERRY_OK)
        *out = lane->place;
    return status;
}

static ferry_status
finished_event(ferry_context *context, ferry_event **out)
{
    return out ? ferryi_event_new(context, false, out) : FERRY_OK;
}

ferry_status
ferry_buffer_copy_from_async(ferry_buffer *buffer, const ferry_element *element, size_t offset, const void *source, size_t count,
                             ferry_stream *stream, ferry_event **out)
{
    struct ferryi_range range;
    struct ferryi_copy_call call = {0};
    int place;
    ferry_status status = ferryi_copy_check(buffer, element, offset, count, source, "copy from memory", &range);
    if (status == FERRY_OK)
        status = place_of_stream(buffer, stream, "copy from memory", &place);
    if (status != FERRY_OK)
        return status;
    if (range.begin == range.end)
        return finished_event(buffer->store->context, out);
    status = ferryi_copy_plan_from(&call, buffer->store, range, source, place);
    return status == FERRY_OK ? start(buffer->store->context, &call, out) : status;
}

ferry_status
ferry_buffer_copy_to_async(ferry_buffer *buffer, const ferry_element *element, size_t offset, void *target, size_t count,
                           ferry_stream *stream, ferry_event **out)
{
    struct ferryi_range range;
    struct ferryi_copy_call call = {0};
    int place;
    ferry_status status = ferryi_copy_check(buffer, element, offset, count, target, "copy to memory", &range);
    if (status == FERRY_OK)
        status = place_of_stream(buffer, stream, "copy to memory", &place);
    if (status != FERRY_OK)
        return status;
    if (range.begin == range.end)
        return finished_event(buffer->store->context, out);
    ferryi_copy_plan_to(&call, buffer->store, range, target);
    return start(buffer->store->context, &call, out);
}

ferry_status
ferry_buffer_fill_async(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count, const void *value,
                        ferry_stream *stream, ferry_event **out)
{
    struct ferryi_range range;
    struct ferryi_copy_call call = {0};
    int place;
    ferry_status status = ferryi_copy_check(buffer, element, offset, count, value, "fill", &range);
    if (status == FERRY_OK)
        status = place_of_stream(buffer, stream, "fill", &place);
    if (status != FERRY_OK)
        return status;
    if (range.begin == range.end)
        return finished_event(buffer->store->context, out);
    status = ferryi_copy_plan_fill(&call, buffer->store, range, value, element->bytes, place);
    return status == FERRY_OK ? start(buffer->store->context, &call, out) : status;
}

ferry_status
ferry_buffer_copy_async(ferry_buffer *target, const ferry_element *element, size_t target_offset, ferry_buffer *source,
                        size_t source_offset, size_t count, ferry_stream *stream, ferry_event **out)
{
    struct ferryi_range to, from;
    struct ferryi_copy_call call = {0};
    int place;
    ferry_status status = ferryi_copy_check_pair(target, target_offset, source, source_offset, count, element, element, "copy a buffer", &to, &from);
    if (status == FERRY_OK)
        status = place_of_stream(target, stream, "copy a buffer", &place);
    if (status != FERRY_OK)
        return status;
    bool overlaps = target->store == source->store && to.begin < from.end && from.begin < to.end;
    if (to.begin == to.end || overlaps) {
        /* Overlapping ranges take several steps, which no single claim can hold together: they are done now. */
        status = overlaps ? ferryi_copy_ranges(target, to, source, from, NULL) : FERRY_OK;
        return status == FERRY_OK ? finished_event(target->store->context, out) : status;
    }
    status = ferryi_copy_plan(&call, target->store, to, source->store, from, place);
    return status == FERRY_OK ? start(target->store->context, &call, out) : status;
}

/* -- prefetch -------------------------------------------------------------------------------------- */

static ferry_status
run_prefetch(struct ferryi_copy_call *call)
{
    ferry_status status = ferryi_access_prepare(&call->main, 1);
    return status == FERRY_OK ? ferryi_access_close(&call->main, FERRYI_CLOSE_CANCEL, NULL) : status;
}

/* Managed memory is prefetched by its driver; nothing is copied by us. */
static ferry_status
prefetch_managed(ferry_buffer *buffer, int place, ferryi_lane *lane)
{
    ferryi_store *store = buffer->store;
    ferryi_device *device = lane->device;
    if (!(device->capabilities & FERRY_CAN_MANAGE_CONCURRENTLY))
        return FERRY_OK;
    ferry_status status = ferryi_store_reserve(store, place);
    if (status == FERRY_OK)
        status = ferryi_store_order(store, place, lane, false);
    if (status != FERRY_OK)
        return status;
    char *memory = (char *)store->copies[0].pointer + buffer->offset;
    status = FERRYI_CALL(device, prefetch, memory, ferry_buffer_bytes(buffer), place ? device : NULL, lane->native);
    ferryi_stamp stamp = 0;
    if (status == FERRY_OK)
        status = ferryi_lane_note(lane, ferryi_thread_id(), &stamp);
    if (stamp)
        ferryi_store_note_read(store, place, store->context->order.lanes[ferryi_stamp_number(stamp)]);
    return status;
}

ferry_status
ferry_buffer_prefetch(ferry_buffer *buffer, int place, ferry_stream *stream)
{
    struct ferryi_range range;
    ferryi_lane *lane = NULL;
    ferry_status status = ferryi_buffer_check(buffer, NULL, 0, FERRY_REST, "prefetch", &range);
    if (status == FERRY_OK)
        status = ferryi_context_check_place(buffer->store->context, place, "prefetch");
    if (status != FERRY_OK)
        return status;
    ferry_context *context = buffer->store->context;
    if (!stream)
        stream = context->defaults[place ? place : 1];
    status = ferryi_context_lane(context, stream, "prefetch", &lane);
    if (status == FERRY_OK && place != 0 && lane->place != place)
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "prefetch to place %d on a stream of place %d", place, lane->place);
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    if (buffer->store->memory == FERRY_MEMORY_MANAGED) {
        status = prefetch_managed(buffer, place, lane);
        if (status != FERRY_OK)
            return status;
    }
    struct ferryi_copy_call call = {.run = run_prefetch};
    call.main = (struct ferryi_access){.store = buffer->store, .begin = range.begin, .end = range.end, .access = FERRY_READ,
                                       .place = (uint8_t)place, .reason = "prefetch",
                                       .lane = place && ferryi_lane_is_numbered(lane) ? lane : NULL};
    return start(context, &call, NULL);
}
