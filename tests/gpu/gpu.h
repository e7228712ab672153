/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_GPU_H
#define FERRY_TEST_GPU_H

/* Functions for GPU programs that may also run over fakecuda, the library that imitates the CUDA
 * driver. */

#include "tests/support/fakecuda.h"

/* Registers the host function of a kernel if the driver is fakecuda. A real driver runs the
 * kernel's PTX instead. */
static inline void
gpu_give_kernel(const char *name, fakecuda_kernel *run, int count, const size_t *bytes)
{
    struct fakecuda fake;
    if (fakecuda_find_driver(&fake))
        fake.fakecuda_register_kernel(name, run, count, bytes);
}

#endif
