/* SPDX-License-Identifier: MIT */
#include "src/buffer/regions.h"

#include <stdlib.h>

#include "src/base/file.h"
#include "src/buffer/async.h"
#include "src/buffer/convert.h"
#include "src/buffer/guard.h"
#include "src/buffer/region_list.h"

/* ferry_copy(): what its arguments mean, whether they may be meant, and who does it. */

static const char what[] = "copy";

/* -- elements -------------------------------------------------------------------------------------- */

/* The elements that the caller names for a side, or that its buffer has; NULL: none. */
static ferry_status
named_element(const ferry_copy_side *side, const ferry_element **out)
{
    struct ferryi_range range;
    *out = side->element;
    if (!side->buffer)
        return FERRY_OK;
    ferry_status status = ferryi_buffer_check(side->buffer, side->element, 0, 0, what, &range);
    if (status == FERRY_OK)
        *out = side->buffer->element;
    return status;
}

/* The library's own description: that of the other side where they are equal. */
static ferry_status
intern(const ferry_element *element, const ferry_element *other, const ferry_element **out)
{
    *out = other;
    return element->identity == other->identity ? FERRY_OK : ferryi_element_intern(element, out);
}

static ferry_status
find_elements(const ferry_copy_region *from, struct ferryi_region *region)
{
    const ferry_element *target, *source;
    ferry_status status = from->conversion ? ferryi_conversion_check(from->conversion, what) : FERRY_OK;
    if (status == FERRY_OK)
        status = named_element(&from->target, &target);
    if (status == FERRY_OK)
        status = named_element(&from->source, &source);
    if (status != FERRY_OK)
        return status;
    /* At least one of them is a buffer's. */
    if (!source)
        source = from->conversion ? from->conversion->from : target;
    if (!target)
        target = from->conversion ? from->conversion->to : source;
    const ferry_element *buffers = from->target.buffer ? target : source;
    status = intern(target, buffers, &region->target.element);
    return status == FERRY_OK ? intern(source, buffers, &region->source.element) : status;
}

static ferry_status
find_conversion(const ferry_copy_region *from, const struct ferryi_region_setting *setting, const ferry_copy_options *options,
                struct ferryi_region *region)
{
    const ferry_element *source = region->source.element, *target = region->target.element;
    region->converts = from->conversion || source->identity != target->identity;
    if (!region->converts)
        return FERRY_OK;
    if (from->conversion && (from->conversion->from->identity != source->identity || from->conversion->to->identity != target->identity))
        return ferryi_fail(FERRY_ERROR_WRONG_TYPE, "%s: the conversion is from %s to %s, but the source has %s and the target %s", what,
                           from->conversion->from->name, from->conversion->to->name, source->name, target->name);
    if (!from->conversion && (!options || !options->convert))
        return ferryi_fail(FERRY_ERROR_WRONG_TYPE, "%s: the source has elements %s%s, the target %s, and options.convert is 0", what, source->name,
                           ferryi_element_namesake(source, target), target->name);
    if (setting->policy == FERRY_CONVERT_CHECK && setting->async)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s: a conversion with FERRY_CONVERT_CHECK cannot be asynchronous: copy without an event", what);
    if (setting->policy == FERRY_CONVERT_CHECK && from->source.path)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s: a conversion with FERRY_CONVERT_CHECK cannot read from a file: load it into a buffer first",
                           what);
    region->conversion = (ferry_conversion){.from = source, .to = target, .convert = from->conversion ? from->conversion->convert : NULL};
    return ferryi_conversion_check(&region->conversion, what);
}

/* -- shapes ---------------------------------------------------------------------------------------- */

static ferry_status
find_count(const ferry_copy_region *from, struct ferryi_region *region)
{
    region->count = from->count;
    region->rows = from->rows ? from->rows : 1;
    region->planes = from->planes ? from->planes : 1;
    if (region->count != FERRY_REST)
        return FERRY_OK;
    if (region->rows > 1 || region->planes > 1)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: FERRY_REST counts the elements of one row, but there are %zu rows and %zu planes", what,
                           region->rows, region->planes);
    const ferry_copy_side *side = from->source.buffer ? &from->source : &from->target;
    struct ferryi_range range;
    ferry_status status = ferryi_buffer_check(side->buffer, side->element, side->offset, FERRY_REST, what, &range);
    if (status == FERRY_OK)
        region->count = (range.end - range.begin) / side->buffer->element_bytes;
    return status;
}

