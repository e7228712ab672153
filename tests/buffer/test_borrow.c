/* SPDX-License-Identifier: MIT */
/* Tests buffers that wrap memory of the program, on the host or a device, and how the wrap ends. */
#include "tests/buffer/work.h"
#include "tests/support/copies.h"

#define COUNT 1000

struct release {
    int calls;
    void *memory;
};

static void
note_release(void *memory, void *user)
{
    struct release *release = user;
    release->calls++;
    release->memory = memory;
}

/* A host wrap begins in the state HOST_ONLY over the user's memory. Ferry never frees, moves,
 * evicts or registers that memory. Unwrap and destroy wait for the last use, copy newer bytes back,
 * and then call on_release once. */
static void
test_a_host_wrap_brings_newer_bytes_back(void **state)
{
    fixture *f = *state;
    for (int unwraps = 0; unwraps <= 2; unwraps++) {
        struct release release = {0};
        ferry_wrap_options options = {.name = "mine", .on_release = note_release, .user = &release};
        int32_t memory[COUNT];
        ferry_buffer *b;
        ferry_scope scope;
        for (int i = 0; i < COUNT; i++)
            memory[i] = i;
        OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, &options, &b));
        STATE(b, HOST_ONLY);
        assert_true(take_snapshot(b).info.borrowed);
        assert_ptr_equal(open_at(f, b, 0, FERRY_READ, 0, FERRY_REST, &scope), memory);
        OK(ferry_scope_close(&scope));
        add_to(f, b, 1, 0, FERRY_REST, 10);
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_evict(b, 0));
        OK(ferry_buffer_invalidate(b, 0, FERRY_REST, 0));
        assert_ptr_equal(open_at(f, b, 0, FERRY_READ, 0, FERRY_REST, &scope), memory);
        OK(ferry_scope_close(&scope));
        add_to(f, b, 1, 0, FERRY_REST, 1);
        assert_int_equal(release.calls, 0);
        if (unwraps == 0)
            ferry_buffer_destroy(&b);
        else
            OK(ferry_buffer_unwrap(&b, unwraps == 1 ? NULL : f->stream));
        assert_null(b);
        if (unwraps == 2)
            OK(ferry_stream_synchronize(f->stream));
        assert_int_equal(release.calls, 1);
        assert_ptr_equal(release.memory, memory);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(memory[i], i + 11);
    }
}

/* A device wrap begins in the state DEVICE_ONLY. Its first use waits for the work that was queued
 * on the stream `ready_on`. */
static void
test_a_device_wrap_is_ordered_after_its_stream(void **state)
{
    fixture *f = *state;
    for (int place = 1; place <= f->places; place++) {
        struct release release = {0};
        ferry_wrap_options options = {.on_release = note_release, .user = &release};
        int32_t *memory = device_alloc(f, place, COUNT * sizeof(int32_t)), values[COUNT],
                got[COUNT];
        ferry_buffer *b;
        for (int i = 0; i < COUNT; i++)
            values[i] = i;
        device_write(f, place, memory, values,
                     sizeof(values)); /* queued on the default stream, not waited for */
        OK(ferry_buffer_wrap_device(f->context, INT, COUNT, stream_of(f, place), memory, &options,
                                    &b));
        STATE(b, DEVICE_ONLY);
        expect_counting(f, b, 0, 0, FERRY_REST, 0);
        add_to(f, b, 0, 0, FERRY_REST, 4);
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_evict(b, place));
        OK(ferry_buffer_unwrap(&b, NULL));
        assert_int_equal(release.calls, 1);
        assert_ptr_equal(release.memory, memory);
        device_read(f, place, got, memory, sizeof(got));
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(got[i], i + 4);
        device_free(f, place, memory);
    }
}

