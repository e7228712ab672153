/* SPDX-License-Identifier: MIT */
/* Implements the memory functions of a GPU. They allocate device, pinned and managed
 * memory, register host memory, and prefetch and advise managed memory. */
#include "src/device/gpu/gpu_device.h"

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
alloc_pinned(struct ferryi_gpu_device *gpu, size_t bytes, void **out)
{
    struct ferryi_gpu_entry entry;
    FERRYI_OR_RETURN(ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry));
    ferryi_gpu_result result =
        gpu->driver->host_alloc(out, bytes, FERRYI_GPU_MEMHOSTALLOC_PORTABLE);
    ferry_status st = FERRYI_GPU_CHECK(gpu, host_alloc, result);
    ferryi_gpu_leave(gpu, &entry);
    return st == FERRY_ERROR_DEVICE && result == FERRYI_GPU_ERROR_INVALID_VALUE
               ? FERRY_ERROR_OUT_OF_MEMORY
               : st;
}

ferry_status
ferryi_gpu_memory_alloc(ferryi_device *device, ferry_memory_kind kind, size_t bytes, void **out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    ferryi_gpu_pointer pointer = 0;
    void *pinned = NULL;
    assert(bytes > 0);

    if (kind == FERRY_MEMORY_DEVICE)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, memory_alloc, &pointer, bytes);
    else if (kind == FERRY_MEMORY_PINNED)
        st = alloc_pinned(gpu, bytes, &pinned);
    else if (kind == FERRY_MEMORY_MANAGED && (device->capabilities & FERRY_CAN_MANAGE))
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, managed_alloc, &pointer, bytes,
                       FERRYI_GPU_MEM_ATTACH_GLOBAL);
    else
        st = ferryi_fail(FERRY_ERROR_UNSUPPORTED, "memory_alloc: the device has no such memory");
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "allocate %zu bytes of %s memory on %s", bytes, kind_name(kind),
                              gpu->name);
    *out = kind == FERRY_MEMORY_PINNED ? pinned : (void *)(uintptr_t)pointer;
    return FERRY_OK;
}

ferry_status
ferryi_gpu_memory_free(ferryi_device *device, ferry_memory_kind kind, void *memory)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    if (!memory)
        return FERRY_OK;
    if (kind == FERRY_MEMORY_PINNED)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, host_free, memory);
    else
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, memory_free, ferryi_gpu_address(memory));
    return FERRYI_GPU_TELL(st, "free %s memory on %s", kind_name(kind), gpu->name);
}

/* The driver's pointer queries fail with INVALID_VALUE for memory that the driver does not know.
 * Such memory is ordinary host memory. */
ferry_status
ferryi_gpu_memory_users(ferryi_device *device, const void *memory, unsigned *out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_entry entry;
    void *host = NULL;
    bool known = true;
    ferryi_gpu_memory_type type = FERRYI_GPU_MEMORYTYPE_HOST;
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    if (st == FERRY_OK) {
        ferryi_gpu_result result = gpu->driver->pointer_attribute(
            &host, FERRYI_GPU_POINTER_ATTRIBUTE_HOST_POINTER, ferryi_gpu_address(memory));
        if (result == FERRYI_GPU_ERROR_INVALID_VALUE)
            result = gpu->driver->pointer_attribute(&type, FERRYI_GPU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                    ferryi_gpu_address(memory));
        known = result != FERRYI_GPU_ERROR_INVALID_VALUE;
        if (known)
            st = FERRYI_GPU_CHECK(gpu, pointer_attribute, result);
        ferryi_gpu_leave(gpu, &entry);
    }
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "query who may use memory on %s", gpu->name);
    known =
        known || (device->capabilities & (FERRYI_DEVICE_COHERENT | FERRYI_DEVICE_TAKES_PAGEABLE));
    *out = (host || type == FERRYI_GPU_MEMORYTYPE_HOST ? FERRYI_USER_HOST : 0) |
           (known ? FERRYI_USER_DEVICE : 0);
    return FERRY_OK;
}

/* The driver fails with INVALID_VALUE for memory that it does not know, and on old drivers for the
 * attributes of ranges. */
