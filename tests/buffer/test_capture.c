/* SPDX-License-Identifier: MIT */
/* Tests wrapped native streams, CUDA's per-thread default stream, and streams that are being
 * captured. The tests run on fakecuda, a library that imitates the CUDA driver. */
#include <pthread.h>

#include "src/debug/debug.h"
#include "src/device/cuda/cuda.h"
#include "src/device/cuda/cuda_abi.h"
#include "src/device/gpu/gpu_device.h"
#include "tests/buffer/work.h"
#include "tests/support/code.h"
#include "tests/support/exchange.h"
#include "tests/support/fakecuda.h"

enum { COUNT = 1000, GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };

static struct fakecuda fake;
static void *const per_thread = (void *)2;

static ferry_stream *
wrap_stream(fixture *f, void *native)
{
    ferry_stream *stream;
    OK(ferry_stream_wrap(f->context, 1, native, &stream));
    return stream;
}

static void
expect_all(ferry_buffer *buffer, int value)
{
    int expected[COUNT];
    for (int i = 0; i < COUNT; i++)
        expected[i] = value;
    expect_ints(buffer, expected, 0, COUNT);
}

/* -- wrapping ---------------------------------------------------------------------------------- */

static void
test_wrapping_twice_is_one_stream(void **state)
{
    fixture *f = *state;
    void *native;
    OK(device_of(f, 1)->ops->stream_create(device_of(f, 1), &native));
    ferry_stream *a = wrap_stream(f, native), *b = wrap_stream(f, native);
    assert_ptr_equal(a, b);
    assert_ptr_equal(ferry_stream_native(a), native);
    assert_int_equal(ferry_stream_place(a), 1);
    ferry_stream_destroy(&a);
    assert_ptr_equal(ferry_stream_native(b), native);
    ferry_stream_destroy(&b);
    /* ferry_stream_wrap() returns the default stream for the native handles NULL and 1. Destroying
     * this result must not destroy the default stream. */
    a = wrap_stream(f, NULL);
    b = wrap_stream(f, (void *)1);
    assert_ptr_equal(a, f->stream);
    assert_ptr_equal(b, f->stream);
    DESTROY_STREAMS(&a, &b);
    ferry_buffer *x = make_ints(f, COUNT);
    fill_on(f, x, f->stream, 0, COUNT, 2);
    expect_all(x, 2);
    ferry_buffer_destroy(&x);
    OK(device_of(f, 1)->ops->stream_destroy(device_of(f, 1), native));
}

/* Destroys a native stream right after ferry_stream_destroy() was called for its wrapped stream.
 * The next native stream may have the same address. Its work must still wait for the work of the
 * destroyed stream. */
static void
test_native_streams_come_and_go(void **state)
{
    fixture *f = *state;
    ferryi_device *device = device_of(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    for (int i = 1; i <= 30; i++) {
        void *native;
        OK(device->ops->stream_create(device, &native));
        ferry_stream *stream = wrap_stream(f, native);
        if (i % 2)
            fill_on(f, x, stream, 0, COUNT, i);
        else
            copy_on(f, stream, y, 0, x, 0, COUNT);
        ferry_stream_destroy(&stream);
        OK(device->ops->stream_destroy(device, native));
        if (i % 6 == 0)
            expect_all(y, i - 1);
    }
    DESTROY_BUFFERS(&x, &y);
}

/* A stream of a green context works like any other stream that has no number: its events are made
 * in its own context. */
static void
test_streams_of_green_contexts(void **state)
{
    fixture *f = *state;
    ferryi_device *device = device_of(f, 1);
    ferry_event *begin_event, *end_event;
    double seconds;
    for (int round = 0; round < 3; round++) {
        void *native = fake.fakecuda_green_stream(0);
        assert_non_null(native);
        ferry_stream *green = wrap_stream(f, native), *b = make_stream(f, 1);
        ferry_buffer *x = make_counting(f, COUNT, 5), *y = make_ints(f, COUNT);
        for (int i = 1; i <= 20; i++) {
            OK(ferry_stream_record(green, FERRY_EVENT_TIMED, &begin_event));
            copy_on(f, green, y, 0, x, 0, COUNT);
            fill_on(f, x, green, 0, COUNT, i);
            OK(ferry_stream_record(green, FERRY_EVENT_TIMED, &end_event));
            copy_on(f, b, y, 0, x, 0, COUNT);
            expect_all(y, i);
            fill_on(f, x, b, 0, COUNT, -i);
            copy_on(f, green, y, 0, x, 0, COUNT);
            expect_all(y, -i);
            OK(ferry_event_elapsed(begin_event, end_event, &seconds));
            assert_true(seconds >= 0);
            ferry_event_destroy(&begin_event);
            ferry_event_destroy(&end_event);
        }
        fill_on(f, x, green, 0, COUNT, 7);
        ferry_stream_destroy(&green);
        expect_all(x, 7);
        DESTROY_BUFFERS(&x, &y);
        OK(device->ops->stream_destroy(device, native));
        ferry_stream_destroy(&b);
        /* The timeline is reused by a stream of the primary context. */
        ferry_stream *kept = wrap_stream(f, per_thread);
        x = make_ints(f, COUNT);
        fill_on(f, x, kept, 0, COUNT, 8);
        expect_all(x, 8);
        ferry_buffer_destroy(&x);
        ferry_stream_destroy(&kept);
    }
}

/* -- the per-thread stream --------------------------------------------------------------------- */

struct hop {
    fixture *f;
    ferry_buffer *x, *y;
    ferry_scope scope;
    int value;
};

static void *
fill_in_thread(void *argument)
{
    struct hop *hop = argument;
    ferry_stream *mine = wrap_stream(hop->f, per_thread);
    fill_on(hop->f, hop->x, mine, 0, COUNT, hop->value);
    ferry_stream_destroy(&mine);
    return NULL;
}

static void *
copy_in_thread(void *argument)
{
    struct hop *hop = argument;
    ferry_stream *mine = wrap_stream(hop->f, per_thread);
    copy_on(hop->f, mine, hop->y, 0, hop->x, 0, COUNT);
    ferry_stream_destroy(&mine);
    return NULL;
}

static void *
open_and_fill_in_thread(void *argument)
{
    struct hop *hop = argument;
    ferry_stream *mine = wrap_stream(hop->f, per_thread);
    queue_fill(hop->f, mine, open_on(hop->x, mine, FERRY_OVERWRITE, 0, COUNT, &hop->scope),
               hop->value, COUNT);
    ferry_stream_destroy(&mine);
    return NULL;
}

static void
in_thread(void *(*run)(void *), struct hop *hop)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, hop), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* CUDA's per-thread handle names a different stream in each thread. The stream of each thread must
 * wait for the writes that other threads have queued on their streams. */
