/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_COPIES_H
#define FERRY_TEST_COPIES_H

/*
 * Short forms of ferry_copy() for tests: copies of rows, conversions, and lists of copies. The
 * parameter `options` may be NULL. Each function returns the status of ferry_copy(), and those
 * whose names end in `_async` that of ferry_copy_async().
 */

#include <ferry/copy.h>

/* Options of a copy on a stream. */
#define ON(on) (&(ferry_copy_options){.stream = (on)})
/* Checks with OK() that an asynchronous call succeeds, and destroys the call's event at once.
 * Example: QUEUE(ferry_buffer_fill_async(..., ON(stream), &forgotten)). */
#define QUEUE(call)                                                                                \
    do {                                                                                           \
        OK(call);                                                                                  \
        ferry_event_destroy(&forgotten);                                                           \
    } while (0)
extern _Thread_local ferry_event *forgotten;

/* Copies regions, asynchronously if `event` is not NULL. */
ferry_status copy_regions(const ferry_copy_region *regions, size_t count,
                          const ferry_copy_options *options, ferry_event **event);

/* Copies `height` rows of `width` elements each; a height of 0 copies nothing. */
ferry_status copy_rows_from(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                            size_t pitch, const void *source, size_t source_pitch, size_t width,
                            size_t height, const ferry_copy_options *options);
ferry_status copy_rows_from_async(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                  size_t pitch, const void *source, size_t source_pitch,
                                  size_t width, size_t height, const ferry_copy_options *options,
                                  ferry_event **event);
ferry_status copy_rows_to(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                          size_t pitch, void *target, size_t target_pitch, size_t width,
                          size_t height, const ferry_copy_options *options);
ferry_status copy_rows_to_async(ferry_buffer *buffer, const ferry_element *element, size_t offset,
                                size_t pitch, void *target, size_t target_pitch, size_t width,
                                size_t height, const ferry_copy_options *options,
                                ferry_event **event);
ferry_status copy_rows(ferry_buffer *target, const ferry_element *element, size_t target_offset,
                       size_t target_pitch, ferry_buffer *source, size_t source_offset,
                       size_t source_pitch, size_t width, size_t height,
                       const ferry_copy_options *options);
ferry_status copy_rows_async(ferry_buffer *target, const ferry_element *element,
                             size_t target_offset, size_t target_pitch, ferry_buffer *source,
                             size_t source_offset, size_t source_pitch, size_t width, size_t height,
                             const ferry_copy_options *options, ferry_event **event);

/* Copies and converts elements. The parameter `policy` replaces the policy in `options`; 0 means
 * the policy SATURATE. */
ferry_status copy_from_converted(ferry_buffer *buffer, const ferry_conversion *conversion,
                                 size_t offset, size_t count, const void *source,
                                 ferry_convert_policy policy, const ferry_copy_options *options);
ferry_status copy_to_converted(ferry_buffer *buffer, const ferry_conversion *conversion,
                               size_t offset, size_t count, void *target,
                               ferry_convert_policy policy, const ferry_copy_options *options);
ferry_status convert_buffer(ferry_buffer *target, const ferry_conversion *conversion,
                            size_t target_offset, ferry_buffer *source, size_t source_offset,
                            size_t count, ferry_convert_policy policy,
                            const ferry_copy_options *options);

/* A list of copies that also keeps their buffers alive. If memory is short, creating or extending a
 * list fails with FERRY_ERROR_OUT_OF_MEMORY and changes nothing. */
typedef struct copy_list {
    ferry_copy_region *regions;
    size_t count;
} copy_list;

ferry_status copy_list_create(copy_list **out);
ferry_status copy_list_from(copy_list *list, ferry_buffer *buffer, const ferry_element *element,
                            size_t offset, const void *source, size_t count);
ferry_status copy_list_to(copy_list *list, ferry_buffer *buffer, const ferry_element *element,
                          size_t offset, void *target, size_t count);
ferry_status copy_list_copy(copy_list *list, ferry_buffer *target, const ferry_element *element,
                            size_t target_offset, ferry_buffer *source, size_t source_offset,
                            size_t count);
ferry_status copy_list_submit(copy_list *list, const ferry_copy_options *options);
ferry_status copy_list_submit_async(copy_list *list, const ferry_copy_options *options,
                                    ferry_event **event);
void copy_list_clear(copy_list *list);
/* Destroys the list of copies and sets `*list` to NULL. Does nothing if `*list` is NULL. */
void copy_list_destroy(copy_list **list);

#endif
