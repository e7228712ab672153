/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_REGION_LIST_H
#define FERRYI_REGION_LIST_H

/*
 * A list of copy regions. It is used if a region fills, converts or uses a file, because a plan
 * (plan.c) only copies. The list is one call: it locks the byte ranges of all its regions before
 * any bytes move, so that later conflicting calls wait for it. It then runs the regions in order
 * under these locks, on the caller's thread or on a worker thread. Separate calls could not lock
 * all ranges in advance: if one region reads bytes that an earlier region writes, their locks
 * would conflict.
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

/* Runs a list of regions. If the caller goes on, the function returns after it has started the
 * list. The caller may change or free `regions` as soon as the function returns. */
ferry_status ferryi_region_list_do(const struct ferryi_region_setting *setting,
                                   const struct ferryi_region *regions, size_t count);

/* Runs one region of the list that fills, converts or uses a file, under the locks of the list
 * (region_run.c). */
ferry_status ferryi_region_run(struct ferryi_region_list *list, const struct ferryi_region *region);

#endif
