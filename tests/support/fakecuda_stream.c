/* SPDX-License-Identifier: MIT */
/* A part of fakecuda, the library that imitates the CUDA driver: streams and events. A new stream
 * or event reuses the memory of the one that was destroyed last. */
#include "tests/support/fakecuda_internal.h"

#include <stdlib.h>
#include <time.h>

#define SLOTS 4096

static struct ferryi_gpu_stream streams[SLOTS], *free_streams;
static struct ferryi_gpu_event events[SLOTS], *free_events;
static size_t streams_used, events_used;

bool
fake_stream_is_live(ferryi_gpu_stream stream)
{
    uintptr_t offset = (uintptr_t)stream - (uintptr_t)streams;
    return (uintptr_t)stream >= (uintptr_t)streams && offset < sizeof(streams) &&
           offset % sizeof(streams[0]) == 0 && stream->queue;
}

bool
fake_event_is_live(ferryi_gpu_event event)
{
    uintptr_t offset = (uintptr_t)event - (uintptr_t)events;
    return (uintptr_t)event >= (uintptr_t)events && offset < sizeof(events) &&
           offset % sizeof(events[0]) == 0 && event->live;
}

static bool
is_usable(ferryi_gpu_event event)
{
    return fake_event_is_live(event) && !fake_shared_event_is_gone(event->shared);
}

/* -- streams -- */

ferryi_gpu_result
cuStreamCreate(ferryi_gpu_stream *out_stream, unsigned int flags)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuStreamCreate, FAKE_NEEDS_CONTEXT, &context);
    if (flags > FERRYI_GPU_STREAM_NON_BLOCKING)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    fake_reap(context);
    struct ferryi_gpu_stream *stream = free_streams;
    if (stream)
        free_streams = stream->next_free;
    else if (streams_used < SLOTS)
        stream = &streams[streams_used++];
    else
        return fake_end(FERRYI_GPU_ERROR_OUT_OF_MEMORY);
    stream->queue = fake_queue_new(context, flags != FERRYI_GPU_STREAM_NON_BLOCKING);
    stream->queue->green = fake_green();
    fake.live.streams++;
    *out_stream = stream;
    return fake_end(FERRYI_GPU_SUCCESS);
}

static void
free_stream(struct ferryi_gpu_stream *stream)
{
    struct fake_capture *capture = stream->queue->capture;
    if (capture) {
        capture->status = FERRYI_GPU_STREAM_CAPTURE_STATUS_INVALIDATED;
        if (capture->origin == stream->queue)
            capture->origin = NULL;
        stream->queue->capture = NULL;
    }
    stream->queue->has_handle = false;
    stream->queue = NULL;
    stream->next_free = free_streams;
    free_streams = stream;
}

