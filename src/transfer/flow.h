/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_FLOW_H
#define FERRYI_FLOW_H

/*
 * The flow of one transfer through a staging ring. A flow takes free chunks, fills them from a
 * source, and drains them to a sink in the same order. A source or a sink is one function: host
 * memory and memory of a device (staged.c), pieces of memory (batch_staged.c), or a file
 * (file_transfer.c).
 *
 * A function may only begin to fill or drain a chunk: by a copy that it queues on a device and
 * records as the chunk's use, or by the chunk's task for the helpers. The flow waits for both
 * before it drains the chunk, and for the task before it returns the chunk to the ring. A chunk
 * that a device still reads is returned at once, since the next transfer that takes the chunk
 * waits.
 *
 * The flow counts chunks and bytes, reports progress, and checks for a cancel after each chunk.
 * After a failure it returns all chunks.
 */

#include "src/transfer/run.h"

struct ferryi_flow;

/* Begins to fill the chunk with the bytes from `flow->filled` on, and sets `chunk->bytes`. */
typedef ferry_status ferryi_flow_fill(struct ferryi_flow *flow, struct ferryi_chunk *chunk);
/* Begins to drain the chunk, whose first byte is byte `flow->drained` of the transfer. Sets
 * `chunk->bytes` to the bytes that leave the chunk: after a failure these may be fewer, or 0. */
typedef ferry_status ferryi_flow_drain(struct ferryi_flow *flow, struct ferryi_chunk *chunk);

struct ferryi_flow {
    struct ferryi_run *run;
    struct ferryi_ring *ring;
    ferryi_flow_fill *fill;
    ferryi_flow_drain *drain;
    size_t limit;       /* maximum number of chunks that the flow holds */
    size_t window;      /* maximum number of chunks that are drained at once; 0: one */
    char *target;       /* for the functions; NULL: not a range of memory */
    const char *source; /* for the functions; NULL: not a range of memory */
    void *user;         /* for the functions */
    size_t filled;      /* bytes of the transfer up to the last chunk that was begun to be filled */
    size_t drained; /* bytes of the transfer up to the last chunk that was begun to be drained */
    struct ferryi_chain filling, draining;
};

/* Runs the flow from byte `run->done` to the end of the transfer. */
ferry_status ferryi_flow_run(struct ferryi_flow *flow);

/* Queues the download of `chunk->bytes` bytes from `flow->source`, in memory of the source's
 * device.
 */
ferry_status ferryi_flow_fetch(struct ferryi_flow *flow, struct ferryi_chunk *chunk);
/* Records the downloads into the chunk that were queued on the timeline. Waits for them if no other
 * chunk of this transfer could be filled meanwhile. */
ferry_status ferryi_flow_mark_fetched(struct ferryi_flow *flow, struct ferryi_chunk *chunk,
                                      ferryi_timeline *timeline);
/* Queues the upload of the chunk to `flow->target`, in memory of the target's device. */
ferryi_flow_drain ferryi_flow_send;

#endif
