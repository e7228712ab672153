/* SPDX-License-Identifier: MIT */
#ifndef BENCH_INSTRUCTIONS_H
#define BENCH_INSTRUCTIONS_H

#include <stdbool.h>

/**
 * Counts the instructions of one round of a loop with callgrind. Runs this program twice under
 * callgrind as `--loop NAME COUNT`, on the emulated device, with different counts of rounds.
 * Divides the difference between the numbers of instructions by the difference between the counts.
 *
 * Only instructions inside the functions of the NULL-terminated list `functions` are counted. If
 * `functions` is NULL, the whole loop is counted. Returns false if valgrind is not installed or
 * fails.
 */
bool bench_count_instructions(const char *name, const char *const *functions, double *out);

#endif
