/* SPDX-License-Identifier: MIT */
/*
 * Tests ferry_scope_close_unordered() and ferry_scope_wait(). Both are for a consumer: code that
 * holds a scope and queues work on a driver stream that Ferry does not know.
 */
#include "tests/buffer/work.h"
#include "tests/support/copy_slots.h"
#include "tests/support/fakecuda.h"

enum { COUNT = 5000, BYTES = COUNT * (int)sizeof(int) };

/* -- the consumer ------------------------------------------------------------------------------ */

typedef struct consumer {
    fixture *f;
    int place;
    void *native;
    /* Pinned memory. The consumer writes its first half to the device, and reads from the device
     * into its second half. */
    int *pinned;
} consumer;

static consumer
consumer_new(fixture *f, int place)
{
    consumer c = {.f = f, .place = place};
    OK(device_of(f, place)->ops->stream_create(device_of(f, place), &c.native));
    OK(device_of(f, place)->ops->memory_alloc(device_of(f, place), FERRY_MEMORY_PINNED, 2 * BYTES,
                                              (void **)&c.pinned));
    return c;
}

static void
consumer_free(consumer *c)
{
    OK(ferryi_device_synchronize(device_of(c->f, c->place)));
    OK(device_of(c->f, c->place)
           ->ops->memory_free(device_of(c->f, c->place), FERRY_MEMORY_PINNED, c->pinned));
    OK(device_of(c->f, c->place)->ops->stream_destroy(device_of(c->f, c->place), c->native));
}

static void
queue_write(consumer *c, void *target, int value)
{
    for (int i = 0; i < COUNT; i++)
        c->pinned[i] = value;
    OK(device_of(c->f, c->place)
           ->ops->copy_upload(device_of(c->f, c->place), target, c->pinned, BYTES, c->native));
}

/* Queues a copy of `source` to the second half of `pinned` on the consumer's stream. */
static void
queue_read(consumer *c, const void *source)
{
    for (int i = 0; i < COUNT; i++)
        c->pinned[COUNT + i] = -1;
    OK(device_of(c->f, c->place)
           ->ops->copy_download(device_of(c->f, c->place), c->pinned + COUNT, source, BYTES,
                                c->native));
}

static void
expect_was_read(const consumer *c, int value)
{
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(c->pinned[COUNT + i], value);
}

/* Opens a scope on the default stream. Waits until the transfers into the scope have ended, so that
 * the consumer may use the bytes. */
static void *
open_ready(fixture *f, ferry_buffer *buffer, int place, ferry_access access, ferry_scope *scope)
{
    void *memory = open_at(f, buffer, place, access, 0, COUNT, scope);
    OK(ferry_scope_wait(scope));
    return memory;
}

static ferry_buffer *
make_constant(fixture *f, int value)
{
    ferry_buffer *buffer = make_ints(f, COUNT);
    OK(ferry_buffer_fill(buffer, INT, 0, COUNT, &value, NULL));
    return buffer;
}

/* -- the end of a write ------------------------------------------------------------------------ */

static void
test_late_write_is_seen_by_the_host(void **state)
{
    fixture *f = *state;
    consumer c = consumer_new(f, 1);
    ferry_buffer *x = make_constant(f, 1);
    for (int i = 0; i < 4; i++) {
        ferry_scope scope;
        queue_write(&c, open_ready(f, x, 1, i % 2 ? FERRY_UPDATE : FERRY_OVERWRITE, &scope), 7 + i);
        OK(ferry_scope_close_unordered(&scope));
        OK(ferry_scope_close_unordered(&scope)); /* closed */
        expect_constant(f, x, 0, 0, COUNT, 7 + i);
    }
    ferry_buffer_destroy(&x);
    consumer_free(&c);
}

static void
test_late_write_is_seen_by_streams(void **state)
{
    fixture *f = *state;
    consumer c = consumer_new(f, 1);
    ferry_stream *own = make_stream(f, 1), *far = make_stream(f, f->places);
    ferry_buffer *x = make_constant(f, 1), *y = make_ints(f, COUNT);
    for (int i = 0; i < 6; i++) {
        ferry_scope scope;
        queue_write(&c, open_ready(f, x, 1, FERRY_OVERWRITE, &scope), 10 + i);
        OK(ferry_scope_close_unordered(&scope));
        copy_on(f, i % 2 ? own : far, y, 0, x, 0, COUNT);
        expect_constant(f, y, 0, 0, COUNT, 10 + i);
    }
    DESTROY_BUFFERS(&x, &y);
    DESTROY_STREAMS(&own, &far);
    consumer_free(&c);
}

