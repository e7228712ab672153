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
 * one pool for each place and memory kind. Buffers get the memory of their replicas from these
 * pools. A program may also allocate blocks from them. Allocated memory is uninitialized.
 */

/**
 * A memory pool. The context owns a pool that ferry_context_pool() returns. The program owns a pool
 * that it created with ferry_pool_create().
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
    FERRY_MEMORY_MANAGED = 4   /**< managed memory, which host and devices access by the same
                                    pointer */
} ferry_memory_kind;

/**
 * Statistics of a pool. The counters start at zero when the pool is created, and
 * ferry_context_reset_stats() resets them. All values are exact if no other call on the pool is
 * running.
 */
typedef struct ferry_pool_stats {
    uint64_t allocations; /**< successful allocations: hits + misses */
    uint64_t frees;       /**< blocks freed */
    uint64_t hits;        /**< allocations that used idle memory of the pool */
    uint64_t misses;      /**< allocations for which the pool had to get memory from the
                               device or the system */
    uint64_t live_bytes;  /**< bytes of live blocks */
    uint64_t live_blocks;
    uint64_t requested_bytes;     /**< bytes that the callers requested for the live blocks; at most
                                       live_bytes */
    uint64_t cached_bytes;        /**< bytes of idle blocks, which the pool keeps for later
                                       allocations */
    uint64_t pending_bytes;       /**< bytes of cached_bytes that queued work still uses */
    uint64_t reserved_bytes;      /**< all bytes that the pool now holds from the device or the
                                       system; at least live_bytes + cached_bytes */
    uint64_t peak_reserved_bytes; /**< highest value of reserved_bytes so far */
    uint64_t largest_free_bytes;  /**< size of the largest block that the cached memory has room
                                       for */
    uint64_t evictions;           /**< number of replicas that Ferry evicted to make room in this
                                       pool */
    double fragmentation;         /**< 1 - largest_free_bytes / cached_bytes; 0 when nothing is
                                       cached */
    uint64_t limit_bytes;         /**< most bytes that the pool may hold from the device or the
                                       system; 0: there is no limit. A reset does not change it */
    uint64_t peak_live_bytes;     /**< highest value of live_bytes that the pool has seen. The pool
                                       looks when it grows, when its statistics are read or reset,
                                       and whenever it has found an eighth of reserved_bytes for
                                       allocations outside of the threads' magazines. A peak
                                       between two looks is missed */
    uint64_t reserved[4];
} ferry_pool_stats;

/**
 * Number of size classes of the statistics. The classes hold blocks of up to 1 KiB, 2 KiB, 4 KiB
 * and so on, up to 512 MiB; the last one holds all larger blocks.
 */
#define FERRY_POOL_CLASS_COUNT 21

/**
 * Statistics of one size class. A live block belongs to the class of the bytes that were requested,
 * which in a checked build include the guard bytes behind the block. An idle block belongs to the
 * class of its block size.
 */
typedef struct ferry_pool_class_stats {
    uint64_t allocations; /**< successful allocations since the pool was created, or since the
                               last ferry_context_reset_stats() */
    uint64_t hits;        /**< allocations that used idle memory of the pool */
    uint64_t live_blocks;
    uint64_t live_bytes;
    uint64_t cached_bytes;
    uint64_t requested_bytes; /**< bytes that the callers requested for the live blocks; at most
                                   live_bytes */
    uint64_t reserved[4];
} ferry_pool_class_stats;

/** Value of ferry_pool_options.wait_ms with which an allocation never waits. */
#define FERRY_WAIT_NEVER ((uint64_t)-1)

/**
 * Options that limit how much memory a pool keeps, and for how long. NULL, or zero in any field,
 * means the default.
 *
 * A pool also limits its own growth, whatever the options are. It frees idle memory when it would
 * otherwise hold more than 128 MiB and more than 1.5 times its peak of live bytes, which it samples
 * whenever it grows. It first frees the memory that has been idle longest, and keeps
 * release_threshold_bytes cached. The pool therefore gives back memory of sizes that the program no
 * longer requests. A pool of a CUDA device's memory does so only when less than an eighth of that
 * memory is free, because freeing it waits for all work of the device. If release_threshold_bytes
 * is SIZE_MAX, the pool keeps everything.
 *
 * The pool can only free slabs without a live block, so it may hold more than 1.5 times the peak. A
 * program that allocates and frees blocks of random sizes in random order needs a limit_bytes of
 * about twice its peak of live bytes. With less, its allocations fail, or Ferry evicts and moves
 * replicas.
 */
