/* SPDX-License-Identifier: MIT */
/* Tests the creation of buffers: limits of counts, alignment, names, first contents. */
#include "tests/buffer/support.h"

#include "src/buffer/buffer.h"
#include "tests/support/copies.h"
#include "tests/support/heap.h"

#define GIB ((size_t)1 << 30)

/* A new buffer of n elements reports the count n, and n times the element's size in bytes. Its
 * state is UNINITIALIZED, and it has no memory at any place. */
static void
test_a_new_buffer_takes_no_memory(void **state)
{
    fixture *f = *state;
    ferry_memory_info before[16], after;
    for (int place = 0; place <= f->places; place++)
        OK(ferry_context_get_memory_info(f->context, place, &before[place]));
    ferry_buffer *b = make_ints(f, 1000);
    assert_int_equal(ferry_buffer_count(b), 1000);
    assert_int_equal(ferry_buffer_bytes(b), 4000);
    STATE(b, UNINITIALIZED);
    assert_int_equal(take_snapshot(b).info.places_with_copy, 0);
    assert_int_equal(take_snapshot(b).info.places_current, 0);
    for (int place = 0; place <= f->places; place++) {
        OK(ferry_context_get_memory_info(f->context, place, &after));
        assert_int_equal(after.live, before[place].live);
    }
    assert_true(ferry_element_equal(ferry_buffer_element(b), INT));
    assert_ptr_equal(ferry_buffer_context(b), f->context);
    ferry_buffer_destroy(&b);
    assert_null(b);
}

/* ferry_buffer_create() checks for overflow when it multiplies the count by the element's size. It
 * refuses a buffer above the context's limit, and the message contains the limit. */
static void
test_counts_are_checked_against_the_limit(void **state)
{
    (void)state;
    fixture f;
    ferry_buffer *b = NULL;
    fixture_open(&f, &(ferry_context_options){.buffer_bytes_limit = 4096});
    b = make_ints(&f, 1024);
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_resize(b, 1025));
    assert_non_null(strstr(ferry_last_error(), "4096"));
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_resize(b, SIZE_MAX / 2));
    assert_int_equal(ferry_buffer_count(b), 1024);
    ferry_buffer_destroy(&b);
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_create(f.context, INT, 1025, NULL, &b));
    assert_non_null(strstr(ferry_last_error(), "4096"));
    fixture_close(&f);
}

/* If the context has no limit, the number of elements in a buffer is limited only by the range of
 * size_t. An element may have at most 4 GiB. */
static void
test_counts_are_checked_against_sizes(void **state)
{
    fixture *f = *state;
    const ferry_field field = {.name = "x", .kind = FERRY_KIND_FLOAT, .bits = 32, .count = 1};
    ferry_element huge = {.name = "huge",
                          .c_type = "struct huge",
                          .bytes = (size_t)5 << 30,
                          .align = 4,
                          .kind = FERRY_KIND_STRUCT,
                          .fields = &field,
                          .field_count = 1};
    ferry_buffer *b = make_ints(f, 10), *out = NULL;
    huge.identity = ferry_element_identity(&huge);
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_resize(b, PTRDIFF_MAX / 4 + 1));
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_resize(b, SIZE_MAX));
    assert_non_null(strstr(ferry_last_error(), "more bytes than a size can count"));
    assert_int_equal(ferry_buffer_count(b), 10);
    FAILS(FERRY_ERROR_OVERFLOW,
          ferry_buffer_create(f->context, INT, PTRDIFF_MAX / 4 + 1, NULL, &out));
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_create(f->context, INT, SIZE_MAX, NULL, &out));
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_create(f->context, &huge, 1, NULL, &out));
    assert_non_null(strstr(ferry_last_error(), "4 GiB"));
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_reinterpret(b, &huge, 0, 0, &out));
    assert_non_null(strstr(ferry_last_error(), "4 GiB"));
    assert_null(out);
    ferry_buffer_destroy(&b);
}

/* An element may need a larger alignment than replicas have by default. Replicas of its buffers
 * then have the larger alignment at every place. */
