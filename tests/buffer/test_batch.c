/* SPDX-License-Identifier: MIT */
/* Batches: whatever is in them, they come to what their copies come to one by one, in as few submissions as can be. */
#include "tests/buffer/support.h"

#include <stdio.h>

#include "src/buffer/buffer.h"
#include "src/buffer/worker.h"
#include "tests/support/fakecuda.h"

enum { COUNT = 4000, BUFFERS = 3, MEMORIES = 2 };

/* Does the driver under us refuse batches, and registered memory in them? Then bytes go another way, and are the same. */
static bool
driver_is_strict(void)
{
    const char *rules = getenv("FAKECUDA_STRICT");
    return rules && rules[0];
}

static ferry_batch *
make_batch(fixture *f)
{
    ferry_batch *batch;
    OK(ferry_batch_create(f->context, &batch));
    assert_int_equal(ferry_batch_count(batch), 0);
    return batch;
}

/* -- random batches against plain arrays ----------------------------------------------------------- */

/* Buffers and memory of the caller, and what they must hold. */
struct arena {
    ferry_buffer *buffers[BUFFERS];
    int32_t model[BUFFERS + MEMORIES][COUNT];
    int32_t memory[MEMORIES][COUNT];
};

static void
start_arena(fixture *f, struct arena *arena, uint64_t *seed)
{
    for (int b = 0; b < BUFFERS; b++) {
        arena->buffers[b] = make_ints(f, COUNT);
        memset(arena->model[b], 0, sizeof(arena->model[b]));
        for (int part = 0; part < 4; part++) {
            size_t offset = random_below(seed, COUNT), count = random_below(seed, COUNT - offset + 1);
            int first = (int)random_below(seed, 1000000);
            write_counting(f, arena->buffers[b], (int)random_below(seed, (size_t)f->places + 1), offset, count, first);
            for (size_t i = offset; i < offset + count; i++)
                arena->model[b][i] = (int32_t)i + first;
        }
    }
    for (int m = 0; m < MEMORIES; m++) {
        for (int i = 0; i < COUNT; i++)
            arena->memory[m][i] = arena->model[BUFFERS + m][i] = -(m * COUNT + i) - 1;
    }
}

/* One random copy, in the batch and in the model. Sides are numbered: buffers, then memories. */
static void
add_random(ferry_batch *batch, struct arena *arena, uint64_t *seed, size_t largest)
{
    size_t target = random_below(seed, BUFFERS + MEMORIES), source = random_below(seed, target < BUFFERS ? BUFFERS + MEMORIES : BUFFERS);
    size_t count = 1 + random_below(seed, largest), to = random_below(seed, COUNT - count), from = random_below(seed, COUNT - count);
    if (target >= BUFFERS)
        OK(ferry_batch_copy_to(batch, arena->buffers[source], INT, from, arena->memory[target - BUFFERS] + to, count));
    else if (source >= BUFFERS)
        OK(ferry_batch_copy_from(batch, arena->buffers[target], INT, to, arena->memory[source - BUFFERS] + from, count));
    else
        OK(ferry_batch_copy(batch, arena->buffers[target], INT, to, arena->buffers[source], from, count));
    memmove(arena->model[target] + to, arena->model[source] + from, count * sizeof(int32_t));
}

static void
check_arena(fixture *f, struct arena *arena)
{
    static int32_t got[COUNT];
    for (int b = 0; b < BUFFERS; b++) {
        for (int place = 0; place <= f->places; place++) {
            ferry_scope scope;
            void *memory = open_at(f, arena->buffers[b], place, FERRY_READ, 0, FERRY_REST, &scope);
            place_read(f, place, got, memory, sizeof(got));
            OK(ferry_scope_close(&scope));
            for (int i = 0; i < COUNT; i++)
                if (got[i] != arena->model[b][i])
                    fail_msg("seed %llu: element %d of buffer %d at place %d is %d instead of %d", (unsigned long long)support_seed, i, b,
                             place, got[i], arena->model[b][i]);
        }
        ferry_buffer_destroy(&arena->buffers[b]);
    }
    for (int m = 0; m < MEMORIES; m++)
        if (memcmp(arena->memory[m], arena->model[BUFFERS + m], sizeof(arena->memory[m])) != 0)
            fail_msg("seed %llu: memory %d of the caller differs", (unsigned long long)support_seed, m);
}

