/* SPDX-License-Identifier: MIT */
/* Tests timed events, which measure the time between two points on streams of one place, on every
 * kind of device. */
#include "tests/buffer/work.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/copies.h"

enum { COUNT = 1 << 16, BYTES = COUNT * 4 };

#define NAP_NS      UINT64_C(5000000)
#define NAP_SECONDS 0.005

static void
nap(void *unused)
{
    (void)unused;
    ferryi_sleep_ns(NAP_NS);
}

/* Queues a host function that sleeps, as a substitute for a slow kernel. */
static void
queue_nap(fixture *f, ferry_stream *stream)
{
    ferryi_device *device = device_of(f, ferry_stream_place(stream));
    OK(device->ops->host_call(device, ferry_stream_native(stream), nap, NULL));
}

static ferry_event *
record(ferry_stream *stream, uint32_t flags)
{
    ferry_event *event = NULL;
    OK(ferry_stream_record(stream, flags, &event));
    assert_non_null(event);
    return event;
}

static ferry_event *
record_timed(ferry_stream *stream)
{
    return record(stream, FERRY_EVENT_TIMED);
}

static double
elapsed(ferry_event *begin, ferry_event *end)
{
    double seconds = -1e9;
    OK(ferry_event_elapsed(begin, end, &seconds));
    assert_true(seconds > -1000 && seconds < 1000);
    return seconds;
}

#define DESTROY_EVENTS(...) destroy_events((ferry_event **const[]){__VA_ARGS__, NULL})
static void
destroy_events(ferry_event **const *events)
{
    for (; *events; events++)
        ferry_event_destroy(*events);
}

static void
test_the_time_between_two_events(void **state)
{
    fixture *f = *state;
    for (int place = 1; place <= f->places; place++) {
        ferry_stream *streams[] = {stream_of(f, place), make_stream(f, place)};
        for (int i = 0; i < 2; i++) {
            ferry_event *begin = record_timed(streams[i]);
            queue_nap(f, streams[i]);
            ferry_event *end = record_timed(streams[i]);
            double seconds = elapsed(begin, end), back = elapsed(end, begin);
            assert_true(seconds >= NAP_SECONDS * 0.99);
            assert_true(back <= -NAP_SECONDS * 0.99);
            assert_true(elapsed(begin, begin) == 0);
            DESTROY_EVENTS(&begin, &end);
        }
        ferry_stream_destroy(&streams[1]);
    }
}

static void
test_events_of_two_streams(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1);
    ferry_event *begin = record_timed(a);
    queue_nap(f, a);
    ferry_event *middle = record_timed(a);
    OK(ferry_stream_wait_event(b, middle));
    queue_nap(f, b);
    ferry_event *end = record_timed(b);
    assert_true(elapsed(begin, end) >= 2 * NAP_SECONDS * 0.99);
    assert_true(elapsed(middle, end) >= NAP_SECONDS * 0.99);
    DESTROY_EVENTS(&begin, &middle, &end);
    DESTROY_STREAMS(&a, &b);
}

/* A gate that blocks a stream until a second thread opens it. The test checks that
 * ferry_event_elapsed() blocks until the device has reached both events. */
struct gate {
    atomic_bool open;
};

static void
wait_at_gate(void *user)
{
    struct gate *gate = user;
    while (!atomic_load(&gate->open))
        ferryi_sleep_ns(100000);
}

static void *
open_later(void *user)
{
    struct gate *gate = user;
    ferryi_sleep_ns(20000000);
    atomic_store(&gate->open, true);
    return NULL;
}

static void
test_it_blocks_until_both_are_reached(void **state)
{
    fixture *f = *state;
    struct gate gate = {false};
    pthread_t thread;
    bool done = true;
    if (f->coherent)
        skip();
    ferry_stream *stream = make_stream(f, 1);
    ferryi_device *device = device_of(f, 1);
    ferry_event *begin = record_timed(stream);
    OK(device->ops->host_call(device, ferry_stream_native(stream), wait_at_gate, &gate));
    ferry_event *end = record_timed(stream);
    OK(ferry_event_query(end, &done));
    assert_false(done);
    assert_int_equal(pthread_create(&thread, NULL, open_later, &gate), 0);
    uint64_t before = ferryi_now_ns();
    double seconds = elapsed(begin, end);
    assert_true(atomic_load(&gate.open));
    /* Checks that ferry_event_elapsed() blocked while the gate was closed. A lazy device reaches
     * both events only when a call waits for them, so the duration is not checked there. */
    assert_true(ferryi_seconds_between(before, ferryi_now_ns()) >= (is_lazy(f) ? 0 : 0.01));
    assert_true(seconds >= 0 && seconds < 1000);
    OK(ferry_event_query(end, &done));
    assert_true(done);
    pthread_join(thread, NULL);
    DESTROY_EVENTS(&begin, &end);
    ferry_stream_destroy(&stream);
}

