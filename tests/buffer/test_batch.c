/* SPDX-License-Identifier: MIT */
/* Tests batches, which are lists of copies. A batch must have the same result as its copies made
 * one by one, and must take as few submissions as possible. */
#include "tests/buffer/support.h"

#include <stdio.h>

#include "src/buffer/buffer.h"
#include "src/buffer/worker.h"
#include "tests/support/copies.h"
#include "tests/support/fakecuda.h"

enum { COUNT = 4000, BUFFERS = 3, MEMORIES = 2 };

/* Returns whether the fake CUDA driver refuses batched copies, or batched copies of registered
 * memory. The library then makes the same copies with other driver calls. */
static bool
driver_is_strict(void)
{
    const char *rules = getenv("FAKECUDA_STRICT");
    return rules && strcmp(rules, "all") == 0;
}

static copy_list *
make_batch(void)
{
    copy_list *batch;
    OK(copy_list_create(&batch));
    assert_int_equal((batch)->count, 0);
    return batch;
}

/* -- random batches against plain arrays ------------------------------------------------------- */

/* Buffers, arrays of the caller, and a model of the values that each of them must contain. */
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
            size_t offset = random_below(seed, COUNT),
                   count = random_below(seed, COUNT - offset + 1);
            int first = (int)random_below(seed, 1000000);
            write_counting(f, arena->buffers[b], (int)random_below(seed, (size_t)f->places + 1),
                           offset, count, first);
            for (size_t i = offset; i < offset + count; i++)
                arena->model[b][i] = (int32_t)i + first;
        }
    }
    for (int m = 0; m < MEMORIES; m++) {
        for (int i = 0; i < COUNT; i++)
            arena->memory[m][i] = arena->model[BUFFERS + m][i] = -(m * COUNT + i) - 1;
    }
}

/* Adds one random copy to the batch and makes the same copy in the model. A source or target index
 * below BUFFERS selects a buffer. A larger index selects an array of the caller. */
static void
add_random(copy_list *batch, struct arena *arena, uint64_t *seed, size_t largest)
{
    size_t target = random_below(seed, BUFFERS + MEMORIES),
           source = random_below(seed, target < BUFFERS ? BUFFERS + MEMORIES : BUFFERS);
    size_t count = 1 + random_below(seed, largest), to = random_below(seed, COUNT - count),
           from = random_below(seed, COUNT - count);
    if (target >= BUFFERS)
        OK(copy_list_to(batch, arena->buffers[source], INT, from,
                        arena->memory[target - BUFFERS] + to, count));
    else if (source >= BUFFERS)
        OK(copy_list_from(batch, arena->buffers[target], INT, to,
                          arena->memory[source - BUFFERS] + from, count));
    else
        OK(copy_list_copy(batch, arena->buffers[target], INT, to, arena->buffers[source], from,
                          count));
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
                    fail_msg("seed %llu: element %d of buffer %d at place %d is %d instead of %d",
                             (unsigned long long)support_seed, i, b, place, got[i],
                             arena->model[b][i]);
        }
        ferry_buffer_destroy(&arena->buffers[b]);
    }
    for (int m = 0; m < MEMORIES; m++)
        if (memcmp(arena->memory[m], arena->model[BUFFERS + m], sizeof(arena->memory[m])) != 0)
            fail_msg("seed %llu: memory %d of the caller differs", (unsigned long long)support_seed,
                     m);
}

/* Checks that any batch, even one of overlapping copies, has the same result as its copies made one
 * by one in order. */
static void
test_a_batch_equals_its_copies_one_by_one(void **state)
{
    fixture *f = *state;
    static struct arena arena;
    for (uint64_t round = 1; round <= 40; round++) {
        uint64_t seed = support_seed = round;
        copy_list *batch = make_batch();
        start_arena(f, &arena, &seed);
        size_t copies = 1 + random_below(&seed, 120),
               largest = 1 + random_below(&seed, round % 3 ? 60 : COUNT / 2);
        for (size_t i = 0; i < copies; i++)
            add_random(batch, &arena, &seed, largest);
        assert_int_equal((batch)->count, copies);
        if (round % 2) {
            OK(copy_list_submit(batch, NULL));
        } else {
            ferry_event *event;
            size_t place = random_below(&seed, (size_t)f->places + 1);
            OK(copy_list_submit_async(batch, ON(place ? stream_of(f, (int)place) : NULL), &event));
            copy_list_destroy(&batch); /* legal right after the submission */
            OK(ferry_event_synchronize(event));
            ferry_event_destroy(&event);
        }
        check_arena(f, &arena);
        copy_list_destroy(&batch);
    }
    support_seed = 0;
}

