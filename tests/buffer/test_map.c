/* SPDX-License-Identifier: MIT */
/*
 * Tests which places are current after each access, and that an access copies only what its range
 * lacks.
 */
#include "tests/buffer/support.h"

#define COUNT 4096
#define BYTES (COUNT * sizeof(int32_t))

/* Uses change the state of a buffer in this order:
 *   UNINITIALIZED -host write-> HOST_ONLY -device read-> SYNCHRONIZED -host write-> HOST_DIRTY
 *   -device read-> SYNCHRONIZED -device write-> DEVICE_DIRTY -host read-> SYNCHRONIZED. */
static void
test_states_follow_the_accesses(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, COUNT);
    STATE(b, UNINITIALIZED);
    write_counting(f, b, 0, 0, FERRY_REST, 0);
    STATE(b, HOST_ONLY);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    STATE(b, SYNCHRONIZED);
    add_to(f, b, 0, 0, FERRY_REST, 1);
    STATE(b, HOST_DIRTY);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    STATE(b, SYNCHRONIZED);
    add_to(f, b, 1, 0, FERRY_REST, 1);
    STATE(b, DEVICE_DIRTY);
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST);
    STATE(b, SYNCHRONIZED);
    expect_counting(f, b, 0, 0, FERRY_REST, 2);
    add_to(f, b, 0, 0, 1, 1);
    add_to(f, b, 1, 1, 1, 1);
    STATE(b, MIXED);
    ferry_buffer_destroy(&b);
    b = make_ints(f, COUNT);
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    STATE(b, DEVICE_ONLY);
    ferry_buffer_destroy(&b);
}

/* If a buffer is HOST_ONLY or SYNCHRONIZED, a host access copies nothing. If the device has newer
 * bytes, a host access makes exactly one copy from the device, and the buffer becomes SYNCHRONIZED.
 */
static void
test_host_access_copies_once_when_the_device_is_newer(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_transfer_stats before = moved(f);
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST);
    touch(f, b, 0, FERRY_UPDATE, 0, FERRY_REST);
    expect_moved(f, &before, 0, 0);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    before = moved(f);
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST);
    expect_moved(f, &before, 0, 0);
    add_to(f, b, 1, 0, FERRY_REST, 1);
    before = moved(f);
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST);
    expect_moved(f, &before, 0, BYTES);
    expect_copies(f, &before, 0, 1);
    STATE(b, SYNCHRONIZED);
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST);
    expect_moved(f, &before, 0, BYTES);
    ferry_buffer_destroy(&b);
}

/* A device access to a HOST_ONLY buffer allocates memory once and copies once. If the device is
 * already current, the access copies nothing. */
static void
test_device_access_allocates_and_copies_once(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_pool *pool;
    ferry_pool_stats first, then;
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEFAULT, &pool));
    OK(ferry_pool_get_stats(pool, &first));
    ferry_transfer_stats before = moved(f);
    for (int i = 0; i < 5; i++)
        touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    touch(f, b, 1, FERRY_UPDATE, 0, FERRY_REST);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    OK(ferry_pool_get_stats(pool, &then));
    assert_int_equal(then.allocations - first.allocations, f->coherent ? 0 : 1);
    expect_moved(f, &before, BYTES, 0);
    expect_copies(f, &before, 1, 0);
    ferry_buffer_destroy(&b);
}

/* An OVERWRITE never copies bytes, even if the range is dirty at a different place. */
static void
test_overwrite_never_copies(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_transfer_stats before = moved(f);
    write_counting(f, b, 1, 0, FERRY_REST, 1);
    STATE(b, DEVICE_DIRTY);
    write_counting(f, b, 0, 0, FERRY_REST, 2);
    STATE(b, HOST_DIRTY);
    write_counting(f, b, 1, 10, 20, 3);
    STATE(b, MIXED);
    expect_moved(f, &before, 0, 0);
    expect_counting(f, b, 0, 10, 20, 3);
    expect_counting(f, b, 0, 30, FERRY_REST, 2);
    ferry_buffer_destroy(&b);
}

/* An UPDATE of 4 KiB in a large buffer copies only the bytes of its range that are not current at
 * the place. */
static void
test_update_copies_only_what_its_range_lacks(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 1 << 20, 0);
    ferry_transfer_stats before = moved(f);
    add_to(f, b, 1, 5000, 1024, 1);
    expect_moved(f, &before, 4096, 0);
    before = moved(f);
    add_to(f, b, 1, 5000 + 512, 1024, 1);
    expect_moved(f, &before, 2048, 0);
    before = moved(f);
    expect_counting(f, b, 0, 5000, 512, 1);
    expect_moved(f, &before, 0, 2048);
    expect_counting(f, b, 0, 5512, 512, 2);
    expect_counting(f, b, 0, 6024, 512, 1);
    expect_counting(f, b, 0, 6536, 1000, 0);
    ferry_buffer_destroy(&b);
}

