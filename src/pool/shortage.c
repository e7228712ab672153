/* SPDX-License-Identifier: MIT */
#include "src/base/callback.h"
#include "src/pool/magazine.h"

/* This file makes memory available when an allocation from a pool finds none. The allocation first
 * searches the memory that the pool has. Then it runs a list of steps in order. Each step makes
 * more memory available, and the allocation is attempted again after the step. A step is repeated
 * as long as it makes memory available. All steps share one budget of waiting time, the pool's
 * wait_ms, and one of attempts. An eviction copies bytes to memory that it allocates itself; that
 * allocation has what is left of the same budgets. */

#define ATTEMPTS      100
#define BACKEND_WAITS 16

struct budget {
    uint64_t wait_ns;  /* remaining waiting time */
    unsigned attempts; /* remaining attempts */
};

/* The budget of the allocation inside which this thread allocates, or NULL. */
static _Thread_local struct budget *running;

struct shortage {
    ferry_pool *pool;
    struct ferryi_pool_request *request;
    ferry_block **out;
    struct budget *budget;
    /* Whether the most recent eviction released replicas. Queued work may still use their memory.
     */
    bool evicted;
    bool dirty_too; /* whether an eviction may free dirty replicas, which must be copied first */
};

/* Subtracts one attempt from the allocation's budget of attempts. Returns false if the budget was
 * 0. */
static bool
may_attempt(struct shortage *shortage)
{
    if (shortage->budget->attempts == 0)
        return false;
    shortage->budget->attempts--;
    return true;
}

/* -- the pool's own memory --------------------------------------------------------------------- */

static ferry_status
reuse_or_grow(struct shortage *shortage)
{
    ferry_status status = ferryi_pool_reuse(shortage->pool, shortage->request, shortage->out);
    return status == FERRY_OK && !*shortage->out
               ? ferryi_pool_grow(
                     shortage->pool, shortage->request,
                     ferryi_pool_new_slab_bytes(shortage->pool, shortage->request->need),
                     shortage->out)
               : status;
}

/* Blocks until no other thread is calling the backend, but at most until BACKEND_WAITS such calls
 * have ended. */
static void
wait_for_backend(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    for (unsigned round = 0; round < BACKEND_WAITS && pool->backend_calls > 0; round++)
        ferryi_cond_wait(&pool->settled, &pool->mutex);
    ferryi_mutex_unlock(&pool->mutex);
}

/* Attempts to grow by less than a whole slab: by a block of the request's size class, and then by
 * the bytes that the request needs at least. A backend that has no room for a slab, or a limit that
 * leaves none, may still have room for these. */
static ferry_status
grow_by_block(struct shortage *shortage)
{
    struct ferryi_pool_request *request = shortage->request;
    size_t least;
    ferry_status status = ferryi_pool_grow(shortage->pool, request, request->need, shortage->out);
    if (status == FERRY_ERROR_OUT_OF_MEMORY &&
        ferryi_round_up(request->least, FERRYI_POOL_ALIGN, &least) && least < request->need)
        status = ferryi_pool_grow(shortage->pool, request, least, shortage->out);
    return status;
}

/* Attempts the allocation from idle memory and from the backend. If both fail, returns as much idle
 * memory to the backend as a new slab needs, and attempts the allocation again. If this fails too,
 * returns all idle memory to the backend and attempts the allocation again. */
static ferry_status
use_own_memory(struct shortage *shortage)
{
    ferry_pool *pool = shortage->pool;
    size_t need = shortage->request->need;
    const size_t returned[] = {ferryi_pool_new_slab_bytes(pool, need), SIZE_MAX};
    wait_for_backend(pool);
    ferryi_pool_ask_pending(pool);
    ferryi_mutex_lock(&pool->mutex);
    ferryi_pool_merge(pool);
    ferryi_mutex_unlock(&pool->mutex);
    ferry_status status = reuse_or_grow(shortage);
    for (size_t i = 0; i < 2 && status == FERRY_ERROR_OUT_OF_MEMORY; i++)
        if (ferryi_pool_give_back(pool, 0, returned[i], UINT64_MAX, NULL) > 0)
            status = reuse_or_grow(shortage);
    return status == FERRY_ERROR_OUT_OF_MEMORY ? grow_by_block(shortage) : status;
}

/* -- the steps: each returns whether it made memory available ---------------------------------- */

/* Waits until queued work on an idle block is done. Returns whether any such work has ended.
 * Repeated waits share the remaining waiting time. If no time remains, each call uses one of the
 * remaining attempts. */
static bool
wait_for_work(struct shortage *shortage)
{
    return (shortage->budget->wait_ns > 0 || may_attempt(shortage)) &&
           ferryi_pool_wait_pending(shortage->pool, &shortage->budget->wait_ns);
}

/* Compacts the pool if the total size of its idle blocks is at least the size of the request.
 * Returns whether the compaction moved or freed bytes. */
static bool
compact(struct shortage *shortage)
{
    ferry_pool *pool = shortage->pool;
    ferry_pool_compaction compaction = {0};
    ferryi_mutex_lock(&pool->mutex);
    bool enough = pool->config.holders.relocate && pool->cached_bytes >= shortage->request->need;
    ferryi_mutex_unlock(&pool->mutex);
    return enough && may_attempt(shortage) &&
           ferryi_pool_compact(pool, &shortage->budget->wait_ns, &compaction) == FERRY_OK &&
           compaction.moved_bytes + compaction.freed_bytes > 0;
}

