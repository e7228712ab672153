/* SPDX-License-Identifier: MIT */
/* Tests asynchronous copies that get no event. Later uses of the bytes wait for them. A failure is
 * not lost: the target buffer has lost its bytes, and the next call that reads them returns the
 * failure. */
#include <string.h>
#include <time.h>

#include "tests/buffer/files.h"
#include "tests/support/copies.h"

enum { COUNT = 100000 };

struct world {
    fixture f;
    atomic_int logged;
    ferry_buffer *target, *source;
    int32_t *memory;
};

static void
note(ferry_log_level level, const char *message, void *user)
{
    struct world *w = user;
    if (level == FERRY_LOG_ERROR && strstr(message, "it has no event"))
        atomic_fetch_add(&w->logged, 1);
}

static struct world *
world_open(void)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    fixture_open(&w->f, &(ferry_context_options){.log = note, .log_user = w});
    w->memory = calloc(COUNT, sizeof(*w->memory));
    for (int i = 0; i < COUNT; i++)
        w->memory[i] = i + 7;
    w->source = make_counting(&w->f, COUNT, 3);
    w->target = make_counting(&w->f, COUNT, 0);
    return w;
}

/* Checks that `failures` calls were logged. */
static void
world_close(struct world *w, int failures)
{
    DESTROY_BUFFERS(&w->target, &w->source);
    fixture_close(&w->f);
    assert_int_equal(atomic_load(&w->logged), failures);
    free(w->memory);
    free(w);
}

static ferry_status
read_value(ferry_buffer *buffer, size_t at, int32_t *out)
{
    return ferry_buffer_copy_to(buffer, INT, at, 1, out, NULL);
}

/* -- calls that succeed ------------------------------------------------------------------------ */

static void
test_later_uses_wait(void **state)
{
    (void)state;
    struct world *w = world_open();
    const int32_t value = 5;
    write_counting_file(path_of("input"), COUNT);
    for (int place = 0; place <= 1; place++) {
        const ferry_copy_options *options = ON(place ? w->f.stream : NULL);
        int32_t *out = calloc(COUNT, sizeof(*out));
        OK(ferry_buffer_copy_from_async(w->target, INT, 0, COUNT, w->memory, options, NULL));
        expect_counting(&w->f, w->target, 0, 0, COUNT, 7);
        OK(ferry_buffer_copy_async(w->target, INT, 0, w->source, 0, COUNT, options, NULL));
        OK(ferry_buffer_fill_async(w->target, INT, 0, 2, &value, options, NULL));
        OK(ferry_buffer_sync_to_async(w->target, 0, FERRY_REST, place, NULL, NULL));
        OK(read_value(w->target, 1, out));
        assert_int_equal(*out, 5);
        expect_counting(&w->f, w->target, 0, 2, COUNT - 2, 3);
        OK(ferry_buffer_load_async(w->target, INT, 0, COUNT, path_of("input"), 0, options, NULL));
        OK(ferry_buffer_store_async(w->target, INT, 0, COUNT, path_of("output"), 0, options, NULL));
        OK(ferry_buffer_copy_to_async(w->target, INT, 0, COUNT, out, options, NULL));
        /* A write waits for both. */
        OK(ferry_buffer_fill(w->target, INT, 0, COUNT, &value, NULL));
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(out[i], i);
        expect_counting_file(path_of("output"), COUNT);
        OK(ferry_copy_async(NULL, 0, NULL, NULL));
        OK(ferry_buffer_copy_from_async(w->target, INT, 0, 0, NULL, options, NULL));
        free(out);
    }
    world_close(w, 0);
}

/* -- calls that fail --------------------------------------------------------------------------- */

/* Checks that bytes of the target were lost by a failure with this status, and nothing else. */
static void
expect_lost(struct world *w, size_t begin, size_t end, ferry_status status, const char *part)
{
    int32_t value;
    FAILS(status, read_value(w->target, begin, &value));
    assert_non_null(strstr(ferry_last_error(), part));
    FAILS(status, read_value(w->target, end - 1, &value));
    if (begin > 0) {
        OK(read_value(w->target, begin - 1, &value));
        assert_int_equal(value, begin - 1);
    }
    OK(read_value(w->target, end, &value));
    assert_int_equal(value, end);
    OK(ferry_buffer_copy_from(w->target, INT, 0, COUNT, w->memory, NULL));
    expect_counting(&w->f, w->target, 0, 0, COUNT, 7);
    for (int i = 0; i < COUNT; i++)
        w->memory[i] = i;
    OK(ferry_buffer_copy_from(w->target, INT, 0, COUNT, w->memory, NULL));
    for (int i = 0; i < COUNT; i++)
        w->memory[i] = i + 7;
}

static bool
stop(size_t done, size_t total, void *user)
{
    (void)done;
    (void)total;
    (void)user;
    return false;
}

