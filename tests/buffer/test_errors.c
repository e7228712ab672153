/* SPDX-License-Identifier: MIT */
/* Tests that each public call refuses arguments that are wrong, and changes nothing then. */
#include "tests/buffer/support.h"
#include "tests/support/copies.h"

#include <stdio.h>

#include <ferry/generated.h>
#include <ferry/int_convert.h>

/*
 * Every public function checks its arguments. When called with a wrong argument, it returns the
 * documented status, sets a message, writes no output and changes nothing.
 */

#define SENTINEL ((void *)(uintptr_t)0xabcdef)

/* Checks that a call fails and leaves `buffer` unchanged. The output `out` contains SENTINEL before
 * the call and must still contain it afterwards. */
#define REFUSES(status, buffer, out, call)                                                         \
    do {                                                                                           \
        snapshot before_ = take_snapshot(buffer);                                                  \
        (out) = SENTINEL;                                                                          \
        FAILS(status, call);                                                                       \
        assert_ptr_equal((out), SENTINEL);                                                         \
        expect_unchanged((buffer), &before_);                                                      \
    } while (0)

/* Checks that a call without an output parameter fails and leaves `buffer` unchanged. */
#define REFUSED(status, buffer, call)                                                              \
    do {                                                                                           \
        snapshot before_ = take_snapshot(buffer);                                                  \
        FAILS(status, call);                                                                       \
        expect_unchanged((buffer), &before_);                                                      \
    } while (0)

#define INVALID FERRY_ERROR_INVALID_ARGUMENT
#define RANGE   FERRY_ERROR_OUT_OF_RANGE
#define TYPE    FERRY_ERROR_WRONG_TYPE

/* -- contexts ---------------------------------------------------------------------------------- */

static void
test_contexts_check_their_arguments(void **state)
{
    fixture *f = *state;
    ferry_context *out = SENTINEL;
    FAILS(INVALID, ferry_context_create(NULL, NULL));
    FAILS(INVALID, ferry_context_shared(NULL));
    FAILS(INVALID, ferry_context_create(&(ferry_context_options){.devices = "host,,host"}, &out));
    FAILS(FERRY_ERROR_NO_DEVICE,
          ferry_context_create(&(ferry_context_options){.devices = "cuda:4711"}, &out));
    FAILS(INVALID, ferry_context_create(&(ferry_context_options){.devices = "emulated:16"}, &out));
    assert_ptr_equal(out, SENTINEL);

    assert_int_equal(ferry_context_place_count(NULL), 0);
    assert_null(ferry_context_stream(NULL, 1));
    assert_null(ferry_context_stream(f->context, 0));
    assert_null(ferry_context_stream(f->context, -1));
    assert_null(ferry_context_stream(f->context, f->places + 1));
    ferry_context_destroy(NULL);
    ferry_context *none = NULL;
    ferry_context_destroy(&none);

    ferry_place_info info;
    ferry_memory_info memory;
    ferry_transfer_stats stats;
    ferry_buffer *buffer = SENTINEL;
    const int wrong[] = {-1, f->places + 1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        FAILS(INVALID, ferry_context_get_place_info(f->context, wrong[i], &info));
        FAILS(INVALID, ferry_context_get_memory_info(f->context, wrong[i], &memory));
    }
    FAILS(INVALID, ferry_context_get_place_info(NULL, 0, &info));
    FAILS(INVALID, ferry_context_get_place_info(f->context, 0, NULL));
    FAILS(INVALID, ferry_context_get_memory_info(NULL, 0, &memory));
    FAILS(INVALID, ferry_context_get_memory_info(f->context, 0, NULL));
    FAILS(INVALID, ferry_context_get_transfer_stats(NULL, &stats));
    FAILS(INVALID, ferry_context_get_transfer_stats(f->context, NULL));
    FAILS(INVALID, ferry_context_reset_stats(NULL));
    FAILS(INVALID, ferry_context_find(NULL, "x", &buffer));
    FAILS(INVALID, ferry_context_find(f->context, NULL, &buffer));
    FAILS(INVALID, ferry_context_find(f->context, "x", NULL));
    FAILS(INVALID, ferry_context_find(f->context, "nobody", &buffer));
    assert_ptr_equal(buffer, SENTINEL);
}

/* -- streams and events ------------------------------------------------------------------------ */

static void
test_streams_check_their_arguments(void **state)
{
    fixture *f = *state;
    fixture foreign;
    fixture_open(&foreign, NULL);
    ferry_stream *out = SENTINEL;
    const int wrong[] = {-1, 0, f->places + 1};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        FAILS(INVALID, ferry_stream_create(f->context, wrong[i], &out));
        FAILS(INVALID,
              ferry_stream_wrap(f->context, wrong[i], ferry_stream_native(f->stream), &out));
    }
    FAILS(INVALID, ferry_stream_create(NULL, 1, &out));
    FAILS(INVALID, ferry_stream_create(f->context, 1, NULL));
    FAILS(INVALID, ferry_stream_wrap(NULL, 1, ferry_stream_native(f->stream), &out));
    FAILS(INVALID, ferry_stream_wrap(f->context, 1, ferry_stream_native(f->stream), NULL));
    if (!f->coherent && !device_of(f, 1)->default_is_null)
        FAILS(INVALID, ferry_stream_wrap(f->context, 1, NULL, &out));
    /* This stream handle does not come from a driver. It points to memory that does not look like a
     * stream of any device, so the call must be refused. */
    void *stranger[64] = {0};
    ferry_place_info info;
    OK(ferry_context_get_place_info(f->context, 1, &info));
    /* Drivers of OpenCL do not survive a handle that is no queue. */
    if (info.language != FERRY_LANGUAGE_OPENCL) {
        FAILS(INVALID, ferry_stream_wrap(f->context, 1, stranger, &out));
        assert_non_null(strstr(ferry_last_error(), "wrap a stream of"));
    }
    assert_ptr_equal(out, SENTINEL);
    assert_null(ferry_stream_native(NULL));
    assert_int_equal(ferry_stream_place(NULL), -1);
    ferry_stream_destroy(NULL);
    ferry_stream *none = NULL;
    ferry_stream_destroy(&none);

    ferry_event *event = SENTINEL;
    bool done;
    size_t bytes = 77;
    FAILS(INVALID, ferry_stream_flush(NULL));
    FAILS(INVALID, ferry_stream_synchronize(NULL));
    FAILS(INVALID, ferry_stream_record(NULL, 0, &event));
    FAILS(INVALID, ferry_stream_record(f->stream, 0, NULL));
    assert_ptr_equal(event, SENTINEL);
    OK(ferry_stream_record(f->stream, 0, &event));
    FAILS(INVALID, ferry_stream_wait_event(NULL, event));
    FAILS(INVALID, ferry_stream_wait_event(f->stream, NULL));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_stream_wait_event(foreign.stream, event));
    FAILS(INVALID, ferry_event_synchronize(NULL));
    FAILS(INVALID, ferry_event_query(NULL, &done));
    FAILS(INVALID, ferry_event_query(event, NULL));
    FAILS(INVALID, ferry_event_cancel(NULL));
    FAILS(INVALID, ferry_event_progress(NULL, &bytes, &bytes));
    FAILS(INVALID, ferry_event_progress(event, NULL, &bytes));
    FAILS(INVALID, ferry_event_progress(event, &bytes, NULL));
    assert_int_equal(bytes, 77);
    OK(ferry_event_cancel(event)); /* no effect on a recorded point */
    OK(ferry_event_synchronize(event));
    OK(ferry_event_query(event, &done));
    assert_true(done);
    ferry_event_destroy(&event);
    assert_null(event);
    ferry_event_destroy(&event);
    ferry_event_destroy(NULL);
    fixture_close(&foreign);
}

