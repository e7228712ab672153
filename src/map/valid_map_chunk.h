/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_VALID_MAP_CHUNK_H
#define FERRYI_VALID_MAP_CHUNK_H

/*
 * What valid_map.c and valid_map_room.c share: the chunks of a valid map.
 *
 * One holds up to FULL segments between calls. Within a commit it may have two more, since a commit
 * cuts at most two of its segments; then it is split in halves, with a chunk from the spare list.
 *
 * How many spare chunks do promises need? Say a chunk is crowded by what it has above HALF. A
 * segment more raises the crowding of the map by at most one. A split of FULL + 1 or FULL + 2
 * segments into halves lowers it by HALF. So with p promises, 2p segments to come, at most
 * (crowding + 2p) / HALF splits can happen, and of course at most 2p. Whatever else the map does
 * keeps this true: removing segments lowers crowding, and neighbours are merged into one chunk only
 * when they have no more than HALF together, which is not crowded. Each commit lowers the bound by
 * as much as it takes.
 *
 * Neighbouring chunks always have more than HALF together, so that there are few of them.
 */

#include "src/map/valid_map.h"

#define FERRYI_CHUNK_FULL 64
#define FERRYI_CHUNK_HALF (FERRYI_CHUNK_FULL / 2)

struct ferryi_map_chunk {
    struct ferryi_map_chunk *next; /* in a list of spare ones */
    size_t count;
    struct ferryi_segment segments[FERRYI_CHUNK_FULL + 2];
};

extern const struct ferryi_map_room ferryi_map_no_room;

static inline bool
ferryi_map_has_room(const ferryi_valid_map *map)
{
    return map->room != &ferryi_map_no_room;
}

static inline size_t
ferryi_chunk_crowding(size_t count)
{
    return count > FERRYI_CHUNK_HALF ? count - FERRYI_CHUNK_HALF : 0;
}

static inline void
ferryi_chunk_put_spare(ferryi_valid_map *map, struct ferryi_map_chunk *chunk)
{
    chunk->next = map->room->spare;
    map->room->spare = chunk;
    map->room->spare_count++;
}

static inline struct ferryi_map_chunk *
ferryi_chunk_take_spare(ferryi_valid_map *map)
{
    struct ferryi_map_chunk *chunk = map->room->spare;
    map->room->spare = chunk->next;
    map->room->spare_count--;
    chunk->next = NULL;
    return chunk;
}

#endif
