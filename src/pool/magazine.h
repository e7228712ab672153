/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MAGAZINE_H
#define FERRYI_MAGAZINE_H

/*
 * Private to the pool: magazines, which are stacks of released blocks. On the fast path, a thread
 * allocates a block from a magazine without a lock.
 *
 * Each thread has a cache for each pool it uses. A cache has two magazines for each size class. An
 * allocation pops an entry and a release pushes one, without a lock or a driver call. Both write a
 * member of the block only if the value changes, so that other cores keep the cache line. When both
 * magazines are empty, the thread fetches a full one from the pool's depot. When both are full, the
 * thread moves one of them to the depot. A slab counts its blocks in magazines as live. Some
 * functions must see all idle memory, such as a trim, or an allocation that finds no idle block.
 * These functions lock all threads out of their caches and move the cached blocks into the idle
 * lists.
 *
 * A thread writes its own cache only between ferryi_cache_enter() and ferryi_cache_leave(), which
 * cost two stores and a load. A different thread must first lock the owner out: it holds the pool's
 * mutex, clears the member `open`, runs a memory fence in all threads, and waits until the member
 * `busy` is false. The owner then waits for the mutex. A thread that holds the mutex may use its
 * own cache without locking itself out. Some systems have no fence that runs in all threads. There,
 * a thread always holds the mutex when it uses its cache, and `ferryi_thread_caches.slots` stays
 * empty. A pointer to a cache or magazine that does not exist yet points to a dummy. The dummy is
 * both empty and full, so the fast path does not check for NULL.
 *
 * A cache belongs to its pool and to its thread. When a pool is destroyed, it empties and detaches
 * its caches. When a thread ends, it empties and frees its caches. The mutex `registry` in
 * magazine.c keeps these two from running at the same time. It is locked before the pool's mutex.
 */

#include "src/base/interleave.h"
#include "src/pool/slab.h"

#define FERRYI_CACHE_LINE       64
#define FERRYI_MAGAZINE_ENTRIES 32
#define FERRYI_MAGAZINE_BOTTOM  UINT64_MAX /* sync point of a magazine's sentinel entry */
/* Number of entries that a magazine uses if its blocks are large (above FERRYI_POOL_SLAB_BLOCK). */
#define FERRYI_MAGAZINE_LARGE 16
/* Number of entries in a thread's table of pool caches. If there are more pools, several pools
 * share an entry. */
#define FERRYI_CACHE_SLOTS      16
#define FERRYI_CACHE_TIME_EVERY 256 /* number of released blocks between two reads of the clock */

struct ferryi_magazine_entry {
    ferry_block *block;
    ferryi_sync_point point; /* the block's last use */
    /* Approximate time in ns at which the block was released. Entries that are pushed later have
     * higher values. */
    uint64_t since;
};

/* A stack of released blocks of one size class. The struct is aligned so that magazines of
 * different threads share no cache line. */
struct ferryi_magazine {
    /* next magazine in the depot's list */
    _Alignas(FERRYI_CACHE_LINE) struct ferryi_magazine *next;
    /* `top` points to the newest entry, and `end` to the last element of `entries` that may be used
     */
    struct ferryi_magazine_entry *top, *end;
    /* Entry 0 is a sentinel. Its sync point is FERRYI_MAGAZINE_BOTTOM, by which an allocation
     * recognizes that the magazine is empty. */
    struct ferryi_magazine_entry entries[1 + FERRYI_MAGAZINE_ENTRIES];
};

/* Number of block lists of a thread's cache: one for each size class, and one for blocks without a
 * class. The list for blocks without a class never has a magazine. */
#define FERRYI_CACHE_LISTS (FERRYI_POOL_CLASSES + 1)

