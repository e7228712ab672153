/* SPDX-License-Identifier: MIT */
#include "src/store/claim.h"

/* Accesses that rely on open writes of the same stream. */

static bool
is_relied_on(const struct ferryi_claim *claim, const struct ferryi_access *access)
{
    return claim->state == FERRYI_CLAIM_HELD && ferryi_claim_writes(claim->access) &&
           !claim->same_timeline_seen && claim->begin < access->end && access->begin < claim->end &&
           ferryi_claim_same_stream(claim, access);
}

void
ferryi_claim_rely(struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    for (uint32_t slot = 0; access->meets_own && slot < store->claim_high; slot++)
        access->relied += is_relied_on(&store->claims[slot], access);
    if (access->relied > 0)
        store->claims[access->slot].state = FERRYI_CLAIM_RELYING;
}

void
ferryi_claim_end_relied(struct ferryi_access *access, bool commits)
{
    ferryi_store *store = access->store;
    for (uint32_t slot = 0; commits && access->relied > 0 && slot < store->claim_high; slot++) {
        struct ferryi_claim *claim = &store->claims[slot];
        if (!is_relied_on(claim, access))
            continue;
        ferryi_valid_map_commit(&store->map, claim->place, FERRYI_CHANGE_WRITE, claim->begin,
                                claim->end);
        claim->same_timeline_seen = true;
        access->relied--;
    }
    ferryi_valid_map_unreserve(&store->map, access->relied);
    access->relied = 0;
}

struct ferryi_range
ferryi_claim_uncovered(const ferryi_store *store, const struct ferryi_access *access, size_t at)
{
    struct ferryi_range part = {at, access->end};
    uint32_t slot = 0;
    while (access->meets_own && part.begin < part.end && slot < store->claim_high) {
        const struct ferryi_claim *claim = &store->claims[slot++];
        if (!is_relied_on(claim, access) || claim->end <= part.begin)
            continue;
        if (claim->begin > part.begin) {
            part.end = ferryi_min_size(part.end, claim->begin);
            continue;
        }
        /* The part now begins at a later byte. Claims that were examined before may cover the new
         * begin or shorten the part. So the search restarts with the first claim. */
        part = (struct ferryi_range){ferryi_min_size(claim->end, access->end), access->end};
        slot = 0;
    }
    return part;
}

const struct ferryi_claim *
ferryi_claim_relying(const ferryi_store *store, const struct ferryi_claim *write)
{
    for (uint32_t slot = 0; slot < store->claim_high; slot++) {
        const struct ferryi_claim *claim = &store->claims[slot];
        if (claim->state == FERRYI_CLAIM_RELYING && claim->timeline == write->timeline &&
            claim->generation == write->generation &&
            (!claim->timeline->by_thread || claim->thread == write->thread) &&
            claim->begin < write->end && write->begin < claim->end)
            return claim;
    }
    return NULL;
}
