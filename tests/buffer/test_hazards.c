/* SPDX-License-Identifier: MIT */
/* Tests the order of work on different streams. No stale or torn bytes may be read, and no wait or
 * driver call may be needless. */
#include "tests/buffer/work.h"

#include <stdatomic.h>
#include <time.h>

#include "src/move/bring.h"

enum { COUNT = 1000, MANY = 100 };

static void
expect_all(ferry_buffer *buffer, size_t offset, size_t count, int value)
{
    int *expected = malloc(count * sizeof(*expected));
    assert_non_null(expected);
    for (size_t i = 0; i < count; i++)
        expected[i] = value;
    expect_ints(buffer, expected, offset, count);
    free(expected);
}

/* -- read after write, write after read, write after write ------------------------------------- */

static void
test_read_after_write(void **state)
{
    fixture *f = *state;
    for (int place = 1; place <= f->places; place++) {
        ferry_stream *a = make_stream(f, 1), *b = make_stream(f, place),
                     *c = make_stream(f, f->places);
        ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT), *z = make_ints(f, COUNT);
        fill_on(f, x, a, 0, COUNT, 7);
        copy_on(f, b, y, 0, x, 0, COUNT);
        copy_on(f, c, z, 0, y, 0, COUNT);
        expect_all(z, 0, COUNT, 7);
        expect_all(y, 0, COUNT, 7);
        DESTROY_BUFFERS(&x, &y, &z);
        DESTROY_STREAMS(&a, &b, &c);
    }
}

/* Streams `a` and `b` have copied the buffer `x` to `y` and `z`. Stream `c` then overwrites `x`.
 * The test waits for stream `c` first, so the overwrite would run before the copies if the streams
 * were not ordered. */
static void
overwrite_what_was_read(fixture *f, ferry_stream *c, ferry_buffer *x, ferry_buffer *y,
                        ferry_buffer *z)
{
    fill_on(f, x, c, 0, COUNT, 2);
    OK(ferry_stream_synchronize(c));
    expect_all(x, 0, COUNT, 2);
    expect_all(y, 0, COUNT, 1);
    expect_all(z, 0, COUNT, 1);
}

static void
test_write_after_read(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1), *c = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT), *z = make_ints(f, COUNT);
    fill_on(f, x, a, 0, COUNT, 1);
    copy_on(f, a, y, 0, x, 0, COUNT);
    copy_on(f, b, z, 0, x, 0, COUNT);
    overwrite_what_was_read(f, c, x, y, z);
    DESTROY_BUFFERS(&x, &y, &z);
    DESTROY_STREAMS(&a, &b, &c);
}

/* Tests that an overwrite on one stream waits for a read on a different stream, even if the read
 * made no driver call. Such a read takes the fast path when its scope is opened and closed. */
static void
test_write_after_a_read_that_was_a_hit(void **state)
{
    fixture *f = *state;
    if (f->context->debug)
        skip(); /* a checked run asks the driver at each use */
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1), *c = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT), *z = make_ints(f, COUNT);
    ferry_event *event;
    fill_on(f, y, b, 0, COUNT, 0);
    fill_on(f, z, b, 0, COUNT, 0);
    fill_on(f, x, a, 0, COUNT, 1);
    OK(ferry_stream_record(a, 0, &event));
    OK(ferry_stream_wait_event(b, event));
    ferry_event_destroy(&event);
    uint64_t before = device_calls(f);
    copy_on(f, b, y, 0, x, 0, COUNT);
    copy_on(f, b, z, 0, x, 0, COUNT);
    assert_int_equal(device_calls(f), before);
    overwrite_what_was_read(f, c, x, y, z);
    DESTROY_BUFFERS(&x, &y, &z);
    DESTROY_STREAMS(&a, &b, &c);
}

static void
test_write_after_write(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1), *c = make_stream(f, f->places);
    ferry_buffer *x = make_ints(f, COUNT);
    fill_on(f, x, a, 0, COUNT, 1);
    fill_on(f, x, b, 200, 500, 2);
    fill_on(f, x, c, 400, 100, 3);
    OK(ferry_stream_synchronize(c));
    OK(ferry_stream_synchronize(b));
    OK(ferry_stream_synchronize(a));
    expect_all(x, 0, 200, 1);
    expect_all(x, 200, 200, 2);
    expect_all(x, 400, 100, 3);
    expect_all(x, 500, 200, 2);
    expect_all(x, 700, 300, 1);
    ferry_buffer_destroy(&x);
    DESTROY_STREAMS(&a, &b, &c);
}

/* A host scope that is opened between two pieces of work on default streams is ordered after the
 * first and before the second piece. */
static void
test_host_between_streams(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0);
    work w;
    work_open(f, &w);
    for (int round = 0; round < 5; round++) {
        OK(launch_add(&w, a, x, 0, COUNT, 1));
        OK(launch_add(&w, f->stream, x, 0, COUNT, 1));
        add_to(f, x, 0, 100, 50, -2);
        OK(launch_add(&w, stream_of(f, f->places), x, 100, 50, 2));
    }
    expect_counting(f, x, 0, 0, COUNT, 10);
    work_close(&w);
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&a);
}

