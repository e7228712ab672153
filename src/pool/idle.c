/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "src/pool/slab.h"

#define LOOK 8 /* idle blocks looked at from each end of a list */
#define LOOK_BACK 64

/* Blocks of a class are all of one size; among the exact ones, a block may be as much larger as a class would make it. */
static bool
fits(size_t block_bytes, size_t need)
{
    return block_bytes >= need && block_bytes - need <= need / 8;
}

/* The first of a few blocks, from one end, that the request can have without waiting; `any`: also with waiting. */
static ferry_block *
look(const ferry_pool *pool, const struct ferryi_link *list, bool newest, bool any, const struct ferryi_pool_request *request)
{
    const struct ferryi_link *link = newest ? list->prev : list->next;
    for (unsigned i = 0; i < LOOK && link != list; i++, link = newest ? link->prev : link->next) {
        ferry_block *block = FERRYI_BLOCK_OF(link);
        if (fits(block->bytes, request->need) && (any || ferryi_stamp_is_ordered(pool->config.order, request->lane, block->stamp)))
            return block;
    }
    return NULL;
}

/* An idle block becomes moving. */
static ferry_block *
pick(ferry_pool *pool, ferry_block *block)
{
    struct ferryi_slab *slab = block->slab;

    assert(block->state == FERRYI_BLOCK_IDLE);
    ferryi_link_remove(&block->in_idle);
    block->state = FERRYI_BLOCK_MOVING;
    if (slab->live++ == 0)
        ferryi_slab_begin_use(slab);
    pool->classes[slab->list].cached--;
    pool->cached_bytes -= block->bytes;
    return block;
}

static ferry_block *
find_ordered(const ferry_pool *pool, const struct ferryi_pool_class *class, const struct ferryi_pool_request *request)
{
    /* Of the done ones the newest may still be in a cache; of the pending ones the oldest are likeliest done, the newest likeliest on the same lane. */
    ferry_block *block = look(pool, &class->ready, true, false, request);
    if (!block)
        block = look(pool, &class->pending, false, false, request);
    if (!block)
        block = look(pool, &class->pending, true, false, request);
    return block;
}

ferry_block *
ferryi_pool_find(ferry_pool *pool, struct ferryi_pool_request *request, bool *out_ordered)
{
    struct ferryi_pool_class *class = &pool->classes[request->list];

    request->recycled = true;
    *out_ordered = true;
    ferry_block *block = find_ordered(pool, class, request);
    if (block)
        return pick(pool, block);
    if (!ferryi_link_is_alone(&class->room)) {
        struct ferryi_slab *slab = FERRYI_SLAB_OF(class->room.next, in_room);
        if (fits(slab->block_bytes, request->need)) {
            request->recycled = false;
            return ferryi_slab_carve(pool, slab);
        }
    }
    *out_ordered = false;
    block = request->lane ? look(pool, &class->pending, false, true, request) : NULL;
    return block ? pick(pool, block) : NULL;
}

void
ferryi_block_commit(ferry_pool *pool, ferry_block *block, const struct ferryi_pool_request *request, bool hit)
{
    ferry_pool_bin *bin = &pool->bins[ferryi_pool_bin_of(request->bytes)];

    assert(block->state == FERRYI_BLOCK_MOVING);
    block->state = FERRYI_BLOCK_LIVE;
    block->requested = request->bytes;
    block->lane_number = request->lane ? (uint16_t)request->lane->number : 0;
    block->list = request->padded || !block->pointer ? FERRYI_POOL_NO_LIST : (uint16_t)request->list;
    if (ferryi_stamp_is_done(pool->config.order, block->stamp))
        block->stamp = 0;

    pool->live_blocks++;
    pool->live_bytes += (int64_t)block->bytes;
    if (pool->live_bytes > pool->peak_live_bytes)
        pool->peak_live_bytes = pool->live_bytes;
    pool->requested_bytes += block->requested;
    pool->hits += hit;
    pool->misses += !hit;
    bin->takes++;
    bin->hits += hit;
    bin->live_blocks++;
    bin->live_bytes += block->bytes;
}

void
ferryi_block_uncommit(ferry_pool *pool, ferry_block *block)
{
    ferry_pool_bin *bin = &pool->bins[ferryi_pool_bin_of(block->requested)];

    assert(block->state == FERRYI_BLOCK_LIVE);
    block->state = FERRYI_BLOCK_MOVING;
    block->label = NULL;
    pool->gives++;
    pool->live_blocks--;
    pool->live_bytes -= (int64_t)block->bytes;
    pool->requested_bytes -= block->requested;
    bin->live_blocks--;
    bin->live_bytes -= block->bytes;
}

/* Among the empty slabs, which are in order of time. What comes out of several magazines at once need not be: so it looks back a little. */
static void
append_empty(ferry_pool *pool, struct ferryi_slab *slab)
{
    struct ferryi_link *after = pool->empties.prev;
    for (unsigned i = 0; i < LOOK_BACK && after != &pool->empties && FERRYI_SLAB_OF(after, in_empty)->idle_since > slab->idle_since; i++)
        after = after->prev;
    ferryi_link_append(after->next, &slab->in_empty);
}

void
ferryi_block_put(ferry_pool *pool, ferry_block *block, ferryi_stamp stamp, uint64_t since)
{
    struct ferryi_slab *slab = block->slab;
    struct ferryi_pool_class *class = &pool->classes[slab->list];

    assert(block->state == FERRYI_BLOCK_MOVING);
    if (ferryi_stamp_is_done(pool->config.order, stamp))
        stamp = 0;
    block->stamp = stamp;
    block->state = FERRYI_BLOCK_IDLE;
    ferryi_link_append(stamp == 0 ? &class->ready : &class->pending, &block->in_idle);
    slab->idle_since = since > slab->idle_since ? since : slab->idle_since;
    if (--slab->live == 0)
        append_empty(pool, slab);
    class->cached++;
    pool->cached_bytes += block->bytes;
}
