/* SPDX-License-Identifier: MIT */
/* fakecuda: virtual memory management. Granules are files in memory, so that one may be mapped at
 * several addresses, as the driver's may. */
#include "tests/support/fakecuda_internal.h"

#if FAKECUDA_GENERATION >= 12
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULE ((size_t)2 << 20)

struct granule {
    struct granule *next;
    int device, file;
    int holders; /* handles and mappings */
    int handles;
};

struct range {
    struct range *next;
    char *start;
    size_t bytes;
    struct granule **granules; /* one for each; NULL: not mapped */
    bool *accessible;
};

static struct granule *granules;
static struct range *ranges;

/* -- granules -- */

static struct granule *
granule_of(ferryi_cu_handle handle)
{
    struct granule *granule = granules;
    while (granule && (uintptr_t)granule != handle)
        granule = granule->next;
    return granule && granule->handles > 0 ? granule : NULL;
}

static void
drop_granule(struct granule *granule)
{
    if (--granule->holders > 0)
        return;
    struct granule **link = &granules;
    while (*link != granule)
        link = &(*link)->next;
    *link = granule->next;
    fake.contexts[granule->device].used_bytes -= GRANULE;
    fake.live.allocations--;
    close(granule->file);
    free(granule);
}

/* New memory never happens to be zero. */
static bool
fill(int file)
{
    char *memory = ftruncate(file, GRANULE) == 0
                       ? mmap(NULL, GRANULE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    if (memory == MAP_FAILED)
        return false;
    memset(memory, 0xcd, GRANULE);
    return munmap(memory, GRANULE) == 0;
}

static fake_result
create(int device, ferryi_cu_handle *out)
{
    if (GRANULE > fake.memory_bytes - fake.contexts[device].used_bytes)
        return FERRYI_CUDA_ERROR_OUT_OF_MEMORY;
    struct granule *granule = calloc(1, sizeof(*granule));
    int file = memfd_create("fakecuda", 0);
    if (!granule || file < 0 || !fill(file)) {
        free(granule);
        if (file >= 0)
            close(file);
        return FERRYI_CUDA_ERROR_OUT_OF_MEMORY;
    }
    *granule = (struct granule){
        .next = granules, .device = device, .file = file, .holders = 1, .handles = 1};
    granules = granule;
    fake.contexts[device].used_bytes += GRANULE;
    fake.live.allocations++;
    *out = (uintptr_t)granule;
    return FERRYI_CUDA_SUCCESS;
}

static bool
is_pinned_on_device(const struct ferryi_cu_allocation *properties)
{
    return properties->type == FERRYI_CU_MEM_ALLOCATION_TYPE_PINNED &&
           properties->location.type == FERRYI_CU_MEM_LOCATION_TYPE_DEVICE &&
           properties->location.id >= 0 && properties->location.id < fake.devices;
}

ferryi_cu_result
cuMemGetAllocationGranularity(size_t *out_bytes, const struct ferryi_cu_allocation *properties,
                              ferryi_cu_granularity option)
{
    FAKE_BEGIN(cuMemGetAllocationGranularity, 0, NULL);
    if (!is_pinned_on_device(properties) || option != FERRYI_CU_MEM_ALLOC_GRANULARITY_MINIMUM)
        return fake_end(FERRYI_CUDA_ERROR_INVALID_VALUE);
    *out_bytes = GRANULE;
    return fake_end(FERRYI_CUDA_SUCCESS);
}

ferryi_cu_result
cuMemCreate(ferryi_cu_handle *out_handle, size_t bytes,
            const struct ferryi_cu_allocation *properties, unsigned long long flags)
{
    FAKE_BEGIN(cuMemCreate, FAKE_UNSAFE, NULL);
    if (!is_pinned_on_device(properties) || bytes != GRANULE || flags != 0)
        return fake_end(FERRYI_CUDA_ERROR_INVALID_VALUE);
    return fake_end(create(properties->location.id, out_handle));
}

ferryi_cu_result
cuMemRelease(ferryi_cu_handle handle)
{
    FAKE_BEGIN(cuMemRelease, 0, NULL);
    struct granule *granule = granule_of(handle);
    if (!granule)
        return fake_end(FERRYI_CUDA_ERROR_INVALID_VALUE);
    granule->handles--;
    drop_granule(granule);
    return fake_end(FERRYI_CUDA_SUCCESS);
}

/* -- ranges -- */

/* The reserved range that holds all these granules, from *out_first on. */
static struct range *
range_of(ferryi_cu_pointer address, size_t bytes, size_t *out_first)
{
    struct range *range = ranges;
    while (range && !(address >= (uintptr_t)range->start &&
                      address - (uintptr_t)range->start < range->bytes))
        range = range->next;
    if (!range || bytes == 0 || bytes % GRANULE != 0 || address % GRANULE != 0 ||
        bytes > range->bytes - (address - (uintptr_t)range->start))
        return NULL;
    *out_first = (address - (uintptr_t)range->start) / GRANULE;
    return range;
}

static bool
is_mapped(const struct range *range, size_t first, size_t count, bool wanted)
{
    for (size_t i = first; i < first + count; i++)
        if ((range->granules[i] != NULL) != wanted)
            return false;
    return true;
}

static void
free_range(struct range *range)
{
    struct range **link = &ranges;
    while (*link != range)
        link = &(*link)->next;
    *link = range->next;
    munmap(range->start, range->bytes);
    free(range->granules);
    free(range->accessible);
    free(range);
    fake.live.allocations--;
}

/* Addresses at a multiple of the granule. */
static char *
reserve_addresses(size_t bytes)
{
    char *start =
        mmap(NULL, bytes + GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    size_t gap = -(uintptr_t)start % GRANULE;
    if (gap > 0)
        munmap(start, gap);
    if (gap < GRANULE)
        munmap(start + gap + bytes, GRANULE - gap);
    return start + gap;
}

ferryi_cu_result
cuMemAddressReserve(ferryi_cu_pointer *out_address, size_t bytes, size_t align,
                    ferryi_cu_pointer hint, unsigned long long flags)
{
    FAKE_BEGIN(cuMemAddressReserve, 0, NULL);
    if (bytes == 0 || bytes % GRANULE != 0 || (align & (align - 1)) != 0 || align > GRANULE ||
        hint != 0 || flags != 0)
        return fake_end(FERRYI_CUDA_ERROR_INVALID_VALUE);
    struct range *range = calloc(1, sizeof(*range));
    if (!range)
        return fake_end(FERRYI_CUDA_ERROR_OUT_OF_MEMORY);
    *range = (struct range){.next = ranges,
                            .bytes = bytes,
                            .granules = calloc(bytes / GRANULE, sizeof(struct granule *)),
                            .accessible = calloc(bytes / GRANULE, sizeof(bool))};
    range->start = range->granules && range->accessible ? reserve_addresses(bytes) : NULL;
    if (!range->start) {
        free(range->granules);
        free(range->accessible);
        free(range);
        return fake_end(FERRYI_CUDA_ERROR_OUT_OF_MEMORY);
    }
    ranges = range;
    fake.live.allocations++;
    *out_address = (uintptr_t)range->start;
    return fake_end(FERRYI_CUDA_SUCCESS);
}

/* Only as it was reserved, and when nothing is mapped there. */
ferryi_cu_result
cuMemAddressFree(ferryi_cu_pointer address, size_t bytes)
{
    size_t first;
    FAKE_BEGIN(cuMemAddressFree, 0, NULL);
    struct range *range = range_of(address, bytes, &first);
    if (!range || (uintptr_t)range->start != address || range->bytes != bytes ||
        !is_mapped(range, 0, bytes / GRANULE, false))
        return fake_end(FERRYI_CUDA_ERROR_INVALID_VALUE);
    free_range(range);
    return fake_end(FERRYI_CUDA_SUCCESS);
}

ferryi_cu_result
cuMemRetainAllocationHandle(ferryi_cu_handle *out_handle, void *memory)
{
    size_t first;
    FAKE_BEGIN(cuMemRetainAllocationHandle, 0, NULL);
    struct range *range = range_of((uintptr_t)memory & ~(GRANULE - 1), GRANULE, &first);
    if (!range || !range->granules[first])
        return fake_end(FERRYI_CUDA_ERROR_INVALID_VALUE);
    range->granules[first]->handles++;
    range->granules[first]->holders++;
    *out_handle = (uintptr_t)range->granules[first];
    return fake_end(FERRYI_CUDA_SUCCESS);
}

/* A whole granule, where none is mapped. Nobody can use it yet. */
ferryi_cu_result
cuMemMap(ferryi_cu_pointer address, size_t bytes, size_t offset, ferryi_cu_handle handle,
         unsigned long long flags)
{
    size_t first;
    FAKE_BEGIN(cuMemMap, 0, NULL);
    struct range *range = range_of(address, bytes, &first);
    struct granule *granule = granule_of(handle);
    if (!range || !granule || bytes != GRANULE || offset != 0 || flags != 0 ||
        range->granules[first])
        return fake_end(FERRYI_CUDA_ERROR_INVALID_VALUE);
    if (mmap(range->start + first * GRANULE, GRANULE, PROT_NONE, MAP_SHARED | MAP_FIXED,
             granule->file, 0) == MAP_FAILED)
        return fake_end(FERRYI_CUDA_ERROR_OUT_OF_MEMORY);
    range->granules[first] = granule;
    granule->holders++;
    return fake_end(FERRYI_CUDA_SUCCESS);
}

/* All granules of it are mapped. It does not wait: queued work that still uses them crashes. */
ferryi_cu_result
cuMemUnmap(ferryi_cu_pointer address, size_t bytes)
{
    size_t first, count = bytes / GRANULE;
    FAKE_BEGIN(cuMemUnmap, 0, NULL);
    struct range *range = range_of(address, bytes, &first);
    if (!range || !is_mapped(range, first, count, true))
        return fake_end(FERRYI_CUDA_ERROR_INVALID_VALUE);
    fake_mapping_end((char *)(uintptr_t)address);
    mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (size_t i = first; i < first + count; i++) {
        drop_granule(range->granules[i]);
        range->granules[i] = NULL;
        range->accessible[i] = false;
    }
    return fake_end(FERRYI_CUDA_SUCCESS);
}

/* One device at least, which is that of the memory, and others that reach it. */
static bool
is_access(const struct ferryi_cu_access *access, size_t count, int device)
{
    bool own = false;
    for (size_t i = 0; i < count; i++) {
        if (access[i].flags != FERRYI_CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
            access[i].location.type != FERRYI_CU_MEM_LOCATION_TYPE_DEVICE ||
            access[i].location.id < 0 || access[i].location.id >= fake.devices)
            return false;
        own |= access[i].location.id == device;
    }
    return own;
}

ferryi_cu_result
cuMemSetAccess(ferryi_cu_pointer address, size_t bytes, const struct ferryi_cu_access *access,
               size_t count)
{
    size_t first;
    FAKE_BEGIN(cuMemSetAccess, 0, NULL);
    struct range *range = range_of(address, bytes, &first);
    if (!range || !is_mapped(range, first, bytes / GRANULE, true) ||
        !is_access(access, count, range->granules[first]->device))
        return fake_end(FERRYI_CUDA_ERROR_INVALID_VALUE);
    if (range->accessible[first] ||
        mprotect((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE) != 0 ||
        !fake_mapping_begin(&fake.contexts[range->granules[first]->device],
                            (char *)(uintptr_t)address, bytes))
        return fake_end(FERRYI_CUDA_ERROR_UNKNOWN);
    for (size_t i = 0; i < bytes / GRANULE; i++)
        range->accessible[first + i] = true;
    fake.last_access = 0;
    for (size_t i = 0; i < count; i++)
        fake.last_access |= 1u << access[i].location.id;
    return fake_end(FERRYI_CUDA_SUCCESS);
}

void
fake_ranges_end(const fake_context *context)
{
    struct range *next;
    for (struct range *range = ranges; range; range = next) {
        next = range->next;
        bool own = false;
        for (size_t i = 0; i < range->bytes / GRANULE; i++) {
            own |= range->granules[i] && range->granules[i]->device == context->device;
            if (own && range->granules[i])
                drop_granule(range->granules[i]);
        }
        if (own)
            free_range(range);
    }
}
#else
void
fake_ranges_end(const fake_context *context)
{
    (void)context;
}
#endif