/* "any batch, overlaps included, equals its copies one by one in order" */
static void
test_a_batch_equals_its_copies_one_by_one(void **state)
{
    fixture *f = *state;
    static struct arena arena;
    for (uint64_t round = 1; round <= 40; round++) {
        uint64_t seed = support_seed = round;
        ferry_batch *batch = make_batch(f);
        start_arena(f, &arena, &seed);
        size_t copies = 1 + random_below(&seed, 120), largest = 1 + random_below(&seed, round % 3 ? 60 : COUNT / 2);
        for (size_t i = 0; i < copies; i++)
            add_random(batch, &arena, &seed, largest);
        assert_int_equal(ferry_batch_count(batch), copies);
        if (round % 2) {
            OK(ferry_batch_submit(batch));
        } else {
            ferry_event *event;
            size_t place = random_below(&seed, (size_t)f->places + 1);
            OK(ferry_batch_submit_async(batch, place ? stream_of(f, (int)place) : NULL, &event));
            ferry_batch_destroy(&batch); /* "may be destroyed at once" */
            OK(ferry_event_synchronize(event));
            ferry_event_destroy(&event);
        }
        check_arena(f, &arena);
        ferry_batch_destroy(&batch);
    }
    support_seed = 0;
}

/* -- submissions ----------------------------------------------------------------------------------- */

/* An order of 0 ... count - 1 without neighbours. */
static size_t
scattered(size_t i, size_t count)
{
    return i * 389 % count;
}

/* "A batch of 1000 disjoint ranges is one submission" */
static void
test_a_thousand_disjoint_ranges_are_one_submission(void **state)
{
    fixture *f = *state;
    enum { RANGES = 1000 };
    static int32_t values[4 * RANGES], got[4 * RANGES];
    for (int i = 0; i < 4 * RANGES; i++)
        values[i] = i + 7;
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *b = make_ints(f, 4 * RANGES), *other = make_ints(f, 4 * RANGES);
        write_counting(f, b, place, 0, FERRY_REST, 0);
        write_counting(f, other, place, 0, FERRY_REST, -1);
        ferry_batch *in = make_batch(f), *out = make_batch(f), *across = make_batch(f);
        for (size_t i = 0; i < RANGES; i++) {
            size_t at = 4 * scattered(i, RANGES);
            OK(ferry_batch_copy_from(in, b, INT, at, values + at, 3));
            OK(ferry_batch_copy_to(out, b, INT, at, got + at, 3));
            OK(ferry_batch_copy(across, other, INT, at, b, at, 3));
        }
        ferry_batch *batches[] = {in, across, out};
        for (int i = 0; i < 3; i++) {
            ferry_transfer_stats before = moved(f), after;
            OK(ferry_batch_submit(batches[i]));
            after = moved(f);
            assert_int_equal(after.batch_submissions - before.batch_submissions, 1);
            assert_int_equal(after.batch_pieces - before.batch_pieces, RANGES);
            ferry_transfer_count is[] = {after.upload, after.device, after.download};
            ferry_transfer_count was[] = {before.upload, before.device, before.download};
            bool crosses = place > 0 && !f->coherent;
            assert_int_equal(is[i].copies - was[i].copies, crosses);
            assert_int_equal(is[i].bytes - was[i].bytes, crosses ? 3 * RANGES * 4 : 0);
            /* Far from one call for each range. */
            assert_true(driver_is_strict() || after.device_calls - before.device_calls < 100);
        }
        for (int i = 0; i < 4 * RANGES; i++)
            if (i % 4 != 3)
                assert_int_equal(got[i], i + 7);
        assert_true(ferry_buffer_is_current(other, place));
        expect_counting(f, other, 0, 3, 1, -1);
        expect_counting(f, other, 0, 4, 3, 7);
        for (int i = 0; i < 3; i++)
            ferry_batch_destroy(&batches[i]);
        ferry_buffer_destroy(&b);
        ferry_buffer_destroy(&other);
    }
}

/* "adjacent ranges are joined" */
static void
test_adjacent_ranges_are_joined(void **state)
{
    fixture *f = *state;
    static int32_t values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = i + 1;
    ferry_buffer *b = make_ints(f, COUNT);
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    for (int in_order = 0; in_order < 2; in_order++) {
        ferry_batch *batch = make_batch(f);
        for (size_t i = 0; i < 100; i++) {
            size_t at = 40 * (in_order ? i : scattered(i, 100));
            OK(ferry_batch_copy_from(batch, b, INT, at, values + at, 40));
        }
        ferry_transfer_stats before = moved(f), after;
        OK(ferry_batch_submit(batch));
        after = moved(f);
        assert_int_equal(after.batch_pieces - before.batch_pieces, 1);
        ferry_batch_destroy(&batch);
    }
    expect_counting(f, b, 0, 0, FERRY_REST, 1);
    ferry_buffer_destroy(&b);
}

