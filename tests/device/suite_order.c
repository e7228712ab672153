/* SPDX-License-Identifier: MIT */
/* Checks the order of device work: streams, events, host functions and waits. */
#include "tests/device/suite.h"
#include "tests/support/copy_slots.h"

#include <stdlib.h>
#include <string.h>

/* Objects for tests of the order of work: two streams, an event, one mebibyte of device memory, and
 * two pinned buffers of one mebibyte each. */
struct scene {
    ferryi_device *device;
    void *first, *second; /* streams */
    void *event;
    void *memory; /* device memory */
    /* Pinned memory; `in` is the source of uploads, `out` the target of downloads. */
    char *in, *out;
};

static void
set_scene(struct scene *scene)
{
    ferryi_device *device = suite_device();
    scene->device = device;
    scene->first = new_stream(device);
    scene->second = new_stream(device);
    scene->event = new_event(device);
    scene->memory = take(device, FERRY_MEMORY_DEVICE, MEBIBYTE);
    scene->in = take(device, FERRY_MEMORY_PINNED, MEBIBYTE);
    scene->out = take(device, FERRY_MEMORY_PINNED, MEBIBYTE);
    memset(scene->out, 0, MEBIBYTE);
    write_device(device, scene->memory, MEBIBYTE, 1000);
}

static void
clear_scene(struct scene *scene)
{
    assert_ok(ferryi_device_synchronize(scene->device), "synchronize");
    give(scene->device, FERRY_MEMORY_PINNED, scene->out);
    give(scene->device, FERRY_MEMORY_PINNED, scene->in);
    give(scene->device, FERRY_MEMORY_DEVICE, scene->memory);
    OK(scene->device, event_destroy, scene->event);
    OK(scene->device, stream_destroy, scene->second);
    OK(scene->device, stream_destroy, scene->first);
}

static bool
query(ferryi_device *device, void *event)
{
    bool done = false;
    OK(device, event_query, event, &done);
    return done;
}

static void
test_synchronize_waits_for_all_streams(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    atomic_bool first_done = false, second_done = false, default_done = false;
    OK(scene.device, host_call, scene.first, take_a_while, &first_done);
    OK(scene.device, host_call, scene.second, take_a_while, &second_done);
    OK(scene.device, host_call, scene.device->default_stream, take_a_while, &default_done);
    assert_ok(ferryi_device_synchronize(scene.device), "synchronize");
    assert_true(atomic_load(&first_done) && atomic_load(&second_done) &&
                atomic_load(&default_done));
    clear_scene(&scene);
}

static void
test_stream_synchronize_waits_for_the_stream(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    write_pattern(scene.in, MEBIBYTE, 1);
    atomic_bool done = false;
    OK(scene.device, host_call, scene.first, take_a_while, NULL);
    OK(scene.device, copy_upload, scene.memory, scene.in, MEBIBYTE, scene.first);
    OK(scene.device, copy_download, scene.out, scene.memory, MEBIBYTE, scene.first);
    OK(scene.device, host_call, scene.first, take_a_while, &done);
    OK(scene.device, stream_synchronize, scene.first);
    assert_true(atomic_load(&done));
    assert_pattern(scene.out, MEBIBYTE, 1);
    clear_scene(&scene);
}

struct sequence {
    int entries[16];
    atomic_int count;
};

struct sequence_call {
    struct sequence *sequence;
    int entry;
};

static void
append_entry(void *opaque)
{
    struct sequence_call *call = opaque;
    call->sequence->entries[atomic_fetch_add(&call->sequence->count, 1)] = call->entry;
}

static void
test_host_functions_run_in_stream_order(void **state)
{
    (void)state;
    struct sequence sequence = {0};
    struct sequence_call calls[16];
    void *stream = new_stream(suite_device());
    for (int i = 0; i < 16; i++) {
        calls[i] = (struct sequence_call){&sequence, i};
        OK(suite_device(), host_call, stream, append_entry, &calls[i]);
    }
    OK(suite_device(), stream_synchronize, stream);
    assert_int_equal(atomic_load(&sequence.count), 16);
    for (int i = 0; i < 16; i++)
        assert_int_equal(sequence.entries[i], i);
    OK(suite_device(), stream_destroy, stream);
}

/* Threads that queue host functions on one stream at once. */
struct callers {
    void *stream;
    atomic_int called;
};

