/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_POOL_H
#define FERRYI_POOL_H

/*
 * The pool: memory of one place and kind, handed out in blocks and kept when they come back.
 *
 * Sizes: multiples of 256 bytes below 2 KiB, eight classes per doubling above, so that waste stays within 12.5 %; blocks up to 1 MiB
 * are carved from slabs, larger ones are allocated and cached one by one; above the largest class (1 GiB) a request gets its exact size rounded to 4 KiB.
 * Blocks carry their descriptor: a release looks nothing up. A block that queued work still uses carries one stamp (lane.h), several uses
 * having been joined into one. A take on a lane prefers idle blocks already ordered for it, then lets the lane wait
 * for the stamp of another; a take for the host takes only blocks whose work is done, and before it asks the device for more
 * it asks whether pending ones are done by now.
 *
 * What comes back goes into magazines of the thread, and out of them again without a lock (magazine.h).
 *
 * The pool knows no buffers. Its mutex is a leaf: no driver call, allocation or callback under it. The memory comes from a backend of two functions, so that an
 * application can feed a pool from its own allocator.
 */

#include <ferry/pool.h>

#include "src/base/base.h"
#include "src/device/lane.h"

#define FERRYI_POOL_ALIGN 256
#define FERRYI_POOL_NO_LIST 160 /* one more than there are */

/* Where slabs and large blocks come from. `alloc` returns memory aligned to `align`; both may block and be called from any thread. A call that
 * fails has done nothing: memory that could not be freed is kept and cached. */
struct ferryi_pool_backend {
    ferry_status (*alloc)(void *user, size_t bytes, void **out);
    ferry_status (*free)(void *user, void *memory, size_t bytes);
    void *user;
    size_t align; /* a power of two, at least FERRYI_POOL_ALIGN, which 0 means too */
};

struct ferryi_pool_config {
    struct ferryi_pool_backend backend;
    ferryi_order *order;    /* NULL: blocks never carry stamps and are taken without lanes */
    const struct ferryi_log *log;
    ferry_context *context; /* opaque: answers only "whose is it" */
    int place;              /* where blocks live; lanes of other places may use pinned and managed memory */
    ferry_memory_kind kind;
    size_t limit_bytes;     /* of memory taken from the backend; 0: none */
    const char *name;       /* for messages, such as "cuda:0 device memory"; copied */
};

ferry_status ferryi_pool_create(const struct ferryi_pool_config *config, ferry_pool **out);
/* All its work is done. Live blocks are reported to the log by count and bytes, and freed. */
void ferryi_pool_destroy(ferry_pool **pool);

/* A member of a circular list; the list's head is one too. */
struct ferryi_link {
    struct ferryi_link *next, *prev;
};

/*
 * A block. While it is live, `pointer`, `bytes` and `requested` are constant and anybody may read them; all else is the pool's. Descriptors live as
 * long as the pool, so that a stale pointer to one is readable.
 */
struct ferry_block {
    void *pointer;
    size_t bytes;       /* of the block */
    size_t requested;   /* of the holder */
    ferryi_stamp stamp; /* the last use before the present holder's, or 0 when it is known to be done */
    ferry_pool *pool;
    uint16_t lane_number;       /* of the lane it was taken on; 0: the host, or a lane without a number */
    uint16_t list;              /* of magazines it goes to when it comes back; FERRYI_POOL_NO_LIST: none */
    uint16_t state;             /* live or idle: checked at release */
    struct ferryi_slab *slab;   /* the allocation it lies in */
    const char *label;          /* of the holder; borrowed */
    struct ferryi_link in_idle; /* while idle: in a list of its class */
};

/*
 * Take a block for later work of `lane` (NULL: for the host, idle). `align` is a power of two up to 2 MiB; above what its class is aligned to anyway the block
 * is made large enough and *out_pointer is aligned inside it. Zero bytes give a block and a NULL pointer.
 * @return FERRY_OK; FERRY_ERROR_OUT_OF_MEMORY; else what the backend, or making the lane wait, failed with
 */
ferry_status ferryi_pool_take(ferry_pool *pool, size_t bytes, size_t align, ferryi_lane *lane, ferry_block **out, void **out_pointer);
/*
 * Give back a block whose last use is `stamp` (0: the holder used it on no lane). NULL is harmless. Never fails, never waits. Calls the driver only when the block
 * was taken while an earlier use was pending, and `stamp` is on another lane than it was taken on.
 */
void ferryi_pool_give(ferry_block *block, ferryi_stamp stamp);

/* Give idle, done memory back to the backend, longest idle first, until at most `keep_bytes` stay cached. @return the bytes given back */
size_t ferryi_pool_trim(ferry_pool *pool, size_t keep_bytes);

ferry_context *ferryi_pool_context(const ferry_pool *pool);
/* Live, cached and reserved bytes, for memory_info: one lock. */
void ferryi_pool_bytes(ferry_pool *pool, size_t *out_live, size_t *out_cached, size_t *out_reserved);
/* Count one copy that was evicted to make room in this pool. */
void ferryi_pool_count_eviction(ferry_pool *pool);

/* Size of the class that holds `bytes` (> 0), or 0 when it does not fit size_t; *out_class is its index, or FERRYI_POOL_EXACT. Pure, for tests. */
#define FERRYI_POOL_EXACT UINT32_MAX
size_t ferryi_pool_class_bytes(size_t bytes, uint32_t *out_class);

/* Counts agree with the lists: for tests and checked builds, when quiescent. */
bool ferryi_pool_check(ferry_pool *pool);

#endif