/* "cut into levels of independent copies, one submission per level" */
static void
test_dependent_copies_take_a_submission_for_each_level(void **state)
{
    fixture *f = *state;
    int32_t first[10], second[10], between[10] = {0};
    for (int i = 0; i < 10; i++) {
        first[i] = 100 + i;
        second[i] = 200 + i;
    }
    ferry_buffer *b = make_ints(f, COUNT);
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    ferry_batch *batch = make_batch(f);
    OK(ferry_batch_copy_from(batch, b, INT, 0, first, 10));    /* level 0 */
    OK(ferry_batch_copy_from(batch, b, INT, 1000, second, 5)); /* level 0, disjoint */
    OK(ferry_batch_copy_from(batch, b, INT, 5, second, 10));   /* level 1: writes what the first wrote */
    OK(ferry_batch_copy_to(batch, b, INT, 0, between, 10));    /* level 2: reads both */
    OK(ferry_batch_copy_from(batch, b, INT, 2000, between, 10)); /* level 3: by way of the caller's memory */
    ferry_transfer_stats before = moved(f), after;
    OK(ferry_batch_submit(batch));
    after = moved(f);
    assert_int_equal(after.batch_submissions - before.batch_submissions, 4);
    int32_t expected[10] = {100, 101, 102, 103, 104, 200, 201, 202, 203, 204};
    assert_memory_equal(between, expected, sizeof(expected));
    int32_t got[10];
    OK(ferry_buffer_copy_to(b, INT, 2000, got, 10));
    assert_memory_equal(got, expected, sizeof(expected));
    ferry_batch_destroy(&batch);
    ferry_buffer_destroy(&b);
}

/* "behaves as memmove" */
static void
test_one_copy_inside_a_buffer_may_overlap_itself(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        write_counting(f, b, place, 0, FERRY_REST, 0);
        ferry_batch *batch = make_batch(f);
        OK(ferry_batch_copy(batch, b, INT, 100, b, 0, 1000));
        OK(ferry_batch_copy(batch, b, INT, 50, b, 50, 10)); /* onto itself: nothing */
        OK(ferry_batch_submit(batch));
        expect_counting(f, b, place, 0, 100, 0);
        expect_counting(f, b, place, 100, 1000, -100);
        expect_counting(f, b, place, 1100, FERRY_REST, 0);
        ferry_batch_destroy(&batch);
        ferry_buffer_destroy(&b);
    }
}

/* "copy_from over a dirty device copy does not first fetch it", and what is not in the batch stays where it is. */
static void
test_a_batch_moves_exactly_its_ranges(void **state)
{
    fixture *f = *state;
    static int32_t values[100];
    ferry_buffer *b = make_ints(f, COUNT);
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    ferry_batch *batch = make_batch(f);
    for (size_t i = 0; i < 50; i++)
        OK(ferry_batch_copy_from(batch, b, INT, i * 20, values + 2 * i, 2));
    ferry_transfer_stats before = moved(f);
    OK(ferry_batch_submit(batch));
    expect_moved(f, &before, 400, 0);
    assert_true(ferry_buffer_is_current(b, 1));
    assert_true(f->coherent || !ferry_buffer_is_current(b, 0));
    ferry_batch_destroy(&batch);
    ferry_buffer_destroy(&b);
}

/* -- conflicts ------------------------------------------------------------------------------------- */

/* "Conflicts are found for exactly the ranges of the copies, before anything moved." */
static void
test_a_batch_conflicts_on_its_ranges_only(void **state)
{
    fixture *f = *state;
    int32_t values[20] = {0};
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_batch *batch = make_batch(f), *reading = make_batch(f);
    for (size_t i = 0; i < 10; i++) {
        OK(ferry_batch_copy_from(batch, b, INT, 100 * i, values, 10));
        OK(ferry_batch_copy_to(reading, b, INT, 100 * i, values, 10));
    }
    ferry_scope scope;
    open_at(f, b, 0, FERRY_UPDATE, 10, 90, &scope); /* between two of them */
    OK(ferry_batch_submit(batch));
    OK(ferry_scope_close(&scope));
    open_at(f, b, 0, FERRY_READ, 505, 1, &scope);
    OK(ferry_batch_submit(reading));
    snapshot before = take_snapshot(b);
    FAILS(FERRY_ERROR_BUSY, ferry_batch_submit(batch));
    FAILS(FERRY_ERROR_BUSY, ferry_batch_submit_async(batch, NULL, NULL));
    expect_unchanged(b, &before);
    OK(ferry_scope_close(&scope));
    open_at(f, b, 0, FERRY_UPDATE, 909, 1, &scope);
    FAILS(FERRY_ERROR_BUSY, ferry_batch_submit(reading));
    OK(ferry_scope_close(&scope));
    OK(ferry_batch_submit(batch));
    ferry_batch_destroy(&batch);
    ferry_batch_destroy(&reading);
    ferry_buffer_destroy(&b);
}

