/* SPDX-License-Identifier: MIT */
#include "src/store/lease_list.h"
#include "src/store/watch.h"

/* In a checked run, the pages of host replicas are accessible as far as scopes, leases and holds of
 * the program allow. The guard pages (src/debug) do not know the internal structs of buffers. So
 * this file computes which bytes the program may use, from the valid map, open range locks and
 * pins. */

static bool
is_checked(const ferryi_store *store)
{
    return store->context->debug;
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
    FERRYI_EACH_CLAIM (store, claim)
        if (claim->state == FERRYI_CLAIM_HELD &&
            ferryi_store_same_memory(store, claim->place, FERRY_PLACE_HOST))
            ferryi_guard_pages_allow(guard, claim->begin, claim->end,
                                     claim->access == FERRY_READ ? FERRYI_PROTECT_READ
                                                                 : FERRYI_PROTECT_WRITE);
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

void *
ferryi_watch_pointer(ferryi_store *store, int place, void *pointer, const char *call,
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
ferryi_watch_pages(ferryi_store *store)
{
    if (!is_checked(store))
        return;
    struct ferryi_guarded replica = host_replica(store);
    ferryi_guard_pages_update(&replica);
}

void
ferryi_watch_leased(ferryi_store *store, int place, struct ferryi_guard_note *note,
                    const char *label, struct ferryi_range range)
{
    if (is_checked(store) && ferryi_store_same_memory(store, place, FERRY_PLACE_HOST))
        ferryi_guard_pages_add_note(host_replica(store).memory, note, label, range.begin,
                                    range.end);
}

void
ferryi_watch_unleased(ferryi_store *store, struct ferryi_guard_note *note)
{
    if (is_checked(store))
        ferryi_guard_pages_remove_note(host_replica(store).memory, note);
}
