/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/device/opencl/opencl_device.h"

/* OpenCL aligns memory to 128 bytes at most, and memory_alloc promises 256. */
#define ALIGN 256

/* -- allocations of the driver ----------------------------------------------------------------- */

/* Allocates page-locked memory that kernels do not access: a buffer that stays mapped. */
static void
alloc_mapped(struct ferryi_opencl_device *opencl, struct ferryi_opencl_memory *memory)
{
    const struct ferryi_opencl_driver *driver = opencl->driver;
    ferryi_cl_int result;
    memory->buffer = driver->clCreateBuffer(opencl->platform->context,
                                            FERRYI_CL_MEM_READ_WRITE | FERRYI_CL_MEM_ALLOC_HOST_PTR,
                                            memory->bytes, NULL, &result);
    if (!memory->buffer)
        return;
    memory->base = driver->clEnqueueMapBuffer(opencl->service, memory->buffer, 1,
                                              FERRYI_CL_MAP_READ | FERRYI_CL_MAP_WRITE, 0,
                                              memory->bytes, 0, NULL, NULL, &result);
    if (!memory->base)
        driver->clReleaseMemObject(memory->buffer);
}

static void *
alloc_usm(struct ferryi_opencl_device *opencl, ferry_memory_kind kind, size_t bytes)
{
    const struct ferryi_opencl_usm *usm = &opencl->platform->usm;
    ferryi_cl_context context = opencl->platform->context;
    if (kind == FERRY_MEMORY_PINNED)
        return usm->clHostMemAllocINTEL(context, NULL, bytes, 0, NULL);
    if (kind == FERRY_MEMORY_MANAGED)
        return usm->clSharedMemAllocINTEL(context, opencl->device, NULL, bytes, 0, NULL);
    return usm->clDeviceMemAllocINTEL(context, opencl->device, NULL, bytes, 0, NULL);
}

static bool
is_mapped(const struct ferryi_opencl_device *opencl, ferry_memory_kind kind)
{
    return opencl->model == FERRYI_OPENCL_COARSE && kind == FERRY_MEMORY_PINNED;
}

/* Sets the members `base` and `buffer` of the memory. `base` stays NULL if the driver fails. */
static void
alloc(struct ferryi_opencl_device *opencl, struct ferryi_opencl_memory *memory)
{
    if (is_mapped(opencl, memory->kind)) {
        alloc_mapped(opencl, memory);
    } else if (opencl->model == FERRYI_OPENCL_USM) {
        memory->base = alloc_usm(opencl, memory->kind, memory->bytes);
    } else {
        const ferryi_cl_bits fine =
            memory->kind == FERRY_MEMORY_DEVICE ? 0 : FERRYI_CL_MEM_SVM_FINE_GRAIN_BUFFER;
        memory->base = opencl->driver->clSVMAlloc(
            opencl->platform->context, FERRYI_CL_MEM_READ_WRITE | fine, memory->bytes, 0);
    }
}

static void
release(struct ferryi_opencl_device *opencl, struct ferryi_opencl_memory *memory)
{
    const struct ferryi_opencl_driver *driver = opencl->driver;
    if (is_mapped(opencl, memory->kind)) {
        driver->clEnqueueUnmapMemObject(opencl->service, memory->buffer, memory->base, 0, NULL,
                                        NULL);
        driver->clFinish(opencl->service);
    }
    if (memory->buffer)
        driver->clReleaseMemObject(memory->buffer);
    if (opencl->model == FERRYI_OPENCL_USM)
        opencl->platform->usm.clMemFreeINTEL(opencl->platform->context, memory->base);
    else if (!is_mapped(opencl, memory->kind))
        driver->clSVMFree(opencl->platform->context, memory->base);
    free(memory);
}

/* -- allocations of Ferry ---------------------------------------------------------------------- */

static ferry_status
fail_alloc(const struct ferryi_opencl_device *opencl, size_t bytes)
{
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                       "memory_alloc of %zu bytes on opencl:%d: %s; one allocation has at most %zu",
                       bytes, opencl->ordinal,
                       bytes > opencl->most_bytes ? "too many" : "the driver has no memory",
                       opencl->most_bytes);
}