struct ferryi_cache {
    /* The pool whose blocks the owning thread may cache here. NULL while the thread is locked out
     * of the cache, and after the pool was destroyed. */
    _Alignas(FERRYI_CACHE_LINE) _Atomic(ferry_pool *) open;
    atomic_bool busy;           /* whether the owner is using the cache now */
    _Atomic(ferry_pool *) pool; /* NULL after the pool was destroyed */
    /* Release time that the next pushed entry gets. If the value is a multiple of
     * FERRYI_CACHE_TIME_EVERY, the next release of a block reads the clock. */
    uint64_t now;
    struct ferryi_cache *next; /* next cache of the thread */
    struct ferryi_link in_pool;
    /* The two magazines of each block list. They are in two arrays, so that the fast path reaches
     * each magazine with one scaled index. While a list has no magazines, its pointers point to the
     * dummy ferryi_no_magazine. */
    struct ferryi_magazine *loaded[FERRYI_CACHE_LISTS], *spare[FERRYI_CACHE_LISTS];
    /* For each block list, the numbers of allocations and releases that were not yet added to the
     * pool's counters. */
    uint64_t takes[FERRYI_CACHE_LISTS], gives[FERRYI_CACHE_LISTS];
    /* For each block list, the bytes requested by the allocations that `takes` counts, minus the
     * bytes requested for the blocks whose release `gives` counts, modulo 2^64. */
    uint64_t requested[FERRYI_CACHE_LISTS];
};

struct ferryi_thread_caches {
    struct ferryi_cache *slots[FERRYI_CACHE_SLOTS]; /* table indexed by pool->slot; an unused entry
                                                       points to the dummy ferryi_no_cache */
    struct ferryi_cache *first;                     /* all caches of the thread */
};

#define FERRYI_CACHE_OF(link)                                                                      \
    ((struct ferryi_cache *)((char *)(link)-offsetof(struct ferryi_cache, in_pool)))

extern _Thread_local struct ferryi_thread_caches *ferryi_thread_caches FERRYI_FAST_TLS;

extern struct ferryi_cache ferryi_no_cache;
extern struct ferryi_magazine ferryi_no_magazine;
/* Whether threads use their caches without a lock, which requires a memory fence that runs in all
 * threads. The variable is set when the first cache is created. Tests may clear it. */
extern bool ferryi_caches_are_lockless;

/* Empties the caches that all threads have for the pool, and detaches them from the pool. Called
 * when the pool is destroyed. */
void ferryi_caches_detach(ferry_pool *pool);
/* ferryi_caches_lock_out() waits until no thread uses its cache of the pool, and locks all threads
 * out. ferryi_caches_let_in() lets them use their caches again, unless the pool sets released
 * blocks to zero, which a release into a cache does not do. The caller must hold the pool's mutex
 * from the lock_out call to the let_in call. */
FERRYI_POOL_LOCKED void ferryi_caches_lock_out(ferry_pool *pool);
FERRYI_POOL_LOCKED void ferryi_caches_let_in(ferry_pool *pool);
/* Allocates a block from this thread's cache on the slow path. Loads a magazine from the depot, or
 * searches this thread's magazines for a block that the request's stream may use at once. Returns
 * NULL if there is no such block. The caller then searches the bins. */
ferry_block *ferryi_cache_take_slowly(ferry_pool *pool, const struct ferryi_pool_request *request);
/* Releases a block into this thread's cache on the slow path. Moves a full magazine to the depot if
 * needed. Returns false if the block could not enter a magazine. The caller then releases the block
 * into the bins. */
bool ferryi_cache_give_slowly(ferry_block *block, ferryi_sync_point point);
/* Reads the clock for this thread's cache of the pool, if the next released block needs a new
 * release time. Returns whether it read the clock. Does nothing if the thread has no cache. */
bool ferryi_cache_look_at_clock(const ferry_pool *pool);
/* Moves all blocks of the pool's depots and of all threads' caches to the bins. */
FERRYI_POOL_LOCKED void ferryi_magazines_empty(ferry_pool *pool);
void ferryi_magazines_free(ferry_pool *pool);

