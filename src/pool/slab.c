/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "src/pool/magazine.h"

#define ARENA_BLOCKS 62 /* together they occupy 8 KiB */
#define STOCK        4  /* maximum number of descriptors that one allocation needs */
/* Maximum number of unusable blocks that a search of a list examines before it gives up. */
#define LOOK 8
/* The list of empty slabs is ordered by the time at which a block of the slab was last released. An
 * insertion searches for its position from the end of the list, over at most this number of
 * slabs. */
#define LOOK_BACK 64
/* The number of live bytes is compared with its peaks whenever 1/PEAK_PART of the pool's memory was
 * committed. */
#define PEAK_PART 8

/* -- descriptors ------------------------------------------------------------------------------- */

struct ferryi_arena {
    struct ferryi_arena *next;
    ferry_block blocks[ARENA_BLOCKS];
};

FERRYI_POOL_LOCKED static void
block_retire(ferry_pool *pool, ferry_block *block)
{
    block->state = FERRYI_BLOCK_VOID;
    block->list = FERRYI_POOL_NO_LIST;
    block->after = pool->spares;
    pool->spares = block;
}

FERRYI_POOL_LOCKED static void
arena_add(ferry_pool *pool, struct ferryi_arena *arena)
{
    arena->next = pool->arenas;
    pool->arenas = arena;
    for (size_t i = 0; i < ARENA_BLOCKS; i++) {
        arena->blocks[i].pool = pool;
        block_retire(pool, &arena->blocks[i]);
    }
}

FERRYI_POOL_LOCKED static bool
has_stock(const ferry_pool *pool)
{
    const ferry_block *spare = pool->spares;
    for (unsigned i = 0; spare && i < STOCK - 1; i++)
        spare = spare->after;
    return spare;
}

bool
ferryi_pool_lock_stocked(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    while (!has_stock(pool)) {
        ferryi_mutex_unlock(&pool->mutex);
        struct ferryi_arena *arena = aligned_alloc(_Alignof(struct ferryi_arena), sizeof(*arena));
        if (!arena)
            return false;
        ferryi_mutex_lock(&pool->mutex);
        arena_add(pool, arena);
    }
    return true;
}

void
ferryi_arenas_free(ferry_pool *pool)
{
    ferryi_mutex_is_needless(&pool->mutex);
    while (pool->arenas) {
        struct ferryi_arena *arena = pool->arenas;
        pool->arenas = arena->next;
        free(arena);
    }
}

/* Returns an unused block descriptor. The caller has called ferryi_pool_lock_stocked(), which
 * guarantees that there is one. */
FERRYI_POOL_LOCKED static ferry_block *
block_new(ferry_pool *pool)
{
    ferry_block *block = pool->spares;
    assert(block);
    pool->spares = block->after;
    *block = (ferry_block){.pool = pool,
                           .list = FERRYI_POOL_NO_LIST,
                           .state = FERRYI_BLOCK_MOVING,
                           .magic = FERRYI_BLOCK_MAGIC};
    return block;
}

/* -- bins -------------------------------------------------------------------------------------- */

size_t
ferryi_pool_bin_of_class(uint32_t size_class)
{
    return size_class < FERRYI_POOL_SMALL_CLASSES
               ? size_class
               : size_class - FERRYI_POOL_SMALL_CLASSES + FERRYI_POOL_SMALL_BINS;
}

size_t
ferryi_block_bin(const ferry_block *block)
{
    if (atomic_load(&block->slab->draining))
        return FERRYI_POOL_DRAINING_BIN;
    if (block->bytes > FERRYI_POOL_LARGEST)
        return FERRYI_POOL_DRAINING_BIN - 1;
    uint32_t above = (uint32_t)ferryi_pool_class_of(block->bytes);
    if (block->slab->large)
        return ferryi_pool_bin_of_class(above);
    uint32_t fits = ferryi_pool_bytes_of_class(above) == block->bytes ? above : above - 1;
    if (block->slab != block->pool->range)
        return fits;
    return fits < FERRYI_POOL_SMALL_CLASSES ? FERRYI_POOL_FRAGMENT_BIN
                                            : ferryi_pool_bin_of_class(fits);
}

