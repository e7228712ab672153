/* SPDX-License-Identifier: MIT */
/* Tests which scopes may be open together, how they end, and what an abandoned one leaves. */
#include "tests/buffer/support.h"

#include "src/buffer/buffer.h"

#define COUNT 1000

/* Overlapping scopes conflict only if at least one of them writes. Opening the second scope then
 * fails with FERRY_ERROR_BUSY at once. Scopes on disjoint ranges never conflict. */
static void
test_overlapping_scopes_conflict_only_if_one_writes(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    for (int first_place = 0; first_place <= 1; first_place++) {
        for (ferry_access first = FERRY_READ; first <= FERRY_OVERWRITE; first++) {
            for (ferry_access second = FERRY_READ; second <= FERRY_OVERWRITE; second++) {
                ferry_scope one, two, beside;
                void *memory;
                open_at(f, b, first_place, first, 100, 100, &one);
                ferry_status expected =
                    first == FERRY_READ && second == FERRY_READ ? FERRY_OK : FERRY_ERROR_BUSY;
                assert_int_equal(ferry_buffer_open_host(b, INT, second, 199, 100, &two, &memory),
                                 expected);
                open_at(f, b, 0, second, 0, 100, &beside);
                OK(ferry_scope_close(&beside));
                open_at(f, b, 1, second, 500, 100, &beside);
                OK(ferry_scope_close(&beside));
                if (expected == FERRY_OK)
                    OK(ferry_scope_close(&two));
                OK(ferry_scope_close(&one));
            }
        }
    }
    ferry_buffer_destroy(&b);
}

/* Checks that device scopes on one stream never conflict. */
static void
test_device_scopes_on_one_stream_never_conflict(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_stream *other;
    ferry_scope one, two, three;
    void *memory;
    int32_t values[3] = {-1, -2, -3}, got[3];
    OK(ferry_stream_create(f->context, 1, &other));
    void *first = open_at(f, b, 1, FERRY_UPDATE, 0, FERRY_REST, &one);
    void *second = open_at(f, b, 1, FERRY_UPDATE, 0, FERRY_REST, &two);
    assert_ptr_equal(first, second);
    FAILS(FERRY_ERROR_BUSY,
          ferry_buffer_open_device(b, INT, FERRY_READ, 0, 1, other, &three, &memory));
    device_write(f, 1, first, values, sizeof(values));
    OK(ferry_scope_close(&two));
    OK(ferry_scope_close(&one));
    OK(ferry_buffer_copy_to(b, INT, 0, 3, got, NULL));
    assert_memory_equal(got, values, sizeof(got));
    expect_counting(f, b, 0, 3, FERRY_REST, 0);
    ferry_stream_destroy(&other);
    ferry_buffer_destroy(&b);
}

/* Closing the scope {0}, or closing a scope twice, returns FERRY_OK and affects no other scope. */
static void
test_closing_twice_touches_nobody_else(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_scope zero = {0}, scope, copy, other;
    void *memory;
    OK(ferry_scope_close(&zero));
    OK(ferry_scope_abandon(&zero));
    OK(ferry_scope_close_on(&zero, f->stream));
    open_at(f, b, 0, FERRY_UPDATE, 0, FERRY_REST, &scope);
    copy = scope;
    OK(ferry_scope_close(&scope));
    OK(ferry_scope_close(&scope));
    /* A new scope may reuse the table entry of a closed scope. Closing the closed scope again must
     * not close the new one. */
    open_at(f, b, 0, FERRY_UPDATE, 0, FERRY_REST, &other);
    OK(ferry_scope_close(&scope));
    OK(ferry_scope_close(&copy));
    OK(ferry_scope_abandon(&copy));
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_open_host(b, INT, FERRY_READ, 0, 1, &scope, &memory));
    assert_int_equal(take_snapshot(b).info.scopes, 1);
    OK(ferry_scope_close(&other));
    ferry_buffer_destroy(&b);
}

