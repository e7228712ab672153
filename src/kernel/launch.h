/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_LAUNCH_H
#define FERRYI_LAUNCH_H

/*
 * One launch: its arguments, checked, and the accesses that they need. Lives on the launching
 * thread's stack; what a host body needs later is copied (host_call.c).
 */

#include "src/buffer/access.h"
#include "src/kernel/call.h"
#include "src/kernel/kernel.h"

struct ferryi_launch_plan {
    ferry_kernel *kernel;
    ferry_stream *stream;
    ferryi_timeline *timeline; /* the stream's */
    ferry_grid grid;           /* no zeros */
    const ferry_argument *arguments;
    size_t count; /* of arguments: the kernel's parameters */
    /* Room for `count` of each; index[i] is where argument i's range went, or SIZE_MAX for values
     * and empty arrays. */
    struct ferryi_access *wanted, *merged;
    size_t *index, *group;
    size_t wanted_count, merged_count;
};

/* Where argument i's array begins, once the accesses are open; NULL for an empty one. */
void *ferryi_launch_array(const struct ferryi_launch_plan *plan, size_t i);
/* Where argument i's value lies, in the caller's hands. */
const void *ferryi_launch_value(const struct ferryi_launch_plan *plan, size_t i);

/* -- host_call.c ------------------------------------------------------------------------------- */

struct ferryi_host_call;

/* Copy what the body needs. */
ferry_status ferryi_host_call_make(const struct ferryi_launch_plan *plan,
                                   struct ferryi_host_call **out);
/* Queue it on the plan's timeline. After a failure it was not queued, and is gone. */
ferry_status ferryi_host_call_queue(struct ferryi_host_call *call, ferryi_timeline *timeline);
/* What the launch writes is about to be committed. */
void ferryi_host_call_commit(struct ferryi_host_call *call);
/* What the launch writes was committed: from now on a failure takes it back. */
void ferryi_host_call_committed(struct ferryi_host_call *call);

#endif
