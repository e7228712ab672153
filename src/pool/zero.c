/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "src/pool/magazine.h"

/* This file sets blocks to zero before their memory can be used by anyone else: the blocks of a
 * pool with the option zero_on_release, and those of buffers with that option. */

ferry_status
ferryi_zero_block(ferry_block *block, ferryi_sync_point *point)
{
    ferry_pool *pool = block->pool;
    const struct ferryi_pool_config *config = &pool->config;
    void *memory = ferry_block_pointer(block);
    size_t bytes = ferry_block_bytes(block);
    if (!memory)
        return FERRY_OK;
    if (ferryi_block_leaves_out(pool, block, *point))
        *point = ferryi_sync_points_join(config->order, *point,
                                         UINT64_C(1) << ferryi_sync_point_number(block->point));
    /* `*point` covers the use of the previous owner too. If the block stays live after a failure,
     * a later attempt must wait for the same uses. */
    block->point = *point;
    atomic_store(&pool->has_zeroed, true);
    ferry_status status = FERRY_OK;
    if (config->zero)
        status = config->zero(config, memory, bytes, point);
    else
        memset(memory, 0, bytes);
    if (status == FERRY_OK || status == FERRY_ERROR_DEVICE_LOST) {
        block->point = 0;
        return FERRY_OK;
    }
    return ferryi_fail_in(status, "set %zu bytes of %s to zero before they are freed", bytes,
                          pool->name);
}

/* Sets a block to zero that was not released, and waits until that is done. */
static void
zero_leaked(ferry_pool *pool, ferry_block *block)
{
    ferryi_sync_point point = block->point;
    ferry_status status = ferryi_zero_block(block, &point);
    if (status == FERRY_OK && point != 0)
        status = ferryi_sync_point_wait(pool->config.order, NULL, point);
    if (status != FERRY_OK && status != FERRY_ERROR_DEVICE_LOST)
        ferryi_log(pool->config.log, FERRY_LOG_ERROR, "%s", ferry_last_error());
}

void
ferryi_zero_rest(ferry_pool *pool)
{
    ferryi_mutex_is_needless(&pool->mutex);
    FERRYI_EACH_SLAB (pool, slab)
        for (ferry_block *block = slab->first; block && atomic_load(&pool->zeroes);
             block = block->after)
            if (block->state == FERRYI_BLOCK_LIVE)
                zero_leaked(pool, block);
    if (!atomic_load(&pool->has_zeroed))
        return;
    ferryi_pool_finish(pool);
    FERRYI_EACH_SLAB (pool, slab)
        for (ferry_block *block = slab->first; block; block = block->after)
            if (block->state == FERRYI_BLOCK_IDLE && pool->config.kind != FERRY_MEMORY_DEVICE &&
                pool->config.kind != FERRY_MEMORY_MANAGED &&
                !ferryi_sync_point_is_done(pool->config.order, block->point))
                memset(block->pointer, 0, block->bytes);
}
