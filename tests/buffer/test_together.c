/* SPDX-License-Identifier: MIT */
/* Tests scopes that are opened together, calls that fail half way, and abandoned writes. All of
 * them must keep the guarantees of single scopes. */
#include "tests/buffer/work.h"

#include "src/buffer/buffer.h"
#include "src/buffer/scope.h"
#include "src/store/claim.h"
#include "tests/support/fault.h"
#include "tests/support/fence.h"

enum { COUNT = 1000 };

/* -- merged scopes ----------------------------------------------------------------------------- */

/* Queues a slow kernel on the stream, so that work queued after the kernel runs late. */
static void
keep_busy(fixture *f, work *w, ferry_stream *stream)
{
    ferry_buffer *other = make_ints(f, 1);
    work_delay(30000);
    OK(launch_fill(w, stream, other, 0, 1, 1));
    ferry_buffer_destroy(&other);
}

/* One call opens two scopes of a buffer, which are last used on different streams. A later use of
 * the buffer must wait for both streams, whichever scope is closed first. */
static void
test_scopes_keep_each_last_use(void **state)
{
    fixture *f = *state;
    for (int how = 0; how < 4; how++) {
        ferry_buffer *b = make_counting(f, COUNT, 0);
        ferry_stream *streams[2] = {make_stream(f, 1), make_stream(f, 1)};
        const ferry_argument arguments[] = {
            ferry_argument_with(ferry_buffer_argument(b, INT, 0, 500), FERRY_UPDATE),
            ferry_argument_with(ferry_buffer_argument(b, INT, 500, 500), FERRY_UPDATE)};
        ferry_scope scopes[2];
        ferry_event *opened;
        void *memory[2];
        work w;
        work_open(f, &w);
        OK(ferry_scope_open_all(arguments, 2, 1, streams[0], scopes, memory));
        OK(ferry_stream_record(streams[0], 0, &opened));
        OK(ferry_stream_wait_event(streams[1], opened));
        /* Scope 0 is used on stream `how & 1`, scope 1 on the other stream. */
        for (int i = 0; i < 2; i++) {
            ferry_stream *stream = streams[(how ^ i) & 1];
            keep_busy(f, &w, stream);
            queue_fill(f, stream, memory[i], 42 + i, 500);
        }
        for (int i = 0; i < 2; i++) {
            int which = how & 2 ? 1 - i : i;
            ferry_stream *stream = streams[(how ^ which) & 1];
            OK(stream == streams[0] ? ferry_scope_close(&scopes[which])
                                    : ferry_scope_close_on(&scopes[which], stream));
        }
        expect_constant(f, b, 0, 0, 500, 42);
        expect_constant(f, b, 0, 500, 500, 43);
        work_delay(0);
        work_close(&w);
        ferry_event_destroy(&opened);
        DESTROY_BUFFERS(&b);
        DESTROY_STREAMS(&streams[0], &streams[1]);
    }
}

/* -- many scopes ------------------------------------------------------------------------------- */

/* Opens `count` scopes at a place and checks their addresses. Scope i begins at element i * step.
 */
static void
open_many(fixture *f, ferry_buffer *b, int place, ferry_access access, size_t count, size_t step,
          size_t length, ferry_scope *scopes)
{
    ferry_argument *arguments = calloc(count, sizeof(*arguments));
    void **pointers = calloc(count, sizeof(*pointers));
    assert_non_null(arguments);
    assert_non_null(pointers);
    /* The call sorts the ranges itself, so they are not in order here. */
    for (size_t i = 0; i < count; i++) {
        size_t at = (i * 7919 % count) * step;
        arguments[i] = ferry_argument_with(ferry_buffer_argument(b, INT, at, length), access);
    }
    OK(ferry_scope_open_all(arguments, count, place, place ? f->stream : NULL, scopes, pointers));
    const char *first = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *begin = (const char *)pointers[i] - arguments[i].offset * sizeof(int);
        first = first ? first : begin;
        assert_ptr_equal(begin, first);
    }
    free(arguments);
    free(pointers);
}

