/* SPDX-License-Identifier: MIT */
/*
 * Tests copies of one range between buffers, and between buffers and memory: what arrives, and what
 * changes state.
 */
#include "src/transfer/engine.h"
#include "tests/buffer/support.h"

#define COUNT 1000

/* A copy of a range changes exactly that range. */
static void
test_ranged_copies_move_exactly_the_range(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        int32_t values[COUNT], got[COUNT + 2];
        write_counting(f, b, place, 0, FERRY_REST, 0);
        for (int i = 0; i < COUNT; i++)
            values[i] = -i;
        ferry_transfer_stats before = moved(f);
        OK(ferry_buffer_copy_from(b, INT, 100, 50, values, NULL));
        expect_moved(f, &before, place ? 200 : 0, 0);
        memset(got, 0x77, sizeof(got));
        before = moved(f);
        OK(ferry_buffer_copy_to(b, INT, 99, 52, got + 1, NULL));
        expect_moved(f, &before, 0, place ? 208 : 0);
        assert_int_equal(got[0], 0x77777777);
        assert_int_equal(got[1], 99);
        assert_memory_equal(got + 2, values, 200);
        assert_int_equal(got[52], 150);
        assert_int_equal(got[53], 0x77777777);
        ferry_buffer_destroy(&b);
    }
}

/* A copy between buffers on one device is one copy by that device. It transfers nothing to or from
 * the host. */
static void
test_copies_on_one_device_stay_there(void **state)
{
    fixture *f = *state;
    ferry_buffer *a = make_ints(f, COUNT), *b = make_counting(f, COUNT, 0);
    write_counting(f, a, 1, 0, FERRY_REST, 5);
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_copy(b, INT, 10, a, 20, 500, NULL));
    ferry_transfer_stats after = moved(f);
    expect_moved(f, &before, 0, 0);
    if (!f->coherent) {
        assert_int_equal(after.device.copies - before.device.copies, 1);
        assert_int_equal(after.device.bytes - before.device.bytes, 2000);
    }
    expect_counting(f, b, 0, 10, 500, 15);
    expect_counting(f, b, 0, 0, 10, 0);
    expect_counting(f, b, 0, 510, FERRY_REST, 0);
    ferry_buffer_destroy(&a);
    ferry_buffer_destroy(&b);
}

/* A copy between two devices arrives intact, either as a peer copy or through staging. */
static void
test_copies_between_devices_arrive(void **state)
{
    fixture *f = *state;
    for (int from = 0; from <= f->places; from++) {
        for (int to = 0; to <= f->places; to++) {
            ferry_buffer *a = make_ints(f, COUNT), *b = make_ints(f, COUNT);
            write_counting(f, a, from, 0, FERRY_REST, 5);
            write_counting(f, b, to, 0, FERRY_REST, 9);
            OK(ferry_buffer_copy(b, INT, 0, a, 0, COUNT / 2, NULL));
            expect_counting(f, b, to, 0, COUNT / 2, 5);
            expect_counting(f, b, to, COUNT / 2, FERRY_REST, 9);
            expect_counting(f, a, to, 0, FERRY_REST, 5);
            ferry_buffer_destroy(&a);
            ferry_buffer_destroy(&b);
        }
    }
}

/* A copy between overlapping ranges of one buffer behaves like memmove(). */
static void
test_overlapping_copies_behave_as_memmove(void **state)
{
    fixture *f = *state;
    const struct {
        size_t to, from, count;
    } cases[] = {{0, 1, 999}, {1, 0, 999},   {100, 300, 400}, {300, 100, 400},
                 {5, 5, 100}, {0, 500, 500}, {499, 0, 500}};
    for (int place = 0; place <= f->places; place++) {
        for (size_t c = 0; c < LENGTH(cases); c++) {
            ferry_buffer *b = make_ints(f, COUNT), *view;
            int32_t expected[COUNT], got[COUNT];
            write_counting(f, b, place, 0, FERRY_REST, 0);
            for (int i = 0; i < COUNT; i++)
                expected[i] = i;
            OK(ferry_buffer_view(b, INT, cases[c].from, cases[c].count, &view));
            memmove(expected + cases[c].to, expected + cases[c].from,
                    cases[c].count * sizeof(int32_t));
            ferry_transfer_stats before = moved(f);
            OK(ferry_buffer_copy(b, INT, cases[c].to, view, 0, FERRY_REST, NULL));
            expect_moved(f, &before, 0, 0);
            OK(ferry_buffer_copy_to(b, INT, 0, COUNT, got, NULL));
            assert_memory_equal(got, expected, sizeof(got));
            ferry_buffer_destroy(&view);
            ferry_buffer_destroy(&b);
        }
    }
}

