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
 * Memory pools: one per place and memory kind of a context. Buffers take their copies from them; a program may
 * take scratch memory too. Memory is uninitialised.
 */

/** The pool, owned by its context. */
typedef struct ferry_pool ferry_pool;
/** A piece of memory, described; what the pool hands out. */
typedef struct ferry_block ferry_block;

/** Which memory. Values are final. */
typedef enum ferry_memory_kind {
    FERRY_MEMORY_DEFAULT = 0,  /**< pageable on the host, device memory on a device */
    FERRY_MEMORY_DEVICE = 1,
    FERRY_MEMORY_PINNED = 2,   /**< page-locked host memory */
    FERRY_MEMORY_PAGEABLE = 3, /**< ordinary host memory */
    FERRY_MEMORY_MANAGED = 4   /**< one pointer for host and device */
} ferry_memory_kind;

/** What a pool holds now, and what it has done since it was created or since ferry_context_reset_stats(). Exact when no call is running on it. */
typedef struct ferry_pool_stats {
    uint64_t allocations;         /**< blocks handed out: hits + misses. A call that failed is not counted */
    uint64_t frees;               /**< blocks that came back */
    uint64_t hits;                /**< allocations from idle memory of the pool */
    uint64_t misses;              /**< allocations that took memory from the device or the system */
    uint64_t live_bytes;          /**< of blocks that are held now */
    uint64_t live_blocks;
    uint64_t requested_bytes;     /**< what the holders of live blocks asked for; at most live_bytes */
    uint64_t cached_bytes;        /**< of blocks that are idle now */
    uint64_t pending_bytes;       /**< of the cached: still used by queued work */
    uint64_t reserved_bytes;      /**< taken from the device or the system now; at least live + cached */
    uint64_t peak_reserved_bytes; /**< the highest reserved_bytes */
    uint64_t largest_free_bytes;  /**< the largest block that the cached memory can give as a whole */
    uint64_t evictions;           /**< copies of buffers that were given up to make room in this pool */
    double fragmentation;         /**< 1 - largest_free_bytes / cached_bytes; 0 when nothing is cached */
    uint64_t reserved[4];
} ferry_pool_stats;

/** Number of size classes of the statistics: up to 1 KiB, 2 KiB, ... 512 MiB, and above. */
#define FERRY_POOL_CLASS_COUNT 21

/**
 * Statistics of one size class. A held block belongs to the class of the bytes that were asked for, in a checked build
 * with their red zone; an idle block belongs to the class of its own size.
 */
typedef struct ferry_pool_class_stats {
    uint64_t allocations;     /**< blocks handed out; counters restart with ferry_context_reset_stats() */
    uint64_t hits;            /**< allocations from idle memory of the pool */
    uint64_t live_blocks;
    uint64_t live_bytes;
    uint64_t cached_bytes;
    uint64_t requested_bytes; /**< what the holders of live blocks asked for; at most live_bytes */
    uint64_t reserved[4];
} ferry_pool_class_stats;

/** As `wait_ms`: never. */
#define FERRY_WAIT_NEVER ((uint64_t)-1)

/**
 * How a pool keeps memory. NULL, or zero in any field, means the default.
 *
 * Whatever is set, a pool that needs more memory from the device, and would then have more than 128 MiB and more than one and a half times the bytes
 * that were ever live in it at once, first gives back what is idle too long, oldest first, as far as release_threshold_bytes allows: blocks of sizes
 * that are not taken any more are not piled up. A threshold of SIZE_MAX keeps everything.
 */
typedef struct ferry_pool_options {
    size_t limit_bytes;             /**< taken from the device at most; default: the context's limit for such memory, for a pool of one's own none */
    size_t high_water_bytes;        /**< while more than this is taken from the device, idle memory is given back; default: no mark */
    size_t release_threshold_bytes; /**< the mark, the period and growth leave so many bytes cached; default 0 */
    uint64_t trim_period_ms;        /**< how often idle memory that is old is given back; default: never */
    uint64_t trim_age_ms;           /**< idle so long is old; default: the period */
    uint64_t wait_ms;               /**< a take that runs short waits so long at most, each time it waits, for queued work that uses idle memory; default 10 s,
                                         FERRY_WAIT_NEVER: it takes what is done, or fails */
    uint64_t reserved[4];
} ferry_pool_options;

