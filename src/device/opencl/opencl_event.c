/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/device/opencl/opencl_device.h"

/*
 * An event. Its record is a marker in the queue. A queue that measures times makes each launch
 * slower, so that no stream is one. The record of a timed event is also a marker in the clock of
 * its stream, a second queue, which waits for the first marker.
 */
struct event {
    bool is_timed;
    struct ferryi_opencl_event_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_opencl_event_mutex) struct {
        ferryi_cl_event marker; /* of the latest record; NULL: there was none */
        ferryi_cl_event time;   /* its marker in the clock; NULL if the event is not timed */
    };
};

bool
ferryi_opencl_is_done(const struct ferryi_opencl_driver *driver, ferryi_cl_event event,
                      ferryi_cl_int *out_state)
{
    ferryi_cl_int state = 1;
    const ferryi_cl_int result = driver->clGetEventInfo(
        event, FERRYI_CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL);
    *out_state = result == FERRYI_CL_SUCCESS ? state : result;
    return *out_state <= FERRYI_CL_COMPLETE;
}

ferry_status
ferryi_opencl_event_create(ferryi_device *device, bool timed, void **out)
{
    struct event *event = calloc(1, sizeof(*event));
    if (!event)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "create an event on opencl:%d: no host memory",
                           device->properties.native);
    event->is_timed = timed;
    ferryi_mutex_init(&event->mutex);
    *out = event;
    return FERRY_OK;
}

static void
release(const struct ferryi_opencl_driver *driver, ferryi_cl_event event)
{
    if (event)
        driver->clReleaseEvent(event);
}

ferry_status
ferryi_opencl_event_destroy(ferryi_device *device, void *handle)
{
    const struct ferryi_opencl_driver *driver = ferryi_opencl_of(device)->driver;
    struct event *event = handle;
    ferryi_mutex_is_needless(&event->mutex);
    release(driver, event->marker);
    release(driver, event->time);
    ferryi_mutex_destroy(&event->mutex);
    free(event);
    return FERRY_OK;
}

/* -- records ----------------------------------------------------------------------------------- */

/* Queues a marker, and submits it: another queue or the host may wait for it. */
static ferry_status
mark(struct ferryi_opencl_device *opencl, ferryi_cl_queue queue, const ferryi_cl_event *wait,
     ferryi_cl_event *out)
{
    FERRYI_OR_RETURN(
        FERRYI_OPENCL_CALL(opencl, clEnqueueMarkerWithWaitList, queue, wait ? 1 : 0, wait, out));
    ferry_status status = FERRYI_OPENCL_CALL(opencl, clFlush, queue);
    if (status != FERRY_OK) {
        opencl->driver->clReleaseEvent(*out);
        *out = NULL;
    }
    return status;
}

/* Queues a marker that measures the time at which another marker is complete. */
static ferry_status
mark_time(struct ferryi_opencl_device *opencl, const void *handle, const ferryi_cl_event *marker,
          ferryi_cl_event *out)
{
    struct ferryi_opencl_stream *stream;
    ferry_status status = FERRY_OK;
    FERRYI_OR_RETURN(ferryi_opencl_stream_find(opencl, handle, &stream));
    ferryi_mutex_lock(&stream->mutex);
    if (!stream->clock)
        status = ferryi_opencl_queue_create(opencl, true, &stream->clock);
    if (status == FERRY_OK)
        status = mark(opencl, stream->clock, marker, out);
    ferryi_mutex_unlock(&stream->mutex);
    return status;
}

ferry_status
ferryi_opencl_event_record(ferryi_device *device, void *handle, void *stream)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    struct event *event = handle;
    ferryi_cl_event marker = NULL, time = NULL;
    FERRYI_OR_RETURN(mark(opencl, stream, NULL, &marker));
    if (event->is_timed) {
        ferry_status status = mark_time(opencl, stream, &marker, &time);
        if (status != FERRY_OK) {
            opencl->driver->clReleaseEvent(marker);
            return status;
        }
    }
    ferryi_mutex_lock(&event->mutex);
    ferryi_cl_event former_marker = event->marker, former_time = event->time;
    event->marker = marker;
    event->time = time;
    ferryi_mutex_unlock(&event->mutex);
    release(opencl->driver, former_marker);
    release(opencl->driver, former_time);
    return FERRY_OK;
}

