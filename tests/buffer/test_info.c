/* SPDX-License-Identifier: MIT */
#include "tests/buffer/support.h"

#include <stdio.h>

/* "The text form (info) names type, count, bytes, state, places." */
static void
test_the_text_names_everything(void **state)
{
    fixture *f = *state;
    ferry_buffer *b;
    char text[256], expected[256], cut[12];
    OK(ferry_buffer_create(f->context, INT, 1000, &(ferry_buffer_options){.name = "heights"}, &b));
    size_t length = ferry_buffer_describe(b, text, sizeof(text));
    assert_int_equal(length, strlen(text));
    assert_string_equal(text, "int[1000] \"heights\" 4000 bytes UNINITIALIZED copies: none");
    write_counting(f, b, 0, 0, FERRY_REST, 0);
    ferry_buffer_describe(b, text, sizeof(text));
    assert_string_equal(text, "int[1000] \"heights\" 4000 bytes HOST_ONLY copies: host");
    touch(f, b, 1, FERRY_UPDATE, 0, FERRY_REST);
    ferry_buffer_describe(b, text, sizeof(text));
    snprintf(expected, sizeof(expected), "int[1000] \"heights\" 4000 bytes DEVICE_DIRTY copies: host %s", f->context->names[1]);
    assert_string_equal(text, expected);
    /* Cut as snprintf() cuts. */
    memset(cut, 'x', sizeof(cut));
    assert_int_equal(ferry_buffer_describe(b, cut, 10), strlen(expected));
    assert_memory_equal(cut, "int[1000]\0xx", 12);
    assert_int_equal(ferry_buffer_describe(b, NULL, 0), strlen(expected));
    assert_int_equal(ferry_buffer_describe(b, cut, 0), strlen(expected));
    ferry_buffer_destroy(&b);
}

static void
test_info_tells_places_and_scopes(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, 100, 0), *view;
    ferry_buffer_info info;
    ferry_scope scope;
    OK(ferry_buffer_view(b, INT, 10, 20, &view));
    touch(f, view, f->places, FERRY_READ, 0, FERRY_REST);
    open_at(f, b, 0, FERRY_READ, 50, 1, &scope);
    OK(ferry_buffer_info_get(view, &info));
    assert_string_equal(info.name, "");
    assert_int_equal(info.count, 20);
    assert_int_equal(info.bytes, 80);
    assert_int_equal(info.offset_bytes, 40);
    assert_int_equal(info.places_with_copy, 1u | 1u << f->places);
    assert_int_equal(info.places_current, 1u | 1u << f->places);
    assert_int_equal(info.scopes, 1);
    assert_false(info.borrowed || info.read_only || info.pinned);
    OK(ferry_buffer_info_get(b, &info));
    assert_int_equal(info.places_current, 1);
    OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&view);
    ferry_buffer_destroy(&b);
}

static void
test_state_names(void **state)
{
    (void)state;
    const char *names[] = {"UNINITIALIZED", "HOST_ONLY", "DEVICE_ONLY", "SYNCHRONIZED", "HOST_DIRTY", "DEVICE_DIRTY", "MIXED"};
    for (int i = 0; i < (int)LENGTH(names); i++)
        assert_string_equal(ferry_state_name((ferry_state)i), names[i]);
    assert_non_null(ferry_state_name((ferry_state)-1));
    assert_non_null(ferry_state_name((ferry_state)7));
}

/* "a trace callback tells buffer, direction, bytes, reason" */
static void
test_traces_tell_why_bytes_move(void **state)
{
    fixture *f = *state;
    ferry_buffer *b;
    OK(ferry_buffer_create(f->context, INT, 1000, &(ferry_buffer_options){.name = "heights"}, &b));
    write_counting(f, b, 0, 0, FERRY_REST, 0);
    f->traces = 0;
    touch(f, b, 1, FERRY_UPDATE, 100, 50);
    assert_int_equal(f->traces, f->coherent ? 0 : 1);
    if (!f->coherent) {
        assert_string_equal(f->trace_buffer, "heights");
        assert_string_equal(f->trace_reason, "update_device");
        assert_int_equal(f->trace.bytes, 200);
        assert_int_equal(f->trace.source_place, 0);
        assert_int_equal(f->trace.target_place, 1);
        assert_int_equal(f->trace.direction, FERRY_DIRECTION_UPLOAD);
    }
    touch(f, b, 1, FERRY_UPDATE, 100, 50);
    assert_int_equal(f->traces, f->coherent ? 0 : 1);
    ferry_buffer_destroy(&b);
}

/* "memory_info: free + used = total at every place, and moves with allocations." */
static void
test_memory_info_adds_up(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, 1 << 20);
    for (int place = 0; place <= f->places; place++) {
        ferry_memory_info before, after;
        OK(ferry_context_memory_info(f->context, place, &before));
        assert_int_equal(before.free + before.used, before.total);
        bool shared = f->coherent && place > 0;
        touch(f, b, place, FERRY_UPDATE, 0, FERRY_REST);
        OK(ferry_context_memory_info(f->context, place, &after));
        assert_int_equal(after.free + after.used, after.total);
        assert_true(after.live >= before.live + (shared ? 0 : (size_t)4 << 20));
    }
    ferry_buffer_destroy(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_text_names_everything),
        TEST(test_info_tells_places_and_scopes),
        TEST(test_state_names),
        TEST(test_traces_tell_why_bytes_move),
        TEST(test_memory_info_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
