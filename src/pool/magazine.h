/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MAGAZINE_H
#define FERRYI_MAGAZINE_H

/*
 * Inside the pool: magazines, the way of a hit.
 *
 * Each thread has a cache for each pool it uses, and in it two magazines for each size class. A take pops an entry, a give pushes one: no lock, no
 * driver call, nothing looked up, and no line of the block written that already says what it should. When both magazines are empty a whole full
 * one comes from the pool's depot; when both are full one goes there.
 *
 * For its slab, and in the lists, a block in a magazine is still out; only the pool as a whole tells it from one that somebody holds. Whatever must see
 * all idle memory (statistics, trim, a take that finds none) locks the caches out, and empties them into the idle lists.
 *
 * A cache is written by its thread, between `enter` and `leave`, which cost two stores and a load. Others first lock it out: under the pool's mutex they set
 * `wanted`, and after a fence in all threads wait for `busy` to fall. Its thread then waits for the mutex. Under the mutex a thread may use its own cache as it
 * is; where the system has no such fence, it always does, and finds no cache in the slots.
 *
 * What a thread has not got yet points at something that is empty and full at once, so that a hit need not ask.
 *
 * Caches belong to their pool, which empties them as it is destroyed and forgets them, and to their thread, which gives what is in them back as it
 * ends. `registry` in cache.c guards the moment when both happen at once; it comes before the pool's mutex.
 */

#include "src/pool/slab.h"

#define FERRYI_CACHE_LINE 64
#define FERRYI_MAGAZINE_ENTRIES 32
#define FERRYI_MAGAZINE_LARGE 16       /* entries used, for blocks that are allocations of their own */
#define FERRYI_POOL_SMALL_CLASSES 80   /* those carved from slabs */
#define FERRYI_CACHE_SLOTS 16          /* pools a thread finds at once; more share them */
#define FERRYI_CACHE_TIME_EVERY 256    /* gives between two looks at the clock */

struct ferryi_magazine_entry {
    ferry_block *block;
    ferryi_stamp stamp; /* its last use */
    uint64_t since;     /* when it came, of ferryi_now_ns(): a little early, and rising with every give */
};

/* On cache lines of its own, as caches are: neighbours are other threads'. */
struct ferryi_magazine {
    _Alignas(FERRYI_CACHE_LINE) struct ferryi_magazine *next; /* in the depot */
    size_t count, capacity;
    struct ferryi_magazine_entry entries[FERRYI_MAGAZINE_ENTRIES];
};

struct ferryi_cache_class {
    struct ferryi_magazine *loaded, *spare; /* ferryi_no_magazine until needed */
    uint64_t takes, gives;                  /* not yet counted by the pool */
};

struct ferryi_cache {
    _Alignas(FERRYI_CACHE_LINE) _Atomic(ferry_pool *) pool; /* NULL once it is destroyed */
    atomic_bool busy, wanted;
    uint64_t now;               /* the next entry's time; a multiple of FERRYI_CACHE_TIME_EVERY when it must be asked for */
    int64_t peak, below_peak;   /* bytes that were live at most, and how many fewer are now, since the pool last counted */
    uint64_t requested;         /* bytes, likewise; wraps */
    struct ferryi_cache *next;  /* of the thread */
    struct ferryi_link in_pool;
    struct ferryi_cache_class classes[FERRYI_POOL_CLASSES + 1]; /* the last for what has none: it never gets a magazine */
};

struct ferryi_thread_caches {
    struct ferryi_cache *slots[FERRYI_CACHE_SLOTS]; /* by the pool's slot; ferryi_no_cache: none yet */
    struct ferryi_cache *first;                     /* all of them */
};

#define FERRYI_CACHE_OF(link) ((struct ferryi_cache *)((char *)(link) - offsetof(struct ferryi_cache, in_pool)))

/* The initial-exec model: one load, and few enough bytes that a library loaded late still gets them. */
extern _Thread_local struct ferryi_thread_caches *ferryi_thread_caches
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

