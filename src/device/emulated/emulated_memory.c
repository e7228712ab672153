/* SPDX-License-Identifier: MIT */
#include "src/device/emulated/emulated.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <ferry/buffer.h>

#include "src/base/fork.h"
#include "src/base/sanitizer.h"
#include "src/base/shared_file.h"

#define ALIGN 256

/* The list of the process's pinned, managed and registered host memory. Every emulated device may
 * use this memory. */
static struct ferryi_ranges host_ranges = {.mutex = FERRYI_MUTEX_INITIALIZER};
static struct ferryi_fork_part host_memory = {.mutex = FERRYI_SYSTEM_MUTEX(&host_ranges.mutex)};
FERRYI_AT_FORK(host_memory)

/* -- lists of ranges -- */

/* Returns the index of the first range in the list that starts after `pointer`. */
FERRYI_REQUIRES(ferryi_ranges_mutex)
static size_t
upper_bound(const struct ferryi_ranges *ranges, const char *pointer)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->items[middle]->start <= pointer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns whether all parts of reserved addresses that contain the bytes have memory. */
static bool
has_memory(const struct ferryi_emulated_range *range, size_t offset, size_t bytes)
{
    for (size_t i = offset / FERRYI_EMULATED_HANDLE; i * FERRYI_EMULATED_HANDLE < offset + bytes;
         i++)
        if (!atomic_load(&range->parts[i]))
            return false;
    return true;
}

bool
ferryi_range_has(const struct ferryi_emulated_range *range, const void *pointer, size_t bytes,
                 unsigned origins)
{
    size_t offset = (uintptr_t)pointer - (uintptr_t)range->start;
    return (range->origin & origins) && offset <= range->bytes && bytes <= range->bytes - offset &&
           (!range->parts || has_memory(range, offset, bytes));
}

static struct ferryi_emulated_range *
find_range(struct ferryi_ranges *ranges, const char *pointer, size_t bytes, unsigned origins)
{
    struct ferryi_emulated_range *found = NULL;
    ferryi_mutex_lock(&ranges->mutex);
    size_t index = upper_bound(ranges, pointer);
    if (index > 0) {
        struct ferryi_emulated_range *range = ranges->items[index - 1];
        if (ferryi_range_has(range, pointer, bytes, origins))
            found = range;
    }
    if (found)
        atomic_fetch_add(&found->holders, 1);
    ferryi_mutex_unlock(&ranges->mutex);
    return found;
}

/* Returns the number of bytes of memory that the range has allocated. */
static size_t
allocated_bytes(const struct ferryi_emulated_range *range)
{
    size_t bytes = 0;
    if (range->origin == FERRYI_RANGE_REGISTERED)
        return 0;
    if (!range->parts)
        return range->bytes;
    for (size_t i = 0; i < range->bytes / FERRYI_EMULATED_HANDLE; i++)
        bytes += atomic_load(&range->parts[i]) ? FERRYI_EMULATED_HANDLE : 0;
    return bytes;
}

FERRYI_REQUIRES(ferryi_ranges_mutex)
static void
insert_at(struct ferryi_ranges *ranges, size_t index, struct ferryi_emulated_range *range)
{
    memmove(&ranges->items[index + 1], &ranges->items[index],
            (ranges->count - index) * sizeof(ranges->items[0]));
    ranges->items[index] = range;
    ranges->count++;
    ranges->bytes += allocated_bytes(range);
}

enum add_result { ADDED, OVERLAPS, FULL, NO_ROOM };

/* Adds the range to the list. Refuses a range that overlaps a range in the list. Also refuses a
 * range that would raise the list's allocated bytes above `limit`. */
static enum add_result
add_range(struct ferryi_ranges *ranges, struct ferryi_emulated_range *range, size_t limit)
{
    enum add_result result = ADDED;
    size_t counted = allocated_bytes(range);
    ferryi_mutex_lock(&ranges->mutex);
    size_t index = upper_bound(ranges, range->start);
    if ((index > 0 &&
         ranges->items[index - 1]->start + ranges->items[index - 1]->bytes > range->start) ||
        (index < ranges->count && range->start + range->bytes > ranges->items[index]->start)) {
        result = OVERLAPS;
    } else if (counted > limit || ranges->bytes > limit - counted) {
        result = FULL;
    } else if (!ferryi_grow(&ranges->items, &ranges->room, ranges->count + 1,
                            sizeof(*ranges->items))) {
        result = NO_ROOM;
    } else {
        insert_at(ranges, index, range);
    }
    ferryi_mutex_unlock(&ranges->mutex);
    return result;
}

