/* SPDX-License-Identifier: MIT */
#ifndef BENCH_CALL_CASES_H
#define BENCH_CALL_CASES_H

/*
 * Counts the driver calls of common operations over the fake driver fakecuda. Each case first runs
 * uncounted rounds, until the number of calls per round is constant. Then it runs the counted
 * rounds. The benchmark `calls` reports the counts, and tests/buffer/test_calls.c checks them.
 */

#include <ferry/ferry.h>

#include "tests/support/fakecuda.h"

struct call_case {
    const char *name;
    double goal; /* goal for the number of driver calls in one round; -1: no goal */
    double most; /* maximum number of driver calls in one round that the test accepts; larger than
                    `goal` if the library does not reach the goal */
};

extern const struct call_case call_cases[];
extern const size_t call_case_count;

struct call_counts {
    double calls;       /* number of driver calls in one round, except calls of cuCtxGetCurrent */
    double get_current; /* number of calls of cuCtxGetCurrent, a cheap query, in one round */
};

struct call_world;

/*
 * Opens a context on the fake driver fakecuda, which the variable FERRY_CUDA_LIBRARY must name. If
 * `current` is true, the CUDA context stays current in this thread, as in a program that uses the
 * CUDA runtime. On failure prints a message on stderr and returns NULL.
 */
struct call_world *call_world_open(bool current);
void call_world_close(struct call_world *world);
/* Runs one case and counts its driver calls. On failure prints a message on stderr and returns
 * false. */
bool call_case_count_calls(struct call_world *world, size_t index, struct call_counts *out);

#endif
