/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CUDA_LOADER_H
#define FERRYI_CUDA_LOADER_H

/*
 * Finds the CUDA driver at run time. The library links neither libcuda nor cudart; a process
 * without a driver gets FERRY_ERROR_NO_DEVICE with the reason in its message.
 */

#include "src/base/base.h"
#include "src/device/cuda_abi.h"

/* The process's driver: libcuda.so.1, or what FERRY_CUDA_LIBRARY names. Loaded and initialised by
 * the first call and never closed; later calls repeat the first one's answer. */
ferry_status ferryi_cuda_driver_get(const struct ferryi_cuda_driver **out);

/* Fill a table from one library and initialise that driver. A missing required symbol is
 * FERRY_ERROR_NO_DEVICE with its name; an optional group with a missing symbol is left out of
 * `groups`. */
ferry_status ferryi_cuda_driver_load(const char *library_name, struct ferryi_cuda_driver *out);

/* The driver's own name for an error; never NULL. `buffer` holds the number of an error that the
 * driver cannot name. */
const char *ferryi_cuda_error_name(const struct ferryi_cuda_driver *driver, ferryi_cu_result error,
                                   char buffer[32]);

#endif
