/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_INSIDE_H
#define FERRYI_PLAN_INSIDE_H

/* A plan, inside: shared by plan.c, which makes it, and plan_run.c, which runs it. */

#include "src/copy/plan.h"

/* One copy. Of a store, a position is an offset; of the caller's memory, an address. */
struct ferryi_plan_copy {
    ferryi_store *target_store, *source_store; /* NULL: the caller's memory; not both */
    uintptr_t target, source;
    size_t bytes; /* more than 0 */
    bool between; /* the target is memory on the way to another copy's: no progress is reported of
                     it */
};

typedef struct ferryi_plan {
    struct ferryi_whole_call call; /* first */
    struct ferryi_plan_options options;
    struct ferryi_plan_copy *copies; /* level after level */
    size_t count;
    size_t *level_ends; /* in copies */
    uint32_t level_count;
    ferryi_store **middles; /* that overlapping copies go by way of */
    size_t middle_count;
    size_t *crossed; /* by claim: bytes of the host copy that went to a device or came from one */
    size_t *carried; /* by claim, while a group is counted: its bytes of the store */
    struct ferryi_piece *pieces; /* of the level that runs */
    size_t piece_count, piece_room;
} ferryi_plan;

/* Runs the copies, level by level. */
ferry_status ferryi_plan_run(struct ferryi_whole_call *call);

#endif
