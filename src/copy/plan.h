/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_H
#define FERRYI_PLAN_H

/*
 * A plan is a list of copies that are claimed together and then run level by level (levels.h). The
 * result is the same as if the copies ran one by one. The plan claims exactly the bytes of its
 * copies, all at once, and keeps the claims until it ends. When a level starts, the places of its
 * source and target bytes are chosen from the valid map at that time. Bytes are committed piece by
 * piece as they arrive.
 */

#include "src/copy/async.h"
#include "src/copy/regions.h"
#include "src/transfer/batch.h"

struct ferryi_plan_options {
    const char *reason; /* for traces and messages, such as "copy" */
    enum ferryi_layout layout;
    /* options of the transfers, or NULL. The plan makes a copy of the options */
    const ferry_copy_options *transfer;
    /* the longer call of which the plan is one step, and whose options apply; NULL if there is none
     */
    struct ferryi_whole_call *whole;
};

typedef struct ferryi_plan ferryi_plan;

/* Creates an empty plan with room for `count` copies. */
ferry_status ferryi_plan_begin(ferry_context *context, size_t count,
                               const struct ferryi_plan_options *options, ferryi_plan **out);
/* Adds the rows of a plain region to a plan. If the region's source and target overlap, they are
 * copied through a temporary store, so that the result is that of memmove(). After a failure the
 * caller must drop the plan. */
ferry_status ferryi_plan_add(ferryi_plan *plan, const struct ferryi_region *region);
/* Frees a plan that was not run. Does nothing if the plan is NULL. */
void ferryi_plan_drop(ferryi_plan *plan);
/* Claims, runs and frees a plan. Runs it on this thread, or on a worker if `event` is not NULL. The
 * target stores are written at `place`. If `place` is -1, they are written where the target bytes
 * are current. */
ferry_status ferryi_plan_do(ferryi_plan *plan, int place, ferry_event **event);

/* Plans and runs plain regions on this thread. */
ferry_status ferryi_plan_regions(ferry_context *context, const struct ferryi_region *regions,
                                 size_t count, int place,
                                 const struct ferryi_plan_options *options);

/* -- members of a plan, which plan.c makes and plan_run.c runs --------------------------------- */

/* One copy of a plan. `target` and `source` are offsets in their stores, or addresses in the
 * caller's memory. */
struct ferryi_plan_copy {
    ferryi_store *target_store, *source_store; /* stores of the two sides. NULL means the caller's
                                                  memory; at most one of the two is NULL */
    uintptr_t target, source;
    size_t bytes; /* more than 0 */
    bool between; /* whether the target is a temporary store; such a copy reports no progress */
};

struct ferryi_plan {
    struct ferryi_whole_call call; /* must be the first member */
    struct ferryi_plan_options options;
    int place; /* place where the target stores are written. -1 means where the target bytes are
                  current */
    struct ferryi_plan_copy *copies; /* ordered by level */
    size_t count, copy_room;
    size_t *level_ends; /* for each level: index in `copies` after its last copy */
    uint32_t level_count;
    ferryi_store **middles; /* temporary stores of overlapping copies */
    size_t middle_count, middle_room;
    size_t *transferred; /* for each claim: number of bytes that were copied between pageable host
                            memory and a device */
    size_t *carried; /* for each claim: number of bytes of its store in the group of pieces that is
                        being counted */
    struct ferryi_piece *pieces; /* pieces of the running level */
    size_t piece_count, piece_room;
};

/* Runs the copies, level by level. */
ferry_status ferryi_plan_run(struct ferryi_whole_call *call);

#endif
