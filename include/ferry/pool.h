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
 * Memory pools. A pool keeps memory that is freed, and uses it for later allocations. A context has
 * one pool for each place and memory kind. Buffers take the memory of their replicas from these
 * pools, and a program may allocate blocks from them too. Allocated memory is uninitialized.
 */

/**
 * A memory pool. The context owns the pools of ferry_context_pool(), and the program those of
 * ferry_pool_create().
 */
typedef struct ferry_pool ferry_pool;
/** The handle of one allocation from a pool. */
typedef struct ferry_block ferry_block;

/** The kind of memory. The meaning of a value never changes. */
typedef enum ferry_memory_kind {
    FERRY_MEMORY_DEFAULT = 0,  /**< pageable memory on the host, device memory on a device */
    FERRY_MEMORY_DEVICE = 1,   /**< memory of a device */
    FERRY_MEMORY_PINNED = 2,   /**< page-locked host memory */
    FERRY_MEMORY_PAGEABLE = 3, /**< ordinary host memory */
    FERRY_MEMORY_MANAGED = 4   /**< managed memory: one pointer for host and device */
} ferry_memory_kind;

/**
 * Statistics of a pool: what it holds now, and counters since it was created or since the last
 * ferry_context_reset_stats(). They are exact when no other call on the pool is running.
 */
typedef struct ferry_pool_stats {
    uint64_t allocations;         /**< blocks allocated: hits + misses; a call that failed does
                                       not count */
    uint64_t frees;               /**< blocks freed */
    uint64_t hits;                /**< allocations that used idle memory of the pool */
    uint64_t misses;              /**< allocations for which the pool had to get memory from the
                                       device or the system */
    uint64_t live_bytes;          /**< bytes of live blocks */
    uint64_t live_blocks;
    uint64_t requested_bytes;     /**< bytes that callers requested for the live blocks; at most
                                       live_bytes */
    uint64_t cached_bytes;        /**< bytes of idle blocks: memory that the pool keeps for later
                                       allocations */
    uint64_t pending_bytes;       /**< the part of cached_bytes that queued work still uses */
    uint64_t reserved_bytes;      /**< all bytes that the pool has from the device or the system
                                       now; at least live_bytes + cached_bytes */
    uint64_t peak_reserved_bytes; /**< highest value that reserved_bytes had */
    uint64_t largest_free_bytes;  /**< size of the largest block that fits into the cached memory */
    uint64_t evictions;           /**< replicas that were evicted to make room in this pool */
    double fragmentation;         /**< 1 - largest_free_bytes / cached_bytes; 0 when nothing is
                                       cached */
    uint64_t reserved[4];
} ferry_pool_stats;

/** Number of size classes of the statistics: up to 1 KiB, 2 KiB, ... 512 MiB, and above. */
#define FERRY_POOL_CLASS_COUNT 21

/**
 * Statistics of one size class. A live block belongs to the class of its requested bytes; in a
 * checked build those include the guard bytes behind the block. An idle block belongs to the class
 * of its block size.
 */
typedef struct ferry_pool_class_stats {
    uint64_t allocations;     /**< blocks allocated since the pool was created or
                                   ferry_context_reset_stats() was called */
    uint64_t hits;            /**< allocations that used idle memory of the pool */
    uint64_t live_blocks;
    uint64_t live_bytes;
    uint64_t cached_bytes;
    uint64_t requested_bytes; /**< bytes that callers requested for the live blocks; at most
                                   live_bytes */
    uint64_t reserved[4];
} ferry_pool_class_stats;

/** Value of ferry_pool_options.wait_ms: an allocation never waits. */
#define FERRY_WAIT_NEVER ((uint64_t)-1)

/**
 * How much memory a pool keeps, and for how long. NULL, or zero in any field, means the default.
 *
 * With all options a pool also limits its own growth. It frees idle memory when it would otherwise
 * hold more than 128 MiB and more than 1.5 times its peak of live bytes. It frees the memory that
 * has been idle longest first, and keeps release_threshold_bytes cached. Memory of sizes that the
 * program no longer requests is therefore freed in time. A release_threshold_bytes of SIZE_MAX
 * keeps everything.
 */
