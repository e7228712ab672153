/* SPDX-License-Identifier: MIT */
#include "src/store/checked.h"
#include "src/store/place_pool.h"
#include "src/store/store.h"
#include "src/store/watch.h"

#include <string.h>

#include "src/base/callback.h"
#include "src/transfer/engine.h"

/* Only host replicas larger than this are page-locked after several transfers. Smaller replicas do
 * not start on a page boundary, and would gain little. */
#define PIN_ABOVE ((size_t)64 << 10)
/* Ferry page-locks a host replica after several transfers. Only transfers of at least 1/8 of the
 * replica count. Page-locking always covers the whole replica, so a few small transfers are not
 * worth its cost. */
#define COUNTED_PART 8

/* Returns whether the buffer's host memory is to be page-locked. If no device can pin memory, a
 * buffer of pinned memory gets pageable memory and is reported as pageable. */
static bool
is_pinned_memory(const ferryi_store *store)
{
    return store->memory == FERRY_MEMORY_PINNED &&
           ferryi_shell_place_with(store->context, FERRY_CAN_PIN);
}

/* Returns the kind of memory of the replica at `place`. */
static ferry_memory_kind
kind_of(const ferryi_store *store, int place)
{
    if (store->memory == FERRY_MEMORY_MANAGED)
        return FERRY_MEMORY_MANAGED;
    if (place != 0)
        return FERRY_MEMORY_DEVICE;
    return is_pinned_memory(store) ? FERRY_MEMORY_PINNED : FERRY_MEMORY_PAGEABLE;
}

typedef ferry_status pool_take(ferry_pool *pool, size_t bytes, size_t align,
                               ferryi_timeline *timeline, ferry_block **out, void **out_pointer);

/* Allocates a block for a replica. Work of a previous owner may still use a block for a device;
 * `timeline` then waits for this work. `timeline` is the timeline of the first new use, or NULL for
 * a timeline of the transfer engine. A block for the host is always idle. `take` is the function of
 * the pool that allocates it. */
static ferry_status
take_block(ferryi_store *store, int place, size_t bytes, ferryi_timeline *timeline, pool_take *take,
           struct ferryi_place_copy *out)
{
    ferry_pool *pool;
    ferry_memory_kind kind = kind_of(store, place);
    bool on_device = kind == FERRY_MEMORY_DEVICE;
    ferry_status status = ferryi_place_pool(store->context, on_device ? place : 0, kind, &pool);
    if (!on_device ||
        (timeline && (timeline->place != place || !timeline->is_plain || timeline->is_unknown)))
        timeline = NULL;
    if (status == FERRY_OK && on_device && !timeline)
        status = ferryi_store_timeline(store, place, 0, "reserve memory", &timeline);
    if (status != FERRY_OK)
        return status;
    memset(out, 0, sizeof(*out));
    size_t align = ferryi_store_align(store), taken = bytes;
    ferryi_checked_size(store, place, &taken, &align);
    /* The driver keeps advice for whole pages. Replicas in managed memory share no page, so that
     * advice about one does not apply to another. */
    if (kind == FERRY_MEMORY_MANAGED)
        ferryi_guard_pages_round(&taken, &align);
    status = take(pool, taken, align, timeline, &out->block, &out->pointer);
    const ferryi_store *shown = ferryi_store_shown(store);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "reserve %zu bytes %s buffer \"%s\" in %s", bytes,
                              shown == store ? "of" : "for a copy of", ferryi_store_name(shown),
                              ferryi_pool_name(pool));
    /* The previous use of the block may still be running. Recording a write here makes the first
     * write to this replica wait for that use. */
    if (timeline && !ferryi_sync_point_is_done(&store->context->order, out->block->point))
        out->written = ferryi_timeline_sync_point(timeline);
    /* `pinned` means page-locked host memory, so it is false for managed memory and for memory of a
     * coherent device. */
    out->pinned = kind == FERRY_MEMORY_PINNED;
    out->zeroes = store->zero_on_release;
    return FERRY_OK;
}

/* Allocates the transfer counters, if the new replica can take part in a transfer that is counted.
 */
static ferry_status
make_counters(ferryi_store *store, int home)
{
    bool counts = home != FERRY_PLACE_HOST || store->memory == FERRY_MEMORY_MANAGED;
    return counts ? ferryi_store_make_counters(store, "reserve memory of") : FERRY_OK;
}

static ferry_status
take_by(ferryi_store *store, int place, size_t bytes, ferryi_timeline *timeline, pool_take *take,
        struct ferryi_place_copy *out)
{
    int home = ferryi_store_home(store, place);
    FERRYI_OR_RETURN(make_counters(store, home));
    const void *outer = ferryi_callback_thread.store;
    ferryi_callback_thread.store = store;
    ferry_status status = take_block(store, home, ferryi_max_size(bytes, 1), timeline, take, out);
    ferryi_callback_thread.store = outer;
    return status;
}

