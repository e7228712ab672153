/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

/* Number of levels into which slabs are sorted. The level of a slab is the number of 64ths of the
 * slab that live blocks occupy. */
#define LEVELS 64
#define SPARSE 57 /* a compaction does not empty slabs whose level is SPARSE or more */

/*
 * Compaction empties the slabs of a pool with the fewest live bytes. Such a slab is marked as
 * draining, so new allocations do not use its memory. The owners of its live blocks move the bytes
 * to new blocks in other slabs, which have room for all of them. At the end, a draining slab that
 * is empty is returned to the backend. Every other draining slab becomes a normal slab again.
 */

/* -- marking the slabs that drain -------------------------------------------------------------- */

FERRYI_POOL_LOCKED static void
start_draining(ferry_pool *pool, struct ferryi_slab *slab)
{
    /* A block with FERRYI_POOL_NO_LIST enters no magazine when it is released. Its release takes
     * the slow path, which makes the block idle. */
    for (ferry_block *block = slab->first; block; block = block->after)
        block->list = FERRYI_POOL_NO_LIST;
    ferryi_slab_set_draining(pool, slab, true);
}

/* Returns the level of a slab: the number of 64ths of the slab that live blocks occupy, rounded
 * down. The slab of a large block has the highest level, LEVELS, so a compaction never empties the
 * slab, and so has a range. */
FERRYI_POOL_LOCKED static size_t
level_of(const ferry_pool *pool, const struct ferryi_slab *slab)
{
    return slab->large || slab == pool->range ? LEVELS : slab->live_bytes / (slab->bytes / LEVELS);
}

/* Marks the slabs that the compaction will empty as draining, starting with those that have the
 * fewest live bytes. Stops before a slab whose live blocks would not fit into the unmarked slabs.
 * Empty slabs are marked too, so that no block is moved into one of them. */
FERRYI_POOL_LOCKED static void
choose(ferry_pool *pool)
{
    /* `room` is the number of unused bytes in sparse slabs that are not marked as draining.
     * `moving` is the number of live bytes in the draining slabs. */
    size_t room = 0, moving = 0;
    FERRYI_EACH_SLAB (pool, slab)
        if (level_of(pool, slab) < SPARSE)
            room += slab->bytes - slab->live_bytes;
    for (size_t level = 0; level < SPARSE; level++)
        FERRYI_EACH_SLAB (pool, slab) {
            if (level_of(pool, slab) != level)
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
    /* choose() writes block->list, which other threads read without the mutex. So all threads are
     * locked out of their caches meanwhile. */
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
            ferryi_slab_set_draining(pool, slab, false);
    ferryi_mutex_unlock(&pool->mutex);
    atomic_store(&pool->compactor, 0);
}

/* -- compaction -------------------------------------------------------------------------------- */

/* Returns whether queued work still uses the memory of a slab that the compaction has emptied,
 * which is a draining slab without live blocks. */
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
    uint64_t none = 0;
    if (!atomic_compare_exchange_strong(&pool->compactor, &none, ferryi_thread_id()))
        return ferryi_fail(FERRY_ERROR_BUSY, "compact %s: it is being compacted already",
                           pool->name);
    ferryi_pool_ask_pending(pool);
    begin(pool);
    if (holders->relocate)
        out->moved_bytes = holders->relocate(holders->user, pool);
    while (is_under_way(pool) && ferryi_pool_wait_pending(pool, wait_ns))
        ;
    if (ferryi_pool_begin_frees(pool)) {
        out->freed_bytes = ferryi_pool_give_back(pool, 0, SIZE_MAX, UINT64_MAX, &out->freed_slabs);
        ferryi_pool_end_frees(pool);
    }
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
