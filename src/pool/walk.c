/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/pool/magazine.h"

#define REPORTED 16 /* leaked blocks that are named one by one */

/* What a walk tells of, as it was at one moment. */
struct snapshot {
    ferry_block_info *blocks;
    size_t count, room;
};

static ferry_block_info
describe(const ferry_block *block)
{
    bool held = block->state == FERRYI_BLOCK_LIVE;
    return (ferry_block_info){
        .pointer = block->pointer,
        .bytes = block->bytes,
        .requested_bytes = held ? block->requested : 0,
        .label = held ? block->label : NULL,
        .is_held = held,
    };
}

/* Under the mutex, with the magazines empty. Counts on when there is no room. */
static void
add_slab(struct snapshot *snapshot, const struct ferryi_slab *slab)
{
    for (uint32_t i = 0; i < slab->carved; i++, snapshot->count++)
        if (snapshot->count < snapshot->room)
            snapshot->blocks[snapshot->count] = describe(&slab->blocks[i]);
}

static void
fill(ferry_pool *pool, struct snapshot *snapshot)
{
    snapshot->count = 0;
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty_locked(pool);
    for (const struct ferryi_link *link = pool->slabs.next; link != &pool->slabs; link = link->next)
        add_slab(snapshot, FERRYI_SLAB_OF(link, in_pool));
    ferryi_mutex_unlock(&pool->mutex);
}

/* The caller frees `blocks`. Memory is not asked for under the mutex: other threads may add blocks meanwhile, and then it is tried again. */
static ferry_status
take_snapshot(ferry_pool *pool, struct snapshot *out)
{
    *out = (struct snapshot){0};
    for (fill(pool, out); out->count > out->room; fill(pool, out)) {
        free(out->blocks);
        out->room = out->count + out->count / 8;
        out->blocks = calloc(out->room, sizeof(*out->blocks));
        if (!out->blocks)
            return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "walk over the %zu blocks of %s: no host memory", out->count, pool->name);
    }
    return FERRY_OK;
}

ferry_status
ferry_pool_walk(ferry_pool *pool, ferry_block_visit *visit, void *user)
{
    struct snapshot snapshot;
    if (!pool || !visit)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "walk over the blocks of a pool: %s is NULL", pool ? "visit" : "pool");
    ferry_status status = take_snapshot(pool, &snapshot);
    if (status != FERRY_OK)
        return status;
    for (size_t i = 0; i < snapshot.count && visit(&snapshot.blocks[i], user); i++)
        ;
    free(snapshot.blocks);
    return FERRY_OK;
}

void
ferryi_pool_report_leaks(ferry_pool *pool)
{
    struct snapshot snapshot;
    if (take_snapshot(pool, &snapshot) != FERRY_OK)
        return;
    for (size_t i = 0, reported = 0; i < snapshot.count && reported < REPORTED; i++) {
        const ferry_block_info *block = &snapshot.blocks[i];
        if (!block->is_held)
            continue;
        reported++;
        ferryi_log(pool->config.log, FERRY_LOG_ERROR, "destroy the pool of %s: block %p \"%s\" of %zu bytes, %zu requested, is still held",
                   pool->name, block->pointer, block->label ? block->label : "", block->bytes, block->requested_bytes);
    }
    free(snapshot.blocks);
}

ferry_status
ferry_block_label(ferry_block *block, const char *label)
{
    if (!block)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "label a block \"%s\": block is NULL", label ? label : "");
    block->label = label;
    block->list = FERRYI_POOL_NO_LIST; /* it comes back the long way, where the label is taken off */
    return FERRY_OK;
}
