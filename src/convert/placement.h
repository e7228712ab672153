/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_PLACEMENT_H
#define FERRYI_CONVERT_PLACEMENT_H

/* Chooses the side, host or device, that converts during a copy. The chosen side is the one for
 * which fewer bytes cross the link between host and device. The functions have no state and no side
 * effects. */

#include <stdbool.h>
#include <stddef.h>

enum ferryi_convert_side { FERRYI_CONVERT_ON_HOST, FERRYI_CONVERT_ON_DEVICE };

struct ferryi_convert_path {
    /* whether the source is on the device, and whether the target is */
    bool from_device, to_device;
    bool device_converts;              /* whether the device has code for the pair */
    size_t source_bytes, target_bytes; /* of one element */
};

/* Returns the side that converts. If both sides cause equally many bytes to cross the link, returns
 * the host. Its conversion overlaps with the copy of the previous chunk. If the device cannot
 * convert, returns the host. */
enum ferryi_convert_side ferryi_convert_side(const struct ferryi_convert_path *path);

/* Returns the number of bytes per element that cross the link in both directions together. */
size_t ferryi_convert_link_bytes(const struct ferryi_convert_path *path,
                                 enum ferryi_convert_side side);

#endif
