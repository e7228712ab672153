/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BATCH_H
#define FERRYI_BATCH_H

/*
 * Many copies as one transfer: independent pieces between the memories of two places. Pieces of
 * pageable memory are packed into chunks of the staging ring, so that each chunk is one submission;
 * what lies side by side is submitted as one piece. Between devices they go as those inside a
 * device do; where the target cannot reach the source, through the target's ring: packed by the
 * source, and each chunk of them unpacked by the target.
 */

#include "src/transfer/engine.h"

struct ferryi_piece {
    void *target;
    const void *source;
    size_t bytes;                            /* more than 0 */
    const void *target_owner, *source_owner; /* whose memory: pieces of one owner that touch may be
                                                joined; NULL: the caller's, pageable */
    uint8_t target_place, source_place;      /* 0 host */
    uint8_t note;                            /* the caller's own */
    bool pinned;  /* the host's side, if there is one, is memory that the copy engine may use */
    bool zeros;   /* no source: the target becomes zero */
    bool between; /* the target is an intermediate one: no progress is reported for it */
};

/* How the pieces lie. */
enum ferryi_layout {
    FERRYI_LAYOUT_ANY,
    FERRYI_LAYOUT_ROWS /* as rows of a rectangle, as far as they go: two-dimensional copies are
                          preferred to batched ones */
};

/*
 * Copy `count` >= 1 pieces that are disjoint, independent, and alike in places, `pinned` and
 * `zeros`. `timeline` as for ferryi_engine_copy(). One transfer in counts and traces, except of
 * zeros, where each piece is one. job->done grows by the bytes of the pieces in their order.
 */
ferry_status ferryi_engine_copy_pieces(ferryi_engine *engine, const struct ferryi_piece *pieces,
                                       size_t count, enum ferryi_layout layout,
                                       ferryi_timeline *timeline, struct ferryi_transfer_job *job);

#endif
