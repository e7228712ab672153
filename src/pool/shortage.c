/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "src/base/callback.h"
#include "src/pool/magazine.h"

/*
 * A take that finds no memory climbs a ladder. The first steps use up what the pool has: memory
 * that came back meanwhile, neighbours merged, idle memory of other sizes given back
 * for what is needed. Each higher step wins some more, and then the first ones are tried again.
 */

#define PASSES 100 /* while memory comes and goes */

struct climb {
    ferry_pool *pool;
    struct ferryi_pool_request *request;
    uint64_t deadlines[FERRYI_RUNGS]; /* of steps that wait; 0: not begun */
};

/* -- what the pool has ------------------------------------------------------------------------- */

static ferry_status
reuse_or_grow(struct climb *climb, ferry_block **out)
{
    ferry_status status = ferryi_pool_reuse(climb->pool, climb->request, out);
    return status == FERRY_OK && !*out ? ferryi_pool_grow(climb->pool, climb->request, false, out)
                                       : status;
}

static ferry_status
try_reuse(struct climb *climb, ferry_block **out)
{
    ferryi_magazines_empty(climb->pool);
    ferryi_pool_settle(climb->pool);
    return reuse_or_grow(climb, out);
}

static ferry_status
try_merge(struct climb *climb, ferry_block **out)
{
    ferry_pool *pool = climb->pool;
    ferryi_pool_ask_pending(pool);
    ferryi_mutex_lock(&pool->mutex);
    ferryi_pool_merge(pool);
    ferryi_mutex_unlock(&pool->mutex);
    ferry_status status = ferryi_pool_reuse(pool, climb->request, out);
    return status == FERRY_OK && !*out ? FERRY_ERROR_OUT_OF_MEMORY : status;
}

static ferry_status
try_trim(struct climb *climb, ferry_block **out)
{
    const size_t wanted[] = {ferryi_pool_slab_bytes(climb->request->need), SIZE_MAX};
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; status == FERRY_ERROR_OUT_OF_MEMORY && i < 2; i++)
        if (ferryi_pool_give_back(climb->pool, 0, wanted[i], UINT64_MAX) > 0)
            status = reuse_or_grow(climb, out);
    /* Where there is no room for a slab there may be some for the block alone. */
    if (status == FERRY_ERROR_OUT_OF_MEMORY && climb->request->need <= FERRYI_POOL_SLAB_BLOCK)
        status = ferryi_pool_grow(climb->pool, climb->request, true, out);
    return status;
}

static ferry_status
try_what_there_is(struct climb *climb, ferry_block **out, enum ferryi_step *out_step)
{
    static ferry_status (*const tries[])(struct climb * climb,
                                         ferry_block * *out) = {[FERRYI_STEP_REUSE] = try_reuse,
                                                                [FERRYI_STEP_MERGE] = try_merge,
                                                                [FERRYI_STEP_TRIM] = try_trim};
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    for (size_t i = FERRYI_STEP_REUSE; status == FERRY_ERROR_OUT_OF_MEMORY && i <= FERRYI_STEP_TRIM;
         i++) {
        *out_step = (enum ferryi_step)i;
        status = tries[i](climb, out);
    }
    return status;
}

/* -- what may win some more: each says whether another try is worth it ------------------------- */

static bool
wait_on(struct climb *climb, enum ferryi_step step)
{
    if (climb->deadlines[step] == 0)
        climb->deadlines[step] = ferryi_pool_wait_deadline(climb->pool);
    return ferryi_pool_wait_pending(climb->pool, climb->deadlines[step]);
}

static bool
evict(struct climb *climb, enum ferryi_step step)
{
    const struct ferryi_pool_holders *holders = &climb->pool->config.holders;
    if (!holders->evict || holders->evict(holders->user, climb->pool, climb->request->need,
                                          step == FERRYI_STEP_WRITE_BACK) == 0)
        return false;
    /* What came back may still be read, by the copy that saves it at least. */
    while (wait_on(climb, step))
        ;
    return true;
}

/* Where there are enough idle bytes, but not in one piece. */
static bool
compact(struct climb *climb)
{
    ferry_pool *pool = climb->pool;
    ferry_pool_compaction compaction = {0};
    ferryi_mutex_lock(&pool->mutex);
    bool enough = pool->config.holders.relocate && pool->cached_bytes >= climb->request->need;
    ferryi_mutex_unlock(&pool->mutex);
    return enough && ferryi_pool_compact(pool, &compaction) == FERRY_OK &&
           compaction.moved_bytes + compaction.freed_bytes > 0;
}