FERRYI_REQUIRES(ferryi_ranges_mutex)
static void
remove_at(struct ferryi_ranges *ranges, size_t index)
{
    struct ferryi_emulated_range *range = ranges->items[index];
    ranges->count--;
    memmove(&ranges->items[index], &ranges->items[index + 1],
            (ranges->count - index) * sizeof(ranges->items[0]));
    ranges->bytes -= allocated_bytes(range);
    if (ranges->count == 0) {
        free(ranges->items);
        ranges->items = NULL;
        ranges->room = 0;
    }
    atomic_store(&range->gone, true);
}

/* Removes the range that starts at `start` from the list and returns it. Returns NULL if no range
 * was removed. Sets `*out_used` to whether queued work uses the range. If `unused` is true, the
 * function does not remove a range that queued work uses. Never removes reserved addresses. */
static struct ferryi_emulated_range *
remove_range(struct ferryi_ranges *ranges, const char *start, enum ferryi_range_origin origin,
             bool unused, bool *out_used)
{
    struct ferryi_emulated_range *found = NULL;
    *out_used = false;
    ferryi_mutex_lock(&ranges->mutex);
    size_t index = upper_bound(ranges, start);
    if (index > 0 && ranges->items[index - 1]->start == start &&
        ranges->items[index - 1]->origin == origin && !ranges->items[index - 1]->parts) {
        found = ranges->items[index - 1];
        *out_used = atomic_load(&found->holders) > 1;
        if (unused && *out_used)
            found = NULL;
        else
            remove_at(ranges, index - 1);
    }
    ferryi_mutex_unlock(&ranges->mutex);
    return found;
}

void
ferryi_range_release(struct ferryi_emulated_range *range)
{
    if (!range || atomic_fetch_sub(&range->holders, 1) != 1)
        return;
    if (range->parts || range->is_mapped)
        munmap(range->start, range->bytes);
    else if (range->origin != FERRYI_RANGE_REGISTERED)
        free(range->start);
    free(range->parts);
    free(range);
}

void
ferryi_ranges_clear(struct ferryi_ranges *ranges)
{
    ferryi_mutex_is_needless(&ranges->mutex);
    while (ranges->count > 0) {
        struct ferryi_emulated_range *range = ranges->items[ranges->count - 1];
        remove_at(ranges, ranges->count - 1);
        ferryi_range_release(range);
    }
    ferryi_mutex_destroy(&ranges->mutex);
}

struct ferryi_emulated_range *
ferryi_emulated_host_range(const void *pointer, size_t bytes, unsigned origins)
{
    return find_range(&host_ranges, pointer, bytes, origins);
}

struct ferryi_emulated_range *
ferryi_emulated_device_range(ferryi_emulated *emulated, const void *pointer, size_t bytes)
{
    struct ferryi_emulated_range *range =
        find_range(&emulated->ranges, pointer, bytes, FERRYI_RANGE_DEVICE);
    return range ? range : find_range(&host_ranges, pointer, bytes, FERRYI_RANGE_MANAGED);
}

bool
ferryi_emulated_has(ferryi_device *device, const void *memory, size_t bytes)
{
    if (device->ops->memory_alloc != ferryi_emulated_memory_alloc)
        return false;
    struct ferryi_emulated_range *range =
        ferryi_emulated_device_range(ferryi_emulated_of(device), memory, bytes);
    if (range)
        ferryi_range_release(range);
    return range;
}

ferry_status
ferryi_emulated_memory_users(ferryi_device *device, const void *memory, unsigned *out)
{
    struct ferryi_emulated_range *range =
        ferryi_emulated_device_range(ferryi_emulated_of(device), memory, 1);
    *out = FERRYI_USER_HOST;
    if (range) {
        *out = range->origin & FERRYI_RANGE_MANAGED ? FERRYI_USER_HOST | FERRYI_USER_DEVICE
                                                    : FERRYI_USER_DEVICE;
        ferryi_range_release(range);
    }
    return FERRY_OK;
}

/* -- allocation -- */

static struct ferryi_ranges *
ranges_of(ferryi_emulated *emulated, enum ferryi_range_origin origin)
{
    return origin == FERRYI_RANGE_DEVICE ? &emulated->ranges : &host_ranges;
}