static void
test_streams_at_the_same_address(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    void *last = NULL;
    bool came_back = false;
    for (int i = 1; i <= 40; i++) {
        ferry_stream *a = make_stream(f, 1);
        came_back = came_back || ferry_stream_native(a) == last;
        fill_on(f, x, a, 0, COUNT, i);
        last = ferry_stream_native(a);
        ferry_stream_destroy(&a);
        assert_null(a);
        ferry_stream *b = make_stream(f, 1);
        came_back = came_back || ferry_stream_native(b) == last;
        copy_on(f, b, y, 0, x, 0, COUNT);
        /* The next round's write must wait for this read, although the stream of the read is
         * destroyed before that round. */
        last = ferry_stream_native(b);
        ferry_stream_destroy(&b);
        if (i % 4 == 0)
            expect_all(y, 0, COUNT, i);
    }
    if (is_lazy(f))
        assert_true(came_back);
    DESTROY_BUFFERS(&x, &y);
}

static void
test_more_streams_than_numbers(void **state)
{
    fixture *f = *state;
    ferry_stream *streams[MANY];
    ferry_buffer *sum = make_ints(f, COUNT), *copies[MANY];
    work w;
    work_open(f, &w);
    for (int i = 0; i < MANY; i++)
        streams[i] = make_stream(f, 1 + i % f->places);
    for (int i = 0; i < MANY; i++) {
        copies[i] = make_ints(f, COUNT);
        OK(launch_add(&w, streams[i], sum, 0, COUNT, 1));
        OK(launch_copy(&w, streams[MANY - 1 - i], copies[i], 0, sum, 0, COUNT));
    }
    fill_on(f, sum, streams[MANY - 1], 0, COUNT, -1);
    OK(ferry_stream_synchronize(streams[MANY - 1]));
    for (int i = MANY - 1; i >= 0; i--)
        expect_all(copies[i], 0, COUNT, i + 1);
    expect_all(sum, 0, COUNT, -1);
    for (int i = 0; i < MANY; i++) {
        ferry_stream_destroy(&streams[i]);
        ferry_buffer_destroy(&copies[i]);
    }
    work_close(&w);
    ferry_buffer_destroy(&sum);
}

/* -- closing elsewhere ------------------------------------------------------------------------- */

static void
hand_over(fixture *f, ferry_stream *from, ferry_stream *to)
{
    ferry_event *event;
    OK(ferry_stream_record(from, 0, &event));
    OK(ferry_stream_wait_event(to, event));
    ferry_event_destroy(&event);
    (void)f;
}

static void
check_close_on(fixture *f, ferry_stream *first, ferry_stream *second)
{
    ferry_stream *reader = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    ferry_scope scope;
    char *memory = open_on(x, first, FERRY_OVERWRITE, 0, COUNT, &scope);
    queue_fill(f, first, memory, 1, COUNT);
    hand_over(f, first, second);
    queue_fill(f, second, memory, 2, COUNT / 2);
    OK(ferry_scope_close_on(&scope, second));
    copy_on(f, reader, y, 0, x, 0, COUNT);
    OK(ferry_stream_synchronize(reader));
    expect_all(y, 0, COUNT / 2, 2);
    expect_all(y, COUNT / 2, COUNT / 2, 1);
    expect_all(x, 0, COUNT / 2, 2);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&reader);
}

static void
test_close_on_another_stream(void **state)
{
    fixture *f = *state;
    ferry_stream *streams[STREAM_CROWD];
    make_crowd(f, streams);
    check_close_on(f, streams[0], streams[1]);
    check_close_on(f, streams[0], streams[STREAM_CROWD - 1]);
    check_close_on(f, streams[STREAM_CROWD - 1], streams[0]);
    check_close_on(f, streams[STREAM_CROWD - 1], streams[STREAM_CROWD - 2]);
    destroy_crowd(streams);
}

/* A scope inside a write of the whole buffer ends on another stream: what follows the write waits
 * for that stream, too. */
static void
test_an_inner_scope_closes_on_another_stream(void **state)
{
    fixture *f = *state;
    ferry_stream *first = make_stream(f, 1), *second = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT), *other = make_ints(f, COUNT);
    ferry_scope outer, inner, target;
    fill_on(f, x, first, 0, COUNT, 1);
    char *memory = open_on(x, first, FERRY_UPDATE, 0, COUNT, &outer);
    queue_fill(f, first, memory, 2, COUNT);
    memory = open_on(x, first, FERRY_READ, 0, COUNT, &inner);
    hand_over(f, first, second);
    char *copied = open_on(y, second, FERRY_OVERWRITE, 0, COUNT, &target);
    queue_copy(f, second, copied, memory, COUNT);
    OK(ferry_scope_close(&target));
    OK(ferry_scope_close_on(&inner, second));
    fill_on(f, other, first, 0, COUNT, 4); /* a use of the first stream since its last event */
    OK(ferry_scope_close(&outer));
    fill_on(f, x, first, 0, COUNT, 3);
    OK(ferry_stream_synchronize(first));
    expect_all(y, 0, COUNT, 2);
    expect_all(x, 0, COUNT, 3);
    DESTROY_BUFFERS(&x, &y, &other);
    ferry_stream_destroy(&first);
    ferry_stream_destroy(&second);
}

