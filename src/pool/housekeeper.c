/* SPDX-License-Identifier: MIT */
#include "src/pool/housekeeper.h"

#include <stdlib.h>

#include "src/base/callback.h"
#include "src/pool/magazine.h"

struct ferryi_housekeeper {
    struct ferryi_housekeeper_mutex mutex;
    /* signalled when a member of the struct below or the trim period of a pool has changed */
    ferryi_cond changed;
    ferryi_thread thread;
    const void *context; /* the context that owns the thread */
    FERRYI_GUARDED_BY(ferryi_housekeeper_mutex) struct {
        ferry_pool *pools;      /* the pools that are served, linked by their `next_served` */
        const ferry_pool *busy; /* the pool that the thread is trimming now, or NULL */
        bool runs, stops;
    };
};

/* Returns the pool whose trim period ends first, and sets `*out_ns` to that time. Returns NULL if
 * no pool has a trim period. */
FERRYI_REQUIRES(ferryi_housekeeper_mutex)
static ferry_pool *
find_next(const struct ferryi_housekeeper *keeper, uint64_t *out_ns)
{
    ferry_pool *next = NULL;
    *out_ns = UINT64_MAX;
    for (ferry_pool *pool = keeper->pools; pool; pool = pool->next_served) {
        uint64_t due = ferryi_pool_next_trim(pool);
        if (due < *out_ns) {
            *out_ns = due;
            next = pool;
        }
    }
    return next;
}

/* Trims the pool without the mutex, because the pool's backend may block.
 * ferryi_housekeeper_leave() waits until `busy` is reset. */
FERRYI_REQUIRES(ferryi_housekeeper_mutex)
static void
trim(struct ferryi_housekeeper *keeper, ferry_pool *pool)
{
    keeper->busy = pool;
    ferryi_mutex_unlock(&keeper->mutex);
    ferryi_pool_maintain(pool, false);
    ferryi_mutex_lock(&keeper->mutex);
    keeper->busy = NULL;
    ferryi_cond_broadcast(&keeper->changed);
}

static void
keep_house(void *argument)
{
    struct ferryi_housekeeper *keeper = argument;
    ferryi_callback_thread.context = keeper->context;
    ferryi_mutex_lock(&keeper->mutex);
    while (!keeper->stops) {
        uint64_t due;
        ferry_pool *pool = find_next(keeper, &due);
        if (!pool)
            ferryi_cond_wait(&keeper->changed, &keeper->mutex);
        else if (due > ferryi_now_ns())
            (void)ferryi_cond_wait_until(&keeper->changed, &keeper->mutex, due);
        else
            trim(keeper, pool);
    }
    ferryi_mutex_unlock(&keeper->mutex);
}

struct ferryi_housekeeper *
ferryi_housekeeper_new(const void *context)
{
    struct ferryi_housekeeper *keeper = calloc(1, sizeof(*keeper));
    if (!keeper)
        return NULL;
    keeper->context = context;
    ferryi_mutex_init(&keeper->mutex);
    ferryi_cond_init(&keeper->changed);
    return keeper;
}

void
ferryi_housekeeper_stop(struct ferryi_housekeeper *keeper)
{
    ferryi_mutex_lock(&keeper->mutex);
    bool ran = keeper->runs;
    keeper->runs = false;
    keeper->stops = true;
    ferryi_cond_broadcast(&keeper->changed);
    ferryi_mutex_unlock(&keeper->mutex);
    if (ran)
        ferryi_thread_join(keeper->thread);
}

void
ferryi_housekeeper_free(struct ferryi_housekeeper **keeper)
{
    ferryi_cond_destroy(&(*keeper)->changed);
    ferryi_mutex_destroy(&(*keeper)->mutex);
    free(*keeper);
    *keeper = NULL;
}

ferry_status
ferryi_housekeeper_serve(struct ferryi_housekeeper *keeper, ferry_pool *pool)
{
    ferry_status status = FERRY_OK;
    if (!keeper)
        return FERRY_OK;
    ferryi_mutex_lock(&keeper->mutex);
    if (!keeper->runs && !keeper->stops) {
        status = ferryi_thread_start(&keeper->thread, "ferry-house", keep_house, keeper);
        keeper->runs = status == FERRY_OK;
    }
    if (status == FERRY_OK && !pool->is_served) {
        pool->is_served = true;
        pool->next_served = keeper->pools;
        keeper->pools = pool;
    }
    ferryi_mutex_unlock(&keeper->mutex);
    return status;
}

void
ferryi_housekeeper_wake(struct ferryi_housekeeper *keeper)
{
    if (!keeper)
        return;
    ferryi_mutex_lock(&keeper->mutex);
    ferryi_cond_broadcast(&keeper->changed);
    ferryi_mutex_unlock(&keeper->mutex);
}

void
ferryi_housekeeper_leave(struct ferryi_housekeeper *keeper, ferry_pool *pool)
{
    if (!keeper)
        return;
    ferryi_mutex_lock(&keeper->mutex);
    while (keeper->busy == pool)
        ferryi_cond_wait(&keeper->changed, &keeper->mutex);
    ferry_pool **at = &keeper->pools;
    while (*at && *at != pool)
        at = &(*at)->next_served;
    if (*at)
        *at = pool->next_served;
    ferryi_mutex_unlock(&keeper->mutex);
}
