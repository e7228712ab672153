/* SPDX-License-Identifier: MIT */
/* Tests copies of two-dimensional rectangles, to and from memory and between buffers. A copy must
 * change exactly the rows of the rectangle, and no byte between them. */
#include "tests/buffer/support.h"

#include "src/buffer/buffer.h"
#include "tests/support/copies.h"

enum { COUNT = 6000 };

struct rectangle {
    size_t offset, pitch;
};

/* Returns a random rectangle of this width and height inside COUNT elements. */
static struct rectangle
random_rectangle(uint64_t *seed, size_t width, size_t height)
{
    struct rectangle r;
    r.pitch =
        width + random_below(seed, height > 1 ? (COUNT - width) / (height - 1) - width + 1 : 100);
    r.offset = random_below(seed, COUNT - (height > 1 ? (height - 1) * r.pitch : 0) - width + 1);
    return r;
}

static void
copy_model(int32_t *target, struct rectangle to, const int32_t *source, struct rectangle from,
           size_t width, size_t height)
{
    int32_t *packed = malloc(width * height * sizeof(*packed) + 1);
    assert_non_null(packed);
    for (size_t row = 0; row < height; row++)
        memcpy(packed + row * width, source + from.offset + row * from.pitch,
               width * sizeof(*packed));
    for (size_t row = 0; row < height; row++)
        memcpy(target + to.offset + row * to.pitch, packed + row * width, width * sizeof(*packed));
    free(packed);
}

static void
expect_model(fixture *f, ferry_buffer *buffer, const int32_t *model, const char *what)
{
    static int32_t got[COUNT];
    for (int place = 0; place <= f->places; place++) {
        ferry_scope scope;
        void *memory = open_at(f, buffer, place, FERRY_READ, 0, FERRY_REST, &scope);
        place_read(f, place, got, memory, sizeof(got));
        OK(ferry_scope_close(&scope));
        for (int i = 0; i < COUNT; i++)
            if (got[i] != model[i])
                fail_msg("%s, seed %llu: element %d at place %d is %d instead of %d", what,
                         (unsigned long long)support_seed, i, place, got[i], model[i]);
    }
}

static ferry_buffer *
make_at(fixture *f, int place, int first, int32_t *model)
{
    ferry_buffer *buffer = make_ints(f, COUNT);
    write_counting(f, buffer, place, 0, FERRY_REST, first);
    for (int i = 0; i < COUNT; i++)
        model[i] = i + first;
    return buffer;
}

static void
test_rows_go_where_they_should(void **state)
{
    fixture *f = *state;
    static int32_t model_a[COUNT], model_b[COUNT], memory[COUNT], expected[COUNT];
    for (uint64_t round = 1; round <= 60; round++) {
        uint64_t seed = support_seed = round;
        size_t places = (size_t)f->places + 1;
        ferry_buffer *a = make_at(f, (int)random_below(&seed, places), 0, model_a);
        ferry_buffer *b = make_at(f, (int)random_below(&seed, places), 100000, model_b);
        size_t height = 1 + random_below(&seed, 40),
               width = 1 + random_below(&seed, COUNT / height);
        struct rectangle r = random_rectangle(&seed, width, height),
                         s = random_rectangle(&seed, width, height);
        for (int i = 0; i < COUNT; i++)
            memory[i] = expected[i] = -i - 1;

        copy_model(model_a, r, memory, s, width, height);
        OK(copy_rows_from(a, INT, r.offset, r.pitch, memory + s.offset, s.pitch, width, height,
                          NULL));
        copy_model(model_b, s, model_a, r, width, height);
        OK(copy_rows(b, INT, s.offset, s.pitch, a, r.offset, r.pitch, width, height, NULL));
        copy_model(expected, r, model_b, s, width, height);
        OK(copy_rows_to(b, INT, s.offset, s.pitch, memory + r.offset, r.pitch, width, height,
                        NULL));
        assert_memory_equal(memory, expected, sizeof(memory));
        /* Overlapping rectangles of one buffer are copied as if by memmove(). */
        copy_model(model_a, s, model_a, r, width, height);
        OK(copy_rows(a, INT, s.offset, s.pitch, a, r.offset, r.pitch, width, height, NULL));

        expect_model(f, a, model_a, "a");
        expect_model(f, b, model_b, "b");
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
    }
    support_seed = 0;
}

/* A copy of rows locks and writes exactly the rows, which are current afterwards. The bytes between
 * the rows are not affected. */
