/* SPDX-License-Identifier: MIT */
/* Tests that uploads go on while a kernel runs that has nothing to do with them. */
#include "tests/buffer/work.h"

enum { COUNT = 1 << 20, SMALL = 1000, SPARES = 3 };

static const int sizes[] = {SMALL, COUNT};

/* A device that works on separate threads, one of whose kernels is blocked: it copies from a
 * buffer on a stream. */
struct scene {
    fixture *f;
    work w;
    ferry_stream *stream;
    ferry_buffer *target;
    struct watchdog dog;
};

static bool
scene_open(struct scene *s, fixture *f)
{
    if (!runs_apart(f))
        return false;
    s->f = f;
    work_open(f, &s->w);
    s->stream = make_stream(f, 1);
    s->target = make_ints(f, COUNT);
    return true;
}

static void
scene_close(struct scene *s)
{
    DESTROY_BUFFERS(&s->target);
    ferry_stream_destroy(&s->stream);
    work_close(&s->w);
}

/* Creates a buffer that a kernel reads. The kernel is blocked if the gate is closed. */
static ferry_buffer *
make_read(struct scene *s, size_t count)
{
    ferry_buffer *x = make_counting(s->f, count, 1);
    OK(launch_copy(&s->w, s->stream, s->target, 0, x, 0, count));
    return x;
}

static void
upload_new(fixture *f, size_t count, int first)
{
    ferry_buffer *y = make_counting(f, count, first);
    OK(ferry_buffer_sync_to(y, 0, FERRY_REST, 1, NULL));
    touch(f, y, 1, FERRY_UPDATE, 0, FERRY_REST); /* so that the host reads what was uploaded */
    expect_counting(f, y, 0, 0, count, first);
    ferry_buffer_destroy(&y);
}

/* The memory of a destroyed buffer that a kernel still reads is idle. A new buffer gets other
 * memory. */
static void
test_an_upload_does_not_wait_for_memory(void **state)
{
    struct scene s;
    if (!scene_open(&s, *state))
        skip();
    for (int i = 0; i < 2; i++) {
        close_gate(&s.dog);
        ferry_buffer *x = make_read(&s, (size_t)sizes[i]);
        ferry_buffer_destroy(&x);
        upload_new(s.f, (size_t)sizes[i], 7);
        open_gate(&s.dog);
        expect_counting(s.f, s.target, 0, 0, (size_t)sizes[i], 1);
    }
    scene_close(&s);
}

/* A program that queues work far ahead makes the pool grow by a few blocks, and then waits for
 * memory. */
static void
test_the_pool_does_not_grow_without_end(void **state)
{
    struct scene s;
    ferry_pool *pool;
    ferry_pool_stats before, after;
    if (!scene_open(&s, *state))
        skip();
    OK(ferry_context_pool(s.f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    work_delay(2000);
    OK(ferry_pool_get_stats(pool, &before));
    for (int i = 0; i < 40; i++) {
        ferry_buffer *x = make_read(&s, COUNT);
        ferry_buffer_destroy(&x);
    }
    OK(ferry_stream_synchronize(s.stream));
    OK(ferry_pool_get_stats(pool, &after));
    work_delay(0);
    assert_true(after.reserved_bytes <=
                before.reserved_bytes + (SPARES + 1) * ((size_t)COUNT * sizeof(int) + 4096));
    scene_close(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_upload_does_not_wait_for_memory),
        TEST(test_the_pool_does_not_grow_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