/* Writes to a read-only wrap fail with FERRY_ERROR_INVALID_ARGUMENT, and nothing is copied back. */
static void
test_read_only_wraps_refuse_writes(void **state)
{
    fixture *f = *state;
    static const int32_t memory[4] = {1, 2, 3, 4};
    ferry_wrap_options options = {.read_only = true};
    ferry_buffer *b, *view;
    ferry_scope scope;
    ferry_event *event;
    void *out;
    int32_t value = 9;
    const ferry_status refused = FERRY_ERROR_INVALID_ARGUMENT;
    OK(ferry_buffer_wrap_host(f->context, INT, 4, (void *)(uintptr_t)memory, &options, &b));
    OK(ferry_buffer_view(b, INT, 1, 2, &view));
    expect_counting(f, b, 1, 0, FERRY_REST, 1);
    snapshot before = take_snapshot(b);
    assert_true(before.info.read_only);
    FAILS(refused, ferry_buffer_open_host(view, INT, FERRY_UPDATE, 0, 1, &scope, &out));
    FAILS(refused, ferry_buffer_open_host(b, INT, FERRY_OVERWRITE, 0, 1, &scope, &out));
    FAILS(refused, ferry_buffer_open_device(b, INT, FERRY_UPDATE, 0, 1, f->stream, &scope, &out));
    FAILS(refused, ferry_buffer_copy_from(b, INT, 0, 1, &value, NULL));
    FAILS(refused, ferry_buffer_fill(b, INT, 0, 1, &value, NULL));
    FAILS(refused, ferry_buffer_copy(b, INT, 0, b, 2, 1, NULL));
    FAILS(refused, ferry_buffer_fill_async(b, INT, 0, 1, &value, ON(NULL), &event));
    FAILS(refused, ferry_buffer_mark_dirty(b, 0, 1, 0, NULL));
    FAILS(refused, ferry_buffer_discard(b, 0, 1));
    /* Invalidating the host's bytes of a read-only wrap is refused, because the next use at the
     * host would have to write to the wrapped memory. */
    FAILS(refused, ferry_buffer_invalidate(b, 0, FERRY_REST, 0));
    FAILS(refused, ferry_buffer_invalidate(view, 0, 1, 0));
    assert_true(ferry_buffer_is_current(b, 0));
    ferry_argument argument =
        ferry_argument_with(ferry_buffer_argument(b, INT, 0, 1), FERRY_UPDATE);
    FAILS(refused, ferry_scope_open_all(&argument, 1, 0, NULL, &scope, &out));
    expect_unchanged(b, &before);
    ferry_buffer_destroy(&view);
    OK(ferry_buffer_unwrap(&b, NULL));
}

/* The memory of a wrap may have a larger alignment than its elements need, here up to 1 MiB.
 * Replicas at other places are not given this alignment, because padding would cost memory. A view
 * whose elements need more than the alignment of the wrapped memory is refused. */
static void
test_the_address_of_a_wrap_costs_no_memory_elsewhere(void **state)
{
    fixture *f = *state;
    char *arena = aligned_alloc((size_t)2 << 20, (size_t)2 << 20);
    const ferry_field field = {.name = "x", .kind = FERRY_KIND_FLOAT, .bits = 32, .count = 1};
    ferry_element wide = {.name = "wide",
                          .bytes = 256,
                          .align = 256,
                          .kind = FERRY_KIND_STRUCT,
                          .fields = &field,
                          .field_count = 1};
    assert_non_null(arena);
    wide.identity = ferry_element_identity(&wide);
    for (size_t align = 4; align <= 1 << 20; align *= 2) {
        ferry_buffer *b, *view;
        OK(ferry_buffer_wrap_host(f->context, INT, COUNT, arena + align, NULL, &b));
        touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
        assert_true(take_snapshot(b).info.allocated_bytes <= 8192);
        ferry_status status = ferry_buffer_reinterpret(b, &wide, 0, 1, &view);
        assert_int_equal(status, align >= 256 ? FERRY_OK : FERRY_ERROR_WRONG_TYPE);
        if (status == FERRY_OK)
            ferry_buffer_destroy(&view);
        ferry_buffer_destroy(&b);
    }
    free(arena);
}

/* ferry_buffer_unwrap() fails with FERRY_ERROR_INVALID_STATE if the buffer is not a wrap, or if it
 * has other handles or views. A wrap stays a wrap after such a failure. */
