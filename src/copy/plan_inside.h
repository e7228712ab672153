/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PLAN_INSIDE_H
#define FERRYI_PLAN_INSIDE_H

/* Members of a plan. plan.c makes plans, and plan_run.c runs them. */

#include "src/copy/plan.h"

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

/* Enlarges an array of a plan, so that it has room for at least `needed` items. `*room` is its
 * current room. Returns the array, which may have moved. If no memory can be allocated, returns
 * NULL and leaves the array unchanged. */
void *ferryi_plan_grow(void *items, size_t *room, size_t needed, size_t item_bytes);

/* Runs the copies, level by level. */
ferry_status ferryi_plan_run(struct ferryi_whole_call *call);

#endif