/* Updates the bitmap after a change of a bin. */
FERRYI_POOL_LOCKED static void
note_filled(ferry_pool *pool, size_t bin)
{
    const struct ferryi_link *last = pool->bins[bin].prev;
    uint64_t bit = UINT64_C(1) << bin % 64;
    if (last != &pool->bins[bin] && FERRYI_BLOCK_OF(last)->point == 0)
        pool->filled[bin / 64] |= bit;
    else
        pool->filled[bin / 64] &= ~bit;
}

void
ferryi_bin_add(ferry_pool *pool, ferry_block *block)
{
    size_t bin = ferryi_block_bin(block);
    struct ferryi_link *head = &pool->bins[bin];
    block->state = FERRYI_BLOCK_IDLE;
    ferryi_link_append(block->point == 0 ? head : head->next, &block->in_bin);
    note_filled(pool, bin);
}

void
ferryi_bin_remove(ferry_pool *pool, ferry_block *block)
{
    assert(block->state == FERRYI_BLOCK_IDLE);
    ferryi_link_remove(&block->in_bin);
    note_filled(pool, ferryi_block_bin(block));
}

/* -- neighbours -------------------------------------------------------------------------------- */

ferry_block *
ferryi_block_cut(ferry_pool *pool, ferry_block *block, size_t bytes)
{
    ferry_block *rest = block_new(pool);
    ferryi_memory_checker_forbid(block, 0);
    /* A new slab is split into blocks before its memory is allocated, so these blocks have no
     * pointer yet. */
    rest->pointer = block->pointer ? (char *)block->pointer + bytes : NULL;
    rest->bytes = block->bytes - bytes;
    rest->point = block->point;
    rest->idle_since = block->idle_since;
    rest->slab = block->slab;
    rest->before = block;
    rest->after = block->after;
    if (rest->after)
        rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    return rest;
}

void
ferryi_block_join(ferry_pool *pool, ferry_block *block, ferry_block *after)
{
    ferryi_memory_checker_forbid(block, 0);
    ferryi_memory_checker_forbid(after, 0);
    block->bytes += after->bytes;
    block->idle_since =
        block->idle_since > after->idle_since ? block->idle_since : after->idle_since;
    block->after = after->after;
    if (block->after)
        block->after->before = block;
    block_retire(pool, after);
}

bool
ferryi_block_is_unused(const ferry_pool *pool, const ferry_block *block)
{
    return block && block->state == FERRYI_BLOCK_IDLE &&
           ferryi_sync_point_is_done(pool->config.order, block->point);
}

ferry_block *
ferryi_block_merge(ferry_pool *pool, ferry_block *block)
{
    ferry_block *before = block->before, *after = block->after;
    if (ferryi_block_is_unused(pool, after)) {
        ferryi_bin_remove(pool, after);
        ferryi_block_join(pool, block, after);
    }
    if (ferryi_block_is_unused(pool, before)) {
        ferryi_bin_remove(pool, before);
        ferryi_block_join(pool, before, block);
        block = before;
    }
    block->point = 0;
    ferryi_bin_add(pool, block);
    return block;
}

void
ferryi_pool_merge(ferry_pool *pool)
{
    FERRYI_EACH_SLAB (pool, slab)
        for (ferry_block *block = slab->first; block; block = block->after)
            if (ferryi_block_is_unused(pool, block)) {
                ferryi_bin_remove(pool, block);
                block = ferryi_block_merge(pool, block);
            }
}

/* -- finding idle memory ----------------------------------------------------------------------- */

/* Returns whether a block in the bin of the request has a suitable size. A small block must have
 * room for a block of the request's size class at an aligned address, and may be of any larger
 * size. With `least_fits`, room for the requested bytes is enough. A large block must
 * have the size of the request or, with `any_fit`, be at most 1/8 larger. */
