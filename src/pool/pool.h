/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_POOL_H
#define FERRYI_POOL_H

/*
 * The pool: memory of one place and kind, handed out in blocks and kept when they come back.
 *
 * Sizes: multiples of 256 bytes below 2 KiB, eight classes per doubling above, so that waste stays
 * within 12.5 %. Blocks up to 1 MiB are carved from slabs that all classes share, and neighbours
 * become one piece again before more memory is asked for; larger ones are allocated and cached one
 * by one; above the largest class (1 GiB) a request gets its exact size rounded to 4 KiB. Blocks
 * carry their descriptor: a release looks nothing up. A block that queued work still uses carries
 * one sync point (timeline.h), several uses having been joined into one. A take on a timeline
 * prefers idle blocks already ordered for it, then lets the timeline wait for the sync point of
 * another; a take for the host takes only blocks whose work is done, and before it asks the device
 * for more it asks whether pending ones are done by now.
 *
 * What comes back goes into magazines of the thread, and out of them again without a lock
 * (magazine.h).
 *
 * The pool knows no buffers. Its mutex is a leaf: no driver call, allocation or callback under it.
 * The memory comes from a backend of two functions, so that an application can feed a pool from its
 * own allocator.
 */

#include <ferry/pool.h>

#include "src/base/base.h"
#include "src/base/sanitizer.h"
#include "src/pool/allocation_log.h"
#include "src/stream/timeline.h"

#define FERRYI_POOL_ALIGN 256

#if FERRYI_ADDRESS_SANITIZER || defined(FERRYI_DEBUG_CHECKS)
#define FERRYI_POOL_GUARDED 1 /* blocks have red zones (red_zone.h) */
#endif

/* Where slabs and large blocks come from. `alloc` returns memory aligned to `align`; both may block
 * and be called from any thread. A call that fails has done nothing: memory that could not be freed
 * is kept and cached. */
struct ferryi_pool_backend {
    ferry_status (*alloc)(void *user, size_t bytes, void **out);
    ferry_status (*free)(void *user, void *memory, size_t bytes);
    /* What there is, for messages; NULL: unknown. */
    ferry_status (*info)(void *user, size_t *out_free, size_t *out_total);
    void *user;
    size_t align;    /* a power of two, at least FERRYI_POOL_ALIGN, which 0 means too */
    bool free_waits; /* `free` waits for all work of a device */
};

/*
 * What the holders of blocks do for a pool that runs short, or compacts; members may be NULL.
 * Called with no lock held, on the thread that takes or compacts, by several at once.
 */
struct ferryi_pool_holders {
    /* Give up blocks of this pool that are not in use, until `needed` bytes came back or there are
     * no more. Without `dirty_too` only those whose bytes are held elsewhere too: no traffic. Must
     * not take from this pool. @return the bytes given back; 0: none could be */
    size_t (*evict)(void *user, ferry_pool *pool, size_t needed, bool dirty_too);
    /* Take other blocks for those that ferryi_block_is_leaving(), where they are not in use, and
     * move the bytes. @return the bytes moved */
    size_t (*relocate)(void *user, ferry_pool *pool);
    void *user;
};

struct ferryi_pool_config {
    struct ferryi_pool_backend backend;
    struct ferryi_pool_holders holders;
    ferryi_order *order; /* NULL: blocks never carry sync points and are taken without timelines */
    const struct ferryi_log *log;
    ferry_context *context; /* opaque: answers only "whose is it" */
    int place; /* where blocks live; timelines of other places may use pinned and managed memory */
    ferry_memory_kind kind;
    size_t limit_bytes; /* of memory taken from the backend, where the options name none; 0: none */
    ferry_pool_options options;
    const char *name; /* for messages, such as "cuda:0 device memory"; copied */
    ferryi_allocation_log
        *allocation_log; /* NULL: none. The pool's once it is created, which closes it. Threads get
                          * no caches: every take and give comes where lines are written, and a pool
                          * without a log never asks for one on a hit */
};

ferry_status ferryi_pool_create(const struct ferryi_pool_config *config, ferry_pool **out);
/* Wait on the host for all work that uses idle memory: before a destroy, when other pools go on.
 * What cannot be waited for is logged. */
void ferryi_pool_finish(ferry_pool *pool);
/* All its work is done. Live blocks are reported to the log by count and bytes, and freed. */
void ferryi_pool_destroy(ferry_pool **pool);

/* A member of a circular list; the list's head is one too. */
struct ferryi_link {
    struct ferryi_link *next, *prev;
};

#define FERRYI_BLOCK_MAGIC UINT64_C(0xb10cb10cfe44b10c)