/* -- submissions ------------------------------------------------------------------------------- */

/* Returns entry i of a permutation of 0 ... count - 1. Adjacent entries of the permutation are
 * never adjacent numbers. */
static size_t
scattered(size_t i, size_t count)
{
    return i * 389 % count;
}

/* A batch of 1000 disjoint ranges takes one submission. */
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
        copy_list *in = make_batch(), *out = make_batch(), *across = make_batch();
        for (size_t i = 0; i < RANGES; i++) {
            size_t at = 4 * scattered(i, RANGES);
            OK(copy_list_from(in, b, INT, at, values + at, 3));
            OK(copy_list_to(out, b, INT, at, got + at, 3));
            OK(copy_list_copy(across, other, INT, at, b, at, 3));
        }
        copy_list *batches[] = {in, across, out};
        for (int i = 0; i < 3; i++) {
            ferry_transfer_stats before = moved(f), after;
            OK(copy_list_submit(batches[i], NULL));
            after = moved(f);
            assert_int_equal(after.batch_submissions - before.batch_submissions, 1);
            assert_int_equal(after.batch_copies - before.batch_copies, RANGES);
            ferry_transfer_count is[] = {after.upload, after.device, after.download};
            ferry_transfer_count was[] = {before.upload, before.device, before.download};
            bool crosses = place > 0 && !f->coherent;
            assert_int_equal(is[i].copies - was[i].copies, crosses);
            assert_int_equal(is[i].bytes - was[i].bytes, crosses ? 3 * RANGES * 4 : 0);
            /* Checks that the batch made far fewer driver calls than it has ranges. */
            assert_true(driver_is_strict() || after.device_calls - before.device_calls < 100);
        }
        for (int i = 0; i < 4 * RANGES; i++)
            if (i % 4 != 3)
                assert_int_equal(got[i], i + 7);
        assert_true(ferry_buffer_is_current(other, place));
        expect_counting(f, other, 0, 3, 1, -1);
        expect_counting(f, other, 0, 4, 3, 7);
        for (int i = 0; i < 3; i++)
            copy_list_destroy(&batches[i]);
        ferry_buffer_destroy(&b);
        ferry_buffer_destroy(&other);
    }
}

/* Returns how many transfers were made between memory of the caller and the buffer. */
static uint64_t
transfers(const ferry_transfer_stats *stats)
{
    return stats->upload.copies + stats->download.copies + stats->host.copies;
}

/* Copies of adjacent ranges in a batch are joined into one copy, which is no batch. */
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
        copy_list *batch = make_batch();
        for (size_t i = 0; i < 100; i++) {
            size_t at = 40 * (in_order ? i : scattered(i, 100));
            OK(copy_list_from(batch, b, INT, at, values + at, 40));
        }
        ferry_transfer_stats before = moved(f), after;
        OK(copy_list_submit(batch, NULL));
        after = moved(f);
        assert_int_equal(transfers(&after) - transfers(&before), 1);
        assert_int_equal(after.batch_copies - before.batch_copies, 0);
        copy_list_destroy(&batch);
    }
    expect_counting(f, b, 0, 0, FERRY_REST, 1);
    ferry_buffer_destroy(&b);
}

/* A batch is split into levels of independent copies. Each level takes one submission. */
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
    copy_list *batch = make_batch();
    OK(copy_list_from(batch, b, INT, 0, first, 10));    /* level 0 */
    OK(copy_list_from(batch, b, INT, 1000, second, 5)); /* level 0, disjoint */
    OK(copy_list_from(batch, b, INT, 5, second, 10));   /* level 1: writes what the first wrote */
    OK(copy_list_to(batch, b, INT, 0, between, 10));    /* level 2: reads both */
    /* This copy belongs to level 3 of the batch, because it reads memory that a copy of level 2
     * wrote. */
    OK(copy_list_from(batch, b, INT, 2000, between, 10));
    ferry_transfer_stats before = moved(f), after;
    OK(copy_list_submit(batch, NULL));
    after = moved(f);
    assert_int_equal(transfers(&after) - transfers(&before), 4);
    assert_int_equal(after.batch_submissions - before.batch_submissions, 1);
    int32_t expected[10] = {100, 101, 102, 103, 104, 200, 201, 202, 203, 204};
    assert_memory_equal(between, expected, sizeof(expected));
    int32_t got[10];
    OK(ferry_buffer_copy_to(b, INT, 2000, 10, got, NULL));
    assert_memory_equal(got, expected, sizeof(expected));
    copy_list_destroy(&batch);
    ferry_buffer_destroy(&b);
}