/* "open_all opens all or none." */
static void
test_open_all_opens_all_or_none(void **state)
{
    fixture *f = *state;
    enum { MANY = 5 };
    ferry_buffer *b[MANY];
    ferry_argument arguments[MANY];
    ferry_scope scopes[MANY], held;
    void *pointers[MANY];
    for (int i = 0; i < MANY; i++) {
        b[i] = make_counting(f, COUNT, i);
        arguments[i] = ferry_argument_with(ferry_buffer_argument(b[i], INT, 0, FERRY_REST),
                                           i % 2 ? FERRY_READ : FERRY_UPDATE);
    }
    for (int place = 0; place <= 1; place++) {
        open_at(f, b[3], 0, FERRY_UPDATE, 5, 1, &held);
        snapshot before = take_snapshot(b[2]);
        FAILS(FERRY_ERROR_BUSY, ferry_scope_open_all(arguments, MANY, place,
                                                     place ? f->stream : NULL, scopes, pointers));
        for (int i = 0; i < MANY; i++)
            assert_int_equal(take_snapshot(b[i]).info.scopes, i == 3);
        expect_unchanged(b[2], &before);
        OK(ferry_scope_close(&held));

        OK(ferry_scope_open_all(arguments, MANY, place, place ? f->stream : NULL, scopes,
                                pointers));
        for (int i = 0; i < MANY; i++) {
            int32_t value;
            assert_int_equal(take_snapshot(b[i]).info.scopes, 1);
            place_read(f, place, &value, (int32_t *)pointers[i] + 7, sizeof(value));
            assert_int_equal(value, 7 + i);
        }
        ferry_scope_close_all(scopes, MANY);
        for (int i = 0; i < MANY; i++)
            assert_int_equal(take_snapshot(b[i]).info.scopes, 0);
        assert_int_equal(ferry_buffer_is_current(b[0], place ? 0 : 1), 0);
        assert_true(ferry_buffer_is_current(b[1], 0));
    }
    for (int i = 0; i < MANY; i++)
        ferry_buffer_destroy(&b[i]);
}

/* One call opens overlapping ranges of a buffer only to read them. Other overlaps fail, and none of
 * the ranges is then open. Ranges without elements overlap nothing. */
static void
test_open_all_refuses_overlapping_writes(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0), *other = make_counting(f, COUNT, 0);
    static const struct {
        size_t begin, count;
        ferry_access access;
    } both[][2] = {{{100, 200, FERRY_READ}, {0, 150, FERRY_OVERWRITE}},
                   {{0, 150, FERRY_UPDATE}, {149, 1, FERRY_READ}},
                   {{0, COUNT, FERRY_READ}, {7, 1, FERRY_UPDATE}},
                   {{5, 5, FERRY_OVERWRITE}, {5, 5, FERRY_OVERWRITE}}};
    for (int place = 0; place <= f->places; place++) {
        ferry_stream *stream = place ? stream_of(f, place) : NULL;
        for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
            ferry_argument arguments[4] = {
                ferry_argument_with(ferry_buffer_argument(other, INT, 0, COUNT), FERRY_UPDATE),
                ferry_argument_with(ferry_buffer_argument(b, INT, 400, 10), FERRY_READ)};
            for (int j = 0; j < 2; j++)
                arguments[2 + j] = ferry_argument_with(
                    ferry_buffer_argument(b, INT, both[i][j].begin, both[i][j].count),
                    both[i][j].access);
            ferry_scope scopes[4];
            FAILS(FERRY_ERROR_BUSY,
                  ferry_scope_open_all(arguments, 4, place, stream, scopes, NULL));
            assert_non_null(strstr(ferry_last_error(), "overlap"));
            add_to(f, b, 0, 0, FERRY_REST, 0);
            arguments[3].count = 0;
            OK(ferry_scope_open_all(arguments, 4, place, stream, scopes, NULL));
            ferry_scope_close_all(scopes, 4);
        }
    }
    DESTROY_BUFFERS(&b, &other);
}

