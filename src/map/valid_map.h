/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_VALID_MAP_H
#define FERRYI_VALID_MAP_H

/*
 * The container of a buffer's segments: a sorted sequence in chunks, so that 10^5 segments cost n
 * log n in all, and a single segment costs nothing but this struct. It is guarded by its owner's
 * lock. Nothing below that changes a map allocates or frees, so that it may run under a spin lock
 * and cannot fail; the functions on supplies and ferryi_valid_map_clear() do, and are called
 * without the lock.
 *
 * Memory goes round like this: an owner makes a supply without the lock, promise moves it into the
 * map under the lock, commits turn spare chunks into used ones and used ones into spare ones,
 * take_excess moves spare chunks out again into a supply, and supply_free frees them without the
 * lock.
 */

#include "src/base/base.h"
#include "src/map/coherence.h"

struct ferryi_map_chunk;

/* The lock of a map's owner, which is a store (buffer/store.h). */
FERRYI_LOCK_CLASS(ferryi_store_spin);

/* The chunks of a map, and those for promised commits: before the first promise one that all maps
 * share, and that has none. */
struct ferryi_map_room {
    size_t segment_count; /* at least 1; with bytes 0 one empty segment with the empty set */
    size_t chunk_count;   /* 0 while there is one segment */
    size_t crowding;      /* segments above half full, summed over the chunks (valid_map_chunk.h) */
    struct ferryi_map_chunk *spare; /* list of chunks for promised commits */
    size_t spare_count;
    size_t chunk_capacity;
    struct ferryi_map_chunk *chunks[]; /* by ascending bytes */
};

typedef struct ferryi_valid_map {
    size_t bytes;
    ferryi_places whole;          /* the set of all bytes while there is one segment; else empty */
    uint32_t reserved;            /* commits that are promised room */
    struct ferryi_map_room *room; /* never NULL, once initialised */
} ferryi_valid_map;

/* One segment with this set; the empty set when `bytes` is 0. */
void ferryi_valid_map_init(ferryi_valid_map *map, size_t bytes, ferryi_places places);
/* For another use: one segment with the empty set. What room the map has stays with it, if it is
 * little. Without a lock, as clear. */
void ferryi_valid_map_reuse(ferryi_valid_map *map, size_t bytes);
/* Free all that the map has. Without a lock, once no other thread uses the map. Zeroed maps are
 * harmless. */
void ferryi_valid_map_clear(ferryi_valid_map *map);

/*
 * Room for commits, in three steps so that no allocation happens under the owner's lock: `need`
 * returns under the lock how much is missing for one more promised commit; `supply_make` allocates
 * without the lock; `promise` under the lock takes what is missing from the supply and makes the
 * promise, or returns false, taking nothing, when more is needed because the map changed meanwhile.
 * So, from a zeroed supply:
 *
 *     lock
 *     while (!promise(map, &supply)) {
 *         need(map, &chunks, &index_capacity)
 *         unlock, supply_make(&supply, chunks, index_capacity) or give up, lock
 *     }
 *     unlock, supply_free(&supply)
 *
 * One promise is good for one commit of one range, wherever it lies then. Any number may be
 * outstanding. Together they keep far fewer chunks than there are promises: a commit cuts at most
 * two segments, and it takes 32 cuts, or a chunk that is full already, to need one more chunk.
 * Changes over the whole map need no promise.
 */
struct ferryi_map_supply {
    struct ferryi_map_chunk *chunks; /* list */
    size_t chunk_count;
    struct ferryi_map_room *room; /* a larger one, or NULL */
};

FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_valid_map_promise(ferryi_valid_map *map, struct ferryi_map_supply *supply);
/* What a supply must have for the next promise; 0 and 0 when it succeeds with a zeroed one. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_need(const ferryi_valid_map *map, size_t *out_chunks,
                           size_t *out_index_capacity);
/*
 * Fill a supply up to at least this much; what it has already counts.
 * @return FERRY_OK, FERRY_ERROR_OUT_OF_MEMORY (what the supply then has is freed by supply_free)
 */
