/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PACE_H
#define FERRYI_PACE_H

/*
 * The pace of work that a device does by itself, and that somebody may stop: part by part, of which no more than two are queued at
 * once, so that who watches sees how far the device is, and a stop is heard in time.
 */

#include "src/device/lane.h"

#define FERRYI_PACE_PARTS 2

struct ferryi_pace {
    ferryi_lane *lane;
    const struct ferryi_log *log;
    void *events[FERRYI_PACE_PARTS]; /* of the parts that are queued */
    size_t begun;
};

/* Before a part is queued: waits for the one before the last. */
ferry_status ferryi_pace_begin(struct ferryi_pace *pace);
/* After it was queued. */
ferry_status ferryi_pace_end(struct ferryi_pace *pace);
/* Keeps this thread's sentence; what is queued goes on. */
void ferryi_pace_clear(struct ferryi_pace *pace);

/* Destroy an event; a failure is logged and leaves this thread's sentence alone. */
void ferryi_pace_drop_event(const struct ferryi_log *log, ferryi_device *device, void *event);

#endif
