/* SPDX-License-Identifier: MIT */
#ifndef CONVERT_KERNELS_H
#define CONVERT_KERNELS_H

/*
 * The library's device kernels, their CUDA source compiled as C: blocks and threads run one after
 * another. With them fakecuda is a device that converts.
 */

#include "tests/support/fakecuda.h"

struct convert_kernel {
    const char *name; /* the entry point */
    fakecuda_kernel *run;
};

extern const struct convert_kernel convert_kernels[];
extern const size_t convert_kernel_count;

/* NULL: there is none of that name. */
fakecuda_kernel *convert_kernel_find(const char *name);

/* Give them all to the fakecuda that FERRY_CUDA_LIBRARY names; does nothing where that is not one.
 */
void convert_kernels_register(void);

#endif
