/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_DEVICE_CONVERT_H
#define FERRYI_DEVICE_CONVERT_H

/*
 * Conversions that run on a buffer's device: between two arrays on the device, after an upload, or
 * before a download. Uploaded and downloaded elements pass through a scratch block from the
 * device's pool, one part at a time. All copies and conversions are queued on one timeline, so no
 * part overwrites the scratch block too early.
 */

#include "src/buffer/store.h"

struct ferryi_device_conversion {
    ferryi_store *store; /* store whose context and name are used */
    const ferry_conversion *conversion;
    ferry_convert_policy policy;
    int place;
    ferryi_timeline *timeline; /* timeline of `place` on which all work is queued */
    /* conversion on the host, which is used if the scratch block cannot be allocated */
    const struct ferryi_transform *transform;
};

/* Returns whether the device at `place` can run the conversion. It cannot if the conversion has the
 * program's own function, which runs only on the host. */
bool ferryi_device_converts(ferry_context *context, int place, const ferry_conversion *conversion);

/* Queues a conversion between two arrays on the device. If the job can be cancelled, queues it in
 * parts. */
ferry_status ferryi_device_convert(const struct ferryi_device_conversion *work, void *target,
                                   const void *source, size_t count,
                                   struct ferryi_transfer_job *job);
/* Searches for the first element that FERRY_CONVERT_CHECK rejects, and waits for the result. If
 * there is such an element, fails with OUT_OF_RANGE and sets ferry_error_index(). Downloads only
 * eight bytes. */
ferry_status ferryi_device_convert_check(const struct ferryi_device_conversion *work,
                                         const void *source, size_t count);
/* Converts between host memory and device memory. A download is complete when the function returns.
 * The job counts the bytes of the target. */
ferry_status ferryi_device_convert_across(const struct ferryi_device_conversion *work,
                                          struct ferryi_memory target, struct ferryi_memory source,
                                          size_t count, struct ferryi_transfer_job *job);

#endif
