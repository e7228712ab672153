/* SPDX-License-Identifier: MIT */
/* A part of fakehip, which is fakecuda with the entry points of the HIP library of ROCm 5.2 or 6.3
 * (FAKEHIP in fakecuda_internal.h): the functions whose parameters differ from those of the CUDA
 * driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fakecuda_internal.h"

#define INVALID_DIRECTION 21 /* hipErrorInvalidMemcpyDirection */

/* The names of the architecture of all devices: that of an MI210, if FAKEHIP_TARGET is not set. */
#define TARGET                                    "gfx90a:sramecc+:xnack-"

#define NAME_OF(member)                           FAKE_ENTRY(FERRYI_CUDA_NAME_##member)
#define FAKE_ENTRY(name)                          FAKE_ENTRY_OF(name)
#define FAKE_ENTRY_OF(name)                       FAKE_##name

#define DECLARE(member, name, result, parameters) FAKE_EXPORT result name parameters;
FERRYI_HIP_OTHER(DECLARE)
#undef DECLARE
#define DECLARE(name, result, parameters) FAKE_EXPORT result name parameters;
FERRYI_HIP_OWN(DECLARE)
#undef DECLARE

const char *
fake_name(enum fake_entry entry)
{
    switch (entry) {
#define NAME(member, name)                                                                         \
    case NAME_OF(member):                                                                          \
        return #name;
#define OTHER_NAME(member, name, result, parameters) NAME(member, name)
        FERRYI_HIP_SAME(NAME)
        FERRYI_HIP_LATER(NAME)
        FERRYI_HIP_RANGES(NAME)
        FERRYI_HIP_OTHER(OTHER_NAME)
    default:
        return "none";
    }
}

int
fake_attribute_number(unsigned attribute)
{
    enum { FERRYI_CU_DEVICE_ATTRIBUTE_SHARED_BYTES_WITHOUT_OPT_IN = FAKEHIP_ATTRIBUTE_SHARED };
    switch (attribute) {
#define NUMBER(name, hip_name, number)                                                             \
    case number:                                                                                   \
        return FERRYI_CU_DEVICE_ATTRIBUTE_##name;
        FERRYI_HIP_ATTRIBUTES(NUMBER)
        FERRYI_HIP_ATTRIBUTES_LATER(NUMBER)
    default:
        return -1;
    }
}

const char *
hipGetErrorName(ferryi_gpu_result error)
{
    switch (error) {
    case FERRYI_GPU_SUCCESS:
        return "hipSuccess";
    case FERRYI_HIP_ERROR_INVALID_CONFIGURATION:
        return "hipErrorInvalidConfiguration";
#define CASE(name, hip_name)                                                                       \
    case FERRYI_GPU_ERROR_##name:                                                                  \
        return "hipError" #hip_name;
        FERRYI_HIP_ERRORS(CASE)
    default:
        return "hipErrorUnknown";
    }
}

/* -- properties -- */

static ferryi_gpu_result
write_target(char *properties, size_t offset, int device)
{
    const char *target = getenv("FAKEHIP_TARGET");
    if (device < 0 || device >= fake.devices)
        return FERRYI_GPU_ERROR_INVALID_DEVICE;
    snprintf(properties + offset, FERRYI_HIP_ARCHITECTURE_BYTES, "%s", target ? target : TARGET);
    return FERRYI_GPU_SUCCESS;
}

ferryi_gpu_result
hipGetDeviceProperties(void *properties, int device)
{
    memset(properties, 0x55, 792);
    return write_target(properties, FERRYI_HIP_ARCHITECTURE_5, device);
}

#if FAKEHIP >= 6
ferryi_gpu_result
hipGetDevicePropertiesR0600(void *properties, int device)
{
    memset(properties, 0x55, 1472);
    return write_target(properties, FERRYI_HIP_ARCHITECTURE_6, device);
}
#endif

/* -- cooperative launches -- */

#if FAKEHIP >= 6
ferryi_gpu_result
hipModuleLaunchCooperativeKernel(ferryi_gpu_function function, unsigned int grid_x,
                                 unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                                 unsigned int block_y, unsigned int block_z,
                                 unsigned int shared_bytes, ferryi_gpu_stream stream,
                                 void **arguments)
{
    struct ferryi_gpu_launch_attribute attribute = {.id = FERRYI_GPU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                                    .value.on = 1};
    const struct ferryi_gpu_launch_config config = {.grid_x = grid_x,
                                                    .grid_y = grid_y,
                                                    .grid_z = grid_z,
                                                    .block_x = block_x,
                                                    .block_y = block_y,
                                                    .block_z = block_z,
                                                    .shared_bytes = shared_bytes,
                                                    .stream = stream,
                                                    .attributes = &attribute,
                                                    .attribute_count = 1};
    return cuLaunchKernelEx(&config, function, arguments, NULL);
}
#endif

