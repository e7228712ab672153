/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DEVICE_CONVERT_H
#define FERRYI_DEVICE_CONVERT_H

/*
 * Conversions that run on a buffer's device: between two arrays on the device, after an upload, or
 * before a download. Elements that are uploaded or downloaded pass through a scratch block of the
 * device's pool, one part at a time. All copies and conversions are queued on one timeline, so no
 * part overwrites the scratch block too early.
 */

#include "src/buffer/store.h"

struct ferryi_device_conversion {
    ferryi_store *store; /* for its context and name */
    const ferry_conversion *conversion;
    ferry_convert_policy policy;
    int place;
    ferryi_timeline *timeline; /* a timeline of `place`; all work is queued on it */
    /* converts on the host if there is no memory for the scratch block */
    const struct ferryi_transform *transform;
};

/* Returns whether the device at `place` can run the conversion. The program's own conversion
 * functions run only on the host. */
bool ferryi_device_converts(ferry_context *context, int place, const ferry_conversion *conversion);

/* Queues the conversion between two arrays on the device. If the job can be cancelled, the
 * conversion is queued in parts. */
ferry_status ferryi_device_convert(const struct ferryi_device_conversion *work, void *target,
                                   const void *source, size_t count,
                                   struct ferryi_transfer_job *job);
/* Searches for the first element that FERRY_CONVERT_CHECK rejects, and waits for the result. If
 * there is one, fails with OUT_OF_RANGE and sets ferry_error_index(). Downloads only eight bytes.
 */
ferry_status ferryi_device_convert_check(const struct ferryi_device_conversion *work,
                                         const void *source, size_t count);
/* Converts between host memory and device memory. A download is complete when the function returns.
 * The job counts bytes of the target. */
ferry_status ferryi_device_convert_across(const struct ferryi_device_conversion *work,
                                          struct ferryi_memory target, struct ferryi_memory source,
                                          size_t count, struct ferryi_transfer_job *job);

#endif
