/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_H
#define FERRYI_PLAN_H

/*
 * A plan: copies that are claimed together and then run, level by level (levels.h), so that they
 * come to what they come to one by one. It claims exactly the bytes that its copies touch, once,
 * for as long as it lasts. Where bytes come from and go to is decided when their level is reached,
 * from the map of that moment; what arrived is committed piece by piece.
 */

#include "src/copy/async.h"
#include "src/transfer/batch.h"

/* One copy. Of a store, a position is an offset; of the caller's memory, an address. */
struct ferryi_plan_copy {
    ferryi_store *target_store, *source_store; /* NULL: the caller's memory; not both */
    uintptr_t target, source;
    size_t bytes; /* more than 0 */
    bool between; /* the target is memory on the way to another copy's: no progress is told of it */
};

struct ferryi_plan_options {
    const char *reason; /* for traces and messages, such as "copy" */
    enum ferryi_layout layout;
    int place; /* that the stores are written at; -1: where they are current */
    const ferry_copy_options *transfer; /* or NULL; copied */
    struct ferryi_copy_whole
        *whole; /* the call that the plan is a step of, which then has the options; or NULL */
};

typedef struct ferryi_plan ferryi_plan;

/*
 * Plan `count` copies, which are the caller's again when this returns. A copy whose own ranges
 * overlap goes by way of memory in between, as memmove() does. The stores are kept alive by
 * somebody until the plan is claimed.
 */
ferry_status ferryi_plan_make(ferry_context *context, const struct ferryi_plan_copy *copies,
                              size_t count, const struct ferryi_plan_options *options,
                              ferryi_plan **out);
/* All is claimed, or nothing. */
ferry_status ferryi_plan_claim(ferryi_plan *plan);
/* After the claim: runs the copies and lets the claims go. `event` is what another thread follows
 * and stops it by, or NULL. `*out_last` is the last work on devices. */
ferry_status ferryi_plan_run(ferryi_plan *plan, ferry_event *event, ferryi_sync_point *out_last);
void ferryi_plan_free(ferryi_plan **plan);

/* Make, claim and run one on this thread. */
ferry_status ferryi_plan_do(ferry_context *context, const struct ferryi_plan_copy *copies,
                            size_t count, const struct ferryi_plan_options *options);
/* Make and claim one, and run it on the helper thread. `out` may be NULL. */
ferry_status ferryi_plan_start(ferry_context *context, const struct ferryi_plan_copy *copies,
                               size_t count, const struct ferryi_plan_options *options,
                               ferry_event **out);

#endif
