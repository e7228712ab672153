/* SPDX-License-Identifier: MIT */
#include <ferry/generated.h>

#include <stdint.h>
#include <string.h>

#include "src/kernel/kernel.h"
#include "src/kernel/launch.h"

/* The cells of a launch over two or three dimensions, and the elements that they use. */

static const char *const dimension_names[3] = {"planes", "rows", "columns"};

/* A half-open range of one dimension. */
struct extent {
    size_t begin, end;
};

/* Returns the indices of a dimension whose neighbours exist. */
static struct extent
inner(size_t size, size_t reach)
{
    if (size <= 2 * reach)
        return (struct extent){0, 0};
    return (struct extent){reach, size - reach};
}

/* Returns the indices that are read for those of `part`, which is not empty. */
static struct extent
with_neighbours(struct extent part, size_t size, size_t reach, ferry_edges edges)
{
    bool below = part.begin < reach, above = size - part.end < reach;
    if (edges == FERRY_EDGES_WRAP && (below || above))
        return (struct extent){0, size};
    return (struct extent){below ? 0 : part.begin - reach, above ? size : part.end + reach};
}

static ferry_status
out_of_range(const ferry_kernel *kernel, size_t d, size_t first, size_t count, struct extent all,
             size_t size)
{
    const char *name = dimension_names[d];
    if (all.end - all.begin == size)
        return ferryi_fail(
            FERRY_ERROR_OUT_OF_RANGE,
            "launch kernel \"%s\": %zu %s from number %zu on, but the arrays have %zu",
            kernel->name, count, name, first, size);
    return ferryi_fail(
        FERRY_ERROR_OUT_OF_RANGE,
        "launch kernel \"%s\": %zu %s from number %zu on, but of %zu only those from "
        "%zu to %zu have all neighbours",
        kernel->name, count, name, first, size, all.begin, all.end > 0 ? all.end - 1 : 0);
}

/* Sets one dimension of the box. */
static ferry_status
find_extent(const ferry_kernel *kernel, size_t d, size_t size, struct extent all,
            const ferry_box *box, ferry_box *out)
{
    size_t first = box ? box->first[d] : all.begin, count = box ? box->count[d] : FERRY_REST;
    if (count == FERRY_REST)
        count = first < all.end ? all.end - first : 0;
    if (count > 0 && (first < all.begin || first > all.end || count > all.end - first))
        return out_of_range(kernel, d, first, count, all, size);
    out->first[d] = first;
    out->count[d] = count;
    return FERRY_OK;
}

static size_t
index_of(const size_t sizes[3], size_t plane, size_t row, size_t column)
{
    return (plane * sizes[1] + row) * sizes[2] + column;
}

/* Sets the ranges of elements of cells that are not empty. */
static void
find_elements(const size_t sizes[3], const size_t reach[3], ferry_edges edges, ferry_cells *cells)
{
    struct extent part[3], read[3];
    for (size_t d = 0; d < 3; d++) {
        part[d] = (struct extent){cells->box.first[d], cells->box.first[d] + cells->box.count[d]};
        read[d] = with_neighbours(part[d], sizes[d], reach[d], edges);
    }
    cells->begin = index_of(sizes, part[0].begin, part[1].begin, part[2].begin);
    cells->elements = index_of(sizes, part[0].end - 1, part[1].end - 1, part[2].end) - cells->begin;
    /* Rows are read from their first column to the last one. */
    cells->read_begin = index_of(sizes, read[0].begin, read[1].begin, 0);
    cells->read_elements =
        index_of(sizes, read[0].end - 1, read[1].end - 1, sizes[2]) - cells->read_begin;
    if (cells->elements != cells->count)
        cells->overwritten = FERRY_UPDATE;
}

ferry_status
ferry_kernel_cells(const ferry_kernel *kernel, const ferry_box *box, const size_t sizes[3],
                   const size_t reach[3], ferry_edges edges, ferry_cells *out)
{
    size_t plane, elements;
    ferry_cells cells;
    if (!kernel)
        return ferryi_kernel_is_null();
    if (!ferryi_mul_size(sizes[1], sizes[2], &plane) ||
        !ferryi_mul_size(sizes[0], plane, &elements))
        return ferryi_fail(
            FERRY_ERROR_OVERFLOW,
            "launch kernel \"%s\": %zu planes of %zu rows of %zu columns are too many elements",
            kernel->name, sizes[0], sizes[1], sizes[2]);
    memset(&cells, 0, sizeof(cells));
    cells.overwritten = FERRY_OVERWRITE;
    for (size_t d = 0; d < 3; d++) {
        struct extent all =
            edges == FERRY_EDGES_NONE ? inner(sizes[d], reach[d]) : (struct extent){0, sizes[d]};
        FERRYI_OR_RETURN(find_extent(kernel, d, sizes[d], all, box, &cells.box));
    }
    cells.count = cells.box.count[0] * cells.box.count[1] * cells.box.count[2];
    if (cells.count > 0)
        find_elements(sizes, reach, edges, &cells);
    *out = cells;
    return FERRY_OK;
}
