/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_POOL_H
#define FERRYI_POOL_H

/*
 * A pool allocates blocks of memory of one place and kind, and keeps released blocks for reuse.
 * Function names call an allocation from a pool a take, and the release of a block a give.
 *
 * There are eight size classes per doubling, so that waste stays within 12.5 %. Below 2 KiB, the
 * classes are multiples of 256 bytes. Blocks up to 1 MiB are carved from slabs that all classes
 * share, and idle neighbours are merged before the pool grows. Larger blocks are allocated and
 * cached individually. A request above the largest class (1 GiB) is rounded up to 4 KiB. The handle
 * of a block is its descriptor, so a release does not search for it.
 *
 * A block that queued work uses has one sync point (timeline.h). If work on several streams uses
 * the block, this sync point covers all of that work. An allocation for a stream prefers idle
 * blocks whose last use is ordered before the stream's later work. If there are none, the stream
 * waits for the last use of a different idle block. An allocation for the host uses only blocks
 * whose work is done. Before the pool grows for the host, it asks the driver whether the work on
 * more idle blocks is done.
 *
 * A released block enters a magazine of the releasing thread. The next allocation in that thread
 * reuses the block without a lock (magazine.h).
 *
 * The pool does not depend on buffers. Its mutex is a leaf: no driver call, allocation or callback
 * happens while it is locked. The memory comes from a backend of two functions, so an application
 * can supply memory from its own allocator.
 */

#include <ferry/pool.h>

#include "src/base/base.h"
#include "src/pool/allocation_log.h"
#include "src/pool/housekeeper.h"
#include "src/stream/timeline.h"

#define FERRYI_POOL_ALIGN 256

/* The functions from which a pool gets memory for slabs and large blocks. `alloc` returns memory
 * aligned to `align`. Any thread may call the functions, and they may block. A call that fails must
 * have no effect. Memory that `free` failed to free stays in the pool. */
struct ferryi_pool_backend {
    ferry_status (*alloc)(void *user, size_t bytes, void **out);
    ferry_status (*free)(void *user, void *memory, size_t bytes);
    /* Reports the free and the total bytes of the backend. The pointer is NULL if these numbers are
     * unknown. */
    ferry_status (*info)(void *user, size_t *out_free, size_t *out_total);
    /* Functions of a backend that has ranges, from which the pool gets all its memory instead; or
     * NULL. They do what the slots of a device do that have these names (device.h). */
    ferry_status (*range_reserve)(void *user, size_t bytes, void **out);
    ferry_status (*range_release)(void *user, void *range, size_t bytes);
    ferry_status (*range_map)(void *user, void *memory, size_t bytes, void **out_handle);
    ferry_status (*range_unmap)(void *user, void *memory, size_t bytes, void *handle);
    size_t range_bytes, handle_bytes; /* of the range and of each handle; the first is a multiple of
                                         the second */
    void *user;
    size_t align;    /* a power of two, at least FERRYI_POOL_ALIGN; 0 means FERRYI_POOL_ALIGN */
    bool free_waits; /* whether `free` waits until all work of the device is done */
};

/* Functions of the modules that own blocks of the pool. The pool calls them when it runs short of
 * memory or is compacted. Members may be NULL. The pool holds no lock during a call. The call is
 * made by the thread that allocates or compacts, so several calls may run at once. */
struct ferryi_pool_holders {
    /*
     * Releases blocks of this pool that are not in use, until `needed` bytes are free or no such
     * block is left. If `dirty_too` is false, releases only blocks whose bytes are also current at
     * a different place, so that the bytes need not be copied. Must not allocate from this pool.
     * @return the number of bytes released
     */
    size_t (*evict)(void *user, ferry_pool *pool, size_t needed, bool dirty_too, uint64_t *wait_ns);
    /* Moves the bytes of blocks for which ferryi_block_is_draining() is true to new blocks. Skips
     * blocks that are in use. @return the number of bytes moved */
    size_t (*relocate)(void *user, ferry_pool *pool);
    /* Writes a description of the largest holders of the pool's blocks to `text`, for the message
     * of an allocation that fails. Writes "" if there are none. */
    void (*describe)(void *user, ferry_pool *pool, char *text, size_t text_bytes);
    void *user;
};

