/* SPDX-License-Identifier: MIT */
#include "src/buffer/evict.h"

#include <assert.h>

#include "src/base/callback.h"
#include "src/buffer/buffer.h"
#include "src/buffer/snapshot.h"
#include "src/move/move.h"
#include "src/store/claim.h"
#include "src/store/pending_calls.h"
#include "src/store/shared.h"
#include "src/store/watch.h"
#include "src/trace/span.h"

/* If an eviction frees nothing because calls in other threads use the replicas, it is tried again,
 * up to RETRIES times in all. The thread sleeps for MOMENT_NS after each try. All sleeps together
 * take a tenth of a second, and longer on a busy machine. */
#define RETRIES   500
#define MOMENT_NS 200000

/* The most threads that wait in evictions at once. Further ones do not wait. */
#define WAITERS 16

/* Threads that wait in an eviction for calls of other threads, numbered in the order in which they
 * began. A slot is free if `thread` is 0. */
static struct waiter {
    _Atomic uint64_t thread, turn;
} waiters[WAITERS];
static _Atomic uint64_t last_turn;

struct victim;

struct scan {
    void (*consider)(ferryi_store *store, struct scan *scan, struct victim *out);
    ferry_context *context;
    ferry_pool *pool;
    size_t needed;
    bool dirty_too;
    bool fitting; /* whether only blocks of `needed` to 8 * `needed` bytes are freed */
    bool patient; /* whether a replica was skipped because a call in a different thread was using it
                   */
    bool may_wait;         /* whether replicas that queued work still writes may be freed */
    struct waiter *waiter; /* this thread's slot, if it waits */
    size_t freed;
};

/* Result of visiting one buffer. If the memory of a replica can be freed at once, `gone` contains
 * this memory. If the replica's bytes must be copied first, the visit has locked the whole buffer
 * with a claim, and `store` is set. If neither is set, the replica stays. */
struct victim {
    ferryi_store *store; /* the store that the visit has claimed, or NULL */
    int place;
    uint32_t slot; /* slot of the claim */
    struct ferryi_place_copy gone;
    /* data for the trace entry of the eviction; set only in a context that records a trace */
    struct ferryi_watched_store evicted;
};

static size_t
give_back(ferry_context *context, struct victim *victim)
{
    if (!victim->gone.block)
        return 0;
    size_t bytes = victim->gone.block->bytes;
    ferryi_pool_count_eviction(victim->gone.block->pool);
    ferryi_watch_eviction(context, &victim->evicted, victim->place, bytes);
    ferryi_store_give_back(context, &victim->gone);
    return bytes;
}

/* -- threads that wait ------------------------------------------------------------------------- */

/* Returns a slot for this thread, or NULL if all are taken. */
static struct waiter *
begin_waiting(void)
{
    for (size_t i = 0; i < WAITERS; i++)
        if (atomic_compare_exchange_strong(&waiters[i].thread, &(uint64_t){0},
                                           ferryi_thread_id())) {
            atomic_store(&waiters[i].turn, atomic_fetch_add(&last_turn, 1) + 1);
            return &waiters[i];
        }
    return NULL;
}

static void
end_waiting(struct scan *scan)
{
    if (scan->waiter)
        atomic_store(&scan->waiter->thread, 0);
    scan->waiter = NULL;
}

/* Returns whether a thread waits in an eviction since before this thread does. */
static bool
waits_longer(uint64_t thread, const struct waiter *own)
{
    for (size_t i = 0; i < WAITERS; i++)
        if (atomic_load(&waiters[i].thread) == thread)
            return !own || atomic_load(&waiters[i].turn) < atomic_load(&own->turn);
    return false;
}

/* -- looking at a store, under its lock -------------------------------------------------------- */

FERRYI_REQUIRES(ferryi_store_spin)
static int
place_from(const ferryi_store *store, const ferry_pool *pool)
{
    for (int place = 0; place <= store->context->place_count; place++)
        if (store->copies[place].block && store->copies[place].block->pool == pool)
            return place;
    return -1;
}

