/* SPDX-License-Identifier: MIT */
#include "src/buffer/store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/guarded.h"
#include "src/base/sanitizer.h"
#include "src/buffer/bodies.h"
#include "src/buffer/buffer.h"
#include "src/buffer/guard.h"

/* From here on walks under the lock take long enough that others should sleep instead of spin. */
#define CROWDED_SEGMENTS 64
#define CROWDED_CLAIMS 32

#define SPINS_BEFORE_YIELD 64

/* Copies above this turn pinned; smaller ones do not begin with a page, and gain little. */
#define PIN_ABOVE ((size_t)64 << 10)
/* A transfer of less than this part of a copy does not count: page-locking costs by the size of the whole. */
#define CROSSING_PART 8

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
    store->crowded = store->map.room->segment_count > CROWDED_SEGMENTS || store->claim_count > CROWDED_CLAIMS;
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

/* Stores that went are kept, with their tables of claims and the room in their maps: temporary buffers need no memory but their
 * copies'. Where use after release is looked for they are not. */
#define KEEPS_STORES (!FERRYI_ADDRESS_SANITIZER)
#define SPARE_STORES 32
#define SPARE_CLAIMS 64 /* a larger table is not kept */

static void
free_memory(ferryi_store *store)
{
    ferryi_valid_map_clear(&store->map);
    free(store->claims);
    free(store);
}

/* Everything but the room that it has. */
static void
clean(ferryi_store *store, size_t total)
{
    struct ferryi_claim *claims = store->claims;
    uint32_t capacity = store->claim_capacity;
    ferryi_valid_map map = store->map;
    memset(store, 0, total);
    store->claims = claims;
    store->claim_capacity = capacity;
    store->map = map;
}

struct ferryi_store_extra *
ferryi_store_make_extra(ferryi_store *store)
{
    struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    if (extra)
        return extra;
    struct ferryi_store_extra *fresh = calloc(1, sizeof(*fresh));
    if (!fresh || atomic_compare_exchange_strong(&store->extra, &extra, fresh))
        return fresh;
    free(fresh);
    return extra;
}

static void
free_extra(struct ferryi_store_extra *extra)
{
    if (!extra)
        return;
    free(extra->name);
    free(extra->lost_text);
    free(extra);
}

static ferry_status
make_name(const char *name, struct ferryi_store_extra **out)
{
    struct ferryi_store_extra *extra = calloc(1, sizeof(*extra));
    if (extra && (extra->name = strdup(name))) {
        *out = extra;
        return FERRY_OK;
    }
    free(extra);
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create buffer \"%s\": no memory for its name", name);
}

/* Under the list's mutex. In the list, what looks at it finds neither a handle nor a copy yet. */
static void
list(ferry_context *context, ferryi_store *store)
{
    store->next = context->stores;
    *(store->next ? &store->next->prev : &context->oldest_store) = store;
    context->stores = store;
    context->store_count++;
}

static void
begin(ferryi_store *store, ferry_context *context, size_t bytes, const ferry_buffer_options *options)
{
    ferryi_valid_map_reuse(&store->map, bytes);
    store->context = context;
    if (context->debug)
        atomic_init(&store->word, FERRYI_STORE_GUARDED);
    store->references = 1;
    store->memory = (uint8_t)options->memory;
    store->align_shift = options->align ? (uint8_t)__builtin_ctzll(options->align) : 8;
    store->scrub = options->scrub;
    store->borrowed_place = FERRYI_PLACE_NONE;
    store->shared = options->memory == FERRY_MEMORY_MANAGED ? UINT32_MAX : (context->coherent | 1u);
}

/* A store that was kept, or new memory. */
static ferryi_store *
obtain(ferry_context *context, size_t bytes, const ferry_buffer_options *options, bool listed, struct ferryi_store_extra *extra)
{
    size_t total = sizeof(ferryi_store) + (size_t)(context->place_count + 1) * sizeof(struct ferryi_place_copy);
    ferryi_mutex_lock(&context->store_mutex);
    ferryi_store *store = context->spare_stores;
    if (store) {
        context->spare_stores = store->next;
        context->spare_store_count--;
        clean(store, total);
    } else {
        store = calloc(1, total);
    }
    if (store) {
        begin(store, context, bytes, options);
        store->extra = extra;
        if (listed)
            list(context, store);
    }
    ferryi_mutex_unlock(&context->store_mutex);
    return store;
}