/** Where a pool of one's own gets its memory: MPI, NCCL, shared memory, another library's allocator. Called by several threads at once.
 * Both functions are watching callbacks, see "Callbacks" in <ferry/status.h>. */
typedef struct ferry_pool_backend {
    /** Allocate `bytes` > 0, aligned to `align`. FERRY_ERROR_OUT_OF_MEMORY starts the ladder of a take that runs short; other failures end it. */
    ferry_status (*alloc)(void *user, size_t bytes, void **out);
    /** Free what alloc gave, whole. A call that fails has done nothing: the memory stays the pool's. */
    ferry_status (*free)(void *user, void *memory, size_t bytes);
    void *user;
    size_t align; /**< of its memory: a power of two, at least 256, which 0 means too */
    uint64_t reserved[4];
} ferry_pool_backend;

/** What a compaction did. */
typedef struct ferry_pool_compaction {
    uint64_t moved_bytes; /**< of copies of buffers that were moved */
    uint64_t freed_slabs; /**< that were empty then, and went back to the device */
    uint64_t freed_bytes; /**< theirs */
    uint64_t reserved[4];
} ferry_pool_compaction;

/** A block as ferry_pool_for_each_block() tells of it. */
typedef struct ferry_block_info {
    void *pointer;
    size_t bytes;
    size_t requested_bytes; /**< of its holder; 0 when it is idle */
    const char *label;      /**< of its holder, or NULL */
    bool is_held;
} ferry_block_info;

/** Visits one block; false ends the walk. A working callback, see "Callbacks" in <ferry/status.h>. */
typedef bool ferry_block_visit(const ferry_block_info *block, void *user);

/**
 * Makes room when a take finds no memory: gives blocks back, trims, evicts and destroys buffers. A working callback that waits for no call, see
 * "Callbacks" in <ferry/status.h>. A take that runs short inside it fails, and does not call it again.
 * @return true when it made some: the take is tried again, and asks again when that was not enough
 */
typedef bool ferry_pool_shortage(ferry_pool *pool, size_t needed_bytes, void *user);

/**
 * The pool of a place and kind; created at the first call, owned by the context. DEFAULT is PAGEABLE at place 0
 * and DEVICE at a device. PINNED, PAGEABLE and MANAGED are at place 0.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_UNSUPPORTED (no device has such memory);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_IO (its allocation log cannot be written); FERRY_ERROR_INVALID_STATE (the child of a fork).
 *         Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out);

/**
 * Make a pool over the caller's own allocator. What it gives lives at `place`, as memory of `kind`: streams of any place may use it as they may such memory. It writes no
 * allocation log: those are of the context's own pools. The caller owns `*out`, and destroys it before the context.
 * @param backend copied; alloc and free are asked for at least 2 MiB at once, but for the last blocks that fit
 * @param options NULL for defaults
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, no such place or kind, an alignment that is no power of two);
 *         FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_INVALID_STATE (the child of a fork). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_create(ferry_context *context, int place, ferry_memory_kind kind, const ferry_pool_backend *backend,
                                                         const ferry_pool_options *options, ferry_pool **out);
/**
 * Wait for the work that uses idle memory of the pool, free it all, and set `*pool` to NULL. Blocks still held are reported to the log, and freed. NULL is harmless; a pool
 * that ferry_context_pool() gave is the context's, and stays. A callback of the library must not call it: it logs an error there, and
 * the pool stays. Threads: no other thread may be inside a call on the pool.
 */
FERRY_API void ferry_pool_destroy(ferry_pool **pool);