/* If each range were compared with all others, this test would run into its time limit. A checked
 * run takes longer for each. */
static void
test_many_ranges_are_opened_at_once(void **state)
{
    fixture *f = *state;
    const size_t count = f->context->debug ? 1000 : 20000;
    ferry_scope *scopes = calloc(count, sizeof(*scopes));
    assert_non_null(scopes);
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_ints(f, 2 * count);
        open_many(f, b, place, FERRY_UPDATE, count, 2, 1, scopes);
        assert_int_equal(info_of(b).scopes, count);
        ferry_scope_close_all(scopes, count);
        open_many(f, b, place, FERRY_READ, count, 1, 2, scopes);
        assert_int_equal(info_of(b).scopes, count);
        ferry_scope_close_all(scopes, count);
        assert_int_equal(info_of(b).scopes, 0);
        touch(f, b, place, FERRY_OVERWRITE, 0, 2 * count);
        ferry_buffer_destroy(&b);
    }
    free(scopes);
}

enum { PIECE = 40 };

/* Fills a list with adjacent ranges of a buffer that end at the byte `end`. */
static void
list_ranges(struct ferryi_access *list, size_t count, ferry_buffer *b, size_t end, uint8_t access)
{
    for (size_t i = 0; i < count; i++) {
        const size_t begin = end - (count - i) * PIECE;
        list[i] = ferryi_access_of(b->store, (struct ferryi_range){begin, begin + PIECE}, access,
                                   FERRYI_PLACE_NONE, "test");
    }
}

static void
drop_ranges(struct ferryi_access *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ferryi_claim_drop(&list[i]);
}

/* Ranges of one buffer are locked in one step. They then have adjacent slots behind all others in
 * the table of locks, and the table grows only if it lacks slots. A lock that is taken by itself
 * takes a slot that is free before the end of the table. Nothing beside the list is read. */
static void
test_ranges_are_locked_in_one_step(void **state)
{
    enum { MOST = 20 };
    fixture *f = *state;
    struct ferryi_access *begin, *end = fence(&begin);
    for (size_t count = 2; count <= MOST; count++)
        for (int writes = 0; writes <= 1; writes++) {
            ferry_buffer *b = make_ints(f, COUNT);
            struct ferryi_access *list = count % 2 ? begin : end - count;
            ferry_scope scopes[2];
            for (size_t i = 0; i < LENGTH(scopes); i++)
                (void)open_at(f, b, 0, FERRY_READ, 0, writes ? 1 : FERRY_REST, &scopes[i]);
            OK(ferry_scope_close(&scopes[0]));
            const uint32_t high = b->store->claim_high, capacity = b->store->claim_capacity;
            list_ranges(list, count, b, COUNT * sizeof(int), writes ? FERRY_OVERWRITE : FERRY_READ);
            OK(ferryi_access_claim(list, count));
            for (size_t i = 0; i < count; i++)
                assert_int_equal(list[i].slot, high + i);
            assert_int_equal(high + count <= capacity, b->store->claim_capacity == capacity);
            drop_ranges(list, count);
            assert_int_equal(b->store->claim_count, 1);
            OK(ferry_scope_close(&scopes[1]));
            ferry_buffer_destroy(&b);
        }
}

/* Ranges are merged where they overlap, and nothing beside their lists is read or written. */
static void
test_ranges_are_merged(void **state)
{
    enum { MOST = 20 };
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, COUNT);
    struct ferryi_access *wanted = fence(NULL), *merged = fence(NULL);
    size_t *group = fence(NULL);
    for (size_t count = 1; count <= MOST; count++) {
        /* Pairs of ranges overlap, and the pairs are adjacent. */
        for (size_t i = 0; i < count; i++) {
            const size_t begin = i / 2 * PIECE + i % 2 * (PIECE / 2);
            (wanted - count)[count - 1 - i] =
                ferryi_access_of(b->store, (struct ferryi_range){begin, (i / 2 + 1) * PIECE},
                                 i % 2 ? FERRY_OVERWRITE : FERRY_READ, 0, "test");
        }
        const size_t made = (count + 1) / 2;
        assert_int_equal(ferryi_access_merge(wanted - count, count, merged - count, group - count),
                         made);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal((group - count)[count - 1 - i], i / 2);
            assert_int_equal((merged - count)[i / 2].begin, i / 2 * PIECE);
            assert_int_equal((merged - count)[i / 2].end, (i / 2 + 1) * PIECE);
            assert_int_equal((merged - count)[i / 2].access,
                             (i | 1) < count ? FERRY_UPDATE : FERRY_READ);
        }
    }
    ferry_buffer_destroy(&b);
}

