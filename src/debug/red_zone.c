/* SPDX-License-Identifier: MIT */
#include "src/debug/red_zone.h"

#ifdef FERRYI_RED_ZONES

#include <stdio.h>
#include <string.h>

#if FERRYI_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#define POISON(memory, bytes)   ASAN_POISON_MEMORY_REGION(memory, bytes)
#define UNPOISON(memory, bytes) ASAN_UNPOISON_MEMORY_REGION(memory, bytes)
#else
#define POISON(memory, bytes)   ((void)(memory), (void)(bytes))
#define UNPOISON(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#if defined(FERRYI_HAVE_MEMCHECK) && defined(FERRYI_DEBUG_CHECKS)
#include <valgrind/memcheck.h>
#define FORBID(memory, bytes) (void)VALGRIND_MAKE_MEM_NOACCESS(memory, bytes)
#define ALLOW(memory, bytes)  (void)VALGRIND_MAKE_MEM_UNDEFINED(memory, bytes)
#define REVEAL(memory, bytes) (void)VALGRIND_MAKE_MEM_DEFINED(memory, bytes)
#else
#define FORBID(memory, bytes) ((void)(memory), (void)(bytes))
#define ALLOW(memory, bytes)  ((void)(memory), (void)(bytes))
#define REVEAL(memory, bytes) ((void)(memory), (void)(bytes))
#endif

/* -- device memory: NVTX ----------------------------------------------------------------------- */

#ifdef FERRYI_HAVE_NVTX
#include <nvtx3/nvToolsExtMem.h>

#include "src/base/profile.h"

static void
end_region(struct ferryi_zone_state *state, const void *memory)
{
    if (!state->has_region)
        return;
    state->has_region = false;
    const nvtxMemRegionRef_t region = {.pointer = memory};
    const nvtxMemRegionsUnregisterBatch_t regions = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(regions),
        .refType = NVTX_MEM_REGION_REF_TYPE_POINTER,
        .refCount = 1,
        .refElementSize = sizeof(region),
        .refElements = &region,
    };
    nvtxMemRegionsUnregister(ferryi_profile_domain(), &regions);
}

static void *
begin_heap(const void *memory, size_t bytes)
{
    const nvtxMemVirtualRangeDesc_t range = {.size = bytes, .ptr = memory};
    const nvtxMemHeapDesc_t heap = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(heap),
        .usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
        .type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .typeSpecificDescSize = sizeof(range),
        .typeSpecificDesc = &range,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = "slab",
    };
    return nvtxMemHeapRegister(ferryi_profile_domain(), &heap);
}

static void
end_heap(void *heap)
{
    if (heap)
        nvtxMemHeapUnregister(ferryi_profile_domain(), heap);
}

static void
begin_region(const struct ferryi_zoned *block)
{
    end_region(block->state, block->memory);
    if (!block->heap)
        return;
    const nvtxMemVirtualRangeDesc_t range = {
        .size = (size_t)(block->begin - block->memory) + block->requested,
        .ptr = block->memory,
    };
    const nvtxMemRegionsRegisterBatch_t regions = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(regions),
        .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .heap = block->heap,
        .regionCount = 1,
        .regionDescElementSize = sizeof(range),
        .regionDescElements = &range,
    };
    nvtxMemRegionsRegister(ferryi_profile_domain(), &regions);
    block->state->has_region = true;
}
#else
#define begin_heap(memory, bytes) ((void)(memory), (void)(bytes), NULL)
#define end_heap(heap)            ((void)(heap))
#define begin_region(block)       ((void)(block))
#define end_region(state, memory) ((void)(state), (void)(memory))
#endif

/* -- memory that the host reaches -------------------------------------------------------------- */

#define RED       0xA5
#define RELEASED  0xDD
#define USED      0xFF /* fill byte of a reused block; resembles neither zeros nor typical data */
#define ZONE_MOST 4096 /* maximum number of bytes of a red zone that are filled and checked */
#define FILL_MOST ((size_t)1 << 20)

static void
open_bytes(void *memory, size_t bytes)
{
    UNPOISON(memory, bytes);
    REVEAL(memory, bytes);
}

static void
close_bytes(void *memory, size_t bytes)
{
    FORBID(memory, bytes);
    POISON(memory, bytes);
}

/* Returns the size of a block's red zone: the bytes of the block that follow the requested bytes.
 */
static size_t
behind(const struct ferryi_zoned *block)
{
    return (size_t)(block->memory + block->bytes - block->begin) - block->requested;
}