static void
test_alignment_of_elements_is_kept(void **state)
{
    fixture *f = *state;
    const ferry_field field = {.name = "x", .kind = FERRY_KIND_FLOAT, .bits = 32, .count = 1};
    ferry_element wide = {.name = "wide",
                          .c_type = "struct wide",
                          .bytes = 2048,
                          .align = 2048,
                          .kind = FERRY_KIND_STRUCT,
                          .fields = &field,
                          .field_count = 1};
    ferry_buffer *b, *small = make_ints(f, 600), *view = NULL;
    wide.identity = ferry_element_identity(&wide);
    OK(ferry_buffer_create(f->context, &wide, 3, NULL, &b));
    for (int place = 0; place <= f->places; place++) {
        void *pointer;
        OK(ferry_buffer_hold(b, place, &pointer));
        assert_int_equal((uintptr_t)pointer % 2048, 0);
        OK(ferry_buffer_release(b, place));
    }
    /* Reinterpreting this buffer as elements of type `wide` is refused, because its own elements
     * have a smaller alignment than `wide`. */
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_reinterpret(small, &wide, 0, 1, &view));
    assert_non_null(strstr(ferry_last_error(), "2048"));
    assert_null(view);
    ferry_buffer_destroy(&small);
    ferry_buffer_destroy(&b);
}

/* Error messages distinguish two structs with the same name, for example from two versions of a
 * library. */
static void
test_namesakes_are_reported_apart(void **state)
{
    fixture *f = *state;
    const ferry_field field = {.name = "x", .kind = FERRY_KIND_FLOAT, .bits = 32, .count = 1};
    ferry_element small = {.name = "mylib_particle",
                           .bytes = 8,
                           .align = 4,
                           .kind = FERRY_KIND_STRUCT,
                           .fields = &field,
                           .field_count = 1};
    ferry_element large = small;
    float values[4];
    ferry_buffer *b;
    large.bytes = 16;
    small.identity = ferry_element_identity(&small);
    large.identity = ferry_element_identity(&large);
    OK(ferry_buffer_create(f->context, &small, 4, &(ferry_buffer_options){.name = "cloud"}, &b));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_copy_from(b, &large, 0, 1, values, NULL));
    assert_non_null(
        strstr(ferry_last_error(),
               "buffer \"cloud\" holds mylib_particle, not mylib_particle of other content"));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_copy_from(b, INT, 0, 1, values, NULL));
    assert_non_null(strstr(ferry_last_error(), "holds mylib_particle, not int"));
    assert_null(strstr(ferry_last_error(), "content"));
    ferry_buffer_destroy(&b);
}

/* ferry_context_find() finds a buffer by its name among other buffers. The result is an additional
 * handle to that buffer. */
static void
test_buffers_are_found_by_name(void **state)
{
    fixture *f = *state;
    const char *const names[] = {"one", NULL, "two", NULL, "three"};
    ferry_buffer *made[LENGTH(names)], *found;
    for (size_t i = 0; i < LENGTH(names); i++)
        OK(ferry_buffer_create(f->context, INT, i + 1, &(ferry_buffer_options){.name = names[i]},
                               &made[i]));
    for (size_t i = 0; i < LENGTH(names); i += 2) {
        OK(ferry_context_find(f->context, names[i], &found));
        ferry_buffer_destroy(&made[i]);
        assert_int_equal(ferry_buffer_count(found), i + 1);
        ferry_buffer_destroy(&found);
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_find(f->context, names[i], &found));
    }
    ferry_buffer_destroy(&made[1]);
    ferry_buffer_destroy(&made[3]);
}

/* A buffer of 3 GiB can be created, viewed and written at its end, and only the pages that are
 * accessed use memory. */
static void
test_three_gibibytes_work(void **state)
{
    fixture *f = *state;
    ferry_buffer *b, *view;
    size_t count = 3 * GIB;
    int32_t value = 0;
    heap_leave_unfilled(); /* filling new memory would access all of it */
    OK(ferry_buffer_create(f->context, BYTE, count, NULL, &b));
    assert_int_equal(ferry_buffer_bytes(b), count);
    OK(ferry_buffer_reinterpret(b, INT, count - 4096, FERRY_REST, &view));
    assert_int_equal(ferry_buffer_count(view), 1024);
    write_counting(f, view, 0, 0, FERRY_REST, 5);
    OK(ferry_buffer_copy_to(b, BYTE, count - 4, 4, &value, NULL));
    assert_int_equal(value, 1023 + 5);
    OK(ferry_buffer_copy_to(b, BYTE, count - 4100, 4, &value, NULL));
    assert_int_equal(value, 0);
    FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_buffer_copy_to(b, BYTE, count - 3, 4, &value, NULL));
    ferry_buffer_destroy(&view);
    ferry_buffer_destroy(&b);
}