static void
test_only_the_rows_move(void **state)
{
    fixture *f = *state;
    static int32_t memory[COUNT];
    for (int i = 0; i < COUNT; i++)
        memory[i] = -i;
    ferry_buffer *b = make_ints(f, COUNT);
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    /* Gives the host a replica, too. The next write at the device makes this replica stale. */
    touch(f, b, 0, FERRY_READ, 0, FERRY_REST);
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    ferry_scope scope;
    open_at(f, b, 0, FERRY_READ, 10, 90, &scope); /* between the first two rows: no conflict */
    OK(ferry_scope_close(&scope));
    write_counting(f, b, 1, 0, FERRY_REST, 0);

    ferry_transfer_stats before = moved(f), after;
    OK(copy_rows_from(b, INT, 0, 100, memory, 200, 10, 20, NULL));
    expect_moved(f, &before, 800, 0);
    after = moved(f);
    assert_int_equal(after.batch_submissions - before.batch_submissions, 1);
    assert_int_equal(after.batch_copies - before.batch_copies, 20);
    assert_true(after.device_calls - before.device_calls < 30);
    before = moved(f);
    OK(copy_rows_to(b, INT, 0, 100, memory, 10, 10, 20, NULL));
    expect_moved(f, &before, 0, 800);
    for (int i = 0; i < 200; i++)
        assert_int_equal(memory[i], -(i / 10 * 200 + i % 10));
    assert_true(f->coherent || !ferry_buffer_is_current(b, 0));
    ferry_buffer_destroy(&b);
}

static void
test_rows_conflict_only_on_themselves(void **state)
{
    fixture *f = *state;
    static int32_t memory[COUNT];
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_scope scope;
    open_at(f, b, 0, FERRY_UPDATE, 10, 90, &scope);
    OK(copy_rows_from(b, INT, 0, 100, memory, 10, 10, 20, NULL));
    OK(ferry_scope_close(&scope));
    open_at(f, b, 0, FERRY_READ, 105, 1, &scope);
    snapshot before = take_snapshot(b);
    FAILS(FERRY_ERROR_BUSY, copy_rows_from(b, INT, 0, 100, memory, 10, 10, 20, NULL));
    FAILS(FERRY_ERROR_BUSY,
          copy_rows_from_async(b, INT, 0, 100, memory, 10, 10, 20, ON(NULL), &forgotten));
    expect_unchanged(b, &before);
    OK(copy_rows_to(b, INT, 0, 100, memory, 10, 10, 20, NULL));
    OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&b);
}

/* The device copies all rows in one call. */
static void
test_a_device_copies_rows_at_once(void **state)
{
    fixture *f = *state;
    ferry_buffer *a = make_ints(f, COUNT), *b = make_ints(f, COUNT);
    write_counting(f, a, 1, 0, FERRY_REST, 0);
    write_counting(f, b, 1, 0, FERRY_REST, 7);
    ferry_transfer_stats before = moved(f), after;
    OK(copy_rows(b, INT, 0, 60, a, 5, 50, 40, 100, NULL));
    after = moved(f);
    expect_moved(f, &before, 0, 0);
    assert_int_equal(after.device.copies - before.device.copies, !f->coherent);
    assert_true(after.device_calls - before.device_calls < 10);
    expect_counting(f, b, 1, 60, 40, 5 + 50 - 60);
    expect_counting(f, b, 1, 100, 20, 7);
    /* Rows without gaps are copied as one range. */
    before = moved(f);
    OK(copy_rows(b, INT, 0, 40, a, 0, 40, 40, 100, NULL));
    after = moved(f);
    assert_int_equal(after.device.copies - before.device.copies, !f->coherent);
    assert_int_equal(after.batch_copies - before.batch_copies, 0);
    ferry_buffer_destroy(&a);
    ferry_buffer_destroy(&b);
}

/* Rows of all sizes are copied correctly, even if host replicas are pinned, or if a row is larger
 * than a staging chunk. */
