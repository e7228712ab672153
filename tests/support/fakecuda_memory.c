/* SPDX-License-Identifier: MIT */
/* A part of fakecuda, the library that imitates the CUDA driver: calls that allocate, register or
 * free memory, and calls that prefetch it or give advice about it. */
#include "tests/support/fakecuda_internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/sanitizer.h"

#define PAGE 4096

static struct fake_block *blocks;
static int views; /* number of blocks that the device accesses at a second address, `block->view` */

struct fake_block *
fake_block_of(const void *memory, size_t bytes)
{
    uintptr_t begin = (uintptr_t)memory;
    for (struct fake_block *block = blocks; block; block = block->next) {
        uintptr_t start = (uintptr_t)block->memory;
        if (begin >= start && begin - start <= block->bytes &&
            bytes <= block->bytes - (begin - start) && begin - start < block->bytes)
            return fake_shared_is_gone(block) ? NULL : block;
    }
    return fake_range_block(memory, bytes);
}

struct fake_block *
fake_block_at(const void *memory)
{
    struct fake_block *block = blocks;
    while (block && block->memory != memory)
        block = block->next;
    return block;
}

struct fake_block *
fake_block_opened(const fake_context *context, uint64_t number)
{
    struct fake_block *block = blocks;
    while (block && (block->context != context || !fake_shared_is_opened(block) ||
                     block->shared->token.number != number))
        block = block->next;
    return block;
}

bool
fake_add_block(const struct fake_block *plan)
{
    struct fake_block *block = calloc(1, sizeof(*block));
    if (!block)
        return false;
    *block = *plan;
    block->next = blocks;
    blocks = block;
    if (fake_shared_is_opened(block)) {
        fake.live.opened++;
        return true;
    }
    if (block->kind == FAKE_DEVICE)
        block->context->used_bytes += block->bytes;
    if (block->kind == FAKE_REGISTERED)
        fake.live.registrations++;
    else
        fake.live.allocations++;
    return true;
}

/* -- managed memory, which the host cannot access while kernels run -- */

static size_t
whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static void
close_managed(bool closed)
{
    for (struct fake_block *block = views ? blocks : NULL; block; block = block->next)
        if (block->view && block->kind == FAKE_MANAGED)
            mprotect(block->memory, whole_pages(block->bytes),
                     closed ? PROT_NONE : PROT_READ | PROT_WRITE);
}

void
fake_kernel_begins(void)
{
    if (fake.kernels++ == 0)
        close_managed(true);
}

void
fake_kernel_ends(void)
{
    if (--fake.kernels == 0)
        close_managed(false);
}

void *
fake_view(const void *memory)
{
    struct fake_block *block = fake_block_of(memory, 0);
    return block && block->view ? block->view + ((const char *)memory - block->memory)
                                : (void *)(uintptr_t)memory;
}

FAKE_EXPORT void *fakecuda_reach(const void *memory);

void *
fakecuda_reach(const void *memory)
{
    pthread_mutex_lock(&fake_lock);
    void *view = fake_view(memory);
    pthread_mutex_unlock(&fake_lock);
    return view;
}

