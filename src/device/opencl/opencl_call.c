/* SPDX-License-Identifier: MIT */
/* Host functions in the order of a stream. */
#include <stdlib.h>

#include "src/device/opencl/opencl_device.h"

struct ferryi_opencl_call {
    struct ferryi_opencl_call *next;
    ferryi_cl_event before; /* complete when the work that precedes the function is done */
    ferryi_cl_event after;  /* a user event, which the later work of the queue waits for */
    void (*run)(void *user);
    void *user;
};

/* -- the thread of a stream -------------------------------------------------------------------- */

/* Runs a host function. The user event completes also if the device has failed, because other
 * queues may wait for it, and it never fails, because not every driver survives that. */
static void
run_call(const struct ferryi_opencl_driver *driver, struct ferryi_opencl_call *call)
{
    driver->clWaitForEvents(1, &call->before);
    call->run(call->user);
    driver->clSetUserEventStatus(call->after, FERRYI_CL_COMPLETE);
    driver->clReleaseEvent(call->before);
    driver->clReleaseEvent(call->after);
    free(call);
}

FERRYI_REQUIRES(ferryi_opencl_stream_mutex)
static struct ferryi_opencl_call *
take_call(struct ferryi_opencl_stream *stream)
{
    while (!stream->first && !stream->is_closed)
        ferryi_cond_wait(&stream->given, &stream->mutex);
    struct ferryi_opencl_call *call = stream->first;
    if (!call)
        return NULL;
    stream->first = call->next;
    if (!stream->first)
        stream->last = NULL;
    return call;
}

static void
run_calls(void *argument)
{
    struct ferryi_opencl_stream *stream = argument;
    struct ferryi_opencl_call *call;
    do {
        ferryi_mutex_lock(&stream->mutex);
        call = take_call(stream);
        ferryi_mutex_unlock(&stream->mutex);
        if (call)
            run_call(stream->driver, call);
    } while (call);
}

void
ferryi_opencl_calls_end(struct ferryi_opencl_stream *stream)
{
    ferryi_mutex_lock(&stream->mutex);
    stream->is_closed = true;
    const bool has_thread = stream->has_thread;
    ferryi_cond_signal(&stream->given);
    ferryi_mutex_unlock(&stream->mutex);
    if (has_thread)
        ferryi_thread_join(stream->thread);
}

/* -- calls ------------------------------------------------------------------------------------- */

/* Makes the queue wait for the call's user event behind all work that it has so far. If this fails,
 * nothing waits for the event. */
static ferry_status
queue_call(struct ferryi_opencl_device *opencl, ferryi_cl_queue queue,
           struct ferryi_opencl_call *call)
{
    ferryi_cl_int result = FERRYI_CL_SUCCESS;
    FERRYI_OR_RETURN(
        FERRYI_OPENCL_CALL(opencl, clEnqueueMarkerWithWaitList, queue, 0, NULL, &call->before));
    call->after = opencl->driver->clCreateUserEvent(opencl->platform->context, &result);
    if (!call->after)
        return ferryi_opencl_check(opencl, "clCreateUserEvent", result);
    ferry_status status =
        FERRYI_OPENCL_CALL(opencl, clEnqueueBarrierWithWaitList, queue, 1, &call->after, NULL);
    if (status == FERRY_OK)
        status = FERRYI_OPENCL_CALL(opencl, clFlush, queue);
    if (status != FERRY_OK)
        opencl->driver->clSetUserEventStatus(call->after, FERRYI_CL_COMPLETE);
    return status;
}

/* Queues a call and passes it to the stream's thread. The caller holds the mutex all the time, so
 * that calls are in the list in the order of their barriers. Otherwise the thread could wait for a
 * marker behind the barrier of a call that is later in its list. */
