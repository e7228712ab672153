/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TRACES_H
#define BENCH_TRACES_H

#include "bench.h"

/*
 * Measures the memory that the pool needs for typical programs: the smallest limit with which each
 * trace of traces/generate.py succeeds. The peer is a best-fit pool. Both use host memory that is
 * not touched. Adds to the report. Returns false after a message on stderr.
 */
bool traces_measure(struct bench_report *report);

#endif