static void
test_close_on_refuses_other_places(void **state)
{
    fixture *f = *state;
    ferry_scope scope;
    ferry_buffer *x = make_ints(f, COUNT);
    void *memory;
    OK(ferry_buffer_open_host(x, INT, FERRY_OVERWRITE, 0, COUNT, &scope, &memory));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_scope_close_on(&scope, f->stream));
    memset(memory, 0, COUNT * sizeof(int));
    OK(ferry_scope_close(&scope));
    if (f->places > 1) {
        open_on(x, f->stream, FERRY_UPDATE, 0, COUNT, &scope);
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_scope_close_on(&scope, stream_of(f, 2)));
        /* The scope stayed open. */
        FAILS(FERRY_ERROR_BUSY, ferry_buffer_wait_available(x, FERRY_READ, 0));
        OK(ferry_scope_close(&scope));
    }
    ferry_buffer_destroy(&x);
}

static void *
close_here(void *scope)
{
    return (void *)(uintptr_t)ferry_scope_close(scope);
}

static void
test_close_from_another_thread(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, f->places);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    for (int i = 1; i <= 10; i++) {
        ferry_scope scope;
        pthread_t thread;
        void *status;
        queue_fill(f, a, open_on(x, a, FERRY_OVERWRITE, 0, COUNT, &scope), i, COUNT);
        assert_int_equal(pthread_create(&thread, NULL, close_here, &scope), 0);
        assert_int_equal(pthread_join(thread, &status), 0);
        assert_int_equal((int)(uintptr_t)status, FERRY_OK);
        copy_on(f, b, y, 0, x, 0, COUNT);
        expect_all(y, 0, COUNT, i);
    }
    DESTROY_BUFFERS(&x, &y);
    DESTROY_STREAMS(&a, &b);
}

/* A scope stays valid when the stream that it was opened on is destroyed. */
static void
test_close_after_the_stream_is_gone(void **state)
{
    fixture *f = *state;
    if (f->context->debug)
        skip(); /* a checked run asks the driver at each use */
    ferry_stream *b = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    for (int i = 1; i <= 20; i++) {
        ferry_scope scope;
        ferry_stream *a = make_stream(f, 1);
        queue_fill(f, a, open_on(x, a, FERRY_OVERWRITE, 0, COUNT, &scope), i, COUNT);
        ferry_stream_destroy(&a);
        if (i % 2)
            a = make_stream(f, 1);
        OK(ferry_scope_close(&scope));
        copy_on(f, b, y, 0, x, 0, COUNT);
        uint64_t calls = device_calls(f);
        open_on(x, b, FERRY_READ, 0, COUNT, &scope);
        OK(ferry_scope_close(&scope));
        assert_int_equal(device_calls(f), calls);
        ferry_stream_destroy(&a);
        expect_all(y, 0, COUNT, i);
    }
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&b);
}

/* Checks that a scope records an event when it is closed, if the host has waited for the previous
 * scope on the same replica. A later wait then does not include work that is queued after the
 * scope. */
static void
test_a_scope_records_an_event_after_a_wait(void **state)
{
    fixture *f = *state;
    if (f->coherent)
        skip();
    ferry_stream *a = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT);
    for (int waited = 0; waited < 2; waited++) {
        ferry_scope scope;
        open_on(x, a, FERRY_UPDATE, 0, COUNT, &scope);
        uint64_t calls = device_calls(f);
        OK(ferry_scope_close(&scope));
        assert_int_equal(device_calls(f) > calls, waited);
        touch(f, x, 0, FERRY_READ, 0, COUNT);
    }
    /* The program has synchronized the stream, so it does not let work run on. */
    for (int i = 0; i < 2; i++) {
        ferry_scope scope;
        open_on(x, a, FERRY_UPDATE, 0, COUNT, &scope);
        uint64_t calls = device_calls(f);
        OK(ferry_scope_close(&scope));
        if (i > 0)
            assert_int_equal(device_calls(f), calls);
        OK(ferry_stream_synchronize(a));
        touch(f, x, 0, FERRY_READ, 0, COUNT);
    }
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&a);
}

/* A stream reads a range while its own OVERWRITE scope on the middle of the range is open. The part
 * before the middle is stale, so it is uploaded first. The part behind the middle is current and
 * needs no upload. The read must wait for the upload of the first part. */
