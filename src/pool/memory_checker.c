/* SPDX-License-Identifier: MIT */
#include "src/base/sanitizer.h"
#include "src/pool/slab.h"

/* -- memory that the host can access ----------------------------------------------------------- */

/* AddressSanitizer knows of eight bytes only how many of the first ones are accessible. Blocks and
 * their requested bytes begin at multiples of FERRYI_POOL_ALIGN, so both checkers know every byte.
 * A program that was built with AddressSanitizer does not run under Valgrind. */
#if FERRYI_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#define CHECKS_HOST              true
#define FORBID(memory, bytes)    __asan_poison_memory_region(memory, bytes)
#define ALLOW(memory, bytes)     __asan_unpoison_memory_region(memory, bytes)
#define ALLOW_NEW(memory, bytes) ALLOW(memory, bytes)
#elif defined(FERRYI_HAVE_MEMCHECK)
#include <valgrind/memcheck.h>
/* Of Valgrind's tools, only memcheck answers this request. */
#define CHECKS_HOST              (VALGRIND_MAKE_MEM_DEFINED(NULL, 0) != 0)
#define FORBID(memory, bytes)    (void)VALGRIND_MAKE_MEM_NOACCESS(memory, bytes)
#define ALLOW(memory, bytes)     (void)VALGRIND_MAKE_MEM_DEFINED(memory, bytes)
#define ALLOW_NEW(memory, bytes) (void)VALGRIND_MAKE_MEM_UNDEFINED(memory, bytes)
#else
#define CHECKS_HOST              false
#define FORBID(memory, bytes)    ((void)(memory), (void)(bytes))
#define ALLOW(memory, bytes)     ((void)(memory), (void)(bytes))
#define ALLOW_NEW(memory, bytes) ((void)(memory), (void)(bytes))
#endif

/* -- device memory: NVTX ----------------------------------------------------------------------- */

#ifdef FERRYI_HAVE_NVTX
#include <nvtx3/nvToolsExtMem.h>

#include "src/base/profile.h"

#define CHECKS_DEVICES (ferryi_profile_domain() != NULL)

static void
end_region(ferry_block *block)
{
    if (!block->has_region)
        return;
    block->has_region = false;
    const nvtxMemRegionRef_t region = {.pointer = block->pointer};
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

static void
begin_region(ferry_block *block)
{
    end_region(block);
    if (!block->slab->heap || block->requested == 0)
        return;
    const nvtxMemVirtualRangeDesc_t range = {
        .size = ferryi_block_gap(block, (size_t)1 << block->align_log2) + block->requested,
        .ptr = block->pointer,
    };
    const nvtxMemRegionsRegisterBatch_t regions = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(regions),
        .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .heap = block->slab->heap,
        .regionCount = 1,
        .regionDescElementSize = sizeof(range),
        .regionDescElements = &range,
    };
    nvtxMemRegionsRegister(ferryi_profile_domain(), &regions);
    block->has_region = true;
}

static void
begin_heap(struct ferryi_slab *slab)
{
    const nvtxMemVirtualRangeDesc_t range = {.size = slab->bytes, .ptr = slab->memory};
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
    slab->heap = nvtxMemHeapRegister(ferryi_profile_domain(), &heap);
}

static void
end_heap(struct ferryi_slab *slab)
{
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_pool_mutex)); /* the slab is in no list */
    for (ferry_block *block = slab->first; block; block = block->after)
        end_region(block);
    if (slab->heap)
        nvtxMemHeapUnregister(ferryi_profile_domain(), slab->heap);
    slab->heap = NULL;
}
#else
#define CHECKS_DEVICES      false
#define begin_region(block) ((void)(block))
#define end_region(block)   ((void)(block))
#define begin_heap(slab)    ((void)(slab))
#define end_heap(slab)      ((void)(slab))
#endif

/* -- what the pool reports --------------------------------------------------------------------- */

bool
ferryi_memory_checker_is_attached(bool host_reaches)
{
    return host_reaches ? CHECKS_HOST : CHECKS_DEVICES;
}

void
ferryi_memory_checker_add_slab(const ferry_pool *pool, struct ferryi_slab *slab)
{
    if (pool->has_checker && pool->config.host_reaches && slab != pool->range)
        FORBID(slab->memory, slab->bytes);
    else if (pool->has_checker)
        begin_heap(slab);
}

void
ferryi_memory_checker_add_handle(const ferry_pool *pool, void *memory, size_t bytes)
{
    if (pool->has_checker && pool->config.host_reaches)
        FORBID(memory, bytes);
}

void
ferryi_memory_checker_remove_handle(const ferry_pool *pool, void *memory, size_t bytes)
{
    if (pool->has_checker && pool->config.host_reaches)
        ALLOW(memory, bytes);
}

void
ferryi_memory_checker_remove_slab(const ferry_pool *pool, struct ferryi_slab *slab)
{
    if (pool->has_checker && pool->config.host_reaches && slab != pool->range)
        ALLOW(slab->memory, slab->bytes);
    else if (pool->has_checker)
        end_heap(slab);
}

void
ferryi_memory_checker_allow(ferry_block *block)
{
    const ferry_pool *pool = block->pool;
    if (!pool->has_checker)
        return;
    if (!pool->config.host_reaches) {
        begin_region(block);
    } else if (!ferryi_sync_point_is_done(pool->config.order, block->point)) {
        ALLOW(block->pointer, block->bytes);
    } else {
        FORBID(block->pointer, block->bytes);
        ALLOW_NEW(ferryi_block_begin(block), block->requested);
    }
}

void
ferryi_memory_checker_forbid(ferry_block *block, ferryi_sync_point point)
{
    const ferry_pool *pool = block->pool;
    if (!pool->has_checker || !block->pointer || block->state == FERRYI_BLOCK_HOLE)
        return;
    bool done = ferryi_sync_point_is_done(pool->config.order, point) &&
                ferryi_sync_point_is_done(pool->config.order, block->point);
    if (pool->config.host_reaches && done)
        FORBID(block->pointer, block->bytes);
    else if (pool->config.host_reaches)
        ALLOW(block->pointer, block->bytes);
    else if (done)
        end_region(block);
}