struct crossing_threads {
    fixture *f;
    ferry_buffer *a, *b;
    int which;
};

/* The even ranges of one buffer to the odd ones of the other, or the other way round. */
static void
cross(void *argument)
{
    struct crossing_threads *t = argument;
    for (int round = 0; round < 50; round++) {
        ferry_batch *batch;
        OK(ferry_batch_create(t->f->context, &batch));
        for (size_t i = 0; i < 20; i++) {
            size_t even = 40 * i, odd = 40 * i + 20;
            OK(ferry_batch_copy(batch, t->which ? t->a : t->b, INT, odd, t->which ? t->b : t->a, even, 20));
            OK(ferry_batch_copy(batch, t->which ? t->b : t->a, INT, odd, t->which ? t->a : t->b, even, 20));
        }
        OK(ferry_batch_submit(batch));
        ferry_batch_destroy(&batch);
    }
}

/* Batches that want the same buffers in different orders wait for each other, and never for ever. */
static void
test_batches_of_several_threads_come_to_an_end(void **state)
{
    fixture *f = *state;
    struct crossing_threads sides[2];
    ferryi_thread threads[2];
    ferry_buffer *a = make_counting(f, 800, 0), *b = make_counting(f, 800, 10000);
    write_counting(f, b, 1, 0, FERRY_REST, 10000);
    for (int i = 0; i < 2; i++) {
        sides[i] = (struct crossing_threads){f, a, b, i};
        OK(ferryi_thread_start(&threads[i], "cross", cross, &sides[i]));
    }
    for (int i = 0; i < 2; i++)
        ferryi_thread_join(threads[i]);
    for (size_t i = 0; i < 20; i++) {
        expect_counting(f, a, 0, 40 * i, 20, 0);
        expect_counting(f, a, 0, 40 * i + 20, 20, 10000 - 20);
        expect_counting(f, b, 1, 40 * i, 20, 10000);
        expect_counting(f, b, 1, 40 * i + 20, 20, -20);
    }
    ferry_buffer_destroy(&a);
    ferry_buffer_destroy(&b);
}

/* -- asynchronously -------------------------------------------------------------------------------- */

