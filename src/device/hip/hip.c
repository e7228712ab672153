/* SPDX-License-Identifier: MIT */
/* What HIP adds to the devices of src/device/gpu: the names of the library and of its functions,
 * the functions whose parameters differ, the numbers of attributes, and the form of its code. */
#include "src/device/hip/hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/device/gpu/gpu_device.h"
#include "src/device/hip/hip_abi.h"

/* -- functions with other parameters ----------------------------------------------------------- */

/* The library's functions that the functions below call. A process uses one library. */
static struct functions {
#define MEMBER(member, name, result, parameters) __typeof__(result)(*name) parameters;
    FERRYI_HIP_OTHER(MEMBER)
#undef MEMBER
#define MEMBER(name, result, parameters) __typeof__(result)(*name) parameters;
    FERRYI_HIP_OWN(MEMBER)
#undef MEMBER
    __typeof__(((struct ferryi_gpu_driver *)0)->pointer_attribute) hipPointerGetAttribute;
    __typeof__(((struct ferryi_gpu_driver *)0)->launch) hipModuleLaunchKernel;
} hip;

static ferryi_gpu_result
error_name(ferryi_gpu_result error, const char **out_name)
{
    *out_name = hip.hipGetErrorName(error);
    return FERRYI_GPU_SUCCESS;
}

/* Queries an attribute of a pointer. Before ROCm 6, memory types have other numbers. */
static ferryi_gpu_result
pointer_attribute(void *out_value, ferryi_gpu_pointer_attribute attribute,
                  ferryi_gpu_pointer memory)
{
    ferryi_gpu_result result = hip.hipPointerGetAttribute(out_value, attribute, memory);
    ferryi_gpu_memory_type *type = out_value;
    if (result != FERRYI_GPU_SUCCESS || attribute != FERRYI_GPU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
        hip.hipGetDevicePropertiesR0600)
        return result;
    if (*type == FERRYI_HIP_MEMORYTYPE_HOST_5)
        *type = FERRYI_GPU_MEMORYTYPE_HOST;
    else if (*type == FERRYI_HIP_MEMORYTYPE_DEVICE_5)
        *type = FERRYI_GPU_MEMORYTYPE_DEVICE;
    return result;
}

/* Copies between devices. Their numbers take the place of their contexts
 * (ferryi_gpu_vendor.copies_between_numbers). */
static ferryi_gpu_result
copy_peer(ferryi_gpu_pointer target, ferryi_gpu_context target_device, ferryi_gpu_pointer source,
          ferryi_gpu_context source_device, size_t bytes, ferryi_gpu_stream stream)
{
    return hip.hipMemcpyPeerAsync((void *)(uintptr_t)target, (int)(uintptr_t)target_device,
                                  (const void *)(uintptr_t)source, (int)(uintptr_t)source_device,
                                  bytes, stream);
}

/* Copies rows. The function that takes a struct would need the numbers of memory types, which
 * differ between releases. This one finds out where the memory is. */
static ferryi_gpu_result
copy_2d(const struct ferryi_gpu_copy_2d *copy, ferryi_gpu_stream stream)
{
    void *target = copy->target_type == FERRYI_GPU_MEMORYTYPE_HOST
                       ? copy->target_host
                       : (void *)(uintptr_t)copy->target_device;
    const void *source = copy->source_type == FERRYI_GPU_MEMORYTYPE_HOST
                             ? copy->source_host
                             : (const void *)(uintptr_t)copy->source_device;
    return hip.hipMemcpy2DAsync(target, copy->target_pitch, source, copy->source_pitch,
                                copy->width_bytes, copy->height, FERRYI_HIP_MEMCPY_DEFAULT, stream);
}

static ferryi_gpu_result
copy_peer_2d(const struct ferryi_gpu_copy_3d_peer *copy, ferryi_gpu_stream stream)
{
    return hip.hipMemcpy2DAsync((void *)(uintptr_t)copy->target_device, copy->target_pitch,
                                (const void *)(uintptr_t)copy->source_device, copy->source_pitch,
                                copy->width_bytes, copy->height, FERRYI_HIP_MEMCPY_DEFAULT, stream);
}

/* Opens memory of another process. Releases number the flag differently, and their versions do not
 * say how. */
static ferryi_gpu_result
memory_open(ferryi_gpu_pointer *out_memory, struct ferryi_gpu_memory_token token,
            unsigned int flags)
{
    void *memory = NULL;
    ferryi_gpu_result result = hip.hipIpcOpenMemHandle(&memory, token, flags);
    if (result == FERRYI_GPU_ERROR_INVALID_VALUE)
        result = hip.hipIpcOpenMemHandle(&memory, token, FERRYI_HIP_IPC_FLAGS_5);
    if (result == FERRYI_GPU_SUCCESS)
        *out_memory = (uintptr_t)memory;
    return result;
}