static void
test_per_thread_streams_are_several(void **state)
{
    fixture *f = *state;
    ferry_stream *kept = wrap_stream(f, per_thread), *other = make_stream(f, 1);
    struct hop hop = {.f = f, .x = make_ints(f, COUNT), .y = make_ints(f, COUNT)};
    for (hop.value = 1; hop.value <= 10; hop.value++) {
        in_thread(fill_in_thread, &hop);
        copy_on(f, kept, hop.y, 0, hop.x, 0, COUNT);
        /* A second thread queues a write while the copy on this thread's stream may still be
         * reading. */
        hop.value += 100;
        in_thread(fill_in_thread, &hop);
        hop.value -= 100;
        expect_all(hop.y, hop.value);
        expect_all(hop.x, hop.value + 100);
        fill_on(f, hop.x, other, 0, COUNT, -1);
        in_thread(copy_in_thread, &hop);
        expect_all(hop.y, -1);
    }
    DESTROY_BUFFERS(&hop.x, &hop.y);
    DESTROY_STREAMS(&kept, &other);
}

/* A scope on a per-thread stream may be closed by a thread that did not open it. */
static void
test_per_thread_scope_closed_elsewhere(void **state)
{
    fixture *f = *state;
    ferry_stream *kept = wrap_stream(f, per_thread), *other = make_stream(f, 1);
    struct hop hop = {.f = f, .x = make_ints(f, COUNT), .y = make_ints(f, COUNT), .value = 5};
    in_thread(open_and_fill_in_thread, &hop);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_wait_available(hop.x, FERRY_READ, 0));
    /* This scope conflicts with the open scope of the ended thread, although both use the same
     * native handle. The handle names a different stream in each thread. */
    ferry_scope scope;
    void *memory;
    FAILS(FERRY_ERROR_BUSY,
          ferry_buffer_open_device(hop.x, INT, FERRY_READ, 0, COUNT, kept, &scope, &memory));
    OK(ferry_scope_close(&hop.scope));
    copy_on(f, other, hop.y, 0, hop.x, 0, COUNT);
    expect_all(hop.y, 5);
    DESTROY_BUFFERS(&hop.x, &hop.y);
    DESTROY_STREAMS(&kept, &other);
}

/* Closing a scope on the per-thread stream of the calling thread does not block, even if the scope
 * was opened on a different stream. */
static void
test_close_on_the_per_thread_stream(void **state)
{
    fixture *f = *state;
    ferry_stream *mine = wrap_stream(f, per_thread), *other = make_stream(f, 1);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    fill_on(f, x, other, 0, COUNT, 0);
    for (int i = 1; i <= 3; i++) {
        ferry_scope scope;
        ferry_event *event;
        int *memory = open_on(x, other, FERRY_OVERWRITE, 0, COUNT, &scope);
        queue_fill(f, other, memory, -1, COUNT);
        OK(ferry_stream_record(other, 0, &event));
        OK(ferry_stream_wait_event(mine, event));
        ferry_event_destroy(&event);
        queue_fill(f, mine, memory, i, COUNT);
        uint64_t waits = fake.fakecuda_calls_of("cuCtxSynchronize");
        OK(ferry_scope_close_on(&scope, mine));
        assert_int_equal(fake.fakecuda_calls_of("cuCtxSynchronize"), waits);
        copy_on(f, other, y, 0, x, 0, COUNT);
        expect_all(y, i);
    }
    DESTROY_BUFFERS(&x, &y);
    DESTROY_STREAMS(&mine, &other);
}

/* -- capture ----------------------------------------------------------------------------------- */

static void
begin(ferry_stream *stream, int mode)
{
    assert_int_equal(fake.fakecuda_begin_capture(ferry_stream_native(stream), mode), 0);
}

