/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_VALID_MAP_CHUNK_H
#define FERRYI_VALID_MAP_CHUNK_H

/*
 * The chunks of a valid map, shared by valid_map.c and valid_map_room.c.
 *
 * A chunk holds up to FULL segments between calls. Within a commit it may have two more, since a
 * commit cuts at most two of its segments. It is then split into halves, with a chunk from the
 * spare list.
 *
 * The number of spare chunks that promises need is bounded as follows. The crowding of a chunk is
 * the number of its segments above HALF. One more segment raises the crowding of the map by at most
 * one. A split of FULL + 1 or FULL + 2 segments into halves lowers it by at least HALF. With p
 * promises, at most 2p segments are added, so at most (crowding + 2p) / HALF splits can happen, and
 * at most 2p. Other changes preserve this: removing segments lowers the crowding, and neighbours
 * are merged into one chunk only if they have at most HALF together, which is not crowded. Each
 * commit lowers the bound by the number of chunks that it takes.
 *
 * Neighbouring chunks always have more than HALF segments together, so that there are few chunks.
 */

#include "src/map/valid_map.h"

#define FERRYI_CHUNK_FULL 64
#define FERRYI_CHUNK_HALF (FERRYI_CHUNK_FULL / 2)

struct ferryi_map_chunk {
    struct ferryi_map_chunk *next; /* in the list of spare chunks */
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
