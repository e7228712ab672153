/* SPDX-License-Identifier: MIT */
/* A part of fakecuda, the library that imitates the CUDA driver: calls that reserve addresses, and
 * map handles of memory there. Addresses without memory, and memory to which no access was granted,
 * fault in every use. Unmapping waits for no work, which then faults. */
#include "tests/support/fakecuda_internal.h"

#if FAKECUDA_GENERATION >= 12 && !(defined(FAKEHIP) && FAKEHIP < 6)

#include <stdlib.h>
#include <sys/mman.h>

#include "src/base/sanitizer.h"

#define GRANULARITY ((size_t)2 << 20)

struct fake_handle {
    struct fake_handle *next;
    fake_context *context;
    size_t bytes;
    bool released, mapped;
};

/* One handle's worth of a range. */
struct fake_part {
    struct fake_handle *handle; /* NULL: no memory */
    bool begins;                /* whether the handle begins here */
    unsigned readers;           /* set of devices that may access the memory, one bit for each */
};

struct fake_range {
    struct fake_range *next;
    struct fake_block block; /* describes the whole range */
    struct fake_part *parts;
};

static struct fake_range *ranges;
static struct fake_handle *handles;

static struct fake_range *
range_of(uintptr_t memory, size_t bytes)
{
    for (struct fake_range *range = ranges; range; range = range->next) {
        uintptr_t offset = memory - (uintptr_t)range->block.memory;
        if (offset < range->block.bytes && bytes <= range->block.bytes - offset)
            return range;
    }
    return NULL;
}

static struct fake_part *
part_of(const struct fake_range *range, uintptr_t memory)
{
    return &range->parts[(memory - (uintptr_t)range->block.memory) / GRANULARITY];
}

bool
fake_range_grants(const void *memory, size_t bytes, unsigned readers)
{
    uintptr_t begin = (uintptr_t)memory;
    const struct fake_range *range = range_of(begin, bytes);
    for (uintptr_t at = begin - begin % GRANULARITY; range && at < begin + (bytes ? bytes : 1);
         at += GRANULARITY)
        if (!(part_of(range, at)->readers & readers))
            return false;
    return true;
}

struct fake_block *
fake_range_block(const void *memory, size_t bytes)
{
    struct fake_range *range = range_of((uintptr_t)memory, bytes);
    return range && fake_range_grants(memory, bytes, ~0u) ? &range->block : NULL;
}

/* Sets whether the device reaches a part of a range. If the rule "private" is set, it does so at
 * the second address. */
static bool
protect(const struct fake_range *range, uintptr_t memory, size_t bytes, int protection)
{
    char *at = range->block.view ? range->block.view : range->block.memory;
    at += memory - (uintptr_t)range->block.memory;
    return mprotect(at, bytes, protection) == 0 &&
           (protection != PROT_NONE || madvise(at, bytes, MADV_DONTNEED) == 0);
}

static char *
reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes + GRANULARITY, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)memory % GRANULARITY;
    if (before > 0)
        munmap(memory, before);
    munmap((char *)memory + before + bytes, GRANULARITY - before);
    return (char *)memory + before;
}

static bool
is_of_device(const struct ferryi_gpu_allocation *allocation)
{
    return allocation->type == FERRYI_GPU_MEM_ALLOCATION_TYPE_PINNED &&
           allocation->shared_types == 0 && !allocation->windows &&
           allocation->location.type == FERRYI_GPU_MEM_LOCATION_TYPE_DEVICE &&
           allocation->location.id >= 0 && allocation->location.id < fake.devices;
}

ferryi_gpu_result
cuMemGetAllocationGranularity(size_t *out_bytes, const struct ferryi_gpu_allocation *allocation,
                              ferryi_gpu_granularity option)
{
    FAKE_BEGIN(cuMemGetAllocationGranularity, 0, NULL);
    if (!is_of_device(allocation) || option != FERRYI_GPU_MEM_ALLOC_GRANULARITY_MINIMUM)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    *out_bytes = GRANULARITY;
    return fake_end(FERRYI_GPU_SUCCESS);
}

