/* SPDX-License-Identifier: MIT */
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include "bench.h"

/* Returns whether bench_start_ranks() or mpiexec started this process as a rank. */
bool bench_is_rank(void);

/**
 * Replaces this process with mpiexec, which starts this program as `ranks` ranks on this machine
 * with the same options. Returns only on failure.
 */
int bench_start_ranks(char **argv, const struct bench_options *options, const char *ranks);

#endif