/* Each of many overlapping READ scopes locks its range, until it is closed. */
static void
test_open_all_reads_overlapping_ranges(void **state)
{
    enum { READS = 100 };
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_argument arguments[READS];
    ferry_scope scopes[READS], other;
    void *pointers[READS], *memory;
    for (int place = 0; place <= f->places; place++) {
        write_counting(f, b, f->places, 0, COUNT, 0);
        for (int i = 0; i < READS; i++)
            arguments[i] = ferry_argument_with(
                ferry_buffer_argument(b, INT, (size_t)(READS - i) / 2, 100), FERRY_READ);
        OK(ferry_scope_open_all(arguments, READS, place, place ? stream_of(f, place) : NULL, scopes,
                                pointers));
        for (int i = 0; i < READS; i++) {
            int32_t value;
            OK(ferry_scope_wait(&scopes[i]));
            place_read(f, place, &value, pointers[i], sizeof(value));
            assert_int_equal(value, (READS - i) / 2);
            FAILS(FERRY_ERROR_BUSY,
                  ferry_buffer_open_host(b, INT, FERRY_UPDATE, 0, FERRY_REST, &other, &memory));
            OK(ferry_scope_close(&scopes[i]));
            OK(ferry_scope_close(&scopes[i]));
        }
        add_to(f, b, 0, 0, FERRY_REST, 0);
    }
    ferry_buffer_destroy(&b);
}

/* All nested writes on one stream take effect if they are closed from the innermost to the
 * outermost. */
static void
test_scopes_of_a_stream_nest_deeply(void **state)
{
    enum { DEEP = 200 };
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_scope scopes[DEEP];
    /* Reading every second element at the device splits the valid map into many segments. So each
     * nested write must reserve map memory for its own segments. */
    for (size_t at = 0; at + 1 < COUNT; at += 2)
        touch(f, b, 1, FERRY_READ, at, 1);
    for (size_t i = 0; i < DEEP; i++) {
        int32_t value = -(int32_t)i,
                *memory = open_at(f, b, 1, FERRY_UPDATE, i, COUNT - 2 * i, &scopes[i]);
        device_write(f, 1, memory, &value, sizeof(value));
    }
    for (size_t i = DEEP; i-- > 0;)
        OK(ferry_scope_close(&scopes[i]));
    for (size_t i = 0; i < DEEP; i++)
        expect_constant(f, b, 0, i, 1, -(int32_t)i);
    expect_counting(f, b, 0, DEEP, FERRY_REST, 0);
    ferry_buffer_destroy(&b);
}

/* After a scope was closed, closing a copy of its scope struct has no effect. */
static void
test_copies_of_ended_scopes(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_scope scope, copy, next;
    open_at(f, b, 1, FERRY_READ, 0, COUNT, &scope);
    copy = scope;
    OK(ferry_scope_close(&scope));
    open_at(f, b, 1, FERRY_UPDATE, 0, COUNT, &next);
    OK(ferry_scope_close_on(&copy, f->stream));
    OK(ferry_scope_close(&copy));
    void *memory;
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_open_host(b, INT, FERRY_READ, 0, 1, &copy, &memory));
    OK(ferry_scope_close(&next));
    ferry_buffer_destroy(&b);
}

/* A write of a part of an array whose bytes are all current locks that part alone, wherever it
 * begins and ends. */
static void
test_a_write_of_a_part_locks_the_part(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    for (int place = 0; place <= f->places; place++) {
        for (ferry_access access = FERRY_UPDATE; access <= FERRY_OVERWRITE; access++) {
            ferry_scope all, first, rest;
            write_counting(f, b, place, 0, FERRY_REST, 0);
            char *memory = open_at(f, b, place, access, 0, FERRY_REST, &all);
            OK(ferry_scope_close(&all));
            expect_counting(f, b, 0, 0, FERRY_REST, 0);
            char *begin = open_at(f, b, place, FERRY_UPDATE, 0, 2, &first);
            char *end = open_at(f, b, place, FERRY_UPDATE, 2, FERRY_REST, &rest);
            assert_ptr_equal(begin, memory);
            assert_ptr_equal(end, memory + 2 * sizeof(int32_t));
            OK(ferry_scope_close(&first));
            OK(ferry_scope_close(&rest));
            char *only = open_at(f, b, place, FERRY_UPDATE, 2, FERRY_REST, &rest);
            assert_ptr_equal(only, end);
            OK(ferry_scope_close(&rest));
            expect_counting(f, b, 0, 0, FERRY_REST, 0);
        }
    }
    ferry_buffer_destroy(&b);
}

/* Abandoning an UPDATE or an OVERWRITE keeps the old value at the other places. Bytes of a
 * destroyed buffer, whose memory a new buffer reuses, must never become readable. */
