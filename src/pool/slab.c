/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "src/pool/slab.h"

#define ARENA_BLOCKS 62 /* together they occupy 8 KiB */
/* Maximum number of unusable blocks that a search of a list examines before it gives up. */
#define LOOK 8
/* Maximum number of steps back from the end of the list of empty slabs, to insert a slab by time.
 */
#define LOOK_BACK 64

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

bool
ferryi_pool_lock_stocked(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    while (!pool->spares || !pool->spares->after) { /* one take may need two */
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
    *block = (ferry_block){.pool = pool, .list = FERRYI_POOL_NO_LIST, .state = FERRYI_BLOCK_MOVING};
#ifdef FERRYI_RED_ZONES
    block->magic = FERRYI_BLOCK_MAGIC;
#endif
    return block;
}

/* -- bins -------------------------------------------------------------------------------------- */

/* Returns the index of the largest size class whose blocks fit into `bytes` bytes. */
static size_t
bin_of(size_t bytes)
{
    size_t above = ferryi_pool_class_of(bytes);
    return ferryi_pool_bytes_of_class((uint32_t)above) == bytes ? above : above - 1;
}

void
ferryi_piece_list(ferry_pool *pool, ferry_block *piece)
{
    size_t bin = bin_of(piece->bytes);
    assert(bin < FERRYI_POOL_PIECE_BINS);
    piece->state = FERRYI_BLOCK_FREE;
    ferryi_link_init(&piece->in_idle);
    if (atomic_load(&piece->slab->draining))
        return;
    ferryi_link_append(&pool->pieces[bin], &piece->in_idle);
    pool->filled[bin / 64] |= UINT64_C(1) << bin % 64;
}

void
ferryi_piece_remove(ferry_pool *pool, ferry_block *piece)
{
    assert(piece->state == FERRYI_BLOCK_FREE);
    size_t bin = bin_of(piece->bytes);
    ferryi_link_remove(&piece->in_idle);
    if (ferryi_link_is_alone(&pool->pieces[bin]))
        pool->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

/* Returns the lowest non-empty bin of free blocks whose index is at least `bin`. Returns
 * FERRYI_POOL_PIECE_BINS if there is none. */
FERRYI_POOL_LOCKED static size_t
filled_from(const ferry_pool *pool, size_t bin)
{
    static_assert(sizeof(pool->filled) == 16, "two words");
    if (bin >= FERRYI_POOL_PIECE_BINS)
        return FERRYI_POOL_PIECE_BINS;
    uint64_t word = pool->filled[bin / 64] & UINT64_MAX << bin % 64;
    size_t base = bin / 64 * 64;
    if (word == 0 && base == 0) {
        word = pool->filled[1];
        base = 64;
    }
    return word ? base + (size_t)__builtin_ctzll(word) : FERRYI_POOL_PIECE_BINS;
}

/* Returns a free block that has room for `need` bytes at an aligned address, or NULL. First tries a
 * few blocks of the lowest suitable bin, which is a list of free blocks of similar size. If none of
 * them has room at an aligned address, returns a larger block. This block has room for any gap that
 * the alignment can cause. */
FERRYI_POOL_LOCKED static ferry_block *
find_piece(const ferry_pool *pool, size_t need, size_t align)
{
    size_t bin = filled_from(pool, ferryi_pool_class_of(need));
    if (bin == FERRYI_POOL_PIECE_BINS)
        return NULL;
    const struct ferryi_link *link = pool->pieces[bin].prev;
    for (unsigned i = 0; i < LOOK && link != &pool->pieces[bin]; i++, link = link->prev) {
        ferry_block *piece = FERRYI_BLOCK_OF(link);
        if (piece->bytes >= need + ferryi_block_gap(piece, align))
            return piece;
    }
    bin = filled_from(pool, ferryi_pool_class_of(need + align - FERRYI_POOL_ALIGN));
    return bin == FERRYI_POOL_PIECE_BINS ? NULL : FERRYI_BLOCK_OF(pool->pieces[bin].prev);
}

/* Makes a block idle and adds it to the idle list of its size class. The block must not be in a
 * list. */
FERRYI_POOL_LOCKED static void
block_list(ferry_pool *pool, ferry_block *block)
{
    bool exact = block->bytes > FERRYI_POOL_LARGEST;
    size_t list = exact ? FERRYI_POOL_CLASSES : ferryi_pool_class_of(block->bytes);
    block->state = FERRYI_BLOCK_IDLE;
    struct ferryi_link *idle = &pool->classes[list].idle;
    ferryi_link_append(block->point == 0 ? idle : idle->next, &block->in_idle);
}

/* -- neighbours -------------------------------------------------------------------------------- */

/*
 * Splits a block that is not in a list. The block keeps its first `bytes` bytes.
 * @return a new block with the remaining bytes, which is not in a list either
 */
FERRYI_POOL_LOCKED static ferry_block *
cut(ferry_pool *pool, ferry_block *block, size_t bytes)
{
    ferry_block *rest = block_new(pool);
    /* A new slab is split into blocks before its memory is allocated, so these blocks have no
     * pointer yet. */
    rest->pointer = block->pointer ? (char *)block->pointer + bytes : NULL;
    rest->bytes = block->bytes - bytes;
    rest->slab = block->slab;
    rest->before = block;
    rest->after = block->after;
    if (rest->after)
        rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    return rest;
}

/* Merges `block` with `after`, the next block of its slab. `after` must not be in a list. */
FERRYI_POOL_LOCKED static void
join(ferry_pool *pool, ferry_block *block, ferry_block *after)
{
    block->bytes += after->bytes;
    block->after = after->after;
    if (block->after)
        block->after->before = block;
    block_retire(pool, after);
}

/* Makes a block free and merges it with neighbours that are free. The block must not be in a list.
 */
FERRYI_POOL_LOCKED static void
piece_free(ferry_pool *pool, ferry_block *block)
{
    ferry_block *before = block->before, *after = block->after;
    block->point = 0;
    ferryi_red_zone_join(&block->zone, block->pointer);
    if (after && after->state == FERRYI_BLOCK_FREE) {
        ferryi_piece_remove(pool, after);
        join(pool, block, after);
    }
    if (before && before->state == FERRYI_BLOCK_FREE) {
        ferryi_piece_remove(pool, before);
        join(pool, before, block);
        block = before;
    }
    ferryi_piece_list(pool, block);
}

/* Changes the state of an idle or free block to MOVING, and counts the block as live in its slab.
 * The caller must have removed the block from its list. */
FERRYI_POOL_LOCKED static void
block_begin_use(ferry_pool *pool, ferry_block *block)
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

/* Cuts a block with the given size and alignment from a free block. Returns NULL if no free block
 * is large enough. The caller must change the state of the returned block to LIVE. */
FERRYI_POOL_LOCKED static ferry_block *
piece_carve(ferry_pool *pool, size_t need, size_t align)
{
    ferry_block *block = find_piece(pool, need, align);
    if (!block)
        return NULL;
    ferryi_piece_remove(pool, block);
    size_t gap = ferryi_block_gap(block, align);
    if (gap > 0) {
        ferry_block *piece = block;
        block = cut(pool, piece, gap);
        ferryi_piece_list(pool, piece);
    }
    if (block->bytes > need)
        ferryi_piece_list(pool, cut(pool, block, need));
    block_begin_use(pool, block);
    return block;
}

void
ferryi_pool_merge(ferry_pool *pool)
{
    for (size_t i = 0; i < FERRYI_POOL_SMALL_CLASSES; i++) {
        struct ferryi_link *next, *idle = &pool->classes[i].idle;
        for (struct ferryi_link *link = idle->next; link != idle; link = next) {
            ferry_block *block = FERRYI_BLOCK_OF(link);
            next = link->next;
            if (!ferryi_sync_point_is_done(pool->config.order, block->point))
                continue;
            ferryi_link_remove(link);
            piece_free(pool, block);
        }
    }
}

/* -- idle blocks ------------------------------------------------------------------------------- */

/* Returns whether the block has a suitable size for the request. A request above the largest size
 * class accepts a block that is up to 1/8 too large. With `any_fit`, so does a request that belongs
 * to one of the larger size classes. */
static bool
fits(const ferry_block *block, const struct ferryi_pool_request *request)
{
    bool any = request->list == FERRYI_POOL_CLASSES ||
               (request->any_fit && request->list >= FERRYI_POOL_SMALL_CLASSES);
    return block->bytes == request->need || (any && block->bytes >= request->least &&
                                             block->bytes - request->least <= request->least / 8);
}

/* Searches the idle list of one size class, from its end or from its beginning. Returns a block
 * that the request can use at once. With `waits`, the block may also be one whose last use the
 * request's stream must wait for. Among blocks without a size class, returns the smallest usable
 * one. Without `any_fit`, the search gives up after LOOK unusable blocks of the right size. */
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
 * tried first, starting with the newest. Then the oldest pending blocks are tried, because their
 * work is most likely done. The newest pending blocks are tried last, because they are most likely
 * on the request's stream. */
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
        block = piece_carve(pool, request->need,
                            ferryi_pool_natural_align(request->need, pool->config.backend.align));
        if (block)
            return block;
    }
    if (!block && request->timeline)
        block = search(pool, request->list, true, true, request);
    if (block) {
        ferryi_link_remove(&block->in_idle);
        block_begin_use(pool, block);
    }
    return block;
}

