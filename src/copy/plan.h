/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_H
#define FERRYI_PLAN_H

/*
 * A plan: copies that are claimed together and then run, level by level (levels.h), so that they
 * come to what they come to one by one. It claims exactly the bytes that its copies touch, once,
 * for as long as it lasts. Where bytes come from and go to is decided when their level is reached,
 * from the map of that moment; what arrived is committed piece by piece.
 */

#include "src/copy/whole_call.h"
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
    struct ferryi_whole_call
        *whole; /* the call that the plan is a step of, which then has the options; or NULL */
};

/*
 * Plans, claims and runs `count` copies, which are the caller's again when this returns: on this
 * thread, or on the helper thread where `event` is not NULL. A copy whose own ranges overlap goes
 * by way of memory in between, as memmove() does. The caller keeps the stores alive until the plan
 * is claimed.
 */
ferry_status ferryi_plan_copy(ferry_context *context, const struct ferryi_plan_copy *copies,
                              size_t count, const struct ferryi_plan_options *options,
                              ferry_event **event);

#endif
