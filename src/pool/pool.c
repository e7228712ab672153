/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/base/fork.h"
#include "src/pool/magazine.h"
#include "src/stream/stream.h"

/* -- create and destroy ------------------------------------------------------------------------ */

static void
lists_init(ferry_pool *pool)
{
    ferryi_link_init(&pool->slabs);
    ferryi_link_init(&pool->empties);
    ferryi_link_init(&pool->holes);
    ferryi_link_init(&pool->caches);
    for (size_t i = 0; i < FERRYI_POOL_BINS; i++)
        ferryi_link_init(&pool->bins[i]);
}

static _Atomic unsigned next_slot;

ferry_status
ferryi_pool_create(const struct ferryi_pool_config *config, ferry_pool **out)
{
    ferry_pool *pool = aligned_alloc(_Alignof(ferry_pool), sizeof(*pool));
    char *name = strdup(config->name ? config->name : "memory");
    if (!pool || !name) {
        free(pool);
        free(name);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create a pool of %s: no host memory",
                           config->name ? config->name : "memory");
    }

    memset(pool, 0, sizeof(*pool));
    pool->config = *config;
    pool->config.name = pool->name = name;
    if (pool->config.backend.align == 0)
        pool->config.backend.align = FERRYI_POOL_ALIGN;
    assert(ferryi_is_power_of_two(pool->config.backend.align) &&
           pool->config.backend.align >= FERRYI_POOL_ALIGN);
    lists_init(pool);
    pool->forks = ferryi_fork_count();
    pool->has_checker = ferryi_memory_checker_is_attached(config->host_reaches);
    pool->slot = atomic_fetch_add(&next_slot, 1) % FERRYI_CACHE_SLOTS;
    ferryi_mutex_init(&pool->mutex);
    ferryi_cond_init(&pool->settled);
    ferryi_pool_set_policy(pool, &config->options);
    ferry_status status = ferryi_range_open(pool);
    if (status == FERRY_OK && config->options.trim_period_ms > 0)
        status = ferryi_housekeeper_serve(config->housekeeper, pool);
    if (status != FERRY_OK) {
        pool->config.allocation_log = NULL; /* the caller keeps it after a failure */
        ferryi_pool_destroy(&pool);
        return ferryi_fail_in(status, "create a pool of %s",
                              config->name ? config->name : "memory");
    }
    *out = pool;
    return FERRY_OK;
}

static void
free_slabs(ferry_pool *pool)
{
    size_t lost = ferryi_range_close(pool);
    ferryi_mutex_is_needless(&pool->mutex);
    while (!ferryi_link_is_alone(&pool->slabs)) {
        struct ferryi_slab *slab = FERRYI_SLAB_OF(pool->slabs.next, in_pool);
        ferryi_link_remove(&slab->in_pool);
        if (ferryi_slab_free_memory(pool, slab) != FERRY_OK)
            lost += slab->bytes;
        free(slab);
    }
    if (lost > 0)
        ferryi_log(pool->config.log, FERRY_LOG_ERROR,
                   "destroy the pool of %s: %zu bytes are lost: %s", pool->name, lost,
                   ferry_last_error());
}

void
ferryi_pool_destroy(ferry_pool **pool_address)
{
    ferry_pool *pool = *pool_address;
    if (!pool)
        return;
    *pool_address = NULL;
    ferryi_housekeeper_leave(pool->config.housekeeper, pool);
    ferryi_caches_detach(pool);
#ifdef FERRYI_DEBUG_CHECKS
    assert(ferryi_pool_check(pool));
#endif
    ferryi_pool_report_leaks(pool);
    ferryi_zero_rest(pool);
    if (ferryi_allocation_log_close(&pool->config.allocation_log) != FERRY_OK)
        ferryi_log_setting(pool->config.log, FERRY_LOG_ERROR, "destroy the pool of %s: %s",
                           pool->name, ferry_last_error());
    free_slabs(pool);
    ferryi_arenas_free(pool);
    ferryi_magazines_free(pool);
    ferryi_cond_destroy(&pool->settled);
    ferryi_mutex_destroy(&pool->mutex);
    free(pool->name);
    free(pool);
}

const char *
ferryi_pool_name(const ferry_pool *pool)
{
    return pool->name;
}

