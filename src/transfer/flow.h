/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_FLOW_H
#define FERRYI_FLOW_H

/*
 * A flow moves the bytes of one transfer through a staging ring. It takes free chunks, fills them
 * from a source, and drains them to a sink in the same order. A source or a sink is one function.
 * There are such functions for one range of host memory or device memory (staged.c), for many
 * pieces of memory (batch_staged.c), and for a file (file_transfer.c).
 *
 * A source or sink function may return before a chunk is filled or drained, in two cases:
 * - The function has queued a copy on a device and recorded this use of the chunk.
 * - The function has submitted the copy to the helper threads, as the chunk's task.
 *
 * Before the flow drains a chunk, it waits for the recorded use and for the task. After draining,
 * the flow waits only for the task. So it may return a chunk to the ring while a device still reads
 * the chunk. The next transfer that takes the chunk waits for the device.
 *
 * If helper threads fill chunks, the calling thread drains a chunk as soon as it is filled, and
 * makes the copies of other chunks only while none is ready.
 *
 * The flow counts chunks and bytes, reports progress, and checks after each chunk whether the
 * transfer was cancelled. After a failure, it returns all its chunks to the ring.
 */

#include "src/transfer/run.h"

struct ferryi_flow;

/* Begins to fill the chunk with bytes of the transfer, starting at byte `flow->filled`. Sets
 * `chunk->bytes` to the number of these bytes. */
typedef ferry_status ferryi_flow_fill(struct ferryi_flow *flow, struct ferryi_chunk *chunk);
/* Begins to drain the chunk, whose first byte is byte `flow->drained` of the transfer. Sets
 * `chunk->bytes` to the number of bytes that leave the chunk. After a failure, this number may be
 * smaller than the number of bytes in the chunk, or 0. */
typedef ferry_status ferryi_flow_drain(struct ferryi_flow *flow, struct ferryi_chunk *chunk);

struct ferryi_flow {
    struct ferryi_run *run;
    struct ferryi_ring *ring;
    ferryi_flow_fill *fill;
    ferryi_flow_drain *drain;
    size_t limit;  /* maximum number of chunks that the flow holds */
    size_t window; /* maximum number of chunks that are drained at the same time; 0 means 1 */
    char *target; /* address of the target's first byte; NULL: the target is not one range of memory
                   */
    const char *source; /* address of the source's first byte; NULL: the source is not one range of
                           memory */
    size_t touched; /* number of bytes of the target that the first wait loads into the caches */
    void *user;     /* data for the functions `fill` and `drain` */
    size_t filled;  /* number of bytes whose filling has begun */
    size_t drained; /* number of bytes in the chunks whose draining has begun or ended */
    struct ferryi_chain filling, draining;
};

/* Copies the bytes of the transfer through the ring. Begins at the byte after those that
 * have arrived. */
ferry_status ferryi_flow_run(struct ferryi_flow *flow);

/* Queues the download of `chunk->bytes` bytes into the chunk. They begin at byte `flow->filled` of
 * `flow->source`, which is memory of the source's device. */
ferry_status ferryi_flow_fetch(struct ferryi_flow *flow, struct ferryi_chunk *chunk);
/* Records that the downloads into the chunk, which are queued on the source device's timeline, use
 * the chunk. If the chunk holds the whole transfer, waits for these downloads instead. */
ferry_status ferryi_flow_mark_fetched(struct ferryi_flow *flow, struct ferryi_chunk *chunk);
/* Queues the upload of the chunk to `flow->target`, which is memory of the target's device. */
ferryi_flow_drain ferryi_flow_send;

#endif
