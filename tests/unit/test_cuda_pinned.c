/* SPDX-License-Identifier: MIT */
/* Tests transfers of host memory that another library has page-locked. The driver knows such
 * memory, so Ferry asks fakecuda for it. Also tests how much memory Ferry page-locks itself for
 * staging. */
#include <string.h>

#include "src/stream/shell.h"
#include "src/transfer/run.h"
#include "tests/support/copies.h"
#include "tests/unit/cuda_fixture.h"

#include <ferry/ferry.h>
#include <ferry/int.h>

#define QUESTION "cuPointerGetAttribute"

/* The buffer and the memory have more than 64 KiB. A quarter of the elements has less. */
enum { COUNT = 48 * 1024, BYTES = COUNT * 4, QUARTER = COUNT / 4 };

static const struct ferryi_gpu_driver *const driver = &builds[NEW].driver;

/* A context, and a device of the same driver whose context is current, as in a program that uses
 * another library beside Ferry. */
static struct {
    ferryi_device *device;
    ferry_context *context;
    ferry_int_buffer buffer;
    int32_t *result; /* pageable */
} both;

static int
start(void **state)
{
    ferry_context_options options = {.devices = "cuda:0", .pin_after = FERRY_PIN_NEVER};
    (void)state;
    both.device = open_build(NEW, 0);
    assert_int_equal(driver->context_push(ferryi_gpu_of(both.device)->context), 0);
    OK(ferry_context_create(&options, &both.context));
    OK(ferry_int_create(both.context, COUNT, NULL, &both.buffer));
    both.result = malloc(BYTES);
    assert_non_null(both.result);
    return 0;
}

static int
end(void **state)
{
    ferryi_gpu_context context;
    ferry_int_destroy(&both.buffer);
    ferry_context_destroy(&both.context);
    free(both.result);
    assert_int_equal(driver->context_pop(&context), 0);
    close_device(both.device);
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    fake->fakecuda_set_strict("");
    return clear_faults(state) || !fake->fakecuda_set_mode("thread");
}

/* Returns memory that another library has page-locked. */
static int32_t *
lock_elsewhere(size_t bytes)
{
    void *memory;
    assert_int_equal(driver->host_alloc(&memory, bytes, FERRYI_GPU_MEMHOSTALLOC_PORTABLE), 0);
    return memory;
}

static void
number(int32_t *memory, int from)
{
    for (int i = 0; i < COUNT; i++)
        memory[i] = from + i;
}

static void
assert_numbered(const int32_t *memory, int from)
{
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(memory[i], from + i);
}

/* Checks how often transfers since the last call went directly and through the staging ring. */
static void
assert_went(uint64_t direct, uint64_t staged)
{
    ferry_transfer_stats stats;
    OK(ferry_context_get_transfer_stats(both.context, &stats));
    assert_int_equal(stats.direct.copies, direct);
    assert_int_equal(stats.staged.copies, staged);
    OK(ferry_context_reset_stats(both.context));
}

/* Copies the memory to the device and back to it, by calls that block or do not. Once a transfer
 * has ended, the memory may be changed. */
