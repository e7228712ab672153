/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EVENT_TIME_H
#define FERRYI_EVENT_TIME_H

/*
 * The time of an event that was recorded with FERRY_EVENT_TIMED. Such an event has a sync point
 * and, in addition, a timed event of the device. The device events that a timeline keeps for its
 * sync points cannot serve, because they do not measure time and are reused. The context lists its
 * timed events. When the context ends, it destroys them while the devices are still open.
 */

#include "src/stream/event.h"

/* Creates the device's timed event and records it on the timeline's stream, which must not be in
 * capture mode. After a failure, the caller can only release the event. */
ferry_status ferryi_event_time_record(ferry_event *event, ferryi_timeline *timeline);
/* Destroys the device's timed event that belongs to `event`. Does nothing if there is none, or if
 * the context has ended. */
void ferryi_event_time_end(ferry_event *event);
/* Destroys the device's timed event of every event in the context's list. Called when the context
 * ends, while the devices are still open. */
void ferryi_event_times_close(ferry_context *context);

#endif
