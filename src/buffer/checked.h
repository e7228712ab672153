/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CHECKED_H
#define FERRYI_CHECKED_H

/*
 * What the buffer reports to src/debug in a checked run: opened and closed ranges of host replicas,
 * leases on these replicas, and the end of the replicas. src/debug does not know stores. Therefore
 * this file computes which bytes of a host replica the program may use, from the store's map,
 * claims and pins.
 *
 * In a run that is not checked, each function returns after one branch. A store of a checked run
 * has FERRYI_STORE_CHECKED set in its word. The hit paths require a word of 0, so all scopes of
 * such a store take the slow path, and the hit paths need no branch for checked runs.
 */

#include "src/buffer/store.h"
#include "src/debug/guard_pages.h"

/* In a checked run, rounds the size and the alignment of a host replica up to whole pages. */
void ferryi_checked_size(const ferryi_store *store, int place, size_t *bytes, size_t *align);

/* Called after the program opened a scope or a hold. `pointer` points into the replica at `place`.
 * Returns the address to pass to the program. */
void *ferryi_checked_opened(ferryi_store *store, int place, void *pointer, const char *call,
                            ferryi_site site, struct ferryi_range range);
/* Called without the store's lock after claims, pins or the map have changed. */
void ferryi_checked_closed(ferryi_store *store);

/* The first is called after a lease at `place` was opened, the second before the lease is
 * destroyed. */
void ferryi_checked_leased(ferryi_store *store, int place, struct ferryi_guard_note *note,
                           const char *label, struct ferryi_range range);
void ferryi_checked_unleased(ferryi_store *store, struct ferryi_guard_note *note);

/* Fails with INVALID_ARGUMENT if `memory`, which the program passed as host memory, is memory of a
 * device of the store's context. Checks only in a checked run. `what` is the beginning of the error
 * message. */
ferry_status ferryi_checked_memory(ferryi_store *store, const void *memory, const char *what);

/* Called without the store's lock, before the memory of a replica is freed. `why` is a literal for
 * messages, such as "was destroyed". */
static inline void
ferryi_checked_gone(const ferry_context *context, const void *memory, const char *why)
{
    if (context->debug)
        ferryi_guard_pages_retire(memory, why);
}

#endif
