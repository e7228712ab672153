/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RING_H
#define FERRYI_RING_H

/*
 * A staging ring is a set of pinned chunks through which pageable memory is copied to and from one
 * device.
 *
 * A transfer that finds no free chunk allocates one, up to the ring's maximum number of chunks. A
 * transfer takes a chunk, uses it, and returns it as soon as the last use of the chunk is queued.
 * The chunk records that use, and the next transfer that takes the chunk waits for the recorded
 * use. So several transfers share a ring, and no lock is held during a copy or a callback.
 *
 * To prevent deadlocks, a thread that holds a chunk must not wait until a different chunk is
 * returned. So no waiting thread holds a chunk, and each chunk is eventually returned. A callback
 * that runs while a transfer holds chunks must not begin a transfer.
 *
 * A ring belongs to the engine. The ring's mutex guards the list of free chunks and is never held
 * during a driver call.
 */

#include "src/base/base.h"
#include "src/stream/timeline.h"
#include "src/transfer/helpers.h"

struct ferryi_chunk {
    void *memory;
    ferryi_sync_point used; /* the queued work that may still use the chunk's memory; 0: none */
    size_t bytes; /* number of bytes that the chunk carries now; only the transfer that holds the
                     chunk uses this */
    struct ferryi_task task; /* the copy that the helper threads make to fill or drain the chunk;
                                only the transfer that holds the chunk uses this */
    /* next chunk in the ring's list of free chunks, or in the list of the transfer that holds the
     * chunk */
    struct ferryi_chunk *next;
};

/* A list of chunks, oldest first: the ring's free chunks, or the chunks that one transfer holds. */
struct ferryi_chain {
    struct ferryi_chunk *first, **last;
    size_t count;
};

FERRYI_MUTEX_CLASS(ferryi_ring_mutex);

struct ferryi_ring {
    ferryi_device *device; /* the device that allocates the chunks' pinned memory */
    ferryi_order *order;
    size_t chunk_bytes, chunk_count;
    int node; /* the NUMA node on which new chunks are allocated if possible; -1: any node */
    struct ferryi_ring_mutex mutex;
    ferryi_cond given;
    FERRYI_GUARDED_BY(ferryi_ring_mutex) struct {
        struct ferryi_chain free; /* free chunks, longest free first */
        size_t made;
    };
};

/* Initialises a ring without chunks. `node` is the NUMA node on which new chunks are allocated if
 * possible, or -1 for any node. */
void ferryi_ring_init(struct ferryi_ring *ring, ferryi_device *device, ferryi_order *order,
                      size_t chunk_bytes, size_t chunk_count, int node);
/* Waits for the queued work that uses the ring's chunks, then frees all chunks. No transfer may be
 * running. */
void ferryi_ring_clear(struct ferryi_ring *ring);

/*
 * Takes a chunk from the ring, and waits until no queued work uses it. If all chunks are held,
 * `block` decides: if it is true, waits until a chunk is returned; otherwise sets `*out` to NULL.
 * Fails for lack of memory only if the ring has no chunk at all.
 */
ferry_status ferryi_ring_take(struct ferryi_ring *ring, bool block, struct ferryi_chunk **out);
void ferryi_ring_give(struct ferryi_ring *ring, struct ferryi_chunk *chunk);

/*
 * Records that all work queued on the timeline so far may use the chunk.
 *
 * On an internal timeline of Ferry, the function records no event. The first thread that waits for
 * the chunk, or the next ferryi_timeline_flush(), records the event. On a timeline of the program,
 * the function records the event at once, because Ferry may not record events there later.
 *
 * If recording fails, the function waits for the work. So after a failure the work is complete,
 * unless the wait failed as well.
 */
ferry_status ferryi_chunk_mark(struct ferryi_chunk *chunk, ferryi_timeline *timeline);
/* Records that the work queued on the timeline so far uses the chunk, and then waits for this work.
 */
ferry_status ferryi_chunk_settle(struct ferryi_chunk *chunk, ferryi_timeline *timeline);
/* Waits until no queued work uses the chunk. If the wait fails, the chunk still counts as used by
 * that work. */
ferry_status ferryi_chunk_wait(struct ferryi_ring *ring, struct ferryi_chunk *chunk);

void ferryi_chain_push(struct ferryi_chain *chain, struct ferryi_chunk *chunk);
/* Removes and returns the oldest chunk of a list of chunks. The list must not be empty. */
struct ferryi_chunk *ferryi_chain_pop(struct ferryi_chain *chain);

#endif