/* ferry_buffer_create_from() copies its source, so later changes to the source do not change the
 * buffer. */
static void
test_create_from_copies(void **state)
{
    fixture *f = *state;
    int32_t source[100];
    for (int i = 0; i < 100; i++)
        source[i] = i;
    ferry_buffer *b;
    OK(ferry_buffer_create_from(f->context, INT, 100, source, NULL, &b));
    memset(source, 0xff, sizeof(source));
    STATE(b, HOST_ONLY);
    expect_counting(f, b, 1, 0, FERRY_REST, 0);
    expect_counting(f, b, 0, 0, FERRY_REST, 0);
    ferry_buffer_destroy(&b);
}

/* Buffers, copies, fills, views and scopes of length zero succeed and do nothing. */
static void
test_zero_lengths_do_nothing(void **state)
{
    fixture *f = *state;
    for (size_t count = 0; count <= 10; count += 10) {
        ferry_buffer *b = make_ints(f, count), *view, *from, *other = make_ints(f, 0);
        ferry_scope scope;
        ferry_event *event;
        void *memory = &scope;
        ferry_transfer_stats before = moved(f);
        OK(ferry_buffer_create_from(f->context, INT, 0, NULL, NULL, &from));
        OK(ferry_buffer_copy_from(b, INT, count, 0, NULL, NULL));
        OK(ferry_buffer_copy_to(b, INT, count, 0, NULL, NULL));
        OK(ferry_buffer_copy(b, INT, count, other, 0, FERRY_REST, NULL));
        OK(ferry_buffer_copy(other, INT, 0, b, count, 0, NULL));
        OK(ferry_buffer_fill(b, INT, count, 0, NULL, NULL));
        OK(ferry_buffer_view(b, INT, count, 0, &view));
        for (ferry_access access = FERRY_READ; access <= FERRY_OVERWRITE; access++) {
            OK(ferry_buffer_open_host(view, INT, access, 0, FERRY_REST, &scope, &memory));
            assert_null(memory);
            OK(ferry_scope_close(&scope));
            OK(ferry_buffer_open_device(b, INT, access, count, 0, f->stream, &scope, &memory));
            OK(ferry_scope_abandon(&scope));
        }
        QUEUE(ferry_buffer_copy_from_async(b, INT, count, 0, NULL, ON(NULL), &forgotten));
        OK(ferry_buffer_copy_to_async(b, INT, count, 0, NULL, ON(NULL), &event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
        OK(ferry_buffer_sync_to(b, count, 0, 1, NULL));
        OK(ferry_buffer_mark_dirty(b, count, 0, 0, NULL));
        OK(ferry_buffer_invalidate(b, count, 0, 0));
        OK(ferry_buffer_discard(b, count, FERRY_REST));
        OK(ferry_buffer_prefetch(view, 0, FERRY_REST, 1, f->stream));
        OK(ferry_buffer_wait_available(view, FERRY_UPDATE, 0));
        STATE(b, UNINITIALIZED);
        assert_int_equal(take_snapshot(b).info.places_with_copy, 0);
        expect_moved(f, &before, 0, 0);
        ferry_buffer_destroy(&view);
        ferry_buffer_destroy(&from);
        ferry_buffer_destroy(&other);
        ferry_buffer_destroy(&b);
    }
}

/* Destroying {0}, NULL, or the same handle variable twice has no effect. */
static void
test_destroy_is_harmless_twice(void **state)
{
    fixture *f = *state;
    ferry_int_buffer empty = {0}, b, kept;
    ferry_int_destroy(NULL);
    ferry_int_destroy(&empty);
    OK(ferry_int_create(f->context, 10, NULL, &b));
    kept = ferry_int_retain(b);
    ferry_int_destroy(&b);
    ferry_int_destroy(&b);
    assert_int_equal(ferry_int_count(kept), 10);
    ferry_int_destroy(&kept);
    assert_null(kept.raw);
}

/* Views keep their base alive after the base's handle was destroyed. */
static void
test_views_keep_their_base_alive(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 100, 0), *view, *nested;
    OK(ferry_buffer_view(b, INT, 10, 50, &view));
    ferry_buffer_destroy(&b);
    OK(ferry_buffer_view(view, INT, 10, 20, &nested));
    ferry_buffer_destroy(&view);
    expect_counting(f, nested, 1, 0, FERRY_REST, 20);
    add_to(f, nested, 1, 0, FERRY_REST, 1);
    expect_counting(f, nested, 0, 0, FERRY_REST, 21);
    ferry_buffer_destroy(&nested);
}

/* Destroying a buffer with open scopes logs an error. Closing the last of these scopes then frees
 * the buffer. */
static void
test_destroy_with_an_open_scope_waits_for_it(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 100, 0);
    ferry_scope first, second;
    int32_t *values = open_at(f, b, 0, FERRY_READ, 0, FERRY_REST, &first);
    open_at(f, b, 1, FERRY_READ, 0, FERRY_REST, &second);
    ferry_buffer_destroy(&b);
    fixture_expect_log(f, "2 scopes");
    assert_int_equal(values[99], 99);
    OK(ferry_scope_close(&second));
    assert_int_equal(values[98], 98);
    OK(ferry_scope_close(&first));
    assert_int_equal(living_stores(f->context), 0);
}