static void
test_unwrap_needs_the_only_handle(void **state)
{
    fixture *f = *state;
    struct release release = {0};
    ferry_wrap_options options = {.on_release = note_release, .user = &release};
    int32_t memory[4] = {0, 1, 2, 3};
    ferry_buffer *plain = make_ints(f, 4), *b, *view, *second;
    ferry_scope scope;
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_unwrap(&plain, NULL));
    assert_non_null(plain);
    OK(ferry_buffer_wrap_host(f->context, INT, 4, memory, &options, &b));
    OK(ferry_buffer_view(b, INT, 0, 2, &view));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_unwrap(&b, NULL));
    ferry_buffer_destroy(&view);
    second = ferry_buffer_retain(b);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_unwrap(&b, NULL));
    ferry_buffer_destroy(&second);
    open_at(f, b, 1, FERRY_READ, 0, 1, &scope);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_unwrap(&b, NULL));
    OK(ferry_scope_close(&scope));
    assert_int_equal(release.calls, 0);
    add_to(f, b, 1, 0, FERRY_REST, 1);
    OK(ferry_buffer_unwrap(&b, NULL));
    assert_int_equal(release.calls, 1);
    assert_int_equal(memory[3], 4);
    /* A wrap of no memory is legal, too. */
    OK(ferry_buffer_wrap_host(f->context, INT, 0, NULL, &options, &b));
    ferry_buffer_destroy(&b);
    assert_int_equal(release.calls, 2);
    ferry_buffer_destroy(&plain);
}

/* A program may write to wrapped memory directly if it calls ferry_buffer_sync_to() before the
 * write and ferry_buffer_mark_dirty() after it. */
static void
test_outside_writes_are_marked(void **state)
{
    fixture *f = *state;
    int32_t memory[COUNT] = {0};
    ferry_buffer *b;
    OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, NULL, &b));
    add_to(f, b, 1, 0, FERRY_REST, 1);
    OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 0, NULL));
    memory[5] = 100;
    OK(ferry_buffer_mark_dirty(b, 5, 1, 0, NULL));
    expect_constant(f, b, 1, 5, 1, 100);
    expect_constant(f, b, 1, 6, FERRY_REST, 1);
    ferry_buffer_destroy(&b);
}

/* Prefetches and asynchronous calls may still be queued when a wrap ends. None of them touches the
 * wrapped memory after the end of the wrap. */
static void
test_queued_calls_end_before_the_wrap(void **state)
{
    fixture *f = *state;
    work w;
    work_open(f, &w);
    work_delay(2000);
    for (int way = 0; way < 4; way++) {
        int32_t memory[COUNT] = {0};
        ferry_buffer *b;
        OK(ferry_buffer_wrap_host(f->context, INT, COUNT, memory, NULL, &b));
        OK(launch_fill(&w, f->stream, b, 0, COUNT, 7));
        if (way & 1)
            OK(ferry_buffer_prefetch(b, 0, FERRY_REST, 0, NULL));
        else
            QUEUE(ferry_buffer_fill_async(b, INT, 0, COUNT, &(int){7}, ON(f->stream), &forgotten));
        if (way & 2)
            OK(ferry_buffer_unwrap(&b, NULL));
        else
            ferry_buffer_destroy(&b);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(memory[i], 7);
    }
    work_close(&w);
}

/* An empty wrap takes any pointer, because Ferry never uses it: of no memory, of memory that is not
 * aligned for the elements, and of the other side. */
static void
test_an_empty_wrap_takes_any_pointer(void **state)
{
    fixture *f = *state;
    char memory[16];
    void *pointers[] = {NULL, memory + 1, device_alloc(f, 1, 256)};
    for (size_t i = 0; i < LENGTH(pointers); i++) {
        for (int place = 0; place <= 1; place++) {
            struct release release = {0};
            ferry_wrap_options options = {.on_release = note_release, .user = &release};
            ferry_buffer *b;
            if (place)
                OK(ferry_buffer_wrap_device(f->context, DOUBLE, 0, f->stream, pointers[i], &options,
                                            &b));
            else
                OK(ferry_buffer_wrap_host(f->context, DOUBLE, 0, pointers[i], &options, &b));
            touch(f, b, 1 - place, FERRY_UPDATE, 0, FERRY_REST);
            OK(ferry_buffer_unwrap(&b, NULL));
            assert_int_equal(release.calls, 1);
            assert_ptr_equal(release.memory, pointers[i]);
        }
    }
    device_free(f, 1, pointers[2]);
}