static int
end(ferry_stream *stream)
{
    int nodes = -1;
    assert_int_equal(fake.fakecuda_end_capture(ferry_stream_native(stream), &nodes), 0);
    return nodes;
}

/* If the driver cannot report whether a stream is being captured, closing a scope fails. The failed
 * close still waits for queued work. */
static void
test_a_driver_that_does_not_tell(void **state)
{
    fixture *f = *state;
    ferry_stream *stream = wrap_stream(f, per_thread);
    ferry_buffer *x = make_counting(f, COUNT, 0);
    ferry_scope scope;
    touch(f, x, 1, FERRY_READ, 0, FERRY_REST);
    queue_fill(f, stream, open_on(x, stream, FERRY_OVERWRITE, 0, COUNT, &scope), 5, COUNT);
    fake.fakecuda_fail_next("cuStreamIsCapturing", 1, 1);
    FAILS(FERRY_ERROR_DEVICE, ferry_scope_close(&scope));
    expect_all(x, 5);
    ferry_stream_destroy(&stream);
    ferry_buffer_destroy(&x);
}

/* During a capture, calls that need the captured stream are refused, and the capture stays valid.
 * Calls on other streams succeed, and so does opening a scope whose bytes are already current. */
static void
check_capture(fixture *f, int mode)
{
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1);
    ferry_buffer *here = make_counting(f, COUNT, 0), *away = make_counting(f, COUNT, 7),
                 *busy = make_ints(f, COUNT);
    ferry_event *event, *before, *early;
    ferry_scope scope;
    void *memory;
    fill_on(f, here, a, 0, COUNT, 3);
    fill_on(f, busy, b, 0, COUNT, 4);
    OK(ferry_stream_record(b, 0, &before));
    OK(ferry_stream_record(a, FERRY_EVENT_TIMED, &early));
    OK(ferry_stream_flush(a));

    begin(a, mode);
    open_on(here, a, FERRY_UPDATE, 0, COUNT, &scope);
    OK(ferry_scope_close(&scope));
    FAILS(FERRY_ERROR_UNSUPPORTED,
          ferry_buffer_open_device(away, INT, FERRY_READ, 0, COUNT, a, &scope, &memory));
    FAILS(FERRY_ERROR_UNSUPPORTED,
          ferry_buffer_open_device(busy, INT, FERRY_READ, 0, COUNT, a, &scope, &memory));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_stream_flush(a));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_stream_synchronize(a));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_stream_record(a, 0, &event));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_stream_record(a, FERRY_EVENT_TIMED, &event));
    double seconds = -1;
    OK(ferry_event_elapsed(early, early, &seconds)); /* `early` was recorded before the capture */
    assert_true(seconds == 0);
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_stream_wait_event(a, before));
    /* A call on a stream that is not being captured must succeed. */
    copy_on(f, b, busy, 0, away, 0, COUNT);
    expect_counting(f, busy, 0, 0, COUNT, 7);
    assert_int_equal(end(a), 0);

    /* The refused calls changed nothing. */
    copy_on(f, a, busy, 0, here, 0, COUNT);
    expect_all(busy, 3);
    expect_counting(f, away, 1, 0, COUNT, 7);
    ferry_event_destroy(&before);
    ferry_event_destroy(&early);
    DESTROY_BUFFERS(&here, &away, &busy);
    DESTROY_STREAMS(&a, &b);
}

static void
test_capture_refuses_and_stays_valid(void **state)
{
    fixture *f = *state;
    check_capture(f, THREAD_LOCAL);
    check_capture(f, RELAXED);
}

/* Tries Arrow and DLPack imports while the stream `captured` is being captured. */
static void
try_exchange(fixture *f, ferry_stream *captured, ferry_stream *other, void *event, void *memory)
{
    int values[COUNT];
    ferry_buffer *out = NULL;
    const ferry_import_options options = {.ready_on = captured};
    struct ArrowDeviceArray *array = exchange_arrow(memory, COUNT);
    assert_non_null(array);
    array->device_type = FERRYI_DL_CUDA;
    array->device_id = 0;
    array->sync_event = &event;
    FAILS(FERRY_ERROR_UNSUPPORTED,
          ferry_buffer_import_arrow(f->context, array, &exchange_int_schema, &options, &out));
    assert_non_null(strstr(ferry_last_error(), "captured"));
    assert_non_null(array->array.release);
    /* This import must succeed, because the stream `other` may wait for the event of the array. */
    OK(ferry_buffer_import_arrow(f->context, array, &exchange_int_schema,
                                 &(ferry_import_options){.ready_on = other}, &out));
    ferry_buffer_destroy(&out);
    /* An import of host memory on the captured stream is refused, because it would block until that
     * stream has run. */
    struct DLManagedTensorVersioned *tensor = exchange_versioned(values, COUNT);
    assert_non_null(tensor);
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_import_dlpack(f->context, tensor, &options, &out));
    assert_non_null(strstr(ferry_last_error(), "captured"));
    exchange_free(tensor);
}

/* Imports and exports are refused if they would wait for a captured stream, or would make a
 * captured stream wait. The capture stays valid. */
