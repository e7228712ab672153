/* SPDX-License-Identifier: MIT */
/*
 * Tests calls that move or drop replicas: mark_dirty, invalidate, discard, evict, reserve and
 * prefetch.
 */
#include "tests/buffer/support.h"

#define COUNT 1000
#define BYTES (COUNT * sizeof(int32_t))

/* ferry_buffer_mark_dirty() must fail with FERRY_ERROR_CONFLICT if the place has no replica, or if
 * a different place holds newer bytes of the range. The failed call must change nothing. */
static void
test_marks_over_newer_bytes_conflict(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        ferry_stream *stream = place ? f->stream : NULL;
        write_counting(f, b, !place, 0, FERRY_REST, 0);
        snapshot before = take_snapshot(b);
        FAILS(FERRY_ERROR_CONFLICT, ferry_buffer_mark_dirty(b, 0, FERRY_REST, place, stream));
        expect_unchanged(b, &before);
        OK(ferry_buffer_sync_to(b, 0, FERRY_REST, place, NULL));
        OK(ferry_buffer_mark_dirty(b, 0, 10, place, stream));
        assert_false(ferry_buffer_is_current(b, !place));
        touch(f, b, !place, FERRY_UPDATE, 20, 1);
        before = take_snapshot(b);
        FAILS(FERRY_ERROR_CONFLICT, ferry_buffer_mark_dirty(b, 15, 10, place, stream));
        expect_unchanged(b, &before);
        OK(ferry_buffer_mark_dirty(b, 21, FERRY_REST, place, stream));
        expect_counting(f, b, 0, 0, FERRY_REST, 0);
        ferry_buffer_destroy(&b);
    }
}

/* Invalidating the only current replica first copies its bytes to a different place. If a different
 * place is already current, the replica is freed without a transfer. */
static void
test_invalidate_never_drops_data(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        write_counting(f, b, place, 0, FERRY_REST, 3);
        ferry_transfer_stats before = moved(f);
        OK(ferry_buffer_invalidate(b, 0, FERRY_REST, place));
        expect_moved(f, &before, place ? 0 : BYTES, place ? BYTES : 0);
        assert_int_equal(ferry_buffer_state(b),
                         place ? FERRY_STATE_HOST_ONLY : FERRY_STATE_DEVICE_ONLY);
        touch(f, b, place, FERRY_READ, 0, FERRY_REST);
        before = moved(f);
        OK(ferry_buffer_invalidate(b, 0, FERRY_REST, place));
        expect_moved(f, &before, 0, 0);
        assert_int_equal(take_snapshot(b).info.places_with_copy, place ? 1 : 2);
        expect_counting(f, b, place, 0, FERRY_REST, 3);
        ferry_buffer_destroy(&b);
    }
}

/* A discarded range reads as zero, and discarding transfers nothing. */
static void
test_discard_reads_as_zero_and_moves_nothing(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 1);
    add_to(f, b, 1, 0, FERRY_REST, 0);
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_discard(b, 100, 100));
    expect_constant(f, b, 0, 100, 100, 0);
    OK(ferry_buffer_discard(b, 100, 100)); /* also discards the zeros that the host has just read */
    expect_constant(f, b, 1, 100, 100, 0);
    expect_moved(f, &before, 0, 0);
    expect_counting(f, b, 0, 0, 100, 1);
    expect_counting(f, b, 0, 200, FERRY_REST, 1);
    OK(ferry_buffer_discard(b, 0, FERRY_REST));
    STATE(b, UNINITIALIZED);
    ferry_buffer_destroy(&b);
}

/* ferry_buffer_hold() keeps the replica at `place` and its address until the hold is released.
 * Until then the replica is not evicted, freed or resized. Each hold must be released separately.
 */
static void
test_a_pinned_copy_keeps_its_address(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        ferry_scope scope;
        void *first, *second;
        OK(ferry_buffer_hold(b, place, &first));
        STATE(b, UNINITIALIZED);
        OK(ferry_buffer_hold(b, place, &second));
        assert_ptr_equal(first, second);
        OK(ferry_buffer_release(b, place));
        write_counting(f, b, place, 0, FERRY_REST, 0);
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_evict(b, place));
        OK(ferry_buffer_invalidate(b, 0, FERRY_REST, place));
        assert_ptr_equal(open_at(f, b, place, FERRY_READ, 0, FERRY_REST, &scope), first);
        OK(ferry_scope_close(&scope));
        /* The replica is held at one place only. Releasing a hold at a different place must fail,
         * even if both places share memory. */
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_release(b, place ? 0 : 1));
        OK(ferry_buffer_release(b, place));
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_release(b, place));
        OK(ferry_buffer_evict(b, place));
        expect_counting(f, b, 0, 0, FERRY_REST, 0);
        ferry_buffer_destroy(&b);
    }
}

