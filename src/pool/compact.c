/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

/* number of levels of slabs; a slab's level is how many 64ths of its bytes are in live blocks */
#define LEVELS 64
#define SPARSE 57 /* a compaction does not empty slabs of this level or above */

/*
 * Compaction empties the sparsest slabs of a pool. Such a slab is marked as draining: new
 * allocations do not use its memory. The holders of its live blocks move the bytes into other
 * slabs, which have room for all of them. A draining slab that is empty at the end is returned to
 * the backend. Every other draining slab becomes a normal slab again.
 */

/* -- which slabs drain: under the mutex -------------------------------------------------------- */

FERRYI_POOL_LOCKED static void
start_draining(ferry_pool *pool, struct ferryi_slab *slab)
{
    for (ferry_block *block = slab->first; block; block = block->after) {
        if (block->state == FERRYI_BLOCK_FREE)
            ferryi_piece_remove(pool, block);
        /* Without a list, a released block enters no magazine. Its release takes the slow path,
         * which checks whether the slab is draining. */
        block->list = FERRYI_POOL_NO_LIST;
    }
    atomic_store(&slab->draining, true);
}

FERRYI_POOL_LOCKED static void
stop_draining(ferry_pool *pool, struct ferryi_slab *slab)
{
    atomic_store(&slab->draining, false);
    for (ferry_block *block = slab->first; block; block = block->after)
        if (block->state == FERRYI_BLOCK_FREE)
            ferryi_piece_list(pool, block);
}

/* Returns the level of a slab: how many 64ths of its bytes are live, rounded down. The slab of a
 * large block has level LEVELS, so it is never emptied. */
FERRYI_POOL_LOCKED static size_t
level_of(const struct ferryi_slab *slab)
{
    return slab->large ? LEVELS : slab->live_bytes / (slab->bytes / LEVELS);
}

/* Marks the slabs that the compaction will empty (`draining`), those with the fewest live bytes
 * first. Stops when the unmarked slabs have no room for the live blocks of the next slab. Also
 * marks empty slabs, so that no block is moved into one. */
FERRYI_POOL_LOCKED static void
choose(ferry_pool *pool)
{
    /* `room`: unused bytes of the sparse slabs that stay; `moving`: live bytes of the draining
     * slabs */
    size_t room = 0, moving = 0;
    FERRYI_EACH_SLAB (pool, slab)
        if (level_of(slab) < SPARSE)
            room += slab->bytes - slab->live_bytes;
    for (size_t level = 0; level < SPARSE; level++)
        FERRYI_EACH_SLAB (pool, slab) {
            if (level_of(slab) != level)
                continue;
            room -= slab->bytes - slab->live_bytes;
            moving += slab->live_bytes;
            if (moving > room)
                return;
            start_draining(pool, slab);
        }
}

static void
begin(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty(pool);
    ferryi_pool_merge(pool);
    /* choose() writes block->list, which other threads read without the mutex; so keep them out */
    ferryi_caches_lock_out(pool);
    choose(pool);
    ferryi_caches_let_in(pool);
    ferryi_mutex_unlock(&pool->mutex);
}

static void
end(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    FERRYI_EACH_SLAB (pool, slab)
        if (atomic_load(&slab->draining))
            stop_draining(pool, slab);
    ferryi_mutex_unlock(&pool->mutex);
    atomic_store(&pool->compactor, 0);
}

/* -- compaction -------------------------------------------------------------------------------- */

/* Whether queued work still uses the memory of any slab that the compaction has emptied. */
static bool
is_under_way(ferry_pool *pool)
{
    bool found = false;
    ferryi_mutex_lock(&pool->mutex);
    FERRYI_EACH_SLAB (pool, slab)
        found |=
            atomic_load(&slab->draining) && slab->live == 0 && !ferryi_slab_is_done(pool, slab);
    ferryi_mutex_unlock(&pool->mutex);
    return found;
}

ferry_status
ferryi_pool_compact(ferry_pool *pool, uint64_t *wait_ns, ferry_pool_compaction *out)
{
    const struct ferryi_pool_holders *holders = &pool->config.holders;
    uint64_t nobody = 0;
    if (!atomic_compare_exchange_strong(&pool->compactor, &nobody, ferryi_thread_id()))
        return ferryi_fail(FERRY_ERROR_BUSY, "compact %s: it is being compacted already",
                           pool->name);
    ferryi_pool_ask_pending(pool);
    begin(pool);
    if (holders->relocate)
        out->moved_bytes = holders->relocate(holders->user, pool);
    while (is_under_way(pool) && ferryi_pool_wait_pending(pool, wait_ns))
        ;
    out->freed_bytes = ferryi_pool_give_back(pool, 0, SIZE_MAX, UINT64_MAX, &out->freed_slabs);
    end(pool);
    return FERRY_OK;
}

ferry_status
ferry_pool_compact(ferry_pool *pool, ferry_pool_compaction *out)
{
    ferry_pool_compaction compaction = {0};
    ferry_status status = ferryi_pool_check_call(pool, "compact", true, NULL);
    if (status == FERRY_OK) {
        uint64_t wait_ns = pool->wait_ns;
        status = ferryi_pool_compact(pool, &wait_ns, &compaction);
    }
    if (status == FERRY_OK && out)
        *out = compaction;
    return status;
}