static void
test_exchange_in_a_capture(void **state)
{
    fixture *f = *state;
    ferryi_device *device = device_of(f, 1);
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0);
    ferry_lease *lease;
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    struct DLManagedTensorVersioned *tensor;
    ferry_scope scope;
    void *event, *memory, *pointer;
    OK(device->ops->event_create(device, false, &event));
    OK(device->ops->event_record(device, event, ferry_stream_native(b)));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, COUNT * sizeof(int), &memory));
    fill_on(f, x, a, 0, COUNT, 3);
    OK(ferry_stream_flush(a));
    begin(a, THREAD_LOCAL);
    try_exchange(f, a, b, event, memory);
    open_on(x, a, FERRY_UPDATE, 0, COUNT, &scope);
    OK(ferry_scope_close(&scope));
    OK(ferry_lease_open(x, INT, &(ferry_lease_options){.access = FERRY_READ, .stream = a}, &lease,
                        &pointer));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_lease_export_arrow(lease, &array, &schema));
    assert_non_null(strstr(ferry_last_error(), "captured"));
    /* A DLPack export is ordered on the lease's stream, so the export does not have to wait. */
    OK(ferry_lease_export_dlpack(lease, NULL, &tensor));
    tensor->deleter(tensor);
    assert_int_equal(end(a), 0);
    OK(ferry_lease_export_arrow(lease, &array, &schema));
    ferry_lease_destroy(&lease);
    array.array.release(&array.array);
    schema.release(&schema);
    OK(ferry_stream_synchronize(b));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    OK(device->ops->event_destroy(device, event));
    ferry_buffer_destroy(&x);
    DESTROY_STREAMS(&a, &b);
}

/* -- streams that end while they are captured -------------------------------------------------- */

/* The cases of the tests below. */
struct ending {
    int mode;
    bool numbered, flushed;
};

static void
for_all_endings(fixture *f, void (*check)(fixture *f, struct ending ending))
{
    ferryi_device *device = device_of(f, 1);
    for (int mode = GLOBAL; mode <= RELAXED; mode++)
        for (int flags = 0; flags < 4; flags++) {
            /* The numbers of destroyed streams are free once their work is complete, which includes
             * the closing events of streams that ended in a capture. */
            ferryi_order_retire_ending(&f->context->order);
            OK(device->ops->synchronize(device));
            check(f, (struct ending){mode, flags & 1, flags & 2});
        }
}

static void *
native_stream(fixture *f)
{
    void *native;
    OK(device_of(f, 1)->ops->stream_create(device_of(f, 1), &native));
    return native;
}

static void
destroy_native(fixture *f, void *native)
{
    OK(device_of(f, 1)->ops->stream_destroy(device_of(f, 1), native));
}

static void
begin_native(void *native, int mode)
{
    assert_int_equal(fake.fakecuda_begin_capture(native, mode), 0);
}

/* Ends a capture, which must still be valid. */
static void
end_native(void *native)
{
    int nodes;
    assert_int_equal(fake.fakecuda_end_capture(native, &nodes), 0);
    assert_int_equal(nodes, 0);
}

static bool
is_captured(ferry_stream *stream)
{
    ferryi_device *device = stream->timeline->device;
    bool capturing = true;
    OK(device->ops->stream_is_capturing(device, ferry_stream_native(stream), &capturing));
    return capturing;
}

/* Reads a buffer whose last use may be on the captured stream. If no event covers this use, the
 * read is refused. */
static void
read_in_capture(ferry_buffer *x, bool covered, int value)
{
    int values[COUNT];
    const ferry_copy_options options = {0};
    ferry_status status = ferry_buffer_copy_to(x, INT, 0, COUNT, values, &options);
    assert_int_equal(status, covered ? FERRY_OK : FERRY_ERROR_UNSUPPORTED);
    if (covered)
        expect_all(x, value);
}

/* A wrapped stream is destroyed during its capture, as a destructor or a garbage collector may do.
 * Neither the capture nor any other stream notices. */
static void
check_end_in_capture(fixture *f, struct ending ending)
{
    ferry_stream *crowd[STREAM_CROWD];
    if (!ending.numbered)
        make_crowd(f, crowd);
    void *native = native_stream(f);
    ferry_stream *a = wrap_stream(f, native), *b = make_stream(f, 1);
    assert_int_equal(ferryi_timeline_is_numbered(a->timeline), ending.numbered);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    fill_on(f, x, a, 0, COUNT, 3);
    if (ending.flushed)
        OK(ferry_stream_flush(a));
    begin_native(native, ending.mode);
    ferry_stream_destroy(&a);
    /* The uses of a stream without a number were joined when they were noted. */
    bool covered = ending.flushed || !ending.numbered;
    read_in_capture(x, covered, 3);
    fill_on(f, y, b, 0, COUNT, 5);
    expect_all(y, 5);
    assert_false(is_captured(b));
    end_native(native);
    expect_all(x, 3);
    destroy_native(f, native);
    fill_on(f, x, b, 0, COUNT, 4);
    expect_all(x, 4);
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&b);
    if (!ending.numbered)
        destroy_crowd(crowd);
}

static void
test_streams_end_in_their_capture(void **state)
{
    for_all_endings(*state, check_end_in_capture);
}

/* The native stream is destroyed after its capture, before Ferry could record an event on it. The
 * next native stream has the same handle. Uses before the capture are still waited for, and so is
 * the work of a scope that was open during all this. */