int
ferryi_pool_place(const ferry_pool *pool)
{
    return pool->config.place;
}

ferry_context *
ferryi_pool_context(const ferry_pool *pool)
{
    return pool->config.context;
}

/* -- give -------------------------------------------------------------------------------------- */

/* Releases a block into the pool's bins instead of a magazine. Returns false if the block is
 * not live. */
static bool
give_to_centre(ferry_block *block, ferryi_sync_point point)
{
    ferry_pool *pool = block->pool;

    ferryi_mutex_lock(&pool->mutex);
    bool live = block->state == FERRYI_BLOCK_LIVE;
    if (live) {
        ferryi_block_uncommit(pool, block);
        ferryi_memory_checker_forbid(block, point);
        ferryi_block_put(pool, block, point, ferryi_now_ns());
    }
    ferryi_mutex_unlock(&pool->mutex);
    return live;
}

/* Logs the release of a block. Must be called before another thread can allocate the block. */
static void
log_give(const ferry_block *block, ferryi_sync_point point)
{
    ferryi_allocation_log *log = block->pool->config.allocation_log;
    if (log && block->state == FERRYI_BLOCK_LIVE)
        ferryi_allocation_log_write(log, FERRYI_ALLOCATION_GIVE, ferry_block_pointer(block),
                                    block->requested, ferryi_sync_point_number(point));
}

FERRYI_COLD static bool
give_slowly(ferry_block *block, ferryi_sync_point point)
{
    ferry_pool *pool = block->pool;
    bool live = block->state == FERRYI_BLOCK_LIVE;
    bool given = ferryi_cache_look_at_clock(pool) && ferryi_cache_give(block, point);
    if (!given) {
        log_give(block, point);
        bool join = live && ferryi_block_leaves_out(pool, block, point);
        if (join && point == 0)
            point = block->point;
        else if (join)
            point = ferryi_sync_points_join(pool->config.order, point,
                                            UINT64_C(1) << ferryi_sync_point_number(block->point));
        given = (live && !join && ferryi_cache_give_slowly(block, point)) ||
                give_to_centre(block, point);
    }
    ferryi_pool_maintain(pool, false);
    return given;
}

/* Releases a block that no magazine takes at once. If the block cannot be set to zero, it stays
 * live. */
FERRYI_COLD static ferry_status
give_checked(ferry_block *block, ferryi_sync_point point)
{
    if (atomic_load(&block->pool->zeroes) && block->state == FERRYI_BLOCK_LIVE)
        FERRYI_OR_RETURN(ferryi_zero_block(block, &point));
    if (give_slowly(block, point))
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                       "give block %p of %zu bytes back to %s: it was given back already",
                       ferry_block_pointer(block), block->requested, block->pool->name);
}

void
ferryi_pool_give(ferry_block *block, ferryi_sync_point point)
{
    if (__builtin_expect(block && !ferryi_cache_give(block, point), 0) &&
        give_checked(block, point) != FERRY_OK)
        ferryi_log(block->pool->config.log, FERRY_LOG_ERROR, "%s", ferry_last_error());
}

void
ferryi_pool_give_zeroed(ferry_block *block, ferryi_sync_point point)
{
    bool pool_zeroes = atomic_load(&block->pool->zeroes);
    if (pool_zeroes || ferryi_zero_block(block, &point) == FERRY_OK)
        ferryi_pool_give(block, point);
    else
        ferryi_log(block->pool->config.log, FERRY_LOG_ERROR, "%s; the memory stays allocated",
                   ferry_last_error());
}

/* -- the public calls -------------------------------------------------------------------------- */

ferry_status
ferryi_pool_check_call(const ferry_pool *pool, const char *what, bool has_other, const char *other)
{
    if (!pool || !has_other)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s a pool: %s is NULL", what,
                           pool ? other : "pool");
    if (pool->forks != ferryi_fork_count())
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "%s %s: the pool belongs to the process that this one was forked from",
                           what, pool->name);
    if (!ferryi_callback_only_watches())
        return FERRY_OK;
    char call[160];
    snprintf(call, sizeof(call), "%.60s %.90s", what, pool->name);
    return ferryi_callback_refuse(call);
}

