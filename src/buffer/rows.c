/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/buffer/copy.h"
#include "src/buffer/plan.h"

/* Two-dimensional copies: a rectangle of rows is a plan with one copy for each row, which devices take as one. */

struct rectangle {
    ferryi_store *store; /* NULL: the caller's memory */
    uintptr_t begin;     /* of the first row: an offset or an address */
    size_t pitch;        /* bytes */
};

/* Elements from the first of the first row to behind the last of the last. */
static ferry_status
check_shape(size_t pitch, size_t width, size_t height, const char *what, size_t *out_span)
{
    size_t before;
    if (pitch < width)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: a pitch of %zu elements is less than the width of %zu", what, pitch, width);
    if (!ferryi_mul_size(height - 1, pitch, &before) || !ferryi_add_size(before, width, out_span) || *out_span == FERRY_REST)
        return ferryi_fail(FERRY_ERROR_OVERFLOW, "%s: %zu rows at a pitch of %zu elements: more than size_t holds", what, height, pitch);
    return FERRY_OK;
}

/* Also of nothing: the handle, the element and the offset must be right. */
static ferry_status
check_buffer(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch, size_t width, size_t height,
             const char *what, struct rectangle *out)
{
    struct ferryi_range range;
    size_t span = 0;
    ferry_status status = width > 0 && height > 0 ? check_shape(pitch, width, height, what, &span) : FERRY_OK;
    if (status == FERRY_OK)
        status = ferryi_copy_check(buffer, element, offset, span, "", what, &range);
    if (status != FERRY_OK)
        return status;
    /* One row needs no pitch, and a pitch of many rows is part of a span that fits. */
    *out = (struct rectangle){buffer->store, range.begin, height > 1 ? pitch * element->bytes : 0};
    return FERRY_OK;
}

static ferry_status
check_memory(const void *memory, const ferry_element *element, size_t pitch, size_t width, size_t height, const char *what,
             struct rectangle *out)
{
    size_t span = 0, bytes;
    *out = (struct rectangle){NULL, (uintptr_t)memory, 0};
    if (width == 0 || height == 0)
        return FERRY_OK;
    ferry_status status = check_shape(pitch, width, height, what, &span);
    if (status != FERRY_OK)
        return status;
    if (!memory)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the memory of %zu rows is NULL", what, height);
    if (!ferryi_mul_size(span, element->bytes, &bytes) || bytes > UINTPTR_MAX - out->begin)
        return ferryi_fail(FERRY_ERROR_OVERFLOW, "%s: %zu rows at a pitch of %zu elements of %zu bytes: more than there is memory", what,
                           height, pitch, element->bytes);
    out->pitch = height > 1 ? pitch * element->bytes : 0;
    return FERRY_OK;
}

/* Does a row of one share bytes with a row of the other? */
static bool
share_bytes(const struct rectangle *a, const struct rectangle *b, size_t row_bytes, size_t height)
{
    if (a->store != b->store)
        return false;
    for (size_t i = 0, j = 0; i < height && j < height;) {
        uintptr_t x = a->begin + i * a->pitch, y = b->begin + j * b->pitch;
        if (x < y + row_bytes && y < x + row_bytes)
            return true;
        if (x < y)
            i++;
        else
            j++;
    }
    return false;
}

static void
add_rows(struct ferryi_plan_copy *copies, struct rectangle target, struct rectangle source, size_t row_bytes, size_t height, bool between)
{
    for (size_t row = 0; row < height; row++)
        copies[row] = (struct ferryi_plan_copy){target.store, source.store, target.begin + row * target.pitch,
                                                source.begin + row * source.pitch, row_bytes, between};
}

/* What lies without gaps on both sides is one long row. */
static void
straighten(const struct rectangle *target, const struct rectangle *source, size_t *row_bytes, size_t *height)
{
    if (*height > 1 && target->pitch == *row_bytes && source->pitch == *row_bytes) {
        *row_bytes *= *height;
        *height = 1;
    }
}

/* How the rows are to go: now, with options perhaps, or on the helper thread and then with an event. */
struct manner {
    const ferry_transfer_options *options;
    bool async;
    ferry_stream *stream;
    ferry_event **out;
};

static ferry_status
run_rows(ferry_context *context, const struct ferryi_plan_copy *copies, size_t count, int place, const struct manner *manner)
{
    const struct ferryi_plan_options options = {
        .reason = "copy_2d", .layout = FERRYI_LAYOUT_ROWS, .place = place, .transfer = manner->options};
    return manner->async ? ferryi_plan_start(context, copies, count, &options, manner->out) : ferryi_plan_do(context, copies, count, &options);
}

static ferry_status
copy_nothing(ferry_context *context, const struct manner *manner)
{
    return manner->async ? ferryi_async_finished(context, manner->out) : FERRY_OK;
}

static ferry_status
copy_rows(ferry_context *context, struct rectangle target, struct rectangle source, size_t row_bytes, size_t height,
          const struct manner *manner)
{
    ferryi_store *middle = NULL;
    int place;
    ferry_status status = ferryi_async_place(context, manner->stream, "copy rows", &place);
    if (status != FERRY_OK)
        return status;
    if (row_bytes == 0 || height == 0)
        return copy_nothing(context, manner);
    straighten(&target, &source, &row_bytes, &height);
    bool by_way = height > 1 && share_bytes(&target, &source, row_bytes, height);
    if (by_way && target.begin == source.begin && target.pitch == source.pitch)
        return copy_nothing(context, manner);
    struct ferryi_plan_copy *copies = calloc(height, (1 + by_way) * sizeof(*copies));
    if (!copies)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "copy %zu rows: no memory to list them", height);
    if (by_way) {
        /* A rectangle that lies over its own target goes by way of memory in between, as memmove() does. */
        status = ferryi_store_create(context, row_bytes * height, NULL, false, &middle);
        struct rectangle between = {middle, 0, row_bytes};
        add_rows(copies, between, source, row_bytes, height, true);
        add_rows(copies + height, target, between, row_bytes, height, false);
    } else {
        add_rows(copies, target, source, row_bytes, height, false);
    }
    if (status == FERRY_OK)
        status = run_rows(context, copies, by_way ? 2 * height : height, place, manner);
    if (middle) /* kept alive by the plan's claim */
        ferryi_store_release(middle);
    free(copies);
    return status;
}