enum { ELEMENTS = 1000 };

static bool
count_buffer(const ferry_buffer_info *info, void *user)
{
    (void)info;
    ++*(int *)user;
    return true;
}

/* Uses and destroys a buffer, in one of several ways. */
static void
use_up(fixture *f, int way)
{
    static int32_t memory[ELEMENTS];
    enum { SCOPES = 40 };
    const ferry_wrap_options read_only = {.read_only = true};
    ferry_buffer *b;
    ferry_scope scopes[SCOPES];
    if (way == 0)
        OK(ferry_buffer_wrap_host(f->context, INT, ELEMENTS, memory, &read_only, &b));
    else
        OK(ferry_buffer_create(f->context, INT, ELEMENTS,
                               &(ferry_buffer_options){.align = way == 1 ? 4096 : 0,
                                                       .scrub = way == 2,
                                                       .zero_on_release = way == 2,
                                                       .memory = way == 3 ? FERRY_MEMORY_PINNED
                                                                          : FERRY_MEMORY_DEFAULT},
                               &b));
    if (way > 0)
        write_counting(f, b, 1, 0, ELEMENTS, 1);
    for (int i = 0; i < SCOPES; i++)
        open_at(f, b, 0, FERRY_READ, (size_t)i, 1, &scopes[i]);
    for (int i = 0; i < SCOPES; i++)
        OK(ferry_scope_close(&scopes[i]));
    ferry_buffer_destroy(&b);
}

/* The storage of destroyed buffers serves new ones, of which nothing shows that. */
static void
test_a_new_buffer_is_as_the_first(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, ELEMENTS);
    const snapshot first = take_snapshot(b);
    ferry_buffer_destroy(&b);
    for (int way = 0; way < 4; way++) {
        use_up(f, way);
        int buffers = 0;
        OK(ferry_context_for_each_buffer(f->context, count_buffer, &buffers));
        assert_int_equal(buffers, 0);
        b = make_ints(f, ELEMENTS);
        expect_unchanged(b, &first);
        const ferry_buffer_info info = info_of(b);
        assert_int_equal(info.allocated_bytes, 0);
        assert_int_equal(info.places_held, 0);
        assert_int_equal(info.handles, 1);
        assert_int_equal(info.leases, 0);
        assert_int_equal(info.evictions, 0);
        assert_int_equal(info.last_transfer_ns, 0);
        assert_int_equal(info.to_device.bytes + info.to_host.bytes, 0);
        assert_int_equal(info.to_device.copies + info.to_host.copies, 0);
        expect_constant(f, b, 1, 0, ELEMENTS, 0);
        write_counting(f, b, 0, 0, ELEMENTS, way);
        expect_counting(f, b, 1, 0, ELEMENTS, way);
        ferry_buffer_destroy(&b);
    }
}

