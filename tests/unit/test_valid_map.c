/* SPDX-License-Identifier: MIT */

/*
 * Compares the container of the valid map with an array that has the set of valid places of each
 * byte. This file tests that the container finds, splits and merges the right segments, and plans
 * moves of the right bytes. It also tests that the memory that a reservation reserves is always
 * enough for a commit. The file test_coherence.c tests the effect of an operation on the set of one
 * byte.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/map/valid_map_chunk.h"

#define SEED 20240229u

/* -- helpers ----------------------------------------------------------------------------------- */

static uint64_t random_state;

/* Returns a random number below `limit`, which must be greater than 0 (xorshift64*). */
static size_t
random_below(size_t limit)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (size_t)((random_state * 2685821657736338717u) >> 33) % limit;
}

/* Reserves memory of a map for `count` commits, as the owner of a map does. If the first call lacks
 * memory, allocates this memory and calls again. The second call must succeed. */
static void
reserve_many(ferryi_valid_map *map, uint32_t count)
{
    struct ferryi_map_supply supply = {0};

    if (!ferryi_valid_map_reserve(map, count, &supply)) {
        assert_true(supply.wanted_chunks > 0 || supply.wanted_capacity > 0);
        assert_int_equal(ferryi_map_supply_make(&supply), FERRY_OK);
        assert_true(ferryi_valid_map_reserve(map, count, &supply));
        assert_int_equal(supply.chunk_count, 0);
    }
    ferryi_map_supply_free(&supply);
}

static void
reservation(ferryi_valid_map *map)
{
    reserve_many(map, 1);
}

static void
reserve_and_commit(ferryi_valid_map *map, int place, enum ferryi_change change, size_t begin,
                   size_t end)
{
    reservation(map);
    ferryi_valid_map_commit(map, place, change, begin, end);
}

static void
resize(ferryi_valid_map *map, size_t bytes)
{
    reservation(map);
    ferryi_valid_map_resize(map, bytes);
}

static void
take_excess(ferryi_valid_map *map)
{
    struct ferryi_map_supply supply = {0};
    ferryi_valid_map_take_excess(map, &supply);
    ferryi_map_supply_free(&supply);
}

/* -- invariants -------------------------------------------------------------------------------- */

static bool
check_room(const ferryi_valid_map *map)
{
    size_t spare = 0;
    size_t needed = ferryi_chunks_needed(map, map->reserved);

    for (const struct ferryi_map_chunk *chunk = map->index->spare; chunk; chunk = chunk->next)
        spare++;
    return spare == map->index->spare_count && spare >= needed &&
           map->index->chunk_capacity >= map->index->chunk_count + needed;
}

static bool
is_possible(ferryi_places places)
{
    if (places & FERRYI_LOST)
        return places == FERRYI_LOST;
    return places != FERRYI_ZEROS && !(places & ~(FERRYI_EVERY_PLACE | FERRYI_ZEROS));
}

/* Returns whether the segments of a map cover [0, bytes) without a gap, none is empty, all have
 * valid sets, and no two neighbours have equal sets. */
static bool
check_segments(const ferryi_valid_map *map)
{
    ferryi_places previous = ~(ferryi_places)0;
    size_t at = 0;

    for (size_t i = 0; i < map->index->chunk_count; i++) {
        const struct ferryi_map_chunk *chunk = map->index->chunks[i];
        for (size_t k = 0; k < chunk->count; k++) {
            struct ferryi_segment segment = chunk->segments[k];
            if (segment.begin != at || segment.end <= at || segment.places == previous)
                return false;
            if (!is_possible(segment.places))
                return false;
            at = segment.end;
            previous = segment.places;
        }
    }
    return at == map->bytes;
}

/* Checks the invariants of a map:
 * - The segments are sorted, gapless and merged.
 * - The counts are right.
 * - Any two neighbouring chunks together contain more than HALF segments (valid_map_chunk.h).
 * - The map has the memory for its reservations. */
