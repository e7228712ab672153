/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

/* Totals over all slabs of a pool, with which a consistency check compares the pool's own counters
 * and lists. */
struct census {
    size_t slabs, reserved, requested, live_bytes, cached_bytes;
    uint64_t live_blocks, idle, free;
};

/* -- from the slabs ---------------------------------------------------------------------------- */

/* Adds one block to the totals, and checks the block's state. Two adjacent blocks must not both be
 * free. A free block must be in a bin, which is a list of free blocks, unless a compaction is
 * emptying the block's slab. */
static bool
count_block(const ferry_block *block, struct census *census)
{
    bool draining = atomic_load(&block->slab->draining);
    switch (block->state) {
    case FERRYI_BLOCK_LIVE:
        census->live_blocks++;
        census->live_bytes += block->bytes;
        census->requested += block->requested;
        return block->requested <= block->bytes;
    case FERRYI_BLOCK_IDLE:
        census->idle++;
        census->cached_bytes += block->bytes;
        return true;
    case FERRYI_BLOCK_FREE:
        census->free += !draining;
        census->cached_bytes += block->bytes;
        return !block->slab->large && block->point == 0 &&
               (!block->after || block->after->state != FERRYI_BLOCK_FREE) &&
               ferryi_link_is_alone(&block->in_idle) == draining;
    default:
        return false;
    }
}

/* Checks that a slab's blocks cover the slab without gaps, and that the slab's counters match its
 * blocks. */
FERRYI_POOL_LOCKED static bool
count_slab(const struct ferryi_slab *slab, struct census *census)
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
    census->slabs++;
    census->reserved += slab->bytes;
    return bytes == slab->bytes && census->live_blocks - before.live_blocks == slab->live &&
           census->live_bytes - before.live_bytes == slab->live_bytes &&
           (!slab->large || (slab->first && !slab->first->after)) &&
           ferryi_link_is_alone(&slab->in_empty) == (slab->live > 0);
}

/* -- from the lists ---------------------------------------------------------------------------- */

/* Adds the number of blocks in a list to *count. Checks that each block is in the state `state`,
 * and that `least` <= block->bytes < `above`. */
static bool
count_list(const struct ferryi_link *list, enum ferryi_block_state state, size_t least,
           size_t above, uint64_t *count)
{
    for (const struct ferryi_link *link = list->next; link != list; link = link->next, ++*count) {
        const ferry_block *block = FERRYI_BLOCK_OF(link);
        if (block->state != state || block->bytes < least || block->bytes >= above)
            return false;
    }
    return true;
}

FERRYI_POOL_LOCKED static bool
lists_agree(const ferry_pool *pool, const struct census *census)
{
    uint64_t idle = 0, pieces = 0;
    bool good = count_list(&pool->classes[FERRYI_POOL_CLASSES].idle, FERRYI_BLOCK_IDLE,
                           FERRYI_POOL_LARGEST + 1, SIZE_MAX, &idle);
    for (uint32_t i = 0; good && i < FERRYI_POOL_CLASSES; i++) {
        size_t bytes = ferryi_pool_bytes_of_class(i);
        good = count_list(&pool->classes[i].idle, FERRYI_BLOCK_IDLE, bytes, bytes + 1, &idle);
    }
    for (uint32_t i = 0; good && i < FERRYI_POOL_PIECE_BINS; i++)
        good = count_list(&pool->pieces[i], FERRYI_BLOCK_FREE, ferryi_pool_bytes_of_class(i),
                          ferryi_pool_bytes_of_class(i + 1), &pieces) &&
               (pool->filled[i / 64] >> i % 64 & 1) == !ferryi_link_is_alone(&pool->pieces[i]);
    return good && idle == census->idle && pieces == census->free;
}

FERRYI_POOL_LOCKED static bool
counts_agree(const ferry_pool *pool, const struct census *census)
{
    ferry_pool_class_stats sum = {0};
    for (size_t i = 0; i < FERRY_POOL_CLASS_COUNT; i++) {
        sum.live_blocks += pool->counters.bins[i].live_blocks;
        sum.live_bytes += pool->counters.bins[i].live_bytes;
        sum.requested_bytes += pool->counters.bins[i].requested_bytes;
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
        good = good && count_slab(slab, &census);
    good = good && lists_agree(pool, &census) && counts_agree(pool, &census);
    ferryi_mutex_unlock(&pool->mutex);
    return good;
}
