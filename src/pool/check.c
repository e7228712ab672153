/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

/* Totals over all slabs of a pool. A consistency check compares them with the pool's own counters
 * and lists. */
struct census {
    size_t slabs, reserved, requested, live_bytes, cached_bytes, holes, hole_bytes;
    uint64_t live_blocks, idle;
};

/* -- from the slabs ---------------------------------------------------------------------------- */

/* Adds one block to the totals, and checks the block's state. */
static bool
count_block(const ferry_block *block, struct census *census)
{
    const uint16_t state = block->state;
    switch (state) {
    case FERRYI_BLOCK_LIVE:
        census->live_blocks++;
        census->live_bytes += block->bytes;
        census->requested += block->requested;
        return block->requested <= block->bytes;
    case FERRYI_BLOCK_IDLE:
        census->idle++;
        census->cached_bytes += block->bytes;
        return true;
    case FERRYI_BLOCK_HOLE:
        census->holes++;
        census->hole_bytes += block->bytes;
        return true;
    default:
        return false;
    }
}

/* Checks that a slab's blocks cover the slab without gaps, and that the slab's counters match its
 * blocks. */
FERRYI_POOL_LOCKED static bool
count_slab(const ferry_pool *pool, const struct ferryi_slab *slab, struct census *census)
{
    struct census before = *census;
    const ferry_block *last = NULL;
    size_t bytes = 0;
    for (const ferry_block *block = slab->first; block; last = block, block = block->after) {
        bool placed = block->slab == slab && block->before == last &&
                      block->pointer == (char *)slab->memory + bytes;
        if (!placed || !count_block(block, census))
            return false;
        bytes += block->bytes;
    }
    size_t holes = census->hole_bytes - before.hole_bytes;
    census->slabs += slab == pool->range ? (bytes - holes) / pool->config.backend.handle_bytes : 1;
    census->reserved += slab->bytes - holes;
    return bytes == slab->bytes && census->live_blocks - before.live_blocks == slab->live &&
           census->live_bytes - before.live_bytes == slab->live_bytes &&
           (!slab->large || (slab->first && !slab->first->after)) &&
           ferryi_link_is_alone(&slab->in_empty) == (slab->live > 0 || slab == pool->range);
}

/* -- from the bins ----------------------------------------------------------------------------- */

/* Adds the number of blocks in a bin to *count. Checks that each block is idle and belongs to the
 * bin. Checks that the blocks with a pending use precede those without one, and that the bin's bit
 * in pool->filled is set if the bin has a block without a pending use. */
FERRYI_POOL_LOCKED static bool
count_bin(const ferry_pool *pool, size_t bin, uint64_t *count)
{
    const struct ferryi_link *head = &pool->bins[bin];
    bool filled = false;
    for (const struct ferryi_link *link = head->next; link != head; link = link->next, ++*count) {
        const ferry_block *block = FERRYI_BLOCK_OF(link);
        if (block->state != FERRYI_BLOCK_IDLE || ferryi_block_bin(block) != bin ||
            (filled && block->point != 0))
            return false;
        filled = block->point == 0;
    }
    return (pool->filled[bin / 64] >> bin % 64 & 1) == filled;
}

FERRYI_POOL_LOCKED static bool
bins_agree(const ferry_pool *pool, const struct census *census)
{
    uint64_t idle = 0;
    for (size_t i = 0; i < FERRYI_POOL_BINS; i++)
        if (!count_bin(pool, i, &idle))
            return false;
    return idle == census->idle;
}

/* Checks the list of the range's holes, which is in order of address, and that no two of them are
 * adjacent. */
FERRYI_POOL_LOCKED static bool
holes_agree(const ferry_pool *pool, const struct census *census)
{
    size_t count = 0;
    const char *end = NULL;
    for (const struct ferryi_link *link = pool->holes.next; link != &pool->holes;
         link = link->next, count++) {
        const ferry_block *hole = FERRYI_BLOCK_OF(link);
        if (hole->state != FERRYI_BLOCK_HOLE || (end && (char *)hole->pointer <= end))
            return false;
        end = (char *)hole->pointer + hole->bytes;
    }
    return count == census->holes;
}

FERRYI_POOL_LOCKED static bool
counts_agree(const ferry_pool *pool, const struct census *census)
{
    ferry_pool_class_stats sum = {0};
    for (size_t i = 0; i < FERRY_POOL_CLASS_COUNT; i++) {
        sum.live_blocks += pool->counters.classes[i].live_blocks;
        sum.live_bytes += pool->counters.classes[i].live_bytes;
        sum.requested_bytes += pool->counters.classes[i].requested_bytes;
    }
    return census->reserved == pool->reserved_bytes && census->live_bytes == sum.live_bytes &&
           census->live_blocks == sum.live_blocks && census->requested == sum.requested_bytes &&
           census->cached_bytes == pool->cached_bytes &&
           census->slabs == pool->counters.device_allocations - pool->counters.device_frees &&
           pool->requesting_bytes == 0 && pool->backend_calls == 0;
}

bool
ferryi_pool_check(ferry_pool *pool)
{
    struct census census = {0};
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty(pool);
    bool good = true;
    FERRYI_EACH_SLAB (pool, slab)
        good = good && count_slab(pool, slab, &census);
    good = good && bins_agree(pool, &census) && holes_agree(pool, &census) &&
           counts_agree(pool, &census);
    ferryi_mutex_unlock(&pool->mutex);
    return good;
}
