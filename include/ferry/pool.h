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
 * Memory pools, which keep freed memory for later allocations. A context has one pool for each
 * place and memory kind, from which buffers get their replicas. A program may also allocate blocks
 * from them. Allocated memory is uninitialized. "Callbacks" in <ferry/status.h> lists what each
 * kind of callback may call.
 *
 * - FERRY_ERROR_INVALID_ARGUMENT: an argument is NULL.
 * - FERRY_ERROR_WRONG_CONTEXT: the stream belongs to another context.
 * - FERRY_ERROR_INVALID_STATE: the pool or context belongs to the parent process, or the call is
 *   inside a watching callback.
 */

/**
 * A memory pool. The context owns those of ferry_context_pool(), and the program those of
 * ferry_pool_create().
 */
typedef struct ferry_pool ferry_pool;
/** One allocation from a pool. */
typedef struct ferry_block ferry_block;

/** Kinds of memory. The meaning of a value never changes. */
typedef enum ferry_memory_kind {
    FERRY_MEMORY_DEFAULT = 0,  /**< pageable memory on the host, device memory on a device */
    FERRY_MEMORY_DEVICE = 1,   /**< memory of a device */
    FERRY_MEMORY_PINNED = 2,   /**< page-locked host memory */
    FERRY_MEMORY_PAGEABLE = 3, /**< ordinary host memory */
    FERRY_MEMORY_MANAGED = 4,  /**< memory that host and devices access by the same pointer */
    FERRY_MEMORY_SHARED = 5    /**< memory that other processes may use, too, of buffers only, see
                                    <ferry/share.h> */
} ferry_memory_kind;

/**
 * Statistics of a pool since its creation. ferry_context_reset_stats() resets the counters and
 * peaks. The values are exact if no other call on the pool is running.
 */
typedef struct ferry_pool_stats {
    uint64_t allocations; /**< successful ones: hits + misses */
    uint64_t frees;
    uint64_t hits;   /**< allocations that used idle memory of the pool */
    uint64_t misses; /**< allocations that needed memory from the device or the system */
    uint64_t live_bytes;
    uint64_t live_blocks;
    uint64_t requested_bytes;     /**< bytes that callers requested for the live blocks; at most
                                       live_bytes */
    uint64_t cached_bytes;        /**< bytes of idle blocks */
    uint64_t pending_bytes;       /**< bytes of them that queued work still uses */
    uint64_t reserved_bytes;      /**< all bytes that the pool holds from the device or the system;
                                       at least live_bytes + cached_bytes */
    uint64_t peak_reserved_bytes; /**< highest value of reserved_bytes */
    uint64_t largest_free_bytes;  /**< size of the largest block that fits into the cached memory */
    uint64_t evictions;           /**< replicas that Ferry evicted to make room in this pool */
    double fragmentation;         /**< 1 - largest_free_bytes / cached_bytes; 0 if both are 0 */
    uint64_t limit_bytes;         /**< limit of reserved_bytes; 0: there is none */
    uint64_t peak_live_bytes;     /**< highest value of live_bytes that the pool sampled. A peak
                                       between two samples is missed, see "Memory" in
                                       docs/concepts.md */
    uint64_t reserved[4];
} ferry_pool_stats;

/**
 * Number of size classes of the statistics. Class i, from 0, holds blocks of up to 1024 << i bytes;
 * the last one holds all larger blocks.
 */
#define FERRY_POOL_CLASS_COUNT 21

/**
 * Statistics of one size class, as in ferry_pool_stats. The class of a live block is that of its
 * requested bytes. The class of an idle block is that of its size.
 */
typedef struct ferry_pool_class_stats {
    uint64_t allocations;
    uint64_t hits;
    uint64_t live_blocks;
    uint64_t live_bytes;
    uint64_t cached_bytes;
    uint64_t requested_bytes;
    uint64_t reserved[4];
} ferry_pool_class_stats;

/** Value of wait_ms with which an allocation never waits. */
#define FERRY_WAIT_NEVER ((uint64_t)-1)

/**
 * Options that limit how much memory a pool keeps, and for how long. NULL, or zero in any field,
 * means the default. Before a pool grows it may free idle memory, whatever the options are.
 * "Memory" in docs/concepts.md says when, and which limit a program needs.
 */
