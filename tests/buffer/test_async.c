/* SPDX-License-Identifier: MIT */
/*
 * Tests copies that go on after their call has returned: their order, events, cancelling, and what
 * may be destroyed first.
 */
#include "src/buffer/worker.h"
#include "tests/buffer/support.h"
#include "tests/support/copies.h"

#define COUNT (1 << 18)
#define BYTES (COUNT * sizeof(int32_t))

static int32_t *
counting(int first)
{
    int32_t *values = malloc(BYTES);
    assert_non_null(values);
    for (int i = 0; i < COUNT; i++)
        values[i] = i + first;
    return values;
}

static void
finish(ferry_event **event)
{
    bool done = false;
    OK(ferry_event_synchronize(*event));
    OK(ferry_event_query(*event, &done));
    assert_true(done);
    ferry_event_destroy(event);
}

/* When the event of an asynchronous copy is reached, the source and the target of the copy may be
 * accessed again. */
static void
test_memory_may_be_touched_after_the_event(void **state)
{
    fixture *f = *state;
    int32_t *values = counting(1), *got = counting(0);
    for (int place = 0; place <= f->places; place++) {
        ferry_stream *stream = place ? stream_of(f, place) : NULL;
        ferry_buffer *b = make_ints(f, COUNT);
        ferry_event *event;
        OK(ferry_buffer_copy_from_async(b, INT, 0, COUNT, values, ON(stream), &event));
        finish(&event);
        memset(values, 0, BYTES);
        assert_true(ferry_buffer_is_current(b, place)); /* the copy writes at the stream's place */
        OK(ferry_buffer_copy_to_async(b, INT, 0, COUNT, got, ON(stream), &event));
        finish(&event);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(got[i], i + 1);
        memcpy(values, got, BYTES);
        ferry_buffer_destroy(&b);
    }
    free(values);
    free(got);
}

/* Asynchronous calls take effect in the order in which they were submitted. */
static void
test_calls_take_effect_in_the_order_of_submission(void **state)
{
    fixture *f = *state;
    int32_t *values = counting(1), seven = 7, *got = counting(0);
    for (int place = 0; place <= f->places; place++) {
        ferry_stream *stream = place ? stream_of(f, place) : NULL;
        ferry_buffer *a = make_ints(f, COUNT), *b = make_ints(f, COUNT);
        ferry_event *last;
        QUEUE(ferry_buffer_copy_from_async(a, INT, 0, COUNT, values, ON(stream), &forgotten));
        QUEUE(ferry_buffer_fill_async(a, INT, 0, 100, &seven, ON(stream), &forgotten));
        seven = 8; /* the fill has already copied the value */
        QUEUE(ferry_buffer_copy_async(b, INT, 0, a, 0, FERRY_REST, ON(stream), &forgotten));
        QUEUE(ferry_buffer_fill_async(a, INT, 0, 100, &seven, ON(stream), &forgotten));
        OK(ferry_buffer_copy_to_async(b, INT, 0, COUNT, got, ON(stream), &last));
        finish(&last);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(got[i], i < 100 ? 7 : i + 1);
        expect_constant(f, a, 0, 0, 100, 8);
        expect_counting(f, a, 0, 100, FERRY_REST, 1);
        seven = 7;
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
    }
    free(values);
    free(got);
}

/* Opens a scope right after an asynchronous copy to the same buffer was submitted. Opening the
 * scope must wait for the copy, and must not fail with FERRY_ERROR_BUSY. */
static void
test_scopes_wait_for_calls_in_flight(void **state)
{
    fixture *f = *state;
    int32_t *values = counting(3);
    ferry_buffer *b = make_ints(f, COUNT);
    for (int i = 0; i < 5; i++) {
        QUEUE(ferry_buffer_copy_from_async(b, INT, 0, COUNT, values, ON(i % 2 ? f->stream : NULL),
                                           &forgotten));
        expect_counting(f, b, i % 3 ? 0 : 1, 0, FERRY_REST, 3);
        add_to(f, b, 0, 0, FERRY_REST, 1);
    }
    ferry_buffer_destroy(&b);
    free(values);
}

