/* SPDX-License-Identifier: MIT */
#ifndef BENCH_CALL_CASES_H
#define BENCH_CALL_CASES_H

/*
 * Counts the driver calls of common operations over fakecuda. Each case first runs until its counts
 * no longer change, and then runs the rounds that are counted. The benchmark `calls` reports the
 * counts, and tests/buffer/test_calls.c checks them.
 */

#include <ferry/ferry.h>

#include "tests/support/fakecuda.h"

struct call_case {
    const char *name;
    double goal; /* driver calls of one round; -1: no goal */
    double most; /* upper bound in the test: the goal, or more where the goal is missed */
};

extern const struct call_case call_cases[];
extern const size_t call_case_count;

struct call_counts {
    double calls;       /* driver calls for each round, without cuCtxGetCurrent */
    double get_current; /* calls of cuCtxGetCurrent, a cheap query, for each round */
};

struct call_world;

/*
 * Opens a context on the CUDA device of FERRY_CUDA_LIBRARY, which is fakecuda. With `current`, the
 * CUDA context stays current in this thread, as in a program that uses the CUDA runtime. Returns
 * NULL after a message on stderr.
 */
struct call_world *call_world_open(bool current);
void call_world_close(struct call_world *world);
/* Runs one case. Returns false after a message on stderr. */
bool call_case_count_calls(struct call_world *world, size_t index, struct call_counts *out);

#endif