/* Returns the marker of the latest record with a new reference, or NULL. */
static ferryi_cl_event
retain_marker(const struct ferryi_opencl_driver *driver, struct event *event)
{
    ferryi_mutex_lock(&event->mutex);
    ferryi_cl_event marker = event->marker;
    if (marker)
        driver->clRetainEvent(marker);
    ferryi_mutex_unlock(&event->mutex);
    return marker;
}

/* -- waits ------------------------------------------------------------------------------------- */

ferry_status
ferryi_opencl_event_query(ferryi_device *device, void *handle, bool *out_done)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    ferryi_cl_event marker = retain_marker(opencl->driver, handle);
    ferryi_cl_int state = FERRYI_CL_COMPLETE;
    const bool done = !marker || ferryi_opencl_is_done(opencl->driver, marker, &state);
    release(opencl->driver, marker);
    if (state < 0)
        return ferryi_opencl_check(opencl, "query an event", state);
    *out_done = done;
    return FERRY_OK;
}

ferry_status
ferryi_opencl_event_synchronize(ferryi_device *device, void *handle)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    ferryi_cl_event marker = retain_marker(opencl->driver, handle);
    if (!marker)
        return FERRY_OK;
    ferry_status status = FERRYI_OPENCL_CALL(opencl, clWaitForEvents, 1, &marker);
    release(opencl->driver, marker);
    return status;
}

ferry_status
ferryi_opencl_stream_wait(ferryi_device *device, void *stream, void *handle)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    ferryi_cl_event marker = retain_marker(opencl->driver, handle);
    ferryi_cl_int state;
    ferry_status status = FERRY_OK;
    if (marker && !ferryi_opencl_is_done(opencl->driver, marker, &state))
        status = FERRYI_OPENCL_CALL(opencl, clEnqueueBarrierWithWaitList, stream, 1, &marker, NULL);
    release(opencl->driver, marker);
    return status;
}

/* -- times ------------------------------------------------------------------------------------- */

/* Reads the time of an event. If its marker is complete, the marker in the clock soon is. */
FERRYI_REQUIRES(ferryi_opencl_event_mutex)
static ferry_status
read_time(struct ferryi_opencl_device *opencl, const struct event *event, uint64_t *out_ns)
{
    ferryi_cl_int state;
    if (!event->time || !ferryi_opencl_is_done(opencl->driver, event->marker, &state))
        return ferryi_fail(FERRY_ERROR_DEVICE,
                           "get the time of an event of opencl:%d: it is not timed, was never "
                           "recorded, or is not complete",
                           opencl->ordinal);
    FERRYI_OR_RETURN(FERRYI_OPENCL_CALL(opencl, clWaitForEvents, 1, &event->time));
    return FERRYI_OPENCL_CALL(opencl, clGetEventProfilingInfo, event->time,
                              FERRYI_CL_PROFILING_COMMAND_END, sizeof(*out_ns), out_ns, NULL);
}

static ferry_status
time_of(struct ferryi_opencl_device *opencl, struct event *event, uint64_t *out_ns)
{
    ferryi_mutex_lock(&event->mutex);
    ferry_status status = read_time(opencl, event, out_ns);
    ferryi_mutex_unlock(&event->mutex);
    return status;
}

ferry_status
ferryi_opencl_event_elapsed(ferryi_device *device, void *begin, void *end, double *out_seconds)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    uint64_t first = 0, last = 0;
    FERRYI_OR_RETURN(time_of(opencl, begin, &first));
    FERRYI_OR_RETURN(time_of(opencl, end, &last));
    *out_seconds = ferryi_seconds_between(first, last);
    return FERRY_OK;
}