/* Returns the maximum number of allocated bytes in a list of ranges. For a device's list, this is
 * the size of the device's memory. For the host's list, it is half of the host's memory, which is a
 * common limit on locked memory. */
static size_t
limit_of(const ferryi_emulated *emulated, enum ferryi_range_origin origin)
{
    return origin == FERRYI_RANGE_DEVICE ? emulated->limit_bytes : ferryi_physical_memory() / 2;
}

static size_t
used_bytes(struct ferryi_ranges *ranges)
{
    ferryi_mutex_lock(&ranges->mutex);
    size_t bytes = ranges->bytes;
    ferryi_mutex_unlock(&ranges->mutex);
    return bytes;
}

static enum ferryi_range_origin
origin_of(ferry_memory_kind kind)
{
    switch (kind) {
    case FERRY_MEMORY_DEVICE:
        return FERRYI_RANGE_DEVICE;
    case FERRY_MEMORY_PINNED:
        return FERRYI_RANGE_PINNED;
    case FERRY_MEMORY_MANAGED:
        return FERRYI_RANGE_MANAGED;
    default:
        return 0;
    }
}

static const char *
origin_name(enum ferryi_range_origin origin)
{
    switch (origin) {
    case FERRYI_RANGE_DEVICE:
        return "device";
    case FERRYI_RANGE_PINNED:
        return "pinned";
    case FERRYI_RANGE_MANAGED:
        return "managed";
    default:
        return "registered";
    }
}

static struct ferryi_emulated_range *
create_range(void *start, size_t bytes, enum ferryi_range_origin origin)
{
    struct ferryi_emulated_range *range = calloc(1, sizeof(*range));
    if (!range)
        return NULL;
    range->start = start;
    range->bytes = bytes;
    range->origin = origin;
    range->holders = 1;
    return range;
}

static ferry_status
fail_alloc(ferryi_emulated *emulated, enum ferryi_range_origin origin, size_t bytes)
{
    size_t limit = limit_of(emulated, origin), used = used_bytes(ranges_of(emulated, origin));
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                       "memory_alloc of %zu bytes of %s memory on %s:%d: emulated out of memory: "
                       "%zu of %zu bytes are free",
                       bytes, origin_name(origin), emulated->head.kind,
                       emulated->head.properties.native, used < limit ? limit - used : 0, limit);
}

static ferry_status
fail_range(const ferryi_device *device, ferry_status status, const char *call, const void *memory,
           size_t bytes, const char *why)
{
    return ferryi_fail(status, "%s of %zu bytes at %p on %s:%d: %s", call, bytes, memory,
                       device->kind, device->properties.native, why);
}

ferry_status
ferryi_emulated_memory_alloc(ferryi_device *device, ferry_memory_kind kind, size_t bytes,
                             void **out)
{
    ferryi_emulated *emulated = ferryi_emulated_of(device);
    enum ferryi_range_origin origin = origin_of(kind);
    if (!origin)
        return ferryi_fail(FERRY_ERROR_DEVICE,
                           "memory_alloc of %zu bytes on %s:%d: memory kind %d is none of a device",
                           bytes, device->kind, device->properties.native, (int)kind);
    struct ferryi_ranges *ranges = ranges_of(emulated, origin);
    size_t limit = limit_of(emulated, origin), padded;
    /* Allocations of at least one page are aligned to pages, just as drivers align them. Direct
     * file I/O needs this alignment. */
    size_t align = bytes < ferryi_page_bytes() ? ALIGN : ferryi_page_bytes();
    struct ferryi_emulated_range *range = NULL;
    char *memory = NULL;
    /* The limit is checked before the allocation, because the system might grant more memory than
     * the limit. add_range() checks the limit again, under the mutex. */
    if (bytes > limit || used_bytes(ranges) > limit - bytes ||
        !ferryi_round_up(bytes, align, &padded))
        goto fail;
    memory = aligned_alloc(align, padded);
    if (!memory)
        goto fail;
    memset(memory, FERRYI_EMULATED_GARBAGE, ferryi_garbage_bytes(bytes));
    range = create_range(memory, bytes, origin);
    if (!range || add_range(ranges, range, limit) != ADDED)
        goto fail;
    *out = memory;
    return FERRY_OK;

fail:
    free(range);
    free(memory);
    return fail_alloc(emulated, origin, bytes);
}