static void
count_call(void *opaque)
{
    atomic_fetch_add(&((struct callers *)opaque)->called, 1);
}

static void
callers_main(void *opaque)
{
    struct callers *callers = opaque;
    for (int i = 0; i < 100; i++)
        OK(suite_device(), host_call, callers->stream, count_call, callers);
}

static void
test_threads_call_host_functions_on_one_stream(void **state)
{
    (void)state;
    struct callers callers = {.stream = new_stream(suite_device())};
    ferryi_thread threads[4];
    for (int i = 0; i < 4; i++)
        assert_ok(ferryi_thread_start(&threads[i], "caller", callers_main, &callers), "thread");
    for (int i = 0; i < 4; i++)
        ferryi_thread_join(threads[i]);
    OK(suite_device(), stream_synchronize, callers.stream);
    assert_int_equal(atomic_load(&callers.called), 400);
    OK(suite_device(), stream_destroy, callers.stream);
}

static void
write_pattern_late(void *memory)
{
    ferryi_sleep_ns(2000000);
    write_pattern(memory, MEBIBYTE, 11);
}

static void
test_later_work_waits_for_the_host_functions_return(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    OK(scene.device, host_call, scene.first, write_pattern_late, scene.in);
    OK(scene.device, copy_upload, scene.memory, scene.in, MEBIBYTE, scene.first);
    OK(scene.device, stream_synchronize, scene.first);
    assert_device(scene.device, scene.memory, MEBIBYTE, 11);
    clear_scene(&scene);
}

static void
test_new_streams_are_ordered_with_no_other(void **state)
{
    (void)state;
    if (suite.immediate)
        skip();
    struct scene scene;
    set_scene(&scene);
    struct gate gate = {0};
    OK(scene.device, host_call, scene.device->default_stream, pass_gate, &gate);
    write_pattern(scene.in, MEBIBYTE, 2);
    OK(scene.device, copy_upload, scene.memory, scene.in, MEBIBYTE, scene.first);
    OK(scene.device, copy_download, scene.out, scene.memory, MEBIBYTE, scene.first);
    /* Waiting for the first stream returns although the default stream is blocked. */
    OK(scene.device, stream_synchronize, scene.first);
    assert_pattern(scene.out, MEBIBYTE, 2);
    assert_false(atomic_load(&gate.passed));
    atomic_store(&gate.open, true);
    clear_scene(&scene);
    assert_true(atomic_load(&gate.passed));
}

static void
test_queued_work_of_a_destroyed_stream_still_runs(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    write_pattern(scene.in, MEBIBYTE, 3);
    void *stream = new_stream(scene.device);
    OK(scene.device, host_call, stream, take_a_while, NULL);
    OK(scene.device, copy_upload, scene.memory, scene.in, MEBIBYTE, stream);
    OK(scene.device, event_record, scene.event, stream);
    OK(scene.device, stream_destroy, stream);
    void *next = new_stream(scene.device);
    /* The event was recorded on a stream that is destroyed now. A wait for the event must include
     * the work of that stream, even if a new stream has the same handle. */
    OK(scene.device, event_synchronize, scene.event);
    assert_device(scene.device, scene.memory, MEBIBYTE, 3);
    OK(scene.device, stream_destroy, next);
    clear_scene(&scene);
}

static void
test_streams_come_and_go(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    for (unsigned i = 0; i < 100; i++) {
        void *stream = new_stream(scene.device);
        OK(scene.device, stream_wait, stream, scene.event);
        OK(scene.device, fill, scene.memory, i, 1, MEBIBYTE, stream);
        OK(scene.device, event_record, scene.event, stream);
        OK(scene.device, stream_destroy, stream);
    }
    OK(scene.device, event_synchronize, scene.event);
    assert_device_byte(scene.device, scene.memory, MEBIBYTE, 99);
    clear_scene(&scene);
}

static void
test_no_stream_is_being_captured(void **state)
{
    (void)state;
    void *stream = new_stream(suite_device());
    bool capturing = true;
    OK(suite_device(), stream_is_capturing, stream, &capturing);
    assert_false(capturing);
    capturing = true;
    OK(suite_device(), stream_is_capturing, suite_device()->default_stream, &capturing);
    assert_false(capturing);
    OK(suite_device(), stream_destroy, stream);
}

