/* SPDX-License-Identifier: MIT */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <ferry/ferry.h>

/* Prints the bytes that have crossed between the host and the device, beside the fewest that must. Returns whether they
 * are equal. Nothing crosses to a device that uses the host's memory. */
static inline bool
traffic_is_minimal(ferry_context *context, uint64_t up, uint64_t down)
{
    ferry_place_info device;
    ferry_transfer_stats moved;
    if (ferry_context_get_place_info(context, 1, &device) != FERRY_OK ||
        ferry_context_get_transfer_stats(context, &moved) != FERRY_OK)
        return false;
    up = device.coherent ? 0 : up;
    down = device.coherent ? 0 : down;
    bool minimal = moved.upload.bytes == up && moved.download.bytes == down;
    printf("%s: %llu bytes up, %llu down; at least %llu and %llu: %s\n", device.kind, (unsigned long long)moved.upload.bytes,
           (unsigned long long)moved.download.bytes, (unsigned long long)up, (unsigned long long)down,
           minimal ? "minimal" : "MORE THAN NEEDED");
    return minimal;
}

#endif