static bool
win_more(struct climb *climb, enum ferryi_step step)
{
    switch (step) {
    case FERRYI_STEP_WAIT:
        return wait_on(climb, step);
    case FERRYI_STEP_COMPACT:
        return compact(climb);
    case FERRYI_STEP_EVICT:
    case FERRYI_STEP_WRITE_BACK:
        return evict(climb, step);
    default:
        return false;
    }
}

/* *out_step is the one that helped, when one did. */
static ferry_status
climb_once(struct climb *climb, ferry_block **out, enum ferryi_step *out_step)
{
    enum ferryi_step last;
    ferry_status status = try_what_there_is(climb, out, out_step);
    for (size_t i = FERRYI_STEP_WAIT;
         status == FERRY_ERROR_OUT_OF_MEMORY && i < FERRYI_STEP_CALLBACK; i++) {
        *out_step = (enum ferryi_step)i;
        for (int pass = 0;
             status == FERRY_ERROR_OUT_OF_MEMORY && pass < PASSES && win_more(climb, *out_step);
             pass++)
            status = try_what_there_is(climb, out, &last);
    }
    return status;
}

/* Has memory come or gone since `*seen`, or is it on its way? */
static bool
has_moved(ferry_pool *pool, uint64_t *seen)
{
    ferryi_mutex_lock(&pool->mutex);
    uint64_t now = pool->device_allocations + pool->device_frees;
    bool moved = now != *seen || pool->backend_calls > 0;
    ferryi_mutex_unlock(&pool->mutex);
    *seen = now;
    return moved;
}

/* While other threads give back and take, a failed try proves nothing. */
static ferry_status
climb_again(struct climb *climb, ferry_block **out, enum ferryi_step *out_step)
{
    uint64_t seen = 0;
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    has_moved(climb->pool, &seen);
    for (int pass = 0; status == FERRY_ERROR_OUT_OF_MEMORY && pass < PASSES; pass++) {
        status = climb_once(climb, out, out_step);
        if (!has_moved(climb->pool, &seen))
            break;
    }
    return status;
}

/* The last step: the program makes room itself. */
static bool
ask_program(ferry_pool *pool, const struct ferryi_pool_request *request)
{
    ferryi_mutex_lock(&pool->mutex);
    ferry_pool_shortage *callback = pool->on_shortage;
    void *user = pool->on_shortage_user;
    ferryi_mutex_unlock(&pool->mutex);
    if (!callback || ferryi_callback_kind() >= FERRYI_CALLBACK_SHORTAGE)
        return false;
    struct ferryi_callback running;
    struct ferryi_kept_error kept;
    ferryi_last_error_keep(&kept);
    ferryi_callback_enter(&running, FERRYI_CALLBACK_SHORTAGE, "on_shortage");
    bool made_room = callback(pool, request->need, user);
    ferryi_callback_leave(&running);
    ferryi_last_error_restore(&kept);
    return made_room;
}

ferry_status
ferryi_pool_overcome_shortage(ferry_pool *pool, struct ferryi_pool_request *request,
                              ferry_block **out)
{
    struct climb climb = {.pool = pool, .request = request};
    enum ferryi_step step = FERRYI_STEP_REUSE, last;
    request->frugal = true;
    ferry_status status = climb_again(&climb, out, &step);
    for (int pass = 0;
         status == FERRY_ERROR_OUT_OF_MEMORY && pass < PASSES && ask_program(pool, request);
         pass++) {
        step = FERRYI_STEP_CALLBACK;
        status = climb_again(&climb, out, &last);
    }

    ferryi_mutex_lock(&pool->mutex);
    pool->shortages++;
    pool->saved[step] += status == FERRY_OK;
    ferryi_mutex_unlock(&pool->mutex);
    return status;
}

ferry_status
ferry_pool_on_shortage(ferry_pool *pool, ferry_pool_shortage *callback, void *user)
{
    if (!pool)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "set what a pool calls when it runs short: pool is NULL");
    ferry_status status = ferryi_pool_check_process(pool, "set what is called on a shortage of");
    if (status != FERRY_OK)
        return status;
    ferryi_mutex_lock(&pool->mutex);
    pool->on_shortage = callback;
    pool->on_shortage_user = user;
    ferryi_mutex_unlock(&pool->mutex);
    return FERRY_OK;
}
