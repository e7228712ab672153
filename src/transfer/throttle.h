/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_THROTTLE_H
#define FERRYI_THROTTLE_H

/*
 * Limits how far a cancellable transfer runs ahead of the device. The transfer queues its work in
 * parts, of which at most two are queued at the same time. So the reported progress follows the
 * device, and a cancel takes effect soon.
 */

#include "src/stream/timeline.h"

struct ferryi_throttle {
    ferryi_timeline *timeline;
    ferryi_sync_point parts[2]; /* the parts that may still be queued */
    size_t begun;
};

/* Waits until at most one earlier part of the transfer is still queued. Must be called before each
 * part is queued. */
ferry_status ferryi_throttle_begin(struct ferryi_throttle *throttle);
/* Must be called after a part was queued. */
ferry_status ferryi_throttle_end(struct ferryi_throttle *throttle);

#endif
