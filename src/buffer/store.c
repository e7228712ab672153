/* SPDX-License-Identifier: MIT */
#include "src/buffer/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/buffer/bodies.h"
#include "src/buffer/buffer.h"

/* From here on walks under the lock take long enough that others should sleep instead of spin. */
#define CROWDED_SEGMENTS 64
#define CROWDED_CLAIMS 32

#define SPINS_BEFORE_YIELD 64

/* -- the lock -------------------------------------------------------------------------------------- */

static ferryi_mutex *
long_lock(ferryi_store *store)
{
    return &store->context->long_locks[((uintptr_t)store >> 8) % FERRYI_LONG_LOCKS];
}

/* Take the spin bit whatever the other bits say; `extra` is set with it. False when `stop` bits are set. */
static bool
take_spin(ferryi_store *store, uint64_t extra, uint64_t stop)
{
    for (unsigned spins = 0;; spins++) {
        uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed);
        if (word & stop)
            return false;
        if (!(word & FERRYI_STORE_SPIN) &&
            atomic_compare_exchange_weak_explicit(&store->word, &word, word | FERRYI_STORE_SPIN | extra,
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
    ferryi_mutex_lock(long_lock(store));
    take_spin(store, FERRYI_STORE_MUTEXED, 0);
}

void
ferryi_store_unlock_slow(ferryi_store *store, uint64_t word)
{
    uint64_t next = word & ~(uint64_t)(FERRYI_STORE_SPIN | FERRYI_STORE_MUTEXED | FERRYI_STORE_LONG);
    if (store->crowded)
        next |= FERRYI_STORE_LONG;
    ferryi_mutex *mutex = word & FERRYI_STORE_MUTEXED ? long_lock(store) : NULL;
    atomic_store_explicit(&store->word, next, memory_order_release);
    if (mutex)
        ferryi_mutex_unlock(mutex);
}

void
ferryi_store_unlock_waking(ferryi_store *store)
{
    store->crowded = store->map.segment_count > CROWDED_SEGMENTS || store->claim_count > CROWDED_CLAIMS;
    uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed);
    if (!(word & FERRYI_STORE_WAITERS)) {
        ferryi_store_unlock(store);
        return;
    }
    ferry_context *context = store->context;
    atomic_store_explicit(&store->word, word & ~(uint64_t)FERRYI_STORE_WAITERS, memory_order_relaxed);
    ferryi_store_unlock(store);
    ferryi_context_unpark(context);
}

bool
ferryi_store_unlock_and_park(ferryi_store *store, uint64_t deadline_ns)
{
    ferry_context *context = store->context;
    uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed);
    atomic_store_explicit(&store->word, word | FERRYI_STORE_WAITERS, memory_order_relaxed);
    uint64_t epoch = ferryi_context_park_epoch(context);
    ferryi_store_unlock(store);
    return ferryi_context_park(context, epoch, deadline_ns);
}

/* -- life ------------------------------------------------------------------------------------------ */

ferry_status
ferryi_store_create(ferry_context *context, size_t bytes, const ferry_buffer_options *options, ferryi_store **out)
{
    static const ferry_buffer_options defaults;
    if (!options)
        options = &defaults;
    size_t total = sizeof(ferryi_store) + (size_t)(context->place_count + 1) * sizeof(struct ferryi_place_copy);
    ferryi_store *store = calloc(1, total);
    if (!store)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create a buffer: no memory for %zu bytes of its description", total);
    if (options->name && !(store->name = strdup(options->name))) {
        free(store);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create buffer \"%s\": no memory for its name", options->name);
    }
    store->context = context;
    store->references = 1;
    store->memory = (uint8_t)options->memory;
    store->align = options->align ? (uint32_t)options->align : 256;
    store->scrub = options->scrub;
    store->borrowed_place = FERRYI_PLACE_NONE;
    store->shared = options->memory == FERRY_MEMORY_MANAGED ? UINT32_MAX : (context->coherent | 1u);
    ferryi_valid_map_init(&store->map, bytes, 0);

    ferryi_context_retain(context);
    ferryi_mutex_lock(&context->store_mutex);
    store->next = context->stores;
    if (store->next)
        store->next->prev = store;
    context->stores = store;
    ferryi_mutex_unlock(&context->store_mutex);
    *out = store;
    return FERRY_OK;
}

void
ferryi_store_retain(ferryi_store *store)
{
    ferryi_store_lock(store);
    store->references++;
    ferryi_store_unlock(store);
}

static void
unlink_store(ferryi_store *store)
{
    ferry_context *context = store->context;
    ferryi_mutex_lock(&context->store_mutex);
    if (store->prev)
        store->prev->next = store->next;
    else if (context->stores == store) /* not taken out by the context's end */
        context->stores = store->next;
    if (store->next)
        store->next->prev = store->prev;
    ferryi_mutex_unlock(&context->store_mutex);
}

