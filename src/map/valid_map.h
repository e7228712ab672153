/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_VALID_MAP_H
#define FERRYI_VALID_MAP_H

/*
 * The container of a buffer's segments: a sorted sequence in chunks. Inserting 10^5 segments takes
 * time n log n, and a single segment needs no memory besides this struct. The owner's lock protects
 * the map. Functions that change a map neither allocate nor free memory, so they may run under a
 * spin lock and cannot fail. The exceptions are the functions on supplies, ferryi_valid_map_reuse()
 * and ferryi_valid_map_clear(), which are called without the lock.
 *
 * Memory circulates as follows. The owner makes a supply without the lock, and `promise` moves it
 * into the map under the lock. Changes take spare chunks into use and return the chunks that they
 * empty. `take_excess` moves spare chunks into a supply, and `supply_free` frees them without the
 * lock.
 */

#include "src/base/base.h"
#include "src/map/coherence.h"

struct ferryi_map_chunk;

/* The lock of a map's owner, which is a store (buffer/store.h). */
FERRYI_LOCK_CLASS(ferryi_store_spin);

/* The chunks of a map, and the spare chunks for promised changes. Before their first promise all
 * maps share one room without chunks. */
struct ferryi_map_room {
    size_t segment_count; /* at least 1, because a map of 0 bytes has one empty segment with the
                             empty set */
    size_t chunk_count;   /* 0 while there is one segment */
    struct ferryi_map_chunk *spare; /* list of chunks for promised commits */
    size_t spare_count;
    size_t chunk_capacity;
    struct ferryi_map_chunk *chunks[]; /* in the order of their bytes */
};

typedef struct ferryi_valid_map {
    size_t bytes;
    ferryi_places whole; /* the set of all bytes while there is one segment; otherwise empty */
    uint32_t reserved;   /* number of changes for which room is promised */
    struct ferryi_map_room *room; /* never NULL, once initialised */
} ferryi_valid_map;

/* Initialises a map with one segment that has this set, or the empty set when `bytes` is 0. */
void ferryi_valid_map_init(ferryi_valid_map *map, size_t bytes, ferryi_places places);
/* Resets a map for another buffer: one segment with the empty set. Keeps the map's room if the room
 * is small. Called without the lock, just as ferryi_valid_map_clear() is. */
void ferryi_valid_map_reuse(ferryi_valid_map *map, size_t bytes);
/* Frees all memory of the map. Called without the lock, once no other thread uses the map. Does
 * nothing for a zeroed map. */
void ferryi_valid_map_clear(ferryi_valid_map *map);

/*
 * A promise reserves room for one change: a commit on any one range, or a resize. The number of
 * outstanding promises is not limited. Changes of the whole map need no promise.
 *
 * A promise is made in three steps, so that no allocation happens under the owner's lock. `need`
 * returns, under the lock, how much room is missing. `supply_make` allocates it without the lock.
 * `promise`, under the lock, moves it from the supply into the map. If the map changed in the
 * meantime and needs more, `promise` returns false and changes nothing. A caller starts with a
 * zeroed supply:
 *
 *     lock
 *     while (!promise(map, count, &supply)) {
 *         need(map, count, &chunks, &index_capacity)
 *         unlock, supply_make(&supply, chunks, index_capacity) or fail, lock
 *     }
 *     unlock, supply_free(&supply)
 */
struct ferryi_map_supply {
    struct ferryi_map_chunk *chunks; /* linked list */
    size_t chunk_count;
    struct ferryi_map_room *room; /* a larger room for the map, or NULL */
};

/* Makes `count` promises, or none. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_valid_map_promise(ferryi_valid_map *map, uint32_t count,
                              struct ferryi_map_supply *supply);
/* Returns how much a supply must contain for `count` more promises. Both results are 0 when a
 * zeroed supply is enough. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_need(const ferryi_valid_map *map, uint32_t count, size_t *out_chunks,
                           size_t *out_index_capacity);
/*
 * Allocates until the supply has at least this much. What the supply has already is counted.
 * @return FERRY_OK, FERRY_ERROR_OUT_OF_MEMORY (supply_free frees what was allocated)
 */
ferry_status ferryi_map_supply_make(struct ferryi_map_supply *supply, size_t chunks,
                                    size_t index_capacity);
/* Frees and zeroes the supply. Does nothing for a zeroed supply. */
void ferryi_map_supply_free(struct ferryi_map_supply *supply);
/* Releases `count` promises without a change. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_unpromise(ferryi_valid_map *map, uint32_t count);

/* Moves spare chunks that no promise needs into a supply, which the caller frees. Keeps the chunks
 * for one more promise. Spare chunks accumulate when segments merge and when promises are released.
 */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_take_excess(ferryi_valid_map *map, struct ferryi_map_supply *supply);
/* Whether a call of ferryi_valid_map_take_excess() would free enough chunks to be worth it. Fast
 * enough for every close. */
FERRYI_REQUIRES(ferryi_store_spin) bool ferryi_valid_map_has_excess(const ferryi_valid_map *map);

/* Applies a change to [begin, end) and uses one promise; see ferryi_coherence_commit(). The range
 * is not empty and lies in the map. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_commit(ferryi_valid_map *map, int place, enum ferryi_change change,
                             size_t begin, size_t end);
/* Applies a change to the whole map, for which no promise is needed. Does nothing when the map has
 * 0 bytes. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_commit_whole(ferryi_valid_map *map, int place, enum ferryi_change change);

/*
 * Plans moves from `begin` towards `end` until `moves`, which has room for `room` moves, is full;
 * see ferryi_coherence_plan(). `*out_next` is the end of the planned part, and is equal to `end`
 * when all was planned. `*out_lost` is true if some bytes of the planned part [begin, *out_next)
 * are lost. Moves are joined over the whole planned part, so planning in several calls makes at
 * most one additional move for each call.
 * @return the number of moves
 */
FERRYI_REQUIRES(ferryi_store_spin)
size_t ferryi_valid_map_plan(const ferryi_valid_map *map, int place, size_t begin, size_t end,
                             ferryi_places same, ferryi_places reachable, struct ferryi_move *moves,
                             size_t room, size_t *out_next, bool *out_lost);

/* Returns the segment that contains byte `at`, which is less than `bytes`. To walk over the map,
 * call it again with the end of that segment. */
FERRYI_REQUIRES(ferryi_store_spin)
struct ferryi_segment ferryi_valid_map_at(const ferryi_valid_map *map, size_t at);

/* Whether every byte of the range has `place` in its set. True for an empty range. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_valid_map_holds(const ferryi_valid_map *map, int place, size_t begin, size_t end);

/* Like ferryi_valid_map_holds(), but faster, for the hit path: it answers only for a map with one
 * segment. If it returns false, ferryi_valid_map_holds() may still return true. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
ferryi_valid_map_holds_fast(const ferryi_valid_map *map, int place)
{
    return map->whole & FERRYI_PLACE_BIT(place);
}

/* Changes the number of bytes, and uses one promise. New bytes have the empty set. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_resize(ferryi_valid_map *map, size_t bytes);

/* Checks the invariants, for tests and checked builds. Segments are sorted, gapless and merged.
 * Counts are right. Neighbouring chunks hold more than half of a chunk together. Promises have
 * their room. */
FERRYI_REQUIRES(ferryi_store_spin) bool ferryi_valid_map_check(const ferryi_valid_map *map);

#endif
