/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/base/callback.h"
#include "src/copy/async.h"
#include "src/copy/regions.h"

/*
 * The short way for long lists: many regions, each of one row, between memory and a buffer or
 * between two buffers of one element. They go straight into a plan, so a list of thousands costs
 * little more than its plan. Whatever is unusual or wrong is left to region_check.c.
 */

static const char what[] = "copy";

/* `count` is not 0. False: not simple, or out of bounds. */
static bool
find_side(const ferry_copy_side *side, const ferry_buffer *like, size_t count,
          ferryi_store **out_store, uintptr_t *out_begin)
{
    size_t offset, end;
    if (side->path || (side->element && side->element->identity != like->identity))
        return false;
    if (side->buffer) {
        struct ferryi_range range;
        if (side->memory || side->buffer->identity != like->identity ||
            side->buffer->store->context != like->store->context ||
            !ferryi_buffer_range(side->buffer, side->offset, count, &range))
            return false;
        *out_store = side->buffer->store;
        *out_begin = range.begin;
        return true;
    }
    /* The other side is a buffer that has `count` elements, so their bytes are no more than memory
     * holds. */
    if (!side->memory || !ferryi_mul_size(side->offset, like->element_bytes, &offset) ||
        !ferryi_add_size((uintptr_t)side->memory, offset, out_begin) ||
        !ferryi_add_size(*out_begin, count * like->element_bytes, &end))
        return false;
    *out_store = NULL;
    return true;
}

static bool
find_copy(const ferry_copy_region *region, const ferry_context *context,
          struct ferryi_plan_copy *out)
{
    const ferry_copy_side *target = &region->target, *source = &region->source;
    const ferry_buffer *like = target->buffer ? target->buffer : source->buffer;
    if (!like || like->identity == FERRYI_BUFFER_GONE || like->store->context != context ||
        region->rows > 1 || region->planes > 1 || region->value || region->conversion ||
        region->count == 0 || region->count == FERRY_REST)
        return false;
    *out = (struct ferryi_plan_copy){.bytes = region->count * like->element_bytes};
    /* The buffer's side is found first: it bounds the count. */
    bool found = target->buffer
                     ? find_side(target, like, region->count, &out->target_store, &out->target) &&
                           find_side(source, like, region->count, &out->source_store, &out->source)
                     : find_side(source, like, region->count, &out->source_store, &out->source) &&
                           find_side(target, like, region->count, &out->target_store, &out->target);
    return found && !(out->target_store && out->target_store->read_only);
}

/* The context of the first region, when this is a time for short ways. */
static ferry_context *
context_of(const ferry_copy_region *region)
{
    const ferry_buffer *buffer =
        region->target.buffer ? region->target.buffer : region->source.buffer;
    if (!buffer || buffer->identity == FERRYI_BUFFER_GONE || ferryi_store_is_dead(buffer->store))
        return NULL;
    ferry_context *context = buffer->store->context;
    return context->debug || ferryi_callback_check(what) != FERRY_OK ? NULL : context;
}

bool
ferryi_regions_copy_simple(const ferry_copy_region *regions, size_t count,
                           const ferry_copy_options *options, ferry_status *out)
{
    ferry_context *context = context_of(regions);
    struct ferryi_plan_copy *copies = context ? calloc(count, sizeof(*copies)) : NULL;
    size_t found = 0;
    while (copies && found < count && find_copy(&regions[found], context, &copies[found]))
        found++;
    if (!copies || found < count) {
        free(copies);
        return false;
    }
    struct ferryi_plan_options plan = {
        .reason = what, .layout = FERRYI_LAYOUT_ANY, .place = -1, .transfer = options};
    *out = options ? ferryi_async_place(context, options->stream, what, &plan.place) : FERRY_OK;
    if (*out == FERRY_OK)
        *out = ferryi_plan_copy(context, copies, count, &plan, options ? options->event : NULL);
    free(copies);
    return true;
}
