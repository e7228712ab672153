/* SPDX-License-Identifier: MIT */
#ifndef FERRY_POOL_H
#define FERRY_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Memory pools: a context has one for each place and memory kind. The replicas of buffers are
 * allocated from them, and a program may allocate scratch memory too. Allocated memory is
 * uninitialized.
 */

/** A memory pool. The context owns its own pools; the caller owns those of ferry_pool_create(). */
typedef struct ferry_pool ferry_pool;
/** The handle of one allocation from a pool. */
typedef struct ferry_block ferry_block;

/** The kind of memory. A value never changes its meaning. */
typedef enum ferry_memory_kind {
    FERRY_MEMORY_DEFAULT = 0,  /**< pageable memory on the host, device memory on a device */
    FERRY_MEMORY_DEVICE = 1,   /**< memory of a device */
    FERRY_MEMORY_PINNED = 2,   /**< page-locked host memory */
    FERRY_MEMORY_PAGEABLE = 3, /**< ordinary host memory */
    FERRY_MEMORY_MANAGED = 4   /**< one pointer for host and device */
} ferry_memory_kind;

/**
 * Statistics of a pool: what it holds now, and counters since it was created or since
 * ferry_context_reset_stats(). They are exact when no call is running on the pool.
 */
typedef struct ferry_pool_stats {
    uint64_t allocations;         /**< blocks allocated: hits + misses; a call that failed does
                                       not count */
    uint64_t frees;               /**< blocks freed */
    uint64_t hits;                /**< allocations from idle memory of the pool */
    uint64_t misses;              /**< allocations for which the device or the system allocated
                                       memory */
    uint64_t live_bytes;          /**< bytes of live blocks */
    uint64_t live_blocks;
    uint64_t requested_bytes;     /**< bytes that were requested for live blocks; at most
                                       live_bytes */
    uint64_t cached_bytes;        /**< bytes of idle blocks */
    uint64_t pending_bytes;       /**< part of cached_bytes that queued work still uses */
    uint64_t reserved_bytes;      /**< bytes that the pool holds from the device or the system
                                       now; at least live + cached */
    uint64_t peak_reserved_bytes; /**< highest reserved_bytes */
    uint64_t largest_free_bytes;  /**< largest block that fits into cached memory */
    uint64_t evictions;           /**< replicas that were evicted to make room in this pool */
    double fragmentation;         /**< 1 - largest_free_bytes / cached_bytes; 0 when nothing is
                                       cached */
    uint64_t reserved[4];
} ferry_pool_stats;

/** Number of size classes of the statistics: up to 1 KiB, 2 KiB, ... 512 MiB, and above. */
#define FERRY_POOL_CLASS_COUNT 21

/**
 * Statistics of one size class. A live block counts in the class of its requested bytes, plus the
 * red zone in a checked build. An idle block counts in the class of its block size.
 */
typedef struct ferry_pool_class_stats {
    uint64_t allocations;     /**< blocks allocated; ferry_context_reset_stats() resets the
                                   counters */
    uint64_t hits;            /**< allocations from idle memory of the pool */
    uint64_t live_blocks;
    uint64_t live_bytes;
    uint64_t cached_bytes;
    uint64_t requested_bytes; /**< bytes that were requested for live blocks; at most live_bytes */
    uint64_t reserved[4];
} ferry_pool_class_stats;

/** As `wait_ms`: an allocation never waits. */
#define FERRY_WAIT_NEVER ((uint64_t)-1)

/**
 * How much memory a pool keeps, and for how long. NULL, or zero in any field, means the default.
 *
 * Whatever the options, a pool frees idle memory before it grows too far. It does so when it would
 * hold more than 128 MiB and more than 1.5 times its peak of live bytes. It frees the oldest idle
 * memory first and keeps release_threshold_bytes cached. Blocks of sizes that are no longer
 * requested therefore do not pile up. A threshold of SIZE_MAX keeps everything.
 */
typedef struct ferry_pool_options {
    size_t limit_bytes;             /**< most bytes that the pool holds from the device; default:
                                         the context's limit for such memory, and no limit for a
                                         pool of ferry_pool_create() */
    size_t high_water_bytes;        /**< while the pool holds more than this from the device, it
                                         frees idle memory; default: no mark */
    size_t release_threshold_bytes; /**< cached bytes that are kept when high_water_bytes,
                                         trim_period_ms or growth free idle memory; default 0 */
    uint64_t trim_period_ms;        /**< time between two trims of old idle memory, in
                                         milliseconds; default: never */
    uint64_t trim_age_ms;           /**< idle memory of this age in milliseconds is old; default:
                                         the period */
    uint64_t wait_ms;               /**< longest time in milliseconds of each wait for queued
                                         work that uses idle memory, in an allocation that finds
                                         too little; default 10 s. With FERRY_WAIT_NEVER the
                                         allocation uses memory whose work is done, or fails */
    uint64_t reserved[4];
} ferry_pool_options;

