/* SPDX-License-Identifier: MIT */
/* Tests what buffers and contexts report about themselves: texts, counts, walks and traces. */
#include "tests/buffer/support.h"
#include "tests/support/copies.h"
#include "tests/support/unwinder.h"

#include <stdio.h>

/* The text that describes a buffer contains its type, count, bytes, state and places. */
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
    snprintf(expected, sizeof(expected),
             "int[1000] \"heights\" 4000 bytes DEVICE_DIRTY copies: host %s", f->context->names[1]);
    assert_string_equal(text, expected);
    /* Like snprintf(), ferry_buffer_describe() truncates its text to the given size, and returns
     * the length of the whole text. */
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
    OK(ferry_buffer_get_info(view, &info));
    assert_string_equal(info.name, "");
    assert_int_equal(info.count, 20);
    assert_int_equal(info.bytes, 80);
    assert_int_equal(info.offset_bytes, 40);
    assert_int_equal(info.places_with_copy, 1u | 1u << f->places);
    assert_int_equal(info.places_current, 1u | 1u << f->places);
    assert_int_equal(info.scopes, 1);
    assert_false(info.borrowed || info.read_only || info.page_locked);
    OK(ferry_buffer_get_info(b, &info));
    assert_int_equal(info.places_current, 1);
    OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&view);
    ferry_buffer_destroy(&b);
}

static void
test_state_names(void **state)
{
    (void)state;
    const char *names[] = {"UNINITIALIZED", "HOST_ONLY",    "DEVICE_ONLY", "SYNCHRONIZED",
                           "HOST_DIRTY",    "DEVICE_DIRTY", "MIXED"};
    for (int i = 0; i < (int)LENGTH(names); i++)
        assert_string_equal(ferry_state_name((ferry_state)i), names[i]);
    assert_non_null(ferry_state_name((ferry_state)-1));
    assert_non_null(ferry_state_name((ferry_state)7));
}

/* A trace callback receives the buffer, the direction, the number of bytes and the reason. */
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

/* At every place, `free` + `used` = `total` in ferry_memory_info. The numbers change with
 * allocations. */
static void
test_memory_info_adds_up(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, 1 << 20);
    for (int place = 0; place <= f->places; place++) {
        ferry_memory_info before, after;
        OK(ferry_context_get_memory_info(f->context, place, &before));
        assert_int_equal(before.free + before.used, before.total);
        bool shared = f->coherent && place > 0;
        touch(f, b, place, FERRY_UPDATE, 0, FERRY_REST);
        OK(ferry_context_get_memory_info(f->context, place, &after));
        assert_int_equal(after.free + after.used, after.total);
        assert_true(after.live >= before.live + (shared ? 0 : (size_t)4 << 20));
    }
    ferry_buffer_destroy(&b);
}

/* -- what holds the memory --------------------------------------------------------------------- */

enum { MOST = 8 };

struct seen {
    size_t count, until;
    ferry_buffer_info infos[MOST];
    char names[MOST][32];
};

static bool
see(const ferry_buffer_info *info, void *user)
{
    struct seen *seen = user;
    assert_true(seen->count < MOST);
    snprintf(seen->names[seen->count], sizeof(seen->names[0]), "%s", info->name);
    seen->infos[seen->count++] = *info;
    return seen->count != seen->until;
}

/* ferry_context_for_each_buffer() visits every buffer of the context, newest first. It visits even
 * buffers without handles that views or scopes keep alive. */
