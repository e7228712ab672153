/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "src/pool/slab.h"

#define STEP FERRYI_POOL_ALIGN
/* Number of size classes up to 2 KiB; neighbouring classes differ by STEP bytes. */
#define LINEAR_CLASSES 8
#define LINEAR_LOG2    11
#define PER_DOUBLING   8
#define PAGE           ((size_t)4096)
#define SLAB           ((size_t)2 << 20) /* slab sizes are multiples of this */
#define SLAB_MOST      (8 * SLAB)

size_t
ferryi_pool_class_bytes(size_t bytes, uint32_t *out_class)
{
    assert(bytes > 0);
    if (bytes > FERRYI_POOL_LARGEST) {
        size_t rounded;
        *out_class = FERRYI_POOL_CLASSES;
        return ferryi_round_up(bytes, PAGE, &rounded) ? rounded : 0;
    }
    *out_class = (uint32_t)ferryi_pool_class_of(bytes);
    return ferryi_pool_bytes_of_class(*out_class);
}

size_t
ferryi_pool_bytes_of_class(uint32_t size_class)
{
    assert(size_class < FERRYI_POOL_CLASSES);
    if (size_class < LINEAR_CLASSES)
        return (size_class + 1) * (size_t)STEP;
    uint32_t above = size_class - LINEAR_CLASSES;
    size_t base = (size_t)1 << (LINEAR_LOG2 + above / PER_DOUBLING);
    return base + (above % PER_DOUBLING + 1) * (base / PER_DOUBLING);
}

unsigned
ferryi_pool_statistics_class(size_t bytes)
{
    if (bytes <= 1024)
        return 0;
    /* 1025..2048 is class 1 */
    unsigned class = 54u - (unsigned)__builtin_clzll((unsigned long long)bytes - 1);
    return class < FERRY_POOL_CLASS_COUNT ? class : FERRY_POOL_CLASS_COUNT - 1;
}

size_t
ferryi_pool_slab_bytes(size_t block_bytes, size_t limit)
{
    size_t bytes = SLAB, most = limit > 0 ? ferryi_min_size(SLAB_MOST, limit / 4) : SLAB_MOST;
    if (block_bytes > FERRYI_POOL_SLAB_BLOCK)
        return block_bytes;
    while (bytes + SLAB <= most && bytes % block_bytes > bytes / 16)
        bytes += SLAB;
    return bytes;
}

/* Returns the alignment that every block of the given size has at least. */
static size_t
natural_align(size_t block_bytes, size_t backend_align)
{
    if (block_bytes > FERRYI_POOL_SLAB_BLOCK)
        return backend_align;
    /* Blocks of 8 or more pages are aligned to pages if the memory of the backend is. */
    return block_bytes >= 8 * PAGE ? ferryi_min_size(PAGE, backend_align) : FERRYI_POOL_ALIGN;
}

bool
ferryi_pool_request_plan(struct ferryi_pool_request *request, size_t unused,
                         const struct ferryi_pool_backend *backend)
{
    /* A request for zero bytes allocates a block of the smallest class. */
    if (!ferryi_add_size(ferryi_max_size(request->bytes, 1), unused, &request->least))
        return false;
    request->need = ferryi_pool_class_bytes(request->least, &request->list);
    if (request->need == 0)
        return false;
    if (request->align <= natural_align(request->need, backend->align)) {
        request->align = 1;
    } else {
        if (!ferryi_add_size(request->least, request->align - FERRYI_POOL_ALIGN, &request->least))
            return false;
        request->need = ferryi_pool_class_bytes(request->least, &request->list);
    }
    request->block_align = natural_align(request->need, backend->align);
    /* Sizes above the largest class are not rounded to classes, so idle blocks seldom have the
     * exact size of the request. A search accepts slightly larger blocks. */
    request->any_fit = request->list == FERRYI_POOL_CLASSES;
    return request->need != 0;
}
