/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "src/pool/slab.h"

#define STEP FERRYI_POOL_ALIGN
#define LINEAR_CLASSES 8          /* of one step each: up to 2 KiB */
#define LINEAR_LOG2 11
#define PER_DOUBLING 8
#define EXACT_ALIGN ((size_t)4096)
#define SLABS_MAX 8               /* multiples of FERRYI_POOL_SLAB tried for a slab */

static unsigned
floor_log2(size_t value)
{
    return 63u - (unsigned)__builtin_clzll((unsigned long long)value);
}

size_t
ferryi_pool_class_bytes(size_t bytes, uint32_t *out_class)
{
    assert(bytes > 0);
    if (bytes > FERRYI_POOL_LARGEST) {
        size_t rounded;
        *out_class = FERRYI_POOL_EXACT;
        return ferryi_round_up(bytes, EXACT_ALIGN, &rounded) ? rounded : 0;
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
ferryi_pool_bin_of(size_t bytes)
{
    if (bytes <= 1024)
        return 0;
    unsigned bin = floor_log2(bytes - 1) - 9; /* 1025..2048 is bin 1 */
    return bin < FERRY_POOL_BIN_COUNT ? bin : FERRY_POOL_BIN_COUNT - 1;
}

void
ferryi_pool_slab_layout(size_t block_bytes, size_t *out_bytes, uint32_t *out_slots)
{
    *out_bytes = block_bytes;
    *out_slots = 1;
    if (block_bytes > FERRYI_POOL_SLAB_BLOCK)
        return;

    for (size_t slabs = 1; slabs <= SLABS_MAX; slabs++) {
        *out_bytes = slabs * FERRYI_POOL_SLAB;
        *out_slots = (uint32_t)(*out_bytes / block_bytes);
        if (*out_bytes % block_bytes <= *out_bytes / 16)
            return;
    }
}

bool
ferryi_pool_request_plan(struct ferryi_pool_request *request, size_t backend_align)
{
    uint32_t size_class;
    size_t need = ferryi_pool_class_bytes(request->bytes, &size_class);
    if (need == 0)
        return false;

    /* Slots are aligned to the largest power of two in their size, as far as their slab is. */
    size_t natural = ferryi_min_size(need & -need, backend_align);
    if (request->align > natural) {
        size_t padded;
        if (!ferryi_add_size(request->bytes, request->align - FERRYI_POOL_ALIGN, &padded))
            return false;
        need = ferryi_pool_class_bytes(padded, &size_class);
        request->padded = true;
    }
    request->need = need;
    request->list = size_class == FERRYI_POOL_EXACT ? FERRYI_POOL_CLASSES : size_class;
    return need != 0;
}
