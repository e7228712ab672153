/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

/* The longest run of neighbours that nobody holds: a merge makes one piece of what is done of it.
 */
FERRYI_REQUIRES(ferryi_pool_mutex)
static size_t
longest_run(const struct ferryi_slab *slab)
{
    size_t longest = 0, run = 0;
    if (slab->live == 0)
        return slab->bytes;
    for (const ferry_block *block = slab->first; block; block = block->after) {
        bool idle = block->state == FERRYI_BLOCK_IDLE || block->state == FERRYI_BLOCK_FREE;
        run = idle ? run + block->bytes : 0;
        longest = ferryi_max_size(longest, run);
    }
    return longest;
}

size_t
ferryi_pool_largest_free(const ferry_pool *pool)
{
    size_t largest = 0;
    for (const struct ferryi_link *link = pool->slabs.next; link != &pool->slabs; link = link->next)
        largest = ferryi_max_size(largest, longest_run(FERRYI_SLAB_OF(link, in_pool)));
    return largest;
}

void
ferryi_pool_bytes(ferry_pool *pool, size_t *out_live, size_t *out_cached, size_t *out_reserved)
{
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty_locked(pool);
    *out_live = (size_t)pool->live_bytes;
    *out_cached = pool->cached_bytes;
    *out_reserved = pool->reserved_bytes;
    ferryi_mutex_unlock(&pool->mutex);
}

void
ferryi_pool_count_eviction(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    pool->evictions++;
    ferryi_mutex_unlock(&pool->mutex);
}

static void
add_idle(const ferry_pool *pool, const ferry_block *block, struct ferryi_pool_details *stats)
{
    if (block->state != FERRYI_BLOCK_IDLE && block->state != FERRYI_BLOCK_FREE)
        return;
    struct ferryi_pool_bin *bin = &stats->bins[ferryi_pool_bin_of(block->bytes)];
    bin->cached_blocks++;
    bin->cached_bytes += block->bytes;
    stats->cached_blocks++;
    stats->cached_bytes += block->bytes;
    if (!ferryi_sync_point_is_done(pool->config.order, block->point)) {
        stats->pending_blocks++;
        stats->pending_bytes += block->bytes;
    }
}

/* The idle memory, from the slabs themselves. */
FERRYI_REQUIRES(ferryi_pool_mutex)
static void
count_idle(const ferry_pool *pool, struct ferryi_pool_details *stats)
{
    for (const struct ferryi_link *link = pool->slabs.next; link != &pool->slabs; link = link->next)
        for (const ferry_block *block = FERRYI_SLAB_OF(link, in_pool)->first; block;
             block = block->after)
            add_idle(pool, block, stats);
    stats->largest_free_bytes = ferryi_pool_largest_free(pool);
    if (stats->cached_bytes > 0)
        stats->fragmentation =
            1.0 - (double)stats->largest_free_bytes / (double)stats->cached_bytes;
}

static double
hit_rate(uint64_t hits, uint64_t takes)
{
    return takes > 0 ? (double)hits / (double)takes : 0.0;
}

FERRYI_REQUIRES(ferryi_pool_mutex)
static void
count_takes(const ferry_pool *pool, struct ferryi_pool_details *stats)
{
    uint64_t succeeded = pool->hits + pool->misses;
    stats->takes = succeeded + pool->failed_takes;
    stats->gives = pool->gives;
    stats->hits = pool->hits;
    stats->misses = pool->misses;
    stats->hit_rate = hit_rate(pool->hits, succeeded);
    stats->live_blocks = pool->live_blocks;
    stats->live_bytes = (uint64_t)pool->live_bytes;
    stats->requested_bytes = pool->requested_bytes;
    stats->peak_live_bytes = (uint64_t)pool->peak_live_bytes;
    for (size_t i = 0; i < FERRY_POOL_CLASS_COUNT; i++) {
        struct ferryi_pool_bin *bin = &stats->bins[i];
        *bin = pool->bins[i];
        bin->misses = bin->takes - bin->hits;
        bin->hit_rate = hit_rate(bin->hits, bin->takes);
    }
}

FERRYI_REQUIRES(ferryi_pool_mutex)
static void
count_shortages(const ferry_pool *pool, struct ferryi_pool_details *stats)
{
    stats->shortages = pool->shortages;
    stats->saved_by_reuse = pool->saved[FERRYI_STEP_REUSE];
    stats->saved_by_trim = pool->saved[FERRYI_STEP_TRIM];
    stats->saved_by_wait = pool->saved[FERRYI_STEP_WAIT];
    stats->saved_by_callback = pool->saved[FERRYI_STEP_CALLBACK];
    stats->saved_by_eviction = pool->saved[FERRYI_STEP_EVICT] + pool->saved[FERRYI_STEP_WRITE_BACK];
    stats->saved_by_write_back = pool->saved[FERRYI_STEP_WRITE_BACK];
    stats->saved_by_merge = pool->saved[FERRYI_STEP_MERGE];
    stats->saved_by_compaction = pool->saved[FERRYI_STEP_COMPACT];
}

