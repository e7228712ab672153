/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/base/callback.h"
#include "src/pool/magazine.h"

#define REPORTED 16 /* leaked blocks that are named one by one */

/* What a walk tells of, as it was at one moment. */
struct snapshot {
    struct described {
        ferry_block_info info;
        const void *site; /* NULL: not noted */
    } * blocks;
    size_t count, room;
};

static struct described
describe(const ferry_block *block)
{
    bool held = block->state == FERRYI_BLOCK_LIVE;
    struct described described = {
        .info.pointer = ferry_block_pointer(block),
        .info.bytes = block->bytes,
        .info.requested_bytes = held ? block->requested : 0,
        .info.label = held ? atomic_load_explicit(&block->label, memory_order_acquire) : NULL,
        .info.is_held = held,
    };
#ifdef FERRYI_DEBUG_CHECKS
    described.site = block->site;
#endif
    return described;
}

/* Under the mutex, with the magazines empty. Counts on when there is no room. */
FERRYI_REQUIRES(ferryi_pool_mutex)
static void
add_slab(struct snapshot *snapshot, const struct ferryi_slab *slab)
{
    for (const ferry_block *block = slab->first; block; block = block->after) {
        if (block->state != FERRYI_BLOCK_LIVE && block->state != FERRYI_BLOCK_IDLE)
            continue;
        if (snapshot->count < snapshot->room)
            snapshot->blocks[snapshot->count] = describe(block);
        snapshot->count++;
    }
}

static void
fill(ferry_pool *pool, struct snapshot *snapshot)
{
    snapshot->count = 0;
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty_locked(pool);
    for (const struct ferryi_link *link = pool->slabs.next; link != &pool->slabs; link = link->next)
        add_slab(snapshot, FERRYI_SLAB_OF(link, in_pool));
    add_slab(snapshot, &pool->nothing);
    ferryi_mutex_unlock(&pool->mutex);
}

/* The caller frees `blocks`. Memory is not asked for under the mutex: other threads may add blocks
 * meanwhile, and then it is tried again. */
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
ferry_pool_for_each_block(ferry_pool *pool, ferry_block_visit *visit, void *user)
{
    struct snapshot snapshot;
    if (!pool || !visit)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "walk over the blocks of a pool: %s is NULL", pool ? "visit" : "pool");
    ferry_status status = ferryi_pool_check_process(pool, "walk over the blocks of");
    if (status == FERRY_OK)
        status = take_snapshot(pool, &snapshot);
    if (status != FERRY_OK)
        return status;
    struct ferryi_callback running;
    ferryi_callback_enter(&running, FERRYI_CALLBACK_FREE, "visit");
    for (size_t i = 0; i < snapshot.count && visit(&snapshot.blocks[i].info, user); i++)
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
    for (const struct ferryi_link *link = pool->slabs.next; link != &pool->slabs && !holds;
         link = link->next) {
        const struct ferryi_slab *slab = FERRYI_SLAB_OF(link, in_pool);
        holds = (uintptr_t)address - (uintptr_t)slab->memory < slab->bytes;
    }
    ferryi_mutex_unlock(&pool->mutex);
    return holds;
}

static void
report_leak(const ferry_pool *pool, const struct described *block)
{
    char site[256] = "";
    if (block->site)
        ferryi_address_describe(block->site, site, sizeof(site));
    ferryi_log(
        pool->config.log, FERRY_LOG_ERROR,
        "destroy the pool of %s: block %p \"%s\" of %zu bytes, %zu requested, is still held%s%s",
        pool->name, block->info.pointer, block->info.label ? block->info.label : "",
        block->info.bytes, block->info.requested_bytes, block->site ? "; taken by " : "", site);
}

void
ferryi_pool_report_leaks(ferry_pool *pool)
{
    struct snapshot snapshot;
    if (take_snapshot(pool, &snapshot) != FERRY_OK)
        return;
    for (size_t i = 0, reported = 0; i < snapshot.count && reported < REPORTED; i++) {
        if (!snapshot.blocks[i].info.is_held)
            continue;
        reported++;
        report_leak(pool, &snapshot.blocks[i]);
    }
    free(snapshot.blocks);
}

ferry_status
ferry_block_label(ferry_block *block, const char *label)
{
    if (!block)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "label a block \"%s\": block is NULL",
                           label ? label : "");
    ferry_status status = ferryi_pool_check_process(block->pool, "label a block of");
    if (status != FERRY_OK)
        return status;
    /* Another thread that lists the blocks reads the string. */
    atomic_store_explicit(&block->label, label, memory_order_release);
    return FERRY_OK;
}
