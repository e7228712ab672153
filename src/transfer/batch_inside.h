/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BATCH_INSIDE_H
#define FERRYI_BATCH_INSIDE_H

/* Declares the internals of a batch, which copies one or many pieces of memory as one transfer.
 * batch.c chooses how the pieces are copied, and submits the copies to the device. batch_staged.c
 * copies many pieces through a staging ring. */

#include "src/transfer/batch.h"
#include "src/transfer/host_side.h"
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
    const struct ferryi_host_side *host_side; /* or NULL */
    struct ferryi_cursor at;                  /* the first byte that is not submitted yet */
    ferryi_timeline *timeline;                /* the timeline of the current submission */
    ferry_direction direction;
    /* An array of `room` copies, of which the first `entry_count` are used. */
    struct ferryi_copy *entries;
    size_t room, entry_count;
    /* The registered range that contains the batch's only piece, or NULL. The piece may extend
     * over several separately registered parts of the range. */
    const struct ferryi_pin *pin;
    /* the scatter kernel's table of copies, or NULL if there is no table. The table lies in a chunk
     * of the staging ring, behind the packed bytes if the chunk carries any */
    struct ferryi_scatter_entry *table;
};

/* Submits the batch's collected copies in one device call if the device supports that, and
 * otherwise one by one. Sets `*out_bytes` to the number of bytes that were queued, even if the call
 * fails. */
ferry_status ferryi_batch_submit(struct ferryi_batch *batch, size_t *out_bytes);

/* Returns how many bytes of the piece at the cursor `at` go into the current submission. A
 * submission has at most `whole` bytes, and the current submission can take `room` more. Returns 0
 * if the rest of the piece does not fit into the current submission but fits completely into the
 * next one. */
size_t ferryi_batch_part(const struct ferryi_batch *batch, struct ferryi_cursor at, size_t room,
                         size_t whole);
void ferryi_batch_advance(const struct ferryi_batch *batch, struct ferryi_cursor *at, size_t bytes);

/* Copies the batch's pieces through chunks of the staging ring, starting at the batch's cursor. The
 * copy is between the host and a device, or between two devices. For a copy between two devices,
 * `run->second` must be a timeline of the source device. */
ferry_status ferryi_batch_stage(struct ferryi_batch *batch);

#endif
