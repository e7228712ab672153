/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_RING_H
#define FERRYI_RING_H

/*
 * The staging ring of one device: pinned chunks through which pageable memory is copied.
 *
 * A transfer that finds no free chunk allocates one, up to the ring's maximum number of chunks. A
 * transfer takes a chunk, uses it, and returns it as soon as the last use of the chunk is queued.
 * The chunk records that use, and the next transfer that takes the chunk waits for the use. So
 * several transfers share a ring, and no lock is held during a copy or a callback. A thread that
 * holds a chunk must not wait for another chunk. So every thread that waits holds none, and the
 * chunks that it waits for are always returned. Callbacks that run while a transfer holds chunks
 * must not begin transfers.
 *
 * A ring belongs to the engine. Its mutex guards the list and is never held across a driver call.
 */

#include "src/base/base.h"
#include "src/stream/timeline.h"
#include "src/transfer/helpers.h"

/* Size of a chunk in a ring of large chunks. Large chunks are used if each chunk costs driver
 * calls. Small chunks stay in the caches between being filled and drained, so the bytes cross the
 * memory bus one time less. */
#define FERRYI_LARGE_CHUNK_BYTES ((size_t)2 << 20)

struct ferryi_chunk {
    void *memory;
    ferryi_sync_point used;  /* queued work that may still use the memory; 0: none */
    size_t bytes;            /* number of bytes in flight in the chunk; only the holder uses it */
    struct ferryi_task task; /* the copy that the helpers make to fill or drain the chunk; only the
                                chunk's holder uses it */
    struct ferryi_chunk *next; /* next in the ring's list of free chunks, or in the holder's list */
};

/* Chunks of one holder, oldest first. */
struct ferryi_chain {
    struct ferryi_chunk *first, **last;
    size_t count;
};

FERRYI_MUTEX_CLASS(ferryi_ring_mutex);

struct ferryi_ring {
    ferryi_device *device; /* the device that allocates the chunks' pinned memory */
    ferryi_order *order;
    size_t chunk_bytes, chunk_count;
    int node; /* the NUMA node on which new chunks are preferably allocated; -1: any */
    struct ferryi_ring_mutex mutex;
    ferryi_cond given;
    FERRYI_GUARDED_BY(ferryi_ring_mutex) struct {
        struct ferryi_chunk *first, **last; /* free chunks, longest free first */
        size_t made;
    };
};

/* Initialises an empty ring. `node` is the value of the ring's member `node`. */
void ferryi_ring_init(struct ferryi_ring *ring, ferryi_device *device, ferryi_order *order,
                      size_t chunk_bytes, size_t chunk_count, int node);
/* Waits for the work that uses the chunks, then frees all chunks. No transfer may be running. */
void ferryi_ring_clear(struct ferryi_ring *ring);

/*
 * Takes a chunk, and waits until no queued work uses it. If all chunks are held and `block` is set,
 * waits until a chunk is returned. If `block` is not set, sets `*out` to NULL instead. Fails for
 * lack of memory only if the ring has no chunk at all.
 */
ferry_status ferryi_ring_take(struct ferryi_ring *ring, bool block, struct ferryi_chunk **out);
void ferryi_ring_give(struct ferryi_ring *ring, struct ferryi_chunk *chunk);

/* Whether the ring has a chunk or can allocate its first one. If the ring has none, tries to
 * allocate one. Keeps this thread's error message. */
bool ferryi_ring_is_usable(struct ferryi_ring *ring);

/*
 * Records that all work queued on the timeline so far may use the chunk. On Ferry's internal
 * timelines, no event is recorded yet: the first thread that waits records it, or the next
 * ferryi_timeline_flush(). On the program's timelines the event is recorded now, because Ferry may
 * not record events there later. If recording fails, the call waits for the work, so after a
 * failure it is complete unless the wait failed too.
 */
ferry_status ferryi_chunk_mark(struct ferryi_chunk *chunk, ferryi_timeline *timeline);
/* Does the same as ferryi_chunk_mark(), and then waits for the work. */
ferry_status ferryi_chunk_settle(struct ferryi_chunk *chunk, ferryi_timeline *timeline);
/* Waits until no queued work uses the chunk. If the wait fails, the chunk's use stays recorded. */
ferry_status ferryi_chunk_wait(struct ferryi_ring *ring, struct ferryi_chunk *chunk);

void ferryi_chain_push(struct ferryi_chain *chain, struct ferryi_chunk *chunk);
/* Removes and returns the oldest chunk. The chain must not be empty. */
struct ferryi_chunk *ferryi_chain_pop(struct ferryi_chain *chain);

#endif