/* An eviction drops a clean replica without a transfer, and writes a dirty replica back once. */
static void
test_evict_writes_back_once_what_is_only_there(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_evict(b, 1));
    expect_moved(f, &before, 0, 0);
    STATE(b, HOST_ONLY);
    add_to(f, b, 1, 0, 100, 1);
    before = moved(f);
    OK(ferry_buffer_evict(b, 1));
    expect_moved(f, &before, 0, 400);
    OK(ferry_buffer_evict(b, 1));
    expect_moved(f, &before, 0, 400);
    STATE(b, HOST_ONLY);
    expect_counting(f, b, 0, 0, 100, 1);
    expect_counting(f, b, 0, 100, FERRY_REST, 0);
    ferry_buffer_destroy(&b);
}

/* ferry_buffer_reserve() allocates memory for the whole base buffer at a place. It copies no byte
 * and does not change the state of the buffer. */
static void
test_reserve_takes_memory_and_moves_nothing(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_reserve(b, 1));
    OK(ferry_buffer_reserve(b, 1));
    expect_moved(f, &before, 0, 0);
    assert_int_equal(take_snapshot(b).info.places_with_copy, 3);
    STATE(b, HOST_DIRTY);
    ferry_buffer_destroy(&b);
}

/* Two prefetches of one buffer to one place must copy its bytes only once. */
static void
test_prefetch_moves_once(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_prefetch(b, 0, FERRY_REST, 1, f->stream));
    OK(ferry_buffer_prefetch(b, 0, FERRY_REST, 1, f->stream));
    expect_counting(f, b, 1, 0, FERRY_REST, 0);
    expect_moved(f, &before, BYTES, 0);
    add_to(f, b, 1, 0, FERRY_REST, 1);
    OK(ferry_buffer_prefetch(b, 0, FERRY_REST, 0, f->stream));
    expect_counting(f, b, 0, 0, FERRY_REST, 1);
    expect_moved(f, &before, BYTES, BYTES);
    ferry_buffer_destroy(&b);
}

struct logged {
    unsigned errors, notes;
};

static void
note_prefetch(ferry_log_level level, const char *message, void *user)
{
    struct logged *logged = user;
    logged->errors += level <= FERRY_LOG_WARNING;
    logged->notes +=
        level == FERRY_LOG_INFO && strstr(message, "prefetch a buffer: nothing was copied: ");
}

/* If there is no memory for a prefetch, it copies nothing and logs a message at level
 * FERRY_LOG_INFO. */
static void
test_a_prefetch_without_memory_is_no_error(void **state)
{
    fixture *f = *state;
    struct logged logged = {0, 0};
    ferry_context *context;
    ferry_buffer *b;
    int value = 7, got = 0;
    if (f->coherent)
        return;
    OK(ferry_context_create(&(ferry_context_options){.device_bytes_limit = 1 << 16,
                                                     .log = note_prefetch,
                                                     .log_user = &logged},
                            &context));
    OK(ferry_buffer_create(context, INT, 1 << 18, NULL, &b));
    OK(ferry_buffer_fill(b, INT, 0, FERRY_REST, &value, NULL));
    OK(ferry_buffer_prefetch(b, 0, FERRY_REST, 1, ferry_context_stream(context, 1)));
    OK(ferry_buffer_copy_to(b, INT, (1 << 18) - 1, 1, &got, NULL));
    assert_int_equal(got, value);
    ferry_buffer_destroy(&b);
    ferry_context_destroy(&context);
    assert_int_equal(logged.errors, 0);
    assert_int_equal(logged.notes, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_marks_over_newer_bytes_conflict),
        TEST(test_invalidate_never_drops_data),
        TEST(test_discard_reads_as_zero_and_moves_nothing),
        TEST(test_a_pinned_copy_keeps_its_address),
        TEST(test_evict_writes_back_once_what_is_only_there),
        TEST(test_reserve_takes_memory_and_moves_nothing),
        TEST(test_prefetch_moves_once),
        TEST(test_a_prefetch_without_memory_is_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
