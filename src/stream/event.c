/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "src/base/callback.h"
#include "src/debug/debug.h"
#include "src/stream/event.h"
#include "src/stream/shell.h"

/* -- the time of an event ---------------------------------------------------------------------- */

/*
 * An event that the program records with FERRY_EVENT_TIMED has a sync point (a position in the work
 * of its stream). In addition, it has a native event of the device, which measures time. The native
 * events that Ferry records for sync points cannot be used for this purpose, because they do not
 * measure time and are reused. The context lists its timed events. When the context ends, it
 * destroys the native events of this list while the devices are still open.
 */

/*
 * Removes the event from the context's list of timed events, and destroys the native event that
 * measures its time. The caller holds the list's mutex during both steps, so the context cannot
 * close the device between them. Preserves this thread's error message, which an earlier failed
 * call may have set.
 */
FERRYI_REQUIRES(ferryi_event_times_mutex)
static void
end_time(ferry_event *event)
{
    struct ferryi_event_time *time = &event->time;
    FERRYI_LIST_REMOVE(event, time.next, time.link);
    FERRYI_KEEP_ERROR(kept);
    if (FERRYI_CALL(time->device, event_destroy, time->native) != FERRY_OK)
        ferryi_log(&event->context->log, FERRY_LOG_WARNING, "%s", ferry_last_error());
    time->native = NULL;
}

static void
list_time(ferry_event *event)
{
    ferry_context *context = event->context;
    ferryi_mutex_lock(&context->event_times_mutex);
    FERRYI_LIST_ADD(&context->event_times, event, time.next, time.link);
    ferryi_mutex_unlock(&context->event_times_mutex);
}

/* Creates a native event that measures time, and records it on the timeline's stream. The stream
 * must not be in capture mode. If this function fails, the caller may only release `event`. */
static ferry_status
record_time(ferry_event *event, ferryi_timeline *timeline)
{
    ferryi_device *device = timeline->device;
    void *native;
    FERRYI_OR_RETURN(ferryi_timeline_create_event(timeline, true, &native));
    event->time.device = device;
    event->time.place = timeline->place;
    event->time.native = native;
    list_time(event);
    return ferryi_timeline_record(timeline, native);
}

/* Destroys the native timed event of `event`. Does nothing if `event` is not timed, or if the
 * native event was already destroyed at the end of the context. */
static void
release_time(ferry_event *event)
{
    if (!event->time.device)
        return;
    ferryi_mutex_lock(&event->context->event_times_mutex);
    if (event->time.native)
        end_time(event);
    ferryi_mutex_unlock(&event->context->event_times_mutex);
}

void
ferryi_event_times_close(ferry_context *context)
{
    ferryi_mutex_lock(&context->event_times_mutex);
    while (context->event_times)
        end_time(context->event_times);
    ferryi_mutex_unlock(&context->event_times_mutex);
}

/* -- events ------------------------------------------------------------------------------------ */

ferry_status
ferryi_event_new(ferry_context *context, bool is_job, ferry_event **out)
{
    ferry_event *event = calloc(1, sizeof(*event));
    if (!event)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create an event: no memory");
    atomic_init(&event->references, 1);
    atomic_init(&event->cancelled, false);
    atomic_init(&event->arrived, 0);
    atomic_init(&event->heard, false);
    ferryi_mutex_init(&event->mutex);
    ferryi_cond_init(&event->cond);
    event->context = context;
    event->is_job = is_job;
    ferryi_shell_retain(context);
    *out = event;
    return FERRY_OK;
}

static void
event_free(void *header)
{
    ferry_event *event = header;
    ferryi_cond_destroy(&event->cond);
    ferryi_mutex_destroy(&event->mutex);
    ferryi_shell_release(event->context);
    free(event->text);
    free(event);
}

/* Logs the failure of an asynchronous call if the program has never queried the call's event.
 * Without this log entry, the failure would be lost. Does not log a call that ended because the
 * program cancelled it. */
static void
log_unreported(const ferry_event *event)
{
    if (event->status == FERRY_OK || event->heard ||
        (event->status == FERRY_ERROR_CANCELLED && event->cancelled))
        return;
    const char *why = event->text ? event->text : ferry_status_name(event->status);
    if (event->hint && event->status == FERRY_ERROR_OUT_OF_MEMORY)
        ferryi_log(&event->context->log, FERRY_LOG_INFO, "%s a buffer: nothing was copied: %s",
                   event->hint, why);
    else if (event->hint)
        ferryi_log(&event->context->log, FERRY_LOG_ERROR, "%s a buffer: %s", event->hint, why);
    else
        ferryi_log(&event->context->log, FERRY_LOG_ERROR, "an asynchronous call failed, and %s: %s",
                   event->is_unseen ? "it has no event" : "its event was never queried", why);
}

