/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_REGION_LIST_H
#define FERRYI_REGION_LIST_H

/*
 * A list of regions that no single plan can do: fills, files and conversions among others. It is
 * one call: all ranges are claimed before anything moves, which fixes its place in the order of
 * calls, and then the regions go one by one under those claims, on this thread or on the helper
 * thread. Steps of it may read what earlier ones wrote, so a job for each of them could not be
 * claimed up front.
 */

#include "src/base/file.h"
#include "src/copy/regions.h"

struct ferryi_region_list {
    struct ferryi_whole_call whole; /* first */
    struct ferryi_region_setting setting;
    struct ferryi_region *regions;
    size_t count;
    unsigned char *kept; /* the paths and values of the regions */
};

/* Runs the list, or starts it where `event` is not NULL. The regions are the caller's again on
 * return. */
ferry_status ferryi_region_list_do(const struct ferryi_region_setting *setting,
                                   const struct ferryi_region *regions, size_t count,
                                   ferry_event **event);

/* One region that is not plain, under the list's claims (region_run.c, region_convert.c). */
ferry_status ferryi_region_run(struct ferryi_region_list *list, const struct ferryi_region *region);
ferry_status ferryi_region_convert(struct ferryi_region_list *list,
                                   const struct ferryi_region *region);

/* The file of a region: opened, and looked at; then closed, checked and cut. `status` is how the
 * copy ended; so is the result. */
ferry_status ferryi_region_open_file(const struct ferryi_region_list *list,
                                     const struct ferryi_region *region, struct ferryi_file *out);
ferry_status ferryi_region_close_file(const struct ferryi_region_list *list,
                                      const struct ferryi_region *region, struct ferryi_file *file,
                                      ferry_status status);

#endif