ferry_status
ferryi_emulated_memory_free(ferryi_device *device, ferry_memory_kind kind, void *memory)
{
    if (!memory)
        return FERRY_OK;
    enum ferryi_range_origin origin = origin_of(kind);
    struct ferryi_emulated_range *range = NULL;
    bool used;
    if (origin)
        range = remove_range(ranges_of(ferryi_emulated_of(device), origin), memory, origin, false,
                             &used);
    if (!range)
        return ferryi_fail(FERRY_ERROR_DEVICE,
                           "memory_free of %p on %s:%d: no live %s memory starts there", memory,
                           device->kind, device->properties.native, origin_name(origin));
    ferryi_range_release(range);
    return FERRY_OK;
}

ferry_status
ferryi_emulated_memory_info(ferryi_device *device, size_t *out_free, size_t *out_total)
{
    ferryi_emulated *emulated = ferryi_emulated_of(device);
    *out_free = emulated->limit_bytes - used_bytes(&emulated->ranges);
    *out_total = emulated->limit_bytes;
    return FERRY_OK;
}

/* -- memory of several processes -- */

/* Maps the part of the file as memory of the device. */
static ferry_status
map_shared(ferryi_emulated *emulated, const char *call, const struct ferryi_shared_memory *shared,
           void **out)
{
    const ferryi_device *device = &emulated->head;
    void *memory;
    ferry_status status = ferryi_shared_file_map(shared->file, shared->offset, shared->bytes,
                                                 !shared->read_only, &memory);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "%s on %s:%d", call, device->kind, device->properties.native);
    struct ferryi_emulated_range *range = create_range(memory, shared->bytes, FERRYI_RANGE_DEVICE);
    if (range) {
        range->is_mapped = true;
        if (add_range(&emulated->ranges, range, emulated->limit_bytes) == ADDED) {
            *out = memory;
            return FERRY_OK;
        }
    }
    free(range);
    munmap(memory, shared->bytes);
    return fail_range(device, FERRY_ERROR_OUT_OF_MEMORY, call, NULL, shared->bytes,
                      "emulated out of memory");
}

ferry_status
ferryi_emulated_shared_alloc(ferryi_device *device, struct ferryi_shared_memory *shared, void **out)
{
    FERRYI_OR_RETURN(map_shared(ferryi_emulated_of(device), "shared_alloc", shared, out));
    memset(*out, FERRYI_EMULATED_GARBAGE, ferryi_garbage_bytes(shared->bytes));
    return FERRY_OK;
}

/* Memory of others counts, too, as each process has an emulated device for itself. */
ferry_status
ferryi_emulated_shared_open(ferryi_device *device, const struct ferryi_shared_memory *shared,
                            void **out)
{
    return map_shared(ferryi_emulated_of(device), "shared_open", shared, out);
}

ferry_status
ferryi_emulated_shared_free(ferryi_device *device, const struct ferryi_shared_memory *shared,
                            void *memory)
{
    bool used;
    struct ferryi_emulated_range *range = remove_range(&ferryi_emulated_of(device)->ranges, memory,
                                                       FERRYI_RANGE_DEVICE, false, &used);
    if (!range)
        return fail_range(device, FERRY_ERROR_DEVICE, "shared_free", memory, shared->bytes,
                          "no live memory starts there");
    ferryi_range_release(range);
    return FERRY_OK;
}

/* -- reserved addresses -- */

ferry_status
ferryi_emulated_range_reserve(ferryi_device *device, size_t bytes, void **out)
{
    ferryi_emulated *emulated = ferryi_emulated_of(device);
    struct ferryi_emulated_range *range = NULL;
    /* The mapping is larger by a handle, so that it contains an aligned address. */
    size_t mapped = 0;
    char *mapping = MAP_FAILED;
    if (bytes % FERRYI_EMULATED_HANDLE == 0 &&
        ferryi_add_size(bytes, FERRYI_EMULATED_HANDLE, &mapped))
        mapping = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return fail_range(device, FERRY_ERROR_OUT_OF_MEMORY, "range_reserve", NULL, bytes,
                          "the system has no such addresses");
    size_t before = -(uintptr_t)mapping % FERRYI_EMULATED_HANDLE;
    char *memory = mapping + before;
    munmap(memory + bytes, FERRYI_EMULATED_HANDLE - before);
    if (before > 0)
        munmap(mapping, before);
    range = create_range(memory, bytes, FERRYI_RANGE_DEVICE);
    if (range)
        range->parts = calloc(bytes / FERRYI_EMULATED_HANDLE, sizeof(*range->parts));
    if (range && range->parts && add_range(&emulated->ranges, range, SIZE_MAX) == ADDED) {
        *out = memory;
        return FERRY_OK;
    }
    if (range)
        free(range->parts);
    free(range);
    munmap(memory, bytes);
    return fail_range(device, FERRY_ERROR_OUT_OF_MEMORY, "range_reserve", NULL, bytes,
                      "no memory to remember it");
}