static void
test_an_abandoned_write_keeps_the_old_value(void **state)
{
    fixture *f = *state;
    int32_t scribble[COUNT];
    memset(scribble, 0xEE, sizeof(scribble));
    for (int place = 0; place <= f->places; place++) {
        int other = place ? 0 : 1;
        for (ferry_access access = FERRY_UPDATE; access <= FERRY_OVERWRITE; access++) {
            ferry_buffer *b = make_ints(f, COUNT);
            ferry_scope scope;
            write_counting(f, b, other, 0, FERRY_REST, 3);
            void *memory = open_at(f, b, place, access, 0, FERRY_REST, &scope);
            if (!f->coherent) /* coherent places share this memory */
                place_write(f, place, memory, scribble, sizeof(scribble));
            OK(ferry_scope_abandon(&scope));
            assert_false(ferry_buffer_is_current(b, place));
            expect_counting(f, b, place, 0, FERRY_REST, 3);
            expect_counting(f, b, other, 0, FERRY_REST, 3);
            ferry_buffer_destroy(&b);
        }
        /* The new buffer `b` reuses the memory of a destroyed buffer, which had different bytes. */
        ferry_buffer *secret = make_ints(f, COUNT), *b;
        write_counting(f, secret, place, 0, FERRY_REST, 0x1111);
        ferry_buffer_destroy(&secret);
        b = make_ints(f, COUNT);
        ferry_scope scope;
        open_at(f, b, place, FERRY_OVERWRITE, 0, FERRY_REST, &scope);
        OK(ferry_scope_abandon(&scope));
        STATE(b, UNINITIALIZED);
        expect_constant(f, b, place, 0, FERRY_REST, 0);
        expect_constant(f, b, other, 0, FERRY_REST, 0);
        ferry_buffer_destroy(&b);
    }
}

/* Runs on a second thread. Closes the scope after 30 ms, while ferry_buffer_wait_available() waits
 * for the end of the scope. */
static void
close_later(void *scope)
{
    ferryi_sleep_ns(30000000);
    OK(ferry_scope_close(scope));
}

static void
test_wait_free_waits_for_scopes(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_scope scope;
    ferryi_thread thread;
    open_at(f, b, 0, FERRY_READ, 0, FERRY_REST, &scope);
    OK(ferry_buffer_wait_available(b, FERRY_READ, 0));
    uint64_t began = ferryi_now_ns();
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_wait_available(b, FERRY_UPDATE, 20000000));
    assert_true(ferryi_now_ns() - began >= 20000000);
    OK(ferryi_thread_start(&thread, "closes", close_later, &scope));
    OK(ferry_buffer_wait_available(b, FERRY_UPDATE, UINT64_MAX));
    touch(f, b, 0, FERRY_UPDATE, 0, FERRY_REST);
    ferryi_thread_join(thread);
    ferry_buffer_destroy(&b);
}

/* A scope may be closed on a different stream of the same place, if the last use of the scope was
 * queued on that stream. */
static void
test_a_scope_closes_on_another_stream(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_stream *other;
    ferry_event *event;
    ferry_scope scope;
    void *memory;
    OK(ferry_stream_create(f->context, 1, &other));
    OK(ferry_buffer_open_device(b, INT, FERRY_UPDATE, 0, FERRY_REST, other, &scope, &memory));
    OK(ferry_stream_record(other, 0, &event));
    OK(ferry_stream_wait_event(f->stream, event));
    int32_t value = 77;
    device_write(f, 1, memory, &value, sizeof(value));
    OK(ferry_scope_close_on(&scope, f->stream));
    expect_constant(f, b, 0, 0, 1, 77);
    expect_counting(f, b, 0, 1, FERRY_REST, 0);
    ferry_event_destroy(&event);
    ferry_stream_destroy(&other);
    ferry_buffer_destroy(&b);
}