/* A copy between overlapping ranges of one buffer behaves like memmove(). */
static void
test_one_copy_inside_a_buffer_may_overlap_itself(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        write_counting(f, b, place, 0, FERRY_REST, 0);
        copy_list *batch = make_batch();
        OK(copy_list_copy(batch, b, INT, 100, b, 0, 1000));
        /* A copy of a range onto itself copies nothing. */
        OK(copy_list_copy(batch, b, INT, 50, b, 50, 10));
        OK(copy_list_submit(batch, NULL));
        expect_counting(f, b, place, 0, 100, 0);
        expect_counting(f, b, place, 100, 1000, -100);
        expect_counting(f, b, place, 1100, FERRY_REST, 0);
        copy_list_destroy(&batch);
        ferry_buffer_destroy(&b);
    }
}

/* A batch that overwrites a device's dirty replica does not fetch the old bytes first. Ranges
 * outside the batch are not copied. */
static void
test_a_batch_moves_exactly_its_ranges(void **state)
{
    fixture *f = *state;
    static int32_t values[100];
    ferry_buffer *b = make_ints(f, COUNT);
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    copy_list *batch = make_batch();
    for (size_t i = 0; i < 50; i++)
        OK(copy_list_from(batch, b, INT, i * 20, values + 2 * i, 2));
    ferry_transfer_stats before = moved(f);
    OK(copy_list_submit(batch, NULL));
    expect_moved(f, &before, 400, 0);
    assert_true(ferry_buffer_is_current(b, 1));
    assert_true(f->coherent || !ferry_buffer_is_current(b, 0));
    copy_list_destroy(&batch);
    ferry_buffer_destroy(&b);
}

/* Each copy of a batch writes where the bytes of its range are current: stretches of a buffer
 * are alternately at the host and at a device, and no copy of one stretch may be written as another
 * one is. One range has bytes of two stretches. */
static void
test_a_batch_writes_where_its_ranges_are(void **state)
{
    fixture *f = *state;
    enum { STRETCHES = 10, EACH = 100, IN_EACH = 4 };
    static int32_t values[IN_EACH * STRETCHES];
    if (f->places == 0 || f->coherent)
        skip();
    ferry_buffer *b = make_counting(f, STRETCHES * EACH, 0);
    for (size_t i = 1; i < STRETCHES; i += 2)
        write_counting(f, b, 1, i * EACH, EACH, 1000);
    copy_list *batch = make_batch();
    for (size_t i = 0; i < STRETCHES * IN_EACH; i++)
        OK(copy_list_from(batch, b, INT, i * (EACH / IN_EACH) + 2, values, 1));
    OK(copy_list_from(batch, b, INT, EACH - 1, values, 2)); /* current at no place as a whole */
    ferry_transfer_stats before = moved(f);
    OK(copy_list_submit(batch, NULL));
    expect_moved(f, &before, (uint64_t)STRETCHES / 2 * IN_EACH * sizeof(int32_t), 0);
    copy_list_destroy(&batch);
    ferry_buffer_destroy(&b);
}

/* -- conflicts --------------------------------------------------------------------------------- */

/* A batch conflicts with a scope only if the scope overlaps a range of one of its copies. Conflicts
 * are found before any byte is copied. */
static void
test_a_batch_conflicts_on_its_ranges_only(void **state)
{
    fixture *f = *state;
    int32_t values[20] = {0};
    ferry_buffer *b = make_counting(f, COUNT, 0);
    copy_list *batch = make_batch(), *reading = make_batch();
    for (size_t i = 0; i < 10; i++) {
        OK(copy_list_from(batch, b, INT, 100 * i, values, 10));
        OK(copy_list_to(reading, b, INT, 100 * i, values, 10));
    }
    ferry_scope scope;
    open_at(f, b, 0, FERRY_UPDATE, 10, 90, &scope); /* between two of the ranges */
    OK(copy_list_submit(batch, NULL));
    OK(ferry_scope_close(&scope));
    open_at(f, b, 0, FERRY_READ, 505, 1, &scope);
    OK(copy_list_submit(reading, NULL));
    snapshot before = take_snapshot(b);
    FAILS(FERRY_ERROR_BUSY, copy_list_submit(batch, NULL));
    FAILS(FERRY_ERROR_BUSY, copy_list_submit_async(batch, ON(NULL), &forgotten));
    expect_unchanged(b, &before);
    OK(ferry_scope_close(&scope));
    open_at(f, b, 0, FERRY_UPDATE, 909, 1, &scope);
    FAILS(FERRY_ERROR_BUSY, copy_list_submit(reading, NULL));
    OK(ferry_scope_close(&scope));
    OK(copy_list_submit(batch, NULL));
    copy_list_destroy(&batch);
    copy_list_destroy(&reading);
    ferry_buffer_destroy(&b);
}