/* A write by Ferry runs after an earlier write that the consumer queued on its own driver stream. A
 * later write by the consumer runs after the write by Ferry. */
static void
test_writes_stay_in_order(void **state)
{
    fixture *f = *state;
    consumer c = consumer_new(f, 1);
    ferry_buffer *x = make_constant(f, 1);
    ferry_scope scope;
    queue_write(&c, open_ready(f, x, 1, FERRY_OVERWRITE, &scope), 2);
    OK(ferry_scope_close_unordered(&scope));
    write_counting(f, x, 1, 0, COUNT, 100);
    expect_counting(f, x, 0, 0, COUNT, 100);
    touch(f, x, 1, FERRY_READ, 0, COUNT);
    write_counting(f, x, 1, 0, COUNT, 200);
    queue_write(&c, open_ready(f, x, 1, FERRY_OVERWRITE, &scope), 3);
    OK(ferry_scope_close_unordered(&scope));
    expect_constant(f, x, 0, 0, COUNT, 3);
    ferry_buffer_destroy(&x);
    consumer_free(&c);
}

/* -- the end of a read ------------------------------------------------------------------------- */

static void
test_late_read_is_not_overwritten(void **state)
{
    fixture *f = *state;
    consumer c = consumer_new(f, 1);
    ferry_buffer *x = make_constant(f, 5);
    for (int i = 0; i < 4; i++) {
        ferry_scope scope;
        queue_read(&c, open_ready(f, x, 1, FERRY_READ, &scope));
        OK(ferry_scope_close_unordered(&scope));
        /* Ferry writes through a scope if i is odd, and by a fill otherwise. */
        if (i % 2)
            write_counting(f, x, 1, 0, COUNT, 6 + i);
        else
            OK(ferry_buffer_fill(x, INT, 0, COUNT, &(int){6 + i}, NULL));
        touch(f, x, 1, FERRY_READ, 0, COUNT);
        OK(ferryi_device_synchronize(device_of(f, 1)));
        expect_was_read(&c, 5 + i);
        OK(ferry_buffer_fill(x, INT, 0, COUNT, &(int){6 + i}, NULL));
    }
    ferry_buffer_destroy(&x);
    consumer_free(&c);
}

/* A reader on a stream of Ferry does not wait for a read that a foreign library has queued on a
 * driver stream. */
static void
test_reads_go_on_beside_a_late_read(void **state)
{
    fixture *f = *state;
    if (f->context->debug)
        skip(); /* a checked run asks the driver more */
    consumer c = consumer_new(f, 1);
    ferry_buffer *x = make_constant(f, 5);
    ferry_scope scope;
    for (int i = 0; i < 2; i++) {
        queue_read(&c, open_ready(f, x, 1, FERRY_READ, &scope));
        uint64_t calls = device_calls(f);
        OK(ferry_scope_close_unordered(&scope));
        touch(f, x, 1, FERRY_READ, 0, COUNT);
        touch(f, x, 0, FERRY_READ, 0, COUNT);
        assert_int_equal(device_calls(f), calls);
        OK(ferryi_device_synchronize(
            device_of(f, 1))); /* the next round writes the consumer's memory */
    }
    ferry_buffer_destroy(&x);
    consumer_free(&c);
}

/* -- memory ------------------------------------------------------------------------------------ */

/* A consumer is code that uses a scope's memory on a separate driver stream. If the scope is
 * closed unordered and its buffer destroyed, the block is not reused while the consumer may still
 * access it. */
