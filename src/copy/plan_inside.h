/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_INSIDE_H
#define FERRYI_PLAN_INSIDE_H

/* A plan, inside: shared by plan.c, which makes it, and plan_run.c, which runs it. */

#include "src/buffer/claim_list.h"
#include "src/copy/plan.h"

struct ferryi_plan {
    struct ferryi_async async; /* first; of a started plan */
    ferry_context *context;
    struct ferryi_plan_options options;
    struct ferryi_plan_copy *copies; /* level after level */
    size_t count;
    size_t *level_ends; /* in copies */
    uint32_t level_count;
    ferryi_store **middles; /* that overlapping copies go by way of */
    size_t middle_count;
    struct ferryi_claim_list claims;
    size_t *crossed; /* by claim: bytes of the host copy that went to a device or came from one */
    size_t *carried; /* by claim, while a group is counted: its bytes of the store */
    ferry_copy_options transfer;    /* of the job */
    struct ferryi_transfer_job job; /* of all that reaches a target */
    uint64_t timelines;             /* that work was queued on */
    struct ferryi_piece *pieces;    /* of the level that runs */
    size_t piece_count, piece_room;
};

#endif
