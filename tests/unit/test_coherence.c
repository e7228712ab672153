/* SPDX-License-Identifier: MIT */

/*
 * Compares the rules of coherence (src/map/coherence.h) with a byte-by-byte oracle, over all
 * possible sequences of operations on a small buffer.
 *
 * The oracle stores the newest value of each byte, and the value that each place has in memory. It
 * moves and writes values just as the library does, and checks the values that a reader gets. A
 * place without a valid replica of a byte holds garbage that differs from place to place. So the
 * test detects a read from a wrong place.
 *
 * The state of a buffer consists only of the set of valid places of each byte. The test explores
 * each state once, breadth first, until no new state appears. This covers sequences of any length.
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

#define BYTES_MAX  5
#define PLACES_MAX 3

/* Expected state of each byte of a buffer. */
struct oracle {
    int bytes, places;
    bool valid[BYTES_MAX][PLACES_MAX];
    bool written[BYTES_MAX];
    bool lost[BYTES_MAX];
    int newest[BYTES_MAX];
    int memory[BYTES_MAX][PLACES_MAX];
};

struct operation {
    enum ferryi_change change;
    int place;
    int begin, end;
};

/* -- the oracle -------------------------------------------------------------------------------- */

static int
count_valid(const struct oracle *o, int b)
{
    int count = 0;
    for (int p = 0; p < o->places; p++)
        count += o->valid[b][p];
    return count;
}

/* Returns the number of possible states of one byte. A byte is lost, or written, or reads as zero
 * because it was never written. A written byte is valid at one or more places. An unwritten byte
 * has its zero at any set of places, which may be empty. The state of a buffer is a number whose
 * digits are the states of its bytes. */
static int
digits_of(int places)
{
    return 2 << places;
}

static struct oracle
decode(int bytes, int places, int state)
{
    struct oracle o = {.bytes = bytes, .places = places};
    int digits = digits_of(places), lost = 1 << places;
    for (int b = 0; b < bytes; b++, state /= digits) {
        int digit = state % digits;
        o.lost[b] = digit == lost;
        o.written[b] = digit > 0 && digit <= lost;
        o.newest[b] = o.written[b] ? 100 + b : 0;
        for (int p = 0; p < places; p++) {
            o.valid[b][p] = digit >> p & 1;
            o.memory[b][p] = o.valid[b][p] ? o.newest[b] : -1 - b * PLACES_MAX - p;
        }
    }
    return o;
}

static int
encode(const struct oracle *o)
{
    int digits = digits_of(o->places), state = 0;
    for (int b = o->bytes - 1; b >= 0; b--) {
        int digit = o->lost[b] || (!o->written[b] && count_valid(o, b) > 0) ? 1 << o->places : 0;
        for (int p = 0; p < o->places; p++)
            digit |= o->valid[b][p] << p;
        state = state * digits + digit;
    }
    return state;
}

static void
oracle_leave(struct oracle *o, int b, int place, bool even_the_last)
{
    bool only = o->written[b] && count_valid(o, b) == 1;
    if (!o->valid[b][place] || (only && !even_the_last))
        return;
    o->lost[b] = only;
    o->valid[b][place] = false;
    o->memory[b][place] = -1000 - b;
}

static void
oracle_write(struct oracle *o, int b, int place)
{
    memset(o->valid[b], 0, sizeof(o->valid[b]));
    o->valid[b][place] = true;
    o->written[b] = true;
    o->lost[b] = false;
    o->newest[b] = 200 + b;
    o->memory[b][place] = o->newest[b];
}

static void
oracle_apply(struct oracle *o, struct operation op)
{
    for (int b = op.begin; b < op.end; b++) {
        switch (op.change) {
        case FERRYI_CHANGE_READ:
            if (!o->lost[b])
                o->valid[b][op.place] = true;
            break;
        case FERRYI_CHANGE_WRITE:
        case FERRYI_CHANGE_OVERWRITE:
            oracle_write(o, b, op.place);
            break;
        case FERRYI_CHANGE_FORGET:
            oracle_leave(o, b, op.place, false);
            break;
        case FERRYI_CHANGE_LOSE:
            oracle_leave(o, b, op.place, true);
            break;
        case FERRYI_CHANGE_DISCARD:
            memset(o->valid[b], 0, sizeof(o->valid[b]));
            o->written[b] = false;
            o->lost[b] = false;
            o->newest[b] = 0;
            break;
        }
    }
}