/* Returns whether no replica at the places of `mask` has a pin, so that these replicas can be
 * evicted. Must not be called for managed memory, because the driver moves that memory. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_ours_to_give(const ferryi_store *store, ferryi_places mask)
{
    assert(store->memory != FERRY_MEMORY_MANAGED);
    for (int place = 0; place <= store->context->place_count; place++)
        if ((mask >> place & 1) && store->copies[place].pins > 0)
            return false;
    return true;
}

FERRYI_REQUIRES(ferryi_store_spin)
static bool
was_used(ferryi_store *store)
{
    bool used = store->visited != (uint32_t)store->next_id;
    store->visited = (uint32_t)store->next_id;
    return used;
}

static bool
fits(const ferry_block *block, size_t needed)
{
    return block->bytes >= needed && block->bytes / 8 <= needed;
}

/* Returns whether some written byte is current only at places of `mask`. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_only_there(const ferryi_store *store, ferryi_places mask)
{
    struct ferryi_range part;
    return ferryi_store_find_only_at(store, (struct ferryi_range){0, store->map.bytes}, mask,
                                     &part);
}

/* Returns whether the claim (range lock) belongs to a running or queued call that can end while
 * this thread waits. A call that this thread runs cannot end meanwhile. If this thread belongs to a
 * context, a queued call counts as unable to end, because it may be queued behind the call that
 * this thread runs. */
static bool
ends_soon(const struct ferryi_claim *claim, const struct waiter *own)
{
    if (claim->state == FERRYI_CLAIM_HELD)
        return false;
    return claim->thread == FERRYI_THREAD_QUEUED
               ? !ferryi_callback_thread.context
               : claim->thread != ferryi_thread_id() && !waits_longer(claim->thread, own);
}

/* Returns whether the buffer is used by a call in a different thread that can end while this thread
 * waits. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_briefly_busy(const ferryi_store *store, const struct waiter *own)
{
    FERRYI_EACH_CLAIM (store, claim)
        if (ends_soon(claim, own))
            return true;
    return false;
}

/* Returns whether the replica at `place` cannot be freed now, because an open scope or a running
 * call uses it. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_busy_at(ferryi_store *store, int place)
{
    struct ferryi_access drop = {.store = store,
                                 .end = ferryi_max_size(store->map.bytes, 1),
                                 .access = FERRYI_ACCESS_DROP,
                                 .place = (uint8_t)place};
    return ferryi_access_conflict(store, &drop, false) != FERRYI_CONFLICT_NONE;
}

/* Returns whether the replica at `place` must not be freed now. While a write of the buffer is
 * open, all replicas stay: if the program abandons the write, the old value is needed. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_in_use(ferryi_store *store, int place)
{
    return store->write_claims > 0 || is_busy_at(store, place);
}

/* Returns whether all work that writes the replica has ended. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_written(ferryi_store *store, int place)
{
    return !ferryi_pending_calls_are_pending(store) &&
           ferryi_sync_point_is_done(&store->context->order,
                                     ferryi_store_copy(store, place)->written);
}

FERRYI_REQUIRES(ferryi_store_spin)
static struct ferryi_place_copy
forget(ferryi_store *store, int place, ferryi_places mask)
{
    for (int each = 0; each <= store->context->place_count; each++)
        if (mask >> each & 1) {
            ferryi_valid_map_commit_whole(&store->map, each, FERRYI_CHANGE_FORGET);
            if (each != place)
                store->exists &= ~FERRYI_PLACE_BIT(each);
        }
    return ferryi_store_detach(store, place);
}

/* Locks the whole buffer with a claim, so that all other accesses wait. If the buffer's table of
 * claims is full, locks nothing and leaves `*out` unchanged. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
claim(ferryi_store *store, int place, struct victim *out)
{
    uint32_t slot = ferryi_access_free_slot(store);
    if (slot == store->claim_capacity)
        return;
    *out = (struct victim){.store = store, .place = place, .slot = slot};
    ferryi_access_fill_claim(store, slot, 0, ferryi_max_size(store->map.bytes, 1),
                             FERRYI_ACCESS_DROP, place, NULL, FERRYI_CLAIM_CALL);
    /* Most claims of a write own room that was reserved in the valid map for the segments that the
     * write adds. This claim needs no such room: an eviction changes the whole map in one step,
     * which adds no segment. FERRYI_CLAIM_SPENT means that the claim owns no room. */
    store->claims[slot].flags = FERRYI_CLAIM_SPENT;
    store->claims[slot].thread = ferryi_thread_id();
}

FERRYI_RELEASES(ferryi_store_spin)
static void
unclaim(struct victim *victim)
{
    ferryi_store *store = victim->store;
    ferryi_access_remove_claim(store, victim->slot);
    victim->store = ferryi_store_is_over(store) ? store : NULL;
    ferryi_store_unlock_waking(store);
}