static void
test_kernels_are_timed(void **state)
{
    fixture *f = *state;
    work w;
    work_open(f, &w);
    ferry_buffer *x = make_counting(f, COUNT, 0);
    OK(launch_add(&w, f->stream, x, 0, COUNT,
                  1)); /* uploads the data and compiles the kernel before the time is measured */
    ferry_event *begin = record_timed(f->stream);
    OK(launch_add(&w, f->stream, x, 0, COUNT, 1));
    ferry_event *end = record_timed(f->stream);
    assert_true(elapsed(begin, end) >= 0);
    DESTROY_EVENTS(&begin, &end);
    expect_counting(f, x, 0, 0, COUNT, 2);
    ferry_buffer_destroy(&x);
    work_close(&w);
}

/* To time a copy, a program records `begin` on a stream and starts the copy. It then makes the
 * stream wait for the copy's event, and records `end`. */
static void
test_copies_are_timed(void **state)
{
    (void)state;
    fixture f;
    /* At this bandwidth the copy takes 10 ms. */
    fixture_open(&f, &(ferry_context_options){.tuning = "emulated.bandwidth=26214400"});
    static int values[COUNT];
    ferry_buffer *x = make_ints(&f, COUNT);
    touch(&f, x, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    OK(ferry_stream_synchronize(f.stream));
    ferry_event *begin = record_timed(f.stream), *copy;
    OK(ferry_event_synchronize(begin)); /* which an emulated device may reach late */
    OK(ferry_buffer_copy_from_async(x, INT, 0, COUNT, values,
                                    &(ferry_copy_options){.stream = f.stream}, &copy));
    OK(ferry_stream_wait_event(f.stream, copy));
    ferry_event *end = record_timed(f.stream);
    double seconds = elapsed(begin, end);
    bool emulated = !strcmp(device_of(&f, 1)->kind, "emulated") || is_lazy(&f);
    assert_true(seconds >= (emulated ? 0.0099 : 0));
    DESTROY_EVENTS(&begin, &copy, &end);
    ferry_buffer_destroy(&x);
    fixture_close(&f);
}

/* A context has only 62 stream numbers, so some streams have none. Events must measure time on
 * these streams, too. */
static void
test_every_stream_of_a_crowd_keeps_time(void **state)
{
    fixture *f = *state;
    ferry_stream *streams[STREAM_CROWD];
    make_crowd(f, streams);
    for (size_t i = 0; i < STREAM_CROWD; i += 23) {
        ferry_event *begin = record_timed(streams[i]);
        queue_nap(f, streams[i]);
        ferry_event *end = record_timed(streams[i]);
        assert_true(elapsed(begin, end) >= NAP_SECONDS * 0.99);
        DESTROY_EVENTS(&begin, &end);
    }
    destroy_crowd(streams);
}

/* Timed events support all operations that other events support. */
static void
test_a_timed_event_is_an_event(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, f->places);
    ferry_buffer *x = make_ints(f, COUNT);
    size_t done = 1, total = 1;
    bool is_done = false;
    fill_on(f, x, a, 0, COUNT, 5);
    ferry_event *event = record_timed(a);
    OK(ferry_stream_wait_event(b, event));
    OK(ferry_event_synchronize(event));
    OK(ferry_event_query(event, &is_done));
    assert_true(is_done);
    OK(ferry_event_progress(event, &done, &total));
    assert_true(done == 0 && total == 0);
    OK(ferry_event_cancel(event));
    assert_true(elapsed(event, event) == 0);
    expect_constant(f, x, 0, 0, COUNT, 5);
    ferry_event_destroy(&event);
    ferry_buffer_destroy(&x);
    DESTROY_STREAMS(&a, &b);
}

/* A timed event outlives the stream on which it was recorded. */
static void
test_the_stream_may_go_first(void **state)
{
    fixture *f = *state;
    ferry_stream *stream = make_stream(f, 1);
    ferry_event *begin = record_timed(stream);
    queue_nap(f, stream);
    ferry_event *end = record_timed(stream);
    ferry_stream_destroy(&stream);
    assert_true(elapsed(begin, end) >= NAP_SECONDS * 0.99);
    DESTROY_EVENTS(&begin, &end);
}

