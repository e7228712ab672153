/* SPDX-License-Identifier: MIT */
#include "src/base/callback.h"
#include "src/pool/magazine.h"

/*
 * A take that finds no memory runs the rows of one table in order. The first rows use memory that
 * the pool already has, and run once. Each later row makes more memory available, and then the
 * first rows run again. A later row is repeated as long as it makes memory available. All rows
 * share one budget of waiting time, the pool's wait_ms, and one budget of attempts.
 */

#define ATTEMPTS 100

struct shortage {
    ferry_pool *pool;
    struct ferryi_pool_request *request;
    ferry_block **out;
    uint64_t wait_ns;  /* remaining waiting time */
    unsigned attempts; /* remaining attempts */
    /* whether replicas were evicted, so that queued work may still use their memory */
    bool evicted;
};

/* Uses up one attempt. Returns false if none was left. */
static bool
may_attempt(struct shortage *shortage)
{
    if (shortage->attempts == 0)
        return false;
    shortage->attempts--;
    return true;
}

/* -- the pool's own memory: each row returns whether to attempt the allocation ----------------- */

static bool
collect(struct shortage *shortage)
{
    ferry_pool *pool = shortage->pool;
    ferryi_pool_wait_for_backend(pool);
    ferryi_pool_ask_pending(pool);
    ferryi_mutex_lock(&pool->mutex);
    ferryi_pool_merge(pool);
    ferryi_mutex_unlock(&pool->mutex);
    return true;
}

static bool
trim_enough(struct shortage *shortage)
{
    size_t wanted = ferryi_pool_slab_bytes(shortage->request->need);
    return ferryi_pool_give_back(shortage->pool, 0, wanted, UINT64_MAX) > 0;
}

static bool
trim_all(struct shortage *shortage)
{
    return ferryi_pool_give_back(shortage->pool, 0, SIZE_MAX, UINT64_MAX) > 0;
}

/* Whether the requested block is small enough for a slab. If the backend has no memory for a whole
 * slab, it may still have enough for the block alone. */
static bool
is_small(struct shortage *shortage)
{
    return shortage->request->need <= FERRYI_POOL_SLAB_BLOCK;
}

static ferry_status
reuse_or_grow(struct shortage *shortage)
{
    ferry_status status = ferryi_pool_reuse(shortage->pool, shortage->request, shortage->out);
    return status == FERRY_OK && !*shortage->out
               ? ferryi_pool_grow(shortage->pool, shortage->request, false, shortage->out)
               : status;
}

static ferry_status
grow_by_block(struct shortage *shortage)
{
    return ferryi_pool_grow(shortage->pool, shortage->request, true, shortage->out);
}

/* -- making memory available: each row returns whether it did ---------------------------------- */

/* Waits until the work of a pending block is done, and returns whether that happened. The waiting
 * time that is left limits how often this can happen. If none is left, the attempts limit it. */
static bool
wait_for_work(struct shortage *shortage)
{
    return (shortage->wait_ns > 0 || may_attempt(shortage)) &&
           ferryi_pool_wait_pending(shortage->pool, &shortage->wait_ns);
}

/* Compacts the pool if its idle blocks together are as large as the request. Returns whether the
 * compaction moved or freed bytes. */
static bool
compact(struct shortage *shortage)
{
    ferry_pool *pool = shortage->pool;
    ferry_pool_compaction compaction = {0};
    ferryi_mutex_lock(&pool->mutex);
    bool enough = pool->config.holders.relocate && pool->cached_bytes >= shortage->request->need;
    ferryi_mutex_unlock(&pool->mutex);
    return enough && may_attempt(shortage) &&
           ferryi_pool_compact(pool, &shortage->wait_ns, &compaction) == FERRY_OK &&
           compaction.moved_bytes + compaction.freed_bytes > 0;
}

static bool
evict(struct shortage *shortage, bool dirty_too)
{
    const struct ferryi_pool_holders *holders = &shortage->pool->config.holders;
    if (!holders->evict)
        return false;
    /* Queued work may still use the memory of evicted replicas: for example, the copy that saves
     * their bytes. */
    if (shortage->evicted && wait_for_work(shortage))
        return true;
    shortage->evicted =
        may_attempt(shortage) &&
        holders->evict(holders->user, shortage->pool, shortage->request->need, dirty_too) > 0;
    return shortage->evicted;
}

static bool
evict_clean(struct shortage *shortage)
{
    return evict(shortage, false);
}

static bool
evict_dirty(struct shortage *shortage)
{
    return evict(shortage, true);
}