static ferry_status
fail_span(const struct ferryi_region *region, const char *name)
{
    return ferryi_fail(FERRY_ERROR_OVERFLOW, "%s: %zu planes of %zu rows of %zu elements of the %s: more than size_t holds", what, region->planes,
                       region->rows, region->count, name);
}

/* The pitches in elements, and how many elements lie from the first to behind the last. */
static ferry_status
find_span(const struct ferryi_region *region, const ferry_copy_side *from, const char *name, size_t *out_row, size_t *out_plane, size_t *out_span)
{
    size_t row = from->row_pitch && region->rows > 1 ? from->row_pitch : region->count, rows, in_plane, planes;
    *out_row = *out_plane = *out_span = 0;
    if (region->count == 0)
        return FERRY_OK;
    if (row < region->count)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the %s's row pitch of %zu elements is less than the %zu elements of a row", what, name,
                           row, region->count);
    if (!ferryi_mul_size(region->rows - 1, row, &rows) || !ferryi_add_size(rows, region->count, &in_plane) ||
        !ferryi_mul_size(region->rows, row, &rows))
        return fail_span(region, name);
    size_t plane = from->plane_pitch && region->planes > 1 ? from->plane_pitch : rows;
    if (plane < in_plane)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the %s's plane pitch of %zu elements is less than the %zu elements of a plane", what,
                           name, plane, in_plane);
    if (!ferryi_mul_size(region->planes - 1, plane, &planes) || !ferryi_add_size(planes, in_plane, out_span) || *out_span == FERRY_REST)
        return fail_span(region, name);
    *out_row = row;
    *out_plane = plane;
    return FERRY_OK;
}

/* -- sides ----------------------------------------------------------------------------------------- */

/* Bytes from where the side begins: the offset's, and those of the span. False: more than size_t holds. */
static bool
bytes_of(const ferry_copy_side *from, const ferry_element *element, size_t span, size_t *out_offset, size_t *out_bytes)
{
    size_t end;
    return ferryi_mul_size(from->offset, element->bytes, out_offset) && ferryi_mul_size(span, element->bytes, out_bytes) &&
           ferryi_add_size(*out_offset, *out_bytes, &end);
}

static ferry_status
find_memory(const ferry_copy_side *from, size_t span, const char *name, ferryi_store *other, struct ferryi_region_side *side)
{
    size_t offset, bytes;
    if (span == 0)
        return FERRY_OK;
    if (!from->memory)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the %s has no buffer, no memory and no path", what, name);
    if (!bytes_of(from, side->element, span, &offset, &bytes) || bytes > UINTPTR_MAX - (uintptr_t)from->memory ||
        offset > UINTPTR_MAX - (uintptr_t)from->memory - bytes)
        return ferryi_fail(FERRY_ERROR_OVERFLOW, "%s: %zu elements of %zu bytes of the %s: more than there is memory", what, span,
                           side->element->bytes, name);
    side->begin = (uintptr_t)from->memory + offset;
    return ferryi_guard_check_memory(other, from->memory, what);
}

static ferry_status
find_file(const ferry_copy_side *from, size_t span, const char *name, struct ferryi_region_side *side)
{
    size_t offset, bytes;
    if (!bytes_of(from, side->element, span, &offset, &bytes) || offset > UINT64_MAX - from->file_offset)
        return ferryi_fail(FERRY_ERROR_OVERFLOW, "%s: %zu elements of %zu bytes of the %s: more than a file holds", what, span, side->element->bytes,
                           name);
    side->path = from->path;
    side->file_offset = from->file_offset + offset;
    return ferryi_file_check_range(from->path, side->file_offset, bytes);
}

static ferry_status
find_side(const struct ferryi_region *region, const ferry_copy_side *from, const ferry_copy_side *other, const char *name,
          struct ferryi_region_side *side)
{
    size_t row, plane, span;
    ferry_status status = find_span(region, from, name, &row, &plane, &span);
    if (status != FERRY_OK)
        return status;
    if (from->buffer) {
        struct ferryi_range range;
        status = ferryi_buffer_check(from->buffer, from->element, from->offset, span, what, &range);
        side->store = from->buffer->store;
        side->begin = range.begin;
        /* A claim would find that too, but could not name the region. */
        if (status == FERRY_OK && side == &region->target && span > 0 && side->store->read_only)
            status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: buffer \"%s\" wraps read-only memory", what, ferryi_store_name(side->store));
    } else if (from->path) {
        status = find_file(from, span, name, side);
    } else {
        status = find_memory(from, span, name, other->buffer->store, side);
    }
    /* One row needs no pitch, and those of many are parts of a span that fits. */
    side->row_pitch = region->rows > 1 ? row * side->element->bytes : 0;
    side->plane_pitch = region->planes > 1 ? plane * side->element->bytes : 0;
    return status;
}