static void
test_a_walk_sees_every_buffer(void **state)
{
    fixture *f = *state;
    ferry_buffer *first, *second, *third, *view;
    ferry_scope scope;
    double outside[4];
    void *pointer;
    struct seen seen = {0};
    OK(ferry_context_for_each_buffer(f->context, see, &seen));
    assert_int_equal(seen.count, 0);

    OK(ferry_buffer_create(f->context, INT, 1000, &(ferry_buffer_options){.name = "first"},
                           &first));
    OK(ferry_buffer_create(f->context, FLOAT, 10, NULL, &second));
    OK(ferry_buffer_wrap_host(f->context, DOUBLE, 4, outside,
                              &(ferry_wrap_options){.name = "third", .read_only = true}, &third));
    write_counting(f, first, 0, 0, FERRY_REST, 0);
    touch(f, first, f->places, FERRY_READ, 0, 10);
    OK(ferry_buffer_hold(first, 0, &pointer));
    OK(ferry_buffer_view(first, INT, 10, 20, &view));
    ferry_buffer_destroy(&first);
    open_at(f, view, 0, FERRY_READ, 0, FERRY_REST, &scope);

    OK(ferry_context_for_each_buffer(f->context, see, &seen));
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.names[0], "third");
    assert_string_equal(seen.names[1], "");
    assert_string_equal(seen.names[2], "first");
    const ferry_buffer_info *info = &seen.infos[2];
    assert_true(ferry_element_equal(info->element, INT));
    assert_int_equal(info->count, 1000);
    assert_int_equal(info->bytes, 4000);
    assert_int_equal(info->offset_bytes, 0);
    assert_int_equal(info->handles, 1);
    assert_int_equal(info->scopes, 1);
    assert_int_equal(info->places_held, 1);
    assert_int_equal(info->places_with_copy, 1u | 1u << f->places);
    assert_int_equal(info->places_current, 1);
    assert_int_equal(info->state, FERRY_STATE_HOST_DIRTY);
    assert_in_range(info->allocated_bytes, f->coherent ? 4000 : 8000, 2 * 8192);
    if (!f->context->debug)
        assert_string_equal(info->site, "");
    info = &seen.infos[1];
    assert_int_equal(info->state, FERRY_STATE_UNINITIALIZED);
    assert_int_equal(info->allocated_bytes, 0);
    assert_int_equal(info->handles, 1);
    info = &seen.infos[0];
    assert_true(info->borrowed && info->read_only);
    assert_int_equal(info->allocated_bytes, 0);
    assert_int_equal(info->bytes, sizeof(outside));

    /* A visit that returns false ends the walk. */
    seen = (struct seen){.until = 2};
    OK(ferry_context_for_each_buffer(f->context, see, &seen));
    assert_int_equal(seen.count, 2);

    /* Now only the scope keeps the buffer alive. */
    OK(ferry_buffer_release(view, 0));
    ferry_buffer_destroy(&view);
    fixture_expect_log(f, "1 scopes are open");
    seen = (struct seen){0};
    OK(ferry_context_for_each_buffer(f->context, see, &seen));
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.infos[2].handles, 0);
    OK(ferry_scope_close(&scope));
    seen = (struct seen){0};
    OK(ferry_context_for_each_buffer(f->context, see, &seen));
    assert_int_equal(seen.count, 2);

    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_for_each_buffer(NULL, see, &seen));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_for_each_buffer(f->context, NULL, &seen));
    DESTROY_BUFFERS(&second, &third);
}

struct release {
    ferry_context *context;
    struct seen seen;
};

static void
walk_at_the_end(void *memory, void *user)
{
    struct release *release = user;
    (void)memory;
    OK(ferry_context_for_each_buffer(release->context, see, &release->seen));
}

/* ferry_context_for_each_buffer() does not visit a buffer that is being destroyed. The replicas of
 * such a buffer are freed while no lock is held, so the visits may run at the same time. */
static void
test_a_walk_passes_over_what_goes(void **state)
{
    fixture *f = *state;
    struct release release = {.context = f->context};
    ferry_buffer *stays = make_ints(f, 10), *goes;
    double outside[4];
    OK(ferry_buffer_wrap_host(
        f->context, DOUBLE, 4, outside,
        &(ferry_wrap_options){.on_release = walk_at_the_end, .user = &release}, &goes));
    OK(ferry_context_for_each_buffer(f->context, see, &release.seen));
    assert_int_equal(release.seen.count, 2);
    release.seen = (struct seen){0};
    ferry_buffer_destroy(&goes);
    assert_int_equal(release.seen.count, 1);
    assert_int_equal(release.seen.infos[0].count, 10);
    ferry_buffer_destroy(&stays);
}

