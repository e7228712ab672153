/* SPDX-License-Identifier: MIT */
/* Loads code images on a GPU, and launches the kernels that the images contain. */
#include "src/device/gpu/gpu_device.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JIT_LOG_BYTES 2048

/* Handle of a kernel function in loaded code. The device function `code_function` returns such
 * handles. */
struct ferryi_gpu_kernel {
    struct ferryi_gpu_kernel *next;
    ferryi_gpu_module module;
    ferryi_gpu_function native;
    /* maximum bytes of dynamic shared memory for each thread block of the kernel; the value never
     * decreases */
    _Atomic uint32_t allowed;
};

ferry_status
ferryi_gpu_code_load(ferryi_device *device, const void *image, size_t bytes, void **out_module)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    const struct ferryi_gpu_vendor *vendor = gpu->driver->vendor;
    char jit_log[JIT_LOG_BYTES] = "";
    ferryi_gpu_jit_option options[2] = {FERRYI_GPU_JIT_ERROR_LOG_BUFFER,
                                        FERRYI_GPU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[2] = {jit_log, (void *)(uintptr_t)sizeof(jit_log)};
    ferryi_gpu_module module = NULL;
    ferry_status st;
    if (!vendor->image_has_end(image, bytes))
        return ferryi_fail(FERRY_ERROR_DEVICE, "load %zu bytes of code on %s: not %s", bytes,
                           gpu->name, vendor->images);
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, module_load, &module, image,
                   vendor->takes_load_options ? 2 : 0, options, values);
    if (st == FERRY_OK) {
        *out_module = module;
        return FERRY_OK;
    }
    ferryi_fail_in(st, "load %zu bytes of code on %s", bytes, gpu->name);
    jit_log[sizeof(jit_log) - 1] = 0;
    if (!jit_log[0])
        return st;
    char message[512];
    snprintf(message, sizeof(message), "%s", ferry_last_error());
    return ferryi_fail(st, "%s: %s", message, jit_log);
}

/* -- functions -- */

/* Frees the handles of the module's functions. If `module` is NULL, frees the handles of all
 * functions of the device. */
static void
forget_functions(struct ferryi_gpu_device *gpu, ferryi_gpu_module module)
{
    struct ferryi_gpu_kernel **link = &gpu->functions;
    ferryi_mutex_lock(&gpu->launch_mutex);
    while (*link) {
        struct ferryi_gpu_kernel *function = *link;
        if (module && function->module != module) {
            link = &function->next;
            continue;
        }
        *link = function->next;
        free(function);
    }
    ferryi_mutex_unlock(&gpu->launch_mutex);
}

void
ferryi_gpu_functions_close(struct ferryi_gpu_device *gpu)
{
    forget_functions(gpu, NULL);
}

ferry_status
ferryi_gpu_code_unload(ferryi_device *device, void *module)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, module_unload, module);
    if (st == FERRY_OK)
        forget_functions(gpu, module);
    return FERRYI_GPU_TELL(st, "unload code from %s", gpu->name);
}

/*
 * Gets a kernel function from a module, and the number of bytes of static shared memory that each
 * thread block of the kernel uses.
 *
 * Loads the kernel's code now if the driver supports it. By default, a driver may load the code at
 * the first launch. Such a load may wait for all work of the device, and may break graph captures
 * in other threads.
 */
static ferry_status
get_function(struct ferryi_gpu_device *gpu, ferryi_gpu_module module, const char *name,
             ferryi_gpu_function *out, int *out_shared)
{
    struct ferryi_gpu_entry entry;
    FERRYI_OR_RETURN(ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry));
    ferry_status st = FERRYI_GPU_CALL(gpu, module_function, out, module, name);
    if (st == FERRY_OK && (gpu->driver->groups & FERRYI_GPU_FUNCTION))
        st = FERRYI_GPU_CALL(gpu, function_load, *out);
    if (st == FERRY_OK)
        st = FERRYI_GPU_CALL(gpu, function_attribute, out_shared,
                             FERRYI_GPU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, *out);
    ferryi_gpu_leave(gpu, &entry);
    return st;
}