/* -- creating ---------------------------------------------------------------------------------- */

static void
test_creation_checks_its_arguments(void **state)
{
    fixture *f = *state;
    ferry_buffer *out = SENTINEL;
    int32_t values[4] = {1, 2, 3, 4};
    ferry_element malformed = *INT;
    malformed.bytes = 3;
    FAILS(INVALID, ferry_buffer_create(NULL, INT, 4, NULL, &out));
    FAILS(INVALID, ferry_buffer_create(f->context, NULL, 4, NULL, &out));
    FAILS(INVALID, ferry_buffer_create(f->context, INT, 4, NULL, NULL));
    FAILS(INVALID, ferry_buffer_create(f->context, &malformed, 4, NULL, &out));
    FAILS(INVALID, ferry_buffer_create_from(NULL, INT, 4, values, NULL, &out));
    FAILS(INVALID, ferry_buffer_create_from(f->context, NULL, 4, values, NULL, &out));
    FAILS(INVALID, ferry_buffer_create_from(f->context, INT, 4, NULL, NULL, &out));
    FAILS(INVALID, ferry_buffer_create_from(f->context, INT, 4, values, NULL, NULL));
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_create(f->context, INT, SIZE_MAX / 2, NULL, &out));
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_create(f->context, INT, SIZE_MAX, NULL, &out));
    FAILS(FERRY_ERROR_OVERFLOW,
          ferry_buffer_create_from(f->context, INT, SIZE_MAX / 4 + 2, values, NULL, &out));
    FAILS(FERRY_ERROR_OVERFLOW,
          ferry_buffer_wrap_host(f->context, INT, SIZE_MAX / 4 + 2, values, NULL, &out));
    const ferry_buffer_options wrong[] = {{.align = 3},
                                          {.align = (size_t)4 << 20},
                                          {.memory = FERRY_MEMORY_DEVICE},
                                          {.memory = (ferry_memory_kind)77},
                                          {.memory = (ferry_memory_kind)-1}};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        FAILS(INVALID, ferry_buffer_create(f->context, INT, 4, &wrong[i], &out));
        FAILS(INVALID, ferry_buffer_create_from(f->context, INT, 4, values, &wrong[i], &out));
    }
    FAILS(INVALID, ferry_buffer_wrap_host(NULL, INT, 4, values, NULL, &out));
    FAILS(INVALID, ferry_buffer_wrap_host(f->context, NULL, 4, values, NULL, &out));
    FAILS(INVALID, ferry_buffer_wrap_host(f->context, INT, 4, NULL, NULL, &out));
    FAILS(INVALID, ferry_buffer_wrap_host(f->context, INT, 4, values, NULL, NULL));
    FAILS(INVALID, ferry_buffer_wrap_host(f->context, INT, 2, (char *)values + 1, NULL, &out));
    FAILS(INVALID, ferry_buffer_wrap_device(NULL, INT, 4, f->stream, values, NULL, &out));
    FAILS(INVALID, ferry_buffer_wrap_device(f->context, NULL, 4, f->stream, values, NULL, &out));
    FAILS(INVALID, ferry_buffer_wrap_device(f->context, INT, 4, f->stream, NULL, NULL, &out));
    FAILS(INVALID, ferry_buffer_wrap_device(f->context, INT, 4, f->stream, values, NULL, NULL));
    fixture foreign;
    fixture_open(&foreign, NULL);
    FAILS(FERRY_ERROR_WRONG_CONTEXT,
          ferry_buffer_wrap_device(f->context, INT, 4, foreign.stream, values, NULL, &out));
    if (f->places > 1)
        FAILS(INVALID, ferry_buffer_wrap_device(f->context, INT, 4, NULL, values, NULL, &out));
    fixture_close(&foreign);
    assert_ptr_equal(out, SENTINEL);
    assert_int_equal(living_stores(f->context), 0);
}

