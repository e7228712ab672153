/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

/*
 * Counts of what is held. Each thread counts its own hits. The pool adds the counts of all threads
 * to its own with all caches locked out: before it grows, and where its figures are needed. Its
 * policy uses the peak of live bytes at these moments.
 */

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
    pool->live_bytes += (int64_t)((takes - gives) * bytes);
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
    for (struct ferryi_link *link = pool->caches.next; link != &pool->caches; link = link->next)
        for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++)
            count_class(pool, FERRYI_CACHE_OF(link), i);
    ferryi_pool_raise_peak(pool);
}

void
ferryi_pool_raise_peak(ferry_pool *pool)
{
    if (pool->live_bytes > pool->peak_live_bytes)
        pool->peak_live_bytes = pool->live_bytes;
}