/*
 * Returns the preferred source of a byte that must be moved to `place`. The order is: a place with
 * the same memory, zeros if the byte is unwritten, a reachable device, the host, any other device.
 * If `place` is the host, every device counts as reachable.
 */
static int
oracle_source(const struct oracle *o, int b, int place, ferryi_places same, ferryi_places reachable)
{
    for (int p = 0; p < o->places; p++) {
        if (o->valid[b][p] && (same >> p & 1))
            return p;
    }
    if (!o->written[b])
        return FERRYI_ZERO;
    for (int p = 1; p < o->places; p++) {
        if (o->valid[b][p] && (place == 0 || (reachable >> p & 1)))
            return p;
    }
    for (int p = 0; p < o->places; p++) {
        if (o->valid[b][p])
            return p;
    }
    return FERRYI_ZERO;
}

/* -- between oracle and coherence -------------------------------------------------------------- */

static ferryi_places
set_of(const struct oracle *o, int b)
{
    ferryi_places set = o->lost[b]                                ? FERRYI_LOST
                        : !o->written[b] && count_valid(o, b) > 0 ? FERRYI_ZEROS
                                                                  : 0;
    for (int p = 0; p < o->places; p++)
        set |= o->valid[b][p] ? FERRYI_PLACE_BIT(p) : 0;
    return set;
}

static size_t
segments_of(const struct oracle *o, struct ferryi_segment *segments)
{
    size_t count = 0;
    for (int b = 0; b < o->bytes; b++) {
        if (count > 0 && segments[count - 1].places == set_of(o, b))
            segments[count - 1].end++;
        else
            segments[count++] = (struct ferryi_segment){(size_t)b, (size_t)b + 1, set_of(o, b)};
    }
    return count;
}

/* Builds the smallest array of segments that a caller may pass for an operation. The array contains
 * the segments that overlap or touch the operation's range. */
static size_t
window_of(const struct ferryi_segment *all, size_t count, struct operation op,
          struct ferryi_segment *window)
{
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        if (all[i].end >= (size_t)op.begin && all[i].begin <= (size_t)op.end)
            window[made++] = all[i];
    }
    return made;
}

/* -- what must hold ---------------------------------------------------------------------------- */

static void
check_moves(struct oracle *o, struct operation op, ferryi_places same, ferryi_places reachable,
            const struct ferryi_map_move *moves, size_t count)
{
    bool moved[BYTES_MAX] = {false};
    for (size_t i = 0; i < count; i++) {
        assert_true(moves[i].begin < moves[i].end);
        assert_true(moves[i].begin >= (size_t)op.begin && moves[i].end <= (size_t)op.end);
        if (i > 0) {
            assert_true(moves[i].begin >= moves[i - 1].end);
            assert_false(moves[i].begin == moves[i - 1].end &&
                         moves[i].source == moves[i - 1].source);
        }
        for (size_t b = moves[i].begin; b < moves[i].end; b++) {
            assert_int_equal(moves[i].source, oracle_source(o, (int)b, op.place, same, reachable));
            o->memory[b][op.place] =
                moves[i].source == FERRYI_ZERO ? 0 : o->memory[b][moves[i].source];
            moved[b] = true;
        }
    }
    for (int b = op.begin; b < op.end; b++) {
        /* A byte must be moved if and only if the place lacks the byte and the byte is not lost. */
        assert_int_equal(moved[b], !o->lost[b] && !o->valid[b][op.place]);
        if (!o->lost[b])
            assert_int_equal(o->memory[b][op.place], o->newest[b]);
    }
}

/* Plans the moves of a range. Calls the planner of the valid map on a map that contains only the
 * segments of the window. */
static size_t
plan(const struct ferryi_segment *window, size_t count, int place, size_t begin, size_t end,
     ferryi_places same, ferryi_places reachable, struct ferryi_map_move *moves, bool *out_lost)
{
    static struct ferryi_map_index *index;
    struct ferryi_map_chunk chunk = {.count = count};
    if (!index)
        index = calloc(1, sizeof(*index) + sizeof(index->chunks[0]));
    assert_non_null(index);
    memcpy(chunk.segments, window, count * sizeof(*window));
    *index = (struct ferryi_map_index){.segment_count = count, .chunk_count = 1};
    index->chunks[0] = &chunk;
    const ferryi_valid_map map = {.bytes = window[count - 1].end, .index = index};
    size_t next;
    size_t made = ferryi_valid_map_plan(&map, place, begin, end, same, reachable, moves, count,
                                        &next, out_lost);
    assert_int_equal(next, end);
    return made;
}

