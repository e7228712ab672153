/* SPDX-License-Identifier: MIT */
/* Implements the stream and event functions of a CUDA device. */
#include "src/device/cuda/cuda_device.h"

#include <assert.h>

ferry_status
ferryi_cuda_stream_create(ferryi_device *device, void **out)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferryi_cu_stream stream = NULL;
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuStreamCreate, &stream,
                    FERRYI_CU_STREAM_NON_BLOCKING);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "create a stream on cuda:%d", cuda->ordinal);
    *out = stream;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_stream_destroy(ferryi_device *device, void *stream)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuStreamDestroy_v2, stream);
    return FERRYI_CUDA_TELL(st, "destroy a stream of cuda:%d", cuda->ordinal);
}

ferry_status
ferryi_cuda_stream_synchronize(ferryi_device *device, void *stream)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuStreamSynchronize, stream);
    return FERRYI_CUDA_TELL(st, "wait for a stream of cuda:%d", cuda->ordinal);
}

ferry_status
ferryi_cuda_stream_is_capturing(ferryi_device *device, void *stream, bool *out)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct ferryi_cuda_entry entry;
    ferryi_cu_capture_status status = FERRYI_CU_STREAM_CAPTURE_STATUS_NONE;
    ferry_status st;
    /* A driver that lacks the functions of the group FERRYI_CUDA_CAPTURE cannot report whether a
     * stream is being captured. Ferry does not support graph captures with such a driver, and
     * treats every stream as not captured. */
    if (!(cuda->driver->groups & FERRYI_CUDA_CAPTURE)) {
        *out = false;
        return FERRY_OK;
    }
    /* cuStreamIsCapturing() is legal in every capture mode, so the capture mode of this thread is
     * not changed. */
    FERRY_TRY(st, fail, ferryi_cuda_enter(cuda, FERRYI_CUDA_STREAM_WORK, &entry));
    ferryi_cu_result result = cuda->driver->cuStreamIsCapturing(stream, &status);
    /* While a blocking stream is being captured, the legacy stream counts as captured as well. Work
     * on the legacy stream would invalidate the capture. */
    if (result == FERRYI_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        status = FERRYI_CU_STREAM_CAPTURE_STATUS_ACTIVE;
    else
        st = FERRYI_CUDA_CHECK(cuda, cuStreamIsCapturing, result);
    ferryi_cuda_leave(cuda, &entry);
    if (st != FERRY_OK)
        goto fail;
    /* An invalidated capture counts as a capture, because the stream runs no work until the capture
     * is ended. */
    *out = status != FERRYI_CU_STREAM_CAPTURE_STATUS_NONE;
    return FERRY_OK;

fail:
    return ferryi_fail_in(st, "query whether a stream of cuda:%d is being captured", cuda->ordinal);
}

/* Finds out whether the stream belongs to a green context of the device. Such a context has a part
 * of the device's processors, and shares all else with the primary context. */
static ferry_status
find_green_context(struct ferryi_cuda_device *cuda, void *stream, bool *out)
{
    ferryi_cu_context primary = NULL;
    ferryi_cu_green_context green = NULL;
    ferry_status st;
    *out = false;
    if (!(cuda->driver->groups & FERRYI_CUDA_GREEN_CONTEXT))
        return FERRY_OK;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuStreamGetCtx_v2, stream, &primary, &green);
    *out = st == FERRY_OK && green && primary == cuda->context;
    return st;
}

/* Checks that the program's stream belongs to the device's primary context, or to a green context
 * of the device. The check is needed because an event can be recorded only on streams of the
 * context in which the event was created. Streams of other contexts that the program created are
 * refused: they do not share the memory of the primary context. */
ferry_status
ferryi_cuda_stream_check(ferryi_device *device, void *stream, void **out_scope)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferryi_cu_context context = cuda->context;
    bool is_green = false;
    ferry_status st = FERRY_OK;
    *out_scope = NULL;
    if (cuda->driver->groups & FERRYI_CUDA_STREAM_CONTEXT)
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuStreamGetCtx, stream, &context);
    if (st == FERRY_OK && context != cuda->context)
        st = find_green_context(cuda, stream, &is_green);
    if (st == FERRY_OK && context != cuda->context && !is_green)
        st = ferryi_fail(FERRY_ERROR_DEVICE, "it belongs to another CUDA context");
    if (st == FERRY_OK && is_green)
        *out_scope = context;
    return FERRYI_CUDA_TELL(st, "check a stream for cuda:%d", cuda->ordinal);
}

/* Makes the context `scope` current within an entry of the device. The driver allows a green
 * context to be current in one thread at a time, so the caller holds the launch mutex until
 * leave_scope(). */
FERRYI_REQUIRES(ferryi_launch_mutex)
static ferry_status
enter_scope(struct ferryi_cuda_device *cuda, void *scope, enum ferryi_cuda_mode mode,
            struct ferryi_cuda_entry *entry)
{
    FERRYI_OR_RETURN(ferryi_cuda_enter(cuda, mode, entry));
    ferry_status st = FERRYI_CUDA_CALL(cuda, cuCtxPushCurrent_v2, scope);
    if (st != FERRY_OK)
        ferryi_cuda_leave(cuda, entry);
    return st;
}