ferry_status
ferryi_opencl_memory_alloc(ferryi_device *device, ferry_memory_kind kind, size_t bytes, void **out)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    if (kind == FERRY_MEMORY_MANAGED && !(device->capabilities & FERRY_CAN_MANAGE))
        return ferryi_unsupported_ops.memory_alloc(device, kind, bytes, out);
    if (atomic_load(&opencl->is_lost))
        return ferryi_opencl_refuse(opencl, "memory_alloc");
    struct ferryi_opencl_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "memory_alloc on opencl:%d: no host memory for its description",
                           opencl->ordinal);
    memory->kind = kind;
    if (ferryi_add_size(bytes, ALIGN, &memory->bytes) && memory->bytes <= opencl->most_bytes)
        alloc(opencl, memory);
    if (!memory->base) {
        free(memory);
        return fail_alloc(opencl, bytes);
    }
    memory->address = (void *)(((uintptr_t)memory->base + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    if (kind != FERRY_MEMORY_PINNED)
        atomic_fetch_add(&opencl->used_bytes, memory->bytes);
    ferryi_mutex_lock(&opencl->mutex);
    memory->next = opencl->memory;
    opencl->memory = memory;
    atomic_fetch_add(&opencl->memory_version, 1);
    ferryi_mutex_unlock(&opencl->mutex);
    *out = memory->address;
    return FERRY_OK;
}

ferry_status
ferryi_opencl_memory_free(ferryi_device *device, ferry_memory_kind kind, void *address)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    if (!address)
        return FERRY_OK;
    ferryi_mutex_lock(&opencl->mutex);
    struct ferryi_opencl_memory **link = &opencl->memory;
    while (*link && (*link)->address != address)
        link = &(*link)->next;
    struct ferryi_opencl_memory *memory = *link;
    if (memory) {
        *link = memory->next;
        atomic_fetch_add(&opencl->memory_version, 1);
    }
    ferryi_mutex_unlock(&opencl->mutex);
    if (!memory)
        return ferryi_fail(FERRY_ERROR_DEVICE, "memory_free on opencl:%d: %p is not allocated",
                           opencl->ordinal, address);
    if (kind != FERRY_MEMORY_PINNED)
        atomic_fetch_sub(&opencl->used_bytes, memory->bytes);
    release(opencl, memory);
    return FERRY_OK;
}

void
ferryi_opencl_memory_close(struct ferryi_opencl_device *opencl)
{
    ferryi_mutex_is_needless(&opencl->mutex);
    while (opencl->memory) {
        struct ferryi_opencl_memory *memory = opencl->memory;
        opencl->memory = memory->next;
        release(opencl, memory);
    }
}

/* -- what is known of an address --------------------------------------------------------------- */

/* Returns the allocation that contains an address, or NULL. */
FERRYI_REQUIRES(ferryi_opencl_mutex)
static struct ferryi_opencl_memory *
find(struct ferryi_opencl_device *opencl, const void *address)
{
    struct ferryi_opencl_memory *memory = opencl->memory;
    while (memory && (uintptr_t)address - (uintptr_t)memory->base >= memory->bytes)
        memory = memory->next;
    return memory;
}

/* Returns the kind of the memory at an address, and -1 if Ferry has not allocated it. */
static int
kind_of(struct ferryi_opencl_device *opencl, const void *address)
{
    ferryi_mutex_lock(&opencl->mutex);
    const struct ferryi_opencl_memory *memory = find(opencl, address);
    const int kind = memory ? (int)memory->kind : -1;
    ferryi_mutex_unlock(&opencl->mutex);
    return kind;
}

/* Returns the type of unified shared memory at an address, which is unknown for other memory. */
static ferryi_cl_uint
usm_type_of(struct ferryi_opencl_device *opencl, const void *address)
{
    ferryi_cl_uint type = FERRYI_CL_MEM_TYPE_UNKNOWN_INTEL;
    (void)opencl->platform->usm.clGetMemAllocInfoINTEL(opencl->platform->context, address,
                                                       FERRYI_CL_MEM_ALLOC_TYPE_INTEL, sizeof(type),
                                                       &type, NULL);
    return type;
}

ferry_status
ferryi_opencl_memory_users(ferryi_device *device, const void *address, unsigned *out)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    const unsigned both = FERRYI_USER_HOST | FERRYI_USER_DEVICE;
    const int kind = kind_of(opencl, address);
    if (kind >= 0) {
        *out = kind == FERRY_MEMORY_DEVICE ? FERRYI_USER_DEVICE : both;
        return FERRY_OK;
    }
    if (opencl->model == FERRYI_OPENCL_USM) {
        const ferryi_cl_uint type = usm_type_of(opencl, address);
        if (type != FERRYI_CL_MEM_TYPE_UNKNOWN_INTEL) {
            *out = type == FERRYI_CL_MEM_TYPE_DEVICE_INTEL ? FERRYI_USER_DEVICE : both;
            return FERRY_OK;
        }
    }
    if (device->capabilities & FERRYI_DEVICE_TAKES_PAGEABLE) {
        *out = both;
        return FERRY_OK;
    }
    if (opencl->model == FERRYI_OPENCL_USM) {
        *out = FERRYI_USER_HOST;
        return FERRY_OK;
    }
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "query who may use memory on opencl:%d: OpenCL does not report it",
                       opencl->ordinal);
}