struct ferryi_pool_config {
    struct ferryi_pool_backend backend;
    struct ferryi_pool_holders holders;
    /* The struct that orders the pool's timelines (timeline.h). If it is NULL, all allocations are
     * for the host, without sync points. */
    ferryi_order *order;
    const struct ferryi_log *log;
    /* The context that owns the pool; the pool only compares this pointer. */
    ferry_context *context;
    bool host_reaches; /* whether the host can access the memory */
    int place; /* place to which the blocks belong; pinned and managed memory can be used at other
                  places too */
    ferry_memory_kind kind;
    size_t limit_bytes;     /* maximum number of bytes taken from the backend if the options set no
                               limit; 0: no limit */
    const char *limit_name; /* a literal: the option that sets `limit_bytes`, for messages */
    ferry_pool_options options;
    /* Sets memory of the pool to zero after the use `*point`. Sets `*point` to the use that does
     * so, or to 0 if it is done. If it fails, the memory may still be in use. NULL: the host waits
     * for the use, and sets the memory to zero. */
    ferry_status (*zero)(const struct ferryi_pool_config *config, void *memory, size_t bytes,
                         ferryi_sync_point *point);
    const char *name; /* name in messages, such as "cuda:0 device memory"; copied */
    struct ferryi_housekeeper *housekeeper; /* trims the pool while no call does; or NULL */
    /* NULL if allocations are not logged. The pool owns the log and closes it. With a log, threads
     * have no caches: each allocation and release uses the slow path, which writes the log. */
    ferryi_allocation_log *allocation_log;
};

ferry_status ferryi_pool_create(const struct ferryi_pool_config *config, ferry_pool **out);
/* Blocks until no queued work uses the pool's idle memory. If other pools stay in use, this
 * function must be called before the pool is destroyed. A failed wait is logged. */
void ferryi_pool_finish(ferry_pool *pool);
/* Destroys a pool and sets *pool to NULL. All work on its blocks must be done. Blocks that were not
 * released are logged and freed. */
void ferryi_pool_destroy(ferry_pool **pool);

/* A link of a circular list. The list's head is a link too. */
struct ferryi_link {
    struct ferryi_link *next, *prev;
};

#define FERRYI_BLOCK_MAGIC UINT64_C(0xb10cb10cfe44b10c)

/*
 * A block of a pool's memory. While the block is live, `pointer`, `bytes` and `requested` are
 * constant and any thread may read them. Except for `label`, only the pool uses the other members.
 * The pool frees this struct only when it is destroyed, so a stale pointer to the struct stays
 * readable. The struct occupies two cache lines. The fast path of an allocation reads only the
 * first one.
 */
struct ferry_block {
    _Alignas(64) void *pointer;
    size_t bytes;     /* size of the block */
    size_t requested; /* number of bytes that the block's owner requested */
    /* The previous owner's last use of the block; 0 if that use is known to be done. */
    ferryi_sync_point point;
    ferry_pool *pool;
    uint16_t timeline_number; /* number of the timeline for which the block was allocated; 0: the
                                 host, or a timeline that has no number */
    uint16_t list; /* index of the size class whose magazines the block enters when it is released;
                      FERRYI_POOL_NO_LIST: none */
#ifdef FERRYI_DEBUG_CHECKS
    /* The owner of a cache writes it without the pool's mutex, while a holder of the mutex may read
     * the state of the block's neighbour. */
    _Atomic
#endif
        uint16_t state;  /* an enum ferryi_block_state, which a release checks */
    uint16_t align_log2; /* the owner's memory begins at the first address in the block that is
                            aligned to 2^align_log2; 0: at `pointer` */
    _Atomic(const char *) label; /* set by the block's owner, which also owns the string */
    struct ferryi_slab *slab;    /* the slab that contains the block */
    ferry_block *before, *after; /* neighbours in the slab; NULL at the ends of the slab */
    struct ferryi_link in_bin;   /* link in a bin of idle blocks */
    const void *site;            /* the call that allocated the block; NULL: unknown, as it is in
                                    builds without FERRYI_DEBUG_CHECKS */
    uint64_t magic;              /* FERRYI_BLOCK_MAGIC */
    uint64_t idle_since;         /* of an idle block: time of its release, from ferryi_now_ns() */
    bool has_region;             /* whether the block is registered as an NVTX memory region */
};

/*
 * Allocates a block for later work of `timeline`. The message of a failure does not name the pool's
 * memory, because the caller puts what it attempted before the message. If `timeline` is NULL, the
 * block is for the host and has no pending use. `align` must be a power of two. If `align` exceeds
 * the alignment of blocks of this size, the function allocates a larger block. *out_pointer is an
 * aligned address in the block, the same that ferry_block_pointer() returns. A request for zero
 * bytes returns a block and a NULL pointer.
 * @return FERRY_OK; FERRY_ERROR_OUT_OF_MEMORY; or an error of the backend, or of the wait for the
 * block's last use
 */
ferry_status ferryi_pool_take(ferry_pool *pool, size_t bytes, size_t align,
                              ferryi_timeline *timeline, ferry_block **out, void **out_pointer);