/* Cancels an asynchronous copy at different times. Its event must report FERRY_OK or
 * FERRY_ERROR_CANCELLED. The copied elements must have their new values, and all others their old
 * values. */
static void
test_cancelled_calls_leave_the_map_truthful(void **state)
{
    fixture *f = *state;
    int32_t *values = counting(1), *got = counting(0);
    for (int i = 0; i < 20; i++) {
        ferry_buffer *b = make_ints(f, COUNT);
        ferry_event *event;
        bool done;
        touch(f, b, i % 2, FERRY_UPDATE, 0, FERRY_REST);
        OK(ferry_buffer_copy_from_async(b, INT, 0, COUNT, values, ON(i % 2 ? f->stream : NULL),
                                        &event));
        if (i > 3)
            ferryi_sleep_ns((uint64_t)i * 10000);
        OK(ferry_event_cancel(event));
        ferry_status status = ferry_event_synchronize(event);
        assert_true(status == FERRY_OK || status == FERRY_ERROR_CANCELLED);
        assert_int_equal(ferry_event_query(event, &done), status);
        assert_true(done);
        OK(ferry_buffer_copy_to(b, INT, 0, COUNT, got, NULL));
        size_t arrived = 0;
        while (arrived < COUNT && got[arrived] == (int32_t)arrived + 1)
            arrived++;
        assert_true(status != FERRY_OK || arrived == COUNT);
        for (size_t k = arrived; k < COUNT; k++)
            assert_int_equal(got[k], 0);
        /* A later try succeeds. */
        OK(ferry_buffer_copy_from(b, INT, 0, COUNT, values, NULL));
        expect_counting(f, b, 0, 0, FERRY_REST, 1);
        ferry_event_destroy(&event);
        ferry_buffer_destroy(&b);
    }
    free(values);
    free(got);
}

/* A stream waits for the event of an asynchronous copy. Work on this stream must see the copied
 * bytes. */
static void
test_streams_wait_for_the_event_of_a_copy(void **state)
{
    fixture *f = *state;
    int32_t *values = counting(2), last;
    for (int place = 1; place <= f->places; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        ferry_event *event;
        void *memory;
        OK(ferry_buffer_hold(b, place, &memory));
        OK(ferry_buffer_copy_from_async(b, INT, 0, COUNT, values, ON(stream_of(f, place)), &event));
        OK(ferry_stream_wait_event(stream_of(f, place), event));
        device_read(f, place, &last, (int32_t *)memory + COUNT - 1, sizeof(last));
        assert_int_equal(last, COUNT + 1);
        ferry_event_destroy(&event);
        OK(ferry_buffer_release(b, place));
        ferry_buffer_destroy(&b);
    }
    free(values);
}

/* An event or a buffer may be destroyed before the asynchronous call has ended. The call still
 * completes. */
static void
test_events_and_buffers_may_go_first(void **state)
{
    fixture *f = *state;
    int32_t *values = counting(2), *got = counting(0);
    ferry_event *event, *other;
    ferry_buffer *b = make_ints(f, COUNT);
    OK(ferry_buffer_copy_from_async(b, INT, 0, COUNT, values, ON(f->stream), &event));
    ferry_event_destroy(&event);
    expect_counting(f, b, 0, 0, FERRY_REST, 2);
    OK(ferry_buffer_copy_to_async(b, INT, 0, COUNT, got, ON(NULL), &other));
    ferry_buffer_destroy(&b);
    finish(&other);
    assert_int_equal(got[COUNT - 1], COUNT + 1);
    free(values);
    free(got);
}

struct gate {
    ferry_direction direction; /* the first transfer in this direction blocks */
    atomic_bool held, open;
};

/* A trace callback. The first transfer in the direction `gate->direction` blocks here until
 * `gate->open` is set. */
static void
hold_way(const ferry_trace *trace, void *user)
{
    struct gate *gate = user;
    if (trace->direction != gate->direction || atomic_exchange(&gate->held, true))
        return;
    wait_until(&gate->open);
}

/* Uploads and downloads of a device run on separate worker threads, so an upload does not wait for
 * a download. */
