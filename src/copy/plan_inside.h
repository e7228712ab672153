/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_INSIDE_H
#define FERRYI_PLAN_INSIDE_H

/* The members of a plan, for plan.c, which makes plans, and plan_run.c, which runs them. */

#include "src/copy/plan.h"

/* One copy. `target` and `source` are offsets in their stores, or addresses in the caller's memory.
 */
struct ferryi_plan_copy {
    ferryi_store *target_store, *source_store; /* NULL: the caller's memory; at most one is NULL */
    uintptr_t target, source;
    size_t bytes; /* more than 0 */
    bool between; /* whether the target is a temporary store: no progress is reported */
};

struct ferryi_plan {
    struct ferryi_whole_call call; /* must be the first member */
    struct ferryi_plan_options options;
    int place; /* place where the target stores are written; -1: where the bytes are current */
    struct ferryi_plan_copy *copies; /* ordered by level */
    size_t count, copy_room;
    size_t *level_ends; /* index in `copies` after the last copy of each level */
    uint32_t level_count;
    ferryi_store **middles; /* temporary stores of overlapping copies */
    size_t middle_count, middle_room;
    size_t *transferred; /* for each claim: number of bytes copied between pageable host memory and
                         a device */
    size_t *carried;     /* for each claim: number of the store's bytes in the group that is being
                             counted */
    struct ferryi_piece *pieces; /* pieces of the running level */
    size_t piece_count, piece_room;
};

/* Enlarges an array of the plan that has `*room` items, so that it holds at least `needed`. Returns
 * the array, which may have moved. Returns NULL, and leaves the array as it is, without memory. */
void *ferryi_plan_grow(void *items, size_t *room, size_t needed, size_t item_bytes);

/* Runs the copies, level by level. */
ferry_status ferryi_plan_run(struct ferryi_whole_call *call);

#endif
