/* SPDX-License-Identifier: MIT */
#ifndef BENCH_POOL_THREADS_H
#define BENCH_POOL_THREADS_H

/* The pool and its peers under two threads. Both add to the report; false after a message on
 * stderr. */

#include "pool_loop.h"
#include "pool_times.h"

/* Each thread has a separate working set; `one` is what each of `patterns` took with one thread.
 */
bool threads_measure_patterns(const struct subject *subject, const struct heaps *heaps,
                              struct bench_report *report, bool quick, const struct times *one);
/* One takes, the other gives back. */
bool threads_measure_hand_over(const struct subject *subject, const struct heaps *heaps,
                               struct bench_report *report, bool quick);

#endif