struct crossing_threads {
    fixture *f;
    ferry_buffer *a, *b;
    int which;
};

/* Repeatedly submits a batch that copies ranges between two buffers in both directions. The member
 * `which` determines which direction comes first. */
static void
cross(void *argument)
{
    struct crossing_threads *t = argument;
    for (int round = 0; round < 50; round++) {
        copy_list *batch;
        OK(copy_list_create(&batch));
        for (size_t i = 0; i < 20; i++) {
            size_t even = 40 * i, odd = 40 * i + 20;
            OK(copy_list_copy(batch, t->which ? t->a : t->b, INT, odd, t->which ? t->b : t->a, even,
                              20));
            OK(copy_list_copy(batch, t->which ? t->b : t->a, INT, odd, t->which ? t->a : t->b, even,
                              20));
        }
        OK(copy_list_submit(batch, NULL));
        copy_list_destroy(&batch);
    }
}

/* Two threads submit batches that use the same buffers in different orders. The batches must wait
 * for each other without a deadlock. */
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

/* -- asynchronously ---------------------------------------------------------------------------- */

/* Asynchronous batches take effect in the order of submission. They write buffers at the place of
 * the stream that the options name. */
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
        copy_list *batch = make_batch();
        ferry_event *event;
        for (int turn = 0; turn < 2; turn++) {
            for (size_t i = 0; i < COUNT / 20; i++)
                OK(copy_list_from(batch, b, INT, 20 * i, values[turn] + 20 * i, 20 - turn));
            OK(copy_regions(batch->regions, batch->count, ON(stream_of(f, place)),
                            turn ? &event : NULL));
            copy_list_clear(batch);
            assert_int_equal((batch)->count, 0);
        }
        /* The scopes inside wait for both batches. */
        expect_counting(f, b, place, 0, 19, 2);
        expect_counting(f, b, place, 19, 1, 1);
        assert_true(ferry_buffer_is_current(b, place));
        OK(ferry_stream_wait_event(stream_of(f, place), event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        OK(copy_list_submit_async(batch, ON(stream_of(f, place)), &event)); /* an empty batch */
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        copy_list_destroy(&batch);
        ferry_buffer_destroy(&b);
    }
}

/* After a batch was cancelled, its event reports FERRY_ERROR_CANCELLED. The valid map still
 * describes each replica correctly. */
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
    copy_list *batch = make_batch();
    for (size_t i = 0; i < MANY / RANGE; i++)
        OK(copy_list_from(batch, b, INT, RANGE * i, values + RANGE * i, RANGE - 1));
    for (int round = 0; round < 5; round++) {
        ferry_event *event;
        OK(copy_list_submit_async(batch, ON(NULL), &event));
        OK(ferry_event_cancel(event));
        ferry_status status = ferry_event_synchronize(event);
        if (status != FERRY_OK) {
            assert_int_equal(status, FERRY_ERROR_CANCELLED);
            assert_non_null(strstr(ferry_last_error(), "arrived"));
        }
        ferry_event_destroy(&event);
        OK(ferry_buffer_copy_to(b, INT, 0, MANY, got, NULL));
        for (int i = 0; i < MANY; i++)
            assert_true(got[i] == i || (got[i] == i + 5 && i % RANGE != RANGE - 1));
    }
    copy_list_destroy(&batch);
    ferry_buffer_destroy(&b);
}

/* -- the list ---------------------------------------------------------------------------------- */

/* A batch keeps its buffers alive until it is cleared. After a submission, the batch still has its
 * copies and can be submitted again. */
