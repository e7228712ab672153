/* SPDX-License-Identifier: MIT */
/* Tests graphs: what they record and refuse, that launches bring what is stale to the recorded
 * addresses, that eviction, resizing and destruction leave these addresses alone, and what a launch
 * that fails loses. */
#include <stdio.h>

#include <ferry/graph.h>

#include "src/buffer/recording.h"
#include "tests/buffer/work.h"
#include "tests/support/fakecuda.h"

enum { COUNT = 1000, LAUNCHES = 20 };

static bool
is_cuda(fixture *f)
{
    return strcmp(device_of(f, 1)->kind, "cuda") == 0;
}

/* Whether the tests have kernels for the device. */
static bool
has_kernels(fixture *f)
{
    return strcmp(device_of(f, 1)->kind, "hip") != 0;
}

static bool
runs_host_functions(fixture *f)
{
    return !is_cuda(f) && has_kernels(f);
}

/* Skips the test if the device has no graphs. */
static void
need_graphs(fixture *f, bool kernels)
{
    ferry_graph *graph = NULL;
    ferry_stream *stream = make_stream(f, 1);
    ferry_status status = ferry_graph_begin(stream, NULL, &graph);
    if (status == FERRY_OK)
        OK(ferry_graph_end(graph));
    else
        assert_int_equal(status, FERRY_ERROR_UNSUPPORTED);
    ferry_graph_destroy(&graph);
    ferry_stream_destroy(&stream);
    if (status != FERRY_OK || (kernels && !has_kernels(f)))
        skip();
}

static ferry_graph *
begin(ferry_stream *stream, const char *name)
{
    ferry_graph *graph;
    OK(ferry_graph_begin(stream, &(ferry_graph_options){.name = name}, &graph));
    return graph;
}

static void
expect_text(const char *part)
{
    if (!strstr(ferry_last_error(), part))
        fail_msg("\"%s\" does not contain \"%s\"", ferry_last_error(), part);
}

/* Makes a later access to the buffer on the stream a hit, which a recording must not miss. */
static void
make_hits(ferry_buffer *buffer, ferry_stream *stream)
{
    ferry_scope scope;
    (void)open_on(buffer, stream, FERRY_READ, 0, COUNT, &scope);
    OK(ferry_scope_close(&scope));
}

static ferry_status
fill_ints(ferry_buffer *x, size_t offset, size_t count, int value, ferry_stream *stream)
{
    return ferry_buffer_fill(x, INT, offset, count, &value,
                             &(ferry_copy_options){.stream = stream});
}

static ferry_status
copy_ints(ferry_buffer *to, ferry_buffer *from, ferry_stream *stream)
{
    return ferry_buffer_copy(to, INT, 0, from, 0, COUNT, &(ferry_copy_options){.stream = stream});
}

/* -- what is recorded -------------------------------------------------------------------------- */

static void
test_a_graph_repeats_its_work(void **state)
{
    fixture *f = *state;
    work w;
    need_graphs(f, true);
    work_open(f, &w);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT),
                 *z = make_ints(f, COUNT);
    ferry_graph *graph = begin(stream, "step");
    OK(launch_add(&w, stream, x, 0, COUNT, 1));
    OK(launch_copy(&w, stream, y, 0, x, 0, COUNT));
    OK(copy_ints(z, y, stream));
    OK(fill_ints(z, 10, 20, 0x01010101, stream));
    OK(ferry_graph_end(graph));
    assert_int_equal(work_done(), 0);
    expect_counting(f, x, 0, 0, COUNT, 0);
    for (int i = 0; i < LAUNCHES; i++)
        OK(ferry_graph_launch(graph, i % 2 ? stream : stream_of(f, 1)));
    expect_counting(f, x, 0, 0, COUNT, LAUNCHES);
    expect_counting(f, y, 0, 0, COUNT, LAUNCHES);
    expect_counting(f, z, 0, 0, 10, LAUNCHES);
    expect_constant(f, z, 0, 10, 20, 0x01010101);
    expect_counting(f, z, 0, 30, COUNT - 30, LAUNCHES);
    /* The stream runs its work at once again. */
    OK(launch_add(&w, stream, x, 0, COUNT, 1));
    expect_counting(f, x, 0, 0, COUNT, LAUNCHES + 1);
    ferry_graph_destroy(&graph);
    assert_null(graph);
    ferry_graph_destroy(&graph);
    ferry_graph_destroy(NULL);
    work_close(&w);
    DESTROY_BUFFERS(&x, &y, &z);
    ferry_stream_destroy(&stream);
}