/*
 * A block. While it is live, `pointer`, `bytes` and `requested` are constant and anybody may read
 * them; all else is the pool's. Descriptors live as long as the pool, so that a stale pointer to
 * one is readable. What a hit reads is on the first line of two.
 */
struct ferry_block {
    _Alignas(64) void *pointer;
    size_t bytes;     /* of the block */
    size_t requested; /* of the holder */
    ferryi_sync_point
        point; /* the last use before the present holder's, or 0 when it is known to be done */
    ferry_pool *pool;
    uint16_t timeline_number; /* of the timeline it was taken on; 0: the host, or a timeline without
                                 a number */
    uint16_t list;       /* of magazines it goes to when it comes back; FERRYI_POOL_NO_LIST: none */
    uint16_t state;      /* live or idle: checked at release */
    uint16_t align_log2; /* the holder's memory begins at the first such address in it; 0: where it
                            begins */
    _Atomic(const char *) label; /* of the holder; borrowed */
    struct ferryi_slab *slab;    /* the allocation it lies in */
    ferry_block *before, *after; /* neighbours in it; NULL at its ends */
    struct ferryi_link in_idle;  /* while idle or free: in a list */
#ifdef FERRYI_POOL_GUARDED
    const void *site;                  /* the call that took it, or NULL where it was not noted */
    uint64_t magic;                    /* FERRYI_BLOCK_MAGIC */
    size_t zone_bytes, released_bytes; /* of it, that carry a pattern: behind its end, or since it
                                          came back */
    bool has_region;                   /* a tool knows it */
#endif
};

/*
 * Take a block for later work of `timeline` (NULL: for the host, idle). `align` is a power of two;
 * above what its class is aligned to anyway the block is made large enough and *out_pointer, which
 * ferry_block_pointer() gives too, is aligned inside it. Zero bytes give a block and a NULL
 * pointer.
 * @return FERRY_OK; FERRY_ERROR_OUT_OF_MEMORY; else what the backend, or making the timeline wait,
 * failed with
 */
ferry_status ferryi_pool_take(ferry_pool *pool, size_t bytes, size_t align,
                              ferryi_timeline *timeline, ferry_block **out, void **out_pointer);
/*
 * Give back a block whose last use is `point` (0: the holder used it on no timeline). NULL is
 * harmless. Never fails, never waits. Calls the driver only when the block was taken while an
 * earlier use was pending, and `point` is on another timeline than it was taken on.
 */
void ferryi_pool_give(ferry_block *block, ferryi_sync_point point);

ferry_context *ferryi_pool_context(const ferry_pool *pool);
/* Live, cached and reserved bytes, for memory_info: one lock. */
void ferryi_pool_bytes(ferry_pool *pool, size_t *out_live, size_t *out_cached,
                       size_t *out_reserved);
/* A compaction wants the memory that the block lies in to become empty. Any thread; a held block.
 */
bool ferryi_block_is_leaving(const ferry_block *block);
/* Whether the address lies in memory that the pool has from its backend. */
bool ferryi_pool_holds(ferry_pool *pool, const void *address);
/* Counts of one class of the public statistics. A block counts by its requested bytes. */
struct ferryi_pool_bin {
    uint64_t takes, hits; /* blocks handed out, and those of them that were idle memory */
    uint64_t live_blocks, live_bytes, requested_bytes; /* handed out now */
};

/* What a pool has counted since it was created. */
struct ferryi_pool_counters {
    struct ferryi_pool_bin bins[FERRY_POOL_CLASS_COUNT];
    uint64_t device_allocations, device_frees; /* calls of the backend that succeeded */
    uint64_t trims; /* times that idle memory went back to the backend, but not by compactions */
    uint64_t evictions;
    uint64_t waits; /* times that a stream waited for the last use of the block it took, or the host
                       for queued work */
    uint64_t shortages;       /* takes that found no memory at first */
    uint64_t peak_live_bytes; /* at the moments when the caches of all threads were counted */
};

/* Any thread; exact when no call is running on the pool. */
void ferryi_pool_get_counters(ferry_pool *pool, struct ferryi_pool_counters *out);
/* Public cumulative figures and peaks start anew. Any thread; exact when no call is running on the
 * pool. */
void ferryi_pool_reset_stats(ferry_pool *pool);
/* Count one copy that was evicted to make room in this pool. */
void ferryi_pool_count_eviction(ferry_pool *pool);

/* Counts agree with the lists: for tests and checked builds, when quiescent. */
bool ferryi_pool_check(ferry_pool *pool);

#endif
