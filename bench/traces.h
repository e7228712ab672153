/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TRACES_H
#define BENCH_TRACES_H

#include "bench.h"

/*
 * Measures how much memory the pool needs for typical programs. The result is the smallest limit
 * with which each trace of traces/generate.py succeeds. The peer is a best-fit pool. Both use host
 * memory that is never touched. Adds the results to the report. On failure prints a message on
 * stderr and returns false.
 */
bool traces_measure(struct bench_report *report);

#endif
