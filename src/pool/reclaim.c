/* SPDX-License-Identifier: MIT */
#include "src/pool/magazine.h"

#define BATCH 16        /* slabs detached at once */
#define LOOK 8          /* pending blocks of a class asked about */
#define ASK_ROUNDS 64
#define SETTLE_ROUNDS 16

/* -- giving back ----------------------------------------------------------------------------------- */

/* Detach the slabs longest empty whose work is done, so far as the two bounds ask for. */
static size_t
detach_some(ferry_pool *pool, size_t keep_bytes, size_t want_bytes, uint64_t until_ns, struct ferryi_slab *slabs[BATCH])
{
    size_t count = 0, found = 0;
    ferryi_mutex_lock(&pool->mutex);
    struct ferryi_link *next, *link = pool->empties.next;
    for (; link != &pool->empties && count < BATCH && pool->cached_bytes > keep_bytes && found < want_bytes; link = next) {
        struct ferryi_slab *slab = FERRYI_SLAB_OF(link, in_empty);
        next = link->next;
        if (slab->idle_since > until_ns || !ferryi_slab_is_done(pool, slab))
            continue;
        ferryi_slab_detach(pool, slab);
        pool->backend_calls++;
        slabs[count++] = slab;
        found += slab->bytes;
    }
    ferryi_mutex_unlock(&pool->mutex);
    return count;
}

/* Memory that the backend refuses to take back stays ours, as room. */
static size_t
give_back_slab(ferry_pool *pool, struct ferryi_slab *slab)
{
    size_t bytes = slab->bytes;
    ferry_status status = pool->config.backend.free(pool->config.backend.user, slab->memory, bytes);

    ferryi_mutex_lock(&pool->mutex);
    if (status == FERRY_OK) {
        pool->reserved_bytes -= bytes;
        pool->device_frees++;
        ferryi_slab_retire(pool, slab);
    } else {
        ferryi_slab_attach(pool, slab);
    }
    pool->backend_calls--;
    ferryi_cond_broadcast(&pool->settled);
    ferryi_mutex_unlock(&pool->mutex);

    if (status == FERRY_OK)
        return bytes;
    ferryi_log(pool->config.log, FERRY_LOG_WARNING, "give %zu bytes of %s back: %s", bytes, pool->name, ferry_last_error());
    return 0;
}

size_t
ferryi_pool_give_back(ferry_pool *pool, size_t keep_bytes, size_t want_bytes, uint64_t until_ns)
{
    size_t given = 0, count;
    bool refused = false;
    while (!refused && given < want_bytes) {
        struct ferryi_slab *slabs[BATCH];
        count = detach_some(pool, keep_bytes, want_bytes - given, until_ns, slabs);
        if (count == 0)
            break;
        for (size_t i = 0; i < count; i++) {
            size_t bytes = give_back_slab(pool, slabs[i]);
            refused |= bytes == 0;
            given += bytes;
        }
    }
    if (given > 0) {
        ferryi_mutex_lock(&pool->mutex);
        pool->trims++;
        ferryi_mutex_unlock(&pool->mutex);
    }
    return given;
}

size_t
ferryi_pool_trim(ferry_pool *pool, size_t keep_bytes)
{
    ferryi_pool_ask_pending(pool);
    return ferryi_pool_give_back(pool, keep_bytes, SIZE_MAX, UINT64_MAX);
}

ferry_status
ferry_pool_trim_older(ferry_pool *pool, uint64_t age_ms)
{
    uint64_t age_ns, now = ferryi_now_ns();
    if (!pool)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "trim a pool of what is idle for %llu ms: pool is NULL", (unsigned long long)age_ms);
    if (__builtin_mul_overflow(age_ms, UINT64_C(1000000), &age_ns) || age_ns > now)
        return FERRY_OK;
    ferryi_pool_ask_pending(pool);
    ferryi_pool_give_back(pool, 0, SIZE_MAX, now - age_ns);
    return FERRY_OK;
}

