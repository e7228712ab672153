/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>

#include "tests/support/copies.h"

_Thread_local ferry_event *forgotten;

ferry_status
copy_regions(const ferry_copy_region *regions, size_t count, const ferry_copy_options *options,
             ferry_event **event)
{
    return event ? ferry_copy_async(regions, count, options, event)
                 : ferry_copy(regions, count, options);
}

/* -- rows -- */

static ferry_copy_region
rows_of(ferry_copy_side target, ferry_copy_side source, size_t width, size_t height)
{
    return (ferry_copy_region){
        .target = target, .source = source, .count = height > 0 ? width : 0, .rows = height};
}

static ferry_copy_side
rows_in(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch)
{
    return (ferry_copy_side){
        .buffer = buffer, .element = element, .offset = offset, .row_pitch = pitch};
}

static ferry_copy_side
rows_at(const void *memory, size_t pitch)
{
    return (ferry_copy_side){.memory = (void *)(uintptr_t)memory, .row_pitch = pitch};
}

ferry_status
copy_rows_from(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch,
               const void *source, size_t source_pitch, size_t width, size_t height,
               const ferry_copy_options *options)
{
    ferry_copy_region region = rows_of(rows_in(buffer, element, offset, pitch),
                                       rows_at(source, source_pitch), width, height);
    return ferry_copy(&region, 1, options);
}

ferry_status
copy_rows_from_async(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                     size_t pitch, const void *source, size_t source_pitch, size_t width,
                     size_t height, const ferry_copy_options *options, ferry_event **event)
{
    ferry_copy_region region = rows_of(rows_in(buffer, element, offset, pitch),
                                       rows_at(source, source_pitch), width, height);
    return ferry_copy_async(&region, 1, options, event);
}

ferry_status
copy_rows_to(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch,
             void *target, size_t target_pitch, size_t width, size_t height,
             const ferry_copy_options *options)
{
    ferry_copy_region region = rows_of(rows_at(target, target_pitch),
                                       rows_in(buffer, element, offset, pitch), width, height);
    return ferry_copy(&region, 1, options);
}

ferry_status
copy_rows_to_async(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch,
                   void *target, size_t target_pitch, size_t width, size_t height,
                   const ferry_copy_options *options, ferry_event **event)
{
    ferry_copy_region region = rows_of(rows_at(target, target_pitch),
                                       rows_in(buffer, element, offset, pitch), width, height);
    return ferry_copy_async(&region, 1, options, event);
}

ferry_status
copy_rows(ferry_buffer *target, const ferry_element *element, size_t target_offset,
          size_t target_pitch, ferry_buffer *source, size_t source_offset, size_t source_pitch,
          size_t width, size_t height, const ferry_copy_options *options)
{
    ferry_copy_region region =
        rows_of(rows_in(target, element, target_offset, target_pitch),
                rows_in(source, element, source_offset, source_pitch), width, height);
    return ferry_copy(&region, 1, options);
}

ferry_status
copy_rows_async(ferry_buffer *target, const ferry_element *element, size_t target_offset,
                size_t target_pitch, ferry_buffer *source, size_t source_offset,
                size_t source_pitch, size_t width, size_t height, const ferry_copy_options *options,
                ferry_event **event)
{
    ferry_copy_region region =
        rows_of(rows_in(target, element, target_offset, target_pitch),
                rows_in(source, element, source_offset, source_pitch), width, height);
    return ferry_copy_async(&region, 1, options, event);
}

/* -- conversions -- */

static ferry_status
convert(ferry_copy_side target, ferry_copy_side source, const ferry_conversion *conversion,
        size_t count, ferry_convert_policy policy, const ferry_copy_options *options)
{
    target.element = conversion->to;
    source.element = conversion->from;
    const ferry_copy_region region = {.target = target,
                                      .source = source,
                                      .count = count,
                                      .conversion = conversion->convert ? conversion : NULL};
    ferry_copy_options converting = options ? *options : (ferry_copy_options){0};
    converting.convert = policy ? policy : FERRY_CONVERT_SATURATE;
    return ferry_copy(&region, 1, &converting);
}