static void
test_what_is_refused(void **state)
{
    fixture *f = *state;
    static int values[COUNT];
    double seconds = 7;
    fixture other;
    ferry_event *timed = record_timed(f->stream), *plain = record(f->stream, 0), *copy,
                *none = NULL;
    FAILS(FERRY_ERROR_INVALID_ARGUMENT,
          ferry_stream_record(f->stream, FERRY_EVENT_TIMED | 2, &none));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_stream_record(f->stream, UINT32_C(1) << 31, &none));
    assert_null(none);
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_event_elapsed(NULL, timed, &seconds));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_event_elapsed(timed, NULL, &seconds));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_event_elapsed(timed, timed, NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_event_elapsed(plain, timed, &seconds));
    assert_non_null(strstr(ferry_last_error(), "`begin` was recorded without FERRY_EVENT_TIMED"));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_event_elapsed(timed, plain, &seconds));
    assert_non_null(strstr(ferry_last_error(), "`end` was recorded without FERRY_EVENT_TIMED"));

    ferry_buffer *x = make_ints(f, COUNT);
    OK(ferry_buffer_copy_from_async(x, INT, 0, COUNT, values, NULL, &copy));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_event_elapsed(timed, copy, &seconds));
    assert_non_null(strstr(ferry_last_error(), "`end` is the event of an asynchronous call"));
    OK(ferry_event_synchronize(copy));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_event_elapsed(copy, timed, &seconds));

    if (f->places > 1) {
        ferry_event *far = record_timed(stream_of(f, 2));
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_event_elapsed(timed, far, &seconds));
        assert_non_null(strstr(ferry_last_error(), "different places"));
        ferry_event_destroy(&far);
    }
    fixture_open(&other, &(ferry_context_options){0});
    ferry_event *foreign = record_timed(other.stream);
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_event_elapsed(timed, foreign, &seconds));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_event_elapsed(foreign, timed, &seconds));
    ferry_event_destroy(&foreign);
    fixture_close(&other);
    assert_true(seconds == 7);
    ferry_buffer_destroy(&x);
    DESTROY_EVENTS(&timed, &plain, &copy);
}

/* Events may be destroyed after their context. The context has then closed its devices, which has
 * freed the driver's events. */
static void
test_events_outlive_their_context(void **state)
{
    (void)state;
    fixture f;
    double seconds;
    fixture_open(&f, &(ferry_context_options){0});
    ferry_event *events[5];
    for (size_t i = 0; i < LENGTH(events); i++)
        events[i] = record_timed(f.stream);
    ferry_event_destroy(&events[2]); /* the event in the middle of the context's list of events */
    ferry_event_destroy(&events[4]);
    fixture_finish(&f);
    ferry_context_destroy(&f.context);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_event_elapsed(events[0], events[1], &seconds));
    DESTROY_EVENTS(&events[0], &events[1], &events[3]);
}

struct worker {
    pthread_t thread;
    fixture *f;
};

static void *
record_and_measure(void *user)
{
    struct worker *worker = user;
    ferry_stream *stream = make_stream(worker->f, 1);
    for (int i = 0; i < 50; i++) {
        ferry_event *begin = record_timed(stream), *end = record_timed(stream);
        assert_true(elapsed(begin, end) >= 0);
        DESTROY_EVENTS(&begin, &end);
    }
    ferry_stream_destroy(&stream);
    return NULL;
}

static void
test_threads_measure_at_once(void **state)
{
    struct worker workers[4];
    for (size_t i = 0; i < LENGTH(workers); i++) {
        workers[i].f = *state;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, record_and_measure, &workers[i]),
                         0);
    }
    for (size_t i = 0; i < LENGTH(workers); i++)
        pthread_join(workers[i].thread, NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_time_between_two_events),
        TEST(test_events_of_two_streams),
        TEST(test_it_blocks_until_both_are_reached),
        TEST(test_kernels_are_timed),
        cmocka_unit_test(test_copies_are_timed),
        TEST(test_every_stream_of_a_crowd_keeps_time),
        TEST(test_a_timed_event_is_an_event),
        TEST(test_the_stream_may_go_first),
        TEST(test_what_is_refused),
        cmocka_unit_test(test_events_outlive_their_context),
        TEST(test_threads_measure_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