/* "among Ferry's calls the order is that of submission"; "buffers are written at its place" */
static void
test_async_batches_keep_the_order_of_submission(void **state)
{
    fixture *f = *state;
    static int32_t values[2][COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[0][i] = i + 1;
        values[1][i] = i + 2;
    }
    for (int place = 1; place <= f->places; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        ferry_batch *batch = make_batch(f);
        ferry_event *event;
        for (int turn = 0; turn < 2; turn++) {
            for (size_t i = 0; i < COUNT / 20; i++)
                OK(ferry_batch_copy_from(batch, b, INT, 20 * i, values[turn] + 20 * i, 20 - turn));
            OK(ferry_batch_submit_async(batch, stream_of(f, place), turn ? &event : NULL));
            ferry_batch_clear(batch);
            assert_int_equal(ferry_batch_count(batch), 0);
        }
        /* A scope waits for both. */
        expect_counting(f, b, place, 0, 19, 2);
        expect_counting(f, b, place, 19, 1, 1);
        assert_true(ferry_buffer_is_current(b, place));
        OK(ferry_stream_wait_event(stream_of(f, place), event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        OK(ferry_batch_submit_async(batch, stream_of(f, place), &event)); /* of nothing */
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        ferry_batch_destroy(&batch);
        ferry_buffer_destroy(&b);
    }
}

/* "cancelled ones report FERRY_ERROR_CANCELLED and leave the map truthful" */
static void
test_a_cancelled_batch_leaves_the_map_truthful(void **state)
{
    fixture *f = *state;
    enum { MANY = 1 << 19, RANGE = 512 };
    static int32_t values[MANY], got[MANY];
    for (int i = 0; i < MANY; i++)
        values[i] = i + 5;
    ferry_buffer *b = make_ints(f, MANY);
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    ferry_batch *batch = make_batch(f);
    for (size_t i = 0; i < MANY / RANGE; i++)
        OK(ferry_batch_copy_from(batch, b, INT, RANGE * i, values + RANGE * i, RANGE - 1));
    for (int round = 0; round < 5; round++) {
        ferry_event *event;
        OK(ferry_batch_submit_async(batch, NULL, &event));
        OK(ferry_event_cancel(event));
        ferry_status status = ferry_event_synchronize(event);
        if (status != FERRY_OK) {
            assert_int_equal(status, FERRY_ERROR_CANCELLED);
            assert_non_null(strstr(ferry_last_error(), "arrived"));
        }
        ferry_event_destroy(&event);
        OK(ferry_buffer_copy_to(b, INT, 0, got, MANY));
        for (int i = 0; i < MANY; i++)
            assert_true(got[i] == i || (got[i] == i + 5 && i % RANGE != RANGE - 1));
    }
    ferry_batch_destroy(&batch);
    ferry_buffer_destroy(&b);
}

/* -- the list -------------------------------------------------------------------------------------- */

/* "The batch keeps the buffer alive until it is cleared", "which keeps them: it may be submitted again" */
static void
test_a_batch_keeps_its_buffers_and_its_copies(void **state)
{
    fixture *f = *state;
    int32_t value = 1, got = 0;
    ferry_buffer *b = make_ints(f, 10), *view;
    ferry_batch *batch = make_batch(f);
    OK(ferry_buffer_view(b, INT, 4, 2, &view));
    OK(ferry_batch_copy_from(batch, view, INT, 1, &value, 1));
    OK(ferry_batch_copy_from(batch, b, INT, 0, &value, 0)); /* nothing */
    assert_int_equal(ferry_batch_count(batch), 1);
    ferry_buffer_destroy(&view);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_resize(b, 20)); /* "counts as a view of it" */
    OK(ferry_batch_submit(batch));
    value = 2;
    OK(ferry_batch_submit(batch));
    OK(ferry_buffer_copy_to(b, INT, 5, &got, 1));
    assert_int_equal(got, 2);
    ferry_batch_clear(batch);
    OK(ferry_buffer_resize(b, 20));
    OK(ferry_batch_submit(batch)); /* nothing */
    OK(ferry_batch_copy_to(batch, b, INT, 5, &got, 1));
    ferry_buffer_destroy(&b);
    got = 0;
    OK(ferry_batch_submit(batch));
    assert_int_equal(got, 2);
    ferry_batch_destroy(&batch);
    ferry_batch_destroy(&batch);
    ferry_batch_destroy(NULL);
    ferry_batch_clear(NULL);
    assert_int_equal(ferry_batch_count(NULL), 0);
}

/* The sum of what a batch moves is counted before anything moves. */
static void
test_a_batch_of_more_bytes_than_a_size(void **state)
{
    fixture *f = *state;
    ferry_buffer *a, *b;
    ferry_batch *batch;
    OK(ferry_buffer_create(f->context, BYTE, PTRDIFF_MAX, NULL, &a));
    OK(ferry_buffer_create(f->context, BYTE, PTRDIFF_MAX, NULL, &b));
    OK(ferry_batch_create(f->context, &batch));
    for (int i = 0; i < 3; i++)
        OK(ferry_batch_copy(batch, a, BYTE, 0, b, 0, PTRDIFF_MAX));
    ferry_transfer_stats before = moved(f);
    FAILS(FERRY_ERROR_OVERFLOW, ferry_batch_submit(batch));
    FAILS(FERRY_ERROR_OVERFLOW, ferry_batch_submit_async(batch, NULL, NULL));
    expect_moved(f, &before, 0, 0);
    STATE(a, UNINITIALIZED);
    ferry_batch_destroy(&batch);
    ferry_buffer_destroy(&a);
    ferry_buffer_destroy(&b);
}

static void
test_adding_checks_everything(void **state)
{
    fixture *f = *state;
    const ferry_status invalid = FERRY_ERROR_INVALID_ARGUMENT, range = FERRY_ERROR_OUT_OF_RANGE;
    int32_t value = 1;
    ferry_batch *batch = make_batch(f), *none;
    ferry_buffer *b = make_counting(f, 10, 0), *foreign;
    ferry_context *other;
    OK(ferry_context_create(&(ferry_context_options){.devices = "host"}, &other));
    OK(ferry_buffer_create(other, INT, 10, NULL, &foreign));

    FAILS(invalid, ferry_batch_create(NULL, &none));
    FAILS(invalid, ferry_batch_create(f->context, NULL));
    FAILS(invalid, ferry_batch_copy_from(NULL, b, INT, 0, &value, 1));
    FAILS(invalid, ferry_batch_copy_from(batch, NULL, INT, 0, &value, 1));
    FAILS(invalid, ferry_batch_copy_from(batch, b, NULL, 0, &value, 1));
    FAILS(invalid, ferry_batch_copy_from(batch, b, INT, 0, NULL, 1));
    FAILS(range, ferry_batch_copy_from(batch, b, INT, 10, &value, 1));
    FAILS(range, ferry_batch_copy_from(batch, b, INT, (size_t)-2, &value, 5));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_batch_copy_from(batch, b, DOUBLE, 0, &value, 1));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_batch_copy_from(batch, foreign, INT, 0, &value, 1));
    FAILS(invalid, ferry_batch_copy_to(NULL, b, INT, 0, &value, 1));
    FAILS(invalid, ferry_batch_copy_to(batch, b, INT, 0, NULL, 1));
    FAILS(range, ferry_batch_copy_to(batch, b, INT, 9, &value, 2));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_batch_copy_to(batch, foreign, INT, 0, &value, 1));
    FAILS(invalid, ferry_batch_copy(NULL, b, INT, 0, b, 5, 1));
    FAILS(invalid, ferry_batch_copy(batch, b, INT, 0, NULL, 5, 1));
    FAILS(range, ferry_batch_copy(batch, b, INT, 0, b, 9, 2));
    FAILS(range, ferry_batch_copy(batch, b, INT, 9, b, 0, 2));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_batch_copy(batch, b, INT, 0, foreign, 0, 1));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_batch_copy(batch, foreign, INT, 0, foreign, 5, 1));
    FAILS(invalid, ferry_batch_submit(NULL));
    FAILS(invalid, ferry_batch_submit_async(NULL, NULL, NULL));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_batch_submit_async(batch, ferry_context_stream(other, 1), NULL));
    assert_int_equal(ferry_batch_count(batch), 0);

    ferry_batch *stale;
    OK(ferry_batch_create(other, &stale));
    OK(ferry_batch_copy_from(stale, foreign, INT, 0, &value, 1));
    ferry_context_destroy(&other);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_batch_submit(stale));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_batch_submit_async(stale, NULL, NULL));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_batch_copy_from(stale, foreign, INT, 0, &value, 1));
    ferry_batch_destroy(&stale);
    ferry_buffer_destroy(&foreign);
    ferry_batch_destroy(&batch);
    ferry_buffer_destroy(&b);
}

