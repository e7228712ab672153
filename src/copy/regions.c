/* SPDX-License-Identifier: MIT */
#include "src/copy/regions.h"

#include <stdlib.h>

#include "src/copy/async.h"
#include "src/copy/convert_copy.h"
#include "src/copy/plan.h"
#include "src/copy/region_list.h"

/* ferry_copy() checks all regions and chooses the function that runs them. */

static const char what[] = "copy";

bool
ferryi_region_overlaps(const struct ferryi_region *region)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    size_t rows = ferryi_region_rows(region);
    if (!target->store || target->store != source->store)
        return false;
    /* On both sides the rows are in ascending order of their offsets, so one pass finds an overlap.
     */
    for (size_t i = 0, j = 0; i < rows && j < rows;) {
        struct ferryi_range x = ferryi_region_row(region, target, i),
                            y = ferryi_region_row(region, source, j);
        if (x.begin < y.end && y.begin < x.end)
            return true;
        if (x.begin < y.begin)
            i++;
        else
            j++;
    }
    return false;
}

/* -- one row ----------------------------------------------------------------------------------- */

static ferry_status
copy_row(const struct ferryi_region *region, const struct ferryi_region_setting *setting)
{
    const struct ferryi_convert_call convert = {&region->conversion, setting->policy};
    struct ferryi_copy_call call = {.options = setting->transfer};
    ferry_status status = ferryi_region_plan_row(region, 0, &convert, setting->place, &call);
    return status == FERRY_OK ? ferryi_async_run(&call) : status;
}

/* -- all of them ------------------------------------------------------------------------------- */

/* Returns whether the region can run as a single copy call, without a list. */
static bool
is_one_call(const struct ferryi_region *region, bool async)
{
    if (ferryi_region_rows(region) > 1)
        return false;
    switch (region->kind) {
    case FERRYI_REGION_PLAIN:
        return true;
    case FERRYI_REGION_FILL:
        return !region->converts;
    case FERRYI_REGION_CONVERT:
        return !async && !region->target.path && !region->source.path &&
               !ferryi_region_overlaps(region);
    default:
        return false;
    }
}

/* Runs `count` checked regions, none of which is FERRYI_REGION_NOTHING. */
static ferry_status
copy_checked(const struct ferryi_region *regions, size_t count,
             const struct ferryi_region_setting *setting, ferry_event **event)
{
    if (count == 0)
        return event ? ferryi_async_finished(setting->context, event) : FERRY_OK;
    if (count == 1 && is_one_call(regions, event != NULL))
        return copy_row(regions, setting);
    size_t plain = 0;
    while (plain < count && regions[plain].kind == FERRYI_REGION_PLAIN)
        plain++;
    if (plain < count)
        return ferryi_region_list_do(setting, regions, count, event);
    const struct ferryi_plan_options options = {.reason = "copy",
                                                .layout = setting->many ? FERRYI_LAYOUT_ANY
                                                                        : FERRYI_LAYOUT_ROWS,
                                                .place = setting->place,
                                                .transfer = setting->transfer};
    return ferryi_plan_regions(setting->context, regions, count, &options, event);
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
            return ferryi_fail(
                FERRY_ERROR_WRONG_CONTEXT,
                "%s: buffer \"%s\" belongs to another context than the first buffer of the call",
                what, ferryi_store_name(both[i]));
    return FERRY_OK;
}

/* Checks all regions. Stores those that are not FERRYI_REGION_NOTHING in `regions`. */
static ferry_status
check_regions(const ferry_copy_region *from, size_t count, struct ferryi_region_setting *setting,
              const ferry_copy_options *options, struct ferryi_region *regions, size_t *out_count)
{
    size_t total = 0, kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct ferryi_region region = {.index = i};
        ferry_status status = ferryi_region_check(&from[i], setting, options, &region);
        if (status == FERRY_OK && !setting->context)
            setting->context = context_of(&region);
        if (status == FERRY_OK)
            status = check_context(&region, setting);
        if (status == FERRY_OK && !ferryi_add_size(total, ferryi_region_bytes(&region), &total))
            status = ferryi_fail(FERRY_ERROR_OVERFLOW,
                                 "%s: the bytes of all regions are more than size_t holds", what);
        if (status != FERRY_OK)
            return setting->many ? ferryi_fail_in(status, "%s: region %zu", what, i) : status;
        if (region.kind != FERRYI_REGION_NOTHING)
            regions[kept++] = region;
    }
    *out_count = kept;
    return FERRY_OK;
}