static void
read_all(ferry_pool *pool, struct ferryi_pool_details *stats, struct ferryi_pool_baseline *baseline)
{
    *stats = (struct ferryi_pool_details){0};
    ferryi_pool_ask_pending(pool);
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty_locked(pool);
    count_takes(pool, stats);
    count_idle(pool, stats);
    count_shortages(pool, stats);
    stats->reserved_bytes = pool->reserved_bytes;
    stats->peak_reserved_bytes = pool->peak_reserved_bytes;
    stats->limit_bytes = pool->limit_bytes;
    stats->device_allocations = pool->device_allocations;
    stats->device_frees = pool->device_frees;
    stats->trims = pool->trims;
    stats->evictions = pool->evictions;
    stats->waits = pool->waits;
    *baseline = pool->baseline;
    ferryi_mutex_unlock(&pool->mutex);
}

void
ferryi_pool_get_details(ferry_pool *pool, struct ferryi_pool_details *out)
{
    struct ferryi_pool_baseline ignored;
    read_all(pool, out, &ignored);
}

void
ferryi_pool_reset_stats(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    ferryi_caches_lock_out(pool);
    ferryi_caches_count(pool);
    pool->baseline = (struct ferryi_pool_baseline){.hits = pool->hits,
                                                   .misses = pool->misses,
                                                   .gives = pool->gives,
                                                   .evictions = pool->evictions,
                                                   .peak_reserved_bytes = pool->reserved_bytes};
    for (size_t i = 0; i < FERRY_POOL_CLASS_COUNT; i++) {
        pool->baseline.bins[i].takes = pool->bins[i].takes;
        pool->baseline.bins[i].hits = pool->bins[i].hits;
    }
    ferryi_caches_let_in(pool);
    ferryi_mutex_unlock(&pool->mutex);
}

ferry_status
ferry_pool_get_stats(ferry_pool *pool, ferry_pool_stats *out)
{
    if (!pool || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "read the statistics of a pool: %s is NULL", pool ? "out" : "pool");
    ferry_status status = ferryi_pool_check_process(pool, "read the statistics of");
    if (status != FERRY_OK)
        return status;

    struct ferryi_pool_details now;
    struct ferryi_pool_baseline since;
    read_all(pool, &now, &since);
    *out = (ferry_pool_stats){
        .allocations = now.hits - since.hits + now.misses - since.misses,
        .frees = now.gives - since.gives,
        .hits = now.hits - since.hits,
        .misses = now.misses - since.misses,
        .live_bytes = now.live_bytes,
        .live_blocks = now.live_blocks,
        .requested_bytes = now.requested_bytes,
        .cached_bytes = now.cached_bytes,
        .pending_bytes = now.pending_bytes,
        .reserved_bytes = now.reserved_bytes,
        .peak_reserved_bytes = since.peak_reserved_bytes,
        .largest_free_bytes = now.largest_free_bytes,
        .evictions = now.evictions - since.evictions,
        .fragmentation = now.fragmentation,
    };
    return FERRY_OK;
}

ferry_status
ferry_pool_get_class_stats(ferry_pool *pool, int class_index, ferry_pool_class_stats *out)
{
    if (!pool || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "read the statistics of a size class: %s is NULL",
                           pool ? "out" : "pool");
    if (class_index < 0 || class_index >= FERRY_POOL_CLASS_COUNT)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "read the statistics of a size class: there is no class %d, only 0 to %d", class_index,
            FERRY_POOL_CLASS_COUNT - 1);
    ferry_status status = ferryi_pool_check_process(pool, "read the statistics of");
    if (status != FERRY_OK)
        return status;

    struct ferryi_pool_details now;
    struct ferryi_pool_baseline since;
    read_all(pool, &now, &since);
    const struct ferryi_pool_bin *bin = &now.bins[class_index];
    *out = (ferry_pool_class_stats){
        .allocations = bin->takes - since.bins[class_index].takes,
        .hits = bin->hits - since.bins[class_index].hits,
        .live_blocks = bin->live_blocks,
        .live_bytes = bin->live_bytes,
        .cached_bytes = bin->cached_bytes,
        .requested_bytes = bin->requested_bytes,
    };
    return FERRY_OK;
}
