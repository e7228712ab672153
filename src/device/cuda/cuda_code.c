/* SPDX-License-Identifier: MIT */
/* Loads code images on a CUDA device, and launches the kernels that the images contain. */
#include "src/device/cuda/cuda_device.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JIT_LOG_BYTES 2048

/* Number of bytes of shared memory that a thread block may use without an opt-in of its kernel. The
 * number includes static and dynamic shared memory. */
#define SHARED_BYTES_FREE (48u << 10)

/* Handle of a kernel function in loaded code. The device function `code_function` returns such
 * handles. */
struct ferryi_cuda_function {
    struct ferryi_cuda_function *next;
    ferryi_cu_module module;
    ferryi_cu_function native;
    /* maximum bytes of dynamic shared memory for each thread block of the kernel; the value never
     * decreases */
    _Atomic uint32_t allowed;
};

/* Returns whether the driver can find the end of the code image. The driver receives only the
 * image's address, not its size. Cubins and fatbins contain their size; a PTX text must end with a
 * NUL. */
static bool
has_end(const void *image, size_t bytes)
{
    static const unsigned char cubin[4] = {0x7f, 'E', 'L', 'F'},
                               fatbin[4] = {0x50, 0xed, 0x55, 0xba};
    if (bytes >= 4 && (memcmp(image, cubin, 4) == 0 || memcmp(image, fatbin, 4) == 0))
        return true;
    return memchr(image, 0, bytes) != NULL;
}

ferry_status
ferryi_cuda_code_load(ferryi_device *device, const void *image, size_t bytes, void **out_module)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    char jit_log[JIT_LOG_BYTES] = "";
    ferryi_cu_jit_option options[2] = {FERRYI_CU_JIT_ERROR_LOG_BUFFER,
                                       FERRYI_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[2] = {jit_log, (void *)(uintptr_t)sizeof(jit_log)};
    ferryi_cu_module module = NULL;
    ferry_status st;
    if (!has_end(image, bytes))
        return ferryi_fail(FERRY_ERROR_DEVICE,
                           "load %zu bytes of code on cuda:%d: neither a cubin nor a fatbin, nor a "
                           "PTX text with its NUL",
                           bytes, cuda->ordinal);
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuModuleLoadDataEx, &module, image, 2, options,
                    values);
    if (st == FERRY_OK) {
        *out_module = module;
        return FERRY_OK;
    }
    ferryi_fail_in(st, "load %zu bytes of code on cuda:%d", bytes, cuda->ordinal);
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
forget_functions(struct ferryi_cuda_device *cuda, ferryi_cu_module module)
{
    struct ferryi_cuda_function **link = &cuda->functions;
    ferryi_mutex_lock(&cuda->launch_mutex);
    while (*link) {
        struct ferryi_cuda_function *function = *link;
        if (module && function->module != module) {
            link = &function->next;
            continue;
        }
        *link = function->next;
        free(function);
    }
    ferryi_mutex_unlock(&cuda->launch_mutex);
}

void
ferryi_cuda_functions_close(struct ferryi_cuda_device *cuda)
{
    forget_functions(cuda, NULL);
}

ferry_status
ferryi_cuda_code_unload(ferryi_device *device, void *module)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuModuleUnload, module);
    if (st == FERRY_OK)
        forget_functions(cuda, module);
    return FERRYI_CUDA_TELL(st, "unload code from cuda:%d", cuda->ordinal);
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
get_function(struct ferryi_cuda_device *cuda, ferryi_cu_module module, const char *name,
             ferryi_cu_function *out, int *out_shared)
{
    struct ferryi_cuda_entry entry;
    FERRYI_OR_RETURN(ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry));
    ferry_status st = FERRYI_CUDA_CALL(cuda, cuModuleGetFunction, out, module, name);
    if (st == FERRY_OK && (cuda->driver->groups & FERRYI_CUDA_FUNCTION_12_4))
        st = FERRYI_CUDA_CALL(cuda, cuFuncLoad, *out);
    if (st == FERRY_OK)
        st = FERRYI_CUDA_CALL(cuda, cuFuncGetAttribute, out_shared,
                              FERRYI_CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, *out);
    ferryi_cuda_leave(cuda, &entry);
    return st;
}

