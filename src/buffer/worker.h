/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_WORKER_H
#define FERRYI_WORKER_H

/*
 * The context's helper thread: it runs, in the order of their submission, calls that would block their caller, such as
 * asynchronous copies from pageable memory. Jobs took their claims when they were submitted, so they never wait for each other.
 */

#include "src/context.h"

struct ferryi_job {
    struct ferryi_job *next;
    void (*run)(struct ferryi_job *job); /* frees the job */
};

/* Starts the thread at the first call. */
ferry_status ferryi_worker_submit(ferry_context *context, struct ferryi_job *job);
/* Runs what is queued, then ends the thread. */
void ferryi_worker_stop(ferry_context *context);

#endif
