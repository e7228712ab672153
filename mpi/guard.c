/* SPDX-License-Identifier: MIT */
#include "mpi/internal.h"

#include <stdlib.h>

/*
 * Guards. The bytes of a range that goes through chunks are copied by ferry_copy(), which would
 * conflict with a scope. So a guard is open only between the calls of ferry-mpi, where the program
 * could use the range.
 */

#define SPLITS 64 /* of ranges whose bytes are current at different places */

/* One guard that is being opened. */
struct opening {
    struct ferryi_mpi_guard *guard;
    ferry_mpi *mpi;
    const struct ferryi_mpi_side *side;
    const char *what;
    size_t splits; /* that are left */
};

/* The place of a piece: that of the stream if the bytes are current there, else the lowest where
 * they are. */
static int
choose_place(const struct opening *opening, const struct ferryi_mpi_presence *presence)
{
    ferry_stream *stream = opening->side->range.stream;
    int wanted = stream && opening->side->access != FERRY_READ ? ferry_stream_place(stream) : 0;
    if (!presence->places || presence->places >> wanted & 1)
        return wanted;
    return __builtin_ctz(presence->places);
}

static ferry_status
open_at(const struct opening *opening, ferry_access access, int place, size_t offset, size_t count,
        ferry_scope *scope)
{
    const ferry_mpi_range *range = &opening->side->range;
    ferry_stream *stream;
    void *pointer;
    if (place == 0)
        return ferry_buffer_open_host(range->buffer, range->element, access, offset, count, scope,
                                      &pointer);
    ferry_status status = ferryi_mpi_stream(opening->mpi, place, &stream);
    if (status != FERRY_OK)
        return status;
    return ferry_buffer_open_device(range->buffer, range->element, access, offset, count, stream,
                                    scope, &pointer);
}

/* An UPDATE that writes nothing keeps the values. Bytes without a value, such as lost ones, are
 * overwritten and abandoned. */
static ferry_status
open_piece(const struct opening *opening, const struct ferryi_mpi_presence *presence, size_t offset,
           size_t count)
{
    struct ferryi_mpi_piece *piece = &opening->guard->pieces[opening->guard->count];
    bool reads = opening->side->access == FERRY_READ;
    int place = choose_place(opening, presence);
    ferry_status status = FERRY_OK;
    piece->holds_nothing = !reads && !presence->written;
    if (!piece->holds_nothing)
        status = open_at(opening, reads ? FERRY_READ : FERRY_UPDATE, place, offset, count,
                         &piece->scope);
    if (!reads && status != FERRY_OK && status != FERRY_ERROR_BUSY && !presence->places)
        piece->holds_nothing = true;
    if (piece->holds_nothing)
        status = open_at(opening, FERRY_OVERWRITE, place, offset, count, &piece->scope);
    opening->guard->count += status == FERRY_OK;
    return status == FERRY_OK ? FERRY_OK : ferryi_mpi_fail_by_ferry(status, opening->what);
}

/* Splits the bytes until each piece is whole at some place. */
static ferry_status
open_pieces(struct opening *opening, size_t offset, size_t count)
{
    struct ferryi_mpi_presence presence = {.places = 0};
    ferry_status status =
        ferryi_mpi_side_find(opening->side, offset, count, &presence, opening->what);
    if (status != FERRY_OK)
        return status;
    if (!presence.written || presence.places || count == 1 || opening->splits == 0)
        return open_piece(opening, &presence, offset, count);
    opening->splits--;
    status = open_pieces(opening, offset, count / 2);
    return status == FERRY_OK ? open_pieces(opening, offset + count / 2, count - count / 2)
                              : status;
}

static ferry_status
open_rows(struct opening *opening, size_t rows, size_t count)
{
    const ferry_mpi_range *range = &opening->side->range;
    struct ferryi_mpi_presence presence = {.places = 0};
    ferry_status status =
        ferryi_mpi_side_find(opening->side, range->offset, (rows - 1) * range->row_pitch + count,
                             &presence, opening->what);
    for (size_t row = 0; status == FERRY_OK && row < rows; row++) {
        size_t offset = range->offset + row * range->row_pitch;
        status = presence.places ? open_piece(opening, &presence, offset, count)
                                 : open_pieces(opening, offset, count);
    }
    return status;
}

ferry_status
ferryi_mpi_guard_open(struct ferryi_mpi_guard *guard, ferry_mpi *mpi,
                      const struct ferryi_mpi_side *side, const char *what)
{
    bool packed = side->range.rows <= 1 || side->range.row_pitch == side->range.count;
    size_t rows = packed ? 1 : side->range.rows,
           count = packed ? side->elements : side->range.count;
    struct opening opening = {
        .guard = guard, .mpi = mpi, .side = side, .what = what, .splits = SPLITS};
    if (guard->count > 0 || side->elements == 0 || rows > mpi->guarded_rows)
        return FERRY_OK;
    if (guard->room < rows + SPLITS) {
        free(guard->pieces);
        guard->room = rows + SPLITS;
        guard->pieces = malloc(guard->room * sizeof(*guard->pieces));
    }
    if (!guard->pieces) {
        guard->room = 0;
        return ferryi_mpi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s: no memory for %zu scopes", what,
                               rows);
    }
    ferry_status status = open_rows(&opening, rows, count);
    if (status != FERRY_OK)
        (void)ferryi_mpi_guard_close(guard, what);
    return status;
}

ferry_status
ferryi_mpi_guard_close(struct ferryi_mpi_guard *guard, const char *what)
{
    ferry_status first = FERRY_OK;
    while (guard->count > 0) {
        struct ferryi_mpi_piece *piece = &guard->pieces[--guard->count];
        ferry_status status = piece->holds_nothing ? ferry_scope_abandon(&piece->scope)
                                                   : ferry_scope_close(&piece->scope);
        first = first == FERRY_OK ? status : first;
    }
    return first == FERRY_OK ? FERRY_OK : ferryi_mpi_fail_by_ferry(first, what);
}

void
ferryi_mpi_guard_free(struct ferryi_mpi_guard *guard)
{
    (void)ferryi_mpi_guard_close(guard, "end a message");
    free(guard->pieces);
    *guard = (struct ferryi_mpi_guard){.room = 0};
}