static void
test_handles_of_nothing_answer_with_nothing(void **state)
{
    fixture *f = *state;
    ferry_buffer *none = NULL, *out = SENTINEL;
    ferry_buffer_info info;
    ferry_scope scope;
    void *memory = SENTINEL;
    int32_t value = 7;
    char text[8] = "before";
    assert_int_equal(ferry_buffer_count(NULL), 0);
    assert_int_equal(ferry_buffer_bytes(NULL), 0);
    assert_null(ferry_buffer_element(NULL));
    assert_null(ferry_buffer_context(NULL));
    assert_int_equal(ferry_buffer_state(NULL), FERRY_STATE_UNINITIALIZED);
    assert_int_equal(ferry_buffer_describe(NULL, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    assert_false(ferry_buffer_is_current(NULL, 0));
    assert_false(ferry_buffer_is_page_locked(NULL));
    assert_null(ferry_buffer_retain(NULL));
    ferry_buffer_destroy(NULL);
    ferry_buffer_destroy(&none);
    FAILS(INVALID, ferry_buffer_get_info(NULL, &info));
    FAILS(INVALID, ferry_buffer_unwrap(NULL, NULL));
    FAILS(INVALID, ferry_buffer_unwrap(&none, NULL));
    FAILS(INVALID, ferry_buffer_view(NULL, INT, 0, 0, &out));
    FAILS(INVALID, ferry_buffer_reinterpret(NULL, INT, 0, 0, &out));
    FAILS(INVALID, ferry_buffer_from_raw(NULL, INT, &out));
    FAILS(INVALID, ferry_buffer_resize(NULL, 4));
    FAILS(INVALID, ferry_buffer_open_host(NULL, INT, FERRY_READ, 0, 0, &scope, &memory));
    FAILS(INVALID,
          ferry_buffer_open_device(NULL, INT, FERRY_READ, 0, 0, f->stream, &scope, &memory));
    FAILS(INVALID, ferry_buffer_wait_available(NULL, FERRY_READ, 0));
    FAILS(INVALID, ferry_buffer_copy_from(NULL, INT, 0, 1, &value, NULL));
    FAILS(INVALID, ferry_buffer_copy_to(NULL, INT, 0, 1, &value, NULL));
    FAILS(INVALID, ferry_buffer_copy(NULL, INT, 0, NULL, 0, 1, NULL));
    FAILS(INVALID, ferry_buffer_fill(NULL, INT, 0, 1, &value, NULL));
    FAILS(INVALID, ferry_buffer_copy_from(NULL, INT, 0, 1, &value, NULL));
    FAILS(INVALID, ferry_buffer_copy_to(NULL, INT, 0, 1, &value, NULL));
    FAILS(INVALID, ferry_buffer_copy(NULL, INT, 0, NULL, 0, 1, NULL));
    FAILS(INVALID, ferry_buffer_fill(NULL, INT, 0, 1, &value, NULL));
    FAILS(INVALID, ferry_buffer_copy_from_async(NULL, INT, 0, 1, &value, ON(NULL), &forgotten));
    FAILS(INVALID, ferry_buffer_copy_to_async(NULL, INT, 0, 1, &value, ON(NULL), &forgotten));
    FAILS(INVALID, ferry_buffer_copy_async(NULL, INT, 0, NULL, 0, 1, ON(NULL), &forgotten));
    FAILS(INVALID, ferry_buffer_fill_async(NULL, INT, 0, 1, &value, ON(NULL), &forgotten));
    FAILS(INVALID, ferry_buffer_sync_to(NULL, 0, 0, 0, NULL));
    FAILS(INVALID, ferry_buffer_mark_dirty(NULL, 0, 0, 0, NULL));
    FAILS(INVALID, ferry_buffer_invalidate(NULL, 0, 0, 0));
    FAILS(INVALID, ferry_buffer_discard(NULL, 0, 0));
    FAILS(INVALID, ferry_buffer_reserve(NULL, 0));
    FAILS(INVALID, ferry_buffer_evict(NULL, 0));
    FAILS(INVALID, ferry_buffer_wait_idle(NULL, 0));
    FAILS(INVALID, ferry_buffer_hold(NULL, 0, &memory));
    FAILS(INVALID, ferry_buffer_release(NULL, 0));
    FAILS(INVALID, ferry_buffer_prefetch(NULL, 0, FERRY_REST, 0, NULL));
    FAILS(INVALID, ferry_buffer_advise(NULL, 0, FERRY_REST, 1, FERRY_ADVISE_READ_MOSTLY));
    assert_ptr_equal(memory, SENTINEL);
    assert_ptr_equal(out, SENTINEL);
    assert_int_equal(value, 7);
}

/* -- ranges and types -------------------------------------------------------------------------- */

struct span {
    size_t offset, count;
};
/* Invalid ranges of a buffer of ten elements. They exceed its end by one element, by many elements,
 * by the offset alone, or by a sum that overflows. */
static const struct span outside[] = {{0, 11},
                                      {10, 1},
                                      {11, 0},
                                      {11, FERRY_REST},
                                      {5, 6},
                                      {SIZE_MAX - 1, 3},
                                      {3, SIZE_MAX - 1},
                                      {SIZE_MAX, SIZE_MAX},
                                      {SIZE_MAX / 4 + 1, 1},
                                      {0, SIZE_MAX / 4 + 2}};

static void
test_ranges_past_the_end_are_refused_everywhere(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 10, 0), *other = make_counting(f, 100, 0), *out;
    int32_t values[128] = {0};
    ferry_scope scope;
    void *memory;
    ferry_event *event;
    touch(f, b, 1, FERRY_READ, 2, 5);
    for (size_t i = 0; i < LENGTH(outside); i++) {
        size_t offset = outside[i].offset, count = outside[i].count;
        REFUSES(RANGE, b, memory,
                ferry_buffer_open_host(b, INT, FERRY_UPDATE, offset, count, &scope, &memory));
        REFUSES(RANGE, b, memory,
                ferry_buffer_open_device(b, INT, FERRY_UPDATE, offset, count, f->stream, &scope,
                                         &memory));
        REFUSES(RANGE, b, out, ferry_buffer_view(b, INT, offset, count, &out));
        REFUSED(RANGE, b, ferry_buffer_copy_from(b, INT, offset, count, values, NULL));
        REFUSED(RANGE, b, ferry_buffer_copy_to(b, INT, offset, count, values, NULL));
        REFUSED(RANGE, b, ferry_buffer_copy_from(b, INT, offset, count, values, NULL));
        REFUSED(RANGE, b, ferry_buffer_copy_to(b, INT, offset, count, values, NULL));
        REFUSED(RANGE, b, ferry_buffer_fill(b, INT, offset, count, values, NULL));
        REFUSED(RANGE, b, ferry_buffer_fill(b, INT, offset, count, values, NULL));
        REFUSES(RANGE, b, event,
                ferry_buffer_copy_from_async(b, INT, offset, count, values, ON(NULL), &event));
        REFUSES(RANGE, b, event,
                ferry_buffer_copy_to_async(b, INT, offset, count, values, ON(NULL), &event));
        REFUSES(RANGE, b, event,
                ferry_buffer_fill_async(b, INT, offset, count, values, ON(NULL), &event));
        REFUSED(RANGE, b, ferry_buffer_copy(other, INT, 0, b, offset, count, NULL));
        REFUSED(RANGE, b, ferry_buffer_sync_to(b, offset, count, 1, NULL));
        REFUSED(RANGE, b, ferry_buffer_mark_dirty(b, offset, count, 0, NULL));
        REFUSED(RANGE, b, ferry_buffer_invalidate(b, offset, count, 0));
        REFUSED(RANGE, b, ferry_buffer_discard(b, offset, count));
        ferry_argument argument =
            ferry_argument_with(ferry_buffer_argument(b, INT, offset, count), FERRY_UPDATE);
        REFUSES(RANGE, b, memory, ferry_scope_open_all(&argument, 1, 0, NULL, &scope, &memory));
    }
    REFUSED(RANGE, b, ferry_buffer_copy(b, INT, 5, other, 0, 6, NULL));
    REFUSED(RANGE, b, ferry_buffer_copy(b, INT, 11, other, 0, 0, NULL));
    REFUSED(RANGE, b, ferry_buffer_copy(b, INT, 0, other, 0, FERRY_REST, NULL));
    REFUSES(RANGE, b, event, ferry_buffer_copy_async(b, INT, 5, other, 0, 6, ON(NULL), &event));
    REFUSES(RANGE, b, out, ferry_buffer_reinterpret(b, BYTE, 41, 0, &out));
    REFUSES(RANGE, b, out, ferry_buffer_reinterpret(b, BYTE, 0, 41, &out));
    REFUSES(RANGE, b, out, ferry_buffer_reinterpret(b, BYTE, SIZE_MAX, 1, &out));
    REFUSES(RANGE, b, out, ferry_buffer_reinterpret(b, INT, 4, SIZE_MAX - 1, &out));
    REFUSES(RANGE, b, out, ferry_buffer_reinterpret(b, INT, 4, SIZE_MAX / 4 + 1, &out));
    expect_counting(f, b, 0, 0, FERRY_REST, 0);
    for (size_t i = 0; i < LENGTH(values); i++)
        assert_int_equal(values[i], 0);
    DESTROY_BUFFERS(&b, &other);
}

static void
test_wrong_types_and_nulls_are_refused_everywhere(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 10, 0), *other = NULL, *out;
    int32_t values[10];
    ferry_scope scope;
    void *memory;
    ferry_event *event;
    OK(ferry_buffer_create(f->context, FLOAT, 10, NULL, &other));
    const struct {
        ferry_status status;
        const ferry_element *element;
    } wrong[] = {{TYPE, FLOAT}, {TYPE, DOUBLE}, {TYPE, BYTE}, {INVALID, NULL}};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        ferry_status s = wrong[i].status;
        const ferry_element *e = wrong[i].element;
        REFUSES(s, b, memory, ferry_buffer_open_host(b, e, FERRY_UPDATE, 0, 1, &scope, &memory));
        REFUSES(s, b, memory,
                ferry_buffer_open_device(b, e, FERRY_UPDATE, 0, 1, f->stream, &scope, &memory));
        REFUSES(s, b, out, ferry_buffer_view(b, e, 0, 1, &out));
        REFUSES(s, b, out, ferry_buffer_from_raw(b, e, &out));
        if (!e)
            continue; /* the calls below accept NULL, which means the buffer's own element */
        REFUSED(s, b, ferry_buffer_copy_from(b, e, 0, 1, values, NULL));
        REFUSED(s, b, ferry_buffer_copy_to(b, e, 0, 1, values, NULL));
        REFUSED(s, b, ferry_buffer_fill(b, e, 0, 1, values, NULL));
        REFUSES(s, b, event, ferry_buffer_copy_from_async(b, e, 0, 1, values, ON(NULL), &event));
        REFUSES(s, b, event, ferry_buffer_copy_to_async(b, e, 0, 1, values, ON(NULL), &event));
        REFUSES(s, b, event, ferry_buffer_fill_async(b, e, 0, 1, values, ON(NULL), &event));
        REFUSES(s, b, event, ferry_buffer_copy_async(b, e, 0, b, 5, 1, ON(NULL), &event));
        REFUSED(s, b, ferry_buffer_copy(b, e, 0, b, 5, 1, NULL));
        ferry_argument argument =
            ferry_argument_with(ferry_buffer_argument(b, e, 0, 1), FERRY_UPDATE);
        REFUSES(s, b, memory, ferry_scope_open_all(&argument, 1, 0, NULL, &scope, &memory));
    }
    ferry_buffer *raw = NULL;
    OK(ferry_buffer_from_raw(b, INT, &raw));
    assert_ptr_equal(raw, b);
    REFUSED(TYPE, b, ferry_buffer_copy(b, INT, 0, other, 0, 1, NULL));
    REFUSED(TYPE, other, ferry_buffer_copy(other, INT, 0, b, 0, 1, NULL));
    REFUSED(INVALID, b, ferry_buffer_copy(b, INT, 0, NULL, 0, 1, NULL));
    REFUSED(INVALID, b, ferry_buffer_copy(NULL, INT, 0, b, 0, 1, NULL));
    REFUSED(INVALID, b, ferry_buffer_copy_from(b, INT, 0, 1, NULL, NULL));
    REFUSED(INVALID, b, ferry_buffer_copy_to(b, INT, 0, 1, NULL, NULL));
    REFUSED(INVALID, b, ferry_buffer_fill(b, INT, 0, 1, NULL, NULL));
    REFUSES(INVALID, b, event, ferry_buffer_copy_from_async(b, INT, 0, 1, NULL, ON(NULL), &event));
    REFUSES(INVALID, b, event, ferry_buffer_copy_to_async(b, INT, 0, 1, NULL, ON(NULL), &event));
    REFUSES(INVALID, b, event, ferry_buffer_fill_async(b, INT, 0, 1, NULL, ON(NULL), &event));
    REFUSED(INVALID, b, ferry_buffer_view(b, INT, 0, 1, NULL));
    REFUSED(INVALID, b, ferry_buffer_reinterpret(b, INT, 0, 1, NULL));
    REFUSES(INVALID, b, out, ferry_buffer_reinterpret(b, NULL, 0, 1, &out));
    REFUSED(INVALID, b, ferry_buffer_from_raw(b, INT, NULL));
    REFUSED(INVALID, b, ferry_buffer_get_info(b, NULL));
    const int accesses[] = {0, 4, -1, 1000};
    for (size_t i = 0; i < LENGTH(accesses); i++) {
        ferry_access a = (ferry_access)accesses[i];
        REFUSES(INVALID, b, memory, ferry_buffer_open_host(b, INT, a, 0, 1, &scope, &memory));
        REFUSES(INVALID, b, memory,
                ferry_buffer_open_device(b, INT, a, 0, 1, f->stream, &scope, &memory));
        REFUSED(INVALID, b, ferry_buffer_wait_available(b, a, 0));
        ferry_argument argument = ferry_argument_with(ferry_buffer_argument(b, INT, 0, 1), a);
        REFUSES(INVALID, b, memory, ferry_scope_open_all(&argument, 1, 0, NULL, &scope, &memory));
    }
    ferry_argument untyped[] = {
        ferry_argument_with(ferry_buffer_argument(b, INT, 5, 1), FERRY_READ),
        ferry_argument_with(ferry_buffer_argument(b, NULL, 0, 1), FERRY_READ)};
    ferry_scope scopes[2];
    REFUSED(INVALID, b, ferry_scope_open_all(untyped, 2, 0, NULL, scopes, NULL));
    assert_non_null(strstr(ferry_last_error(), "the element of argument 1 is NULL"));
    REFUSED(INVALID, b, ferry_buffer_open_host(b, INT, FERRY_READ, 0, 1, NULL, &memory));
    REFUSED(INVALID, b, ferry_buffer_open_host(b, INT, FERRY_READ, 0, 1, &scope, NULL));
    REFUSED(INVALID, b,
            ferry_buffer_open_device(b, INT, FERRY_READ, 0, 1, f->stream, NULL, &memory));
    REFUSED(INVALID, b,
            ferry_buffer_open_device(b, INT, FERRY_READ, 0, 1, f->stream, &scope, NULL));
    expect_counting(f, b, 0, 0, FERRY_REST, 0);
    DESTROY_BUFFERS(&b, &other);
}

