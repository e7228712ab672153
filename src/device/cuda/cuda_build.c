/* SPDX-License-Identifier: MIT */
/* Compiles CUDA source with NVRTC: for a device, which loads the result, or only to check it. */
#include "src/device/cuda/cuda.h"

#include <stdlib.h>

#include "src/device/cuda/nvrtc.h"
#include "src/device/cuda/ptx.h"
#include "src/device/gpu/gpu_device.h"
#include "src/device/image.h"
#include "src/device/target.h"

/* The target of a check if the caller chooses none. */
#define DEFAULT_TARGET "sm_75"

/* -- for a device ------------------------------------------------------------------------------ */

/* Sets `*out` to the image of a code for a device, which is compiled if the list has none. If
 * `refused` is 1, the driver has refused the image of the first suitable NVRTC, and another one
 * compiles the code. */
static ferry_status
compile_for(const struct ferryi_gpu_device *gpu, const struct ferryi_code_job *job,
            struct ferryi_image **images, unsigned refused, const struct ferryi_image **out)
{
    const struct ferryi_device_properties *properties = &gpu->base.properties;
    const struct ferryi_nvrtc_source source = {.name = job->name,
                                               .text = job->code->code,
                                               .options = job->code->options,
                                               .option_count = job->code->option_count,
                                               .exact = job->code->flags & FERRY_CODE_EXACT,
                                               .architecture = properties->architecture,
                                               .driver_version = properties->driver_version,
                                               .refused = refused,
                                               .keep = true};
    struct ferryi_compiled image;
    *out = ferryi_images_find(*images, properties->target, refused);
    if (*out)
        return FERRY_OK;
    FERRYI_OR_RETURN(ferryi_nvrtc_compile(&source, &gpu->log, &image));
    FERRYI_OR_RETURN(
        ferryi_images_add(images, properties->target, refused, image.bytes, image.size));
    *out = *images;
    return FERRY_OK;
}

/* Compiles and loads a code. If the driver refuses the result, compiles it again with an NVRTC of
 * another release. */
ferry_status
ferryi_cuda_build(struct ferryi_gpu_device *gpu, const struct ferryi_code_job *job,
                  struct ferryi_image **images, void **out_module)
{
    const struct ferryi_image *image;
    FERRYI_OR_RETURN(compile_for(gpu, job, images, 0, &image));
    if (!out_module)
        return FERRY_OK;
    ferry_status status = ferryi_gpu_code_load(&gpu->base, image->bytes, image->size, out_module);
    if (image->refused > 0 || (status != FERRY_ERROR_UNSUPPORTED && status != FERRY_ERROR_DEVICE))
        return status;
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    if (compile_for(gpu, job, images, 1, &image) == FERRY_OK &&
        ferryi_gpu_code_load(&gpu->base, image->bytes, image->size, out_module) == FERRY_OK) {
        ferryi_log(&gpu->log, FERRY_LOG_INFO,
                   "load kernel \"%s\": the driver takes only the code of another NVRTC than the "
                   "first",
                   job->name);
        return FERRY_OK;
    }
    ferryi_last_error_restore(&why);
    return status;
}

/* -- without a device -------------------------------------------------------------------------- */

static ferry_status
read_target(const char *text, int *out_architecture)
{
    struct ferryi_cuda_target target;
    FERRYI_OR_RETURN(ferryi_target_check(FERRY_LANGUAGE_CUDA, text));
    (void)ferryi_cuda_target_read(text, &target);
    if (target.letter)
        return ferryi_fail(
            FERRY_ERROR_UNSUPPORTED,
            "the target \"%s\" has a letter; pass --gpu-architecture=%s as an option "
            "of the source",
            text, text);
    *out_architecture = target.architecture;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_code_check(const struct ferryi_code_job *job, const char *target, size_t most,
                       size_t *out_bytes, size_t *out_count)
{
    struct ferryi_compiled image;
    struct ferryi_nvrtc_source source = {.name = job->name,
                                         .text = job->code->code,
                                         .options = job->code->options,
                                         .option_count = job->code->option_count,
                                         .exact = job->code->flags & FERRY_CODE_EXACT,
                                         .portable = true};
    FERRYI_OR_RETURN(read_target(target ? target : DEFAULT_TARGET, &source.architecture));
    FERRYI_OR_RETURN(ferryi_nvrtc_compile(&source, NULL, &image));
    ferry_status status = ferryi_ptx_read(image.bytes, job->name, most, out_bytes, out_count);
    free(image.bytes);
    return status;
}
