/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_THREADS_H
#define BENCH_POOL_THREADS_H

/* Measures the memory pool and other allocators in two threads. Each function of this file adds its
 * results to the report. On failure a function prints a message on stderr and returns false. */

#include "pool_loop.h"
#include "pool_times.h"

/* Runs the allocation patterns in two threads that use different blocks. The array `one` contains
 * the time of each pattern with a single thread, for comparison. */
bool threads_measure_patterns(const struct subject *subject, const struct heaps *heaps,
                              struct bench_report *report, bool quick, const struct times *one);
/* Measures blocks that one thread allocates and a second thread frees. */
bool threads_measure_hand_over(const struct subject *subject, const struct heaps *heaps,
                               struct bench_report *report, bool quick);

#endif
