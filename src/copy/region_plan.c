/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/copy/regions.h"

/* Plain regions as one plan, with a copy for each row. */

struct copies {
    struct ferryi_plan_copy *items;
    size_t count;
    ferryi_store **middles; /* ours until the plan is claimed */
    size_t middle_count;
};

bool
ferryi_region_overlaps(const struct ferryi_region *region)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    size_t rows = ferryi_region_rows(region);
    if (!target->store || target->store != source->store)
        return false;
    /* Rows ascend on both sides. */
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

static void
add_rows(struct copies *copies, const struct ferryi_region *region, bool between)
{
    size_t rows = ferryi_region_rows(region);
    for (size_t row = 0; row < rows; row++)
        copies->items[copies->count++] =
            (struct ferryi_plan_copy){region->target.store,
                                      region->source.store,
                                      ferryi_region_row(region, &region->target, row).begin,
                                      ferryi_region_row(region, &region->source, row).begin,
                                      ferryi_region_row_bytes(region, &region->target),
                                      between};
}

/* Rows that lie over their own targets go by way of memory in between, as memmove() does. A plan
 * does that for a single row by itself. */
static bool
goes_by_way(const struct ferryi_region *region)
{
    return ferryi_region_rows(region) > 1 && ferryi_region_overlaps(region);
}

static ferry_status
add_by_way(struct copies *copies, ferry_context *context, const struct ferryi_region *region)
{
    size_t row_bytes = ferryi_region_row_bytes(region, &region->target);
    struct ferryi_region_side middle = {.row_pitch = row_bytes,
                                        .plane_pitch = row_bytes * region->rows,
                                        .element = region->target.element};
    ferry_status status =
        ferryi_store_create(context, ferryi_region_bytes(region), NULL, false, &middle.store);
    if (status != FERRY_OK)
        return status;
    copies->middles[copies->middle_count++] = middle.store;
    struct ferryi_region in = *region, out = *region;
    in.target = out.source = middle;
    add_rows(copies, &in, true);
    add_rows(copies, &out, false);
    return FERRY_OK;
}

static ferry_status
make_copies(struct copies *copies, ferry_context *context, const struct ferryi_region *regions,
            size_t count)
{
    size_t room = 0, middles = 0;
    *copies = (struct copies){0};
    for (size_t i = 0; i < count; i++) {
        bool by_way = goes_by_way(&regions[i]);
        middles += by_way;
        if (!ferryi_add_size(room, (1 + by_way) * ferryi_region_rows(&regions[i]), &room))
            return ferryi_fail(FERRY_ERROR_OVERFLOW,
                               "copy: the rows of all regions are more than size_t holds");
    }
    copies->items = calloc(room + 1, sizeof(*copies->items));
    copies->middles = calloc(middles + 1, sizeof(*copies->middles));
    if (!copies->items || !copies->middles)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "copy: no memory to list %zu rows", room);
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < count && status == FERRY_OK; i++) {
        if (goes_by_way(&regions[i]))
            status = add_by_way(copies, context, &regions[i]);
        else
            add_rows(copies, &regions[i], false);
    }
    return status;
}

static void
free_copies(struct copies *copies)
{
    for (size_t i = 0; i < copies->middle_count; i++)
        ferryi_store_release(copies->middles[i]);
    free(copies->items);
    free(copies->middles);
}

ferry_status
ferryi_region_plan(ferry_context *context, const struct ferryi_region *regions, size_t count,
                   const struct ferryi_plan_options *options, ferry_event **event)
{
    struct copies copies;
    ferry_status status = make_copies(&copies, context, regions, count);
    if (status == FERRY_OK)
        status = ferryi_plan_copy(context, copies.items, copies.count, options, event);
    free_copies(&copies);
    return status;
}