static void
test_a_batch_keeps_its_buffers_and_its_copies(void **state)
{
    fixture *f = *state;
    int32_t value = 1, got = 0;
    ferry_buffer *b = make_ints(f, 10), *view;
    copy_list *batch = make_batch();
    OK(ferry_buffer_view(b, INT, 4, 2, &view));
    OK(copy_list_from(batch, view, INT, 1, &value, 1));
    OK(copy_list_from(batch, b, INT, 0, &value, 0)); /* no elements */
    ferry_buffer_destroy(&view);
    FAILS(FERRY_ERROR_INVALID_STATE,
          ferry_buffer_resize(b, 20)); /* refused: the batch counts as a view */
    OK(copy_list_submit(batch, NULL));
    value = 2;
    OK(copy_list_submit(batch, NULL));
    OK(ferry_buffer_copy_to(b, INT, 5, 1, &got, NULL));
    assert_int_equal(got, 2);
    copy_list_clear(batch);
    OK(ferry_buffer_resize(b, 20));
    OK(copy_list_submit(batch, NULL)); /* empty */
    OK(copy_list_to(batch, b, INT, 5, &got, 1));
    ferry_buffer_destroy(&b);
    got = 0;
    OK(copy_list_submit(batch, NULL));
    assert_int_equal(got, 2);
    copy_list_destroy(&batch);
    copy_list_destroy(&batch);
}

/* A batch whose total number of bytes overflows size_t fails before any byte is copied. */
static void
test_a_batch_of_more_bytes_than_a_size(void **state)
{
    fixture *f = *state;
    ferry_buffer *a, *b;
    copy_list *batch;
    OK(ferry_buffer_create(f->context, BYTE, PTRDIFF_MAX, NULL, &a));
    OK(ferry_buffer_create(f->context, BYTE, PTRDIFF_MAX, NULL, &b));
    OK(copy_list_create(&batch));
    for (int i = 0; i < 3; i++)
        OK(copy_list_copy(batch, a, BYTE, 0, b, 0, PTRDIFF_MAX));
    ferry_transfer_stats before = moved(f);
    FAILS(FERRY_ERROR_OVERFLOW, copy_list_submit(batch, NULL));
    FAILS(FERRY_ERROR_OVERFLOW, copy_list_submit_async(batch, ON(NULL), &forgotten));
    expect_moved(f, &before, 0, 0);
    STATE(a, UNINITIALIZED);
    copy_list_destroy(&batch);
    ferry_buffer_destroy(&a);
    ferry_buffer_destroy(&b);
}

/* Checks that a batch with one invalid region is refused and copies nothing, whether it is
 * submitted with or without an event. */
static void
refuses(fixture *f, ferry_buffer *right, ferry_copy_region wrong, ferry_status status)
{
    static int32_t value = 1;
    ferry_copy_region regions[3] = {ferry_buffer_region_from(right, INT, 0, 1, &value), wrong,
                                    ferry_buffer_region_from(right, INT, 1, 1, &value)};
    ferry_transfer_stats before = moved(f);
    FAILS(status, ferry_copy(regions, 3, NULL));
    assert_non_null(strstr(ferry_last_error(), "region 1"));
    FAILS(status, ferry_copy_async(regions, 3, ON(NULL), &forgotten));
    expect_moved(f, &before, 0, 0);
}

static void
test_every_region_is_checked(void **state)
{
    fixture *f = *state;
    const ferry_status invalid = FERRY_ERROR_INVALID_ARGUMENT, range = FERRY_ERROR_OUT_OF_RANGE;
    int32_t value = 1;
    ferry_buffer *b = make_counting(f, 10, 0), *foreign;
    ferry_context *other;
    OK(ferry_context_create(&(ferry_context_options){.devices = "host"}, &other));
    OK(ferry_buffer_create(other, INT, 10, NULL, &foreign));

    refuses(f, b, ferry_buffer_region_from(NULL, INT, 0, 1, &value), invalid);
    refuses(f, b, ferry_buffer_region_from(b, INT, 0, 1, NULL), invalid);
    refuses(f, b, ferry_buffer_region_from(b, INT, 10, 1, &value), range);
    refuses(f, b, ferry_buffer_region_from(b, INT, (size_t)-2, 5, &value), range);
    refuses(f, b, ferry_buffer_region_from(b, INT, 0, 2, (void *)(UINTPTR_MAX - 7)),
            FERRY_ERROR_OVERFLOW);
    refuses(f, b, ferry_buffer_region_from(b, DOUBLE, 0, 1, &value), FERRY_ERROR_WRONG_TYPE);
    refuses(f, b, ferry_buffer_region_from(foreign, INT, 0, 1, &value), FERRY_ERROR_WRONG_CONTEXT);
    refuses(f, b, ferry_buffer_region_to(b, INT, 0, 1, NULL), invalid);
    refuses(f, b, ferry_buffer_region_to(b, INT, 9, 2, &value), range);
    refuses(f, b, ferry_buffer_region_to(foreign, INT, 0, 1, &value), FERRY_ERROR_WRONG_CONTEXT);
    refuses(f, b, ferry_buffer_region(b, INT, 0, NULL, 5, 1), invalid);
    refuses(f, b, ferry_buffer_region(b, INT, 0, b, 9, 2), range);
    refuses(f, b, ferry_buffer_region(b, INT, 9, b, 0, 2), range);
    refuses(f, b, ferry_buffer_region(b, INT, 0, foreign, 0, 1), FERRY_ERROR_WRONG_CONTEXT);
    FAILS(invalid, ferry_copy(NULL, 1, NULL));
    FAILS(invalid, ferry_copy_async(NULL, 1, ON(NULL), &forgotten));
    const ferry_copy_region right = ferry_buffer_region_from(b, INT, 0, 1, &value);
    FAILS(FERRY_ERROR_WRONG_CONTEXT,
          ferry_copy_async(&right, 1, ON(ferry_context_stream(other, 1)), &forgotten));

    ferry_copy_region stale[2] = {ferry_buffer_region_from(foreign, INT, 0, 1, &value),
                                  ferry_buffer_region_from(foreign, INT, 1, 1, &value)};
    ferry_context_destroy(&other);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_copy(stale, 2, NULL));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_copy_async(stale, 2, ON(NULL), &forgotten));
    ferry_buffer_destroy(&foreign);
    ferry_buffer_destroy(&b);
}