/**
 * The allocator of a pool of ferry_pool_create(): MPI, NCCL, shared memory, another library's
 * allocator. Several threads may call it at once. Both functions are watching callbacks, see
 * "Callbacks" in <ferry/status.h>.
 */
typedef struct ferry_pool_backend {
    /**
     * Allocates `bytes` > 0, aligned to `align`. After FERRY_ERROR_OUT_OF_MEMORY the pool tries to
     * make room and calls again; any other failure ends the allocation.
     */
    ferry_status (*alloc)(void *user, size_t bytes, void **out);
    /**
     * Frees one allocation: `memory` and `bytes` are those of one earlier call of alloc. When this
     * function fails, the memory must still be valid, because the pool goes on using it.
     */
    ferry_status (*free)(void *user, void *memory, size_t bytes);
    void *user;   /**< passed to both functions */
    size_t align; /**< alignment in bytes of the memory that alloc returns: a power of two of at
                       least 256; 0 means 256 */
    uint64_t reserved[4];
} ferry_pool_backend;

/** Result of ferry_pool_compact(). */
typedef struct ferry_pool_compaction {
    uint64_t moved_bytes; /**< bytes of the replicas that were moved */
    uint64_t freed_slabs; /**< empty slabs that were returned to the device */
    uint64_t freed_bytes; /**< bytes of these slabs */
    uint64_t reserved[4];
} ferry_pool_compaction;

/** Properties of a block, as ferry_pool_for_each_block() reports them. */
typedef struct ferry_block_info {
    void *pointer;
    size_t bytes;
    size_t requested_bytes; /**< bytes that its owner requested; 0 when it is idle */
    const char *label;      /**< label of ferry_block_label(), or NULL */
    bool is_held;
} ferry_block_info;

/**
 * Visits one block; returning false ends the iteration. A working callback, see "Callbacks" in
 * <ferry/status.h>.
 */
typedef bool ferry_block_visit(const ferry_block_info *block, void *user);

/**
 * Makes room when an allocation of `needed_bytes` finds no memory: it frees blocks, trims, evicts
 * or destroys buffers.
 *
 * A restricted working callback, see "Callbacks" in <ferry/status.h>: it must not wait for another
 * call. An allocation inside it that finds no memory fails, and does not call it again.
 * @return true when it made room: the pool tries the allocation again, and calls again if that was
 *         not enough
 */
typedef bool ferry_pool_shortage(ferry_pool *pool, size_t needed_bytes, void *user);

/**
 * Returns the pool of a place and kind in `*out`. The first call creates the pool; the context owns
 * it.
 *
 * DEFAULT is PAGEABLE at place 0 and DEVICE at a device. PINNED, PAGEABLE and MANAGED are at place
 * 0.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_UNSUPPORTED (no device has such
 *         memory); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_IO (the allocation log cannot be
 *         written); FERRY_ERROR_INVALID_STATE (a forked child, or a destroyed context).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out);

/**
 * Creates a pool over the caller's own allocator. Its memory lives at `place` and is of `kind`;
 * streams of any place may use it as other memory of that kind.
 *
 * The pool writes no allocation log. The caller owns `*out` and destroys it before the context.
 * @param backend copied. The pool requests at least 2 MiB at once, except for the last blocks that
 *         fit.
 * @param options NULL for defaults
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, an unknown place or kind, an alignment that
 *         is not a power of two); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_INVALID_STATE (a forked
 *         child, or a destroyed context).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_create(ferry_context *context, int place, ferry_memory_kind kind, const ferry_pool_backend *backend,
                                                         const ferry_pool_options *options, ferry_pool **out);
/**
 * Destroys a pool of ferry_pool_create() and sets `*pool` to NULL.
 *
 * The call blocks until queued work no longer uses idle memory of the pool, and then frees all of
 * it. Blocks that are still live are logged and freed. A pool of ferry_context_pool() belongs to
 * the context and is not destroyed. In a callback of the library the call logs an error, and the
 * pool stays.
 * @param pool NULL and a pointer to NULL have no effect
 * Threads: no other thread may be inside a call on the pool.
 */
FERRY_API void ferry_pool_destroy(ferry_pool **pool);