static void
test_failures_lose_the_target(void **state)
{
    (void)state;
    struct world *w = world_open();
    for (int place = 0; place <= 1; place++) {
        const ferry_copy_options options = {.stream = place ? w->f.stream : NULL,
                                            .chunk_bytes = 4096},
                                 stops = {.stream = options.stream,
                                          .chunk_bytes = 4096,
                                          .keep_going = stop};
        OK(ferry_buffer_load_async(w->target, INT, 10, 5000, path_of("none"), 0, &options, NULL));
        expect_lost(w, 10, 5010, FERRY_ERROR_IO, "none");
        OK(ferry_buffer_copy_from_async(w->target, INT, 0, 50000, w->memory, &stops, NULL));
        expect_lost(w, 0, 50000, FERRY_ERROR_CANCELLED, "cancel");
        OK(ferry_buffer_copy_async(w->target, INT, 100, w->source, 0, 50000, &stops, NULL));
        expect_lost(w, 100, 50100, FERRY_ERROR_CANCELLED, "cancel");
    }
    world_close(w, 6);
}

/* The bytes between the rows of a region are no bytes of its target. */
static void
test_a_failure_loses_no_gap(void **state)
{
    (void)state;
    struct world *w = world_open();
    int32_t value;
    const ferry_copy_region rows = {
        .target = {.buffer = w->target, .offset = 100, .row_pitch = 1000},
        .source = {.path = path_of("none"), .row_pitch = 10},
        .count = 10,
        .rows = 5};
    OK(ferry_copy_async(&rows, 1, NULL, NULL));
    for (size_t row = 0; row < 5; row++) {
        FAILS(FERRY_ERROR_IO, read_value(w->target, 100 + 1000 * row, &value));
        FAILS(FERRY_ERROR_IO, read_value(w->target, 109 + 1000 * row, &value));
        expect_counting(&w->f, w->target, 0, 110 + 1000 * row, 990, 0);
    }
    world_close(w, 1);
}

/* For keep_going: slow enough that a call that does not wait is seen. */
static bool
linger(size_t done, size_t total, void *user)
{
    (void)done;
    (void)total;
    (void)user;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return true;
}

/* ferry_buffer_wait_idle() says when the program may use its memory again. */
static void
test_waiting_for_a_buffer(void **state)
{
    (void)state;
    struct world *w = world_open();
    for (int place = 0; place <= 1; place++) {
        const ferry_copy_options options = {
            .stream = place ? w->f.stream : NULL, .chunk_bytes = 65536, .keep_going = linger};
        int32_t *copied = calloc(COUNT, sizeof(*copied));
        assert_non_null(copied);
        for (int i = 0; i < COUNT; i++)
            w->memory[i] = i + 7;
        OK(ferry_buffer_copy_from_async(w->target, INT, 0, COUNT, w->memory, &options, NULL));
        OK(ferry_buffer_wait_idle(w->target, place));
        memset(w->memory, 0, COUNT * sizeof(*w->memory));
        OK(ferry_buffer_copy_to_async(w->target, INT, 0, COUNT, copied, &options, NULL));
        OK(ferry_buffer_wait_idle(w->target, 0));
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(copied[i], i + 7);
        free(copied);
    }
    world_close(w, 0);
}

/* What has no target buffer is only logged. */
static void
test_failures_without_a_target_are_logged(void **state)
{
    (void)state;
    struct world *w = world_open();
    OK(ferry_buffer_store_async(w->target, INT, 0, COUNT, path_of("no/folder"), 0, NULL, NULL));
    OK(ferry_buffer_copy_to_async(w->target, INT, 0, COUNT, w->memory,
                                  &(ferry_copy_options){.keep_going = stop}, NULL));
    expect_counting(&w->f, w->target, 0, 0, COUNT, 0);
    world_close(w, 2);
}

/* What is refused at once changes nothing. */
static void
test_refusals_lose_nothing(void **state)
{
    (void)state;
    struct world *w = world_open();
    FAILS(FERRY_ERROR_OUT_OF_RANGE,
          ferry_buffer_copy_from_async(w->target, INT, 1, COUNT, w->memory, NULL, NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT,
          ferry_buffer_load_async(w->target, INT, 0, 1, NULL, 0, NULL, NULL));
    FAILS(FERRY_ERROR_UNSUPPORTED,
          ferry_copy_async(&(ferry_copy_region){.target = {.buffer = w->target},
                                                .source = {.memory = w->memory, .element = FLOAT},
                                                .count = 10},
                           1, &(ferry_copy_options){.convert = FERRY_CONVERT_CHECK}, NULL));
    expect_counting(&w->f, w->target, 0, 0, COUNT, 0);
    world_close(w, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_later_uses_wait),
        cmocka_unit_test(test_failures_lose_the_target),
        cmocka_unit_test(test_a_failure_loses_no_gap),
        cmocka_unit_test(test_waiting_for_a_buffer),
        cmocka_unit_test(test_failures_without_a_target_are_logged),
        cmocka_unit_test(test_refusals_lose_nothing),
    };
    return cmocka_run_group_tests_name("without an event", tests, files_setup, files_teardown);
}
