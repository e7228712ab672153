/* SPDX-License-Identifier: MIT */
#include "src/store/claim.h"

#include <assert.h>

/* Accesses that rely on open writes of the same stream. */

static bool
is_relied_on(const struct ferryi_claim *claim, const struct ferryi_access *access)
{
    return claim->state == FERRYI_CLAIM_HELD && ferryi_claim_writes(claim->access) &&
           !(claim->flags & FERRYI_CLAIM_SEEN) &&
           ferryi_overlap(claim->begin, claim->end, access->begin, access->end) &&
           ferryi_claim_same_stream(claim, access);
}

void
ferryi_claim_rely(struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    if (!access->meets_own)
        return;
    FERRYI_EACH_CLAIM (store, claim)
        access->relied += is_relied_on(claim, access);
    if (access->relied > 0)
        store->claims[access->slot].state = FERRYI_CLAIM_RELYING;
}

void
ferryi_claim_end_relied(struct ferryi_access *access, bool commits)
{
    ferryi_store *store = access->store;
    if (commits && access->relied)
        FERRYI_EACH_CLAIM (store, claim)
            if (is_relied_on(claim, access)) {
                ferryi_valid_map_commit(&store->map, claim->place, FERRYI_CHANGE_WRITE,
                                        claim->begin, claim->end);
                claim->flags |= FERRYI_CLAIM_SEEN;
                assert(access->relied > 0);
                access->relied--;
            }
    ferryi_valid_map_unreserve(&store->map, access->relied);
    access->relied = 0;
}

struct ferryi_range
ferryi_claim_uncovered(const ferryi_store *store, const struct ferryi_access *access, size_t at)
{
    struct ferryi_range part = {at, access->end};
    struct ferryi_claim *claim = NULL;
    while (access->meets_own && part.begin < part.end &&
           (claim = ferryi_claim_next(store, claim))) {
        if (!is_relied_on(claim, access) || claim->end <= part.begin)
            continue;
        if (claim->begin > part.begin) {
            part.end = ferryi_min_size(part.end, claim->begin);
            continue;
        }
        /* The part now begins at a later byte. Claims that were examined before may cover the new
         * begin or shorten the part. So the search restarts with the first claim. */
        part = (struct ferryi_range){ferryi_min_size(claim->end, access->end), access->end};
        claim = NULL;
    }
    return part;
}

const struct ferryi_claim *
ferryi_claim_relying(const ferryi_store *store, const struct ferryi_claim *scope)
{
    /* An open write keeps all accesses out that do not rely on it. */
    FERRYI_EACH_CLAIM (store, claim)
        if (claim->state == FERRYI_CLAIM_RELYING && ferryi_claim_writes(scope->access) &&
            ferryi_overlap(claim->begin, claim->end, scope->begin, scope->end))
            return claim;
    return NULL;
}
