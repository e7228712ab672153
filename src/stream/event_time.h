/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EVENT_TIME_H
#define FERRYI_EVENT_TIME_H

/*
 * The time of an event that was recorded with FERRY_EVENT_TIMED. Such an event has a timed event of
 * the device beside its sync point, because the events in a timeline's ring carry no time and are
 * reused. The context lists the timed events and destroys them when it ends, while the devices are
 * still open.
 */

#include "src/stream/event.h"

/* Creates the device's event and records it on the stream, which must not be in capture mode. After
 * a failure the event can only be released. */
ferry_status ferryi_event_time_record(ferry_event *event, ferryi_timeline *timeline);
/* Destroys the device's event. Has no effect on an event that is not timed, or whose context has
 * ended. */
void ferryi_event_time_end(ferry_event *event);
/* Destroys the device's events of all timed events. Called when the context ends, while the devices
 * are still open. */
void ferryi_event_times_close(ferry_context *context);

#endif
