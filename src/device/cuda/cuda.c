/* SPDX-License-Identifier: MIT */
/* What CUDA adds to the devices of src/device/gpu: the names of the driver and of its functions,
 * the numbers of its attributes, and the forms of its code. */
#include "src/device/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

#include "src/device/cuda/cuda_abi.h"
#include "src/device/cuda/cufile.h"
#include "src/device/gpu/gpu_device.h"

static const char *const names[] = {
#define NAME(group, name, parameters) #name,
    FERRYI_CUDA_SYMBOLS(NAME)
#undef NAME
};

static const unsigned int attributes[FERRYI_GPU_ATTRIBUTE_COUNT] = {
#define ATTRIBUTE(name, number) [FERRYI_GPU_ATTRIBUTE_##name] = (number),
    FERRYI_CUDA_ATTRIBUTES(ATTRIBUTE) FERRYI_CUDA_ATTRIBUTES_12(ATTRIBUTE)
#undef ATTRIBUTE
};

static ferry_status
describe(struct ferryi_gpu_device *gpu)
{
    struct ferryi_device_properties *properties = &gpu->base.properties;
    int major = 0, minor = 0;
    FERRYI_OR_RETURN(FERRYI_GPU_CALL(gpu, version, &properties->driver_version));
    FERRYI_OR_RETURN(FERRYI_GPU_CALL(gpu, device_attribute, &major,
                                     FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                     gpu->device));
    FERRYI_OR_RETURN(FERRYI_GPU_CALL(gpu, device_attribute, &minor,
                                     FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                     gpu->device));
    properties->architecture = 10 * major + minor;
    snprintf(properties->target, sizeof(properties->target), "sm_%d", properties->architecture);
    return FERRY_OK;
}

/* Cubins and fatbins contain their size; a PTX text must end with a NUL. */
static bool
image_has_end(const void *image, size_t bytes)
{
    static const unsigned char cubin[4] = {0x7f, 'E', 'L', 'F'},
                               fatbin[4] = {0x50, 0xed, 0x55, 0xba};
    if (bytes >= 4 && (memcmp(image, cubin, 4) == 0 || memcmp(image, fatbin, 4) == 0))
        return true;
    return memchr(image, 0, bytes) != NULL;
}

static void
load_once(void)
{
    ferryi_gpu_driver_load_usual(&ferryi_cuda_vendor);
}

static struct ferryi_gpu_loaded loaded = {.once = PTHREAD_ONCE_INIT};

/* The CUDA Programming Guide says of memory of other processes (section "Interprocess
 * Communication"): only allocations with a size that is a multiple of 2 MiB should be shared, and
 * Tegra devices, which are integrated, share events alone. */
const struct ferryi_gpu_vendor ferryi_cuda_vendor = {
    .kind = "cuda",
    .title = "CUDA",
    .language = FERRY_LANGUAGE_CUDA,
    .images = "a cubin, a fatbin or a PTX text with its NUL",
    .library_variable = "FERRY_CUDA_LIBRARY",
    .library_names = (const char *const[]){"libcuda.so.1", NULL},
    .names = names,
    .attributes = attributes,
    .legacy_stream = FERRYI_CU_STREAM_LEGACY,
    .per_thread_stream = FERRYI_CU_STREAM_PER_THREAD,
    .takes_load_options = true,
    .tells_ranges = true,
    .shares_integrated = false,
    .loaded = &loaded,
    .load_once = load_once,
    .describe = describe,
    .image_has_end = image_has_end,
    .build = ferryi_cuda_build,
    .files = &ferryi_cufile_calls,
};

static ferry_status
open_device(int ordinal, const struct ferryi_device_config *config, ferryi_device **out)
{
    return ferryi_gpu_open(&ferryi_cuda_vendor, ordinal, config, out);
}

static int
count_devices(void)
{
    return ferryi_gpu_count(&ferryi_cuda_vendor);
}

/* By default, the driver lists the fastest device first, so ordinal 0 is the best device. The
 * environment variable CUDA_DEVICE_ORDER can change the order. */
const ferryi_device_kind ferryi_cuda_kind = {.name = "cuda",
                                             .count = count_devices,
                                             .open = open_device,
                                             .made_up = false,
                                             .language = FERRY_LANGUAGE_CUDA,
                                             .code_check = ferryi_cuda_code_check};