static void
test_an_upload_does_not_wait_behind_a_download(void **state)
{
    (void)state;
    fixture f;
    struct gate gate = {.direction = FERRY_DIRECTION_DOWNLOAD};
    ferry_context_options options = {.trace = hold_way, .trace_user = &gate};
    int32_t *values = counting(1), *got = counting(0);
    fixture_open(&f, &options);
    ferry_buffer *a = make_ints(&f, COUNT), *b = make_ints(&f, COUNT);
    ferry_event *down, *up;
    bool done = true;
    write_counting(&f, a, 1, 0, COUNT, 5);
    OK(ferry_buffer_copy_to_async(a, INT, 0, COUNT, got, ON(f.stream), &down));
    if (!f.coherent)
        wait_until(&gate.held);
    OK(ferry_buffer_copy_from_async(b, INT, 0, COUNT, values, ON(f.stream), &up));
    OK(ferry_event_synchronize(up));
    OK(ferry_event_query(down, &done));
    assert_true(!done || f.coherent);
    atomic_store(&gate.open, true);
    finish(&up);
    finish(&down);
    assert_int_equal(got[COUNT - 1], COUNT + 4);
    ferry_buffer_destroy(&a);
    ferry_buffer_destroy(&b);
    fixture_close(&f);
    free(values);
    free(got);
}

/* The stream of a prefetch may be destroyed at once, even before the worker thread has begun the
 * prefetch. */
static void
test_the_stream_of_a_prefetch_may_go_first(void **state)
{
    (void)state;
    fixture f;
    struct gate gate = {.direction = FERRY_DIRECTION_UPLOAD};
    ferry_context_options options = {.trace = hold_way, .trace_user = &gate};
    int32_t *values = counting(1);
    fixture_open(&f, &options);
    ferry_buffer *a = make_ints(&f, COUNT), *b = make_ints(&f, COUNT);
    ferry_stream *stream;
    ferry_event *up;
    OK(ferry_stream_create(f.context, 1, &stream));
    write_counting(&f, b, 0, 0, COUNT, 5);
    OK(ferry_buffer_copy_from_async(a, INT, 0, COUNT, values, ON(f.stream), &up));
    if (!f.coherent)
        wait_until(&gate.held);
    OK(ferry_buffer_prefetch(b, 0, FERRY_REST, 1, stream));
    ferry_stream_destroy(&stream);
    atomic_store(&gate.open, true);
    finish(&up);
    OK(ferry_buffer_wait_idle(b, 1));
    assert_true(ferry_buffer_is_current(b, 1));
    ferry_buffer_destroy(&a);
    ferry_buffer_destroy(&b);
    fixture_close(&f);
    free(values);
}

/* -- syncs -- */

/* ferry_buffer_sync_to_async() returns at once. The event is reached when the
 * sync has ended. */
static void
test_a_sync_is_followed_by_its_event(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        ferry_event *event;
        size_t done, total;
        write_counting(f, b, 1 - place, 0, COUNT, 7);
        OK(ferry_buffer_sync_to_async(b, 10, COUNT - 10, place, ON(NULL), &event));
        OK(ferry_event_synchronize(event));
        OK(ferry_event_progress(event, &done, &total));
        assert_int_equal(total, BYTES - 10 * sizeof(int32_t));
        assert_int_equal(done, total);
        ferry_event_destroy(&event);
        ferry_buffer *view;
        OK(ferry_buffer_view(b, INT, 10, COUNT - 10, &view));
        assert_true(ferry_buffer_is_current(view, place));
        ferry_buffer_destroy(&view);
        expect_counting(f, b, place, 0, COUNT, 7);
        OK(ferry_buffer_sync_to_async(b, 0, 0, place, ON(NULL), &event)); /* no bytes */
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        FAILS(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_buffer_sync_to(b, 0, COUNT, place,
                                   &(ferry_copy_options){.convert = FERRY_CONVERT_SATURATE}));
        ferry_buffer_destroy(&b);
    }
}

static bool
stop_at_once(size_t done, size_t total, void *user)
{
    (void)done, (void)total;
    atomic_fetch_add((atomic_int *)user, 1);
    return false;
}

/* The callback `keep_going` cancels an asynchronous ferry_buffer_sync_to(). The event must report
 * FERRY_ERROR_CANCELLED, and the target must not become current. */