/* A graph does its work when it is launched, as often as it is launched, and in the order of that
 * stream. The stream that was recorded then works as before. */
static void
test_a_graph_repeats_recorded_work(void **state)
{
    (void)state;
    struct scene scene;
    void *graph = NULL;
    bool capturing = false;
    set_scene(&scene);
    ferryi_device *device = scene.device;
    ferry_status status = FERRYI_CALL(device, capture_begin, scene.first);
    if (status != FERRY_OK) {
        assert_int_equal(status, FERRY_ERROR_UNSUPPORTED);
        clear_scene(&scene);
        skip();
    }
    OK(device, stream_is_capturing, scene.first, &capturing);
    assert_true(capturing);
    OK(device, fill, scene.memory, 7, 1, MEBIBYTE, scene.first);
    OK(device, capture_end, scene.first, &graph);
    OK(device, fill, scene.memory, 1, 1, MEBIBYTE, scene.second);
    OK(device, stream_synchronize, scene.second);
    assert_device_byte(device, scene.memory, MEBIBYTE, 1);
    for (int i = 0; i < 2; i++) {
        OK(device, fill, scene.memory, 2, 1, MEBIBYTE, scene.second);
        OK(device, graph_launch, graph, scene.second);
        OK(device, stream_synchronize, scene.second);
        assert_device_byte(device, scene.memory, MEBIBYTE, 7);
    }
    OK(device, fill, scene.memory, 3, 1, MEBIBYTE, scene.first);
    OK(device, stream_synchronize, scene.first);
    assert_device_byte(device, scene.memory, MEBIBYTE, 3);
    OK(device, graph_destroy, graph);
    /* What was recorded may be discarded. */
    OK(device, capture_begin, scene.first);
    OK(device, fill, scene.memory, 9, 1, MEBIBYTE, scene.first);
    OK(device, capture_end, scene.first, NULL);
    OK(device, stream_synchronize, scene.first);
    assert_device_byte(device, scene.memory, MEBIBYTE, 3);
    clear_scene(&scene);
}

static void
test_an_event_never_recorded_has_happened(void **state)
{
    (void)state;
    void *event = new_event(suite_device());
    assert_true(query(suite_device(), event));
    OK(suite_device(), event_synchronize, event);
    OK(suite_device(), stream_wait, suite_device()->default_stream, event);
    OK(suite_device(), stream_synchronize, suite_device()->default_stream);
    OK(suite_device(), event_destroy, event);
}

static void
test_an_event_stands_for_all_work_so_far(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    write_pattern(scene.in, MEBIBYTE, 4);
    OK(scene.device, host_call, scene.first, take_a_while, NULL);
    OK(scene.device, copy_upload, scene.memory, scene.in, MEBIBYTE, scene.first);
    OK(scene.device, copy_download, scene.out, scene.memory, MEBIBYTE, scene.first);
    OK(scene.device, event_record, scene.event, scene.first);
    OK(scene.device, event_synchronize, scene.event);
    assert_pattern(scene.out, MEBIBYTE, 4);
    assert_true(query(scene.device, scene.event));
    clear_scene(&scene);
}

static void
test_a_query_does_not_block(void **state)
{
    (void)state;
    if (suite.immediate)
        skip();
    struct scene scene;
    set_scene(&scene);
    struct gate gate = {0};
    OK(scene.device, host_call, scene.first, pass_gate, &gate);
    OK(scene.device, event_record, scene.event, scene.first);
    assert_false(query(scene.device, scene.event));
    atomic_store(&gate.open, true);
    OK(scene.device, event_synchronize, scene.event);
    assert_true(query(scene.device, scene.event));
    clear_scene(&scene);
}

static void
test_polling_ends(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    OK(scene.device, fill, scene.memory, 1, 1, MEBIBYTE, scene.first);
    OK(scene.device, event_record, scene.event, scene.first);
    uint64_t deadline = ferryi_now_ns() + 20000000000u;
    while (!query(scene.device, scene.event)) {
        assert_true(ferryi_now_ns() < deadline);
        ferryi_yield();
    }
    clear_scene(&scene);
}

