/* SPDX-License-Identifier: MIT */
#ifndef BENCH_CURRENT_CONTEXT_H
#define BENCH_CURRENT_CONTEXT_H

/* Makes the primary CUDA context of device 0 current in this thread, as the CUDA runtime does. */

#include <stdbool.h>

struct ferryi_gpu_driver;

struct current_context {
    const struct ferryi_gpu_driver *driver; /* NULL: no context was made current */
};

/* On failure prints a message on stderr and returns false. */
bool current_context_push(struct current_context *current);
/* Undoes current_context_push(). */
void current_context_pop(struct current_context *current);

#endif
