/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_COPY_H
#define FERRYI_CONVERT_COPY_H

/*
 * Conversions, and copies that convert. conversion.c converts host memory, either with the
 * program's function or with the loops of src/convert. convert_copy.c prepares converting copies of
 * one range. The callers must have checked the arguments.
 */

#include <ferry/conversion.h>

#include "src/copy/copy.h"

/* Fails with FERRY_ERROR_INVALID_ARGUMENT if `conversion` is not valid. `what` is the name of the
 * operation, with which the error message begins. */
ferry_status ferryi_conversion_check(const ferry_conversion *conversion, const char *what);

/* Converts `count` elements as the documentation of ferry_convert_function requires. The caller
 * must have checked the arguments. */
ferry_status ferryi_conversion_apply(const ferry_conversion *conversion, void *target,
                                     const void *source, size_t count, ferry_convert_policy policy);

struct ferryi_convert_call {
    ferry_context *context;
    const ferry_conversion *conversion;
    ferry_convert_policy policy; /* one of the policies, not 0 */
};

/* Prepares a converting copy, as ferryi_copy_plan() prepares a copy without conversion. `convert`
 * must outlive the call, and the ranges must not overlap. Memory of the caller may have the range
 * of ferryi_copy_memory(). If the policy is FERRY_CONVERT_CHECK, elements in the caller's memory
 * are checked by this function. */
ferry_status ferryi_convert_plan(struct ferryi_copy_call *call,
                                 const struct ferryi_convert_call *convert, ferryi_store *target,
                                 struct ferryi_range to, ferryi_store *source,
                                 struct ferryi_range from, int place);
/* Converts from host memory to host memory. The size of the parts in which it converts depends on
 * the job. */
ferry_status ferryi_convert_memory(const struct ferryi_convert_call *convert, void *target,
                                   const void *source, size_t count,
                                   struct ferryi_transfer_job *job);

/* Returns the conversion as the transfer engine makes it, on the host or within a device. `convert`
 * must outlive it. */
struct ferryi_transform ferryi_convert_transform(const struct ferryi_convert_call *convert);

/* Returns whether the device at `place` can run the conversion. It cannot run a conversion function
 * that the program supplies, because such a function runs only on the host. */
bool ferryi_device_converts(ferry_context *context, int place, const ferry_conversion *conversion);

#endif
