/* SPDX-License-Identifier: MIT */
#include "tests/buffer/support.h"

#include <math.h>

/* "double -> float rounds to nearest even; float -> byte clamps to 0..255 after rounding; NaN -> integer is 0; int -> byte
 * saturates; infinities saturate", on the way into a buffer at every place. */
static void
test_values_saturate_on_the_way_in(void **state)
{
    fixture *f = *state;
    const float floats[] = {-1.0f, 0.5f, 1.5f, 2.5f, 254.5f, 255.5f, 1e30f, INFINITY, -INFINITY, NAN};
    const uint8_t bytes[] = {0, 0, 2, 2, 254, 255, 255, 255, 0, 0};
    const int32_t ints[] = {-5, 0, 255, 256, INT32_MAX, INT32_MIN};
    const uint8_t int_bytes[] = {0, 0, 255, 255, 255, 0};
    const double doubles[] = {1.0 + 0x1p-24, 1.0 + 0x1.8p-23, 1e300, -INFINITY, 0.1};
    const float rounded[] = {1.0f, 1.0f + 0x1p-22f, INFINITY, -INFINITY, 0.1f};
    for (int place = 0; place <= f->places; place++) {
        uint8_t got[16];
        float got_floats[8];
        ferry_byte_buffer b;
        ferry_float_buffer r;
        OK(ferry_byte_create(f->context, 16, NULL, &b));
        touch(f, b.raw, place, FERRY_UPDATE, 0, FERRY_REST);
        OK(ferry_byte_copy_from_float(b, 0, floats, LENGTH(floats), FERRY_CONVERT_SATURATE));
        OK(ferry_byte_copy_to(b, 0, got, LENGTH(bytes)));
        assert_memory_equal(got, bytes, sizeof(bytes));
        OK(ferry_byte_copy_from_int(b, 3, ints, LENGTH(ints), FERRY_CONVERT_SATURATE));
        OK(ferry_byte_copy_to(b, 3, got, LENGTH(int_bytes)));
        assert_memory_equal(got, int_bytes, sizeof(int_bytes));
        assert_true(ferry_buffer_is_current(b.raw, place));
        ferry_byte_destroy(&b);
        OK(ferry_float_create(f->context, LENGTH(doubles), NULL, &r));
        touch(f, r.raw, place, FERRY_UPDATE, 0, FERRY_REST);
        ferry_transfer_stats before = moved(f);
        OK(ferry_float_copy_from_double(r, 0, doubles, LENGTH(doubles), (ferry_convert_policy)0));
        expect_moved(f, &before, place ? sizeof(rounded) : 0, 0); /* crosses in the target's size */
        OK(ferry_float_copy_to(r, 0, got_floats, LENGTH(doubles)));
        assert_memory_equal(got_floats, rounded, sizeof(rounded));
        ferry_float_destroy(&r);
    }
}

/* The same on the way out, and from buffer to buffer, in more than one chunk. */
static void
test_values_convert_on_the_way_out_and_between_buffers(void **state)
{
    fixture *f = *state;
    enum { COUNT = 100001 };
    double *doubles = malloc(COUNT * sizeof(double));
    int32_t *got = malloc(COUNT * sizeof(int32_t));
    assert_true(doubles && got);
    for (int i = 0; i < COUNT; i++)
        doubles[i] = i * 0.5 - 1000;
    for (int place = 0; place <= f->places; place++) {
        for (int there = 0; there <= f->places; there++) {
            ferry_double_buffer d;
            ferry_int_buffer n;
            OK(ferry_double_create_from(f->context, doubles, COUNT, NULL, &d));
            touch(f, d.raw, place, FERRY_UPDATE, 0, FERRY_REST);
            OK(ferry_double_copy_to_int(d, 1, got, COUNT - 1, FERRY_CONVERT_SATURATE));
            for (int i = 1; i < COUNT; i++)
                assert_int_equal(got[i - 1], (int32_t)nearbyint(doubles[i]));
            OK(ferry_int_create(f->context, COUNT, NULL, &n));
            touch(f, n.raw, there, FERRY_UPDATE, 0, FERRY_REST);
            OK(ferry_int_convert_from_double(n, 10, d, 0, COUNT - 10, FERRY_CONVERT_TRUNCATE));
            OK(ferry_int_copy_to(n, 0, got, COUNT));
            for (int i = 0; i < COUNT; i++)
                assert_int_equal(got[i], i < 10 ? 0 : (int32_t)trunc(doubles[i - 10]));
            ferry_double_destroy(&d);
            ferry_int_destroy(&n);
        }
    }
    free(doubles);
    free(got);
}

/* "With the checking policy ferry_error_index() names the first bad element and the target is unchanged." */
static void
test_checked_conversions_change_nothing_when_they_fail(void **state)
{
    fixture *f = *state;
    enum { COUNT = 1000 };
    for (int place = 0; place <= f->places; place++) {
        static double doubles[COUNT];
        static int32_t got[COUNT];
        ferry_buffer *n = make_ints(f, COUNT);
        ferry_double_buffer d;
        write_counting(f, n, place, 0, FERRY_REST, 5);
        for (int i = 0; i < COUNT; i++)
            doubles[i] = i + 0.25;
        doubles[700] = 1e10;
        doubles[800] = NAN;
        ferry_int_buffer ints = {n};
        snapshot before = take_snapshot(n);
        FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_int_copy_from_double(ints, 0, doubles, COUNT, FERRY_CONVERT_CHECK));
        assert_int_equal(ferry_error_index(), 700);
        expect_unchanged(n, &before);
        FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_int_copy_from_double(ints, 5, doubles + 690, 20, FERRY_CONVERT_CHECK));
        assert_int_equal(ferry_error_index(), 10);
        OK(ferry_double_create_from(f->context, doubles, COUNT, NULL, &d));
        touch(f, d.raw, place, FERRY_UPDATE, 0, FERRY_REST);
        memset(got, 0x55, sizeof(got));
        FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_double_copy_to_int(d, 600, got, 300, FERRY_CONVERT_CHECK));
        assert_int_equal(ferry_error_index(), 100);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(got[i], 0x55555555);
        before = take_snapshot(n);
        FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_int_convert_from_double(ints, 0, d, 701, FERRY_REST, FERRY_CONVERT_CHECK));
        assert_int_equal(ferry_error_index(), 99);
        assert_int_equal(take_snapshot(n).info.scopes, 0);
        expect_counting(f, n, 0, 0, FERRY_REST, 5);
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_int_copy_from(ints, 0, NULL, 1));
        assert_int_equal(ferry_error_index(), (size_t)-1);
        /* What fits goes in. */
        OK(ferry_int_copy_from_double(ints, 0, doubles, 700, FERRY_CONVERT_CHECK));
        expect_counting(f, n, 0, 0, 700, 0);
        OK(ferry_double_copy_to_int(d, 0, got, 700, FERRY_CONVERT_CHECK));
        assert_int_equal(got[699], 699);
        ferry_double_destroy(&d);
        ferry_buffer_destroy(&n);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_values_saturate_on_the_way_in),
        TEST(test_values_convert_on_the_way_out_and_between_buffers),
        TEST(test_checked_conversions_change_nothing_when_they_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