static bool
fits(const ferry_block *block, const struct ferryi_pool_request *request)
{
    size_t small = request->least_fits ? request->least : request->need;
    if (ferryi_request_splits(block->pool, request))
        return block->bytes >= small + ferryi_block_gap(block, request->block_align);
    return block->bytes == request->need || (request->any_fit && block->bytes >= request->least &&
                                             block->bytes - request->least <= request->least / 8);
}

/* Searches a bin, from its end or from its beginning. Returns a block that the request can use at
 * once. With `waits`, the block may also be one whose last use the request's stream must wait for.
 * Among blocks above the largest size class, returns the smallest usable one. Without `any_fit`,
 * the search gives up after LOOK unusable blocks. */
FERRYI_POOL_LOCKED static ferry_block *
search(const ferry_pool *pool, size_t bin, bool from_end, bool waits,
       const struct ferryi_pool_request *request)
{
    const ferryi_order *order = pool->config.order;
    const struct ferryi_link *head = &pool->bins[bin], *link = from_end ? head->prev : head->next;
    ferry_block *best = NULL;
    for (unsigned i = 0; link != head && (i < LOOK || request->any_fit);
         i++, link = from_end ? link->prev : link->next) {
        ferry_block *block = FERRYI_BLOCK_OF(link);
        bool usable = fits(block, request) &&
                      ((waits && !ferryi_sync_point_is_unknown(order, block->point)) ||
                       ferryi_sync_point_is_ordered(order, request->timeline, block->point));
        if (usable && (!best || block->bytes < best->bytes))
            best = block;
        if (best && request->list < FERRYI_POOL_CLASSES)
            break;
    }
    return best;
}

/* Returns a block without a pending use that is larger than the blocks of the request's bin.
 * It has room for any gap that the alignment can cause. Returns NULL if there is none. */
FERRYI_POOL_LOCKED static ferry_block *
find_larger(const ferry_pool *pool, const struct ferryi_pool_request *request)
{
    size_t room = request->need + request->block_align - FERRYI_POOL_ALIGN;
    if (room > FERRYI_POOL_LARGEST) /* the search has examined the bin of larger blocks */
        return NULL;
    bool small = request->list < FERRYI_POOL_SMALL_CLASSES;
    uint32_t list = (uint32_t)ferryi_pool_class_of(room);
    size_t bin = small ? list : ferryi_pool_bin_of_class(list), word = bin / 64,
           end = small ? FERRYI_POOL_SMALL_BINS : FERRYI_POOL_DRAINING_BIN;
    uint64_t bits = pool->filled[word] & UINT64_MAX << bin % 64;
    while (bits == 0 && ++word < sizeof(pool->filled) / sizeof(pool->filled[0]))
        bits = pool->filled[word];
    bin = bits ? 64 * word + (size_t)__builtin_ctzll(bits) : end;
    return bin < end ? FERRYI_BLOCK_OF(pool->bins[bin].prev) : NULL;
}

/* Returns an idle block for the request. Blocks of the request's bin without pending work are tried
 * first, starting with the newest. Then the oldest pending blocks are tried, because their work is
 * most likely done, and then the newest pending ones, because they are most likely on the request's
 * stream. The last resort is a block for which the request's stream must wait. */
FERRYI_POOL_LOCKED static ferry_block *
find(const ferry_pool *pool, const struct ferryi_pool_request *request)
{
    size_t bin = ferryi_pool_bin_of_class(request->list);
    bool small = ferryi_request_splits(pool, request);
    ferry_block *block = search(pool, bin, true, false, request);
    if (!block)
        block = search(pool, bin, false, false, request);
    if (!block && !small && request->any_fit && request->list < FERRYI_POOL_CLASSES)
        block = search(pool, bin + 1, true, false, request);
    if (!block && small)
        block = find_larger(pool, request);
    /* A block that was cut may have room for the requested bytes, but not for a whole block of
     * their size class. */
    if (!block && small && request->least_fits && request->list > 0 &&
        request->list != FERRYI_POOL_SMALL_CLASSES)
        block = search(pool, bin - 1, true, false, request);
    if (!block && request->timeline && !request->waits_last)
        block = search(pool, bin, true, true, request);
    return block;
}