static bool
is_consistent(const ferryi_valid_map *map)
{
    size_t segments = 0;

    if (!check_room(map))
        return false;
    if (map->index->chunk_count == 0)
        return map->index->segment_count == 1 && (map->bytes > 0 || map->whole == 0) &&
               is_possible(map->whole);
    for (size_t i = 0; i < map->index->chunk_count; i++) {
        size_t count = map->index->chunks[i]->count;
        if (count == 0 || count > FERRYI_CHUNK_FULL ||
            (i > 0 && map->index->chunks[i - 1]->count + count <= FERRYI_CHUNK_HALF))
            return false;
        segments += count;
    }
    return map->whole == 0 && segments > 1 && segments == map->index->segment_count &&
           check_segments(map);
}

/* -- random histories -------------------------------------------------------------------------- */

struct history {
    ferryi_valid_map map;
    ferryi_places *sets; /* the expected set of valid places for each byte up to `limit` */
    size_t limit;        /* maximal number of bytes */
    size_t reservations;
    int places;
    size_t operation;
};

/* Fails the test if `holds` is false. The message contains the seed and the number of the
 * operation, so that the failure can be reproduced. */
static void
must(const struct history *h, bool holds, const char *what)
{
    if (!holds)
        fail_msg("seed %u, up to %zu bytes, operation %zu: %s", SEED, h->limit, h->operation, what);
}

static void
compare(const struct history *h)
{
    must(h, is_consistent(&h->map), "the map is consistent");
    for (size_t at = 0; at < h->map.bytes;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&h->map, at);
        must(h, segment.begin == at && segment.end > at && segment.end <= h->map.bytes,
             "walking finds neighbours");
        for (; at < segment.end; at++)
            must(h, h->sets[at] == segment.places, "each byte has the oracle's set");
    }
}

/* Returns a random range. Most ranges are short, so that the map has many segments. One range in 16
 * has a random length up to that of the whole map. */
static void
random_range(const struct history *h, size_t *begin, size_t *end)
{
    size_t longest = random_below(16) == 0 ? h->map.bytes : ferryi_min_size(8, h->map.bytes);
    size_t length = 1 + random_below(longest);
    *begin = random_below(h->map.bytes - length + 1);
    *end = *begin + length;
}

static enum ferryi_change
random_change(void)
{
    return (enum ferryi_change)(FERRYI_CHANGE_READ + (int)random_below(6));
}

static void
oracle_change(struct history *h, int place, enum ferryi_change change, size_t begin, size_t end)
{
    for (size_t b = begin; b < end; b++)
        h->sets[b] = ferryi_coherence_change(h->sets[b], place, change);
}

static void
do_commit(struct history *h, bool whole)
{
    const ferryi_valid_map *map = &h->map;
    int place = (int)random_below((size_t)h->places);
    enum ferryi_change change = random_change();
    size_t begin = 0, end = map->bytes;
    size_t chunks = map->index->chunk_count + map->index->spare_count,
           capacity = map->index->chunk_capacity;
    const void *index = map->index;

    if (whole || map->bytes == 0) {
        ferryi_valid_map_commit_whole(&h->map, place, change);
    } else {
        random_range(h, &begin, &end);
        ferryi_valid_map_commit(&h->map, place, change, begin, end);
        h->reservations--;
    }
    oracle_change(h, place, change, begin, end);
    /* A commit neither allocates nor frees chunks, so the total number of used and unused chunks
     * must not change. */
    must(h, map->index->chunk_count + map->index->spare_count == chunks, "commits keep all chunks");
    must(h, map->index == index && map->index->chunk_capacity == capacity,
         "commits keep the index");
}

static void
do_resize(struct history *h)
{
    size_t old = h->map.bytes;
    size_t bytes = random_below(8) == 0 ? random_below(h->limit + 1)
                                        : h->limit - random_below(h->limit / 8 + 1);

    if (h->reservations == 0) {
        reservation(&h->map);
        h->reservations++;
    }
    ferryi_valid_map_resize(&h->map, bytes);
    h->reservations--;
    for (size_t b = old; b < bytes; b++)
        h->sets[b] = 0;
    must(h, h->map.bytes == bytes, "resize sets the length");
}

/* Plans the move of one byte. Returns whether the byte must be moved, and sets `*out_source` to the
 * source. test_coherence.c checks that this source is the right one. */
static bool
oracle_move(const struct history *h, size_t b, int place, ferryi_places same,
            ferryi_places reachable, int *out_source)
{
    *out_source = ferryi_coherence_find(h->sets[b], place, same, reachable);
    return *out_source != FERRYI_NOT_NEEDED && *out_source != FERRYI_NOWHERE;
}