/* Many scopes may be open at the same time, and may be closed in any order. */
static void
test_many_scopes_are_open_at_once(void **state)
{
    fixture *f = *state;
    enum { MANY = 200 };
    static ferry_scope scopes[MANY];
    ferry_buffer *b = make_counting(f, MANY * 2, 0);
    ferry_scope scope;
    void *memory;
    for (size_t i = 0; i < MANY; i++)
        *(int32_t *)open_at(f, b, 0, FERRY_OVERWRITE, 2 * i, 1, &scopes[i]) = (int32_t)(2 * i) + 5;
    assert_int_equal(take_snapshot(b).info.scopes, MANY);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_open_host(b, INT, FERRY_READ, 100, 2, &scope, &memory));
    for (size_t i = 0; i < MANY; i++)
        OK(ferry_scope_close(&scopes[(i * 7) % MANY]));
    assert_int_equal(take_snapshot(b).info.scopes, 0);
    for (size_t i = 0; i < MANY; i++) {
        expect_counting(f, b, 1, 2 * i, 1, 5);
        expect_counting(f, b, 1, 2 * i + 1, 1, 0);
    }
    ferry_buffer_destroy(&b);
}

/* A second thread may shorten the buffer after a write of a part has checked its range. The write
 * is then refused, because its range is checked again under the buffer's lock. A READ of current
 * bytes and a write of the whole buffer read the length under the lock only. */
static void
test_a_range_that_a_resize_cut_is_refused(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_stream *stream = stream_of(f, 1);
    ferry_scope scope;
    void *memory;
    expect_counting(f, b, 1, 0, COUNT, 0);
    for (int round = 0; round < 2; round++) {
        OK(ferry_buffer_resize(b, round == 0 ? COUNT / 10 : COUNT / 2));
        write_counting(f, b, 0, 0, FERRY_REST, 0);
        expect_counting(f, b, 1, 0, FERRY_REST, 0);
        size_t now = ferryi_buffer_count(b);
        atomic_store(&b->count, COUNT);
        for (ferry_access access = FERRY_UPDATE; access <= FERRY_OVERWRITE; access++) {
            FAILS(FERRY_ERROR_OUT_OF_RANGE,
                  ferry_buffer_open_host(b, INT, access, 1, COUNT - 1, &scope, &memory));
            FAILS(FERRY_ERROR_OUT_OF_RANGE,
                  ferry_buffer_open_host(b, INT, access, COUNT - 1, 1, &scope, &memory));
            FAILS(FERRY_ERROR_OUT_OF_RANGE,
                  ferry_buffer_open_device(b, INT, access, now, 1, stream, &scope, &memory));
        }
        atomic_store(&b->count, now);
        expect_counting(f, b, 0, 0, FERRY_REST, 0);
    }
    ferry_buffer_destroy(&b);
}

static void
test_a_stream_of_another_place_is_refused(void **state)
{
    fixture *f = *state;
    if (f->places < 2)
        skip();
    ferry_buffer *buffer = make_counting(f, 100, 0);
    ferry_argument argument =
        ferry_argument_with(ferry_buffer_argument(buffer, INT, 0, FERRY_REST), FERRY_UPDATE);
    ferry_scope scope;
    void *memory;
    FAILS(FERRY_ERROR_INVALID_ARGUMENT,
          ferry_scope_open_all(&argument, 1, 2, f->stream, &scope, &memory));
    assert_non_null(strstr(ferry_last_error(), "at place 2 on a stream of place 1"));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_prefetch(buffer, 0, FERRY_REST, 2, f->stream));
    assert_non_null(strstr(ferry_last_error(), "to place 2 on a stream of place 1"));
    STATE(buffer, HOST_ONLY);
    OK(ferry_scope_open_all(&argument, 1, 2, stream_of(f, 2), &scope, &memory));
    OK(ferry_scope_close(&scope));
    expect_counting(f, buffer, 0, 0, 100, 0);
    DESTROY_BUFFERS(&buffer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_overlapping_scopes_conflict_only_if_one_writes),
        TEST(test_device_scopes_on_one_stream_never_conflict),
        TEST(test_closing_twice_touches_nobody_else),
        TEST(test_open_all_opens_all_or_none),
        TEST(test_open_all_refuses_overlapping_writes),
        TEST(test_open_all_reads_overlapping_ranges),
        TEST(test_scopes_of_a_stream_nest_deeply),
        TEST(test_copies_of_ended_scopes),
        TEST(test_a_write_of_a_part_locks_the_part),
        TEST(test_an_abandoned_write_keeps_the_old_value),
        TEST(test_wait_free_waits_for_scopes),
        TEST(test_a_scope_closes_on_another_stream),
        TEST(test_many_scopes_are_open_at_once),
        TEST(test_a_range_that_a_resize_cut_is_refused),
        TEST(test_a_stream_of_another_place_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
