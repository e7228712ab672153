/* SPDX-License-Identifier: MIT */
/* Tests views and reinterpreted views: they share bytes, states and conflicts with their base. */
#include "tests/buffer/support.h"

#define COUNT 1000

/* A view and its base share their bytes. A write through either of them is seen through the other,
 * at every place and in any order of writes. Offsets of nested views add up. */
static void
test_a_view_is_not_a_copy(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        for (int reader = 0; reader <= f->places; reader++) {
            ferry_buffer *b = make_counting(f, COUNT, 0), *view, *nested;
            OK(ferry_buffer_view(b, INT, 100, 500, &view));
            OK(ferry_buffer_view(view, INT, 50, FERRY_REST, &nested));
            assert_int_equal(ferry_buffer_count(nested), 450);
            assert_int_equal(take_snapshot(nested).info.offset_bytes, 600);
            add_to(f, nested, place, 0, 10, 1000);
            expect_counting(f, b, reader, 150, 10, 1000);
            add_to(f, b, reader, 155, 10, 1000);
            expect_counting(f, view, place, 50, 5, 1100);
            expect_counting(f, view, place, 55, 5, 2100);
            expect_counting(f, nested, reader, 10, 5, 1150);
            expect_counting(f, b, place, 165, FERRY_REST, 0);
            ferry_buffer_destroy(&view);
            ferry_buffer_destroy(&nested);
            ferry_buffer_destroy(&b);
        }
    }
}

/* The state of a view describes exactly the range of the view. */
static void
test_views_have_the_state_of_their_range(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0), *low, *high, *none;
    OK(ferry_buffer_view(b, INT, 0, 500, &low));
    OK(ferry_buffer_view(b, INT, 500, 500, &high));
    OK(ferry_buffer_view(b, INT, 500, 0, &none));
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    add_to(f, low, 1, 0, FERRY_REST, 1);
    STATE(low, DEVICE_DIRTY);
    STATE(high, SYNCHRONIZED);
    STATE(b, DEVICE_DIRTY);
    STATE(none, UNINITIALIZED);
    assert_false(ferry_buffer_is_current(low, 0));
    assert_true(ferry_buffer_is_current(high, 0));
    add_to(f, high, 0, 0, 1, 1);
    STATE(high, HOST_DIRTY);
    STATE(b, MIXED);
    OK(ferry_buffer_sync_to(low, 0, FERRY_REST, 0, NULL));
    STATE(low, SYNCHRONIZED);
    STATE(b, HOST_DIRTY);
    ferry_buffer_destroy(&low);
    ferry_buffer_destroy(&high);
    ferry_buffer_destroy(&none);
    ferry_buffer_destroy(&b);
}

/* Creating a view outside its base is refused. A view of length zero is valid, even at the end of
 * the base. test_errors.c checks other ranges. */
static void
test_views_at_the_end(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0), *view, *out;
    OK(ferry_buffer_view(b, INT, COUNT, FERRY_REST, &view));
    assert_int_equal(ferry_buffer_count(view), 0);
    FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_buffer_view(view, INT, 1, 0, &out));
    FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_buffer_view(view, INT, 0, 1, &out));
    ferry_buffer_destroy(&view);
    ferry_buffer_destroy(&b);
}

/* Reinterpreting a buffer as bytes multiplies its count by the element's size. Reinterpreting a
 * buffer as a larger element fails with FERRY_ERROR_WRONG_TYPE, unless the buffer's size and
 * alignment are multiples of the element's size and alignment. */
static void
test_reinterpreting_needs_size_and_alignment(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 101, 0), *bytes, *doubles, *ints, *out;
    unsigned char got[8];
    OK(ferry_buffer_reinterpret(b, BYTE, 0, FERRY_REST, &bytes));
    assert_int_equal(ferry_buffer_count(bytes), 404);
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_reinterpret(b, DOUBLE, 0, FERRY_REST, &out));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_reinterpret(b, DOUBLE, 4, 2, &out));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_reinterpret(bytes, INT, 1, 1, &out));
    OK(ferry_buffer_reinterpret(b, DOUBLE, 0, 50, &doubles));
    OK(ferry_buffer_reinterpret(b, DOUBLE, 8, 49, &out));
    ferry_buffer_destroy(&out);
    /* The alignment is checked at the offset from the start of the base buffer, not at the offset
     * from the start of the view. */
    OK(ferry_buffer_view(b, INT, 1, FERRY_REST, &ints));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_reinterpret(ints, DOUBLE, 0, 50, &out));
    OK(ferry_buffer_reinterpret(ints, DOUBLE, 4, 49, &out));
    ferry_buffer_destroy(&out);
    /* A view of bytes reads and writes the bytes of the elements. */
    add_to(f, b, 1, 2, 1, 0x01020300);
    OK(ferry_buffer_copy_to(bytes, BYTE, 8, 4, got, NULL));
    assert_memory_equal(got, ((unsigned char[]){2, 3, 2, 1}), 4);
    got[0] = 9;
    OK(ferry_buffer_copy_from(bytes, BYTE, 8, 1, got, NULL));
    expect_constant(f, b, 0, 2, 1, 0x01020309);
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_copy_to(bytes, INT, 0, 1, got, NULL));
    ferry_buffer_destroy(&ints);
    ferry_buffer_destroy(&doubles);
    ferry_buffer_destroy(&bytes);
    ferry_buffer_destroy(&b);
}

