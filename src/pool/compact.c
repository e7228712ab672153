/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/pool/magazine.h"

/*
 * Compaction empties the sparsest slabs. Such a slab is marked as leaving: its free pieces are in
 * no bin, so takes do not use them, and released blocks stay unused. The holders of its blocks move
 * the bytes into other slabs, which have room for all of them. Slabs that are empty then are
 * returned to the backend; the others become normal slabs again.
 */

/* -- which slabs leave: under the mutex -------------------------------------------------------- */

FERRYI_POOL_LOCKED static int
sparser_first(const void *a, const void *b)
{
    const struct ferryi_slab *const *x = a, *const *y = b;
    return ((*x)->live_bytes > (*y)->live_bytes) - ((*x)->live_bytes < (*y)->live_bytes);
}

FERRYI_POOL_LOCKED static void
leave(ferry_pool *pool, struct ferryi_slab *slab)
{
    for (ferry_block *block = slab->first; block; block = block->after) {
        if (block->state == FERRYI_BLOCK_FREE)
            ferryi_piece_remove(pool, block);
        block->list = FERRYI_POOL_NO_LIST; /* held blocks are released on the slow path, which
                                              checks whether the slab is leaving */
    }
    atomic_store(&slab->leaving, true);
}

FERRYI_POOL_LOCKED static void
stay(ferry_pool *pool, struct ferryi_slab *slab)
{
    atomic_store(&slab->leaving, false);
    for (ferry_block *block = slab->first; block; block = block->after)
        if (block->state == FERRYI_BLOCK_FREE)
            ferryi_piece_list(pool, block);
}

/* Marks slabs as leaving, the sparsest first, as long as the other slabs have room for their
 * blocks. Empty slabs leave too, so that no blocks are moved into them. */
FERRYI_POOL_LOCKED static void
choose(ferry_pool *pool, struct ferryi_slab **slabs, size_t count)
{
    size_t room = 0, leaving = 0;
    if (slabs)
        qsort(slabs, count, sizeof(slabs[0]), sparser_first);
    for (size_t i = 0; i < count; i++)
        room += slabs[i]->bytes - slabs[i]->live_bytes;
    for (size_t i = 0; i < count; i++) {
        room -= slabs[i]->bytes - slabs[i]->live_bytes;
        leaving += slabs[i]->live_bytes;
        if (leaving > room)
            break;
        leave(pool, slabs[i]);
    }
}

FERRYI_POOL_LOCKED static size_t
list_candidates(const ferry_pool *pool, struct ferryi_slab **slabs, size_t room)
{
    size_t count = 0;
    for (const struct ferryi_link *link = pool->slabs.next; link != &pool->slabs;
         link = link->next) {
        struct ferryi_slab *slab = FERRYI_SLAB_OF(link, in_pool);
        bool sparse = slab->live_bytes <= slab->bytes - slab->bytes / 8;
        if (!slab->large && sparse && count++ < room)
            slabs[count - 1] = slab;
    }
    return count;
}

/* Returns false when there is no host memory. If other threads add slabs while the array is
 * allocated, the loop repeats. */
static bool
begin(ferry_pool *pool)
{
    struct ferryi_slab **slabs = NULL;
    size_t count, room = 0;
    for (;;) {
        ferryi_mutex_lock(&pool->mutex);
        ferryi_magazines_empty(pool);
        ferryi_pool_merge(pool);
        count = list_candidates(pool, slabs, room);
        if (count <= room)
            break;
        ferryi_mutex_unlock(&pool->mutex);
        free(slabs);
        room = count + count / 8;
        slabs = calloc(room, sizeof(slabs[0]));
        if (!slabs)
            return false;
    }
    ferryi_caches_lock_out(pool); /* threads read block->list without the mutex */
    choose(pool, slabs, count);
    ferryi_caches_let_in(pool);
    ferryi_mutex_unlock(&pool->mutex);
    free(slabs);
    return true;
}

static void
end(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    for (struct ferryi_link *link = pool->slabs.next; link != &pool->slabs; link = link->next) {
        struct ferryi_slab *slab = FERRYI_SLAB_OF(link, in_pool);
        if (atomic_load(&slab->leaving))
            stay(pool, slab);
    }
    ferryi_mutex_unlock(&pool->mutex);
    atomic_store(&pool->compactor, 0);
}

/* -- compaction -------------------------------------------------------------------------------- */

/* Whether a leaving slab has no live blocks, but queued work still uses it. */
static bool
is_under_way(ferry_pool *pool)
{
    bool found = false;
    ferryi_mutex_lock(&pool->mutex);
    for (struct ferryi_link *link = pool->slabs.next; !found && link != &pool->slabs;
         link = link->next) {
        const struct ferryi_slab *slab = FERRYI_SLAB_OF(link, in_pool);
        found = atomic_load(&slab->leaving) && slab->live == 0 && !ferryi_slab_is_done(pool, slab);
    }
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
    if (!begin(pool)) {
        atomic_store(&pool->compactor, 0);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "compact %s: no host memory", pool->name);
    }
    if (holders->relocate)
        out->moved_bytes = holders->relocate(holders->user, pool);
    while (is_under_way(pool) && ferryi_pool_wait_pending(pool, wait_ns))
        ;
    out->freed_bytes = ferryi_pool_give_back_leaving(pool, &out->freed_slabs);
    end(pool);
    return FERRY_OK;
}

bool
ferryi_pool_is_compactor(const ferry_pool *pool)
{
    uint64_t compactor = atomic_load_explicit(&pool->compactor, memory_order_relaxed);
    return compactor != 0 && compactor == ferryi_thread_id();
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