typedef struct ferry_pool_options {
    size_t limit_bytes;             /**< most bytes that the pool may hold from the device or the
                                         system. Default: the context's limit for this kind of
                                         memory; none for a pool of ferry_pool_create() */
    size_t high_water_bytes;        /**< if the pool holds more than this, it frees idle memory.
                                         Default: no limit */
    size_t release_threshold_bytes; /**< cached bytes that the pool keeps when it frees idle memory
                                         because of high_water_bytes, trim_period_ms or its growth.
                                         SIZE_MAX: it keeps all. Default: 0 */
    uint64_t trim_period_ms;        /**< milliseconds between two trims, also when the program makes
                                         no call. A trim frees memory that has been idle for at
                                         least trim_age_ms. Default: the pool never trims */
    uint64_t trim_age_ms;           /**< default: trim_period_ms */
    uint64_t wait_ms;               /**< an allocation that finds too little memory waits at most
                                         this long in all for queued work that still uses idle
                                         memory, and half as long before it evicts replicas.
                                         Default: 10 s. FERRY_WAIT_NEVER: it fails if no memory is
                                         free without waiting */
    bool zero_on_release;           /**< freed blocks, and blocks that are live when the pool is
                                         destroyed, are set to zero before another allocation can
                                         get their memory, and before it goes back to the device or
                                         the system. Memory that is already idle when
                                         ferry_pool_configure() sets this option is not */
    uint64_t reserved[4];
} ferry_pool_options;

/**
 * The allocator behind a pool of ferry_pool_create(), such as that of MPI, NCCL or the program.
 * Both functions are watching callbacks, which Ferry may call on several threads at once.
 */
typedef struct ferry_pool_backend {
    /**
     * Allocates `bytes` bytes, never 0, aligned to `align`, and sets `*out` to their address. After
     * FERRY_ERROR_OUT_OF_MEMORY the pool tries to free memory, and calls the function again. After
     * any other failure the allocation that needed the memory fails.
     */
    ferry_status (*alloc)(void *user, size_t bytes, void **out);
    /**
     * Frees what one call of `alloc` returned, with the same `bytes`. If the function fails, the
     * memory must still be valid, because the pool continues to use it.
     */
    ferry_status (*free)(void *user, void *memory, size_t bytes);
    void *user;   /**< passed to both functions */
    size_t align; /**< alignment in bytes of all memory that `alloc` returns: a power of two, at
                       least 256. 0 means 256 */
    uint64_t reserved[4];
} ferry_pool_backend;

/** What one call of ferry_pool_compact() did. */
typedef struct ferry_pool_compaction {
    uint64_t moved_bytes; /**< bytes of the moved replicas */
    uint64_t freed_slabs; /**< empty slabs that it returned */
    uint64_t freed_bytes; /**< their bytes */
    uint64_t reserved[4];
} ferry_pool_compaction;

/** Properties of a block. */
typedef struct ferry_block_info {
    void *pointer;
    size_t bytes;
    size_t requested_bytes; /**< 0 for an idle block */
    const char *label;      /**< that of ferry_block_label(), or NULL */
    bool is_held;
    bool is_pending;   /**< true: the block is idle, and queued work may still use its memory */
    void *slab;        /**< start of the memory that the pool allocated at once, or mapped side by
                            side (`device.handle` in docs/tuning.md), of which the block is a part. The
                          blocks of a slab are visited one after the other, in the        order of their
                          addresses, and fill it */
    size_t slab_bytes; /**< size of that memory */
    uint64_t reserved[2];
} ferry_block_info;

/**
 * Receives one block. Returns true to continue with the next block, and false to stop. It is a
 * working callback.
 */
typedef bool ferry_block_visit(const ferry_block_info *block, void *user);

/**
 * A function of the program that frees memory when the pool does not find `needed_bytes` bytes for
 * an allocation: it may free blocks, trim the pool, and evict or destroy buffers. It is a
 * working callback. If it allocates memory itself and there is none, that allocation fails without
 * calling it again.
 * @return true when it freed memory: the pool tries again, and calls it again if that was not
 *         enough. false: the allocation fails
 */
