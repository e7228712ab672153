/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_PLACEMENT_H
#define FERRYI_CONVERT_PLACEMENT_H

/* Where a copy converts: the side that makes fewer bytes cross. Pure. */

#include <stdbool.h>
#include <stddef.h>

enum ferryi_convert_side { FERRYI_CONVERT_ON_HOST, FERRYI_CONVERT_ON_DEVICE };

struct ferryi_convert_path {
    bool from_device, to_device;       /* where the elements are, and where they go */
    bool device_converts;              /* the device has code for the pair */
    size_t source_bytes, target_bytes; /* of one element */
};

/* On a tie the host: its conversion hides behind the copy of the chunk before. A device that cannot
 * convert leaves it to the host. */
enum ferryi_convert_side ferryi_convert_side(const struct ferryi_convert_path *path);

/* The bytes of one element that cross between host and device, in both directions. */
size_t ferryi_convert_crossing(const struct ferryi_convert_path *path,
                               enum ferryi_convert_side side);

#endif