static void
test_a_read_waits_for_the_upload_of_an_earlier_part(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    ferry_scope scope;
    write_counting(f, x, 0, 0, COUNT, 5);
    touch(f, x, 1, FERRY_READ, 600, COUNT - 600);
    queue_fill(f, a, open_on(x, a, FERRY_OVERWRITE, 400, 200, &scope), 7, 200);
    copy_on(f, a, y, 0, x, 0, COUNT);
    OK(ferry_scope_close(&scope));
    expect_counting(f, y, 0, 0, 400, 5);
    expect_all(y, 400, 200, 7);
    expect_counting(f, y, 0, 600, COUNT - 600, 5);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&a);
}

/* The host reads a buffer with more stale ranges than Ferry copies at a time, which is at most
 * FERRYI_COPIES_LONG. The host must get the current bytes of every range, and of the bytes between
 * the ranges. */
static void
test_a_read_of_very_many_stale_ranges(void **state)
{
    fixture *f = *state;
    enum { RANGES = 2 * FERRYI_COPIES_LONG + 1 };
    ferry_stream *a = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, 2 * RANGES);
    ferry_scope scope;
    int *expected = malloc(2 * RANGES * sizeof(*expected));
    assert_non_null(expected);
    write_counting(f, x, 0, 0, 2 * RANGES, 0);
    for (size_t i = 0; i < RANGES; i++) {
        fill_on(f, x, a, 2 * i, 1, -1);
        expected[2 * i] = -1;
        expected[2 * i + 1] = (int)(2 * i + 1);
    }
    const int *got = open_at(f, x, 0, FERRY_READ, 0, 2 * RANGES, &scope);
    assert_memory_equal(got, expected, 2 * RANGES * sizeof(*expected));
    OK(ferry_scope_close(&scope));
    free(expected);
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&a);
}

/* -- hits are free ----------------------------------------------------------------------------- */

static void
use(ferry_buffer *buffer, ferry_stream *stream, ferry_access access, size_t offset, size_t count)
{
    ferry_scope scope;
    void *memory = open_on(buffer, stream, access, offset, count, &scope);
    assert_true(memory != NULL || count == 0);
    OK(ferry_scope_close(&scope));
}

static void
use_in_many_ways(ferry_buffer *buffer, ferry_stream *stream, ferry_access access)
{
    ferry_buffer *view;
    OK(ferry_buffer_view(buffer, INT, 100, 200, &view));
    for (int i = 0; i < 3; i++) {
        use(buffer, stream, access, 0, COUNT);
        use(buffer, stream, access, (size_t)i * 10, 7);
        use(view, stream, access, 3, 50);
    }
    ferry_buffer_destroy(&view);
}

static void
test_later_uses_make_no_driver_call(void **state)
{
    fixture *f = *state;
    if (f->context->debug)
        skip(); /* a checked run asks the driver at each use */
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0);
    use(x, a, FERRY_READ, 0, COUNT);
    uint64_t calls = device_calls(f);
    use_in_many_ways(x, a, FERRY_READ);
    use_in_many_ways(x, a, FERRY_UPDATE);
    use_in_many_ways(x, a, FERRY_OVERWRITE);
    assert_int_equal(device_calls(f), calls);

    /* The first use on a different stream makes a few driver calls. Opening the scope records an
     * event, and the stream waits for it. Closing the scope records one more event. Later uses make
     * no driver call, because the order is already known. */
    use(x, b, FERRY_READ, 0, COUNT);
    assert_in_range(device_calls(f) - calls, 1, 9);
    calls = device_calls(f);
    use_in_many_ways(x, b, FERRY_READ);
    assert_int_equal(device_calls(f), calls);

    /* The writer waits once for the reader. */
    use(x, a, FERRY_UPDATE, 0, COUNT);
    assert_in_range(device_calls(f) - calls, 1, 9);
    calls = device_calls(f);
    use_in_many_ways(x, a, FERRY_UPDATE);
    assert_int_equal(device_calls(f), calls);

    DESTROY_STREAMS(&a, &b);
    ferry_buffer_destroy(&x);
}

static void
test_host_hits_make_no_driver_call(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_counting(f, COUNT, 5);
    fill_on(f, x, f->stream, 0, COUNT, 3);
    expect_all(x, 0, COUNT, 3);
    touch(f, x, 0, FERRY_READ, 0, COUNT);
    uint64_t calls = device_calls(f);
    for (int i = 0; i < 5; i++) {
        touch(f, x, 0, FERRY_READ, 0, COUNT);
        touch(f, x, 0, FERRY_UPDATE, 10, 20);
        touch(f, x, 0, FERRY_OVERWRITE, 10, 20);
    }
    OK(ferry_buffer_sync_to(x, 0, FERRY_REST, 0, NULL));
    assert_int_equal(device_calls(f), calls);
    ferry_buffer_destroy(&x);
}

