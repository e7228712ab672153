/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

#include <stdlib.h>
#include <string.h>

/* -- emptying: the cache is this thread's own or locked out ------------------------------------ */

/* Moves the blocks of a magazine to the idle lists, oldest first. The empty magazine can be filled
 * again. */
FERRYI_POOL_LOCKED static void
empty_magazine(ferry_pool *pool, struct ferryi_magazine *magazine)
{
    if (ferryi_magazine_is_empty(magazine))
        return; /* the magazine may be ferryi_no_magazine, which must not be written */
    for (const struct ferryi_magazine_entry *at = magazine->entries + 1; at <= magazine->top;
         at++) {
        at->block->state = FERRYI_BLOCK_MOVING;
        ferryi_block_put(pool, at->block, at->point, at->since);
    }
    magazine->top = magazine->entries;
}

/* Adds an empty magazine to the pool's list of empty magazines. All size classes share this list.
 */
FERRYI_POOL_LOCKED static void
store_empty(ferry_pool *pool, struct ferryi_magazine *magazine)
{
    if (!magazine || magazine == &ferryi_no_magazine)
        return;
    magazine->next = pool->empty_magazines;
    pool->empty_magazines = magazine;
}

FERRYI_POOL_LOCKED static void
empty_depot(ferry_pool *pool, uint32_t list)
{
    struct ferryi_pool_class *class = &pool->classes[list];
    while (class->depot) {
        struct ferryi_magazine *magazine = class->depot;
        class->depot = magazine->next;
        empty_magazine(pool, magazine);
        store_empty(pool, magazine);
    }
}

FERRYI_POOL_LOCKED static void
empty_class(ferry_pool *pool, struct ferryi_cache *cache, uint32_t list)
{
    empty_magazine(pool, cache->spare[list]);
    empty_magazine(pool, cache->loaded[list]);
}

FERRYI_POOL_LOCKED static void
count_class(ferry_pool *pool, struct ferryi_cache *cache, uint32_t list)
{
    uint64_t takes = cache->takes[list], gives = cache->gives[list];
    if ((takes | gives) == 0)
        return;
    size_t bytes = ferryi_pool_bytes_of_class(list);
    ferry_pool_class_stats *bin = &pool->counters.bins[ferryi_pool_bin_of(bytes)];
    bin->allocations += takes;
    bin->hits += takes;
    bin->live_blocks += takes - gives;
    bin->live_bytes += (takes - gives) * bytes;
    bin->requested_bytes += cache->requested[list];
    pool->counters.frees += gives;
    cache->takes[list] = cache->gives[list] = cache->requested[list] = 0;
}

void
ferryi_caches_count(ferry_pool *pool)
{
    ferryi_caches_lock_out(pool);
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
        for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++)
            count_class(pool, FERRYI_CACHE_OF(link), i);
    ferryi_caches_let_in(pool);
    ferryi_pool_raise_peak(pool);
}

void
ferryi_cache_empty(ferry_pool *pool, struct ferryi_cache *cache)
{
    for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++) {
        count_class(pool, cache, i);
        empty_class(pool, cache, i);
        store_empty(pool, cache->loaded[i]);
        store_empty(pool, cache->spare[i]);
        cache->loaded[i] = cache->spare[i] = &ferryi_no_magazine;
    }
}

void
ferryi_magazines_empty(ferry_pool *pool)
{
    for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++)
        empty_depot(pool, i);
    ferryi_caches_lock_out(pool);
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
        ferryi_cache_empty(pool, FERRYI_CACHE_OF(link));
    ferryi_caches_let_in(pool);
    ferryi_pool_raise_peak(pool);
}

void
ferryi_magazines_free(ferry_pool *pool)
{
    ferryi_mutex_is_needless(&pool->mutex);
    while (pool->empty_magazines) {
        struct ferryi_magazine *magazine = pool->empty_magazines;
        pool->empty_magazines = magazine->next;
        free(magazine);
    }
}

static void
set_clock(struct ferryi_cache *cache)
{
    uint64_t now = ferryi_now_ns();
    cache->now = (now > cache->now ? now : cache->now) | 1;
}

bool
ferryi_cache_look_at_clock(const ferry_pool *pool)
{
    struct ferryi_cache *cache = ferryi_cache_find(pool);
    if (!cache || cache->now % FERRYI_CACHE_TIME_EVERY != 0)
        return false;
    set_clock(cache);
    return true;
}

/* -- taking ------------------------------------------------------------------------------------ */

/* Removes and returns the newest block of one magazine that the request's timeline may use at once.
 * Returns NULL if there is none. */