ferryi_gpu_result
cuStreamDestroy_v2(ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuStreamDestroy_v2, FAKE_NEEDS_CONTEXT, &context);
    if (!fake_stream_is_live(stream) || stream->queue->context != context)
        return fake_end(FERRYI_GPU_ERROR_INVALID_HANDLE);
    free_stream(stream);
    fake.live.streams--;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuStreamSynchronize(ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    struct fake_queue *queue;
    FAKE_BEGIN(cuStreamSynchronize, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    fake_result result = fake_queue_of(context, stream, &queue);
    if (result != FERRYI_GPU_SUCCESS)
        return fake_end(result);
    if (queue->capture) {
        queue->capture->status = FERRYI_GPU_STREAM_CAPTURE_STATUS_INVALIDATED;
        return fake_end(FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    result = fake_capture_check(queue);
    if (result != FERRYI_GPU_SUCCESS)
        return fake_end(result);
    /* A wait for the legacy default stream must include all blocking streams. Empty work on the
     * legacy stream waits for them. */
    if (queue == context->legacy)
        result = fake_enqueue(queue, NULL, NULL, NULL, NULL);
    if (result == FERRYI_GPU_SUCCESS)
        fake_wait(queue, queue->queued);
    return fake_end(result ? result : context->error);
}

ferryi_gpu_result
cuStreamWaitEvent(ferryi_gpu_stream stream, ferryi_gpu_event event, unsigned int flags)
{
    fake_context *context = NULL;
    struct fake_queue *queue;
    FAKE_BEGIN(cuStreamWaitEvent, FAKE_NEEDS_CONTEXT, &context);
    fake_result result = fake_queue_of(context, stream, &queue);
    if (result != FERRYI_GPU_SUCCESS || !is_usable(event))
        return fake_end(FERRYI_GPU_ERROR_INVALID_HANDLE);
    if (flags != 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    if (event->shared)
        return fake_end(fake_shared_event_await(event->shared, queue));
    if (event->capture && queue == context->legacy && (fake.strict & FAKE_STRICT_CAPTURE))
        return fake_end(FERRYI_GPU_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (event->capture && !queue->capture) {
        /* A stream that waits for an event recorded in a capture joins that capture. */
        queue->capture = event->capture;
        return fake_end(FERRYI_GPU_SUCCESS);
    }
    if (queue->capture && event->capture != queue->capture && event->point.queue) {
        queue->capture->status = FERRYI_GPU_STREAM_CAPTURE_STATUS_INVALIDATED;
        return fake_end(FERRYI_GPU_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    return fake_end(
        fake_enqueue(queue, NULL, NULL, NULL, event->point.queue ? &event->point : NULL));
}

#if FAKECUDA_GENERATION >= 12
ferryi_gpu_result
cuStreamGetCtx(ferryi_gpu_stream stream, ferryi_gpu_context *out_context)
{
    fake_context *context = NULL;
    struct fake_queue *queue;
    FAKE_BEGIN(cuStreamGetCtx, FAKE_NEEDS_CONTEXT, &context);
    fake_result result = fake_any_queue_of(context, stream, &queue);
    if (result == FERRYI_GPU_SUCCESS)
        *out_context = queue->green ? queue->green : queue->context;
    return fake_end(result);
}

ferryi_gpu_result
cuStreamGetId(ferryi_gpu_stream stream, unsigned long long *out_id)
{
    fake_context *context = NULL;
    struct fake_queue *queue;
    FAKE_BEGIN(cuStreamGetId, FAKE_NEEDS_CONTEXT, &context);
    fake_result result = fake_any_queue_of(context, stream, &queue);
    if (result == FERRYI_GPU_SUCCESS)
        *out_id = queue->id;
    return fake_end(result);
}

ferryi_gpu_result
cuStreamGetCtx_v2(ferryi_gpu_stream stream, ferryi_gpu_context *out_context,
                  ferryi_gpu_green_context *out_green)
{
    fake_context *context = NULL;
    struct fake_queue *queue;
    FAKE_BEGIN(cuStreamGetCtx_v2, FAKE_NEEDS_CONTEXT, &context);
    fake_result result = fake_any_queue_of(context, stream, &queue);
    if (result == FERRYI_GPU_SUCCESS) {
        *out_context = queue->context;
        *out_green = (ferryi_gpu_green_context)queue->green;
    }
    return fake_end(result);
}
#endif

/* -- events -- */

struct ferryi_gpu_event *
fake_event_new(fake_context *context, bool timed, struct fake_shared_event *shared)
{
    struct ferryi_gpu_event *event = free_events;
    if (event)
        free_events = event->next_free;
    else if (events_used < SLOTS)
        event = &events[events_used++];
    else
        return NULL;
    *event = (struct ferryi_gpu_event){
        .live = true, .timed = timed, .shared = shared, .context = context, .green = fake_green()};
    fake.live.events++;
    return event;
}

ferryi_gpu_result
cuEventCreate(ferryi_gpu_event *out_event, unsigned int flags)
{
    const bool timed = !(flags & FERRYI_GPU_EVENT_DISABLE_TIMING),
               is_shared = flags & FERRYI_GPU_EVENT_INTERPROCESS;
    struct fake_shared_event *shared = NULL;
    fake_context *context = NULL;
    FAKE_BEGIN(cuEventCreate, FAKE_NEEDS_CONTEXT, &context);
    if (flags & ~(unsigned int)(FERRYI_GPU_EVENT_DISABLE_TIMING | FERRYI_GPU_EVENT_INTERPROCESS) ||
        (timed && is_shared))
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    if (is_shared && (shared = fake_shared_event_new()) == NULL)
        return fake_end(FERRYI_GPU_ERROR_OUT_OF_MEMORY);
    struct ferryi_gpu_event *event = fake_event_new(context, timed, shared);
    if (!event) {
        fake_shared_event_drop(shared);
        return fake_end(FERRYI_GPU_ERROR_OUT_OF_MEMORY);
    }
    *out_event = event;
    return fake_end(FERRYI_GPU_SUCCESS);
}

/* -- times of events, which a work item of the queue records -- */

static void
drop_reached(struct fake_reached *reached)
{
    if (reached && --reached->holders == 0)
        free(reached);
}

static fake_result
write_time(void *payload)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    (*(struct fake_reached **)payload)->ns =
        (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    return FERRYI_GPU_SUCCESS;
}

static void
drop_payload(void *payload)
{
    drop_reached(*(struct fake_reached **)payload);
}

static fake_result
enqueue_time(struct fake_queue *queue, struct ferryi_gpu_event *event)
{
    struct fake_reached *reached = calloc(1, sizeof(*reached)),
                        **payload = malloc(sizeof(*payload));
    if (!reached || !payload)
        abort();
    *payload = reached;
    reached->holders = 2;
    fake_result result = fake_enqueue(queue, write_time, drop_payload, payload, NULL);
    drop_reached(event->reached);
    event->reached = reached;
    return result;
}

static void
free_event(struct ferryi_gpu_event *event)
{
    fake_shared_event_drop(event->shared);
    event->shared = NULL;
    drop_reached(event->reached);
    event->reached = NULL;
    fake_hold(&event->point, NULL, 0);
    event->live = false;
    event->next_free = free_events;
    free_events = event;
}

ferryi_gpu_result
cuEventDestroy_v2(ferryi_gpu_event event)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuEventDestroy_v2, FAKE_NEEDS_CONTEXT, &context);
    if (!fake_event_is_live(event) || event->context != context)
        return fake_end(FERRYI_GPU_ERROR_INVALID_HANDLE);
    free_event(event);
    fake.live.events--;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuEventRecord(ferryi_gpu_event event, ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    struct fake_queue *queue;
    FAKE_BEGIN(cuEventRecord, FAKE_NEEDS_CONTEXT, &context);
    fake_result result = fake_queue_of(context, stream, &queue);
    if (result != FERRYI_GPU_SUCCESS || !is_usable(event) || event->context != context ||
        event->green != queue->green)
        return fake_end(FERRYI_GPU_ERROR_INVALID_HANDLE);
    if (event->shared)
        return fake_end(fake_shared_event_record(event->shared, queue));
    result =
        event->timed ? enqueue_time(queue, event) : fake_enqueue(queue, NULL, NULL, NULL, NULL);
    if (result != FERRYI_GPU_SUCCESS)
        return fake_end(result);
    event->capture = queue->capture;
    if (event->capture)
        fake_hold(&event->point, NULL, 0);
    else
        fake_hold(&event->point, queue, queue->queued);
    return fake_end(FERRYI_GPU_SUCCESS);
}

/* Returns an error if the event is not valid or was recorded in a capture. A captured event
 * occurs only when the captured graph runs, so a wait for it or a query invalidates the capture. */
static fake_result
check_event(ferryi_gpu_event event)
{
    if (!is_usable(event))
        return FERRYI_GPU_ERROR_INVALID_HANDLE;
    if (!event->capture)
        return FERRYI_GPU_SUCCESS;
    event->capture->status = FERRYI_GPU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return FERRYI_GPU_ERROR_CAPTURED_EVENT;
}

ferryi_gpu_result
cuEventQuery(ferryi_gpu_event event)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuEventQuery, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    fake_result result = check_event(event);
    if (result == FERRYI_GPU_SUCCESS && event->shared &&
        !fake_shared_event_has_ended(event->shared))
        return fake_end(FERRYI_GPU_ERROR_NOT_READY);
    if (result != FERRYI_GPU_SUCCESS || !event->point.queue ||
        event->point.queue->done >= event->point.number)
        return fake_end(result);
    fake_want(event->point.queue, event->point.number);
    return fake_end(context->error ? context->error : FERRYI_GPU_ERROR_NOT_READY);
}

ferryi_gpu_result
cuEventSynchronize(ferryi_gpu_event event)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuEventSynchronize, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    fake_result result = check_event(event);
    if (result != FERRYI_GPU_SUCCESS)
        return fake_end(result);
    if (event->shared)
        fake_shared_event_wait(event->shared);
    if (event->point.queue)
        fake_wait(event->point.queue, event->point.number);
    return fake_end(context->error);
}

ferryi_gpu_result
cuEventElapsedTime(float *out_milliseconds, ferryi_gpu_event begin, ferryi_gpu_event end)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuEventElapsedTime, FAKE_NEEDS_CONTEXT, &context);
    ferryi_gpu_event both[] = {begin, end};
    for (int i = 0; i < 2; i++) {
        fake_result result = check_event(both[i]);
        if (result == FERRYI_GPU_SUCCESS &&
            (both[i]->context != context || !both[i]->timed || !both[i]->point.queue))
            result = FERRYI_GPU_ERROR_INVALID_HANDLE;
        if (result == FERRYI_GPU_SUCCESS && context->error)
            result = context->error;
        if (result == FERRYI_GPU_SUCCESS && both[i]->point.queue->done < both[i]->point.number)
            result = FERRYI_GPU_ERROR_NOT_READY;
        if (result != FERRYI_GPU_SUCCESS)
            return fake_end(result);
    }
    *out_milliseconds = (float)(int64_t)(end->reached->ns - begin->reached->ns) / 1e6f;
    return fake_end(FERRYI_GPU_SUCCESS);
}

/* -- the end of a context -- */

void
fake_handles_end(fake_context *context)
{
    for (size_t i = 0; i < streams_used; i++)
        if (streams[i].queue && streams[i].queue->context == context)
            free_stream(&streams[i]);
    for (size_t i = 0; i < events_used; i++)
        if (events[i].live && events[i].context == context)
            free_event(&events[i]);
}