/* A sync to the host, to the device or to both copies nothing if the buffer is synchronized.
 * Otherwise it makes exactly one copy in the needed direction. If the state is MIXED, a sync copies
 * disjoint ranges in both directions. */
static void
test_sync_moves_each_way_what_is_lacking(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 0, NULL));
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
    expect_moved(f, &before, 0, 0);
    add_to(f, b, 0, 0, COUNT / 2, 1);
    add_to(f, b, 1, COUNT / 2, FERRY_REST, 1);
    STATE(b, MIXED);
    before = moved(f);
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 0, NULL));
    expect_copies(f, &before, 0, 1);
    expect_moved(f, &before, 0, BYTES / 2);
    STATE(b, HOST_DIRTY);
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
    expect_copies(f, &before, 1, 1);
    expect_moved(f, &before, BYTES / 2, BYTES / 2);
    STATE(b, SYNCHRONIZED);
    expect_counting(f, b, 0, 0, FERRY_REST, 1);
    expect_counting(f, b, 1, 0, FERRY_REST, 1);
    ferry_buffer_destroy(&b);
}

/* Fills of whole buffers and of ranges run at a place that is current. If only the device has the
 * bytes, the device fills them. This works for elements of any size. */
static void
test_fill_works_where_the_range_is_current(void **state)
{
    fixture *f = *state;
    const ferry_element *elements[] = {BYTE, INT, DOUBLE};
    const unsigned char value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (size_t e = 0; e < LENGTH(elements); e++) {
        for (int place = 0; place <= f->places; place++) {
            ferry_buffer *b;
            unsigned char got[8];
            OK(ferry_buffer_create(f->context, elements[e], 1000, NULL, &b));
            touch(f, b, place, FERRY_UPDATE, 0, FERRY_REST);
            snapshot before = take_snapshot(b);
            ferry_transfer_stats stats = moved(f);
            OK(ferry_buffer_fill(b, elements[e], 100, 333, value, NULL));
            expect_moved(f, &stats, 0, 0);
            expect_unchanged(b, &before);
            for (size_t i = 98; i < 435; i++) {
                OK(ferry_buffer_copy_to(b, elements[e], i, 1, got, NULL));
                for (size_t k = 0; k < elements[e]->bytes; k++)
                    assert_int_equal(got[k], i >= 100 && i < 433 ? value[k] : 0);
            }
            ferry_buffer_destroy(&b);
        }
    }
}

/* If one half was written on the host and the other half on the device, a read at either place
 * returns both halves. */
static void
test_two_halves_make_a_whole_on_either_side(void **state)
{
    fixture *f = *state;
    for (int side = 0; side <= f->places; side++) {
        ferry_buffer *b = make_ints(f, COUNT);
        write_counting(f, b, 0, 0, COUNT / 2, 7);
        write_counting(f, b, f->places, COUNT / 2, FERRY_REST, 7);
        STATE(b, MIXED);
        expect_counting(f, b, side, 0, FERRY_REST, 7);
        ferry_buffer_destroy(&b);
    }
}

/* Only the first use of a buffer on the device uploads it. All later uses make no driver call. */
static void
test_hits_make_no_device_call(void **state)
{
    fixture *f = *state;
    if (f->context->debug)
        skip(); /* a checked run asks the driver at each use */
    ferry_buffer *b = make_counting(f, COUNT, 0);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    uint64_t calls = moved(f).device_calls;
    for (int i = 0; i < 100; i++)
        touch(f, b, 1, i % 2 ? FERRY_READ : FERRY_UPDATE, 0, FERRY_REST);
    assert_int_equal(moved(f).device_calls, calls);
    ferry_buffer_destroy(&b);
}

/* A device fetches bytes from a different device, either directly or through the host. All places
 * may be current at the same time. */
static void
test_every_device_may_hold_the_bytes(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, COUNT);
    write_counting(f, b, f->places, 0, FERRY_REST, 3);
    for (int place = 0; place <= f->places; place++) {
        expect_counting(f, b, place, 0, FERRY_REST, 3);
        assert_true(ferry_buffer_is_current(b, place));
    }
    add_to(f, b, 1, 0, FERRY_REST, 1);
    for (int place = 0; place <= f->places; place++)
        assert_int_equal(ferry_buffer_is_current(b, place), place == 1);
    expect_counting(f, b, f->places, 0, FERRY_REST, 4);
    ferry_buffer_destroy(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_states_follow_the_accesses),
        TEST(test_host_access_copies_once_when_the_device_is_newer),
        TEST(test_device_access_allocates_and_copies_once),
        TEST(test_overwrite_never_copies),
        TEST(test_update_copies_only_what_its_range_lacks),
        TEST(test_sync_moves_each_way_what_is_lacking),
        TEST(test_fill_works_where_the_range_is_current),
        TEST(test_two_halves_make_a_whole_on_either_side),
        TEST(test_hits_make_no_device_call),
        TEST(test_every_device_may_hold_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