static int
ways(const ferry_copy_side *side)
{
    return (side->buffer != NULL) + (side->memory != NULL) + (side->path != NULL);
}

static ferry_status
check_ways(const ferry_copy_region *from)
{
    if (ways(&from->target) > 1)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the target has more than one of buffer, memory and path", what);
    if (from->value && ways(&from->source) > 0)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the region has both a value and a source", what);
    if (ways(&from->source) > 1)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the source has more than one of buffer, memory and path", what);
    if (from->value && !from->target.buffer)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: only a buffer is filled with a value", what);
    if (!from->target.buffer && !from->source.buffer)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: neither the target nor the source is a buffer", what);
    return FERRY_OK;
}

/* -- one region ------------------------------------------------------------------------------------ */

static bool
is_packed(const struct ferryi_region *region, const struct ferryi_region_side *side)
{
    return side->row_pitch == ferryi_region_row_bytes(region, side);
}

/* Rows that follow each other without gaps on both sides are one row; so are planes. */
static void
straighten(struct ferryi_region *region)
{
    for (int dimension = 0; dimension < 2; dimension++) {
        if (region->rows > 1 && is_packed(region, &region->target) && (region->kind == FERRYI_REGION_FILL || is_packed(region, &region->source))) {
            region->count *= region->rows;
            region->rows = 1;
        }
        if (region->rows == 1 && region->planes > 1) {
            region->rows = region->planes;
            region->planes = 1;
            region->target.row_pitch = region->target.plane_pitch;
            region->source.row_pitch = region->source.plane_pitch;
        }
    }
}

static uintptr_t
row_begin(const struct ferryi_region *region, const struct ferryi_region_side *side, size_t row)
{
    return side->begin + ferryi_region_row_at(region, side, row);
}

bool
ferryi_region_overlaps(const struct ferryi_region *region)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    size_t rows = ferryi_region_rows(region), target_bytes = ferryi_region_row_bytes(region, target),
           source_bytes = ferryi_region_row_bytes(region, source);
    if (!target->store || target->store != source->store)
        return false;
    /* Rows ascend on both sides. */
    for (size_t i = 0, j = 0; i < rows && j < rows;) {
        uintptr_t x = row_begin(region, target, i), y = row_begin(region, source, j);
        if (x < y + source_bytes && y < x + target_bytes)
            return true;
        if (x < y)
            i++;
        else
            j++;
    }
    return false;
}

static bool
is_onto_itself(const struct ferryi_region *region)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    return target->store && target->store == source->store && target->begin == source->begin &&
           (region->rows == 1 || target->row_pitch == source->row_pitch) && (region->planes == 1 || target->plane_pitch == source->plane_pitch);
}

static enum ferryi_region_kind
kind_of(const struct ferryi_region *region)
{
    if (region->count == 0)
        return region->target.path ? FERRYI_REGION_STORE : FERRYI_REGION_NOTHING;
    if (region->value)
        return FERRYI_REGION_FILL;
    if (region->converts)
        return FERRYI_REGION_CONVERT;
    if (region->target.path || region->source.path)
        return region->target.path ? FERRYI_REGION_STORE : FERRYI_REGION_LOAD;
    return is_onto_itself(region) ? FERRYI_REGION_NOTHING : FERRYI_REGION_PLAIN;
}

static ferry_status
check_region(const ferry_copy_region *from, const struct ferryi_region_setting *setting, const ferry_copy_options *options,
             struct ferryi_region *region)
{
    ferry_status status;
    region->value = from->value;
    FERRY_TRY(status, out, check_ways(from));
    FERRY_TRY(status, out, find_elements(from, region));
    FERRY_TRY(status, out, find_conversion(from, setting, options, region));
    FERRY_TRY(status, out, find_count(from, region));
    /* Buffers first: what is past the end of one is out of range, however large it is. */
    bool source_first = !from->target.buffer && !from->value;
    if (source_first)
        FERRY_TRY(status, out, find_side(region, &from->source, &from->target, "source", &region->source));
    FERRY_TRY(status, out, find_side(region, &from->target, &from->source, "target", &region->target));
    if (!source_first && !from->value)
        FERRY_TRY(status, out, find_side(region, &from->source, &from->target, "source", &region->source));
    region->kind = kind_of(region);
    straighten(region);
out:
    return status;
}

