/* SPDX-License-Identifier: MIT */
#include "tests/support/nvtx_tool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExtMem.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED nvtx_tool_count_function nvtx_tool_count;
EXPORTED nvtx_tool_region_function nvtx_tool_region;
EXPORTED nvtx_tool_ranges_function nvtx_tool_ranges;
EXPORTED int InitializeInjectionNvtx2(void *get_export_table);
EXPORTED int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);

enum { RANGES = 8192 };

struct range {
    const char *begin;
    size_t bytes; /* 0: the entry is free */
    size_t heap;  /* index of the heap that contains a region */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct range heaps[RANGES], regions[RANGES];
static struct nvtx_tool_count count;

static void
refuse(const char *what, const void *pointer, size_t bytes)
{
    fprintf(stderr, "nvtx_tool: %s: %zu bytes at %p\n", what, bytes, pointer);
    abort();
}

/* Adds a range of addresses to the list of live heaps or of live regions. Aborts the process if the
 * range overlaps a range of the list. */
static size_t
add(struct range *ranges, const void *pointer, size_t bytes, const char *what)
{
    size_t at = RANGES;
    const char *begin = pointer;
    for (size_t i = 0; i < RANGES; i++) {
        if (ranges[i].bytes == 0)
            at = at == RANGES ? i : at;
        else if (begin < ranges[i].begin + ranges[i].bytes && ranges[i].begin < begin + bytes)
            refuse(what, pointer, bytes);
    }
    if (at == RANGES || bytes == 0)
        refuse("too many ranges, or an empty one", pointer, bytes);
    ranges[at].begin = begin;
    ranges[at].bytes = bytes;
    return at;
}

static struct range *
find_region(const void *pointer)
{
    for (size_t i = 0; i < RANGES; i++)
        if (regions[i].bytes > 0 && regions[i].begin == pointer)
            return &regions[i];
    return NULL;
}

static nvtxMemHeapHandle_t
heap_register(nvtxDomainHandle_t domain, const nvtxMemHeapDesc_t *heap)
{
    (void)domain;
    const nvtxMemVirtualRangeDesc_t *range = heap->typeSpecificDesc;
    if (heap->extCompatID != NVTX_EXT_COMPATID_MEM || heap->structSize != sizeof(*heap) ||
        heap->usage != NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR ||
        heap->type != NVTX_MEM_TYPE_VIRTUAL_ADDRESS || heap->typeSpecificDescSize != sizeof(*range))
        refuse("a heap is ill described", range->ptr, range->size);
    pthread_mutex_lock(&mutex);
    size_t at = add(heaps, range->ptr, range->size, "a heap over another");
    count.heaps++;
    count.heaps_begun++;
    count.heap_bytes += range->size;
    pthread_mutex_unlock(&mutex);
    return (nvtxMemHeapHandle_t)(void *)&heaps[at];
}

static void
heap_unregister(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t handle)
{
    (void)domain;
    struct range *heap = (struct range *)(void *)handle;
    pthread_mutex_lock(&mutex);
    if (heap < heaps || heap >= heaps + RANGES || heap->bytes == 0)
        refuse("the end of no heap", handle, 0);
    for (size_t i = 0; i < RANGES; i++)
        if (regions[i].bytes > 0 && regions[i].heap == (size_t)(heap - heaps))
            refuse("a heap ends before its region", regions[i].begin, regions[i].bytes);
    count.heaps--;
    count.heap_bytes -= heap->bytes;
    heap->bytes = 0;
    pthread_mutex_unlock(&mutex);
}

static void
region_register(const struct range *heap, const nvtxMemVirtualRangeDesc_t *range)
{
    const char *begin = range->ptr;
    if (heap < heaps || heap >= heaps + RANGES || begin < heap->begin ||
        begin + range->size > heap->begin + heap->bytes)
        refuse("a region outside of its heap", begin, range->size);
    size_t at = add(regions, begin, range->size, "a region over another");
    regions[at].heap = (size_t)(heap - heaps);
    count.regions++;
    count.regions_begun++;
    count.region_bytes += range->size;
}

static void
regions_register(nvtxDomainHandle_t domain, const nvtxMemRegionsRegisterBatch_t *batch)
{
    (void)domain;
    const nvtxMemVirtualRangeDesc_t *ranges = batch->regionDescElements;
    if (batch->extCompatID != NVTX_EXT_COMPATID_MEM || batch->structSize != sizeof(*batch) ||
        batch->regionDescElementSize != sizeof(*ranges))
        refuse("regions are ill described", ranges, batch->regionCount);
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < batch->regionCount; i++)
        region_register((const struct range *)(const void *)batch->heap, &ranges[i]);
    pthread_mutex_unlock(&mutex);
}