typedef bool ferry_pool_shortage(ferry_pool *pool, size_t needed_bytes, void *user);

/**
 * Sets `*out` to the context's pool for one place and one kind of memory. The first call creates
 * it.
 *
 * @param place 0, the host, for PINNED, PAGEABLE and MANAGED memory; a device for DEVICE memory
 * @param kind FERRY_MEMORY_DEFAULT means PAGEABLE if `place` is 0, and DEVICE otherwise
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for an unknown place or kind, or a kind that
 *         the place does not have); FERRY_ERROR_UNSUPPORTED (no device of the context has such
 *         memory); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_IO (the allocation log cannot be
 *         created); FERRY_ERROR_INVALID_STATE (also after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_pool(ferry_context *context, int place,
                                                          ferry_memory_kind kind, ferry_pool **out);

/**
 * Creates a pool that gets its memory from an allocator of the caller. The caller owns `*out`, and
 * destroys it before the context.
 *
 * `place` and `kind` state where the allocator's memory is, and of which kind. Streams may use its
 * blocks like the context's own memory of that kind. The pool writes no allocation log.
 * @param backend copied. The pool asks `alloc` for 2 MiB or more at once, or if there is no room
 *         for that, for a single block
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also for an unknown place or kind, a function of
 *         the backend that is NULL, and an alignment that is not a power of two or below 256);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_INVALID_STATE (also after the context was
 *         destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_create(ferry_context *context, int place,
                                                         ferry_memory_kind kind,
                                                         const ferry_pool_backend *backend,
                                                         const ferry_pool_options *options,
                                                         ferry_pool **out);
/**
 * Destroys a pool of ferry_pool_create(), and sets `*pool` to NULL. The call blocks until no queued
 * work uses memory of freed blocks, and then frees all memory of the pool. It logs blocks that are
 * still live, and frees them too.
 *
 * For a pool of ferry_context_pool(), in a watching callback, and in one whose surrounding call
 * uses the pool, the call logs an error and does nothing.
 * @param pool NULL and a pointer to NULL have no effect
 * Threads: no other thread may be inside a call on the pool.
 */
FERRY_API void ferry_pool_destroy(ferry_pool **pool);

/**
 * Changes how much memory the pool keeps, and for how long. With trim_period_ms a thread of the
 * context, which does not run in a forked child, trims the pool also when the program makes no
 * call. It calls `free` of the pool's backend and the log callback.
 * @param options NULL for defaults
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE;
 *         FERRY_ERROR_OUT_OF_MEMORY (the thread cannot be started; the pool keeps its earlier
 *         options).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_configure(ferry_pool *pool,
                                                            const ferry_pool_options *options);

/**
 * Allocates at least `bytes` bytes, aligned to 256 bytes. The caller owns `*out`, and frees it with
 * ferry_block_free().
 *
 * Work that the caller queues on `stream` may use the memory at once: Ferry makes `stream` wait for
 * queued work of other streams that still uses it. The call blocks only if the pool finds too
 * little memory, at most for wait_ms of ferry_pool_options.
 * @param bytes 0 returns a block whose pointer is NULL; it counts as a block of the smallest size
 * @param stream NULL: the call returns when no earlier work uses the memory any more; the host and
 *         every stream may then use the block
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_WRONG_CONTEXT;
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_DEVICE (a driver call failed);
 *         FERRY_ERROR_INVALID_STATE (also for a destroyed stream; in a watching callback only if
 *         the pool has no idle memory); for a pool of ferry_pool_create(), the status that `alloc`
 *         of its backend returned.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_allocate(ferry_pool *pool, size_t bytes,
                                                           ferry_stream *stream, ferry_block **out);

/**
 * Allocates a block as ferry_pool_allocate() does, but aligned to `alignment` bytes. If that is
 * above 256, the call locks the pool, and the block may use up to `alignment` additional bytes, and
 * freeing it may lock the pool too.
 * @param alignment any power of two; 0 means 256
 * @return the same statuses as ferry_pool_allocate(); FERRY_ERROR_INVALID_ARGUMENT also when the
 *         alignment is not a power of two.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_allocate_aligned(ferry_pool *pool, size_t bytes,
                                                                   size_t alignment,
                                                                   ferry_stream *stream,
                                                                   ferry_block **out);

/**
 * Returns the address of the block's memory; NULL for NULL, and for a block of zero bytes.
 * Threads: any.
 */