static void
test_a_wait_orders_streams(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    for (unsigned round = 0; round < 20; round++) {
        write_pattern(scene.in, MEBIBYTE, round);
        if (round < 3)
            OK(scene.device, host_call, scene.first, take_a_while, NULL);
        OK(scene.device, copy_upload, scene.memory, scene.in, MEBIBYTE, scene.first);
        OK(scene.device, event_record, scene.event, scene.first);
        OK(scene.device, stream_wait, scene.second, scene.event);
        OK(scene.device, copy_download, scene.out, scene.memory, MEBIBYTE, scene.second);
        OK(scene.device, stream_synchronize, scene.second);
        assert_pattern(scene.out, MEBIBYTE, round);
    }
    clear_scene(&scene);
}

static void
test_waits_chain_over_streams(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    /* Each fill overwrites the previous one. So the last value remains only if all fills run in
     * order. */
    for (unsigned i = 1; i <= 200; i++) {
        void *stream = i % 2 ? scene.first : scene.second,
             *other = i % 2 ? scene.second : scene.first;
        if (i % 50 == 1)
            OK(scene.device, host_call, stream, take_a_while, NULL);
        OK(scene.device, fill, scene.memory, i, 1, MEBIBYTE, stream);
        OK(scene.device, event_record, scene.event, stream);
        OK(scene.device, stream_wait, other, scene.event);
    }
    OK(scene.device, event_synchronize, scene.event);
    assert_device_byte(scene.device, scene.memory, MEBIBYTE, 200);
    clear_scene(&scene);
}

static void
test_a_wait_means_the_record_of_its_moment(void **state)
{
    (void)state;
    if (suite.immediate)
        skip();
    struct scene scene;
    set_scene(&scene);
    struct gate before = {0}, after = {0};
    void *end = new_event(scene.device);
    write_pattern(scene.in, MEBIBYTE, 6);
    OK(scene.device, host_call, scene.first, pass_gate, &before);
    OK(scene.device, copy_upload, scene.memory, scene.in, MEBIBYTE, scene.first);
    OK(scene.device, event_record, scene.event, scene.first);
    OK(scene.device, stream_wait, scene.second, scene.event);
    OK(scene.device, copy_download, scene.out, scene.memory, MEBIBYTE, scene.second);
    OK(scene.device, event_record, end, scene.second);
    OK(scene.device, host_call, scene.first, pass_gate, &after);
    OK(scene.device, event_record, scene.event, scene.first);
    atomic_store(&before.open, true);
    /* The second record of the event replaced the first one. A stream that began to wait for the
     * event before the second record still waits for the first record. */
    OK(scene.device, event_synchronize, end);
    assert_pattern(scene.out, MEBIBYTE, 6);
    assert_false(atomic_load(&after.passed));
    assert_false(query(scene.device, scene.event));
    atomic_store(&after.open, true);
    OK(scene.device, event_synchronize, scene.event);
    assert_true(atomic_load(&after.passed));
    OK(scene.device, event_destroy, end);
    clear_scene(&scene);
}

static void
test_destroying_an_event_leaves_its_waiters_alone(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    void *event = new_event(scene.device);
    write_pattern(scene.in, MEBIBYTE, 7);
    OK(scene.device, host_call, scene.first, take_a_while, NULL);
    OK(scene.device, copy_upload, scene.memory, scene.in, MEBIBYTE, scene.first);
    OK(scene.device, event_record, event, scene.first);
    OK(scene.device, stream_wait, scene.second, event);
    OK(scene.device, event_destroy, event);
    OK(scene.device, copy_download, scene.out, scene.memory, MEBIBYTE, scene.second);
    OK(scene.device, stream_synchronize, scene.second);
    assert_pattern(scene.out, MEBIBYTE, 7);
    clear_scene(&scene);
}

static void
test_streams_wait_for_events_of_other_devices(void **state)
{
    (void)state;
    if (suite.count < 2 || !ferryi_device_is_peer(suite.devices[0], suite.devices[1]))
        skip();
    struct scene scene;
    set_scene(&scene);
    ferryi_device *other = suite.devices[1];
    void *stream = new_stream(other), *memory = take(other, FERRY_MEMORY_DEVICE, MEBIBYTE);
    /* Copies from the first device to pinned memory, and then from that pinned memory to the second
     * device. */
    write_pattern(scene.in, MEBIBYTE, 8);
    OK(scene.device, host_call, scene.first, take_a_while, NULL);
    OK(scene.device, copy_upload, scene.memory, scene.in, MEBIBYTE, scene.first);
    OK(scene.device, copy_download, scene.out, scene.memory, MEBIBYTE, scene.first);
    OK(scene.device, event_record, scene.event, scene.first);
    OK(other, stream_wait, stream, scene.event);
    OK(other, copy_upload, memory, scene.out, MEBIBYTE, stream);
    OK(other, stream_synchronize, stream);
    assert_device(other, memory, MEBIBYTE, 8);
    give(other, FERRY_MEMORY_DEVICE, memory);
    OK(other, stream_destroy, stream);
    clear_scene(&scene);
}