static void
cross(int32_t *memory, bool blocks)
{
    static int from = 1;
    ferry_event *event = NULL;
    ferry_stream *stream = ferry_context_stream(both.context, 1);
    number(memory, ++from);
    if (blocks) {
        OK(ferry_int_copy_from(both.buffer, 0, COUNT, memory, ON(stream)));
    } else {
        OK(ferry_int_copy_from_async(both.buffer, 0, COUNT, memory, ON(stream), &event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
    }
    memset(memory, 0, BYTES);
    if (blocks) {
        OK(ferry_int_copy_to(both.buffer, 0, COUNT, memory, NULL));
    } else {
        OK(ferry_int_copy_to_async(both.buffer, 0, COUNT, memory, NULL, &event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
    }
    assert_numbered(memory, from);
}

static void
test_memory_of_others_is_not_staged(void **state)
{
    (void)state;
    uint64_t pageable = fake->fakecuda_pageable_copies();
    int32_t *memory = lock_elsewhere(BYTES + 256);
    for (int round = 0; round < 3; round++) {
        cross(memory, true);
        assert_went(2, 0);
        cross(memory + 64, false);
        assert_went(2, 0);
    }
    assert_int_equal(driver->host_free(memory), 0);
    assert_int_equal(fake->fakecuda_pageable_copies(), pageable);
}

/* Devices work only while a call waits for them. So bytes would be wrong if a transfer did not
 * wait. */
static int
start_lazy(void **state)
{
    return fake->fakecuda_set_mode("lazy") ? start(state) : -1;
}

static void
test_wrapped_memory_of_others_is_not_staged(void **state)
{
    ferry_int_buffer buffer;
    (void)state;
    int32_t *memory = lock_elsewhere(BYTES);
    number(memory, 5);
    OK(ferry_int_wrap_host(both.context, COUNT, memory, NULL, &buffer));
    OK(ferry_buffer_sync_to(buffer.raw, 0, FERRY_REST, 1, NULL));
    assert_went(1, 0);
    ferry_int_destroy(&buffer);
    assert_int_equal(driver->host_free(memory), 0);
}

/* Copies rows, first all of one range, then of two. */
static void
test_rows_lie_in_one_range(void **state)
{
    (void)state;
    int32_t *memory = lock_elsewhere(BYTES);
    ferry_stream *stream = ferry_context_stream(both.context, 1);
    number(memory, 7);
    OK(copy_rows_from(both.buffer.raw, NULL, 0, 512, memory, 512, 500, COUNT / 512, ON(stream)));
    assert_went(1, 0);
    OK(ferry_int_copy_to(both.buffer, 0, COUNT, both.result, NULL));
    for (int i = 0; i < COUNT; i++)
        if (i % 512 < 500)
            assert_int_equal(both.result[i], 7 + i);
    assert_int_equal(driver->host_free(memory), 0);

    memory = aligned_alloc(4096, BYTES);
    assert_non_null(memory);
    number(memory, 8);
    for (int half = 0; half < 2; half++)
        assert_int_equal(driver->host_register((char *)memory + half * (BYTES / 2), BYTES / 2,
                                               FERRYI_GPU_MEMHOSTREGISTER_PORTABLE),
                         0);
    OK(ferry_context_reset_stats(both.context));
    OK(copy_rows_from(both.buffer.raw, NULL, 0, 512, memory, 512, 500, COUNT / 512, ON(stream)));
    assert_went(0, 1);
    for (int half = 0; half < 2; half++)
        assert_int_equal(driver->host_unregister((char *)memory + half * (BYTES / 2)), 0);
    free(memory);
}

/* Checks that a range which begins or ends outside page-locked memory is staged. */
static void
test_memory_in_part_of_others_is_staged(void **state)
{
    (void)state;
    fake->fakecuda_set_strict("parts");
    int32_t *memory = aligned_alloc(4096, 2 * BYTES);
    assert_non_null(memory);
    assert_int_equal(driver->host_register((char *)memory + BYTES / 2, BYTES,
                                           FERRYI_GPU_MEMHOSTREGISTER_PORTABLE),
                     0);
    cross(memory, true);
    assert_went(0, 2);
    cross(memory + COUNT, true);
    assert_went(0, 2);
    cross(memory + COUNT / 2 + 1, true);
    assert_went(0, 2);
    cross(memory + COUNT / 2, true);
    assert_went(2, 0);
    assert_int_equal(driver->host_unregister((char *)memory + BYTES / 2), 0);
    free(memory);
}

/* Checks that memory is staged once it is no longer page-locked, and goes directly some time after
 * it is page-locked again. */
static void
test_answers_follow_the_memory(void **state)
{
    (void)state;
    const unsigned int flags = FERRYI_GPU_MEMHOSTREGISTER_PORTABLE;
    int32_t *memory = aligned_alloc(4096, BYTES);
    assert_non_null(memory);
    for (int round = 0; round < 2; round++) {
        ferry_transfer_stats stats = {0};
        assert_int_equal(driver->host_register(memory, BYTES, flags), 0);
        for (int i = 0; i < FERRYI_PIN_ASK_AGAIN && stats.direct.copies == 0; i++) {
            cross(memory, true);
            OK(ferry_context_get_transfer_stats(both.context, &stats));
        }
        assert_int_not_equal(stats.direct.copies, 0);
        assert_int_equal(driver->host_unregister(memory), 0);
        OK(ferry_context_reset_stats(both.context));
        cross(memory, true);
        assert_went(0, 2);
    }
    free(memory);
}

static void
test_few_questions_about_pageable_memory(void **state)
{
    (void)state;
    number(both.result, 1);
    uint64_t before = fake->fakecuda_calls_of(QUESTION);
    OK(ferry_int_copy_from(both.buffer, 0, QUARTER, both.result,
                           ON(ferry_context_stream(both.context, 1))));
    assert_int_equal(fake->fakecuda_calls_of(QUESTION) - before, 0);
    for (int round = 0; round < 10; round++)
        cross(both.result, true);
    assert_int_equal(fake->fakecuda_calls_of(QUESTION) - before, 1);
}

/* Two arrays are copied in turns, wherever chance places them: here at addresses of one set. */
static void
test_two_arrays_do_not_displace_each_other(void **state)
{
    (void)state;
    const size_t apart = FERRYI_PIN_PAGEABLE * ferryi_page_bytes();
    char *memory = aligned_alloc(4096, apart + BYTES);
    assert_non_null(memory);
    uint64_t before = fake->fakecuda_calls_of(QUESTION);
    for (int round = 0; round < 6; round++) {
        cross((int32_t *)memory, true);
        cross((int32_t *)(memory + apart), true);
    }
    assert_int_equal(fake->fakecuda_calls_of(QUESTION) - before, 2);
    free(memory);
}

/* Checks that a question which fails has no effect, whichever of its driver calls fails. Each round
 * uses another address, because Ferry remembers addresses that seemed pageable. */
static void
test_failing_questions_are_not_told(void **state)
{
    static const int codes[] = {FERRYI_GPU_ERROR_UNKNOWN, FERRYI_GPU_ERROR_NOT_SUPPORTED,
                                FERRYI_GPU_ERROR_INVALID_VALUE};
    (void)state;
    int32_t *memory = lock_elsewhere(2 * BYTES), *at = memory;
    ferry_stream *stream = ferry_context_stream(both.context, 1);
    assert_int_not_equal(ferry_int_copy_to(both.buffer, COUNT, 1, both.result, NULL), FERRY_OK);
    char *message = strdup(ferry_last_error());
    assert_non_null(message);
    for (int i = 0; i < 9; i++, at += 64) {
        number(at, i);
        OK(ferry_context_reset_stats(both.context));
        fake->fakecuda_fail_next(QUESTION, codes[i / 3], i % 3 + 1);
        OK(ferry_int_copy_from(both.buffer, 0, COUNT, at, ON(stream)));
        assert_went(0, 1);
        assert_string_equal(ferry_last_error(), message);
        OK(ferry_int_copy_to(both.buffer, 0, COUNT, both.result, NULL));
        assert_numbered(both.result, i);
    }
    cross(at, true);
    OK(ferry_context_reset_stats(both.context));
    cross(at, true);
    assert_went(2, 0);
    free(message);
    assert_int_equal(driver->host_free(memory), 0);
}

/* Checks that memory which Ferry has registered for another context is staged, since that context
 * may unregister it during the copy. */
static void
test_memory_of_another_context_is_staged(void **state)
{
    ferry_context_options options = {.devices = "cuda:0"};
    ferry_context *other;
    (void)state;
    OK(ferry_context_create(&options, &other));
    OK(ferry_context_register_host(other, both.result, BYTES));
    cross(both.result, true);
    assert_went(0, 2);
    OK(ferry_context_unregister_host(other, both.result));
    ferry_context_destroy(&other);
}

/* Checks that memory of which Ferry has registered a part is staged, and the driver not asked. */
static void
test_memory_that_ferry_registered_in_part_is_staged(void **state)
{
    (void)state;
    uint64_t before = fake->fakecuda_calls_of(QUESTION);
    int32_t *memory = aligned_alloc(4096, BYTES);
    assert_non_null(memory);
    for (int half = 0; half < 2; half++) {
        char *part = (char *)memory + half * (BYTES / 2);
        OK(ferry_context_register_host(both.context, part, BYTES / 2));
        cross(memory, true);
        assert_went(0, 2);
        OK(ferry_context_unregister_host(both.context, part));
    }
    assert_int_equal(fake->fakecuda_calls_of(QUESTION), before);
    free(memory);
}

/* -- the staging ring
 * -------------------------------------------------------------------------- */

/* Checks that the first long transfers page-lock no more than one ring of at most 16 MiB, chunk
 * by chunk, and later ones nothing. */
static void
test_long_transfers_page_lock_one_ring(void **state)
{
    (void)state;
    const size_t bytes = (size_t)64 << 20;
    for (int threads = 1; threads <= 8; threads *= 2) {
        char tuning[32];
        ferry_context *context;
        ferry_int_buffer buffer;
        snprintf(tuning, sizeof(tuning), "staging.threads=%d", threads);
        const ferry_context_options options = {
            .devices = "cuda:0", .pin_after = FERRY_PIN_NEVER, .tuning = tuning};
        OK(ferry_context_create(&options, &context));
        OK(ferry_int_create(context, bytes / 4, NULL, &buffer));
        int32_t *memory = calloc(1, bytes);
        assert_non_null(memory);
        const struct ferryi_ring *ring = &context->engine->ports[1].ring;
        const uint64_t before = fake->fakecuda_calls_of("cuMemHostAlloc");
        assert_true(ring->chunk_count * ring->chunk_bytes <= (size_t)16 << 20);
        for (int round = 0; round < 3; round++) {
            OK(ferry_int_copy_from(buffer, 0, bytes / 4, memory,
                                   ON(ferry_context_stream(context, 1))));
            OK(ferry_int_copy_to(buffer, 0, bytes / 4, memory, NULL));
            const uint64_t allocations = fake->fakecuda_calls_of("cuMemHostAlloc") - before;
            assert_true(allocations > 0 && allocations <= ring->chunk_count);
        }
        free(memory);
        ferry_int_destroy(&buffer);
        ferry_context_destroy(&context);
    }
}

int
main(void)
{
#define PINNED_TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
    const struct CMUnitTest tests[] = {
        PINNED_TEST(test_memory_of_others_is_not_staged),
        cmocka_unit_test_setup_teardown(test_memory_of_others_is_not_staged, start_lazy, end),
        PINNED_TEST(test_long_transfers_page_lock_one_ring),
        PINNED_TEST(test_wrapped_memory_of_others_is_not_staged),
        PINNED_TEST(test_rows_lie_in_one_range),
        PINNED_TEST(test_memory_in_part_of_others_is_staged),
        PINNED_TEST(test_answers_follow_the_memory),
        PINNED_TEST(test_few_questions_about_pageable_memory),
        PINNED_TEST(test_two_arrays_do_not_displace_each_other),
        PINNED_TEST(test_failing_questions_are_not_told),
        PINNED_TEST(test_memory_of_another_context_is_staged),
        PINNED_TEST(test_memory_that_ferry_registered_in_part_is_staged),
    };
    name_fakecuda();
    return cmocka_run_group_tests(tests, load_builds, NULL);
}
