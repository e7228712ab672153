/* SPDX-License-Identifier: MIT */
/* Implements the ranges of a GPU: reserved addresses, at which handles of device memory are
 * mapped. */
#include "src/device/gpu/gpu_device.h"

#define DEVICES_MAX 64 /* bits of ferryi_gpu_device.readers */

static struct ferryi_gpu_allocation
allocation_on(const struct ferryi_gpu_device *gpu)
{
    return (struct ferryi_gpu_allocation){
        .type = FERRYI_GPU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = FERRYI_GPU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->device}};
}

/* A peer's access to such memory is granted when it is mapped, and not by peer_enable(). */
static uint64_t
find_readers(const struct ferryi_gpu_device *gpu)
{
    uint64_t readers = 0;
    int count = 0;
    if (gpu->driver->device_count(&count) != FERRYI_GPU_SUCCESS)
        count = 0;
    for (int i = 0; i < count && i < DEVICES_MAX; i++) {
        ferryi_gpu_number other;
        int can = 0;
        if (gpu->driver->device(&other, i) == FERRYI_GPU_SUCCESS && other != gpu->device &&
            gpu->driver->can_access_peer(&can, other, gpu->device) == FERRYI_GPU_SUCCESS && can)
            readers |= UINT64_C(1) << i;
    }
    return readers;
}

void
ferryi_gpu_ranges_begin(struct ferryi_gpu_device *gpu)
{
    const struct ferryi_gpu_allocation allocation = allocation_on(gpu);
    size_t bytes = 0;
    ferryi_gpu_result result = gpu->driver->range_granularity(
        &bytes, &allocation, FERRYI_GPU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != FERRYI_GPU_SUCCESS || !ferryi_is_power_of_two(bytes))
        return;
    gpu->base.properties.handle_bytes = bytes;
    gpu->readers = find_readers(gpu);
}

static ferry_status
check_ranges(const struct ferryi_gpu_device *gpu, const char *slot)
{
    return gpu->base.properties.handle_bytes > 0
               ? FERRY_OK
               : ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                             "%s on %s: the driver maps no memory of this device", slot, gpu->name);
}

ferry_status
ferryi_gpu_range_reserve(ferryi_device *device, size_t bytes, void **out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferryi_gpu_pointer range = 0;
    ferry_status st = check_ranges(gpu, "range_reserve");
    if (st == FERRY_OK)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, range_reserve, &range, bytes,
                       device->properties.handle_bytes, 0, 0);
    if (st == FERRY_OK)
        *out = (void *)(uintptr_t)range;
    return FERRYI_GPU_TELL(st, "reserve %zu bytes of addresses on %s", bytes, gpu->name);
}

ferry_status
ferryi_gpu_range_release(ferryi_device *device, void *range, size_t bytes)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st = check_ranges(gpu, "range_release");
    if (st == FERRY_OK)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, range_free, ferryi_gpu_address(range), bytes);
    return FERRYI_GPU_TELL(st, "free %zu bytes of addresses on %s", bytes, gpu->name);
}

/* Lets the device, and every device that can access its memory, use a mapped handle. */
static ferry_status
grant_access(struct ferryi_gpu_device *gpu, ferryi_gpu_pointer memory, size_t bytes)
{
    struct ferryi_gpu_access access[DEVICES_MAX + 1];
    size_t count = 0;
    access[count++] = (struct ferryi_gpu_access){allocation_on(gpu).location,
                                                 FERRYI_GPU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (int i = 0; i < DEVICES_MAX; i++) {
        ferryi_gpu_number other;
        if (!(gpu->readers >> i & 1) || gpu->driver->device(&other, i) != FERRYI_GPU_SUCCESS)
            continue;
        access[count] = access[0];
        access[count++].location.id = other;
    }
    return FERRYI_GPU_CALL(gpu, range_access, memory, bytes, access, count);
}

/* Maps a handle that was created, and lets the devices use it. */
static ferry_status
map_handle(struct ferryi_gpu_device *gpu, ferryi_gpu_pointer memory, size_t bytes,
           ferryi_gpu_handle handle)
{
    FERRYI_OR_RETURN(FERRYI_GPU_CALL(gpu, range_map, memory, bytes, 0, handle, 0));
    ferry_status st = grant_access(gpu, memory, bytes);
    if (st != FERRY_OK) {
        FERRYI_KEEP_ERROR(why);
        ferryi_gpu_log_undo(gpu, "unmap a handle that no device may use",
                            FERRYI_GPU_CALL(gpu, range_unmap, memory, bytes));
    }
    return st;
}

ferry_status
ferryi_gpu_range_map(ferryi_device *device, void *memory, size_t bytes, void **out_handle)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    const struct ferryi_gpu_allocation allocation = allocation_on(gpu);
    struct ferryi_gpu_entry entry;
    ferryi_gpu_handle handle = 0;
    ferry_status st = check_ranges(gpu, "range_map");
    if (st == FERRY_OK)
        st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_GPU_CALL(gpu, handle_create, &handle, bytes, &allocation, 0);
        ferry_status mapped =
            st == FERRY_OK ? map_handle(gpu, ferryi_gpu_address(memory), bytes, handle) : st;
        if (st == FERRY_OK && mapped != FERRY_OK) {
            FERRYI_KEEP_ERROR(why);
            ferryi_gpu_log_undo(gpu, "release a handle that was not mapped",
                                FERRYI_GPU_CALL(gpu, handle_release, handle));
        }
        st = mapped;
        ferryi_gpu_leave(gpu, &entry);
    }
    if (st == FERRY_OK)
        *out_handle = (void *)(uintptr_t)handle;
    return FERRYI_GPU_TELL(st, "map %zu bytes of device memory on %s", bytes, gpu->name);
}

/* The handle is released last, because some drivers free the memory of a released handle although
 * it is mapped. */
ferry_status
ferryi_gpu_range_unmap(ferryi_device *device, void *memory, size_t bytes, void *handle)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_entry entry;
    ferry_status st = check_ranges(gpu, "range_unmap");
    if (st == FERRY_OK)
        st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_GPU_CALL(gpu, range_unmap, ferryi_gpu_address(memory), bytes);
        if (st == FERRY_OK)
            ferryi_gpu_log_undo(
                gpu, "release a handle that was unmapped",
                FERRYI_GPU_CALL(gpu, handle_release, (ferryi_gpu_handle)(uintptr_t)handle));
        ferryi_gpu_leave(gpu, &entry);
    }
    return FERRYI_GPU_TELL(st, "unmap %zu bytes of device memory on %s", bytes, gpu->name);
}