ferry_status
ferryi_pool_check_stream(const ferry_pool *pool, const ferry_stream *stream, const char *what)
{
    FERRYI_OR_RETURN(ferryi_pool_check_call(pool, what, true, NULL));
    if (!stream || stream->context == pool->config.context)
        return FERRY_OK;
    char attempted[128];
    snprintf(attempted, sizeof(attempted), "%s %s", what, pool->name);
    return ferryi_stream_refuse(stream, attempted);
}

void *
ferry_block_pointer(const ferry_block *block)
{
    return block && block->requested > 0 ? ferryi_block_begin(block) : NULL;
}

size_t
ferry_block_bytes(const ferry_block *block)
{
    if (!block || block->requested == 0)
        return 0;
    return block->pool->has_checker
               ? block->requested
               : (size_t)((char *)block->pointer + block->bytes - ferryi_block_begin(block));
}

/* Sets *out to the current sync point of the stream, or to 0 if `stream` is NULL. Fails if the
 * stream is being captured. After any other failure, *out is 0 and the function succeeds. No queued
 * work can use the block then, because Ferry has waited for the device, or the device is lost. */
static ferry_status
note_use(const ferry_pool *pool, ferry_stream *stream, ferryi_sync_point *out)
{
    *out = 0;
    if (!stream)
        return FERRY_OK;
    ferry_status status =
        ferryi_timeline_note(ferryi_stream_timeline(stream), ferryi_thread_id(), out);
    if (status == FERRY_OK || status == FERRY_ERROR_UNSUPPORTED)
        return status;
    ferryi_log(pool->config.log, FERRY_LOG_WARNING, "give a block back to %s: %s", pool->name,
               ferry_last_error());
    *out = 0;
    return FERRY_OK;
}

FERRYI_COLD static ferry_status
give_public(ferry_block **block_address, ferry_stream *stream)
{
    if (!block_address)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "give a block back: block is NULL");
    ferry_block *block = *block_address;
    if (!block)
        return FERRY_OK;

    ferryi_sync_point point;
    FERRYI_OR_RETURN(ferryi_pool_check_stream(block->pool, stream, "give a block back to"));
    FERRYI_OR_RETURN(note_use(block->pool, stream, &point));
    FERRYI_OR_RETURN(give_checked(block, point));
    *block_address = NULL;
    return FERRY_OK;
}

/* Returns whether the stream's sync point can be read without a lock. The stream must belong to the
 * block's context. Its timeline must have a number and must not be retired. */
FERRYI_INLINE bool
is_simple_use(const ferry_block *block, ferry_stream *stream)
{
    if (ferryi_stream_context(stream) != block->pool->config.context)
        return false;
    ferryi_timeline *timeline = ferryi_stream_timeline(stream);
    return ferryi_timeline_is_numbered(timeline) && !ferryi_timeline_is_retired(timeline);
}

/* Releases a block whose last use is on a stream. The function is not inlined, so that releases
 * without a stream need not save registers. */
static __attribute__((noinline)) ferry_status
give_on_stream(ferry_block **block_address, ferry_stream *stream)
{
    bool simple = block_address && *block_address && is_simple_use(*block_address, stream);
    if (__builtin_expect(!simple || !ferryi_cache_give(
                                        *block_address,
                                        ferryi_timeline_sync_point(ferryi_stream_timeline(stream))),
                         0))
        return give_public(block_address, stream);
    *block_address = NULL;
    return FERRY_OK;
}

/* Returns true if the pointer is certainly not a block of a pool. Builds without
 * FERRYI_DEBUG_CHECKS cannot check the pointer and return false. */
static inline bool
is_foreign(ferry_block *const *block_address)
{
#ifdef FERRYI_DEBUG_CHECKS
    return block_address && *block_address && (*block_address)->magic != FERRYI_BLOCK_MAGIC;
#else
    (void)block_address;
    return false;
#endif
}

ferry_status
ferry_block_free(ferry_block **block_address, ferry_stream *stream)
{
    if (is_foreign(block_address))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "give %p back to a pool: it is no block of a pool",
                           (void *)*block_address);
    if (stream)
        return give_on_stream(block_address, stream);
    if (__builtin_expect(!block_address || !*block_address || !ferryi_cache_give(*block_address, 0),
                         0))
        return give_public(block_address, NULL);
    *block_address = NULL;
    return FERRY_OK;
}