/**
 * Change how the pool keeps memory. Marks and periods are looked at where a call takes the long way: when a take finds no idle memory, once in 256 gives of a thread, and
 * when a block comes back that was taken above the mark; no thread is started for it. Calls that wait for the device never trim.
 * @param options NULL for defaults @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (the child of a fork). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_configure(ferry_pool *pool, const ferry_pool_options *options);

/**
 * Take at least `bytes` of memory, aligned to 256 bytes, uninitialised. Work on `stream` may use it at once;
 * memory that other streams still use is ordered by an event, never by waiting on the host. With a NULL stream the
 * block is idle: the host may use it too.
 * @param bytes 0 gives a block whose pointer is NULL
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_WRONG_CONTEXT; FERRY_ERROR_OUT_OF_MEMORY with requested, free, total, cached and
 *         largest free bytes in the message; FERRY_ERROR_DEVICE; FERRY_ERROR_INVALID_STATE (the child of a fork, a destroyed stream);
 *         for a pool of one's own, what its alloc failed with. May wait when it runs short, no longer than wait_ms each time. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_allocate(ferry_pool *pool, size_t bytes, ferry_stream *stream, ferry_block **out);

/**
 * As ferry_pool_allocate(), aligned to `alignment` bytes: any power of two; 0 is 256. Above 256 the take goes the long way, which is a lock; and where blocks of the size are not
 * aligned so anyway, it costs up to `alignment` bytes more, and the block goes back the long way too.
 * @return as ferry_pool_allocate(); FERRY_ERROR_INVALID_ARGUMENT also for another alignment. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_allocate_aligned(ferry_pool *pool, size_t bytes, size_t alignment, ferry_stream *stream, ferry_block **out);

/** The block's address; NULL for NULL and for a block of zero bytes. Threads: any. */
FERRY_API void *ferry_block_pointer(const ferry_block *block);
/** The usable bytes, at least what was asked; 0 for NULL. A checked build lets nobody use more than was asked. Threads: any. */
FERRY_API size_t ferry_block_bytes(const ferry_block *block);

/**
 * Give a block back and set `*block` to NULL. Work queued on `stream` until now may still use it (NULL: nobody
 * does). @return FERRY_OK (also for NULL in `*block`); FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_WRONG_CONTEXT; FERRY_ERROR_UNSUPPORTED (the stream is being captured);
 *         FERRY_ERROR_INVALID_STATE (the child of a fork, a destroyed stream). After a failure the block is still held. Does not wait. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_block_free(ferry_block **block, ferry_stream *stream);

/**
 * Returns the statistics of a pool.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (the child of a fork). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_get_stats(ferry_pool *pool, ferry_pool_stats *out);

/**
 * Returns the statistics of one size class of a pool.
 * @param class_index 0 to FERRY_POOL_CLASS_COUNT - 1: class i holds blocks of up to 1024 << i bytes, the last class all larger ones
 * @return as ferry_pool_get_stats(); FERRY_ERROR_INVALID_ARGUMENT also when there is no such class. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_get_class_stats(ferry_pool *pool, int class_index, ferry_pool_class_stats *out);

/**
 * Give idle memory back to the device until at most `keep_bytes` stay cached. Live blocks are not touched; memory
 * that queued work still uses stays. @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (the child of a fork). Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim(ferry_pool *pool, size_t keep_bytes);
/**
 * Give memory back to the device that has been idle for at least `age_ms` milliseconds, the oldest first. A thread tells
 * the age of what it gave back from its own last looks at the clock, one in 256 gives: it may be thought older than it is.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (the child of a fork). Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim_older(ferry_pool *pool, uint64_t age_ms);

/**
 * Move copies of buffers that nobody uses out of sparse slabs, and give the slabs that are empty then back to the device. Copies in a scope or pinned, and blocks that
 * the program took itself, stay where they are: only a context's device pools have copies to move, and of other pools just the slabs that are empty already
 * go back. Waits for the moves, no longer than the pool's wait_ms.
 * @param out may be NULL
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_BUSY (another thread compacts the pool); FERRY_ERROR_OUT_OF_MEMORY (of the host);
 *         FERRY_ERROR_INVALID_STATE (the child of a fork). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_compact(ferry_pool *pool, ferry_pool_compaction *out);

/**
 * Call `callback` (NULL: nobody) with `user` when a take would fail for want of memory. It is called on the taking thread, by several
 * threads at once when several run short.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (the child of a fork). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_on_shortage(ferry_pool *pool, ferry_pool_shortage *callback, void *user);

/**
 * Visit every block, held or idle, as all were at one moment. Memory that was never carved, or that was merged since, is none.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_INVALID_STATE (the child of
 *         a fork). Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_for_each_block(ferry_pool *pool, ferry_block_visit *visit, void *user);

/**
 * Name a held block for walks and for the report of leaks, which in a checked build also says where it was taken. The text is borrowed until the block is given back; NULL takes it off.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE (the child of a fork). Threads: the holder's.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_block_label(ferry_block *block, const char *label);

FERRY_END_DECLS

#endif