/* Fills and copies alone, which every device with graphs has. */
static void
test_fills_and_copies(void **state)
{
    fixture *f = *state;
    need_graphs(f, false);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT);
    ferry_buffer *shorts;
    OK(ferry_buffer_create(f->context, ferry_int16_element(), COUNT, NULL, &shorts));
    ferry_graph *graph = begin(stream, "fills");
    OK(copy_ints(y, x, stream));
    OK(fill_ints(y, 0, 5, 70000, stream));
    OK(fill_ints(y, 5, 5, 0, stream));
    const int16_t value = 300;
    OK(ferry_buffer_fill(shorts, ferry_int16_element(), 0, COUNT, &value,
                         &(ferry_copy_options){.stream = stream}));
    /* Calls without elements record nothing. */
    OK(fill_ints(y, 0, 0, 1, stream));
    OK(ferry_graph_end(graph));
    for (int i = 0; i < 3; i++) {
        write_counting(f, x, 0, 0, COUNT, 100 * i);
        OK(ferry_graph_launch(graph, stream));
        expect_constant(f, y, 0, 0, 5, 70000);
        expect_constant(f, y, 0, 5, 5, 0);
        expect_counting(f, y, 0, 10, COUNT - 10, 100 * i);
    }
    int16_t got[COUNT];
    OK(ferry_buffer_copy_to(shorts, ferry_int16_element(), 0, COUNT, got, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(got[i], 300);
    ferry_graph_destroy(&graph);
    DESTROY_BUFFERS(&x, &y, &shorts);
    ferry_stream_destroy(&stream);
}

/* Other streams wait for what was queued on the stream before the recording. */
static void
test_earlier_work_of_the_stream(void **state)
{
    fixture *f = *state;
    work w;
    need_graphs(f, true);
    work_open(f, &w);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0);
    OK(launch_add(&w, stream, x, 0, COUNT, 1));
    ferry_graph *graph = begin(stream, "step");
    OK(launch_add(&w, stream_of(f, 1), x, 0, COUNT, 1));
    expect_counting(f, x, 0, 0, COUNT, 2);
    ferry_graph_destroy(&graph);
    work_close(&w);
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&stream);
}

static void
test_an_empty_graph(void **state)
{
    fixture *f = *state;
    need_graphs(f, false);
    ferry_stream *stream = make_stream(f, 1);
    ferry_graph *graph;
    OK(ferry_graph_begin(stream, NULL, &graph));
    OK(ferry_graph_end(graph));
    for (int i = 0; i < 3; i++)
        OK(ferry_graph_launch(graph, stream));
    /* Even a graph that uses no buffer is not launched on a stream that is recorded. */
    ferry_graph *other = begin(stream, "other");
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_graph_launch(graph, stream));
    ferry_graph_destroy(&other);
    ferry_graph_destroy(&graph);
    ferry_stream_destroy(&stream);
}

/* Scopes say what work of the program uses, which the driver captures. */
static void
test_scopes_are_recorded_where_the_driver_records(void **state)
{
    fixture *f = *state;
    need_graphs(f, false);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0);
    ferry_scope scope;
    void *pointer;
    make_hits(x, stream);
    ferry_graph *graph = begin(stream, "others");
    ferry_status status =
        ferry_buffer_open_device(x, INT, FERRY_OVERWRITE, 0, 10, stream, &scope, &pointer);
    if (status == FERRY_OK) {
        queue_fill(f, stream, pointer, 7, 10);
        OK(ferry_scope_close(&scope));
    } else {
        assert_int_equal(status, FERRY_ERROR_UNSUPPORTED);
        expect_text("records graph \"others\"");
    }
    assert_int_equal(ferry_buffer_open_device(x, INT, FERRY_READ, 0, 10, stream, &scope, &pointer),
                     status);
    assert_int_equal(info_of(x).scopes, 0);
    OK(ferry_graph_end(graph));
    expect_counting(f, x, 0, 0, COUNT, 0);
    OK(ferry_graph_launch(graph, stream));
    if (status == FERRY_OK)
        expect_constant(f, x, 0, 0, 10, 7);
    expect_counting(f, x, 0, 10, COUNT - 10, 0);
    ferry_graph_destroy(&graph);
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&stream);
}