/* The owner of borrowed memory hears when nothing uses it any more. */
static void
release_borrowed(ferryi_store *store, struct ferryi_place_copy *copy)
{
    void *memory = copy->pointer;
    ferryi_order *order = &store->context->order;
    if (!ferryi_store_is_dead(store) && (ferryi_stamp_wait(order, NULL, copy->written) != FERRY_OK ||
                                         ferryi_lanes_wait(order, NULL, copy->readers) != FERRY_OK))
        ferryi_log(&store->context->log, FERRY_LOG_ERROR, "end the wrap of buffer \"%s\": %s", ferryi_store_name(store),
                   ferry_last_error());
    if (store->on_release)
        store->on_release(memory, store->on_release_user);
    store->on_release = NULL;
}

static void
release_copies(ferryi_store *store)
{
    for (int place = 0; place <= store->context->place_count; place++) {
        struct ferryi_place_copy copy = store->copies[place];
        memset(&store->copies[place], 0, sizeof(copy));
        if (copy.block)
            ferryi_store_give_back(store, &copy);
        else if (copy.pointer)
            release_borrowed(store, &copy);
    }
    /* Wrapped memory of no bytes may have no address. */
    if (store->on_release)
        release_borrowed(store, &(struct ferryi_place_copy){0});
}

/* The end of a wrap brings newer bytes back, as unwrap does, but has nobody to tell. */
static void
end_wrap(ferryi_store *store)
{
    struct ferryi_range whole = {0, store->map.bytes};
    if (store->borrowed_place == FERRYI_PLACE_NONE || store->read_only || whole.end == 0 || ferryi_store_is_dead(store))
        return;
    if (ferryi_buffer_bring(store, whole, store->borrowed_place, "unwrap") != FERRY_OK)
        ferryi_log(&store->context->log, FERRY_LOG_ERROR, "end the wrap of buffer \"%s\": newer bytes did not reach the wrapped memory: %s",
                   ferryi_store_name(store), ferry_last_error());
}

void
ferryi_store_free(ferryi_store *store)
{
    ferry_context *context = store->context;
    /* It is over, but not yet: the claim of bringing bytes back must not free it once more. */
    ferryi_store_lock(store);
    atomic_fetch_and_explicit(&store->word, ~(uint64_t)FERRYI_STORE_DOOMED, memory_order_relaxed);
    ferryi_store_unlock(store);
    end_wrap(store);
    ferryi_bodies_cut(store);
    unlink_store(store);
    release_copies(store);
    ferryi_valid_map_clear(&store->map);
    free(store->claims);
    free(store->name);
    free(store->lost_text);
    free(store);
    ferryi_context_release(context);
}

void
ferryi_store_release(ferryi_store *store)
{
    ferryi_store_lock(store);
    assert(store->references > 0);
    bool last = --store->references == 0;
    uint32_t claims = store->claim_count;
    if (last)
        atomic_store_explicit(&store->word, atomic_load_explicit(&store->word, memory_order_relaxed) | FERRYI_STORE_DOOMED, memory_order_relaxed);
    ferryi_store_unlock(store);
    if (!last)
        return;
    if (claims == 0)
        ferryi_store_free(store);
}

void
ferryi_store_kill(ferryi_store *store)
{
    end_wrap(store);
    release_copies(store);
    ferryi_store_lock(store);
    store->exists = 0;
    uint32_t high = store->claim_high;
    ferryi_store_unlock(store);
    /* Lanes end with the context; scopes that are closed later have nothing to note. */
    for (uint32_t slot = 0; slot < high; slot++) {
        ferryi_lane *lane = store->claims[slot].state != FERRYI_CLAIM_FREE ? store->claims[slot].lane : NULL;
        store->claims[slot].lane = NULL;
        if (lane)
            ferryi_lane_let_go(lane);
    }
    take_spin(store, FERRYI_STORE_DEAD, 0);
    atomic_fetch_and(&store->word, ~(uint64_t)FERRYI_STORE_SPIN);
}

/* -- copies ---------------------------------------------------------------------------------------- */

/* Host memory that was asked to be pinned is ordinary memory where nothing can pin it, and is reported as that. */
static bool
is_pinned_memory(const ferryi_store *store)
{
    const ferry_context *context = store->context;
    bool can_pin = false;
    for (int place = 1; place <= context->place_count; place++)
        can_pin = can_pin || (context->devices[place]->capabilities & FERRY_CAN_PIN);
    return can_pin && store->memory == FERRY_MEMORY_PINNED;
}