FERRYI_REQUIRES(ferryi_launch_mutex)
static void
leave_scope(struct ferryi_cuda_device *cuda, const struct ferryi_cuda_entry *entry)
{
    ferryi_cu_context context;
    (void)cuda->driver->cuCtxPopCurrent_v2(&context); /* undoes the push, and cannot fail then */
    ferryi_cuda_leave(cuda, entry);
}

ferry_status
ferryi_cuda_stream_id(ferryi_device *device, void *stream, uint64_t *out)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    unsigned long long id = 0;
    ferry_status st;
    if (!(cuda->driver->groups & FERRYI_CUDA_STREAM_ID))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "the driver of cuda:%d has no ids of streams",
                           cuda->ordinal);
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuStreamGetId, stream, &id);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "get the id of a stream of cuda:%d", cuda->ordinal);
    *out = id;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_stream_wait(ferryi_device *device, void *stream, void *event)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuStreamWaitEvent, stream, event, 0);
    return FERRYI_CUDA_TELL(st, "make a stream of cuda:%d wait for an event", cuda->ordinal);
}

ferry_status
ferryi_cuda_host_call(ferryi_device *device, void *stream, void (*run)(void *user), void *user)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    assert(run);
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuLaunchHostFunc, stream, run, user);
    return FERRYI_CUDA_TELL(st, "queue a host function on cuda:%d", cuda->ordinal);
}

ferry_status
ferryi_cuda_event_create(ferryi_device *device, bool timed, void **out)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferryi_cu_event event = NULL;
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuEventCreate, &event,
                    timed ? FERRYI_CU_EVENT_DEFAULT : FERRYI_CU_EVENT_DISABLE_TIMING);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "create an event on cuda:%d", cuda->ordinal);
    *out = event;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_event_create_in(ferryi_device *device, void *scope, bool timed, void **out)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct ferryi_cuda_entry entry;
    ferryi_cu_event event = NULL;
    ferryi_mutex_lock(&cuda->launch_mutex);
    ferry_status st = enter_scope(cuda, scope, FERRYI_CUDA_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_CUDA_CALL(cuda, cuEventCreate, &event,
                              timed ? FERRYI_CU_EVENT_DEFAULT : FERRYI_CU_EVENT_DISABLE_TIMING);
        leave_scope(cuda, &entry);
    }
    ferryi_mutex_unlock(&cuda->launch_mutex);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "create an event in a green context of cuda:%d", cuda->ordinal);
    *out = event;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_event_record_in(ferryi_device *device, void *scope, void *event, void *stream)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct ferryi_cuda_entry entry;
    ferryi_mutex_lock(&cuda->launch_mutex);
    ferry_status st = enter_scope(cuda, scope, FERRYI_CUDA_STREAM_WORK, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_CUDA_CALL(cuda, cuEventRecord, event, stream);
        leave_scope(cuda, &entry);
    }
    ferryi_mutex_unlock(&cuda->launch_mutex);
    return FERRYI_CUDA_TELL(st, "record an event in a green context of cuda:%d", cuda->ordinal);
}

ferry_status
ferryi_cuda_event_destroy(ferryi_device *device, void *event)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuEventDestroy_v2, event);
    return FERRYI_CUDA_TELL(st, "destroy an event of cuda:%d", cuda->ordinal);
}

ferry_status
ferryi_cuda_event_record(ferryi_device *device, void *event, void *stream)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuEventRecord, event, stream);
    return FERRYI_CUDA_TELL(st, "record an event on cuda:%d", cuda->ordinal);
}

ferry_status
ferryi_cuda_event_query(ferryi_device *device, void *event, bool *out_done)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct ferryi_cuda_entry entry;
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry);
    ferryi_cu_result result = FERRYI_CUDA_SUCCESS;
    if (st == FERRY_OK) {
        result = cuda->driver->cuEventQuery(event);
        if (result != FERRYI_CUDA_ERROR_NOT_READY)
            st = FERRYI_CUDA_CHECK(cuda, cuEventQuery, result);
        ferryi_cuda_leave(cuda, &entry);
    }
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "query an event of cuda:%d", cuda->ordinal);
    *out_done = result == FERRYI_CUDA_SUCCESS;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_event_synchronize(ferryi_device *device, void *event)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuEventSynchronize, event);
    return FERRYI_CUDA_TELL(st, "wait for an event of cuda:%d", cuda->ordinal);
}

ferry_status
ferryi_cuda_event_elapsed(ferryi_device *device, void *begin, void *end, double *out_seconds)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    float milliseconds = 0;
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuEventElapsedTime, &milliseconds, begin, end);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "measure the time between two events of cuda:%d", cuda->ordinal);
    *out_seconds = milliseconds / 1e3;
    return FERRY_OK;
}
