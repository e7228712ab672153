/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_WORKER_H
#define FERRYI_WORKER_H

/*
 * The context's helper threads: they run calls that would block their caller, such as asynchronous
 * copies from pageable memory. There is one for each way that bytes take, to a device and from it,
 * so that an upload does not wait behind a download; and one for what is on no way, or on several.
 * Each runs its calls in the order of their submission. Jobs took their claims when they were
 * submitted, so they never wait for each other.
 */

#include "src/stream/shell.h"

/* Ways of a device place; 0 is that of all other calls. */
#define FERRYI_WAY_TO(place)   (2 * (unsigned)(place))
#define FERRYI_WAY_FROM(place) (2 * (unsigned)(place) + 1)

struct ferryi_job {
    struct ferryi_job *next;
    unsigned way;
    void (*run)(struct ferryi_job *job); /* frees the job */
};

/* Is this thread one of them, of whatever context? */
bool ferryi_worker_is_here(void);
/* Starts the way's thread at its first call. */
ferry_status ferryi_worker_submit(ferry_context *context, struct ferryi_job *job);
/* Runs what is queued, then ends the threads. */
void ferryi_worker_stop(ferry_context *context);

#endif
