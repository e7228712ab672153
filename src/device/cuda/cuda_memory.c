/* SPDX-License-Identifier: MIT */
/* Implements the memory functions of a CUDA device. They allocate device, pinned and managed
 * memory, register host memory, and prefetch and advise managed memory. */
#include "src/device/cuda/cuda_device.h"

#include <assert.h>

#include <ferry/buffer.h>

static const char *
kind_name(ferry_memory_kind kind)
{
    switch (kind) {
    case FERRY_MEMORY_DEVICE:
        return "device";
    case FERRY_MEMORY_PINNED:
        return "pinned";
    case FERRY_MEMORY_MANAGED:
        return "managed";
    default:
        return "unknown";
    }
}

/* Allocates pinned memory. If the system is short of memory, the driver returns OUT_OF_MEMORY or
 * INVALID_VALUE. The arguments are valid, so this function reports both errors as out of memory. */
static ferry_status
alloc_pinned(struct ferryi_cuda_device *cuda, size_t bytes, void **out)
{
    struct ferryi_cuda_entry entry;
    FERRYI_OR_RETURN(ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry));
    ferryi_cu_result result =
        cuda->driver->cuMemHostAlloc(out, bytes, FERRYI_CU_MEMHOSTALLOC_PORTABLE);
    ferry_status st = FERRYI_CUDA_CHECK(cuda, cuMemHostAlloc, result);
    ferryi_cuda_leave(cuda, &entry);
    return st == FERRY_ERROR_DEVICE && result == FERRYI_CUDA_ERROR_INVALID_VALUE
               ? FERRY_ERROR_OUT_OF_MEMORY
               : st;
}

ferry_status
ferryi_cuda_memory_alloc(ferryi_device *device, ferry_memory_kind kind, size_t bytes, void **out)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    ferryi_cu_pointer pointer = 0;
    void *pinned = NULL;
    assert(bytes > 0);

    if (kind == FERRY_MEMORY_DEVICE)
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuMemAlloc_v2, &pointer, bytes);
    else if (kind == FERRY_MEMORY_PINNED)
        st = alloc_pinned(cuda, bytes, &pinned);
    else if (kind == FERRY_MEMORY_MANAGED && (device->capabilities & FERRY_CAN_MANAGE))
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuMemAllocManaged, &pointer, bytes,
                        FERRYI_CU_MEM_ATTACH_GLOBAL);
    else
        st = ferryi_fail(FERRY_ERROR_UNSUPPORTED, "memory_alloc: the device has no such memory");
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "allocate %zu bytes of %s memory on cuda:%d", bytes,
                              kind_name(kind), cuda->ordinal);
    *out = kind == FERRY_MEMORY_PINNED ? pinned : (void *)(uintptr_t)pointer;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_memory_free(ferryi_device *device, ferry_memory_kind kind, void *memory)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    if (!memory)
        return FERRY_OK;
    if (kind == FERRY_MEMORY_PINNED)
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuMemFreeHost, memory);
    else
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuMemFree_v2, ferryi_cuda_pointer(memory));
    return FERRYI_CUDA_TELL(st, "free %s memory on cuda:%d", kind_name(kind), cuda->ordinal);
}

/* The driver's pointer queries fail with INVALID_VALUE for memory that CUDA does not know. Such
 * memory is ordinary host memory. */
ferry_status
ferryi_cuda_memory_users(ferryi_device *device, const void *memory, unsigned *out)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct ferryi_cuda_entry entry;
    void *host = NULL;
    bool known = true;
    ferryi_cu_memory_type type = FERRYI_CU_MEMORYTYPE_HOST;
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry);
    if (st == FERRY_OK) {
        ferryi_cu_result result = cuda->driver->cuPointerGetAttribute(
            &host, FERRYI_CU_POINTER_ATTRIBUTE_HOST_POINTER, ferryi_cuda_pointer(memory));
        if (result == FERRYI_CUDA_ERROR_INVALID_VALUE)
            result = cuda->driver->cuPointerGetAttribute(
                &type, FERRYI_CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ferryi_cuda_pointer(memory));
        known = result != FERRYI_CUDA_ERROR_INVALID_VALUE;
        if (known)
            st = FERRYI_CUDA_CHECK(cuda, cuPointerGetAttribute, result);
        ferryi_cuda_leave(cuda, &entry);
    }
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "query who may use memory on cuda:%d", cuda->ordinal);
    known =
        known || (device->capabilities & (FERRYI_DEVICE_COHERENT | FERRYI_DEVICE_TAKES_PAGEABLE));
    *out = (host || type == FERRYI_CU_MEMORYTYPE_HOST ? FERRYI_USER_HOST : 0) |
           (known ? FERRYI_USER_DEVICE : 0);
    return FERRY_OK;
}

/* Returns whether a registration of host memory may have failed because the process cannot write
 * this memory. The driver accepts read-only memory only with the flag READ_ONLY. */
static bool
may_be_constant(const struct ferryi_cuda_device *cuda, ferryi_cu_result result, const void *memory,
                size_t bytes)
{
    return cuda->registers_read_only && result != FERRYI_CUDA_SUCCESS &&
           result != FERRYI_CUDA_ERROR_OUT_OF_MEMORY &&
           result != FERRYI_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
           !ferryi_is_writable(memory, bytes);
}

