/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/store/watch.h"

/* In a checked run, finds the waste that the report of a trace lists: bytes that a scope, a launch
 * or a prefetch brought to its place, and that were all overwritten before anything read them. */

#define FETCHES 8 /* newest fetches of a buffer that are remembered; older ones are forgotten */

struct fetch {
    struct ferryi_range range; /* from the first to the last byte that was brought; {0}: none */
    uint64_t access;           /* id of the access that needed them */
    int source, place;
    const char *call;
    ferryi_site site;
};

struct ferryi_waste {
    struct fetch fetches[FETCHES]; /* newest first */
    bool over; /* the waste was logged once, or the program holds a replica, which it may read */
};

/* Returns what is known about the buffer. Makes it if `make` is true. Returns NULL if there is
 * nothing, or no memory for it. */
FERRYI_REQUIRES(ferryi_store_spin)
static struct ferryi_waste *
waste_of(const ferryi_store *store, bool make)
{
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    if (cold && !cold->waste && make)
        cold->waste = calloc(1, sizeof(*cold->waste));
    return cold ? cold->waste : NULL;
}

static bool
is_fetch(const struct ferryi_access *access)
{
    return access->user || access->is_launch || strcmp(access->reason, "prefetch") == 0;
}

void
ferryi_watch_fetched(const struct ferryi_access *access, const struct ferryi_map_move *copy)
{
    ferryi_store *store = access->store;
    if (!store->context->debug || !is_fetch(access) || !ferryi_store_make_cold(store))
        return;
    ferryi_store_lock(store);
    struct ferryi_waste *waste = waste_of(store, true);
    struct fetch *newest = waste ? waste->fetches : NULL;
    if (newest && newest->access == access->id) {
        newest->range.begin = ferryi_min_size(newest->range.begin, copy->begin);
        newest->range.end = newest->range.end > copy->end ? newest->range.end : copy->end;
    } else if (newest) {
        memmove(newest + 1, newest, (FETCHES - 1) * sizeof(*newest));
        *newest = (struct fetch){.range = {copy->begin, copy->end},
                                 .access = access->id,
                                 .source = copy->source,
                                 .place = access->place,
                                 .call = access->reason,
                                 .site = access->site};
    }
    ferryi_store_unlock(store);
}

/* Forgets the fetches that overlap the range. Returns in `out` one that lies wholly inside of it.
 */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
forget(struct ferryi_waste *waste, struct ferryi_range range, struct fetch *out)
{
    bool found = false;
    for (int i = 0; i < FETCHES; i++) {
        struct fetch *fetch = &waste->fetches[i];
        if (!ferryi_overlap(fetch->range.begin, fetch->range.end, range.begin, range.end))
            continue;
        if (range.begin <= fetch->range.begin && fetch->range.end <= range.end) {
            *out = *fetch;
            found = true;
        }
        fetch->range = (struct ferryi_range){0};
    }
    return found;
}

static void
warn(const ferryi_store *store, const struct fetch *fetch, const char *call)
{
    const char *by = ferryi_site_text(fetch->site);
    char(*names)[32] = store->context->names;
    ferryi_log(
        &store->context->log, FERRY_LOG_WARNING,
        "%s%s%s copied bytes %zu to %zu of buffer \"%s\" from %s to %s, and %s overwrote them "
        "before anything else read them: if %s does not read them either, open with "
        "FERRY_OVERWRITE, which copies nothing (logged once for each buffer)",
        fetch->call, *by ? ", by " : "", by, fetch->range.begin, fetch->range.end,
        ferryi_store_name(store), names[fetch->source], names[fetch->place], call, fetch->call);
}

void
ferryi_watch_waste(ferryi_store *store, struct ferryi_range range, uint8_t access, const char *call)
{
    struct fetch fetch;
    if (!store->context->debug)
        return;
    ferryi_store_lock(store);
    struct ferryi_waste *waste = waste_of(store, false);
    bool wasted =
        waste && !waste->over && forget(waste, range, &fetch) && access == FERRY_OVERWRITE;
    if (wasted)
        waste->over = true;
    ferryi_store_unlock(store);
    if (wasted)
        warn(store, &fetch, call);
}

void
ferryi_watch_no_waste(ferryi_store *store)
{
    if (!store->context->debug || !ferryi_store_make_cold(store))
        return;
    ferryi_store_lock(store);
    struct ferryi_waste *waste = waste_of(store, true);
    if (waste)
        waste->over = true;
    ferryi_store_unlock(store);
}