/* Ranges that are listed together are refused together: behind the end of the buffer, beside a
 * scope that writes one of them, and after the end of the context. */
static void
test_ranges_are_refused_together(void **state)
{
    enum { COUNT_LISTED = 3 };
    (void)state;
    fixture fixed, *f = &fixed;
    fixture_open(f, NULL);
    ferry_buffer *b = make_ints(f, COUNT);
    struct ferryi_access list[COUNT_LISTED];
    ferry_scope scope;
    list_ranges(list, COUNT_LISTED, b, COUNT * sizeof(int) + 1, FERRY_READ);
    FAILS(FERRY_ERROR_OUT_OF_RANGE, ferryi_access_claim(list, COUNT_LISTED));
    for (size_t i = 0; i < COUNT_LISTED; i++) {
        (void)open_at(f, b, 0, FERRY_OVERWRITE, COUNT - (i + 1) * PIECE / sizeof(int), 1, &scope);
        list_ranges(list, COUNT_LISTED, b, COUNT * sizeof(int), FERRY_READ);
        FAILS(FERRY_ERROR_BUSY, ferryi_access_claim(list, COUNT_LISTED));
        OK(ferry_scope_close(&scope));
        assert_int_equal(b->store->claim_count, 0);
    }
    fixture_finish(f);
    ferry_context_destroy(&f->context);
    list_ranges(list, COUNT_LISTED, b, COUNT * sizeof(int), FERRY_READ);
    FAILS(FERRY_ERROR_INVALID_STATE, ferryi_access_claim(list, COUNT_LISTED));
    ferry_buffer_destroy(&b);
}

/* Reads that are opened together see what an open scope of the same stream has written, and copy
 * nothing over it. */
static void
test_reads_together_see_an_open_write(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    const ferry_argument arguments[] = {
        ferry_argument_with(ferry_buffer_argument(b, INT, 0, 100), FERRY_READ),
        ferry_argument_with(ferry_buffer_argument(b, INT, 300, 100), FERRY_READ)};
    ferry_scope write, scopes[LENGTH(arguments)];
    void *memory[LENGTH(arguments)];
    int32_t got[100];
    OK(ferry_buffer_reserve(b, 1));
    queue_fill(f, f->stream, open_at(f, b, 1, FERRY_OVERWRITE, 0, 500, &write), 77, 500);
    ferry_transfer_stats before = moved(f);
    OK(ferry_scope_open_all(arguments, LENGTH(arguments), 1, f->stream, scopes, memory));
    expect_moved(f, &before, 0, 0);
    for (size_t i = 0; i < LENGTH(arguments); i++) {
        device_read(f, 1, got, memory[i], sizeof(got));
        for (size_t k = 0; k < LENGTH(got); k++)
            assert_int_equal(got[k], 77);
    }
    ferry_scope_close_all(scopes, LENGTH(scopes));
    OK(ferry_scope_close(&write));
    expect_constant(f, b, 0, 0, 500, 77);
    expect_counting(f, b, 0, 500, 500, 0);
    ferry_buffer_destroy(&b);
}