/* Plans the moves of a range with several calls, each of which has room for only a few moves.
 * Checks that the result equals a plan for each byte. */
static void
do_plan(struct history *h)
{
    struct ferryi_map_move moves[5];
    size_t begin = 0, end = 0;
    size_t room = 1 + random_below(4);
    int place = (int)random_below((size_t)h->places);
    ferryi_places reachable = (ferryi_places)random_below((size_t)1 << h->places);
    ferryi_places same = random_below(2) ? (ferryi_places)random_below((size_t)1 << h->places) |
                                               FERRYI_PLACE_BIT(place)
                                         : 0;

    if (h->map.bytes > 0)
        random_range(h, &begin, &end);
    for (size_t at = begin; at < end;) {
        size_t next = SIZE_MAX;
        bool lost, oracle_lost = false;
        size_t count = ferryi_valid_map_plan(&h->map, place, at, end, same, reachable, moves, room,
                                             &next, &lost);
        must(h, next > at && next <= end && count <= room, "plan gets on");
        must(h, next == end || count == room, "plan stops only for lack of room");
        size_t k = 0;
        for (size_t b = at; b < next; b++) {
            int source;
            bool needed = oracle_move(h, b, place, same, reachable, &source);
            while (k < count && moves[k].end <= b)
                k++;
            must(h, needed == (k < count && moves[k].begin <= b), "plan moves what is lacking");
            must(h, !needed || source == moves[k].source, "plan takes the right source");
            oracle_lost |= h->sets[b] == FERRYI_LOST;
        }
        for (size_t i = 1; i < count; i++)
            must(h, moves[i - 1].end < moves[i].begin || moves[i - 1].source != moves[i].source,
                 "plan joins moves");
        must(h, count == 0 || (moves[0].begin >= at && moves[count - 1].end <= next),
             "plan keeps inside the range");
        must(h, lost == oracle_lost, "plan tells what is lost");
        at = next;
    }
}

static void
do_holds(const struct history *h)
{
    size_t begin = 0, end = 0;
    int place = (int)random_below((size_t)h->places);
    bool holds = true;

    if (h->map.bytes > 0)
        random_range(h, &begin, &end);
    for (size_t b = begin; b < end; b++)
        holds = holds && (h->sets[b] & FERRYI_PLACE_BIT(place));
    must(h, ferryi_valid_map_holds(&h->map, place, begin, end) == holds, "holds agrees");
    must(h, !ferryi_valid_map_holds_fast(&h->map, place) || holds,
         "the fast question is never wrong");
}

static void
do_any(struct history *h, size_t reservations_max)
{
    size_t dice = random_below(1000);

    if (dice < 400 && h->reservations < reservations_max) {
        uint32_t count = 1 + (uint32_t)random_below(2) * (uint32_t)random_below(4);
        reserve_many(&h->map, count);
        h->reservations += count;
    } else if (dice < 420 && h->reservations > 0) {
        uint32_t count = 1 + (uint32_t)random_below(ferryi_min_size(h->reservations, 4));
        ferryi_valid_map_unreserve(&h->map, count);
        h->reservations -= count;
    } else if (dice < 800 && h->reservations > 0) {
        do_commit(h, false);
    } else if (dice == 800) {
        do_commit(h, true);
    } else if (dice < 803) {
        do_resize(h);
    } else if (dice < 820) {
        take_excess(&h->map);
    } else if (dice < 900) {
        do_holds(h);
    } else {
        do_plan(h);
    }
    must(h, h->map.reserved == h->reservations, "reservations are counted");
}

static void
run_history(size_t limit, int places, size_t operations, size_t check_every,
            size_t reservations_max)
{
    struct history h = {.limit = limit, .places = places};
    random_state = SEED;
    h.sets = calloc(limit, sizeof(h.sets[0]));
    assert_non_null(h.sets);
    ferryi_valid_map_init(&h.map, limit, 0);

    for (h.operation = 0; h.operation < operations; h.operation++) {
        do_any(&h, reservations_max);
        if (h.operation % check_every == 0)
            compare(&h);
    }
    compare(&h);
    ferryi_valid_map_clear(&h.map);
    free(h.sets);
}