/* A batch that writes to a read-only wrap is refused. A writable wrap may be the target of a
 * batch. */
static void
test_wrapped_memory_in_a_batch(void **state)
{
    fixture *f = *state;
    int32_t fixed[4] = {1, 2, 3, 4}, open[4] = {0}, value = 9;
    ferry_buffer *constant, *b;
    OK(ferry_buffer_wrap_host(f->context, INT, 4, fixed, &(ferry_wrap_options){.read_only = true},
                              &constant));
    OK(ferry_buffer_wrap_host(f->context, INT, 4, open, NULL, &b));
    copy_list *batch = make_batch();
    OK(copy_list_copy(batch, b, INT, 1, constant, 0, 3));
    OK(copy_list_submit(batch, NULL));
    assert_int_equal(open[3], 3);
    OK(copy_list_from(batch, constant, INT, 0, &value, 1));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, copy_list_submit(batch, NULL));
    assert_int_equal(fixed[0], 1);
    copy_list_destroy(&batch);
    ferry_buffer_destroy(&b);
    ferry_buffer_destroy(&constant);
}

/* If source bytes were never written, a batch copies zeros in their place. */
static void
test_unwritten_bytes_are_copied_as_zeros(void **state)
{
    fixture *f = *state;
    ferry_buffer *empty = make_ints(f, COUNT), *b = make_ints(f, COUNT);
    static int32_t got[COUNT];
    write_counting(f, b, 1, 0, FERRY_REST, 1);
    write_counting(f, empty, 1, 100, 10, 0);
    memset(got, 0x55, sizeof(got));
    copy_list *batch = make_batch();
    OK(copy_list_copy(batch, b, INT, 0, empty, 50, 200));
    OK(copy_list_to(batch, empty, INT, 0, got, 200));
    OK(copy_list_submit(batch, NULL));
    for (int i = 0; i < 200; i++)
        assert_int_equal(got[i], i >= 100 && i < 110 ? i : 0);
    expect_constant(f, b, 1, 0, 50, 0);
    expect_counting(f, b, 1, 50, 10, 50);
    expect_constant(f, b, 0, 60, 140, 0);
    expect_counting(f, b, 0, 200, FERRY_REST, 1);
    copy_list_destroy(&batch);
    ferry_buffer_destroy(&empty);
    ferry_buffer_destroy(&b);
}

/* Copies larger than a staging chunk must arrive intact in pageable and in pinned replicas, and so
 * must copies with odd sizes and addresses. */