static void
check_lost_stream(fixture *f, struct ending ending)
{
    ferry_stream *crowd[STREAM_CROWD];
    if (!ending.numbered)
        make_crowd(f, crowd);
    void *native = native_stream(f);
    ferry_stream *a = wrap_stream(f, native);
    ferry_buffer *x = make_ints(f, COUNT), *y = make_ints(f, COUNT);
    ferry_scope scope;
    int *memory = open_on(y, a, FERRY_OVERWRITE, 0, COUNT, &scope);
    queue_fill(f, a, memory, 6, COUNT);
    fill_on(f, x, a, 0, COUNT, 3);
    if (ending.flushed)
        OK(ferry_stream_flush(a));
    begin_native(native, ending.mode);
    ferry_stream_destroy(&a);
    end_native(native);
    destroy_native(f, native);
    void *again = native_stream(f);
    assert_ptr_equal(again, native);
    ferry_stream *b = wrap_stream(f, again);
    OK(ferry_scope_close(&scope));
    expect_all(y, 6);
    expect_all(x, 3);
    fill_on(f, x, b, 0, COUNT, 4);
    expect_all(x, 4);
    ferry_stream_destroy(&b);
    destroy_native(f, again);
    DESTROY_BUFFERS(&x, &y);
    if (!ending.numbered)
        destroy_crowd(crowd);
}

static void
test_native_streams_end_after_their_capture(void **state)
{
    for_all_endings(*state, check_lost_stream);
}

/* Wrapping the same native stream again, in the same capture or after it, continues its timeline:
 * what was used before needs no event, and no number of a timeline is lost. */
static void
test_wrapping_again_in_a_capture(void **state)
{
    fixture *f = *state;
    void *native = native_stream(f);
    ferry_buffer *x = make_ints(f, COUNT);
    ferry_scope scope;
    for (int i = 0; i < 2 * FERRYI_TIMELINES; i++) {
        ferry_stream *a = wrap_stream(f, native);
        fill_on(f, x, a, 0, COUNT, i);
        begin_native(native, i % 3);
        ferry_stream_destroy(&a);
        a = wrap_stream(f, native);
        assert_true(ferryi_timeline_is_numbered(a->timeline));
        open_on(x, a, FERRY_UPDATE, 0, COUNT, &scope);
        OK(ferry_scope_close(&scope));
        ferry_stream_destroy(&a);
        end_native(native);
    }
    expect_all(x, 2 * FERRYI_TIMELINES - 1);
    ferry_buffer_destroy(&x);
    destroy_native(f, native);
}

/* Each round captures another native stream, which ends with its wrapper, and which is destroyed
 * before Ferry can look at it again. */
static void
test_lost_streams_give_their_numbers_back(void **state)
{
    fixture *f = *state;
    ferry_buffer *x = make_ints(f, COUNT);
    for (int i = 0; i < 2 * FERRYI_TIMELINES; i++) {
        void *native = native_stream(f);
        ferry_stream *a = wrap_stream(f, native);
        assert_true(ferryi_timeline_is_numbered(a->timeline));
        fill_on(f, x, a, 0, COUNT, i);
        if (i % 2)
            OK(ferry_stream_flush(a));
        begin_native(native, THREAD_LOCAL);
        ferry_stream_destroy(&a);
        end_native(native);
        destroy_native(f, native);
        expect_all(x, i);
    }
    ferry_buffer_destroy(&x);
}

/* -- work on streams that Ferry does not know -------------------------------------------------- */

/* Uses a buffer on a stream that Ferry does not know. */
static void
use_unordered(fixture *f, ferry_buffer *x, int value)
{
    ferry_scope scope;
    void *native = native_stream(f), *memory;
    OK(ferry_buffer_open_device(x, INT, FERRY_OVERWRITE, 0, COUNT, f->stream, &scope, &memory));
    OK(ferry_scope_wait(&scope));
    ferry_stream other = *f->stream;
    ferryi_timeline timeline = {.native = native, .device = device_of(f, 1), .place = 1};
    other.timeline = &timeline;
    queue_fill(f, &other, memory, value, COUNT);
    OK(ferry_scope_close_unordered(&scope));
    destroy_native(f, native);
}

/* Only a wait for the whole device covers such a use. While a stream that Ferry knows is captured,
 * Ferry does not even ask for this wait, which would invalidate the capture. */
static void
check_unknown_in_capture(fixture *f, struct ending ending)
{
    ferry_stream *crowd[STREAM_CROWD];
    ferry_buffer *x = make_ints(f, COUNT);
    use_unordered(f, x, 7);
    if (!ending.numbered)
        make_crowd(f, crowd);
    ferry_stream *a = ending.numbered ? make_stream(f, 1) : crowd[STREAM_CROWD - 1];
    assert_int_equal(ferryi_timeline_is_numbered(a->timeline), ending.numbered);
    void *native = ferry_stream_native(a);
    begin_native(native, ending.mode);
    uint64_t waits = fake.fakecuda_calls_of("cuCtxSynchronize");
    read_in_capture(x, false, 7);
    assert_non_null(strstr(ferry_last_error(), "captured"));
    if (ending.flushed && ending.numbered) /* the wrapper's end hides no capture */
        ferry_stream_destroy(&a);
    else
        fill_on(f, x, f->stream, 0, 0, 0);
    read_in_capture(x, false, 7);
    assert_int_equal(fake.fakecuda_calls_of("cuCtxSynchronize"), waits);
    end_native(native);
    expect_all(x, 7);
    if (ending.numbered && a)
        ferry_stream_destroy(&a);
    if (!ending.numbered)
        destroy_crowd(crowd);
    ferry_buffer_destroy(&x);
}