/* Handles a call without regions. There is no buffer, so an event is created in the stream's
 * context. */
static ferry_status
copy_no_regions(const ferry_copy_options *options)
{
    if (!options || !options->event)
        return FERRY_OK;
    if (!options->stream)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: an asynchronous call of no regions needs a stream, for its context",
                           what);
    ferry_status status = ferryi_stream_check(options->stream, what);
    return status == FERRY_OK ? ferryi_async_finished(options->stream->context, options->event)
                              : status;
}

ferry_status
ferryi_regions_copy(const ferry_copy_region *regions, size_t count,
                    const ferry_copy_options *options)
{
    struct ferryi_region one, *checked = &one;
    struct ferryi_region_setting setting = {
        .place = -1, .policy = FERRY_CONVERT_SATURATE, .many = count > 1};
    ferry_event **event = options ? options->event : NULL;
    size_t kept = 0;
    if (count > 0 && !regions)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the array of %zu regions is NULL",
                           what, count);
    if (options && (options->convert < 0 || options->convert > FERRY_CONVERT_TRUNCATE))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: conversion policy %d is unknown",
                           what, options->convert);
    if (count == 0)
        return copy_no_regions(options);
    if (options) {
        setting.transfer = options;
        setting.policy =
            options->convert ? (ferry_convert_policy)options->convert : FERRY_CONVERT_SATURATE;
        setting.async = event != NULL;
        setting.file_direct = options->file_direct;
        setting.file_keep_rest = options->file_keep_rest;
    }
    ferry_status status;
    if (count > 1 && !(checked = calloc(count, sizeof(*checked))))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s: no memory for a list of %zu regions",
                           what, count);
    status = check_regions(regions, count, &setting, options, checked, &kept);
    if (status == FERRY_OK && options)
        status = ferryi_async_place(setting.context, options->stream, what, &setting.place);
    if (status == FERRY_OK)
        status = copy_checked(checked, kept, &setting, event);
    if (checked != &one)
        free(checked);
    return status;
}

/* Returns whether a side is memory whose element type is unset or equals the buffer's type. */
static bool
is_plain(const ferry_copy_side *memory, const ferry_buffer *buffer)
{
    return !memory->buffer && !memory->path && memory->memory &&
           (!memory->element || memory->element->identity == buffer->identity);
}

/* Runs a simple region by calling its shortcut: a fill, or one row between a buffer and memory or
 * between two buffers with the same element type. Returns false for other regions. */
static bool
copy_simple(const ferry_copy_region *region, const ferry_copy_options *options, ferry_status *out)
{
    const ferry_copy_side *to = &region->target, *from = &region->source;
    if (region->rows > 1 || region->planes > 1 || region->conversion || to->path || from->path ||
        (options && (unsigned)options->convert > FERRY_CONVERT_TRUNCATE))
        return false;
    if (to->buffer && from->buffer) {
        if (to->memory || from->memory || region->value ||
            to->buffer->identity != from->buffer->identity ||
            (to->element && to->element->identity != to->buffer->identity))
            return false;
        *out = ferry_buffer_copy(to->buffer, from->element, to->offset, from->buffer, from->offset,
                                 region->count, options);
    } else if (to->buffer && region->value) {
        if (to->memory || from->memory ||
            (from->element && from->element->identity != to->buffer->identity))
            return false;
        *out = ferry_buffer_fill(to->buffer, to->element, to->offset, region->count, region->value,
                                 options);
    } else if (to->buffer) {
        if (to->memory || !is_plain(from, to->buffer) || from->offset)
            return false;
        *out = ferry_buffer_copy_from(to->buffer, to->element, to->offset, from->memory,
                                      region->count, options);
    } else {
        if (!from->buffer || from->memory || region->value || !is_plain(to, from->buffer) ||
            to->offset)
            return false;
        *out = ferry_buffer_copy_to(from->buffer, from->element, from->offset, to->memory,
                                    region->count, options);
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
    /* Prevents a tail call: checked runs find the program's call site through the frame of this
     * function. */
    __asm__ volatile("" : "+r"(status));
    return status;
}

ferry_status
ferry_copy_converting(const ferry_copy_region *region, ferry_convert_policy policy,
                      const ferry_copy_options *options)
{
    ferry_copy_options converting = options ? *options : (ferry_copy_options){0};
    if (converting.convert && converting.convert != (int)policy)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: the policy is %d, but options.convert is %d", what, (int)policy,
                           converting.convert);
    converting.convert = policy ? (int)policy : FERRY_CONVERT_SATURATE;
    return ferry_copy(region, 1, &converting);
}