void
ferryi_event_release(ferry_event *event)
{
    if (!event || event->context->inherited || atomic_fetch_sub(&event->references, 1) != 1)
        return;
    log_unreported(event);
    release_time(event);
    ferryi_quarantine_free(event->context->debug, event, event_free);
}

void
ferryi_event_finish(ferry_event *event, ferry_status status, ferryi_sync_point point)
{
    ferryi_mutex_lock(&event->mutex);
    assert(status != FERRY_OK || atomic_load(&event->arrived) == event->bytes);
    event->status = status;
    event->text = status == FERRY_OK ? NULL : ferryi_last_error_copy();
    event->point = point;
    event->done = true;
    ferryi_cond_broadcast(&event->cond);
    ferryi_mutex_unlock(&event->mutex);
}

static ferry_status
event_status(ferry_event *event)
{
    if (event->status == FERRY_OK)
        return FERRY_OK;
    atomic_store_explicit(&event->heard, true, memory_order_relaxed);
    return ferryi_fail(event->status, "%s",
                       event->text ? event->text : "the asynchronous call failed");
}

/* Waits until a worker thread has finished the event's job (an asynchronous call). Fails with BUSY
 * inside a callback while a worker thread of the context is blocked, which may be this thread. */
static ferry_status
wait_job(ferry_event *event, const char *what)
{
    uint64_t begun = 0;
    ferryi_mutex_lock(&event->mutex);
    const struct ferryi_runner worker = {.context = event->context};
    bool done;
    while (!(done = !event->is_job || event->done) && !ferryi_callback_must_not_wait(worker)) {
        if (event->context->trace && !begun)
            begun = ferryi_now_ns();
        uint64_t look_ns = ferryi_callback_look_again_ns();
        if (look_ns)
            (void)ferryi_cond_wait_until(&event->cond, &event->mutex, look_ns);
        else
            ferryi_cond_wait(&event->cond, &event->mutex);
    }
    ferryi_mutex_unlock(&event->mutex);
    if (begun)
        ferryi_trace_wait(event->context->trace, "wait for an asynchronous call", NULL, begun);
    return done ? event_status(event) : ferryi_callback_refuse_wait(what);
}

ferry_status
ferryi_event_check(const ferry_event *event, const char *what)
{
    if (!event)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the event is NULL", what);
    if (atomic_load(&event->references) <= 0)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s: the event was destroyed", what);
    return ferryi_shell_check_alive(event->context, what);
}

ferry_status
ferry_stream_record(ferry_stream *stream, uint32_t flags, ferry_event **out)
{
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "record an event: out is NULL");
    if (flags & ~(uint32_t)FERRY_EVENT_TIMED)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "record an event: flags are %" PRIu32 ", and only FERRY_EVENT_TIMED is defined", flags);
    ferry_event *event;
    FERRYI_OR_RETURN(ferryi_stream_check(stream, "record an event"));
    ferryi_timeline *timeline = stream->timeline;
    FERRYI_OR_RETURN(ferryi_timeline_check_capture(timeline));
    FERRYI_OR_RETURN(ferryi_event_new(stream->context, false, &event));
    ferry_status status = FERRY_OK;
    if (flags & FERRY_EVENT_TIMED)
        status = record_time(event, timeline);
    if (status == FERRY_OK)
        status = ferryi_timeline_note(timeline, ferryi_thread_id(), &event->point);
    if (status == FERRY_OK)
        status = ferryi_timeline_flush(timeline);
    if (status != FERRY_OK) {
        ferryi_event_release(event);
        return status;
    }
    *out = event;
    return FERRY_OK;
}

ferry_status
ferry_stream_wait_event(ferry_stream *stream, ferry_event *event)
{
    FERRYI_OR_RETURN(ferryi_stream_check(stream, "wait for an event"));
    FERRYI_OR_RETURN(ferryi_event_check(event, "wait for an event"));
    if (event->context != stream->context)
        return ferryi_fail(FERRY_ERROR_WRONG_CONTEXT,
                           "wait for an event: stream and event belong to different contexts");
    ferry_status status = wait_job(event, "wait for an event");
    return status == FERRY_OK
               ? ferryi_sync_point_wait(&event->context->order, stream->timeline, event->point)
               : status;
}

