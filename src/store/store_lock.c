/* SPDX-License-Identifier: MIT */
#include "src/store/store.h"

/* A buffer with more segments or claims (range locks) than these numbers counts as crowded. A
 * search through them under the buffer's lock takes long. Other threads should then sleep instead
 * of spin. */
#define CROWDED_SEGMENTS   64
#define CROWDED_CLAIMS     32

#define SPINS_BEFORE_YIELD 64

static pthread_mutex_t *
long_lock(ferryi_store *store)
{
    return &store->context->long_locks[((uintptr_t)store >> 8) % FERRYI_LONG_LOCKS];
}

/* Takes the spin lock in a buffer's state word, and sets the bits `extra` in the same step. If one
 * of the bits `stop` is set, returns false without taking the lock. */
static bool
take_spin(ferryi_store *store, uint64_t extra, uint64_t stop)
{
    for (unsigned spins = 0;; spins++) {
        uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed);
        if (word & stop)
            return false;
        if (!(word & FERRYI_STORE_SPIN) &&
            atomic_compare_exchange_weak_explicit(&store->word, &word,
                                                  word | FERRYI_STORE_SPIN | extra,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
        if (spins >= SPINS_BEFORE_YIELD)
            ferryi_yield();
    }
}

void
ferryi_store_lock_slow(ferryi_store *store)
{
    if (take_spin(store, 0, FERRYI_STORE_LONG))
        return;
    ferryi_system_mutex_lock(long_lock(store));
    take_spin(store, FERRYI_STORE_MUTEXED, 0);
}

void
ferryi_store_unlock_slow(ferryi_store *store, uint64_t word)
{
    uint64_t next =
        word & ~(uint64_t)(FERRYI_STORE_SPIN | FERRYI_STORE_MUTEXED | FERRYI_STORE_LONG);
    if (store->crowded)
        next |= FERRYI_STORE_LONG;
    pthread_mutex_t *mutex = word & FERRYI_STORE_MUTEXED ? long_lock(store) : NULL;
    atomic_store_explicit(&store->word, next, memory_order_release);
    if (mutex)
        ferryi_system_mutex_unlock(mutex);
}

void
ferryi_store_unlock_waking(ferryi_store *store)
{
    store->crowded =
        store->map.index->segment_count > CROWDED_SEGMENTS || store->claim_count > CROWDED_CLAIMS;
    uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed);
    if (!(word & FERRYI_STORE_WAITERS)) {
        ferryi_store_unlock(store);
        return;
    }
    ferry_context *context = store->context;
    atomic_store_explicit(&store->word, word & ~(uint64_t)FERRYI_STORE_WAITERS,
                          memory_order_relaxed);
    ferryi_store_unlock(store);
    ferryi_mutex_lock(&context->park_mutex);
    atomic_fetch_add_explicit(&context->park_epoch, 1, memory_order_release);
    ferryi_cond_broadcast(&context->park_cond);
    ferryi_mutex_unlock(&context->park_mutex);
}

bool
ferryi_store_unlock_and_park(ferryi_store *store, const struct ferryi_runner *behind,
                             uint64_t deadline_ns)
{
    ferry_context *context = store->context;
    uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed);
    atomic_store_explicit(&store->word, word | FERRYI_STORE_WAITERS, memory_order_relaxed);
    /* The counter park_epoch changes when claims (range locks) are removed. It is read while the
     * buffer is locked, so this thread sees every later change. */
    uint64_t epoch = atomic_load_explicit(&context->park_epoch, memory_order_acquire);
    ferryi_store_unlock(store);
    bool in_time = true;
    uint64_t begun = context->trace ? ferryi_now_ns() : 0;
    struct ferryi_blocked blocked;
    if (behind)
        ferryi_blocked_behind(&blocked, *behind);
    ferryi_mutex_lock(&context->park_mutex);
    while (in_time && atomic_load_explicit(&context->park_epoch, memory_order_relaxed) == epoch) {
        if (deadline_ns)
            in_time =
                ferryi_cond_wait_until(&context->park_cond, &context->park_mutex, deadline_ns);
        else
            ferryi_cond_wait(&context->park_cond, &context->park_mutex);
    }
    ferryi_mutex_unlock(&context->park_mutex);
    if (behind)
        ferryi_blocked_end(&blocked);
    if (begun)
        ferryi_trace_wait(context->trace, "wait for a call or a scope", NULL, begun);
    return in_time;
}
