/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BATCH_H
#define FERRYI_BATCH_H

/*
 * Copies many independent pieces of memory between two places as one transfer. Pieces of pageable
 * memory are packed into chunks of the staging ring, and each chunk is one submission. Pieces that
 * are adjacent in both the source and the target are copied as one.
 *
 * Pieces are copied directly between two devices if the target device can access the memory of the
 * source device. Otherwise they go through the staging ring of the target device: the source device
 * packs the pieces into chunks, and the target device unpacks each chunk.
 */

#include "src/transfer/engine.h"

struct ferryi_piece {
    void *target;
    const void *source;
    size_t bytes; /* more than 0. If the elements are converted, the bytes of the side that is
                     device memory, and within one device or the host those of the target */
    /* the allocations that contain the target and the source; NULL: the caller's pageable memory.
     * Adjacent pieces are joined only if they lie in the same allocations */
    const void *target_owner, *source_owner;
    uint8_t target_place, source_place; /* 0: the host */
    uint8_t note;  /* free for use by the caller; the transfer engine does not read it */
    bool pinned;   /* whether the piece's host memory may be accessed directly by the copy engine */
    bool zeros;    /* whether the target is filled with zeros; the piece then has no source */
    uint32_t unit; /* size of the elements that are never cut, in the bytes that `bytes` counts; 0:
                      the piece may be cut anywhere */
    bool between; /* whether the target is intermediate memory for a later copy; the piece then does
                     not count as progress of the job */
};

/* How the pieces of a batch are arranged in memory. */
enum ferryi_layout {
    FERRYI_LAYOUT_ANY,
    FERRYI_LAYOUT_ROWS /* most pieces are rows of a rectangle, so a two-dimensional copy is tried
                          before a batched copy */
};

struct ferryi_host_side;

/*
 * Copies `count` pieces of memory. `count` must not be 0. The pieces must be disjoint and
 * independent. All pieces must have the same places and the same values of `pinned` and `zeros`.
 * The caller must have ordered `timeline` as for ferryi_engine_copy().
 *
 * If `host_side` is not NULL, the host's side of the pieces, whose place is 0, is a file or has
 * elements of another type (host_side.h). Only if it is a file may pieces have `zeros`. Pieces
 * within a device are converted there, if the device can (`queues_at` of the transform).
 *
 * Statistics and traces count all pieces together as one transfer. The pieces are copied in order,
 * and job->done is increased by the bytes of the target of each piece.
 */
ferry_status ferryi_engine_copy_pieces(ferryi_engine *engine, const struct ferryi_piece *pieces,
                                       size_t count, enum ferryi_layout layout,
                                       const struct ferryi_host_side *host_side,
                                       ferryi_timeline *timeline, struct ferryi_transfer_job *job);

/* Fills the memory of the pieces, which have no sources, with copies of a value. They are otherwise
 * as in ferryi_engine_copy_pieces(), and filled in order. Statistics count one or several fills. */
ferry_status ferryi_engine_fill_pieces(ferryi_engine *engine, const struct ferryi_piece *pieces,
                                       size_t count, const void *value, size_t value_bytes,
                                       ferryi_timeline *timeline, struct ferryi_transfer_job *job);

#endif
