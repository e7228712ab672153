/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_LEASE_H
#define FERRYI_BUFFER_LEASE_H

/*
 * Leases: scopes on the heap. A store lists its live leases, open and closed, under its lock. Each
 * of them counts as a handle on the store and as a hold on the copy at its place, so that what
 * keeps views alive and held copies in place keeps leases too.
 */

#include <ferry/lease.h>

#include "src/buffer/guard.h"
#include "src/buffer/scope.h"

struct ferry_lease {
    atomic_int shares; /* owners; 0: it was destroyed, and a checked run keeps it */
    atomic_bool closed;
    uint8_t place;
    bool is_unordered; /* at a device, without a stream that Ferry knows */
    ferryi_store *store;
    ferry_context *context;       /* owned */
    const ferry_element *element; /* of the range, interned */
    void *pointer;                /* to its first element; NULL for zero elements */
    size_t bytes;                 /* of the range */
    ferry_access access;
    struct ferryi_scope scope; /* constant from the end of the open on; of zero elements: closed */
    struct ferry_lease *next, *prev; /* of its store, under the store's lock; the youngest first */
    struct ferryi_guard_note note;   /* in checked runs */
    char label[];
};

FERRYI_REQUIRES(ferryi_store_spin)
static inline uint32_t
ferryi_lease_count(const ferryi_store *store)
{
    const struct ferryi_store_extra *extra = ferryi_store_extra_of(store);
    return extra ? extra->lease_count : 0;
}

/* How many live leases hold the copy at the place. */
FERRYI_REQUIRES(ferryi_store_spin) uint32_t ferryi_leases_at(const ferryi_store *store, int place);
/* The label of the lease that the claim belongs to; NULL: it is of no lease. */
FERRYI_REQUIRES(ferryi_store_spin)
const char *ferryi_lease_label(const ferryi_store *store, const struct ferryi_claim *claim);
/* Their labels, as "numpy, step.py:12; torch"; those without one are left out. `text` may be NULL
 * for no bytes. @return the length, as of snprintf() */
FERRYI_REQUIRES(ferryi_store_spin)
size_t ferryi_lease_labels(const ferryi_store *store, char *text, size_t text_bytes);
/*
 * Adds an owner to a lease that is open, and returns false for a closed one. It decides under the
 * store's lock, so that a close on another thread comes before or after it.
 */
bool ferryi_lease_share(ferry_lease *lease);
/* Fails with BUSY when the store has leases, or leases at the place (any: FERRYI_PLACE_NONE).
 * Without the lock. */
ferry_status ferryi_leases_check_none(ferryi_store *store, int place, const char *what);

#endif