static void
check_plan_with(const struct oracle *o, const struct ferryi_segment *window, size_t count,
                struct operation op, ferryi_places same, ferryi_places reachable)
{
    struct ferryi_map_move moves[BYTES_MAX + 1];
    struct oracle after = *o;
    bool lost_in_range = false;
    for (int b = op.begin; b < op.end; b++)
        lost_in_range |= o->lost[b];

    bool lost = !lost_in_range;
    memset(moves, 0x55, sizeof(moves));
    size_t made = plan(window, count, op.place, (size_t)op.begin, (size_t)op.end, same, reachable,
                       moves, &lost);
    assert_true(made <= count);
    assert_int_equal(moves[count].source, 0x55555555);
    assert_int_equal(lost, lost_in_range);
    check_moves(&after, op, same, reachable, moves, made);
}

/* Checks the planned moves of an operation, for every set of reachable places and every set of
 * places with the same memory. */
static void
check_plan(const struct oracle *o, const struct ferryi_segment *window, size_t count,
           struct operation op)
{
    ferryi_places all = FERRYI_PLACE_BIT(o->places) - 1;
    for (ferryi_places reachable = 0; reachable <= all; reachable++) {
        check_plan_with(o, window, count, op, 0, reachable);
        for (ferryi_places same = 0; same <= all; same++) {
            if (same >> op.place & 1)
                check_plan_with(o, window, count, op, same, reachable);
        }
    }
}

static void
check_commit(const struct oracle *after, const struct ferryi_segment *window, size_t count,
             struct operation op)
{
    struct ferryi_segment out[BYTES_MAX + 3];
    memset(out, 0x55, sizeof(out));
    size_t made = ferryi_coherence_commit(window, count, op.place, op.change, (size_t)op.begin,
                                          (size_t)op.end, out);

    assert_true(made >= 1 && made <= count + 2);
    assert_int_equal(out[count + 2].places, 0x55555555);
    assert_int_equal(out[0].begin, window[0].begin);
    assert_int_equal(out[made - 1].end, window[count - 1].end);
    for (size_t i = 0; i < made; i++) {
        assert_true(out[i].begin < out[i].end);
        if (i > 0) {
            assert_int_equal(out[i].begin, out[i - 1].end);
            assert_int_not_equal(out[i].places, out[i - 1].places);
        }
        for (size_t b = out[i].begin; b < out[i].end; b++)
            assert_int_equal(out[i].places, set_of(after, (int)b));
    }
}

/* Checks that, after the operation, each valid replica of a byte has the newest value of the byte.
 */
static void
check_values(const struct oracle *before, const struct oracle *after, struct operation op)
{
    for (int b = 0; b < after->bytes; b++) {
        ferryi_places set = set_of(after, b);
        for (int p = 0; p < after->places; p++) {
            if (set & FERRYI_PLACE_BIT(p))
                assert_int_equal(after->memory[b][p], after->newest[b]);
        }
        if (set == 0 || set & FERRYI_ZEROS)
            assert_int_equal(after->newest[b], 0);
        if (!before->written[b] && op.change != FERRYI_CHANGE_WRITE &&
            op.change != FERRYI_CHANGE_OVERWRITE)
            assert_false(ferryi_places_written(set) || after->lost[b]);
        if (op.change != FERRYI_CHANGE_LOSE)
            assert_true(!after->lost[b] || before->lost[b]);
    }
}

static int
step(const struct oracle *before, struct operation op)
{
    struct ferryi_segment all[BYTES_MAX], window[BYTES_MAX];
    size_t all_count = segments_of(before, all);
    size_t count = window_of(all, all_count, op, window);
    struct oracle after = *before;

    if (op.change == FERRYI_CHANGE_READ || op.change == FERRYI_CHANGE_WRITE) {
        check_plan(before, all, all_count, op);
        check_plan(before, window, count, op);
        for (int b = op.begin; b < op.end; b++)
            after.memory[b][op.place] = before->newest[b]; /* the value that the planned moves copy,
                                                              as check_moves() has checked */
    }
    oracle_apply(&after, op);
    check_values(before, &after, op);
    check_commit(&after, all, all_count, op);
    check_commit(&after, window, count, op);
    return encode(&after);
}