static void
test_later_launches_are_one_call(void **state)
{
    fixture *f = *state;
    if (f->context->debug)
        skip(); /* a checked run asks the driver at each use */
    /* Where streams can be captured, a launch of code also asks whether its stream is. The host
     * device runs a host function in place, unless this is a checked run. */
    uint64_t can = device_of(f, 1)->capabilities;
    bool is_here = (can & FERRYI_DEVICE_CALLS_HERE) && !f->context->debug;
    uint64_t each = is_here ? 0 : (can & FERRY_CAN_CAPTURE) ? 2 : 1;
    ferry_stream *a = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT);
    work w;
    work_open(f, &w);
    OK(launch_copy(&w, a, y, 0, x, 0, COUNT));
    OK(launch_copy(&w, a, y, 0, x, 0, COUNT));
    uint64_t calls = device_calls(f);
    for (int i = 0; i < 10; i++)
        OK(launch_copy(&w, a, y, 0, x, 0, COUNT));
    OK(launch_add(&w, a, y, 5, 10, 1));
    OK(launch_add(&w, a, y, 5, 10, -1));
    assert_int_equal(device_calls(f) - calls, 12 * each);
    expect_counting(f, y, 0, 0, COUNT, 0);
    work_close(&w);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&a);
}

/* -- memory that goes while it is used --------------------------------------------------------- */

static void
test_destroy_with_work_in_flight(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1), *c = make_stream(f, 1);
    ferry_buffer *kept[10];
    for (int i = 0; i < 10; i++) {
        ferry_buffer *x = make_ints(f, COUNT);
        kept[i] = make_ints(f, COUNT);
        fill_on(f, x, a, 0, COUNT, i);
        copy_on(f, b, kept[i], 0, x, 0, COUNT);
        ferry_buffer_destroy(&x);
        /* The new buffer reuses the memory of the destroyed buffer, which queued work still uses.
         * The test waits only for the stream that writes the new buffer, so that a missing order
         * becomes visible. */
        x = make_ints(f, COUNT);
        fill_on(f, x, c, 0, COUNT, -1);
        OK(ferry_stream_synchronize(c));
        expect_all(x, 0, COUNT, -1);
        ferry_buffer_destroy(&x);
    }
    for (int i = 0; i < 10; i++) {
        expect_all(kept[i], 0, COUNT, i);
        ferry_buffer_destroy(&kept[i]);
    }
    DESTROY_STREAMS(&a, &b, &c);
}

/* If there is memory for only one block, the block is reused while queued work still uses it. The
 * work of the block's next owner is ordered after the queued work. */
static void
test_memory_handed_on_while_in_use(void **state)
{
    enum { LARGE = 400 << 10 };
    static fixture f;
    (void)state;
    fixture_open(&f, &(ferry_context_options){.device_bytes_limit = (size_t)3 << 20});
    ferry_stream *a = make_stream(&f, 1), *b = make_stream(&f, 1);
    for (int i = 1; i <= 4; i++) {
        ferry_buffer *x = make_ints(&f, LARGE);
        fill_on(&f, x, a, 0, LARGE, i);
        ferry_buffer_destroy(&x);
        x = make_ints(&f, LARGE);
        fill_on(&f, x, b, 0, LARGE, -i);
        OK(ferry_stream_synchronize(b));
        OK(ferry_stream_synchronize(a));
        expect_all(x, 0, LARGE, -i);
        ferry_buffer_destroy(&x);
    }
    DESTROY_STREAMS(&a, &b);
    fixture_close(&f);
}

static ferry_buffer *
make_pinned(fixture *f, size_t count)
{
    ferry_buffer_options options = {
        .name = "pinned", .memory = f->coherent ? FERRY_MEMORY_DEFAULT : FERRY_MEMORY_PINNED};
    ferry_buffer *buffer;
    OK(ferry_buffer_create(f->context, INT, count, &options, &buffer));
    return buffer;
}

/* A pinned block that is freed during an upload from it is not reused before the upload has
 * ended. */
static void
test_pinned_memory_freed_under_a_transfer(void **state)
{
    fixture *f = *state;
    ferry_buffer *targets[10];
    for (int i = 0; i < 10; i++) {
        ferry_buffer *x = make_pinned(f, COUNT);
        targets[i] = make_ints(f, COUNT);
        write_counting(f, x, 0, 0, COUNT, i);
        copy_on(f, f->stream, targets[i], 0, x, 0, COUNT);
        ferry_buffer_destroy(&x);
        x = make_pinned(f, COUNT);
        write_counting(f, x, 0, 0, COUNT, 1000000);
        ferry_buffer_destroy(&x);
    }
    for (int i = 0; i < 10; i++) {
        expect_counting(f, targets[i], 0, 0, COUNT, i);
        ferry_buffer_destroy(&targets[i]);
    }
}

static void
test_host_write_waits_for_the_upload(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_pinned(f, COUNT), *y = make_ints(f, COUNT);
    for (int i = 0; i < 10; i++) {
        write_counting(f, x, 0, 0, COUNT, i);
        copy_on(f, f->stream, y, 0, x, 0, COUNT);
        write_counting(f, x, 0, 0, COUNT, 5000);
        expect_counting(f, y, 0, 0, COUNT, i);
    }
    DESTROY_BUFFERS(&x, &y);
}

