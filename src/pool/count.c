/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

/*
 * Counts of what is held. Each thread counts for itself, on the way of a hit and where it takes or
 * gives the long way; the pool puts the threads' counts together with all caches locked out. How
 * high they were together in between nobody saw: of one thread it is known, of several it is put
 * together as if what others gave back since had gone before, and what they took came after.
 *
 * While one thread alone has a cache nothing is lost by waiting. Else what is held may be a little
 * more than the known peak, by what SLACK leaves, before all are locked out to see whether it is:
 * so a growing pool does that some hundred times at most, however many blocks it grows by.
 */

#define SLACK(peak) ((peak) / 32)

FERRYI_REQUIRES(ferryi_pool_mutex)
static bool
is_alone(const ferry_pool *pool, const struct ferryi_cache *own)
{
    return ferryi_link_is_alone(&pool->caches) ||
           (own && pool->caches.next == &own->in_pool && own->in_pool.next == &pool->caches);
}

/* -- all caches -------------------------------------------------------------------------------- */

/* No more than was ever taken from the backend: threads that pass the same blocks to and fro would
 * count them twice. */
FERRYI_REQUIRES(ferryi_pool_mutex)
static void
raise_peak(ferry_pool *pool, int64_t live_bytes)
{
    int64_t possible = live_bytes < (int64_t)pool->peak_reserved_bytes
                           ? live_bytes
                           : (int64_t)pool->peak_reserved_bytes;
    if (possible > pool->peak_live_bytes)
        pool->peak_live_bytes = possible;
}

FERRYI_REQUIRES(ferryi_pool_mutex)
static void
count_live(ferry_pool *pool)
{
    int64_t live = pool->live_bytes, fallen = 0, highest = 0;
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next) {
        struct ferryi_cache *cache = FERRYI_CACHE_OF(link);
        int64_t change = cache->peak - cache->below_peak, fall = change < 0 ? change : 0;
        live += change;
        fallen += fall;
        highest = cache->peak - fall > highest ? cache->peak - fall : highest;
        cache->peak = cache->below_peak = 0;
    }
    raise_peak(pool, pool->live_bytes + fallen + highest);
    pool->live_bytes = live;
    raise_peak(pool, live);
}

FERRYI_REQUIRES(ferryi_pool_mutex)
static void
count_class(ferry_pool *pool, struct ferryi_cache *cache, uint32_t list)
{
    uint64_t takes = cache->takes[list], gives = cache->gives[list];
    if ((takes | gives) == 0)
        return;
    size_t bytes = ferryi_pool_bytes_of_class(list);
    struct ferryi_pool_bin *bin = &pool->bins[ferryi_pool_bin_of(bytes)];
    pool->hits += takes;
    pool->gives += gives;
    pool->live_blocks += takes - gives;
    pool->requested_bytes += cache->requested[list];
    bin->takes += takes;
    bin->hits += takes;
    bin->live_blocks += takes - gives;
    bin->live_bytes += (takes - gives) * bytes;
    bin->requested_bytes += cache->requested[list];
    cache->takes[list] = cache->gives[list] = cache->requested[list] = 0;
}

void
ferryi_caches_count(ferry_pool *pool)
{
    count_live(pool);
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
        for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++)
            count_class(pool, FERRYI_CACHE_OF(link), i);
    for (size_t i = 0; i < FERRY_POOL_CLASS_COUNT; i++)
        if (pool->bins[i].live_bytes > pool->bins[i].peak_live_bytes)
            pool->bins[i].peak_live_bytes = pool->bins[i].live_bytes;
}

/* -- the long way ------------------------------------------------------------------------------ */

/* What the cache's hits changed of a bin, since they were counted. */
static int64_t
change_of_bin(const struct ferryi_cache *cache, size_t bin)
{
    int64_t change = 0;
    size_t first = bin == 0 ? 0 : ferryi_pool_class_of(((size_t)512 << bin) + 1),
           last = ferryi_pool_class_of((size_t)1024 << bin);
    for (size_t i = first; i <= last; i++)
        change += (int64_t)(cache->takes[i] - cache->gives[i]) *
                  (int64_t)ferryi_pool_bytes_of_class((uint32_t)i);
    return change;
}

void
ferryi_live_add(ferry_pool *pool, struct ferryi_pool_bin *bin, size_t bytes)
{
    struct ferryi_cache *own = ferryi_cache_find(pool);
    int64_t of_bin =
        (int64_t)bin->live_bytes + (own ? change_of_bin(own, (size_t)(bin - pool->bins)) : 0);
    if (own)
        ferryi_cache_count_more(own, bytes);
    else
        pool->live_bytes += (int64_t)bytes;
    int64_t highest = pool->live_bytes + (own ? own->peak : 0),
            peak_of_bin = (int64_t)bin->peak_live_bytes;
    if (is_alone(pool, own)) {
        raise_peak(pool, highest);
        bin->peak_live_bytes = (uint64_t)(of_bin > peak_of_bin ? of_bin : peak_of_bin);
    } else if (highest - pool->peak_live_bytes > SLACK(pool->peak_live_bytes) ||
               of_bin - peak_of_bin > SLACK(peak_of_bin)) {
        ferryi_caches_lock_out(pool);
        ferryi_caches_count(pool);
        ferryi_caches_let_in(pool);
    }
}

void
ferryi_live_subtract(ferry_pool *pool, size_t bytes)
{
    struct ferryi_cache *own = ferryi_cache_find(pool);
    if (own)
        own->below_peak += (int64_t)bytes;
    else
        pool->live_bytes -= (int64_t)bytes;
}
