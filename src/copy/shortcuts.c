/* SPDX-License-Identifier: MIT */
#include <ferry/copy.h>

#include "src/buffer/recording.h"
#include "src/copy/async.h"
#include "src/copy/copy.h"
#include "src/copy/regions.h"
#include "src/store/checked.h"

/* Functions for simple cases of ferry_copy(): copies and fills of one contiguous range. They
 * allocate no memory unless they are asynchronous. */

/* Checks a range of a buffer and a pointer to the caller's memory. Sets *out to the range in bytes.
 * If `element` is NULL, offset and count are in elements of the buffer's type. */
static ferry_status
check_range(ferry_buffer *buffer, const ferry_element *element, ferry_access access, size_t offset,
            size_t count, const void *memory, const char *what, struct ferryi_range *out)
{
    ferry_status status = ferryi_buffer_check(buffer, element, access, offset, count, what, out);
    if (status == FERRY_OK && out->begin != out->end && !memory)
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the memory of %zu elements is NULL",
                             what, count);
    return status == FERRY_OK ? ferryi_checked_memory(buffer->store, memory, what) : status;
}

/* Makes one attempt of copy_memory(). */
FERRYI_INLINE ferry_status
try_memory(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
           const void *memory, const ferry_copy_options *options, struct ferryi_caller caller,
           bool from)
{
    const char *what = from ? "copy_from" : "copy_to";
    struct ferryi_range range;
    struct ferryi_copy_call call = {.options = options};
    int place;
    ferry_status status = check_range(buffer, element, from ? FERRY_OVERWRITE : FERRY_READ, offset,
                                      count, memory, what, &range);
    if (status == FERRY_OK)
        status = ferryi_async_place(buffer->store->context, options, what, &place);
    if (status != FERRY_OK)
        return status;
    if (range.begin == range.end)
        return ferryi_async_finished(buffer->store->context, caller);
    if (from && ferryi_caller_never_waits(caller)) {
        ferry_copy_region region = ferry_buffer_region_from(buffer, element, offset, count, memory);
        return ferryi_regions_copy(&region, 1, options, caller);
    }
    call.unit = buffer->element_bytes;
    struct ferryi_range there = ferryi_copy_memory(memory);
    if (from)
        ferryi_copy_plan(&call, buffer->store, range, NULL, there, place);
    else
        ferryi_copy_plan(&call, NULL, there, buffer->store, range, place);
    return ferryi_async_run(&call, caller);
}

/* Copies between a buffer and memory, in either direction. The function must be inlined into the
 * public functions. With debug checks, Ferry finds the program's call site through the frame of the
 * public function. */
FERRYI_INLINE ferry_status
copy_memory(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
            const void *memory, const ferry_copy_options *options, struct ferryi_caller caller,
            bool from)
{
    ferry_status status;
    do
        status = try_memory(buffer, element, offset, count, memory, options, caller, from);
    while (ferryi_buffer_starts_over(status, count));
    return status;
}

ferry_status
ferry_buffer_copy_from(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                       size_t count, const void *source, const ferry_copy_options *options)
{
    return copy_memory(buffer, element, offset, count, source, options, (struct ferryi_caller){0},
                       true);
}

ferry_status
ferry_buffer_copy_from_async(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                             size_t count, const void *source, const ferry_copy_options *options,
                             ferry_event **event)
{
    return copy_memory(buffer, element, offset, count, source, options,
                       (struct ferryi_caller){true, event}, true);
}

ferry_status
ferry_buffer_copy_to(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                     size_t count, void *target, const ferry_copy_options *options)
{
    return copy_memory(buffer, element, offset, count, target, options, (struct ferryi_caller){0},
                       false);
}

ferry_status
ferry_buffer_copy_to_async(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                           size_t count, void *target, const ferry_copy_options *options,
                           ferry_event **event)
{
    return copy_memory(buffer, element, offset, count, target, options,
                       (struct ferryi_caller){true, event}, false);
}

/* Checks the two ranges of a copy between buffers. Both buffers must have the same element type. If
 * `element` is not NULL, the buffers must have this type. */
