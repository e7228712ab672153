/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_REGIONS_H
#define FERRYI_REGIONS_H

/*
 * The regions of one ferry_copy(), as the library represents them. region_check.c checks them, and
 * regions.c chooses the cheapest way to run them:
 *
 *     one plain copy or fill of one row    a copy call (copy.c, async.c)
 *     one conversion of one row            a converting call (convert_copy.c), if it is
 *                                          synchronous and has no file
 *     plain copies of memory and buffers   a plan (plan.c): levels, one submission for each
 *     everything else                      a region list (region_list.c): steps in order, under
 *                                          range locks that are taken at once
 */

#include <ferry/copy.h>

#include "src/buffer/buffer.h"
#include "src/copy/copy.h"

enum ferryi_region_kind {
    FERRYI_REGION_NOTHING, /* a region without elements */
    FERRYI_REGION_SELF,    /* a region whose source and target are the same bytes; they are locked,
                              but not moved */
    FERRYI_REGION_PLAIN,   /* a region between memory and buffers, without conversion */
    FERRYI_REGION_FILL,
    FERRYI_REGION_LOAD,
    FERRYI_REGION_STORE,  /* may have no elements */
    FERRYI_REGION_CONVERT /* between any two sides */
};

struct ferryi_region_side {
    ferryi_store *store;  /* storage of the side's buffer; NULL if the side is memory or a file */
    const char *path;     /* NULL if the side is not a file */
    uint64_t file_offset; /* offset of the side's first element in the file */
    uintptr_t begin; /* offset of the side's first element in its buffer, or address of this element
                        in memory */
    size_t row_pitch, plane_pitch; /* in bytes */
    const ferry_element *element;  /* interned */
};

/* One checked region of a copy. If neither side has gaps between its rows, the rows have been
 * joined into one row. */
struct ferryi_region {
    enum ferryi_region_kind kind;
    struct ferryi_region_side target, source;
    size_t count, rows, planes;
    const void *value; /* value of a fill, whose type is source.element */
    bool converts;
    ferry_conversion conversion; /* its element types are interned */
    size_t index;                /* index in the caller's array */
};

/* Settings that apply to all regions of a ferry_copy() call. */
struct ferryi_region_setting {
    ferry_context *context;
    ferry_convert_policy policy;
    int place; /* place of the call's stream; -1 if the call has no stream */
    /* whether the call has more than one region, so that messages must name the region */
    bool many;
    const ferry_copy_options *transfer; /* or NULL */
    struct ferryi_caller caller;
};

static inline size_t
ferryi_region_rows(const struct ferryi_region *region)
{
    return region->rows * region->planes;
}

/* Returns the offset in bytes of a row from the first row. `row` counts the rows of all planes. */
static inline size_t
ferryi_region_row_at(const struct ferryi_region *region, const struct ferryi_region_side *side,
                     size_t row)
{
    if (row == 0) /* a fast path: most regions have one row, and a division would be slow */
        return 0;
    return row / region->rows * side->plane_pitch + row % region->rows * side->row_pitch;
}

/* Returns the bytes of one row. */
static inline size_t
ferryi_region_row_bytes(const struct ferryi_region *region, const struct ferryi_region_side *side)
{
    return region->count * side->element->bytes;
}

/* Returns the range in bytes of a row. `row` counts the rows of all planes. */
static inline struct ferryi_range
ferryi_region_row(const struct ferryi_region *region, const struct ferryi_region_side *side,
                  size_t row)
{
    size_t begin = side->begin + ferryi_region_row_at(region, side, row);
    return (struct ferryi_range){begin, begin + ferryi_region_row_bytes(region, side)};
}

/* Returns the number of bytes from the first to the last element of a side, including gaps. */
static inline size_t
ferryi_region_span(const struct ferryi_region *region, const struct ferryi_region_side *side)
{
    if (region->count == 0)
        return 0;
    return ferryi_region_row_at(region, side, ferryi_region_rows(region) - 1) +
           ferryi_region_row_bytes(region, side);
}

/* Returns the number of bytes of a region's target, without gaps. */
static inline size_t
ferryi_region_bytes(const struct ferryi_region *region)
{
    return ferryi_region_rows(region) * ferryi_region_row_bytes(region, &region->target);
}

/* Checks one region and fills in `*region`, whose member `index` the caller must have set. Does not
 * check that the buffers belong to the context of the call. */
ferry_status ferryi_region_check(const ferry_copy_region *from,
                                 const struct ferryi_region_setting *setting,
                                 struct ferryi_region *region);

/* Checks one region as ferryi_region_check() does, but faster, if it differs from the region
 * `before` only in its offsets, its memory and its count. `*region` is what the check of `before`
 * filled in, a plain region, and receives the new region. Returns false if the region may differ
 * otherwise, or may be invalid. `*region` is then undefined. */
bool ferryi_region_check_alike(const ferry_copy_region *from, const ferry_copy_region *before,
                               struct ferryi_region *region);

struct ferryi_convert_call;
/* Prepares `*call` (copy.h) to copy row number `row` of a region without a file. `convert` is used
 * only if the region converts. */
ferry_status ferryi_region_plan_row(const struct ferryi_region *region, size_t row,
                                    const struct ferryi_convert_call *convert, int place,
                                    struct ferryi_copy_call *call);

/* Returns whether rows of the source and rows of the target share bytes of one buffer. */
bool ferryi_region_overlaps(const struct ferryi_region *region);

/* Runs ferry_copy() for any list of regions. ferry_copy() calls it unless its fast path for one
 * simple region applies. */
ferry_status ferryi_regions_copy(const ferry_copy_region *regions, size_t count,
                                 const ferry_copy_options *options, struct ferryi_caller caller);

#endif
