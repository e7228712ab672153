/* SPDX-License-Identifier: MIT */
/* Implements the stream and event functions of a GPU. */
#include "src/device/gpu/gpu_device.h"

#include <assert.h>

ferry_status
ferryi_gpu_stream_create(ferryi_device *device, void **out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferryi_gpu_stream stream = NULL;
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, stream_create, &stream,
                   FERRYI_GPU_STREAM_NON_BLOCKING);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "create a stream on %s", gpu->name);
    *out = stream;
    return FERRY_OK;
}

ferry_status
ferryi_gpu_stream_destroy(ferryi_device *device, void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, stream_destroy, stream);
    return FERRYI_GPU_TELL(st, "destroy a stream of %s", gpu->name);
}

ferry_status
ferryi_gpu_stream_synchronize(ferryi_device *device, void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, stream_synchronize, stream);
    return FERRYI_GPU_TELL(st, "wait for a stream of %s", gpu->name);
}

ferry_status
ferryi_gpu_stream_is_capturing(ferryi_device *device, void *stream, bool *out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_entry entry;
    ferryi_gpu_capture_status status = FERRYI_GPU_STREAM_CAPTURE_STATUS_NONE;
    ferry_status st;
    /* A driver that lacks the functions of the group FERRYI_GPU_CAPTURE cannot report whether a
     * stream is being captured. Ferry does not support graph captures with such a driver, and
     * treats every stream as not captured. */
    if (!(gpu->driver->groups & FERRYI_GPU_CAPTURE)) {
        *out = false;
        return FERRY_OK;
    }
    /* The query is legal in every capture mode, so the capture mode of this thread is
     * not changed. */
    FERRY_TRY(st, fail, ferryi_gpu_enter(gpu, FERRYI_GPU_STREAM_WORK, &entry));
    ferryi_gpu_result result = gpu->driver->stream_is_capturing(stream, &status);
    /* While a blocking stream is being captured, the legacy stream counts as captured as well. Work
     * on the legacy stream would invalidate the capture. */
    if (result == FERRYI_GPU_ERROR_STREAM_CAPTURE_IMPLICIT)
        status = FERRYI_GPU_STREAM_CAPTURE_STATUS_ACTIVE;
    else
        st = FERRYI_GPU_CHECK(gpu, stream_is_capturing, result);
    ferryi_gpu_leave(gpu, &entry);
    if (st != FERRY_OK)
        goto fail;
    /* An invalidated capture counts as a capture, because the stream runs no work until the capture
     * is ended. */
    *out = status != FERRYI_GPU_STREAM_CAPTURE_STATUS_NONE;
    return FERRY_OK;

fail:
    return ferryi_fail_in(st, "query whether a stream of %s is being captured", gpu->name);
}

/* Finds out whether the stream belongs to a green context of the device. Such a context has a part
 * of the device's processors, and shares all else with the primary context. */
static ferry_status
find_green_context(struct ferryi_gpu_device *gpu, void *stream, bool *out)
{
    ferryi_gpu_context primary = NULL;
    ferryi_gpu_green_context green = NULL;
    ferry_status st;
    *out = false;
    if (!(gpu->driver->groups & FERRYI_GPU_GREEN_CONTEXT))
        return FERRY_OK;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, stream_green_context, stream, &primary, &green);
    *out = st == FERRY_OK && green && primary == gpu->context;
    return st;
}

/* Checks that the program's stream belongs to the device's primary context, or to a green context
 * of the device. The check is needed because an event can be recorded only on streams of the
 * context in which the event was created. Streams of other contexts that the program created are
 * refused: they do not share the memory of the primary context. */
ferry_status
ferryi_gpu_stream_check(ferryi_device *device, void *stream, void **out_scope)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferryi_gpu_context context = gpu->context;
    bool is_green = false;
    ferry_status st = FERRY_OK;
    *out_scope = NULL;
    if (gpu->driver->groups & FERRYI_GPU_STREAM_CONTEXT)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, stream_context, stream, &context);
    if (st == FERRY_OK && context != gpu->context)
        st = find_green_context(gpu, stream, &is_green);
    if (st == FERRY_OK && context != gpu->context && !is_green)
        st = ferryi_fail(FERRY_ERROR_DEVICE, "it belongs to another context");
    if (st == FERRY_OK && is_green)
        *out_scope = context;
    return FERRYI_GPU_TELL(st, "check a stream for %s", gpu->name);
}

/* Makes the context `scope` current within an entry of the device. The driver allows a green
 * context to be current in one thread at a time, so the caller holds the launch mutex until
 * leave_scope(). */
