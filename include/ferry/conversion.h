/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CONVERSION_H
#define FERRY_CONVERSION_H

#include <stddef.h>

#include <ferry/element.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Conversions between element types. Generated headers such as <ferry/float_convert.h> call these
 * functions, and hold the typed functions that programs call.
 */

/**
 * What a conversion does with a value that the target type cannot hold. The meaning of a value
 * never changes. 0 means SATURATE too.
 */
typedef enum ferry_convert_policy {
    FERRY_CONVERT_SATURATE = 1, /**< round to the nearest value, ties to even, and clamp to the
                                     range of the type; NaN becomes 0 in an integer */
    FERRY_CONVERT_CHECK = 2,    /**< round to the nearest value, ties to even, and fail if a result
                                     does not fit, or if a NaN would become an integer; the target
                                     is then unchanged */
    FERRY_CONVERT_TRUNCATE = 3  /**< round toward zero, and clamp to the range of the type; NaN
                                     becomes 0 in an integer */
} ferry_convert_policy;

/**
 * Converts `count` elements from `source` to `target`. A watching callback, see "Callbacks" in
 * <ferry/status.h>.
 *
 * With FERRY_CONVERT_CHECK the function writes the target only if every element fits, and with a
 * NULL target it only checks. Ferry may call the function once for each part of a copy. If the
 * function fails, the copy stops before that part and returns the status of the function.
 * @return FERRY_OK; FERRY_ERROR_OUT_OF_RANGE with ferry_error_index() set;
 *         FERRY_ERROR_INVALID_ARGUMENT.
 */
typedef ferry_status ferry_convert_function(void *target, const void *source, size_t count, ferry_convert_policy policy);

/**
 * A conversion from one element to another. The library reads the struct only during the call that
 * receives it.
 */
typedef struct ferry_conversion {
    const ferry_element *from;
    const ferry_element *to;
    ferry_convert_function *convert; /**< the function that converts; NULL: a function of the
                                          library, which exists when both elements are scalars */
    uint64_t reserved[2];
} ferry_conversion;

/**
 * Converts `count` elements of `source` into `target`. The generated array functions call it.
 *
 * The arrays must not overlap. `target` may be equal to `source` when a target element is no wider
 * than a source element. The arrays need no alignment, unless `conversion->convert` is a function
 * of the program. With FERRY_CONVERT_CHECK `target` may be NULL: the values are then checked, and
 * nothing is written.
 * @return FERRY_OK;
 *         FERRY_ERROR_INVALID_ARGUMENT: the policy is unknown, or an array is NULL and count > 0;
 *         FERRY_ERROR_OVERFLOW: the size of an array in bytes is more than size_t holds;
 *         FERRY_ERROR_OUT_OF_RANGE: FERRY_CONVERT_CHECK found a value that the target type cannot
 *         hold; ferry_error_index() returns its index.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_conversion_run(const ferry_conversion *conversion, void *target, const void *source,
                                                            size_t count, ferry_convert_policy policy);

/**
 * For generated code: reports that FERRY_CONVERT_CHECK found an element that does not fit. Sets
 * this thread's message, which names both types, and the index that ferry_error_index() returns.
 * @param index of the element, counted from the first of the range that is converted
 * @return FERRY_ERROR_OUT_OF_RANGE. Threads: any.
 */
FERRY_API ferry_status ferry_conversion_failed(const ferry_conversion *conversion, size_t index);

FERRY_END_DECLS

#endif