static void
test_reuse_of_the_memory_waits(void **state)
{
    fixture *f = *state;
    enum { LATER = 10 };
    for (int reads = 0; reads < 2; reads++) {
        consumer c = consumer_new(f, 1);
        for (int i = 0; i < 5; i++) {
            ferry_scope scope;
            ferry_buffer *x = make_constant(f, 1), *y[LATER];
            touch(f, x, 1, FERRY_READ, 0, COUNT);
            void *memory = open_ready(f, x, 1, reads ? FERRY_READ : FERRY_OVERWRITE, &scope);
            if (reads)
                queue_read(&c, memory);
            else
                queue_write(&c, memory, 99);
            OK(ferry_scope_close_unordered(&scope));
            ferry_buffer_destroy(&x);
            for (int j = 0; j < LATER; j++) {
                y[j] = make_ints(f, COUNT);
                write_counting(f, y[j], 1, 0, COUNT, j);
            }
            OK(ferryi_device_synchronize(device_of(f, 1)));
            if (reads)
                expect_was_read(&c, 1);
            for (int j = 0; j < LATER; j++) {
                expect_counting(f, y[j], 1, 0, COUNT, j);
                ferry_buffer_destroy(&y[j]);
            }
        }
        consumer_free(&c);
    }
}

/* If memory is short, an allocation waits for the device. It can then reuse blocks whose scopes
 * were closed with ferry_scope_close_unordered(). */
static void
test_shortage_waits_for_the_device(void **state)
{
    fixture *f = *state;
    if (f->coherent)
        skip();
    fixture small;
    fixture_open(&small, &(ferry_context_options){.device_bytes_limit = (size_t)1 << 20});
    consumer c = consumer_new(&small, 1);
    ferry_buffer *x, *y;
    enum { MANY = 150000 }; /* 600 kB: there is memory for one such buffer */
    for (int i = 0; i < 3; i++) {
        ferry_scope scope;
        void *memory;
        OK(ferry_buffer_create(small.context, INT, MANY, NULL, &x));
        OK(ferry_buffer_open_device(x, INT, FERRY_OVERWRITE, 0, FERRY_REST, small.stream, &scope,
                                    &memory));
        OK(ferry_scope_wait(&scope));
        queue_write(&c, memory, 9);
        OK(ferry_scope_close_unordered(&scope));
        ferry_buffer_destroy(&x);
        OK(ferry_buffer_create(small.context, INT, MANY, NULL, &y));
        OK(ferry_buffer_open_device(y, INT, FERRY_OVERWRITE, 0, FERRY_REST, small.stream, &scope,
                                    &memory));
        OK(ferry_scope_close(&scope));
        write_counting(&small, y, 1, 0, COUNT, 3);
        OK(ferryi_device_synchronize(device_of(&small, 1)));
        expect_counting(&small, y, 1, 0, COUNT, 3);
        ferry_buffer_destroy(&y);
    }
    consumer_free(&c);
    fixture_close(&small);
}

/* -- what it costs ----------------------------------------------------------------------------- */

/* ferry_scope_close_unordered() makes no driver call. A later use of a buffer waits for the device.
 * This wait covers all scopes that were closed before it. */
static void
test_one_wait_serves_all_ends(void **state)
{
    fixture *f = *state;
    if (f->context->debug)
        skip(); /* a checked run asks the driver more */
    enum { BUFFERS = 8 };
    ferry_buffer *x[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) {
        x[i] = make_constant(f, i);
        touch(f, x[i], 1, FERRY_UPDATE, 0, COUNT);
        touch(f, x[i], 0, FERRY_READ, 0, COUNT);
        touch(f, x[i], 1, FERRY_READ, 0, COUNT);
    }
    OK(ferryi_device_synchronize(device_of(f, 1)));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BUFFERS; i++) {
            ferry_scope scope;
            open_at(f, x[i], 1, FERRY_UPDATE, 0, COUNT, &scope);
            uint64_t before = device_calls(f);
            OK(ferry_scope_close_unordered(&scope));
            assert_int_equal(device_calls(f), before);
        }
        uint64_t calls = device_calls(f);
        touch(f, x[0], 1, FERRY_UPDATE, 0, COUNT);
        /* The use of the first buffer waits for the device, so it makes driver calls. The uses of
         * the other buffers need no wait and make no driver call. */
        assert_int_equal(device_calls(f) - calls > 0, 1);
        calls = device_calls(f);
        for (int i = 1; i < BUFFERS; i++)
            touch(f, x[i], 1, FERRY_UPDATE, 0, COUNT);
        assert_int_equal(device_calls(f), calls);
    }
    for (int i = 0; i < BUFFERS; i++)
        ferry_buffer_destroy(&x[i]);
}