bool
fake_map(struct fake_block *block, int file, bool twice, bool closed)
{
    const size_t bytes = whole_pages(block->bytes);
    void *view = NULL, *memory = mmap(NULL, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE,
                                      MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return false;
    if (twice)
        view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (view == MAP_FAILED) {
        munmap(memory, bytes);
        return false;
    }
    block->memory = memory;
    block->view = view;
    views += twice;
    return true;
}

/* Maps the same pages at two addresses, one for the host and one for the device. */
static bool
map_twice(struct fake_block *block, bool closed)
{
    int file = memfd_create("fakecuda", MFD_CLOEXEC);
    bool done = file >= 0 && ftruncate(file, (off_t)whole_pages(block->bytes)) == 0 &&
                fake_map(block, file, true, closed);
    if (file >= 0)
        close(file);
    return done;
}

/* -- allocation -- */

static size_t
physical_bytes(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

static bool
find_memory(struct fake_block *block)
{
    void *memory = NULL;
    bool odd = block->kind == FAKE_PINNED && (fake.strict & FAKE_STRICT_ALIGN);
    bool private = block->kind == FAKE_DEVICE && (fake.strict & FAKE_STRICT_PRIVATE);
    if (block->kind == FAKE_DEVICE && fake_can_share(block->bytes))
        return fake_shared_map(block, private);
    if (private || (block->kind == FAKE_MANAGED && (fake.strict & FAKE_STRICT_MANAGED)))
        return map_twice(block, private || fake.kernels > 0);
    if (posix_memalign(&memory, block->kind == FAKE_PINNED ? 4096 : 512,
                       block->bytes + (odd ? 256 : 0)) != 0)
        return false;
    block->memory = memory;
    if (odd) {
        block->whole = memory;
        block->memory += 256;
    }
    return true;
}

static void
free_memory(const struct fake_block *block)
{
    if (block->view) {
        munmap(block->view, whole_pages(block->bytes));
        views--;
    }
    if (block->view || block->shared)
        munmap(block->memory, whole_pages(block->bytes));
    else if (block->kind != FAKE_REGISTERED)
        free(block->whole ? block->whole : block->memory);
    fake_shared_end(block->shared);
}

static fake_result
allocate(fake_context *context, enum fake_kind kind, size_t bytes, void **out)
{
    if (bytes == 0)
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    size_t most = kind == FAKE_DEVICE ? fake.memory_bytes - context->used_bytes : physical_bytes();
    if (bytes > most)
        return kind == FAKE_PINNED && (fake.strict & FAKE_STRICT_SIZE)
                   ? FERRYI_GPU_ERROR_INVALID_VALUE
                   : FERRYI_GPU_ERROR_OUT_OF_MEMORY;
    struct fake_block block = {.kind = kind, .context = context, .bytes = bytes};
    if (!find_memory(&block))
        return FERRYI_GPU_ERROR_OUT_OF_MEMORY;
    if (!fake_add_block(&block)) {
        free_memory(&block);
        return FERRYI_GPU_ERROR_OUT_OF_MEMORY;
    }
    /* Fills new memory, so that a program which relies on zeros fails. */
    memset(block.view ? block.view : block.memory, 0xcd, ferryi_garbage_bytes(bytes));
    *out = block.memory;
    return FERRYI_GPU_SUCCESS;
}

void
fake_remove_block(struct fake_block *block)
{
    struct fake_block **link = &blocks;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    if (block->kind == FAKE_DEVICE && !fake_shared_is_opened(block))
        block->context->used_bytes -= block->bytes;
    free_memory(block);
    free(block);
}

/* Frees an allocation that begins at `memory`. Waits for the device first, just as the real driver
 * does. */
static fake_result
give_back(fake_context *context, const void *memory, unsigned kinds)
{
    fake_wait_context(context);
    struct fake_block *block = fake_block_of(memory, 0);
    if (!block || block->memory != memory || !(kinds & 1u << block->kind) ||
        block->context != context || fake_shared_is_opened(block))
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    fake_remove_block(block);
    fake.live.allocations--;
    return context->error;
}

ferryi_gpu_result
cuMemGetInfo_v2(size_t *out_free, size_t *out_total)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemGetInfo_v2, FAKE_NEEDS_CONTEXT, &context);
    *out_free = fake.memory_bytes - context->used_bytes;
    *out_total = fake.memory_bytes;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuPointerGetAttribute(void *out_value, ferryi_gpu_pointer_attribute attribute,
                      ferryi_gpu_pointer memory)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuPointerGetAttribute, FAKE_NEEDS_CONTEXT, &context);
    const struct fake_block *block = fake_block_of((void *)(uintptr_t)memory, 0);
    bool of_device = block && block->kind == FAKE_DEVICE;
    bool host_pointer = attribute == FERRYI_GPU_POINTER_ATTRIBUTE_HOST_POINTER;
    bool start = attribute == FERRYI_GPU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
         size = attribute == FERRYI_GPU_POINTER_ATTRIBUTE_RANGE_SIZE;
    if (!block || (of_device && host_pointer) ||
        (!host_pointer && !start && !size && attribute != FERRYI_GPU_POINTER_ATTRIBUTE_MEMORY_TYPE))
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    if (start)
        *(ferryi_gpu_pointer *)out_value = (uintptr_t)block->memory;
    if (size)
        *(size_t *)out_value = block->bytes;
    if (start || size)
        return fake_end(FERRYI_GPU_SUCCESS);
    if (host_pointer)
        *(void **)out_value = (void *)(uintptr_t)memory;
    else
        *(unsigned *)out_value = of_device || block->kind == FAKE_MANAGED
                                     ? FERRYI_GPU_MEMORYTYPE_DEVICE
                                     : FERRYI_GPU_MEMORYTYPE_HOST;
#if defined(FAKEHIP) && FAKEHIP < 6
    if (!host_pointer)
        --*(unsigned *)out_value; /* these types of memory were numbered from 0 */
