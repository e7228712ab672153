/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_THROTTLE_H
#define FERRYI_THROTTLE_H

/*
 * Throttles work that a device does by itself and that can be cancelled. It is queued part by part,
 * two at most at once, so that progress follows the device and a cancel takes effect in time.
 */

#include "src/stream/timeline.h"

#define FERRYI_THROTTLE_PARTS 2

struct ferryi_throttle {
    ferryi_timeline *timeline;
    const struct ferryi_log *log;
    void *events[FERRYI_THROTTLE_PARTS]; /* of the parts that are queued */
    size_t begun;
};

/* Before a part is queued: waits for the one before the last. */
ferry_status ferryi_throttle_begin(struct ferryi_throttle *throttle);
/* After it was queued. */
ferry_status ferryi_throttle_end(struct ferryi_throttle *throttle);
/* Keeps this thread's message; what is queued goes on. */
void ferryi_throttle_clear(struct ferryi_throttle *throttle);

/* Destroy an event; a failure is logged and leaves this thread's message alone. */
void ferryi_throttle_drop_event(const struct ferryi_log *log, ferryi_device *device, void *event);

#endif
