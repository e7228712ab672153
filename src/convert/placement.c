/* SPDX-License-Identifier: MIT */
#include "src/convert/placement.h"

size_t
ferryi_convert_link_bytes(const struct ferryi_convert_path *path, enum ferryi_convert_side side)
{
    bool on_device = side == FERRYI_CONVERT_ON_DEVICE;
    /* The source crosses the link between host and device if it is not on the converting side. The
     * result crosses the link if the target is not on the converting side. */
    return (path->from_device != on_device ? path->source_bytes : 0) +
           (path->to_device != on_device ? path->target_bytes : 0);
}

enum ferryi_convert_side
ferryi_convert_side(const struct ferryi_convert_path *path)
{
    bool fewer = ferryi_convert_link_bytes(path, FERRYI_CONVERT_ON_DEVICE) <
                 ferryi_convert_link_bytes(path, FERRYI_CONVERT_ON_HOST);
    return path->device_converts && fewer ? FERRYI_CONVERT_ON_DEVICE : FERRYI_CONVERT_ON_HOST;
}