static void
test_unknown_work_during_a_capture(void **state)
{
    for_all_endings(*state, check_unknown_in_capture);
}

/* -- leases of other libraries ----------------------------------------------------------------- */

static ferry_lease *
lend(fixture *f, ferry_buffer *x, void *native, int value)
{
    ferry_lease *lease;
    void *memory;
    OK(ferry_lease_open(
        x, INT, &(ferry_lease_options){.access = FERRY_UPDATE, .place = 1, .native_stream = native},
        &lease, &memory));
    ferry_stream other = *f->stream;
    ferryi_timeline timeline = {.native = native, .device = device_of(f, 1), .place = 1};
    other.timeline = &timeline;
    queue_fill(f, &other, memory, value, COUNT);
    return lease;
}

/* A lease whose holder names its stream needs no wait for the device, so captures of other
 * libraries are safe. It needs one only if the holder's stream is destroyed before the lease. */
static void
check_lease_of_a_guest(fixture *f, struct ending ending)
{
    void *native = native_stream(f), *captured = native_stream(f);
    ferry_stream *crowd[STREAM_CROWD];
    if (!ending.numbered)
        make_crowd(f, crowd);
    ferry_buffer *x = make_ints(f, COUNT);
    fill_on(f, x, f->stream, 0, COUNT, 1);
    begin_native(captured, ending.mode);
    uint64_t waits = fake.fakecuda_calls_of("cuCtxSynchronize");
    ferry_lease *lease = lend(f, x, native, 2);
    ferry_lease_destroy(&lease);
    if (ending.flushed)
        destroy_native(f, native);
    expect_all(x, 2);
    end_native(captured);
    assert_int_equal(fake.fakecuda_calls_of("cuCtxSynchronize"), waits);

    if (ending.flushed)
        native = native_stream(f);
    lease = lend(f, x, native, 3);
    destroy_native(f, native);
    void *again = native_stream(f);
    assert_ptr_equal(again, native);
    ferry_stream *b = wrap_stream(f, again);
    ferry_lease_destroy(&lease);
    expect_all(x, 3);
    assert_int_equal(fake.fakecuda_calls_of("cuCtxSynchronize"), waits + 1);
    fill_on(f, x, b, 0, COUNT, 4);
    expect_all(x, 4);
    ferry_stream_destroy(&b);
    destroy_native(f, again);
    destroy_native(f, captured);
    ferry_buffer_destroy(&x);
    if (!ending.numbered)
        destroy_crowd(crowd);
}

static void
test_leases_of_other_libraries(void **state)
{
    fixture *f = *state;
    ferry_lease *lease;
    void *memory;
    ferry_buffer *x = make_ints(f, COUNT);
    ferry_lease_options options = {.access = FERRY_READ, .native_stream = (void *)1};
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_lease_open(x, INT, &options, &lease, &memory));
    options.place = 1;
    options.stream = f->stream;
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_lease_open(x, INT, &options, &lease, &memory));
    ferry_buffer_destroy(&x);
    for_all_endings(f, check_lease_of_a_guest);
}

/* A stream of Ferry that waited for an event of a capture would join this capture. So an import
 * with such an event is refused. */
static void
test_an_event_of_a_capture_is_refused(void **state)
{
    fixture *f = *state;
    ferryi_device *device = device_of(f, 1);
    void *native = native_stream(f), *event, *memory;
    int nodes;
    ferry_buffer *out;
    OK(device->ops->event_create(device, false, &event));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, COUNT * sizeof(int), &memory));
    begin_native(native, THREAD_LOCAL);
    OK(device->ops->event_record(device, event, native));
    struct ArrowDeviceArray *array = exchange_arrow(memory, COUNT);
    assert_non_null(array);
    array->device_type = FERRYI_DL_CUDA;
    array->device_id = 0;
    array->sync_event = &event;
    const ferry_import_options options = {.ready_on = f->stream};
    FAILS(FERRY_ERROR_UNSUPPORTED,
          ferry_buffer_import_arrow(f->context, array, &exchange_int_schema, &options, &out));
    assert_non_null(strstr(ferry_last_error(), "CUDA_ERROR_CAPTURED_EVENT"));
    assert_false(is_captured(f->stream));
    (void)fake.fakecuda_end_capture(native, &nodes);
    OK(device->ops->event_record(device, event, native));
    OK(ferry_buffer_import_arrow(f->context, array, &exchange_int_schema, &options, &out));
    ferry_buffer_destroy(&out);
    destroy_native(f, native);
    OK(device->ops->event_destroy(device, event));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
}

/* -- memory and kernels that a graph uses ------------------------------------------------------ */

/* Returns the number of calls that free memory of slabs or of handles. */
static uint64_t
count_frees(void)
{
    return fake.fakecuda_calls_of("cuMemFree_v2") + fake.fakecuda_calls_of("cuMemUnmap");
}