static void
test_pieces_of_every_size_arrive(void **state)
{
    ferry_context_options options = {.tuning = "staging.chunk=4K staging.chunks=2"};
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
        copy_list *batch = make_batch();
        size_t bytes = 1;
        for (size_t at = 0; at < sizeof(values); at += bytes, bytes = bytes * 3 / 2 + 1)
            OK(copy_list_from(batch, a, BYTE, at, values + at,
                              at + bytes < sizeof(values) ? bytes : sizeof(values) - at));
        for (size_t at = 0; at < 50000; at += 2500)
            OK(copy_list_copy(batch, b, BYTE, at, a, at + 777, 2400));
        for (size_t at = 0; at < 99000; at += 9000)
            OK(copy_list_to(batch, a, BYTE, at + 1, got + at, 8999));
        OK(copy_list_submit(batch, NULL));
        for (size_t i = 0; i < 99000; i++)
            if (i % 9000 < 8999)
                assert_int_equal(got[i], values[i + 1]);
        OK(ferry_buffer_copy_to(b, BYTE, 0, 50000, got, NULL));
        for (size_t i = 0; i < 50000; i++)
            if (i % 2500 < 2400)
                assert_int_equal(got[i], values[i + 777]);
        copy_list_destroy(&batch);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
        fixture_close(&small);
    }
}

/* Memory that the program registered is copied without staging, except in short uploads. The
 * program may reuse the memory as soon as the batch has ended. */
static void
test_registered_memory_goes_straight(void **state)
{
    fixture *f = *state;
    enum { LONG = 10 * COUNT, BYTES = LONG * sizeof(int32_t) };
    if (!f->registers)
        return;
    int32_t *memory = aligned_alloc(4096, (BYTES + 4095) / 4096 * 4096), elsewhere[10] = {0};
    assert_non_null(memory);
    for (int i = 0; i < LONG; i++)
        memory[i] = i;
    OK(ferry_context_register_host(f->context, memory, (BYTES + 4095) / 4096 * 4096));
    ferry_buffer *b = make_ints(f, LONG);
    write_counting(f, b, 1, 0, FERRY_REST, 5);
    copy_list *in = make_batch(), *out = make_batch();
    for (size_t at = 0; at + 20 < LONG; at += 20) {
        OK(copy_list_from(in, b, INT, at, memory + at, 15));
        OK(copy_list_to(out, b, INT, at, memory + at, 20));
    }
    ferry_transfer_stats before = moved(f), after;
    OK(copy_list_submit(in, NULL));
    memset(memory, 0, BYTES);
    OK(copy_list_submit(out, NULL));
    for (int i = 0; i < LONG - 20; i++)
        assert_int_equal(memory[i], i % 20 < 15 ? i : i + 5);
    after = moved(f);
    /* A strict driver refuses batched copies of registered memory, so there the batch `in` is
     * staged. The ranges of `out` are adjacent and are joined into one copy. Every driver can copy
     * this one directly. */
    uint64_t staged = driver_is_strict() ? 1 : 0;
    assert_int_equal(after.direct.copies - before.direct.copies, 2 - staged);
    assert_int_equal(after.staged.copies - before.staged.copies, staged);
    /* If one copy of a batch uses memory that is not registered, the whole batch is staged. The
     * driver cannot access such memory directly. */
    OK(copy_list_from(in, b, INT, LONG - 10, elsewhere, 10));
    OK(copy_list_submit(in, NULL));
    after = moved(f);
    assert_int_equal(after.staged.copies - before.staged.copies, staged + 1);
    expect_constant(f, b, 0, LONG - 10, 10, 0);
    /* A short upload is staged, because the call then need not wait for the device. */
    before = moved(f);
    OK(ferry_buffer_copy_from(b, INT, 0, COUNT, memory, NULL));
    after = moved(f);
    assert_int_equal(after.staged.copies - before.staged.copies, 1);
    OK(ferry_context_unregister_host(f->context, memory));
    copy_list_destroy(&in);
    copy_list_destroy(&out);
    ferry_buffer_destroy(&b);
    free(memory);
}

/* -- what the driver is asked ------------------------------------------------------------------ */

struct scatter_entry {
    char *target;
    const char *source;
    uint64_t bytes;
};

/* Runs on the host in place of the library's scatter kernel, and makes the same copies. */
static void
scatter(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    const struct scatter_entry *entries = *(const struct scatter_entry **)parameters[0];
    (void)block;
    for (unsigned i = 0; i < grid[0]; i++)
        memcpy(entries[i].target, entries[i].source, entries[i].bytes);
}

/* Adds ranges of different lengths at different distances to the batch. No two-dimensional copy can
 * describe such ranges. */
static size_t
add_irregular(copy_list *batch, ferry_buffer *b, int32_t *memory, bool up)
{
    size_t ranges = 0;
    for (size_t at = 0; at + 20 < COUNT; at += 5 + ranges % 13, ranges++) {
        size_t count = 1 + ranges % 4;
        if (up)
            OK(copy_list_from(batch, b, INT, at, memory + at, count));
        else
            OK(copy_list_to(batch, b, INT, at, memory + at, count));
    }
    return ranges;
}

