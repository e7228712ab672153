/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CUDA_LOADER_H
#define FERRYI_CUDA_LOADER_H

/*
 * Finds the CUDA driver at run time, because the library links neither libcuda nor cudart. In a
 * process without a driver, calls fail with FERRY_ERROR_NO_DEVICE and a message that states the
 * reason.
 */

#include "src/base/base.h"
#include "src/device/cuda/cuda_abi.h"

/* Returns the functions of the process's CUDA driver. The driver is the library libcuda.so.1, or
 * the library that the environment variable FERRY_CUDA_LIBRARY names. The first call loads and
 * initialises the driver, which is never unloaded. Later calls return the result of the first call.
 */
ferry_status ferryi_cuda_driver_get(const struct ferryi_cuda_driver **out);

/* Loads a library, fills the table of its functions and initialises the driver. If a required
 * symbol is missing, fails with FERRY_ERROR_NO_DEVICE and a message that names the symbol. If a
 * symbol of an optional group is missing, the bit of that group is not set in `groups`. */
ferry_status ferryi_cuda_driver_load(const char *library_name, struct ferryi_cuda_driver *out);

/* Returns the driver's name for an error; never NULL. If the driver has no name for it, writes the
 * error's number to `buffer` and returns `buffer`. */
const char *ferryi_cuda_error_name(const struct ferryi_cuda_driver *driver, ferryi_cu_result error,
                                   char buffer[32]);

#endif
