/* SPDX-License-Identifier: MIT */
#include "mpi/internal.h"

#include <string.h>

/* -- checks ------------------------------------------------------------------------------------ */

/* Rows of a range, as it is after its defaults were filled in. */
static bool
is_packed(const ferry_mpi_range *range)
{
    return range->rows <= 1 || range->row_pitch == range->count;
}

static ferry_status
fill_in_defaults(ferry_mpi_range *range, size_t length, const char *what)
{
    if (range->rows == 0)
        range->rows = 1;
    if (range->count == FERRY_REST) {
        if (range->rows != 1)
            return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                                   "%s: FERRY_REST is not valid for %zu rows", what, range->rows);
        range->count = length > range->offset ? length - range->offset : 0;
    }
    if (range->row_pitch == 0)
        range->row_pitch = range->count;
    if (range->row_pitch < range->count)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "%s: a row pitch of %zu for rows of %zu elements", what,
                               range->row_pitch, range->count);
    return FERRY_OK;
}

ferry_status
ferryi_mpi_side_resolve(struct ferryi_mpi_side *side, ferry_mpi *mpi, const ferry_mpi_range *given,
                        const char *what)
{
    if (!given || !given->buffer)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", what,
                               given ? "the buffer" : "the range");
    *side = (struct ferryi_mpi_side){.range = *given};
    ferry_mpi_range *range = &side->range;
    if (!range->element)
        range->element = ferry_buffer_element(range->buffer);
    else if (!ferry_element_equal(range->element, ferry_buffer_element(range->buffer)))
        return ferryi_mpi_fail(FERRY_ERROR_WRONG_TYPE,
                               "%s: the range has the element %s, the buffer has %s", what,
                               range->element->name ? range->element->name : "?",
                               ferry_buffer_element(range->buffer)->name);
    if (ferry_buffer_context(range->buffer) != mpi->context)
        return ferryi_mpi_fail(FERRY_ERROR_WRONG_CONTEXT,
                               "%s: the buffer belongs to another context than the ferry_mpi",
                               what);
    size_t length = ferry_buffer_count(range->buffer);
    ferry_status status = fill_in_defaults(range, length, what);
    if (status != FERRY_OK)
        return status;
    bool fits = range->offset <= length && range->count <= length - range->offset;
    if (fits && range->count > 0 && range->rows > 1)
        fits = range->rows - 1 <= (length - range->offset - range->count) / range->row_pitch;
    if (!fits)
        return ferryi_mpi_fail(FERRY_ERROR_OUT_OF_RANGE,
                               "%s: %zu rows of %zu elements at offset %zu, pitch %zu, but the "
                               "buffer has %zu elements",
                               what, range->rows, range->count, range->offset, range->row_pitch,
                               length);
    side->element_bytes = range->element->bytes;
    side->elements = range->count == 0 ? 0 : range->count * range->rows;
    return FERRY_OK;
}

/* -- how a range travels ----------------------------------------------------------------------- */

static bool
is_coherent(const ferry_mpi *mpi, int place)
{
    ferry_place_info info;
    return ferry_context_get_place_info(mpi->context, place, &info) == FERRY_OK && info.coherent;
}

ferry_status
ferryi_mpi_side_find(const struct ferryi_mpi_side *side, size_t offset, size_t count,
                     struct ferryi_mpi_presence *out, const char *what)
{
    ferry_buffer *view = NULL;
    ferry_buffer_info info;
    ferry_status status =
        ferry_buffer_view(side->range.buffer, side->range.element, offset, count, &view);
    if (status != FERRY_OK)
        return ferryi_mpi_fail_by_ferry(status, what);
    status = ferry_buffer_get_info(view, &info);
    ferry_buffer_destroy(&view);
    if (status != FERRY_OK)
        return ferryi_mpi_fail_by_ferry(status, what);
    *out = (struct ferryi_mpi_presence){.places = info.places_current,
                                        .written = info.state != FERRY_STATE_UNINITIALIZED};
    return FERRY_OK;
}