/* A launch copies the stale bytes that the graph reads, and no others. */
static void
test_a_launch_brings_what_is_stale(void **state)
{
    fixture *f = *state;
    work w;
    need_graphs(f, true);
    work_open(f, &w);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_counting(f, COUNT, 5);
    ferry_graph *graph = begin(stream, "step");
    OK(launch_copy(&w, stream, y, 0, x, 0, COUNT)); /* y is overwritten, and then read */
    OK(launch_add(&w, stream, y, 0, COUNT, 1));
    OK(ferry_graph_end(graph));
    ferry_transfer_stats before = moved(f);
    OK(ferry_graph_launch(graph, stream));
    OK(ferry_stream_synchronize(stream));
    expect_moved(f, &before, COUNT * sizeof(int), 0);
    expect_counting(f, y, 0, 0, COUNT, 1);
    write_counting(f, x, 0, 10, 20, 1000);
    add_to(f, y, 0, 0, COUNT, 50); /* these bytes are stale at the device, and not needed */
    before = moved(f);
    OK(ferry_graph_launch(graph, stream));
    OK(ferry_stream_synchronize(stream));
    expect_moved(f, &before, 20 * sizeof(int), 0);
    before = moved(f);
    OK(ferry_graph_launch(graph, stream));
    OK(ferry_stream_synchronize(stream));
    expect_moved(f, &before, 0, 0);
    expect_counting(f, y, 0, 10, 20, 1001);
    expect_counting(f, y, 0, 30, COUNT - 30, 1);
    ferry_graph_destroy(&graph);
    work_close(&w);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&stream);
}

/* -- net accesses ------------------------------------------------------------------------------ */

enum { NET_BYTES = 24, NET_USES = 8, NET_ROUNDS = 20000 };

/* Compares the list of net accesses with an array that has the access of each byte. */
static void
test_net_accesses(void **state)
{
    static char memory[2][NET_BYTES];
    uint64_t seed = start_random(11);
    (void)state;
    for (int round = 0; round < NET_ROUNDS; round++) {
        struct ferryi_access lists[2][4 * NET_USES + 3], *now = lists[0], *next = lists[1];
        uint8_t bytes[2][NET_BYTES] = {{0}};
        size_t count = 0;
        for (size_t i = 0; i < 1 + random_below(&seed, NET_USES); i++) {
            size_t store = random_below(&seed, 2), begin_ = random_below(&seed, NET_BYTES),
                   end = begin_ + 1 + random_below(&seed, NET_BYTES - begin_);
            struct ferryi_access use = {.store = (ferryi_store *)(void *)memory[store],
                                        .begin = begin_,
                                        .end = end,
                                        .access = (uint8_t)(FERRY_READ + random_below(&seed, 3)),
                                        .pointer = &memory[store][begin_]};
            count = ferryi_net_add(now, count, &use, next);
            struct ferryi_access *swap = now;
            now = next;
            next = swap;
            for (size_t at = begin_; at < end; at++) {
                uint8_t *byte = &bytes[store][at];
                *byte = *byte == 0 || *byte == use.access ? use.access
                        : *byte == FERRY_OVERWRITE        ? FERRY_OVERWRITE
                                                          : FERRY_UPDATE;
            }
        }
        for (size_t i = 0; i < count; i++) {
            size_t store = (char *)now[i].store == memory[1];
            assert_true(i == 0 || ferryi_access_compare(&now[i - 1], &now[i]) < 0);
            assert_true(now[i].begin < now[i].end);
            assert_ptr_equal(now[i].pointer, &memory[store][now[i].begin]);
            for (size_t at = now[i].begin; at < now[i].end; at++) {
                assert_int_equal(bytes[store][at], now[i].access);
                bytes[store][at] = 0;
            }
        }
        for (size_t at = 0; at < 2 * NET_BYTES; at++)
            assert_int_equal(bytes[at / NET_BYTES][at % NET_BYTES], 0);
    }
}

/* -- what is refused --------------------------------------------------------------------------- */

static void
test_what_a_graph_cannot_contain_is_refused(void **state)
{
    fixture *f = *state;
    need_graphs(f, false);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT), *doubles;
    OK(ferry_buffer_create(f->context, DOUBLE, COUNT, NULL, &doubles));
    const ferry_copy_options options = {.stream = stream};
    int values[COUNT] = {0};
    const double one = 1;
    ferry_event *event;
    make_hits(x, stream);
    make_hits(y, stream);
    ferry_graph *graph = begin(stream, "strict"), *other = NULL;
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_copy_to(x, INT, 0, COUNT, values, &options));
    expect_text("records graph \"strict\"");
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_copy_from(x, INT, 0, COUNT, values, &options));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_fill_async(x, INT, 0, 1, values, &options, &event));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_fill(doubles, DOUBLE, 0, 1, &one, &options));
    expect_text("no repetition");
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_copy(x, INT, 0, x, 1, 10, &options));
    expect_text("overlap");
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_stream_synchronize(stream));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_stream_flush(stream));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_stream_record(stream, 0, &event));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_mark_dirty(x, 0, 1, 1, stream));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_prefetch(x, 0, COUNT, 1, stream));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_graph_begin(stream, NULL, &other));
    expect_text("records graph \"strict\" already");
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_graph_launch(graph, stream));
    expect_text("still being recorded");
    ferry_scope scopes[2];
    void *pointers[2];
    const ferry_argument arguments[2] = {
        ferry_argument_with(ferry_buffer_argument(x, INT, 0, COUNT), FERRY_READ),
        ferry_argument_with(ferry_buffer_argument(y, INT, 0, COUNT), FERRY_OVERWRITE)};
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_scope_open_all(arguments, 2, 1, stream, scopes, pointers));
    /* The recording is still good. */
    OK(copy_ints(y, x, stream));
    OK(ferry_graph_end(graph));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_graph_end(graph));
    other = begin(stream, "second");
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_graph_launch(graph, stream));
    ferry_graph_destroy(&other);
    OK(ferry_graph_launch(graph, stream));
    expect_counting(f, y, 0, 0, COUNT, 0);
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_graph_begin(NULL, NULL, &other));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_graph_begin(stream, NULL, NULL));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_graph_begin(f->stream, NULL, &other));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_graph_end(NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_graph_launch(NULL, stream));
    if (f->places > 1) {
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_graph_launch(graph, stream_of(f, 2)));
        expect_text("was recorded at");
    }
    ferry_graph_destroy(&graph);
    DESTROY_BUFFERS(&x, &y, &doubles);
    ferry_stream_destroy(&stream);
}

