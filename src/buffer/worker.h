/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_WORKER_H
#define FERRYI_WORKER_H

/*
 * Worker threads of a context, which run calls that would block their caller, such as asynchronous
 * copies from pageable memory. There is one thread for each device and direction, so that an upload
 * does not wait behind a download. One more thread runs all other calls. Each thread runs its calls
 * in the order of their submission. Each call locks its ranges before it is submitted, so queued
 * calls never wait for each other's range locks.
 */

#include "src/stream/shell.h"

/* Numbers of the worker threads that transfer to and from the device at a place. The worker thread
 * for all other calls has number 0. */
#define FERRYI_WAY_TO(place)   (2 * (unsigned)(place))
#define FERRYI_WAY_FROM(place) (2 * (unsigned)(place) + 1)

struct ferryi_job {
    struct ferryi_job *next;
    unsigned way;
    void (*run)(struct ferryi_job *job); /* frees the job */
};

/* Queues a job for the worker thread with the number job->way. Starts the thread if it is not
 * running yet. */
ferry_status ferryi_worker_submit(ferry_context *context, struct ferryi_job *job);
/* Waits until all queued calls have run, then ends the worker threads. */
void ferryi_worker_stop(ferry_context *context);

#endif