/* A context has only 62 stream numbers. ferry_scope_close_unordered() needs one of them to track
 * work on streams that Ferry does not know. If none is free, it waits for the device instead. */
static void
test_without_a_number_the_end_waits(void **state)
{
    fixture *f = *state;
    ferry_stream *streams[FERRYI_TIMELINES];
    for (int i = 0; i < FERRYI_TIMELINES; i++)
        streams[i] = make_stream(f, 1);
    consumer c = consumer_new(f, 1);
    ferry_buffer *x = make_constant(f, 1);
    ferry_scope scope;
    queue_write(&c, open_ready(f, x, 1, FERRY_OVERWRITE, &scope), 4);
    OK(ferry_scope_close_unordered(&scope));
    expect_constant(f, x, 0, 0, COUNT, 4);
    queue_read(&c, open_ready(f, x, 1, FERRY_READ, &scope));
    OK(ferry_scope_close_unordered(&scope));
    write_counting(f, x, 1, 0, COUNT, 6);
    expect_was_read(&c, 4);
    ferry_buffer_destroy(&x);
    consumer_free(&c);
    for (int i = 0; i < FERRYI_TIMELINES; i++)
        ferry_stream_destroy(&streams[i]);
}

/* -- arguments, shares, and other scopes ------------------------------------------------------- */

static void
test_other_scopes(void **state)
{
    fixture *f = *state;
    ferry_scope zero = {0}, scope, copy;
    ferry_buffer *x = make_constant(f, 1);
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_scope_close_unordered(NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_scope_wait(NULL));
    OK(ferry_scope_close_unordered(&zero));
    OK(ferry_scope_wait(&zero));
    int *memory = open_at(f, x, 0, FERRY_UPDATE, 0, COUNT, &scope);
    OK(ferry_scope_wait(&scope));
    memory[0] = 2;
    copy = scope;
    OK(ferry_scope_close_unordered(&scope));
    OK(ferry_scope_close_unordered(&copy));
    open_at(f, x, 0, FERRY_READ, 0, COUNT, &scope);
    copy = scope;
    OK(ferry_scope_close(&scope));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_scope_wait(&copy));
    expect_constant(f, x, 1, 0, 1, 2);
    ferry_buffer_destroy(&x);
}

/* ferry_scope_wait() waits for transfers into the range. If the scope writes, it waits for earlier
 * readers, too. */
static void
test_wait_waits_for_the_bytes(void **state)
{
    fixture *f = *state;
    consumer c = consumer_new(f, 1);
    ferry_buffer *x = make_counting(f, COUNT, 3), *y = make_ints(f, COUNT);
    ferry_stream *own = make_stream(f, 1);
    for (int i = 0; i < 4; i++) {
        ferry_scope scope;
        /* The consumer's stream is not ordered with any of Ferry's streams. Only ferry_scope_wait()
         * ensures that the bytes have arrived. */
        OK(ferry_buffer_fill(x, INT, 0, COUNT, &(int){30 + i}, NULL));
        queue_read(&c, open_ready(f, x, 1, FERRY_READ, &scope));
        OK(device_of(f, 1)->ops->stream_synchronize(device_of(f, 1), c.native));
        expect_was_read(&c, 30 + i);
        OK(ferry_scope_close(&scope));
        copy_on(f, own, y, 0, x, 0, COUNT);
        queue_write(&c, open_ready(f, x, 1, FERRY_OVERWRITE, &scope), 60 + i);
        OK(device_of(f, 1)->ops->stream_synchronize(device_of(f, 1), c.native));
        OK(ferry_scope_close(&scope));
        expect_constant(f, y, 0, 0, COUNT, 30 + i);
        expect_constant(f, x, 0, 0, COUNT, 60 + i);
    }
    DESTROY_BUFFERS(&x, &y);
    ferry_stream_destroy(&own);
    consumer_free(&c);
}

static void
say_nothing(ferry_log_level level, const char *message, void *user)
{
    (void)level, (void)message, (void)user;
}

