/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_H
#define FERRYI_PLAN_H

/*
 * A plan is a list of copies whose ranges are locked together. The copies run level by level
 * (levels.h), with the same result as if they ran one by one. The plan locks exactly the bytes of
 * its copies, all at once, and unlocks them when it ends. When a level starts, the places of its
 * source and target bytes are chosen from the valid map at that time. Bytes are marked as current
 * as they arrive.
 */

#include "src/copy/copy.h"
#include "src/copy/regions.h"
#include "src/move/move.h"

struct ferryi_plan_options {
    const char *reason; /* name of the operation in traces and messages, such as "copy" */
    enum ferryi_layout layout;
    struct ferryi_host_side host_side; /* see struct ferryi_move */
    bool *cut; /* with a conversion: receives whether the plan failed, and moved nothing, because of
                  move->cut */
    const void *value; /* not NULL: the value of a fill, whose copies have no source */
    size_t value_bytes;
    /* Options of the transfers, or NULL. The plan makes a copy of the options. */
    const ferry_copy_options *transfer;
    /* The longer call of which the plan is one step. The options of the longer call apply. NULL if
     * there is none. */
    struct ferryi_whole_call *whole;
};

typedef struct ferryi_plan ferryi_plan;

/* Creates an empty plan, which is a list of copies, with room for `count` copies. */
ferry_status ferryi_plan_begin(ferry_context *context, size_t count,
                               const struct ferryi_plan_options *options, ferryi_plan **out);
/* Adds the rows of a region to a plan. If the region's source and
 * target overlap, the rows are copied through temporary storage, so that the result is that of
 * memmove(). After a failure the caller must call ferryi_plan_drop(). */
ferry_status ferryi_plan_add(ferryi_plan *plan, const struct ferryi_region *region);
/* Frees a plan that was not run. Does nothing if the plan is NULL. */
void ferryi_plan_drop(ferryi_plan *plan);
/* Locks the ranges of a plan, runs the plan and frees it: on a worker thread if the caller goes on,
 * otherwise on this thread. The target buffers are written at `place`. If
 * `place` is -1, each copy writes at a place where its bytes are current. */
ferry_status ferryi_plan_do(ferryi_plan *plan, int place, struct ferryi_caller caller);

/* Makes a plan of regions, and runs it on this thread. If the options have a host side or a value,
 * it is that of all regions. */
ferry_status ferryi_plan_regions(ferry_context *context, const struct ferryi_region *regions,
                                 size_t count, int place,
                                 const struct ferryi_plan_options *options);

/* -- members of a plan, which plan.c makes and plan_run.c runs --------------------------------- */

struct ferryi_plan {
    struct ferryi_whole_call call; /* must be the first member */
    struct ferryi_plan_options options;
    int place; /* place where the target buffers are written; -1: where the bytes of each copy are
                  current */
    struct ferryi_row *copies; /* ordered by level */
    size_t count, copy_room;
    size_t *level_ends; /* for each level, the index in `copies` after the level's last copy */
    uint32_t level_count;
    ferryi_store **middles; /* temporary storage of overlapping copies */
    size_t middle_count, middle_room;
    struct ferryi_move move; /* of the running level */
};

/* Runs the copies of a plan, one level after another. */
ferry_status ferryi_plan_run(struct ferryi_whole_call *call);

#endif