/* -- places ------------------------------------------------------------------------------------ */

static void
test_unknown_places_are_refused_everywhere(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 10, 0);
    ferry_scope scope;
    void *memory;
    const int wrong[] = {-1, f->places + 1, 255, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        int place = wrong[i];
        REFUSED(INVALID, b, ferry_buffer_sync_to(b, 0, 1, place, NULL));
        REFUSED(INVALID, b, ferry_buffer_mark_dirty(b, 0, 1, place, NULL));
        REFUSED(INVALID, b, ferry_buffer_invalidate(b, 0, 1, place));
        REFUSED(INVALID, b, ferry_buffer_reserve(b, place));
        REFUSED(INVALID, b, ferry_buffer_evict(b, place));
        REFUSED(INVALID, b, ferry_buffer_wait_idle(b, place));
        REFUSES(INVALID, b, memory, ferry_buffer_hold(b, place, &memory));
        REFUSED(INVALID, b, ferry_buffer_release(b, place));
        REFUSED(INVALID, b, ferry_buffer_prefetch(b, 0, FERRY_REST, place, NULL));
        REFUSED(INVALID, b, ferry_buffer_advise(b, 0, FERRY_REST, place, FERRY_ADVISE_READ_MOSTLY));
        ferry_argument argument =
            ferry_argument_with(ferry_buffer_argument(b, INT, 0, 1), FERRY_READ);
        REFUSES(INVALID, b, memory,
                ferry_scope_open_all(&argument, 1, place, NULL, &scope, &memory));
        assert_false(ferry_buffer_is_current(b, place));
    }
    REFUSED(INVALID, b, ferry_buffer_hold(b, 0, NULL));
    REFUSED(FERRY_ERROR_INVALID_STATE, b, ferry_buffer_release(b, 0));
    REFUSED(INVALID, b, ferry_buffer_advise(b, 0, FERRY_REST, 1, (ferry_advice)0));
    REFUSED(INVALID, b, ferry_buffer_advise(b, 0, FERRY_REST, 1, (ferry_advice)7));
    REFUSED(FERRY_ERROR_UNSUPPORTED, b,
            ferry_buffer_advise(b, 0, FERRY_REST, 1, FERRY_ADVISE_READ_MOSTLY));
    REFUSED(INVALID, b,
            /* a stream of a device cannot mark the host's replica */
            ferry_buffer_mark_dirty(b, 0, 1, 0, f->stream));
    if (f->places > 1) {
        REFUSES(INVALID, b, memory,
                ferry_buffer_open_device(b, INT, FERRY_READ, 0, 1, NULL, &scope, &memory));
        REFUSED(INVALID, b, ferry_buffer_prefetch(b, 0, FERRY_REST, 1, stream_of(f, 2)));
        REFUSED(INVALID, b, ferry_buffer_mark_dirty(b, 0, 1, 1, stream_of(f, 2)));
        ferry_argument argument =
            ferry_argument_with(ferry_buffer_argument(b, INT, 0, 1), FERRY_READ);
        REFUSES(INVALID, b, memory,
                ferry_scope_open_all(&argument, 1, 1, stream_of(f, 2), &scope, &memory));
    }
    ferry_buffer_destroy(&b);
}