/* Replicas may be evicted and invalidated while queued work still uses them. */
static void
test_copies_dropped_under_work(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1);
    ferry_buffer *x = make_pinned(f, COUNT), *y = make_ints(f, COUNT), *z = make_ints(f, COUNT);
    write_counting(f, x, 0, 0, COUNT, 1);
    copy_on(f, a, y, 0, x, 0, COUNT);
    OK(ferry_buffer_evict(x, 1));
    fill_on(f, z, f->stream, 0, COUNT, 9);
    OK(ferry_buffer_evict(y, 1));
    expect_counting(f, y, 0, 0, COUNT, 1);
    copy_on(f, a, y, 0, x, 0, COUNT);
    OK(ferry_buffer_invalidate(x, 0, FERRY_REST, 0));
    ferry_buffer_destroy(&z);
    z = make_pinned(f, COUNT);
    write_counting(f, z, 0, 0, COUNT, 700);
    expect_counting(f, y, 0, 0, COUNT, 1);
    expect_counting(f, x, 0, 0, COUNT, 1);
    DESTROY_BUFFERS(&x, &y, &z);
    ferry_stream_destroy(&a);
}

/* -- wrapped device memory --------------------------------------------------------------------- */

static void *
raw_memory(fixture *f)
{
    return f->coherent ? malloc(COUNT * sizeof(int)) : device_alloc(f, 1, COUNT * sizeof(int));
}

static void
free_raw(fixture *f, void *memory)
{
    if (f->coherent)
        free(memory);
    else
        device_free(f, 1, memory);
}

static void
check_wrap(fixture *f, ferry_stream *ready, ferry_stream *user)
{
    int *raw = raw_memory(f);
    ferry_buffer *x, *y = make_ints(f, COUNT);
    queue_fill(f, ready, raw, 6, COUNT);
    OK(ferry_buffer_wrap_device(f->context, INT, COUNT, ready, raw, NULL, &x));
    copy_on(f, user, y, 0, x, 0, COUNT);
    OK(ferry_stream_synchronize(user));
    expect_all(y, 0, COUNT, 6);
    /* The stream `user` still writes the buffer. ferry_buffer_unwrap() must make the stream `ready`
     * wait for this write. */
    fill_on(f, x, user, 0, COUNT, 8);
    OK(ferry_buffer_unwrap(&x, ready));
    assert_null(x);
    int *other = raw_memory(f), values[COUNT];
    queue_copy(f, ready, other, raw, COUNT);
    OK(ferry_stream_synchronize(ready));
    place_read(f, 1, values, other, sizeof(values));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(values[i], 8);
    OK(ferry_stream_synchronize(user));
    free_raw(f, other);
    free_raw(f, raw);
    ferry_buffer_destroy(&y);
}

static void
test_wrapped_memory_is_ordered(void **state)
{
    fixture *f = *state;
    ferry_stream *streams[STREAM_CROWD];
    make_crowd(f, streams);
    check_wrap(f, streams[0], streams[1]);
    check_wrap(f, streams[STREAM_CROWD - 1], streams[0]);
    check_wrap(f, streams[0], streams[STREAM_CROWD - 1]);
    destroy_crowd(streams);
}

static void
test_unwrap_brings_host_memory_up_to_date(void **state)
{
    fixture *f = *state;
    int memory[COUNT] = {0};
    ferry_stream *a = make_stream(f, 1);
    ferry_buffer *x;
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, NULL, &x));
    fill_on(f, x, a, 10, 20, 4);
    OK(ferry_buffer_unwrap(&x, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(memory[i], i >= 10 && i < 30 ? 4 : 0);
    ferry_stream_destroy(&a);
}

static void
test_marks_are_ordered_on_their_stream(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT);
    void *memory;
    OK(ferry_buffer_sync_to(x, 0, FERRY_REST, 1, NULL));
    OK(ferry_buffer_hold(x, 1, &memory));
    queue_fill(f, a, memory, 12, COUNT);
    OK(ferry_buffer_mark_dirty(x, 0, FERRY_REST, 1, a));
    copy_on(f, b, y, 0, x, 0, COUNT);
    OK(ferry_stream_synchronize(b));
    expect_all(y, 0, COUNT, 12);
    expect_all(x, 0, COUNT, 12);
    OK(ferry_buffer_release(x, 1));
    DESTROY_BUFFERS(&x, &y);
    DESTROY_STREAMS(&a, &b);
}

/* -- who need not wait ------------------------------------------------------------------------- */

/* While a kernel reads the device replica, the host replica may be written. This holds even if the
 * device replica was uploaded from the host replica. */
