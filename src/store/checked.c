/* SPDX-License-Identifier: MIT */
#include "src/store/checked.h"

#include <stdio.h>

#include "src/store/lease_list.h"

static bool
is_checked(ferryi_store *store)
{
    return atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_CHECKED;
}

/* -- accessible bytes of the host replica ------------------------------------------------------ */

FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_pinned_by_user(const ferryi_store *store)
{
    for (int place = 0; place <= store->context->place_count; place++)
        if (store->copies[place].pins > ferryi_leases_at(store, place) &&
            ferryi_store_same_memory(store, place, FERRY_PLACE_HOST))
            return true;
    return false;
}

/* Returns whether the host replica has the current bytes of the segment. Bytes that were never
 * written count as current everywhere. */
static bool
is_current(const ferryi_store *store, struct ferryi_segment segment)
{
    bool written = ferryi_places_written(segment.places) || (segment.places & FERRYI_LOST);
    return !written || (segment.places & ferryi_store_sharers(store, FERRY_PLACE_HOST));
}

/* Marks in the guard pages (src/debug) which bytes of the host replica are current. While a
 * ferry_buffer_hold() of the program keeps the replica in place, these bytes are also writable. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
report_map(const ferryi_store *store, struct ferryi_guard_pages *guard)
{
    bool pinned = is_pinned_by_user(store);
    for (size_t at = 0; at < store->map.bytes;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        if (is_current(store, segment)) {
            ferryi_guard_pages_mark_current(guard, at, segment.end);
            if (pinned)
                ferryi_guard_pages_allow(guard, at, segment.end, FERRYI_PROTECT_WRITE);
        }
        at = segment.end;
    }
}

/* Passes the ranges of open scopes to the guard pages (src/debug), which protect the replica. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
report_claims(const ferryi_store *store, struct ferryi_guard_pages *guard)
{
    for (uint32_t slot = 0; slot < store->claim_high; slot++) {
        const struct ferryi_claim *claim = &store->claims[slot];
        if (claim->state == FERRYI_CLAIM_HELD && claim->place != FERRYI_PLACE_NONE &&
            ferryi_store_same_memory(store, claim->place, FERRY_PLACE_HOST))
            ferryi_guard_pages_allow(guard, claim->begin, claim->end,
                                     claim->access == FERRY_READ ? FERRYI_PROTECT_READ
                                                                 : FERRYI_PROTECT_WRITE);
    }
}

static bool
report(void *owner, const char *memory, struct ferryi_guard_pages *guard)
{
    ferryi_store *store = owner;
    ferryi_store_lock(store);
    bool same = store->copies[0].pointer == memory;
    if (same) {
        report_map(store, guard);
        report_claims(store, guard);
    }
    ferryi_store_unlock(store);
    return same;
}

/* Describes the host replica for src/debug. Sets `memory` to NULL if there is no host replica, or
 * if it is wrapped memory. */
static struct ferryi_guarded
host_replica(ferryi_store *store)
{
    ferryi_store_lock(store);
    struct ferryi_guarded replica = {.memory =
                                         store->copies[0].block ? store->copies[0].pointer : NULL,
                                     .bytes = store->map.bytes};
    ferryi_store_unlock(store);
    replica.align = ferryi_store_align(store);
    replica.name = ferryi_store_name(store);
    replica.log = &store->context->log;
    replica.report = report;
    replica.owner = store;
    return replica;
}

/* -- events ------------------------------------------------------------------------------------ */

void
ferryi_checked_size(const ferryi_store *store, int place, size_t *bytes, size_t *align)
{
    if (store->context->debug && store->memory != FERRY_MEMORY_MANAGED &&
        ferryi_store_same_memory(store, place, FERRY_PLACE_HOST))
        ferryi_guard_pages_round(bytes, align);
}

void *
ferryi_checked_opened(ferryi_store *store, int place, void *pointer, const char *call,
                      ferryi_site site, struct ferryi_range range)
{
    if (!is_checked(store) || !pointer || !ferryi_store_same_memory(store, place, FERRY_PLACE_HOST))
        return pointer;
    /* The replica is neither moved nor freed, because the caller has locked its range or pinned it.
     */
    struct ferryi_guarded replica = host_replica(store);
    if (!replica.memory)
        return pointer;
    char *alias = ferryi_guard_pages_open(
        &replica, &(struct ferryi_guard_call){
                      .name = call, .begin = range.begin, .end = range.end, .site = site});
    return alias + ((char *)pointer - replica.memory);
}

void
ferryi_checked_closed(ferryi_store *store)
{
    if (!is_checked(store))
        return;
    struct ferryi_guarded replica = host_replica(store);
    ferryi_guard_pages_update(&replica);
}

