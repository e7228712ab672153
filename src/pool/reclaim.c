/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"
#include "src/stream/captures.h"

/* Maximum number of pending blocks that ferryi_pool_ask_oldest() reads from a bin. A pending block
 * is an idle block that queued work may still use. */
#define LOOK         8
#define ASK_ROUNDS   64
#define PAUSE_MIN_NS 2000
#define PAUSE_MAX_NS 500000

/* -- giving back ------------------------------------------------------------------------------- */

/* Returns the slab that has been empty for longest. Considers only slabs that no queued work uses
 * and whose last block was released at `until_ns` or earlier. Returns NULL if there is none. */
FERRYI_POOL_LOCKED static struct ferryi_slab *
find_slab(ferry_pool *pool, uint64_t until_ns)
{
    for (struct ferryi_link *link = pool->empties.next; link != &pool->empties; link = link->next) {
        struct ferryi_slab *slab = FERRYI_SLAB_OF(link, in_empty);
        if (slab->idle_since <= until_ns && ferryi_slab_is_done(pool, slab))
            return slab;
    }
    return NULL;
}

bool
ferryi_pool_begin_frees(const ferry_pool *pool)
{
    if (!pool->config.backend.free_waits)
        return true;
    if (pool->config.order && ferryi_order_is_captured(pool->config.order))
        return false;
    return ferryi_captures_try_hold_off();
}

void
ferryi_pool_end_frees(const ferry_pool *pool)
{
    if (pool->config.backend.free_waits)
        ferryi_captures_release();
}

/* Does what ferryi_pool_give_back() does to slabs. Sets `*out_status` to the
 * status of the last call of `free`. */
static size_t
give_slabs_back(ferry_pool *pool, size_t keep_bytes, size_t want_bytes, uint64_t until_ns,
                uint64_t *out_slabs, ferry_status *out_status)
{
    struct ferryi_slab *slab;
    ferry_status status = FERRY_OK;
    size_t given = 0;
    ferryi_mutex_lock(&pool->mutex);
    while (status == FERRY_OK && given < want_bytes && pool->cached_bytes > keep_bytes &&
           (slab = find_slab(pool, until_ns))) {
        size_t bytes = slab->bytes;
        ferryi_slab_detach(pool, slab);
        pool->backend_calls++;
        ferryi_mutex_unlock(&pool->mutex);
        status = ferryi_slab_free_memory(pool, slab);
        ferryi_mutex_lock(&pool->mutex);
        if (status == FERRY_OK) {
            pool->reserved_bytes -= bytes;
            pool->counters.device_frees++;
            ferryi_slab_drop(pool, slab);
            given += bytes;
            if (out_slabs)
                ++*out_slabs;
        } else {
            ferryi_slab_attach(pool, slab);
        }
        pool->backend_calls--;
        ferryi_cond_broadcast(&pool->settled);
    }
    ferryi_mutex_unlock(&pool->mutex);
    *out_status = status;
    return given;
}

/* If the backend fails to free memory, that memory stays in the pool as idle memory, and no more is
 * freed. The failure is logged, unless the previous one was: each allocation that finds no memory
 * tries again. */
size_t
ferryi_pool_give_back(ferry_pool *pool, size_t keep_bytes, size_t want_bytes, uint64_t until_ns,
                      uint64_t *out_slabs)
{
    ferry_status status;
    size_t given = give_slabs_back(pool, keep_bytes, want_bytes, until_ns, out_slabs, &status);
    if (pool->range && status == FERRY_OK && given < want_bytes)
        given += ferryi_range_give_back(pool, keep_bytes, want_bytes - given, until_ns, out_slabs,
                                        &status);
    ferryi_mutex_lock(&pool->mutex);
    bool first = status != FERRY_OK && !pool->free_fails;
    if (status != FERRY_OK || given > 0)
        pool->free_fails = status != FERRY_OK;
    pool->counters.trims += given > 0;
    ferryi_mutex_unlock(&pool->mutex);
    if (first)
        ferryi_log(pool->config.log, FERRY_LOG_WARNING,
                   "give idle memory of %s back: %s; the memory stays in the pool, and this is not "
                   "logged again until memory could be given back",
                   pool->name, ferry_last_error());
    return given;
}

static ferry_status
trim(ferry_pool *pool, size_t keep_bytes, uint64_t until_ns)
{
    FERRYI_OR_RETURN(ferryi_pool_check_call(pool, "trim", true, NULL));
    ferryi_pool_ask_pending(pool);
    if (ferryi_pool_begin_frees(pool)) {
        ferryi_pool_give_back(pool, keep_bytes, SIZE_MAX, until_ns, NULL);
        ferryi_pool_end_frees(pool);
    }
    return FERRY_OK;
}

ferry_status
ferry_pool_trim(ferry_pool *pool, size_t keep_bytes)
{
    return trim(pool, keep_bytes, UINT64_MAX);
}

ferry_status
ferry_pool_trim_older(ferry_pool *pool, uint64_t age_ms)
{
    uint64_t age_ns, now = ferryi_now_ns();
    bool none = __builtin_mul_overflow(age_ms, UINT64_C(1000000), &age_ns) || age_ns > now;
    return trim(pool, 0, none ? 0 : now - age_ns);
}

/* -- pending work ------------------------------------------------------------------------------ */

