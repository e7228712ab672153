/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_H
#define FERRYI_PLAN_H

/*
 * A plan is a list of copies that are claimed together and then run level by level (levels.h). The
 * result is the same as if the copies ran one by one. The plan claims all bytes of its copies at
 * once, and no others, and keeps the claims until it ends. When a level starts, the places of its
 * source and target bytes are chosen from the valid map at that time. Bytes are committed piece by
 * piece as they arrive.
 */

#include "src/copy/regions.h"
#include "src/copy/whole_call.h"
#include "src/transfer/batch.h"

struct ferryi_plan_options {
    const char *reason; /* for traces and messages, such as "copy" */
    enum ferryi_layout layout;
    int place; /* place where the target stores are written; -1: where the target bytes are current
                */
    const ferry_copy_options *transfer; /* options of the transfers, or NULL; they are copied */
    struct ferryi_whole_call
        *whole; /* the call of which the plan is a step, and whose options apply; or NULL */
};

/*
 * Plans, claims and runs plain regions, row by row. Runs them on this thread, or on a worker if
 * `event` is not NULL. The caller may change `regions` after the call returns. A region whose sides
 * overlap is copied through a temporary store, with the result of memmove().
 */
ferry_status ferryi_plan_regions(ferry_context *context, const struct ferryi_region *regions,
                                 size_t count, const struct ferryi_plan_options *options,
                                 ferry_event **event);

#endif