unsigned
ferryi_pool_count_busy(const ferry_pool *pool, const struct ferryi_pool_request *request)
{
    const struct ferryi_link *head = &pool->bins[ferryi_pool_bin_of_class(request->list)],
                             *link = head->next;
    unsigned busy = 0;
    for (unsigned i = 0; link != head && i < LOOK; i++, link = link->next)
        busy += fits(FERRYI_BLOCK_OF(link), request) &&
                !ferryi_sync_point_is_ordered(pool->config.order, request->timeline,
                                              FERRYI_BLOCK_OF(link)->point);
    return busy;
}

void
ferryi_block_begin_use(ferry_pool *pool, ferry_block *block)
{
    struct ferryi_slab *slab = block->slab;
    block->state = FERRYI_BLOCK_MOVING;
    pool->cached_bytes -= block->bytes;
    slab->live_bytes += block->bytes;
    if (slab->live++ > 0)
        return;
    ferryi_link_remove(&slab->in_empty);
    slab->idle_since = 0;
}

ferry_block *
ferryi_pool_find(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    ferry_block *block = find(pool, request);
    if (!block)
        return NULL;
    ferryi_bin_remove(pool, block);
    size_t gap = ferryi_block_gap(block, request->block_align);
    if (gap > 0) {
        ferry_block *before = block;
        block = ferryi_block_cut(pool, before, gap);
        ferryi_bin_add(pool, before);
    }
    if (block->bytes > request->need && !block->slab->large)
        ferryi_bin_add(pool, ferryi_block_cut(pool, block, request->need));
    ferryi_block_begin_use(pool, block);
    return block;
}

/* -- states of blocks -------------------------------------------------------------------------- */

/* Returns the statistics of the size class to which a block of the requested size belongs. */
static ferry_pool_class_stats *
counts_of(ferry_pool *pool, size_t requested)
{
    return &pool->counters.classes[ferryi_pool_statistics_class(requested)];
}

/* Compares the number of live bytes with its peaks if the blocks that were committed since the last
 * comparison have an eighth of the pool's memory. To count the live bytes, all threads are locked
 * out of their caches, so the comparison is not made at each commit. */
FERRYI_POOL_LOCKED static void
note_peak(ferry_pool *pool, size_t bytes)
{
    pool->unseen_bytes += bytes;
    if (pool->unseen_bytes >= pool->reserved_bytes / PEAK_PART)
        ferryi_caches_count(pool);
}

void
ferryi_block_commit(ferry_pool *pool, ferry_block *block, const struct ferryi_pool_request *request,
                    bool hit)
{
    ferry_pool_class_stats *class = counts_of(pool, request->bytes);

    assert(block->state == FERRYI_BLOCK_MOVING);
    block->state = FERRYI_BLOCK_LIVE;
    block->requested = request->bytes;
    block->timeline_number = request->timeline ? (uint16_t)request->timeline->number : 0;
    /* A block may enter a magazine only if an allocation of the same number of bytes would search
     * that magazine. While the pool is above its high-water mark, blocks enter no magazine. So
     * their release takes the slow path, which returns memory to the backend. */
    bool listed = request->align == 1 && block->bytes == request->need &&
                  ferryi_pool_excess(pool) == 0 && !atomic_load(&block->slab->draining);
    block->align_log2 = (uint16_t)__builtin_ctzll(request->align);
    block->list = listed ? (uint16_t)request->list : FERRYI_POOL_NO_LIST;
    if (ferryi_sync_point_is_done(pool->config.order, block->point))
        block->point = 0;

    class->allocations++;
    class->hits += hit;
    class->live_blocks++;
    class->live_bytes += block->bytes;
    class->requested_bytes += block->requested;
    note_peak(pool, block->bytes);
}