/* The host address of a buffer is stable while a scope is open. It stays the same in later scopes,
 * until an invalidate, a resize or an eviction of the host's replica. */
static void
test_the_host_address_is_stable(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 1000, 0);
    ferry_scope scope;
    int32_t *address = open_at(f, b, 0, FERRY_READ, 0, FERRY_REST, &scope);
    OK(ferry_scope_close(&scope));
    for (int i = 0; i < 10; i++) {
        add_to(f, b, i % 2, 0, FERRY_REST, 1);
        OK(ferry_buffer_invalidate(b, 0, FERRY_REST, 1));
        assert_ptr_equal(open_at(f, b, 0, FERRY_READ, 10, 20, &scope), address + 10);
        OK(ferry_scope_close(&scope));
    }
    ferry_buffer_destroy(&b);
}

/* Bytes that were in no write scope read as zero at every place, even if the replica's memory was
 * used by another buffer before. */
static void
test_unwritten_bytes_read_as_zero_in_recycled_blocks(void **state)
{
    fixture *f = *state;
    for (int round = 0; round < 4; round++) {
        for (int place = 0; place <= f->places; place++) {
            ferry_buffer *dirty = make_ints(f, 5000);
            write_counting(f, dirty, place, 0, FERRY_REST, 0x1111);
            ferry_buffer_destroy(&dirty);
            ferry_buffer *b = make_ints(f, 5000);
            expect_constant(f, b, place, 0, 2000, 0);
            write_counting(f, b, place, 1000, 500, 3);
            expect_constant(f, b, place, 0, 1000, 0);
            expect_counting(f, b, 0, 1000, 500, 3);
            expect_constant(f, b, 0, 1500, 3500, 0);
            ferry_buffer_destroy(&b);
        }
    }
}

/* If `scrub` is set, an OVERWRITE scope first clears its bytes. Bytes that the program does not
 * write then read as zero. */
static void
test_scrub_clears_what_overwrite_leaves_out(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *dirty = make_ints(f, 5000), *b;
        write_counting(f, dirty, place, 0, FERRY_REST, 0x1111);
        ferry_buffer_destroy(&dirty);
        OK(ferry_buffer_create(f->context, INT, 5000, &(ferry_buffer_options){.scrub = true}, &b));
        touch(f, b, place, FERRY_OVERWRITE, 0, FERRY_REST);
        expect_constant(f, b, place, 0, FERRY_REST, 0);
        expect_constant(f, b, 0, 0, FERRY_REST, 0);
        write_counting(f, b, place, 0, FERRY_REST, 9);
        touch(f, b, place, FERRY_OVERWRITE, 0, FERRY_REST);
        expect_constant(f, b, place, 0, FERRY_REST, 0);
        write_counting(f, b, place, 0, FERRY_REST, 7);
        touch(f, b, place, FERRY_OVERWRITE, 10, 20);
        expect_constant(f, b, place, 10, 20, 0);
        expect_counting(f, b, 0, 30, 100, 7);
        ferry_buffer_destroy(&b);
    }
}

/* Growing a buffer keeps its data, and the added elements read as zero. Shrinking keeps the
 * remaining elements. A resize to the same size changes nothing. Bytes that only a device holds are
 * kept, too. */
