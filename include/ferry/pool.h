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

/** Size classes of the statistics: up to 1 KiB, 2 KiB, ... 512 MiB, and above. */
#define FERRY_POOL_BIN_COUNT 21

/** Counts of one doubling of sizes, by requested bytes. */
typedef struct ferry_pool_bin {
    uint64_t takes;         /**< blocks handed out */
    uint64_t hits;          /**< of them, from idle memory of the pool */
    uint64_t live_blocks;   /**< handed out now */
    uint64_t live_bytes;
    uint64_t cached_blocks; /**< idle now */
    uint64_t cached_bytes;
} ferry_pool_bin;

/** What a pool did and holds. Exact when no call is running on it. Bytes are bytes of blocks, unless said otherwise. */
typedef struct ferry_pool_stats {
    uint64_t takes, gives;
    uint64_t hits, misses;      /**< a miss went to the device or to the system; hits + misses = takes that succeeded */
    double hit_rate;            /**< hits / (hits + misses); 0 when there were none */
    uint64_t live_blocks, live_bytes;
    uint64_t requested_bytes;   /**< what the holders of live blocks asked for; at most live_bytes */
    uint64_t cached_blocks, cached_bytes; /**< idle, free to be taken or given back */
    uint64_t pending_blocks, pending_bytes; /**< of the cached: still used by queued work */
    uint64_t reserved_bytes;    /**< taken from the device now; at least live + cached */
    uint64_t peak_live_bytes, peak_reserved_bytes;
    uint64_t limit_bytes;       /**< 0: none */
    uint64_t device_allocations, device_frees; /**< calls to the device or the system */
    uint64_t trims, evictions, waits;
    double fragmentation;       /**< 1 - largest free / total free, of cached bytes; 0 when nothing is cached */
    ferry_pool_bin bins[FERRY_POOL_BIN_COUNT];
    uint64_t shortages;         /**< takes for which there was no memory at first; each was saved by one of the next, or failed */
    uint64_t saved_by_reuse;    /**< memory came back meanwhile */
    uint64_t saved_by_trim;     /**< idle memory of other sizes was given back */
    uint64_t saved_by_wait;     /**< queued work that used idle memory was waited for */
    uint64_t saved_by_callback; /**< the program made room */
    uint64_t reserved[3];
} ferry_pool_stats;

/** A block as ferry_pool_walk() tells of it. */
typedef struct ferry_block_info {
    void *pointer;
    size_t bytes;
    size_t requested_bytes; /**< of its holder; 0 when it is idle */
    const char *label;      /**< of its holder, or NULL */
    bool is_held;
} ferry_block_info;

/** Visits one block; false ends the walk. */
typedef bool ferry_block_visit(const ferry_block_info *block, void *user);

/**
 * Makes room when a take finds no memory: gives blocks back, trims, destroys buffers. It must not take from the pool.
 * @return true when it made some: the take is tried again, and asks again when that was not enough
 */
typedef bool ferry_pool_shortage(ferry_pool *pool, size_t needed_bytes, void *user);

/**
 * The pool of a place and kind; created at the first call, owned by the context. DEFAULT is PAGEABLE at place 0
 * and DEVICE at a device. PINNED and PAGEABLE are at place 0.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_UNSUPPORTED (no device has such memory),
 *         FERRY_ERROR_OUT_OF_MEMORY. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_context_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out);

/**
 * Take at least `bytes` of memory, aligned to 256 bytes, uninitialised. Work on `stream` may use it at once;
 * memory that other streams still use is ordered by an event, never by waiting on the host. With a NULL stream the
 * block is idle: the host may use it too.
 * @param bytes 0 gives a block whose pointer is NULL
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_WRONG_CONTEXT; FERRY_ERROR_OUT_OF_MEMORY with requested, free, total, cached and
 *         largest free bytes in the message; FERRY_ERROR_DEVICE. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_take(ferry_pool *pool, size_t bytes, ferry_stream *stream, ferry_block **out);

/** The block's address; NULL for NULL and for a block of zero bytes. Threads: any. */
FERRY_API void *ferry_block_pointer(const ferry_block *block);
/** The usable bytes, at least what was asked; 0 for NULL. Threads: any. */
FERRY_API size_t ferry_block_bytes(const ferry_block *block);

/**
 * Give a block back and set `*block` to NULL. Work queued on `stream` until now may still use it (NULL: nobody
 * does). @return FERRY_OK (also for NULL in `*block`); FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_WRONG_CONTEXT. Does not wait. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_give(ferry_block **block, ferry_stream *stream);

/** @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT. Threads: any. */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_statistics(ferry_pool *pool, ferry_pool_stats *out);

/**
 * Give idle memory back to the device until at most `keep_bytes` stay cached. Live blocks are not touched; memory
 * that queued work still uses stays. @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT. Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim(ferry_pool *pool, size_t keep_bytes);
/**
 * Give memory back to the device that has been idle for at least `age_ms` milliseconds, the oldest first. A thread tells
 * the age of what it gave back from its own last looks at the clock, one in 256 gives: it may be thought older than it is.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT. Threads: any.
 */
FERRY_API ferry_status ferry_pool_trim_older(ferry_pool *pool, uint64_t age_ms);

/**
 * Call `callback` (NULL: nobody) with `user` when a take would fail for want of memory. It is called on the taking thread, with no lock
 * held, by several threads at once when several run short.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_on_shortage(ferry_pool *pool, ferry_pool_shortage *callback, void *user);

/**
 * Visit every block that was ever carved out and whose memory is still there, held or idle, as all were at one moment.
 * `visit` runs with no lock held. @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_OUT_OF_MEMORY. Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_pool_walk(ferry_pool *pool, ferry_block_visit *visit, void *user);

/**
 * Name a held block for walks and for the report of leaks. The text is borrowed until the block is given back; NULL takes it off.
 * @return FERRY_OK, FERRY_ERROR_INVALID_ARGUMENT. Threads: the holder's.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_block_label(ferry_block *block, const char *label);

FERRY_END_DECLS

#endif