void
ferryi_block_uncommit(ferry_pool *pool, ferry_block *block)
{
    ferry_pool_class_stats *class = counts_of(pool, block->requested);

    assert(block->state == FERRYI_BLOCK_LIVE);
    block->state = FERRYI_BLOCK_MOVING;
    atomic_store_explicit(&block->label, NULL, memory_order_relaxed);
    class->live_blocks--;
    class->live_bytes -= block->bytes;
    class->requested_bytes -= block->requested;
    pool->counters.frees++;
    block->align_log2 = 0;
}

ferry_block *
ferryi_block_replace(ferry_pool *pool, ferry_block *block, ferry_block *extra, size_t requested)
{
    ferry_pool_class_stats *old = counts_of(pool, block->requested),
                           *new = counts_of(pool, requested);
    ferry_block *longer = block_new(pool);
    size_t added = extra ? extra->bytes : 0;
    longer->pointer = block->pointer;
    longer->bytes = block->bytes + added;
    longer->requested = requested;
    longer->point = block->point;
    longer->timeline_number = block->timeline_number;
    longer->align_log2 = block->align_log2;
    longer->state = FERRYI_BLOCK_LIVE;
    longer->site = block->site;
    atomic_store_explicit(&longer->label, atomic_load_explicit(&block->label, memory_order_relaxed),
                          memory_order_relaxed);
    longer->slab = block->slab;
    longer->before = block->before;
    longer->after = extra ? extra->after : block->after;
    *(longer->before ? &longer->before->after : &longer->slab->first) = longer;
    if (longer->after)
        longer->after->before = longer;
    if (extra)
        block_retire(pool, extra);
    longer->slab->live_bytes += added;
    pool->cached_bytes -= added;
    old->live_blocks--;
    old->live_bytes -= block->bytes;
    old->requested_bytes -= block->requested;
    new->live_blocks++;
    new->live_bytes += longer->bytes;
    new->requested_bytes += requested;
    note_peak(pool, added);
    return longer;
}

void
ferryi_block_retire(ferry_block *block)
{
    ferry_pool *pool = block->pool;
    ferryi_mutex_lock(&pool->mutex);
    block_retire(pool, block);
    ferryi_mutex_unlock(&pool->mutex);
}

/* Inserts a slab into the list of empty slabs, which is ordered by the time at which a block of the
 * slab was last released. Searches for the position from the end of the list. Gives up after
 * LOOK_BACK slabs, so the order is not always exact. */
FERRYI_POOL_LOCKED static void
append_empty(ferry_pool *pool, struct ferryi_slab *slab)
{
    struct ferryi_link *after = pool->empties.prev;
    for (unsigned i = 0; i < LOOK_BACK && after != &pool->empties &&
                         FERRYI_SLAB_OF(after, in_empty)->idle_since > slab->idle_since;
         i++)
        after = after->prev;
    ferryi_link_append(after->next, &slab->in_empty);
}

void
ferryi_block_put(ferry_pool *pool, ferry_block *block, ferryi_sync_point point, uint64_t since)
{
    struct ferryi_slab *slab = block->slab;

    assert(block->state == FERRYI_BLOCK_MOVING);
    block->point = ferryi_sync_point_is_done(pool->config.order, point) ? 0 : point;
    block->list = FERRYI_POOL_NO_LIST;
    block->idle_since = since;
    slab->idle_since = since > slab->idle_since ? since : slab->idle_since;
    slab->live_bytes -= block->bytes;
    if (--slab->live == 0 && slab != pool->range)
        append_empty(pool, slab);
    pool->cached_bytes += block->bytes;
    if (block->point == 0)
        ferryi_block_merge(pool, block);
    else
        ferryi_bin_add(pool, block);
}

/* -- slabs ------------------------------------------------------------------------------------- */

