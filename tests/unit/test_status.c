/* SPDX-License-Identifier: MIT */
/* Tests the names of statuses, and the messages that failures leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include <ferry/ferry.h>

#include "src/base/base.h"
#include "src/device/device.h"
#include "tests/support/short_memory.h"

/* -- names ------------------------------------------------------------------------------------- */

static void
test_every_status_has_its_name(void **state)
{
    (void)state;
#define NAMED(status) assert_string_equal(ferry_status_name(status), #status)
    NAMED(FERRY_OK);
    NAMED(FERRY_ERROR_INVALID_ARGUMENT);
    NAMED(FERRY_ERROR_OUT_OF_RANGE);
    NAMED(FERRY_ERROR_OVERFLOW);
    NAMED(FERRY_ERROR_OUT_OF_MEMORY);
    NAMED(FERRY_ERROR_CONFLICT);
    NAMED(FERRY_ERROR_BUSY);
    NAMED(FERRY_ERROR_WRONG_TYPE);
    NAMED(FERRY_ERROR_WRONG_CONTEXT);
    NAMED(FERRY_ERROR_INVALID_STATE);
    NAMED(FERRY_ERROR_UNSUPPORTED);
    NAMED(FERRY_ERROR_NO_DEVICE);
    NAMED(FERRY_ERROR_DEVICE);
    NAMED(FERRY_ERROR_DEVICE_LOST);
    NAMED(FERRY_ERROR_COMPILE);
    NAMED(FERRY_ERROR_IO);
    NAMED(FERRY_ERROR_CANCELLED);
    assert_string_equal(ferry_status_name((ferry_status)1000), "unknown status");
    assert_string_equal(ferry_status_name((ferry_status)-1), "unknown status");
}

/* -- messages ---------------------------------------------------------------------------------- */

static void
keep_message(ferry_log_level level, const char *message, void *user)
{
    assert_int_equal(level, FERRY_LOG_WARNING);
    *(char **)user = strdup(message);
}

static void
test_long_messages_are_reported_whole(void **state)
{
    (void)state;
    char *text = NULL, *kept = calloc(1, 100001);
    const size_t lengths[] = {0, 511, 512, 100000};
    const struct ferryi_log log = {.callback = keep_message, .user = &text};
    assert_non_null(kept);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        memset(kept, 'a', lengths[i]);
        ferryi_log(&log, FERRY_LOG_WARNING, "%s", kept);
        assert_non_null(text);
        assert_string_equal(text, kept);
        free(text);
    }
    free(kept);
    ferryi_log(NULL, FERRY_LOG_WARNING, "nobody hears it");
    ferryi_log(&(struct ferryi_log){0}, FERRY_LOG_WARNING, "nor this");
}

/* A thread allocates memory for error messages at its first error. The test makes this allocation
 * fail. The message must report that, and the next error must have its own message. */
static void *
fail_without_memory(void *user)
{
    (void)user;
    assert_string_equal(ferry_last_error(), "");
    short_memory_arm(1);
    assert_int_equal(ferryi_fail(FERRY_ERROR_IO, "what has no room"), FERRY_ERROR_IO);
    short_memory_disarm();
    assert_true(short_memory_tripped());
    assert_string_equal(ferry_last_error(), "no memory was left to say what went wrong");
    assert_int_equal(ferry_error_index(), (size_t)-1);
    assert_int_equal(ferryi_fail_in(FERRY_ERROR_IO, "outside"), FERRY_ERROR_IO);
    assert_string_equal(ferry_last_error(), "outside: no memory was left to say what went wrong");
    assert_int_equal(ferryi_fail(FERRY_ERROR_IO, "the next"), FERRY_ERROR_IO);
    assert_string_equal(ferry_last_error(), "the next");
    return NULL;
}