/* -- states of blocks -------------------------------------------------------------------------- */

/* Returns the statistics of the size class to which a block of the requested size belongs. The red
 * zone is added to the size, because magazines count by the size of the whole block. */
static ferry_pool_class_stats *
counts_of(ferry_pool *pool, size_t requested)
{
    return &pool->counters.bins[ferryi_pool_bin_of(requested + ferryi_pool_zone_bytes(pool))];
}

void
ferryi_block_commit(ferry_pool *pool, ferry_block *block, const struct ferryi_pool_request *request,
                    bool hit)
{
    ferry_pool_class_stats *bin = counts_of(pool, request->bytes);

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

    bin->allocations++;
    bin->hits += hit;
    bin->live_blocks++;
    bin->live_bytes += block->bytes;
    bin->requested_bytes += block->requested;
}

void
ferryi_block_uncommit(ferry_pool *pool, ferry_block *block)
{
    ferry_pool_class_stats *bin = counts_of(pool, block->requested);

    assert(block->state == FERRYI_BLOCK_LIVE);
    block->state = FERRYI_BLOCK_MOVING;
    atomic_store_explicit(&block->label, NULL, memory_order_relaxed);
    bin->live_blocks--;
    bin->live_bytes -= block->bytes;
    bin->requested_bytes -= block->requested;
    pool->counters.frees++;
    block->align_log2 = 0;
}

