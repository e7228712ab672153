/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_GPU_H
#define FERRY_TEST_GPU_H

/* Support for the GPU programs when they run over fakecuda instead of a real driver. */

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