#endif
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuMemAlloc_v2(ferryi_gpu_pointer *out_memory, size_t bytes)
{
    fake_context *context = NULL;
    void *memory;
    FAKE_BEGIN(cuMemAlloc_v2, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    fake_result result = allocate(context, FAKE_DEVICE, bytes, &memory);
    if (result == FERRYI_GPU_SUCCESS)
        *out_memory = (uintptr_t)memory;
    return fake_end(result);
}

/* Returns whether freeing memory is refused because of a capture, which it then invalidates. */
static bool
capture_forbids_free(fake_context *context)
{
    return (fake.strict & FAKE_STRICT_CAPTURE) && fake_capture_of_context(context, true);
}

ferryi_gpu_result
cuMemFree_v2(ferryi_gpu_pointer memory)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemFree_v2, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    if (capture_forbids_free(context))
        return fake_end(FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return fake_end(
        give_back(context, (void *)(uintptr_t)memory, 1u << FAKE_DEVICE | 1u << FAKE_MANAGED));
}

ferryi_gpu_result
cuMemAllocManaged(ferryi_gpu_pointer *out_memory, size_t bytes, unsigned int flags)
{
    fake_context *context = NULL;
    void *memory;
    FAKE_BEGIN(cuMemAllocManaged, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    fake_result result = FERRYI_GPU_ERROR_INVALID_VALUE;
    if (flags == FERRYI_GPU_MEM_ATTACH_GLOBAL)
        result = allocate(context, FAKE_MANAGED, bytes, &memory);
    if (result == FERRYI_GPU_SUCCESS)
        *out_memory = (uintptr_t)memory;
    return fake_end(result);
}

ferryi_gpu_result
cuMemHostAlloc(void **out_memory, size_t bytes, unsigned int flags)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemHostAlloc, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    if (flags != FERRYI_GPU_MEMHOSTALLOC_PORTABLE)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    return fake_end(allocate(context, FAKE_PINNED, bytes, out_memory));
}

ferryi_gpu_result
cuMemFreeHost(void *memory)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemFreeHost, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    if (capture_forbids_free(context))
        return fake_end(FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return fake_end(give_back(context, memory, 1u << FAKE_PINNED));
}

bool
fake_is_registered_in_part(const void *memory, size_t bytes)
{
    for (struct fake_block *block = blocks; block; block = block->next)
        if (block->kind == FAKE_REGISTERED &&
            (uintptr_t)memory < (uintptr_t)block->memory + block->bytes &&
            (uintptr_t)block->memory < (uintptr_t)memory + bytes)
            return !fake_block_of(memory, bytes);
    return false;
}

/* Returns an error if a part of the range is not mapped, or if the range overlaps an allocation or
 * a registered range. Some drivers refuse to lock a page twice. The strict mode FAKE_STRICT_PAGES
 * imitates them, so that ranges which share a page also overlap. */
static fake_result
check_pages(char *memory, size_t bytes)
{
    size_t before = (uintptr_t)memory % PAGE;
    if (msync(memory - before, bytes + before, MS_ASYNC) != 0)
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    if (fake.strict & FAKE_STRICT_PAGES) {
        memory -= before;
        bytes = whole_pages(bytes + before);
    }
    for (struct fake_block *block = blocks; block; block = block->next)
        if ((uintptr_t)memory < (uintptr_t)block->memory + block->bytes &&
            (uintptr_t)block->memory < (uintptr_t)memory + bytes)
            return block->kind == FAKE_REGISTERED ? FERRYI_GPU_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                                  : FERRYI_GPU_ERROR_INVALID_VALUE;
    return FERRYI_GPU_SUCCESS;
}

/* Returns whether the process cannot write the memory. The function lets the kernel copy the first
 * byte to a pipe and back. The copy back fails if the memory is read-only, and otherwise does not
 * change the byte. */
static bool
is_constant(void *memory)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    bool constant = write(ends[1], memory, 1) == 1 && read(ends[0], memory, 1) != 1;
    close(ends[0]);
    close(ends[1]);
    return constant;
}

ferryi_gpu_result
cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemHostRegister_v2, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    bool read_only = flags & FERRYI_GPU_MEMHOSTREGISTER_READ_ONLY;
    if (!memory || bytes == 0 ||
        (flags & ~(unsigned)FERRYI_GPU_MEMHOSTREGISTER_READ_ONLY) !=
            FERRYI_GPU_MEMHOSTREGISTER_PORTABLE)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    if (!fake_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) ||
        (read_only &&
         !fake_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)))
        return fake_end(FERRYI_GPU_ERROR_NOT_SUPPORTED);
    if (!read_only && (fake.strict & FAKE_STRICT_CONSTANT) && is_constant(memory))
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    fake_result result = check_pages(memory, bytes);
    if (result != FERRYI_GPU_SUCCESS)
        return fake_end(result);
    struct fake_block block = {
        .kind = FAKE_REGISTERED, .context = context, .memory = memory, .bytes = bytes};
    return fake_end(fake_add_block(&block) ? FERRYI_GPU_SUCCESS : FERRYI_GPU_ERROR_OUT_OF_MEMORY);
}