static ferry_block *
take_entry(const ferry_pool *pool, struct ferryi_cache *cache, bool spare,
           const struct ferryi_pool_request *request)
{
    const ferryi_order *order = pool->config.order;
    struct ferryi_magazine *magazine =
        spare ? cache->spare[request->list] : cache->loaded[request->list];
    for (struct ferryi_magazine_entry *at = magazine->top; at > magazine->entries; at--) {
        struct ferryi_magazine_entry entry = *at;
        if (!ferryi_sync_point_is_ordered(order, request->timeline, entry.point))
            continue;
        memmove(at, at + 1, (size_t)((char *)magazine->top-- - (char *)at));
        ferryi_cache_hand_out(cache, request->list, entry.block,
                              ferryi_sync_point_is_done(order, entry.point) ? 0 : entry.point,
                              request->bytes, request->timeline);
        return entry.block;
    }
    return NULL;
}

/* Fetches a full magazine of this class from the pool's depot, if there is one. Does nothing unless
 * both magazines of this thread's cache are empty. */
FERRYI_POOL_LOCKED static void
fetch(ferry_pool *pool, struct ferryi_cache *cache, uint32_t list)
{
    struct ferryi_pool_class *centre = &pool->classes[list];
    if (!ferryi_magazine_is_empty(cache->loaded[list]) ||
        !ferryi_magazine_is_empty(cache->spare[list]) || !centre->depot)
        return;
    store_empty(pool, cache->loaded[list]);
    cache->loaded[list] = centre->depot;
    centre->depot = cache->loaded[list]->next;
}

ferry_block *
ferryi_cache_take_slowly(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    struct ferryi_cache *cache = ferryi_cache_make(pool);
    if (!cache)
        return NULL;

    ferryi_mutex_lock(&pool->mutex);
    fetch(pool, cache, request->list);
    ferry_block *block = take_entry(pool, cache, false, request);
    if (!block)
        block = take_entry(pool, cache, true, request);
    if (!block) {
        /* The request cannot use the cached blocks at once, because their last uses are on other
         * timelines. The blocks move to the idle lists. The caller can then pick an idle block and
         * make the request's timeline wait for its last use. */
        empty_depot(pool, request->list);
        empty_class(pool, cache, request->list);
    }
    ferryi_mutex_unlock(&pool->mutex);
    return block;
}

/* -- giving ------------------------------------------------------------------------------------ */

/* Locks the mutex and guarantees that the pool has an empty magazine. If there is no host memory
 * for one, returns false and does not hold the mutex. */
FERRYI_TRY_ACQUIRES(true, ferryi_pool_mutex)
static bool
lock_with_empty(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    while (!pool->empty_magazines) {
        ferryi_mutex_unlock(&pool->mutex);
        struct ferryi_magazine *magazine = aligned_alloc(FERRYI_CACHE_LINE, sizeof(*magazine));
        if (!magazine)
            return false;
        ferryi_mutex_lock(&pool->mutex);
        store_empty(pool, magazine);
    }
    return true;
}

/* Ensures that the loaded magazine has room for an entry. If both magazines of the class are full,
 * the spare magazine moves to the depot, and an empty magazine of the pool replaces it. */
FERRYI_POOL_LOCKED static void
make_room(ferry_pool *pool, struct ferryi_cache *cache, uint32_t list)
{
    struct ferryi_pool_class *centre = &pool->classes[list];
    struct ferryi_magazine *spare = cache->spare[list], *empty = pool->empty_magazines;
    if (!ferryi_magazine_is_full(cache->loaded[list]))
        return;
    if (ferryi_magazine_is_full(spare)) {
        pool->empty_magazines = empty->next;
        empty->top = empty->entries;
        empty->entries[0].point = FERRYI_MAGAZINE_BOTTOM;
        empty->end = empty->entries + (list < FERRYI_POOL_SMALL_CLASSES ? FERRYI_MAGAZINE_ENTRIES
                                                                        : FERRYI_MAGAZINE_LARGE);
        if (spare != &ferryi_no_magazine) {
            spare->next = centre->depot;
            centre->depot = spare;
        }
        cache->spare[list] = empty;
    }
    ferryi_cache_swap(cache, list);
}

bool
ferryi_cache_give_slowly(ferry_block *block, ferryi_sync_point point)
{
    ferry_pool *pool = block->pool;
    struct ferryi_cache *cache = ferryi_cache_make(pool);
    if (!cache || !lock_with_empty(pool))
        return false;
    bool listed = block->list < FERRYI_POOL_CLASSES; /* a compaction may have removed the list */
    if (listed) {
        block->point = 0; /* the entry's sync point covers it */
        atomic_store_explicit(&block->label, NULL, memory_order_relaxed);
        set_clock(cache);
        make_room(pool, cache, block->list);
        ferryi_cache_push(cache, block->list, block, point);
    }
    ferryi_mutex_unlock(&pool->mutex);
    return listed;
}
