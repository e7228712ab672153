/* SPDX-License-Identifier: MIT */
#ifndef SPREAD_H
#define SPREAD_H

#include <stddef.h>

#include <ferry/ferry.h>
#include <ferry/float.h>

/* Heat spreads over a plate: each cell becomes the mean of its four neighbours; the edge does not change. */

enum { SPREAD_PARAMETER_COUNT = 7 };

/** Computes one step for `count` rows from `first`, in plain C. `now` begins with row `from`, `next` with row `first`. */
void spread(const float *now, size_t from, float *next, size_t first, size_t count, size_t rows, size_t columns);

/** Returns the kernel's description, which points into `parameters`. */
ferry_kernel_source spread_kernel_source(ferry_parameter parameters[SPREAD_PARAMETER_COUNT]);

/** Queues rows [first, end) of the next plate on the stream's device. Ferry copies what it lacks of rows first - 1 to end. */
ferry_status spread_launch(ferry_kernel *kernel, ferry_stream *stream, ferry_float_buffer now, ferry_float_buffer next, size_t first,
                           size_t end, size_t rows, size_t columns);

#endif