ferryi_gpu_result
cuMemHostUnregister(void *memory)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemHostUnregister, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    if (!memory)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    struct fake_block *block = fake_block_of(memory, 0);
    if (!block)
        return fake_end(FERRYI_GPU_ERROR_HOST_MEMORY_NOT_REGISTERED);
    if (block->kind != FAKE_REGISTERED || block->memory != memory)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    fake_remove_block(block);
    fake.live.registrations--;
    return fake_end(FERRYI_GPU_SUCCESS);
}

void
fake_blocks_end(fake_context *context)
{
    struct fake_block *next;
    for (struct fake_block *block = blocks; block; block = next) {
        next = block->next;
        if (block->context == context)
            fake_remove_block(block);
    }
}

/* -- prefetch and advice: fakecuda moves no memory, and only checks and records the location -- */

static fake_result
point_at(ferryi_gpu_pointer memory, size_t bytes, ferryi_gpu_number device)
{
    struct fake_block *block = fake_block_of((void *)(uintptr_t)memory, bytes);
    if (!block || block->kind != FAKE_MANAGED || bytes == 0)
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    if (device < FERRYI_GPU_DEVICE_CPU || device >= fake.devices)
        return FERRYI_GPU_ERROR_INVALID_DEVICE;
    fake.last_location = device;
    return FERRYI_GPU_SUCCESS;
}

static fake_result
prefetch(fake_context *context, ferryi_gpu_pointer memory, size_t bytes, ferryi_gpu_number device,
         ferryi_gpu_stream stream)
{
    struct fake_queue *queue;
    fake_result result = fake_queue_of(context, stream, &queue);
    if (result == FERRYI_GPU_SUCCESS)
        result = point_at(memory, bytes, device);
    return result == FERRYI_GPU_SUCCESS ? fake_enqueue(queue, NULL, NULL, NULL, NULL) : result;
}

ferryi_gpu_result
cuMemPrefetchAsync(ferryi_gpu_pointer memory, size_t bytes, ferryi_gpu_number device,
                   ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemPrefetchAsync, FAKE_NEEDS_CONTEXT, &context);
    return fake_end(prefetch(context, memory, bytes, device, stream));
}

ferryi_gpu_result
cuMemAdvise(ferryi_gpu_pointer memory, size_t bytes, ferryi_gpu_advice advice,
            ferryi_gpu_number device)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemAdvise, FAKE_NEEDS_CONTEXT, &context);
    if (advice < FERRYI_GPU_MEM_ADVISE_SET_READ_MOSTLY ||
        advice > FERRYI_GPU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    return fake_end(point_at(memory, bytes, device));
}

#if FAKECUDA_GENERATION >= 12
/* Returns the device number of a location, or an invalid number for an invalid location. */
static ferryi_gpu_number
device_of(struct ferryi_gpu_location location)
{
    if (location.type == FERRYI_GPU_MEM_LOCATION_TYPE_HOST)
        return FERRYI_GPU_DEVICE_CPU;
    return location.type == FERRYI_GPU_MEM_LOCATION_TYPE_DEVICE && location.id >= 0
               ? location.id
               : FAKE_DEVICES_MAX;
}

ferryi_gpu_result
cuMemPrefetchAsync_v2(ferryi_gpu_pointer memory, size_t bytes, struct ferryi_gpu_location location,
                      unsigned int flags, ferryi_gpu_stream stream)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemPrefetchAsync_v2, FAKE_NEEDS_CONTEXT, &context);
    if (flags != 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    return fake_end(prefetch(context, memory, bytes, device_of(location), stream));
}

ferryi_gpu_result
cuMemAdvise_v2(ferryi_gpu_pointer memory, size_t bytes, ferryi_gpu_advice advice,
               struct ferryi_gpu_location location)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuMemAdvise_v2, FAKE_NEEDS_CONTEXT, &context);
    if (advice < FERRYI_GPU_MEM_ADVISE_SET_READ_MOSTLY ||
        advice > FERRYI_GPU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    fake_result result = point_at(memory, bytes, device_of(location));
    return fake_end(result == FERRYI_GPU_ERROR_INVALID_DEVICE ? FERRYI_GPU_ERROR_INVALID_VALUE
                                                              : result);
}
#endif
