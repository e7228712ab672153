/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CONVERSION_H
#define FERRY_CONVERSION_H

#include <stddef.h>

#include <ferry/element.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Conversions between element types. Programs call the typed functions of generated headers such as
 * <ferry/float_convert.h>, which call those of this file.
 */

/**
 * How a conversion rounds, and treats a value that the target type cannot hold. The meaning of a
 * value never changes.
 */
typedef enum ferry_convert_policy {
    FERRY_CONVERT_NONE = 0, /**< a copy between different types fails, and functions that convert
                                 refuse it */
    FERRY_CONVERT_SATURATE = 1, /**< round to the nearest value, ties to even. Clamp to the range of
                                     an integer type, where NaN becomes 0; a value that is too large
                                     for a floating-point type becomes infinity */
    FERRY_CONVERT_CHECK = 2,    /**< round to the nearest value, ties to even. Fail, and leave the
                                     target unchanged, where FERRY_CONVERT_SATURATE clamps, turns
                                     NaN into 0, or a finite value into infinity */
    FERRY_CONVERT_TRUNCATE = 3  /**< round toward zero, and clamp to the range of the target type;
                                     NaN becomes 0 in an integer */
} ferry_convert_policy;

/**
 * A function of the program that converts `count` elements of the array `source` to the array
 * `target`. It is a watching callback, see "Callbacks" in <ferry/status.h>.
 *
 * With FERRY_CONVERT_CHECK it writes the target only if every element fits, and only checks if
 * `target` is NULL. Ferry may call it once for each part of a copy. If it fails, the copy stops
 * before that part with its status.
 * @return FERRY_OK; FERRY_ERROR_OUT_OF_RANGE, after a call of ferry_conversion_failed(), when an
 *         element does not fit; FERRY_ERROR_INVALID_ARGUMENT when the policy is unknown.
 */
typedef ferry_status ferry_convert_function(void *target, const void *source, size_t count,
                                            ferry_convert_policy policy);

/** A conversion from one element type to another, which the library reads only during the call. */
typedef struct ferry_conversion {
    const ferry_element *from;
    const ferry_element *to;
    ferry_convert_function *convert; /**< NULL: the library's own function, for all scalar types,
                                          except from a complex number to a real one */
    uint64_t reserved[2];
} ferry_conversion;

/**
 * For conversion functions: reports that FERRY_CONVERT_CHECK found an element that does not fit.
 * Sets this thread's error message, which names both types, and the index of ferry_error_index().
 * @param index index of the element in the range that is converted
 * @return FERRY_ERROR_OUT_OF_RANGE, for the conversion function to return.
 * Threads: any.
 */
FERRY_API ferry_status ferry_conversion_failed(const ferry_conversion *conversion, size_t index);

FERRY_END_DECLS

#endif