/* "a write to a read-only wrap", and wrapped memory as a target */
static void
test_wrapped_memory_in_a_batch(void **state)
{
    fixture *f = *state;
    int32_t fixed[4] = {1, 2, 3, 4}, open[4] = {0}, value = 9;
    ferry_buffer *constant, *b;
    OK(ferry_buffer_wrap_host(f->context, INT, fixed, 4, &(ferry_wrap_options){.read_only = true}, &constant));
    OK(ferry_buffer_wrap_host(f->context, INT, open, 4, NULL, &b));
    ferry_batch *batch = make_batch(f);
    OK(ferry_batch_copy(batch, b, INT, 1, constant, 0, 3));
    OK(ferry_batch_submit(batch));
    assert_int_equal(open[3], 3);
    OK(ferry_batch_copy_from(batch, constant, INT, 0, &value, 1));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_batch_submit(batch));
    assert_int_equal(fixed[0], 1);
    ferry_batch_destroy(&batch);
    ferry_buffer_destroy(&b);
    ferry_buffer_destroy(&constant);
}

/* What was never written reads as zero, and writes zeros. */
static void
test_unwritten_bytes_are_copied_as_zeros(void **state)
{
    fixture *f = *state;
    ferry_buffer *empty = make_ints(f, COUNT), *b = make_ints(f, COUNT);
    static int32_t got[COUNT];
    write_counting(f, b, 1, 0, FERRY_REST, 1);
    write_counting(f, empty, 1, 100, 10, 0);
    memset(got, 0x55, sizeof(got));
    ferry_batch *batch = make_batch(f);
    OK(ferry_batch_copy(batch, b, INT, 0, empty, 50, 200));
    OK(ferry_batch_copy_to(batch, empty, INT, 0, got, 200));
    OK(ferry_batch_submit(batch));
    for (int i = 0; i < 200; i++)
        assert_int_equal(got[i], i >= 100 && i < 110 ? i : 0);
    expect_constant(f, b, 1, 0, 50, 0);
    expect_counting(f, b, 1, 50, 10, 50);
    expect_constant(f, b, 0, 60, 140, 0);
    expect_counting(f, b, 0, 200, FERRY_REST, 1);
    ferry_batch_destroy(&batch);
    ferry_buffer_destroy(&empty);
    ferry_buffer_destroy(&b);
}