ferry_status
ferryi_gpu_memory_is_pinned(ferryi_device *device, const void *memory, size_t bytes, bool *out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    const struct ferryi_gpu_driver *driver = gpu->driver;
    const ferryi_gpu_pointer address = ferryi_gpu_address(memory);
    struct ferryi_gpu_entry entry;
    ferryi_gpu_memory_type type = FERRYI_GPU_MEMORYTYPE_DEVICE;
    ferryi_gpu_pointer start = 0;
    size_t size = 0;
    if (!driver->vendor->tells_ranges)
        return ferryi_unsupported_ops.memory_is_pinned(device, memory, bytes, out);
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    if (st == FERRY_OK) {
        ferryi_gpu_result result =
            driver->pointer_attribute(&type, FERRYI_GPU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
        bool of_host = result == FERRYI_GPU_SUCCESS && type == FERRYI_GPU_MEMORYTYPE_HOST;
        if (of_host)
            result = driver->pointer_attribute(
                &start, FERRYI_GPU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
        if (of_host && result == FERRYI_GPU_SUCCESS)
            result =
                driver->pointer_attribute(&size, FERRYI_GPU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
        if (result != FERRYI_GPU_ERROR_INVALID_VALUE)
            st = FERRYI_GPU_CHECK(gpu, pointer_attribute, result);
        ferryi_gpu_leave(gpu, &entry);
    }
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "query whether memory is page-locked on %s", gpu->name);
    *out = address >= start && address - start <= size && bytes <= size - (address - start);
    return FERRY_OK;
}

/* Returns whether a registration of host memory may have failed because the process cannot write
 * this memory. The driver accepts read-only memory only with the flag READ_ONLY. */
static bool
may_be_constant(const struct ferryi_gpu_device *gpu, ferryi_gpu_result result, const void *memory,
                size_t bytes)
{
    return gpu->registers_read_only && result != FERRYI_GPU_SUCCESS &&
           result != FERRYI_GPU_ERROR_OUT_OF_MEMORY &&
           result != FERRYI_GPU_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
           !ferryi_is_writable(memory, bytes);
}

ferry_status
ferryi_gpu_host_register(ferryi_device *device, void *memory, size_t bytes)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    const unsigned int flags = FERRYI_GPU_MEMHOSTREGISTER_PORTABLE;
    struct ferryi_gpu_entry entry;
    if (bytes == 0)
        return FERRY_OK;
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    if (st == FERRY_OK) {
        ferryi_gpu_result result = gpu->driver->host_register(memory, bytes, flags);
        if (may_be_constant(gpu, result, memory, bytes))
            result = gpu->driver->host_register(memory, bytes,
                                                flags | FERRYI_GPU_MEMHOSTREGISTER_READ_ONLY);
        st = FERRYI_GPU_CHECK(gpu, host_register, result);
        ferryi_gpu_leave(gpu, &entry);
    }
    return FERRYI_GPU_TELL(st, "page-lock %zu bytes of host memory for %s", bytes, gpu->name);
}

ferry_status
ferryi_gpu_host_unregister(ferryi_device *device, void *memory)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    if (!memory)
        return FERRY_OK;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, host_unregister, memory);
    return FERRYI_GPU_TELL(st, "undo the page-lock of host memory for %s", gpu->name);
}

/* -- managed memory: newer functions take a location, older functions the number of a device -- */

static struct ferryi_gpu_location
location_of(ferryi_device *location)
{
    if (!location)
        return (struct ferryi_gpu_location){.type = FERRYI_GPU_MEM_LOCATION_TYPE_HOST};
    return (struct ferryi_gpu_location){.type = FERRYI_GPU_MEM_LOCATION_TYPE_DEVICE,
                                        .id = ferryi_gpu_of(location)->device};
}

static ferryi_gpu_number
ordinal_of(ferryi_device *location)
{
    return location ? ferryi_gpu_of(location)->device : FERRYI_GPU_DEVICE_CPU;
}

static ferry_status
check_concurrent(const struct ferryi_gpu_device *gpu)
{
    if (gpu->base.capabilities & FERRY_CAN_MANAGE_CONCURRENTLY)
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "host and device cannot use its managed memory at once");
}

ferry_status
ferryi_gpu_prefetch(ferryi_device *device, void *memory, size_t bytes, ferryi_device *location,
                    void *stream)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferryi_gpu_pointer pointer = ferryi_gpu_address(memory);
    if (bytes == 0)
        return FERRY_OK;
    ferry_status st = check_concurrent(gpu);
    if (st == FERRY_OK && (gpu->driver->groups & FERRYI_GPU_PREFETCH_2))
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, prefetch_2, pointer, bytes,
                       location_of(location), 0, (ferryi_gpu_stream)stream);
    else if (st == FERRY_OK)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_STREAM_WORK, prefetch, pointer, bytes,
                       ordinal_of(location), (ferryi_gpu_stream)stream);
    return FERRYI_GPU_TELL(st, "prefetch %zu bytes on %s", bytes, gpu->name);
}

ferry_status
ferryi_gpu_advise(ferryi_device *device, void *memory, size_t bytes, int advice,
                  ferryi_device *location)
{
    _Static_assert(
        (int)FERRY_ADVISE_READ_MOSTLY == (int)FERRYI_GPU_MEM_ADVISE_SET_READ_MOSTLY &&
            (int)FERRY_ADVISE_UNSET_READ_MOSTLY == (int)FERRYI_GPU_MEM_ADVISE_UNSET_READ_MOSTLY &&
            (int)FERRY_ADVISE_PREFERRED_LOCATION ==
                (int)FERRYI_GPU_MEM_ADVISE_SET_PREFERRED_LOCATION &&
            (int)FERRY_ADVISE_UNSET_PREFERRED_LOCATION ==
                (int)FERRYI_GPU_MEM_ADVISE_UNSET_PREFERRED_LOCATION &&
            (int)FERRY_ADVISE_ACCESSED_BY == (int)FERRYI_GPU_MEM_ADVISE_SET_ACCESSED_BY &&
            (int)FERRY_ADVISE_UNSET_ACCESSED_BY == (int)FERRYI_GPU_MEM_ADVISE_UNSET_ACCESSED_BY,
        "advice has the driver's own numbers");
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferryi_gpu_pointer pointer = ferryi_gpu_address(memory);
    assert(advice >= FERRY_ADVISE_READ_MOSTLY && advice <= FERRY_ADVISE_UNSET_ACCESSED_BY);
    if (bytes == 0)
        return FERRY_OK;
    ferry_status st = check_concurrent(gpu);
    if (st == FERRY_OK && (gpu->driver->groups & FERRYI_GPU_PREFETCH_2))
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, advise_2, pointer, bytes,
                       (ferryi_gpu_advice)advice, location_of(location));
    else if (st == FERRY_OK)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, advise, pointer, bytes, (ferryi_gpu_advice)advice,
                       ordinal_of(location));
    return FERRYI_GPU_TELL(st, "advise on %zu bytes on %s", bytes, gpu->name);
}