static ferry_context *
context_of(const struct ferryi_region *region)
{
    return (region->target.store ? region->target.store : region->source.store)->context;
}

static ferry_status
check_context(const struct ferryi_region *region, const struct ferryi_region_setting *setting)
{
    const ferryi_store *both[] = {region->target.store, region->source.store};
    for (size_t i = 0; i < 2; i++)
        if (both[i] && both[i]->context != setting->context)
            return ferryi_fail(FERRY_ERROR_WRONG_CONTEXT, "%s: buffer \"%s\" belongs to another context than the first buffer of the call", what,
                               ferryi_store_name(both[i]));
    return FERRY_OK;
}

/* -- plans of plain regions ------------------------------------------------------------------------ */

static void
add_rows(struct ferryi_region_copies *copies, const struct ferryi_region *region, bool between)
{
    size_t rows = ferryi_region_rows(region);
    for (size_t row = 0; row < rows; row++)
        copies->items[copies->count++] = (struct ferryi_plan_copy){
            region->target.store, region->source.store, row_begin(region, &region->target, row), row_begin(region, &region->source, row),
            ferryi_region_row_bytes(region, &region->target), between};
}

/* Rows that lie over their own targets go by way of memory in between, as memmove() does. A plan does that for a single row by itself. */
static bool
goes_by_way(const struct ferryi_region *region)
{
    return ferryi_region_rows(region) > 1 && ferryi_region_overlaps(region);
}

static ferry_status
add_by_way(struct ferryi_region_copies *copies, ferry_context *context, const struct ferryi_region *region)
{
    size_t row_bytes = ferryi_region_row_bytes(region, &region->target);
    struct ferryi_region_side middle = {.row_pitch = row_bytes, .plane_pitch = row_bytes * region->rows, .element = region->target.element};
    ferry_status status = ferryi_store_create(context, ferryi_region_bytes(region), NULL, false, &middle.store);
    if (status != FERRY_OK)
        return status;
    copies->middles[copies->middle_count++] = middle.store;
    struct ferryi_region in = *region, out = *region;
    in.target = out.source = middle;
    add_rows(copies, &in, true);
    add_rows(copies, &out, false);
    return FERRY_OK;
}

ferry_status
ferryi_region_copies_make(struct ferryi_region_copies *copies, ferry_context *context, const struct ferryi_region *regions, size_t count)
{
    size_t room = 0, middles = 0;
    *copies = (struct ferryi_region_copies){0};
    for (size_t i = 0; i < count; i++) {
        bool by_way = goes_by_way(&regions[i]);
        middles += by_way;
        if (!ferryi_add_size(room, (1 + by_way) * ferryi_region_rows(&regions[i]), &room))
            return ferryi_fail(FERRY_ERROR_OVERFLOW, "%s: the rows of all regions are more than size_t holds", what);
    }
    copies->items = calloc(room + 1, sizeof(*copies->items));
    copies->middles = calloc(middles + 1, sizeof(*copies->middles));
    if (!copies->items || !copies->middles)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s: no memory to list %zu rows", what, room);
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < count && status == FERRY_OK; i++) {
        if (goes_by_way(&regions[i]))
            status = add_by_way(copies, context, &regions[i]);
        else
            add_rows(copies, &regions[i], false);
    }
    return status;
}

void
ferryi_region_copies_free(struct ferryi_region_copies *copies)
{
    for (size_t i = 0; i < copies->middle_count; i++)
        ferryi_store_release(copies->middles[i]);
    free(copies->items);
    free(copies->middles);
}

static ferry_status
copy_plain(const struct ferryi_region *regions, size_t count, const struct ferryi_region_setting *setting, ferry_event **event)
{
    const struct ferryi_plan_options options = {.reason = "copy",
                                                .layout = setting->many ? FERRYI_LAYOUT_ANY : FERRYI_LAYOUT_ROWS,
                                                .place = setting->place,
                                                .transfer = setting->transfer};
    struct ferryi_region_copies copies;
    ferry_status status = ferryi_region_copies_make(&copies, setting->context, regions, count);
    if (status == FERRY_OK && event)
        status = ferryi_plan_start(setting->context, copies.items, copies.count, &options, event);
    else if (status == FERRY_OK)
        status = ferryi_plan_do(setting->context, copies.items, copies.count, &options);
    ferryi_region_copies_free(&copies);
    return status;
}

/* -- one row --------------------------------------------------------------------------------------- */

