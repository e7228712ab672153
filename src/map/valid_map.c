/* SPDX-License-Identifier: MIT */
#include "src/map/valid_map_chunk.h"

#include <assert.h>
#include <string.h>

/* -- chunks ------------------------------------------------------------------------------------ */

static void
set_count(ferryi_valid_map *map, struct ferryi_map_chunk *chunk, size_t count)
{
    map->index->segment_count = map->index->segment_count - chunk->count + count;
    chunk->count = count;
}

/* Takes a chunk (an array of segments) from the map's list of spare chunks and returns it empty.
 * The caller's reservation guarantees that a spare chunk exists, and that the map's index has room
 * for it. */
static struct ferryi_map_chunk *
take_reserved(ferryi_valid_map *map)
{
    assert(map->index->spare && map->index->chunk_count < map->index->chunk_capacity);
    struct ferryi_map_chunk *chunk = ferryi_chunk_take_spare(map);
    chunk->count = 0;
    return chunk;
}

static void
remove_segments(ferryi_valid_map *map, struct ferryi_map_chunk *chunk, size_t first, size_t count)
{
    size_t tail = chunk->count - first - count;
    memmove(&chunk->segments[first], &chunk->segments[first + count],
            tail * sizeof(chunk->segments[0]));
    set_count(map, chunk, chunk->count - count);
}

/* Moves the upper half of the segments in chunks[at] to a new chunk, which is inserted after
 * chunks[at]. */
static void
split(ferryi_valid_map *map, size_t at)
{
    struct ferryi_map_chunk *lower = map->index->chunks[at];
    struct ferryi_map_chunk *upper = take_reserved(map);
    size_t kept = FERRYI_CHUNK_HALF + 1;
    size_t moved = lower->count - kept;

    memcpy(upper->segments, &lower->segments[kept], moved * sizeof(upper->segments[0]));
    set_count(map, lower, kept);
    set_count(map, upper, moved);

    memmove(&map->index->chunks[at + 2], &map->index->chunks[at + 1],
            (map->index->chunk_count - at - 1) * sizeof(map->index->chunks[0]));
    map->index->chunks[at + 1] = upper;
    map->index->chunk_count++;
}

/* `left` and `right` are neighbouring chunks (arrays of segments). Merges the last segment of
 * `left` with the first segment of `right` if both have equal sets of places. Then moves all
 * segments of `right` into `left` if both chunks together have at most FERRYI_CHUNK_HALF segments.
 * `right` may be empty after the call. */
static void
join(ferryi_valid_map *map, struct ferryi_map_chunk *left, struct ferryi_map_chunk *right)
{
    struct ferryi_segment *last = &left->segments[left->count - 1];

    if (last->places == right->segments[0].places) {
        last->end = right->segments[0].end;
        remove_segments(map, right, 0, 1);
    }
    if (right->count > 0 && left->count + right->count <= FERRYI_CHUNK_HALF) {
        memcpy(&left->segments[left->count], right->segments,
               right->count * sizeof(right->segments[0]));
        set_count(map, left, left->count + right->count);
        set_count(map, right, 0);
    }
}

/* If the map has only one segment left, stores the segment's set of places in map->whole. The map
 * then needs no chunk, so the segment's chunk becomes a spare chunk. */
static void
collapse(ferryi_valid_map *map)
{
    if (map->index->chunk_count != 1 || map->index->chunks[0]->count != 1)
        return;
    map->whole = map->index->chunks[0]->segments[0].places;
    ferryi_chunk_put_spare(map, map->index->chunks[0]);
    map->index->chunk_count = 0;
}

/* -- finding ----------------------------------------------------------------------------------- */

