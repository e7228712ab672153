/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_VALID_MAP_CHUNK_H
#define FERRYI_VALID_MAP_CHUNK_H

/*
 * Declares the chunks of a valid map, which are arrays of segments. valid_map.c and
 * valid_map_reserve.c include this header.
 *
 * Between calls, a chunk contains at most FERRYI_CHUNK_FULL segments. During a change it may
 * contain two more segments, because a change divides at most two segments. Such a chunk is split
 * into halves at the end of the change, and a spare chunk receives one half. So each change takes
 * at most two spare chunks.
 *
 * Two neighbouring chunks together always contain more than FERRYI_CHUNK_HALF segments. So a map
 * never has more chunks than ferryi_chunks_of() returns.
 */

#include "src/map/valid_map.h"

#define FERRYI_CHUNK_FULL 64
#define FERRYI_CHUNK_HALF (FERRYI_CHUNK_FULL / 2)

struct ferryi_map_chunk {
    struct ferryi_map_chunk *next; /* in the list of spare chunks */
    size_t count;
    struct ferryi_segment segments[FERRYI_CHUNK_FULL + 2];
};

extern const struct ferryi_map_index ferryi_map_no_index;

static inline bool
ferryi_map_has_index(const ferryi_valid_map *map)
{
    return map->index != &ferryi_map_no_index;
}

/* Returns an upper bound on the number of chunks of a map with the given number of segments. */
static inline size_t
ferryi_chunks_of(size_t segments)
{
    return 2 * segments / FERRYI_CHUNK_HALF + 1;
}

/* Returns the maximum number of spare chunks that `reservations` changes of the map may take. Each
 * change takes at most two chunks and adds at most two segments. In addition, ferryi_chunks_of()
 * limits the number of chunks that the map can have after all changes. */
static inline size_t
ferryi_chunks_needed(const ferryi_valid_map *map, size_t reservations)
{
    size_t most = ferryi_chunks_of(map->index->segment_count + 2 * reservations);
    return ferryi_min_size(2 * reservations, most - map->index->chunk_count);
}

static inline void
ferryi_chunk_put_spare(ferryi_valid_map *map, struct ferryi_map_chunk *chunk)
{
    chunk->next = map->index->spare;
    map->index->spare = chunk;
    map->index->spare_count++;
}

static inline struct ferryi_map_chunk *
ferryi_chunk_take_spare(ferryi_valid_map *map)
{
    struct ferryi_map_chunk *chunk = map->index->spare;
    map->index->spare = chunk->next;
    map->index->spare_count--;
    chunk->next = NULL;
    return chunk;
}

#endif
