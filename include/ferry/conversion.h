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
 * <ferry/float_convert.h>, which call the functions of this file.
 */

/**
 * How a conversion rounds, and what it does with a value that the target type cannot hold. The
 * meaning of a value never changes.
 */
typedef enum ferry_convert_policy {
    FERRY_CONVERT_NONE = 0, /**< convert nothing: a copy between different types fails. Functions
                                 that convert refuse it */
    FERRY_CONVERT_SATURATE = 1, /**< round to the nearest value, ties to even, and clamp to the
                                     range of an integer type, where NaN becomes 0. A value that is
                                     too large for a floating-point type becomes infinity */
    FERRY_CONVERT_CHECK = 2,    /**< round to the nearest value, ties to even. Fail, and leave the
                                     target unchanged, if a result is outside the range of an
                                     integer type, if NaN would become an integer, or if a finite
                                     value would become infinity */
    FERRY_CONVERT_TRUNCATE = 3  /**< round toward zero, and clamp to the range of the target type;
                                     NaN becomes 0 in an integer */
} ferry_convert_policy;

/**
 * A function of the program that converts `count` elements of the array `source`, and writes them
 * to the array `target`.
 *
 * With FERRY_CONVERT_CHECK the function writes the target only if every element fits. If `target`
 * is NULL, it only checks. Ferry may call the function once for each part of a copy. If the
 * function fails, the copy stops before that part and returns the status of the function.
 *
 * The function is a watching callback, see "Callbacks" in <ferry/status.h>.
 * @return FERRY_OK; FERRY_ERROR_OUT_OF_RANGE, after a call of ferry_conversion_failed(), when an
 *         element does not fit; FERRY_ERROR_INVALID_ARGUMENT when the policy is unknown.
 */
typedef ferry_status ferry_convert_function(void *target, const void *source, size_t count,
                                            ferry_convert_policy policy);

/**
 * A conversion from one element type to another. The library reads the struct only during the call
 * that receives it.
 */
typedef struct ferry_conversion {
    const ferry_element *from;
    const ferry_element *to;
    ferry_convert_function *convert; /**< the program's function that converts. NULL: the library's
                                          own function, which exists for all scalar types, except
                                          from a complex number to a real one */
    uint64_t reserved[2];
} ferry_conversion;

/**
 * For conversion functions: reports that FERRY_CONVERT_CHECK found an element that does not fit.
 * The call sets this thread's error message, which names both types, and the index that
 * ferry_error_index() returns.
 * @param index index of the element in the range that is converted
 * @return FERRY_ERROR_OUT_OF_RANGE, for the conversion function to return.
 * Threads: any.
 */
FERRY_API ferry_status ferry_conversion_failed(const ferry_conversion *conversion, size_t index);

FERRY_END_DECLS

#endif