/* Each of the scopes that share bytes keeps them from being written until it is closed itself. */
static void
test_overlapping_reads_have_no_limit(void **state)
{
    enum { MANY = 100 };
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_scope scopes[MANY], copy;
    void *pointer;
    for (int place = 0; place <= 1; place++) {
        open_many(f, b, place, FERRY_READ, MANY, 0, COUNT, scopes);
        for (size_t i = 0; i < MANY; i++) {
            FAILS(FERRY_ERROR_BUSY,
                  ferry_buffer_open_host(b, INT, FERRY_UPDATE, 0, COUNT, &copy, &pointer));
            copy = scopes[i];
            OK(ferry_scope_close(&scopes[i]));
            OK(ferry_scope_close(&copy));
        }
        add_to(f, b, 0, 0, COUNT, 0);
    }
    expect_counting(f, b, 0, 0, COUNT, 0);
    ferry_buffer_destroy(&b);
}

/* -- calls that fail half way ------------------------------------------------------------------ */

/* Opens a write scope on the device for a buffer that is current at the host. Then overwrites the
 * bytes of the device replica. */
static void
begin_write(fixture *f, ferry_buffer *b, ferry_access access, ferry_scope *write)
{
    int32_t scribble[COUNT];
    memset(scribble, 0xEE, sizeof(scribble));
    void *memory = open_at(f, b, 1, access, 0, COUNT, write);
    /* If the device shares the host's memory, this write would also overwrite the host's value. */
    if (!f->coherent)
        device_write(f, 1, memory, scribble, sizeof(scribble));
}

static void
expect_old_value(fixture *f, ferry_buffer *b, ferry_scope *write)
{
    OK(ferry_scope_abandon(write));
    assert_true(ferry_buffer_is_current(b, 0));
    expect_counting(f, b, 0, 0, COUNT, 0);
    expect_counting(f, b, 1, 0, COUNT, 0);
}

/* A call needs two buffers. One is being written by an open scope of the same stream, and the other
 * is busy, so the call fails with FERRY_ERROR_BUSY. The failed call must change nothing: abandoning
 * the write scope must still restore the old value. */
static void
test_a_call_that_is_busy_relies_on_nothing(void **state)
{
    fixture *f = *state;
    work w;
    work_open(f, &w);
    for (int round = 0; round < 8; round++) {
        /* A call locks its ranges in the order of their addresses. In some rounds the busy buffer
         * comes first in this order, in other rounds last. */
        ferry_buffer *buffers[2] = {make_counting(f, COUNT, 0), make_counting(f, COUNT, 0)};
        ferry_buffer *written = buffers[round & 1], *busy = buffers[!(round & 1)];
        ferry_scope write, at_host, both[2];
        begin_write(f, written, round & 2 ? FERRY_OVERWRITE : FERRY_UPDATE, &write);
        open_at(f, busy, 0, FERRY_UPDATE, 0, 1, &at_host);
        const ferry_argument arguments[] = {
            ferry_argument_with(ferry_buffer_argument(written, INT, 0, COUNT), FERRY_READ),
            ferry_argument_with(ferry_buffer_argument(busy, INT, 0, COUNT), FERRY_UPDATE)};
        if (round & 4)
            FAILS(FERRY_ERROR_BUSY, launch_copy(&w, f->stream, busy, 0, written, 0, COUNT));
        else
            FAILS(FERRY_ERROR_BUSY, ferry_scope_open_all(arguments, 2, 1, f->stream, both, NULL));
        expect_old_value(f, written, &write);
        OK(ferry_scope_close(&at_host));
        DESTROY_BUFFERS(&buffers[0], &buffers[1]);
    }
    work_close(&w);
}

/* A launch or a call of ferry_scope_open_all() uses bytes that an open scope of the same stream
 * writes. If a device call inside it fails, abandoning the write scope must still restore the old
 * value. */