ferry_status
ferryi_gpu_code_function(ferryi_device *device, void *module, const char *name, void **out_function)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferryi_gpu_function native = NULL;
    int shared = 0;
    ferry_status st = get_function(gpu, module, name, &native, &shared);
    struct ferryi_gpu_kernel *function = st == FERRY_OK ? calloc(1, sizeof(*function)) : NULL;
    if (st == FERRY_OK && !function)
        st = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory for its description");
    if (!function)
        return ferryi_fail_in(st, "find the kernel %s in code on %s", name, gpu->name);
    function->module = module;
    function->native = native;
    /* An image may use more static shared memory than is allowed without an opt-in if it was built
     * for devices that have more. The limit of the kernel's dynamic shared memory is then 0 until a
     * launch raises it. */
    atomic_init(&function->allowed,
                (uint32_t)shared < gpu->shared_bytes ? gpu->shared_bytes - (uint32_t)shared : 0);
    ferryi_mutex_lock(&gpu->launch_mutex);
    function->next = gpu->functions;
    gpu->functions = function;
    ferryi_mutex_unlock(&gpu->launch_mutex);
    *out_function = function;
    return FERRY_OK;
}

/* Queries the kernel's parameters one by one, because the driver function that returns the number
 * of parameters exists only in the newest drivers. */
static ferry_status
read_parameters(struct ferryi_gpu_device *gpu, ferryi_gpu_function native, size_t most,
                size_t *out_bytes, size_t *out_count)
{
    size_t count = 0, offset, bytes;
    while (count < most) {
        ferryi_gpu_result result = gpu->driver->function_parameter(native, count, &offset, &bytes);
        /* The driver returns INVALID_VALUE for an index beyond the last parameter. */
        if (result == FERRYI_GPU_ERROR_INVALID_VALUE)
            break;
        FERRYI_OR_RETURN(FERRYI_GPU_CHECK(gpu, function_parameter, result));
        out_bytes[count++] = bytes;
    }
    *out_count = count;
    return FERRY_OK;
}

ferry_status
ferryi_gpu_code_parameters(ferryi_device *device, void *function, size_t most, size_t *out_bytes,
                           size_t *out_count)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_kernel *known = function;
    struct ferryi_gpu_entry entry;
    if (!(gpu->driver->groups & FERRYI_GPU_FUNCTION))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "get the parameters of code on %s: the driver does not report them",
                           gpu->name);
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = read_parameters(gpu, known->native, most, out_bytes, out_count);
        ferryi_gpu_leave(gpu, &entry);
    }
    return FERRYI_GPU_TELL(st, "get the parameters of code on %s", gpu->name);
}

/* -- launches -- */

/* Raises the kernel's limit of dynamic shared memory to `bytes` for each thread block, if the limit
 * is lower. The limit is changed under a mutex and is never lowered, because another thread may be
 * launching the kernel with more shared memory. */
static ferry_status
allow_shared(struct ferryi_gpu_device *gpu, struct ferryi_gpu_kernel *function, uint32_t bytes)
{
    struct ferryi_gpu_entry entry;
    /* The member `allowed` is updated only after the driver has raised the limit. So a launch need
     * not lock the mutex if the value of `allowed` is sufficient. */
    if (bytes <= atomic_load_explicit(&function->allowed, memory_order_acquire))
        return FERRY_OK;
    if (bytes > INT_MAX || !gpu->driver->function_set_attribute)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "no device has that much");
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    if (st != FERRY_OK)
        return st;
    ferryi_mutex_lock(&gpu->launch_mutex);
    if (bytes > atomic_load_explicit(&function->allowed, memory_order_relaxed)) {
        st = FERRYI_GPU_CALL(gpu, function_set_attribute, function->native,
                             FERRYI_GPU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
        if (st == FERRY_OK)
            atomic_store_explicit(&function->allowed, bytes, memory_order_release);
    }
    ferryi_mutex_unlock(&gpu->launch_mutex);
    ferryi_gpu_leave(gpu, &entry);
    return st;
}