/* -- all histories ----------------------------------------------------------------------------- */

struct exploration {
    int bytes, places;
    int *queue;
    unsigned char *depth; /* 1 + the smallest number of operations that lead to each state; 0: the
                             state was not visited */
    size_t seen;
};

static void
visit(struct exploration *all, int state, unsigned char depth)
{
    if (all->depth[state] != 0)
        return;
    all->depth[state] = depth;
    all->queue[all->seen++] = state;
}

static void
explore_state(struct exploration *all, int state)
{
    struct oracle before = decode(all->bytes, all->places, state);
    unsigned char depth = (unsigned char)(all->depth[state] + 1);
    assert_int_equal(encode(&before), state);

    for (int change = FERRYI_CHANGE_READ; change <= FERRYI_CHANGE_DISCARD; change++) {
        int places = change == FERRYI_CHANGE_DISCARD ? 1 : all->places;
        for (int place = 0; place < places; place++) {
            for (int begin = 0; begin < all->bytes; begin++) {
                for (int end = begin + 1; end <= all->bytes; end++) {
                    struct operation op = {(enum ferryi_change)change, place, begin, end};
                    visit(all, step(&before, op), depth);
                }
            }
        }
    }
}

static void
explore(int bytes, int places)
{
    size_t states = 1;
    for (int b = 0; b < bytes; b++)
        states *= (size_t)digits_of(places);
    struct exploration all = {.bytes = bytes, .places = places};
    all.queue = calloc(states, sizeof(int));
    all.depth = calloc(states, 1);
    assert_non_null(all.queue);
    assert_non_null(all.depth);

    /* Begins with a buffer that was never written. This also covers buffers that wrap memory,
     * because they begin in the state after an overwrite. */
    visit(&all, 0, 1);
    for (size_t next = 0; next < all.seen; next++)
        explore_state(&all, all.queue[next]);

    /* Every possible state must have been reached. */
    assert_int_equal(all.seen, states);
    free(all.queue);
    free(all.depth);
}

static void
test_all_histories_with_two_places(void **state)
{
    (void)state;
    explore(4, 2);
}

static void
test_all_histories_with_three_places(void **state)
{
    (void)state;
    explore(3, 3);
}

/* -- single promises, with all sixteen places -------------------------------------------------- */

static void
test_prefers_reachable_device_then_host_then_other_device(void **state)
{
    (void)state;
    struct ferryi_segment segment = {
        0, 8, FERRYI_PLACE_BIT(0) | FERRYI_PLACE_BIT(3) | FERRYI_PLACE_BIT(15)};
    struct ferryi_map_move move;
    bool lost;

    assert_int_equal(plan(&segment, 1, 2, 0, 8, 0, FERRYI_PLACE_BIT(15), &move, &lost), 1);
    assert_int_equal(move.source, 15);
    assert_int_equal(plan(&segment, 1, 2, 0, 8, 0, 0, &move, &lost), 1);
    assert_int_equal(move.source, 0);
    segment.places &= ~FERRYI_PLACE_BIT(0);
    assert_int_equal(plan(&segment, 1, 2, 0, 8, 0, 0, &move, &lost), 1);
    assert_int_equal(move.source, 3);
    assert_int_equal(plan(&segment, 1, 0, 0, 8, 0, FERRYI_PLACE_BIT(15), &move, &lost), 1);
    assert_int_equal(move.source, 3);
}

static void
test_prefers_a_place_with_the_same_memory(void **state)
{
    (void)state;
    ferryi_places same = FERRYI_PLACE_BIT(0) | FERRYI_PLACE_BIT(2), all = FERRYI_EVERY_PLACE;

    assert_int_equal(
        ferryi_coherence_source(FERRYI_PLACE_BIT(0) | FERRYI_PLACE_BIT(1), 2, same, all), 0);
    assert_int_equal(
        ferryi_coherence_source(FERRYI_PLACE_BIT(1) | FERRYI_PLACE_BIT(2), 0, same, all), 2);
    assert_int_equal(ferryi_coherence_source(FERRYI_PLACE_BIT(1), 2, same, all), 1);
}

