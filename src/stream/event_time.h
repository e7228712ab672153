/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EVENT_TIME_H
#define FERRYI_EVENT_TIME_H

/*
 * The time of an event that was recorded with FERRY_EVENT_TIMED. In addition to its sync point,
 * such an event has a timed event of the device. The events in a timeline's ring cannot serve,
 * because they do not measure time and are reused. The context lists its timed events. When the
 * context ends, it destroys them while the devices are still open.
 */

#include "src/stream/event.h"

/* Creates the device's timed event and records it on the timeline's stream, which must not be in
 * capture mode. After a failure, the caller can only release the event. */
ferry_status ferryi_event_time_record(ferry_event *event, ferryi_timeline *timeline);
/* Destroys the device's timed event. Does nothing if the event is not timed or its context has
 * ended. */
void ferryi_event_time_end(ferry_event *event);
/* Destroys the device's timed event of every event in the context's list. Called when the context
 * ends, while the devices are still open. */
void ferryi_event_times_close(ferry_context *context);

#endif