void
ferryi_checked_leased(ferryi_store *store, int place, struct ferryi_guard_note *note,
                      const char *label, struct ferryi_range range)
{
    if (is_checked(store) && ferryi_store_same_memory(store, place, FERRY_PLACE_HOST))
        ferryi_guard_pages_add_note(host_replica(store).memory, note, label, range.begin,
                                    range.end);
}

void
ferryi_checked_unleased(ferryi_store *store, struct ferryi_guard_note *note)
{
    if (is_checked(store))
        ferryi_guard_pages_remove_note(host_replica(store).memory, note);
}

/* -- memory of the program --------------------------------------------------------------------- */

/* Returns the place of the device whose pool holds the memory; 0 if there is none. */
static int
pool_that_holds(const ferry_context *context, const void *memory)
{
    for (int place = 1; place <= context->place_count; place++) {
        ferry_pool *pool =
            __atomic_load_n(&context->pools[place][FERRY_MEMORY_DEVICE], __ATOMIC_ACQUIRE);
        if (pool && ferryi_pool_holds(pool, memory))
            return place;
    }
    return 0;
}

static ferry_status
refuse_of_device(const ferry_context *context, const char *what, const char *name,
                 const void *memory, int place)
{
    return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                       "%s: buffer \"%s\": %p is memory of %s, not of the host", what, name, memory,
                       context->names[place]);
}

ferry_status
ferryi_checked_memory(ferryi_store *store, const void *memory, const char *what)
{
    ferry_context *context = store->context;
    if (!context->debug)
        return FERRY_OK;
    int place = pool_that_holds(context, memory);
    return place ? refuse_of_device(context, what, ferryi_store_name(store), memory, place)
                 : FERRY_OK;
}

/* Returns who may use the memory, as the device at `place` knows it. Everybody may if the device
 * does not know. */
static unsigned
users_of(const ferry_context *context, const void *memory, int place)
{
    unsigned users = FERRYI_USER_HOST | FERRYI_USER_DEVICE;
    FERRYI_KEEP_ERROR(kept);
    if (FERRYI_CALL(context->devices[place], memory_users, memory, &users) != FERRY_OK)
        users = FERRYI_USER_HOST | FERRYI_USER_DEVICE;
    return users;
}

ferry_status
ferryi_checked_wrap(const ferry_context *context, const char *name, const void *memory,
                    size_t bytes, int place)
{
    if (!context->debug || bytes == 0)
        return FERRY_OK;
    if (place != FERRY_PLACE_HOST)
        return users_of(context, memory, place) & FERRYI_USER_DEVICE
                   ? FERRY_OK
                   : ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                                 "wrap device memory: buffer \"%s\": %p is memory of the host, "
                                 "which %s cannot use: wrap it with ferry_buffer_wrap_host()",
                                 name ? name : "", memory, context->names[place]);
    int holder = pool_that_holds(context, memory);
    for (int device = 1; device <= context->place_count && !holder; device++)
        if (!(users_of(context, memory, device) & FERRYI_USER_HOST))
            holder = device;
    return holder ? refuse_of_device(context, "wrap host memory", name ? name : "", memory, holder)
                  : FERRY_OK;
}

/* Returns whether a buffer wraps some of the `bytes` bytes at `memory`, and may write if `writes`
 * is false. */
static bool
wraps_some(ferryi_store *store, const char *memory, size_t bytes, bool writes)
{
    bool overlaps = false;
    ferryi_store_lock(store);
    if (store->borrowed_place != FERRYI_PLACE_NONE && (writes || !store->read_only)) {
        const char *other = store->copies[store->borrowed_place].pointer;
        overlaps = (uintptr_t)memory < (uintptr_t)other + store->map.bytes &&
                   (uintptr_t)other < (uintptr_t)memory + bytes;
    }
    ferryi_store_unlock(store);
    return overlaps;
}

/* Reads the member of a new buffer that no other thread has a handle of. */
static const char *
wrapped_memory(ferryi_store *store, size_t *out_bytes)
{
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_store_spin));
    *out_bytes = store->map.bytes;
    return store->copies[store->borrowed_place].pointer;
}

void
ferryi_checked_wrapped(ferryi_store *store)
{
    ferry_context *context = store->context;
    char name[128] = "";
    bool found = false;
    if (!context->debug)
        return;
    size_t bytes;
    const char *memory = wrapped_memory(store, &bytes);
    ferryi_mutex_lock(&context->store_mutex);
    for (ferryi_store *other = context->stores; other && bytes > 0 && !found; other = other->next) {
        found = other != store && wraps_some(other, memory, bytes, !store->read_only);
        if (found)
            snprintf(name, sizeof(name), "%s", ferryi_store_name(other));
    }
    ferryi_mutex_unlock(&context->store_mutex);
    if (found)
        ferryi_log(&context->log, FERRY_LOG_WARNING,
                   "wrap memory: buffers \"%s\" and \"%s\" wrap the same bytes, and one may write "
                   "them: each has its own newest values, so use one buffer and views of it",
                   ferryi_store_name(store), name);
}