ferry_status
ferryi_store_create(ferry_context *context, size_t bytes, const ferry_buffer_options *options, bool listed, ferryi_store **out)
{
    static const ferry_buffer_options defaults;
    if (!options)
        options = &defaults;
    struct ferryi_store_extra *extra = NULL;
    ferry_status status = options->name ? make_name(options->name, &extra) : FERRY_OK;
    if (status != FERRY_OK)
        return status;
    ferryi_store *store = obtain(context, bytes, options, listed, extra);
    if (!store) {
        free_extra(extra);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create a buffer: no memory for its description");
    }
    ferryi_context_retain(context);
    *out = store;
    return FERRY_OK;
}

ferry_buffer *
ferryi_store_open(ferryi_store *store, const ferry_element *interned, size_t count)
{
    ferry_buffer *buffer = &store->first;
    buffer->identity = interned->identity;
    buffer->element = interned;
    buffer->element_bytes = (uint32_t)interned->bytes;
    atomic_init(&buffer->count, count);
    buffer->store = store;
    if (interned->align > ferryi_store_align(store))
        store->align_shift = (uint8_t)__builtin_ctzll(interned->align);
    atomic_store_explicit(&buffer->references, 1, memory_order_release);
    return buffer;
}

void
ferryi_store_unlist(ferryi_store *store)
{
    ferry_context *context = store->context;
    if (!store->prev && context->stores != store)
        return;
    *(store->prev ? &store->prev->next : &context->stores) = store->next;
    *(store->next ? &store->next->prev : &context->oldest_store) = store->prev;
    if (context->hand == store)
        context->hand = store->prev;
    context->store_count--;
    store->next = store->prev = NULL;
}

void
ferryi_store_retain(ferryi_store *store)
{
    ferryi_store_lock(store);
    store->references++;
    ferryi_store_unlock(store);
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
    struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    if (extra && extra->on_release)
        extra->on_release(memory, extra->on_release_user);
    if (extra)
        extra->on_release = NULL;
}