struct ferryi_slab *
ferryi_slab_new(ferry_pool *pool, size_t bytes, size_t block_bytes)
{
    struct ferryi_slab *slab = calloc(1, sizeof(*slab));
    if (!slab || !ferryi_pool_lock_stocked(pool)) {
        free(slab);
        return NULL;
    }
    ferryi_link_init(&slab->in_pool);
    ferryi_link_init(&slab->in_empty);
    slab->bytes = bytes;
    slab->large = block_bytes > FERRYI_POOL_SLAB_BLOCK;
    slab->first = block_new(pool);
    slab->first->bytes = bytes;
    slab->first->slab = slab;
    if (block_bytes < bytes)
        ferryi_block_cut(pool, slab->first, block_bytes);
    ferryi_mutex_unlock(&pool->mutex);
    return slab;
}

void
ferryi_slab_drop(ferry_pool *pool, struct ferryi_slab *slab)
{
    for (ferry_block *next, *block = slab->first; block; block = next) {
        next = block->after;
        block_retire(pool, block);
    }
    free(slab);
}

ferry_status
ferryi_slab_free_memory(const ferry_pool *pool, struct ferryi_slab *slab)
{
    const struct ferryi_pool_backend *backend = &pool->config.backend;
    ferryi_memory_checker_remove_slab(pool, slab);
    ferry_status status = backend->free(backend->user, slab->memory, slab->bytes);
    if (status != FERRY_OK)
        ferryi_memory_checker_add_slab(pool, slab);
    return status;
}

void
ferryi_pool_count_growth(ferry_pool *pool, size_t bytes, uint64_t allocations)
{
    pool->reserved_bytes += bytes;
    pool->peak_reserved_bytes = ferryi_max_size(pool->peak_reserved_bytes, pool->reserved_bytes);
    pool->grown_bytes += bytes;
    pool->counters.device_allocations += allocations;
}

ferry_block *
ferryi_slab_adopt(ferry_pool *pool, struct ferryi_slab *slab, void *memory)
{
    ferry_block *block = slab->first, *rest = block->after;

    slab->memory = block->pointer = memory;
    ferryi_link_append(&pool->slabs, &slab->in_pool);
    pool->cached_bytes += slab->bytes;
    ferryi_block_begin_use(pool, block);
    if (rest) {
        rest->pointer = (char *)memory + block->bytes;
        ferryi_bin_add(pool, rest);
    }
    ferryi_memory_checker_add_slab(pool, slab);
    ferryi_pool_count_growth(pool, slab->bytes, 1);
    return block;
}

void
ferryi_slab_attach(ferry_pool *pool, struct ferryi_slab *slab)
{
    slab->idle_since = ferryi_now_ns();
    /* When a compaction ends, it clears the mark `draining` of all slabs in the pool's list. It
     * missed this slab if the slab was detached at that time. So the mark is cleared here. */
    atomic_store(&slab->draining, false);
    ferryi_link_append(&pool->slabs, &slab->in_pool);
    ferryi_link_append(&pool->empties, &slab->in_empty);
    pool->cached_bytes += slab->bytes;
    ferryi_bin_add(pool, slab->first);
}

void
ferryi_slab_detach(ferry_pool *pool, struct ferryi_slab *slab)
{
    assert(slab->live == 0 && slab->first);
    for (ferry_block *next, *block = slab->first; block; block = next) {
        next = block->after;
        ferryi_bin_remove(pool, block);
        ferryi_memory_checker_forbid(block, 0);
        if (block != slab->first)
            block_retire(pool, block);
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
ferryi_slab_set_draining(ferry_pool *pool, struct ferryi_slab *slab, bool draining)
{
    for (ferry_block *block = slab->first; block; block = block->after)
        if (block->state == FERRYI_BLOCK_IDLE)
            ferryi_bin_remove(pool, block);
    atomic_store(&slab->draining, draining);
    for (ferry_block *block = slab->first; block; block = block->after)
        if (block->state == FERRYI_BLOCK_IDLE)
            ferryi_bin_add(pool, block);
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
ferryi_block_is_draining(const ferry_block *block)
{
    return atomic_load(&block->slab->draining);
}
