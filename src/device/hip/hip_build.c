/* SPDX-License-Identifier: MIT */
#include "src/device/hip/hip.h"
ferry_status
ferryi_hip_code_build(ferryi_device *device, const struct ferryi_code_job *job, void **out_module)
{
    return ferryi_unsupported_ops.code_build(device, job, out_module);
}
ferry_status
ferryi_hip_code_check(const struct ferryi_code_job *job, const char *target, size_t most,
                      size_t *out_bytes, size_t *out_count)
{
    (void)job, (void)target, (void)most, (void)out_bytes, (void)out_count;
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "HIP source");
}