static void
test_rows_of_every_size_and_memory(void **state)
{
    ferry_context_options options = {.tuning = "staging.chunk=4K staging.chunks=2"};
    static unsigned char values[60000], got[60000];
    fixture small;
    (void)state;
    for (size_t i = 0; i < sizeof(values); i++)
        values[i] = (unsigned char)(i * 7 + i / 256);
    for (int memory = FERRY_MEMORY_PINNED; memory <= FERRY_MEMORY_PAGEABLE; memory++) {
        for (size_t width = 1; width <= 6000; width = width * 5 / 2 + 1) {
            fixture_open(&small, &options);
            ferry_buffer *a, *b;
            ferry_buffer_options host = {.memory = (ferry_memory_kind)memory};
            size_t height = 60000 / (width + 3);
            height = height > 50 ? 50 : height;
            OK(ferry_buffer_create(small.context, BYTE, sizeof(values), &host, &a));
            OK(ferry_buffer_create_from(small.context, BYTE, sizeof(values), values, &host, &b));
            touch(&small, a, 1, FERRY_OVERWRITE, 0, FERRY_REST);
            OK(copy_rows(a, BYTE, 2, width + 3, b, 1, width + 1, width, height, NULL));
            OK(copy_rows_to(a, BYTE, 2, width + 3, got, width, width, height, NULL));
            for (size_t row = 0; row < height; row++)
                assert_memory_equal(got + row * width, values + 1 + row * (width + 1), width);
            ferry_buffer_destroy(&a);
            ferry_buffer_destroy(&b);
            fixture_close(&small);
        }
    }
}

