/* SPDX-License-Identifier: MIT */
#ifndef BENCH_CALL_CASES_H
#define BENCH_CALL_CASES_H

/*
 * Driver calls of the paths that programs take often, counted over fakecuda. Each case is run until
 * it is steady, and then some rounds more, which are counted. The benchmark `calls` reports the
 * cases, and tests/buffer/test_calls.c holds them.
 */

#include <ferry/ferry.h>

#include "tests/support/fakecuda.h"

struct call_case {
    const char *name;
    double goal; /* driver calls of one round; -1: there is none */
    double most; /* what the test allows: the goal, or more where the goal is missed */
};

extern const struct call_case call_cases[];
extern const size_t call_case_count;

struct call_counts {
    double calls;       /* of the driver, without cuCtxGetCurrent, for each round */
    double get_current; /* cuCtxGetCurrent, which reads a thread-local variable, for each round */
};

struct call_world;

/*
 * Opens a context on the CUDA device of FERRY_CUDA_LIBRARY, which is fakecuda. With `current` its
 * context stays the current one of this thread, as the CUDA runtime leaves it. NULL after a message
 * on stderr.
 */
struct call_world *call_world_open(bool current);
void call_world_close(struct call_world *world);
/* Runs one case. False after a message on stderr. */
bool call_case_count_calls(struct call_world *world, size_t index, struct call_counts *out);

#endif
