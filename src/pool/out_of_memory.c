/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "src/pool/magazine.h"

/* This file explains why an allocation failed for lack of memory: how much memory there is, which
 * option limits it, and which buffers hold it. */

#define HOLDERS_TEXT 512

/* Returns the size of the largest part of the idle memory that the request could use: adjacent
 * blocks that no queued work uses, in slabs that serve requests of this size. */
FERRYI_POOL_LOCKED static size_t
largest_usable(const ferry_pool *pool, const struct ferryi_pool_request *request)
{
    size_t longest = 0;
    bool large = request->need > FERRYI_POOL_SLAB_BLOCK;
    FERRYI_EACH_SLAB (pool, slab) {
        size_t run = 0;
        bool serves = slab == pool->range
                          ? large
                          : slab->large == large &&
                                (!large || slab->bytes - slab->bytes / 8 <= request->need);
        if (!serves || atomic_load(&slab->draining))
            continue;
        for (const ferry_block *block = slab->first; block; block = block->after) {
            bool usable = block->state == FERRYI_BLOCK_IDLE &&
                          ferryi_sync_point_is_done(pool->config.order, block->point);
            run = usable ? run + block->bytes : 0;
            longest = ferryi_max_size(longest, run);
        }
    }
    return longest;
}

bool
ferryi_out_of_memory_is_over(ferry_pool *pool, struct ferryi_pool_request *request)
{
    ferryi_mutex_lock(&pool->mutex);
    request->seen = (struct ferryi_pool_figures){.limit = pool->limit_bytes,
                                                 .reserved = pool->reserved_bytes,
                                                 .cached = pool->cached_bytes,
                                                 .largest = largest_usable(pool, request)};
    ferryi_mutex_unlock(&pool->mutex);
    return request->seen.largest >= request->least + request->block_align - FERRYI_POOL_ALIGN;
}

/* Describes the free and the total memory. If the pool has a limit, the free memory is what the
 * limit allows, or what the backend has if that is less. The function preserves the thread's last
 * error, because that error says why the allocation failed. */
static void
describe_memory(const ferry_pool *pool, const struct ferryi_pool_figures *seen, char *text,
                size_t text_bytes)
{
    const struct ferryi_pool_backend *backend = &pool->config.backend;
    size_t left = 0, total = 0, limit = seen->limit, reserved = seen->reserved;
    FERRYI_KEEP_ERROR(reason);
    bool known = backend->info && backend->info(backend->user, &left, &total) == FERRY_OK;
    if (limit > 0) {
        size_t within = limit > reserved ? limit - reserved : 0;
        left = known ? ferryi_min_size(left, within) : within;
        total = limit;
    }
    if (known || limit > 0)
        snprintf(text, text_bytes, "free %zu, total %zu", left, total);
    else
        snprintf(text, text_bytes, "free and total unknown, %zu taken", reserved);
}

static ferry_status
add_holders(ferry_pool *pool, ferry_status status)
{
    char holders[HOLDERS_TEXT] = "";
    if (pool->config.holders.describe)
        pool->config.holders.describe(pool->config.holders.user, pool, holders, sizeof(holders));
    if (!*holders)
        return status;
    struct ferryi_kept_error reason;
    ferryi_last_error_keep(&reason);
    return ferryi_fail(status, "%s; held by %s", reason.message, holders);
}

ferry_status
ferryi_out_of_memory_fail(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    char memory[96];
    describe_memory(pool, &request->seen, memory, sizeof(memory));
    ferry_status status = ferryi_fail_in(
        FERRY_ERROR_OUT_OF_MEMORY, "requested %zu, %s, cached %zu, largest free %zu bytes",
        request->bytes, memory, request->seen.cached, request->seen.largest);
    return add_holders(pool, status);
}
