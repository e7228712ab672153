/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_LEVELS_H
#define FERRYI_LEVELS_H

/*
 * Levels of a list of copies: those of one level neither read nor write what another of it writes,
 * so that they may be done in any order and at once; level after level gives what the copies give
 * one by one. Pure, except for its working memory.
 */

#include "src/base/base.h"

/* Bytes that a copy reads or writes, begin < end. Offsets in different spaces are never the same
 * bytes. */
struct ferryi_use {
    const void *space;
    uintptr_t begin, end;
    uint32_t copy : 31; /* its number in the list */
    uint32_t writes : 1;
};

/*
 * The level of each copy, as low as it can be: `levels[copy]`, from 0. Sorts `uses` by space and
 * begin. No copy writes what it reads. Takes n log n steps, and n when the uses come sorted and
 * nothing overlaps.
 * @return FERRY_OK, FERRY_ERROR_OUT_OF_MEMORY
 */
ferry_status ferryi_levels_cut(struct ferryi_use *uses, size_t use_count, uint32_t *levels,
                               size_t copy_count, uint32_t *out_count);

/* By space and begin. */
void ferryi_levels_sort(struct ferryi_use *uses, size_t count);

#endif
