/* SPDX-License-Identifier: MIT */
#include "current_context.h"

#include <stdio.h>

#include "src/device/cuda/cuda.h"
#include "src/device/cuda/cuda_abi.h"
#include "src/device/gpu/gpu_driver.h"

bool
current_context_push(struct current_context *current)
{
    const struct ferryi_gpu_driver *driver;
    ferryi_gpu_context native;
    if (ferryi_gpu_driver_get(&ferryi_cuda_vendor, &driver) == FERRY_OK &&
        driver->context_retain(&native, 0) == FERRYI_GPU_SUCCESS &&
        driver->context_push(native) == FERRYI_GPU_SUCCESS) {
        current->driver = driver;
        return true;
    }
    fprintf(stderr, "the context of device 0 cannot be made current\n");
    return false;
}

void
current_context_pop(struct current_context *current)
{
    ferryi_gpu_context native;
    if (!current->driver)
        return;
    if (current->driver->context_pop(&native) != FERRYI_GPU_SUCCESS ||
        current->driver->context_release(0) != FERRYI_GPU_SUCCESS)
        fprintf(stderr, "the context of device 0 cannot be released\n");
    current->driver = NULL;
}