static void
test_a_sync_with_an_event_is_stopped(void **state)
{
    fixture *f = *state;
    if (f->coherent)
        skip();
    ferry_buffer *b = make_ints(f, COUNT);
    ferry_event *event;
    atomic_int asked;
    atomic_init(&asked, 0);
    write_counting(f, b, 0, 0, COUNT, 7);
    const ferry_copy_options options = {
        .chunk_bytes = BYTES / 8, .keep_going = stop_at_once, .user = &asked};
    OK(ferry_buffer_sync_to_async(b, 0, COUNT, 1, &options, &event));
    FAILS(FERRY_ERROR_CANCELLED, ferry_event_synchronize(event));
    ferry_event_destroy(&event);
    assert_true(atomic_load(&asked) > 0);
    assert_false(ferry_buffer_is_current(b, 1));
    expect_counting(f, b, 0, 0, COUNT, 7);
    ferry_buffer_destroy(&b);
}

/* -- progress -- */

/* Queries an event's progress until its call has ended. Checks that the progress never decreases,
 * that the total stays the same, and that the progress ends at the total. */
static void
expect_progress(ferry_event *event, size_t total)
{
    bool done = false;
    size_t last = 0, bytes, of;
    while (!done) {
        OK(ferry_event_query(event, &done));
        OK(ferry_event_progress(event, &bytes, &of));
        assert_int_equal(of, total);
        assert_in_range(bytes, last, total);
        last = bytes;
    }
    assert_int_equal(last, total);
    ferry_event_destroy(&event);
}

/* The progress of each kind of asynchronous call never decreases and ends at the total. Recorded
 * events and calls with nothing to do report 0 of 0 bytes. */
static void
test_progress_of_every_call(void **state)
{
    fixture *f = *state;
    int32_t *values = counting(1), *got = counting(0), seven = 7;
    for (int place = 0; place <= f->places; place++) {
        ferry_stream *stream = place ? stream_of(f, place) : NULL;
        ferry_buffer *a = make_ints(f, COUNT), *b = make_ints(f, COUNT);
        ferry_event *event;
        copy_list *batch;
        OK(ferry_buffer_copy_from_async(a, INT, 0, COUNT, values, ON(stream), &event));
        expect_progress(event, BYTES);
        OK(ferry_buffer_copy_async(b, INT, 0, a, 8, COUNT - 8, ON(stream), &event));
        expect_progress(event, BYTES - 32);
        OK(ferry_buffer_copy_async(b, INT, 8, b, 0, COUNT - 8, ON(stream),
                                   &event)); /* overlapping */
        expect_progress(event, BYTES - 32);
        OK(ferry_buffer_fill_async(b, INT, 4, 100, &seven, ON(stream), &event));
        expect_progress(event, 400);
        OK(ferry_buffer_copy_to_async(b, INT, 0, COUNT, got, ON(stream), &event));
        expect_progress(event, BYTES);
        OK(copy_rows_from_async(a, INT, 0, 64, values, 32, 32, 100, ON(stream), &event));
        expect_progress(event, 32 * 100 * sizeof(int32_t));
        OK(copy_list_create(&batch));
        OK(copy_list_from(batch, a, INT, 10, values, 100));
        OK(copy_list_copy(batch, b, INT, 0, a, 500, 1000));
        OK(copy_list_to(batch, a, INT, 1000, got, 10));
        OK(copy_list_submit_async(batch, ON(stream), &event));
        expect_progress(event, 1110 * sizeof(int32_t));
        copy_list_destroy(&batch);
        OK(ferry_buffer_copy_from_async(a, INT, 0, 0, values, ON(stream), &event));
        expect_progress(event, 0);
        OK(ferry_stream_record(f->stream, 0, &event));
        expect_progress(event, 0);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
    }
    free(values);
    free(got);
}

struct pause {
    atomic_bool armed, held, open;
    size_t bytes;
};

/* -- buffers that end before their calls ------------------------------------------------------- */

