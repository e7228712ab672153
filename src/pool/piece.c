/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "src/pool/red_zone.h"

#define STOCK                                                                                      \
    2 /* descriptors: of a new slab's block and the rest, or of a piece before and one after a     \
         block */
#define ARENA_BLOCKS 62 /* in 8 KiB */
#define LOOK         8  /* pieces of a bin that are tried for an alignment */

/* -- descriptors ------------------------------------------------------------------------------- */

struct ferryi_arena {
    struct ferryi_arena *next;
    ferry_block blocks[ARENA_BLOCKS];
};

FERRYI_REQUIRES(ferryi_pool_mutex)
static void
arena_add(ferry_pool *pool, struct ferryi_arena *arena)
{
    arena->next = pool->arenas;
    pool->arenas = arena;
    for (size_t i = 0; i < ARENA_BLOCKS; i++) {
        arena->blocks[i].pool = pool;
        ferryi_block_retire(pool, &arena->blocks[i]);
    }
}

bool
ferryi_pool_lock_stocked(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    while (pool->spare_count < STOCK) {
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

ferry_block *
ferryi_block_new(ferry_pool *pool)
{
    assert(pool->spare_count > 0);
    ferry_block *block = pool->spares;
    pool->spares = block->after;
    pool->spare_count--;
    *block = (ferry_block){.pool = pool, .list = FERRYI_POOL_NO_LIST, .state = FERRYI_BLOCK_MOVING};
#ifdef FERRYI_POOL_GUARDED
    block->magic = FERRYI_BLOCK_MAGIC;
#endif
    return block;
}

void
ferryi_block_retire(ferry_pool *pool, ferry_block *block)
{
    block->state = FERRYI_BLOCK_VOID;
    block->list = FERRYI_POOL_NO_LIST;
    block->after = pool->spares;
    pool->spares = block;
    pool->spare_count++;
}

/* -- bins -------------------------------------------------------------------------------------- */

/* Of the largest class that the bytes hold. */
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
    if (atomic_load(&piece->slab->leaving))
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

/* The first bin with pieces, from `bin` on; FERRYI_POOL_PIECE_BINS: none. */
FERRYI_REQUIRES(ferryi_pool_mutex)
static size_t
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

/* The newest pieces of the best bin may be aligned well; those of a bin for `need` and any gap are
 * large enough however they lie. */
FERRYI_REQUIRES(ferryi_pool_mutex)
static ferry_block *
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

/* -- neighbours -------------------------------------------------------------------------------- */

ferry_block *
ferryi_piece_cut(ferry_pool *pool, ferry_block *block, size_t bytes)
{
    ferry_block *rest = ferryi_block_new(pool);
    /* A slab's pieces are cut before its memory is there. */
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

/* The block takes in the one after it, which is in no list. */
FERRYI_REQUIRES(ferryi_pool_mutex)
static void
join(ferry_pool *pool, ferry_block *block, ferry_block *after)
{
    block->bytes += after->bytes;
    block->after = after->after;
    if (block->after)
        block->after->before = block;
    ferryi_block_retire(pool, after);
}

void
ferryi_piece_free(ferry_pool *pool, ferry_block *block)
{
    ferry_block *before = block->before, *after = block->after;
    block->point = 0;
    ferryi_red_zone_join(pool, block);
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

ferry_block *
ferryi_piece_carve(ferry_pool *pool, size_t need, size_t align)
{
    ferry_block *block = find_piece(pool, need, align);
    if (!block)
        return NULL;
    ferryi_piece_remove(pool, block);
    size_t gap = ferryi_block_gap(block, align);
    if (gap > 0) {
        ferry_block *piece = block;
        block = ferryi_piece_cut(pool, piece, gap);
        ferryi_piece_list(pool, piece);
    }
    if (block->bytes > need)
        ferryi_piece_list(pool, ferryi_piece_cut(pool, block, need));
    block->state = FERRYI_BLOCK_MOVING;
    ferryi_slab_begin_use(block->slab, block);
    pool->cached_bytes -= block->bytes;
    return block;
}

bool
ferryi_pool_merge(ferry_pool *pool)
{
    bool merged = false;
    for (size_t i = 0; i < FERRYI_POOL_SMALL_CLASSES; i++) {
        struct ferryi_pool_class *class = &pool->classes[i];
        ferryi_class_promote(pool, class);
        for (; !ferryi_link_is_alone(&class->ready); merged = true) {
            ferry_block *block = FERRYI_BLOCK_OF(class->ready.next);
            ferryi_link_remove(&block->in_idle);
            ferryi_piece_free(pool, block);
        }
    }
    return merged;
}