/* A wait for the whole device would invalidate what a driver records. It is refused in all contexts
 * until the recording has ended, and the recording stays valid. */
static void
test_a_recording_refuses_waits_for_the_device(void **state)
{
    fixture *f = *state, other;
    need_graphs(f, false);
    if (runs_host_functions(f))
        skip();
    fixture_open(&other, &(ferry_context_options){0});
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT);
    ferry_graph *graph = begin(stream, "step");
    FAILS(FERRY_ERROR_UNSUPPORTED, ferryi_order_synchronize(&f->context->order, device_of(f, 1)));
    FAILS(FERRY_ERROR_UNSUPPORTED,
          ferryi_order_synchronize(&other.context->order, device_of(&other, 1)));
    OK(copy_ints(y, x, stream));
    OK(ferry_graph_end(graph));
    OK(ferryi_order_synchronize(&other.context->order, device_of(&other, 1)));
    OK(ferry_graph_launch(graph, stream));
    expect_counting(f, y, 0, 0, COUNT, 0);
    ferry_graph_destroy(&graph);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&stream);
    fixture_close(&other);
}

/* A launch whose arguments are refused records nothing. */
static void
test_refused_launches_are_not_recorded(void **state)
{
    fixture *f = *state;
    work w;
    need_graphs(f, true);
    work_open(f, &w);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_counting(f, COUNT, 7);
    ferry_graph *graph = begin(stream, "step");
    FAILS(FERRY_ERROR_OUT_OF_RANGE, launch_add(&w, stream, x, 1, COUNT, 1));
    int values[4] = {0};
    const ferry_argument result[] = {
        {.pointer = values, .count = 4, .element = INT, .access = FERRY_OVERWRITE},
        ferry_element_value(INT, values),
        ferry_size_value(4),
        ferry_size_value(0)};
    FAILS(FERRY_ERROR_UNSUPPORTED,
          ferry_kernel_launch(w.fill, ferry_grid_for(1, 0), stream, result, 4));
    OK(launch_add(&w, stream, x, 0, 10, 1));
    OK(ferry_graph_end(graph));
    OK(ferry_graph_launch(graph, stream));
    expect_counting(f, x, 0, 0, 10, 1);
    expect_counting(f, x, 0, 10, COUNT - 10, 0);
    expect_counting(f, y, 0, 0, COUNT, 7);
    ferry_graph_destroy(&graph);
    work_close(&w);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&stream);
}

/* -- the recorded addresses -------------------------------------------------------------------- */

static void
test_buffers_stay_while_a_graph_uses_them(void **state)
{
    fixture *f = *state;
    need_graphs(f, false);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0);
    ferry_buffer_options named = {.name = "result"};
    ferry_buffer *y;
    OK(ferry_buffer_create(f->context, INT, COUNT, &named, &y));
    ferry_graph *graph = begin(stream, "step");
    OK(copy_ints(y, x, stream));
    OK(ferry_graph_end(graph));
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_resize(y, 2 * COUNT));
    expect_text("graph \"step\"");
    expect_text("\"result\"");
    assert_int_not_equal(ferry_buffer_evict(y, 1), FERRY_OK);
    expect_text("\"result\"");
    OK(ferry_graph_launch(graph, stream));
    expect_counting(f, y, 0, 0, COUNT, 0);
    /* A buffer that the program destroys lives until the graph ends. */
    ferry_buffer_destroy(&y);
    OK(ferry_graph_launch(graph, stream));
    OK(ferry_stream_synchronize(stream));
    ferry_graph_destroy(&graph);
    OK(ferry_buffer_resize(x, 2 * COUNT));
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&stream);
}

