/* SPDX-License-Identifier: MIT */
/*
 * Memory made of granules, by the driver's virtual memory management. A granule is one allocation
 * of the driver that lives as long as it is mapped somewhere; its handle is asked for where it is
 * needed, so that nothing about it is kept here. New memory is mapped beside the old: until all of
 * it stands, nothing is undone.
 */
#include "src/device/cuda_device.h"

#include <assert.h>
#include <stdlib.h>

#define ORDINALS 64

/* How often each device is open in the process: those get access, where they can reach. */
static _Atomic unsigned opened[ORDINALS];

static struct ferryi_cu_location
location_of(ferryi_cu_device device)
{
    return (struct ferryi_cu_location){.type = FERRYI_CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

static struct ferryi_cu_allocation
granule_of(const struct ferryi_cuda_device *cuda)
{
    return (struct ferryi_cu_allocation){.type = FERRYI_CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = location_of(cuda->device)};
}

bool
ferryi_cuda_ranges_open(struct ferryi_cuda_device *cuda)
{
    size_t granule = 0;
    struct ferryi_cu_allocation allocation = granule_of(cuda);
    if (cuda->ordinal >= ORDINALS ||
        FERRYI_CUDA_CALL(cuda, cuMemGetAllocationGranularity, &granule, &allocation,
                         FERRYI_CU_MEM_ALLOC_GRANULARITY_MINIMUM) != FERRY_OK ||
        !ferryi_is_power_of_two(granule))
        return false;
    cuda->base.granule_bytes = granule;
    atomic_fetch_add(&opened[cuda->ordinal], 1);
    return true;
}

void
ferryi_cuda_ranges_close(const struct ferryi_cuda_device *cuda)
{
    if (cuda->base.granule_bytes > 0)
        atomic_fetch_sub(&opened[cuda->ordinal], 1);
}

/* -- making: inside an entry ------------------------------------------------------------------- */

struct making {
    struct ferryi_cuda_device *cuda;
    const struct ferryi_range_part *parts;
    size_t count;
    size_t part, offset; /* the next granule of the parts */
    ferryi_cu_pointer start;
    size_t mapped;
};

/* The next granule of the parts, or a new one. Released when it is mapped: its mappings keep it. */
static ferry_status
next_granule(struct making *making, ferryi_cu_handle *out)
{
    struct ferryi_cuda_device *cuda = making->cuda;
    if (making->part == making->count) {
        struct ferryi_cu_allocation allocation = granule_of(cuda);
        return FERRYI_CUDA_CALL(cuda, cuMemCreate, out, cuda->base.granule_bytes, &allocation, 0);
    }
    const struct ferryi_range_part *part = &making->parts[making->part];
    void *memory = (char *)part->memory + making->offset;
    making->offset += cuda->base.granule_bytes;
    if (making->offset == part->bytes) {
        making->offset = 0;
        making->part++;
    }
    return FERRYI_CUDA_CALL(cuda, cuMemRetainAllocationHandle, out, memory);
}

static ferry_status
map_next(struct making *making)
{
    struct ferryi_cuda_device *cuda = making->cuda;
    size_t granule = cuda->base.granule_bytes;
    ferryi_cu_handle handle;
    ferry_status st = next_granule(making, &handle);
    if (st != FERRY_OK)
        return st;
    st = FERRYI_CUDA_CALL(cuda, cuMemMap, making->start + making->mapped, granule, 0, handle, 0);
    if (st == FERRY_OK)
        making->mapped += granule;
    ferryi_cu_result released = cuda->driver->cuMemRelease(handle);
    return st == FERRY_OK ? FERRYI_CUDA_CHECK(cuda, cuMemRelease, released) : st;
}

/* For this device and all that are open and reach it. */
static ferry_status
set_access(const struct making *making)
{
    struct ferryi_cuda_device *cuda = making->cuda;
    struct ferryi_cu_access access[ORDINALS];
    size_t count = 0;
    access[count++] = (struct ferryi_cu_access){location_of(cuda->device),
                                                FERRYI_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (int i = 0; i < ORDINALS; i++) {
        ferryi_cu_device other;
        int can = 0;
        if (i != cuda->ordinal && atomic_load(&opened[i]) > 0 &&
            cuda->driver->cuDeviceGet(&other, i) == FERRYI_CUDA_SUCCESS &&
            cuda->driver->cuDeviceCanAccessPeer(&can, other, cuda->device) == FERRYI_CUDA_SUCCESS &&
            can)
            access[count++] = (struct ferryi_cu_access){location_of(other),
                                                        FERRYI_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    }
    return FERRYI_CUDA_CALL(cuda, cuMemSetAccess, making->start, making->mapped, access, count);
}

/* Unmap what is mapped and free the addresses. */
static ferry_status
unmake(struct ferryi_cuda_device *cuda, ferryi_cu_pointer start, size_t mapped, size_t bytes)
{
    ferry_status st = mapped > 0 ? FERRYI_CUDA_CALL(cuda, cuMemUnmap, start, mapped) : FERRY_OK;
    return st == FERRY_OK ? FERRYI_CUDA_CALL(cuda, cuMemAddressFree, start, bytes) : st;
}

static void
log_lost(const struct ferryi_cuda_device *cuda, size_t bytes)
{
    ferryi_log(&cuda->log, FERRY_LOG_WARNING, "addresses of %zu bytes on cuda:%d are lost: %s",
               bytes, cuda->ordinal, ferry_last_error());
}

static ferry_status
make(struct making *making, size_t bytes)
{
    struct ferryi_cuda_device *cuda = making->cuda;
    ferry_status st = FERRYI_CUDA_CALL(cuda, cuMemAddressReserve, &making->start, bytes,
                                       cuda->base.granule_bytes, 0, 0);
    if (st != FERRY_OK)
        return st;
    while (st == FERRY_OK && making->mapped < bytes)
        st = map_next(making);
    if (st == FERRY_OK)
        st = set_access(making);
    if (st == FERRY_OK)
        return st;
    char *reason = ferryi_last_error_copy();
    if (unmake(cuda, making->start, making->mapped, bytes) != FERRY_OK)
        log_lost(cuda, bytes);
    ferryi_explain("%s", reason ? reason : "");
    free(reason);
    return st;
}

/* What was made stands: a part that does not go costs its addresses, and its surplus. */
static void
drop_parts(const struct making *making)
{
    for (size_t i = 0; i < making->count; i++) {
        const struct ferryi_range_part *part = &making->parts[i];
        if (unmake(making->cuda, ferryi_cuda_pointer(part->memory), part->bytes, part->bytes) !=
            FERRY_OK)
            log_lost(making->cuda, part->bytes);
    }
}

/* -- the slots --------------------------------------------------------------------------------- */

static ferry_status
check_ranges(const struct ferryi_cuda_device *cuda, const char *slot)
{
    if (cuda->base.granule_bytes > 0)
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "%s: the driver or the device has no virtual memory management", slot);
}

ferry_status
ferryi_cuda_range_make(ferryi_device *device, const struct ferryi_range_part *parts, size_t count,
                       size_t bytes, void **out)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct making making = {.cuda = cuda, .parts = parts, .count = count};
    struct ferryi_cuda_entry entry;

    ferry_status st = check_ranges(cuda, "range_make");
    if (st == FERRY_OK)
        st = ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry);
    if (st == FERRY_OK) {
        assert(bytes > 0 && bytes % device->granule_bytes == 0);
        st = make(&making, bytes);
        if (st == FERRY_OK)
            drop_parts(&making);
        ferryi_cuda_leave(cuda, &entry);
    }
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "make %zu bytes of device memory of %zu parts on cuda:%d", bytes,
                              count, cuda->ordinal);
    *out = (void *)(uintptr_t)making.start;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_range_free(ferryi_device *device, void *memory, size_t bytes)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct ferryi_cuda_entry entry;
    if (!memory)
        return FERRY_OK;
    ferry_status st = check_ranges(cuda, "range_free");
    if (st == FERRY_OK)
        st = ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_CUDA_CALL(cuda, cuMemUnmap, ferryi_cuda_pointer(memory), bytes);
        /* The memory is gone; only addresses would be left. */
        if (st == FERRY_OK && FERRYI_CUDA_CALL(cuda, cuMemAddressFree, ferryi_cuda_pointer(memory),
                                               bytes) != FERRY_OK)
            log_lost(cuda, bytes);
        ferryi_cuda_leave(cuda, &entry);
    }
    return FERRYI_CUDA_TELL(st, "give %zu bytes of device memory back on cuda:%d", bytes,
                            cuda->ordinal);
}
