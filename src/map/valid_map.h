/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_VALID_MAP_H
#define FERRYI_VALID_MAP_H

/*
 * A valid map records which places hold the current value of each byte of a buffer. It stores
 * sorted segments in arrays, which are called chunks. Inserting n segments takes time proportional
 * to n log n. A map with a single segment uses no memory besides its struct. A lock of the map's
 * owner protects the map.
 *
 * Functions that change a map neither allocate nor free memory. So these functions cannot fail and
 * may run under a spin lock. The exceptions are the functions for supplies,
 * ferryi_valid_map_reuse() and ferryi_valid_map_clear(), which must be called without the lock.
 *
 * Memory circulates in these steps:
 * - Without the lock, the owner allocates a supply of chunks with ferryi_map_supply_make().
 * - Under the lock, ferryi_valid_map_reserve() moves chunks from the supply to the map's list of
 *   spare chunks.
 * - A change of the map takes the chunks that it needs from this list. It returns chunks that
 *   become empty to the list.
 * - Under the lock, ferryi_valid_map_take_excess() moves spare chunks to a supply.
 * - Without the lock, ferryi_map_supply_free() frees the supply.
 */

#include "src/base/base.h"
#include "src/map/coherence.h"

struct ferryi_map_chunk;

/* The spin lock that protects a map. It belongs to the storage of the buffer that owns the map
 * (store/store.h). */
FERRYI_LOCK_CLASS(ferryi_store_spin);

/* The index of a map lists the map's chunks (arrays of segments) in order. It also lists spare
 * chunks, which later changes of the map take into use. All maps share one constant empty index
 * until they first reserve memory for chunks. */
struct ferryi_map_index {
    size_t segment_count; /* number of segments, at least 1; a map of 0 bytes has one segment of 0
                             bytes, whose set of places is empty */
    size_t chunk_count;   /* 0 while the map has only one segment */
    struct ferryi_map_chunk *spare; /* list of chunks for reserved changes */
    size_t spare_count;
    size_t chunk_capacity;
    struct ferryi_map_chunk *chunks[]; /* in the order of their bytes */
};

typedef struct ferryi_valid_map {
    size_t bytes;
    /* set of places that hold all bytes, if the map has only one segment; otherwise empty */
    ferryi_places whole;
    uint32_t reserved;              /* number of reservations that are not used yet */
    struct ferryi_map_index *index; /* not NULL after the initialisation */
} ferryi_valid_map;

/* Initialises a map of `bytes` bytes with one segment, which has the set of places `places`. If
 * `bytes` is 0, the set is empty instead. */
void ferryi_valid_map_init(ferryi_valid_map *map, size_t bytes, ferryi_places places);
/* Resets a map for a different buffer: the map then has one segment, whose set of places is empty.
 * Frees the map's memory, unless the map holds only a few spare chunks. Must be called without the
 * map's lock and while no other thread uses the map. */
void ferryi_valid_map_reuse(ferryi_valid_map *map, size_t bytes);
/* Frees all memory of the map and zeroes its struct. Does nothing for a zeroed map. Must be called
 * without the map's lock and while no other thread uses the map. */
void ferryi_valid_map_clear(ferryi_valid_map *map);

/*
 * A reservation guarantees that one later change of the map finds the memory that it needs. A
 * change is a commit on any range, or a resize. The number of outstanding reservations is not
 * limited. Changes of the whole map need no reservation.
 *
 * No allocation happens under the owner's lock. If memory is missing, ferryi_valid_map_reserve()
 * returns false and stores in the supply how much memory the supply must contain. The caller
 * releases the lock, allocates this memory with ferryi_map_supply_make(), and calls
 * ferryi_valid_map_reserve() again under the lock. That call moves the memory from the supply into
 * the map. It returns false again if the map has changed in the meantime and needs more memory. A
 * caller starts with a zeroed supply:
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
    size_t wanted_chunks, wanted_capacity; /* what the supply must contain: a number of chunks, and
                                              the capacity of a new index (0: no new index) */
};