/* Other buffers need the memory of the device. The graph's buffers stay there, with wrong bytes
 * never. */
static void
test_a_graph_under_want_of_memory(void **state)
{
    enum { BIG = 63 << 10, MANY = 12 };
    fixture *old = *state, own;
    need_graphs(old, false);
    fixture_open(&own, &(ferry_context_options){.device_bytes_limit = 2 << 20});
    fixture *f = &own;
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, BIG, 0), *y = make_ints(f, BIG), *others[MANY];
    const ferry_copy_options options = {.stream = stream};
    ferry_graph *graph = begin(stream, "step");
    OK(ferry_buffer_copy(y, INT, 0, x, 0, BIG, &options));
    OK(ferry_graph_end(graph));
    for (int i = 0; i < MANY; i++)
        others[i] = make_ints(f, BIG);
    for (int round = 0; round < 3; round++) {
        write_counting(f, x, 0, 0, BIG, round);
        for (int i = 0; i < MANY; i++)
            write_counting(f, others[i], 1, 0, BIG, i);
        OK(ferry_graph_launch(graph, stream));
        for (int i = 0; i < MANY; i++)
            expect_counting(f, others[i], 0, 0, BIG, i);
        expect_counting(f, y, 0, 0, BIG, round);
    }
    ferry_graph_destroy(&graph);
    for (int i = 0; i < MANY; i++)
        ferry_buffer_destroy(&others[i]);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&stream);
    fixture_close(f);
}

static void
test_scopes_and_graphs_conflict(void **state)
{
    fixture *f = *state;
    need_graphs(f, false);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT);
    ferry_graph *graph = begin(stream, "step");
    OK(copy_ints(y, x, stream));
    OK(ferry_graph_end(graph));
    ferry_scope scope;
    int *values = open_at(f, x, 0, FERRY_UPDATE, 3, 1, &scope);
    FAILS(FERRY_ERROR_BUSY, ferry_graph_launch(graph, stream));
    expect_text("launch graph \"step\"");
    values[0] = 99;
    OK(ferry_scope_close(&scope));
    (void)open_at(f, x, 0, FERRY_READ, 0, COUNT, &scope);
    OK(ferry_graph_launch(graph, stream));
    OK(ferry_scope_close(&scope));
    expect_constant(f, y, 0, 3, 1, 99);
    ferry_graph_destroy(&graph);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&stream);
}

/* -- ends -------------------------------------------------------------------------------------- */

/* Everything is destroyed in the wrong order, with launches under way. */
static void
test_a_graph_outlives_what_it_uses(void **state)
{
    fixture *f = *state;
    work w;
    need_graphs(f, true);
    work_open(f, &w);
    work_delay(2000);
    unsigned done = work_done();
    ferry_stream *stream = make_stream(f, 1), *also = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT);
    ferry_graph *graph = begin(stream, "step"), *never = begin(also, "never");
    OK(launch_add(&w, stream, x, 0, COUNT, 1));
    OK(launch_copy(&w, stream, y, 0, x, 0, COUNT));
    OK(launch_add(&w, also, x, 0, COUNT, 1));
    OK(ferry_graph_end(graph));
    ferry_stream_destroy(&also);
    ferry_graph_destroy(&never); /* it is being recorded */
    for (int i = 0; i < 3; i++)
        OK(ferry_graph_launch(graph, stream));
    ferry_stream_destroy(&stream);
    ferry_buffer_destroy(&y);
    ferry_graph_destroy(&graph); /* waits for its launches */
    assert_int_equal(work_done() - done, 3 * 2);
    expect_counting(f, x, 0, 0, COUNT, 3);
    work_close(&w);
    ferry_buffer_destroy(&x);
}

/* Returns how many modules of kernels the fake driver has, or 0 on other devices. */
static int
modules_of(fixture *f)
{
    struct fakecuda fake;
    return is_cuda(f) && fakecuda_find_driver(&fake) ? fake.fakecuda_live().modules : 0;
}

/* A graph launches its kernels after they were destroyed, and keeps the context. */
static void
test_a_graph_keeps_the_context(void **state)
{
    fixture *old = *state, own;
    work w;
    need_graphs(old, true);
    fixture_open(&own, &(ferry_context_options){0});
    fixture *f = &own;
    work_open(f, &w);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0);
    ferry_graph *graph = begin(stream, "step");
    OK(launch_add(&w, stream, x, 0, COUNT, 1));
    OK(ferry_graph_end(graph));
    work_close(&w);
    OK(ferry_stream_synchronize(stream));
    int loaded = modules_of(f);
    work_open(f, &w); /* to create a kernel unloads those that nothing uses any more */
    work_close(&w);
    assert_true(modules_of(f) >= loaded && (!is_cuda(f) || loaded > 0));
    fixture_finish(f);
    ferry_context *context = f->context;
    OK(ferry_graph_launch(graph, stream));
    ferry_context_destroy(&context);
    OK(ferry_graph_launch(graph, stream));
    expect_counting(f, x, 0, 0, COUNT, 2);
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&stream);
    ferry_graph_destroy(&graph);
}