FERRYI_REQUIRES(ferryi_opencl_stream_mutex)
static ferry_status
give_call(struct ferryi_opencl_device *opencl, struct ferryi_opencl_stream *stream,
          struct ferryi_opencl_call *call)
{
    if (!stream->has_thread)
        FERRYI_OR_RETURN(ferryi_thread_start(&stream->thread, "ferry-opencl", run_calls, stream));
    stream->has_thread = true;
    FERRYI_OR_RETURN(queue_call(opencl, stream->queue, call));
    if (stream->last)
        stream->last->next = call;
    else
        stream->first = call;
    stream->last = call;
    ferryi_cond_signal(&stream->given);
    return FERRY_OK;
}

static void
drop_call(const struct ferryi_opencl_driver *driver, struct ferryi_opencl_call *call)
{
    if (call->before)
        driver->clReleaseEvent(call->before);
    if (call->after)
        driver->clReleaseEvent(call->after);
    free(call);
}

ferry_status
ferryi_opencl_host_call(ferryi_device *device, void *handle, void (*run)(void *user), void *user)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    struct ferryi_opencl_stream *stream;
    if (opencl->calls_wait) {
        FERRYI_OR_RETURN(FERRYI_OPENCL_CALL(opencl, clFinish, handle));
        run(user);
        return FERRY_OK;
    }
    FERRYI_OR_RETURN(ferryi_opencl_stream_find(opencl, handle, &stream));
    struct ferryi_opencl_call *call = calloc(1, sizeof(*call));
    if (!call)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "queue a host function on opencl:%d: no host memory", opencl->ordinal);
    call->run = run;
    call->user = user;
    ferryi_mutex_lock(&stream->mutex);
    ferry_status status = give_call(opencl, stream, call);
    ferryi_mutex_unlock(&stream->mutex);
    if (status != FERRY_OK)
        drop_call(opencl->driver, call);
    return status;
}

/* -- the test of the driver -------------------------------------------------------------------- */

#define TEST_NS 100000000u /* longest wait for an empty queue */

/* Returns whether an event completes soon. */
static bool
completes(const struct ferryi_opencl_driver *driver, ferryi_cl_event event)
{
    const uint64_t end = ferryi_now_ns() + TEST_NS;
    ferryi_cl_int state;
    while (!ferryi_opencl_is_done(driver, event, &state)) {
        if (ferryi_now_ns() > end)
            return false;
        ferryi_sleep_ns(10000);
    }
    return true;
}

/* Queues a marker on an empty queue while `waiting` waits for the user event `gate`. Returns
 * whether the marker completes. */
static bool
works_meanwhile(struct ferryi_opencl_device *opencl, ferryi_cl_queue waiting, ferryi_cl_event gate)
{
    const struct ferryi_opencl_driver *driver = opencl->driver;
    ferryi_cl_event marker = NULL;
    if (driver->clEnqueueBarrierWithWaitList(waiting, 1, &gate, NULL) != FERRYI_CL_SUCCESS ||
        driver->clFlush(waiting) != FERRYI_CL_SUCCESS ||
        driver->clEnqueueMarkerWithWaitList(opencl->service, 0, NULL, &marker) != FERRYI_CL_SUCCESS)
        return false;
    const bool works =
        driver->clFlush(opencl->service) == FERRYI_CL_SUCCESS && completes(driver, marker);
    driver->clReleaseEvent(marker);
    return works;
}

bool
ferryi_opencl_calls_test(struct ferryi_opencl_device *opencl)
{
    const struct ferryi_opencl_driver *driver = opencl->driver;
    ferryi_cl_queue waiting;
    ferryi_cl_int result;
    bool works = false;
    FERRYI_KEEP_ERROR(kept);
    if (ferryi_opencl_queue_create(opencl, false, &waiting) != FERRY_OK)
        return false;
    ferryi_cl_event gate = driver->clCreateUserEvent(opencl->platform->context, &result);
    if (gate) {
        works = works_meanwhile(opencl, waiting, gate);
        driver->clSetUserEventStatus(gate, FERRYI_CL_COMPLETE);
        driver->clFinish(waiting);
        driver->clFinish(opencl->service);
        driver->clReleaseEvent(gate);
    }
    driver->clReleaseCommandQueue(waiting);
    return works;
}
