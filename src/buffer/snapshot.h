/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SNAPSHOT_H
#define FERRYI_SNAPSHOT_H

#include "src/buffer/buffer.h"

/* Writes the snapshot that FERRY_SNAPSHOT asks for, at the first call for a context, and logs it.
 * Does nothing in a callback, which may hold what a snapshot needs. See struct ferryi_store_calls.
 */
void ferryi_snapshot_out_of_memory(ferry_context *context);

#endif
