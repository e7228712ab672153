/* SPDX-License-Identifier: MIT */
#ifndef FAKE_KERNELS_H
#define FAKE_KERNELS_H

#include <stdbool.h>

#include <ferry/ferry.h>

/**
 * Returns whether the first device of the context runs kernels as host functions. Sums then have
 * the same bits as sums of these functions, because the order of the additions is the same. On a
 * GPU, many threads add in a different order.
 */
bool kernels_are_host_functions(ferry_context *context);

#endif