FERRY_API void *ferry_block_pointer(const ferry_block *block);
/**
 * Returns the number of bytes that the caller may use: at least as many as it requested, and
 * exactly as many while a memory checker watches the pool; 0 for NULL. Threads: any.
 */
FERRY_API size_t ferry_block_bytes(const ferry_block *block);

/**
 * Frees a block and sets `*block` to NULL. Work that was queued on `stream` before the call may
 * still use the block. Does not block. If the call fails, the block is still live.
 * @param block if `*block` is NULL, the call does nothing and returns FERRY_OK
 * @param stream NULL: no queued work uses the block
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also if the block was already freed);
 *         FERRY_ERROR_WRONG_CONTEXT; FERRY_ERROR_UNSUPPORTED (the stream is being captured);
 *         FERRY_ERROR_INVALID_STATE (in a forked child, or for a destroyed stream); with
 *         zero_on_release also FERRY_ERROR_DEVICE and FERRY_ERROR_OUT_OF_MEMORY (the memory cannot
 *         be set to zero).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_block_free(ferry_block **block, ferry_stream *stream);

/**
 * Copies the statistics of a pool to `*out`.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_get_stats(ferry_pool *pool,
                                                            ferry_pool_stats *out);

/**
 * Copies the statistics of one size class of a pool to `*out`.
 * @param class_index 0 to FERRY_POOL_CLASS_COUNT - 1
 * @return the same statuses as ferry_pool_get_stats(); FERRY_ERROR_INVALID_ARGUMENT also when there
 *         is no such class.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_get_class_stats(ferry_pool *pool, int class_index,
                                                                  ferry_pool_class_stats *out);

/**
 * Returns idle memory of the pool to the device or the system, until at most `keep_bytes` bytes are
 * cached. Memory that queued work still uses stays.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim(ferry_pool *pool, size_t keep_bytes);
/**
 * Does the same as ferry_pool_trim() for memory that has been idle for at least `age_ms`
 * milliseconds, oldest first. Memory may count as older than it is, see "Memory" in
 * docs/concepts.md.
 * @return the same statuses as ferry_pool_trim().
 * Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim_older(ferry_pool *pool, uint64_t age_ms);

/**
 * Moves replicas out of the slabs that have the least memory in use, and returns empty slabs, also
 * those of idle large blocks, to the device, so that large blocks fit into the pool's free memory.
 * It blocks until the moves are done, but at most for the pool's wait_ms.
 *
 * Replicas with an open scope, held replicas, and blocks that the program allocated are not moved.
 * For other pools than the device pools of a context, the call only returns slabs that are already
 * empty.
 * @param out receives what the call did; may be NULL
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_BUSY (another thread is compacting
 *         the pool); FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_compact(ferry_pool *pool,
                                                          ferry_pool_compaction *out);

/**
 * Sets the function that the pool calls, with `user`, before an allocation fails because there is
 * too little memory, on the thread that allocates, possibly on several threads at once.
 * @param callback NULL removes the function
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_on_shortage(ferry_pool *pool,
                                                              ferry_pool_shortage *callback,
                                                              void *user);

/**
 * Calls `visit` for each block of the pool, live or idle, as they were at one moment. Together they
 * are all the memory that the pool has allocated. Idle blocks that were merged count as one.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_OUT_OF_MEMORY;
 *         FERRY_ERROR_INVALID_STATE.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_for_each_block(ferry_pool *pool,
                                                                 ferry_block_visit *visit,
                                                                 void *user);

/**
 * Sets the label of a live block, which ferry_pool_for_each_block() and the report of leaked blocks
 * show.
 * @param label the program keeps the string until the block is freed; NULL removes the label
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_INVALID_STATE.
 * Threads: only the thread that owns the block.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_block_label(ferry_block *block, const char *label);

FERRY_END_DECLS

#endif
