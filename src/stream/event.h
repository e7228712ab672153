/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EVENT_H
#define FERRYI_EVENT_H

/* The struct of a public event. An event represents either a sync point (a position in the work of
 * a stream), or the end of a job that a worker thread runs. */

#include "src/stream/stream.h"

FERRYI_MUTEX_CLASS(ferryi_event_mutex);

struct ferry_event {
    atomic_int references;  /* number of references: one for the user, and one for the job until the
                               job ends */
    ferry_context *context; /* the event holds a reference to it */
    struct ferryi_event_mutex mutex;
    ferryi_cond cond;
    bool is_job;
    /* Whether the job has ended; unused if the event represents a position in the work of a
     * stream. */
    FERRYI_GUARDED_BY(ferryi_event_mutex) bool done;
    atomic_bool cancelled;
    atomic_size_t arrived; /* bytes that the job has copied so far */
    size_t bytes;
    atomic_bool heard; /* whether the failure was reported to a caller */
    const char *hint; /* the name of the job in messages if it is a hint, such as "prefetch"; a hint
                         that runs out of memory is logged as information, not as an error. NULL:
                         the job is no hint */
    bool is_unseen;   /* whether the program did not ask for the event */
    ferry_status status;
    char *text; /* message of the failure */
    ferryi_sync_point point;
    struct ferryi_event_time {
        ferryi_device *device; /* NULL if the event is not timed */
        int place;
        void *native; /* the device's native event that measures time; NULL after the context has
                         ended */
        ferry_event *next, **link; /* links in the context's list */
    } time;                        /* only for recorded events; see event.c */
};

/* Fails if the event is NULL or was destroyed, or if its context was destroyed. */
ferry_status ferryi_event_check(const ferry_event *event, const char *what);
ferry_status ferryi_event_new(ferry_context *context, bool is_job, ferry_event **out);
void ferryi_event_release(ferry_event *event);
/* Marks the job of an event as ended. Stores `status` in the event and, after a failure, this
 * thread's error message. `point` is the sync point of the last work that the job queued on a
 * device. */
void ferryi_event_finish(ferry_event *event, ferry_status status, ferryi_sync_point point);
/* Destroys the native device events of all timed events in the context's list. Called when the
 * context ends, while the devices are still open. */
void ferryi_event_times_close(ferry_context *context);

#endif
