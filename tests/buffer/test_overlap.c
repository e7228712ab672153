/* SPDX-License-Identifier: MIT */
/* Tests that uploads go on while a kernel runs that need not see them. */
#include <unistd.h>

#include "tests/buffer/work.h"

/* The large buffers leave a few bytes of their block to a memory checker. */
enum { COUNT = (1 << 20) - 16, SMALL = 1000, SPARES = 3 };

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

/* Limits the device memory of the scene to `buffers` of COUNT elements, and an eighth of one. */
static void
limit_memory(struct scene *s, size_t buffers, uint64_t wait_ms)
{
    const size_t bytes = (size_t)1 << 22;
    ferry_pool *pool;
    OK(ferry_context_pool(s->f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    OK(ferry_pool_configure(pool, &(ferry_pool_options){.limit_bytes = buffers * bytes + bytes / 8,
                                                        .wait_ms = wait_ms}));
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

static ferry_buffer *
make_pinned(struct scene *s, size_t count)
{
    ferry_buffer *x;
    OK(ferry_buffer_create(s->f->context, INT, count,
                           &(ferry_buffer_options){.memory = FERRY_MEMORY_PINNED}, &x));
    write_counting(s->f, x, 0, 0, count, 1);
    return x;
}

/* The upload of a held buffer waits for a kernel that reads the bytes that it replaces. Unrelated
 * uploads pass it. */
static void
test_an_upload_does_not_wait_behind_another(void **state)
{
    const ferry_copy_options on_no_stream = {.stream = NULL};
    struct scene s;
    if (!scene_open(&s, *state))
        skip();
    for (int i = 0; i < 2; i++) {
        size_t count = (size_t)sizes[i];
        ferry_buffer *x = make_pinned(&s, count);
        ferry_event *event;
        ferry_scope scope;
        void *held, *now;
        OK(ferry_buffer_hold(x, 1, &held));
        close_gate(&s.dog);
        OK(launch_copy(&s.w, s.stream, s.target, 0, x, 0, count));
        write_counting(s.f, x, 0, 0, count, 50);
        OK(ferry_buffer_sync_to_async(x, 0, FERRY_REST, 1, &on_no_stream, &event));
        for (int number = 0; number < 5; number++)
            upload_new(s.f, count, number);
        open_gate(&s.dog);
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        OK(ferry_buffer_open_device(x, INT, FERRY_READ, 0, 1, s.stream, &scope, &now));
        OK(ferry_scope_close(&scope));
        assert_ptr_equal(now, held);
        OK(ferry_buffer_release(x, 1));
        expect_counting(s.f, x, 1, 0, count, 50);
        expect_counting(s.f, s.target, 0, 0, count, 1);
        ferry_buffer_destroy(&x);
    }
    scene_close(&s);
}

/* A buffer that a kernel still reads gets other memory for new bytes, as long as few kernels read
 * old ones, so that its upload waits for none of them. */
static void
test_an_upload_does_not_wait_for_its_buffer(void **state)
{
    ferry_buffer *targets[SPARES];
    struct scene s;
    if (!scene_open(&s, *state))
        skip();
    ferry_buffer *x = make_counting(s.f, COUNT, 0), *y = make_ints(s.f, COUNT);
    for (int i = 0; i < SPARES; i++)
        targets[i] = make_ints(s.f, COUNT);
    ferry_stream *other = make_stream(s.f, 1);
    close_gate(&s.dog);
    for (int i = 0; i < SPARES; i++) {
        write_counting(s.f, x, 0, 0, COUNT, i);
        OK(ferry_buffer_sync_to(x, 0, FERRY_REST, 1, NULL));
        OK(launch_copy(&s.w, s.stream, targets[i], 0, x, 0, COUNT));
    }
    write_counting(s.f, x, 0, 0, COUNT, 70);
    OK(launch_copy(&s.w, other, y, 0, x, 0, COUNT));
    open_gate(&s.dog);
    expect_counting(s.f, y, 0, 0, COUNT, 70);
    expect_counting(s.f, x, 1, 0, COUNT, 70);
    for (int i = 0; i < SPARES; i++)
        expect_counting(s.f, targets[i], 0, 0, COUNT, i);
    for (int i = 0; i < SPARES; i++)
        ferry_buffer_destroy(&targets[i]);
    ferry_stream_destroy(&other);
    DESTROY_BUFFERS(&x, &y);
    scene_close(&s);
}

/* A kernel that read the buffer has ended. An upload of a part of the bytes does not wait for a
 * later kernel on the same stream. */
static void
test_an_upload_does_not_wait_for_later_work(void **state)
{
    struct scene s;
    if (!scene_open(&s, *state))
        skip();
    ferry_buffer *x = make_counting(s.f, COUNT, 1), *y = make_counting(s.f, COUNT, 5),
                 *z = make_ints(s.f, COUNT);
    OK(launch_copy(&s.w, s.stream, s.target, 0, x, 0, COUNT));
    expect_counting(s.f, s.target, 0, 0, COUNT, 1);
    OK(ferry_buffer_sync_to(y, 0, FERRY_REST, 1, NULL));
    close_gate(&s.dog);
    OK(launch_copy(&s.w, s.stream, z, 0, y, 0, COUNT));
    write_counting(s.f, x, 0, 0, COUNT - 1, 70);
    OK(ferry_buffer_sync_to(x, 0, FERRY_REST, 1, NULL));
    touch(s.f, x, 1, FERRY_UPDATE, 0, FERRY_REST); /* so that the host reads what was uploaded */
    expect_counting(s.f, x, 0, 0, COUNT - 1, 70);
    open_gate(&s.dog);
    expect_counting(s.f, z, 0, 0, COUNT, 5);
    DESTROY_BUFFERS(&x, &y, &z);
    scene_close(&s);
}

/* Waits until `count` kernels in all have ended. Ferry does not learn of it. */
static void
wait_for_kernels(unsigned count)
{
    while (work_done() < count)
        usleep(100);
}

/* The batches of a pipeline: the host reads the result of each while the kernel of the next one is
 * blocked. */
static void
test_a_result_does_not_wait_for_later_work(void **state)
{
    struct scene s;
    if (!scene_open(&s, *state))
        skip();
    ferry_buffer *x = make_counting(s.f, COUNT, 1),
                 *results[2] = {make_ints(s.f, COUNT), make_ints(s.f, COUNT)};
    for (unsigned batch = 0; batch < 10; batch++) {
        const unsigned before = work_done();
        close_gate(&s.dog);
        OK(launch_copy(&s.w, s.stream, results[batch % 2], 0, x, 0, COUNT));
        /* In the first batches, Ferry learns that the host reads the results. */
        if (batch >= 4)
            expect_counting(s.f, results[(batch + 1) % 2], 0, 0, COUNT, 1);
        open_gate(&s.dog);
        wait_for_kernels(before + 1);
        if (batch > 0 && batch < 4)
            expect_counting(s.f, results[(batch + 1) % 2], 0, 0, COUNT, 1);
    }
    DESTROY_BUFFERS(&x, &results[0], &results[1]);
    scene_close(&s);
}

/* The memory of the buffers of earlier batches, whose kernels have ended, is used for the next one
 * while a kernel that uses a newer buffer is blocked. The pool may not grow. */
static void
test_an_upload_takes_memory_that_is_ready(void **state)
{
    struct scene s;
    if (!scene_open(&s, *state))
        skip();
    limit_memory(&s, 3, 0);
    for (unsigned batch = 0; batch < 10; batch++) {
        const unsigned before = work_done();
        ferry_buffer *x[2];
        for (int i = 0; i < 2; i++) {
            if (i > 0 && batch > 0)
                close_gate(&s.dog);
            x[i] = make_pinned(&s, COUNT); /* so that the upload is asynchronous */
            OK(launch_copy(&s.w, s.stream, s.target, 0, x[i], 0, COUNT));
            if (i == 0)
                wait_for_kernels(before + 1);
        }
        DESTROY_BUFFERS(&x[0], &x[1]);
        upload_new(s.f, COUNT, 7);
        /* In the first batch, Ferry learns that the host reads the results. */
        if (batch > 0)
            open_gate(&s.dog);
        wait_for_kernels(before + 2);
        expect_counting(s.f, s.target, 0, 0, COUNT, 1);
    }
    scene_close(&s);
}

/* A read of one half of a buffer began before a write of the other half, which still runs when the
 * read has ended. The memory of the destroyed buffer then waits for the write, too. */
static void
test_memory_waits_for_a_write_beside_a_read(void **state)
{
    const size_t half = COUNT / 2;
    struct scene s;
    ferry_scope scope;
    void *memory;
    if (!scene_open(&s, *state))
        skip();
    limit_memory(&s, 1, 0);
    ferry_stream *other = make_stream(s.f, 1);
    ferry_buffer *x = make_counting(s.f, COUNT, 1);
    OK(ferry_buffer_sync_to(x, 0, FERRY_REST, 1, NULL));
    OK(ferry_buffer_open_device(x, INT, FERRY_READ, 0, half, other, &scope, &memory));
    work_delay(50 * 1000);
    const unsigned before = work_done();
    OK(launch_fill(&s.w, s.stream, x, half, COUNT - half, -1));
    OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&x);
    ferry_buffer *y = make_counting(s.f, COUNT, 7);
    OK(ferry_buffer_sync_to(y, 0, FERRY_REST, 1, NULL));
    wait_for_kernels(before + 1);
    work_delay(0);
    expect_counting(s.f, y, 1, 0, COUNT, 7);
    ferry_buffer_destroy(&y);
    ferry_stream_destroy(&other);
    scene_close(&s);
}

/* If the upload brings a part of the bytes only, or the device has newer ones, the memory stays. */
static void
test_memory_that_is_needed_stays(void **state)
{
    struct scene s;
    void *old, *now;
    ferry_scope scope;
    if (!scene_open(&s, *state))
        skip();
    work_delay(2000);
    for (int i = 0; i < 2; i++) {
        ferry_buffer *x = make_counting(s.f, COUNT, 1);
        touch(s.f, x, 1, FERRY_UPDATE, 0, FERRY_REST);
        OK(launch_copy(&s.w, s.stream, s.target, 0, x, 0, COUNT));
        OK(ferry_buffer_open_device(x, INT, FERRY_READ, 0, 1, s.stream, &scope, &old));
        OK(ferry_scope_close(&scope));
        write_counting(s.f, x, 0, 0, (size_t)(COUNT - i), 1);
        if (i == 0)
            OK(launch_add(&s.w, s.stream, x, COUNT / 2, 1, 0));
        OK(ferry_buffer_sync_to(x, 0, FERRY_REST, 1, NULL));
        OK(ferry_buffer_open_device(x, INT, FERRY_READ, 0, 1, s.stream, &scope, &now));
        OK(ferry_scope_close(&scope));
        assert_ptr_equal(now, old);
        expect_counting(s.f, x, 1, 0, COUNT, 1);
        ferry_buffer_destroy(&x);
    }
    work_delay(0);
    scene_close(&s);
}

/* A buffer gets no other memory that would be among the last of a limit. An allocation that needs
 * this memory then neither fails nor waits for a kernel. */
static void
test_the_last_memory_of_a_limit_stays(void **state)
{
    struct scene s;
    ferry_scope scope;
    void *memory;
    if (!scene_open(&s, *state))
        skip();
    limit_memory(&s, 3, FERRY_WAIT_NEVER);
    ferry_buffer *x = make_pinned(&s, COUNT), *y = make_ints(s.f, COUNT / 2);
    close_gate(&s.dog);
    OK(launch_copy(&s.w, s.stream, s.target, 0, x, 0, COUNT));
    write_counting(s.f, x, 0, 0, COUNT, 70);
    OK(ferry_buffer_open_device(x, INT, FERRY_READ, 0, COUNT, s.stream, &scope, &memory));
    OK(ferry_buffer_reserve(y, 1));
    OK(ferry_scope_close(&scope));
    open_gate(&s.dog);
    expect_counting(s.f, s.target, 0, 0, COUNT, 1);
    expect_counting(s.f, x, 1, 0, COUNT, 70);
    DESTROY_BUFFERS(&x, &y);
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
        TEST(test_an_upload_does_not_wait_behind_another),
        TEST(test_an_upload_does_not_wait_for_its_buffer),
        TEST(test_an_upload_does_not_wait_for_later_work),
        TEST(test_a_result_does_not_wait_for_later_work),
        TEST(test_an_upload_takes_memory_that_is_ready),
        TEST(test_memory_waits_for_a_write_beside_a_read),
        TEST(test_memory_that_is_needed_stays),
        TEST(test_the_last_memory_of_a_limit_stays),
        TEST(test_the_pool_does_not_grow_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