static ferry_status
copy_from(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch, const void *source, size_t source_pitch,
          size_t width, size_t height, const struct manner *manner)
{
    static const char what[] = "copy rows from memory";
    struct rectangle to, from;
    ferry_status status = check_buffer(buffer, element, offset, pitch, width, height, what, &to);
    if (status == FERRY_OK)
        status = check_memory(source, element, source_pitch, width, height, what, &from);
    return status == FERRY_OK ? copy_rows(to.store->context, to, from, width * element->bytes, height, manner) : status;
}

static ferry_status
copy_to(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch, void *target, size_t target_pitch, size_t width,
        size_t height, const struct manner *manner)
{
    static const char what[] = "copy rows to memory";
    struct rectangle to, from;
    ferry_status status = check_buffer(buffer, element, offset, pitch, width, height, what, &from);
    if (status == FERRY_OK)
        status = check_memory(target, element, target_pitch, width, height, what, &to);
    return status == FERRY_OK ? copy_rows(from.store->context, to, from, width * element->bytes, height, manner) : status;
}

static ferry_status
copy(ferry_buffer *target, const ferry_element *element, size_t target_offset, size_t target_pitch, ferry_buffer *source,
     size_t source_offset, size_t source_pitch, size_t width, size_t height, const struct manner *manner)
{
    static const char what[] = "copy rows of a buffer";
    struct rectangle to, from;
    ferry_status status = check_buffer(source, element, source_offset, source_pitch, width, height, what, &from);
    if (status == FERRY_OK)
        status = check_buffer(target, element, target_offset, target_pitch, width, height, what, &to);
    if (status == FERRY_OK && to.store->context != from.store->context)
        status = ferryi_fail(FERRY_ERROR_WRONG_CONTEXT, "%s: the buffers belong to different contexts", what);
    return status == FERRY_OK ? copy_rows(to.store->context, to, from, width * element->bytes, height, manner) : status;
}

/* -- the public calls ------------------------------------------------------------------------------ */

ferry_status
ferry_buffer_copy_from_2d(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch, const void *source,
                          size_t source_pitch, size_t width, size_t height)
{
    return copy_from(buffer, element, offset, pitch, source, source_pitch, width, height, &(struct manner){0});
}

ferry_status
ferry_buffer_copy_to_2d(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch, void *target,
                        size_t target_pitch, size_t width, size_t height)
{
    return copy_to(buffer, element, offset, pitch, target, target_pitch, width, height, &(struct manner){0});
}

ferry_status
ferry_buffer_copy_2d(ferry_buffer *target, const ferry_element *element, size_t target_offset, size_t target_pitch, ferry_buffer *source,
                     size_t source_offset, size_t source_pitch, size_t width, size_t height)
{
    return copy(target, element, target_offset, target_pitch, source, source_offset, source_pitch, width, height, &(struct manner){0});
}

ferry_status
ferry_buffer_copy_from_2d_with(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch, const void *source,
                               size_t source_pitch, size_t width, size_t height, const ferry_transfer_options *options)
{
    return copy_from(buffer, element, offset, pitch, source, source_pitch, width, height, &(struct manner){.options = options});
}

ferry_status
ferry_buffer_copy_to_2d_with(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch, void *target,
                             size_t target_pitch, size_t width, size_t height, const ferry_transfer_options *options)
{
    return copy_to(buffer, element, offset, pitch, target, target_pitch, width, height, &(struct manner){.options = options});
}

ferry_status
ferry_buffer_copy_2d_with(ferry_buffer *target, const ferry_element *element, size_t target_offset, size_t target_pitch,
                          ferry_buffer *source, size_t source_offset, size_t source_pitch, size_t width, size_t height,
                          const ferry_transfer_options *options)
{
    return copy(target, element, target_offset, target_pitch, source, source_offset, source_pitch, width, height,
                &(struct manner){.options = options});
}

ferry_status
ferry_buffer_copy_from_2d_async(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch, const void *source,
                                size_t source_pitch, size_t width, size_t height, ferry_stream *stream, ferry_event **out)
{
    const struct manner manner = {.async = true, .stream = stream, .out = out};
    return copy_from(buffer, element, offset, pitch, source, source_pitch, width, height, &manner);
}

ferry_status
ferry_buffer_copy_to_2d_async(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t pitch, void *target,
                              size_t target_pitch, size_t width, size_t height, ferry_stream *stream, ferry_event **out)
{
    const struct manner manner = {.async = true, .stream = stream, .out = out};
    return copy_to(buffer, element, offset, pitch, target, target_pitch, width, height, &manner);
}

ferry_status
ferry_buffer_copy_2d_async(ferry_buffer *target, const ferry_element *element, size_t target_offset, size_t target_pitch,
                           ferry_buffer *source, size_t source_offset, size_t source_pitch, size_t width, size_t height,
                           ferry_stream *stream, ferry_event **out)
{
    const struct manner manner = {.async = true, .stream = stream, .out = out};
    return copy(target, element, target_offset, target_pitch, source, source_offset, source_pitch, width, height, &manner);
}
