/* SPDX-License-Identifier: MIT */
#ifndef FERRY_GENERATED_H
#define FERRY_GENERATED_H

#include <ferry/conversion.h>
#include <ferry/copy.h>
#include <ferry/kernel.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * What generated headers call. Programs call the typed functions of those headers.
 */

/**
 * Converts `count` elements of the array `source` to the array `target`. Blocks.
 *
 * The arrays must not overlap, but `target` may equal `source` if a target element is no wider than
 * a source element. They need no alignment, unless `conversion->convert` is a function of the
 * program that needs it. With FERRY_CONVERT_CHECK and `target` NULL, the call only checks the
 * values.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (an unknown policy, an array that is NULL while
 *         count > 0, or a conversion without a function); FERRY_ERROR_OVERFLOW (the size of an
 *         array in bytes exceeds size_t); FERRY_ERROR_OUT_OF_RANGE (FERRY_CONVERT_CHECK found a
 *         value that does not fit; ferry_error_index() returns its index).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_conversion_run(const ferry_conversion *conversion,
                                                            void *target, const void *source,
                                                            size_t count,
                                                            ferry_convert_policy policy);

/**
 * Copies one region, and converts it with `policy`. Blocks.
 * @param options NULL for defaults; its `convert` is FERRY_CONVERT_NONE or `policy`
 * @return the same statuses as ferry_copy(); FERRY_ERROR_INVALID_ARGUMENT also when `policy` is
 *         FERRY_CONVERT_NONE, or options->convert is another one.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_copy_converting(const ferry_copy_region *region,
                                                             ferry_convert_policy policy,
                                                             const ferry_copy_options *options);
/** The asynchronous twin of ferry_copy_converting(). */
FERRY_API FERRY_NODISCARD ferry_status
ferry_copy_converting_async(const ferry_copy_region *region, ferry_convert_policy policy,
                            const ferry_copy_options *options, ferry_event **event);

/** What a stencil reads beyond an array. The meaning of a value never changes. */
typedef enum ferry_edges {
    FERRY_EDGES_NONE = 0,    /**< nothing: only cells whose neighbours exist are computed */
    FERRY_EDGES_NEAREST = 1, /**< the nearest element */
    FERRY_EDGES_WRAP = 2     /**< the element at the other end */
} ferry_edges;

/** The cells that a launch computes, and the elements of arrays that it uses. */
typedef struct ferry_cells {
    ferry_box box;                    /**< the cells, without FERRY_REST */
    size_t count;                     /**< number of cells */
    size_t begin, elements;           /**< of arrays that are used at the cell: the elements from
                                           the first cell to the last one */
    size_t read_begin, read_elements; /**< of arrays whose neighbours are read */
    ferry_access overwritten;         /**< access to arrays that are overwritten: FERRY_UPDATE if
                                           elements lie between the cells that are no cells */
} ferry_cells;

/**
 * Finds the cells of a launch over arrays of planes, rows and columns.
 * @param box what to compute; FERRY_REST as a count means up to the end. NULL: all cells, of
 *        FERRY_EDGES_NONE those whose neighbours exist
 * @param sizes numbers of planes, rows and columns; 1 plane where there are none
 * @param reach how far neighbours are read in each direction
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (`kernel` is NULL); FERRY_ERROR_OUT_OF_RANGE;
 *         FERRY_ERROR_OVERFLOW (more than SIZE_MAX elements).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_kernel_cells(const ferry_kernel *kernel,
                                                          const ferry_box *box,
                                                          const size_t sizes[3],
                                                          const size_t reach[3], ferry_edges edges,
                                                          ferry_cells *out);

/**
 * Returns 1 if a launch of the kernel on the stream calls its host function and returns after it,
 * as on the host device, and 0 otherwise. Returns 0 for a kernel or a stream that cannot be used.
 * @param stream NULL: the default stream, as for ferry_kernel_launch()
 * Threads: any.
 */
FERRY_API int ferry_kernel_runs_here(const ferry_kernel *kernel, ferry_stream *stream);

/**
 * Returns an argument that passes memory of the program for one element, to an OVERWRITE or UPDATE
 * parameter. ferry_kernel_launch() takes it where ferry_kernel_runs_here() returns 1, and refuses
 * it elsewhere (FERRY_ERROR_UNSUPPORTED). Such a launch returns the failure of the host function.
 * Threads: any.
 */
FERRY_API ferry_argument ferry_result_argument(const ferry_element *element, void *result);

/**
 * Returns 1 if the host function must find the elements of arrays that it indexes freely by
 * ferry_call_element(), as in a checked run, and 0 otherwise.
 * Threads: the one that runs the host function.
 */
FERRY_API int ferry_call_is_checked(const ferry_call *call);

/**
 * Returns the address of element `at` of the array that is argument `index`. If the array has no
 * such element, the call logs an error for the first such index of the array, and returns the
 * address of an element that holds zeros, whose value later calls change. Returns NULL where
 * ferry_call_is_checked() returns 0, and for an argument that is no array.
 * Threads: the one that runs the host function.
 */
FERRY_API void *ferry_call_element(const ferry_call *call, size_t index, int64_t at);

FERRY_END_DECLS

#endif