/* The place that MPI should access: 0 is the host. -1: no place has all of the range. */
static int
choose_place(const struct ferryi_mpi_side *side, const ferry_mpi *mpi, uint32_t places)
{
    int chosen = -1;
    if (side->access != FERRY_READ && side->range.stream) {
        chosen = ferry_stream_place(side->range.stream);
    } else if (places & 1) {
        chosen = 0;
    } else {
        for (int place = 1; chosen < 0 && place <= ferry_context_place_count(mpi->context); place++)
            chosen = places >> place & 1 ? place : -1;
    }
    return chosen > 0 && is_coherent(mpi, chosen) ? 0 : chosen;
}

/* Whether no other memory than that of `place` has the values. */
static bool
is_only_at(const ferry_mpi *mpi, const struct ferryi_mpi_presence *presence, int place)
{
    uint32_t others = presence->places & ~((uint32_t)1 << place);
    for (int other = 0; place == 0 && other <= ferry_context_place_count(mpi->context); other++)
        others &= is_coherent(mpi, other) ? ~((uint32_t)1 << other) : UINT32_MAX;
    return presence->written && presence->places != 0 && others == 0;
}

static ferry_status
open_scope(struct ferryi_mpi_side *side, ferry_mpi *mpi, int place, const char *what)
{
    const ferry_mpi_range *range = &side->range;
    ferry_access access =
        side->access == FERRY_OVERWRITE && side->keeps ? FERRY_UPDATE : side->access;
    ferry_stream *stream = NULL;
    void *pointer = NULL;
    ferry_status status = place > 0 ? ferryi_mpi_stream(mpi, place, &stream) : FERRY_OK;
    if (status != FERRY_OK)
        return status;
    if (place == 0)
        status = ferry_buffer_open_host(range->buffer, range->element, access, range->offset,
                                        side->elements, &side->scope, &pointer);
    else
        status = ferry_buffer_open_device(range->buffer, range->element, access, range->offset,
                                          side->elements, stream, &side->scope, &pointer);
    if (status == FERRY_OK && place > 0) { /* MPI takes no stream */
        status = ferry_scope_wait(&side->scope);
        if (status != FERRY_OK)
            (void)ferryi_mpi_side_close(side, false, what);
    }
    side->pointer = status == FERRY_OK ? pointer : NULL;
    return status == FERRY_OK ? FERRY_OK : ferryi_mpi_fail_by_ferry(status, what);
}

/* Fails if the handle of a range that MPI writes is read-only. Parts of the range may be written
 * only after messages have begun, which is too late to refuse them. So a scope of no elements,
 * which copies and locks nothing, is opened first. */
static ferry_status
check_access(const struct ferryi_mpi_side *side, const char *what)
{
    ferry_scope scope;
    void *pointer;
    ferry_status status = ferry_buffer_open_host(side->range.buffer, side->range.element,
                                                 side->access, 0, 0, &scope, &pointer);
    return status == FERRY_OK ? FERRY_OK : ferryi_mpi_fail_by_ferry(status, what);
}

ferry_status
ferryi_mpi_side_open(struct ferryi_mpi_side *side, ferry_mpi *mpi, ferry_access access,
                     bool may_be_direct, const char *what)
{
    struct ferryi_mpi_presence presence = {.places = 0};
    side->access = access;
    side->pointer = NULL;
    side->scope = (ferry_scope){0};
    side->keeps = false;
    ferry_status status = access == FERRY_READ ? FERRY_OK : check_access(side, what);
    if (status != FERRY_OK || side->elements == 0 || !is_packed(&side->range) || !may_be_direct)
        return status;
    status = ferryi_mpi_side_find(side, side->range.offset, side->elements, &presence, what);
    if (status != FERRY_OK)
        return status;
    int place = choose_place(side, mpi, presence.written ? presence.places : 1);
    /* Where the values are at several places, an OVERWRITE that is abandoned would lose those of
     * its place. */
    bool scattered = presence.written && !presence.places;
    if ((scattered && access == FERRY_OVERWRITE) || place < 0 ||
        (place > 0 && !ferry_mpi_uses_device_pointers(mpi, place)))
        return FERRY_OK;
    /* An UPDATE of bytes that are current there copies nothing, and what MPI does not write stays.
     */
    side->keeps = is_only_at(mpi, &presence, place);
    return open_scope(side, mpi, place, what);
}