extern struct ferryi_cache ferryi_no_cache;
extern struct ferryi_magazine ferryi_no_magazine;
/* Hits take no lock: the system has a fence for all threads. Known once a cache was made; tests may say no. */
extern bool ferryi_caches_are_lockless;

/* -- caches of threads (cache.c) -- */

/* This thread's cache, or NULL. */
struct ferryi_cache *ferryi_cache_find(const ferry_pool *pool);
/* The same, made when there is none; NULL when the host has no memory. Without the mutex. */
struct ferryi_cache *ferryi_cache_make(ferry_pool *pool);
/* Empty the caches of all threads and forget them. For destroy. */
void ferryi_caches_detach(ferry_pool *pool);
/* Under the mutex: keep threads out of their caches of the pool, and let them in again. */
void ferryi_caches_lock_out(ferry_pool *pool);
void ferryi_caches_let_in(ferry_pool *pool);

/* -- magazines (magazine.c) -- */

/* What take and give leave to others: exchange a magazine with the depot, or look for an ordered entry. NULL and false: do it without magazines. */
ferry_block *ferryi_cache_take_slowly(ferry_pool *pool, const struct ferryi_pool_request *request);
bool ferryi_cache_give_slowly(ferry_block *block, ferryi_stamp stamp);
/* False when this thread's cache, if it has one, knows the time well enough. */
bool ferryi_cache_look_at_clock(const ferry_pool *pool);
/* Under the mutex: move what is in a cache to the idle lists, and count what it did. */
void ferryi_cache_empty(ferry_pool *pool, struct ferryi_cache *cache);
/* Move all that is in magazines to the idle lists, and count what was done there. Without and with the mutex. */
void ferryi_magazines_empty(ferry_pool *pool);
void ferryi_magazines_empty_locked(ferry_pool *pool);
/* The same for one class, before memory is asked for; false when nothing came of it, or was worth trying. */
bool ferryi_magazines_gather(ferry_pool *pool, uint32_t list);
void ferryi_magazines_free(ferry_pool *pool);

/* -- the hit -- */

/* This thread's cache, if its slot knows it; else one of no pool. */
FERRYI_INLINE struct ferryi_cache *
ferryi_cache_of(const ferry_pool *pool)
{
    return ferryi_thread_caches->slots[pool->slot];
}

FERRYI_INLINE void
ferryi_cache_leave(struct ferryi_cache *cache)
{
    atomic_store_explicit(&cache->busy, false, memory_order_release);
}

/* False: it is another pool's, or locked out. */
FERRYI_INLINE bool
ferryi_cache_enter(struct ferryi_cache *cache, const ferry_pool *pool)
{
    if (__builtin_expect(atomic_load_explicit(&cache->pool, memory_order_relaxed) != pool, 0))
        return false;
    atomic_store_explicit(&cache->busy, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(!atomic_load_explicit(&cache->wanted, memory_order_acquire), 1))
        return true;
    ferryi_cache_leave(cache);
    return false;
}

/* The block leaves a magazine. Its line is written only where it changes: blocks that pass between cores stay readable in both. */
FERRYI_INLINE void
ferryi_cache_hand_out(struct ferryi_cache *cache, struct ferryi_cache_class *class, ferry_block *block, ferryi_stamp stamp, size_t bytes,
                      const ferryi_lane *lane)
{
    class->takes++;
    cache->requested += bytes;
    if (__builtin_expect((cache->below_peak -= (int64_t)block->bytes) < 0, 0)) {
        cache->peak -= cache->below_peak;
        cache->below_peak = 0;
    }
    if (__builtin_expect(block->requested != bytes, 0))
        block->requested = bytes;
    if (__builtin_expect(block->stamp != stamp, 0))
        block->stamp = stamp;
    /* Of no interest while no use is pending. */
    if (__builtin_expect(stamp != 0, 0) && block->lane_number != (lane ? lane->number : 0))
        block->lane_number = lane ? (uint16_t)lane->number : 0;
#ifdef FERRYI_DEBUG_CHECKS
    block->state = FERRYI_BLOCK_LIVE;
#endif
}