/**
 * Changes how much memory the pool keeps, and for how long.
 *
 * Limits and trim periods are checked on slow paths only. These are an allocation that finds no
 * idle memory, every 256th free of a thread, and the free of a block that was allocated above
 * high_water_bytes. The pool starts no thread for them. Calls that wait for the device never trim.
 * @param options NULL for defaults
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_configure(ferry_pool *pool, const ferry_pool_options *options);

/**
 * Allocates at least `bytes` of uninitialized memory, aligned to 256 bytes. The caller owns `*out`
 * and frees it with ferry_block_free().
 *
 * Work on `stream` may use the memory at once. When other streams still use it, an event orders
 * `stream` after them; the host does not wait. The call blocks only when the pool finds too little
 * memory, at most wait_ms at each wait.
 * @param bytes 0 returns a block whose pointer is NULL
 * @param stream NULL: no work uses the block any more when the call returns, and the host may use
 *         it too
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_WRONG_CONTEXT;
 *         FERRY_ERROR_OUT_OF_MEMORY (the message has the requested, free, total, cached and largest
 *         free bytes); FERRY_ERROR_DEVICE; FERRY_ERROR_INVALID_STATE (a forked child, a destroyed
 *         stream); for a pool of ferry_pool_create(), the status with which its alloc failed.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_allocate(ferry_pool *pool, size_t bytes, ferry_stream *stream, ferry_block **out);

/**
 * Allocates as ferry_pool_allocate(), aligned to `alignment` bytes.
 *
 * An alignment above 256 uses the slow path, which locks the pool. When blocks of the size are not
 * aligned to it anyway, the block costs up to `alignment` bytes more, and its free uses the slow
 * path too.
 * @param alignment any power of two; 0 means 256
 * @return as ferry_pool_allocate(); FERRY_ERROR_INVALID_ARGUMENT also for any other alignment.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_allocate_aligned(ferry_pool *pool, size_t bytes, size_t alignment, ferry_stream *stream, ferry_block **out);

/** Returns the block's address; NULL for NULL and for a block of zero bytes. Threads: any. */
FERRY_API void *ferry_block_pointer(const ferry_block *block);
/**
 * Returns the usable bytes, at least those requested; 0 for NULL. In a checked build only the
 * requested bytes are usable. Threads: any.
 */
FERRY_API size_t ferry_block_bytes(const ferry_block *block);

/**
 * Frees a block and sets `*block` to NULL. Does not block.
 *
 * Work that is queued on `stream` before the call may still use the block. After a failure the
 * block is still live.
 * @param block NULL in `*block` has no effect and returns FERRY_OK
 * @param stream NULL: no work uses the block
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_WRONG_CONTEXT;
 *         FERRY_ERROR_UNSUPPORTED (the stream is being captured); FERRY_ERROR_INVALID_STATE (a
 *         forked child, a destroyed stream).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_block_free(ferry_block **block, ferry_stream *stream);

/**
 * Copies the statistics of a pool to `*out`.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_get_stats(ferry_pool *pool, ferry_pool_stats *out);

/**
 * Copies the statistics of one size class of a pool to `*out`.
 * @param class_index 0 to FERRY_POOL_CLASS_COUNT - 1. Class i holds blocks of up to 1024 << i
 *         bytes; the last class holds all larger ones.
 * @return as ferry_pool_get_stats(); FERRY_ERROR_INVALID_ARGUMENT also for an unknown class.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_get_class_stats(ferry_pool *pool, int class_index, ferry_pool_class_stats *out);

/**
 * Returns idle memory to the device until at most `keep_bytes` are cached. Live blocks, and memory
 * that queued work still uses, are not returned.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim(ferry_pool *pool, size_t keep_bytes);
/**
 * Returns memory to the device that has been idle for at least `age_ms` milliseconds, oldest first.
 * Memory that queued work still uses is not returned.
 *
 * A thread reads the clock on every 256th free only. Memory that it freed in between may therefore
 * count as older than it is.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim_older(ferry_pool *pool, uint64_t age_ms);

/**
 * Moves unused replicas out of sparse slabs, and returns the slabs that are then empty to the
 * device.
 *
 * Replicas in a scope, held replicas, and blocks that the program allocated stay where they are.
 * Only the device pools of a context have replicas to move. Other pools return only the slabs that
 * are already empty. The call blocks until the moves are done, at most for the pool's wait_ms.
 * @param out may be NULL
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_BUSY (another thread compacts the
 *         pool); FERRY_ERROR_OUT_OF_MEMORY (host memory); FERRY_ERROR_INVALID_STATE (a forked
 *         child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_compact(ferry_pool *pool, ferry_pool_compaction *out);

/**
 * Sets the function that the pool calls with `user` before an allocation fails for lack of memory.
 *
 * The thread that allocates calls it. Several threads call it at once when several run out of
 * memory.
 * @param callback NULL: none
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_on_shortage(ferry_pool *pool, ferry_pool_shortage *callback, void *user);

/**
 * Visits every block of the pool, live or idle. The list is a consistent snapshot. Memory that was
 * never divided into blocks, or that was merged since, is not visited.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_OUT_OF_MEMORY,
 *         FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_for_each_block(ferry_pool *pool, ferry_block_visit *visit, void *user);

/**
 * Sets the label of a live block, for ferry_pool_for_each_block() and for the report of leaks. In a
 * checked build that report also has the call site of the allocation.
 * @param label borrowed until the block is freed; NULL removes the label
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: only the thread that owns the block.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_block_label(ferry_block *block, const char *label);

FERRY_END_DECLS

#endif