/* Visits one buffer during an eviction. If the memory of its replica can be freed at once, removes
 * the memory from the buffer and returns it in `out->gone`. If bytes must be copied to the host
 * first, locks the whole buffer instead. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
consider(ferryi_store *store, struct scan *scan, struct victim *out)
{
    /* There is nothing to evict. Without references, the store is already being freed, or is freed
     * when its last range lock is removed. */
    if (store->references == 0)
        return;
    int place = place_from(store, scan->pool);
    ferryi_places mask = place >= 0 ? ferryi_store_sharers(store, place) : 0;
    if (place < 0 || !is_ours_to_give(store, mask) ||
        (scan->fitting && !fits(store->copies[place].block, scan->needed)) || was_used(store))
        return;
    if (is_in_use(store, place)) {
        scan->patient = scan->patient || is_briefly_busy(store, scan->waiter);
    } else if (!ferryi_pending_calls_are_pending(store) && !is_only_there(store, mask)) {
        out->gone = forget(store, place, mask);
        ferryi_traffic_count_eviction(ferryi_store_traffic(store));
        out->place = place;
        out->evicted = ferryi_watched_store(store);
    } else if (scan->dirty_too && !ferryi_store_same_memory(store, place, FERRY_PLACE_HOST) &&
               (scan->may_wait || is_written(store, place))) {
        claim(store, place, out);
    }
}

/* -- writing back ------------------------------------------------------------------------------ */

/*
 * Copies the dirty bytes of the locked buffer to the host, and frees the replica. If the copy
 * fails, the replica stays.
 * @return the number of bytes freed
 */
static size_t
write_back_and_drop(struct victim *victim)
{
    ferryi_store *store = victim->store;
    ferry_context *context = store->context;
    ferryi_store_lock(store);
    bool had_host = store->exists & FERRYI_PLACE_BIT(FERRY_PLACE_HOST);
    ferryi_store_unlock(store);
    victim->evicted = ferryi_watched_store(store);

    struct ferryi_span span =
        ferryi_span_begin(context->trace, "evict", ferryi_store_name(store), "want of memory");
    /* A pending kernel may still fail, and the bytes that it wrote are then lost. So the eviction
     * waits until all pending kernels have run. */
    ferryi_pending_calls_wait(store);
    (void)ferryi_move_only_at(store, (struct ferryi_range){0, SIZE_MAX}, victim->place,
                              FERRY_PLACE_HOST, "evict");
    ferryi_span_end(span);

    struct ferryi_place_copy unused = {0};
    ferryi_places device = FERRYI_PLACE_BIT(victim->place),
                  host = ferryi_store_sharers(store, FERRY_PLACE_HOST);
    ferryi_store_lock(store);
    /* The claim locks all bytes but does not prevent other threads from adding a pin. So the pins
     * are checked again under the lock. */
    if (is_ours_to_give(store, device) && !is_only_there(store, device)) {
        victim->gone = forget(store, victim->place, device);
        ferryi_traffic_count_eviction(ferryi_store_traffic(store));
    } else if (!had_host && is_ours_to_give(store, host) && !is_only_there(store, host)) {
        unused = forget(store, FERRY_PLACE_HOST, host);
    }
    unclaim(victim);

    ferryi_store_give_back(context, &unused);
    size_t bytes = give_back(context, victim);
    if (victim->store)
        ferryi_store_free(victim->store);
    return bytes;
}

/* -- scanning ---------------------------------------------------------------------------------- */

/* Returns the next store in the circle. */
FERRYI_REQUIRES(ferryi_stores_mutex)
static ferryi_store *
advance(ferry_context *context)
{
    ferryi_store *store = context->hand ? context->hand : context->oldest_store;
    context->hand = store ? store->prev : NULL;
    return store;
}

/* Visits up to `*left` buffers of the context, until a buffer has memory that can be freed or
 * moved. Returns whether such a buffer was found. */
static bool
find(struct scan *scan, size_t *left, struct victim *out)
{
    ferry_context *context = scan->context;
    *out = (struct victim){0};
    ferryi_mutex_lock(&context->store_mutex);
    for (; *left > 0 && !out->store && !out->gone.block; --*left) {
        ferryi_store *store = advance(context);
        if (!store)
            break;
        ferryi_store_lock(store);
        scan->consider(store, scan, out);
        ferryi_store_unlock(store);
    }
    ferryi_mutex_unlock(&context->store_mutex);
    return out->store || out->gone.block;
}

static size_t
count_stores(struct scan *scan)
{
    ferryi_mutex_lock(&scan->context->store_mutex);
    size_t count = scan->context->store_count;
    ferryi_mutex_unlock(&scan->context->store_mutex);
    return count;
}

/* Visits every buffer of the context up to twice, until enough memory is freed. The first visit
 * skips a buffer that was used since an eviction last visited it. */
static void
go_round(struct scan *scan, bool fitting)
{
    scan->fitting = fitting;
    size_t left = 2 * count_stores(scan);
    struct victim victim;
    while (scan->freed < scan->needed && find(scan, &left, &victim)) {
        end_waiting(scan);
        scan->freed +=
            victim.store ? write_back_and_drop(&victim) : give_back(scan->context, &victim);
    }
}