/* Adds the counters of all threads' caches to the pool's counters. */
FERRYI_POOL_LOCKED void ferryi_caches_count(ferry_pool *pool);
/* Returns the number of bytes in live blocks according to the pool's counters. Each thread's
 * counters are added to the pool's only at intervals. So the pool's counters may include the
 * release of a block before its allocation by a different thread. Then the result may be
 * negative. */
FERRYI_POOL_LOCKED int64_t ferryi_pool_live_bytes(const ferry_pool *pool);
FERRYI_POOL_LOCKED void ferryi_pool_raise_peak(ferry_pool *pool);

/* -- the hit -- */

FERRYI_INLINE bool
ferryi_magazine_is_empty(const struct ferryi_magazine *magazine)
{
    return magazine->top == magazine->entries;
}

FERRYI_INLINE bool
ferryi_magazine_is_full(const struct ferryi_magazine *magazine)
{
    return magazine->top == magazine->end;
}

/* Returns the entry for the pool in this thread's table of caches. The cache may belong to a
 * different pool that shares the entry. An unused entry points to the dummy ferryi_no_cache. */
FERRYI_INLINE struct ferryi_cache *
ferryi_cache_of(const ferry_pool *pool)
{
    return ferryi_thread_caches->slots[pool->slot];
}

FERRYI_INLINE void
ferryi_cache_leave(struct ferryi_cache *cache)
{
    atomic_store_explicit(&cache->busy, false, memory_order_release);
    FERRYI_INTERLEAVE();
}

/* Begins the use of a cache by its own thread. Returns false if the cache belongs to a different
 * pool, or if the thread is locked out. */
FERRYI_INLINE bool
ferryi_cache_enter(struct ferryi_cache *cache, const ferry_pool *pool)
{
    FERRYI_INTERLEAVE();
    atomic_store_explicit(&cache->busy, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&cache->open, memory_order_acquire) == pool, 1))
        return true;
    ferryi_cache_leave(cache);
    return false;
}

/* Marks a block as allocated from a magazine. Writes only members whose value changes, so that
 * other cores can keep the block's cache line. */
FERRYI_INLINE void
ferryi_cache_hand_out(struct ferryi_cache *cache, size_t list, ferry_block *block,
                      ferryi_sync_point point, size_t bytes, const ferryi_timeline *timeline)
{
    cache->takes[list]++;
    cache->requested[list] += bytes;
    if (__builtin_expect(block->requested != bytes, 0))
        block->requested = bytes;
    /* block->point is 0 while the block is in a magazine, so it need not be written if `point` is
     * 0. In this case `timeline_number` need not be written either. It is read only for a block
     * whose sync point is not 0. */
    if (__builtin_expect(point != 0, 0)) {
        block->point = point;
        block->timeline_number = timeline ? (uint16_t)timeline->number : 0;
    }
#ifdef FERRYI_DEBUG_CHECKS
    block->state = FERRYI_BLOCK_LIVE;
#endif
}

FERRYI_INLINE void
ferryi_cache_push(struct ferryi_cache *cache, size_t list, ferry_block *block,
                  ferryi_sync_point point)
{
    struct ferryi_magazine *magazine = cache->loaded[list];
    *++magazine->top = (struct ferryi_magazine_entry){block, point, cache->now++};
    cache->gives[list]++;
    cache->requested[list] -= block->requested;
#ifdef FERRYI_DEBUG_CHECKS
    block->state = FERRYI_BLOCK_CACHED;
#endif
}

FERRYI_INLINE void
ferryi_cache_swap(struct ferryi_cache *cache, size_t list)
{
    struct ferryi_magazine *loaded = cache->loaded[list];
    cache->loaded[list] = cache->spare[list];
    cache->spare[list] = loaded;
}

