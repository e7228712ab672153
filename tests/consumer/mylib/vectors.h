/* SPDX-License-Identifier: MIT */
#ifndef MYLIB_VECTORS_H
#define MYLIB_VECTORS_H

#include <ferry/buffer.h>

/*
 * Functions for programs in other languages. They use untyped buffers, whose elements must have the
 * same layout as mylib_vec3.
 */

/* Creates a buffer of the vectors (0, 1, 1), (1, 1, 1), (2, 1, 1) ... The caller owns `*out`. */
ferry_status mylib_line(ferry_context *context, size_t count, ferry_buffer **out);
/* Adds `by` to the component x of each vector, with a kernel on the first device. Returns
 * FERRY_ERROR_WRONG_TYPE if the elements are not vectors. */
ferry_status mylib_shift(ferry_buffer *vectors, float by);

#endif
