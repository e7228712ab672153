/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/base/callback.h"
#include "src/pool/magazine.h"

#define REPORTED 16 /* maximum number of leaked blocks that are reported individually */

/* Descriptions of all blocks of a pool at one point in time. */
struct snapshot {
    ferry_block_info *blocks;
    size_t count, room;
};

/* Memory without a hole: a slab, or a part of a range. */
struct run {
    void *memory;
    size_t bytes;
};

FERRYI_POOL_LOCKED static bool
begins_run(const ferry_block *block)
{
    return !block->before || block->before->state == FERRYI_BLOCK_HOLE;
}

FERRYI_POOL_LOCKED static struct run
run_from(const ferry_block *block)
{
    struct run run = {.memory = block->pointer};
    for (; block && block->state != FERRYI_BLOCK_HOLE; block = block->after)
        run.bytes += block->bytes;
    return run;
}

FERRYI_POOL_LOCKED static ferry_block_info
describe(const ferry_pool *pool, const ferry_block *block, struct run run)
{
    bool held = block->state == FERRYI_BLOCK_LIVE;
    return (ferry_block_info){
        .pointer = held ? ferry_block_pointer(block) : block->pointer,
        .bytes = block->bytes,
        .requested_bytes = held ? block->requested : 0,
        .label = held ? atomic_load_explicit(&block->label, memory_order_acquire) : NULL,
        .is_held = held,
        .is_pending = !held && !ferryi_sync_point_is_done(pool->config.order, block->point),
        .slab = run.memory,
        .slab_bytes = run.bytes,
    };
}

/* Writes a description of each block of the pool into the snapshot's array. Once the array is full,
 * further blocks are counted but not described. */
static void
fill(ferry_pool *pool, struct snapshot *snapshot)
{
    snapshot->count = 0;
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty(pool);
    FERRYI_EACH_SLAB (pool, slab) {
        struct run run = {0};
        for (const ferry_block *block = slab->first; block; block = block->after) {
            if (block->state == FERRYI_BLOCK_HOLE)
                continue;
            if (begins_run(block))
                run = run_from(block);
            if (snapshot->count < snapshot->room)
                snapshot->blocks[snapshot->count] = describe(pool, block, run);
            snapshot->count++;
        }
    }
    ferryi_mutex_unlock(&pool->mutex);
}

/* Takes a snapshot of a pool's blocks. The caller must free the array `blocks` of the snapshot. The
 * array is allocated while the pool's mutex is not held, so other threads may add blocks meanwhile.
 * If the array is too small as a result, the function enlarges the array and repeats. */
static ferry_status
take_snapshot(ferry_pool *pool, struct snapshot *out)
{
    *out = (struct snapshot){0};
    for (fill(pool, out); out->count > out->room; fill(pool, out)) {
        free(out->blocks);
        out->room = out->count + out->count / 8;
        out->blocks = calloc(out->room, sizeof(*out->blocks));
        if (!out->blocks)
            return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                               "walk over the %zu blocks of %s: no host memory", out->count,
                               pool->name);
    }
    return FERRY_OK;
}

ferry_status
ferryi_pool_list_blocks(ferry_pool *pool, ferry_block_info **out, size_t *out_count)
{
    struct snapshot snapshot;
    FERRYI_OR_RETURN(take_snapshot(pool, &snapshot));
    *out = snapshot.blocks;
    *out_count = snapshot.count;
    return FERRY_OK;
}

ferry_status
ferry_pool_for_each_block(ferry_pool *pool, ferry_block_visit *visit, void *user)
{
    struct snapshot snapshot;
    FERRYI_OR_RETURN(ferryi_pool_check_call(pool, "walk over the blocks of", visit, "visit"));
    FERRYI_OR_RETURN(take_snapshot(pool, &snapshot));
    struct ferryi_callback running;
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WORKING, "visit");
    running.lent = pool;
    running.context = pool->config.context;
    for (size_t i = 0; i < snapshot.count && visit(&snapshot.blocks[i], user); i++)
        ;
    ferryi_callback_leave(&running);
    free(snapshot.blocks);
    return FERRY_OK;
}

bool
ferryi_pool_holds(ferry_pool *pool, const void *address)
{
    bool holds = false;
    ferryi_mutex_lock(&pool->mutex);
    FERRYI_EACH_SLAB (pool, slab)
        holds |= (uintptr_t)address - (uintptr_t)slab->memory < slab->bytes;
    ferryi_mutex_unlock(&pool->mutex);
    return holds;
}

static void
report_leak(const ferry_pool *pool, const ferry_block *block)
{
    char site[256] = "";
    const char *label = atomic_load_explicit(&block->label, memory_order_relaxed);
    if (block->site)
        ferryi_address_describe(block->site, site, sizeof(site));
    ferryi_log(
        pool->config.log, FERRY_LOG_ERROR,
        "destroy the pool of %s: block %p \"%s\" of %zu bytes, %zu requested, is still held%s%s",
        pool->name, ferry_block_pointer(block), label ? label : "", block->bytes, block->requested,
        site[0] ? "; taken by " : "", site);
}

void
ferryi_pool_report_leaks(const ferry_pool *pool)
{
    size_t blocks = 0, bytes = 0;
    ferryi_mutex_is_needless(&pool->mutex);
    FERRYI_EACH_SLAB (pool, slab)
        for (const ferry_block *block = slab->first; block; block = block->after) {
            if (block->state != FERRYI_BLOCK_LIVE)
                continue;
            if (++blocks <= REPORTED)
                report_leak(pool, block);
            bytes += block->bytes;
        }
    if (blocks > 0)
        ferryi_log(pool->config.log, FERRY_LOG_ERROR,
                   "destroy the pool of %s: %zu blocks of %zu bytes are still held, and freed now",
                   pool->name, blocks, bytes);
}

ferry_status
ferry_block_label(ferry_block *block, const char *label)
{
    if (!block)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "label a block \"%s\": block is NULL",
                           label ? label : "");
    FERRYI_OR_RETURN(ferryi_pool_check_call(block->pool, "label a block of", true, NULL));
    /* The release order ensures that a thread that lists the blocks sees the characters of the
     * label. */
    atomic_store_explicit(&block->label, label, memory_order_release);
    return FERRY_OK;
}