/* -- threads ----------------------------------------------------------------------------------- */

struct writer {
    fixture *f;
    ferry_buffer *x;
    atomic_bool stops;
};

static void *
write_all_the_time(void *user)
{
    struct writer *writer = user;
    for (int value = 0; !atomic_load(&writer->stops); value++)
        OK(fill_ints(writer->x, 0, COUNT, value, NULL));
    return NULL;
}

/* Each launch sees one value in all elements, whichever it is. */
static void
test_another_thread_writes(void **state)
{
    fixture *f = *state;
    need_graphs(f, false);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    OK(fill_ints(x, 0, COUNT, 0, NULL));
    ferry_graph *graph = begin(stream, "step");
    OK(copy_ints(y, x, stream));
    OK(ferry_graph_end(graph));
    struct writer writer = {.f = f, .x = x};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_all_the_time, &writer), 0);
    for (int i = 0; i < 50; i++) {
        int values[COUNT];
        OK(ferry_graph_launch(graph, stream));
        OK(ferry_buffer_copy_to(y, INT, 0, COUNT, values, NULL));
        for (int at = 1; at < COUNT; at++)
            assert_int_equal(values[at], values[0]);
    }
    atomic_store(&writer.stops, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    ferry_graph_destroy(&graph);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&stream);
}

static bool
driver_records(fixture *f)
{
    return f->context->devices[1]->properties.language != FERRY_LANGUAGE_NONE;
}

static uint64_t
reserved_after_trim(ferry_pool *pool)
{
    ferry_pool_stats stats;
    OK(ferry_pool_trim(pool, 0));
    OK(ferry_pool_get_stats(pool, &stats));
    return stats.reserved_bytes;
}

/* A pool of another context frees no memory during a recording, which the driver may invalidate. */
static void
test_a_pool_frees_after_a_recording(void **state)
{
    fixture *f = *state, other;
    need_graphs(f, false);
    fixture_open(&other, NULL);
    ferry_pool *pool;
    OK(ferry_context_pool(other.context, 1, FERRY_MEMORY_DEVICE, &pool));
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *its = make_ints(&other, 1 << 20);
    OK(fill_ints(its, 0, 1 << 20, 1, other.stream));
    touch(&other, its, 0, FERRY_READ, 0, 1 << 20); /* the device has then done all its work */
    ferry_buffer_destroy(&its);

    ferry_graph *graph = begin(stream, "step");
    if (driver_records(f))
        assert_true(reserved_after_trim(pool) > 0);
    OK(fill_ints(x, 0, COUNT, 1, stream));
    OK(ferry_graph_end(graph));
    while (reserved_after_trim(pool) > 0)
        ferryi_sleep_ns(100000);
    ferry_graph_destroy(&graph);
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&stream);
    fixture_close(&other);
}

/* A separate thread that ends a context frees memory, too. */
static void
test_a_context_ends_after_a_recording(void **state)
{
    fixture *f = *state, other;
    atomic_int ended = 0;
    need_graphs(f, false);
    fixture_open(&other, &(ferry_context_options){.log = count_end, .log_user = &ended});
    ferry_stream *stream = make_stream(f, 1), *its = make_stream(&other, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT);
    ferry_graph *owner = begin(its, "owner");
    OK(ferry_graph_end(owner));
    ferry_stream_destroy(&its);
    fixture_finish(&other);

    ferry_graph *graph = begin(stream, "step");
    ferry_context_destroy(&other.context);
    ferry_graph_destroy(&owner);
    ferryi_sleep_ns(20000000);
    assert_true(atomic_load(&ended) == 0 || !driver_records(f));
    OK(copy_ints(y, x, stream));
    OK(ferry_graph_end(graph));
    while (atomic_load(&ended) == 0)
        ferryi_sleep_ns(100000);
    OK(ferry_graph_launch(graph, stream));
    expect_counting(f, y, 0, 0, COUNT, 0);
    ferry_graph_destroy(&graph);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&stream);
}

static ferry_stream *recorded_in_callback;
static ferry_graph *graph_of_callback;
static atomic_bool callback_ends;

static void
record_in_callback(void *memory, void *user)
{
    (void)memory;
    (void)user;
    graph_of_callback = begin(recorded_in_callback, "in a callback");
    OK(ferry_graph_end(graph_of_callback));
    atomic_store(&callback_ends, true);
}

