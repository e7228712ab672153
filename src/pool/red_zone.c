/* SPDX-License-Identifier: MIT */
#include "src/pool/red_zone.h"

#ifdef FERRYI_POOL_GUARDED

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

static void
begin_region(ferry_block *block, size_t bytes)
{
    end_region(block);
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
#else
#define begin_heap(slab)           ((void)(slab))
#define end_heap(slab)             ((void)(slab))
#define begin_region(block, bytes) ((void)(block), (void)(bytes))
#define end_region(block)          ((void)(block))
#endif

/* -- memory that the host reaches -------------------------------------------------------------- */

static bool
is_of_device(const ferry_pool *pool)
{
    return pool->config.kind == FERRY_MEMORY_DEVICE;
}

bool
ferryi_red_zone_reaches(const ferry_pool *pool)
{
    ferry_memory_kind kind = pool->config.kind;
    return kind == FERRY_MEMORY_DEFAULT ? pool->config.place == FERRY_PLACE_HOST
                                        : kind != FERRY_MEMORY_DEVICE;
}

/* Whether no queued work uses the memory, so that patterns may be written into it. */
static bool
is_done(const ferry_pool *pool, ferryi_sync_point point)
{
    return !pool->config.order || ferryi_sync_point_is_done(pool->config.order, point);
}

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

/* Returns the bytes of the block after the part that the holder may use. */
static size_t
behind(const ferry_block *block)
{
    return (size_t)((char *)block->pointer + block->bytes - ferryi_block_begin(block)) -
           block->requested;
}

#define RED       0xA5
#define RELEASED  0xDD
#define USED      0xFF /* must resemble neither zeros nor data */
#define ZONE_MOST 4096
#define FILL_MOST ((size_t)1 << 20)

/* Returns the offset of the first byte that differs from `value`, or `bytes` if all are equal. */
static size_t
first_other(const unsigned char *memory, size_t bytes, unsigned char value)
{
    size_t at = 0;
    while (at < bytes && memory[at] == value)
        at++;
    return at;
}

static void
tell(const ferry_pool *pool, const ferry_block *block, const char *what, size_t at)
{
    char site[256] = "an unknown call";
    const char *label = atomic_load_explicit(&block->label, memory_order_acquire);
    if (block->site)
        ferryi_address_describe(block->site, site, sizeof(site));
    ferryi_log(
        pool->config.log, FERRY_LOG_ERROR,
        "block %p \"%s\" of %s, %zu bytes requested, was written %s, at byte %zu; taken by %s",
        (void *)ferryi_block_begin(block), label ? label : "", pool->name, block->requested, what,
        at, site);
}

/* Reports a block that was written after its release. */
static void
check_released(const ferry_pool *pool, ferry_block *block)
{
    size_t bytes = block->released_bytes;
    block->released_bytes = 0;
    /* A block that was cut or joined since then has another size, and cannot be checked. */
    if (bytes == 0 || bytes != ferryi_min_size(block->bytes, FILL_MOST))
        return;
    REVEAL(block->pointer, bytes);
    size_t at = first_other(block->pointer, bytes, RELEASED);
    if (at < bytes)
        tell(pool, block, "after it was given back", at);
}

static void
write_pattern(ferry_block *block, bool fresh)
{
    char *memory = ferryi_block_begin(block);
    block->zone_bytes = ferryi_min_size(behind(block), ZONE_MOST);
    ALLOW(memory, block->requested + block->zone_bytes);
    if (!fresh)
        memset(memory, USED, block->requested);
    memset(memory + block->requested, RED, block->zone_bytes);
}

static void
check_zone(const ferry_pool *pool, ferry_block *block)
{
    const unsigned char *zone = (const unsigned char *)ferryi_block_begin(block) + block->requested;
    REVEAL(zone, block->zone_bytes);
    size_t at = first_other(zone, block->zone_bytes, RED);
    if (at < block->zone_bytes)
        tell(pool, block, "past its end", block->requested + at);
    block->zone_bytes = 0;
}

/* Notes that the block contains no pattern. */
static void
forget(ferry_block *block)
{
    block->zone_bytes = block->released_bytes = 0;
}

static void
fill_released(ferry_block *block)
{
    block->released_bytes = ferryi_min_size(block->bytes, FILL_MOST);
    memset(block->pointer, RELEASED, block->released_bytes);
}

void
ferryi_red_zone_out(const ferry_pool *pool, ferry_block *block, bool fresh)
{
    if (is_of_device(pool))
        begin_region(block, block->bytes - behind(block));
    if (!ferryi_red_zone_reaches(pool))
        return;
    if (!is_done(pool, block->point)) {
        forget(block);
        open_bytes(block->pointer, block->bytes);
        return;
    }
    UNPOISON(block->pointer, block->bytes);
    check_released(pool, block);
    write_pattern(block, fresh);
    ALLOW(ferryi_block_begin(block), block->requested);
    close_bytes(block->pointer, (size_t)(ferryi_block_begin(block) - (char *)block->pointer));
    close_bytes(ferryi_block_begin(block) + block->requested, behind(block));
}

void
ferryi_red_zone_check(const ferry_pool *pool, ferry_block *block)
{
    if (!ferryi_red_zone_reaches(pool))
        return;
    UNPOISON(block->pointer, block->bytes);
    check_zone(pool, block);
}

void
ferryi_red_zone_in(const ferry_pool *pool, ferry_block *block, ferryi_sync_point point)
{
    /* While queued kernels use the block, its region stays until the block is handed out, joined or
     * freed.
     */
    if (is_of_device(pool) && is_done(pool, point) && is_done(pool, block->point))
        end_region(block);
    if (!ferryi_red_zone_reaches(pool))
        return;
    open_bytes(block->pointer, block->bytes);
    forget(block);
    if (!is_done(pool, point) || !is_done(pool, block->point))
        return;
    fill_released(block);
    close_bytes(block->pointer, block->bytes);
}

void
ferryi_red_zone_join(const ferry_pool *pool, ferry_block *block)
{
    if (is_of_device(pool))
        end_region(block);
}

void
ferryi_red_zone_came(const ferry_pool *pool, struct ferryi_slab *slab)
{
    if (is_of_device(pool))
        begin_heap(slab);
    if (ferryi_red_zone_reaches(pool))
        close_bytes(slab->memory, slab->bytes);
}

void
ferryi_red_zone_goes(const ferry_pool *pool, struct ferryi_slab *slab)
{
    if (is_of_device(pool))
        end_heap(slab);
    if (ferryi_red_zone_reaches(pool))
        open_bytes(slab->memory, slab->bytes);
}

#else
typedef int ferryi_guard_nothing; /* C requires a declaration in each file */
#endif
