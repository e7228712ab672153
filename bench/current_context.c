/* SPDX-License-Identifier: MIT */
#include "current_context.h"

#include <stdio.h>

#include "src/device/cuda/cuda_loader.h"

bool
current_context_push(struct current_context *current)
{
    const struct ferryi_cuda_driver *driver;
    ferryi_cu_context native;
    if (ferryi_cuda_driver_get(&driver) == FERRY_OK &&
        driver->cuDevicePrimaryCtxRetain(&native, 0) == FERRYI_CUDA_SUCCESS &&
        driver->cuCtxPushCurrent_v2(native) == FERRYI_CUDA_SUCCESS) {
        current->driver = driver;
        return true;
    }
    fprintf(stderr, "the context of device 0 cannot be made current\n");
    return false;
}

void
current_context_pop(struct current_context *current)
{
    ferryi_cu_context native;
    if (!current->driver)
        return;
    if (current->driver->cuCtxPopCurrent_v2(&native) != FERRYI_CUDA_SUCCESS ||
        current->driver->cuDevicePrimaryCtxRelease_v2(0) != FERRYI_CUDA_SUCCESS)
        fprintf(stderr, "the context of device 0 cannot be released\n");
    current->driver = NULL;
}
