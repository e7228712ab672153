/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HIP_H
#define FERRYI_HIP_H

/* What the files of the HIP device share. */

#include "src/device/gpu/gpu_driver.h"

extern const struct ferryi_gpu_vendor ferryi_hip_vendor;

/* The major release of ROCm that a version of HIP belongs to. */
static inline int
ferryi_hip_major(int version)
{
    return version / 10000000;
}

/* The function code_build of the device table. */
FERRYI_SLOT_TYPE(code_build) ferryi_hip_code_build;
/* The function code_check of the HIP kind. */
ferry_status ferryi_hip_code_check(const struct ferryi_code_job *job, const char *target,
                                   size_t most, size_t *out_bytes, size_t *out_count);

#endif
