/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DEVICE_CONVERT_H
#define FERRYI_DEVICE_CONVERT_H

/*
 * Conversions that a buffer's device does: between its own arrays, of what was uploaded, and of
 * what is to be downloaded. What crosses lies in a scratch block of the device's pool, a part at a
 * time; one timeline orders copies and conversions, so that no part is overwritten too early.
 */

#include "src/buffer/store.h"

struct ferryi_device_conversion {
    ferryi_store *store; /* for its context and name */
    const ferry_conversion *conversion;
    ferry_convert_policy policy;
    int place;
    ferryi_timeline *timeline; /* of that place; every function queues on it */
    const struct ferryi_transform
        *transform; /* how the host does it, for copies that find no room for scratch */
};

/* True when the device at `place` has what the conversion needs. A function of the program's own
 * runs on the host. */
bool ferryi_device_converts(ferry_context *context, int place, const ferry_conversion *conversion);

/* Queue it between two arrays of the device; part by part where the job may be stopped. */
ferry_status ferryi_device_convert(const struct ferryi_device_conversion *work, void *target,
                                   const void *source, size_t count,
                                   struct ferryi_transfer_job *job);
/* Search for what CHECK refuses, and wait: OUT_OF_RANGE with ferry_error_index() set. Eight bytes
 * cross. */
ferry_status ferryi_device_convert_check(const struct ferryi_device_conversion *work,
                                         const void *source, size_t count);
/* Between memory of the host and the device's; a download has arrived on return. The job counts
 * bytes of the target. */
ferry_status ferryi_device_convert_across(const struct ferryi_device_conversion *work,
                                          struct ferryi_memory target, struct ferryi_memory source,
                                          size_t count, struct ferryi_transfer_job *job);

#endif
