/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

size_t
ferryi_pool_largest_free(const ferry_pool *pool)
{
    size_t longest = 0;
    FERRYI_EACH_SLAB (pool, slab) {
        size_t run = 0;
        for (const ferry_block *block = slab->first; block; block = block->after) {
            run = block->state == FERRYI_BLOCK_IDLE ? run + block->bytes : 0;
            longest = ferryi_max_size(longest, run);
        }
    }
    return longest;
}

void
ferryi_pool_count_eviction(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    pool->counters.evictions++;
    ferryi_mutex_unlock(&pool->mutex);
}

int64_t
ferryi_pool_live_bytes(const ferry_pool *pool)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < FERRY_POOL_CLASS_COUNT; i++)
        bytes += pool->counters.classes[i].live_bytes;
    return (int64_t)bytes;
}

void
ferryi_pool_raise_peak(ferry_pool *pool)
{
    int64_t live = ferryi_pool_live_bytes(pool);
    if (live > (int64_t)pool->counters.peak_live_bytes)
        pool->counters.peak_live_bytes = (uint64_t)live;
    if (live > (int64_t)pool->peak_live_bytes)
        pool->peak_live_bytes = (uint64_t)live;
    pool->unseen_bytes = 0;
}

void
ferryi_pool_get_counters(ferry_pool *pool, struct ferryi_pool_counters *out)
{
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty(pool);
    *out = pool->counters;
    out->live_bytes = (size_t)ferryi_pool_live_bytes(pool);
    out->cached_bytes = pool->cached_bytes;
    out->reserved_bytes = pool->reserved_bytes;
    out->limit_bytes = pool->limit_bytes;
    ferryi_mutex_unlock(&pool->mutex);
}

void
ferryi_pool_reset_stats(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    ferryi_caches_count(pool);
    for (size_t i = 0; i < FERRY_POOL_CLASS_COUNT; i++)
        pool->counters.classes[i].allocations = pool->counters.classes[i].hits = 0;
    pool->counters.frees = 0;
    pool->evictions_at_reset = pool->counters.evictions;
    pool->peak_reserved_bytes = pool->reserved_bytes;
    pool->peak_live_bytes = 0;
    ferryi_pool_raise_peak(pool);
    ferryi_mutex_unlock(&pool->mutex);
}

/* -- the public statistics --------------------------------------------------------------------- */

struct figures {
    ferry_pool_stats all;
    ferry_pool_class_stats classes[FERRY_POOL_CLASS_COUNT];
};

static void
read_all(ferry_pool *pool, struct figures *out)
{
    ferry_pool_stats *all = &out->all;
    *out = (struct figures){0};
    ferryi_pool_ask_pending(pool);
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty(pool);
    for (size_t i = 0; i < FERRY_POOL_CLASS_COUNT; i++) {
        const ferry_pool_class_stats *class = &pool->counters.classes[i];
        out->classes[i] = *class;
        all->allocations += class->allocations;
        all->hits += class->hits;
        all->live_blocks += class->live_blocks;
        all->live_bytes += class->live_bytes;
        all->requested_bytes += class->requested_bytes;
    }
    all->frees = pool->counters.frees;
    FERRYI_EACH_SLAB (pool, slab)
        for (const ferry_block *block = slab->first; block; block = block->after) {
            /* Only an idle block's sync point may be read here. The owner of a live block may
             * change the block's sync point without the mutex. */
            if (block->state != FERRYI_BLOCK_IDLE)
                continue;
            out->classes[ferryi_pool_statistics_class(block->bytes)].cached_bytes += block->bytes;
            all->cached_bytes += block->bytes;
            if (!ferryi_sync_point_is_done(pool->config.order, block->point))
                all->pending_bytes += block->bytes;
        }
    all->misses = all->allocations - all->hits;
    all->reserved_bytes = pool->reserved_bytes;
    all->peak_reserved_bytes = pool->peak_reserved_bytes;
    all->largest_free_bytes = ferryi_pool_largest_free(pool);
    all->evictions = pool->counters.evictions - pool->evictions_at_reset;
    all->limit_bytes = pool->limit_bytes;
    all->peak_live_bytes = pool->peak_live_bytes;
    if (all->cached_bytes > 0)
        all->fragmentation = 1.0 - (double)all->largest_free_bytes / (double)all->cached_bytes;
    ferryi_mutex_unlock(&pool->mutex);
}

ferry_status
ferry_pool_get_stats(ferry_pool *pool, ferry_pool_stats *out)
{
    FERRYI_OR_RETURN(ferryi_pool_check_call(pool, "read the statistics of", out, "out"));

    struct figures figures;
    read_all(pool, &figures);
    *out = figures.all;
    return FERRY_OK;
}

ferry_status
ferry_pool_get_class_stats(ferry_pool *pool, int class_index, ferry_pool_class_stats *out)
{
    if (class_index < 0 || class_index >= FERRY_POOL_CLASS_COUNT)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "read the statistics of a size class: there is no class %d, only 0 to %d", class_index,
            FERRY_POOL_CLASS_COUNT - 1);
    FERRYI_OR_RETURN(
        ferryi_pool_check_call(pool, "read the statistics of a size class of", out, "out"));

    struct figures figures;
    read_all(pool, &figures);
    *out = figures.classes[class_index];
    return FERRY_OK;
}