/* An overlapping copy reads some bytes that it does not write. These bytes stay current at all
 * places. */
static void
test_overlapping_copies_dirty_only_their_target(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0), *rest;
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    OK(ferry_buffer_copy(b, INT, 100, b, 90, 20, NULL));
    OK(ferry_buffer_view(b, INT, 90, 10, &rest));
    STATE(rest, SYNCHRONIZED);
    ferry_transfer_stats before = moved(f);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    expect_moved(f, &before, 80, 0);
    ferry_buffer_destroy(&rest);
    ferry_buffer_destroy(&b);
}

/* If ferry_buffer_copy_from() overwrites a device's dirty replica, it does not fetch the old bytes
 * first. */
static void
test_copy_from_fetches_nothing(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    int32_t values[COUNT] = {0};
    add_to(f, b, 1, 0, FERRY_REST, 1);
    STATE(b, DEVICE_DIRTY);
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_copy_from(b, INT, 0, 10, values, NULL));
    expect_moved(f, &before, 40, 0);
    STATE(b, DEVICE_DIRTY);
    expect_counting(f, b, 0, 10, FERRY_REST, 1);
    expect_constant(f, b, 0, 0, 10, 0);
    ferry_buffer_destroy(&b);
}

/* ferry_buffer_copy_to() copies bytes from a device directly into the caller's memory. The device's
 * replica stays current. */
static void
test_copy_to_changes_no_state(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, COUNT);
    int32_t got[COUNT];
    write_counting(f, b, 1, 0, 500, 3);
    snapshot before = take_snapshot(b);
    OK(ferry_buffer_copy_to(b, INT, 0, COUNT, got, NULL));
    expect_unchanged(b, &before);
    STATE(b, DEVICE_ONLY);
    assert_int_equal(got[499], 502);
    assert_int_equal(got[500], 0);
    ferry_buffer_destroy(&b);
}

/* Round trips through a buffer are exact for 1, 255, 256, 1024 and 1M + 3 elements of every
 * type. */
static void
test_round_trips_are_exact(void **state)
{
    fixture *f = *state;
    const ferry_element *elements[] = {
        BYTE,
        INT,
        FLOAT,
        DOUBLE,
        ferry_int8_element(),
        ferry_int16_element(),
        ferry_int64_element(),
        ferry_uint16_element(),
        ferry_uint32_element(),
        ferry_uint64_element(),
        ferry_bool_element(),
        ferry_half_element(),
        ferry_bfloat16_element(),
        ferry_complex_float_element(),
        ferry_complex_double_element(),
    };
    const size_t counts[] = {1, 255, 256, 1024, (1 << 20) + 3};
    size_t most = ((1 << 20) + 3) * sizeof(double[2]);
    unsigned char *source = malloc(most), *got = malloc(most);
    assert_true(source && got);
    for (size_t i = 0; i < most; i += 8) {
        uint64_t random = random_next(&f->seed);
        memcpy(source + i, &random, 8);
    }
    for (size_t e = 0; e < LENGTH(elements); e++) {
        for (size_t c = 0; c < LENGTH(counts); c++) {
            ferry_buffer *a, *b;
            size_t bytes = counts[c] * elements[e]->bytes;
            OK(ferry_buffer_create_from(f->context, elements[e], counts[c], source, NULL, &a));
            touch(f, a, f->places, FERRY_UPDATE, 0, FERRY_REST);
            OK(ferry_buffer_create(f->context, elements[e], counts[c], NULL, &b));
            OK(ferry_buffer_copy(b, elements[e], 0, a, 0, FERRY_REST, NULL));
            memset(got, 0, bytes);
            OK(ferry_buffer_copy_to(b, elements[e], 0, counts[c], got, NULL));
            assert_memory_equal(got, source, bytes);
            memset(got, 0, bytes);
            ferry_scope scope;
            memcpy(got, open_at(f, a, 0, FERRY_READ, 0, FERRY_REST, &scope), bytes);
            OK(ferry_scope_close(&scope));
            assert_memory_equal(got, source, bytes);
            ferry_buffer_destroy(&a);
            ferry_buffer_destroy(&b);
        }
    }
    free(source);
    free(got);
}

struct progress {
    size_t calls, last, stop_after;
};