ferry_status
ferryi_cuda_host_register(ferryi_device *device, void *memory, size_t bytes)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    const unsigned int flags = FERRYI_CU_MEMHOSTREGISTER_PORTABLE;
    struct ferryi_cuda_entry entry;
    if (bytes == 0)
        return FERRY_OK;
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry);
    if (st == FERRY_OK) {
        ferryi_cu_result result = cuda->driver->cuMemHostRegister_v2(memory, bytes, flags);
        if (may_be_constant(cuda, result, memory, bytes))
            result = cuda->driver->cuMemHostRegister_v2(
                memory, bytes, flags | FERRYI_CU_MEMHOSTREGISTER_READ_ONLY);
        st = FERRYI_CUDA_CHECK(cuda, cuMemHostRegister_v2, result);
        ferryi_cuda_leave(cuda, &entry);
    }
    return FERRYI_CUDA_TELL(st, "page-lock %zu bytes of host memory for cuda:%d", bytes,
                            cuda->ordinal);
}

ferry_status
ferryi_cuda_host_unregister(ferryi_device *device, void *memory)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    if (!memory)
        return FERRY_OK;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuMemHostUnregister, memory);
    return FERRYI_CUDA_TELL(st, "undo the page-lock of host memory for cuda:%d", cuda->ordinal);
}

/* -- managed memory: functions since CUDA 12.2 take a location, older functions an ordinal -- */

static struct ferryi_cu_location
location_of(ferryi_device *location)
{
    if (!location)
        return (struct ferryi_cu_location){.type = FERRYI_CU_MEM_LOCATION_TYPE_HOST};
    return (struct ferryi_cu_location){.type = FERRYI_CU_MEM_LOCATION_TYPE_DEVICE,
                                       .id = ferryi_cuda_of(location)->device};
}

static ferryi_cu_device
ordinal_of(ferryi_device *location)
{
    return location ? ferryi_cuda_of(location)->device : FERRYI_CU_DEVICE_CPU;
}

static ferry_status
check_concurrent(const struct ferryi_cuda_device *cuda)
{
    if (cuda->base.capabilities & FERRY_CAN_MANAGE_CONCURRENTLY)
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "host and device cannot use its managed memory at once");
}

ferry_status
ferryi_cuda_prefetch(ferryi_device *device, void *memory, size_t bytes, ferryi_device *location,
                     void *stream)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferryi_cu_pointer pointer = ferryi_cuda_pointer(memory);
    if (bytes == 0)
        return FERRY_OK;
    ferry_status st = check_concurrent(cuda);
    if (st == FERRY_OK && (cuda->driver->groups & FERRYI_CUDA_PREFETCH_12_2))
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuMemPrefetchAsync_v2, pointer, bytes,
                        location_of(location), 0, (ferryi_cu_stream)stream);
    else if (st == FERRY_OK)
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_STREAM_WORK, cuMemPrefetchAsync, pointer, bytes,
                        ordinal_of(location), (ferryi_cu_stream)stream);
    return FERRYI_CUDA_TELL(st, "prefetch %zu bytes on cuda:%d", bytes, cuda->ordinal);
}

ferry_status
ferryi_cuda_advise(ferryi_device *device, void *memory, size_t bytes, int advice,
                   ferryi_device *location)
{
    _Static_assert(
        (int)FERRY_ADVISE_READ_MOSTLY == (int)FERRYI_CU_MEM_ADVISE_SET_READ_MOSTLY &&
            (int)FERRY_ADVISE_UNSET_READ_MOSTLY == (int)FERRYI_CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
            (int)FERRY_ADVISE_PREFERRED_LOCATION ==
                (int)FERRYI_CU_MEM_ADVISE_SET_PREFERRED_LOCATION &&
            (int)FERRY_ADVISE_UNSET_PREFERRED_LOCATION ==
                (int)FERRYI_CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION &&
            (int)FERRY_ADVISE_ACCESSED_BY == (int)FERRYI_CU_MEM_ADVISE_SET_ACCESSED_BY &&
            (int)FERRY_ADVISE_UNSET_ACCESSED_BY == (int)FERRYI_CU_MEM_ADVISE_UNSET_ACCESSED_BY,
        "advice has the driver's own numbers");
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferryi_cu_pointer pointer = ferryi_cuda_pointer(memory);
    assert(advice >= FERRY_ADVISE_READ_MOSTLY && advice <= FERRY_ADVISE_UNSET_ACCESSED_BY);
    if (bytes == 0)
        return FERRY_OK;
    ferry_status st = check_concurrent(cuda);
    if (st == FERRY_OK && (cuda->driver->groups & FERRYI_CUDA_PREFETCH_12_2))
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuMemAdvise_v2, pointer, bytes,
                        (ferryi_cu_advice)advice, location_of(location));
    else if (st == FERRY_OK)
        FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuMemAdvise, pointer, bytes,
                        (ferryi_cu_advice)advice, ordinal_of(location));
    return FERRYI_CUDA_TELL(st, "advise on %zu bytes on cuda:%d", bytes, cuda->ordinal);
}