static void
test_foreign_objects_are_refused_everywhere(void **state)
{
    fixture *f = *state;
    fixture foreign;
    fixture_open(&foreign, NULL);
    ferry_buffer *b = make_counting(f, 10, 0), *other = make_counting(&foreign, 10, 0);
    int32_t values[10] = {0};
    ferry_scope scope, scopes[2];
    void *memory, *pointers[2];
    ferry_event *event;
    ferry_stream *stream = foreign.stream;
    const ferry_status status = FERRY_ERROR_WRONG_CONTEXT;
    REFUSES(status, b, memory,
            ferry_buffer_open_device(b, INT, FERRY_UPDATE, 0, 1, stream, &scope, &memory));
    REFUSED(status, b, ferry_buffer_mark_dirty(b, 0, 1, 1, stream));
    REFUSED(status, b, ferry_buffer_prefetch(b, 0, FERRY_REST, 1, stream));
    REFUSED(status, b, ferry_buffer_copy(b, INT, 0, other, 0, 1, NULL));
    REFUSED(status, b, ferry_buffer_copy(other, INT, 0, b, 0, 1, NULL));
    REFUSES(status, b, event,
            ferry_buffer_copy_from_async(b, INT, 0, 1, values, ON(stream), &event));
    REFUSES(status, b, event, ferry_buffer_copy_to_async(b, INT, 0, 1, values, ON(stream), &event));
    REFUSES(status, b, event, ferry_buffer_fill_async(b, INT, 0, 1, values, ON(stream), &event));
    REFUSES(status, b, event, ferry_buffer_copy_async(b, INT, 0, b, 5, 1, ON(stream), &event));
    REFUSES(status, b, event, ferry_buffer_copy_async(b, INT, 0, other, 5, 1, ON(NULL), &event));
    ferry_argument arguments[2] = {
        ferry_argument_with(ferry_buffer_argument(b, INT, 0, 1), FERRY_UPDATE),
        ferry_argument_with(ferry_buffer_argument(other, INT, 0, 1), FERRY_UPDATE)};
    REFUSED(status, b, ferry_scope_open_all(arguments, 2, 0, NULL, scopes, pointers));
    REFUSED(status, b, ferry_scope_open_all(arguments, 1, 1, stream, scopes, pointers));
    /* The same where the bytes are current, so that the fast path could open the scope. */
    write_counting(f, b, 1, 0, FERRY_REST, 0);
    for (ferry_access access = FERRY_READ; access <= FERRY_OVERWRITE; access++) {
        REFUSES(status, b, memory,
                ferry_buffer_open_device(b, INT, access, 0, FERRY_REST, stream, &scope, &memory));
        if (f->places > 1)
            REFUSES(INVALID, b, memory,
                    ferry_buffer_open_device(b, INT, access, 0, FERRY_REST, NULL, &scope, &memory));
    }
    open_at(f, b, 1, FERRY_UPDATE, 0, 1, &scope);
    REFUSED(status, b, ferry_scope_close_on(&scope, stream));
    REFUSED(FERRY_ERROR_BUSY, b,
            ferry_buffer_copy_to(b, INT, 0, 1, values, NULL)); /* the scope is still open */
    OK(ferry_scope_close(&scope));
    expect_counting(f, b, 0, 0, FERRY_REST, 0);
    DESTROY_BUFFERS(&b, &other);
    fixture_close(&foreign);
}

/* -- scopes ------------------------------------------------------------------------------------ */

static void
test_calls_on_scopes_check_their_arguments(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 10, 0);
    ferry_scope scope, zero = {0};
    FAILS(INVALID, ferry_scope_close(NULL));
    FAILS(INVALID, ferry_scope_abandon(NULL));
    FAILS(INVALID, ferry_scope_close_on(NULL, f->stream));
    FAILS(INVALID, ferry_scope_close_on(&zero, NULL));
    ferry_scope_close_all(NULL, 0);
    open_at(f, b, 0, FERRY_UPDATE, 0, 1, &scope);
    REFUSED(INVALID, b, ferry_scope_close_on(&scope, f->stream)); /* a host scope */
    OK(ferry_scope_close(&scope));
    if (f->places > 1) {
        open_at(f, b, 1, FERRY_UPDATE, 0, 1, &scope);
        REFUSED(INVALID, b, ferry_scope_close_on(&scope, stream_of(f, 2)));
        OK(ferry_scope_close_on(&scope, f->stream));
    }
    ferry_argument value = ferry_size_value(4), empty = {0};
    void *memory;
    OK(ferry_scope_open_all(NULL, 0, 0, NULL, NULL, NULL));
    FAILS(INVALID, ferry_scope_open_all(NULL, 1, 0, NULL, &scope, &memory));
    FAILS(INVALID, ferry_scope_open_all(&empty, 1, 0, NULL, &scope, &memory));
    FAILS(INVALID, ferry_scope_open_all(&value, 1, 0, NULL, &scope, &memory));
    ferry_argument good = ferry_argument_with(ferry_buffer_argument(b, INT, 0, 1), FERRY_UPDATE);
    REFUSED(INVALID, b, ferry_scope_open_all(&good, 1, 0, NULL, NULL, &memory));
    REFUSED(INVALID, b, ferry_scope_open_all(&good, 1, 0, f->stream, &scope, &memory));
    ferry_argument mixed[2] = {good, empty};
    ferry_scope scopes[2];
    REFUSED(INVALID, b, ferry_scope_open_all(mixed, 2, 0, NULL, scopes, NULL));
    mixed[1] = value;
    REFUSED(INVALID, b, ferry_scope_open_all(mixed, 2, 0, NULL, scopes, NULL));
    ferry_buffer_destroy(&b);
}

/* Checks that a call fails with FERRY_ERROR_BUSY because a conflicting scope is open on its range.
 * The error message must name the scope. */
#define BLOCKED(buffer, place, call)                                                               \
    do {                                                                                           \
        REFUSED(FERRY_ERROR_BUSY, (buffer), call);                                                 \
        expect_said((place) ? "update_device of bytes 8 to 20" : "update_host of bytes 8 to 20");  \
    } while (0)

static void
expect_said(const char *text)
{
    if (!strstr(ferry_last_error(), text))
        fail_msg("\"%s\" does not say \"%s\"", ferry_last_error(), text);
}