typedef struct ferry_pool_options {
    size_t limit_bytes;             /**< most bytes that the pool holds from the device or the
                                         system; default: the limit of the context's options for
                                         such memory, and for a pool of ferry_pool_create() no
                                         limit */
    size_t high_water_bytes;        /**< when the pool holds more bytes than this from the device or
                                         the system, it frees idle memory; default: no such mark */
    size_t release_threshold_bytes; /**< cached bytes that the pool keeps when it frees idle memory
                                         because of high_water_bytes, trim_period_ms or its growth;
                                         default 0 */
    uint64_t trim_period_ms;        /**< milliseconds between two trims, which free idle memory that
                                         is old; default: never */
    uint64_t trim_age_ms;           /**< after how many milliseconds idle memory is old; default:
                                         trim_period_ms */
    uint64_t wait_ms;               /**< an allocation that finds too little memory waits for queued
                                         work that still uses idle memory: at most this many
                                         milliseconds at each wait. Default 10 s. With
                                         FERRY_WAIT_NEVER the allocation uses only memory whose work
                                         is done, or fails */
    uint64_t reserved[4];
} ferry_pool_options;

/**
 * The functions from which a pool of ferry_pool_create() gets its memory, such as those of MPI,
 * NCCL or another allocator. Ferry may call them on several threads at once. Both functions are
 * watching callbacks, see "Callbacks" in <ferry/status.h>.
 */
typedef struct ferry_pool_backend {
    /**
     * Allocates `bytes` bytes, always more than 0, aligned to `align`. If the function returns
     * FERRY_ERROR_OUT_OF_MEMORY, the pool tries to make room and calls it again. Any other failure
     * makes the pool's allocation fail.
     */
    ferry_status (*alloc)(void *user, size_t bytes, void **out);
    /**
     * Frees one allocation: `memory` and `bytes` are those of one earlier call of `alloc`. If this
     * function fails, the memory must still be valid, because the pool continues to use it.
     */
    ferry_status (*free)(void *user, void *memory, size_t bytes);
    void *user;   /**< passed to both functions */
    size_t align; /**< alignment in bytes of the memory that `alloc` returns: a power of two, at
                       least 256; 0 means 256 */
    uint64_t reserved[4];
} ferry_pool_backend;

/** Result of ferry_pool_compact(). */
typedef struct ferry_pool_compaction {
    uint64_t moved_bytes; /**< bytes of the replicas that were moved */
    uint64_t freed_slabs; /**< empty slabs that were returned to the device */
    uint64_t freed_bytes; /**< bytes of the slabs that were returned */
    uint64_t reserved[4];
} ferry_pool_compaction;

/** Properties of a block, as ferry_pool_for_each_block() reports them. */
typedef struct ferry_block_info {
    void *pointer;
    size_t bytes;
    size_t requested_bytes; /**< bytes that its owner requested; 0 when it is idle */
    const char *label;      /**< label that ferry_block_label() set, or NULL */
    bool is_held;
} ferry_block_info;

/**
 * Receives one block; ends the iteration by returning false. A working callback, see "Callbacks" in
 * <ferry/status.h>.
 */
typedef bool ferry_block_visit(const ferry_block_info *block, void *user);

/**
 * A function of the program that makes room when an allocation of `needed_bytes` bytes finds no
 * memory. It may free blocks, trim the pool, and evict or destroy buffers.
 *
 * A restricted working callback, see "Callbacks" in <ferry/status.h>: it must not wait for another
 * call. If an allocation inside it finds no memory, that allocation fails, and the function is not
 * called again for it.
 * @return true when it made room. The pool then tries the allocation again, and calls the function
 *         again if the room was not enough
 */
typedef bool ferry_pool_shortage(ferry_pool *pool, size_t needed_bytes, void *user);

/**
 * Sets `*out` to the pool of a place and memory kind. The first call creates the pool. The context
 * owns it.
 *
 * FERRY_MEMORY_DEFAULT means PAGEABLE at place 0 and DEVICE at a device. The pools of PINNED,
 * PAGEABLE and MANAGED memory are at place 0.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_UNSUPPORTED (no device has such
 *         memory); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_IO (the allocation log cannot be
 *         written); FERRY_ERROR_INVALID_STATE (a forked child, or a destroyed context).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out);

/**
 * Creates a pool that gets its memory from the caller's own allocator. `place` and `kind` say where
 * that memory is and of which kind. Streams of any place may use it in the same ways as other
 * memory of that kind.
 *
 * The pool writes no allocation log. The caller owns `*out` and destroys it before the context.
 * @param backend the allocator; the call copies the struct. The pool requests at least 2 MiB at
 *         once, and less only when no more fits.
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
 * the context, and the call does not destroy it. Inside a callback the call logs an error and does
 * not destroy the pool.
 * @param pool NULL and a pointer to NULL have no effect
 * Threads: no other thread may be inside a call on the pool.
 */
FERRY_API void ferry_pool_destroy(ferry_pool **pool);