/* Returns the index of the chunk's first segment that ends after byte `at`. */
static size_t
find_segment(const struct ferryi_map_chunk *chunk, size_t at)
{
    size_t low = 0, high = chunk->count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (chunk->segments[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Returns the index of the chunk that contains byte `at`. `at` must be less than map->bytes, and
 * the map must have at least one chunk. */
static size_t
find_chunk(const ferryi_valid_map *map, size_t at)
{
    size_t low = 0, high = map->index->chunk_count - 1;
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if (map->index->chunks[middle]->segments[0].begin <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Position of a segment, valid until the map changes. */
struct position {
    size_t chunk, index;
};

static struct position
position_of(const ferryi_valid_map *map, size_t at)
{
    struct position position = {0, 0};
    if (map->index->chunk_count > 0) {
        position.chunk = find_chunk(map, at);
        position.index = find_segment(map->index->chunks[position.chunk], at);
    }
    return position;
}

static struct ferryi_segment
segment_at(const ferryi_valid_map *map, struct position position)
{
    if (map->index->chunk_count == 0)
        return (struct ferryi_segment){0, map->bytes, map->whole};
    return map->index->chunks[position.chunk]->segments[position.index];
}

/* Returns the position of the segment after the given one. The given segment must not be the last
 * one of the map. */
static struct position
next_position(const ferryi_valid_map *map, struct position position)
{
    position.index++;
    if (position.index == map->index->chunks[position.chunk]->count) {
        position.chunk++;
        position.index = 0;
    }
    return position;
}

struct ferryi_segment
ferryi_valid_map_at(const ferryi_valid_map *map, size_t at)
{
    assert(at < map->bytes);
    return segment_at(map, position_of(map, at));
}

bool
ferryi_valid_map_holds(const ferryi_valid_map *map, int place, size_t begin, size_t end)
{
    if (begin >= end)
        return true;
    assert(end <= map->bytes);
    for (struct position position = position_of(map, begin);;
         position = next_position(map, position)) {
        struct ferryi_segment segment = segment_at(map, position);
        if (!(segment.places & FERRYI_PLACE_BIT(place)))
            return false;
        if (segment.end >= end)
            return true;
    }
}

/* Appends `move` to the array `moves`. If `move` continues the last element and has the same
 * source, extends that element instead. Returns false if an element must be appended but the array
 * is full. */
static bool
add_move(struct ferryi_map_move *moves, size_t *made, size_t room, struct ferryi_map_move move)
{
    struct ferryi_map_move *last = *made > 0 ? &moves[*made - 1] : NULL;
    if (last && last->end == move.begin && last->source == move.source) {
        last->end = move.end;
        return true;
    }
    if (*made == room)
        return false;
    moves[*made] = move;
    (*made)++;
    return true;
}

size_t
ferryi_valid_map_plan(const ferryi_valid_map *map, int place, size_t begin, size_t end,
                      ferryi_places same, ferryi_places reachable, struct ferryi_map_move *moves,
                      size_t room, size_t *out_next, bool *out_lost)
{
    size_t made = 0;
    bool any_lost = false;

    assert(end <= map->bytes);
    if (begin < end) {
        struct position position = position_of(map, begin);
        while (true) {
            struct ferryi_segment segment = segment_at(map, position);
            int source = ferryi_coherence_find(segment.places, place, same, reachable);
            struct ferryi_map_move move = {ferryi_max_size(segment.begin, begin),
                                           ferryi_min_size(segment.end, end), source};
            if (source == FERRYI_NOWHERE) {
                any_lost = true;
            } else if (source != FERRYI_NOT_NEEDED && !add_move(moves, &made, room, move)) {
                end = move.begin;
                break;
            }
            if (segment.end >= end)
                break;
            position = next_position(map, position);
        }
    }

    *out_next = end;
    *out_lost = any_lost;
    return made;
}

/* -- changing ---------------------------------------------------------------------------------- */

/* Applies a change to the bytes [begin, end) of a map that has only one segment. */
static __attribute__((noinline)) void
cut_single(ferryi_valid_map *map, int place, enum ferryi_change change, size_t begin, size_t end)
{
    struct ferryi_segment single = {0, map->bytes, map->whole};
    struct ferryi_segment parts[3];
    size_t count = ferryi_coherence_commit(&single, 1, place, change, begin, end, parts);

    if (count == 1) {
        map->whole = parts[0].places;
        return;
    }
    struct ferryi_map_chunk *chunk = take_reserved(map);
    map->whole = 0;
    memcpy(chunk->segments, parts, count * sizeof(parts[0]));
    map->index->segment_count = 0;
    set_count(map, chunk, count);
    map->index->chunks[0] = chunk;
    map->index->chunk_count = 1;
}

/* Applies a change to those bytes of [begin, end) that lie in `chunk`. Replaces only the segments
 * that contain these bytes or are adjacent to them, because no other segment of the chunk can
 * change. */
static void
change_chunk(ferryi_valid_map *map, struct ferryi_map_chunk *chunk, int place,
             enum ferryi_change change, size_t begin, size_t end)
{
    struct ferryi_segment changed[FERRYI_CHUNK_FULL + 2];
    struct ferryi_segment *segments = chunk->segments;
    size_t first, last;

    begin = ferryi_max_size(begin, segments[0].begin);
    end = ferryi_min_size(end, segments[chunk->count - 1].end);
    first = find_segment(chunk, begin);
    last = find_segment(chunk, end - 1);
    if (first > 0 && segments[first].begin == begin)
        first--;
    if (last + 1 < chunk->count && segments[last].end == end)
        last++;

    size_t before = last - first + 1;
    size_t after =
        ferryi_coherence_commit(&segments[first], before, place, change, begin, end, changed);
    assert(chunk->count - before + after <= FERRYI_CHUNK_FULL + 2);
    memmove(&segments[first + after], &segments[last + 1],
            (chunk->count - last - 1) * sizeof(segments[0]));
    memcpy(&segments[first], changed, after * sizeof(segments[0]));
    set_count(map, chunk, chunk->count - before + after);
}

/*
 * Applies a change to the bytes [begin, end). Visits the chunks in order, beginning with
 * chunks[first]. Changes each chunk that contains bytes of the range, and joins it with its
 * predecessor (see join()). Removes chunks that become empty from the index. After the end of the
 * range, continues until join() leaves a chunk unchanged. Returns the index of the first chunk
 * after the visited ones.
 */
static size_t
change_and_join(ferryi_valid_map *map, size_t first, int place, enum ferryi_change change,
                size_t begin, size_t end)
{
    size_t kept = first;
    size_t walked = first;
    bool done = false;

    while (!done && walked < map->index->chunk_count) {
        struct ferryi_map_chunk *chunk = map->index->chunks[walked++];
        bool inside = chunk->segments[0].begin < end;
        if (inside)
            change_chunk(map, chunk, place, change, begin, end);
        size_t count = chunk->count;
        if (kept > 0)
            join(map, map->index->chunks[kept - 1], chunk);
        done = !inside && chunk->count == count;
        if (chunk->count > 0)
            map->index->chunks[kept++] = chunk;
        else
            ferryi_chunk_put_spare(map, chunk);
    }

    memmove(&map->index->chunks[kept], &map->index->chunks[walked],
            (map->index->chunk_count - walked) * sizeof(map->index->chunks[0]));
    map->index->chunk_count -= walked - kept;
    return kept;
}

static __attribute__((noinline)) void
change_chunks(ferryi_valid_map *map, int place, enum ferryi_change change, size_t begin, size_t end)
{
    size_t first = find_chunk(map, begin);
    size_t behind = change_and_join(map, first, place, change, begin, end);
    for (size_t i = behind; i-- > first;) {
        if (map->index->chunks[i]->count > FERRYI_CHUNK_FULL)
            split(map, i);
    }
    collapse(map);
}

static inline void
apply(ferryi_valid_map *map, int place, enum ferryi_change change, size_t begin, size_t end)
{
    if (map->index->chunk_count > 0)
        change_chunks(map, place, change, begin, end);
    else if (begin == 0 && end == map->bytes)
        map->whole = ferryi_coherence_change(map->whole, place, change);
    else
        cut_single(map, place, change, begin, end);
}

void
ferryi_valid_map_commit(ferryi_valid_map *map, int place, enum ferryi_change change, size_t begin,
                        size_t end)
{
    assert(begin < end && end <= map->bytes);
    assert(map->reserved > 0);
    apply(map, place, change, begin, end);
    map->reserved--;
}

void
ferryi_valid_map_commit_whole(ferryi_valid_map *map, int place, enum ferryi_change change)
{
    if (map->bytes > 0)
        apply(map, place, change, 0, map->bytes);
}

/* -- resizing ---------------------------------------------------------------------------------- */

/* Shortens a map that has chunks to `bytes` bytes. `bytes` must be less than map->bytes and must
 * not be 0. */
static void
shrink(ferryi_valid_map *map, size_t bytes)
{
    size_t keep = find_chunk(map, bytes - 1) + 1;
    struct ferryi_map_chunk *chunk = map->index->chunks[keep - 1];
    size_t segments = find_segment(chunk, bytes - 1) + 1;

    for (size_t i = keep; i < map->index->chunk_count; i++) {
        set_count(map, map->index->chunks[i], 0);
        ferryi_chunk_put_spare(map, map->index->chunks[i]);
    }
    map->index->chunk_count = keep;
    set_count(map, chunk, segments);
    chunk->segments[segments - 1].end = bytes;

    /* The last chunk may now have so few segments that it must be joined with its predecessor. */
    if (keep > 1) {
        join(map, map->index->chunks[keep - 2], chunk);
        if (chunk->count == 0) {
            ferryi_chunk_put_spare(map, chunk);
            map->index->chunk_count--;
        }
    }
    collapse(map);
}

/* Lengthens a map that has chunks to `bytes` bytes. The added bytes count as never written. */
static void
grow(ferryi_valid_map *map, size_t bytes)
{
    struct ferryi_map_chunk *chunk = map->index->chunks[map->index->chunk_count - 1];
    struct ferryi_segment *last = &chunk->segments[chunk->count - 1];

    if (last->places == 0) {
        last->end = bytes;
        return;
    }
    last[1] = (struct ferryi_segment){map->bytes, bytes, 0};
    set_count(map, chunk, chunk->count + 1);
    if (chunk->count > FERRYI_CHUNK_FULL)
        split(map, map->index->chunk_count - 1);
}

void
ferryi_valid_map_resize(ferryi_valid_map *map, size_t bytes)
{
    size_t old = map->bytes;
    assert(map->reserved > 0);

    if (bytes == 0) {
        ferryi_valid_map_commit_whole(map, 0, FERRYI_CHANGE_DISCARD);
    } else if (map->index->chunk_count > 0 && bytes < old) {
        shrink(map, bytes);
    } else if (map->index->chunk_count > 0 && bytes > old) {
        grow(map, bytes);
    }
    map->bytes = bytes;
    /* A map without chunks has one segment, which now includes the new bytes. The new bytes were
     * never written, so this call empties their set of places. */
    if (map->index->chunk_count == 0 && bytes > old)
        cut_single(map, 0, FERRYI_CHANGE_DISCARD, old, bytes);
    map->reserved--;
}

/* -- lifetime ---------------------------------------------------------------------------------- */

/* Returns the empty index that all maps share before they have chunks. No map writes to this index,
 * because a map receives its own index before its first chunk. */
static struct ferryi_map_index *
no_index(void)
{
    return (struct ferryi_map_index *)(uintptr_t)&ferryi_map_no_index;
}

void
ferryi_valid_map_init(ferryi_valid_map *map, size_t bytes, ferryi_places places)
{
    *map = (ferryi_valid_map){.bytes = bytes, .whole = bytes > 0 ? places : 0, .index = no_index()};
}

void
ferryi_valid_map_reuse(ferryi_valid_map *map, size_t bytes)
{
    ferryi_lock_is_needless(FERRYI_CLASS(ferryi_store_spin));
    map->reserved = 0;
    if (!map->index || map->index->chunk_count > 0 || ferryi_valid_map_has_excess(map)) {
        ferryi_valid_map_clear(map);
        map->index = no_index();
    }
    map->bytes = bytes;
    map->whole = 0;
}

void
ferryi_valid_map_clear(ferryi_valid_map *map)
{
    if (map->index && ferryi_map_has_index(map)) {
        for (size_t i = 0; i < map->index->chunk_count; i++)
            ferryi_chunk_put_spare(map, map->index->chunks[i]);
        struct ferryi_map_supply all = {.chunks = map->index->spare, .index = map->index};
        ferryi_map_supply_free(&all);
    }
    *map = (ferryi_valid_map){0};
}
