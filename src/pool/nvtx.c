/* SPDX-License-Identifier: MIT */
#include "src/pool/nvtx.h"

#include <nvtx3/nvToolsExtMem.h>

#include "src/base/profile.h"

void
ferryi_nvtx_heap_begin(struct ferryi_slab *slab)
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

void
ferryi_nvtx_heap_end(struct ferryi_slab *slab)
{
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_pool_mutex)); /* the slab is in no list */
    for (ferry_block *block = slab->first; block; block = block->after)
        ferryi_nvtx_region_end(block);
    if (slab->heap)
        nvtxMemHeapUnregister(ferryi_profile_domain(), slab->heap);
    slab->heap = NULL;
}

void
ferryi_nvtx_region_begin(ferry_block *block, size_t bytes)
{
    ferryi_nvtx_region_end(block);
    if (!block->slab->heap)
        return;
    const nvtxMemVirtualRangeDesc_t range = {.size = bytes, .ptr = block->pointer};
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

void
ferryi_nvtx_region_end(ferry_block *block)
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