static bool
has_too_many_threads(unsigned int blocks, unsigned int threads)
{
    return (uint64_t)blocks * threads > FERRYI_HIP_THREADS_MAX;
}

/* Launches a kernel. Not every release refuses more threads than it can launch. */
static ferryi_gpu_result
launch(ferryi_gpu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
       ferryi_gpu_stream stream, void **arguments, void **extra)
{
    if (has_too_many_threads(grid_x, block_x) || has_too_many_threads(grid_y, block_y) ||
        has_too_many_threads(grid_z, block_z))
        return FERRYI_HIP_ERROR_INVALID_CONFIGURATION;
    return hip.hipModuleLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                     shared_bytes, stream, arguments, extra);
}

/* Launches a kernel with attributes. The library has a function for cooperative launches alone. */
static ferryi_gpu_result
launch_with(const struct ferryi_gpu_launch_config *config, ferryi_gpu_function function,
            void **arguments, void **extra)
{
    if (config->attribute_count != 1 ||
        config->attributes[0].id != FERRYI_GPU_LAUNCH_ATTRIBUTE_COOPERATIVE || extra)
        return FERRYI_GPU_ERROR_NOT_SUPPORTED;
    if (has_too_many_threads(config->grid_x, config->block_x) ||
        has_too_many_threads(config->grid_y, config->block_y) ||
        has_too_many_threads(config->grid_z, config->block_z))
        return FERRYI_HIP_ERROR_INVALID_CONFIGURATION;
    return hip.hipModuleLaunchCooperativeKernel(
        function, config->grid_x, config->grid_y, config->grid_z, config->block_x, config->block_y,
        config->block_z, config->shared_bytes, config->stream, arguments);
}

/* A host function that is queued as a callback. */
struct host_call {
    ferryi_gpu_host_function run;
    void *user;
};

static void
run_host_call(ferryi_gpu_stream stream, ferryi_gpu_result status, void *user)
{
    struct host_call call = *(struct host_call *)user;
    (void)stream, (void)status;
    free(user);
    call.run(call.user);
}

/* Queues a host function in a library without hipLaunchHostFunc. */
static ferryi_gpu_result
host_call(ferryi_gpu_stream stream, ferryi_gpu_host_function run, void *user)
{
    struct host_call *call = malloc(sizeof(*call));
    if (!call)
        return FERRYI_GPU_ERROR_OUT_OF_MEMORY;
    *call = (struct host_call){run, user};
    ferryi_gpu_result result = hip.hipStreamAddCallback(stream, run_host_call, call, 0);
    if (result != FERRYI_GPU_SUCCESS)
        free(call);
    return result;
}

/* -- the driver -------------------------------------------------------------------------------- */

/* copy_peer_2d has the name of the function that it calls. The name of function_set_attribute is
 * missing: all shared memory may be used without an opt-in. */
static const char *const names[FERRYI_GPU_CALL_COUNT] = {
#define NAME(member, name) [FERRYI_GPU_CALL_##member] = #name,
    FERRYI_HIP_SAME(NAME) FERRYI_HIP_LATER(NAME) FERRYI_HIP_RANGES(NAME)
#undef NAME
#define NAME(member, name, result, parameters) [FERRYI_GPU_CALL_##member] = #name,
        FERRYI_HIP_OTHER(NAME)
#undef NAME
            [FERRYI_GPU_CALL_copy_peer_2d] = "hipMemcpy2DAsync",
};

static const unsigned int attributes[FERRYI_GPU_ATTRIBUTE_COUNT] = {
#define ATTRIBUTE(name, hip_name, number) [FERRYI_GPU_ATTRIBUTE_##name] = (number),
    FERRYI_HIP_ATTRIBUTES(ATTRIBUTE) FERRYI_HIP_ATTRIBUTES_LATER(ATTRIBUTE)
#undef ATTRIBUTE
};

/* Keeps the library's functions whose parameters differ, and puts the functions above in their
 * place. A function that the library lacks stays NULL. Another library than HIP's changes nothing.
 */