/* Pieces larger than a staging chunk, odd sizes and addresses, into pageable and pinned copies. */
static void
test_pieces_of_every_size_arrive(void **state)
{
    ferry_context_options options = {.staging_chunk_bytes = 4096, .staging_chunk_count = 2};
    static unsigned char values[100003], got[100003];
    fixture small;
    (void)state;
    for (size_t i = 0; i < sizeof(values); i++)
        values[i] = (unsigned char)(i * 31 + i / 256);
    for (int memory = FERRY_MEMORY_PINNED; memory <= FERRY_MEMORY_PAGEABLE; memory++) {
        fixture_open(&small, &options);
        ferry_buffer *a, *b;
        ferry_buffer_options host = {.memory = (ferry_memory_kind)memory};
        OK(ferry_buffer_create(small.context, BYTE, sizeof(values), &host, &a));
        OK(ferry_buffer_create(small.context, BYTE, sizeof(values), &host, &b));
        touch(&small, a, 1, FERRY_OVERWRITE, 0, FERRY_REST);
        touch(&small, b, 0, FERRY_OVERWRITE, 0, FERRY_REST);
        ferry_batch *batch = make_batch(&small);
        size_t bytes = 1;
        for (size_t at = 0; at < sizeof(values); at += bytes, bytes = bytes * 3 / 2 + 1)
            OK(ferry_batch_copy_from(batch, a, BYTE, at, values + at, at + bytes < sizeof(values) ? bytes : sizeof(values) - at));
        for (size_t at = 0; at < 50000; at += 2500)
            OK(ferry_batch_copy(batch, b, BYTE, at, a, at + 777, 2400));
        for (size_t at = 0; at < 99000; at += 9000)
            OK(ferry_batch_copy_to(batch, a, BYTE, at + 1, got + at, 8999));
        OK(ferry_batch_submit(batch));
        for (size_t i = 0; i < 99000; i++)
            if (i % 9000 < 8999)
                assert_int_equal(got[i], values[i + 1]);
        OK(ferry_buffer_copy_to(b, BYTE, 0, got, 50000));
        for (size_t i = 0; i < 50000; i++)
            if (i % 2500 < 2400)
                assert_int_equal(got[i], values[i + 777]);
        ferry_batch_destroy(&batch);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
        fixture_close(&small);
    }
}

/* Memory that the program registered goes straight, and is the program's again when the batch is done. */
static void
test_registered_memory_goes_straight(void **state)
{
    fixture *f = *state;
    enum { BYTES = COUNT * sizeof(int32_t) };
    ferry_place_info info;
    OK(ferry_context_place_info(f->context, 1, &info));
    if (!(info.capabilities & FERRY_CAN_PIN))
        return;
    int32_t *memory = aligned_alloc(4096, (BYTES + 4095) / 4096 * 4096), elsewhere[10] = {0};
    assert_non_null(memory);
    for (int i = 0; i < COUNT; i++)
        memory[i] = i;
    OK(ferry_context_register_host(f->context, memory, (BYTES + 4095) / 4096 * 4096));
    ferry_buffer *b = make_ints(f, COUNT);
    write_counting(f, b, 1, 0, FERRY_REST, 5);
    ferry_batch *in = make_batch(f), *out = make_batch(f);
    for (size_t at = 0; at + 20 < COUNT; at += 20) {
        OK(ferry_batch_copy_from(in, b, INT, at, memory + at, 15));
        OK(ferry_batch_copy_to(out, b, INT, at, memory + at, 20));
    }
    ferry_transfer_stats before = moved(f), after;
    OK(ferry_batch_submit(in));
    memset(memory, 0, BYTES);
    OK(ferry_batch_submit(out));
    for (int i = 0; i < COUNT - 20; i++)
        assert_int_equal(memory[i], i % 20 < 15 ? i : i + 5);
    after = moved(f);
    uint64_t staged = driver_is_strict() ? 2 : 0;
    assert_int_equal(after.direct.copies - before.direct.copies, 2 - staged);
    assert_int_equal(after.staged.copies - before.staged.copies, staged);
    /* One piece of ordinary memory, and all of it is staged: no driver call reads that. */
    OK(ferry_batch_copy_from(in, b, INT, COUNT - 10, elsewhere, 10));
    OK(ferry_batch_submit(in));
    after = moved(f);
    assert_int_equal(after.staged.copies - before.staged.copies, staged + 1);
    expect_constant(f, b, 0, COUNT - 10, 10, 0);
    OK(ferry_context_unregister_host(f->context, memory));
    ferry_batch_destroy(&in);
    ferry_batch_destroy(&out);
    ferry_buffer_destroy(&b);
    free(memory);
}

/* -- what the driver is asked ---------------------------------------------------------------------- */

struct scatter_entry {
    char *target;
    const char *source;
    uint64_t bytes;
};

