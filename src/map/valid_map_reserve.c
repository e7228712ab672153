/* SPDX-License-Identifier: MIT */
#include "src/map/valid_map_chunk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Implements the reservations of a valid map. */

const struct ferryi_map_index ferryi_map_no_index = {.segment_count = 1};

/* Number of spare chunks that a map keeps in addition to those that its reservations need. One
 * reservation needs at most this number of chunks. So a later reservation often needs no
 * allocation, for example after a reservation was released, or if a buffer is written alternately
 * at different places. */
#define KEPT_SPARE 2
/* Minimum number of unneeded chunks for which a call of ferryi_valid_map_take_excess() is worth its
 * cost. */
#define WORTH_TAKING 4

/* -- reservations ------------------------------------------------------------------------------ */

/* Replaces the map's index (its list of chunks) by the larger index of the supply. Stores the old
 * index in the supply, so that the caller can free the old index without the map's lock. */
static void
exchange_index(ferryi_valid_map *map, struct ferryi_map_supply *supply)
{
    struct ferryi_map_index *old = map->index, *fresh = supply->index;
    size_t capacity = fresh->chunk_capacity;
    *fresh = *old;
    fresh->chunk_capacity = capacity;
    memcpy(fresh->chunks, old->chunks, old->chunk_count * sizeof(old->chunks[0]));
    supply->index = ferryi_map_has_index(map) ? old : NULL;
    map->index = fresh;
}

/* Returns whether the map already has enough memory for `count` more reservations. For most
 * accesses that move no bytes, the result is true. */
static inline bool
is_reserved_for(const ferryi_valid_map *map, uint32_t count)
{
    const struct ferryi_map_index *index = map->index;
    size_t needed = ferryi_chunks_needed(map, (size_t)map->reserved + count);
    return needed <= index->spare_count && needed <= index->chunk_capacity - index->chunk_count;
}

/* Moves the memory for `count` more reservations from the supply into the map. If the supply is too
 * small, returns false and only stores the required amounts in the supply's members `wanted_chunks`
 * and `wanted_capacity`. */
FERRYI_REQUIRES(ferryi_store_spin)
FERRYI_COLD static bool
take_supply(ferryi_valid_map *map, uint32_t count, struct ferryi_map_supply *supply)
{
    if (!supply)
        return false;
    size_t needed = ferryi_chunks_needed(map, (size_t)map->reserved + count);
    size_t chunks = needed > map->index->spare_count ? needed - map->index->spare_count : 0;
    size_t index_capacity = map->index->chunk_count + needed;
    /* The capacity of the index is at least doubled, so that a growing map rarely copies its index.
     */
    index_capacity = index_capacity > map->index->chunk_capacity
                         ? ferryi_max_size(index_capacity, 2 * map->index->chunk_capacity)
                         : 0;
    supply->wanted_chunks = chunks;
    supply->wanted_capacity = index_capacity;
    if (supply->chunk_count < chunks ||
        (supply->index ? supply->index->chunk_capacity : 0) < index_capacity)
        return false;
    if (index_capacity > 0)
        exchange_index(map, supply);
    for (; chunks > 0; chunks--) {
        struct ferryi_map_chunk *chunk = supply->chunks;
        supply->chunks = chunk->next;
        supply->chunk_count--;
        ferryi_chunk_put_spare(map, chunk);
    }
    return true;
}

bool
ferryi_valid_map_reserve(ferryi_valid_map *map, uint32_t count, struct ferryi_map_supply *supply)
{
    assert(map->reserved <= UINT32_MAX - count);
    if (!is_reserved_for(map, count) && !take_supply(map, count, supply))
        return false;
    map->reserved += count;
    return true;
}

void
ferryi_valid_map_unreserve(ferryi_valid_map *map, uint32_t count)
{
    assert(map->reserved >= count);
    map->reserved -= count;
}

bool
ferryi_valid_map_has_excess(const ferryi_valid_map *map)
{
    return map->index->spare_count >=
           ferryi_chunks_needed(map, map->reserved) + KEPT_SPARE + WORTH_TAKING;
}

void
ferryi_valid_map_take_excess(ferryi_valid_map *map, struct ferryi_map_supply *supply)
{
    size_t keep = ferryi_chunks_needed(map, map->reserved) + KEPT_SPARE;

    while (map->index->spare_count > keep) {
        struct ferryi_map_chunk *chunk = ferryi_chunk_take_spare(map);
        chunk->next = supply->chunks;
        supply->chunks = chunk;
        supply->chunk_count++;
    }
}

ferry_status
ferryi_map_supply_make(struct ferryi_map_supply *supply)
{
    size_t chunks = supply->wanted_chunks, index_capacity = supply->wanted_capacity;
    size_t bytes;

    if (!ferryi_mul_size(chunks, sizeof(struct ferryi_map_chunk), &bytes) || bytes > PTRDIFF_MAX)
        goto fail;
    while (supply->chunk_count < chunks) {
        struct ferryi_map_chunk *chunk = malloc(sizeof(*chunk));
        if (!chunk)
            goto fail;
        chunk->count = 0;
        chunk->next = supply->chunks;
        supply->chunks = chunk;
        supply->chunk_count++;
    }

    if ((supply->index ? supply->index->chunk_capacity : 0) < index_capacity) {
        struct ferryi_map_index *index = NULL;
        if (ferryi_mul_size(index_capacity, sizeof(index->chunks[0]), &bytes) &&
            ferryi_add_size(bytes, sizeof(*index), &bytes) && bytes <= PTRDIFF_MAX)
            index = calloc(1, bytes);
        if (!index)
            goto fail;
        free(supply->index);
        supply->index = index;
        index->chunk_capacity = index_capacity;
    }
    return FERRY_OK;

fail:
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                       "make room in a valid map for %zu chunks of %zu bytes and an index of %zu: "
                       "out of host memory",
                       chunks, sizeof(struct ferryi_map_chunk), index_capacity);
}

static void
free_chunks(struct ferryi_map_chunk *chunk)
{
    while (chunk) {
        struct ferryi_map_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void
ferryi_map_supply_free(struct ferryi_map_supply *supply)
{
    free_chunks(supply->chunks);
    free(supply->index);
    *supply = (struct ferryi_map_supply){0};
}
