/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CUDA_LOADER_H
#define FERRYI_CUDA_LOADER_H

/*
 * Finds the CUDA driver at run time. The library links neither libcuda nor cudart; a process
 * without a driver gets FERRY_ERROR_NO_DEVICE with the reason in its message.
 */

#include "src/base/base.h"
#include "src/device/cuda_abi.h"

/* Returns the driver of the process: libcuda.so.1, or the library that FERRY_CUDA_LIBRARY names.
 * The first call loads and initialises it; it is never unloaded. Later calls return the result of
 * the first. */
ferry_status ferryi_cuda_driver_get(const struct ferryi_cuda_driver **out);

/* Loads a library, fills the table of its functions and initialises the driver. Fails with
 * FERRY_ERROR_NO_DEVICE and the symbol's name if a required symbol is missing. An optional group
 * with a missing symbol is left out of `groups`. */
ferry_status ferryi_cuda_driver_load(const char *library_name, struct ferryi_cuda_driver *out);

/* Returns the driver's name for an error; never NULL. If the driver has no name for it, the error's
 * number is written to `buffer` and returned. */
const char *ferryi_cuda_error_name(const struct ferryi_cuda_driver *driver, ferryi_cu_result error,
                                   char buffer[32]);

#endif