/* Until a GPU has shown that freeing memory spares captures, idle memory stays in the pool while a
 * stream that Ferry knows is captured. */
static void
check_frees_in_capture(fixture *f, struct ending ending)
{
    ferry_stream *crowd[STREAM_CROWD];
    if (!ending.numbered)
        make_crowd(f, crowd);
    void *native = native_stream(f);
    ferry_stream *a = wrap_stream(f, native);
    ferry_pool *pool;
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    ferry_buffer *x = make_ints(f, COUNT);
    fill_on(f, x, a, 0, COUNT, 3);
    expect_all(x, 3);
    ferry_buffer_destroy(&x);
    fake.fakecuda_set_strict("capture");
    begin_native(native, ending.mode);
    if (ending.flushed)
        ferry_stream_destroy(&a);
    uint64_t frees = count_frees();
    OK(ferry_pool_trim(pool, 0));
    OK(ferry_pool_compact(pool, NULL));
    assert_int_equal(count_frees(), frees);
    end_native(native);
    OK(ferry_pool_trim(pool, 0));
    assert_true(count_frees() > frees);
    fake.fakecuda_set_strict("");
    ferry_stream_destroy(&a);
    destroy_native(f, native);
    if (!ending.numbered)
        destroy_crowd(crowd);
}

static void
test_frees_wait_for_captures(void **state)
{
    for_all_endings(*state, check_frees_in_capture);
}

static void
do_nothing(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
}

/* A graph contains the code of the kernels that were launched while it was captured. So a kernel
 * that is destroyed afterwards stays loaded until its context ends. */
static void
test_captured_kernels_stay_loaded(void **state)
{
    static const char ptx[] =
        ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    fixture *f = *state;
    fake.fakecuda_register_kernel("nothing", do_nothing, 0, NULL);
    for (int mode = GLOBAL; mode <= RELAXED; mode++) {
        ferry_stream *a = make_stream(f, 1);
        const ferry_kernel_source source = {.name = "nothing", CUDA_IMAGE(ptx)};
        ferry_kernel *captured, *plain;
        OK(ferry_kernel_create(f->context, &source, &captured));
        OK(ferry_kernel_create(f->context, &source, &plain));
        OK(ferry_kernel_launch(captured, ferry_grid_for(1, 1), a, NULL, 0));
        OK(ferry_kernel_launch(plain, ferry_grid_for(1, 1), a, NULL, 0));
        OK(ferry_stream_flush(a));
        begin(a, mode);
        OK(ferry_kernel_launch(captured, ferry_grid_for(1, 1), a, NULL, 0));
        assert_int_equal(end(a), 1);
        OK(ferry_stream_synchronize(a));
        int modules = fake.fakecuda_live().modules;
        ferry_kernel_destroy(&captured);
        ferry_kernel_destroy(&plain);
        assert_int_equal(fake.fakecuda_live().modules, modules - 1);
        ferry_stream_destroy(&a);
    }
}

/* A checked run refuses an access that would put the address of a replica into a graph although
 * nothing holds the replica there. */
static void
test_checked_runs_refuse_what_is_not_held(void **state)
{
    (void)state;
    setenv("FERRY_DEBUG", "1", 1);
    fixture own, *f = &own;
    fixture_open(f, NULL);
    for (int mode = GLOBAL; mode <= RELAXED; mode++) {
        ferry_stream *a = make_stream(f, 1);
        ferry_buffer *x = make_ints(f, COUNT);
        ferry_scope scope;
        void *memory, *held;
        fill_on(f, x, a, 0, COUNT, 3);
        OK(ferry_stream_flush(a));
        begin(a, mode);
        for (int access = FERRY_READ; access <= FERRY_OVERWRITE; access++) {
            FAILS(FERRY_ERROR_UNSUPPORTED,
                  ferry_buffer_open_device(x, INT, access, 0, COUNT, a, &scope, &memory));
            assert_non_null(strstr(ferry_last_error(), "hold"));
        }
        assert_int_equal(end(a), 0);
        OK(ferry_buffer_hold(x, 1, &held));
        begin(a, mode);
        assert_ptr_equal(open_on(x, a, FERRY_UPDATE, 0, COUNT, &scope), held);
        OK(ferry_scope_close(&scope));
        assert_int_equal(end(a), 0);
        OK(ferry_buffer_release(x, 1));
        expect_all(x, 3);
        ferry_buffer_destroy(&x);
        ferry_stream_destroy(&a);
    }
    fixture_close(f);
    setenv("FERRY_DEBUG", "0", 1);
}

/* A captured graph may contain the address of a pinned replica. The program pins the replica and
 * flushes the stream before the capture. It marks the buffer dirty after each launch of the
 * graph. */
static void
test_graphs_use_pinned_copies(void **state)
{
    fixture *f = *state;
    ferry_stream *a = make_stream(f, 1), *b = make_stream(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 0), *y = make_ints(f, COUNT);
    void *memory;
    OK(ferry_buffer_sync_to(x, 0, FERRY_REST, 1, NULL));
    OK(ferry_buffer_hold(x, 1, &memory));
    OK(ferry_stream_flush(a));
    begin(a, THREAD_LOCAL);
    queue_fill(f, a, memory, 9, COUNT);
    assert_int_equal(end(a), 1);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_evict(x, 1));
    for (int i = 1; i <= 3; i++) {
        /* The test makes this call instead of launching the captured graph. */
        queue_fill(f, a, memory, i, COUNT);
        OK(ferry_buffer_mark_dirty(x, 0, FERRY_REST, 1, a));
        copy_on(f, b, y, 0, x, 0, COUNT);
        expect_all(y, i);
        /* Waits until the copy has read the bytes, because the next launch of the graph overwrites
         * them. */
        OK(ferry_buffer_wait_idle(x, 1));
    }
    OK(ferry_buffer_release(x, 1));
    DESTROY_BUFFERS(&x, &y);
    DESTROY_STREAMS(&a, &b);
}

