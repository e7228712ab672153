/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BATCH_H
#define FERRYI_BATCH_H

/*
 * Copies many independent pieces between the memories of two places as one transfer. Pieces of
 * pageable memory are packed into chunks of the staging ring, and each chunk is one submission.
 * Pieces that are adjacent on both sides are copied as one.
 *
 * Pieces between two devices are copied directly if the target can access the source's memory.
 * Otherwise they go through the target's ring: the source device packs them into chunks, and the
 * target device unpacks each chunk.
 */

#include "src/transfer/engine.h"

struct ferryi_piece {
    void *target;
    const void *source;
    size_t bytes; /* more than 0 */
    /* the allocations that contain the target and the source, or NULL for the caller's pageable
     * memory. Adjacent pieces are joined only if they lie in the same allocations */
    const void *target_owner, *source_owner;
    uint8_t target_place, source_place; /* 0: the host */
    uint8_t note;                       /* for the caller; the engine does not read it */
    bool pinned;  /* whether the piece's host memory may be accessed directly by the copy engine */
    bool zeros;   /* whether the target is filled with zeros; the piece then has no source */
    bool between; /* whether the target is intermediate memory; the piece then does not count as
                     progress of the job */
};

/* How the pieces are arranged in memory. */
enum ferryi_layout {
    FERRYI_LAYOUT_ANY,
    FERRYI_LAYOUT_ROWS /* the pieces are mostly rows of a rectangle, so two-dimensional copies are
                          tried before batched copies */
};

/*
 * Copies `count` pieces, of which there must be at least one. The pieces must be disjoint and
 * independent. They must all have the same places, `pinned` and `zeros`. The caller must have
 * ordered `timeline` as for ferryi_engine_copy(). Statistics and traces count the pieces as one
 * transfer, or each piece as one transfer if `zeros` is set. job->done is increased by the bytes of
 * each piece, in the order of the pieces.
 */
ferry_status ferryi_engine_copy_pieces(ferryi_engine *engine, const struct ferryi_piece *pieces,
                                       size_t count, enum ferryi_layout layout,
                                       ferryi_timeline *timeline, struct ferryi_transfer_job *job);

#endif