static bool
destroy_one(const ferry_buffer_info *info, void *user)
{
    ferry_buffer **left = user;
    (void)info;
    while (*left == NULL)
        left++;
    ferry_buffer_destroy(left);
    return true;
}

/* ferry_context_for_each_buffer() calls `visit` with no lock held, so `visit` may call the library.
 * The info and its strings are valid until `visit` returns. */
static void
test_a_visit_may_destroy_what_it_sees(void **state)
{
    fixture *f = *state;
    ferry_buffer *buffers[MOST + 1] = {NULL};
    struct seen seen = {0};
    for (int i = 0; i < MOST; i++)
        OK(ferry_buffer_create(f->context, INT, 10, &(ferry_buffer_options){.name = "named"},
                               &buffers[i]));
    OK(ferry_context_for_each_buffer(f->context, destroy_one, buffers));
    for (int i = 0; i < MOST; i++)
        assert_null(buffers[i]);
    OK(ferry_context_for_each_buffer(f->context, see, &seen));
    assert_int_equal(seen.count, 0);
}

/* A name cannot break the line that describes its buffer, nor add a line to the text of a context.
 */
static void
test_a_name_stays_one_line(void **state)
{
    fixture *f = *state;
    ferry_buffer_options named = {.name = "a\nint[1] \"forged\"\t\x1b[2J\x7f"};
    char text[1000];
    ferry_buffer *b;
    OK(ferry_buffer_create(f->context, INT, 1, &named, &b));
    assert_string_equal(info_of(b).name, "a int[1] \"forged\"  [2J ");
    ferry_buffer_describe(b, text, sizeof(text));
    assert_null(strchr(text, '\n'));
    ferry_context_describe(f->context, text, sizeof(text));
    assert_null(strstr(text, "\nint[1] \"forged"));
    ferry_buffer_destroy(&b);
}

/* The text of ferry_context_describe() begins with one line for each place, with the live and idle
 * bytes of its pools. One line for each buffer follows, largest first. */
static void
test_a_context_describes_what_holds_memory(void **state)
{
    fixture *f = *state;
    ferry_buffer *small, *large;
    ferry_buffer_info info;
    ferry_scope scope;
    void *memory;
    char text[4096], cut[16], expected[512];
    OK(ferry_buffer_create(f->context, INT, 5000, &(ferry_buffer_options){.name = "large"},
                           &large));
    OK(ferry_buffer_create(f->context, INT, 500, &(ferry_buffer_options){.name = "small"}, &small));
    write_counting(f, large, 0, 0, FERRY_REST, 0);
    write_counting(f, small, 0, 0, FERRY_REST, 0);
    open_at(f, small, 0, FERRY_READ, 0, 10, &scope);
    size_t length = ferry_context_describe(f->context, text, sizeof(text));
    assert_int_equal(length, strlen(text));
    assert_ptr_equal(strstr(text, "host: "), text);
    for (int place = 1; place <= f->places && !f->coherent; place++) {
        snprintf(expected, sizeof(expected), "\n%s: ", f->context->names[place]);
        assert_non_null(strstr(text, expected));
    }
    OK(ferry_buffer_get_info(large, &info));
    snprintf(expected, sizeof(expected),
             "\nint[5000] \"large\" 20000 bytes HOST_ONLY copies: host; %zu bytes taken",
             info.allocated_bytes);
    const char *line = strstr(text, expected);
    assert_non_null(line);
    OK(ferry_buffer_get_info(small, &info));
    snprintf(
        expected, sizeof(expected),
        "\nint[500] \"small\" 2000 bytes HOST_ONLY copies: host; %zu bytes taken; 1 scopes open",
        info.allocated_bytes);
    assert_true(strstr(text, expected) > line);
    assert_int_equal(text[length - 1], '\n');

    memset(cut, 'x', sizeof(cut));
    assert_int_equal(ferry_context_describe(f->context, cut, 10), length);
    assert_memory_equal(cut + 9, "\0x", 2);
    assert_memory_equal(cut, text, 9);
    assert_int_equal(ferry_context_describe(f->context, NULL, 0), length);
    assert_int_equal(ferry_context_describe(NULL, cut, sizeof(cut)), 0);
    assert_string_equal(cut, "");
    OK(ferry_scope_close(&scope));

    OK(ferry_buffer_hold(large, 0, &memory));
    OK(ferry_buffer_hold(large, f->places, &memory));
    ferry_context_describe(f->context, text, sizeof(text));
    snprintf(expected, sizeof(expected), "; held at host; held at %s",
             f->context->names[f->places]);
    line = strstr(text, "\"large\"");
    assert_true(line && strstr(line, expected));
    assert_null(strstr(strstr(text, "\"small\""), "held"));
    OK(ferry_buffer_release(large, 0));
    OK(ferry_buffer_release(large, f->places));
    DESTROY_BUFFERS(&small, &large);
}

