/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_LEASE_LIST_H
#define FERRYI_LEASE_LIST_H

/*
 * A lease is a scope that is allocated on the heap. Each buffer has a list of its live leases, open
 * and closed, which is protected by the buffer's lock. Each lease counts as a reference to the
 * buffer's storage, and as a pin of the replica at the lease's place.
 */

#include <ferry/lease.h>

#include "src/debug/guard_pages.h"
#include "src/store/claim.h"

struct ferry_lease {
    atomic_int shares; /* number of owners; 0 after the lease was destroyed, while a checked run
                           (FERRY_DEBUG) quarantines it */
    atomic_bool closed;
    uint8_t place;
    bool is_unordered; /* whether the program uses the lease at a device, on streams that Ferry does
                          not know */
    ferryi_store *store;
    ferry_context *context;       /* context of the buffer; the lease keeps it alive */
    const ferry_element *element; /* element of the range; interned */
    void *pointer; /* address of the range's first element, or NULL if the range is empty */
    size_t bytes;  /* length of the range in bytes */
    ferry_access access;
    /* the lease's scope; set once, by the open; all zeros if the range is empty */
    struct ferryi_scope scope;
    /* links of the buffer's list of leases, newest first; protected by the buffer's lock */
    struct ferry_lease *next, *prev;
    /* stream of the library that holds the lease, or NULL; released when the lease is destroyed */
    ferry_stream *guest;
    struct ferryi_guard_note note; /* used only in checked runs */
    char label[];
};

/* Creates a lease that holds nothing yet, with a copy of the label. Returns NULL if there is no
 * memory for it. The caller sets the other members and frees it. */
ferry_lease *ferryi_lease_new(const char *label);

/* Adds the lease to the buffer's list of leases, and pins the replica at the lease's place. The
 * caller has already allocated the struct that contains the list. The caller's handle or a
 * different lease keeps the buffer's storage alive during the call. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE void
ferryi_lease_attach(ferry_lease *lease, ferryi_store *store, int place)
{
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    lease->store = store;
    lease->place = (uint8_t)place;
    lease->prev = NULL;
    lease->next = cold->leases;
    if (lease->next)
        lease->next->prev = lease;
    cold->leases = lease;
    cold->lease_count++;
    store->references++;
    store->copies[place].pins++;
}

/* Removes the lease from the buffer's list of leases and removes the lease's pin. The lease keeps
 * its reference to the buffer's storage. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_INLINE void
ferryi_lease_detach(ferry_lease *lease, ferryi_store *store)
{
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    *(lease->prev ? &lease->prev->next : &cold->leases) = lease->next;
    if (lease->next)
        lease->next->prev = lease->prev;
    cold->lease_count--;
    store->copies[lease->place].pins--;
}

FERRYI_REQUIRES(ferryi_store_spin)
static inline uint32_t
ferryi_lease_count(const ferryi_store *store)
{
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    return cold ? cold->lease_count : 0;
}

/* Returns the number of live leases that pin the replica at a place. */
FERRYI_REQUIRES(ferryi_store_spin) uint32_t ferryi_leases_at(const ferryi_store *store, int place);
/* Returns the label of the lease that owns the claim (range lock). Returns NULL if no lease owns
 * the claim. */
FERRYI_REQUIRES(ferryi_store_spin)
const char *ferryi_lease_label(const ferryi_store *store, const struct ferryi_claim *claim);
/*
 * Writes the labels of the buffer's leases, such as "numpy, step.py:12; torch". Leases without a
 * label are omitted. `text` may be NULL if `text_bytes` is 0.
 * @return the untruncated length, as snprintf() returns it
 */
FERRYI_REQUIRES(ferryi_store_spin)
size_t ferryi_lease_labels(const ferryi_store *store, char *text, size_t text_bytes);
/* Fails with BUSY if the buffer has leases at the place, or at any place if `place` is
 * FERRYI_PLACE_NONE. Called without the buffer's lock. */
ferry_status ferryi_leases_check_none(ferryi_store *store, int place, const char *what);

#endif