static void
test_random_history_of_a_small_map(void **state)
{
    (void)state;
    run_history(40, 2, 300000, 1, 8);
}

static void
test_random_history_of_some_chunks(void **state)
{
    (void)state;
    run_history(1000, 4, 400000, 16, 40);
}

static void
test_random_history_of_many_chunks(void **state)
{
    (void)state;
    run_history(20000, 16, 300000, 2048, 300);
}

/* -- reservations
 * ---------------------------------------------------------------------------------- */

/* Makes all reservations, and only then splits segments by overwriting single bytes. Returns the
 * number of the map's chunks, including unused ones. */
static size_t
cut_on_reservations(ferryi_valid_map *map, size_t reservations, size_t first, size_t stride)
{
    for (size_t i = 0; i < reservations / 2; i++)
        reservation(map);
    reserve_many(map, (uint32_t)(reservations - reservations / 2));
    size_t chunks = map->index->chunk_count + map->index->spare_count;
    for (size_t i = 0; i < reservations; i++) {
        size_t at = first + stride * i;
        ferryi_valid_map_commit(map, 1, FERRYI_CHANGE_OVERWRITE, at, at + 1);
        assert_true(is_consistent(map));
    }
    assert_int_equal(map->index->chunk_count + map->index->spare_count, chunks);
    assert_int_equal(map->reserved, 0);
    return chunks;
}

static void
test_many_reservations_hold_together(void **state)
{
    (void)state;
    ferryi_valid_map map;
    ferryi_valid_map_init(&map, 4000, FERRYI_PLACE_BIT(0));

    size_t chunks = cut_on_reservations(&map, 1000, 1, 2);
    assert_int_equal(map.index->segment_count, 2001);
    assert_true(chunks <= 1 + 2 * 1000 / 16);
    /* These calls split the last segment of the map. Some chunks become full between a reservation
     * and its commit. */
    cut_on_reservations(&map, 500, 2001, 2);
    cut_on_reservations(&map, 498, 3001, 2);
    assert_int_equal(map.index->segment_count, 2 * 1998 + 1);
    ferryi_valid_map_clear(&map);
}

/* Initializes a map with `cuts` pairs of segments of ten bytes. Each chunk is filled to a little
 * more than half. */
static void
init_striped(ferryi_valid_map *map, size_t cuts)
{
    ferryi_valid_map_init(map, 20 * cuts + 100, FERRYI_PLACE_BIT(0));
    for (size_t i = 0; i < cuts; i++)
        reserve_and_commit(map, 1, FERRYI_CHANGE_OVERWRITE, 20 * i, 20 * i + 10);
}

/* Merges inner segments of the chunk until the chunk has only `count` segments. */
static void
thin_chunk(ferryi_valid_map *map, const struct ferryi_map_chunk *chunk, size_t count)
{
    size_t last = 2 + chunk->count - count;
    reserve_and_commit(map, 5, FERRYI_CHANGE_OVERWRITE, chunk->segments[2].begin,
                       chunk->segments[last].end);
    assert_int_equal(chunk->count, count);
}

/* Splits segments of the chunk until the chunk is full. Returns the position of a byte inside a
 * segment that was not split. */
static size_t
fill_chunk(ferryi_valid_map *map, const struct ferryi_map_chunk *chunk)
{
    size_t next = 1;
    while (chunk->count < FERRYI_CHUNK_FULL) {
        size_t begin = chunk->segments[next].begin;
        reserve_and_commit(map, 2, FERRYI_CHANGE_READ, begin, begin + 1);
        next += 2;
    }
    return chunk->segments[next].begin + 5;
}

/* Checks that one reservation is enough for the worst case of a commit: both ends of the range
 * split a segment in a full chunk. */
static void
test_one_reservation_is_enough_for_two_splits(void **state)
{
    (void)state;
    ferryi_valid_map map;
    init_striped(&map, 200);
    size_t begin = fill_chunk(&map, map.index->chunks[1]);
    size_t end = fill_chunk(&map, map.index->chunks[3]);
    size_t chunks = map.index->chunk_count;

    take_excess(&map);
    reservation(&map);
    assert_true(map.index->spare_count >= 2);
    /* A READ at this place merges no segments, so the commit frees no chunk. */
    ferryi_valid_map_commit(&map, 3, FERRYI_CHANGE_READ, begin, end);
    assert_int_equal(map.index->chunk_count, chunks + 2);
    assert_true(is_consistent(&map));
    ferryi_valid_map_clear(&map);
}