/* After a context was destroyed, calls on it fail with FERRY_ERROR_INVALID_STATE. A live buffer
 * keeps the struct of the context valid, so the calls are safe. */
static void
test_a_destroyed_context_has_nothing_to_tell(void **state)
{
    (void)state;
    ferry_context *context, *gone;
    ferry_buffer *b;
    char text[8];
    struct seen seen = {0};
    OK(ferry_context_create(NULL, &context));
    OK(ferry_buffer_create(context, INT, 10, NULL, &b));
    gone = context;
    ferry_context_destroy(&context);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_context_for_each_buffer(gone, see, &seen));
    assert_int_equal(seen.count, 0);
    assert_int_equal(ferry_context_describe(gone, text, sizeof(text)), 0);
    ferry_buffer_destroy(&b);
}

/* -- sites ------------------------------------------------------------------------------------- */

struct sites {
    ferryi_mutex mutex;
    unsigned reported, named;
    char last[256];
};

static void
note_site(const ferry_trace *trace, void *user)
{
    struct sites *sites = user;
    ferryi_mutex_lock(&sites->mutex);
    sites->reported++;
    sites->named += strstr(trace->site, "play_transfers+0x") == trace->site;
    snprintf(sites->last, sizeof(sites->last), "%s: %s", trace->reason, trace->site);
    ferryi_mutex_unlock(&sites->mutex);
}

/* This function is not static, because its symbol must appear as the call site in the trace. */
void play_transfers(fixture *f, struct sites *sites);

/* Checks that each trace named the call site of its transfer. Must be called while no transfer is
 * in flight. */
static void
expect_named(const struct sites *sites, const char *call)
{
    if (sites->named != sites->reported)
        fail_msg("%s: %s", call, sites->last);
}

