/* SPDX-License-Identifier: MIT */
#include "src/stream/event_time.h"

#include "src/base/callback.h"
#include "src/stream/shell.h"

/*
 * Removes the event from the context's list and destroys the device's event that measures its time.
 * The caller holds the lock during both steps, so the context cannot close the device between them.
 * Keeps this thread's error message, which an earlier failed call may have set.
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

ferry_status
ferryi_event_time_record(ferry_event *event, ferryi_timeline *timeline)
{
    ferryi_device *device = timeline->device;
    void *native;
    ferry_status status = FERRYI_CALL(device, event_create, true, &native);
    if (status != FERRY_OK)
        return status;
    event->time.device = device;
    event->time.place = timeline->place;
    event->time.native = native;
    list_time(event);
    return FERRYI_CALL(device, event_record, native, timeline->native);
}

void
ferryi_event_time_end(ferry_event *event)
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

static ferry_status
check_times(const ferry_event *begin, const ferry_event *end)
{
    if (begin->context != end->context)
        return ferryi_fail(
            FERRY_ERROR_WRONG_CONTEXT,
            "measure the time between two events: they belong to different contexts");
    for (int i = 0; i < 2; i++) {
        const ferry_event *event = i == 0 ? begin : end;
        const char *name = i == 0 ? "begin" : "end";
        if (event->is_job)
            return ferryi_fail(
                FERRY_ERROR_INVALID_ARGUMENT,
                "measure the time between two events: `%s` is the event of an asynchronous call, "
                "which keeps no time; "
                "let a stream wait for it and record an event there with FERRY_EVENT_TIMED",
                name);
        if (!event->time.device)
            return ferryi_fail(
                FERRY_ERROR_INVALID_ARGUMENT,
                "measure the time between two events: `%s` was recorded without FERRY_EVENT_TIMED",
                name);
    }
    if (begin->time.place != end->time.place)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "measure the time between two events: they were recorded at different "
                           "places, %s and %s",
                           begin->context->names[begin->time.place],
                           end->context->names[end->time.place]);
    return FERRY_OK;
}

ferry_status
ferry_event_elapsed(ferry_event *begin, ferry_event *end, double *out_seconds)
{
    static const char what[] = "measure the time between two events";
    if (!out_seconds)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: out_seconds is NULL", what);
    ferry_status status = ferryi_event_check(begin, what);
    if (status == FERRY_OK)
        status = ferryi_event_check(end, what);
    if (status == FERRY_OK)
        status = ferryi_callback_check(what);
    if (status == FERRY_OK)
        status = check_times(begin, end);
    if (status != FERRY_OK)
        return status;
    ferryi_device *device = begin->time.device;
    status = ferryi_device_wait_event(device, begin->time.native);
    if (status == FERRY_OK)
        status = ferryi_device_wait_event(device, end->time.native);
    return status == FERRY_OK ? FERRYI_CALL(device, event_elapsed, begin->time.native,
                                            end->time.native, out_seconds)
                              : status;
}