ferry_status
ferryi_mpi_side_close(struct ferryi_mpi_side *side, bool succeeded, const char *what)
{
    ferry_status status = succeeded || side->keeps ? ferry_scope_close(&side->scope)
                                                   : ferry_scope_abandon(&side->scope);
    side->scope = (ferry_scope){0};
    side->pointer = NULL;
    return status == FERRY_OK ? FERRY_OK : ferryi_mpi_fail_by_ferry(status, what);
}

/* -- packing ----------------------------------------------------------------------------------- */

/* Adds `rows` rows of the range, from element `x` of row `y`, and moves `*memory` behind them. */
static void
add_rows(ferry_copy_region *region, const struct ferryi_mpi_side *side, bool to_memory, size_t x,
         size_t y, size_t count, size_t rows, char **memory)
{
    const ferry_mpi_range *range = &side->range;
    size_t offset = range->offset + y * range->row_pitch + x;
    if (to_memory)
        *region = ferry_buffer_region_to(range->buffer, range->element, offset, count, *memory);
    else
        *region = ferry_buffer_region_from(range->buffer, range->element, offset, count, *memory);
    region->rows = rows;
    (to_memory ? &region->source : &region->target)->row_pitch = rows > 1 ? range->row_pitch : 0;
    *memory += rows * count * side->element_bytes;
}

/* Elements `begin` to `begin + count`, counted row by row: rest of a row, whole rows, start of a
 * row. */
size_t
ferryi_mpi_side_list(const struct ferryi_mpi_side *side, bool to_memory, size_t begin, size_t count,
                     char *memory, ferry_copy_region regions[FERRYI_MPI_REGIONS])
{
    size_t width = is_packed(&side->range) ? side->elements : side->range.count, listed = 0;
    while (count > 0) {
        size_t x = begin % width, y = begin / width;
        size_t rows = x == 0 && count >= width ? count / width : 1;
        size_t length = x == 0 && count >= width ? width : count < width - x ? count : width - x;
        add_rows(&regions[listed++], side, to_memory, x, y, length, rows, &memory);
        begin += rows * length;
        count -= rows * length;
    }
    return listed;
}

static ferry_status
copy(const struct ferryi_mpi_side *side, bool to_memory, size_t begin, size_t count, size_t blocks,
     void *memory, const char *what)
{
    ferry_copy_region regions[FERRYI_MPI_REGIONS];
    const ferry_copy_options options = {.stream = to_memory ? NULL : side->range.stream};
    size_t listed = 0;
    if (count == 0)
        return FERRY_OK;
    if (blocks <= 1) {
        listed = ferryi_mpi_side_list(side, to_memory, begin, count, memory, regions);
    } else {
        char *at = memory;
        struct ferryi_mpi_side as_blocks = *side;
        as_blocks.range.row_pitch = side->elements / blocks;
        add_rows(&regions[listed++], &as_blocks, to_memory, begin, 0, count, blocks, &at);
    }
    ferry_status status = ferry_copy(regions, listed, &options);
    return status == FERRY_OK ? FERRY_OK : ferryi_mpi_fail_by_ferry(status, what);
}

ferry_status
ferryi_mpi_side_pack(const struct ferryi_mpi_side *side, size_t begin, size_t count, size_t blocks,
                     void *memory, const char *what)
{
    return copy(side, true, begin, count, blocks, memory, what);
}

ferry_status
ferryi_mpi_side_unpack(const struct ferryi_mpi_side *side, size_t begin, size_t count,
                       size_t blocks, void *memory, const char *what)
{
    return copy(side, false, begin, count, blocks, memory, what);
}