static bool
keep_going(size_t done, size_t total, void *user)
{
    struct progress *p = user;
    assert_true(done >= p->last && done <= total);
    p->last = done;
    return ++p->calls < p->stop_after;
}

/* Checks that progress never decreases and ends at the total, and that the callback can cancel.
 * After a cancelled copy or fill, each chunk holds either its old or its new bytes. The valid map
 * is correct for each chunk. */
static void
check_progress(fixture *f)
{
    enum { LONG = 1 << 18 };
    int32_t *values = malloc(LONG * sizeof(int32_t));
    assert_non_null(values);
    for (int i = 0; i < LONG; i++)
        values[i] = i + 1;
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_ints(f, LONG);
        touch(f, b, place, FERRY_UPDATE, 0, FERRY_REST);
        struct progress whole = {.stop_after = SIZE_MAX}, half = {.stop_after = 3};
        ferry_copy_options options = {
            .chunk_bytes = 1 << 17, .keep_going = keep_going, .user = &half};
        FAILS(FERRY_ERROR_CANCELLED, ferry_buffer_copy_from(b, INT, 0, LONG, values, &options));
        int32_t *got = malloc(LONG * sizeof(int32_t));
        assert_non_null(got);
        OK(ferry_buffer_copy_to(b, INT, 0, LONG, got, NULL));
        size_t arrived = 0;
        while (arrived < LONG && got[arrived] == (int32_t)arrived + 1)
            arrived++;
        assert_true(arrived < LONG);
        for (size_t i = arrived; i < LONG; i++)
            assert_int_equal(got[i], 0);
        assert_int_equal(arrived * sizeof(int32_t), half.last);
        options.user = &whole;
        OK(ferry_buffer_copy_from(b, INT, 0, LONG, values, &options));
        assert_int_equal(whole.last, LONG * sizeof(int32_t));
        assert_true(whole.calls >= 8);
        struct progress down = {.stop_after = SIZE_MAX};
        options.user = &down;
        OK(ferry_buffer_copy_to(b, INT, 0, LONG, got, &options));
        assert_int_equal(down.last, LONG * sizeof(int32_t));
        assert_memory_equal(got, values, LONG * sizeof(int32_t));
        expect_counting(f, b, 0, 0, FERRY_REST, 1);
        free(got);
        ferry_buffer_destroy(&b);
    }
    free(values);
}

/* An overlapping copy reports the progress of each byte once, even if it uses intermediate memory.
 * A copy at the host may report the whole memmove() at once. */
static void
test_overlapping_copies_tell_their_progress(void **state)
{
    fixture *f = *state;
    enum { LONG = 1 << 18, BY = 100 };
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_ints(f, LONG);
        write_counting(f, b, place, 0, FERRY_REST, 5);
        struct progress whole = {.stop_after = SIZE_MAX};
        const ferry_copy_options options = {
            .chunk_bytes = 1 << 17, .keep_going = keep_going, .user = &whole};
        OK(ferry_buffer_copy(b, INT, BY, b, 0, LONG - BY, &options));
        assert_int_equal(whole.last, (LONG - BY) * sizeof(int32_t));
        assert_true(whole.calls >= (place > 0 && !f->coherent ? 4 : 1));
        expect_counting(f, b, 0, BY, FERRY_REST, 5 - BY);
        ferry_buffer_destroy(&b);
    }
}

/* Long copies report their progress and can be cancelled, even if helper threads fill and drain the
 * staging ring. */
static void
test_long_copies_tell_their_progress_and_can_be_cancelled(void **state)
{
    fixture *f = *state;
    check_progress(f);
    fixture_close(f);
    fixture_open(f, &(ferry_context_options){
                        .tuning = "staging.threads=4 staging.chunk=32K staging.chunks=8"});
    check_progress(f);
    if (!f->coherent && !f->takes_pageable)
        assert_true(staging_of(f).staging_chunks > 64);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ranged_copies_move_exactly_the_range),
        TEST(test_copies_on_one_device_stay_there),
        TEST(test_copies_between_devices_arrive),
        TEST(test_overlapping_copies_behave_as_memmove),
        TEST(test_overlapping_copies_dirty_only_their_target),
        TEST(test_copy_from_fetches_nothing),
        TEST(test_copy_to_changes_no_state),
        TEST(test_round_trips_are_exact),
        TEST(test_long_copies_tell_their_progress_and_can_be_cancelled),
        TEST(test_overlapping_copies_tell_their_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
