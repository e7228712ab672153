/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EVENT_TIME_H
#define FERRYI_EVENT_TIME_H

/*
 * The time of an event that was recorded with FERRY_EVENT_TIMED. Such an event has a timed event of
 * the device beside its sync point, because the events of a stream's ring keep no time and are
 * recorded again. The context lists the timed events, so that its end gives them back while the
 * devices are open.
 */

#include "src/stream/event.h"

/* Creates the device's event and records it on the stream, which is not being captured. After a
 * failure the event can only be released. */
ferry_status ferryi_event_time_record(ferry_event *event, ferryi_timeline *timeline);
/* Gives the device's event back. Has no effect on an event that is not timed, or whose context has
 * ended. */
void ferryi_event_time_end(ferry_event *event);
/* The context ends: gives back the device's events of all its timed events. The devices are still
 * open. */
void ferryi_event_times_close(ferry_context *context);

#endif
