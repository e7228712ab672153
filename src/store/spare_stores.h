/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SPARE_STORES_H
#define FERRYI_SPARE_STORES_H

#include "src/stream/shell.h"

/*
 * Spare stores: the storage of destroyed buffers, which waits for new ones. A spare store keeps its
 * table of range locks, the memory of its valid map, its reference to the context and its place in
 * the context's list. So a temporary buffer allocates only the memory of its replicas, and takes no
 * mutex. Each thread looks at one row of a few slots.
 *
 * In the list, a spare store looks like a store that is about to be freed: it has no reference, no
 * range lock and no replica. Whoever walks the list holds its mutex and the lock of each store.
 */

/* Returns a spare store of this thread's row, or NULL if there is none. */
struct ferryi_store *ferryi_spare_store_take(ferry_context *context);
/* Same, but looks at all rows. */
struct ferryi_store *ferryi_spare_store_take_any(ferry_context *context);
/* Makes a store spare. Returns false if this thread's row is full. */
bool ferryi_spare_store_put(ferry_context *context, struct ferryi_store *store);

#endif
