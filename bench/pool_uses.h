/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_USES_H
#define BENCH_POOL_USES_H

#include "bench.h"

/* The pool where it is used: on a stream, and under a buffer. Both add to the report; false after a
 * message on stderr. */

/* Counted: work queued on a stream, its block given back there and taken again there, calls the
 * device for nothing: no event is recorded. */
bool pool_uses_count_calls(ferry_context *context, struct bench_report *report);
/* A temporary buffer, created, written and destroyed, against `pool_pair` nanoseconds of a bare
 * take and give. */
bool pool_uses_measure_temporary(ferry_context *context, struct bench_report *report, bool quick,
                                 double pool_pair);

#endif
