/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TRACES_H
#define BENCH_TRACES_H

#include "bench.h"

/*
 * Measures how much memory the pool needs for typical programs. For each allocation trace of
 * traces/generate.py, the result is the smallest pool limit with which all allocations succeed. The
 * pool is compared with a best-fit allocator. Neither of them touches the memory of the blocks. The
 * function adds the results to the report. Unless `quick` is set, it also measures pools that map
 * handles of memory, which takes minutes. On failure it prints a message on stderr and returns
 * false.
 */
bool traces_measure(struct bench_report *report, bool quick);

#endif