static void
check_special_stream(ferryi_device *device, void *stream, unsigned seed)
{
    void *memory = take(device, FERRY_MEMORY_DEVICE, MEBIBYTE);
    char *pinned = take(device, FERRY_MEMORY_PINNED, MEBIBYTE);
    void *event = new_event(device);
    write_pattern(pinned, MEBIBYTE, seed);
    OK(device, copy_upload, memory, pinned, MEBIBYTE, stream);
    OK(device, event_record, event, stream);
    OK(device, event_synchronize, event);
    assert_device(device, memory, MEBIBYTE, seed);
    OK(device, event_destroy, event);
    give(device, FERRY_MEMORY_PINNED, pinned);
    give(device, FERRY_MEMORY_DEVICE, memory);
}

static void
test_default_and_per_thread_streams_work(void **state)
{
    (void)state;
    for (int i = 0; i < suite.count; i++) {
        ferryi_device *device = suite.devices[i];
        assert_true(device->default_stream || device->default_is_null);
        check_special_stream(device, device->default_stream, 1);
        if (device->default_is_null)
            check_special_stream(device, NULL, 2);
        if (device->per_thread_stream)
            check_special_stream(device, device->per_thread_stream, 3);
    }
}

/* -- several threads at once -- */

struct worker {
    ferryi_thread thread;
    unsigned seed;
    bool right;
};

static bool
holds_pattern(const char *memory, size_t bytes, unsigned seed)
{
    char *expected = malloc(bytes);
    write_pattern(expected, bytes, seed);
    bool equal = memcmp(memory, expected, bytes) == 0;
    free(expected);
    return equal;
}

/* Performs one round of work on a second thread. Returns false on failure, because cmocka's
 * assertions work only on the main thread. */
static bool
work_once(ferryi_device *device, unsigned seed)
{
    size_t bytes = 65536;
    void *stream = NULL, *event = NULL, *memory = NULL, *pinned = NULL;
    bool fine =
        FERRYI_CALL(device, stream_create, &stream) == FERRY_OK &&
        FERRYI_CALL(device, event_create, false, &event) == FERRY_OK &&
        FERRYI_CALL(device, memory_alloc, FERRY_MEMORY_DEVICE, bytes, &memory) == FERRY_OK &&
        FERRYI_CALL(device, memory_alloc, FERRY_MEMORY_PINNED, 2 * bytes, &pinned) == FERRY_OK;
    if (fine) {
        char *in = pinned, *out = in + bytes;
        write_pattern(in, bytes, seed);
        fine = FERRYI_CALL(device, copy_upload, memory, in, bytes, stream) == FERRY_OK &&
               FERRYI_CALL(device, event_record, event, stream) == FERRY_OK &&
               FERRYI_CALL(device, stream_wait, device->default_stream, event) == FERRY_OK &&
               FERRYI_CALL(device, copy_download, out, memory, bytes, device->default_stream) ==
                   FERRY_OK &&
               FERRYI_CALL(device, event_record, event, device->default_stream) == FERRY_OK &&
               FERRYI_CALL(device, event_synchronize, event) == FERRY_OK &&
               holds_pattern(out, bytes, seed);
    }
    fine = FERRYI_CALL(device, memory_free, FERRY_MEMORY_PINNED, pinned) == FERRY_OK && fine;
    fine = FERRYI_CALL(device, memory_free, FERRY_MEMORY_DEVICE, memory) == FERRY_OK && fine;
    fine = (!event || FERRYI_CALL(device, event_destroy, event) == FERRY_OK) && fine;
    return (!stream || FERRYI_CALL(device, stream_destroy, stream) == FERRY_OK) && fine;
}

static void
worker_main(void *opaque)
{
    struct worker *worker = opaque;
    worker->right = true;
    for (unsigned round = 0; round < 30 && worker->right; round++)
        worker->right =
            work_once(suite.devices[round % (unsigned)suite.count], worker->seed + 100 * round);
}

