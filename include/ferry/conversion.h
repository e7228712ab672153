/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CONVERSION_H
#define FERRY_CONVERSION_H

#include <stddef.h>

#include <ferry/element.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * Functions that generated conversions call. Programs include <ferry/float_convert.h> and
 * its kin, which hold the typed functions.
 */

/**
 * What a conversion does with a value that the target type cannot hold. A value never changes its
 * meaning; 0 also means SATURATE.
 */
typedef enum ferry_convert_policy {
    FERRY_CONVERT_SATURATE = 1, /**< round to nearest even, then clamp; NaN becomes 0 in an integer
                                     */
    FERRY_CONVERT_CHECK = 2,    /**< fail, with the target unchanged, when a value does not fit
                                     after rounding to nearest even, or is NaN for an integer */
    FERRY_CONVERT_TRUNCATE = 3  /**< round toward zero, then clamp; NaN becomes 0 in an integer */
} ferry_convert_policy;

/**
 * Converts `count` elements from `source` to `target`. A watching callback, see "Callbacks" in
 * <ferry/status.h>.
 *
 * With FERRY_CONVERT_CHECK it writes the target only when every element fits. With a NULL target
 * it then only checks. Ferry may call it for successive parts of one copy. When it fails, the copy
 * stops before that part and returns its status.
 * @return FERRY_OK; FERRY_ERROR_OUT_OF_RANGE with ferry_error_index() set;
 *         FERRY_ERROR_INVALID_ARGUMENT.
 */
typedef ferry_status ferry_convert_function(void *target, const void *source, size_t count, ferry_convert_policy policy);

/**
 * A conversion from one element to another. The library reads it only during the call that it is
 * passed to.
 */
typedef struct ferry_conversion {
    const ferry_element *from;
    const ferry_element *to;
    ferry_convert_function *convert; /**< NULL: the library's conversion, when both elements are
                                          scalars */
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
 * For generated code: a FERRY_CONVERT_CHECK found an element that does not fit. Sets this thread's
 * message, which names both types, and what ferry_error_index() returns.
 * @param index of the element, counted from the first of the range that is converted
 * @return FERRY_ERROR_OUT_OF_RANGE. Threads: any.
 */
FERRY_API ferry_status ferry_conversion_failed(const ferry_conversion *conversion, size_t index);

FERRY_END_DECLS

#endif