#define REPORTED(call)                                                                             \
    do {                                                                                           \
        unsigned before_ = sites->reported;                                                        \
        OK(call);                                                                                  \
        assert_true(sites->reported > before_ || f->coherent);                                     \
        expect_named(sites, #call);                                                                \
    } while (0)

__attribute__((noinline)) void
play_transfers(fixture *f, struct sites *sites)
{
    static int numbers[1000];
    ferry_buffer *a, *b, *view;
    ferry_event *event;
    ferry_scope scope;
    void *p;
    int five = 5;
    OK(ferry_buffer_create(f->context, INT, 1000, NULL, &a));
    OK(ferry_buffer_create(f->context, INT, 1000, NULL, &b));
    REPORTED(ferry_buffer_copy_from(a, INT, 0, 1000, numbers, NULL));
    REPORTED(ferry_buffer_open_device(a, INT, FERRY_UPDATE, 0, FERRY_REST, f->stream, &scope, &p));
    OK(ferry_scope_close(&scope));
    REPORTED(ferry_buffer_open_host(a, INT, FERRY_UPDATE, 0, FERRY_REST, &scope, &p));
    OK(ferry_scope_close(&scope));
    REPORTED(ferry_buffer_sync_to(a, 0, FERRY_REST, 1, NULL));
    REPORTED(ferry_buffer_fill(a, INT, 0, 1000, &five, NULL));
    REPORTED(ferry_buffer_copy_to(a, INT, 0, 1000, numbers, NULL));
    REPORTED(ferry_buffer_copy(b, INT, 0, a, 0, 1000, NULL));
    OK(ferry_buffer_view(a, INT, 0, 500, &view));
    touch(f, a, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    REPORTED(ferry_buffer_open_host(view, INT, FERRY_UPDATE, 0, FERRY_REST, &scope, &p));
    OK(ferry_scope_close(&scope));
    REPORTED(ferry_buffer_evict(a, 1));
    OK(ferry_buffer_copy_from_async(a, INT, 0, 1000, numbers, ON(f->stream), &event));
    OK(ferry_event_synchronize(event));
    expect_named(sites, "copy_from_async");
    ferry_event_destroy(&event);
    ferry_copy_region rows = ferry_buffer_region_to(a, INT, 0, 5, numbers);
    rows.rows = 100;
    rows.source.row_pitch = rows.target.row_pitch = 10;
    REPORTED(ferry_copy(&rows, 1, NULL));
    DESTROY_BUFFERS(&view, &a, &b);
}

/* In checked runs, a trace contains the location in the program where the call was made. */
static void
test_traces_of_checked_runs_tell_where_the_program_called(void **state)
{
    (void)state;
    if (!has_unwinder())
        skip();
    static fixture f;
    struct sites sites = {0};
    ferry_buffer *b;
    ferry_buffer_info info;
    char text[1024];
    const char *before = getenv("FERRY_DEBUG");
    char *kept = before ? strdup(before) : NULL;
    ferryi_mutex_init(&sites.mutex);
    setenv("FERRY_DEBUG", "1", 1);
    fixture_open(&f, &(ferry_context_options){.trace = note_site, .trace_user = &sites});
    play_transfers(&f, &sites);
    b = make_ints(&f, 10);
    OK(ferry_buffer_get_info(b, &info));
    assert_non_null(strstr(info.site, "make_ints+0x"));
    ferry_context_describe(f.context, text, sizeof(text));
    assert_non_null(strstr(text, "; made by make_ints+0x"));
    ferry_buffer_destroy(&b);
    fixture_close(&f);

    /* In unchecked runs the trace contains an empty name for the call site. */
    setenv("FERRY_DEBUG", "0", 1);
    sites = (struct sites){.mutex = sites.mutex};
    fixture_open(&f, &(ferry_context_options){.trace = note_site, .trace_user = &sites});
    b = make_counting(&f, 10, 0);
    touch(&f, b, 1, FERRY_READ, 0, FERRY_REST);
    assert_true(f.coherent || sites.reported > 0);
    assert_int_equal(sites.named, 0);
    OK(ferry_buffer_get_info(b, &info));
    assert_string_equal(info.site, "");
    ferry_buffer_destroy(&b);
    fixture_close(&f);
    if (kept)
        setenv("FERRY_DEBUG", kept, 1);
    else
        unsetenv("FERRY_DEBUG");
    free(kept);
    ferryi_mutex_destroy(&sites.mutex);
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
        TEST(test_a_walk_sees_every_buffer),
        TEST(test_a_walk_passes_over_what_goes),
        TEST(test_a_visit_may_destroy_what_it_sees),
        TEST(test_a_name_stays_one_line),
        TEST(test_a_context_describes_what_holds_memory),
        cmocka_unit_test(test_a_destroyed_context_has_nothing_to_tell),
        cmocka_unit_test(test_traces_of_checked_runs_tell_where_the_program_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