static ferry_status
check_pair(ferry_buffer *target, const ferry_element *element, size_t target_offset,
           ferry_buffer *source, size_t source_offset, size_t count, struct ferryi_range *to,
           struct ferryi_range *from)
{
    FERRYI_OR_RETURN(
        check_range(source, element, FERRY_READ, source_offset, count, "", "copy", from));
    struct ferryi_range now;
    bool is_rest = count == FERRY_REST;
    if (is_rest)
        count = (from->end - from->begin) / source->element_bytes;
    ferry_status status =
        check_range(target, source->element, FERRY_OVERWRITE, target_offset, count, "", "copy", to);
    if (status == FERRY_ERROR_OUT_OF_RANGE && is_rest &&
        (!ferryi_buffer_range(source, source_offset, FERRY_REST, &now) || now.end != from->end))
        status = ferryi_fail_resized(); /* by another thread, after the check of the source */
    if (status == FERRY_OK && target->store->context != source->store->context)
        status = ferryi_fail(FERRY_ERROR_WRONG_CONTEXT,
                             "copy: the buffers belong to different contexts");
    return status;
}

FERRYI_INLINE ferry_status
try_buffer(ferry_buffer *target, const ferry_element *element, size_t target_offset,
           ferry_buffer *source, size_t source_offset, size_t count,
           const ferry_copy_options *options, struct ferryi_caller caller)
{
    struct ferryi_range to, from;
    struct ferryi_copy_call call = {.options = options};
    int place;
    FERRYI_OR_RETURN(
        check_pair(target, element, target_offset, source, source_offset, count, &to, &from));
    struct ferryi_recording *recording =
        ferryi_async_recording(target->store->context, options, caller);
    if (recording)
        return ferryi_recording_copy(recording, target->store, to, source->store, from);
    FERRYI_OR_RETURN(ferryi_async_place(target->store->context, options, "copy", &place));
    if (to.begin == to.end)
        return ferryi_async_finished(target->store->context, caller);
    if (ferryi_caller_never_waits(caller)) {
        ferry_copy_region region =
            ferry_buffer_region(target, element, target_offset, source, source_offset, count);
        return ferryi_regions_copy(&region, 1, options, caller);
    }
    call.unit = target->element_bytes;
    ferryi_copy_plan(&call, target->store, to, source->store, from, place);
    return ferryi_async_run(&call, caller);
}

FERRYI_INLINE ferry_status
copy_buffer(ferry_buffer *target, const ferry_element *element, size_t target_offset,
            ferry_buffer *source, size_t source_offset, size_t count,
            const ferry_copy_options *options, struct ferryi_caller caller)
{
    ferry_status status;
    do
        status = try_buffer(target, element, target_offset, source, source_offset, count, options,
                            caller);
    while (ferryi_buffer_starts_over(status, count));
    return status;
}

ferry_status
ferry_buffer_copy(ferry_buffer *target, const ferry_element *element, size_t target_offset,
                  ferry_buffer *source, size_t source_offset, size_t count,
                  const ferry_copy_options *options)
{
    return copy_buffer(target, element, target_offset, source, source_offset, count, options,
                       (struct ferryi_caller){0});
}

ferry_status
ferry_buffer_copy_async(ferry_buffer *target, const ferry_element *element, size_t target_offset,
                        ferry_buffer *source, size_t source_offset, size_t count,
                        const ferry_copy_options *options, ferry_event **event)
{
    return copy_buffer(target, element, target_offset, source, source_offset, count, options,
                       (struct ferryi_caller){true, event});
}