static void
regions_unregister(nvtxDomainHandle_t domain, const nvtxMemRegionsUnregisterBatch_t *batch)
{
    (void)domain;
    if (batch->extCompatID != NVTX_EXT_COMPATID_MEM || batch->structSize != sizeof(*batch) ||
        batch->refType != NVTX_MEM_REGION_REF_TYPE_POINTER)
        refuse("ends of regions are ill described", batch->refElements, batch->refCount);
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < batch->refCount; i++) {
        struct range *region = find_region(batch->refElements[i].pointer);
        if (!region)
            refuse("the end of no region", batch->refElements[i].pointer, 0);
        count.regions--;
        count.region_bytes -= region->bytes;
        region->bytes = 0;
    }
    pthread_mutex_unlock(&mutex);
}

void
nvtx_tool_count(struct nvtx_tool_count *out)
{
    pthread_mutex_lock(&mutex);
    *out = count;
    pthread_mutex_unlock(&mutex);
}

size_t
nvtx_tool_region(const void *pointer)
{
    pthread_mutex_lock(&mutex);
    const struct range *region = find_region(pointer);
    size_t bytes = region ? region->bytes : 0;
    pthread_mutex_unlock(&mutex);
    return bytes;
}

/* -- NVTX ranges: the tool records a line for each, indented by the depth of the range -- */

static char ranges_text[1 << 16];
static size_t ranges_length;
static _Thread_local int depth;
static char the_domain;

static nvtxDomainHandle_t
domain_create(const char *name)
{
    if (strcmp(name, "ferry") != 0)
        refuse("another domain than \"ferry\"", name, strlen(name));
    return (nvtxDomainHandle_t)(void *)&the_domain;
}

static int
range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    if ((void *)domain != &the_domain || attributes->version != NVTX_VERSION ||
        attributes->size != NVTX_EVENT_ATTRIB_STRUCT_SIZE ||
        attributes->messageType != NVTX_MESSAGE_TYPE_ASCII)
        refuse("a range is ill described", attributes, attributes->size);
    pthread_mutex_lock(&mutex);
    int more = snprintf(ranges_text + ranges_length, sizeof(ranges_text) - ranges_length, "%*s%s\n",
                        2 * depth, "", attributes->message.ascii);
    if (more > 0 && ranges_length + (size_t)more < sizeof(ranges_text))
        ranges_length += (size_t)more;
    pthread_mutex_unlock(&mutex);
    return depth++;
}

static int
range_pop(nvtxDomainHandle_t domain)
{
    if ((void *)domain != &the_domain || depth == 0)
        refuse("the end of no range", domain, 0);
    return --depth;
}

int
nvtx_tool_ranges(char *text, size_t bytes)
{
    pthread_mutex_lock(&mutex);
    snprintf(text, bytes, "%.*s", (int)ranges_length, ranges_text);
    ranges_length = 0;
    ranges_text[0] = 0;
    pthread_mutex_unlock(&mutex);
    return depth;
}

/* NVTX calls this function when it loads the tool. The function replaces the range functions in
 * NVTX's table of core functions. */
int
InitializeInjectionNvtx2(void *get_export_table)
{
    NvtxGetExportTableFunc_t get_table;
    memcpy(&get_table, &get_export_table, sizeof(get_table));
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int size;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
        size <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)range_push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)range_pop;
    return 1;
}

int
InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module)
{
    if (module->moduleId != NVTX_EXT_MODULEID_MEM || module->segmentsCount != 1)
        return 0;
    intptr_t *slots = module->segments[0].functionSlots;
    slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = (intptr_t)heap_register;
    slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = (intptr_t)heap_unregister;
    slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = (intptr_t)regions_register;
    slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = (intptr_t)regions_unregister;
    return 1;
}
