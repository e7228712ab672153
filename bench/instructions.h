/* SPDX-License-Identifier: MIT */
#ifndef BENCH_INSTRUCTIONS_H
#define BENCH_INSTRUCTIONS_H

#include <stdbool.h>

/**
 * Counts the instructions of one round of a loop with callgrind. It runs this program on the
 * emulated device as `--loop NAME COUNT` with two different counts, and divides the difference of
 * the results by the difference of the counts. Only instructions inside the NULL-terminated list
 * `functions` are counted; NULL means the whole loop. Returns false if valgrind is not installed,
 * or fails.
 */
bool bench_count_instructions(const char *name, const char *const *functions, double *out);

#endif