/* The oldest and the newest pending use of idle blocks on each timeline. A value is 0 if there is
 * no such use. */
struct pending_uses {
    ferryi_sync_point oldest[FERRYI_TIMELINES], newest[FERRYI_TIMELINES];
    bool any;
};

/* Adds the pending uses of the blocks of one bin to `uses`. Stops after `most` pending blocks.
 * Reads the pending blocks oldest first. */
FERRYI_POOL_LOCKED static void
gather_bin(const ferry_pool *pool, size_t bin, size_t most, struct pending_uses *uses)
{
    const struct ferryi_link *idle = &pool->bins[bin];
    for (const struct ferryi_link *link = idle->prev; link != idle && most > 0; link = link->prev) {
        ferryi_sync_point point = FERRYI_BLOCK_OF(link)->point;
        if (ferryi_sync_point_is_done(pool->config.order, point))
            continue;
        unsigned number = ferryi_sync_point_number(point);
        uses->any = true;
        if (uses->oldest[number] == 0 || point < uses->oldest[number])
            uses->oldest[number] = point;
        if (point > uses->newest[number])
            uses->newest[number] = point;
        most--;
    }
}

static void
gather_pending(ferry_pool *pool, struct pending_uses *uses)
{
    *uses = (struct pending_uses){0};
    ferryi_mutex_lock(&pool->mutex);
    ferryi_magazines_empty(pool);
    for (size_t i = 0; i < FERRYI_POOL_BINS; i++)
        gather_bin(pool, i, SIZE_MAX, uses);
    ferryi_mutex_unlock(&pool->mutex);
}

/* Queries the driver about the newest pending use of each timeline. If that use is not done, also
 * queries the timeline's oldest pending use. Returns whether at least one of the queried uses is
 * done. */
static bool
ask_once(const ferry_pool *pool, const struct pending_uses *uses)
{
    ferryi_order *order = pool->config.order;
    bool won = false;
    for (unsigned n = 0; n < FERRYI_TIMELINES; n++)
        if (uses->newest[n] != 0)
            won |= ferryi_sync_point_query(order, uses->newest[n]) ||
                   (uses->oldest[n] != uses->newest[n] &&
                    ferryi_sync_point_query(order, uses->oldest[n]));
    return won;
}

bool
ferryi_pool_ask_oldest(ferry_pool *pool, size_t bin)
{
    struct pending_uses uses = {0};
    ferryi_mutex_lock(&pool->mutex);
    gather_bin(pool, bin, LOOK, &uses);
    ferryi_mutex_unlock(&pool->mutex);
    return ask_once(pool, &uses);
}

void
ferryi_pool_ask_pending(ferry_pool *pool)
{
    struct pending_uses uses;
    /* The uses on a timeline complete in order. If the oldest use is not done, none is done. If the
     * oldest use is done, the next iteration queries the oldest of the remaining uses. */
    for (unsigned round = 0; round < ASK_ROUNDS; round++) {
        gather_pending(pool, &uses);
        if (!ask_once(pool, &uses))
            break;
    }
}

/* Blocks until all pending uses of idle blocks are done. If `all` is false, waits only for uses on
 * streams that Ferry does not know, because such uses cannot be queried. Returns whether at least
 * one wait succeeded. */
static bool
wait_for(const ferry_pool *pool, const struct pending_uses *uses, bool all)
{
    ferryi_order *order = pool->config.order;
    bool won = false;
    for (unsigned n = 0; n < FERRYI_TIMELINES; n++) {
        ferryi_sync_point point = uses->newest[n];
        if (point == 0 || (!all && !ferryi_sync_point_is_unknown(order, point)))
            continue;
        bool done = ferryi_sync_point_wait(order, NULL, point) == FERRY_OK;
        won |= done;
        if (!done && all)
            ferryi_log(pool->config.log, FERRY_LOG_WARNING, "wait for idle memory of %s: %s",
                       pool->name, ferry_last_error());
    }
    return won;
}

/* The function polls the driver, because drivers have no wait with a timeout. */
bool
ferryi_pool_wait_pending(ferry_pool *pool, uint64_t *wait_ns)
{
    struct pending_uses uses;
    uint64_t begun = ferryi_now_ns(), most = *wait_ns,
             deadline = most > UINT64_MAX - begun ? UINT64_MAX : begun + most;
    gather_pending(pool, &uses);
    if (!uses.any)
        return false;

    bool may_wait = most > 0;
    bool won = ask_once(pool, &uses) || (may_wait && wait_for(pool, &uses, false));
    for (uint64_t pause = PAUSE_MIN_NS; !won && ferryi_now_ns() < deadline;
         pause = pause < PAUSE_MAX_NS ? 2 * pause : pause) {
        ferryi_sleep_ns(pause);
        won = ask_once(pool, &uses);
    }
    ferryi_mutex_lock(&pool->mutex);
    pool->counters.waits += may_wait;
    ferryi_mutex_unlock(&pool->mutex);
    uint64_t waited = ferryi_now_ns() - begun;
    *wait_ns = waited < most ? most - waited : 0;
    return won;
}

void
ferryi_pool_finish(ferry_pool *pool)
{
    struct pending_uses uses;
    gather_pending(pool, &uses);
    wait_for(pool, &uses, true);
}