typedef struct ferry_pool_options {
    size_t limit_bytes;             /**< most bytes that the pool may hold from the device or the
                                         system. Default: the limit that the context's options or
                                         FERRY_TUNING set for this kind of memory; a pool of
                                         ferry_pool_create() has no limit */
    size_t high_water_bytes;        /**< if the pool holds more than this many bytes from the device
                                         or the system, it frees idle memory. Default: no limit */
    size_t release_threshold_bytes; /**< number of cached bytes that the pool keeps when it frees
                                         idle memory because of high_water_bytes, trim_period_ms or
                                         its growth. Default: 0 */
    uint64_t trim_period_ms;        /**< milliseconds between two trims. A trim frees memory that
                                         has been idle for at least trim_age_ms, also when no call
                                         comes, see ferry_pool_configure(). Default: the pool never
                                         trims */
    uint64_t trim_age_ms;           /**< age in milliseconds at which a trim frees idle memory.
                                         Default: trim_period_ms */
    uint64_t wait_ms;               /**< an allocation that finds too little memory waits for queued
                                         work that still uses idle memory. Its waits together take
                                         at most this many milliseconds, and half of them before it
                                         evicts replicas. Default: 10 s. With FERRY_WAIT_NEVER the
                                         allocation never waits, and fails if no memory is free
                                         without waiting */
    bool zero_on_release;           /**< each block that is freed is set to zero before another
                                         allocation can get its memory, and before the memory goes
                                         back to the device or the system. Blocks that are live when
                                         the pool is destroyed are set to zero too. Memory that is
                                         already idle when ferry_pool_configure() sets this option
                                         is not. The host sets host memory to zero during the free;
                                         where queued work uses a block, the device does it in the
                                         order of that work. Every allocation and free then takes
                                         the pool's lock */
    uint64_t reserved[4];
} ferry_pool_options;

/**
 * The allocator behind a pool that ferry_pool_create() creates, such as that of MPI, NCCL or the
 * program. Ferry may call its functions on several threads at once. Both are watching callbacks,
 * see "Callbacks" in <ferry/status.h>.
 */
typedef struct ferry_pool_backend {
    /**
     * Allocates `bytes` bytes, aligned to `align`, and sets `*out` to their address. `bytes` is
     * never 0. If the function returns FERRY_ERROR_OUT_OF_MEMORY, the pool tries to free memory,
     * and calls it again. After any other failure the allocation that needed the memory fails.
     */
    ferry_status (*alloc)(void *user, size_t bytes, void **out);
    /**
     * Frees the memory that one earlier call of `alloc` returned, with the same `bytes`. If this
     * function fails, the memory must still be valid, because the pool continues to use it.
     */
    ferry_status (*free)(void *user, void *memory, size_t bytes);
    void *user;   /**< passed to both functions */
    size_t align; /**< alignment in bytes of all memory that `alloc` returns: a power of two, at
                       least 256. 0 means 256 */
    uint64_t reserved[4];
} ferry_pool_backend;

/** What one call of ferry_pool_compact() did. */
typedef struct ferry_pool_compaction {
    uint64_t moved_bytes; /**< bytes of the replicas that it moved */
    uint64_t freed_slabs; /**< number of empty slabs that it returned to the device */
    uint64_t freed_bytes; /**< bytes of the slabs that it returned */
    uint64_t reserved[4];
} ferry_pool_compaction;

/** Properties of a block. ferry_pool_for_each_block() reports them. */
typedef struct ferry_block_info {
    void *pointer;
    size_t bytes;
    size_t requested_bytes; /**< bytes that the program requested; 0 for an idle block */
    const char *label;      /**< the label that ferry_block_label() set, or NULL */
    bool is_held;
    uint64_t reserved[4];
} ferry_block_info;

/**
 * A function of the program that receives one block. It returns true to continue with the next
 * block, and false to stop. It is a working callback, see "Callbacks" in <ferry/status.h>.
 */
typedef bool ferry_block_visit(const ferry_block_info *block, void *user);

/**
 * A function of the program that frees memory when the pool does not find `needed_bytes` bytes for
 * an allocation. It may free blocks, trim the pool, and evict or destroy buffers.
 *
 * It is a working callback, see "Callbacks" in <ferry/status.h>. If it allocates memory itself and
 * there is none, that allocation fails, and the function is not called again for it.
 * @return true when it freed memory. The pool then tries the allocation again, and calls the
 *         function again if that was not enough. false: the allocation fails
 */
typedef bool ferry_pool_shortage(ferry_pool *pool, size_t needed_bytes, void *user);