/* What the library's kernel does on a device. */
static void
scatter(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    const struct scatter_entry *entries = *(const struct scatter_entry **)parameters[0];
    (void)block;
    for (unsigned i = 0; i < grid[0]; i++)
        memcpy(entries[i].target, entries[i].source, entries[i].bytes);
}

/* Ranges of different lengths at different steps: no rectangle. */
static size_t
add_irregular(ferry_batch *batch, ferry_buffer *b, int32_t *memory, bool up)
{
    size_t ranges = 0;
    for (size_t at = 0; at + 20 < COUNT; at += 5 + ranges % 13, ranges++) {
        size_t count = 1 + ranges % 4;
        if (up)
            OK(ferry_batch_copy_from(batch, b, INT, at, memory + at, count));
        else
            OK(ferry_batch_copy_to(batch, b, INT, at, memory + at, count));
    }
    return ranges;
}

static uint64_t
copies_one_by_one(const struct fakecuda *fake)
{
    return fake->fakecuda_calls_of("cuMemcpyHtoDAsync_v2") + fake->fakecuda_calls_of("cuMemcpyDtoHAsync_v2");
}

/* "one batched driver call where the driver has it, else ... a scatter kernel for pieces <= 8 KiB, else a loop" */
static void
test_the_driver_is_asked_once(void **state)
{
    (void)state;
    const char *library = getenv("FERRY_CUDA_LIBRARY"), *devices = getenv("FERRY_DEVICE");
    struct fakecuda fake;
    if (!library || !devices || strcmp(devices, "cuda") != 0 || driver_is_strict() || !fakecuda_find(library, &fake))
        return;
    const bool is_old = strstr(library, "_old"), is_13 = !is_old && !strstr(library, "_12");
    const char *batched = is_13 ? "cuMemcpyBatchAsync_v2" : "cuMemcpyBatchAsync";
    for (int round = 0; round < 2; round++) {
        static int32_t values[COUNT], got[COUNT];
        fixture f;
        fixture_open(&f, NULL);
        if (round == 1) /* from here on there is a kernel; before, launches are refused */
            fake.fakecuda_register_kernel("ferry_scatter", scatter, 1, (const size_t[]){sizeof(void *)});
        ferry_buffer *b = make_ints(&f, COUNT);
        write_counting(&f, b, 1, 0, FERRY_REST, 0);
        for (int i = 0; i < COUNT; i++)
            values[i] = -i - 1;
        for (int up = 1; up >= 0; up--) {
            ferry_batch *batch = make_batch(&f);
            size_t ranges = add_irregular(batch, b, up ? values : got, up);
            uint64_t batches = fake.fakecuda_calls_of(batched), launches = fake.fakecuda_calls_of("cuLaunchKernel");
            uint64_t singles = copies_one_by_one(&fake);
            OK(ferry_batch_submit(batch));
            assert_int_equal(fake.fakecuda_calls_of(batched) - batches, !is_old);
            /* Refused once, it is not asked again. */
            assert_int_equal(fake.fakecuda_calls_of("cuLaunchKernel") - launches, is_old && (round == 1 || up));
            assert_int_equal(copies_one_by_one(&fake) - singles, is_old && round == 0 ? ranges : 0);
            ferry_batch_destroy(&batch);
        }
        for (size_t at = 0, i = 0; at + 20 < COUNT; at += 5 + i % 13, i++)
            for (size_t j = 0; j < 1 + i % 4; j++)
                assert_int_equal(got[at + j], values[at + j]);
        ferry_buffer_destroy(&b);
        fixture_close(&f);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_batch_equals_its_copies_one_by_one),
        TEST(test_a_thousand_disjoint_ranges_are_one_submission),
        TEST(test_adjacent_ranges_are_joined),
        TEST(test_dependent_copies_take_a_submission_for_each_level),
        TEST(test_one_copy_inside_a_buffer_may_overlap_itself),
        TEST(test_a_batch_moves_exactly_its_ranges),
        TEST(test_a_batch_conflicts_on_its_ranges_only),
        TEST(test_batches_of_several_threads_come_to_an_end),
        TEST(test_async_batches_keep_the_order_of_submission),
        TEST(test_a_cancelled_batch_leaves_the_map_truthful),
        TEST(test_a_batch_keeps_its_buffers_and_its_copies),
        TEST(test_a_batch_of_more_bytes_than_a_size),
        TEST(test_adding_checks_everything),
        TEST(test_wrapped_memory_in_a_batch),
        TEST(test_unwritten_bytes_are_copied_as_zeros),
        TEST(test_registered_memory_goes_straight),
        cmocka_unit_test(test_pieces_of_every_size_arrive),
        cmocka_unit_test(test_the_driver_is_asked_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
