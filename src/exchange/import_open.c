/* SPDX-License-Identifier: MIT */
#include <limits.h>

#include "src/buffer/buffer.h"
#include "src/exchange/exchange.h"

/* The common part of all imports: wraps the memory of another library as a buffer. The struct that
 * describes this memory has been checked. */

/*
 * Finds the place of the imported memory. `ready_on` is a stream of the context or NULL. Managed
 * memory is accessible to every CUDA device, and the libraries that produce it report device 0. So
 * for managed memory, the place of `ready_on` is used, unless `ready_on` is NULL.
 */
static ferry_status
find_place(ferry_context *context, const struct ferryi_import *import, ferry_stream *ready_on,
           int *out)
{
    int place = ferry_context_exchange_place(context, import->device_type, import->device_id);
    int ready = ready_on ? ferry_stream_place(ready_on) : -1;
    if (import->device_type == FERRYI_DL_CUDA_MANAGED && ready > 0) {
        int32_t type, id;
        FERRYI_OR_RETURN(ferry_context_exchange_device(context, ready, &type, &id));
        place = type == FERRYI_DL_CUDA ? ready : place;
    }
    if (place < 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "the context has no device of type %d with number %d",
                           (int)import->device_type, (int)import->device_id);
    if (place > 0 && ready_on && ready != place)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "the memory is at place %d, but ready_on is a stream of place %d", place,
                           ready);
    *out = place;
    return FERRY_OK;
}

/*
 * Checks memory whose producer reports that it is on an emulated device. The memory must belong to
 * this context's emulated device. The device number does not prove this: it has no meaning outside
 * a context, and other libraries use the same device type for their devices.
 */
static ferry_status
check_emulated(ferry_context *context, const struct ferryi_import *import, int place, size_t bytes)
{
    if (import->device_type != FERRYI_DL_EXT_DEV || bytes == 0 ||
        ferryi_emulated_has(context->devices[place], import->memory, bytes))
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "device type %d with number %d: its memory at %p is not of this context",
                       (int)import->device_type, (int)import->device_id, import->memory);
}

/* Makes the first use of an imported buffer wait for the work of the library that produced it. For
 * host memory, this thread waits for the stream `ready_on`. For memory of a device, `ready_on`
 * waits for the producer's event. */
static ferry_status
order_after_producer(const struct ferryi_import *import, ferry_stream *ready_on, int place)
{
    if (ready_on && place == FERRY_PLACE_HOST)
        return ferry_stream_synchronize(ready_on);
    if (!ready_on || !import->event)
        return FERRY_OK;
    /* The producer recorded the event outside any stream capture. If `ready_on` is being captured,
     * a wait for the event would invalidate the capture, so the import fails. */
    ferryi_timeline *timeline = ready_on->timeline;
    bool done = false;
    FERRYI_OR_RETURN(ferryi_timeline_check_capture(timeline));
    /* If the producer recorded the event in a capture, a stream that waits for it joins this
     * capture. The query fails instead. */
    ferry_status status = FERRYI_CALL(timeline->device, event_query, import->event, &done);
    if (status == FERRY_ERROR_UNSUPPORTED)
        return ferryi_fail_in(status, "its event was recorded in a graph capture, and never "
                                      "completes outside the graph");
    return status == FERRY_OK && !done
               ? FERRYI_CALL(timeline->device, stream_wait, timeline->native, import->event)
               : status;
}

static ferry_status
open_import(ferry_context *context, const struct ferryi_import *import,
            const ferry_import_options *options, ferry_buffer **out)
{
    int place;
    size_t bytes, end;
    ferryi_timeline *timeline;
    ferry_status status = FERRY_OK;
    ferry_stream *ready_on = options->ready_on;
    if (!ferryi_mul_size(import->count, import->element->bytes, &bytes))
        return ferryi_fail(FERRY_ERROR_OVERFLOW, "%zu elements of %zu bytes overflow a size",
                           import->count, import->element->bytes);
    if (!ferryi_add_size((uintptr_t)import->memory, bytes, &end))
        return ferryi_fail(FERRY_ERROR_OVERFLOW, "%zu bytes at %p reach past the end of memory",
                           bytes, import->memory);
    if (ready_on)
        status = ferryi_stream_find_timeline(context, ready_on, "import", &timeline);
    if (status == FERRY_OK)
        status = find_place(context, import, ready_on, &place);
    if (status != FERRY_OK)
        return status;
    FERRYI_OR_RETURN(check_emulated(context, import, place, bytes));
    if (place > 0 && !ready_on)
        ready_on = ferry_context_stream(context, place);
    status = order_after_producer(import, ready_on, place);
    if (status != FERRY_OK)
        return status;
    /* The address of an empty tensor is ignored. */
    void *memory = bytes > 0 ? import->memory : NULL;
    const ferry_wrap_options wrap = {.name = options->name,
                                     .on_release = import->on_release,
                                     .user = import->user,
                                     .read_only = import->read_only || options->read_only,
                                     .release_on = options->release_on};
    status =
        place == FERRY_PLACE_HOST
            ? ferry_buffer_wrap_host(context, import->element, import->count, memory, &wrap, out)
            : ferry_buffer_wrap_device(context, import->element, import->count, ready_on, memory,
                                       &wrap, out);
    if (status == FERRY_OK)
        atomic_store(&ferryi_store_cold_of((*out)->store)->is_import, true);
    return status;
}

ferry_status
ferryi_import_open(ferry_context *context, const struct ferryi_import *import,
                   const ferry_import_options *options, const char *what, ferry_buffer **out)
{
    static const ferry_import_options defaults;
    FERRYI_OR_RETURN(ferryi_shell_check_open(context, what));
    ferry_status status = open_import(context, import, options ? options : &defaults, out);
    return status == FERRY_OK ? status : ferryi_fail_in(status, "%s", what);
}