/**
 * Sets `*out` to the context's pool for one place and one kind of memory. The first call creates
 * the pool. The context owns it.
 *
 * @param place 0, the host, for PINNED, PAGEABLE and MANAGED memory; a device for DEVICE memory
 * @param kind FERRY_MEMORY_DEFAULT means PAGEABLE if `place` is 0, and DEVICE otherwise
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, an unknown place or kind, or a kind that
 *         the place does not have); FERRY_ERROR_UNSUPPORTED (no device of the context has such
 *         memory); FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_IO (the allocation log cannot be
 *         created); FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback, or after
 *         the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_pool(ferry_context *context, int place,
                                                          ferry_memory_kind kind, ferry_pool **out);

/**
 * Creates a pool that gets its memory from an allocator of the caller. The caller owns `*out`, and
 * destroys it before the context.
 *
 * `place` and `kind` state where the allocator's memory is, and of which kind it is. Streams may
 * use blocks of the pool as they may use the context's own memory of that kind. The pool writes no
 * allocation log.
 * @param backend the allocator; the call copies the struct. The pool asks `alloc` for 2 MiB or
 *         more, and uses that memory for one or more blocks. If there is no room for as much, the
 *         pool asks for the size of a single block.
 * @param options NULL for defaults
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, an unknown place or kind, a function of the
 *         backend that is NULL, an alignment that is not a power of two or below 256);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_INVALID_STATE (in a forked child or a watching
 *         callback, or after the context was destroyed).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_create(ferry_context *context, int place,
                                                         ferry_memory_kind kind,
                                                         const ferry_pool_backend *backend,
                                                         const ferry_pool_options *options,
                                                         ferry_pool **out);
/**
 * Destroys a pool that ferry_pool_create() created, and sets `*pool` to NULL.
 *
 * Queued work may still use memory of blocks that were freed. The call blocks until such work is
 * done, and then frees all memory of the pool. If blocks are still live, the call logs them and
 * frees them too.
 *
 * A pool that ferry_context_pool() returned belongs to the context: the call logs an error, and
 * does not destroy it. In a watching callback, and in one whose surrounding call uses the
 * pool, it logs an error too.
 * @param pool NULL and a pointer to NULL have no effect
 * Threads: no other thread may be inside a call on the pool.
 */
FERRY_API void ferry_pool_destroy(ferry_pool **pool);

/**
 * Changes how much memory the pool keeps, and for how long.
 *
 * The pool checks its limits and the trim period during some calls: during an allocation that finds
 * no idle memory, during every 256th free of a thread, and when a block is freed that was allocated
 * while the pool held more than high_water_bytes. Calls that wait for the device never trim.
 *
 * If trim_period_ms is set, the pool also trims when the program makes no call. A thread of the
 * context does that. The first pool with a trim period starts the thread, and the end of the
 * context ends it. A context without such a pool has no such thread. The thread calls `free` of the
 * pool's backend and the log callback. In a forked child it does not run.
 * @param options NULL for defaults
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (`pool` is NULL); FERRY_ERROR_INVALID_STATE (in a
 *         forked child or a watching callback); FERRY_ERROR_OUT_OF_MEMORY (the thread cannot be
 *         started; the pool keeps its earlier options).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_configure(ferry_pool *pool,
                                                            const ferry_pool_options *options);

/**
 * Allocates at least `bytes` bytes of uninitialized memory, aligned to 256 bytes. The caller owns
 * `*out`, and frees it with ferry_block_free().
 *
 * Work that the caller queues on `stream` may use the memory at once. If queued work of other
 * streams still uses the memory, Ferry makes `stream` wait for that work; the calling thread does
 * not wait. The call blocks only if the pool finds too little memory. Its waits then take at most
 * wait_ms of ferry_pool_options together.
 * @param bytes 0 returns a block whose pointer is NULL; it counts as a block of the smallest size
 * @param stream the stream whose work uses the block. NULL: the call returns when no earlier work
 *         uses the memory any more; the host and every stream may then use the block
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_WRONG_CONTEXT (the stream
 *         belongs to another context); FERRY_ERROR_OUT_OF_MEMORY (the message states the requested,
 *         free, total, cached and largest free bytes); FERRY_ERROR_DEVICE (a driver call failed);
 *         FERRY_ERROR_INVALID_STATE (in a forked child, for a destroyed stream, or in a watching
 *         callback if the pool has no idle memory); for a pool of ferry_pool_create(), the status
 *         that `alloc` of its backend returned.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_allocate(ferry_pool *pool, size_t bytes,
                                                           ferry_stream *stream, ferry_block **out);

/**
 * Allocates a block as ferry_pool_allocate() does, but aligned to `alignment` bytes.
 *
 * An alignment above 256 makes the call slower, because it then locks the pool. If blocks of this
 * size do not already have the alignment, the block uses up to `alignment` additional bytes, and
 * freeing it locks the pool too.
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
 * Returns the number of bytes that the caller may use. They are at least as many as it requested,
 * and in a checked build exactly as many. Returns 0 for NULL. Threads: any.
 */