static void
test_any_thread_may_call_at_once(void **state)
{
    (void)state;
    struct worker workers[4];
    for (unsigned i = 0; i < 4; i++) {
        workers[i].seed = i;
        assert_ok(ferryi_thread_start(&workers[i].thread, "worker", worker_main, &workers[i]),
                  "thread");
    }
    for (unsigned i = 0; i < 4; i++)
        ferryi_thread_join(workers[i].thread);
    for (unsigned i = 0; i < 4; i++)
        assert_true(workers[i].right);
}

/* -- timed events -- */

static void *
new_timed_event(ferryi_device *device)
{
    void *event = NULL;
    OK(device, event_create, true, &event);
    assert_non_null(event);
    return event;
}

static void
test_the_time_between_events_is_that_of_the_work(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    void *begin = new_timed_event(scene.device), *end = new_timed_event(scene.device);
    double seconds = -1, back = -1;
    OK(scene.device, event_record, begin, scene.first);
    OK(scene.device, host_call, scene.first, take_a_while, NULL);
    OK(scene.device, event_record, end, scene.first);
    OK(scene.device, event_synchronize, end);
    OK(scene.device, event_elapsed, begin, end, &seconds);
    /* take_a_while() sleeps for 5 ms, which is the lower bound. The upper bound only checks that
     * the unit is seconds. */
    assert_true(seconds >= 0.005 * 0.99);
    assert_true(seconds < 60);
    OK(scene.device, event_elapsed, end, begin, &back);
    assert_true(back <= -0.005 * 0.99 && back > -60);
    OK(scene.device, event_elapsed, end, end, &seconds);
    assert_true(seconds == 0);
    OK(scene.device, event_destroy, end);
    OK(scene.device, event_destroy, begin);
    clear_scene(&scene);
}

/* Checks that the time of an event is the time at which the device reaches the event, not the time
 * of the call of event_record. Both events are recorded before the device reaches either of
 * them. */
static void
test_the_time_is_when_the_stream_gets_there(void **state)
{
    (void)state;
    if (suite.immediate)
        skip();
    struct scene scene;
    set_scene(&scene);
    struct gate gate = {0};
    void *begin = new_timed_event(scene.device), *end = new_timed_event(scene.device);
    double seconds = -1;
    OK(scene.device, host_call, scene.first, pass_gate, &gate);
    OK(scene.device, event_record, begin, scene.first);
    OK(scene.device, host_call, scene.first, take_a_while, NULL);
    OK(scene.device, event_record, end, scene.first);
    FAILS(FERRY_ERROR_DEVICE, scene.device, event_elapsed, begin, end, &seconds); /* not done yet */
    uint64_t opened = ferryi_now_ns();
    ferryi_sleep_ns(20000000);
    atomic_store(&gate.open, true);
    OK(scene.device, event_synchronize, end);
    double all = ferryi_seconds_between(opened, ferryi_now_ns());
    OK(scene.device, event_elapsed, begin, end, &seconds);
    assert_true(seconds >= 0.005 * 0.99 && seconds <= all - 0.019);
    OK(scene.device, event_destroy, end);
    OK(scene.device, event_destroy, begin);
    clear_scene(&scene);
}

static void
test_a_second_record_replaces_the_time(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    void *begin = new_timed_event(scene.device), *end = new_timed_event(scene.device);
    double first = -1, second = -1;
    OK(scene.device, event_record, begin, scene.first);
    OK(scene.device, event_record, end, scene.first);
    OK(scene.device, event_synchronize, end);
    OK(scene.device, event_elapsed, begin, end, &first);
    OK(scene.device, host_call, scene.second, take_a_while, NULL);
    OK(scene.device, event_record, end, scene.second); /* recorded on another stream */
    OK(scene.device, event_synchronize, end);
    OK(scene.device, event_elapsed, begin, end, &second);
    assert_true(first >= 0 && second >= first + 0.005 * 0.99);
    OK(scene.device, event_destroy, end);
    OK(scene.device, event_destroy, begin);
    clear_scene(&scene);
}