static void
test_open_scopes_make_conflicting_calls_busy(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 10, 0), *other = make_counting(f, 10, 0);
    int32_t values[10] = {0};
    ferry_scope held, scope;
    void *memory;
    ferry_event *event;
    const ferry_status busy = FERRY_ERROR_BUSY;
    for (int place = 0; place <= 1; place++) {
        open_at(f, b, place, FERRY_UPDATE, 2, 3, &held);
        REFUSES(busy, b, memory, ferry_buffer_open_host(b, INT, FERRY_READ, 4, 1, &scope, &memory));
        BLOCKED(b, place, ferry_buffer_wait_available(b, FERRY_READ, 0));
        BLOCKED(b, place, ferry_buffer_wait_available(b, FERRY_READ, 1000));
        BLOCKED(b, place, ferry_buffer_copy_from(b, INT, 0, 3, values, NULL));
        BLOCKED(b, place, ferry_buffer_copy_to(b, INT, 0, 3, values, NULL));
        BLOCKED(b, place, ferry_buffer_fill(b, INT, 0, 3, values, NULL));
        BLOCKED(b, place, ferry_buffer_copy(b, INT, 0, other, 0, 3, NULL));
        BLOCKED(b, place, ferry_buffer_copy(other, INT, 0, b, 0, 3, NULL));
        REFUSES(busy, b, event,
                ferry_buffer_copy_from_async(b, INT, 0, 3, values, ON(NULL), &event));
        REFUSES(busy, b, event, ferry_buffer_copy_to_async(b, INT, 0, 3, values, ON(NULL), &event));
        REFUSES(busy, b, event, ferry_buffer_fill_async(b, INT, 0, 3, values, ON(NULL), &event));
        REFUSES(busy, b, event, ferry_buffer_copy_async(other, INT, 0, b, 0, 3, ON(NULL), &event));
        BLOCKED(b, place, ferry_buffer_sync_to(b, 4, 2, place ? 0 : 1, NULL));
        BLOCKED(b, place, ferry_buffer_discard(b, 4, 2));
        BLOCKED(b, place, ferry_buffer_resize(b, 20));
        BLOCKED(b, place, ferry_buffer_evict(b, place));
        expect_said("evict bytes 0 to 40");
        BLOCKED(b, place, ferry_buffer_invalidate(b, 0, FERRY_REST, place));
        expect_said("invalidate bytes 0 to 40");
        BLOCKED(b, place, ferry_buffer_mark_dirty(b, 0, FERRY_REST, place, NULL));
        BLOCKED(b, place, ferry_buffer_prefetch(b, 0, FERRY_REST, place ? 0 : 1, f->stream));
        OK(ferry_buffer_copy_to(b, INT, 5, 5, values, NULL)); /* disjoint */
        OK(ferry_scope_close(&held));
        OK(ferry_buffer_wait_available(b, FERRY_OVERWRITE, 0));
    }
    expect_counting(f, b, 0, 0, FERRY_REST, 0);
    DESTROY_BUFFERS(&b, &other);
}

/* -- pools and conversions --------------------------------------------------------------------- */

static void
test_pools_check_their_arguments(void **state)
{
    fixture *f = *state;
    ferry_pool *pool = SENTINEL;
    ferry_block *block = SENTINEL;
    ferry_pool_stats stats;
    FAILS(INVALID, ferry_context_pool(NULL, 0, FERRY_MEMORY_DEFAULT, &pool));
    FAILS(INVALID, ferry_context_pool(f->context, 0, FERRY_MEMORY_DEFAULT, NULL));
    FAILS(INVALID, ferry_context_pool(f->context, -1, FERRY_MEMORY_DEFAULT, &pool));
    FAILS(INVALID, ferry_context_pool(f->context, f->places + 1, FERRY_MEMORY_DEFAULT, &pool));
    FAILS(INVALID, ferry_context_pool(f->context, 0, (ferry_memory_kind)5, &pool));
    FAILS(INVALID, ferry_context_pool(f->context, 0, (ferry_memory_kind)-1, &pool));
    FAILS(INVALID, ferry_context_pool(f->context, 0, FERRY_MEMORY_DEVICE, &pool));
    FAILS(INVALID, ferry_context_pool(f->context, 1, FERRY_MEMORY_PINNED, &pool));
    assert_ptr_equal(pool, SENTINEL);
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEFAULT, &pool));
    fixture foreign;
    fixture_open(&foreign, NULL);
    FAILS(INVALID, ferry_pool_allocate(NULL, 1, f->stream, &block));
    FAILS(INVALID, ferry_pool_allocate(pool, 1, f->stream, NULL));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_pool_allocate(pool, 1, foreign.stream, &block));
    FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_pool_allocate(pool, SIZE_MAX / 2, f->stream, &block));
    FAILS(FERRY_ERROR_OUT_OF_MEMORY, ferry_pool_allocate(pool, SIZE_MAX, f->stream, &block));
    assert_ptr_equal(block, SENTINEL);
    assert_null(ferry_block_pointer(NULL));
    assert_int_equal(ferry_block_bytes(NULL), 0);
    OK(ferry_pool_allocate(pool, 1, f->stream, &block));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_block_free(&block, foreign.stream));
    assert_non_null(block);
    FAILS(INVALID, ferry_block_free(NULL, f->stream));
    OK(ferry_block_free(&block, f->stream));
    assert_null(block);
    OK(ferry_block_free(&block, f->stream));
    FAILS(INVALID, ferry_pool_get_stats(NULL, &stats));
    FAILS(INVALID, ferry_pool_get_stats(pool, NULL));
    FAILS(INVALID, ferry_pool_trim(NULL, 0));
    fixture_close(&foreign);
}

static ferry_status
double_to_int(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    return ferry_convert_double_to_int(target, source, count, policy);
}

/* An unknown policy is refused even by a copy that converts nothing. */
static void
test_unknown_policies_are_refused_everywhere(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 10, 0), *other = make_counting(f, 10, 5);
    const int policies[] = {-1, 4, 99};
    int values[10] = {0};
    for (size_t i = 0; i < LENGTH(policies); i++) {
        const ferry_copy_options options = {.convert = policies[i]};
        REFUSED(INVALID, b, ferry_buffer_copy_from(b, INT, 0, 10, values, &options));
        REFUSED(INVALID, b, ferry_buffer_copy_to(b, INT, 0, 10, values, &options));
        REFUSED(INVALID, b, ferry_buffer_copy(b, INT, 0, other, 0, 10, &options));
        REFUSED(INVALID, b, ferry_buffer_fill(b, INT, 0, 10, values, &options));
        REFUSED(INVALID, b, ferry_buffer_load(b, INT, 0, 10, "/dev/null", 0, &options));
        REFUSED(INVALID, b, ferry_buffer_store(b, INT, 0, 10, "/dev/null", 0, &options));
        REFUSED(INVALID, b, ferry_buffer_sync_to(b, 0, 10, 1, &options));
        FAILS(INVALID, ferry_copy(NULL, 0, &options));
    }
    DESTROY_BUFFERS(&b, &other);
}

