/* SPDX-License-Identifier: MIT */
/*
 * Checks the arguments of conversions between arrays, and applies the conversion policies.
 * src/convert converts the numbers. convert_copy.c converts from and to buffers.
 */
#include <ferry/generated.h>

#include "src/copy/convert_copy.h"

#include "src/base/callback.h"
#include "src/convert/kernels.h"

ferry_status
ferryi_conversion_check(const ferry_conversion *conversion, const char *what)
{
    if (!conversion || !conversion->from || !conversion->to)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the conversion is NULL or not whole",
                           what);
    if (!conversion->convert && !ferryi_convert_kernel(conversion->from, conversion->to))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: the library has no conversion from %s to %s", what,
                           conversion->from->name, conversion->to->name);
    return FERRY_OK;
}

/* Runs a conversion function that the program supplies. This function must call
 * ferry_conversion_failed() for an element that does not fit. */
static ferry_status
run_own(const ferry_conversion *conversion, void *target, const void *source, size_t count,
        ferry_convert_policy policy)
{
    struct ferryi_callback running;
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WATCHING, "of the conversion");
    ferry_status status = conversion->convert(target, source, count, policy);
    ferryi_callback_leave(&running);
    /* ferry_conversion_failed(), which the function calls for an element that does not fit, has
     * set the message. */
    if (status == FERRY_OK ||
        (status == FERRY_ERROR_OUT_OF_RANGE && ferryi_error_count() != running.errors))
        return status;
    (void)ferryi_callback_failed(&running, status);
    return ferryi_fail_in(status,
                          "convert %zu elements from %s to %s: the program's function refused them",
                          count, conversion->from->name, conversion->to->name);
}

ferry_status
ferryi_conversion_apply(const ferry_conversion *conversion, void *target, const void *source,
                        size_t count, ferry_convert_policy policy)
{
    if (conversion->convert)
        return run_own(conversion, target, source, count, policy);

    const struct ferryi_convert_kernel *kernel =
        ferryi_convert_kernel(conversion->from, conversion->to);
    if (policy == FERRY_CONVERT_CHECK && kernel->first_unfit) {
        size_t index = kernel->first_unfit(source, count);
        if (index < count)
            return ferry_conversion_failed(conversion, index);
    }
    if (target)
        ferryi_convert_array(policy == FERRY_CONVERT_TRUNCATE ? kernel->toward_zero
                                                              : kernel->nearest,
                             target, conversion->to->bytes, source, conversion->from->bytes, count);
    return FERRY_OK;
}

static ferry_status
refuse(const ferry_conversion *conversion, ferry_status status, size_t count, const char *why)
{
    return ferryi_fail(status, "convert %zu elements from %s to %s: %s", count,
                       conversion->from->name, conversion->to->name, why);
}

ferry_status
ferry_conversion_run(const ferry_conversion *conversion, void *target, const void *source,
                     size_t count, ferry_convert_policy policy)
{
    size_t bytes;
    ferry_status status = ferryi_conversion_check(conversion, "convert an array");

    if (status != FERRY_OK)
        return status;
    if (policy == FERRY_CONVERT_NONE)
        return refuse(conversion, FERRY_ERROR_INVALID_ARGUMENT, count,
                      "FERRY_CONVERT_NONE is no policy that converts");
    if ((unsigned)policy > FERRY_CONVERT_TRUNCATE)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "convert %zu elements from %s to %s: policy %d is unknown", count,
                           conversion->from->name, conversion->to->name, (int)policy);
    if (count == 0)
        return FERRY_OK;
    if (source == NULL)
        return refuse(conversion, FERRY_ERROR_INVALID_ARGUMENT, count, "the source is NULL");
    if (target == NULL && policy != FERRY_CONVERT_CHECK)
        return refuse(conversion, FERRY_ERROR_INVALID_ARGUMENT, count, "the target is NULL");
    if (!ferryi_mul_size(count, conversion->from->bytes, &bytes) ||
        !ferryi_mul_size(count, conversion->to->bytes, &bytes))
        return refuse(conversion, FERRY_ERROR_OVERFLOW, count, "more bytes than a size can hold");
    return ferryi_conversion_apply(conversion, target, source, count, policy);
}

ferry_status
ferry_conversion_failed(const ferry_conversion *conversion, size_t index)
{
    ferryi_fail(FERRY_ERROR_OUT_OF_RANGE, "convert from %s to %s: element %zu does not fit %s",
                conversion->from->name, conversion->to->name, index, conversion->to->c_type);
    ferryi_fail_index(index);
    return FERRY_ERROR_OUT_OF_RANGE;
}
