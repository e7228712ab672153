/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "src/pool/magazine.h"

/* maximum number of unusable blocks of the right size that a search examines before it gives up */
#define LOOK 8

/* -- finding ----------------------------------------------------------------------------------- */

void
ferryi_block_list(ferry_pool *pool, ferry_block *block)
{
    bool exact = block->bytes > FERRYI_POOL_LARGEST;
    size_t list = exact ? FERRYI_POOL_CLASSES : ferryi_pool_class_of(block->bytes);
    block->state = FERRYI_BLOCK_IDLE;
    struct ferryi_link *idle = &pool->classes[list].idle;
    ferryi_link_append(block->point == 0 ? idle : idle->next, &block->in_idle);
}

/* Whether the size of the block suits the request. A request without a size class accepts a block
 * that is up to 1/8 larger than needed, like the blocks of a class. With `any_fit`, a request for a
 * large class does so too. */
static bool
fits(const ferry_block *block, const struct ferryi_pool_request *request)
{
    bool any = request->list == FERRYI_POOL_CLASSES ||
               (request->any_fit && request->list >= FERRYI_POOL_SMALL_CLASSES);
    return block->bytes == request->need || (any && block->bytes >= request->least &&
                                             block->bytes - request->least <= request->least / 8);
}

/* Searches the idle blocks of one class from the end or the beginning of their list. Returns a
 * block that the request can use at once. With `waits`, the block may also be one whose last use
 * the request's timeline must wait for. Among blocks without a size class, the smallest such block
 * is returned. Without `any_fit`, the search gives up after LOOK unusable blocks of the right size.
 */
FERRYI_POOL_LOCKED static ferry_block *
search(const ferry_pool *pool, uint32_t list, bool from_end, bool waits,
       const struct ferryi_pool_request *request)
{
    const ferryi_order *order = pool->config.order;
    const struct ferryi_link *idle = &pool->classes[list].idle,
                             *link = from_end ? idle->prev : idle->next;
    ferry_block *best = NULL;
    for (unsigned i = 0; link != idle && (i < LOOK || request->any_fit);
         link = from_end ? link->prev : link->next) {
        ferry_block *block = FERRYI_BLOCK_OF(link);
        if (!fits(block, request) || atomic_load(&block->slab->draining))
            continue;
        bool usable = (waits && !ferryi_sync_point_is_unknown(order, block->point)) ||
                      ferryi_sync_point_is_ordered(order, request->timeline, block->point);
        if (usable && (!best || block->bytes < best->bytes))
            best = block;
        if (best && list < FERRYI_POOL_CLASSES)
            break;
        i += !usable;
    }
    return best;
}

/* Returns an idle block that the request can use at once, or NULL. Blocks without pending work are
 * tried first, newest first. The oldest pending blocks follow, because their work is most likely
 * done. The newest pending blocks are last. They are most likely on the request's timeline. */
FERRYI_POOL_LOCKED static ferry_block *
find_ordered(const ferry_pool *pool, const struct ferryi_pool_request *request)
{
    ferry_block *block = search(pool, request->list, true, false, request);
    if (!block)
        block = search(pool, request->list, false, false, request);
    if (!block && request->any_fit && request->list < FERRYI_POOL_CLASSES)
        block = search(pool, request->list + 1, true, false, request);
    return block;
}

ferry_block *
ferryi_pool_find(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    ferry_block *block = find_ordered(pool, request);
    if (!block && request->list < FERRYI_POOL_SMALL_CLASSES) {
        block = ferryi_piece_carve(
            pool, request->need,
            ferryi_pool_natural_align(request->need, pool->config.backend.align));
        if (block)
            return block;
    }
    if (!block && request->timeline)
        block = search(pool, request->list, true, true, request);
    if (block) {
        ferryi_link_remove(&block->in_idle);
        ferryi_block_begin_use(pool, block);
    }
    return block;
}

/* -- states ------------------------------------------------------------------------------------ */

/* Returns the counts of the class that contains blocks of the requested size. The size includes the
 * red zone, because magazines count by the class of the whole block. */
static ferry_pool_class_stats *
bin_of(ferry_pool *pool, size_t requested)
{
    return &pool->counters.bins[ferryi_pool_bin_of(requested + ferryi_pool_zone_bytes(pool))];
}

void
ferryi_block_commit(ferry_pool *pool, ferry_block *block, const struct ferryi_pool_request *request,
                    bool hit)
{
    ferry_pool_class_stats *bin = bin_of(pool, request->bytes);

    assert(block->state == FERRYI_BLOCK_MOVING);
    block->state = FERRYI_BLOCK_LIVE;
    block->requested = request->bytes;
    block->timeline_number = request->timeline ? (uint16_t)request->timeline->number : 0;
    /* A block may enter a magazine only if an allocation of the same number of bytes would search
     * that magazine. Above the high-water mark, a block enters no magazine, so that its release
     * takes the slow path. The slow path returns memory to the backend. */
    bool listed = request->align == 1 && block->bytes == request->need &&
                  ferryi_pool_excess(pool) == 0 && !atomic_load(&block->slab->draining);
    block->align_log2 = (uint16_t)__builtin_ctzll(request->align);
    block->list = listed ? (uint16_t)request->list : FERRYI_POOL_NO_LIST;
    if (ferryi_sync_point_is_done(pool->config.order, block->point))
        block->point = 0;

    bin->allocations++;
    bin->hits += hit;
    bin->live_blocks++;
    bin->live_bytes += block->bytes;
    bin->requested_bytes += block->requested;
}

void
ferryi_block_uncommit(ferry_pool *pool, ferry_block *block)
{
    ferry_pool_class_stats *bin = bin_of(pool, block->requested);

    assert(block->state == FERRYI_BLOCK_LIVE);
    block->state = FERRYI_BLOCK_MOVING;
    atomic_store_explicit(&block->label, NULL, memory_order_relaxed);
    bin->live_blocks--;
    bin->live_bytes -= block->bytes;
    bin->requested_bytes -= block->requested;
    pool->counters.frees++;
    block->align_log2 = 0;
}

void
ferryi_block_put(ferry_pool *pool, ferry_block *block, ferryi_sync_point point, uint64_t since)
{
    struct ferryi_slab *slab = block->slab;

    assert(block->state == FERRYI_BLOCK_MOVING);
    block->point = ferryi_sync_point_is_done(pool->config.order, point) ? 0 : point;
    block->list = FERRYI_POOL_NO_LIST;
    slab->idle_since = since > slab->idle_since ? since : slab->idle_since;
    slab->live_bytes -= block->bytes;
    slab->live--;
    pool->cached_bytes += block->bytes;
    ferryi_block_list(pool, block);
}
