/* SPDX-License-Identifier: MIT */
/*
 * The checking edge of conversions between arrays. What a pair of elements means is in the generated code;
 * conversions from and to buffers are in convert.c.
 */
#include <ferry/conversion.h>

#include "src/base/base.h"

static ferry_status
refuse(const ferry_conversion *conversion, ferry_status status, size_t count, const char *why)
{
    return ferryi_fail(status, "convert %zu elements from %s to %s: %s", count, conversion->from->name, conversion->to->name,
                       why);
}

ferry_status
ferry_conversion_run(const ferry_conversion *conversion, void *target, const void *source, size_t count,
                     ferry_convert_policy policy)
{
    size_t bytes;

    if (conversion == NULL || conversion->from == NULL || conversion->to == NULL || conversion->convert == NULL)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "convert %zu elements: the conversion is NULL or incomplete", count);
    if ((int)policy < 0 || (int)policy > FERRY_CONVERT_TRUNCATE)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "convert %zu elements from %s to %s: policy %d is unknown", count,
                           conversion->from->name, conversion->to->name, (int)policy);
    if (count == 0)
        return FERRY_OK;
    if (source == NULL)
        return refuse(conversion, FERRY_ERROR_INVALID_ARGUMENT, count, "the source is NULL");
    if (target == NULL && policy != FERRY_CONVERT_CHECK)
        return refuse(conversion, FERRY_ERROR_INVALID_ARGUMENT, count, "the target is NULL");
    if (!ferryi_mul_size(count, conversion->from->bytes, &bytes) || !ferryi_mul_size(count, conversion->to->bytes, &bytes))
        return refuse(conversion, FERRY_ERROR_OVERFLOW, count, "more bytes than a size can hold");
    return conversion->convert(target, source, count, policy);
}

ferry_status
ferry_conversion_failed(const ferry_conversion *conversion, size_t index)
{
    ferryi_fail(FERRY_ERROR_OUT_OF_RANGE, "convert from %s to %s: element %zu does not fit %s", conversion->from->name,
                conversion->to->name, index, conversion->to->c_type);
    ferryi_fail_index(index);
    return FERRY_ERROR_OUT_OF_RANGE;
}