/* ferry_scope_close_unordered() can still close a scope that outlives its context. */
static void
test_after_the_end_of_the_context(void **state)
{
    (void)state;
    for (int used = 0; used < 2; used++) {
        ferry_context *context;
        ferry_buffer *x;
        ferry_scope scope;
        void *memory;
        OK(ferry_context_create(&(ferry_context_options){.log = say_nothing}, &context));
        OK(ferry_buffer_create(context, INT, COUNT, NULL, &x));
        for (int i = 0; i <= used; i++) {
            OK(ferry_buffer_open_device(x, INT, FERRY_OVERWRITE, 0, COUNT,
                                        ferry_context_stream(context, 1), &scope, &memory));
            if (i < used)
                OK(ferry_scope_close_unordered(&scope));
        }
        ferry_context_destroy(&context);
        assert_null(context);
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_scope_wait(&scope));
        OK(ferry_scope_close_unordered(&scope));
        ferry_buffer_destroy(&x);
    }
}

/* An OVERWRITE of a buffer with the option `scrub` clears the memory first. ferry_scope_wait()
 * waits for the clearing, which could otherwise run after the consumer's write. */
static void
test_wait_waits_for_the_scrub(void **state)
{
    fixture *f = *state;
    consumer c = consumer_new(f, 1);
    ferry_buffer *x;
    ferry_scope scope;
    for (int i = 0; i < 10; i++) {
        OK(ferry_buffer_create(f->context, INT, COUNT, &(ferry_buffer_options){.scrub = true}, &x));
        queue_write(&c, open_ready(f, x, 1, FERRY_OVERWRITE, &scope), 7);
        OK(ferry_scope_close_unordered(&scope));
        expect_constant(f, x, 0, 0, COUNT, 7);
        ferry_buffer_destroy(&x);
    }
    consumer_free(&c);
}

/* A call on a stream that is being captured into a CUDA graph fails if its work would have to wait
 * for work outside the capture. The capture must stay valid. */
static void
test_capturing_streams_are_refused(void **state)
{
    fixture *f = *state;
    struct fakecuda fake = {0};
    if (strcmp(device_of(f, 1)->kind, "cuda") != 0 || !fakecuda_find_driver(&fake))
        skip();
    consumer c = consumer_new(f, 1);
    ferry_stream *own = make_stream(f, 1);
    ferry_buffer *x = make_constant(f, 1);
    ferry_scope scope;
    void *memory;
    int nodes;
    queue_write(&c, open_ready(f, x, 1, FERRY_OVERWRITE, &scope), 8);
    OK(ferry_scope_close_unordered(&scope));
    assert_int_equal(fake.fakecuda_begin_capture(ferry_stream_native(own), 2), 0);
    FAILS(FERRY_ERROR_UNSUPPORTED,
          ferry_buffer_open_device(x, INT, FERRY_READ, 0, COUNT, own, &scope, &memory));
    assert_int_equal(fake.fakecuda_end_capture(ferry_stream_native(own), &nodes), 0);
    OK(ferry_buffer_open_device(x, INT, FERRY_READ, 0, COUNT, own, &scope, &memory));
    OK(ferry_scope_close(&scope));
    expect_constant(f, x, 0, 0, COUNT, 8);
    ferry_buffer_destroy(&x);
    ferry_stream_destroy(&own);
    consumer_free(&c);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_late_write_is_seen_by_the_host), TEST(test_late_write_is_seen_by_streams),
        TEST(test_writes_stay_in_order),           TEST(test_late_read_is_not_overwritten),
        TEST(test_reads_go_on_beside_a_late_read), TEST(test_reuse_of_the_memory_waits),
        TEST(test_shortage_waits_for_the_device),  TEST(test_one_wait_serves_all_ends),
        TEST(test_without_a_number_the_end_waits), TEST(test_other_scopes),
        TEST(test_wait_waits_for_the_bytes),       TEST(test_wait_waits_for_the_scrub),
        TEST(test_after_the_end_of_the_context),   TEST(test_capturing_streams_are_refused),
    };
    return cmocka_run_group_tests_name("unordered", tests, NULL, NULL);
}
