/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_USES_H
#define BENCH_POOL_USES_H

#include "bench.h"

/* Measurements of the pool with streams, and with buffers. Both functions add to the report, and
 * return false after a message on stderr. */

/* Counts the device calls when a block is freed on a stream that still uses it, and allocated again
 * on this stream. There should be none, not even to record an event. */
bool pool_uses_count_calls(ferry_context *context, struct bench_report *report);
/* Measures creating, writing and destroying a temporary buffer, against `pool_pair`, the
 * nanoseconds of an allocation and a free. */
bool pool_uses_measure_temporary(ferry_context *context, struct bench_report *report, bool quick,
                                 double pool_pair);

#endif
