/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

#define DEFAULT_WAIT_MS 10000
#define NS_PER_MS       UINT64_C(1000000)
/* A pool up to this size need not return idle memory before it grows. */
#define NEVER_MUCH ((size_t)128 << 20)
/* When a pool grows, its idle bytes may be at most 1/SPARE_PART of the peak number of live bytes.
 */
#define SPARE_PART 2
/* When a pool returns idle memory, it returns 1/SLACK_PART of its maximum size more than it must.
 * So it need not return memory again the next time it grows. */
#define SLACK_PART 16

/* This file limits how much idle memory a pool keeps, and for how long. The program sets the
 * limits. The pool applies them on its slow paths. */

static uint64_t
to_ns(uint64_t ms)
{
    return ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX : ms * NS_PER_MS;
}

/* Begins a trim period now and computes the time of its end. */
FERRYI_POOL_LOCKED static void
begin_period(ferry_pool *pool, uint64_t now)
{
    uint64_t period = pool->trim_period_ns;
    pool->next_trim_ns = period > UINT64_MAX - now ? UINT64_MAX : now + period;
}

void
ferryi_pool_set_policy(ferry_pool *pool, const ferry_pool_options *options)
{
    ferryi_mutex_lock(&pool->mutex);
    pool->limit_bytes = options->limit_bytes ? options->limit_bytes : pool->config.limit_bytes;
    atomic_store_explicit(&pool->slab_limit, pool->limit_bytes, memory_order_relaxed);
    pool->limit_name =
        options->limit_bytes ? "limit_bytes of ferry_pool_options" : pool->config.limit_name;
    pool->high_water_bytes = options->high_water_bytes;
    pool->release_threshold_bytes = options->release_threshold_bytes;
    pool->trim_period_ns = to_ns(options->trim_period_ms);
    pool->trim_age_ns =
        to_ns(options->trim_age_ms ? options->trim_age_ms : options->trim_period_ms);
    begin_period(pool, ferryi_now_ns());
    pool->wait_ns = options->wait_ms == FERRY_WAIT_NEVER
                        ? 0
                        : to_ns(options->wait_ms ? options->wait_ms : DEFAULT_WAIT_MS);
    atomic_store(&pool->is_maintained, pool->high_water_bytes > 0 || pool->trim_period_ns > 0);
    if (options->zero_on_release != atomic_load(&pool->zeroes)) {
        atomic_store(&pool->zeroes, options->zero_on_release);
        ferryi_magazines_empty(pool); /* this also opens or shuts the caches of the threads */
    }
    ferryi_mutex_unlock(&pool->mutex);
}

bool
ferryi_pool_is_within_limit(const ferry_pool *pool, size_t bytes)
{
    size_t limit = pool->limit_bytes;
    return limit == 0 ||
           (bytes <= limit && pool->reserved_bytes + pool->requesting_bytes <= limit - bytes);
}

size_t
ferryi_pool_excess(const ferry_pool *pool)
{
    return pool->high_water_bytes > 0 && pool->reserved_bytes > pool->high_water_bytes
               ? pool->reserved_bytes - pool->high_water_bytes
               : 0;
}

/* Returns the number of idle bytes that the pool should return to the backend before it grows by a
 * block of `need` bytes. */
FERRYI_POOL_LOCKED static size_t
surplus(ferry_pool *pool, size_t need)
{
    ferryi_caches_count(pool);
    size_t peak = ferryi_max_size((size_t)pool->counters.peak_live_bytes,
                                  (size_t)ferryi_pool_live_bytes(pool) + need),
           most = peak + peak / SPARE_PART,
           reserved = pool->reserved_bytes + ferryi_pool_new_slab_bytes(pool, need);
    return reserved > NEVER_MUCH && reserved > most ? reserved - most + most / SLACK_PART : 0;
}

bool
ferryi_pool_has_plenty(const ferry_pool *pool, size_t need)
{
    const struct ferryi_pool_backend *backend = &pool->config.backend;
    size_t left, total;
    return backend->info && backend->info(backend->user, &left, &total) == FERRY_OK &&
           left >= ferryi_pool_new_slab_bytes(pool, need) + total / FERRYI_POOL_RESERVE_PART;
}

/* Returns whether idle memory should be returned to the backend now. This is always so if the
 * backend's `free` does not wait for the device. Otherwise, the device must be short of memory, or
 * the amount of its free memory must be unknown. */
static bool
should_free(const ferry_pool *pool, size_t need)
{
    return !pool->config.backend.free_waits || !ferryi_pool_has_plenty(pool, need);
}

void
ferryi_pool_make_room(ferry_pool *pool, size_t need)
{
    ferryi_mutex_lock(&pool->mutex);
    size_t above = surplus(pool, need), keep = pool->release_threshold_bytes;
    ferryi_mutex_unlock(&pool->mutex);
    if (above == 0 || !should_free(pool, need) || !ferryi_pool_begin_frees(pool))
        return;
    ferryi_pool_ask_pending(pool);
    ferryi_pool_give_back(pool, keep, above, UINT64_MAX, NULL);
    ferryi_pool_end_frees(pool);
}

void
ferryi_pool_maintain(ferry_pool *pool, bool grown)
{
    if (!atomic_load_explicit(&pool->is_maintained, memory_order_relaxed))
        return;
    uint64_t now = ferryi_now_ns();
    ferryi_mutex_lock(&pool->mutex);
    size_t above = ferryi_pool_excess(pool), keep = pool->release_threshold_bytes;
    uint64_t age = pool->trim_age_ns;
    bool due = pool->trim_period_ns > 0 && now >= pool->next_trim_ns;
    if (due)
        begin_period(pool, now);
    ferryi_mutex_unlock(&pool->mutex);
    if ((!due && above == 0) || !ferryi_pool_begin_frees(pool))
        return;

    if (due || (above > 0 && grown))
        ferryi_pool_ask_pending(pool);
    if (above > 0)
        ferryi_pool_give_back(pool, keep, above, UINT64_MAX, NULL);
    if (due && age < now)
        ferryi_pool_give_back(pool, keep, SIZE_MAX, now - age, NULL);
    ferryi_pool_end_frees(pool);
}

uint64_t
ferryi_pool_next_trim(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    uint64_t next = pool->trim_period_ns > 0 ? pool->next_trim_ns : UINT64_MAX;
    ferryi_mutex_unlock(&pool->mutex);
    return next;
}

ferry_status
ferry_pool_configure(ferry_pool *pool, const ferry_pool_options *options)
{
    static const ferry_pool_options defaults;
    FERRYI_OR_RETURN(ferryi_pool_check_call(pool, "configure", true, NULL));
    if (!options)
        options = &defaults;
    struct ferryi_housekeeper *keeper = pool->config.housekeeper;
    ferry_status status =
        options->trim_period_ms > 0 ? ferryi_housekeeper_serve(keeper, pool) : FERRY_OK;
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "configure %s", pool->name);
    ferryi_pool_set_policy(pool, options);
    ferryi_housekeeper_wake(keeper);
    ferryi_pool_maintain(pool, true);
    return FERRY_OK;
}