/*
 * Allocates a block from this thread's magazines whose last use is ordered before later work of
 * `timeline`. Returns NULL if the caller must take the slow path. `order` is used to check this
 * ordering. If `order` is NULL, only a block without a pending use is returned.
 */
FERRYI_INLINE ferry_block *
ferryi_cache_take(ferry_pool *pool, size_t bytes, const ferryi_timeline *timeline,
                  const ferryi_order *order)
{
    struct ferryi_cache *cache = ferryi_cache_of(pool);
    ferry_block *block = NULL;
    if (__builtin_expect(bytes - 1 >= FERRYI_POOL_LARGEST || !ferryi_cache_enter(cache, pool), 0))
        return NULL;
    size_t list = ferryi_pool_class_of(bytes);
    struct ferryi_magazine_entry *entry = cache->loaded[list]->top;
    ferryi_sync_point point = entry->point;
    if (__builtin_expect(point != 0, 0)) {
        if (point == FERRYI_MAGAZINE_BOTTOM) {
            ferryi_cache_swap(cache, list);
            entry = cache->loaded[list]->top;
            point = entry->point;
        }
        if (point == FERRYI_MAGAZINE_BOTTOM ||
            (point != 0 && !(order && ferryi_sync_point_is_ordered(order, timeline, point))))
            goto out;
        if (point != 0 && ferryi_sync_point_is_done(order, point))
            point = 0;
    }
    cache->loaded[list]->top = entry - 1;
    block = entry->block;
    ferryi_cache_hand_out(cache, list, block, point, bytes, timeline);
out:
    ferryi_cache_leave(cache);
    return block;
}

/* A block can be allocated while queued work of its previous owner still uses it. Returns whether
 * this previous use may still be pending when the work up to `point` is done. Returns false if
 * `point` is on the timeline for which the block was allocated, because that timeline is ordered
 * after the previous use. Also returns false if `point` is on the timeline of the previous use. */
FERRYI_INLINE bool
ferryi_block_leaves_out(const ferry_pool *pool, const ferry_block *block, ferryi_sync_point point)
{
    unsigned number = ferryi_sync_point_number(point);
    if (__builtin_expect(block->point == 0, 1) ||
        ferryi_sync_point_is_done(pool->config.order, block->point))
        return false;
    return point == 0 ||
           (number != block->timeline_number && number != ferryi_sync_point_number(block->point));
}

/* Pushes a released block into a magazine of this thread. Returns false if the caller must take the
 * slow path. This is the case if both magazines are full, the block may enter no magazine, or the
 * clock must be read. */
FERRYI_INLINE bool
ferryi_cache_give(ferry_block *block, ferryi_sync_point point)
{
    ferry_pool *pool = block->pool;
    struct ferryi_cache *cache = ferryi_cache_of(pool);
    bool given = false;
#ifdef FERRYI_DEBUG_CHECKS
    if (block->state != FERRYI_BLOCK_LIVE)
        return false;
#endif
    if (__builtin_expect((block->point | (uintptr_t)atomic_load_explicit(
                                             &block->label, memory_order_relaxed)) != 0,
                         0)) {
        if (block->state != FERRYI_BLOCK_LIVE || ferryi_block_leaves_out(pool, block, point))
            return false;
        block->point = 0; /* the magazine entry's `point` also covers the previous owner's use */
        atomic_store_explicit(&block->label, NULL, memory_order_relaxed);
    }
    if (__builtin_expect(
            cache->now % FERRYI_CACHE_TIME_EVERY == 0 || !ferryi_cache_enter(cache, pool), 0))
        return false;
    size_t list = block->list;
    if (__builtin_expect(ferryi_magazine_is_full(cache->loaded[list]), 0)) {
        ferryi_cache_swap(cache, list);
        if (ferryi_magazine_is_full(cache->loaded[list]))
            goto out;
    }
    ferryi_cache_push(cache, list, block, point);
    given = true;
out:
    ferryi_cache_leave(cache);
    return given;
}

#endif
