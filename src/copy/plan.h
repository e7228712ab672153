/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_H
#define FERRYI_PLAN_H

/*
 * A plan: copies that are claimed together and then run, level by level (levels.h), so that they
 * come to what they come to one by one. It claims exactly the bytes that its copies touch, once,
 * for as long as it lasts. Where bytes come from and go to is decided when their level is reached,
 * from the map of that moment; what arrived is committed piece by piece.
 */

#include "src/copy/regions.h"
#include "src/copy/whole_call.h"
#include "src/transfer/batch.h"

struct ferryi_plan_options {
    const char *reason; /* for traces and messages, such as "copy" */
    enum ferryi_layout layout;
    int place; /* that the stores are written at; -1: where they are current */
    const ferry_copy_options *transfer; /* or NULL; copied */
    struct ferryi_whole_call
        *whole; /* the call that the plan is a step of, which then has the options; or NULL */
};

/*
 * Plans, claims and runs plain regions, row by row, which are the caller's again when this returns:
 * on this thread, or on the helper thread where `event` is not NULL. A region whose sides overlap
 * goes by way of memory in between, as memmove() does.
 */
ferry_status ferryi_plan_regions(ferry_context *context, const struct ferryi_region *regions,
                                 size_t count, const struct ferryi_plan_options *options,
                                 ferry_event **event);

#endif