/* Starts asynchronous call number `way` on the buffer, without an event. */
static void
start_call(fixture *f, ferry_buffer *buffer, int way, int32_t *memory)
{
    const int32_t value = 7;
    int place = way % (f->places + 1);
    switch (way / (f->places + 1)) {
    case 0:
        OK(ferry_buffer_sync_to_async(buffer, 0, FERRY_REST, place, NULL, NULL));
        break;
    case 1:
        OK(ferry_buffer_prefetch(buffer, 0, FERRY_REST, place, NULL));
        break;
    case 2:
        OK(ferry_buffer_copy_to_async(buffer, INT, 0, FERRY_REST, memory, NULL, NULL));
        break;
    case 3:
        OK(ferry_buffer_copy_from_async(buffer, INT, 0, 500, memory, NULL, NULL));
        break;
    case 4:
        OK(ferry_buffer_fill_async(buffer, INT, 0, FERRY_REST, &value, NULL, NULL));
        break;
    default:
        OK(ferry_buffer_copy_async(buffer, INT, 0, buffer, 500, 500, NULL, NULL));
    }
}

/* An asynchronous call keeps its buffer until it has ended. */
static void
test_buffers_end_before_their_calls(void **state)
{
    fixture *f = *state;
    /* Each call has its own memory, because no call is waited for. */
    static int32_t memory[40][32][1000];
    const ferry_buffer_options options = {.name = "short-lived"};
    const int ways = 6 * (f->places + 1);
    assert_in_range(ways, 1, 32);
    for (int i = 0; i < 40; i++)
        for (int way = 0; way < ways; way++) {
            ferry_buffer *buffer;
            OK(ferry_buffer_create(f->context, INT, 1000, &options, &buffer));
            write_counting(f, buffer, way % (f->places + 1), 0, 1000, i);
            start_call(f, buffer, way, memory[i][way]);
            ferry_buffer_destroy(&buffer);
        }
}

/* A trace callback: blocks the thread that makes the first transfer after `armed` was set. The
 * thread stays blocked, right after that transfer, until `open` is set. */
static void
hold_first(const ferry_trace *trace, void *user)
{
    struct pause *pause = user;
    if (!atomic_exchange(&pause->armed, false))
        return;
    pause->bytes = trace->bytes;
    atomic_store(&pause->held, true);
    wait_until(&pause->open);
}

/* Blocks an asynchronous copy after its first transfer. Half of the source is current only at the
 * host, and half only at the device. So the progress must be half of the bytes at this moment,
 * unless both use the same memory. */
static void
test_progress_is_that_of_the_moment(void **state)
{
    (void)state;
    fixture f;
    struct pause pause = {.armed = false};
    ferry_context_options options = {.trace = hold_first, .trace_user = &pause};
    int32_t *got = counting(0);
    fixture_open(&f, &options);
    ferry_buffer *b = make_ints(&f, COUNT);
    ferry_event *event;
    size_t bytes, total;
    write_counting(&f, b, 0, 0, COUNT / 2, 1);
    write_counting(&f, b, 1, COUNT / 2, COUNT / 2, 1);
    atomic_store(&pause.armed, true);
    OK(ferry_buffer_copy_to_async(b, INT, 0, COUNT, got, ON(NULL), &event));
    wait_until(&pause.held);
    OK(ferry_event_progress(event, &bytes, &total));
    assert_int_equal(bytes, f.coherent ? BYTES : BYTES / 2);
    assert_int_equal(bytes, pause.bytes);
    assert_int_equal(total, BYTES);
    atomic_store(&pause.open, true);
    expect_progress(event, BYTES);
    ferry_buffer_destroy(&b);
    fixture_close(&f);
    free(got);
}

static void
note_error(ferry_log_level level, const char *message, void *user)
{
    if (level == FERRY_LOG_ERROR && strstr(message, "its event was never queried"))
        atomic_fetch_add((atomic_int *)user, 1);
}

/* An asynchronous copy fails because the device has too little memory. If the program waits for the
 * event, the event must report the failure. If the program destroys the event without a query,
 * Ferry must log the failure. */
