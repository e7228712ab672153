/* SPDX-License-Identifier: MIT */
/* Code on a CUDA device: loading images and launching what they contain. */
#include "src/device/cuda_device.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define JIT_LOG_BYTES 2048

/* What a block may have of dynamic shared memory without asking. */
#define SHARED_BYTES_FREE (48u << 10)

/* The driver is told where an image starts, not where it ends. Cubins and fatbins say it themselves; a text ends
 * with a NUL. */
static bool
has_end(const void *image, size_t bytes)
{
    static const unsigned char cubin[4] = {0x7f, 'E', 'L', 'F'}, fatbin[4] = {0x50, 0xed, 0x55, 0xba};
    if (bytes >= 4 && (memcmp(image, cubin, 4) == 0 || memcmp(image, fatbin, 4) == 0))
        return true;
    return memchr(image, 0, bytes) != NULL;
}

ferry_status
ferryi_cuda_code_load(ferryi_device *device, const void *image, size_t bytes, void **out_module)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    char jit_log[JIT_LOG_BYTES] = "";
    ferryi_cu_jit_option options[2] = {FERRYI_CU_JIT_ERROR_LOG_BUFFER, FERRYI_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[2] = {jit_log, (void *)(uintptr_t)sizeof(jit_log)};
    ferryi_cu_module module = NULL;
    ferry_status st;
    if (!has_end(image, bytes))
        return ferryi_fail(
            FERRY_ERROR_DEVICE,
            "load %zu bytes of code on cuda:%d: neither a cubin nor a fatbin, nor a PTX text with its NUL", bytes,
            cuda->ordinal);
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuModuleLoadDataEx, &module, image, 2, options, values);
    if (st == FERRY_OK) {
        *out_module = module;
        return FERRY_OK;
    }
    ferryi_fail_in(st, "load %zu bytes of code on cuda:%d", bytes, cuda->ordinal);
    jit_log[sizeof(jit_log) - 1] = 0;
    if (!jit_log[0])
        return st;
    char sentence[512];
    snprintf(sentence, sizeof(sentence), "%s", ferry_last_error());
    return ferryi_fail(st, "%s: %s", sentence, jit_log);
}

ferry_status
ferryi_cuda_code_unload(ferryi_device *device, void *module)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuModuleUnload, module);
    return FERRYI_CUDA_TELL(st, "unload code from cuda:%d", cuda->ordinal);
}

ferry_status
ferryi_cuda_code_function(ferryi_device *device, void *module, const char *name, void **out_function)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferryi_cu_function function = NULL;
    ferry_status st;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuModuleGetFunction, &function, module, name);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "find the kernel %s in code on cuda:%d", name, cuda->ordinal);
    *out_function = function;
    return FERRY_OK;
}

/* Larger blocks of shared memory are opted into per function. The limit is only ever raised, under a mutex, so that two
 * threads that launch the same function with different sizes do not undo each other's. */
static ferry_status
allow_shared(struct ferryi_cuda_device *cuda, ferryi_cu_function function, uint32_t bytes)
{
    struct ferryi_cuda_entry entry;
    int allowed = 0;
    if (bytes <= SHARED_BYTES_FREE)
        return FERRY_OK;
    if (bytes > INT_MAX)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "no device has that much");
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry);
    if (st != FERRY_OK)
        return st;
    ferryi_mutex_lock(&cuda->launch_mutex);
    st = FERRYI_CUDA_CALL(cuda, cuFuncGetAttribute, &allowed, FERRYI_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                          function);
    if (st == FERRY_OK && allowed < (int)bytes)
        st = FERRYI_CUDA_CALL(cuda, cuFuncSetAttribute, function,
                              FERRYI_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
    ferryi_mutex_unlock(&cuda->launch_mutex);
    ferryi_cuda_leave(cuda, &entry);
    return st;
}

ferry_status
ferryi_cuda_launch(ferryi_device *device, const struct ferryi_launch *launch, void *stream)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    const ferry_grid *grid = &launch->grid;
    ferryi_cu_function function = launch->function;
    ferry_status st = allow_shared(cuda, function, grid->shared_bytes);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "allow %u bytes of shared memory on cuda:%d", grid->shared_bytes, cuda->ordinal);
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuLaunchKernel, function, grid->blocks[0], grid->blocks[1],
                    grid->blocks[2], grid->threads[0], grid->threads[1], grid->threads[2], grid->shared_bytes, stream,
                    launch->arguments, NULL);
    return FERRYI_CUDA_TELL(st, "launch %ux%ux%u blocks of %ux%ux%u threads on cuda:%d", grid->blocks[0],
                            grid->blocks[1], grid->blocks[2], grid->threads[0], grid->threads[1], grid->threads[2],
                            cuda->ordinal);
}