/* A range belongs to the context only in fakecuda, which knows from it whose memory is private. */
ferryi_gpu_result
cuMemAddressReserve(ferryi_gpu_pointer *out_range, size_t bytes, size_t align,
                    ferryi_gpu_pointer wanted, unsigned long long flags)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemAddressReserve, FAKE_NEEDS_CONTEXT, &context);
    if (bytes == 0 || bytes % GRANULARITY != 0 || (align & (align - 1)) != 0 ||
        align > GRANULARITY || wanted != 0 || flags != 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    struct fake_range *range = calloc(1, sizeof(*range));
    struct fake_part *parts = calloc(bytes / GRANULARITY, sizeof(*parts));
    char *memory = reserve(bytes),
         *view = fake.strict & FAKE_STRICT_PRIVATE ? reserve(bytes) : NULL;
    if (!range || !parts || !memory || (!view && (fake.strict & FAKE_STRICT_PRIVATE))) {
        if (memory)
            munmap(memory, bytes);
        free(range);
        free(parts);
        return fake_end(FERRYI_GPU_ERROR_OUT_OF_MEMORY);
    }
    *range = (struct fake_range){.next = ranges,
                                 .block = {.kind = FAKE_DEVICE,
                                           .context = context,
                                           .memory = memory,
                                           .bytes = bytes,
                                           .view = view},
                                 .parts = parts};
    ranges = range;
    fake.live.ranges++;
    *out_range = (uintptr_t)memory;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuMemAddressFree(ferryi_gpu_pointer memory, size_t bytes)
{
    FAKE_BEGIN(cuMemAddressFree, 0, NULL);
    struct fake_range **link = &ranges;
    while (*link && (uintptr_t)(*link)->block.memory != memory)
        link = &(*link)->next;
    struct fake_range *range = *link;
    if (!range || range->block.bytes != bytes)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < bytes / GRANULARITY; i++)
        if (range->parts[i].handle)
            return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    *link = range->next;
    munmap(range->block.memory, bytes);
    if (range->block.view)
        munmap(range->block.view, bytes);
    free(range->parts);
    free(range);
    fake.live.ranges--;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuMemCreate(ferryi_gpu_handle *out_handle, size_t bytes,
            const struct ferryi_gpu_allocation *allocation, unsigned long long flags)
{
    FAKE_BEGIN(cuMemCreate, FAKE_UNSAFE, NULL);
    if (bytes == 0 || bytes % GRANULARITY != 0 || flags != 0 || !is_of_device(allocation))
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    fake_context *context = &fake.contexts[allocation->location.id];
    struct fake_handle *handle = NULL;
    if (bytes <= fake.memory_bytes - context->used_bytes)
        handle = calloc(1, sizeof(*handle));
    if (!handle)
        return fake_end(FERRYI_GPU_ERROR_OUT_OF_MEMORY);
    *handle = (struct fake_handle){.next = handles, .context = context, .bytes = bytes};
    handles = handle;
    context->used_bytes += bytes;
    fake.live.allocations++;
    *out_handle = (uintptr_t)handle;
    return fake_end(FERRYI_GPU_SUCCESS);
}

/* Frees the memory of a handle that is neither mapped nor held. */
static void
drop_handle(struct fake_handle *handle)
{
    struct fake_handle **link = &handles;
    if (handle->mapped || !handle->released)
        return;
    while (*link != handle)
        link = &(*link)->next;
    *link = handle->next;
    handle->context->used_bytes -= handle->bytes;
    fake.live.allocations--;
    free(handle);
}

static struct fake_handle *
find_handle(ferryi_gpu_handle number)
{
    struct fake_handle *handle = handles;
    while (handle && ((uintptr_t)handle != number || handle->released))
        handle = handle->next;
    return handle;
}

ferryi_gpu_result
cuMemRelease(ferryi_gpu_handle number)
{
    FAKE_BEGIN(cuMemRelease, FAKE_UNSAFE, NULL);
    struct fake_handle *handle = find_handle(number);
    if (!handle)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    handle->released = true;
#ifdef FAKEHIP
    /* An older release of HIP frees the memory under the mapping, where a use of it faults. */
    for (struct fake_range *range = handle->mapped ? ranges : NULL; range; range = range->next)
        for (size_t i = 0; i < range->block.bytes / GRANULARITY; i++)
            if (range->parts[i].handle == handle)
                protect(range, (uintptr_t)range->block.memory + i * GRANULARITY, GRANULARITY,
                        PROT_NONE);
#endif
    drop_handle(handle);
    return fake_end(FERRYI_GPU_SUCCESS);
}

/* fakecuda maps a whole handle, and only once. */
ferryi_gpu_result
cuMemMap(ferryi_gpu_pointer memory, size_t bytes, size_t offset, ferryi_gpu_handle number,
         unsigned long long flags)
{
    FAKE_BEGIN(cuMemMap, FAKE_UNSAFE, NULL);
    struct fake_range *range = range_of(memory, bytes);
    struct fake_handle *handle = find_handle(number);
    if (!range || !handle || handle->mapped || handle->bytes != bytes || offset != 0 ||
        flags != 0 || memory % GRANULARITY != 0 || handle->context != range->block.context)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    struct fake_part *part = part_of(range, memory);
    for (size_t i = 0; i < bytes / GRANULARITY; i++)
        if (part[i].handle)
            return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < bytes / GRANULARITY; i++)
        part[i] = (struct fake_part){.handle = handle, .begins = i == 0};
    handle->mapped = true;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuMemSetAccess(ferryi_gpu_pointer memory, size_t bytes, const struct ferryi_gpu_access *access,
               size_t count)
{
    FAKE_BEGIN(cuMemSetAccess, FAKE_UNSAFE, NULL);
    struct fake_range *range = range_of(memory, bytes);
    unsigned readers = 0;
    if (!range || bytes == 0 || (memory | bytes) % GRANULARITY != 0 || count == 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        if (access[i].location.type != FERRYI_GPU_MEM_LOCATION_TYPE_DEVICE ||
            access[i].location.id < 0 || access[i].location.id >= fake.devices ||
            access[i].flags != FERRYI_GPU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
        readers |= 1u << access[i].location.id;
    }
    struct fake_part *part = part_of(range, memory);
    for (size_t i = 0; i < bytes / GRANULARITY; i++)
        if (!part[i].handle)
            return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    if (!protect(range, memory, bytes, PROT_READ | PROT_WRITE))
        return fake_end(FERRYI_GPU_ERROR_OUT_OF_MEMORY);
    char *view = range->block.view ? range->block.view : range->block.memory;
    for (size_t i = 0; i < bytes / GRANULARITY; i++) {
        if (part[i].readers == 0)
            memset(view + (memory - (uintptr_t)range->block.memory) + i * GRANULARITY, 0xcd,
                   ferryi_garbage_bytes(GRANULARITY));
        part[i].readers |= readers;
    }
    return fake_end(FERRYI_GPU_SUCCESS);
}

/* Unmaps whole handles. */
ferryi_gpu_result
cuMemUnmap(ferryi_gpu_pointer memory, size_t bytes)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemUnmap, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    struct fake_range *range = range_of(memory, bytes);
    if ((fake.strict & FAKE_STRICT_CAPTURE) && fake_capture_of_context(context, true))
        return fake_end(FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (!range || bytes == 0 || (memory | bytes) % GRANULARITY != 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    struct fake_part *part = part_of(range, memory), *end = part + bytes / GRANULARITY,
                     *last = range->parts + range->block.bytes / GRANULARITY;
    bool whole = part->begins && (end == last || !end->handle || end->begins);
    for (struct fake_part *at = part; at < end; at++)
        whole = whole && at->handle;
    if (!whole || !protect(range, memory, bytes, PROT_NONE))
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    for (struct fake_part *at = end - 1; at >= part; at--) {
        struct fake_handle *handle = at->handle;
        bool begins = at->begins;
        *at = (struct fake_part){0};
        if (begins) {
            handle->mapped = false;
            drop_handle(handle);
        }
    }
    return fake_end(FERRYI_GPU_SUCCESS);
}

#else

bool
fake_range_grants(const void *memory, size_t bytes, unsigned readers)
{
    (void)memory, (void)bytes, (void)readers;
    return true;
}

struct fake_block *
fake_range_block(const void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
    return NULL;
}

#endif