static void
test_a_call_that_fails_relies_on_nothing(void **state)
{
    (void)state;
    uint64_t failures = 0;
    for (int round = 0; round < 4; round++) {
        bool tripped = true;
        for (uint64_t nth = 1; tripped; nth++) {
            fixture fixed, *f = &fixed;
            work w;
            fixture_open(f, &(ferry_context_options){.devices = "fault"});
            work_open(f, &w);
            ferry_buffer *written = make_counting(f, COUNT, 0), *other = make_counting(f, COUNT, 0);
            ferry_scope write, both[2];
            begin_write(f, written, round & 1 ? FERRY_OVERWRITE : FERRY_UPDATE, &write);
            const ferry_argument arguments[] = {
                ferry_argument_with(ferry_buffer_argument(written, INT, 100, 100), FERRY_UPDATE),
                ferry_argument_with(ferry_buffer_argument(other, INT, 0, COUNT), FERRY_UPDATE)};
            fault_arm(nth);
            ferry_status status =
                round & 2 ? launch_copy(&w, f->stream, other, 0, written, 100, COUNT / 2)
                          : ferry_scope_open_all(arguments, 2, 1, f->stream, both, NULL);
            tripped = fault_tripped();
            fault_disarm();
            /* The library can do without some device calls. If the call that failed was one of
             * them, the call under test succeeds. */
            if (status == FERRY_OK && !(round & 2))
                ferry_scope_close_all(both, 2);
            if (status == FERRY_OK) {
                OK(ferry_scope_abandon(&write));
                assert_false(ferry_buffer_is_current(written, 0));
            } else {
                expect_old_value(f, written, &write);
                failures++;
            }
            f->errors = 0;
            DESTROY_BUFFERS(&written, &other);
            work_close(&w);
            fixture_close(f);
        }
    }
    assert_true(failures >= 8);
}

/* If an open scope of the same stream has written a part of a range, a read of the range transfers
 * only the other bytes. */
static void
test_what_an_earlier_write_covers_is_not_moved(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_scope writes[2], read;
    OK(ferry_buffer_reserve(b, 1));
    for (int i = 0; i < 2; i++)
        queue_fill(f, f->stream,
                   open_at(f, b, 1, FERRY_OVERWRITE, 200 + 400 * (size_t)i, 200, &writes[i]), 77,
                   200);
    ferry_transfer_stats before = moved(f);
    int32_t got[COUNT];
    device_read(f, 1, got, open_at(f, b, 1, FERRY_READ, 0, COUNT, &read), sizeof(got));
    expect_moved(f, &before, 600 * sizeof(int32_t), 0);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(got[i], i / 200 % 2 ? 77 : i);
    /* Abandoning the write scopes does not restore the old values, because the READ scope has
     * already read the new values. */
    OK(ferry_scope_close(&read));
    for (int i = 0; i < 2; i++)
        OK(ferry_scope_abandon(&writes[i]));
    for (size_t at = 0; at < COUNT; at += 200)
        (at / 200 % 2 ? expect_constant(f, b, 0, at, 200, 77)
                      : expect_counting(f, b, 0, at, 200, 0));
    ferry_buffer_destroy(&b);
}

/* Data of a thread that abandons a write scope. Meanwhile, a call that reads the written bytes is
 * in progress. */
struct middle {
    ferry_scope *write;
    atomic_bool abandoned;
    bool too_early, came;
    ferryi_thread thread;
};

static void
abandon_it(void *user)
{
    struct middle *m = user;
    OK(ferry_scope_abandon(m->write));
    atomic_store(&m->abandoned, true);
}

static ferry_status
come_in_the_middle(const char *slot, void *user)
{
    struct middle *m = user;
    (void)slot;
    if (m->came)
        return FERRY_OK;
    m->came = true;
    OK(ferryi_thread_start(&m->thread, "abandons", abandon_it, m));
    ferryi_sleep_ns(20000000);
    m->too_early = atomic_load(&m->abandoned);
    return FERRY_OK;
}

/* A call reads bytes that an open scope of the same stream writes. A second thread abandons that
 * scope meanwhile. The abandon must wait until the call has succeeded or failed. */
