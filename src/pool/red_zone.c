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

#ifdef FERRYI_HAVE_NVTX
#include "src/pool/nvtx.h"
#define BEGIN_HEAP(slab)           ferryi_nvtx_heap_begin(slab)
#define END_HEAP(slab)             ferryi_nvtx_heap_end(slab)
#define BEGIN_REGION(block, bytes) ferryi_nvtx_region_begin(block, bytes)
#define END_REGION(block)          ferryi_nvtx_region_end(block)
#else
#define BEGIN_HEAP(slab)           ((void)(slab))
#define END_HEAP(slab)             ((void)(slab))
#define BEGIN_REGION(block, bytes) ((void)(block), (void)(bytes))
#define END_REGION(block)          ((void)(block))
#endif

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

/* Memory that queued work still uses is left alone. */
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

/* What the holder may use begins here, */
static char *
begin_of(const ferry_block *block)
{
    return ferry_block_pointer(block);
}

/* and so many bytes of the block lie behind it. */
static size_t
behind(const ferry_block *block)
{
    return (size_t)((char *)block->pointer + block->bytes - begin_of(block)) - block->requested;
}

#ifdef FERRYI_DEBUG_CHECKS

#define RED       0xA5
#define RELEASED  0xDD
#define USED      0xFF /* must look neither like zeros nor like data */
#define ZONE_MOST 4096
#define FILL_MOST ((size_t)1 << 20)

/* The first byte that is not what all should be; `bytes`: none. */
static size_t
first_other(const unsigned char *memory, size_t bytes, unsigned char value)
{
    size_t at = 0;
    while (at < bytes && memory[at] == value)
        at++;
    return at;
}

static size_t
zone_of(const ferry_block *block)
{
    return ferryi_min_size(behind(block), ZONE_MOST);
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
        (void *)begin_of(block), label ? label : "", pool->name, block->requested, what, at, site);
}

/* Written after its release? */
static void
check_released(const ferry_pool *pool, ferry_block *block)
{
    size_t bytes = block->released_bytes;
    block->released_bytes = 0;
    /* What was cut or joined since has other bounds. */
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
    char *memory = begin_of(block);
    block->zone_bytes = zone_of(block);
    ALLOW(memory, block->requested + block->zone_bytes);
    if (!fresh)
        memset(memory, USED, block->requested);
    memset(memory + block->requested, RED, block->zone_bytes);
}

static void
check_zone(const ferry_pool *pool, ferry_block *block)
{
    const unsigned char *zone = (const unsigned char *)begin_of(block) + block->requested;
    REVEAL(zone, block->zone_bytes);
    size_t at = first_other(zone, block->zone_bytes, RED);
    if (at < block->zone_bytes)
        tell(pool, block, "past its end", block->requested + at);
    block->zone_bytes = 0;
}

/* No pattern is there. */
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

#else

static void
check_released(const ferry_pool *pool, ferry_block *block)
{
    (void)pool;
    (void)block;
}

static void
write_pattern(ferry_block *block, bool fresh)
{
    (void)block;
    (void)fresh;
}

static void
check_zone(const ferry_pool *pool, ferry_block *block)
{
    (void)pool;
    (void)block;
}

static void
forget(ferry_block *block)
{
    (void)block;
}

static void
fill_released(ferry_block *block)
{
    (void)block;
}

#endif

void
ferryi_red_zone_out(const ferry_pool *pool, ferry_block *block, bool fresh)
{
    if (block->pointer && is_of_device(pool))
        BEGIN_REGION(block, block->bytes - behind(block));
    if (!block->pointer || !ferryi_red_zone_reaches(pool))
        return;
    if (!is_done(pool, block->point)) {
        forget(block);
        open_bytes(block->pointer, block->bytes);
        return;
    }
    UNPOISON(block->pointer, block->bytes);
    check_released(pool, block);
    write_pattern(block, fresh);
    ALLOW(begin_of(block), block->requested);
    close_bytes(block->pointer, (size_t)(begin_of(block) - (char *)block->pointer));
    close_bytes(begin_of(block) + block->requested, behind(block));
}

void
ferryi_red_zone_check(const ferry_pool *pool, ferry_block *block)
{
    if (!block->pointer || !ferryi_red_zone_reaches(pool))
        return;
    UNPOISON(block->pointer, block->bytes);
    check_zone(pool, block);
}

void
ferryi_red_zone_in(const ferry_pool *pool, ferry_block *block, ferryi_sync_point point)
{
    /* Queued kernels still use it: its region stays until it is another's, or nobody's. */
    if (block->pointer && is_of_device(pool) && is_done(pool, point) && is_done(pool, block->point))
        END_REGION(block);
    if (!block->pointer || !ferryi_red_zone_reaches(pool))
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
        END_REGION(block);
}

void
ferryi_red_zone_came(const ferry_pool *pool, struct ferryi_slab *slab)
{
    if (is_of_device(pool))
        BEGIN_HEAP(slab);
    if (ferryi_red_zone_reaches(pool))
        close_bytes(slab->memory, slab->bytes);
}

void
ferryi_red_zone_goes(const ferry_pool *pool, struct ferryi_slab *slab)
{
    if (is_of_device(pool))
        END_HEAP(slab);
    if (ferryi_red_zone_reaches(pool))
        open_bytes(slab->memory, slab->bytes);
}

#else
typedef int ferryi_guard_nothing; /* a file of C declares something */
#endif