static void
test_asynchronous_rows(void **state)
{
    fixture *f = *state;
    static int32_t memory[COUNT], got[COUNT];
    for (int i = 0; i < COUNT; i++)
        memory[i] = i * 3;
    for (int place = 0; place <= f->places; place++) {
        ferry_stream *stream = place ? stream_of(f, place) : NULL;
        ferry_buffer *a = make_counting(f, COUNT, 0), *b = make_counting(f, COUNT, 0);
        ferry_event *event;
        QUEUE(copy_rows_from_async(a, INT, 0, 70, memory, 60, 50, 80, ON(stream), &forgotten));
        QUEUE(copy_rows_async(b, INT, 5, 70, a, 0, 70, 50, 80, ON(stream), &forgotten));
        QUEUE(copy_rows_async(b, INT, 6, 70, b, 5, 70, 50, 80, ON(stream),
                              &forgotten)); /* onto itself */
        OK(copy_rows_to_async(b, INT, 6, 70, got, 50, 50, 80, ON(stream), &event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        for (int i = 0; i < 4000; i++)
            assert_int_equal(got[i], (i / 50 * 60 + i % 50) * 3);
        OK(copy_rows_from_async(a, INT, 0, 70, memory, 60, 0, 80, ON(stream), &event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
    }
}

static void
test_rows_check_everything(void **state)
{
    fixture *f = *state;
    const ferry_status invalid = FERRY_ERROR_INVALID_ARGUMENT, range = FERRY_ERROR_OUT_OF_RANGE,
                       overflow = FERRY_ERROR_OVERFLOW;
    const size_t huge = (size_t)-1;
    int32_t memory[100] = {0};
    ferry_buffer *b = make_counting(f, 100, 0), *c = make_counting(f, 100, 0), *foreign;
    ferry_context *other;
    OK(ferry_context_create(&(ferry_context_options){.devices = "host"}, &other));
    OK(ferry_buffer_create(other, INT, 100, NULL, &foreign));
    snapshot before = take_snapshot(b);

    FAILS(invalid, copy_rows_from(NULL, INT, 0, 10, memory, 10, 5, 2, NULL));
    FAILS(invalid, copy_rows_from(b, INT, 0, 10, NULL, 10, 5, 2, NULL));
    FAILS(invalid, copy_rows_from(b, INT, 0, 4, memory, 10, 5, 2, NULL));
    FAILS(invalid, copy_rows_from(b, INT, 0, 10, memory, 4, 5, 2, NULL));
    OK(copy_rows_from(b, INT, 0, 0, memory, 0, 0, 1,
                      NULL)); /* succeeds: a single row needs no pitch, and it may be empty */
    FAILS(range, copy_rows_from(b, INT, 0, 10, memory, 10, 5, 11, NULL));
    FAILS(range, copy_rows_from(b, INT, 6, 10, memory, 10, 5, 10, NULL));
    FAILS(range, copy_rows_from(b, INT, 101, 10, memory, 10, 0, 0, NULL));
    FAILS(overflow, copy_rows_from(b, INT, 0, huge / 2, memory, 10, 5, 4, NULL));
    FAILS(overflow, copy_rows_from(b, INT, 0, 10, memory, huge / 2, 5, 10, NULL));
    FAILS(overflow, copy_rows_from(b, INT, 0, 10, memory, huge / 20, 5, 10, NULL));
    FAILS(range, copy_rows_from(b, INT, 0, huge, memory, huge, huge - 1, 1, NULL));
    FAILS(overflow, copy_rows_from(b, INT, 0, huge - 2, memory, 10, 5, 2, NULL));
    FAILS(overflow, copy_rows_from(b, INT, 0, 10, memory, huge / 2, 5, 2, NULL));
    FAILS(FERRY_ERROR_WRONG_TYPE, copy_rows_from(b, DOUBLE, 0, 10, memory, 10, 5, 2, NULL));
    FAILS(invalid, copy_rows_to(NULL, INT, 0, 10, memory, 10, 5, 2, NULL));
    FAILS(invalid, copy_rows_to(b, INT, 0, 10, NULL, 10, 5, 2, NULL));
    FAILS(invalid, copy_rows_to(b, INT, 0, 10, memory, 4, 5, 2, NULL));
    FAILS(range, copy_rows_to(b, INT, 0, 10, memory, 10, 11 - 1, 11, NULL));
    FAILS(invalid, copy_rows(NULL, INT, 0, 10, c, 0, 10, 5, 2, NULL));
    FAILS(invalid, copy_rows(b, INT, 0, 10, NULL, 0, 10, 5, 2, NULL));
    FAILS(invalid, copy_rows(b, INT, 0, 10, c, 0, 4, 5, 2, NULL));
    FAILS(range, copy_rows(b, INT, 0, 10, c, 90, 10, 5, 2, NULL));
    FAILS(range, copy_rows(b, INT, 90, 10, c, 0, 10, 5, 2, NULL));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, copy_rows(b, INT, 0, 10, foreign, 0, 10, 5, 2, NULL));
    FAILS(FERRY_ERROR_WRONG_CONTEXT,
          copy_rows_from_async(b, INT, 0, 10, memory, 10, 5, 2, ON(ferry_context_stream(other, 1)),
                               &forgotten));
    expect_unchanged(b, &before);

    OK(copy_rows_from(b, INT, 95, 10, memory, 10, 5, 1,
                      NULL)); /* the last row may end with the buffer */
    OK(copy_rows_from(b, INT, 100, 10, NULL, 10, 0, 5, NULL)); /* an empty rectangle */
    OK(copy_rows_from(b, INT, 0, 0, NULL, 0, 5, 0, NULL));
    ferry_context_destroy(&other);
    FAILS(FERRY_ERROR_INVALID_STATE, copy_rows_to(foreign, INT, 0, 10, memory, 10, 5, 2, NULL));
    ferry_buffer_destroy(&foreign);
    ferry_buffer_destroy(&b);
    ferry_buffer_destroy(&c);
}

static void
test_rows_of_nothing_are_copied_at_once(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 100, 0);
    ferry_event *event;
    ferry_transfer_stats before = moved(f);
    OK(copy_rows(b, INT, 0, 10, b, 50, 10, 0, 5, NULL));
    OK(copy_rows(b, INT, 0, 10, b, 50, 10, 5, 0, NULL));
    OK(copy_rows_async(b, INT, 0, 10, b, 50, 10, 0, 5, ON(f->stream), &event));
    OK(ferry_event_synchronize(event));
    ferry_event_destroy(&event);
    expect_moved(f, &before, 0, 0);
    expect_counting(f, b, 0, 0, FERRY_REST, 0);
    ferry_buffer_destroy(&b);
}

/* A copy of a rectangle onto itself copies nothing. A copy to the same offset with a different
 * pitch moves the rows. */
static void
test_rows_onto_themselves(void **state)
{
    fixture *f = *state;
    static int32_t model[COUNT];
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *b = make_at(f, place, 0, model);
        ferry_transfer_stats before = moved(f), after;
        OK(copy_rows(b, INT, 3, 50, b, 3, 50, 20, 40, NULL));
        after = moved(f);
        assert_int_equal(after.batch_submissions, before.batch_submissions);
        assert_int_equal(after.batch_copies, before.batch_copies);
        assert_int_equal(after.device_calls, before.device_calls);
        struct rectangle wide = {3, 50}, narrow = {3, 31};
        copy_model(model, narrow, model, wide, 20, 40);
        OK(copy_rows(b, INT, narrow.offset, narrow.pitch, b, wide.offset, wide.pitch, 20, 40,
                     NULL));
        expect_model(f, b, model, "narrow");
        ferry_buffer_destroy(&b);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_rows_of_nothing_are_copied_at_once),
        TEST(test_rows_onto_themselves),
        TEST(test_rows_go_where_they_should),
        TEST(test_only_the_rows_move),
        TEST(test_rows_conflict_only_on_themselves),
        TEST(test_a_device_copies_rows_at_once),
        cmocka_unit_test(test_rows_of_every_size_and_memory),
        TEST(test_asynchronous_rows),
        TEST(test_rows_check_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