ferry_status
copy_from_converted(ferry_buffer *buffer, const ferry_conversion *conversion, size_t offset,
                    size_t count, const void *source, ferry_convert_policy policy,
                    const ferry_copy_options *options)
{
    return convert((ferry_copy_side){.buffer = buffer, .offset = offset},
                   (ferry_copy_side){.memory = (void *)(uintptr_t)source}, conversion, count,
                   policy, options);
}

ferry_status
copy_to_converted(ferry_buffer *buffer, const ferry_conversion *conversion, size_t offset,
                  size_t count, void *target, ferry_convert_policy policy,
                  const ferry_copy_options *options)
{
    return convert((ferry_copy_side){.memory = target},
                   (ferry_copy_side){.buffer = buffer, .offset = offset}, conversion, count, policy,
                   options);
}

ferry_status
convert_buffer(ferry_buffer *target, const ferry_conversion *conversion, size_t target_offset,
               ferry_buffer *source, size_t source_offset, size_t count,
               ferry_convert_policy policy, const ferry_copy_options *options)
{
    return convert((ferry_copy_side){.buffer = target, .offset = target_offset},
                   (ferry_copy_side){.buffer = source, .offset = source_offset}, conversion, count,
                   policy, options);
}

/* -- lists -- */

/*
 * The lists of copies are allocated with reallocarray(). Tests that inject allocation failures do
 * not replace this function, so only allocations in the library can fail.
 */

ferry_status
copy_list_create(copy_list **out)
{
    *out = reallocarray(NULL, 1, sizeof(**out));
    if (!*out)
        return FERRY_ERROR_OUT_OF_MEMORY;
    **out = (copy_list){0};
    return FERRY_OK;
}

static ferry_status
add(copy_list *list, ferry_copy_region region)
{
    /* The room is a power of two, and is doubled when it is full. */
    if ((list->count & (list->count - 1)) == 0) {
        size_t room = list->count ? 2 * list->count : 1;
        ferry_copy_region *regions = reallocarray(list->regions, room, sizeof(region));
        if (!regions)
            return FERRY_ERROR_OUT_OF_MEMORY;
        list->regions = regions;
    }
    (void)ferry_buffer_retain(region.target.buffer);
    (void)ferry_buffer_retain(region.source.buffer);
    list->regions[list->count++] = region;
    return FERRY_OK;
}

ferry_status
copy_list_from(copy_list *list, ferry_buffer *buffer, const ferry_element *element, size_t offset,
               const void *source, size_t count)
{
    return add(list, ferry_buffer_region_from(buffer, element, offset, count, source));
}

ferry_status
copy_list_to(copy_list *list, ferry_buffer *buffer, const ferry_element *element, size_t offset,
             void *target, size_t count)
{
    return add(list, ferry_buffer_region_to(buffer, element, offset, count, target));
}

ferry_status
copy_list_copy(copy_list *list, ferry_buffer *target, const ferry_element *element,
               size_t target_offset, ferry_buffer *source, size_t source_offset, size_t count)
{
    return add(list,
               ferry_buffer_region(target, element, target_offset, source, source_offset, count));
}

ferry_status
copy_list_submit(copy_list *list, const ferry_copy_options *options)
{
    return ferry_copy(list->regions, list->count, options);
}

ferry_status
copy_list_submit_async(copy_list *list, const ferry_copy_options *options, ferry_event **event)
{
    return ferry_copy_async(list->regions, list->count, options, event);
}

void
copy_list_clear(copy_list *list)
{
    while (list->count > 0) {
        ferry_copy_region *region = &list->regions[--list->count];
        ferry_buffer_destroy(&region->target.buffer);
        ferry_buffer_destroy(&region->source.buffer);
    }
}

void
copy_list_destroy(copy_list **list)
{
    if (!*list)
        return;
    copy_list_clear(*list);
    free((*list)->regions);
    free(*list);
    *list = NULL;
}
