/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_H
#define FERRYI_PLAN_H

/*
 * A plan is a list of copies that are claimed together and then run level by level (levels.h), with
 * the same result as if they ran one by one. It claims exactly the bytes of its copies, once, until
 * it ends. The places of the source and target bytes are chosen when their level starts, from the
 * valid map of that moment. Arrived bytes are committed piece by piece.
 */

#include "src/copy/regions.h"
#include "src/copy/whole_call.h"
#include "src/transfer/batch.h"

struct ferryi_plan_options {
    const char *reason; /* for traces and messages, such as "copy" */
    enum ferryi_layout layout;
    const ferry_copy_options *transfer; /* options of the transfers, which are copied; or NULL */
    struct ferryi_whole_call
        *whole; /* the call that the plan is a step of, whose options apply; or NULL */
};

typedef struct ferryi_plan ferryi_plan;

/* Creates an empty plan with room for `count` copies. */
ferry_status ferryi_plan_begin(ferry_context *context, size_t count,
                               const struct ferryi_plan_options *options, ferryi_plan **out);
/* Adds the rows of a plain region. A region whose sides overlap is copied through a temporary
 * store, with the result of memmove(). After a failure the plan can only be dropped. */
ferry_status ferryi_plan_add(ferryi_plan *plan, const struct ferryi_region *region);
/* Frees a plan that was not run; NULL is harmless. */
void ferryi_plan_drop(ferryi_plan *plan);
/* Claims, runs and frees the plan, on this thread, or on the helper thread if `event` is not NULL.
 * `place` is where the target stores are written; -1: where they are current. */
ferry_status ferryi_plan_do(ferryi_plan *plan, int place, ferry_event **event);

/* Plans and runs plain regions on this thread. */
ferry_status ferryi_plan_regions(ferry_context *context, const struct ferryi_region *regions,
                                 size_t count, int place,
                                 const struct ferryi_plan_options *options);

#endif