ferry_status
ferryi_cuda_code_function(ferryi_device *device, void *module, const char *name,
                          void **out_function)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferryi_cu_function native = NULL;
    int shared = 0;
    ferry_status st = get_function(cuda, module, name, &native, &shared);
    struct ferryi_cuda_function *function = st == FERRY_OK ? calloc(1, sizeof(*function)) : NULL;
    if (st == FERRY_OK && !function)
        st = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory for its description");
    if (!function)
        return ferryi_fail_in(st, "find the kernel %s in code on cuda:%d", name, cuda->ordinal);
    function->module = module;
    function->native = native;
    /* A cubin may use more static shared memory than SHARED_BYTES_FREE if it was built for devices
     * that have more. The limit of the kernel's dynamic shared memory is then 0 until a launch
     * raises it. */
    atomic_init(&function->allowed,
                shared < (int)SHARED_BYTES_FREE ? SHARED_BYTES_FREE - (uint32_t)shared : 0);
    ferryi_mutex_lock(&cuda->launch_mutex);
    function->next = cuda->functions;
    cuda->functions = function;
    ferryi_mutex_unlock(&cuda->launch_mutex);
    *out_function = function;
    return FERRY_OK;
}

/* Queries the kernel's parameters one by one, because the driver function that returns the number
 * of parameters exists only since CUDA 13. */
static ferry_status
read_parameters(struct ferryi_cuda_device *cuda, ferryi_cu_function native, size_t most,
                size_t *out_bytes, size_t *out_count)
{
    size_t count = 0, offset, bytes;
    while (count < most) {
        ferryi_cu_result result = cuda->driver->cuFuncGetParamInfo(native, count, &offset, &bytes);
        /* The driver returns INVALID_VALUE for an index beyond the last parameter. */
        if (result == FERRYI_CUDA_ERROR_INVALID_VALUE)
            break;
        FERRYI_OR_RETURN(FERRYI_CUDA_CHECK(cuda, cuFuncGetParamInfo, result));
        out_bytes[count++] = bytes;
    }
    *out_count = count;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_code_parameters(ferryi_device *device, void *function, size_t most, size_t *out_bytes,
                            size_t *out_count)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct ferryi_cuda_function *known = function;
    struct ferryi_cuda_entry entry;
    if (!(cuda->driver->groups & FERRYI_CUDA_FUNCTION_12_4))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "get the parameters of code on cuda:%d: the driver does not report them",
                           cuda->ordinal);
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = read_parameters(cuda, known->native, most, out_bytes, out_count);
        ferryi_cuda_leave(cuda, &entry);
    }
    return FERRYI_CUDA_TELL(st, "get the parameters of code on cuda:%d", cuda->ordinal);
}

/* -- launches -- */

/* Raises the kernel's limit of dynamic shared memory to `bytes` for each thread block, if the limit
 * is lower. The limit is changed under a mutex and is never lowered, because another thread may be
 * launching the kernel with more shared memory. */
static ferry_status
allow_shared(struct ferryi_cuda_device *cuda, struct ferryi_cuda_function *function, uint32_t bytes)
{
    struct ferryi_cuda_entry entry;
    /* The member `allowed` is updated only after the driver has raised the limit. So a launch need
     * not lock the mutex if the value of `allowed` is sufficient. */
    if (bytes <= atomic_load_explicit(&function->allowed, memory_order_acquire))
        return FERRY_OK;
    if (bytes > INT_MAX)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "no device has that much");
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry);
    if (st != FERRY_OK)
        return st;
    ferryi_mutex_lock(&cuda->launch_mutex);
    if (bytes > atomic_load_explicit(&function->allowed, memory_order_relaxed)) {
        st = FERRYI_CUDA_CALL(cuda, cuFuncSetAttribute, function->native,
                              FERRYI_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
        if (st == FERRY_OK)
            atomic_store_explicit(&function->allowed, bytes, memory_order_release);
    }
    ferryi_mutex_unlock(&cuda->launch_mutex);
    ferryi_cuda_leave(cuda, &entry);
    return st;
}

ferry_status
ferryi_cuda_launch(ferryi_device *device, const struct ferryi_launch *launch, void *stream)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    const ferry_grid *grid = launch->grid;
    struct ferryi_cuda_function *function = launch->function;
    ferry_status st = allow_shared(cuda, function, grid->shared_bytes);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "allow %u bytes of shared memory on cuda:%d", grid->shared_bytes,
                              cuda->ordinal);
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuLaunchKernel, function->native,
                    grid->blocks[0], grid->blocks[1], grid->blocks[2], grid->threads[0],
                    grid->threads[1], grid->threads[2], grid->shared_bytes, stream,
                    launch->arguments, NULL);
    return FERRYI_CUDA_TELL(st, "launch %ux%ux%u blocks of %ux%ux%u threads on cuda:%d",
                            grid->blocks[0], grid->blocks[1], grid->blocks[2], grid->threads[0],
                            grid->threads[1], grid->threads[2], cuda->ordinal);
}