/* Adds a slab to the list of empty slabs, which is ordered by time as far as LOOK_BACK steps go. */
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
    slab->idle_since = since > slab->idle_since ? since : slab->idle_since;
    slab->live_bytes -= block->bytes;
    if (--slab->live == 0)
        append_empty(pool, slab);
    pool->cached_bytes += block->bytes;
    block_list(pool, block);
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
        cut(pool, slab->first, block_bytes);
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
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_pool_mutex)); /* the slab is in no list */
    for (ferry_block *block = slab->first; block; block = block->after)
        ferryi_red_zone_join(&block->zone, block->pointer);
    ferryi_red_zone_goes(slab->memory, slab->bytes, ferryi_pool_is_on_host(pool), slab->heap);
    ferry_status status = backend->free(backend->user, slab->memory, slab->bytes);
    if (status != FERRY_OK)
        ferryi_red_zone_came(slab->memory, slab->bytes, ferryi_pool_is_on_host(pool), &slab->heap);
    return status;
}

ferry_block *
ferryi_slab_adopt(ferry_pool *pool, struct ferryi_slab *slab, void *memory)
{
    ferry_block *block = slab->first, *rest = block->after;

    slab->memory = block->pointer = memory;
    ferryi_link_append(&pool->slabs, &slab->in_pool);
    pool->cached_bytes += slab->bytes;
    block_begin_use(pool, block);
    if (rest) {
        rest->pointer = (char *)memory + block->bytes;
        piece_free(pool, rest);
    }
    ferryi_red_zone_came(slab->memory, slab->bytes, ferryi_pool_is_on_host(pool), &slab->heap);
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
    /* The slab may have been detached while a compaction that marked it as draining ended. So the
     * mark is cleared here. */
    atomic_store(&slab->draining, false);
    ferryi_link_append(&pool->slabs, &slab->in_pool);
    ferryi_link_append(&pool->empties, &slab->in_empty);
    pool->cached_bytes += slab->bytes;
    if (slab->large)
        block_list(pool, slab->first);
    else
        piece_free(pool, slab->first);
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