/* -- pending work ---------------------------------------------------------------------------------- */

bool
ferryi_pool_ask_oldest(ferry_pool *pool, uint32_t list)
{
    ferryi_stamp stamps[LOOK];
    size_t count = 0;

    ferryi_mutex_lock(&pool->mutex);
    struct ferryi_link *pending = &pool->classes[list].pending;
    for (struct ferryi_link *link = pending->next; link != pending && count < LOOK; link = link->next)
        stamps[count++] = FERRYI_BLOCK_OF(link)->stamp;
    ferryi_mutex_unlock(&pool->mutex);

    for (size_t i = 0; i < count; i++)
        if ((i == 0 || stamps[i] != stamps[i - 1]) && ferryi_stamp_query(pool->config.order, stamps[i]))
            return true;
    return false;
}

/* The first and last use of each lane that some idle block waits for; 0: none. */
struct pending_uses {
    ferryi_stamp oldest[FERRYI_LANES], newest[FERRYI_LANES];
};

static void
gather_class(const ferry_pool *pool, const struct ferryi_pool_class *class, struct pending_uses *uses)
{
    for (struct ferryi_link *link = class->pending.next; link != &class->pending; link = link->next) {
        ferryi_stamp stamp = FERRYI_BLOCK_OF(link)->stamp;
        if (ferryi_stamp_is_done(pool->config.order, stamp))
            continue;
        unsigned number = ferryi_stamp_number(stamp);
        if (uses->oldest[number] == 0 || stamp < uses->oldest[number])
            uses->oldest[number] = stamp;
        if (stamp > uses->newest[number])
            uses->newest[number] = stamp;
    }
}

static void
gather_pending(ferry_pool *pool, struct pending_uses *uses)
{
    *uses = (struct pending_uses){0};
    ferryi_mutex_lock(&pool->mutex);
    for (size_t i = 0; i <= FERRYI_POOL_CLASSES; i++)
        gather_class(pool, &pool->classes[i], uses);
    ferryi_mutex_unlock(&pool->mutex);
}

void
ferryi_pool_ask_pending(ferry_pool *pool)
{
    struct pending_uses uses;
    bool won = true;

    ferryi_magazines_empty(pool);
    /* A lane runs in order: when its oldest use is not done none is. Else the next round asks about the next use. */
    for (unsigned round = 0; round < ASK_ROUNDS && won; round++) {
        gather_pending(pool, &uses);
        won = false;
        for (unsigned n = 0; n < FERRYI_LANES; n++) {
            if (uses.newest[n] == 0 || ferryi_stamp_query(pool->config.order, uses.newest[n]))
                continue;
            if (uses.oldest[n] != uses.newest[n] && ferryi_stamp_query(pool->config.order, uses.oldest[n]))
                won = true;
        }
    }
}

bool
ferryi_pool_wait_pending(ferry_pool *pool)
{
    struct pending_uses uses;
    uint64_t waits = 0;

    ferryi_magazines_empty(pool);
    gather_pending(pool, &uses);
    for (unsigned n = 0; n < FERRYI_LANES; n++) {
        if (uses.newest[n] == 0)
            continue;
        waits++;
        if (ferryi_stamp_wait(pool->config.order, NULL, uses.newest[n]) != FERRY_OK)
            ferryi_log(pool->config.log, FERRY_LOG_WARNING, "wait for idle memory of %s: %s", pool->name, ferry_last_error());
    }
    ferryi_mutex_lock(&pool->mutex);
    pool->waits += waits;
    ferryi_mutex_unlock(&pool->mutex);
    return waits > 0;
}

void
ferryi_pool_settle(ferry_pool *pool)
{
    ferryi_mutex_lock(&pool->mutex);
    for (unsigned round = 0; round < SETTLE_ROUNDS && pool->backend_calls > 0; round++)
        ferryi_cond_wait(&pool->settled, &pool->mutex);
    ferryi_mutex_unlock(&pool->mutex);
}