ferry_status ferryi_map_supply_make(struct ferryi_map_supply *supply, size_t chunks,
                                    size_t index_capacity);
/* Free what is left and zero the supply. Zeroed supplies are harmless. */
void ferryi_map_supply_free(struct ferryi_map_supply *supply);
/* Give a promise back without committing. */
FERRYI_REQUIRES(ferryi_store_spin) void ferryi_valid_map_unpromise(ferryi_valid_map *map);

/* Move what no promise needs, except the room of one more, into a supply, which supply_free then
 * frees. Maps grow spare chunks when segments merge, and when promises are given back. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_take_excess(ferryi_valid_map *map, struct ferryi_map_supply *supply);
/* True when enough is spare to make take_excess worth a call. Cheap enough for every close. */
FERRYI_REQUIRES(ferryi_store_spin) bool ferryi_valid_map_has_excess(const ferryi_valid_map *map);

/* Apply a change to [begin, end) (ferryi_coherence_commit), using up one promise. begin < end <=
 * bytes. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_commit(ferryi_valid_map *map, int place, enum ferryi_change change,
                             size_t begin, size_t end);
/* A change that needs no room and no promise: over the whole map. Nothing happens when `bytes` is
 * 0. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_commit_whole(ferryi_valid_map *map, int place, enum ferryi_change change);

/*
 * Plan from `begin` up to `end` as far as `room` moves go (ferryi_coherence_plan). `*out_next` is
 * where to go on; it is `end` when all was planned. `*out_lost` is about the planned part [begin,
 * *out_next). Moves are joined over the whole planned part: planning in pieces gives at most one
 * move more per piece.
 * @return the number of moves
 */
FERRYI_REQUIRES(ferryi_store_spin)
size_t ferryi_valid_map_plan(const ferryi_valid_map *map, int place, size_t begin, size_t end,
                             ferryi_places same, ferryi_places reachable, struct ferryi_move *moves,
                             size_t room, size_t *out_next, bool *out_lost);

/* The whole segment that holds byte `at` < bytes. For walking: next at = segment.end. */
FERRYI_REQUIRES(ferryi_store_spin)
struct ferryi_segment ferryi_valid_map_at(const ferryi_valid_map *map, size_t at);

/* True when every byte of the range has `place` in its set. Empty ranges are true. */
FERRYI_REQUIRES(ferryi_store_spin)
bool ferryi_valid_map_holds(const ferryi_valid_map *map, int place, size_t begin, size_t end);

/* The same question where there is one segment: the hit path's. False does not mean that `holds`
 * is. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
ferryi_valid_map_holds_fast(const ferryi_valid_map *map, int place)
{
    return map->whole & FERRYI_PLACE_BIT(place);
}

/* True when resizing the map as it is now to `bytes` uses up a promise: growing, unless it is one
 * segment with the empty set. */
FERRYI_REQUIRES(ferryi_store_spin)
static inline bool
ferryi_valid_map_resize_takes_promise(const ferryi_valid_map *map, size_t bytes)
{
    return bytes > map->bytes && !(map->room->chunk_count == 0 && map->whole == 0);
}

/* Change the length; new bytes have the empty set, cut bytes are forgotten. Uses up one promise
 * exactly when ferryi_valid_map_resize_takes_promise(); a caller that holds one needlessly gives it
 * back itself. */
FERRYI_REQUIRES(ferryi_store_spin)
void ferryi_valid_map_resize(ferryi_valid_map *map, size_t bytes);

/* Sorted, partitioned, merged, counts right, chunks not too thin, promises covered: for tests and
 * checked builds. */
FERRYI_REQUIRES(ferryi_store_spin) bool ferryi_valid_map_check(const ferryi_valid_map *map);

#endif