static void
test_a_failure_is_reported_by_the_event_or_by_the_log(void **state)
{
    (void)state;
    int32_t *values = counting(1);
    for (int asked = 0; asked < 3; asked++) {
        atomic_int logged;
        atomic_init(&logged, 0);
        ferry_context *context;
        const ferry_context_options options = {.devices = "emulated",
                                               .device_bytes_limit = BYTES / 2,
                                               .log = note_error,
                                               .log_user = &logged};
        OK(ferry_context_create(&options, &context));
        ferry_buffer *b;
        OK(ferry_buffer_create(context, INT, COUNT, NULL, &b));
        ferry_event *event = NULL;
        OK(ferry_buffer_copy_from_async(b, INT, 0, COUNT, values,
                                        ON(ferry_context_stream(context, 1)), &event));
        if (asked == 1)
            FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        ferry_buffer_destroy(&b);
        ferry_context_destroy(&context);
        assert_int_equal(atomic_load(&logged), asked == 1 ? 0 : 1);
    }
    free(values);
}

/* A prefetch is only a hint. If the device has no memory for the bytes, the prefetch copies nothing
 * and still succeeds. */
static void
test_a_prefetch_without_memory_is_no_error(void **state)
{
    (void)state;
    atomic_int logged;
    atomic_init(&logged, 0);
    fixture f;
    fixture_open(&f, &(ferry_context_options){.devices = "emulated",
                                              .device_bytes_limit = BYTES / 2,
                                              .log = note_error,
                                              .log_user = &logged});
    ferry_buffer *b = make_counting(&f, COUNT, 3);
    OK(ferry_buffer_prefetch(b, 0, FERRY_REST, 1, NULL));
    OK(ferry_buffer_wait_idle(b, 1));
    expect_counting(&f, b, 0, 0, COUNT, 3);
    DESTROY_BUFFERS(&b);
    fixture_close(&f);
    assert_int_equal(atomic_load(&logged), 0);
}

static ferry_status
fail_late(const ferry_call *call, void *user)
{
    (void)call, (void)user;
    return FERRY_ERROR_IO;
}

/* No event reports the end of a prefetch. The message about a prefetch of lost bytes therefore must
 * not tell the program to query one. */
static void
test_the_log_of_a_prefetch_names_no_event(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, &(ferry_context_options){.devices = "emulated"});
    const ferry_parameter written = {.element = INT, .access = FERRY_OVERWRITE};
    const ferry_kernel_source source = {.name = "fail_late",
                                        .host_function = fail_late,
                                        .parameters = &written,
                                        .parameter_count = 1};
    ferry_kernel *kernel;
    OK(ferry_kernel_create(f.context, &source, &kernel));
    ferry_buffer *b = make_counting(&f, COUNT, 3);
    const ferry_argument argument = ferry_buffer_argument(b, INT, 0, FERRY_REST);
    OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), f.stream, &argument, 1));
    OK(ferry_buffer_prefetch(b, 0, FERRY_REST, 0, NULL));
    OK(ferry_buffer_wait_idle(b, 0));
    DESTROY_BUFFERS(&b);
    ferry_kernel_destroy(&kernel);
    ferryi_worker_stop(f.context);
    assert_int_equal(f.errors, 1);
    assert_non_null(strstr(f.message, "prefetch a buffer: "));
    assert_null(strstr(f.message, "event"));
    f.errors = 0;
    fixture_close(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_memory_may_be_touched_after_the_event),
        TEST(test_the_stream_of_a_prefetch_may_go_first),
        TEST(test_a_sync_is_followed_by_its_event),
        TEST(test_a_sync_with_an_event_is_stopped),
        TEST(test_calls_take_effect_in_the_order_of_submission),
        TEST(test_scopes_wait_for_calls_in_flight),
        TEST(test_cancelled_calls_leave_the_map_truthful),
        TEST(test_streams_wait_for_the_event_of_a_copy),
        TEST(test_progress_of_every_call),
        TEST(test_events_and_buffers_may_go_first),
        TEST(test_buffers_end_before_their_calls),
        cmocka_unit_test(test_an_upload_does_not_wait_behind_a_download),
        cmocka_unit_test(test_progress_is_that_of_the_moment),
        cmocka_unit_test(test_a_failure_is_reported_by_the_event_or_by_the_log),
        cmocka_unit_test(test_a_prefetch_without_memory_is_no_error),
        cmocka_unit_test(test_the_log_of_a_prefetch_names_no_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
