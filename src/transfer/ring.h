/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RING_H
#define FERRYI_RING_H

/*
 * The staging ring of one device: pinned chunks through which pageable memory crosses.
 *
 * Chunks are made when a transfer finds none idle, up to the ring's count. A transfer takes one,
 * uses it, and gives it back as soon as its last use is queued; the chunk then remembers that use,
 * and the next taker waits for it. So several transfers share a ring, and no lock is held during a
 * copy or a callback. Whoever holds a chunk may only try for another: who blocks holds none, and
 * chunks always come back. Callbacks that run while a transfer holds chunks begin no transfers.
 *
 * A ring belongs to the engine. Its mutex guards the list and is never held across a driver call.
 */

#include "src/base/base.h"
#include "src/stream/timeline.h"
#include "src/transfer/helpers.h"

struct ferryi_chunk {
    void *memory;
    ferryi_sync_point used;    /* queued work that may still use the memory; 0: none */
    size_t bytes;              /* holder's note: how many are on their way */
    struct ferryi_task task;   /* holder's: the copy that fills or drains it */
    struct ferryi_chunk *next; /* in the ring's list of free chunks, or the holder's */
};

/* Chunks of one holder, oldest first. */
struct ferryi_chain {
    struct ferryi_chunk *first, **last;
    size_t count;
};

FERRYI_MUTEX_CLASS(ferryi_ring_mutex);

struct ferryi_ring {
    ferryi_device *device; /* whose pinned memory the chunks are */
    ferryi_order *order;
    size_t chunk_bytes, chunk_count;
    int node; /* the NUMA node whose memory new chunks prefer; -1: any */
    struct ferryi_ring_mutex mutex;
    ferryi_cond given;
    FERRYI_GUARDED_BY(ferryi_ring_mutex) struct {
        struct ferryi_chunk *first, **last; /* free, longest free first */
        size_t made;
    };
};

/* `node` as of the ring. */
void ferryi_ring_init(struct ferryi_ring *ring, ferryi_device *device, ferryi_order *order,
                      size_t chunk_bytes, size_t chunk_count, int node);
/* Wait for all chunks and give them back to the device. No transfer is running. */
void ferryi_ring_clear(struct ferryi_ring *ring);

/*
 * A chunk that nothing uses any more. Without `block`, and when every chunk is held, *out is NULL
 * and the status FERRY_OK. Out of memory matters only when there is no chunk at all.
 */
ferry_status ferryi_ring_take(struct ferryi_ring *ring, bool block, struct ferryi_chunk **out);
void ferryi_ring_give(struct ferryi_ring *ring, struct ferryi_chunk *chunk);

/* Can a chunk be had at all? Makes the first one. Leaves this thread's message alone. */
bool ferryi_ring_is_usable(struct ferryi_ring *ring);

/*
 * All work queued on the timeline so far may use the chunk. On Ferry's own timelines the event is
 * left to whoever waits, or to the next ferryi_timeline_flush(). On a timeline of the program it is
 * recorded now, since nothing may be recorded there later. On failure that work has been waited for
 * if at all possible.
 */
ferry_status ferryi_chunk_mark(struct ferryi_chunk *chunk, ferryi_timeline *timeline);
/* As mark, and the work is waited for now. */
ferry_status ferryi_chunk_settle(struct ferryi_chunk *chunk, ferryi_timeline *timeline);
/* Block until nothing uses the chunk. After a failure it is still pending. */
ferry_status ferryi_chunk_wait(struct ferryi_ring *ring, struct ferryi_chunk *chunk);

void ferryi_chain_push(struct ferryi_chain *chain, struct ferryi_chunk *chunk);
/* The oldest; there is one. */
struct ferryi_chunk *ferryi_chain_pop(struct ferryi_chain *chain);

#endif
