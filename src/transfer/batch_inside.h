/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BATCH_INSIDE_H
#define FERRYI_BATCH_INSIDE_H

/* The internals of a batch, which copies one or many pieces as one transfer. batch.c chooses how
 * the pieces are copied, and submits the copies to the device. batch_staged.c implements the copy
 * of many pieces through a staging ring. */

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
    struct ferryi_cursor at;   /* the first byte that is not submitted yet */
    ferryi_timeline *timeline; /* the timeline of the current submission */
    ferry_direction direction;
    struct ferryi_copy *entries; /* has room for `room` copies, of which `entry_count` are used */
    size_t room, entry_count;
    const struct ferryi_pin *pin; /* the registered range that contains the only piece of the batch,
                                     which need not lie within one part of it; or NULL */
    /* the table that the scatter kernel reads; it lies behind the packed bytes of the chunk or in a
     * separate chunk. NULL if there is no table */
    struct ferryi_scatter_entry *table;
};

/* Submits the batch's collected copies in one device call if the device supports that, and
 * otherwise one by one. Sets `*out_bytes` to the number of bytes that were queued, even if the call
 * fails. */
ferry_status ferryi_batch_submit(struct ferryi_batch *batch, size_t *out_bytes);

/* Returns how many bytes of the piece at the cursor `at` go into the current submission. A
 * submission holds `whole` bytes, of which `room` are still unused. Returns 0 if the rest of the
 * piece does not fit into the current submission but fits completely into the next one. */
size_t ferryi_batch_part(const struct ferryi_batch *batch, struct ferryi_cursor at, size_t room,
                         size_t whole);
void ferryi_batch_advance(const struct ferryi_batch *batch, struct ferryi_cursor *at, size_t bytes);

/* Copies the batch's pieces, starting at the batch's cursor, through chunks of the staging ring.
 * The copy is between the host and a device, or between two devices. Between devices, the run's
 * second timeline belongs to the source device. */
ferry_status ferryi_batch_stage(struct ferryi_batch *batch, struct ferryi_ring *ring);

#endif
