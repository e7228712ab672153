/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/device/opencl/opencl_device.h"

/* -- the list of streams ----------------------------------------------------------------------- */

ferry_status
ferryi_opencl_queue_create(struct ferryi_opencl_device *opencl, bool measures, ferryi_cl_queue *out)
{
    ferryi_cl_int result = FERRYI_CL_SUCCESS;
    if (atomic_load(&opencl->is_lost))
        return ferryi_opencl_refuse(opencl, "clCreateCommandQueue");
    *out = opencl->driver->clCreateCommandQueue(opencl->platform->context, opencl->device,
                                                measures ? FERRYI_CL_QUEUE_PROFILING_ENABLE : 0,
                                                &result);
    return *out ? FERRY_OK : ferryi_opencl_check(opencl, "clCreateCommandQueue", result);
}

static void
stream_free(struct ferryi_opencl_stream *stream)
{
    ferryi_opencl_calls_end(stream);
    ferryi_mutex_is_needless(&stream->mutex);
    if (stream->clock) {
        stream->driver->clFinish(stream->clock);
        stream->driver->clReleaseCommandQueue(stream->clock);
    }
    if (stream->end)
        stream->driver->clReleaseEvent(stream->end);
    stream->driver->clReleaseCommandQueue(stream->queue);
    ferryi_mutex_destroy(&stream->mutex);
    ferryi_cond_destroy(&stream->given);
    free(stream);
}

/* Adds a stream to the list, which then owns a reference to the queue. */
static ferry_status
add_stream(struct ferryi_opencl_device *opencl, ferryi_cl_queue queue, bool is_of_program)
{
    struct ferryi_opencl_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "create a stream on opencl:%d: no host memory for its description",
                           opencl->ordinal);
    stream->driver = opencl->driver;
    stream->queue = queue;
    stream->is_of_program = is_of_program;
    ferryi_mutex_init(&stream->mutex);
    ferryi_cond_init(&stream->given);
    ferryi_mutex_lock(&opencl->mutex);
    stream->next = opencl->streams;
    opencl->streams = stream;
    ferryi_mutex_unlock(&opencl->mutex);
    return FERRY_OK;
}

ferry_status
ferryi_opencl_stream_find(struct ferryi_opencl_device *opencl, const void *handle,
                          struct ferryi_opencl_stream **out)
{
    ferryi_mutex_lock(&opencl->mutex);
    struct ferryi_opencl_stream *stream = opencl->streams;
    while (stream && (stream->queue != handle || stream->is_retired))
        stream = stream->next;
    ferryi_mutex_unlock(&opencl->mutex);
    *out = stream;
    return stream ? FERRY_OK
                  : ferryi_fail(FERRY_ERROR_DEVICE, "%p is no stream of opencl:%d", handle,
                                opencl->ordinal);
}

/* Queues the marker that is complete when all work of the stream is done. */
static ferry_status
mark_end(struct ferryi_opencl_device *opencl, struct ferryi_opencl_stream *stream)
{
    FERRYI_OR_RETURN(FERRYI_OPENCL_CALL(opencl, clEnqueueMarkerWithWaitList, stream->queue, 0, NULL,
                                        &stream->end));
    return FERRYI_OPENCL_CALL(opencl, clFlush, stream->queue);
}

/* Retires a stream of the program if the program has released the queue. */
FERRYI_REQUIRES(ferryi_opencl_mutex)
static void
retire_released(struct ferryi_opencl_device *opencl, struct ferryi_opencl_stream *stream)
{
    ferryi_cl_uint references = 0;
    if (!stream->is_of_program || stream->is_retired)
        return;
    if (opencl->driver->clGetCommandQueueInfo(stream->queue, FERRYI_CL_QUEUE_REFERENCE_COUNT,
                                              sizeof(references), &references,
                                              NULL) != FERRYI_CL_SUCCESS ||
        references > 1)
        return;
    FERRYI_KEEP_ERROR(kept);
    stream->is_retired = mark_end(opencl, stream) == FERRY_OK;
}

/* Frees the retired streams whose work is done. */
static void
reap(struct ferryi_opencl_device *opencl)
{
    struct ferryi_opencl_stream *over = NULL;
    ferryi_cl_int state;
    ferryi_mutex_lock(&opencl->mutex);
    for (struct ferryi_opencl_stream **link = &opencl->streams; *link;) {
        struct ferryi_opencl_stream *stream = *link;
        retire_released(opencl, stream);
        if (!stream->is_retired || !ferryi_opencl_is_done(opencl->driver, stream->end, &state)) {
            link = &stream->next;
            continue;
        }
        *link = stream->next;
        stream->next = over;
        over = stream;
    }
    ferryi_mutex_unlock(&opencl->mutex);
    while (over) {
        struct ferryi_opencl_stream *next = over->next;
        stream_free(over);
        over = next;
    }
}

void
ferryi_opencl_streams_close(struct ferryi_opencl_device *opencl)
{
    ferryi_mutex_is_needless(&opencl->mutex);
    while (opencl->streams) {
        struct ferryi_opencl_stream *stream = opencl->streams;
        opencl->streams = stream->next;
        opencl->driver->clFinish(stream->queue);
        stream_free(stream);
    }
}

/* -- the slots --------------------------------------------------------------------------------- */