ferry_status
ferryi_store_take(ferryi_store *store, int place, size_t bytes, ferryi_timeline *timeline,
                  struct ferryi_place_copy *out)
{
    return take_by(store, place, bytes, timeline, ferryi_pool_take, out);
}

ferry_status
ferryi_store_take_spare(ferryi_store *store, int place, size_t bytes, struct ferryi_place_copy *out)
{
    return take_by(store, place, bytes, NULL, ferryi_pool_take_spare, out);
}

bool
ferryi_store_install(ferryi_store *store, int place, struct ferryi_place_copy *fresh)
{
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    /* Since the block was allocated, a resize may have made it too small for the buffer. */
    if (!copy->pointer && fresh->pointer && fresh->block->requested >= store->map.bytes) {
        fresh->pins = copy->pins;
        *copy = *fresh;
        *fresh = (struct ferryi_place_copy){0};
    }
    if (copy->pointer)
        store->exists |= FERRYI_PLACE_BIT(place);
    return copy->pointer;
}

bool
ferryi_store_install_cached(ferryi_store *store, int place)
{
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    ferry_pool *pool =
        __atomic_load_n(&store->context->pools[0][FERRY_MEMORY_PAGEABLE], __ATOMIC_ACQUIRE);
    if (copy != &store->copies[0] || !pool || ferryi_store_align(store) > FERRYI_POOL_ALIGN ||
        store->context->debug || kind_of(store, 0) != FERRY_MEMORY_PAGEABLE)
        return false;
    ferry_block *block = ferryi_pool_take_cached(pool, ferryi_max_size(store->map.bytes, 1));
    if (!block)
        return false;
    copy->pointer = ferry_block_pointer(block);
    copy->block = block;
    copy->zeroes = store->zero_on_release;
    store->exists |= FERRYI_PLACE_BIT(place);
    return true;
}

void
ferryi_store_borrow(ferryi_store *store, int place, void *memory, ferryi_sync_point written,
                    bool read_only)
{
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    copy->pointer = memory;
    copy->written = written;
    store->exists = FERRYI_PLACE_BIT(place);
    store->borrowed_place = (uint8_t)place;
    store->read_only = read_only;
}

ferry_status
ferryi_store_reserve(ferryi_store *store, int place, ferryi_timeline *timeline)
{
    struct ferryi_place_copy fresh = {0};
    for (;;) {
        ferryi_store_lock(store);
        bool there = ferryi_store_install(store, place, &fresh);
        size_t bytes = store->map.bytes;
        ferryi_store_unlock(store);
        /* If the block was not installed, free it. A different thread may have installed its own
         * block first, or a resize may have made this block too small. */
        ferryi_store_give_back(store->context, &fresh);
        if (there)
            return FERRY_OK;
        FERRYI_OR_RETURN(ferryi_store_take(store, place, bytes, timeline, &fresh));
    }
}

/* Returns whether a place that uses the same memory as `place` has a pin. A pin is added before
 * memory is allocated, so a place with a pin may have no replica yet. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_pinned_by_a_sharer(const ferryi_store *store, int place)
{
    bool pinned = false;
    for (int each = 0; each <= store->context->place_count; each++)
        pinned = pinned ||
                 (ferryi_store_same_memory(store, each, place) && store->copies[each].pins > 0);
    return pinned;
}

struct ferryi_place_copy
ferryi_store_detach(ferryi_store *store, int place)
{
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    struct ferryi_place_copy out = {0};
    store->exists &= ~FERRYI_PLACE_BIT(place);
    /* Shared memory is freed only when the last place that uses it drops its replica. */
    bool still_used = (store->shared >> place & 1) && (store->exists & store->shared);
    if (!still_used && copy->block && !is_pinned_by_a_sharer(store, place)) {
        out = *copy;
        memset(copy, 0, sizeof(*copy));
    }
    return out;
}

ferryi_device *
ferryi_store_managing_device(const ferry_context *context)
{
    return context->devices[ferryi_shell_place_with(context, FERRY_CAN_MANAGE_CONCURRENTLY)];
}

/* Withdraws all advice about the managed memory of a replica, before the memory is released. A
 * failure is logged. */
static void
unadvise(ferry_context *context, const struct ferryi_place_copy *copy)
{
    ferryi_device *device = ferryi_store_managing_device(context);
    void *memory = copy->pointer;
    size_t bytes = copy->block->requested;
    if (!device)
        return;
    ferry_status status =
        FERRYI_CALL(device, advise, memory, bytes, FERRY_ADVISE_UNSET_READ_MOSTLY, device);
    if (status == FERRY_OK)
        status = FERRYI_CALL(device, advise, memory, bytes, FERRY_ADVISE_UNSET_PREFERRED_LOCATION,
                             device);
    for (int place = 0; place <= context->place_count && status == FERRY_OK; place++) {
        ferryi_device *user = place ? context->devices[place] : NULL;
        if (!user || (user->capabilities & FERRY_CAN_MANAGE_CONCURRENTLY))
            status =
                FERRYI_CALL(device, advise, memory, bytes, FERRY_ADVISE_UNSET_ACCESSED_BY, user);
    }
    if (status != FERRY_OK)
        ferryi_log(&context->log, FERRY_LOG_WARNING,
                   "withdraw the advice about %zu bytes of managed memory: %s", bytes,
                   ferry_last_error());
}