static void
test_an_abandon_waits_for_the_call_that_relies_on_it(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        fixture fixed, *f = &fixed;
        fixture_open(f, &(ferry_context_options){.devices = "fault"});
        ferry_buffer *b = make_counting(f, COUNT, 0), *other = make_counting(f, COUNT, 0);
        ferry_scope write, both[2];
        void *memory = open_at(f, b, 1, FERRY_OVERWRITE, 0, 500, &write);
        queue_fill(f, f->stream, memory, 77, 500);
        struct middle m = {.write = &write};
        const ferry_argument arguments[] = {
            ferry_argument_with(ferry_buffer_argument(b, INT, 0, COUNT), FERRY_READ),
            ferry_argument_with(ferry_buffer_argument(other, INT, 0, COUNT), FERRY_READ)};
        fault_hook(come_in_the_middle, &m);
        if (fails)
            fault_arm(3); /* fails in the same transfer, or later */
        bool first = b->store < other->store;
        ferry_status status =
            ferry_scope_open_all(arguments, first ? 2 : 1, 1, f->stream, both, NULL);
        fault_hook(NULL, NULL);
        fault_disarm();
        assert_true(m.came);
        assert_false(m.too_early);
        ferryi_thread_join(m.thread);
        if (status == FERRY_OK) {
            ferry_scope_close_all(both, first ? 2 : 1);
            expect_constant(f, b, 0, 0, 500, 77);
        } else {
            expect_counting(f, b, 0, 0, 500, 0);
        }
        expect_counting(f, b, 0, 500, 500, 0);
        assert_int_equal(status != FERRY_OK, fails);
        f->errors = 0;
        DESTROY_BUFFERS(&b, &other);
        fixture_close(f);
    }
}

/* -- while a write is open --------------------------------------------------------------------- */

/* While a write scope is open, the last replica with the old value cannot be dropped, because
 * abandoning the scope needs this value. An attempt to drop it fails with FERRY_ERROR_BUSY. */
static void
test_the_old_value_stays_while_a_write_is_open(void **state)
{
    fixture *f = *state;
    for (ferry_access access = FERRY_UPDATE; access <= FERRY_OVERWRITE; access++) {
        ferry_buffer *b = make_counting(f, COUNT, 0);
        ferry_scope write;
        int32_t scribble[100] = {0};
        touch(f, b, 1, FERRY_READ, 0, COUNT);
        void *memory = open_at(f, b, 1, access, 100, 100, &write);
        if (!f->coherent)
            device_write(f, 1, memory, scribble, sizeof(scribble));
        FAILS(FERRY_ERROR_BUSY, ferry_buffer_evict(b, 0));
        FAILS(FERRY_ERROR_BUSY, ferry_buffer_invalidate(b, 0, FERRY_REST, 0));
        FAILS(FERRY_ERROR_BUSY, ferry_buffer_invalidate(b, 199, 1, 0));
        /* The old value outside the written range is not needed, so its replica can be dropped. On
         * coherent devices it cannot be dropped, because the write uses the same memory. */
        if (!f->coherent)
            OK(ferry_buffer_invalidate(b, 200, 800, 0));
        OK(ferry_scope_abandon(&write));
        expect_counting(f, b, 0, 0, COUNT, 0);
        ferry_buffer_destroy(&b);
    }
}

static void
test_a_third_copy_may_go_while_a_write_is_open(void **state)
{
    fixture *f = *state;
    if (f->places < 2 || f->coherent)
        skip();
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_scope write, later;
    touch(f, b, 1, FERRY_READ, 0, COUNT);
    touch(f, b, 2, FERRY_READ, 0, COUNT);
    open_at(f, b, 1, FERRY_UPDATE, 0, COUNT, &write);
    OK(ferry_buffer_evict(b, 0));
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_evict(b, 2));
    /* A scope that reads the new value makes the write final. Abandoning the write no longer
     * restores the old value, so the replica with the old value can be evicted. */
    open_at(f, b, 1, FERRY_READ, 0, 1, &later);
    OK(ferry_buffer_evict(b, 2));
    OK(ferry_scope_close(&later));
    OK(ferry_scope_close(&write));
    expect_counting(f, b, 0, 0, COUNT, 0);
    ferry_buffer_destroy(&b);
}

/* -- unwritten zeros --------------------------------------------------------------------------- */