static void
test_zeros_that_were_read_stay_unwritten(void **state)
{
    (void)state;
    ferryi_places read = ferryi_coherence_change(0, 1, FERRYI_CHANGE_READ);

    assert_false(ferryi_places_written(0));
    assert_false(ferryi_places_written(FERRYI_LOST));
    assert_true(ferryi_places_written(FERRYI_PLACE_BIT(1)));
    assert_false(ferryi_places_written(read));
    assert_int_equal(read, FERRYI_ZEROS | FERRYI_PLACE_BIT(1));
    /* Bytes that were never written read as zero, so a read fills its place with zeros. If a place
     * with the same memory already has these zeros, it is the source instead. */
    assert_int_equal(ferryi_coherence_source(read, 0, 0, FERRYI_EVERY_PLACE), FERRYI_ZERO);
    assert_int_equal(ferryi_coherence_source(read, 0, 3, FERRYI_EVERY_PLACE), 1);
    /* When the last replica of bytes that are zero is removed, the bytes must not become lost. */
    assert_int_equal(ferryi_coherence_change(read, 1, FERRYI_CHANGE_FORGET), 0);
    assert_int_equal(ferryi_coherence_change(read, 1, FERRYI_CHANGE_LOSE), 0);
}

static void
test_moves_of_different_sets_join_when_the_source_is_one(void **state)
{
    (void)state;
    struct ferryi_segment window[] = {{0, 10, FERRYI_PLACE_BIT(0)},
                                      {10, 20, FERRYI_PLACE_BIT(0) | FERRYI_PLACE_BIT(2)},
                                      {20, 30, 0}};
    struct ferryi_map_move moves[3];
    bool lost = true;

    assert_int_equal(plan(window, 3, 1, 5, 25, 0, 0, moves, &lost), 2);
    assert_int_equal(moves[0].begin, 5);
    assert_int_equal(moves[0].end, 20);
    assert_int_equal(moves[0].source, 0);
    assert_int_equal(moves[1].begin, 20);
    assert_int_equal(moves[1].end, 25);
    assert_int_equal(moves[1].source, FERRYI_ZERO);
    assert_false(lost);
}

static void
test_an_empty_range_moves_and_changes_nothing(void **state)
{
    (void)state;
    struct ferryi_segment segment = {0, 8, FERRYI_LOST}, out[3];
    struct ferryi_map_move move;
    bool lost = true;

    assert_int_equal(plan(&segment, 1, 0, 4, 4, 0, 0, &move, &lost), 0);
    assert_false(lost);
    assert_int_equal(ferryi_coherence_commit(&segment, 1, 0, FERRYI_CHANGE_WRITE, 4, 4, out), 1);
    assert_int_equal(out[0].end, 8);
    assert_int_equal(out[0].places, FERRYI_LOST);
}

static void
test_ranges_up_to_the_largest_size(void **state)
{
    (void)state;
    struct ferryi_segment segment = {0, SIZE_MAX, FERRYI_PLACE_BIT(0)}, out[3];
    struct ferryi_map_move move;
    bool lost;

    assert_int_equal(plan(&segment, 1, 1, SIZE_MAX - 1, SIZE_MAX, 0, 0, &move, &lost), 1);
    assert_true(move.begin == SIZE_MAX - 1 && move.end == SIZE_MAX);
    assert_int_equal(
        ferryi_coherence_commit(&segment, 1, 1, FERRYI_CHANGE_READ, SIZE_MAX - 1, SIZE_MAX, out),
        2);
    assert_true(out[0].end == SIZE_MAX - 1 && out[1].end == SIZE_MAX);
}

static void
test_discard_ignores_the_place(void **state)
{
    (void)state;
    assert_int_equal(ferryi_coherence_change(FERRYI_LOST, -1, FERRYI_CHANGE_DISCARD), 0);
    assert_int_equal(ferryi_coherence_change(FERRYI_PLACE_BIT(15), -1, FERRYI_CHANGE_DISCARD), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_histories_with_two_places),
        cmocka_unit_test(test_all_histories_with_three_places),
        cmocka_unit_test(test_prefers_reachable_device_then_host_then_other_device),
        cmocka_unit_test(test_prefers_a_place_with_the_same_memory),
        cmocka_unit_test(test_zeros_that_were_read_stay_unwritten),
        cmocka_unit_test(test_moves_of_different_sets_join_when_the_source_is_one),
        cmocka_unit_test(test_an_empty_range_moves_and_changes_nothing),
        cmocka_unit_test(test_ranges_up_to_the_largest_size),
        cmocka_unit_test(test_discard_ignores_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