FERRYI_INLINE void
ferryi_cache_push(struct ferryi_cache *cache, struct ferryi_cache_class *class, ferry_block *block, ferryi_stamp stamp)
{
    struct ferryi_magazine *magazine = class->loaded;
    magazine->entries[magazine->count++] = (struct ferryi_magazine_entry){block, stamp, cache->now++};
    class->gives++;
    cache->requested -= block->requested;
    cache->below_peak += (int64_t)block->bytes;
#ifdef FERRYI_DEBUG_CHECKS
    block->state = FERRYI_BLOCK_CACHED;
#endif
}

FERRYI_INLINE void
ferryi_cache_swap(struct ferryi_cache_class *class)
{
    struct ferryi_magazine *loaded = class->loaded;
    class->loaded = class->spare;
    class->spare = loaded;
}

/*
 * A block from this thread's magazines that the lane may use at once; NULL: take the long way. `order` is the pool's; without it only a block that has no
 * pending use is good.
 */
FERRYI_INLINE ferry_block *
ferryi_cache_take(ferry_pool *pool, size_t bytes, const ferryi_lane *lane, const ferryi_order *order)
{
    struct ferryi_cache *cache = ferryi_cache_of(pool);
    ferry_block *block = NULL;
    if (__builtin_expect(bytes - 1 >= FERRYI_POOL_LARGEST || !ferryi_cache_enter(cache, pool), 0))
        return NULL;
    struct ferryi_cache_class *class = &cache->classes[ferryi_pool_class_of(bytes)];
    if (__builtin_expect(class->loaded->count == 0, 0)) {
        ferryi_cache_swap(class);
        if (class->loaded->count == 0)
            goto out;
    }
    struct ferryi_magazine *magazine = class->loaded;
    size_t last = magazine->count - 1;
    const struct ferryi_magazine_entry *entry = &magazine->entries[last];
    ferryi_stamp stamp = entry->stamp;
    if (order && ferryi_stamp_is_done(order, stamp))
        stamp = 0;
    if (__builtin_expect(stamp == 0 || (order && ferryi_stamp_is_ordered(order, lane, stamp)), 1)) {
        magazine->count = last;
        block = entry->block;
        ferryi_cache_hand_out(cache, class, block, stamp, bytes, lane);
    }
out:
    ferryi_cache_leave(cache);
    return block;
}

/*
 * Does `stamp` leave out what was pending when the holder took the block? The lane it was taken on is ordered after that, and so are its later uses; another
 * lane need not be.
 */
FERRYI_INLINE bool
ferryi_block_leaves_out(const ferry_pool *pool, const ferry_block *block, ferryi_stamp stamp)
{
    unsigned number = ferryi_stamp_number(stamp);
    if (__builtin_expect(block->stamp == 0, 1) || ferryi_stamp_is_done(pool->config.order, block->stamp))
        return false;
    return stamp == 0 || (number != block->lane_number && number != ferryi_stamp_number(block->stamp));
}

/* Into this thread's magazines; false: take the long way, also to look at the clock. */
FERRYI_INLINE bool
ferryi_cache_give(ferry_block *block, ferryi_stamp stamp)
{
    ferry_pool *pool = block->pool;
    struct ferryi_cache *cache = ferryi_cache_of(pool);
    bool given = false;
    if (__builtin_expect(block->state != FERRYI_BLOCK_LIVE || ferryi_block_leaves_out(pool, block, stamp), 0))
        return false;
    if (__builtin_expect(cache->now % FERRYI_CACHE_TIME_EVERY == 0 || !ferryi_cache_enter(cache, pool), 0))
        return false;
    struct ferryi_cache_class *class = &cache->classes[block->list];
    if (__builtin_expect(class->loaded->count == class->loaded->capacity, 0)) {
        ferryi_cache_swap(class);
        if (class->loaded->count == class->loaded->capacity)
            goto out;
    }
    ferryi_cache_push(cache, class, block, stamp);
    given = true;
out:
    ferryi_cache_leave(cache);
    return given;
}

#endif