bool
ferryi_opencl_memory_is_reached(struct ferryi_opencl_device *opencl, const void *address)
{
    const int kind = kind_of(opencl, address);
    if (kind >= 0)
        return !is_mapped(opencl, (ferry_memory_kind)kind);
    if (opencl->reaches_host)
        return true;
    return opencl->model == FERRYI_OPENCL_USM &&
           usm_type_of(opencl, address) != FERRYI_CL_MEM_TYPE_UNKNOWN_INTEL;
}

bool
ferryi_opencl_memory_buffer(struct ferryi_opencl_device *opencl, const void *address,
                            ferryi_cl_memory *out, size_t *out_offset)
{
    ferryi_cl_int result;
    if (opencl->model == FERRYI_OPENCL_USM)
        return false;
    *out = NULL;
    ferryi_mutex_lock(&opencl->mutex);
    struct ferryi_opencl_memory *memory = find(opencl, address);
    if (memory && !memory->buffer)
        memory->buffer = opencl->driver->clCreateBuffer(
            opencl->platform->context, FERRYI_CL_MEM_READ_WRITE | FERRYI_CL_MEM_USE_HOST_PTR,
            memory->bytes, memory->base, &result);
    if (memory) {
        *out = memory->buffer;
        *out_offset = (size_t)((const char *)address - memory->base);
    }
    ferryi_mutex_unlock(&opencl->mutex);
    return *out;
}

/* -- what kernels access ----------------------------------------------------------------------- */

/* Passes information about what a kernel accesses. PoCL from 4 on looks for the kernel's code for
 * the first device of the context, which another device's program has not. Its kernels access all
 * memory anyway. */
static ferry_status
declare(struct ferryi_opencl_device *opencl, ferryi_cl_kernel kernel, ferryi_cl_uint name,
        size_t bytes, const void *value)
{
    if (atomic_load(&opencl->is_lost))
        return ferryi_opencl_refuse(opencl, "clSetKernelExecInfo");
    const ferryi_cl_int result = opencl->driver->clSetKernelExecInfo(kernel, name, bytes, value);
    return result == FERRYI_CL_INVALID_KERNEL
               ? FERRY_OK
               : ferryi_opencl_check(opencl, "clSetKernelExecInfo", result);
}

static ferry_status
declare_usm(struct ferryi_opencl_device *opencl, ferryi_cl_kernel kernel)
{
    static const ferryi_cl_uint kinds[] = {FERRYI_CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL,
                                           FERRYI_CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL,
                                           FERRYI_CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL};
    const ferryi_cl_uint yes = 1;
    if (!(opencl->driver->groups & FERRYI_OPENCL_2_0))
        return FERRY_OK;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        FERRYI_OR_RETURN(declare(opencl, kernel, kinds[i], sizeof(yes), &yes));
    return FERRY_OK;
}

ferry_status
ferryi_opencl_memory_declare(struct ferryi_opencl_device *opencl, ferryi_cl_kernel kernel)
{
    size_t count = 0, taken = 0;
    if (opencl->model == FERRYI_OPENCL_USM)
        return declare_usm(opencl, kernel);
    ferryi_mutex_lock(&opencl->mutex);
    for (const struct ferryi_opencl_memory *memory = opencl->memory; memory; memory = memory->next)
        count++;
    void **bases = calloc(count + 1, sizeof(*bases));
    for (const struct ferryi_opencl_memory *memory = opencl->memory; memory && bases;
         memory = memory->next)
        if (!is_mapped(opencl, memory->kind))
            bases[taken++] = memory->base;
    ferryi_mutex_unlock(&opencl->mutex);
    if (!bases)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory for %zu addresses", count);
    ferry_status status = FERRY_OK;
    if (taken > 0)
        status = declare(opencl, kernel, FERRYI_CL_KERNEL_EXEC_INFO_SVM_PTRS,
                         taken * sizeof(*bases), bases);
    free(bases);
    return status;
}