ferry_status
ferry_event_synchronize(ferry_event *event)
{
    ferry_status status = ferryi_event_check(event, "synchronize an event");
    if (status == FERRY_OK)
        status = ferryi_callback_check("synchronize an event");
    if (status == FERRY_OK)
        status = wait_job(event, "synchronize an event");
    return status == FERRY_OK ? ferryi_sync_point_wait(&event->context->order, NULL, event->point)
                              : status;
}

ferry_status
ferry_event_query(ferry_event *event, bool *out_done)
{
    if (!out_done)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "query an event: out_done is NULL");
    FERRYI_OR_RETURN(ferryi_event_check(event, "query an event"));
    FERRYI_OR_RETURN(ferryi_callback_check("query an event"));
    ferryi_mutex_lock(&event->mutex);
    bool done = !event->is_job || event->done;
    ferryi_mutex_unlock(&event->mutex);
    if (done && event->status == FERRY_OK)
        done = ferryi_sync_point_query(&event->context->order, event->point);
    *out_done = done;
    return done ? event_status(event) : FERRY_OK;
}

ferry_status
ferry_event_cancel(ferry_event *event)
{
    if (!event)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "cancel an event: it is NULL");
    atomic_store(&event->cancelled, true);
    return FERRY_OK;
}

ferry_status
ferry_event_progress(ferry_event *event, size_t *out_done, size_t *out_total)
{
    if (!out_done || !out_total)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "progress of an event: out_done or out_total is NULL");
    FERRYI_OR_RETURN(ferryi_event_check(event, "progress of an event"));
    *out_done = atomic_load_explicit(&event->arrived, memory_order_acquire);
    *out_total = event->bytes;
    return FERRY_OK;
}

static ferry_status
check_times(const ferry_event *begin, const ferry_event *end, const char *what)
{
    if (begin->context != end->context)
        return ferryi_fail(FERRY_ERROR_WRONG_CONTEXT, "%s: they belong to different contexts",
                           what);
    for (int i = 0; i < 2; i++) {
        const ferry_event *event = i == 0 ? begin : end;
        const char *name = i == 0 ? "begin" : "end";
        if (event->is_job)
            return ferryi_fail(
                FERRY_ERROR_INVALID_ARGUMENT,
                "%s: `%s` is the event of an asynchronous call, "
                "which keeps no time; "
                "let a stream wait for it and record an event there with FERRY_EVENT_TIMED",
                what, name);
        if (!event->time.device)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "%s: `%s` was recorded without FERRY_EVENT_TIMED", what, name);
    }
    if (begin->time.place != end->time.place)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT, "%s: they were recorded at different places, %s and %s",
            what, begin->context->names[begin->time.place], end->context->names[end->time.place]);
    return FERRY_OK;
}

ferry_status
ferry_event_elapsed(ferry_event *begin, ferry_event *end, double *out_seconds)
{
    static const char what[] = "measure the time between two events";
    if (!out_seconds)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: out_seconds is NULL", what);
    FERRYI_OR_RETURN(ferryi_event_check(begin, what));
    FERRYI_OR_RETURN(ferryi_event_check(end, what));
    FERRYI_OR_RETURN(ferryi_callback_check(what));
    FERRYI_OR_RETURN(check_times(begin, end, what));
    ferryi_device *device = begin->time.device;
    ferry_status status = ferryi_device_wait_event(device, begin->time.native);
    if (status == FERRY_OK)
        status = ferryi_device_wait_event(device, end->time.native);
    return status == FERRY_OK ? FERRYI_CALL(device, event_elapsed, begin->time.native,
                                            end->time.native, out_seconds)
                              : status;
}

void
ferry_event_destroy(ferry_event **event)
{
    if (!event || !*event)
        return;
    ferry_event *gone = *event;
    if (ferryi_callback_refuses_end(&gone->context->log, false, "destroy an event"))
        return;
    *event = NULL;
    if (atomic_load(&gone->references) <= 0)
        ferryi_log(&gone->context->log, FERRY_LOG_ERROR,
                   "destroy an event: it was destroyed before");
    else
        ferryi_event_release(gone);
}