FERRY_API size_t ferry_block_bytes(const ferry_block *block);

/**
 * Frees a block and sets `*block` to NULL. Does not block.
 *
 * Work that was queued on `stream` before the call may still use the block. If the call fails, the
 * block is still live.
 * @param block if `*block` is NULL, the call does nothing and returns FERRY_OK
 * @param stream NULL: no queued work uses the block
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (`block` is NULL, or the block was already freed);
 *         FERRY_ERROR_WRONG_CONTEXT (the stream belongs to another context);
 *         FERRY_ERROR_UNSUPPORTED (the stream is being captured); FERRY_ERROR_INVALID_STATE (in a
 *         forked child, or for a destroyed stream); with zero_on_release also FERRY_ERROR_DEVICE
 *         and FERRY_ERROR_OUT_OF_MEMORY (the memory cannot be set to zero).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_block_free(ferry_block **block, ferry_stream *stream);

/**
 * Copies the statistics of a pool to `*out`.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (in a forked
 *         child or a watching callback).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_get_stats(ferry_pool *pool,
                                                            ferry_pool_stats *out);

/**
 * Copies the statistics of one size class of a pool to `*out`.
 * @param class_index 0 to FERRY_POOL_CLASS_COUNT - 1. Class i holds blocks of up to 1024 << i
 *         bytes; the last class holds all larger blocks
 * @return the same statuses as ferry_pool_get_stats(); FERRY_ERROR_INVALID_ARGUMENT also when there
 *         is no such class.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_get_class_stats(ferry_pool *pool, int class_index,
                                                                  ferry_pool_class_stats *out);

/**
 * Frees idle memory of the pool until at most `keep_bytes` bytes are cached. The memory goes back
 * to the device or the system. Live blocks, and memory that queued work still uses, are not freed.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (in a forked
 *         child or a watching callback).
 * Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim(ferry_pool *pool, size_t keep_bytes);
/**
 * Frees memory that has been idle for at least `age_ms` milliseconds, oldest first. The memory goes
 * back to the device or the system. Memory that queued work still uses is not freed.
 *
 * A thread reads the clock only at every 256th block that it frees. Memory that it freed in between
 * may therefore count as older than it is.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_INVALID_STATE (in a forked
 *         child or a watching callback).
 * Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim_older(ferry_pool *pool, uint64_t age_ms);

/**
 * Compacts the pool, so that large blocks fit into its free memory. A slab is a large piece of
 * memory that the pool divides into blocks. The call empties the slabs that have the least memory
 * in use: it moves their replicas to other slabs, and then returns the empty slabs to the device.
 * A large block is a separate slab, so idle large blocks are returned, too.
 *
 * The call does not move replicas with an open scope, held replicas, or blocks that the program
 * allocated. Only the device pools of a context contain replicas that can be moved. For any other
 * pool the call only returns slabs that are already empty. It blocks until the moves are done, but
 * at most for the pool's wait_ms.
 * @param out receives what the call did; may be NULL
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (`pool` is NULL); FERRY_ERROR_BUSY (another thread
 *         is compacting the pool); FERRY_ERROR_INVALID_STATE (in a forked child or a watching
 *         callback).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_compact(ferry_pool *pool,
                                                          ferry_pool_compaction *out);

/**
 * Sets the function that the pool calls, with `user`, before an allocation fails because there is
 * too little memory.
 *
 * The pool calls the function on the thread that allocates, possibly on several threads at once.
 * @param callback NULL removes the function
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (`pool` is NULL); FERRY_ERROR_INVALID_STATE (in a
 *         forked child or a watching callback).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_on_shortage(ferry_pool *pool,
                                                              ferry_pool_shortage *callback,
                                                              void *user);

/**
 * Calls `visit` for each block of the pool, live or idle. The blocks are reported as they were at
 * one moment. Together they are all the memory that the pool has allocated. An idle block may
 * consist of several blocks that were freed and then merged.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL); FERRY_ERROR_OUT_OF_MEMORY;
 *         FERRY_ERROR_INVALID_STATE (in a forked child or a watching callback).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_for_each_block(ferry_pool *pool,
                                                                 ferry_block_visit *visit,
                                                                 void *user);

/**
 * Sets the label of a live block. ferry_pool_for_each_block() and the report of leaked blocks show
 * the label. In a checked build that report also shows where the program allocated the block.
 * @param label the program keeps the string until the block is freed; NULL removes the label
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (`block` is NULL); FERRY_ERROR_INVALID_STATE (in a
 *         forked child or a watching callback).
 * Threads: only the thread that owns the block.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_block_label(ferry_block *block, const char *label);

FERRY_END_DECLS

#endif