FERRYI_REQUIRES(ferryi_launch_mutex)
static ferry_status
enter_scope(struct ferryi_gpu_device *gpu, void *scope, enum ferryi_gpu_mode mode,
            struct ferryi_gpu_entry *entry)
{
    FERRYI_OR_RETURN(ferryi_gpu_enter(gpu, mode, entry));
    ferry_status st = FERRYI_GPU_CALL(gpu, context_push, scope);
    if (st != FERRY_OK)
        ferryi_gpu_leave(gpu, entry);
    return st;
}

FERRYI_REQUIRES(ferryi_launch_mutex)
static void
leave_scope(struct ferryi_gpu_device *gpu, const struct ferryi_gpu_entry *entry)
{
    ferryi_gpu_context context;
    (void)gpu->driver->context_pop(&context); /* undoes the push, and cannot fail then */
    ferryi_gpu_leave(gpu, entry);
}

ferry_status
ferryi_gpu_stream_id(ferryi_device *device, void *stream, uint64_t *out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    unsigned long long id = 0;
    ferry_status st;
    if (!(gpu->driver->groups & FERRYI_GPU_STREAM_ID))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "the driver of %s has no ids of streams",
                           gpu->name);
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, stream_id, stream, &id);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "get the id of a stream of %s", gpu->name);
    *out = id;
    return FERRY_OK;
}

ferry_status
ferryi_gpu_stream_wait(ferryi_device *device, void *stream, void *event)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, stream_wait, stream, event, 0);
    return FERRYI_GPU_TELL(st, "make a stream of %s wait for an event", gpu->name);
}

ferry_status
ferryi_gpu_host_call(ferryi_device *device, void *stream, void (*run)(void *user), void *user)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    assert(run);
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, host_call, stream, run, user);
    return FERRYI_GPU_TELL(st, "queue a host function on %s", gpu->name);
}

ferry_status
ferryi_gpu_event_create(ferryi_device *device, bool timed, void **out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferryi_gpu_event event = NULL;
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, event_create, &event,
                   timed ? FERRYI_GPU_EVENT_DEFAULT : FERRYI_GPU_EVENT_DISABLE_TIMING);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "create an event on %s", gpu->name);
    *out = event;
    return FERRY_OK;
}

ferry_status
ferryi_gpu_event_create_in(ferryi_device *device, void *scope, bool timed, void **out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_entry entry;
    ferryi_gpu_event event = NULL;
    ferryi_mutex_lock(&gpu->launch_mutex);
    ferry_status st = enter_scope(gpu, scope, FERRYI_GPU_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_GPU_CALL(gpu, event_create, &event,
                             timed ? FERRYI_GPU_EVENT_DEFAULT : FERRYI_GPU_EVENT_DISABLE_TIMING);
        leave_scope(gpu, &entry);
    }
    ferryi_mutex_unlock(&gpu->launch_mutex);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "create an event in a green context of %s", gpu->name);
    *out = event;
    return FERRY_OK;
}

ferry_status
ferryi_gpu_event_record_in(ferryi_device *device, void *scope, void *event, void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_entry entry;
    ferryi_mutex_lock(&gpu->launch_mutex);
    ferry_status st = enter_scope(gpu, scope, FERRYI_GPU_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_GPU_CALL(gpu, event_record, event, stream);
        leave_scope(gpu, &entry);
    }
    ferryi_mutex_unlock(&gpu->launch_mutex);
    return FERRYI_GPU_TELL(st, "record an event in a green context of %s", gpu->name);
}

ferry_status
ferryi_gpu_event_destroy(ferryi_device *device, void *event)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, event_destroy, event);
    return FERRYI_GPU_TELL(st, "destroy an event of %s", gpu->name);
}

ferry_status
ferryi_gpu_event_record(ferryi_device *device, void *event, void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, event_record, event, stream);
    return FERRYI_GPU_TELL(st, "record an event on %s", gpu->name);
}

ferry_status
ferryi_gpu_event_query(ferryi_device *device, void *event, bool *out_done)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_entry entry;
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    ferryi_gpu_result result = FERRYI_GPU_SUCCESS;
    if (st == FERRY_OK) {
        result = gpu->driver->event_query(event);
        if (result != FERRYI_GPU_ERROR_NOT_READY)
            st = FERRYI_GPU_CHECK(gpu, event_query, result);
        ferryi_gpu_leave(gpu, &entry);
    }
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "query an event of %s", gpu->name);
    *out_done = result == FERRYI_GPU_SUCCESS;
    return FERRY_OK;
}

ferry_status
ferryi_gpu_event_synchronize(ferryi_device *device, void *event)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, event_synchronize, event);
    return FERRYI_GPU_TELL(st, "wait for an event of %s", gpu->name);
}

ferry_status
ferryi_gpu_event_elapsed(ferryi_device *device, void *begin, void *end, double *out_seconds)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    float milliseconds = 0;
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, event_elapsed, &milliseconds, begin, end);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "measure the time between two events of %s", gpu->name);
    *out_seconds = milliseconds / 1e3;
    return FERRY_OK;
}