/* Reserves the memory for `count` changes of the map. Takes memory that the map lacks from
 * `supply`. If the supply is too small, reserves nothing and returns false. NULL counts as an empty
 * supply. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_valid_map_reserve(ferryi_valid_map *map, uint32_t count,
                              struct ferryi_map_supply *supply);
/*
 * Allocates memory until the supply contains the amounts in its members `wanted_chunks` and
 * `wanted_capacity`. Memory that the supply already contains counts towards these amounts.
 * @return FERRY_OK; FERRY_ERROR_OUT_OF_MEMORY (ferryi_map_supply_free() frees what was allocated)
 */
ferry_status ferryi_map_supply_make(struct ferryi_map_supply *supply);
/* Frees the memory of the supply and zeroes its struct. Does nothing for a zeroed supply. */
void ferryi_map_supply_free(struct ferryi_map_supply *supply);
/* Releases `count` reservations that were not used for changes of the map. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_unreserve(ferryi_valid_map *map, uint32_t count);

/* Moves spare chunks (unused arrays of segments) that no reservation needs into `supply`. The
 * caller must free the supply. Keeps enough chunks for one more reservation. Spare chunks
 * accumulate when segments merge and when reservations are released. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_take_excess(ferryi_valid_map *map, struct ferryi_map_supply *supply);
/* Returns whether ferryi_valid_map_take_excess() would take enough chunks to be worth the call. The
 * check is cheap enough to be made whenever an access closes. */
FERRYI_REQUIRES(ferryi_store_spin) bool ferryi_valid_map_has_excess(const ferryi_valid_map *map);

/* Applies a change to the bytes [begin, end) as ferryi_coherence_commit() describes. Consumes one
 * reservation. The range must not be empty and must lie in the map. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_commit(ferryi_valid_map *map, int place, enum ferryi_change change,
                             size_t begin, size_t end);
/* Applies a change to all bytes of the map without consuming a reservation. Does nothing if the map
 * has 0 bytes. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_commit_whole(ferryi_valid_map *map, int place, enum ferryi_change change);

/*
 * Computes the moves (transfers) that make the bytes [begin, end) readable at the place `place`.
 * Stores these moves in the array `moves` in ascending order. ferryi_coherence_source() describes
 * the parameters `same` and `reachable` and the source of each move. Bytes that `place` already
 * holds and bytes that are lost are not moved.
 *
 * The array has room for `room` moves. If it is full, the function stops before `end`. Sets
 * `*out_next` to the byte at which the function stopped, or to `end`. Sets `*out_lost` to whether
 * any of the bytes from `begin` up to `*out_next` are lost. Adjacent moves with equal sources are
 * joined, but only within one call. So if a range takes several calls, each call after the first
 * adds at most one move to the total.
 * @return the number of moves
 */
FERRYI_REQUIRES(ferryi_store_spin)
size_t ferryi_valid_map_plan(const ferryi_valid_map *map, int place, size_t begin, size_t end,
                             ferryi_places same, ferryi_places reachable,
                             struct ferryi_map_move *moves, size_t room, size_t *out_next,
                             bool *out_lost);

/* Returns the segment that contains byte `at`. `at` must be less than the number of bytes of the
 * map. To visit all segments, pass the end of each returned segment to the next call. */
FERRYI_REQUIRES(ferryi_store_spin)
struct ferryi_segment ferryi_valid_map_at(const ferryi_valid_map *map, size_t at);

/* Returns whether the place `place` holds the current value of every byte in [begin, end). Returns
 * true for an empty range. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_valid_map_holds(const ferryi_valid_map *map, int place, size_t begin, size_t end);

/* A faster form of ferryi_valid_map_holds() for accesses that move no bytes. Returns true only if
 * the map has one segment, whose set of places contains `place`. If this function returns false,
 * ferryi_valid_map_holds() may still return true. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
ferryi_valid_map_holds_fast(const ferryi_valid_map *map, int place)
{
    return map->whole & FERRYI_PLACE_BIT(place);
}

/* Changes the number of bytes of the map and consumes one reservation. Added bytes count as never
 * written. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_resize(ferryi_valid_map *map, size_t bytes);

#endif