static void
test_changes_of_the_whole_need_no_reservation(void **state)
{
    (void)state;
    ferryi_valid_map map;
    ferryi_valid_map_init(&map, 4096, 0);
    for (int place = 0; place < FERRYI_PLACES_MAX; place++)
        ferryi_valid_map_commit_whole(&map, place, FERRYI_CHANGE_READ);
    assert_int_equal(map.whole, FERRYI_ZEROS | FERRYI_EVERY_PLACE);
    assert_int_equal(map.index->spare_count, 0);
    assert_int_equal(map.index->chunk_capacity, 0);

    reserve_and_commit(&map, 3, FERRYI_CHANGE_OVERWRITE, 100, 200);
    ferryi_valid_map_commit_whole(&map, 4, FERRYI_CHANGE_READ);
    assert_int_equal(map.index->segment_count, 3);
    ferryi_valid_map_commit_whole(&map, 4, FERRYI_CHANGE_WRITE);
    assert_int_equal(map.index->segment_count, 1);
    assert_int_equal(map.index->chunk_count, 0);
    assert_true(ferryi_valid_map_holds_fast(&map, 4));
    ferryi_valid_map_clear(&map);
}

static ferry_status
make_supply(struct ferryi_map_supply *supply, size_t chunks, size_t index_capacity)
{
    supply->wanted_chunks = chunks;
    supply->wanted_capacity = index_capacity;
    return ferryi_map_supply_make(supply);
}

static void
test_a_supply_that_is_too_small_reserves_nothing(void **state)
{
    (void)state;
    ferryi_valid_map map;
    struct ferryi_map_supply supply = {0};

    ferryi_valid_map_init(&map, 100, 0);
    assert_false(ferryi_valid_map_reserve(&map, 1, NULL));
    assert_false(ferryi_valid_map_reserve(&map, 1, &supply));
    assert_int_equal(supply.wanted_chunks, 1);
    assert_int_equal(supply.wanted_capacity, 1);
    assert_int_equal(make_supply(&supply, 1, 0), FERRY_OK);
    assert_false(ferryi_valid_map_reserve(&map, 1, &supply));
    assert_int_equal(supply.chunk_count, 1);
    assert_int_equal(map.reserved, 0);
    assert_int_equal(map.index->spare_count, 0);

    /* ferryi_map_supply_make() must not allocate chunks if the supply has enough of them. */
    struct ferryi_map_chunk *first = supply.chunks;
    assert_int_equal(make_supply(&supply, 1, 1), FERRY_OK);
    assert_ptr_equal(supply.chunks, first);
    assert_int_equal(supply.chunk_count, 1);
    assert_true(ferryi_valid_map_reserve(&map, 1, &supply));
    assert_int_equal(map.reserved, 1);
    ferryi_map_supply_free(&supply);
    ferryi_valid_map_clear(&map);
}

