/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CUDA_H
#define FERRYI_CUDA_H

/* What the files of the CUDA device share. */

#include "src/device/gpu/gpu_driver.h"

extern const struct ferryi_gpu_vendor ferryi_cuda_vendor;

/* The function `build` of the vendor. */
ferry_status ferryi_cuda_build(struct ferryi_gpu_device *gpu, const struct ferryi_code_job *job,
                               struct ferryi_image **images, void **out_module);
/* The function code_check of the CUDA kind. */
ferry_status ferryi_cuda_code_check(const struct ferryi_code_job *job, const char *target,
                                    size_t most, size_t *out_bytes, size_t *out_count);

#endif