static void
test_conversions_check_their_arguments(void **state)
{
    fixture *f = *state;
    /* The conversion `no_function` is invalid. The library converts only between two different
     * number types, so a conversion from double to double needs a function. */
    ferry_conversion good = {.from = DOUBLE, .to = INT, .convert = double_to_int},
                     no_from = {.from = NULL, .to = INT, .convert = double_to_int},
                     no_to = {.from = DOUBLE, .to = NULL, .convert = double_to_int},
                     no_function = {.from = DOUBLE, .to = DOUBLE};
    const ferry_conversion *wrong[] = {NULL, &no_from, &no_to, &no_function};
    ferry_buffer *ints = make_counting(f, 10, 0), *doubles;
    double values[11] = {0};
    int32_t numbers[11] = {0};
    OK(ferry_buffer_create(f->context, DOUBLE, 10, NULL, &doubles));
    for (size_t i = 0; i < LENGTH(wrong); i++)
        FAILS(INVALID, ferry_conversion_run(wrong[i], numbers, values, 1, FERRY_CONVERT_SATURATE));
    for (size_t i = 1; i < 3; i++) {
        REFUSED(INVALID, ints,
                copy_from_converted(ints, wrong[i], 0, 1, values, FERRY_CONVERT_SATURATE, NULL));
        REFUSED(INVALID, doubles,
                copy_to_converted(doubles, wrong[i], 0, 1, numbers, FERRY_CONVERT_SATURATE, NULL));
        REFUSED(INVALID, ints,
                convert_buffer(ints, wrong[i], 0, doubles, 0, 1, FERRY_CONVERT_SATURATE, NULL));
    }
    const int policies[] = {-1, 4, 99};
    for (size_t i = 0; i < LENGTH(policies); i++) {
        ferry_convert_policy p = (ferry_convert_policy)policies[i];
        REFUSED(INVALID, ints, copy_from_converted(ints, &good, 0, 1, values, p, NULL));
        REFUSED(INVALID, doubles, copy_to_converted(doubles, &good, 0, 1, numbers, p, NULL));
        REFUSED(INVALID, ints, convert_buffer(ints, &good, 0, doubles, 0, 1, p, NULL));
        FAILS(INVALID, ferry_conversion_run(&good, numbers, values, 1, p));
    }
    const ferry_convert_policy p = FERRY_CONVERT_SATURATE;
    REFUSED(TYPE, doubles, copy_from_converted(doubles, &good, 0, 1, values, p, NULL));
    REFUSED(TYPE, ints, copy_to_converted(ints, &good, 0, 1, numbers, p, NULL));
    REFUSED(TYPE, ints, convert_buffer(doubles, &good, 0, ints, 0, 1, p, NULL));
    FAILS(INVALID, copy_from_converted(NULL, &good, 0, 1, values, p, NULL));
    FAILS(INVALID, copy_to_converted(NULL, &good, 0, 1, numbers, p, NULL));
    REFUSED(INVALID, ints, convert_buffer(ints, &good, 0, NULL, 0, 1, p, NULL));
    REFUSED(INVALID, doubles, convert_buffer(NULL, &good, 0, doubles, 0, 1, p, NULL));
    REFUSED(INVALID, ints, copy_from_converted(ints, &good, 0, 1, NULL, p, NULL));
    REFUSED(INVALID, doubles, copy_to_converted(doubles, &good, 0, 1, NULL, p, NULL));
    FAILS(INVALID, ferry_conversion_run(&good, NULL, values, 1, p));
    FAILS(INVALID, ferry_conversion_run(&good, numbers, NULL, 1, p));
    FAILS(FERRY_ERROR_OVERFLOW, ferry_conversion_run(&good, numbers, values, SIZE_MAX / 8 + 1, p));
    for (size_t i = 0; i < LENGTH(outside); i++) {
        REFUSED(
            RANGE, ints,
            copy_from_converted(ints, &good, outside[i].offset, outside[i].count, values, p, NULL));
        REFUSED(RANGE, doubles,
                copy_to_converted(doubles, &good, outside[i].offset, outside[i].count, numbers, p,
                                  NULL));
        REFUSED(
            RANGE, ints,
            convert_buffer(ints, &good, 0, doubles, outside[i].offset, outside[i].count, p, NULL));
    }
    REFUSED(RANGE, ints, convert_buffer(ints, &good, 6, doubles, 0, 5, p, NULL));
    /* A conversion may read and write overlapping bytes of one buffer, just like memmove(). */
    ferry_buffer *same;
    OK(ferry_buffer_reinterpret(doubles, INT, 0, 20, &same));
    OK(convert_buffer(same, &good, 0, doubles, 0, 10, p, NULL));
    OK(convert_buffer(same, &good, 5, doubles, 2, 1, p, NULL));
    OK(convert_buffer(same, &good, 4, doubles, 0, 2, p, NULL));
    OK(convert_buffer(same, &good, 0, doubles, 2, 4, p, NULL));
    ferry_buffer_destroy(&same);
    fixture foreign;
    fixture_open(&foreign, NULL);
    ferry_buffer *other = make_ints(&foreign, 10);
    REFUSED(FERRY_ERROR_WRONG_CONTEXT, other,
            convert_buffer(other, &good, 0, doubles, 0, 1, p, NULL));
    ferry_buffer_destroy(&other);
    fixture_close(&foreign);
    expect_counting(f, ints, 0, 0, FERRY_REST, 0);
    DESTROY_BUFFERS(&ints, &doubles);
}

/* -- after the end ----------------------------------------------------------------------------- */

/* After ferry_context_destroy(), remaining buffer handles can only be destroyed or queried for
 * their count and info. */