static void
release_copies(ferryi_store *store)
{
    for (int place = 0; place <= store->context->place_count; place++) {
        struct ferryi_place_copy copy = store->copies[place];
        memset(&store->copies[place], 0, sizeof(copy));
        if (copy.block && store->context->debug)
            ferryi_guard_retire(copy.pointer, "was destroyed");
        if (copy.block)
            ferryi_store_give_back(store->context, &copy);
        else if (copy.pointer)
            release_borrowed(store, &copy);
    }
    /* Wrapped memory of no bytes may have no address. */
    const struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    if (extra && extra->on_release)
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

/* Out of the list; kept when there is room, and nobody may still be reading its name. */
static bool
retire(ferry_context *context, ferryi_store *store)
{
    ferryi_mutex_lock(&context->store_mutex);
    ferryi_store_unlist(store);
    bool kept = KEEPS_STORES && !context->debug && context->spare_store_count < SPARE_STORES && store->claim_capacity <= SPARE_CLAIMS && !ferryi_store_extra_of(store);
    if (kept) {
        store->next = context->spare_stores;
        context->spare_stores = store;
        context->spare_store_count++;
    }
    ferryi_mutex_unlock(&context->store_mutex);
    return kept;
}

static void
release_buried(void *header)
{
    ferryi_store *store = header;
    ferry_context *context = store->context;
    free_extra(ferryi_store_extra_of(store));
    free_memory(store);
    ferryi_context_release(context);
}

/* A checked run keeps what tells late users of the handle whose it was, and the context's shell. */
static void
bury(ferryi_store *store)
{
    store->first.identity = FERRYI_BUFFER_GONE;
    ferryi_bury(store, release_buried);
}

void
ferryi_store_free(ferryi_store *store)
{
    ferry_context *context = store->context;
    if (context->inherited)
        return;
    if (atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_DOOMED) {
        /* It is over, but not yet: the claim of bringing bytes back must not free it once more. */
        ferryi_store_lock(store);
        atomic_fetch_and_explicit(&store->word, ~(uint64_t)FERRYI_STORE_DOOMED, memory_order_relaxed);
        ferryi_store_unlock(store);
    }
    end_wrap(store);
    ferryi_bodies_cut(store);
    release_copies(store);
    bool kept = retire(context, store);
    if (!kept && context->debug) {
        bury(store);
        return;
    }
    if (!kept) {
        free_extra(ferryi_store_extra_of(store));
        free_memory(store);
    }
    ferryi_context_release(context);
}

/* The calls that open scopes, as traces and messages name them. */
const char *
ferryi_scope_call(int access, int place)
{
    static const char *const calls[2][4] = {{"open_host", "read_host", "update_host", "overwrite_host"},
                                            {"open_device", "read_device", "update_device", "overwrite_device"}};
    return calls[place != 0][access >= FERRY_READ && access <= FERRY_OVERWRITE ? access : 0];
}

void
ferryi_store_describe_scopes(ferryi_store *store, char *text, size_t text_bytes)
{
    size_t length = 0;
    *text = 0;
    ferryi_store_lock(store);
    for (uint32_t slot = 0; slot < store->claim_high && length < text_bytes; slot++) {
        const struct ferryi_claim *claim = &store->claims[slot];
        if (claim->state == FERRYI_CLAIM_HELD)
            length += (size_t)snprintf(text + length, text_bytes - length, "%s%s of bytes %zu to %zu", length ? ", " : "",
                                       ferryi_scope_call(claim->access, claim->place), claim->begin, claim->end);
    }
    ferryi_store_unlock(store);
}

/* With the lock. To destroy a buffer while scopes of it are open is a mistake; they keep the store. */
static void
report_open_scopes(ferryi_store *store)
{
    uint32_t held = ferryi_store_scopes(store);
    if (held == 0)
        return;
    ferryi_store_unlock(store);
    char scopes[200];
    ferryi_store_describe_scopes(store, scopes, sizeof(scopes));
    ferryi_log(&store->context->log, FERRY_LOG_ERROR, "destroy buffer \"%s\": %u scopes are open; it goes with the last: %s", ferryi_store_name(store),
               held, scopes);
    ferryi_store_lock(store);
}

void
ferryi_store_release(ferryi_store *store)
{
    ferryi_store_lock(store);
    assert(store->references > 0);
    if (store->references == 1 && store->claim_count > 0)
        report_open_scopes(store);
    bool last = --store->references == 0;
    uint32_t claims = store->claim_count;
    if (last && claims > 0)
        atomic_store_explicit(&store->word, atomic_load_explicit(&store->word, memory_order_relaxed) | FERRYI_STORE_DOOMED, memory_order_relaxed);
    ferryi_store_unlock(store);
    if (last && claims == 0)
        ferryi_store_free(store);
}

void
ferryi_stores_clear(ferry_context *context)
{
    while (context->spare_stores) {
        ferryi_store *store = context->spare_stores;
        context->spare_stores = store->next;
        free_memory(store);
    }
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

void
ferryi_store_inherit(ferryi_store *store)
{
    /* Whatever another thread was changing is left as it was, unused: the store is empty, and nobody holds its lock. */
    struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    if (extra) {
        atomic_store(&extra->bodies, NULL);
        extra->lost_text = NULL;
    }
    store->claims = NULL;
    store->claim_count = store->claim_high = store->claim_capacity = store->write_claims = 0;
    store->exists = 0;
    store->crowded = false;
    memset(store->copies, 0, (size_t)(store->context->place_count + 1) * sizeof(store->copies[0]));
    ferryi_valid_map_init(&store->map, store->map.bytes, 0);
    atomic_store(&store->word, FERRYI_STORE_DEAD);
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
    size_t align = ferryi_store_align(store), taken = bytes;
    ferryi_guard_plan(store, place, &taken, &align);
    status = ferryi_pool_take(pool, taken, align, lane, &out->block, &out->pointer);
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

/* Whose memory a place uses. */
static int
home_of(const ferryi_store *store, int place)
{
    return ferryi_store_same_memory(store, place, 0) ? 0 : place;
}

ferry_status
ferryi_store_take(ferryi_store *store, int place, size_t bytes, struct ferryi_place_copy *out)
{
    return take_block(store, home_of(store, place), ferryi_max_size(bytes, 1), out);
}

bool
ferryi_store_install(ferryi_store *store, int place, struct ferryi_place_copy *fresh)
{
    struct ferryi_place_copy *copy = &store->copies[home_of(store, place)];
    /* A resize may have come between. */
    if (!copy->pointer && fresh->pointer && fresh->block->requested >= store->map.bytes) {
        fresh->pins = copy->pins;
        *copy = *fresh;
        *fresh = (struct ferryi_place_copy){0};
    }
    if (copy->pointer)
        store->exists |= FERRYI_PLACE_BIT(place);
    return copy->pointer;
}

ferry_status
ferryi_store_reserve(ferryi_store *store, int place)
{
    struct ferryi_place_copy fresh = {0};
    for (;;) {
        ferryi_store_lock(store);
        bool there = ferryi_store_install(store, place, &fresh);
        size_t bytes = store->map.bytes;
        ferryi_store_unlock(store);
        /* Another thread was first, or the block is too small by now. */
        ferryi_store_give_back(store->context, &fresh);
        if (there)
            return FERRY_OK;
        ferry_status status = ferryi_store_take(store, place, bytes, &fresh);
        if (status != FERRY_OK)
            return status;
    }
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
ferryi_store_give_back(ferry_context *context, struct ferryi_place_copy *copy)
{
    if (!copy->block)
        return;
    if (context->debug)
        ferryi_guard_retire(copy->pointer, "gave its host copy up since (invalidate, evict)");
    if (copy->crossings > 0 && context->engine)
        ferryi_pins_remove_own(ferryi_engine_pins(context->engine), copy->pointer, copy->block->bytes);
    ferryi_stamp stamp = ferryi_stamps_join(&context->order, copy->written, copy->readers);
    ferryi_pool_give(copy->block, stamp);
    memset(copy, 0, sizeof(*copy));
}

/* -- turning pinned -------------------------------------------------------------------------------- */

void
ferryi_store_crossed(ferryi_store *store, size_t bytes)
{
    ferry_context *context = store->context;
    ferryi_store_lock(store);
    struct ferryi_place_copy *copy = &store->copies[0];
    size_t whole = store->map.bytes;
    bool counts = copy->block && !copy->pinned && store->memory != FERRY_MEMORY_MANAGED && whole > PIN_ABOVE && bytes >= whole / CROSSING_PART;
    if (counts && copy->crossings < UINT16_MAX)
        copy->crossings++;
    bool due = counts && copy->crossings >= context->pin_after && (uintptr_t)copy->pointer % ferryi_page_bytes() == 0;
    void *memory = copy->pointer;
    size_t rounded = ferryi_min_size((whole + ferryi_page_bytes() - 1) & ~(ferryi_page_bytes() - 1), due ? copy->block->bytes : 0);
    ferryi_store_unlock(store);
    /* The caller's claim keeps the copy where it is. What could not be pinned now is tried again after as many crossings. */
    if (due && !ferryi_pins_add_own(ferryi_engine_pins(context->engine), memory, rounded)) {
        ferryi_store_lock(store);
        store->copies[0].crossings = 1;
        ferryi_store_unlock(store);
    }
}

bool
ferryi_store_is_pinned(ferryi_store *store)
{
    ferryi_store_lock(store);
    struct ferryi_place_copy copy = store->copies[0];
    size_t bytes = store->map.bytes;
    ferryi_store_unlock(store);
    if (!copy.pointer || copy.pinned || bytes == 0 || ferryi_store_is_dead(store))
        return copy.pointer && copy.pinned;
    return ferryi_pins_holds(ferryi_engine_pins(store->context->engine), copy.pointer, bytes);
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
    struct ferryi_store_extra *extra = ferryi_store_make_extra(store);
    bool room = ferryi_store_promise(store, 1) == FERRY_OK;
    ferryi_store_lock(store);
    char *old = copy;
    if (extra) {
        old = extra->lost_text;
        extra->lost_status = status;
        extra->lost_text = copy;
    }
    /* Without room for the split more is lost than need be, never less. */
    if (room)
        ferryi_valid_map_commit(&store->map, place, FERRYI_CHANGE_LOSE, begin, end);
    else
        ferryi_valid_map_commit_whole(&store->map, place, FERRYI_CHANGE_LOSE);
    ferryi_store_unlock_waking(store);
    free(old);
}