/* Describes why a launch failed. A driver may limit the threads of a dimension more than the blocks
 * and the threads of a block, and then reports only that the launch is invalid. */
static ferry_status
launch_failed(const struct ferryi_gpu_device *gpu, const ferry_grid *grid, ferry_status st)
{
    const uint64_t most = gpu->driver->vendor->threads_max;
    for (int i = 0; most && i < 3; i++)
        if ((uint64_t)grid->blocks[i] * grid->threads[i] > most)
            st = ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                             "dimension %d has more than %" PRIu64
                             " threads; launch fewer, each of which computes several elements",
                             i, most);
    return ferryi_fail_in(st, "launch %ux%ux%u blocks of %ux%ux%u threads on %s", grid->blocks[0],
                          grid->blocks[1], grid->blocks[2], grid->threads[0], grid->threads[1],
                          grid->threads[2], gpu->name);
}

/* Queues a launch with attributes. The driver copies them.
 *
 * A kernel with FERRY_LAUNCH_OVERLAP begins before the one before it has ended, but it waits for
 * that one before it uses memory and before it ends. So the order of the stream is what it always
 * is for all else: an event that is recorded behind a launch is complete when its kernel has ended,
 * and so have those before it. Closes of scopes, the reuse of blocks and accesses on other streams
 * rely on such events, and on nothing less. */
static ferry_status
launch_with(struct ferryi_gpu_device *gpu, const struct ferryi_launch *launch, void *stream)
{
    const struct ferryi_gpu_kernel *function = launch->function;
    const ferry_grid *grid = launch->grid;
    struct ferryi_gpu_launch_attribute attributes[3] = {{0}};
    struct ferryi_gpu_launch_config config = {
        .grid_x = grid->blocks[0],
        .grid_y = grid->blocks[1],
        .grid_z = grid->blocks[2],
        .block_x = grid->threads[0],
        .block_y = grid->threads[1],
        .block_z = grid->threads[2],
        .shared_bytes = grid->shared_bytes,
        .stream = stream,
        .attributes = attributes,
    };
    ferry_status st;
    if (grid->flags & FERRY_LAUNCH_COOPERATIVE) {
        attributes[config.attribute_count].id = FERRYI_GPU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[config.attribute_count++].value.on = 1;
    }
    if (grid->flags & FERRY_LAUNCH_OVERLAP) {
        attributes[config.attribute_count].id =
            FERRYI_GPU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[config.attribute_count++].value.on = 1;
    }
    if (grid->cluster[0]) {
        attributes[config.attribute_count].id = FERRYI_GPU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        memcpy(attributes[config.attribute_count++].value.cluster, grid->cluster,
               sizeof(grid->cluster));
    }
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, launch_with, &config, function->native,
                   launch->arguments, NULL);
    return st;
}

ferry_status
ferryi_gpu_launch(ferryi_device *device, const struct ferryi_launch *launch, void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    const ferry_grid *grid = launch->grid;
    struct ferryi_gpu_kernel *function = launch->function;
    ferry_status st = allow_shared(gpu, function, grid->shared_bytes);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "allow %u bytes of shared memory on %s", grid->shared_bytes,
                              gpu->name);
    if (grid->flags || grid->cluster[0])
        st = launch_with(gpu, launch, stream);
    else
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, launch, function->native, grid->blocks[0],
                       grid->blocks[1], grid->blocks[2], grid->threads[0], grid->threads[1],
                       grid->threads[2], grid->shared_bytes, stream, launch->arguments, NULL);
    return st == FERRY_OK ? st : launch_failed(gpu, grid, st);
}