static void
check_host_is_free(fixture *f, ferry_buffer *x)
{
    ferry_stream *a = make_stream(f, 1);
    ferry_buffer *y = make_ints(f, COUNT);
    struct watchdog dog;
    work w;
    work_open(f, &w);
    write_counting(f, x, 0, 0, COUNT, 1);
    unsigned before = work_done();
    if (runs_apart(f))
        close_gate(&dog);
    OK(launch_copy(&w, a, y, 0, x, 0, COUNT));
    touch(f, x, 0, FERRY_READ, 0, COUNT);
    write_counting(f, x, 0, 0, COUNT, 900);
    assert_int_equal(work_done(), before);
    if (runs_apart(f))
        open_gate(&dog);
    expect_counting(f, y, 0, 0, COUNT, 1);
    expect_counting(f, x, 1, 0, COUNT, 900);
    work_close(&w);
    ferry_buffer_destroy(&y);
    ferry_stream_destroy(&a);
}

static void
test_host_write_does_not_wait_for_kernels(void **state)
{
    fixture *f = *state;
    if (f->coherent)
        return; /* host and device share one replica */
    ferry_buffer *pageable = make_ints(f, COUNT), *pinned = make_pinned(f, COUNT);
    check_host_is_free(f, pageable);
    check_host_is_free(f, pinned);
    DESTROY_BUFFERS(&pageable, &pinned);
}

/* Opening a scope on a stream never waits for work on that stream or on any other stream. */
static void
test_open_device_does_not_wait(void **state)
{
    fixture *f = *state;
    if (!runs_apart(f) && !is_lazy(f))
        return;
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT), *p = make_pinned(f, COUNT);
    struct watchdog dog;
    work w;
    work_open(f, &w);
    write_counting(f, p, 0, 0, COUNT, 0);
    use(y, a, FERRY_OVERWRITE, 0, COUNT);
    unsigned before = work_done();
    if (runs_apart(f))
        close_gate(&dog);
    OK(launch_fill(&w, a, x, 0, COUNT, 1));
    OK(launch_copy(&w, b, y, 0, x, 0, COUNT));
    OK(launch_add(&w, a, x, 0, COUNT, 1));
    use(x, b, FERRY_READ, 0, COUNT);
    use(p, a, FERRY_READ, 0, COUNT);
    use(p, b, FERRY_UPDATE, 0, COUNT);
    ferry_stream_destroy(&b);
    ferry_buffer_destroy(&p);
    assert_int_equal(work_done(), before);
    if (runs_apart(f))
        open_gate(&dog);
    expect_all(y, 0, COUNT, 1);
    expect_all(x, 0, COUNT, 2);
    work_close(&w);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&a);
}

/* A host read does not wait for kernels that only read the buffer. The host still reads the right
 * bytes. */
static void
test_host_read_beside_a_reading_kernel(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    work w;
    work_open(f, &w);
    fill_on(f, x, a, 0, COUNT, 3);
    OK(ferry_stream_synchronize(a));
    OK(launch_copy(&w, b, y, 0, x, 0, COUNT));
    touch(f, x, 0, FERRY_READ, 0, COUNT);
    expect_all(x, 0, COUNT, 3);
    expect_all(y, 0, COUNT, 3);

    /* The host overwrites the output of this kernel before the kernel has run. */
    OK(launch_fill(&w, b, x, 0, COUNT, 4));
    write_counting(f, x, 0, 0, COUNT, 5);
    OK(ferry_buffer_evict(x, 1));
    touch(f, x, f->places, FERRY_READ, 0, COUNT);
    expect_counting(f, x, f->places, 0, COUNT, 5);
    work_close(&w);
    DESTROY_BUFFERS(&x, &y);
    DESTROY_STREAMS(&a, &b);
}

/*
 * The host fills one of two buffers while the device works on the other. Each round swaps the
 * buffers. Before the host fills a buffer, it waits for the kernel that read this buffer two rounds
 * earlier. It must not wait for kernels of the round in between.
 */
static void
test_double_buffered_loop(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 12 };
    ferry_stream *a = make_stream(f, 1);
    ferry_buffer *in[2] = {make_pinned(f, COUNT), make_pinned(f, COUNT)},
                 *sum = make_ints(f, COUNT), *out = make_ints(f, COUNT);
    work w;
    work_open(f, &w);
    unsigned before = work_done();
    for (unsigned round = 0; round < ROUNDS; round++) {
        ferry_buffer *x = in[round % 2];
        write_counting(f, x, 0, 0, COUNT, (int)round);
        OK(launch_copy(&w, a, out, 0, x, 0, COUNT));
        OK(launch_add(&w, a, sum, 0, COUNT, (int)round));
        /* In round r, the host's write to this buffer may have waited only for kernels of the
         * rounds up to r - 2. */
        if (is_lazy(f) && round >= 6)
            assert_true(work_done() - before <= 2 * (round - 1));
    }
    expect_all(sum, 0, COUNT, ROUNDS * (ROUNDS - 1) / 2);
    expect_counting(f, out, 0, 0, COUNT, ROUNDS - 1);
    work_close(&w);
    DESTROY_BUFFERS(&in[0], &in[1], &sum, &out);
    ferry_stream_destroy(&a);
}

static ferry_status
fail_body(const ferry_call *call, void *user)
{
    (void)call, (void)user;
    return FERRY_ERROR_CANCELLED;
}

