/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MANAGED_H
#define FERRYI_MANAGED_H

/* Managed memory: one copy for all places, whose pages the driver moves. Ferry gives it hints only
 * when asked to. */

#include "src/buffer/buffer.h"

/* Ask the driver to move the pages of a range to a place, on a timeline of the device that does it.
 * UNSUPPORTED where it takes no hints. */
ferry_status ferryi_managed_prefetch(ferryi_store *store, struct ferryi_range range, int place,
                                     ferryi_timeline *timeline);

#endif