/* -- the two modes ----------------------------------------------------------------------------- */

static int
use_mode(const char *mode)
{
    setenv("FAKECUDA_MODE", mode, 1);
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    return fake.fakecuda_set_mode(mode) ? 0 : -1;
}

static int
use_threads(void **state)
{
    (void)state;
    return use_mode("thread");
}

static int
use_lazy(void **state)
{
    (void)state;
    return use_mode("lazy");
}

/* -- what callbacks of the program see of driver calls ----------------------------------------- */

/* State of the driver in the calling thread, as seen inside callbacks. */
struct look {
    const struct ferryi_gpu_driver *driver;
    int count, deepest;
    bool relaxed;
};

static void
look(struct look *look)
{
    ferryi_gpu_capture_mode mode = FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED;
    if (fake.fakecuda_context_depth() > look->deepest)
        look->deepest = fake.fakecuda_context_depth();
    assert_int_equal(look->driver->capture_mode(&mode), FERRYI_GPU_SUCCESS);
    look->relaxed |= mode == FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED;
    assert_int_equal(look->driver->capture_mode(&mode), FERRYI_GPU_SUCCESS);
    look->count++;
}

static bool
look_in_keep_going(size_t done, size_t total, void *user)
{
    (void)done, (void)total;
    look(user);
    return true;
}

static void
look_in_trace(const ferry_trace *trace, void *user)
{
    (void)trace;
    look(user);
}

/* A Ferry call must not change the thread's current context or capture mode for callbacks of the
 * program. Both must also be unchanged after the call. */
static void
test_callbacks_find_the_thread_as_it_was(void **state)
{
    enum { LARGE = 1 << 18 };
    struct look seen = {0};
    fixture f;
    static int values[LARGE];
    (void)state;
    fixture_open(&f, &(ferry_context_options){.trace = look_in_trace, .trace_user = &seen});
    seen.driver = ferryi_gpu_of(device_of(&f, 1))->driver;
    ferry_buffer *x = make_ints(&f, LARGE);
    write_counting(&f, x, 1, 0, LARGE, 0);
    const ferry_copy_options options = {
        .chunk_bytes = 1 << 16, .keep_going = look_in_keep_going, .user = &seen};
    for (int round = 0; round < 3; round++) {
        OK(ferry_buffer_copy_from(x, INT, 0, LARGE, values, &options));
        look(&seen);
        OK(ferry_buffer_copy_to(x, INT, 0, LARGE, values, &options));
        look(&seen);
        touch(&f, x, 0, FERRY_UPDATE, 0, LARGE);
        touch(&f, x, 1, FERRY_READ, 0, LARGE);
        look(&seen);
    }
    assert_true(seen.count > 3 * (2 * 16 + 3));
    assert_int_equal(seen.deepest, 0);
    assert_false(seen.relaxed);
    ferry_buffer_destroy(&x);
    fixture_close(&f);
}

int
main(void)
{
    /* A checked run refuses captures of memory that is not held. */
    if (ferryi_is_debug_run())
        return 77;
    const struct CMUnitTest tests[] = {
        TEST(test_wrapping_twice_is_one_stream),
        TEST(test_native_streams_come_and_go),
        TEST(test_streams_of_green_contexts),
        TEST(test_per_thread_streams_are_several),
        TEST(test_per_thread_scope_closed_elsewhere),
        TEST(test_close_on_the_per_thread_stream),
        TEST(test_a_driver_that_does_not_tell),
        TEST(test_capture_refuses_and_stays_valid),
        TEST(test_exchange_in_a_capture),
        TEST(test_streams_end_in_their_capture),
        TEST(test_native_streams_end_after_their_capture),
        TEST(test_wrapping_again_in_a_capture),
        TEST(test_lost_streams_give_their_numbers_back),
        TEST(test_unknown_work_during_a_capture),
        TEST(test_leases_of_other_libraries),
        TEST(test_an_event_of_a_capture_is_refused),
        TEST(test_frees_wait_for_captures),
        TEST(test_captured_kernels_stay_loaded),
        cmocka_unit_test(test_checked_runs_refuse_what_is_not_held),
        TEST(test_graphs_use_pinned_copies),
        cmocka_unit_test(test_callbacks_find_the_thread_as_it_was),
    };
    static const char library[] = FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so";
    setenv("FERRY_CUDA_LIBRARY", library, 1);
    setenv("FERRY_DEVICE", "cuda", 1);
    if (!fakecuda_find(library, &fake))
        return 1;
    int failed = cmocka_run_group_tests_name("threads", tests, use_threads, NULL);
    return failed + cmocka_run_group_tests_name("lazy", tests, use_lazy, NULL);
}