/* Returns one sync point that covers all uses of the replica, or 0 if they are complete. */
static ferryi_sync_point
join_uses(ferryi_order *order, const struct ferryi_place_copy *copy)
{
    const struct ferryi_uses uses = ferryi_copy_uses(copy);
    ferryi_sync_point last = copy->reads && copy->reads_follow ? 0 : uses.written;
    uint64_t readers = uses.readers;
    if (ferryi_sync_point_is_done(order, last))
        last = uses.read;
    else if (!ferryi_sync_point_is_done(order, uses.read))
        readers |= UINT64_C(1) << ferryi_sync_point_number(uses.read);
    return ferryi_sync_points_join(order, last, readers);
}

void
ferryi_store_give_back(ferry_context *context, struct ferryi_place_copy *copy)
{
    if (!copy->block)
        return;
    ferryi_watch_gone(context, copy->pointer, "gave its host copy up since (invalidate, evict)");
    if (copy->transfers > 0 && context->engine)
        ferryi_pins_remove_own(ferryi_engine_pins(context->engine), copy->pointer,
                               copy->block->bytes);
    if (copy->advised)
        unadvise(context, copy);
    ferryi_sync_point point = join_uses(&context->order, copy);
    if (copy->zeroes)
        ferryi_pool_give_zeroed(copy->block, point);
    else
        ferryi_pool_give(copy->block, point);
    memset(copy, 0, sizeof(*copy));
}

/* -- auto-pinning ------------------------------------------------------------------------------ */

struct to_pin {
    void *memory; /* NULL: nothing */
    size_t bytes;
};

/* Counts a transfer, and returns the memory to page-lock, if any. */
FERRYI_REQUIRES(ferryi_store_spin)
static struct to_pin
count(ferryi_store *store, size_t bytes)
{
    struct ferryi_place_copy *copy = &store->copies[0];
    const size_t whole = store->map.bytes, page = ferryi_page_bytes();
    struct to_pin to_pin = {0};
    if (!copy->block || copy->pinned || store->memory == FERRY_MEMORY_MANAGED ||
        whole <= PIN_ABOVE || bytes < whole / COUNTED_PART ||
        copy->transfers == FERRYI_NEVER_PINNED)
        return to_pin;
    /* `transfers` does not include this transfer yet. So the replica is page-locked at counted
     * transfer number `pin_after` + 1. */
    if (copy->transfers >= store->context->pin_after && (uintptr_t)copy->pointer % page == 0) {
        to_pin.memory = copy->pointer;
        to_pin.bytes = ferryi_min_size((whole + page - 1) & ~(page - 1), copy->block->bytes);
    }
    copy->transfers = (uint16_t)ferryi_min_size(copy->transfers + 1u, FERRYI_NEVER_PINNED - 1);
    return to_pin;
}

/* The caller's claim keeps the replica at its address. If the pinning fails for lack of memory or
 * because of a conflict, it is tried again after about `pin_after` more transfers. */
static void
pin(ferryi_store *store, struct to_pin to_pin)
{
    ferryi_engine *engine = store->context->engine;
    ferry_status status =
        ferryi_pins_add_own(ferryi_engine_pins(engine), to_pin.memory, to_pin.bytes);
    if (status == FERRY_OK)
        return;
    bool later = status == FERRY_ERROR_OUT_OF_MEMORY || status == FERRY_ERROR_CONFLICT;
    ferryi_store_lock(store);
    store->copies[0].transfers = later ? 1 : FERRYI_NEVER_PINNED;
    ferryi_store_unlock(store);
}

void
ferryi_store_count_transfer(ferryi_store *store, size_t bytes)
{
    ferryi_store_lock(store);
    struct to_pin to_pin = count(store, bytes);
    ferryi_store_unlock(store);
    if (!to_pin.memory)
        return;
    FERRYI_KEEP_ERROR(why);
    pin(store, to_pin);
}

struct ferryi_memory
ferryi_store_memory(ferryi_store *store, int place, size_t begin)
{
    const struct ferryi_place_copy *copy = ferryi_claimed_copy(store, place);
    /* Managed memory counts as pinned, because the copy engine of a GPU can use managed memory
     * directly, like pinned memory. */
    bool pinned = copy->pinned || store->memory == FERRY_MEMORY_MANAGED;
    return (struct ferryi_memory){
        .place = place, .pointer = (char *)copy->pointer + begin, .pinned = pinned};
}