/* -- copies -- */

ferryi_gpu_result
hipMemcpyPeerAsync(void *target, int target_device, const void *source, int source_device,
                   size_t bytes, ferryi_gpu_stream stream)
{
    if (target_device < 0 || target_device >= fake.devices || source_device < 0 ||
        source_device >= fake.devices)
        return FERRYI_GPU_ERROR_INVALID_DEVICE;
    return cuMemcpyPeerAsync((ferryi_gpu_pointer)(uintptr_t)target, &fake.contexts[target_device],
                             (ferryi_gpu_pointer)(uintptr_t)source, &fake.contexts[source_device],
                             bytes, stream);
}

/* Returns the context whose device memory contains an address, or NULL. */
static fake_context *
context_of(const void *memory)
{
    pthread_mutex_lock(&fake_lock);
    const struct fake_block *block = fake_block_of(memory, 1);
    fake_context *context = block && (block->kind == FAKE_DEVICE || block->kind == FAKE_MANAGED)
                                ? block->context
                                : NULL;
    pthread_mutex_unlock(&fake_lock);
    return context;
}

/* Finds out the direction of a copy of rows from where the memory is. */
ferryi_gpu_result
hipMemcpy2DAsync(void *target, size_t target_pitch, const void *source, size_t source_pitch,
                 size_t width_bytes, size_t height, unsigned int kind, ferryi_gpu_stream stream)
{
    fake_context *to = context_of(target), *from = context_of(source);
    struct ferryi_gpu_copy_2d rows = {.source_type = FERRYI_GPU_MEMORYTYPE_HOST,
                                      .source_host = source,
                                      .source_pitch = source_pitch,
                                      .target_type = FERRYI_GPU_MEMORYTYPE_HOST,
                                      .target_host = target,
                                      .target_pitch = target_pitch,
                                      .width_bytes = width_bytes,
                                      .height = height};
    struct ferryi_gpu_copy_3d_peer peer = {.source_type = FERRYI_GPU_MEMORYTYPE_DEVICE,
                                           .source_device = (ferryi_gpu_pointer)(uintptr_t)source,
                                           .source_context = from,
                                           .source_pitch = source_pitch,
                                           .source_height = height,
                                           .target_type = FERRYI_GPU_MEMORYTYPE_DEVICE,
                                           .target_device = (ferryi_gpu_pointer)(uintptr_t)target,
                                           .target_context = to,
                                           .target_pitch = target_pitch,
                                           .target_height = height,
                                           .width_bytes = width_bytes,
                                           .height = height,
                                           .depth = 1};
    if (kind != FERRYI_HIP_MEMCPY_DEFAULT)
        return INVALID_DIRECTION;
    if (to && from && to != from)
        return cuMemcpy3DPeerAsync(&peer, stream);
    if (from) {
        rows.source_type = FERRYI_GPU_MEMORYTYPE_DEVICE;
        rows.source_device = peer.source_device;
    }
    if (to) {
        rows.target_type = FERRYI_GPU_MEMORYTYPE_DEVICE;
        rows.target_device = peer.target_device;
    }
    return cuMemcpy2DAsync_v2(&rows, stream);
}

/* -- memory of other processes -- */

ferryi_gpu_result
hipIpcOpenMemHandle(void **out_memory, struct ferryi_gpu_memory_token token, unsigned int flags)
{
    const unsigned wanted =
        FAKEHIP < 6 ? FERRYI_HIP_IPC_FLAGS_5 : FERRYI_GPU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
    ferryi_gpu_pointer memory = 0;
    if (flags != wanted)
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    ferryi_gpu_result result =
        cuIpcOpenMemHandle_v2(&memory, token, FERRYI_GPU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result == FERRYI_GPU_SUCCESS)
        *out_memory = (void *)(uintptr_t)memory;
    return result;
}

/* -- host functions -- */

struct callback {
    ferryi_hip_callback run;
    ferryi_gpu_stream stream;
    void *user;
};

static void
run_callback(void *user)
{
    struct callback callback = *(struct callback *)user;
    free(user);
    callback.run(callback.stream, FERRYI_GPU_SUCCESS, callback.user);
}

ferryi_gpu_result
hipStreamAddCallback(ferryi_gpu_stream stream, ferryi_hip_callback callback, void *user,
                     unsigned int flags)
{
    if (flags != 0 || !callback)
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    struct callback *queued = malloc(sizeof(*queued));
    if (!queued)
        return FERRYI_GPU_ERROR_OUT_OF_MEMORY;
    *queued = (struct callback){callback, stream, user};
    ferryi_gpu_result result = cuLaunchHostFunc(stream, run_callback, queued);
    if (result != FERRYI_GPU_SUCCESS)
        free(queued);
    return result;
}
