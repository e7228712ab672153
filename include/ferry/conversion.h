/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CONVERSION_H
#define FERRY_CONVERSION_H

#include <stddef.h>

#include <ferry/buffer.h>
#include <ferry/element.h>
#include <ferry/scope.h>
#include <ferry/status.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * What generated conversions stand on. Programs include <ferry/convert.h>, which holds the typed functions.
 */

/** What happens to a value that the target cannot hold. Values are final; 0 is SATURATE too. */
typedef enum ferry_convert_policy {
    FERRY_CONVERT_SATURATE = 1, /**< round to nearest even, then clamp; NaN to an integer is 0 */
    FERRY_CONVERT_CHECK = 2,    /**< fails when a value does not fit after rounding to nearest even, or is NaN for an integer; target unchanged */
    FERRY_CONVERT_TRUNCATE = 3  /**< toward zero, then clamp; NaN to an integer is 0 */
} ferry_convert_policy;

/**
 * Converts `count` elements. A watching callback, see "Callbacks" in <ferry/status.h>.
 * With FERRY_CONVERT_CHECK the target is written only when every element fits; a NULL target
 * then only checks. It may be called for one part of a copy after the other. @return FERRY_OK, or FERRY_ERROR_OUT_OF_RANGE with
 * ferry_error_index() set, or FERRY_ERROR_INVALID_ARGUMENT. After any failure it has written nothing that counts: the copy stops before
 * the part that failed, and returns the status.
 */
typedef ferry_status ferry_convert_function(void *target, const void *source, size_t count, ferry_convert_policy policy);

/** One direction between two elements. Static data of the generated code. */
typedef struct ferry_conversion {
    const ferry_element *from;
    const ferry_element *to;
    ferry_convert_function *convert; /**< NULL: the library's own, when both are numbers */
} ferry_conversion;

/**
 * Copy from memory of element `conversion->from` into a buffer of element `conversion->to`, converting on the way; as
 * ferry_buffer_copy_from() otherwise. With CHECK, a value that does not fit changes nothing. Where the buffer is current on a
 * device, the host converts when the target's elements are no wider than the source's, and else the device does, where it has code for
 * the pair: the fewer bytes cross. A function of yours always runs on the host.
 * @return the usual statuses of <ferry/buffer.h>; FERRY_ERROR_OUT_OF_RANGE by CHECK, with ferry_error_index() relative to `source`.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from_converted(ferry_buffer *buffer, const ferry_conversion *conversion,
                                                                        size_t offset, const void *source, size_t count,
                                                                        ferry_convert_policy policy);
/** Copy to memory of element `conversion->to` from a buffer of element `conversion->from`; with CHECK the target memory is written only
 *  when all fits. Of a buffer on a device, the device converts when the target's elements are narrower and it has code for the pair, else
 *  the host. CHECK where a device has no code for the pair fetches the values into memory of their own first: the range's bytes, else
 *  FERRY_ERROR_OUT_OF_MEMORY. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to_converted(ferry_buffer *buffer, const ferry_conversion *conversion,
                                                                      size_t offset, void *target, size_t count,
                                                                      ferry_convert_policy policy);
/** Convert from one buffer into another of the same context, where the source is current: on a device no element crosses. A device without
 *  code for the pair leaves it to the host, and the result is current there. CHECK on a device brings its answer of 8 bytes to the host. */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_convert(ferry_buffer *target, const ferry_conversion *conversion,
                                                            size_t target_offset, ferry_buffer *source, size_t source_offset,
                                                            size_t count, ferry_convert_policy policy);

/**
 * As the three calls above, with progress and cancel; bytes are those of the target. CHECK looks at all values before the first of them is
 * told of; where it must fetch them for that, keep_going is asked meanwhile, with 0 bytes done.
 * @return also FERRY_ERROR_CANCELLED; the message says how many bytes arrived
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_from_converted_with(ferry_buffer *buffer, const ferry_conversion *conversion,
                                                                             size_t offset, const void *source, size_t count,
                                                                             ferry_convert_policy policy,
                                                                             const ferry_transfer_options *options);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_copy_to_converted_with(ferry_buffer *buffer, const ferry_conversion *conversion,
                                                                           size_t offset, void *target, size_t count,
                                                                           ferry_convert_policy policy,
                                                                           const ferry_transfer_options *options);
FERRY_API FERRY_NODISCARD ferry_status ferry_buffer_convert_with(ferry_buffer *target, const ferry_conversion *conversion,
                                                                 size_t target_offset, ferry_buffer *source, size_t source_offset,
                                                                 size_t count, ferry_convert_policy policy,
                                                                 const ferry_transfer_options *options);

/**
 * Convert between arrays: the checking edge of the generated array functions. They do not overlap, but the target may be the
 * source itself where its elements are no wider; neither need be aligned, unless `convert` is a function of yours.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (an unknown policy; NULL with count > 0, though CHECK takes a NULL target and then
 *         only checks); FERRY_ERROR_OVERFLOW (bytes of the arrays); FERRY_ERROR_OUT_OF_RANGE by CHECK, with ferry_error_index() set.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_conversion_run(const ferry_conversion *conversion, void *target, const void *source,
                                                            size_t count, ferry_convert_policy policy);

/** For generated code: set this thread's sentence and index for a CHECK failure; returns FERRY_ERROR_OUT_OF_RANGE. */
FERRY_API ferry_status ferry_conversion_failed(const ferry_conversion *conversion, size_t index);

FERRY_END_DECLS

#endif