/* Which pool the copy at `place` comes from. */
static ferry_status
pool_for(ferryi_store *store, int place, ferry_pool **out)
{
    ferry_context *context = store->context;
    if (store->memory == FERRY_MEMORY_MANAGED)
        return ferryi_context_pool(context, 0, FERRY_MEMORY_MANAGED, out);
    if (place != 0)
        return ferryi_context_pool(context, place, FERRY_MEMORY_DEVICE, out);
    return ferryi_context_pool(context, 0, is_pinned_memory(store) ? FERRY_MEMORY_PINNED : FERRY_MEMORY_PAGEABLE, out);
}

/* The lane that orders a fresh block's earlier uses for a device copy; the host takes only idle blocks. */
static ferry_status
take_block(ferryi_store *store, int place, size_t bytes, struct ferryi_place_copy *out)
{
    ferry_pool *pool;
    ferryi_lane *lane = NULL;
    bool on_device = place != 0 && store->memory != FERRY_MEMORY_MANAGED;
    ferry_status status = pool_for(store, place, &pool);
    if (status == FERRY_OK && on_device)
        status = ferryi_engine_lane(store->context->engine, place, 0, &lane);
    if (status != FERRY_OK)
        return status;
    memset(out, 0, sizeof(*out));
    status = ferryi_pool_take(pool, bytes, store->align, lane, &out->block, &out->pointer);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "reserve %zu bytes of buffer \"%s\" at %s", bytes, ferryi_store_name(store),
                              store->context->names[place]);
    /* The block's last use in its former life, if it may still be running, is this copy's first write to wait for. */
    if (lane && !ferryi_stamp_is_done(&store->context->order, out->block->stamp))
        out->written = ferryi_lane_stamp(lane);
    /* Managed memory and memory of a coherent device are not pinned in the sense of page-locked host memory. */
    out->pinned = !on_device && is_pinned_memory(store);
    return FERRY_OK;
}

ferry_status
ferryi_store_reserve(ferryi_store *store, int place)
{
    int home = ferryi_store_same_memory(store, place, 0) ? 0 : place;
    struct ferryi_place_copy fresh = {0};
    for (;;) {
        ferryi_store_lock(store);
        struct ferryi_place_copy *copy = &store->copies[home];
        size_t bytes = ferryi_max_size(store->map.bytes, 1);
        /* A resize may have come between. */
        if (!copy->pointer && fresh.pointer && fresh.block->requested >= bytes) {
            fresh.pins = copy->pins;
            *copy = fresh;
            fresh = (struct ferryi_place_copy){0};
        }
        bool there = copy->pointer != NULL;
        if (there)
            store->exists |= FERRYI_PLACE_BIT(place);
        ferryi_store_unlock(store);
        if (there)
            break;
        ferryi_store_give_back(store, &fresh);
        ferry_status status = take_block(store, home, bytes, &fresh);
        if (status != FERRY_OK)
            return status;
    }
    /* Another thread was first. */
    if (fresh.block)
        ferryi_store_give_back(store, &fresh);
    return FERRY_OK;
}

struct ferryi_place_copy
ferryi_store_detach(ferryi_store *store, int place)
{
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    struct ferryi_place_copy out = {0};
    store->exists &= ~FERRYI_PLACE_BIT(place);
    /* Shared memory goes with the last place that uses it. */
    bool still_used = (store->shared >> place & 1) && (store->exists & store->shared);
    if (!still_used && copy->block && store->copies[place].pins == 0) {
        out = *copy;
        memset(copy, 0, sizeof(*copy));
    }
    return out;
}

void
ferryi_store_give_back(ferryi_store *store, struct ferryi_place_copy *copy)
{
    if (!copy->block)
        return;
    ferryi_stamp stamp = ferryi_stamps_join(&store->context->order, copy->written, copy->readers);
    ferryi_pool_give(copy->block, stamp);
    memset(copy, 0, sizeof(*copy));
}

/* -- order ----------------------------------------------------------------------------------------- */

/* A use on a user's stream that had to be waited for: the next one is recorded early, so that loops overlap. */
static bool
is_users(const ferryi_order *order, ferryi_stamp stamp, uint64_t readers)
{
    if (stamp)
        readers |= UINT64_C(1) << ferryi_stamp_number(stamp);
    for (; readers; readers &= readers - 1)
        if (!order->lanes[__builtin_ctzll(readers)]->internal)
            return true;
    return false;
}