/* Returns a block that this thread's cache holds and that no work uses, or NULL if there is none.
 * Takes no lock and calls no driver. */
ferry_block *ferryi_pool_take_cached(ferry_pool *pool, size_t bytes);
/* Works like ferryi_pool_take(), but fails with FERRY_ERROR_BUSY rather than make the timeline wait
 * for the last use of a block, evict anything, or make the pool grow by more than a few blocks. */
ferry_status ferryi_pool_take_spare(ferry_pool *pool, size_t bytes, size_t align,
                                    ferryi_timeline *timeline, ferry_block **out,
                                    void **out_pointer);
/* Releases a block. `point` is the block's last use; 0 means that no queued work uses the block.
 * Does nothing if `block` is NULL. Never fails and never waits for work. Calls the driver only if
 * the previous owner's use was pending when the block was allocated, and it is not certain that
 * `point` covers that use. */
void ferryi_pool_give(ferry_block *block, ferryi_sync_point point);
/* Releases a block like ferryi_pool_give(), but first sets its memory to zero, or lets a device do
 * so after the last use. If that fails, logs the failure and does not release the block. */
void ferryi_pool_give_zeroed(ferry_block *block, ferryi_sync_point point);

/* Makes a live block have room for `bytes` bytes at its address, if the memory behind it is free.
 * Does not touch the memory, and waits for no work that uses it. The result is the block's new
 * descriptor, which takes the place of the old one; the caller calls ferryi_block_retire() for the
 * old one when no thread reads it any more. Returns the block itself if it was allocated for as
 * many bytes. Returns NULL, with no effect, if the block cannot become longer, as in every pool
 * without a range. */
ferry_block *ferryi_block_extend(ferry_block *block, size_t bytes);
void ferryi_block_retire(ferry_block *block);

ferry_context *ferryi_pool_context(const ferry_pool *pool);
/* Returns the name of the pool's memory in messages. */
const char *ferryi_pool_name(const ferry_pool *pool);
/* Returns the place to which the pool's memory belongs. */
int ferryi_pool_place(const ferry_pool *pool);
/* Returns whether a compaction is emptying the block's slab. The block must be live. Threads: any.
 */
bool ferryi_block_is_draining(const ferry_block *block);
/* Returns whether the address is in memory that the pool has allocated from its backend. */
bool ferryi_pool_holds(ferry_pool *pool, const void *address);
/* Describes all blocks of the pool at one moment, in the order of ferry_pool_for_each_block(). The
 * caller frees `*out`. Fails with OUT_OF_MEMORY. */
ferry_status ferryi_pool_list_blocks(ferry_pool *pool, ferry_block_info **out, size_t *out_count);
/* Counters of a pool since its creation. A reset sets the numbers of allocations, hits and frees to
 * 0. A hit is an allocation that reuses idle memory. */
struct ferryi_pool_counters {
    size_t live_bytes, cached_bytes, reserved_bytes,
        limit_bytes; /* current values; set only by ferryi_pool_get_counters() */
    /* Counters for each size class of the public statistics. Their member `cached_bytes` is not
     * maintained. The number of bytes that was requested for a block determines the block's
     * class. */
    ferry_pool_class_stats classes[FERRY_POOL_CLASS_COUNT];
    uint64_t frees;                            /* number of released blocks */
    uint64_t device_allocations, device_frees; /* number of successful backend calls */
    uint64_t trims;     /* number of times that the pool returned idle memory to the backend */
    uint64_t evictions; /* number of replicas that were evicted to make room in the pool */
    uint64_t waits; /* number of times that a stream waited for the last use of its newly allocated
                       block, or that the host waited for queued work */
    uint64_t shortages; /* number of allocations that found no memory at first and ran the steps of
                           shortage.c */
    uint64_t peak_live_bytes; /* largest number of live bytes, sampled whenever the counters of all
                                 threads are added */
};

/* Reads the counters of the pool. Any thread may call this function. The result is exact only if no
 * other call is running on the pool. */
void ferryi_pool_get_counters(ferry_pool *pool, struct ferryi_pool_counters *out);
/* Resets the cumulative counters and peaks of the pool's public statistics. Any thread may call
 * this function. The reset is exact only if no other call is running on the pool. */
void ferryi_pool_reset_stats(ferry_pool *pool);
/* Counts one replica that was evicted to make room in this pool. */
void ferryi_pool_count_eviction(ferry_pool *pool);

/* Returns whether the pool's counters agree with its lists of blocks. For tests and checked builds.
 * No other thread may use the pool during the call. */
bool ferryi_pool_check(ferry_pool *pool);

#endif