/* Sleeps for a moment, if the thread may still wait. */
static bool
wait_a_moment(struct scan *scan, uint64_t *wait_ns)
{
    if (*wait_ns == 0 || (!scan->waiter && !(scan->waiter = begin_waiting())))
        return false;
    uint64_t begun = ferryi_now_ns();
    ferryi_sleep_ns(*wait_ns < MOMENT_NS ? *wait_ns : MOMENT_NS);
    uint64_t waited = ferryi_now_ns() - begun;
    *wait_ns -= waited < *wait_ns ? waited : *wait_ns;
    return true;
}

size_t
ferryi_evict(void *user, ferry_pool *pool, size_t needed, bool dirty_too, uint64_t *wait_ns)
{
    struct scan scan = {.consider = consider,
                        .context = user,
                        .pool = pool,
                        .needed = needed,
                        .dirty_too = dirty_too,
                        .may_wait = *wait_ns > 0};
    const size_t swept = ferryi_shared_sweep(scan.context, false);
    if (swept > 0)
        return swept;
    struct ferryi_span span =
        ferryi_span_begin(scan.context->trace, "evict", NULL, "want of memory");
    for (int tries = 0; tries < RETRIES; tries++) {
        go_round(&scan, true);
        if (scan.freed == 0)
            go_round(&scan, false);
        if (scan.freed > 0 || !scan.patient || !wait_a_moment(&scan, wait_ns))
            break;
        scan.patient = false;
    }
    end_waiting(&scan);
    ferryi_span_end(span);
    return scan.freed;
}

/* -- compaction -------------------------------------------------------------------------------- */

FERRYI_REQUIRES(ferryi_store_spin)
static void
consider_draining(ferryi_store *store, struct scan *scan, struct victim *out)
{
    if (store->references == 0)
        return;
    int place = place_from(store, scan->pool);
    if (place < 0 || !ferryi_block_is_draining(store->copies[place].block) ||
        !is_ours_to_give(store, ferryi_store_sharers(store, place)) || is_busy_at(store, place))
        return;
    claim(store, place, out);
}

/* Returns the range from the first to the last byte that is current at the place. */
static struct ferryi_range
held_bytes(ferryi_store *store, int place)
{
    struct ferryi_range held = {0};
    ferryi_store_lock(store);
    for (size_t at = 0; at < store->map.bytes;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        if (segment.places & FERRYI_PLACE_BIT(place))
            held = (struct ferryi_range){held.end ? held.begin : segment.begin, segment.end};
        at = segment.end;
    }
    ferryi_store_unlock(store);
    return held;
}

/*
 * Moves the replica of the locked buffer to a different block of the replica's pool. Does nothing
 * if the pool cannot supply such a block.
 * @return the number of bytes moved
 */
static size_t
move_copy(struct victim *victim)
{
    ferryi_claim_is_held();
    ferryi_store *store = victim->store;
    ferry_context *context = store->context;
    struct ferryi_place_copy fresh = {0};
    struct ferryi_range held = held_bytes(store, victim->place);
    ferry_status status =
        ferryi_store_take(store, victim->place, ferryi_claimed_bytes(store), NULL, &fresh);
    if (status == FERRY_OK)
        status = ferryi_move_to_block(store, victim->place, held, "compact", &fresh);

    ferryi_store_lock(store);
    struct ferryi_place_copy *copy = &store->copies[victim->place];
    /* The claim locks all bytes but does not prevent other threads from adding a pin. So the pins
     * are checked again under the lock. */
    bool moves = status == FERRY_OK && is_ours_to_give(store, FERRYI_PLACE_BIT(victim->place)) &&
                 copy->block;
    if (moves) {
        struct ferryi_place_copy old = *copy;
        *copy = fresh;
        fresh = old;
    }
    unclaim(victim);

    ferryi_store_give_back(context, &fresh);
    if (victim->store)
        ferryi_store_free(victim->store);
    return moves ? held.end - held.begin : 0;
}

size_t
ferryi_relocate(void *user, ferry_pool *pool)
{
    struct scan scan = {.consider = consider_draining, .context = user, .pool = pool};
    struct victim victim;
    size_t moved = 0, left = count_stores(&scan);
    while (find(&scan, &left, &victim))
        moved += move_copy(&victim);
    return moved;
}

const struct ferryi_store_calls ferryi_buffer_calls = {.evict = ferryi_evict,
                                                       .relocate = ferryi_relocate,
                                                       .bring_back = ferryi_buffer_bring_back,
                                                       .out_of_memory =
                                                           ferryi_snapshot_out_of_memory};
