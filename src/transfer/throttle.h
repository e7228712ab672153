/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_THROTTLE_H
#define FERRYI_THROTTLE_H

/*
 * Limits how far a cancellable transfer runs ahead of the device. Its work is queued in parts, of
 * which at most two are queued at once, so that progress follows the device and a cancel soon takes
 * effect.
 */

#include "src/stream/timeline.h"

#define FERRYI_THROTTLE_PARTS 2

struct ferryi_throttle {
    ferryi_timeline *timeline;
    const struct ferryi_log *log;
    void *events[FERRYI_THROTTLE_PARTS]; /* one event for each queued part */
    size_t begun;
};

/* Must be called before a part is queued. Waits until at most one earlier part is still queued. */
ferry_status ferryi_throttle_begin(struct ferryi_throttle *throttle);
/* Must be called after a part was queued. */
ferry_status ferryi_throttle_end(struct ferryi_throttle *throttle);
/* Destroys the events without waiting for queued parts. Keeps this thread's error message. */
void ferryi_throttle_clear(struct ferryi_throttle *throttle);

/* Destroys an event. Logs a failure, and keeps this thread's error message. */
void ferryi_throttle_drop_event(const struct ferryi_log *log, ferryi_device *device, void *event);

#endif
