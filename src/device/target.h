/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TARGET_H
#define FERRYI_TARGET_H

/*
 * Targets of compiled code, as texts: a compute capability of CUDA such as "sm_90", a processor of
 * HIP such as "gfx90a" with features such as ":xnack-", the name of an OpenCL device.
 */

#include "src/device/device.h"

/* A compute capability as the target of CUDA code. */
struct ferryi_cuda_target {
    bool is_portable; /* "compute_90", which a driver translates for newer devices, rather than
                         "sm_90" */
    int architecture; /* 10 * major + minor */
    char letter;      /* 'a' or 'f' at the end of the target, or 0 */
};

/* Reads a target such as "sm_90", "compute_90" or "sm_90a". Returns false if it is none. */
bool ferryi_cuda_target_read(const char *text, struct ferryi_cuda_target *out);

/* Returns whether a target has the form of those of a language. */
bool ferryi_target_is_of(ferry_language language, const char *target);
/* Checks the form of a target of code in a language.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT. */
ferry_status ferryi_target_check(ferry_language language, const char *target);

/* Returns whether a device runs code of its language that was compiled for a target of good form.
 */
bool ferryi_target_suits(const char *target, const ferryi_device *device);

#endif