/* A host function is queued, and its output range is then overwritten at a different place. When
 * the function runs later, its output must not become current again. */
static void
test_a_late_body_brings_nothing_back(void **state)
{
    fixture *f = *state;
    ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    ferry_kernel_source source = {.name = "failing",
                                  .host_function = fail_body,
                                  .parameters = &parameter,
                                  .parameter_count = 1};
    ferry_kernel *failing;
    work w;
    int values[100];
    if (f->places < 2 || strcmp(device_of(f, 1)->kind, "lazy") != 0)
        skip();
    work_open(f, &w);
    OK(ferry_kernel_create(f->context, &source, &failing));
    ferry_buffer *b = make_ints(f, 100);
    ferry_argument argument = ferry_buffer_argument(b, INT, 0, 100);
    OK(launch_fill(&w, stream_of(f, 1), b, 0, 100, 1));
    fill_on(f, b, stream_of(f, 2), 0, 100, 2);
    OK(ferry_kernel_launch(failing, ferry_grid_for(1, 0), stream_of(f, 2), &argument, 1));
    FAILS(FERRY_ERROR_CANCELLED, ferry_stream_synchronize(stream_of(f, 2)));
    OK(ferry_stream_synchronize(stream_of(f, 1)));
    FAILS(FERRY_ERROR_CANCELLED, ferry_buffer_copy_to(b, INT, 0, 100, values, NULL));
    ferry_buffer_destroy(&b);
    ferry_kernel_destroy(&failing);
    work_close(&w);
}

/* A queued host function reads the bytes that were current when it was queued. This holds even if
 * the bytes were meanwhile overwritten at a different place. */
static void
test_a_late_body_reads_what_was_lost_elsewhere(void **state)
{
    fixture *f = *state;
    ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    ferry_kernel_source source = {.name = "failing",
                                  .host_function = fail_body,
                                  .parameters = &parameter,
                                  .parameter_count = 1};
    ferry_kernel *failing;
    work w;
    if (f->places < 2 || strcmp(device_of(f, 1)->kind, "lazy") != 0)
        skip();
    work_open(f, &w);
    OK(ferry_kernel_create(f->context, &source, &failing));
    ferry_buffer *from = make_ints(f, 100), *to = make_ints(f, 100);
    ferry_argument argument = ferry_buffer_argument(from, INT, 0, 100);
    int values[100];
    fill_on(f, from, stream_of(f, 1), 0, 100, 1);
    OK(launch_copy(&w, stream_of(f, 1), to, 0, from, 0, 100));
    fill_on(f, from, stream_of(f, 2), 0, 100, 2);
    OK(ferry_kernel_launch(failing, ferry_grid_for(1, 0), stream_of(f, 2), &argument, 1));
    FAILS(FERRY_ERROR_CANCELLED, ferry_stream_synchronize(stream_of(f, 2)));
    FAILS(FERRY_ERROR_CANCELLED, ferry_buffer_copy_to(from, INT, 0, 100, values, NULL));
    OK(ferry_stream_synchronize(stream_of(f, 1)));
    expect_constant(f, to, 0, 0, FERRY_REST, 1);
    ferry_buffer_destroy(&from);
    ferry_buffer_destroy(&to);
    ferry_kernel_destroy(&failing);
    work_close(&w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_read_after_write),
        TEST(test_write_after_read),
        TEST(test_write_after_a_read_that_was_a_hit),
        TEST(test_write_after_write),
        TEST(test_host_between_streams),
        TEST(test_streams_at_the_same_address),
        TEST(test_more_streams_than_numbers),
        TEST(test_close_on_another_stream),
        TEST(test_an_inner_scope_closes_on_another_stream),
        TEST(test_close_on_refuses_other_places),
        TEST(test_close_from_another_thread),
        TEST(test_close_after_the_stream_is_gone),
        TEST(test_a_scope_records_an_event_after_a_wait),
        TEST(test_a_read_waits_for_the_upload_of_an_earlier_part),
        TEST(test_a_read_of_very_many_stale_ranges),
        TEST(test_later_uses_make_no_driver_call),
        TEST(test_host_hits_make_no_driver_call),
        TEST(test_later_launches_are_one_call),
        TEST(test_destroy_with_work_in_flight),
        cmocka_unit_test(test_memory_handed_on_while_in_use),
        TEST(test_pinned_memory_freed_under_a_transfer),
        TEST(test_host_write_waits_for_the_upload),
        TEST(test_copies_dropped_under_work),
        TEST(test_wrapped_memory_is_ordered),
        TEST(test_unwrap_brings_host_memory_up_to_date),
        TEST(test_marks_are_ordered_on_their_stream),
        TEST(test_host_write_does_not_wait_for_kernels),
        TEST(test_open_device_does_not_wait),
        TEST(test_host_read_beside_a_reading_kernel),
        TEST(test_double_buffered_loop),
        TEST(test_a_late_body_brings_nothing_back),
        TEST(test_a_late_body_reads_what_was_lost_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