static void
test_resize_keeps_the_prefix_at_every_place(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *b = make_ints(f, 1000);
        write_counting(f, b, place, 0, FERRY_REST, 0);
        snapshot before = take_snapshot(b);
        OK(ferry_buffer_resize(b, 1000));
        expect_unchanged(b, &before);
        ferry_transfer_stats stats = moved(f);
        OK(ferry_buffer_resize(b, 3000));
        expect_moved(f, &stats, 0, 0);
        assert_int_equal(ferry_buffer_count(b), 3000);
        assert_int_equal(ferry_buffer_state(b), before.info.state);
        expect_counting(f, b, place, 0, 1000, 0);
        expect_constant(f, b, 0, 1000, 2000, 0);
        expect_counting(f, b, 0, 0, 1000, 0);
        add_to(f, b, place, 0, 500, 1);
        OK(ferry_buffer_resize(b, 100));
        expect_counting(f, b, place, 0, FERRY_REST, 1);
        /* Bytes that were cut off read as zero when the buffer grows again. */
        OK(ferry_buffer_resize(b, 1000));
        expect_constant(f, b, place, 100, 900, 0);
        expect_counting(f, b, 0, 0, 100, 1);
        OK(ferry_buffer_resize(b, 0));
        STATE(b, UNINITIALIZED);
        OK(ferry_buffer_resize(b, 10));
        expect_constant(f, b, place, 0, FERRY_REST, 0);
        ferry_buffer_destroy(&b);
    }
}

/* Resize is refused for views, and for buffers that are pinned or wrapped or have views. Other code
 * relies on the address or the length of such buffers. */
static void
test_resize_is_refused_where_somebody_relies_on_it(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 10, 0), *view, *wrap;
    int32_t memory[4] = {0};
    void *pinned;
    OK(ferry_buffer_view(b, INT, 0, 5, &view));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_resize(b, 20));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_resize(view, 20));
    ferry_buffer_destroy(&view);
    OK(ferry_buffer_hold(b, 1, &pinned));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_resize(b, 20));
    OK(ferry_buffer_release(b, 1));
    OK(ferry_buffer_resize(b, 20));
    OK(ferry_buffer_wrap_host(f->context, INT, 4, memory, NULL, &wrap));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_resize(wrap, 2));
    ferry_buffer_destroy(&wrap);
    ferry_buffer_destroy(&b);
}

static void
test_alignment_and_names_are_kept(void **state)
{
    fixture *f = *state;
    ferry_buffer *first, *second, *found;
    ferry_scope scope;
    ferry_buffer_options options = {.name = "heights", .align = 1 << 16};
    OK(ferry_buffer_create(f->context, INT, 10, &options, &first));
    for (int place = 0; place <= f->places; place++) {
        assert_int_equal((uintptr_t)open_at(f, first, place, FERRY_UPDATE, 0, FERRY_REST, &scope) %
                             options.align,
                         0);
        OK(ferry_scope_close(&scope));
    }
    OK(ferry_context_find(f->context, "heights", &found));
    assert_ptr_equal(found, first);
    ferry_buffer_destroy(&found);
    /* If several buffers have the same name, a search returns the newest one. */
    OK(ferry_buffer_create(f->context, INT, 10, &options, &second));
    OK(ferry_context_find(f->context, "heights", &found));
    assert_ptr_equal(found, second);
    ferry_buffer_destroy(&second);
    assert_int_equal(ferry_buffer_count(found), 10); /* `found` is a handle */
    ferry_buffer_destroy(&found);
    OK(ferry_context_find(f->context, "heights", &found));
    assert_ptr_equal(found, first);
    ferry_buffer_destroy(&found);
    ferry_buffer_destroy(&first);
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_find(f->context, "heights", &found));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_new_buffer_takes_no_memory),
        cmocka_unit_test(test_counts_are_checked_against_the_limit),
        TEST(test_counts_are_checked_against_sizes),
        TEST(test_alignment_of_elements_is_kept),
        TEST(test_namesakes_are_reported_apart),
        TEST(test_buffers_are_found_by_name),
        TEST(test_three_gibibytes_work),
        TEST(test_create_from_copies),
        TEST(test_zero_lengths_do_nothing),
        TEST(test_destroy_is_harmless_twice),
        TEST(test_views_keep_their_base_alive),
        TEST(test_destroy_with_an_open_scope_waits_for_it),
        TEST(test_a_new_buffer_is_as_the_first),
        TEST(test_the_host_address_is_stable),
        TEST(test_unwritten_bytes_read_as_zero_in_recycled_blocks),
        TEST(test_scrub_clears_what_overwrite_leaves_out),
        TEST(test_resize_keeps_the_prefix_at_every_place),
        TEST(test_resize_is_refused_where_somebody_relies_on_it),
        TEST(test_alignment_and_names_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