/* A separate thread ends a context, and calls the program, which records a graph there. */
static void
test_a_context_that_ends_calls_back(void **state)
{
    fixture *f = *state;
    static int memory[COUNT];
    need_graphs(f, false);
    const ferry_wrap_options options = {.on_release = record_in_callback};
    ferry_context *other;
    ferry_buffer *wrap, *x = make_ints(f, COUNT);
    recorded_in_callback = make_stream(f, 1);
    atomic_store(&callback_ends, false);
    OK(ferry_context_create(&(ferry_context_options){.devices = "host"}, &other));
    OK(ferry_buffer_wrap_host(other, INT, COUNT, memory, &options, &wrap));
    OK(ferry_context_for_each_buffer(f->context, destroy_context, &other));
    while (!atomic_load(&callback_ends))
        ferryi_sleep_ns(100000);
    ferry_graph_destroy(&graph_of_callback);
    ferry_buffer_destroy(&wrap);
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&recorded_in_callback);
}

/* -- failures ---------------------------------------------------------------------------------- */

static atomic_bool fails;

static ferry_status
failing_body(const ferry_call *call, void *user)
{
    size_t count;
    int *array = ferry_call_array(call, INT, 0, &count);
    (void)user;
    for (size_t i = 0; i < count; i++)
        array[i]++;
    if (!atomic_load(&fails))
        return FERRY_OK;
    ferry_call_fail(call, "the body does not like it");
    return FERRY_ERROR_CANCELLED;
}

static void
expect_failure(ferry_status status)
{
    assert_int_equal(status, FERRY_ERROR_CANCELLED);
    expect_text("the body does not like it");
}

/* If a recorded kernel fails, all that the graph writes is lost, and what it reads is not. The next
 * launch fails before it starts, until what it reads was written again. */
static void
test_a_failing_launch_loses_what_it_writes(void **state)
{
    fixture *f = *state;
    const ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    const ferry_kernel_source source = {.name = "failing",
                                        .host_function = failing_body,
                                        .parameters = &parameter,
                                        .parameter_count = 1};
    ferry_kernel *kernel;
    int values[COUNT];
    need_graphs(f, true);
    if (!runs_host_functions(f))
        skip();
    OK(ferry_kernel_create(f->context, &source, &kernel));
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *in = make_counting(f, COUNT, 4), *x = make_counting(f, COUNT, 0),
                 *y = make_ints(f, COUNT);
    ferry_argument argument = ferry_buffer_argument(x, INT, 0, 100);
    ferry_graph *graph = begin(stream, "step");
    OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), stream, &argument, 1));
    OK(copy_ints(y, in, stream));
    OK(ferry_graph_end(graph));
    OK(ferry_graph_launch(graph, stream));
    expect_counting(f, x, 0, 0, 100, 1);
    atomic_store(&fails, true);
    OK(ferry_graph_launch(graph, stream));
    expect_failure(ferry_stream_synchronize(stream));
    expect_text("graph step");
    expect_text("\"failing\"");
    expect_failure(ferry_buffer_copy_to(x, INT, 0, 100, values, NULL));
    expect_failure(ferry_buffer_copy_to(y, INT, 0, COUNT, values, NULL));
    expect_counting(f, x, 0, 100, COUNT - 100, 0);
    expect_counting(f, in, 0, 0, COUNT, 4);
    atomic_store(&fails, false);
    expect_failure(ferry_graph_launch(graph, stream));
    write_counting(f, x, 0, 0, 100, 0);
    OK(ferry_graph_launch(graph, stream));
    expect_counting(f, x, 0, 0, 100, 1);
    expect_counting(f, y, 0, 0, COUNT, 4);
    ferry_graph_destroy(&graph);
    ferry_kernel_destroy(&kernel);
    DESTROY_BUFFERS(&in, &x, &y);
    ferry_stream_destroy(&stream);
}

static void
record_copy(ferry_stream *stream, ferry_buffer *x, ferry_buffer *y, ferry_graph **out)
{
    *out = begin(stream, "step");
    OK(copy_ints(y, x, stream));
}