/* Lost devices read nothing any more; the host goes on without them. */
static ferry_status
wait_for_readers(ferryi_order *order, ferryi_lane *lane, uint64_t readers, uint64_t *out_lost)
{
    for (; readers; readers &= readers - 1) {
        uint64_t reader = readers & -readers;
        ferry_status status = ferryi_lanes_wait(order, lane, reader);
        if (status == FERRY_ERROR_DEVICE_LOST && !lane)
            *out_lost |= reader;
        else if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

ferry_status
ferryi_store_order(ferryi_store *store, int place, ferryi_lane *lane, bool writes)
{
    ferryi_order *order = &store->context->order;
    ferryi_store_lock(store);
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    ferryi_stamp written = copy->written;
    uint64_t readers = writes ? copy->readers : 0;
    bool waits = !ferryi_stamp_is_ordered(order, lane, written) || !ferryi_lanes_are_ordered(order, lane, readers);
    if (waits && is_users(order, written, readers))
        copy->eager = true;
    ferryi_store_unlock(store);
    if (!waits)
        return FERRY_OK;

    uint64_t lost = 0;
    ferry_status status = ferryi_stamp_wait(order, lane, written);
    if (status == FERRY_OK)
        status = wait_for_readers(order, lane, readers, &lost);
    if (status != FERRY_OK || lane)
        return status;

    /* The host waited: these uses are over for everybody. */
    ferryi_store_lock(store);
    copy = ferryi_store_copy(store, place);
    if (ferryi_stamp_is_done(order, copy->written))
        copy->written = 0;
    copy->readers &= ~lost;
    if (ferryi_lanes_are_ordered(order, NULL, copy->readers))
        copy->readers = 0;
    ferryi_store_unlock(store);
    return FERRY_OK;
}

/* The closing event of a retired lane covers the use: nothing was queued on it later. */
static ferryi_stamp
stamp_use(ferryi_lane *lane)
{
    return atomic_load(&lane->retired) ? ferryi_lane_stamp_since(lane, lane->generation) : ferryi_lane_stamp(lane);
}

void
ferryi_store_note_read(ferryi_store *store, int place, ferryi_lane *lane)
{
    ferryi_store_lock(store);
    stamp_use(lane);
    ferryi_store_copy(store, place)->readers |= UINT64_C(1) << lane->number;
    ferryi_store_unlock(store);
}

void
ferryi_store_note_write(ferryi_store *store, int place, ferryi_lane *lane)
{
    ferryi_order *order = &store->context->order;
    for (;;) {
        ferryi_store_lock(store);
        struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
        ferryi_stamp other = copy->written;
        if (ferryi_stamp_is_ordered(order, lane, other)) {
            copy->written = stamp_use(lane);
            if (ferryi_lanes_are_ordered(order, lane, copy->readers))
                copy->readers = 0;
            ferryi_store_unlock(store);
            return;
        }
        ferryi_store_unlock(store);
        /* Another stream wrote a disjoint range meanwhile: one stamp must stand for both. */
        if (ferryi_stamp_wait(order, lane, other) != FERRY_OK && ferryi_stamp_wait(order, NULL, other) != FERRY_OK) {
            ferryi_log(&store->context->log, FERRY_LOG_ERROR, "order writes of buffer \"%s\": %s", ferryi_store_name(store),
                       ferry_last_error());
            ferryi_store_lock(store);
            if (copy->written == other)
                copy->written = 0;
            ferryi_store_unlock(store);
        }
    }
}

/* -- the map --------------------------------------------------------------------------------------- */

ferry_status
ferryi_store_promise(ferryi_store *store, uint32_t count)
{
    struct ferryi_map_supply supply = {0};
    ferry_status status = FERRY_OK;
    for (uint32_t done = 0; done < count && status == FERRY_OK;) {
        size_t chunks = 0, index = 0;
        ferryi_store_lock(store);
        while (done < count && ferryi_valid_map_promise(&store->map, &supply))
            done++;
        if (done < count)
            ferryi_valid_map_need(&store->map, &chunks, &index);
        ferryi_store_unlock(store);
        if (done == count)
            break;
        status = ferryi_map_supply_make(&supply, chunks, index);
        if (status != FERRY_OK) {
            ferryi_store_lock(store);
            while (done-- > 0)
                ferryi_valid_map_unpromise(&store->map);
            ferryi_store_unlock(store);
        }
    }
    ferryi_map_supply_free(&supply);
    return status;
}

void
ferryi_store_lose(ferryi_store *store, int place, size_t begin, size_t end, ferry_status status, const char *text)
{
    char *copy = strdup(text);
    bool room = ferryi_store_promise(store, 1) == FERRY_OK;
    ferryi_store_lock(store);
    char *old = store->lost_text;
    store->lost_status = status;
    store->lost_text = copy;
    /* Without room for the split more is lost than need be, never less. */
    if (room)
        ferryi_valid_map_commit(&store->map, place, FERRYI_CHANGE_LOSE, begin, end);
    else
        ferryi_valid_map_commit_whole(&store->map, place, FERRYI_CHANGE_LOSE);
    ferryi_store_unlock_waking(store);
    free(old);
}
