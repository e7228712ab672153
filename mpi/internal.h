/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MPI_INTERNAL_H
#define FERRYI_MPI_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include <ferry/mpi.h>

/* What the files of ferry-mpi share. The library uses only public functions of Ferry. */

#define FERRYI_MPI_CHUNKS_LIMIT 8 /* chunks of one message that are in use at once */
#define FERRYI_MPI_SMALL_CHUNK                                                                     \
    ((size_t)64 << 10) /* ranges up to this size take no chunk of full size */

/* Host memory, page-locked where a device can do that. */
struct ferryi_mpi_chunk {
    struct ferryi_mpi_chunk *next; /* in the list of free ones */
    char *memory;
    size_t bytes;
    bool registered;
};

struct ferry_mpi {
    ferry_context *context;
    MPI_Comm communicator; /* our duplicate */
    int rank, size;
    size_t chunk_bytes;  /* equal on all ranks */
    size_t window;       /* chunks of one message that are in use at once */
    size_t guarded_rows; /* of a range that is protected while it goes through chunks */
    ferry_mpi_path path;
    bool cuda_aware;
    struct ferryi_mpi_chunk *free_chunks;
    ferry_stream **streams; /* by place; NULL where none was needed yet */
};

/* -- communicator.c: errors and chunks -- */

/* Each sets the message of ferry_mpi_last_error(). */
ferry_status ferryi_mpi_fail(ferry_status status, const char *format, ...) FERRY_PRINTF(2, 3);
/* With the text of ferry_last_error(). Returns `status`. */
ferry_status ferryi_mpi_fail_by_ferry(ferry_status status, const char *what);
/* With MPI's text of `code`, which is not MPI_SUCCESS. */
ferry_status ferryi_mpi_fail_by_mpi(int code, const char *what);
/* Checks that `mpi` is not NULL and that MPI still works. */
ferry_status ferryi_mpi_check(const ferry_mpi *mpi, const char *what);

ferry_status ferryi_mpi_chunk_take(ferry_mpi *mpi, size_t bytes, struct ferryi_mpi_chunk **out);
/* Gives a chunk back and sets `*chunk` to NULL, which has no effect. */
void ferryi_mpi_chunk_give(ferry_mpi *mpi, struct ferryi_mpi_chunk **chunk);
/*
 * Sets `*out` to the stream of the scopes at a device, which is used for nothing else. A scope does
 * not conflict with work on its own stream, so a stream of the program would let its kernels use
 * the range.
 */
ferry_status ferryi_mpi_stream(ferry_mpi *mpi, int place, ferry_stream **out);

/* -- datatype.c -- */

/* Returns MPI's type of a scalar; MPI_DATATYPE_NULL when MPI has none, and for structs. */
MPI_Datatype ferryi_mpi_scalar_type(const ferry_element *element);

/* -- side.c: one range during a call -- */

/* Largest number of regions of a part of a range: rest of a row, whole rows, start of a row. */
#define FERRYI_MPI_REGIONS 3

struct ferryi_mpi_side {
    ferry_mpi_range range; /* with an element, a count and a pitch */
    size_t element_bytes;
    size_t elements; /* count * rows */
    ferry_access access;
    char *pointer;     /* what MPI gets; NULL: the range goes through chunks */
    ferry_scope scope; /* {0} when none is open */
    bool keeps;        /* also after a failure the newest bytes are those of the scope */
};

/* Where the newest values of a range are. */
struct ferryi_mpi_presence {
    uint32_t places; /* bits of the places where every written byte of the range is current */
    bool written;    /* some byte of the range was written */
};

/* Checks a range and fills in its defaults. */
ferry_status ferryi_mpi_side_resolve(struct ferryi_mpi_side *side, ferry_mpi *mpi,
                                     const ferry_mpi_range *range, const char *what);
ferry_status ferryi_mpi_side_find(const struct ferryi_mpi_side *side, size_t offset, size_t count,
                                  struct ferryi_mpi_presence *out, const char *what);
/*
 * Finds out how the range travels. If MPI may get its pointer, the call opens the scope.
 * `may_be_direct`: the caller can use a pointer.
 */
ferry_status ferryi_mpi_side_open(struct ferryi_mpi_side *side, ferry_mpi *mpi, ferry_access access,
                                  bool may_be_direct, const char *what);
/* Publishes what was written when `succeeded`. After a failure places that have the old values keep
 * them. */
ferry_status ferryi_mpi_side_close(struct ferryi_mpi_side *side, bool succeeded, const char *what);
/*
 * Copies elements `begin` to `begin + count` of the range to or from packed memory. With `blocks` >
 * 1 the range is that many blocks of equal length, and `begin` and `count` are of each block.
 */
ferry_status ferryi_mpi_side_pack(const struct ferryi_mpi_side *side, size_t begin, size_t count,
                                  size_t blocks, void *memory, const char *what);
ferry_status ferryi_mpi_side_unpack(const struct ferryi_mpi_side *side, size_t begin, size_t count,
                                    size_t blocks, void *memory, const char *what);
/* Describes the elements `begin` to `begin + count` as regions of a copy to or from `memory`.
 * Returns their number. */
size_t ferryi_mpi_side_list(const struct ferryi_mpi_side *side, bool to_memory, size_t begin,
                            size_t count, char *memory,
                            ferry_copy_region regions[FERRYI_MPI_REGIONS]);

/* -- guard.c: a range that goes through chunks -- */

/* One scope. */
struct ferryi_mpi_piece {
    ferry_scope scope;
    bool holds_nothing; /* what the scope's place has is no value of the range */
};

/* Scopes that together cover a range. They protect it, and nothing is read or written through them.
 */
struct ferryi_mpi_guard {
    struct ferryi_mpi_piece *pieces;
    size_t count, room;
};

/*
 * Opens the scopes of a range. Without effect if they are open, and for ranges of more than
 * mpi->guarded_rows rows. The scopes are where the bytes are current, so that none is copied and
 * the values stay.
 */
ferry_status ferryi_mpi_guard_open(struct ferryi_mpi_guard *guard, ferry_mpi *mpi,
                                   const struct ferryi_mpi_side *side, const char *what);
/* Closes the scopes. The range has the same values as before. */
ferry_status ferryi_mpi_guard_close(struct ferryi_mpi_guard *guard, const char *what);
void ferryi_mpi_guard_free(struct ferryi_mpi_guard *guard);

#endif
