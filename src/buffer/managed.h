/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MANAGED_H
#define FERRYI_MANAGED_H

/* A buffer in managed memory has one replica, which all places share. The driver moves the pages of
 * this replica between the places. Ferry passes hints to the driver only if the program asks for
 * this. */

#include "src/buffer/buffer.h"

/* Asks the driver to move the pages of a range to a place. The request is queued on `timeline`,
 * whose device moves the pages. Fails with UNSUPPORTED if this device accepts no hints. */
ferry_status ferryi_managed_prefetch(ferryi_store *store, struct ferryi_range range, int place,
                                     ferryi_timeline *timeline);

#endif
