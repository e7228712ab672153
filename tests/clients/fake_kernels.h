/* SPDX-License-Identifier: MIT */
#ifndef FAKE_KERNELS_H
#define FAKE_KERNELS_H

#include <stdbool.h>

#include <ferry/ferry.h>

/**
 * Returns whether the first device of the context runs kernels as host functions. If it does, a sum
 * that a kernel computes has the same bits as a sum that a serial vector computes in the same order
 * of additions. On a GPU, many threads add in a different order.
 */
bool kernels_are_host_functions(ferry_context *context);

#endif