static void
note_overlap(ferry_log_level level, const char *message, void *user)
{
    if (level == FERRY_LOG_WARNING && strstr(message, "wrap the same bytes"))
        *(int *)user += 1 + (strstr(message, "buffers \"second\" and \"first\"") == NULL);
}

/* A checked run warns of two wraps that share bytes if one of them may write. */
static void
test_checked_runs_compare_wraps(void **state)
{
    enum { BYTES = 64 };
    static const struct {
        size_t begin, count; /* of the second wrap; the first has ints 4 to 8 */
        bool first_reads, second_reads, warns;
    } cases[] = {
        {4, 4, false, false, true},  {4, 4, true, false, true},  {4, 4, false, true, true},
        {4, 4, true, true, false},   {7, 4, false, false, true}, {8, 4, false, false, false},
        {0, 4, false, false, false}, {0, 5, false, false, true}, {5, 0, false, false, false},
        {8, 4, true, false, false},  {8, 4, false, true, false}};
    static int memory[BYTES];
    (void)state;
    const char *outer = getenv("FERRY_DEBUG");
    char *kept = outer ? strdup(outer) : NULL;
    setenv("FERRY_DEBUG", "1", 1);
    for (size_t i = 0; i < LENGTH(cases); i++) {
        int warnings = 0;
        ferry_context *context;
        ferry_buffer *other, *first, *second;
        OK(ferry_context_create(&(ferry_context_options){.devices = "emulated,emulated",
                                                         .log = note_overlap,
                                                         .log_user = &warnings},
                                &context));
        OK(ferry_buffer_create(context, INT, BYTES, NULL, &other));
        OK(ferry_buffer_wrap_host(
            context, INT, 4, memory + 4,
            &(ferry_wrap_options){.name = "first", .read_only = cases[i].first_reads}, &first));
        OK(ferry_buffer_wrap_host(
            context, INT, cases[i].count, memory + cases[i].begin,
            &(ferry_wrap_options){.name = "second", .read_only = cases[i].second_reads}, &second));
        if (warnings != cases[i].warns)
            fail_msg("case %zu: %d warnings", i, warnings);
        DESTROY_BUFFERS(&second, &first, &other);
        ferry_context_destroy(&context);
    }
    kept ? setenv("FERRY_DEBUG", kept, 1) : unsetenv("FERRY_DEBUG");
    free(kept);
}

/* A wrap is destroyed, which brings its bytes back, while a separate thread ends its context. */
static void
test_a_wrap_ends_beside_its_context(void **state)
{
    enum { MANY = 4 << 20 };
    fixture *f = *state;
    const int seven = 7;
    atomic_int ended = 0;
    ferry_buffer *any = make_ints(f, 10), *wrap;
    ferry_context *other;
    int *memory = calloc(MANY, sizeof(*memory));
    assert_non_null(memory);
    OK(ferry_context_create(&(ferry_context_options){.log = count_end, .log_user = &ended},
                            &other));
    ferry_stream *stream = ferry_context_stream(other, 1);
    OK(ferry_buffer_wrap_host(other, INT, MANY, memory, NULL, &wrap));
    OK(ferry_buffer_fill(wrap, INT, 0, MANY, &seven, &(ferry_copy_options){.stream = stream}));
    OK(ferry_stream_synchronize(stream));
    OK(ferry_context_for_each_buffer(f->context, destroy_context, &other));
    ferry_buffer_destroy(&wrap);
    while (atomic_load(&ended) == 0)
        ferryi_sleep_ns(100000);
    assert_int_equal(memory[0], 7);
    assert_int_equal(memory[MANY - 1], 7);
    free(memory);
    ferry_buffer_destroy(&any);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_host_wrap_brings_newer_bytes_back),
        TEST(test_a_device_wrap_is_ordered_after_its_stream),
        TEST(test_read_only_wraps_refuse_writes),
        TEST(test_the_address_of_a_wrap_costs_no_memory_elsewhere),
        TEST(test_an_empty_wrap_takes_any_pointer),
        TEST(test_unwrap_needs_the_only_handle),
        TEST(test_outside_writes_are_marked),
        TEST(test_queued_calls_end_before_the_wrap),
        cmocka_unit_test(test_checked_runs_compare_wraps),
        TEST(test_a_wrap_ends_beside_its_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