static bool
evict(struct shortage *shortage)
{
    const struct ferryi_pool_holders *holders = &shortage->pool->config.holders;
    if (!holders->evict)
        return false;
    /* Queued work may still use the memory of evicted replicas, for example the copy that saves the
     * bytes of a replica. So the step waits for such work before it evicts more replicas. */
    if (shortage->evicted && wait_for_work(shortage))
        return true;
    shortage->evicted = may_attempt(shortage) &&
                        holders->evict(holders->user, shortage->pool, shortage->request->need,
                                       shortage->dirty_too, &shortage->budget->wait_ns) > 0;
    return shortage->evicted;
}

static ferry_status
run_steps(struct shortage *shortage)
{
    static const struct {
        bool (*run)(struct shortage *);
        bool dirty_too;
    } steps[] = {{wait_for_work, false},
                 {compact, false},
                 {evict, false},
                 {evict, true},
                 {wait_for_work, false}};
    ferry_status status = use_own_memory(shortage);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        /* The first step may use only half of the waiting time, so that the other half remains for
         * later steps. */
        uint64_t kept = i == 0 ? shortage->budget->wait_ns - shortage->budget->wait_ns / 2 : 0;
        shortage->budget->wait_ns -= kept;
        shortage->dirty_too = steps[i].dirty_too;
        while (status == FERRY_ERROR_OUT_OF_MEMORY && steps[i].run(shortage))
            status = use_own_memory(shortage);
        shortage->budget->wait_ns += kept;
    }
    return status;
}

/* Returns whether a backend call of the pool is running, or has succeeded since `*seen` was last
 * updated. Updates `*seen`, which is the number of successful backend calls. */
static bool
has_moved(ferry_pool *pool, uint64_t *seen)
{
    ferryi_mutex_lock(&pool->mutex);
    uint64_t now = pool->counters.device_allocations + pool->counters.device_frees;
    bool moved = now != *seen || pool->backend_calls > 0;
    ferryi_mutex_unlock(&pool->mutex);
    *seen = now;
    return moved;
}

/* Runs the steps that make memory available. Other threads may allocate and free memory meanwhile.
 * A failure then does not prove a lack of memory, so the steps are repeated. */
static ferry_status
make_room(struct shortage *shortage)
{
    uint64_t seen = 0;
    has_moved(shortage->pool, &seen);
    ferry_status status = run_steps(shortage);
    while (status == FERRY_ERROR_OUT_OF_MEMORY && has_moved(shortage->pool, &seen) &&
           may_attempt(shortage))
        status = run_steps(shortage);
    return status;
}

/* -- the program's callback, after the steps --------------------------------------------------- */

static bool
ask_program(struct shortage *shortage)
{
    ferry_pool *pool = shortage->pool;
    ferryi_mutex_lock(&pool->mutex);
    ferry_pool_shortage *callback = pool->on_shortage;
    void *user = pool->on_shortage_user;
    ferryi_mutex_unlock(&pool->mutex);
    if (!callback || ferryi_callback_thread.is_short || ferryi_callback_only_watches() ||
        !may_attempt(shortage))
        return false;
    struct ferryi_callback inside;
    FERRYI_KEEP_ERROR(kept);
    ferryi_callback_enter(&inside, FERRYI_CALLBACK_WORKING, "on_shortage");
    inside.lent = pool;
    inside.context = pool->config.context;
    inside.in_any_call = ferryi_callback_thread.is_short = true;
    struct budget *budget = running;
    running = NULL; /* allocations of the program have their own budgets */
    bool made_room = callback(pool, shortage->request->need, user);
    running = budget;
    ferryi_callback_thread.is_short = false;
    ferryi_callback_leave(&inside);
    return made_room;
}

ferry_status
ferryi_pool_overcome_shortage(ferry_pool *pool, struct ferryi_pool_request *request,
                              ferry_block **out)
{
    struct budget own = {.wait_ns = pool->wait_ns, .attempts = ATTEMPTS}, *outer = running;
    struct shortage shortage = {
        .pool = pool, .request = request, .out = out, .budget = outer ? outer : &own};
    running = shortage.budget;
    request->any_fit = request->least_fits = true;
    ferry_status status = make_room(&shortage);
    while (status == FERRY_ERROR_OUT_OF_MEMORY && ask_program(&shortage))
        status = make_room(&shortage);
    running = outer;

    ferryi_mutex_lock(&pool->mutex);
    pool->counters.shortages++;
    ferryi_mutex_unlock(&pool->mutex);
    return status;
}

ferry_status
ferry_pool_on_shortage(ferry_pool *pool, ferry_pool_shortage *callback, void *user)
{
    FERRYI_OR_RETURN(
        ferryi_pool_check_call(pool, "set what is called on a shortage of", true, NULL));
    ferryi_mutex_lock(&pool->mutex);
    pool->on_shortage = callback;
    pool->on_shortage_user = user;
    ferryi_mutex_unlock(&pool->mutex);
    return FERRY_OK;
}
