/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CHECKED_H
#define FERRYI_CHECKED_H

/*
 * In a checked run (a run with debug checks), the buffers report events to src/debug. The reports
 * cover opened and closed ranges of host replicas, leases on these replicas, and the end of the
 * replicas. src/debug does not know the internal structs of buffers. Therefore this file computes
 * which bytes of a host replica the program may use. It uses the buffer's valid map, open range
 * locks and pins.
 *
 * In a run that is not checked, each function returns after one branch. In a checked run, the state
 * word of each buffer contains FERRYI_STORE_CHECKED. The fast path that opens scopes requires a
 * state word of 0, so all scopes of such a buffer take the slow path. The fast path therefore needs
 * no branch for checked runs.
 */

#include "src/debug/guard_pages.h"
#include "src/store/store.h"

/* Rounds the size and the alignment of a host replica up to whole pages. Does nothing unless the
 * run is checked. */
void ferryi_checked_size(const ferryi_store *store, int place, size_t *bytes, size_t *align);

/* Reports that the program opened a scope or called ferry_buffer_hold(). `pointer` points into the
 * replica at `place`. Returns the address to pass to the program. */
void *ferryi_checked_opened(ferryi_store *store, int place, void *pointer, const char *call,
                            ferryi_site site, struct ferryi_range range);
/* Updates the protection of the host replica's pages. Called after scopes, pins or the valid map
 * have changed. Called without the buffer's lock. */
void ferryi_checked_closed(ferryi_store *store);

/* ferryi_checked_leased() reports that a lease at `place` was opened. ferryi_checked_unleased()
 * reports that a lease is about to be destroyed. */
void ferryi_checked_leased(ferryi_store *store, int place, struct ferryi_guard_note *note,
                           const char *label, struct ferryi_range range);
void ferryi_checked_unleased(ferryi_store *store, struct ferryi_guard_note *note);

/* Checks `memory`, which the program passed as host memory. In a checked run, fails with
 * INVALID_ARGUMENT if `memory` belongs to a device of the buffer's context. In other runs, does
 * nothing. `what` is the beginning of the error message. */
ferry_status ferryi_checked_memory(ferryi_store *store, const void *memory, const char *what);

/* Checks memory that the program wraps at `place`. In a checked run, fails with INVALID_ARGUMENT if
 * the host cannot use memory that is wrapped as its own, or a device cannot use memory that is
 * wrapped as the device's. `name` is the name of the buffer, or NULL. */
ferry_status ferryi_checked_wrap(const ferry_context *context, const char *name, const void *memory,
                                 size_t bytes, int place);
/* In a checked run, logs a warning if another buffer of the context wraps some of the same bytes,
 * and one of the two may write. */
void ferryi_checked_wrapped(ferryi_store *store);

/* Reports that the memory of a replica is about to be freed. Called without the buffer's lock.
 * `why` is a string literal that completes messages, such as "was destroyed". */
static inline void
ferryi_checked_gone(const ferry_context *context, const void *memory, const char *why)
{
    if (context->debug)
        ferryi_guard_pages_retire(memory, why);
}

#endif