static struct ferryi_range
range_of(const struct ferryi_region *region, const struct ferryi_region_side *side)
{
    return (struct ferryi_range){side->begin, side->begin + ferryi_region_row_bytes(region, side)};
}

/* Plain, or a fill. */
static ferry_status
copy_row(const struct ferryi_region *region, const struct ferryi_region_setting *setting, ferry_event **event)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    struct ferryi_copy_call call = {.options = setting->transfer};
    ferry_status status = FERRY_OK;
    if (region->kind == FERRYI_REGION_FILL)
        status = ferryi_copy_plan_fill(&call, target->store, range_of(region, target), region->value, target->element->bytes, setting->place);
    else if (!target->store)
        ferryi_copy_plan_to(&call, source->store, range_of(region, source), (void *)target->begin);
    else if (!source->store)
        status = ferryi_copy_plan_from(&call, target->store, range_of(region, target), (const void *)source->begin, setting->place);
    else
        status = ferryi_copy_plan(&call, target->store, range_of(region, target), source->store, range_of(region, source), setting->place);
    if (status != FERRY_OK)
        return status;
    return event ? ferryi_async_copy(setting->context, &call, ferryi_region_bytes(region), event) : ferryi_copy_run(&call);
}

static ferry_status
convert_row(const struct ferryi_region *region, const struct ferryi_region_setting *setting)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    const struct ferryi_convert_call convert = {&region->conversion, setting->policy};
    if (!target->store)
        return ferryi_convert_to(source->store, range_of(region, source), (void *)target->begin, &convert, setting->transfer, NULL);
    if (!source->store)
        return ferryi_convert_from(target->store, range_of(region, target), (const void *)source->begin, &convert, setting->place,
                                   setting->transfer, NULL);
    return ferryi_convert_between(target->store, range_of(region, target), source->store, range_of(region, source), &convert, setting->place,
                                  setting->transfer, NULL);
}

/* -- all of them ----------------------------------------------------------------------------------- */

static bool
is_one_conversion(const struct ferryi_region *region)
{
    return region->kind == FERRYI_REGION_CONVERT && ferryi_region_rows(region) == 1 && !region->target.path && !region->source.path &&
           !ferryi_region_overlaps(region);
}

/* `count` regions that are something; the array is the callee's. */
static ferry_status
copy_checked(const struct ferryi_region *regions, size_t count, const struct ferryi_region_setting *setting, ferry_event **event)
{
    if (count == 0)
        return event ? ferryi_async_finished(setting->context, event) : FERRY_OK;
    if (count == 1 && ferryi_region_rows(regions) == 1 &&
        (regions->kind == FERRYI_REGION_PLAIN || (regions->kind == FERRYI_REGION_FILL && !regions->converts)))
        return copy_row(regions, setting, event);
    if (count == 1 && !event && is_one_conversion(regions))
        return convert_row(regions, setting);
    size_t plain = 0;
    while (plain < count && regions[plain].kind == FERRYI_REGION_PLAIN)
        plain++;
    return plain == count ? copy_plain(regions, count, setting, event) : ferryi_region_list_do(setting, regions, count, event);
}

/* Checks all; what is something comes first in `regions`. */
static ferry_status
check_regions(const ferry_copy_region *from, size_t count, struct ferryi_region_setting *setting, const ferry_copy_options *options,
              struct ferryi_region *regions, size_t *out_count)
{
    size_t total = 0, kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct ferryi_region region = {.index = i};
        ferry_status status = check_region(&from[i], setting, options, &region);
        if (status == FERRY_OK && !setting->context)
            setting->context = context_of(&region);
        if (status == FERRY_OK)
            status = check_context(&region, setting);
        if (status == FERRY_OK && !ferryi_add_size(total, ferryi_region_bytes(&region), &total))
            status = ferryi_fail(FERRY_ERROR_OVERFLOW, "%s: the bytes of all regions are more than size_t holds", what);
        if (status != FERRY_OK)
            return setting->many ? ferryi_fail_in(status, "%s: region %zu", what, i) : status;
        if (region.kind != FERRYI_REGION_NOTHING)
            regions[kept++] = region;
    }
    *out_count = kept;
    return FERRY_OK;
}

/* There is no buffer that would name the context. */
static ferry_status
copy_no_regions(const ferry_copy_options *options)
{
    if (!options || !options->event)
        return FERRY_OK;
    if (!options->stream)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: an asynchronous call of no regions needs a stream, for its context", what);
    ferry_status status = ferryi_stream_check(options->stream, what);
    return status == FERRY_OK ? ferryi_async_finished(options->stream->context, options->event) : status;
}

