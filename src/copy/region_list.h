/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_REGION_LIST_H
#define FERRYI_REGION_LIST_H

/*
 * A list of copy regions, some of which fill, convert or use files, so that one plan (plan.c)
 * cannot run them. The list is one call: it locks the ranges of all its regions before any bytes
 * move, so that later conflicting calls wait for it. It then runs the regions one by one under
 * these locks, on the caller's thread or on a helper thread. The regions are not separate calls,
 * because a region may read bytes that an earlier region writes. Separate calls could not lock
 * these bytes in advance.
 */

#include "src/base/file.h"
#include "src/copy/regions.h"

struct ferryi_region_list {
    struct ferryi_whole_call whole; /* must be the first member */
    struct ferryi_region_setting setting;
    struct ferryi_region *regions;
    size_t count;
    unsigned char *kept; /* memory that contains copies of the regions' paths and values */
};

/* Runs a list of regions. If `setting->event` is not NULL, the function only starts the list. The
 * caller may change `regions` when the function has returned. */
ferry_status ferryi_region_list_do(const struct ferryi_region_setting *setting,
                                   const struct ferryi_region *regions, size_t count);

/* Runs one region of the list that fills, converts or uses a file, under the locks of the list
 * (region_run.c). */
ferry_status ferryi_region_run(struct ferryi_region_list *list, const struct ferryi_region *region);

#endif