static uint64_t
copies_one_by_one(const struct fakecuda *fake)
{
    return fake->fakecuda_calls_of("cuMemcpyHtoDAsync_v2") +
           fake->fakecuda_calls_of("cuMemcpyDtoHAsync_v2");
}

enum { PAGES_OF_INTS = (COUNT + 1023) / 1024 * 1024 };

/* Ranges of at most 8 KiB are copied by the scatter kernel. If that kernel is unavailable, they are
 * copied by one batched driver call. Drivers without batched calls copy them one by one. */
static void
test_the_driver_is_asked_once(void **state)
{
    (void)state;
    const char *library = getenv("FERRY_CUDA_LIBRARY"), *devices = getenv("FERRY_DEVICE");
    struct fakecuda fake;
    if (!library || !devices || strcmp(devices, "cuda") != 0 || driver_is_strict() ||
        !fakecuda_find(library, &fake))
        return;
    const bool is_old = strstr(library, "_old"), is_13 = !is_old && !strstr(library, "_12");
    const char *batched = is_13 ? "cuMemcpyBatchAsync_v2" : "cuMemcpyBatchAsync";
    for (int round = 0; round < 3; round++) {
        static _Alignas(4096) int32_t values[PAGES_OF_INTS], got[PAGES_OF_INTS];
        fixture f;
        fixture_open(&f, NULL);
        /* In round 2 the memory is page-locked, and the download is therefore not staged. */
        if (round == 2) {
            OK(ferry_context_register_host(f.context, values, sizeof(values)));
            OK(ferry_context_register_host(f.context, got, sizeof(got)));
        }
        /* In round 0 the fake driver refuses to launch the scatter kernel. From round 1 on, it
         * accepts launches. */
        if (round == 1)
            fake.fakecuda_register_kernel("ferry_scatter", scatter, 1,
                                          (const size_t[]){sizeof(void *)});
        ferry_buffer *b = make_ints(&f, COUNT);
        write_counting(&f, b, 1, 0, FERRY_REST, 0);
        for (int i = 0; i < COUNT; i++)
            values[i] = -i - 1;
        for (int up = 1; up >= 0; up--) {
            copy_list *batch = make_batch();
            size_t ranges = add_irregular(batch, b, up ? values : got, up);
            uint64_t batches = fake.fakecuda_calls_of(batched),
                     launches = fake.fakecuda_calls_of("cuLaunchKernel");
            uint64_t singles = copies_one_by_one(&fake);
            OK(copy_list_submit(batch, NULL));
            assert_int_equal(fake.fakecuda_calls_of(batched) - batches, !is_old && round == 0);
            /* After the driver has refused one launch of the scatter kernel, the library does not
             * try to launch the kernel again. */
            assert_int_equal(fake.fakecuda_calls_of("cuLaunchKernel") - launches, round >= 1 || up);
            assert_int_equal(copies_one_by_one(&fake) - singles, is_old && round == 0 ? ranges : 0);
            copy_list_destroy(&batch);
        }
        for (size_t at = 0, i = 0; at + 20 < COUNT; at += 5 + i % 13, i++)
            for (size_t j = 0; j < 1 + i % 4; j++)
                assert_int_equal(got[at + j], values[at + j]);
        ferry_transfer_stats stats;
        OK(ferry_context_get_transfer_stats(f.context, &stats));
        assert_int_equal(stats.staged.copies, round == 2 ? 1 : 2);
        ferry_buffer_destroy(&b);
        if (round == 2) {
            OK(ferry_context_unregister_host(f.context, values));
            OK(ferry_context_unregister_host(f.context, got));
        }
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
        TEST(test_a_batch_writes_where_its_ranges_are),
        TEST(test_a_batch_conflicts_on_its_ranges_only),
        TEST(test_batches_of_several_threads_come_to_an_end),
        TEST(test_async_batches_keep_the_order_of_submission),
        TEST(test_a_cancelled_batch_leaves_the_map_truthful),
        TEST(test_a_batch_keeps_its_buffers_and_its_copies),
        TEST(test_a_batch_of_more_bytes_than_a_size),
        TEST(test_every_region_is_checked),
        TEST(test_wrapped_memory_in_a_batch),
        TEST(test_unwritten_bytes_are_copied_as_zeros),
        TEST(test_registered_memory_goes_straight),
        cmocka_unit_test(test_pieces_of_every_size_arrive),
        cmocka_unit_test(test_the_driver_is_asked_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