FERRYI_INLINE ferry_status
fill(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
     const void *value, const ferry_copy_options *options, struct ferryi_caller caller)
{
    ferry_status status;
    do {
        struct ferryi_range range;
        struct ferryi_copy_call call = {.options = options};
        int place;
        status =
            check_range(buffer, element, FERRY_OVERWRITE, offset, count, value, "fill", &range);
        if (status != FERRY_OK)
            return status;
        struct ferryi_recording *recording =
            ferryi_async_recording(buffer->store->context, options, caller);
        if (recording)
            return ferryi_recording_fill(recording, buffer->store, range, value,
                                         buffer->element_bytes);
        FERRYI_OR_RETURN(ferryi_async_place(buffer->store->context, options, "fill", &place));
        if (range.begin == range.end)
            return ferryi_async_finished(buffer->store->context, caller);
        if (ferryi_caller_never_waits(caller)) {
            ferry_copy_region region = {
                .target = {.buffer = buffer, .element = element, .offset = offset},
                .value = value,
                .count = count};
            return ferryi_regions_copy(&region, 1, options, caller);
        }
        call.unit = buffer->element_bytes;
        ferryi_copy_plan_fill(&call, buffer->store, range, value, buffer->element_bytes, place);
        status = ferryi_async_run(&call, caller);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}

ferry_status
ferry_buffer_fill(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
                  const void *value, const ferry_copy_options *options)
{
    return fill(buffer, element, offset, count, value, options, (struct ferryi_caller){0});
}

ferry_status
ferry_buffer_fill_async(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                        size_t count, const void *value, const ferry_copy_options *options,
                        ferry_event **event)
{
    return fill(buffer, element, offset, count, value, options,
                (struct ferryi_caller){true, event});
}

static ferry_status
load(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
     const char *path, uint64_t file_offset, const ferry_copy_options *options,
     struct ferryi_caller caller)
{
    const ferry_copy_region region = {
        .target = {.buffer = buffer, .element = element, .offset = offset},
        .source = {.path = path, .file_offset = file_offset},
        .count = count};
    return path ? ferryi_regions_copy(&region, 1, options, caller)
                : ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "load from a file: the path is NULL");
}

ferry_status
ferry_buffer_load(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
                  const char *path, uint64_t file_offset, const ferry_copy_options *options)
{
    return load(buffer, element, offset, count, path, file_offset, options,
                (struct ferryi_caller){0});
}

ferry_status
ferry_buffer_load_async(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                        size_t count, const char *path, uint64_t file_offset,
                        const ferry_copy_options *options, ferry_event **event)
{
    return load(buffer, element, offset, count, path, file_offset, options,
                (struct ferryi_caller){true, event});
}

static ferry_status
store(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
      const char *path, uint64_t file_offset, const ferry_copy_options *options,
      struct ferryi_caller caller)
{
    const ferry_copy_region region = {
        .source = {.buffer = buffer, .element = element, .offset = offset},
        .target = {.path = path, .file_offset = file_offset},
        .count = count};
    return path ? ferryi_regions_copy(&region, 1, options, caller)
                : ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "store to a file: the path is NULL");
}

ferry_status
ferry_buffer_store(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
                   const char *path, uint64_t file_offset, const ferry_copy_options *options)
{
    return store(buffer, element, offset, count, path, file_offset, options,
                 (struct ferryi_caller){0});
}

ferry_status
ferry_buffer_store_async(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                         size_t count, const char *path, uint64_t file_offset,
                         const ferry_copy_options *options, ferry_event **event)
{
    return store(buffer, element, offset, count, path, file_offset, options,
                 (struct ferryi_caller){true, event});
}

ferry_status
ferry_buffer_create_from(ferry_context *context, const ferry_element *element, size_t count,
                         const void *source, const ferry_buffer_options *options,
                         ferry_buffer **out)
{
    if (!source && count > 0)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "create a buffer from memory: source is NULL");
    ferry_buffer *buffer = NULL;
    if (!out) /* ferry_buffer_create() reports that `out` is NULL */
        return ferry_buffer_create(context, element, count, options, NULL);
    FERRYI_OR_RETURN(ferry_buffer_create(context, element, count, options, &buffer));
    ferry_status status = ferry_buffer_copy_from(buffer, element, 0, count, source, NULL);
    if (status != FERRY_OK)
        ferry_buffer_destroy(&buffer);
    else
        *out = buffer;
    return status;
}