/**
 * Changes how much memory the pool keeps, and for how long.
 *
 * The pool starts no thread to check limits and trim periods. It checks them in these calls: an
 * allocation that finds no idle memory, every 256th free of a thread, and the free of a block that
 * was allocated while the pool held more than high_water_bytes. Calls that wait for the device
 * never trim.
 * @param options NULL for defaults
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_configure(ferry_pool *pool, const ferry_pool_options *options);

/**
 * Allocates at least `bytes` of uninitialized memory, aligned to 256 bytes. The caller owns `*out`
 * and frees it with ferry_block_free().
 *
 * Work on `stream` may use the memory at once. If other streams still use it, Ferry makes `stream`
 * wait for them; the calling thread does not wait. The call blocks only when the pool finds too
 * little memory, at most for wait_ms of ferry_pool_options at each wait.
 * @param bytes 0 returns a block whose pointer is NULL
 * @param stream the stream whose work uses the block. NULL: when the call returns, no earlier work
 *         uses the memory any more, and any stream and the host may use the block
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_WRONG_CONTEXT;
 *         FERRY_ERROR_OUT_OF_MEMORY (the message has the requested, free, total, cached and largest
 *         free bytes); FERRY_ERROR_DEVICE; FERRY_ERROR_INVALID_STATE (a forked child, a destroyed
 *         stream); for a pool of ferry_pool_create(), the status that `alloc` of its backend
 *         returned.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_allocate(ferry_pool *pool, size_t bytes, ferry_stream *stream, ferry_block **out);

/**
 * Allocates a block as ferry_pool_allocate() does, but aligned to `alignment` bytes.
 *
 * With an alignment above 256 the call is slower, because it locks the pool. If blocks of this size
 * do not have the alignment already, the block uses up to `alignment` bytes more, and freeing it
 * locks the pool too.
 * @param alignment any power of two; 0 means 256
 * @return as ferry_pool_allocate(); FERRY_ERROR_INVALID_ARGUMENT also for any other alignment.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_allocate_aligned(ferry_pool *pool, size_t bytes, size_t alignment, ferry_stream *stream, ferry_block **out);

/** Returns the block's address; NULL for NULL and for a block of zero bytes. Threads: any. */
FERRY_API void *ferry_block_pointer(const ferry_block *block);
/**
 * Returns the bytes that the caller may use, at least as many as it requested; 0 for NULL. In a
 * checked build only the requested bytes are usable. Threads: any.
 */
FERRY_API size_t ferry_block_bytes(const ferry_block *block);

/**
 * Frees a block and sets `*block` to NULL. Does not block.
 *
 * Work that is queued on `stream` before the call may still use the block. After a failure the
 * block is still live.
 * @param block if `*block` is NULL, the call does nothing and returns FERRY_OK
 * @param stream NULL: no queued work uses the block
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
 * Returns idle memory to the device or the system until at most `keep_bytes` are cached. The call
 * does not return live blocks, nor memory that queued work still uses.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim(ferry_pool *pool, size_t keep_bytes);
/**
 * Returns memory that has been idle for at least `age_ms` milliseconds to the device or the system,
 * oldest first. The call does not return memory that queued work still uses.
 *
 * A thread reads the clock only at every 256th block that it frees. Memory that it freed in between
 * may therefore count as older than it is.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim_older(ferry_pool *pool, uint64_t age_ms);

/**
 * Makes free memory contiguous. The call moves replicas that are not in use out of the slabs with
 * the least memory in use, and then returns empty slabs to the device. A slab is a large piece of
 * memory, which the pool divides into blocks.
 *
 * Replicas with an open scope, held replicas, and blocks that the program allocated are not moved.
 * Only the device pools of a context move replicas. Any other pool only returns the slabs that are
 * already empty. The call blocks until the moves are done, at most for the pool's wait_ms.
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
 * The pool calls it on the thread that allocates. It may be called on several threads at once.
 * @param callback NULL removes the function
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_on_shortage(ferry_pool *pool, ferry_pool_shortage *callback, void *user);

/**
 * Visits every block of the pool, live or idle. It shows all blocks as they were at one moment.
 * Memory that was never divided into blocks, and free blocks that were merged since, are not
 * visited.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_OUT_OF_MEMORY,
 *         FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_for_each_block(ferry_pool *pool, ferry_block_visit *visit, void *user);

/**
 * Sets the label of a live block, which appears in ferry_pool_for_each_block() and in the report of
 * leaks. In a checked build that report also shows where the program allocated the block.
 * @param label borrowed until the block is freed; NULL removes the label
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (a forked child).
 * Threads: only the thread that owns the block.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_block_label(ferry_block *block, const char *label);

FERRY_END_DECLS

#endif
