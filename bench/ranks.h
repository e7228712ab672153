/* SPDX-License-Identifier: MIT */
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include "bench.h"

/** True in a process that bench_start_ranks() or mpiexec started as a rank. */
bool bench_is_rank(void);

/**
 * Becomes mpiexec, which starts this program as `ranks` ranks on this machine, with the same
 * options. Does not return, except on failure.
 */
int bench_start_ranks(char **argv, const struct bench_options *options, const char *ranks);

#endif
