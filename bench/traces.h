/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TRACES_H
#define BENCH_TRACES_H

#include "bench.h"

/*
 * Measures how much memory the pool needs for typical programs. The result for each trace of
 * traces/generate.py is the smallest limit with which all its allocations succeed. The peer is a
 * best-fit pool. Pool and peer use host memory that is never touched. Adds the results to the
 * report. On failure prints a message on stderr and returns false.
 */
bool traces_measure(struct bench_report *report);

#endif
