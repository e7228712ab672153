/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_THREADS_H
#define BENCH_POOL_THREADS_H

/* Measurements of the pool and its peers with two threads. Both measuring functions of this file
 * add their results to the report. On failure they print a message on stderr and return false. */

#include "pool_loop.h"
#include "pool_times.h"

/* Runs the patterns in two threads that use different blocks. `one` contains the times of each
 * pattern with one thread. */
bool threads_measure_patterns(const struct subject *subject, const struct heaps *heaps,
                              struct bench_report *report, bool quick, const struct times *one);
/* Measures a hand-over: one thread allocates blocks, and the other thread frees them. */
bool threads_measure_hand_over(const struct subject *subject, const struct heaps *heaps,
                               struct bench_report *report, bool quick);

#endif
