/* SPDX-License-Identifier: MIT */
#ifndef FERRY_POOL_H
#define FERRY_POOL_H

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
    uint64_t reserved[8];
} ferry_pool_stats;

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

FERRY_END_DECLS

#endif
