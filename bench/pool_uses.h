/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_USES_H
#define BENCH_POOL_USES_H

#include "bench.h"

/* Measurements of the pool when it is used with streams or with buffers. Both measuring functions
 * of this file add their results to the report. On failure they print a message on stderr and
 * return false. */

/* Counts the device calls that the pool makes when a block is freed on a stream that still uses it.
 * The block is then allocated again on the same stream. The expected number is 0, and this number
 * includes calls that record an event. */
bool pool_uses_count_calls(ferry_context *context, struct bench_report *report);
/* Measures creating, writing and destroying a temporary buffer. The result is compared with
 * `pool_pair`: the time of one allocation and one free in nanoseconds. */
bool pool_uses_measure_temporary(ferry_context *context, struct bench_report *report, bool quick,
                                 double pool_pair);

#endif
