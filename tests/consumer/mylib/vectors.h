/* SPDX-License-Identifier: MIT */
#ifndef MYLIB_VECTORS_H
#define MYLIB_VECTORS_H

#include <ferry/buffer.h>

/*
 * For callers in other languages: untyped buffers whose elements have the content of mylib_vec3.
 * Whose header described them does not matter.
 */

/* Makes vectors (0, 1, 1), (1, 1, 1), (2, 1, 1) ... The caller owns `*out`. */
ferry_status mylib_line(ferry_context *context, size_t count, ferry_buffer **out);
/* Adds `by` to x of each vector, by a kernel on the first device. FERRY_ERROR_WRONG_TYPE for other
 * elements. */
ferry_status mylib_shift(ferry_buffer *vectors, float by);

#endif
