/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CLAIM_LIST_H
#define FERRYI_CLAIM_LIST_H

/*
 * The claims (range locks) of one call that uses many ranges, such as a copy of a list of regions.
 * The call makes one claim for each buffer. The claim locks exactly the bytes of the buffer that
 * the call reads or writes.
 *
 * A call on a list of regions runs in steps. Each step makes a further claim, on the bytes that it
 * uses. The step's claim does not conflict with the call's claim, whose id is in the step's
 * ferryi_access.under.
 */

#include "src/store/claim.h"
#include "src/transfer/levels.h"

struct ferryi_claim_list {
    struct ferryi_access *items; /* one access for each store, sorted by store */
    size_t count;
    struct ferryi_interval_set *interval_sets; /* the claimed pieces of each item */
    struct ferryi_interval *spans;
};

/* Fills the list with one access for each store (storage of a buffer) that occurs in `uses`. The
 * function does not lock anything: the caller then claims the ranges of these accesses. `uses` must
 * be sorted by their space, which is a store or NULL, and then by begin. Uses whose space is NULL
 * are skipped. The memory of the list is taken from the arena, so the caller must remove all claims
 * (range locks) of the list before it frees the arena. */
ferry_status ferryi_claim_list_make(struct ferryi_claim_list *list, struct ferryi_arena *arena,
                                    const struct ferryi_use *uses, size_t count,
                                    const char *reason);
/* Returns the index of the list's access to the buffer with the storage `store`. Returns
 * `list->count` if there is no such access. */
size_t ferryi_claim_list_find(const struct ferryi_claim_list *list, const ferryi_store *store);

#endif
