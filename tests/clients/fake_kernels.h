/* SPDX-License-Identifier: MIT */
#ifndef FAKE_KERNELS_H
#define FAKE_KERNELS_H

#include <stdbool.h>

#include <ferry/ferry.h>

/**
 * Returns whether the first device of the context runs kernels as host functions. Sums then have
 * the order, and so the bits, of these functions. On a GPU, many threads add, in an order of their
 * own.
 */
bool kernels_are_host_functions(ferry_context *context);

#endif