/* Each call of the driver that a graph makes fails once. */
static void
test_failing_driver_calls(void **state)
{
    fixture *f = *state;
    struct fakecuda fake;
    need_graphs(f, false);
    if (!is_cuda(f) || !fakecuda_find_driver(&fake))
        skip();
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT),
                 *z = make_counting(f, COUNT, 8);
    ferry_graph *graph = NULL;
    fake.fakecuda_fail_next("cuStreamBeginCapture_v2", 1, 1);
    FAILS(FERRY_ERROR_DEVICE, ferry_graph_begin(stream, NULL, &graph));
    expect_text("begin graph \"graph\": begin to capture a stream");
    assert_null(graph);

    record_copy(stream, x, y, &graph);
    fake.fakecuda_fail_next("cuMemcpyDtoDAsync_v2", 1, 1);
    FAILS(FERRY_ERROR_DEVICE, copy_ints(z, y, stream));
    OK(ferry_graph_end(graph));
    OK(ferry_graph_launch(graph, stream));
    expect_counting(f, y, 0, 0, COUNT, 0);
    expect_counting(f, z, 0, 0, COUNT, 8); /* what was not recorded is not written */
    /* A launch that the driver refuses changes nothing. */
    write_counting(f, y, 0, 0, COUNT, 3);
    fake.fakecuda_fail_next("cuGraphLaunch", 1, 1);
    FAILS(FERRY_ERROR_DEVICE, ferry_graph_launch(graph, stream));
    expect_text("launch graph \"step\": launch a graph on cuda:0: cuGraphLaunch");
    expect_counting(f, y, 0, 0, COUNT, 3);
    OK(ferry_graph_launch(graph, stream));
    expect_counting(f, y, 0, 0, COUNT, 0);
    fake.fakecuda_fail_next("cuGraphExecDestroy", 1, 1);
    ferry_graph_destroy(&graph);
    fixture_expect_log(f, "cuGraphExecDestroy");

    static const char *const ends[] = {"cuStreamEndCapture", "cuGraphInstantiateWithFlags"};
    for (size_t i = 0; i < LENGTH(ends); i++) {
        record_copy(stream, x, y, &graph);
        fake.fakecuda_fail_next(ends[i], 1, 1);
        FAILS(FERRY_ERROR_DEVICE, ferry_graph_end(graph));
        expect_text(ends[i]);
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_graph_launch(graph, stream_of(f, 1)));
        expect_text("its recording has failed");
        if (i == 0) { /* this failure left the stream captured */
            int nodes;
            fake.fakecuda_end_capture(ferry_stream_native(stream), &nodes);
        }
        ferry_graph_destroy(&graph);
    }
    fake.fakecuda_fail_next("cuGraphDestroy", 1, 1);
    record_copy(stream, x, y, &graph);
    OK(ferry_graph_end(graph));
    ferry_graph_destroy(&graph);
    OK(ferry_stream_synchronize(stream));
    DESTROY_BUFFERS(&x, &y, &z);
    ferry_stream_destroy(&stream);
}

/* A replay of LAUNCHES kernels makes a call of the driver, and one that asks whether the stream is
 * being captured. */
static void
test_a_launch_is_one_driver_call(void **state)
{
    fixture *f = *state;
    work w;
    need_graphs(f, true);
    work_open(f, &w);
    ferry_stream *stream = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0);
    ferry_graph *graph = begin(stream, "step");
    for (int i = 0; i < LAUNCHES; i++)
        OK(launch_add(&w, stream, x, 0, COUNT, 1));
    OK(ferry_graph_end(graph));
    OK(ferry_graph_launch(graph, stream));
    uint64_t before = device_calls(f);
    OK(ferry_graph_launch(graph, stream));
    uint64_t of_graph = device_calls(f) - before;
    before = device_calls(f);
    for (int i = 0; i < LAUNCHES; i++)
        OK(launch_add(&w, stream, x, 0, COUNT, 1));
    uint64_t of_launches = device_calls(f) - before;
    assert_true(of_graph <= (is_cuda(f) ? 2 : 1));
    assert_true(of_launches >= LAUNCHES || !runs_apart(f));
    expect_counting(f, x, 0, 0, COUNT, 3 * LAUNCHES);
    ferry_graph_destroy(&graph);
    work_close(&w);
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&stream);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_graph_repeats_its_work),
        TEST(test_fills_and_copies),
        TEST(test_earlier_work_of_the_stream),
        TEST(test_an_empty_graph),
        TEST(test_scopes_are_recorded_where_the_driver_records),
        TEST(test_a_launch_brings_what_is_stale),
        cmocka_unit_test(test_net_accesses),
        TEST(test_what_a_graph_cannot_contain_is_refused),
        TEST(test_a_recording_refuses_waits_for_the_device),
        TEST(test_refused_launches_are_not_recorded),
        TEST(test_buffers_stay_while_a_graph_uses_them),
        TEST(test_a_graph_under_want_of_memory),
        TEST(test_scopes_and_graphs_conflict),
        TEST(test_a_graph_outlives_what_it_uses),
        TEST(test_a_graph_keeps_the_context),
        TEST(test_another_thread_writes),
        TEST(test_a_pool_frees_after_a_recording),
        TEST(test_a_context_ends_after_a_recording),
        TEST(test_a_context_that_ends_calls_back),
        TEST(test_a_failing_launch_loses_what_it_writes),
        TEST(test_failing_driver_calls),
        TEST(test_a_launch_is_one_driver_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
