/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_REGION_LIST_H
#define FERRYI_REGION_LIST_H

/*
 * A list of regions that a single plan cannot run, because it has fills, files or conversions. The
 * list is one call: it claims all ranges before any bytes move, which fixes its position in the
 * order of calls. It then runs the regions one by one under these claims, on this thread or on a
 * worker. The regions are not separate jobs, because a region may read bytes that an earlier one
 * writes, and separate jobs could not claim these bytes in advance.
 */

#include "src/base/file.h"
#include "src/copy/regions.h"

struct ferryi_region_list {
    struct ferryi_whole_call whole; /* must be the first member */
    struct ferryi_region_setting setting;
    struct ferryi_region *regions;
    size_t count;
    unsigned char *kept; /* memory for copies of the regions' paths and values */
};

/* Runs a list of regions, or starts it if `event` is not NULL. The caller may change `regions`
 * after the call returns. */
ferry_status ferryi_region_list_do(const struct ferryi_region_setting *setting,
                                   const struct ferryi_region *regions, size_t count,
                                   ferry_event **event);

/* Runs one region that is not plain, under the list's claims (region_run.c, region_convert.c). */
ferry_status ferryi_region_run(struct ferryi_region_list *list, const struct ferryi_region *region);
ferry_status ferryi_region_convert(struct ferryi_region_list *list,
                                   const struct ferryi_region *region);

/* ferryi_region_open_file() opens the file of a region and checks its size.
 * ferryi_region_close_file() checks that an input did not change, truncates an output, and closes
 * the file. `status` is the status of the copy; if it is a failure, the function returns it. */
ferry_status ferryi_region_open_file(const struct ferryi_region_list *list,
                                     const struct ferryi_region *region, struct ferryi_file *out);
ferry_status ferryi_region_close_file(const struct ferryi_region_list *list,
                                      const struct ferryi_region *region, struct ferryi_file *file,
                                      ferry_status status);

#endif
