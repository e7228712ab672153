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

#endif
