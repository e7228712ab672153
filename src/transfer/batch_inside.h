/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BATCH_INSIDE_H
#define FERRYI_BATCH_INSIDE_H

/* A batch, inside: shared by batch.c, which makes its submissions and chooses its way, and
 * batch_staged.c, the way through a ring. */

#include "src/transfer/batch.h"
#include "src/transfer/run.h"
#include "src/transfer/scatter.h"

struct ferryi_cursor {
    size_t piece, offset;
};

struct ferryi_batch {
    struct ferryi_run *run;
    const struct ferryi_piece *pieces;
    size_t count;
    enum ferryi_layout layout;
    struct ferryi_cursor at;   /* what is submitted next */
    ferryi_timeline *timeline; /* of the submission being made */
    ferry_direction direction;
    struct ferryi_copy *entries;
    size_t room, entry_count;
    const void *last_owner; /* on the side that is not the chunk's, of the last entry */
    struct ferryi_scatter_entry
        *table; /* behind the packed bytes of the chunk, or in one by itself; NULL: there is none */
    size_t table_at;   /* in a chunk; its end: there is none */
    size_t packed_max; /* bytes of a chunk that are used */
};

/* Append to the submission being made; what goes on where the last entry ends, in memory of the
 * same owner, is part of that. */
void ferryi_batch_add(struct ferryi_batch *batch, void *target, const void *source, size_t bytes,
                      const void *owner);
/* One device call if the device has one for this, else one for each entry. `*out_bytes` is what was
 * queued, also after a failure. */
ferry_status ferryi_batch_submit(struct ferryi_batch *batch, size_t *out_bytes);

/* How much of the piece at the cursor goes where there is `room` left of `whole`; 0 when it is
 * better off in the next. */
size_t ferryi_batch_part(const struct ferryi_batch *batch, struct ferryi_cursor at, size_t room,
                         size_t whole);
void ferryi_batch_advance(const struct ferryi_batch *batch, struct ferryi_cursor *at, size_t bytes);

/* Before the other two: room behind the packed bytes for what the scatter kernel reads, where it
 * may be needed and leaves enough. */
void ferryi_batch_plan_chunks(struct ferryi_batch *batch, const struct ferryi_ring *ring);
ferry_status ferryi_batch_upload(struct ferryi_batch *batch, struct ferryi_ring *ring);
/* Chunk after chunk from the source's device, on to the host or, where the run has a second
 * timeline, to another device. */
ferry_status ferryi_batch_download(struct ferryi_batch *batch, struct ferryi_ring *ring);

#endif