static void
test_a_supply_that_does_not_fit_memory_is_out_of_memory(void **state)
{
    (void)state;
    struct ferryi_map_supply supply = {0};

    assert_int_equal(make_supply(&supply, SIZE_MAX, 0), FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "valid map"));
    assert_int_equal(make_supply(&supply, SIZE_MAX / 1024, 0), FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(make_supply(&supply, PTRDIFF_MAX / sizeof(struct ferryi_map_chunk) + 1, 0),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(make_supply(&supply, 0, PTRDIFF_MAX / sizeof(void *) + 1),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(make_supply(&supply, 0, SIZE_MAX), FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(make_supply(&supply, 2, SIZE_MAX / 8), FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(supply.chunk_count, 2);
    assert_null(supply.index);
    /* A request for a larger index must replace the index of the supply. A request for a smaller
     * index must keep it. */
    assert_int_equal(make_supply(&supply, 0, 4), FERRY_OK);
    assert_int_equal(make_supply(&supply, 0, 8), FERRY_OK);
    assert_int_equal(supply.index->chunk_capacity, 8);
    assert_int_equal(make_supply(&supply, 0, 2), FERRY_OK);
    assert_int_equal(supply.index->chunk_capacity, 8);
    ferryi_map_supply_free(&supply);
    assert_null(supply.chunks);
    ferryi_map_supply_free(&supply);
}

static void
test_excess_goes_out_and_reserved_chunks_stay(void **state)
{
    (void)state;
    ferryi_valid_map map;
    ferryi_valid_map_init(&map, 4000, FERRYI_PLACE_BIT(0));
    cut_on_reservations(&map, 1000, 1, 2);
    for (size_t i = 0; i < 100; i++)
        reservation(&map);
    ferryi_valid_map_commit_whole(&map, 0, FERRYI_CHANGE_WRITE);
    assert_int_equal(map.index->segment_count, 1);
    assert_true(ferryi_valid_map_has_excess(&map));
    take_excess(&map);
    assert_false(ferryi_valid_map_has_excess(&map));
    assert_true(is_consistent(&map));
    assert_true(map.index->spare_count >= 1 + 200 / 32);

    for (size_t i = 0; i < 100; i++)
        ferryi_valid_map_commit(&map, 1, FERRYI_CHANGE_WRITE, 2 * i + 1, 2 * i + 2);
    assert_int_equal(map.index->segment_count, 201);
    ferryi_valid_map_commit_whole(&map, 0, FERRYI_CHANGE_WRITE);
    take_excess(&map);
    assert_int_equal(map.index->spare_count, 2);
    /* The two spare chunks must be enough for the next write of a part of the buffer. */
    assert_true(ferryi_valid_map_reserve(&map, 1, NULL));
    ferryi_valid_map_clear(&map);
}

/* -- few chunks -------------------------------------------------------------------------------- */

/* Checks that a chunk is merged with the next one. A write merges the first segment of the chunk
 * into the previous chunk. The rest of the chunk is then small enough. */
static void
test_thin_chunks_join_behind_the_range(void **state)
{
    (void)state;
    ferryi_valid_map map;
    init_striped(&map, 200);
    thin_chunk(&map, map.index->chunks[2], 16);
    thin_chunk(&map, map.index->chunks[3], 17);
    size_t chunks = map.index->chunk_count;
    assert_true(is_consistent(&map));

    struct ferryi_segment first = map.index->chunks[2]->segments[0];
    int place = first.places == FERRYI_PLACE_BIT(1) ? 1 : 0;
    reserve_and_commit(&map, place, FERRYI_CHANGE_OVERWRITE, first.begin - 10, first.begin);
    assert_int_equal(map.index->chunk_count, chunks - 1);
    assert_true(is_consistent(&map));
    ferryi_valid_map_clear(&map);
}

static void
test_thin_chunks_join_when_the_rest_is_cut_off(void **state)
{
    (void)state;
    ferryi_valid_map map;
    init_striped(&map, 200);
    thin_chunk(&map, map.index->chunks[2], 16);
    size_t bytes = map.index->chunks[3]->segments[0].begin + 1;
    size_t segments = map.index->chunks[0]->count + map.index->chunks[1]->count + 17;

    resize(&map, bytes);
    assert_int_equal(map.index->chunk_count, 3);
    assert_int_equal(map.index->segment_count, segments);
    assert_true(is_consistent(&map));
    ferryi_valid_map_clear(&map);
}

/* -- edges ------------------------------------------------------------------------------------- */

static void
test_an_empty_map_has_one_empty_segment(void **state)
{
    (void)state;
    ferryi_valid_map map;
    bool lost = true;
    size_t next = 7;

    ferryi_valid_map_init(&map, 0, FERRYI_PLACE_BIT(0));
    assert_true(is_consistent(&map));
    assert_int_equal(map.index->segment_count, 1);
    ferryi_valid_map_commit_whole(&map, 1, FERRYI_CHANGE_WRITE);
    assert_true(ferryi_valid_map_holds(&map, 5, 0, 0));
    assert_int_equal(ferryi_valid_map_plan(&map, 1, 0, 0, 0, 0, NULL, 0, &next, &lost), 0);
    assert_int_equal(next, 0);
    assert_false(lost);

    /* Bytes that a resize adds must count as never written. */
    resize(&map, 10);
    assert_int_equal(ferryi_valid_map_at(&map, 9).places, 0);
    assert_int_equal(ferryi_valid_map_at(&map, 9).end, 10);
    ferryi_valid_map_clear(&map);
    ferryi_valid_map_clear(&map);
}

static void
test_resize_keeps_the_prefix_and_forgets_the_rest(void **state)
{
    (void)state;
    ferryi_valid_map map;
    ferryi_valid_map_init(&map, 10, FERRYI_PLACE_BIT(2));
    resize(&map, 20);
    assert_int_equal(map.reserved, 0);
    assert_int_equal(ferryi_valid_map_at(&map, 9).places, FERRYI_PLACE_BIT(2));
    assert_int_equal(ferryi_valid_map_at(&map, 10).places, 0);

    resize(&map, 20);
    assert_int_equal(map.index->segment_count, 2);
    resize(&map, 5);
    assert_int_equal(map.index->segment_count, 1);
    assert_int_equal(map.index->chunk_count, 0);
    resize(&map, 20);
    assert_int_equal(ferryi_valid_map_at(&map, 7).places, 0);
    resize(&map, 0);
    assert_true(is_consistent(&map));
    assert_int_equal(map.whole, 0);
    ferryi_valid_map_clear(&map);
}

/* Plans moves into an array that has room for only one move. When the array is full, planning must
 * go on over bytes that extend the last move or need no move. It must stop at the next move. */
static void
test_plan_joins_over_chunks_and_stops_at_the_next_move(void **state)
{
    (void)state;
    ferryi_valid_map map;
    struct ferryi_map_move move;
    size_t next;
    bool lost;

    ferryi_valid_map_init(&map, 1000, FERRYI_PLACE_BIT(0));
    for (size_t i = 0; i < 200; i++)
        reserve_and_commit(&map, 1, FERRYI_CHANGE_READ, 4 * i, 4 * i + 2);
    assert_true(map.index->chunk_count > 2);

    assert_int_equal(ferryi_valid_map_plan(&map, 2, 1, 999, 0, 0, &move, 1, &next, &lost), 1);
    assert_int_equal(next, 999);
    assert_int_equal(move.begin, 1);
    assert_int_equal(move.end, 999);
    assert_int_equal(ferryi_valid_map_plan(&map, 1, 0, 8, 0, 0, &move, 1, &next, &lost), 1);
    assert_int_equal(next, 6);
    assert_int_equal(move.begin, 2);
    assert_int_equal(move.end, 4);
    ferryi_valid_map_clear(&map);
}

/* -- size -------------------------------------------------------------------------------------- */

static void
shuffle(uint32_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        size_t k = random_below(i);
        uint32_t swapped = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swapped;
    }
}

/* Sets the field `what` to a wrong value, checks that is_consistent() detects it, and
 * restores the value. */
#define BREAK(what, value)                                                                         \
    do {                                                                                           \
        __typeof__(what) right_ = (what);                                                          \
        (what) = (value);                                                                          \
        if (is_consistent(&map))                                                                   \
            fail_msg("%s = %s is not noticed", #what, #value);                                     \
        (what) = right_;                                                                           \
        assert_true(is_consistent(&map));                                                          \
    } while (0)

static void
test_the_check_notices_each_broken_rule(void **state)
{
    (void)state;
    ferryi_valid_map map;
    ferryi_valid_map_init(&map, 0, 0);
    BREAK(map.whole, 1);
    ferryi_valid_map_init(&map, 1000, FERRYI_PLACE_BIT(0));
    reserve_and_commit(&map, 1, FERRYI_CHANGE_WRITE, 10, 20);
    ferryi_valid_map_commit_whole(&map, 0, FERRYI_CHANGE_WRITE);
    BREAK(map.index->segment_count, 2);

    for (size_t i = 0; i < 100; i++)
        reserve_and_commit(&map, 1, FERRYI_CHANGE_WRITE, 4 * i + 1, 4 * i + 2);
    struct ferryi_map_index *index = map.index;
    struct ferryi_segment *segments = index->chunks[1]->segments;
    assert_true(index->chunk_count > 2);
    BREAK(index->segment_count, 200);
    BREAK(index->spare_count, index->spare_count + 1);
    BREAK(index->chunk_capacity, index->chunk_count - 1);
    BREAK(map.reserved, 1000);
    BREAK(map.whole, 1);
    BREAK(map.bytes, 1001);
    BREAK(index->chunks[0]->count, 0);
    BREAK(index->chunks[0]->count, FERRYI_CHUNK_FULL + 1);
    BREAK(segments[3].begin, segments[3].begin + 1);
    BREAK(segments[3].end, segments[3].begin);
    BREAK(segments[3].places, segments[2].places);
    BREAK(segments[3].places, FERRYI_LOST | 1);
    BREAK(segments[3].places, FERRYI_ZEROS);
    BREAK(segments[3].places, 2 * FERRYI_ZEROS);
    size_t first = index->chunks[0]->count, second = index->chunks[1]->count;
    index->chunks[0]->count = index->chunks[1]->count = FERRYI_CHUNK_HALF / 2;
    assert_false(is_consistent(&map));
    index->chunks[0]->count = first;
    index->chunks[1]->count = second;
    assert_true(is_consistent(&map));
    /* A map with one segment must have no chunk. */
    index->segment_count = 1;
    index->chunks[0]->count = 1;
    size_t chunks = index->chunk_count;
    index->chunk_count = 1;
    assert_false(is_consistent(&map));
    index->chunk_count = chunks;
    index->chunks[0]->count = first;
    ferryi_valid_map_clear(&map);
}

/* Makes 10^5 segments and merges them one by one in random order. If the segments were one
 * contiguous array, this test would take minutes. */
static void
test_a_hundred_thousand_segments(void **state)
{
    (void)state;
    enum { CUTS = 50000 };
    static uint32_t order[CUTS];
    ferryi_valid_map map;

    random_state = SEED;
    shuffle(order, CUTS);
    ferryi_valid_map_init(&map, 2 * CUTS + 1, 0);
    for (size_t i = 0; i < CUTS; i++)
        reserve_and_commit(&map, 1, FERRYI_CHANGE_WRITE, 2 * (size_t)order[i] + 1,
                           2 * (size_t)order[i] + 2);
    assert_int_equal(map.index->segment_count, 2 * CUTS + 1);
    assert_true(map.index->chunk_count <= map.index->segment_count / 16 + 1);
    take_excess(&map);
    /* The memory for a commit does not grow with the number of nearly full chunks. */
    assert_true(ferryi_chunks_needed(&map, 1) <= 2);
    assert_true(is_consistent(&map));

    shuffle(order, CUTS);
    for (size_t i = 0; i < CUTS; i++)
        reserve_and_commit(&map, 1, FERRYI_CHANGE_DISCARD, 2 * (size_t)order[i] + 1,
                           2 * (size_t)order[i] + 2);
    assert_int_equal(map.index->segment_count, 1);
    assert_int_equal(map.index->chunk_count, 0);
    assert_true(is_consistent(&map));
    ferryi_valid_map_clear(&map);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_history_of_a_small_map),
        cmocka_unit_test(test_random_history_of_some_chunks),
        cmocka_unit_test(test_random_history_of_many_chunks),
        cmocka_unit_test(test_many_reservations_hold_together),
        cmocka_unit_test(test_one_reservation_is_enough_for_two_splits),
        cmocka_unit_test(test_changes_of_the_whole_need_no_reservation),
        cmocka_unit_test(test_a_supply_that_is_too_small_reserves_nothing),
        cmocka_unit_test(test_a_supply_that_does_not_fit_memory_is_out_of_memory),
        cmocka_unit_test(test_excess_goes_out_and_reserved_chunks_stay),
        cmocka_unit_test(test_thin_chunks_join_behind_the_range),
        cmocka_unit_test(test_thin_chunks_join_when_the_rest_is_cut_off),
        cmocka_unit_test(test_an_empty_map_has_one_empty_segment),
        cmocka_unit_test(test_resize_keeps_the_prefix_and_forgets_the_rest),
        cmocka_unit_test(test_plan_joins_over_chunks_and_stops_at_the_next_move),
        cmocka_unit_test(test_the_check_notices_each_broken_rule),
        cmocka_unit_test(test_a_hundred_thousand_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