static void
test_a_failure_without_memory_for_its_message(void **state)
{
    (void)state;
    pthread_t thread;
    /* The first thread ends before the second starts, so the second thread reuses the first
     * thread's memory for error messages. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread, NULL, fail_without_memory, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void
test_a_library_that_is_not_there_is_reported(void **state)
{
    (void)state;
    char reason[200] = "";
    assert_null(ferryi_library_open("libferry-is-not-there.so", reason, sizeof(reason)));
    assert_non_null(strstr(reason, "libferry-is-not-there.so"));
    assert_null(ferryi_library_open("libferry-is-not-there.so", NULL, 0));
}

static void
test_addresses_are_described(void **state)
{
    (void)state;
    char text[300];
    ferryi_address_describe((const void *)(uintptr_t)&strtol, text, sizeof(text));
    assert_non_null(strstr(text, "+0x"));
    ferryi_address_describe((const void *)(uintptr_t)16, text, sizeof(text));
    assert_string_equal(text, "0x10");
    ferryi_address_describe(NULL, text, sizeof(text));
    assert_null(strstr(text, "+0x"));
}

/* -- what a device lacks ----------------------------------------------------------------------- */

/* Checks that a device call that a device does not implement returns UNSUPPORTED. The message must
 * name the call and the device. */
static void
test_what_a_device_lacks_is_unsupported(void **state)
{
    (void)state;
    ferryi_device device = {.kind = "plain", .properties = {.native = 3}};
    const struct ferryi_device_ops *ops = &ferryi_unsupported_ops;
    ferryi_device *d = &device;
#define LACKS(slot, ...)                                                                           \
    do {                                                                                           \
        assert_int_equal(ops->slot(d, __VA_ARGS__), FERRY_ERROR_UNSUPPORTED);                      \
        assert_non_null(strstr(ferry_last_error(), #slot " on plain:3"));                          \
    } while (0)
    LACKS(memory_info, NULL, NULL);
    LACKS(memory_alloc, FERRY_MEMORY_DEVICE, 1, NULL);
    LACKS(memory_free, FERRY_MEMORY_DEVICE, NULL);
    LACKS(range_reserve, 1, NULL);
    LACKS(range_release, NULL, 1);
    LACKS(range_map, NULL, 1, NULL);
    LACKS(range_unmap, NULL, 1, NULL);
    LACKS(shared_alloc, NULL, NULL);
    LACKS(shared_open, NULL, NULL);
    LACKS(shared_free, NULL, NULL);
    LACKS(shared_event_create, NULL, NULL);
    LACKS(shared_event_open, NULL, NULL);
    LACKS(host_register, NULL, 1);
    LACKS(host_unregister, NULL);
    LACKS(stream_create, NULL);
    LACKS(stream_destroy, NULL);
    LACKS(stream_synchronize, NULL);
    LACKS(stream_is_capturing, NULL, NULL);
    LACKS(stream_check, NULL, NULL);
    LACKS(stream_id, NULL, NULL);
    LACKS(event_create_in, NULL, false, NULL);
    LACKS(event_record_in, NULL, NULL, NULL);
    LACKS(memory_users, NULL, NULL);
    LACKS(memory_is_pinned, NULL, 0, NULL);
    LACKS(stream_wait, NULL, NULL);
    LACKS(host_call, NULL, NULL, NULL);
    LACKS(event_create, false, NULL);
    LACKS(event_destroy, NULL);
    LACKS(event_record, NULL, NULL);
    LACKS(event_query, NULL, NULL);
    LACKS(event_synchronize, NULL);
    LACKS(event_elapsed, NULL, NULL, NULL);
    LACKS(copy, NULL, NULL);
    LACKS(copy_2d, NULL, NULL);
    LACKS(copy_batch, NULL, 1, NULL);
    LACKS(fill, NULL, 0, 1, 1, NULL);
    LACKS(file_open, -1, NULL);
    LACKS(file_copy, NULL, NULL, NULL);
    LACKS(file_close, NULL);
    LACKS(prefetch, NULL, 1, NULL, NULL);
    LACKS(advise, NULL, 1, 0, NULL);
    LACKS(code_load, NULL, 1, NULL);
    LACKS(code_build, NULL, NULL);
    LACKS(code_unload, NULL);
    LACKS(code_function, NULL, "f", NULL);
    LACKS(code_parameters, NULL, 1, NULL, NULL);
    LACKS(launch, NULL, NULL);
    LACKS(capture_begin, NULL);
    LACKS(capture_end, NULL, NULL);
    LACKS(graph_launch, NULL, NULL);
    LACKS(graph_destroy, NULL);
    assert_int_equal(ops->synchronize(d), FERRY_ERROR_UNSUPPORTED);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_status_has_its_name),
        cmocka_unit_test(test_long_messages_are_reported_whole),
        cmocka_unit_test(test_a_failure_without_memory_for_its_message),
        cmocka_unit_test(test_a_library_that_is_not_there_is_reported),
        cmocka_unit_test(test_addresses_are_described),
        cmocka_unit_test(test_what_a_device_lacks_is_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