static void
test_after_the_context_handles_answer_little(void **state)
{
    (void)state;
    fixture f, foreign;
    fixture_open(&f, NULL);
    fixture_open(&foreign, NULL);
    ferry_buffer_options named = {.name = "survivor"};
    ferry_buffer *b, *view, *out = SENTINEL, *other = make_counting(&foreign, 10, 0);
    ferry_scope open, scope;
    ferry_event *event, *none = SENTINEL;
    int32_t values[10] = {0};
    void *memory = SENTINEL;
    bool done;
    const ferry_status dead = FERRY_ERROR_INVALID_STATE;
    OK(ferry_buffer_create(f.context, INT, 10, &named, &b));
    write_counting(&f, b, 1, 0, FERRY_REST, 0);
    OK(ferry_buffer_view(b, INT, 2, 5, &view));
    open_at(&f, b, 1, FERRY_READ, 0, 5, &open);
    OK(ferry_stream_record(f.stream, 0, &event));
    fixture_finish(&f);
    ferry_context *context = f.context; /* live handles keep its memory */
    ferry_context_destroy(&f.context);
    assert_int_equal(f.errors, 1);
    assert_non_null(strstr(f.message, "survivor"));
    assert_non_null(strstr(f.message, "40"));

    ferry_buffer_info info;
    char text[128];
    assert_int_equal(ferry_buffer_count(b), 10);
    assert_int_equal(ferry_buffer_bytes(view), 20);
    OK(ferry_buffer_get_info(view, &info));
    assert_int_equal(info.offset_bytes, 8);
    assert_int_equal(info.places_with_copy, 0);
    assert_true(ferry_buffer_describe(b, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "int[10] \"survivor\" 40 bytes"));
    assert_false(ferry_buffer_is_current(b, 0));

    FAILS(dead, ferry_buffer_create(context, INT, 1, NULL, &out));
    const ferry_copy_region regions[2] = {ferry_buffer_region(b, INT, 0, b, 5, 1),
                                          ferry_buffer_region(b, INT, 1, b, 6, 1)};
    FAILS(dead, ferry_copy(regions, 2, NULL));
    FAILS(dead, ferry_buffer_open_host(b, INT, FERRY_READ, 0, 1, &scope, &memory));
    FAILS(dead, ferry_buffer_open_host(b, INT, FERRY_READ, 0, 0, &scope, &memory));
    FAILS(dead, ferry_buffer_open_device(b, INT, FERRY_READ, 0, 1, NULL, &scope, &memory));
    FAILS(dead, ferry_buffer_open_device(b, INT, FERRY_READ, 0, 0, NULL, &scope, &memory));
    FAILS(dead, ferry_buffer_wait_available(b, FERRY_READ, 0));
    FAILS(dead, ferry_buffer_view(b, INT, 0, 1, &out));
    FAILS(dead, ferry_buffer_reinterpret(b, BYTE, 0, 1, &out));
    FAILS(dead, ferry_buffer_resize(b, 4));
    FAILS(dead, ferry_buffer_copy_from(b, INT, 0, 1, values, NULL));
    FAILS(dead, ferry_buffer_copy_to(b, INT, 0, 1, values, NULL));
    FAILS(dead, ferry_buffer_copy_to(b, INT, 0, 0, values, NULL));
    FAILS(dead, ferry_buffer_copy(b, INT, 0, b, 5, 1, NULL));
    FAILS(dead, ferry_buffer_copy(b, INT, 0, other, 5, 1, NULL));
    FAILS(dead, ferry_buffer_copy(other, INT, 0, b, 5, 1, NULL));
    FAILS(dead, ferry_buffer_fill(b, INT, 0, 1, values, NULL));
    FAILS(dead, ferry_buffer_copy_from_async(b, INT, 0, 1, values, ON(NULL), &none));
    FAILS(dead, ferry_buffer_copy_to_async(b, INT, 0, 1, values, ON(NULL), &none));
    FAILS(dead, ferry_buffer_copy_async(b, INT, 0, b, 5, 1, ON(NULL), &none));
    FAILS(dead, ferry_buffer_fill_async(b, INT, 0, 1, values, ON(NULL), &none));
    FAILS(dead, ferry_buffer_sync_to(b, 0, 1, 0, NULL));
    FAILS(dead, ferry_buffer_mark_dirty(b, 0, 1, 0, NULL));
    FAILS(dead, ferry_buffer_invalidate(b, 0, 1, 0));
    FAILS(dead, ferry_buffer_discard(b, 0, 1));
    FAILS(dead, ferry_buffer_reserve(b, 0));
    FAILS(dead, ferry_buffer_evict(b, 0));
    FAILS(dead, ferry_buffer_wait_idle(b, 0));
    FAILS(dead, ferry_buffer_hold(b, 0, &memory));
    FAILS(dead, ferry_buffer_release(b, 0));
    FAILS(dead, ferry_buffer_prefetch(b, 0, FERRY_REST, 0, NULL));
    FAILS(dead, ferry_buffer_advise(b, 0, FERRY_REST, 1, FERRY_ADVISE_READ_MOSTLY));
    FAILS(dead, ferry_buffer_unwrap(&b, NULL));
    ferry_argument argument = ferry_argument_with(ferry_buffer_argument(b, INT, 0, 1), FERRY_READ);
    FAILS(dead, ferry_scope_open_all(&argument, 1, 0, NULL, &scope, &memory));
    FAILS(dead, ferry_scope_open_all(&argument, 1, 1, NULL, &scope, &memory));
    FAILS(dead, ferry_event_synchronize(event));
    FAILS(dead, ferry_event_query(event, &done));
    FAILS(dead, ferry_stream_wait_event(foreign.stream, event));
    OK(ferry_event_cancel(event));
    assert_ptr_equal(memory, SENTINEL);
    assert_ptr_equal(out, SENTINEL);
    assert_ptr_equal(none, SENTINEL);

    /* Scopes and handles that outlive the context can be closed and destroyed in any order. */
    ferry_event_destroy(&event);
    ferry_buffer_destroy(&b);
    OK(ferry_scope_close(&open));
    OK(ferry_scope_close(&open));
    assert_int_equal(ferry_buffer_count(view), 5);
    DESTROY_BUFFERS(&view, &other);
    fixture_close(&foreign);
}

static bool
no(size_t bytes_done, size_t bytes_total, void *user)
{
    (void)bytes_done;
    (void)bytes_total;
    (void)user;
    return false;
}

/* The message of a failed call contains the operation, the buffer, the numbers and the reason. */
static void
test_sentences_name_the_buffer_and_the_numbers(void **state)
{
    fixture *f = *state;
    ferry_buffer *b;
    int32_t values[20] = {0};
    OK(ferry_buffer_create(f->context, INT, 10, &(ferry_buffer_options){.name = "heights"}, &b));
    FAILS(RANGE, ferry_buffer_copy_from(b, INT, 7, 13, values, NULL));
    assert_non_null(strstr(ferry_last_error(), "heights"));
    assert_non_null(strstr(ferry_last_error(), "13"));
    assert_non_null(strstr(ferry_last_error(), "7"));
    FAILS(TYPE, ferry_buffer_copy_from(b, FLOAT, 0, 1, values, NULL));
    assert_non_null(strstr(ferry_last_error(), "int"));
    assert_non_null(strstr(ferry_last_error(), "float"));
    /* A call that succeeds does not clear the last error message. */
    OK(ferry_buffer_copy_from(b, INT, 0, 1, values, NULL));
    assert_non_null(strstr(ferry_last_error(), "float"));
    /* The message of a cancelled or failed transfer contains the name of the call. */
    FAILS(FERRY_ERROR_CANCELLED,
          ferry_buffer_copy_from(b, INT, 0, 10, values,
                                 &(ferry_copy_options){.chunk_bytes = 4, .keep_going = no}));
    expect_said("for copy_from of buffer \"heights\": cancelled: 4 of 40 bytes arrived");
    FAILS(FERRY_ERROR_IO, ferry_buffer_store(b, INT, 0, 10, "/dev/full", 0, NULL));
    expect_said("from the host for store of buffer \"heights\", 0 of which arrived: write");
    assert_int_equal(ferry_error_index(), (size_t)-1);
    ferry_buffer_destroy(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_contexts_check_their_arguments),
        TEST(test_streams_check_their_arguments),
        TEST(test_creation_checks_its_arguments),
        TEST(test_handles_of_nothing_answer_with_nothing),
        TEST(test_ranges_past_the_end_are_refused_everywhere),
        TEST(test_wrong_types_and_nulls_are_refused_everywhere),
        TEST(test_unknown_places_are_refused_everywhere),
        TEST(test_foreign_objects_are_refused_everywhere),
        TEST(test_calls_on_scopes_check_their_arguments),
        TEST(test_open_scopes_make_conflicting_calls_busy),
        TEST(test_pools_check_their_arguments),
        TEST(test_unknown_policies_are_refused_everywhere),
        TEST(test_conversions_check_their_arguments),
        TEST(test_sentences_name_the_buffer_and_the_numbers),
        cmocka_unit_test(test_after_the_context_handles_answer_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
