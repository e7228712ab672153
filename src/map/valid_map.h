/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_VALID_MAP_H
#define FERRYI_VALID_MAP_H

/*
 * The container of a buffer's segments: a sorted sequence in chunks. 10^5 segments cost n log n in
 * all, and a single segment needs no memory besides this struct. The owner's lock protects it.
 * Functions that change a map neither allocate nor free, so they may run under a spin lock and
 * cannot fail. Only the functions on supplies, ferryi_valid_map_reuse() and
 * ferryi_valid_map_clear() do, and they are called without the lock.
 *
 * Memory circulates as follows. The owner makes a supply without the lock, and `promise` moves it
 * into the map under the lock. Commits take spare chunks into use and return unused ones.
 * `take_excess` moves spare chunks into a supply, and `supply_free` frees them without the lock.
 */

#include "src/base/base.h"
#include "src/map/coherence.h"

struct ferryi_map_chunk;

/* The lock of a map's owner. The owner is a store (buffer/store.h). */
FERRYI_LOCK_CLASS(ferryi_store_spin);

/* The chunks of a map, and spare chunks for promised commits. Before the first promise all maps
 * share one room without chunks. */
struct ferryi_map_room {
    size_t
        segment_count;  /* at least 1; a map of 0 bytes has one empty segment with the empty set */
    size_t chunk_count; /* 0 while there is one segment */
    size_t crowding; /* sum over the chunks of their segments above half full (valid_map_chunk.h) */
    struct ferryi_map_chunk *spare; /* list of chunks for promised commits */
    size_t spare_count;
    size_t chunk_capacity;
    struct ferryi_map_chunk *chunks[]; /* in the order of their bytes */
};

typedef struct ferryi_valid_map {
    size_t bytes;
    ferryi_places whole; /* the set of all bytes while there is one segment; otherwise empty */
    uint32_t reserved;   /* number of commits for which room is promised */
    struct ferryi_map_room *room; /* never NULL, once initialised */
} ferryi_valid_map;

/* Initialises a map with one segment that has this set; the empty set when `bytes` is 0. */
void ferryi_valid_map_init(ferryi_valid_map *map, size_t bytes, ferryi_places places);
/* Resets a map for another buffer: one segment with the empty set. Keeps its room if it is small.
 * Called without the lock, as ferryi_valid_map_clear() is. */
void ferryi_valid_map_reuse(ferryi_valid_map *map, size_t bytes);
/* Frees all memory of the map. Called without the lock, once no other thread uses the map. Does
 * nothing for a zeroed map. */
void ferryi_valid_map_clear(ferryi_valid_map *map);

/*
 * Room for commits, in three steps so that no allocation happens under the owner's lock. `need`
 * returns, under the lock, how much is missing for one more promised commit. `supply_make`
 * allocates without the lock. `promise`, under the lock, takes what is missing from the supply and
 * promises the room. It returns false and takes nothing when more is needed because the map changed
 * in the meantime. Starting with a zeroed supply:
 *
 *     lock
 *     while (!promise(map, &supply)) {
 *         need(map, &chunks, &index_capacity)
 *         unlock, supply_make(&supply, chunks, index_capacity) or fail, lock
 *     }
 *     unlock, supply_free(&supply)
 *
 * One promise covers one commit of any one range. Any number of promises may be outstanding. They
 * need far fewer chunks than there are promises: a commit cuts at most two segments, and a new
 * chunk is needed only after 32 cuts, or when a chunk is already full. Changes of the whole map
 * need no promise.
 */
struct ferryi_map_supply {
    struct ferryi_map_chunk *chunks; /* linked list */
    size_t chunk_count;
    struct ferryi_map_room *room; /* a larger room for the map, or NULL */
};

FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_valid_map_promise(ferryi_valid_map *map, struct ferryi_map_supply *supply);
/* Returns how much a supply must have for the next promise; 0 and 0 when a zeroed supply is
 * enough. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_need(const ferryi_valid_map *map, size_t *out_chunks,
                           size_t *out_index_capacity);
/*
 * Allocates until the supply has at least this much; its present contents count.
 * @return FERRY_OK, FERRY_ERROR_OUT_OF_MEMORY (supply_free frees what was allocated)
 */
ferry_status ferryi_map_supply_make(struct ferryi_map_supply *supply, size_t chunks,
                                    size_t index_capacity);
/* Frees and zeroes the supply. Does nothing for a zeroed one. */
void ferryi_map_supply_free(struct ferryi_map_supply *supply);
/* Releases a promise without a commit. */
FERRYI_REQUIRES(ferryi_store_spin) void ferryi_valid_map_unpromise(ferryi_valid_map *map);

/* Moves spare chunks that no promise needs into a supply, except those for one more promise. The
 * caller frees the supply. Spare chunks accumulate when segments merge and when promises are
 * released. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_take_excess(ferryi_valid_map *map, struct ferryi_map_supply *supply);
/* Whether there are enough spare chunks for a call of ferryi_valid_map_take_excess(). Fast enough
 * for every close. */
FERRYI_REQUIRES(ferryi_store_spin) bool ferryi_valid_map_has_excess(const ferryi_valid_map *map);

/* Applies a change to [begin, end) (see ferryi_coherence_commit()) and uses one promise. begin <
 * end <= bytes. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_commit(ferryi_valid_map *map, int place, enum ferryi_change change,
                             size_t begin, size_t end);
/* Applies a change to the whole map, which needs neither room nor a promise. Does nothing when
 * `bytes` is 0. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_commit_whole(ferryi_valid_map *map, int place, enum ferryi_change change);

/*
 * Plans from `begin` towards `end` until `moves` is full (see ferryi_coherence_plan()). `*out_next`
 * is the end of the planned part; it is `end` when all was planned. `*out_lost`: some bytes
 * of the planned part [begin, *out_next) are lost. Moves are joined over the whole planned part:
 * planning in several calls makes at most one more move per call.
 * @return the number of moves
 */
FERRYI_REQUIRES(ferryi_store_spin)
size_t ferryi_valid_map_plan(const ferryi_valid_map *map, int place, size_t begin, size_t end,
                             ferryi_places same, ferryi_places reachable, struct ferryi_move *moves,
                             size_t room, size_t *out_next, bool *out_lost);

/* Returns the segment that contains byte `at` < bytes. To walk the map, continue with at =
 * segment.end. */
FERRYI_REQUIRES(ferryi_store_spin)
struct ferryi_segment ferryi_valid_map_at(const ferryi_valid_map *map, size_t at);

/* Whether every byte of the range has `place` in its set. True for an empty range. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_valid_map_holds(const ferryi_valid_map *map, int place, size_t begin, size_t end);

/* Like ferryi_valid_map_holds() for a map with one segment, for the hit path. If it returns false,
 * ferryi_valid_map_holds() may still return true. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
ferryi_valid_map_holds_fast(const ferryi_valid_map *map, int place)
{
    return map->whole & FERRYI_PLACE_BIT(place);
}

/* Whether resizing the map to `bytes` uses a promise: growing does, unless the map is one segment
 * with the empty set. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
ferryi_valid_map_resize_takes_promise(const ferryi_valid_map *map, size_t bytes)
{
    return bytes > map->bytes && !(map->room->chunk_count == 0 && map->whole == 0);
}

/* Changes the length. New bytes have the empty set. Uses one promise exactly when
 * ferryi_valid_map_resize_takes_promise() is true; a caller that holds an unneeded one releases
 * it. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_resize(ferryi_valid_map *map, size_t bytes);

/* Checks the invariants, for tests and checked builds: segments are sorted, gapless and merged,
 * counts are right, neighbouring chunks are not too empty, promises are covered. */
FERRYI_REQUIRES(ferryi_store_spin) bool ferryi_valid_map_check(const ferryi_valid_map *map);

#endif
