/* SPDX-License-Identifier: MIT */
#ifndef CONVERT_KERNELS_H
#define CONVERT_KERNELS_H

/*
 * Ferry's CUDA kernels for conversions, compiled as C. With these functions fakecuda can launch the
 * kernels. Each function runs the threads of a grid one after another.
 */

#include "tests/support/fakecuda.h"

struct convert_kernel {
    const char *name; /* the entry point */
    fakecuda_kernel *run;
};

extern const struct convert_kernel convert_kernels[];
extern const size_t convert_kernel_count;

/* Returns the host function of the conversion kernel that is called `name`. Returns NULL if there
 * is no such kernel. */
fakecuda_kernel *convert_kernel_find(const char *name);

/* Registers all conversion kernels with the library that FERRY_CUDA_LIBRARY names. Does nothing if
 * that library is not fakecuda. */
void convert_kernels_register(void);

#endif