static void
adapt(void *library, struct ferryi_gpu_driver *driver)
{
    struct functions found = {.hipPointerGetAttribute = driver->pointer_attribute,
                              .hipModuleLaunchKernel = driver->launch};
    void *address;
#define TAKE(name)                                                                                 \
    address = ferryi_library_symbol(library, #name);                                               \
    memcpy(&found.name, &address, sizeof(address));
#define TAKE_OTHER(member, name, result, parameters)                                               \
    TAKE(name) driver->member = found.name ? (member) : NULL;
#define TAKE_OWN(name, result, parameters) TAKE(name)
    FERRYI_HIP_OTHER(TAKE_OTHER)
    FERRYI_HIP_OWN(TAKE_OWN)
#undef TAKE
#undef TAKE_OTHER
#undef TAKE_OWN
    if (!driver->init || !found.hipGetDeviceProperties)
        return;
    hip = found;
    driver->copy_peer_2d = hip.hipMemcpy2DAsync ? copy_peer_2d : NULL;
    driver->pointer_attribute = hip.hipPointerGetAttribute ? pointer_attribute : NULL;
    driver->launch = hip.hipModuleLaunchKernel ? launch : NULL;
    if (!driver->host_call && hip.hipStreamAddCallback)
        driver->host_call = host_call;
}

/* Reads the name of the architecture with its features, such as "gfx90a:sramecc+:xnack-". */
static ferry_status
read_target(struct ferryi_gpu_device *gpu)
{
    struct ferryi_device_properties *properties = &gpu->base.properties;
    const bool is_newer = hip.hipGetDevicePropertiesR0600;
    const size_t offset = is_newer ? FERRYI_HIP_ARCHITECTURE_6 : FERRYI_HIP_ARCHITECTURE_5;
    const char *call = is_newer ? "hipGetDevicePropertiesR0600" : "hipGetDeviceProperties";
    char number[32];
    if (!is_newer && !hip.hipGetDeviceProperties)
        return ferryi_fail(FERRY_ERROR_NO_DEVICE, "the library has no hipGetDeviceProperties");
    char *bytes = calloc(1, FERRYI_HIP_PROPERTIES_BYTES);
    if (!bytes)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory for its properties");
    ferryi_gpu_result result = is_newer ? hip.hipGetDevicePropertiesR0600(bytes, gpu->device)
                                        : hip.hipGetDeviceProperties(bytes, gpu->device);
    snprintf(properties->target, sizeof(properties->target), "%.*s",
             (int)sizeof(properties->target) - 1, bytes + offset);
    free(bytes);
    if (result != FERRYI_GPU_SUCCESS)
        return ferryi_fail(FERRY_ERROR_DEVICE, "%s: %s", call,
                           ferryi_gpu_error_name(gpu->driver, result, number));
    if (strncmp(properties->target, "gfx", 3) != 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "%s: no name of an architecture where this "
                           "release of HIP should have one",
                           call);
    return FERRY_OK;
}

static ferry_status
describe(struct ferryi_gpu_device *gpu)
{
    int version = 0;
    FERRYI_OR_RETURN(FERRYI_GPU_CALL(gpu, version, &version));
    gpu->base.properties.driver_version =
        1000 * ferryi_hip_major(version) + 10 * (version / 100000 % 100);
    return read_target(gpu);
}

/* Code objects and bundles of them contain their size. */
static bool
image_has_end(const void *image, size_t bytes)
{
    static const char object[] = "\177ELF", bundle[] = "__CLANG_OFFLOAD_BUNDLE__";
    return (bytes >= sizeof(object) - 1 && memcmp(image, object, sizeof(object) - 1) == 0) ||
           (bytes >= sizeof(bundle) - 1 && memcmp(image, bundle, sizeof(bundle) - 1) == 0);
}

static void
load_once(void)
{
    ferryi_gpu_driver_load_usual(&ferryi_hip_vendor);
}

static struct ferryi_gpu_loaded loaded = {.once = PTHREAD_ONCE_INIT};

const struct ferryi_gpu_vendor ferryi_hip_vendor = {
    .kind = "hip",
    .title = "HIP",
    .language = FERRY_LANGUAGE_HIP,
    .images = "a code object or a bundle of code objects",
    .library_variable = "FERRY_HIP_LIBRARY",
    .library_names =
        (const char *const[]){"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", NULL},
    .device_file = "/dev/kfd", /* of the driver of the Linux kernel */
    .names = names,
    .attributes = attributes,
    .legacy_stream = NULL,
    .per_thread_stream = FERRYI_HIP_STREAM_PER_THREAD,
    .copies_between_numbers = true,
    .shares_integrated = true,
    .threads_max = FERRYI_HIP_THREADS_MAX,
    .loaded = &loaded,
    .load_once = load_once,
    .adapt = adapt,
    .describe = describe,
    .image_has_end = image_has_end,
    .build = ferryi_hip_build,
};

static ferry_status
open_device(int ordinal, const struct ferryi_device_config *config, ferryi_device **out)
{
    return ferryi_gpu_open(&ferryi_hip_vendor, ordinal, config, out);
}

static int
count_devices(void)
{
    return ferryi_gpu_count(&ferryi_hip_vendor);
}

/* ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES choose and order the devices. */
const ferryi_device_kind ferryi_hip_kind = {.name = "hip",
                                            .count = count_devices,
                                            .open = open_device,
                                            .made_up = false,
                                            .language = FERRY_LANGUAGE_HIP,
                                            .code_check = ferryi_hip_code_check};