ferry_status
ferryi_opencl_stream_create(ferryi_device *device, void **out)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    ferryi_cl_queue queue = NULL;
    reap(opencl);
    FERRYI_OR_RETURN(ferryi_opencl_queue_create(opencl, false, &queue));
    ferry_status status = add_stream(opencl, queue, false);
    if (status != FERRY_OK) {
        opencl->driver->clReleaseCommandQueue(queue);
        return status;
    }
    *out = queue;
    return FERRY_OK;
}

ferry_status
ferryi_opencl_stream_destroy(ferryi_device *device, void *handle)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    struct ferryi_opencl_stream *stream;
    ferry_status status = ferryi_opencl_stream_find(opencl, handle, &stream);
    if (status == FERRY_OK)
        status = mark_end(opencl, stream);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "destroy a stream");
    ferryi_mutex_lock(&opencl->mutex);
    stream->is_retired = true;
    ferryi_mutex_unlock(&opencl->mutex);
    reap(opencl);
    return FERRY_OK;
}

ferry_status
ferryi_opencl_stream_synchronize(ferryi_device *device, void *stream)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    return FERRYI_OPENCL_CALL(opencl, clFinish, stream);
}

/* Returns the queues of all streams, each with a new reference. Sets `*out_count` to their number.
 * Returns NULL if there is no host memory. */
static ferryi_cl_queue *
retain_queues(struct ferryi_opencl_device *opencl, size_t *out_count)
{
    size_t room = 0, count = 0;
    ferryi_mutex_lock(&opencl->mutex);
    for (struct ferryi_opencl_stream *stream = opencl->streams; stream; stream = stream->next)
        room++;
    ferryi_cl_queue *queues = calloc(room + 1, sizeof(*queues));
    struct ferryi_opencl_stream *stream = queues ? opencl->streams : NULL;
    for (; stream; stream = stream->next)
        if (opencl->driver->clRetainCommandQueue(stream->queue) == FERRYI_CL_SUCCESS)
            queues[count++] = stream->queue;
    ferryi_mutex_unlock(&opencl->mutex);
    *out_count = count;
    return queues;
}

ferry_status
ferryi_opencl_synchronize(ferryi_device *device)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    size_t count;
    ferryi_cl_queue *queues = retain_queues(opencl, &count);
    ferry_status status = FERRY_OK;
    if (!queues)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "synchronize opencl:%d: no host memory for a list of its queues",
                           opencl->ordinal);
    for (size_t i = 0; i < count; i++) {
        ferry_status finished = FERRYI_OPENCL_CALL(opencl, clFinish, queues[i]);
        status = status == FERRY_OK ? finished : status;
        opencl->driver->clReleaseCommandQueue(queues[i]);
    }
    free(queues);
    return status;
}

ferry_status
ferryi_opencl_stream_is_capturing(ferryi_device *device, void *stream, bool *out)
{
    (void)device, (void)stream;
    *out = false;
    return FERRY_OK;
}

/* -- queues of the program --------------------------------------------------------------------- */

/* Reads a property of a queue that may be no queue. */
static ferry_status
read_queue(const struct ferryi_opencl_device *opencl, void *queue, ferryi_cl_uint name,
           size_t bytes, void *out)
{
    char number[32];
    const ferryi_cl_int result =
        opencl->driver->clGetCommandQueueInfo(queue, name, bytes, out, NULL);
    return result == FERRYI_CL_SUCCESS
               ? FERRY_OK
               : ferryi_fail(FERRY_ERROR_DEVICE, "clGetCommandQueueInfo on opencl:%d: %s",
                             opencl->ordinal, ferryi_opencl_error_name(result, number));
}

static ferry_status
check_queue(const struct ferryi_opencl_device *opencl, void *queue)
{
    ferryi_cl_context context = NULL;
    ferryi_cl_device device = NULL;
    ferryi_cl_bits properties = 0;
    FERRYI_OR_RETURN(read_queue(opencl, queue, FERRYI_CL_QUEUE_CONTEXT, sizeof(context), &context));
    FERRYI_OR_RETURN(read_queue(opencl, queue, FERRYI_CL_QUEUE_DEVICE, sizeof(device), &device));
    FERRYI_OR_RETURN(
        read_queue(opencl, queue, FERRYI_CL_QUEUE_PROPERTIES, sizeof(properties), &properties));
    const char *why = NULL;
    if (context != opencl->platform->context)
        why = "it belongs to another OpenCL context than the place's native_context";
    else if (device != opencl->device)
        why = "it belongs to another device";
    else if (properties & FERRYI_CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        why = "its work runs out of order";
    return why ? ferryi_fail(FERRY_ERROR_DEVICE, "check a queue for opencl:%d: %s", opencl->ordinal,
                             why)
               : FERRY_OK;
}

/* Checks a queue of the program, and adds it to the list of streams with a reference. */
ferry_status
ferryi_opencl_stream_check(ferryi_device *device, void *queue, void **out_scope)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    struct ferryi_opencl_stream *known;
    *out_scope = NULL;
    reap(opencl);
    {
        FERRYI_KEEP_ERROR(kept);
        if (ferryi_opencl_stream_find(opencl, queue, &known) == FERRY_OK)
            return FERRY_OK;
    }
    FERRYI_OR_RETURN(check_queue(opencl, queue));
    FERRYI_OR_RETURN(FERRYI_OPENCL_CALL(opencl, clRetainCommandQueue, queue));
    ferry_status status = add_stream(opencl, queue, true);
    if (status != FERRY_OK)
        opencl->driver->clReleaseCommandQueue(queue);
    return status;
}