/* Returns the range that contains all bytes, if either all its parts there have memory or none,
 * as `has` says. Returns NULL if there is no such range. */
FERRYI_REQUIRES(ferryi_ranges_mutex)
static struct ferryi_emulated_range *
find_parts(const struct ferryi_ranges *ranges, const char *memory, size_t bytes, bool has)
{
    size_t index = upper_bound(ranges, memory);
    struct ferryi_emulated_range *range = index > 0 ? ranges->items[index - 1] : NULL;
    size_t offset = range ? (size_t)(memory - range->start) : 0;
    if (!range || !range->parts || bytes == 0 || offset > range->bytes ||
        bytes > range->bytes - offset || (offset | bytes) % FERRYI_EMULATED_HANDLE != 0)
        return NULL;
    for (size_t i = 0; i < bytes / FERRYI_EMULATED_HANDLE; i++)
        if (atomic_load(&range->parts[offset / FERRYI_EMULATED_HANDLE + i]) != has)
            return NULL;
    return range;
}

ferry_status
ferryi_emulated_range_release(ferryi_device *device, void *memory, size_t bytes)
{
    struct ferryi_ranges *ranges = &ferryi_emulated_of(device)->ranges;
    ferryi_mutex_lock(&ranges->mutex);
    struct ferryi_emulated_range *range = find_parts(ranges, memory, bytes, false);
    if (range && range->start == memory && range->bytes == bytes)
        remove_at(ranges, upper_bound(ranges, memory) - 1);
    else
        range = NULL;
    ferryi_mutex_unlock(&ranges->mutex);
    if (!range)
        return fail_range(device, FERRY_ERROR_DEVICE, "range_release", memory, bytes,
                          "it is not a whole range without memory");
    ferryi_range_release(range);
    return FERRY_OK;
}

/* Sets whether the parts of a range have memory. */
FERRYI_REQUIRES(ferryi_ranges_mutex)
static void
set_parts(struct ferryi_ranges *ranges, struct ferryi_emulated_range *range, const char *memory,
          size_t bytes, bool have)
{
    size_t first = (size_t)(memory - range->start) / FERRYI_EMULATED_HANDLE;
    for (size_t i = 0; i < bytes / FERRYI_EMULATED_HANDLE; i++)
        atomic_store(&range->parts[first + i], have);
    ranges->bytes = have ? ranges->bytes + bytes : ranges->bytes - bytes;
}

/* An emulated handle is the memory itself. */
ferry_status
ferryi_emulated_range_map(ferryi_device *device, void *memory, size_t bytes, void **out_handle)
{
    ferryi_emulated *emulated = ferryi_emulated_of(device);
    struct ferryi_ranges *ranges = &emulated->ranges;
    ferryi_mutex_lock(&ranges->mutex);
    struct ferryi_emulated_range *range = find_parts(ranges, memory, bytes, false);
    bool fits = bytes <= emulated->limit_bytes && ranges->bytes <= emulated->limit_bytes - bytes;
    bool mapped = range && fits && mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0;
    if (mapped) {
        memset(memory, FERRYI_EMULATED_GARBAGE, ferryi_garbage_bytes(bytes));
        set_parts(ranges, range, memory, bytes, true);
    }
    ferryi_mutex_unlock(&ranges->mutex);
    if (!range)
        return fail_range(device, FERRY_ERROR_DEVICE, "range_map", memory, bytes,
                          "it is not a part of a range that has no memory");
    if (!mapped)
        return fail_alloc(emulated, FERRYI_RANGE_DEVICE, bytes);
    *out_handle = memory;
    return FERRY_OK;
}