/* Returns the offset of the first byte that differs from `value`, or `bytes` if all are equal. */
static size_t
first_other(const char *memory, size_t bytes, unsigned char value)
{
    size_t at = 0;
    while (at < bytes && (unsigned char)memory[at] == value)
        at++;
    return at;
}

static void
report(const struct ferryi_zoned *block, const char *what, size_t at)
{
    char site[256] = "an unknown call";
    if (block->state->site)
        ferryi_address_describe(block->state->site, site, sizeof(site));
    ferryi_log(
        block->log, FERRY_LOG_ERROR,
        "block %p \"%s\" of %s, %zu bytes requested, was written %s, at byte %zu; taken by %s",
        (void *)block->begin, block->label ? block->label : "", block->owner, block->requested,
        what, at, site);
}

/* Checks the bytes that were filled when the block was released, and reports a write to them. */
static void
check_released(const struct ferryi_zoned *block)
{
    size_t bytes = block->state->released_bytes;
    block->state->released_bytes = 0;
    /* A block that was cut or merged since its release has a different size, so its pattern cannot
     * be checked. */
    if (bytes == 0 || bytes != ferryi_min_size(block->bytes, FILL_MOST))
        return;
    REVEAL(block->memory, bytes);
    size_t at = first_other(block->memory, bytes, RELEASED);
    if (at < bytes)
        report(block, "after it was given back", at);
}

static void
check_zone(const struct ferryi_zoned *block)
{
    size_t bytes = block->state->zone_bytes;
    block->state->zone_bytes = 0;
    REVEAL(block->begin + block->requested, bytes);
    size_t at = first_other(block->begin + block->requested, bytes, RED);
    if (at < bytes)
        report(block, "past its end", block->requested + at);
}

static void
write_pattern(const struct ferryi_zoned *block, bool fresh)
{
    size_t bytes = ferryi_min_size(behind(block), ZONE_MOST);
    ALLOW(block->begin, block->requested + bytes);
    if (!fresh)
        memset(block->begin, USED, block->requested);
    memset(block->begin + block->requested, RED, bytes);
    block->state->zone_bytes = bytes;
}

/* Makes all bytes of a block accessible, and records that the block contains no fill pattern. */
static void
open_plain(const struct ferryi_zoned *block)
{
    block->state->zone_bytes = block->state->released_bytes = 0;
    open_bytes(block->memory, block->bytes);
}

/* -- the hooks --------------------------------------------------------------------------------- */

void
ferryi_red_zone_out(struct ferryi_zoned block, bool fresh)
{
    if (!block.host_reaches) {
        begin_region(&block);
        return;
    }
    if (!block.is_done) {
        open_plain(&block);
        return;
    }
    UNPOISON(block.memory, block.bytes);
    check_released(&block);
    write_pattern(&block, fresh);
    ALLOW(block.begin, block.requested);
    close_bytes(block.memory, (size_t)(block.begin - block.memory));
    close_bytes(block.begin + block.requested, behind(&block));
}

void
ferryi_red_zone_check(struct ferryi_zoned block)
{
    if (!block.host_reaches)
        return;
    UNPOISON(block.memory, block.bytes);
    check_zone(&block);
}

void
ferryi_red_zone_in(struct ferryi_zoned block)
{
    if (block.host_reaches)
        open_plain(&block);
    /* Queued work may still use the memory of the released block. So the memory is not filled with
     * a pattern, and stays accessible until the block is handed out again, merged or freed. */
    if (!block.is_done)
        return;
    if (!block.host_reaches) {
        end_region(block.state, block.memory);
        return;
    }
    block.state->released_bytes = ferryi_min_size(block.bytes, FILL_MOST);
    memset(block.memory, RELEASED, block.state->released_bytes);
    close_bytes(block.memory, block.bytes);
}

void
ferryi_red_zone_join(struct ferryi_zone_state *state, void *memory)
{
    end_region(state, memory);
}

void
ferryi_red_zone_came(void *memory, size_t bytes, bool host_reaches, void **out_heap)
{
    *out_heap = host_reaches ? NULL : begin_heap(memory, bytes);
    if (host_reaches)
        close_bytes(memory, bytes);
}

void
ferryi_red_zone_goes(void *memory, size_t bytes, bool host_reaches, void *heap)
{
    end_heap(heap);
    if (host_reaches)
        open_bytes(memory, bytes);
}

#else
typedef int ferryi_red_zone_nothing; /* C requires a declaration in each file */
#endif
