/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_FLOW_H
#define FERRYI_FLOW_H

/*
 * The flow of one transfer through a staging ring. A flow takes free chunks, fills them from a
 * source, and drains them to a sink in the same order. A source or a sink is one function: for host
 * memory or a device's memory (staged.c), for pieces of memory (batch_staged.c), or for a file
 * (file_transfer.c).
 *
 * These functions may return before a chunk is filled or drained. Either they queue a copy on a
 * device and record it as the chunk's use, or they submit the chunk's task to the helpers. The flow
 * waits for both before it drains the chunk. After draining it waits only for the task: it returns
 * a chunk that a device still reads, because the next transfer that takes the chunk waits for the
 * device.
 *
 * The flow counts chunks and bytes, reports progress, and checks for a cancel after each chunk.
 * After a failure it returns all chunks.
 */

#include "src/transfer/run.h"

struct ferryi_flow;

/* Begins to fill the chunk with bytes of the transfer, from byte `flow->filled`. Sets
 * `chunk->bytes`. */
typedef ferry_status ferryi_flow_fill(struct ferryi_flow *flow, struct ferryi_chunk *chunk);
/* Begins to drain the chunk, whose first byte is byte `flow->drained` of the transfer. Sets
 * `chunk->bytes` to the number of bytes that leave the chunk, which after a failure may be smaller
 * or 0. */
typedef ferry_status ferryi_flow_drain(struct ferryi_flow *flow, struct ferryi_chunk *chunk);

struct ferryi_flow {
    struct ferryi_run *run;
    struct ferryi_ring *ring;
    ferryi_flow_fill *fill;
    ferryi_flow_drain *drain;
    size_t limit;  /* maximum number of chunks that the flow holds */
    size_t window; /* maximum number of chunks that are drained at once; 0 and 1: one */
    char *target;  /* byte 0 of the target, for the functions; NULL: the target is not one range of
                      memory */
    const char *source; /* byte 0 of the source, for the functions; NULL: the source is not one
                           range of memory */
    void *user;         /* for the functions */
    size_t filled;      /* number of bytes in all chunks so far */
    size_t drained;     /* number of bytes in the chunks that were or are being drained */
    struct ferryi_chain filling, draining;
};

/* Runs the flow from byte `run->done` to the end of the transfer. */
ferry_status ferryi_flow_run(struct ferryi_flow *flow);

/* Queues the download of `chunk->bytes` bytes, from byte `flow->filled` of `flow->source`, which is
 * memory of the source's device. */
ferry_status ferryi_flow_fetch(struct ferryi_flow *flow, struct ferryi_chunk *chunk);
/* Records the downloads into the chunk that were queued on the timeline. Waits for them if the
 * chunk holds the whole transfer. */
ferry_status ferryi_flow_mark_fetched(struct ferryi_flow *flow, struct ferryi_chunk *chunk,
                                      ferryi_timeline *timeline);
/* Queues the upload of the chunk to `flow->target`, which is memory of the target's device. */
ferryi_flow_drain ferryi_flow_send;

#endif
