/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MAGAZINE_H
#define FERRYI_MAGAZINE_H

/*
 * Inside the pool: magazines, the way of a hit.
 *
 * Each thread has a cache for each pool it uses, and in it two magazines for each size class. A
 * take pops an entry, a give pushes one: no lock, no driver call, and no write to a line of the
 * block that already says what it should. When both magazines are empty a full one comes from the
 * pool's depot; when both are full one goes there. For its slab, a block in a magazine is still
 * out. Whatever must see all idle memory (statistics, trim, a take that finds none) locks the
 * caches out, and empties them into the idle lists.
 *
 * A cache is written by its thread, between `enter` and `leave`, which cost two stores and a load.
 * Others first lock it out: under the pool's mutex they clear `open`, and after a fence in all
 * threads wait for `busy` to fall. Its thread then waits for the mutex. Under the mutex a thread
 * may use its own cache as it is; where the system has no such fence, it always does, and finds no
 * cache in the slots. What a thread has not got yet points at something that is empty and full at
 * once, so that a hit need not ask.
 *
 * Caches belong to their pool, which empties and forgets them as it is destroyed, and to their
 * thread, which gives back what is in them as it ends. `registry` in cache.c guards the moment when
 * both happen at once; it comes before the pool's mutex.
 */

#include "src/base/interleave.h"
#include "src/pool/red_zone.h"
#include "src/pool/slab.h"

#define FERRYI_CACHE_LINE       64
#define FERRYI_MAGAZINE_ENTRIES 32
#define FERRYI_MAGAZINE_BOTTOM  UINT64_MAX /* the sync point of no entry */
#define FERRYI_MAGAZINE_LARGE   16  /* entries used, for blocks that are allocations of their own */
#define FERRYI_CACHE_SLOTS      16  /* pools a thread finds at once; more share them */
#define FERRYI_CACHE_TIME_EVERY 256 /* gives between two looks at the clock */

struct ferryi_magazine_entry {
    ferry_block *block;
    ferryi_sync_point point; /* its last use */
    uint64_t since;          /* when it came: a little early, and rising with every give */
};

/* Shares no cache line, as caches do not: the neighbours belong to other threads. */
struct ferryi_magazine {
    _Alignas(FERRYI_CACHE_LINE) struct ferryi_magazine *next; /* in the depot */
    struct ferryi_magazine_entry *top, *end; /* the newest entry; where the last may be */
    /* The first is none: its sync point is such that a hit looks twice. */
    struct ferryi_magazine_entry entries[1 + FERRYI_MAGAZINE_ENTRIES];
};

/* With one list more than there are classes, for what has none: it never gets a magazine. */
#define FERRYI_CACHE_LISTS (FERRYI_POOL_CLASSES + 1)

struct ferryi_cache {
    /* The pool, or NULL: locked out, or destroyed. */
    _Alignas(FERRYI_CACHE_LINE) _Atomic(ferry_pool *) open;
    atomic_bool busy;
    _Atomic(ferry_pool *) pool; /* NULL once it is destroyed */
    uint64_t now; /* the next entry's time; a multiple of FERRYI_CACHE_TIME_EVERY when it must be
                     asked for */
    struct ferryi_cache *next; /* of the thread */
    struct ferryi_link in_pool;
    /* By list, and apart: a hit reaches each with one scaled index. */
    struct ferryi_magazine *loaded[FERRYI_CACHE_LISTS],
        *spare[FERRYI_CACHE_LISTS]; /* ferryi_no_magazine until needed */
    uint64_t takes[FERRYI_CACHE_LISTS], gives[FERRYI_CACHE_LISTS]; /* not yet counted by the pool */
    uint64_t requested[FERRYI_CACHE_LISTS];                        /* bytes, likewise; wraps */
};

struct ferryi_thread_caches {
    struct ferryi_cache *slots[FERRYI_CACHE_SLOTS]; /* by the pool's; ferryi_no_cache: none yet */
    struct ferryi_cache *first;                     /* all of them */
};

#define FERRYI_CACHE_OF(link)                                                                      \
    ((struct ferryi_cache *)((char *)(link)-offsetof(struct ferryi_cache, in_pool)))

extern _Thread_local struct ferryi_thread_caches *ferryi_thread_caches FERRYI_FAST_TLS;

extern struct ferryi_cache ferryi_no_cache;
extern struct ferryi_magazine ferryi_no_magazine;
/* Hits take no lock: the system has a fence for all threads. Known once a cache was made; tests may
 * say no. */
extern bool ferryi_caches_are_lockless;

/* -- caches of threads (cache.c) -- */

/* This thread's cache, or NULL. */
struct ferryi_cache *ferryi_cache_find(const ferry_pool *pool);
/* The same, made when there is none; NULL when the host has no memory. Without the mutex. */
struct ferryi_cache *ferryi_cache_make(ferry_pool *pool);
/* Empty the caches of all threads and forget them. For destroy. */
void ferryi_caches_detach(ferry_pool *pool);
/* Under the mutex: keep threads out of their caches of the pool, and let them in again. */
FERRYI_POOL_LOCKED void ferryi_caches_lock_out(ferry_pool *pool);
FERRYI_POOL_LOCKED void ferryi_caches_let_in(ferry_pool *pool);