ferry_status
ferryi_emulated_range_unmap(ferryi_device *device, void *memory, size_t bytes, void *handle)
{
    struct ferryi_ranges *ranges = &ferryi_emulated_of(device)->ranges;
    ferryi_mutex_lock(&ranges->mutex);
    struct ferryi_emulated_range *range =
        handle == memory ? find_parts(ranges, memory, bytes, true) : NULL;
    /* The new mapping frees the memory, and a later use of it faults. */
    bool unmapped =
        range && mmap(memory, bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
    if (unmapped)
        set_parts(ranges, range, memory, bytes, false);
    ferryi_mutex_unlock(&ranges->mutex);
    if (unmapped)
        return FERRY_OK;
    return fail_range(device, FERRY_ERROR_DEVICE, "range_unmap", memory, bytes,
                      range ? "the system refuses it" : "it is no handle of a range");
}

/* -- registering -- */

ferry_status
ferryi_emulated_host_register(ferryi_device *device, void *memory, size_t bytes)
{
    if (bytes == 0)
        return FERRY_OK;
    struct ferryi_emulated_range *range = create_range(memory, bytes, FERRYI_RANGE_REGISTERED);
    enum add_result result = range ? add_range(&host_ranges, range, SIZE_MAX) : NO_ROOM;
    if (result == ADDED)
        return FERRY_OK;
    free(range);
    if (result == OVERLAPS)
        return ferryi_fail(
            FERRY_ERROR_CONFLICT,
            "host_register of %zu bytes at %p on %s:%d: part of it is page-locked already", bytes,
            memory, device->kind, device->properties.native);
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                       "host_register of %zu bytes at %p on %s:%d: no memory to remember it", bytes,
                       memory, device->kind, device->properties.native);
}

ferry_status
ferryi_emulated_host_unregister(ferryi_device *device, void *memory)
{
    bool used;
    struct ferryi_emulated_range *range =
        remove_range(&host_ranges, memory, FERRYI_RANGE_REGISTERED, true, &used);
    if (!range)
        return ferryi_fail(FERRY_ERROR_DEVICE, "host_unregister of %p on %s:%d: %s", memory,
                           device->kind, device->properties.native,
                           used ? "queued copies still use it" : "it is not registered");
    ferryi_range_release(range);
    return FERRY_OK;
}

/* -- managed memory: a prefetch or advice is checked and counted, but moves no pages -- */

static ferry_status
find_managed(ferryi_device *device, const char *call, void *memory, size_t bytes,
             ferryi_device *location, struct ferryi_emulated_range **out)
{
    if (location && strcmp(location->kind, device->kind) != 0)
        return ferryi_fail(FERRY_ERROR_DEVICE,
                           "%s of %zu bytes at %p on %s:%d: the location is a device of kind %s",
                           call, bytes, memory, device->kind, device->properties.native,
                           location->kind);
    *out = ferryi_emulated_host_range(memory, bytes, FERRYI_RANGE_MANAGED);
    if (!*out)
        return ferryi_fail(FERRY_ERROR_DEVICE,
                           "%s of %zu bytes at %p on %s:%d: it is not inside live managed memory",
                           call, bytes, memory, device->kind, device->properties.native);
    return FERRY_OK;
}

ferry_status
ferryi_emulated_prefetch(ferryi_device *device, void *memory, size_t bytes, ferryi_device *location,
                         void *stream)
{
    bool capturing;
    ferry_status status = ferryi_emulated_stream_is_capturing(device, stream, &capturing);
    if (bytes == 0 || status != FERRY_OK)
        return status;
    struct ferryi_emulated_range *range;
    FERRYI_OR_RETURN(find_managed(device, "prefetch", memory, bytes, location, &range));
    atomic_fetch_add(&range->prefetches, 1);
    ferryi_range_release(range);
    return FERRY_OK;
}

ferry_status
ferryi_emulated_advise(ferryi_device *device, void *memory, size_t bytes, int advice,
                       ferryi_device *location)
{
    if (advice < FERRY_ADVISE_READ_MOSTLY || advice > FERRY_ADVISE_UNSET_ACCESSED_BY)
        return ferryi_fail(FERRY_ERROR_DEVICE,
                           "advise of %zu bytes at %p on %s:%d: %d is no advice", bytes, memory,
                           device->kind, device->properties.native, advice);
    if (bytes == 0)
        return FERRY_OK;
    struct ferryi_emulated_range *range;
    FERRYI_OR_RETURN(find_managed(device, "advise", memory, bytes, location, &range));
    atomic_fetch_add(&range->advices, 1);
    ferryi_range_release(range);
    return FERRY_OK;
}
