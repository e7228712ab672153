/* SPDX-License-Identifier: MIT */
#ifndef BENCH_INSTRUCTIONS_H
#define BENCH_INSTRUCTIONS_H

#include <stdbool.h>

/**
 * Instructions of one round of a loop, counted by callgrind: this program is run twice as `--loop
 * NAME COUNT` with two counts on the emulated device, and the difference is divided. Of what is
 * done inside of `functions` only, NULL-terminated; of the whole loop where that is NULL. False
 * where valgrind is not installed, or did not work.
 */
bool bench_count_instructions(const char *name, const char *const *functions, double *out);

#endif
