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

/* The function `build` of the vendor. */
ferry_status ferryi_hip_build(struct ferryi_gpu_device *gpu, const struct ferryi_code_job *job,
                              struct ferryi_image **images, void **out_module);
/* The function code_check of the HIP kind. */
ferry_status ferryi_hip_code_check(const struct ferryi_code_job *job, const char *target,
                                   size_t most, size_t *out_bytes, size_t *out_count);

#endif
