/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_THROTTLE_H
#define FERRYI_THROTTLE_H

/*
 * Limits how far a cancellable transfer runs ahead of the device. The transfer queues its work in
 * parts, of which at most two are queued at the same time. So the reported progress follows the
 * device, and a cancel takes effect soon.
 */

#include "src/stream/timeline.h"

#define FERRYI_THROTTLE_PARTS 2

struct ferryi_throttle {
    ferryi_timeline *timeline;
    const struct ferryi_log *log;
    void *events[FERRYI_THROTTLE_PARTS]; /* one event for each queued part */
    size_t begun;
};

/* Waits until at most one earlier part is still queued. Must be called before a part is queued. */
ferry_status ferryi_throttle_begin(struct ferryi_throttle *throttle);
/* Must be called after a part was queued. */
ferry_status ferryi_throttle_end(struct ferryi_throttle *throttle);
/* Destroys the throttle's events without waiting for queued parts. Keeps this thread's error
 * message. */
void ferryi_throttle_clear(struct ferryi_throttle *throttle);

/* Destroys an event of the device. A failure is only logged. Keeps this thread's error message. */
void ferryi_throttle_drop_event(const struct ferryi_log *log, ferryi_device *device, void *event);

#endif
