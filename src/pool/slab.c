/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "src/pool/red_zone.h"

static struct ferryi_slab *
record_new(size_t bytes)
{
    struct ferryi_slab *slab = calloc(1, sizeof(*slab));
    if (!slab)
        return NULL;
    ferryi_link_init(&slab->in_pool);
    ferryi_link_init(&slab->in_empty);
    slab->bytes = bytes;
    return slab;
}

struct ferryi_slab *
ferryi_slab_new(ferry_pool *pool, size_t bytes, size_t block_bytes)
{
    struct ferryi_slab *slab = record_new(bytes);
    if (!slab)
        return NULL;
    if (!ferryi_pool_lock_stocked(pool)) {
        free(slab);
        return NULL;
    }
    slab->large = block_bytes > FERRYI_POOL_SLAB_BLOCK;
    slab->first = ferryi_block_new(pool);
    slab->first->bytes = bytes;
    slab->first->slab = slab;
    if (block_bytes < bytes)
        ferryi_piece_cut(pool, slab->first, block_bytes);
    ferryi_mutex_unlock(&pool->mutex);
    return slab;
}

void
ferryi_slab_drop(ferry_pool *pool, struct ferryi_slab *slab)
{
    for (ferry_block *next, *block = slab->first; block; block = next) {
        next = block->after;
        ferryi_block_retire(pool, block);
    }
    free(slab);
}

ferry_block *
ferryi_slab_adopt(ferry_pool *pool, struct ferryi_slab *slab, void *memory)
{
    ferry_block *block = slab->first, *rest = block->after;

    slab->memory = block->pointer = memory;
    ferryi_link_append(&pool->slabs, &slab->in_pool);
    ferryi_slab_begin_use(slab, block);
    pool->cached_bytes += slab->bytes - block->bytes;
    if (rest) {
        rest->pointer = (char *)memory + block->bytes;
        ferryi_piece_free(pool, rest);
    }
    ferryi_red_zone_came(pool, slab);
    pool->reserved_bytes += slab->bytes;
    pool->peak_reserved_bytes = ferryi_max_size(pool->peak_reserved_bytes, pool->reserved_bytes);
    pool->grown_bytes += slab->bytes;
    pool->counters.device_allocations++;
    return block;
}

void
ferryi_slab_attach(ferry_pool *pool, struct ferryi_slab *slab)
{
    slab->idle_since = ferryi_now_ns();
    atomic_store(&slab->leaving, false); /* a compaction may have ended meanwhile */
    ferryi_link_append(&pool->slabs, &slab->in_pool);
    ferryi_link_append(&pool->empties, &slab->in_empty);
    pool->cached_bytes += slab->bytes;
    if (slab->large)
        ferryi_block_list(pool, slab->first);
    else
        ferryi_piece_free(pool, slab->first);
}

void
ferryi_slab_detach(ferry_pool *pool, struct ferryi_slab *slab)
{
    assert(slab->live == 0 && slab->first);
    for (ferry_block *next, *block = slab->first; block; block = next) {
        next = block->after;
        if (block->state == FERRYI_BLOCK_FREE)
            ferryi_piece_remove(pool, block);
        else
            ferryi_link_remove(&block->in_idle);
        if (block != slab->first)
            ferryi_block_retire(pool, block);
    }
    slab->first->bytes = slab->bytes;
    slab->first->after = NULL;
    slab->first->point = 0;
    slab->first->state = FERRYI_BLOCK_VOID;
    ferryi_link_remove(&slab->in_pool);
    ferryi_link_remove(&slab->in_empty);
    pool->cached_bytes -= slab->bytes;
}

void
ferryi_slab_begin_use(struct ferryi_slab *slab, const ferry_block *block)
{
    slab->live_bytes += block->bytes;
    if (slab->live++ > 0)
        return;
    ferryi_link_remove(&slab->in_empty);
    slab->idle_since = 0;
}

bool
ferryi_slab_is_done(const ferry_pool *pool, const struct ferryi_slab *slab)
{
    if (slab->live > 0)
        return false;
    for (const ferry_block *block = slab->first; block; block = block->after)
        if (!ferryi_sync_point_is_done(pool->config.order, block->point))
            return false;
    return true;
}

bool
ferryi_block_is_leaving(const ferry_block *block)
{
    return atomic_load(&block->slab->leaving);
}
