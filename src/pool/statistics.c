/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

size_t
ferryi_pool_largest_free(const ferry_pool *pool)
{
    size_t largest = 0;
    for (const struct ferryi_link *link = pool->slabs.next; link != &pool->slabs; link = link->next) {
        const struct ferryi_slab *slab = FERRYI_SLAB_OF(link, in_pool);
        size_t free_slots = slab->slots - slab->carved;
        if (slab->live == 0)
            free_slots = slab->slots;
        else if (free_slots == 0 && slab->carved > slab->live)
            free_slots = 1;
        largest = ferryi_max_size(largest, free_slots * slab->block_bytes);
    }
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
add_cached(ferry_pool_stats *stats, size_t block_bytes, uint64_t blocks)
{
    ferry_pool_bin *bin = &stats->bins[ferryi_pool_bin_of(block_bytes)];
    bin->cached_blocks += blocks;
    bin->cached_bytes += blocks * block_bytes;
    stats->cached_blocks += blocks;
    stats->cached_bytes += blocks * block_bytes;
}

static void
add_pending(const ferry_pool *pool, const struct ferryi_pool_class *class, ferry_pool_stats *stats)
{
    for (const struct ferryi_link *link = class->pending.next; link != &class->pending; link = link->next) {
        const ferry_block *block = FERRYI_BLOCK_OF(link);
        if (ferryi_stamp_is_done(pool->config.order, block->stamp))
            continue;
        stats->pending_blocks++;
        stats->pending_bytes += block->bytes;
    }
}

static void
add_exact(const struct ferryi_pool_class *class, ferry_pool_stats *stats)
{
    for (const struct ferryi_link *link = class->ready.next; link != &class->ready; link = link->next)
        add_cached(stats, FERRYI_BLOCK_OF(link)->bytes, 1);
    for (const struct ferryi_link *link = class->pending.next; link != &class->pending; link = link->next)
        add_cached(stats, FERRYI_BLOCK_OF(link)->bytes, 1);
    for (const struct ferryi_link *link = class->room.next; link != &class->room; link = link->next)
        add_cached(stats, FERRYI_SLAB_OF(link, in_room)->block_bytes, 1);
}

/* The idle memory, from the lists themselves. */
static void
count_idle(const ferry_pool *pool, ferry_pool_stats *stats)
{
    for (uint32_t i = 0; i <= FERRYI_POOL_CLASSES; i++)
        add_pending(pool, &pool->classes[i], stats);
    for (uint32_t i = 0; i < FERRYI_POOL_CLASSES; i++)
        add_cached(stats, ferryi_pool_bytes_of_class(i), pool->classes[i].cached);
    add_exact(&pool->classes[FERRYI_POOL_CLASSES], stats);
    if (stats->cached_bytes > 0)
        stats->fragmentation = 1.0 - (double)ferryi_pool_largest_free(pool) / (double)stats->cached_bytes;
}

static void
count_takes(const ferry_pool *pool, ferry_pool_stats *stats)
{
    uint64_t succeeded = pool->hits + pool->misses;
    stats->takes = succeeded + pool->failed_takes;
    stats->gives = pool->gives;
    stats->hits = pool->hits;
    stats->misses = pool->misses;
    stats->hit_rate = succeeded > 0 ? (double)pool->hits / (double)succeeded : 0.0;
    stats->live_blocks = pool->live_blocks;
    stats->live_bytes = (uint64_t)pool->live_bytes;
    stats->requested_bytes = pool->requested_bytes;
    stats->peak_live_bytes = (uint64_t)pool->peak_live_bytes;
    for (size_t i = 0; i < FERRY_POOL_BIN_COUNT; i++)
        stats->bins[i] = pool->bins[i];
}

ferry_status
ferry_pool_statistics(ferry_pool *pool, ferry_pool_stats *out)
{
    if (!pool || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "read the statistics of a pool: %s is NULL", pool ? "out" : "pool");

    ferry_pool_stats stats = {0};
    ferryi_pool_ask_pending(pool);
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty_locked(pool);
    count_takes(pool, &stats);
    count_idle(pool, &stats);
    stats.reserved_bytes = pool->reserved_bytes;
    stats.peak_reserved_bytes = pool->peak_reserved_bytes;
    stats.limit_bytes = pool->config.limit_bytes;
    stats.device_allocations = pool->device_allocations;
    stats.device_frees = pool->device_frees;
    stats.trims = pool->trims;
    stats.evictions = pool->evictions;
    stats.waits = pool->waits;
    stats.shortages = pool->shortages;
    stats.saved_by_reuse = pool->saved[FERRYI_RUNG_REUSE];
    stats.saved_by_trim = pool->saved[FERRYI_RUNG_TRIM];
    stats.saved_by_wait = pool->saved[FERRYI_RUNG_WAIT];
    stats.saved_by_callback = pool->saved[FERRYI_RUNG_CALLBACK];
    ferryi_mutex_unlock(&pool->mutex);
    *out = stats;
    return FERRY_OK;
}

/* -- the check ------------------------------------------------------------------------------------- */

/* What the slabs say; to be compared with the pool's counts. */
struct census {
    size_t slabs, reserved, cached_bytes, requested;
    int64_t live_bytes;
    uint64_t live_blocks, cached[FERRYI_POOL_CLASSES + 1];
    uint64_t idle; /* carved and idle */
};

static bool
census_block(const struct ferryi_slab *slab, const ferry_block *block, struct census *census)
{
    if (block->slab != slab || block->bytes != slab->block_bytes)
        return false;
    if (block->state == FERRYI_BLOCK_LIVE) {
        census->live_blocks++;
        census->live_bytes += (int64_t)block->bytes;
        census->requested += block->requested;
        return block->requested <= block->bytes && ferryi_link_is_alone(&block->in_idle);
    }
    census->idle++;
    return block->state == FERRYI_BLOCK_IDLE && !ferryi_link_is_alone(&block->in_idle);
}

static bool
census_slab(const struct ferryi_slab *slab, struct census *census)
{
    uint64_t live_before = census->live_blocks;
    for (uint32_t i = 0; i < slab->carved; i++)
        if (!census_block(slab, &slab->blocks[i], census))
            return false;
    census->slabs += slab->bytes > 0;
    census->reserved += slab->bytes;
    census->cached[slab->list] += slab->slots - slab->live;
    census->cached_bytes += (slab->slots - slab->live) * slab->block_bytes;
    return census->live_blocks - live_before == slab->live && slab->carved <= slab->slots &&
           ferryi_link_is_alone(&slab->in_empty) == (slab->live > 0) &&
           ferryi_link_is_alone(&slab->in_room) == (slab->carved == slab->slots);
}

/* Counts the members of an idle list; false when one does not belong there. */
static bool
check_idle(const struct ferryi_link *list, uint32_t index, bool ready, uint64_t *count)
{
    for (const struct ferryi_link *link = list->next; link != list; link = link->next) {
        const ferry_block *block = FERRYI_BLOCK_OF(link);
        if (block->state != FERRYI_BLOCK_IDLE || block->slab->list != index || (block->stamp == 0) != ready)
            return false;
        ++*count;
    }
    return true;
}

static bool
check_lists(const ferry_pool *pool)
{
    struct census census = {0};
    uint64_t listed = 0;
    for (const struct ferryi_link *link = pool->slabs.next; link != &pool->slabs; link = link->next)
        if (!census_slab(FERRYI_SLAB_OF(link, in_pool), &census))
            return false;
    for (uint32_t i = 0; i <= FERRYI_POOL_CLASSES; i++) {
        const struct ferryi_pool_class *class = &pool->classes[i];
        if (!check_idle(&class->ready, i, true, &listed) || !check_idle(&class->pending, i, false, &listed))
            return false;
        if (census.cached[i] != class->cached)
            return false;
    }
    return listed == census.idle && census.reserved == pool->reserved_bytes && census.live_bytes == pool->live_bytes &&
           census.live_blocks == pool->live_blocks && census.cached_bytes == pool->cached_bytes &&
           census.requested == pool->requested_bytes && census.slabs == pool->device_allocations - pool->device_frees;
}

bool
ferryi_pool_check(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty_locked(pool);
    bool good = check_lists(pool) && pool->requesting_bytes == 0 && pool->backend_calls == 0 &&
                pool->hits + pool->misses == pool->gives + pool->live_blocks;
    ferryi_mutex_unlock(&pool->mutex);
    return good;
}
