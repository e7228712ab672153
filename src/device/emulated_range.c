/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/device/emulated.h"

/*
 * Memory made of granules: pages of the system, which move from one address to another as a
 * driver's do.
 */

#define GRANULE FERRYI_EMULATED_GRANULE

/* New memory at a multiple of the granule. */
static char *
map(size_t bytes)
{
    size_t padded;
    if (!ferryi_add_size(bytes, GRANULE, &padded))
        return NULL;
    char *start = mmap(NULL, padded, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    size_t gap = -(uintptr_t)start & (GRANULE - 1);
    char *aligned = start + gap;
    munmap(aligned + bytes, GRANULE - gap);
    if (gap > 0)
        munmap(start, gap);
    return aligned;
}

/* The first granule of the part goes to `target`. Where the system does not move pages its bytes
 * do. */
static void
move_granule(struct ferryi_range *part, char *target)
{
    if (mremap(part->start, GRANULE, GRANULE, MREMAP_MAYMOVE | MREMAP_FIXED, target) ==
        MAP_FAILED) {
        memcpy(target, part->start, GRANULE);
        munmap(part->start, GRANULE);
    }
    part->start += GRANULE;
    part->bytes -= GRANULE;
}

/* Into the memory from its start on. @return the bytes that the parts filled */
static size_t
fill_from(struct ferryi_range **parts, size_t count, char *memory, size_t bytes)
{
    size_t filled = 0;
    for (size_t i = 0; i < count; i++)
        for (; parts[i]->bytes > 0 && filled < bytes; filled += GRANULE)
            move_granule(parts[i], memory + filled);
    return filled;
}

static ferry_status
make(ferryi_emulated *emulated, const struct ferryi_range_part *parts, size_t count, size_t bytes,
     void **out)
{
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    struct ferryi_range *made = calloc(1, sizeof(*made));
    struct ferryi_range **gone = calloc(count + 1, sizeof(struct ferryi_range *));
    /* Asked before the system is: it might grant more than there is. */
    char *memory = bytes <= emulated->limit_bytes ? map(bytes) : NULL;
    if (!made || !gone || !memory) {
        ferryi_explain("out of memory: %zu bytes in all", emulated->limit_bytes);
        goto fail;
    }
    *made = (struct ferryi_range){.start = memory,
                                  .bytes = bytes,
                                  .origin = FERRYI_RANGE_DEVICE,
                                  .holders = 1,
                                  .mapped = true};
    status =
        ferryi_ranges_replace(&emulated->ranges, parts, count, made, emulated->limit_bytes, gone);
    if (status != FERRY_OK)
        goto fail;
    size_t filled = fill_from(gone, count, memory, bytes);
    memset(memory + filled, FERRYI_EMULATED_GARBAGE, bytes - filled);
    for (size_t i = 0; i < count; i++)
        ferryi_range_release(gone[i]);
    free(gone);
    *out = memory;
    return FERRY_OK;

fail:
    if (memory)
        munmap(memory, bytes);
    free(made);
    free(gone);
    return status;
}

ferry_status
ferryi_emulated_range_make(ferryi_device *device, const struct ferryi_range_part *parts,
                           size_t count, size_t bytes, void **out)
{
    assert(bytes > 0 && bytes % GRANULE == 0);
    ferry_status status = make(ferryi_emulated_of(device), parts, count, bytes, out);
    return status == FERRY_OK
               ? FERRY_OK
               : ferryi_fail_in(status, "range_make of %zu bytes of %zu parts on %s:%d", bytes,
                                count, device->kind, device->properties.native);
}

ferry_status
ferryi_emulated_range_free(ferryi_device *device, void *memory, size_t bytes)
{
    const struct ferryi_range_part part = {memory, bytes};
    struct ferryi_range *gone;
    if (!memory)
        return FERRY_OK;
    ferry_status status =
        ferryi_ranges_replace(&ferryi_emulated_of(device)->ranges, &part, 1, NULL, SIZE_MAX, &gone);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "range_free of %zu bytes at %p on %s:%d", bytes, memory,
                              device->kind, device->properties.native);
    ferryi_range_release(gone);
    return FERRY_OK;
}