static void
test_a_timed_event_orders_as_others_do(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    void *event = new_timed_event(scene.device);
    assert_true(query(scene.device, event)); /* an event that was never recorded is done */
    for (unsigned round = 0; round < 5; round++) {
        write_pattern(scene.in, MEBIBYTE, round);
        OK(scene.device, host_call, scene.first, take_a_while, NULL);
        OK(scene.device, copy_upload, scene.memory, scene.in, MEBIBYTE, scene.first);
        OK(scene.device, event_record, event, scene.first);
        OK(scene.device, stream_wait, scene.second, event);
        OK(scene.device, copy_download, scene.out, scene.memory, MEBIBYTE, scene.second);
        OK(scene.device, stream_synchronize, scene.second);
        assert_pattern(scene.out, MEBIBYTE, round);
        assert_true(query(scene.device, event));
    }
    OK(scene.device, event_destroy, event);
    clear_scene(&scene);
}

static void
test_destroying_a_timed_event_leaves_its_queue_alone(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    atomic_bool done = false;
    void *event = new_timed_event(scene.device);
    OK(scene.device, host_call, scene.first, take_a_while, NULL);
    OK(scene.device, event_record, event, scene.first);
    OK(scene.device, event_record, event, scene.first);
    OK(scene.device, host_call, scene.first, take_a_while, &done);
    OK(scene.device, event_destroy, event);
    OK(scene.device, stream_synchronize, scene.first);
    assert_true(atomic_load(&done));
    clear_scene(&scene);
}

static void
test_only_recorded_timed_events_have_a_time(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    void *timed = new_timed_event(scene.device), *never = new_timed_event(scene.device);
    double seconds = 7;
    OK(scene.device, event_record, timed, scene.first);
    OK(scene.device, event_record, scene.event, scene.first);
    OK(scene.device, stream_synchronize, scene.first);
    FAILS(FERRY_ERROR_DEVICE, scene.device, event_elapsed, timed, never, &seconds);
    FAILS(FERRY_ERROR_DEVICE, scene.device, event_elapsed, never, timed, &seconds);
    FAILS(FERRY_ERROR_DEVICE, scene.device, event_elapsed, timed, scene.event, &seconds);
    FAILS(FERRY_ERROR_DEVICE, scene.device, event_elapsed, scene.event, timed, &seconds);
    assert_true(seconds == 7);
    OK(scene.device, event_destroy, never);
    OK(scene.device, event_destroy, timed);
    clear_scene(&scene);
}

const struct CMUnitTest order_tests[] = {
    cmocka_unit_test(test_synchronize_waits_for_all_streams),
    cmocka_unit_test(test_stream_synchronize_waits_for_the_stream),
    cmocka_unit_test(test_host_functions_run_in_stream_order),
    cmocka_unit_test(test_threads_call_host_functions_on_one_stream),
    cmocka_unit_test(test_later_work_waits_for_the_host_functions_return),
    cmocka_unit_test(test_new_streams_are_ordered_with_no_other),
    cmocka_unit_test(test_queued_work_of_a_destroyed_stream_still_runs),
    cmocka_unit_test(test_streams_come_and_go),
    cmocka_unit_test(test_no_stream_is_being_captured),
    cmocka_unit_test(test_a_graph_repeats_recorded_work),
    cmocka_unit_test(test_an_event_never_recorded_has_happened),
    cmocka_unit_test(test_an_event_stands_for_all_work_so_far),
    cmocka_unit_test(test_a_query_does_not_block),
    cmocka_unit_test(test_polling_ends),
    cmocka_unit_test(test_a_wait_orders_streams),
    cmocka_unit_test(test_waits_chain_over_streams),
    cmocka_unit_test(test_a_wait_means_the_record_of_its_moment),
    cmocka_unit_test(test_destroying_an_event_leaves_its_waiters_alone),
    cmocka_unit_test(test_streams_wait_for_events_of_other_devices),
    cmocka_unit_test(test_default_and_per_thread_streams_work),
    cmocka_unit_test(test_any_thread_may_call_at_once),
    cmocka_unit_test(test_the_time_between_events_is_that_of_the_work),
    cmocka_unit_test(test_the_time_is_when_the_stream_gets_there),
    cmocka_unit_test(test_a_second_record_replaces_the_time),
    cmocka_unit_test(test_a_timed_event_orders_as_others_do),
    cmocka_unit_test(test_destroying_a_timed_event_leaves_its_queue_alone),
    cmocka_unit_test(test_only_recorded_timed_events_have_a_time),
};
const size_t order_test_count = sizeof(order_tests) / sizeof(order_tests[0]);