static void
test_zeros_that_were_read_are_not_written(void **state)
{
    fixture *f = *state;
    ferry_transfer_stats before = moved(f);
    ferry_buffer *b = make_ints(f, COUNT);
    for (int place = 0; place <= f->places; place++) {
        expect_constant(f, b, place, 0, COUNT, 0);
        STATE(b, UNINITIALIZED);
    }
    expect_moved(f, &before, 0, 0);
    /* Marking unwritten bytes dirty makes them count as written, but only at the marked place. */
    OK(ferry_buffer_discard(b, 0, FERRY_REST));
    expect_constant(f, b, 0, 0, COUNT, 0);
    OK(ferry_buffer_reserve(b, 1));
    OK(ferry_buffer_mark_dirty(b, 0, FERRY_REST, 1, NULL));
    assert_int_not_equal(ferry_buffer_state(b), FERRY_STATE_UNINITIALIZED);
    ferry_buffer_destroy(&b);
}

/* Abandons the first write to a new buffer. Afterwards the buffer must read as zero at every place,
 * even if its zeros were read at any place before the write. */
static void
test_an_abandoned_write_of_nothing_reads_zero(void **state)
{
    fixture *f = *state;
    int32_t scribble[COUNT];
    memset(scribble, 0xEE, sizeof(scribble));
    for (int place = 0; place <= f->places; place++) {
        for (ferry_access access = FERRY_UPDATE; access <= FERRY_OVERWRITE; access++) {
            for (int reader = -1; reader <= f->places; reader++) {
                ferry_buffer *b = make_ints(f, COUNT);
                ferry_scope scope;
                if (reader >= 0)
                    expect_constant(f, b, reader, 0, COUNT, 0);
                place_write(f, place, open_at(f, b, place, access, 0, COUNT, &scope), scribble,
                            sizeof(scribble));
                OK(ferry_scope_abandon(&scope));
                STATE(b, UNINITIALIZED);
                for (int each = 0; each <= f->places; each++)
                    expect_constant(f, b, each, 0, COUNT, 0);
                ferry_buffer_destroy(&b);
            }
        }
    }
}

/* Replicas of bytes that were never written are evicted without a transfer. The bytes still read as
 * zero. */
static void
test_copies_of_zeros_go_without_a_trace(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, COUNT);
    ferry_transfer_stats before = moved(f);
    expect_constant(f, b, 1, 0, COUNT, 0);
    OK(ferry_buffer_evict(b, 1));
    expect_constant(f, b, 0, 0, COUNT, 0);
    OK(ferry_buffer_evict(b, 0));
    assert_int_equal(take_snapshot(b).info.places_with_copy, 0);
    expect_moved(f, &before, 0, 0);
    /* Copying bytes that were never written copies zeros. In the target, these zeros count as
     * written. */
    ferry_buffer *target = make_counting(f, COUNT, 1);
    OK(ferry_buffer_copy(target, INT, 0, b, 0, COUNT, NULL));
    expect_constant(f, target, 1, 0, COUNT, 0);
    assert_int_not_equal(ferry_buffer_state(target), FERRY_STATE_UNINITIALIZED);
    DESTROY_BUFFERS(&b, &target);
}

/* -- two devices of different sorts ------------------------------------------------------------ */

static const char *const mixed[] = {"host,emulated:1", "emulated:1,host"};

