/* SPDX-License-Identifier: MIT */
/*
 * Compares src/device/opencl/opencl_abi.h with the real <CL/cl.h> and <CL/cl_ext.h>. This file is
 * compiled but never run. The compiler compares each prototype of opencl_abi.h with the declaration
 * of the same function in the real headers. So a wrong type or a missing parameter fails to
 * compile.
 */
#include "src/device/opencl/opencl_abi.h"

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#define SAME_VALUE(name, value)                                                                    \
    _Static_assert((long long)(name) == (value), #name " has another value");
#define SAME_ERROR(name, value, status) SAME_VALUE(name, value)
FERRYI_OPENCL_ERRORS(SAME_ERROR)
FERRYI_OPENCL_CONSTANTS(SAME_VALUE)
SAME_VALUE(CL_DEVICE_TYPE_ALL, FERRYI_CL_DEVICE_TYPE_ALL)

#define SAME_FUNCTION(group, result, name, parameters) result name parameters;
#define SAME_EXTENSION(result, name, parameters)       result name parameters;
FERRYI_OPENCL_SYMBOLS(SAME_FUNCTION)
FERRYI_OPENCL_USM_SYMBOLS(SAME_EXTENSION)