/* -- magazines (magazine.c) -- */

/* What take and give leave to others: exchange a magazine with the depot, or look for an ordered
 * entry. NULL and false: do it without magazines. */
ferry_block *ferryi_cache_take_slowly(ferry_pool *pool, const struct ferryi_pool_request *request);
bool ferryi_cache_give_slowly(ferry_block *block, ferryi_sync_point point);
/* False when this thread's cache, if it has one, knows the time well enough. */
bool ferryi_cache_look_at_clock(const ferry_pool *pool);
/* Under the mutex: count what the cache did, and move what is in it to the idle lists. */
FERRYI_POOL_LOCKED void ferryi_cache_empty(ferry_pool *pool, struct ferryi_cache *cache);
/* Under the mutex: move all that is in magazines to the idle lists, and count what was done there.
 */
FERRYI_POOL_LOCKED void ferryi_magazines_empty(ferry_pool *pool);
/* With the mutex, some lists of the depots and of this thread only. */
FERRYI_POOL_LOCKED void ferryi_magazines_empty_own(ferry_pool *pool, uint32_t first, uint32_t end);
/* The same for one class, before memory is asked for; false when nothing came of it, or was worth
 * trying. */
bool ferryi_magazines_gather(ferry_pool *pool, uint32_t list);
void ferryi_magazines_free(ferry_pool *pool);

/* Under the mutex: add what threads counted of their own hits to the pool's counters. */
FERRYI_POOL_LOCKED void ferryi_caches_count(ferry_pool *pool);
/* Bytes of live blocks when the caches were last counted. Gives that were not counted yet may make
 * it negative. */
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
    FERRYI_INTERLEAVE();
}

/* False: it is another pool's, or locked out. */
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

/* The block leaves a magazine. Its line is written only where it changes: blocks that pass between
 * cores stay readable in both. */
FERRYI_INLINE void
ferryi_cache_hand_out(struct ferryi_cache *cache, size_t list, ferry_block *block,
                      ferryi_sync_point point, size_t bytes, const ferryi_timeline *timeline)
{
    cache->takes[list]++;
    cache->requested[list] += bytes;
    if (__builtin_expect(block->requested != bytes, 0))
        block->requested = bytes;
    /* It came without a sync point, and without one the timeline is of no interest. */
    if (__builtin_expect(point != 0, 0)) {
        block->point = point;
        block->timeline_number = timeline ? (uint16_t)timeline->number : 0;
    }
#ifdef FERRYI_POOL_GUARDED
    block->state = FERRYI_BLOCK_LIVE;
#endif
}

FERRYI_INLINE void
ferryi_cache_push(struct ferryi_cache *cache, size_t list, ferry_block *block,
                  ferryi_sync_point point)
{
    struct ferryi_magazine *magazine = cache->loaded[list];
    ferryi_red_zone_in(block->pool, block, point);
    *++magazine->top = (struct ferryi_magazine_entry){block, point, cache->now++};
    cache->gives[list]++;
    cache->requested[list] -= block->requested;
#ifdef FERRYI_POOL_GUARDED
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
 * A block from this thread's magazines that the timeline may use at once; NULL: take the slow path.
 * `order` is the pool's; without it only a block that has no pending use is good.
 */
FERRYI_INLINE ferry_block *
ferryi_cache_take(ferry_pool *pool, size_t bytes, const ferryi_timeline *timeline,
                  const ferryi_order *order)
{
    struct ferryi_cache *cache = ferryi_cache_of(pool);
    ferry_block *block = NULL;
    size_t zone = ferryi_guard_zone(pool);
    if (__builtin_expect(
            bytes - 1 >= FERRYI_POOL_LARGEST - zone || !ferryi_cache_enter(cache, pool), 0))
        return NULL;
    size_t list = ferryi_pool_class_of(bytes + zone);
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

/*
 * Does `point` leave out what was pending when the holder took the block? The timeline it was
 * taken on is ordered after that, and so are its later uses; another timeline need not be.
 */
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

/* Into this thread's magazines, unless it is idle: then it is of no list. False: take the slow
 * path, also to look at the clock. */
FERRYI_INLINE bool
ferryi_cache_give(ferry_block *block, ferryi_sync_point point)
{
    ferry_pool *pool = block->pool;
    struct ferryi_cache *cache = ferryi_cache_of(pool);
    bool given = false;
#ifdef FERRYI_POOL_GUARDED
    if (block->state != FERRYI_BLOCK_LIVE)
        return false;
#endif
    ferryi_red_zone_check(pool, block);
    if (__builtin_expect((block->point | (uintptr_t)atomic_load_explicit(
                                             &block->label, memory_order_relaxed)) != 0,
                         0)) {
        if (block->state != FERRYI_BLOCK_LIVE || ferryi_block_leaves_out(pool, block, point))
            return false;
        block->point = 0; /* the entry's covers it */
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