ferry_status
ferryi_regions_copy(const ferry_copy_region *regions, size_t count, const ferry_copy_options *options)
{
    struct ferryi_region one, *checked = &one;
    struct ferryi_region_setting setting = {.place = -1, .policy = FERRY_CONVERT_SATURATE, .many = count > 1};
    ferry_copy_options transfer = {0};
    ferry_event **event = options ? options->event : NULL;
    size_t kept = 0;
    if (count > 0 && !regions)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the array of %zu regions is NULL", what, count);
    if (options && (options->convert < 0 || options->convert > FERRY_CONVERT_TRUNCATE))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: conversion policy %d is unknown", what, options->convert);
    if (count == 0)
        return copy_no_regions(options);
    if (options) {
        transfer = (ferry_copy_options){.chunk_bytes = options->chunk_bytes, .keep_going = options->keep_going, .user = options->user};
        setting.transfer = &transfer;
        setting.policy = options->convert ? (ferry_convert_policy)options->convert : FERRY_CONVERT_SATURATE;
        setting.async = event != NULL;
        setting.file_direct = options->file_direct;
        setting.file_keep_rest = options->file_keep_rest;
    }
    if (count > 1 && !(checked = calloc(count, sizeof(*checked))))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s: no memory for a list of %zu regions", what, count);
    ferry_status status = check_regions(regions, count, &setting, options, checked, &kept);
    if (status == FERRY_OK && options)
        status = ferryi_async_place(setting.context, options->stream, what, &setting.place);
    if (status == FERRY_OK)
        status = copy_checked(checked, kept, &setting, event);
    if (checked != &one)
        free(checked);
    return status;
}

/* Elements that are named for memory are the buffer's. */
static bool
is_plain(const ferry_copy_side *memory, const ferry_buffer *buffer)
{
    return !memory->buffer && !memory->path && memory->memory && (!memory->element || memory->element->identity == buffer->identity);
}

/* One row between one buffer and memory, between buffers of one element, or of one value: the shortcuts check and do it all. */
static bool
copy_simple(const ferry_copy_region *region, const ferry_copy_options *options, ferry_status *out)
{
    const ferry_copy_side *to = &region->target, *from = &region->source;
    if (region->rows > 1 || region->planes > 1 || region->conversion || to->path || from->path || (options && (unsigned)options->convert > FERRY_CONVERT_TRUNCATE))
        return false;
    if (to->buffer && from->buffer) {
        if (to->memory || from->memory || region->value || to->buffer->identity != from->buffer->identity ||
            (to->element && to->element->identity != to->buffer->identity))
            return false;
        *out = ferry_buffer_copy(to->buffer, from->element, to->offset, from->buffer, from->offset, region->count, options);
    } else if (to->buffer && region->value) {
        if (to->memory || from->memory || (from->element && from->element->identity != to->buffer->identity))
            return false;
        *out = ferry_buffer_fill(to->buffer, to->element, to->offset, region->count, region->value, options);
    } else if (to->buffer) {
        if (to->memory || !is_plain(from, to->buffer) || from->offset)
            return false;
        *out = ferry_buffer_copy_from(to->buffer, to->element, to->offset, from->memory, region->count, options);
    } else {
        if (!from->buffer || from->memory || region->value || !is_plain(to, from->buffer) || to->offset)
            return false;
        *out = ferry_buffer_copy_to(from->buffer, from->element, from->offset, to->memory, region->count, options);
    }
    return true;
}

ferry_status
ferry_copy(const ferry_copy_region *regions, size_t count, const ferry_copy_options *options)
{
    ferry_status status;
    if (count == 1 && regions && copy_simple(regions, options, &status))
        return status;
    status = ferryi_regions_copy(regions, count, options);
    /* No tail call: checked runs find the program's call site by the frame of this function. */
    __asm__ volatile("" : "+r"(status));
    return status;
}

ferry_status
ferry_copy_converting(const ferry_copy_region *region, ferry_convert_policy policy, const ferry_copy_options *options)
{
    ferry_copy_options converting = options ? *options : (ferry_copy_options){0};
    if (converting.convert && converting.convert != (int)policy)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the policy is %d, but options.convert is %d", what, (int)policy, converting.convert);
    converting.convert = policy ? (int)policy : FERRY_CONVERT_SATURATE;
    return ferry_copy(region, 1, &converting);
}
