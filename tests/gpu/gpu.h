/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_GPU_H
#define FERRY_TEST_GPU_H

/* Support for the GPU programs when they run over fakecuda instead of a real driver. */

#include "tests/support/fakecuda.h"

/* If the driver is fakecuda, registers a host function for a kernel that exists as PTX for a
 * GPU. */
static inline void
gpu_give_kernel(const char *name, fakecuda_kernel *run, int count, const size_t *bytes)
{
    struct fakecuda fake;
    if (fakecuda_find_driver(&fake))
        fake.fakecuda_register_kernel(name, run, count, bytes);
}

#endif
