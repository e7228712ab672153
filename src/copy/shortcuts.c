/* SPDX-License-Identifier: MIT */
#include <ferry/copy.h>

#include "src/buffer/checked.h"
#include "src/copy/async.h"
#include "src/copy/copy.h"
#include "src/copy/regions.h"

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

/* Copies between a buffer and memory, in either direction. The function must be inlined into the
 * public functions. With debug checks, Ferry finds the program's call site through the frame of the
 * public function. */
FERRYI_INLINE ferry_status
copy_memory(ferry_buffer *buffer, const ferry_element *element, size_t offset, const void *memory,
            size_t count, const ferry_copy_options *options, bool from)
{
    const char *what = from ? "copy from memory" : "copy to memory";
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
        return ferryi_async_finished(buffer->store->context, options);
    struct ferryi_range there = ferryi_copy_memory(memory);
    status = from ? ferryi_copy_plan(&call, buffer->store, range, NULL, there, place)
                  : ferryi_copy_plan(&call, NULL, there, buffer->store, range, place);
    return status == FERRY_OK ? ferryi_async_run(&call) : status;
}

ferry_status
ferry_buffer_copy_from(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                       size_t count, const void *source, const ferry_copy_options *options)
{
    return copy_memory(buffer, element, offset, source, count, options, true);
}

ferry_status
ferry_buffer_copy_to(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                     size_t count, void *target, const ferry_copy_options *options)
{
    return copy_memory(buffer, element, offset, target, count, options, false);
}

/* Checks the two ranges of a copy between buffers. Both buffers must have the same element type. If
 * `element` is not NULL, the buffers must have this type. */
static ferry_status
check_pair(ferry_buffer *target, const ferry_element *element, size_t target_offset,
           ferry_buffer *source, size_t source_offset, size_t count, struct ferryi_range *to,
           struct ferryi_range *from)
{
    FERRYI_OR_RETURN(
        check_range(source, element, FERRY_READ, source_offset, count, "", "copy a buffer", from));
    if (count == FERRY_REST)
        count = (from->end - from->begin) / source->element_bytes;
    ferry_status status = check_range(target, source->element, FERRY_OVERWRITE, target_offset,
                                      count, "", "copy a buffer", to);
    if (status == FERRY_OK && target->store->context != source->store->context)
        status = ferryi_fail(FERRY_ERROR_WRONG_CONTEXT,
                             "copy a buffer: the buffers belong to different contexts");
    return status;
}

ferry_status
ferry_buffer_copy(ferry_buffer *target, const ferry_element *element, size_t target_offset,
                  ferry_buffer *source, size_t source_offset, size_t count,
                  const ferry_copy_options *options)
{
    struct ferryi_range to, from;
    struct ferryi_copy_call call = {.options = options};
    int place;
    FERRYI_OR_RETURN(
        check_pair(target, element, target_offset, source, source_offset, count, &to, &from));
    FERRYI_OR_RETURN(ferryi_async_place(target->store->context, options, "copy a buffer", &place));
    if (to.begin == to.end || (target->store == source->store && to.begin == from.begin))
        return ferryi_async_finished(target->store->context, options);
    ferry_status status = ferryi_copy_plan(&call, target->store, to, source->store, from, place);
    return status == FERRY_OK ? ferryi_async_run(&call) : status;
}

ferry_status
ferry_buffer_fill(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
                  const void *value, const ferry_copy_options *options)
{
    ferry_status status;
    do {
        struct ferryi_range range;
        struct ferryi_copy_call call = {.options = options};
        int place;
        status =
            check_range(buffer, element, FERRY_OVERWRITE, offset, count, value, "fill", &range);
        if (status == FERRY_OK)
            status = ferryi_async_place(buffer->store->context, options, "fill", &place);
        if (status != FERRY_OK)
            return status;
        if (range.begin == range.end)
            return ferryi_async_finished(buffer->store->context, options);
        status =
            ferryi_copy_plan_fill(&call, buffer->store, range, value, buffer->element_bytes, place);
        if (status == FERRY_OK)
            status = ferryi_async_run(&call);
    } while (ferryi_buffer_starts_over(status, count));
    return status;
}

static ferry_status
copy_file(const ferry_copy_region *region, const char *path, const char *what,
          const ferry_copy_options *options)
{
    return path ? ferryi_regions_copy(region, 1, options)
                : ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the path is NULL", what);
}

ferry_status
ferry_buffer_load(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
                  const char *path, uint64_t file_offset, const ferry_copy_options *options)
{
    ferry_copy_region region = {.target = {.buffer = buffer, .element = element, .offset = offset},
                                .source = {.path = path, .file_offset = file_offset},
                                .count = count};
    return copy_file(&region, path, "load from a file", options);
}

ferry_status
ferry_buffer_store(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
                   const char *path, uint64_t file_offset, const ferry_copy_options *options)
{
    ferry_copy_region region = {.source = {.buffer = buffer, .element = element, .offset = offset},
                                .target = {.path = path, .file_offset = file_offset},
                                .count = count};
    return copy_file(&region, path, "store to a file", options);
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