static void
test_a_coherent_place_takes_from_its_own_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(mixed); i++) {
        fixture fixed, *f = &fixed;
        fixture_open(f, &(ferry_context_options){.devices = mixed[i]});
        int coherent = f->coherent ? 1 : 2, apart = 3 - coherent;
        for (int from = 0; from < 2; from++) {
            int first = from ? coherent : 0, second = from ? 0 : coherent;
            ferry_buffer *b = make_ints(f, COUNT);
            void *memory;
            write_counting(f, b, 0, 0, COUNT, 0);
            touch(f, b, apart, FERRY_UPDATE, 0, COUNT);
            OK(ferry_buffer_sync_to(b, 0, FERRY_REST, first, NULL));
            OK(ferry_buffer_hold(b, first, &memory));
            ((int32_t *)memory)[7] = 42;
            ferry_transfer_stats before = moved(f);
            OK(ferry_buffer_sync_to(b, 0, FERRY_REST, second, NULL));
            ferry_transfer_stats after = moved(f);
            assert_int_equal(crossing(&after), crossing(&before));
            OK(ferry_buffer_mark_dirty(b, 0, FERRY_REST, first, NULL));
            expect_constant(f, b, 0, 7, 1, 42);
            OK(ferry_buffer_release(b, first));
            ferry_buffer_destroy(&b);
        }
        fixture_close(f);
    }
}

/* The host and a coherent device use the same memory, and a write that is abandoned overwrites it.
 * Neither of them may be current afterwards. Reads there must get the old value from a second
 * device. */
static void
test_an_abandoned_write_leaves_no_place_of_its_memory_current(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(mixed); i++) {
        fixture fixed, *f = &fixed;
        fixture_open(f, &(ferry_context_options){.devices = mixed[i]});
        int coherent = f->coherent ? 1 : 2, apart = 3 - coherent;
        for (int writer = 0; writer < 2; writer++) {
            ferry_buffer *b = make_ints(f, COUNT);
            ferry_scope scope;
            write_counting(f, b, 0, 0, COUNT, 5);
            touch(f, b, apart, FERRY_UPDATE, 0, COUNT);
            expect_counting(f, b, 0, 0, COUNT, 5);
            expect_counting(f, b, coherent, 0, COUNT, 5);
            int32_t *memory = open_at(f, b, writer ? coherent : 0, FERRY_UPDATE, 100, 100, &scope);
            memset(memory, 0xEE, 100 * sizeof(int32_t));
            OK(ferry_scope_abandon(&scope));
            expect_counting(f, b, 0, 0, COUNT, 5);
            expect_counting(f, b, coherent, 0, COUNT, 5);
            ferry_buffer_destroy(&b);
        }
        fixture_close(f);
    }
}

/* -- copies of scopes -------------------------------------------------------------------------- */

/* Each scope has a unique number, even if the storage of its buffer is reused for a new buffer. */
static void
test_no_two_scopes_have_one_number(void **state)
{
    fixture *f = *state;
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        ferry_buffer *b = make_ints(f, COUNT);
        for (int k = 0; k <= i % 3; k++) {
            ferry_scope scope;
            open_at(f, b, 0, FERRY_UPDATE, 0, COUNT, &scope);
            assert_true(ferryi_scope_of(&scope)->id > last);
            last = ferryi_scope_of(&scope)->id;
            OK(ferry_scope_close(&scope));
        }
        ferry_buffer_destroy(&b);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_scopes_keep_each_last_use),
        TEST(test_many_ranges_are_opened_at_once),
        TEST(test_ranges_are_locked_in_one_step),
        TEST(test_ranges_are_merged),
        cmocka_unit_test(test_ranges_are_refused_together),
        TEST(test_reads_together_see_an_open_write),
        TEST(test_overlapping_reads_have_no_limit),
        TEST(test_a_call_that_is_busy_relies_on_nothing),
        cmocka_unit_test(test_a_call_that_fails_relies_on_nothing),
        TEST(test_what_an_earlier_write_covers_is_not_moved),
        cmocka_unit_test(test_an_abandon_waits_for_the_call_that_relies_on_it),
        TEST(test_the_old_value_stays_while_a_write_is_open),
        TEST(test_a_third_copy_may_go_while_a_write_is_open),
        TEST(test_zeros_that_were_read_are_not_written),
        TEST(test_an_abandoned_write_of_nothing_reads_zero),
        TEST(test_copies_of_zeros_go_without_a_trace),
        cmocka_unit_test(test_a_coherent_place_takes_from_its_own_memory),
        cmocka_unit_test(test_an_abandoned_write_leaves_no_place_of_its_memory_current),
        TEST(test_no_two_scopes_have_one_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