/* If a buffer is current at the device, the device pointer of a view is the base's device pointer
 * plus the view's offset. */
static void
test_a_views_pointer_is_base_plus_offset(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, COUNT), *view;
    for (int place = 0; place <= f->places; place++) {
        ferry_scope scope;
        void *pinned;
        write_counting(f, b, place, 0, FERRY_REST, 0);
        OK(ferry_buffer_view(b, INT, 123, 10, &view));
        int32_t *base = open_at(f, b, place, FERRY_READ, 0, FERRY_REST, &scope);
        OK(ferry_scope_close(&scope));
        assert_ptr_equal(open_at(f, view, place, FERRY_READ, 0, FERRY_REST, &scope), base + 123);
        OK(ferry_scope_close(&scope));
        assert_ptr_equal(open_at(f, view, place, FERRY_READ, 3, 2, &scope), base + 126);
        OK(ferry_scope_close(&scope));
        OK(ferry_buffer_hold(view, place, &pinned));
        assert_ptr_equal(pinned, base + 123);
        OK(ferry_buffer_release(view, place));
        ferry_buffer_destroy(&view);
    }
    ferry_buffer_destroy(&b);
}

/* Scopes on a base and on its views conflict where their ranges overlap. */
static void
test_scopes_of_views_conflict_with_the_base(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0), *low, *high;
    ferry_scope scope, other;
    void *memory;
    OK(ferry_buffer_view(b, INT, 0, 500, &low));
    OK(ferry_buffer_view(b, INT, 500, 500, &high));
    open_at(f, low, 0, FERRY_UPDATE, 0, FERRY_REST, &scope);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_open_host(b, INT, FERRY_READ, 499, 1, &other, &memory));
    OK(ferry_buffer_open_host(high, INT, FERRY_UPDATE, 0, FERRY_REST, &other, &memory));
    OK(ferry_scope_close(&other));
    OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&low);
    ferry_buffer_destroy(&high);
    ferry_buffer_destroy(&b);
}

/* A read beyond the end of a view is refused, even if the base buffer has current bytes there. */
static void
test_hits_end_where_the_view_does(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0), *view;
    ferry_scope scope;
    void *p = NULL;
    OK(ferry_buffer_view(b, INT, 100, 50, &view));
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    touch(f, view, 0, FERRY_READ, 0, FERRY_REST);
    touch(f, view, 1, FERRY_READ, 0, FERRY_REST);
    const size_t outside[][2] = {{0, 51},
                                 {49, 2},
                                 {50, 1},
                                 {51, 0},
                                 {51, FERRY_REST},
                                 {SIZE_MAX, 1},
                                 {SIZE_MAX - 49, 51},
                                 {1, SIZE_MAX - 1}};
    for (size_t i = 0; i < LENGTH(outside); i++) {
        FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_buffer_open_host(view, INT, FERRY_READ, outside[i][0],
                                                               outside[i][1], &scope, &p));
        FAILS(FERRY_ERROR_OUT_OF_RANGE,
              ferry_buffer_open_device(view, INT, FERRY_READ, outside[i][0], outside[i][1],
                                       f->stream, &scope, &p));
    }
    assert_null(p);
    for (size_t count = 0; count <= 1; count++) {
        OK(ferry_buffer_open_host(view, INT, FERRY_READ, 50 - count, count, &scope, &p));
        assert_int_equal(p ? *(int *)p : 0, count ? 149 : 0);
        OK(ferry_scope_close(&scope));
    }
    DESTROY_BUFFERS(&view, &b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_view_is_not_a_copy),
        TEST(test_views_have_the_state_of_their_range),
        TEST(test_views_at_the_end),
        TEST(test_reinterpreting_needs_size_and_alignment),
        TEST(test_a_views_pointer_is_base_plus_offset),
        TEST(test_scopes_of_views_conflict_with_the_base),
        TEST(test_hits_end_where_the_view_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
