/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_LEASE_H
#define FERRYI_BUFFER_LEASE_H

#include "src/buffer/scope.h"
#include "src/store/lease_list.h"

/*
 * Adds an owner to an open lease. Returns false if the lease is closed. Both the check and the
 * increment happen under the buffer's lock, so another thread cannot close the lease in between.
 */
bool ferryi_lease_share(ferry_lease *lease);

/*
 * Creates a lease without an open scope. It holds the memory of the buffer at a place, which it
 * allocates if the place has none, and no bytes are brought there. Its member `pointer` is the
 * address of the first byte of the buffer.
 * @return FERRY_OK; FERRY_ERROR_OUT_OF_MEMORY; FERRY_ERROR_INVALID_STATE (the context is being
 * destroyed); a failure of the device
 */
ferry_status ferryi_lease_hold(ferryi_store *store, int place, const char *label,
                               ferry_lease **out);
/* Removes a lease of either kind and its pin from the buffer, and drops its reference to the
 * buffer's storage. Called without the buffer's lock. */
void ferryi_lease_let_go(ferry_lease *lease);
/* Ends and frees a lease without a scope. Must not be called by a host function. */
void ferryi_lease_release(ferry_lease *lease);

#endif
