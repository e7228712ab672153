/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_VALID_MAP_H
#define FERRYI_VALID_MAP_H

/*
 * A valid map: the sorted segments of a buffer, stored in chunks. Inserting n segments takes time
 * proportional to n log n. A map with a single segment uses no memory besides its struct. The lock
 * of the map's owner protects the map.
 *
 * Functions that change a map neither allocate nor free memory. So they may run under a spin lock
 * and cannot fail. The exceptions are the functions on supplies, ferryi_valid_map_reuse() and
 * ferryi_valid_map_clear(), which are called without the lock.
 *
 * Memory circulates as follows. Without the lock, the map's owner allocates a supply of chunks.
 * Under the lock, `reserve` moves the supply into the map as spare chunks. A change takes spare
 * chunks into use, and makes each chunk that it empties a spare chunk. `take_excess` moves spare
 * chunks into a supply. Without the lock, `supply_free` frees the supply.
 */

#include "src/base/base.h"
#include "src/map/coherence.h"

struct ferryi_map_chunk;

/* The lock that protects a map. It is the spin lock of the store that owns the map
 * (buffer/store.h). */
FERRYI_LOCK_CLASS(ferryi_store_spin);

/* The index of a map: its chunks in order, and a list of spare chunks for reserved changes. All
 * maps without chunks share one empty index until their first reservation. */
struct ferryi_map_index {
    size_t segment_count; /* number of segments, at least 1: a map of 0 bytes has one segment of 0
                             bytes, whose set is empty */
    size_t chunk_count;   /* 0 while the map has only one segment */
    struct ferryi_map_chunk *spare; /* list of chunks for reserved changes */
    size_t spare_count;
    size_t chunk_capacity;
    struct ferryi_map_chunk *chunks[]; /* in the order of their bytes */
};

typedef struct ferryi_valid_map {
    size_t bytes;
    /* the set of all bytes if the map has only one segment; otherwise empty */
    ferryi_places whole;
    uint32_t reserved;              /* number of reservations that are not used yet */
    struct ferryi_map_index *index; /* not NULL after the initialisation */
} ferryi_valid_map;

/* Initialises a map with one segment, which has the given set. If `bytes` is 0, the segment's set
 * is empty. */
void ferryi_valid_map_init(ferryi_valid_map *map, size_t bytes, ferryi_places places);
/* Resets a map for a different buffer: one segment with the empty set. Keeps the map's index if the
 * index is small. Must be called without the lock and while no other thread uses the map. */
void ferryi_valid_map_reuse(ferryi_valid_map *map, size_t bytes);
/* Frees all memory of the map. Must be called without the lock and while no other thread uses the
 * map. Does nothing for a zeroed map. */
void ferryi_valid_map_clear(ferryi_valid_map *map);

/*
 * A reservation ensures that one change will find the memory that it needs. A change is a commit on
 * any one range, or a resize. The number of outstanding reservations is not limited. Changes of the
 * whole map need no reservation.
 *
 * No allocation happens under the owner's lock. If memory is missing, `reserve` returns false and
 * stores in the supply how much the supply must contain. `supply_make` allocates it without the
 * lock. The next `reserve`, under the lock, moves it from the supply into the map. If the map
 * changed in the meantime and needs more, `reserve` returns false again. A caller starts with a
 * zeroed supply:
 *
 *     lock
 *     while (!reserve(map, count, &supply)) {
 *         unlock, supply_make(&supply) or fail, lock
 *     }
 *     unlock, supply_free(&supply)
 */
struct ferryi_map_supply {
    struct ferryi_map_chunk *chunks; /* linked list */
    size_t chunk_count;
    struct ferryi_map_index *index;        /* a larger index for the map, or NULL */
    size_t wanted_chunks, wanted_capacity; /* how many chunks, and which capacity of the index, the
                                              map lacks */
};

/* Reserves the memory of `count` changes, and takes what the map lacks from the supply. If the
 * supply is too small, returns false and reserves nothing. A supply that is NULL is empty. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_valid_map_reserve(ferryi_valid_map *map, uint32_t count,
                              struct ferryi_map_supply *supply);
/*
 * Allocates memory until the supply contains what its members `wanted_` request. Memory that the
 * supply already contains counts.
 * @return FERRY_OK, FERRY_ERROR_OUT_OF_MEMORY (supply_free frees what was allocated)
 */
ferry_status ferryi_map_supply_make(struct ferryi_map_supply *supply);
/* Frees and zeroes the supply. Does nothing for a zeroed supply. */
void ferryi_map_supply_free(struct ferryi_map_supply *supply);
/* Gives up `count` reservations of a map without changing the map. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_unreserve(ferryi_valid_map *map, uint32_t count);

/* Moves spare chunks that no reservation needs into a supply, which the caller frees. Keeps enough
 * chunks for one more reservation. Spare chunks accumulate when segments merge and when
 * reservations are released. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_take_excess(ferryi_valid_map *map, struct ferryi_map_supply *supply);
/* Returns whether ferryi_valid_map_take_excess() would take enough chunks to be worth the call. The
 * check is cheap enough to be made whenever an access closes. */
FERRYI_REQUIRES(ferryi_store_spin) bool ferryi_valid_map_has_excess(const ferryi_valid_map *map);

/* Applies a change to [begin, end), as ferryi_coherence_commit() describes, and uses one
 * reservation. The range must not be empty and must lie in the map. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_commit(ferryi_valid_map *map, int place, enum ferryi_change change,
                             size_t begin, size_t end);
/* Applies a change to the whole map without using a reservation. Does nothing if the map has 0
 * bytes. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_commit_whole(ferryi_valid_map *map, int place, enum ferryi_change change);

/*
 * Plans the moves that make the bytes of the range readable at `place`, in ascending order.
 * ferryi_coherence_source() describes `same`, `reachable` and the source of each move. Bytes that
 * `place` holds and bytes that are lost are not moved. Planning starts at `begin`. It stops at
 * `end`, or earlier if `moves` is full. `moves` has room for `room` moves. `*out_next` is the end
 * of the planned part.
 *
 * `*out_lost` is set to whether bytes of the planned part [begin, *out_next) are lost. Adjacent
 * moves of the planned part are joined. So each additional call for the same range returns at most
 * one additional move.
 * @return the number of moves
 */
FERRYI_REQUIRES(ferryi_store_spin)
size_t ferryi_valid_map_plan(const ferryi_valid_map *map, int place, size_t begin, size_t end,
                             ferryi_places same, ferryi_places reachable, struct ferryi_move *moves,
                             size_t room, size_t *out_next, bool *out_lost);

/* Returns the segment that contains byte `at`, which must be less than `bytes`. To visit all
 * segments, call the function again with the end of the returned segment. */
FERRYI_REQUIRES(ferryi_store_spin)
struct ferryi_segment ferryi_valid_map_at(const ferryi_valid_map *map, size_t at);

/* Returns whether `place` is in the set of every byte of the range. Returns true for an empty
 * range. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_valid_map_holds(const ferryi_valid_map *map, int place, size_t begin, size_t end);

/* A faster form of ferryi_valid_map_holds() for accesses that move no bytes. Returns true only if
 * the map has one segment, whose set contains `place`. If the result is false,
 * ferryi_valid_map_holds() may still return true. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
ferryi_valid_map_holds_fast(const ferryi_valid_map *map, int place)
{
    return map->whole & FERRYI_PLACE_BIT(place);
}

/* Changes the number of bytes of the map, and uses one reservation. The set of new bytes is empty.
 */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_resize(ferryi_valid_map *map, size_t bytes);

#endif
