/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_USES_H
#define BENCH_POOL_USES_H

#include "bench.h"

/* Measures the memory pool when it is used with streams or with buffers. Each function of this file
 * adds its results to the report. On failure a function prints a message on stderr and returns
 * false. */

/* Allocates and frees a block on one stream repeatedly, without a wait between the calls. Counts
 * the device calls that the pool makes, which include calls that record an event. The expected
 * number is 0. */
bool pool_uses_count_calls(ferry_context *context, struct bench_report *report);
/* Measures the creation, a host write and the destruction of a temporary buffer. The result is
 * compared with `pool_pair`: the time of one allocation and one free of the pool, in nanoseconds.
 */
bool pool_uses_measure_temporary(ferry_context *context, struct bench_report *report, bool quick,
                                 double pool_pair);

#endif
