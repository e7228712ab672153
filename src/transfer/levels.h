/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_LEVELS_H
#define FERRYI_LEVELS_H

/*
 * Divides a list of copies into levels. No copy reads or writes bytes that a different copy of the
 * same level writes. So the copies of a level may be made in any order or concurrently. If the
 * levels are made in order, the result is the same as if the copies were made in the order of the
 * list. The functions take temporary memory from an arena and have no other side effects.
 */

#include "src/base/arena.h"
#include "src/base/base.h"

/* A range of bytes that a copy reads or writes; `begin` is less than `end`. Ranges in different
 * memory spaces never overlap. */
struct ferryi_use {
    const void *space;
    uintptr_t begin, end;
    uint32_t copy : 31; /* index of the copy in the list */
    uint32_t writes : 1;
};

/*
 * Sets `levels[copy]` to the lowest possible level of each copy, and `*out_count` to the number of
 * levels. Levels start at 0. The copies of one level may be made concurrently, after the copies of
 * all lower levels. Sorts `uses` by space and begin. A copy must not write bytes that it also
 * reads. For n uses, the time is proportional to n log n, or to n if the uses are sorted and do not
 * overlap.
 */
ferry_status ferryi_levels_cut(struct ferryi_arena *arena, struct ferryi_use *uses,
                               size_t use_count, uint32_t *levels, size_t copy_count,
                               uint32_t *out_count);

/* Sorts the uses by space and begin. */
void ferryi_levels_sort(struct ferryi_arena *arena, struct ferryi_use *uses, size_t count);

#endif