/* -- the table --------------------------------------------------------------------------------- */

static ferry_status use_own_memory(struct shortage *shortage);

static const struct row {
    bool (*run)(struct shortage *shortage);
    ferry_status (*attempt)(struct shortage *shortage);
    unsigned wait_part; /* the row may wait for 1/wait_part of the waiting time that is left */
} rows[] = {
    {collect, reuse_or_grow, 1},        {trim_enough, reuse_or_grow, 1},
    {trim_all, reuse_or_grow, 1},       {is_small, grow_by_block, 1},
    {wait_for_work, use_own_memory, 2}, {compact, use_own_memory, 1},
    {evict_clean, use_own_memory, 1},   {evict_dirty, use_own_memory, 1},
    {wait_for_work, use_own_memory, 1},
};

enum { OWN_ROWS = 4, ROWS = sizeof(rows) / sizeof(rows[0]) };

static ferry_status
run_row(struct shortage *shortage, const struct row *row)
{
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    uint64_t kept = shortage->wait_ns - shortage->wait_ns / row->wait_part;
    bool again = true;
    shortage->wait_ns -= kept;
    while (again && status == FERRY_ERROR_OUT_OF_MEMORY && row->run(shortage)) {
        status = row->attempt(shortage);
        again = row >= &rows[OWN_ROWS];
    }
    shortage->wait_ns += kept;
    return status;
}

static ferry_status
run_rows(struct shortage *shortage, size_t count)
{
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; status == FERRY_ERROR_OUT_OF_MEMORY && i < count; i++)
        status = run_row(shortage, &rows[i]);
    return status;
}

static ferry_status
use_own_memory(struct shortage *shortage)
{
    return run_rows(shortage, OWN_ROWS);
}

/* Returns whether the pool has allocated from the backend or freed to it since the call that set
 * `*seen`, or is doing so now. Updates `*seen`. */
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

/* Runs the table. Repeats it as long as other threads allocate and free meanwhile, because a failed
 * attempt then does not prove a shortage. */
static ferry_status
run_table(struct shortage *shortage)
{
    uint64_t seen = 0;
    has_moved(shortage->pool, &seen);
    ferry_status status = run_rows(shortage, ROWS);
    while (status == FERRY_ERROR_OUT_OF_MEMORY && has_moved(shortage->pool, &seen) &&
           may_attempt(shortage))
        status = run_rows(shortage, ROWS);
    return status;
}

/* -- the program's callback, after the table --------------------------------------------------- */

static bool
ask_program(struct shortage *shortage)
{
    ferry_pool *pool = shortage->pool;
    ferryi_mutex_lock(&pool->mutex);
    ferry_pool_shortage *callback = pool->on_shortage;
    void *user = pool->on_shortage_user;
    ferryi_mutex_unlock(&pool->mutex);
    if (!callback || ferryi_callback_kind() >= FERRYI_CALLBACK_SHORTAGE || !may_attempt(shortage))
        return false;
    struct ferryi_callback running;
    struct ferryi_kept_error kept;
    ferryi_last_error_keep(&kept);
    ferryi_callback_enter(&running, FERRYI_CALLBACK_SHORTAGE, "on_shortage");
    bool made_room = callback(pool, shortage->request->need, user);
    ferryi_callback_leave(&running);
    ferryi_last_error_restore(&kept);
    return made_room;
}

ferry_status
ferryi_pool_overcome_shortage(ferry_pool *pool, struct ferryi_pool_request *request,
                              ferry_block **out)
{
    struct shortage shortage = {.pool = pool,
                                .request = request,
                                .out = out,
                                .wait_ns = pool->wait_ns,
                                .attempts = ATTEMPTS};
    request->any_fit = true;
    ferry_status status = run_table(&shortage);
    while (status == FERRY_ERROR_OUT_OF_MEMORY && ask_program(&shortage))
        status = run_table(&shortage);

    ferryi_mutex_lock(&pool->mutex);
    pool->counters.shortages++;
    ferryi_mutex_unlock(&pool->mutex);
    return status;
}

ferry_status
ferry_pool_on_shortage(ferry_pool *pool, ferry_pool_shortage *callback, void *user)
{
    ferry_status status =
        ferryi_pool_check_call(pool, "set what is called on a shortage of", true, NULL);
    if (status != FERRY_OK)
        return status;
    ferryi_mutex_lock(&pool->mutex);
    pool->on_shortage = callback;
    pool->on_shortage_user = user;
    ferryi_mutex_unlock(&pool->mutex);
    return FERRY_OK;
}
