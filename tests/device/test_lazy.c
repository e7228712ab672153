/* SPDX-License-Identifier: MIT */
/* Tests that the lazy device performs only the work that a call waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/copy_slots.h"
#include "tests/support/lazy.h"

enum { BYTES = 4096 };

struct scene {
    ferryi_device *devices[FERRYI_DEVICES_MAX];
    int count;
    ferryi_device *device;
    void *first, *second, *event;
    char *memory, *pinned;
};

#define OK(slot, ...) assert_int_equal(FERRYI_CALL(scene->device, slot, __VA_ARGS__), FERRY_OK)

static int
setup(void **state)
{
    static struct scene scenes;
    struct scene *scene = &scenes;
    struct ferryi_device_config config = {0};
    assert_int_equal(ferryi_devices_open("lazy:2", &config, scene->devices, &scene->count),
                     FERRY_OK);
    scene->device = scene->devices[0];
    void *memory;
    OK(stream_create, &scene->first);
    OK(stream_create, &scene->second);
    OK(event_create, false, &scene->event);
    OK(memory_alloc, FERRY_MEMORY_DEVICE, BYTES, &memory);
    scene->memory = memory;
    OK(memory_alloc, FERRY_MEMORY_PINNED, BYTES, &memory);
    scene->pinned = memory;
    *state = scene;
    return 0;
}

static int
teardown(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(ferryi_device_synchronize(scene->device), FERRY_OK);
    if (scene->memory)
        OK(memory_free, FERRY_MEMORY_DEVICE, scene->memory);
    OK(memory_free, FERRY_MEMORY_PINNED, scene->pinned);
    OK(event_destroy, scene->event);
    OK(stream_destroy, scene->second);
    OK(stream_destroy, scene->first);
    for (int i = 0; i < scene->count; i++)
        scene->devices[i]->ops->close(scene->devices[i]);
    return 0;
}

static void
test_nothing_is_performed_unasked(void **state)
{
    struct scene *scene = *state;
    memset(scene->pinned, 1, BYTES);
    OK(copy_upload, scene->memory, scene->pinned, BYTES, scene->first);
    OK(event_record, scene->event, scene->first);
    ferryi_sleep_ns(5000000);
    assert_int_equal((unsigned char)scene->memory[0], 0xCD);
    /* Waiting for the second stream does not perform the work of the first stream. */
    OK(stream_synchronize, scene->second);
    assert_int_equal((unsigned char)scene->memory[0], 0xCD);
    OK(event_synchronize, scene->event);
    assert_int_equal(scene->memory[0], 1);
}

static void
test_reusing_the_source_too_early_shows(void **state)
{
    struct scene *scene = *state;
    memset(scene->pinned, 1, BYTES);
    OK(copy_upload, scene->memory, scene->pinned, BYTES, scene->first);
    memset(scene->pinned, 2, BYTES);
    OK(stream_synchronize, scene->first);
    assert_int_equal(scene->memory[0], 2);
}

static void
test_a_missing_wait_between_streams_shows(void **state)
{
    struct scene *scene = *state;
    OK(fill, scene->memory, 7, 1, BYTES, scene->first);
    OK(copy_download, scene->pinned, scene->memory, BYTES, scene->second);
    OK(stream_synchronize, scene->second);
    assert_int_equal((unsigned char)scene->pinned[0], 0xCD);
    OK(event_record, scene->event, scene->first);
    OK(stream_wait, scene->second, scene->event);
    OK(copy_download, scene->pinned, scene->memory, BYTES, scene->second);
    OK(stream_synchronize, scene->second);
    assert_int_equal(scene->pinned[0], 7);
}

static void
test_waits_perform_no_more_than_needed(void **state)
{
    struct scene *scene = *state;
    OK(fill, scene->memory, 1, 1, BYTES, scene->first);
    OK(event_record, scene->event, scene->first);
    OK(fill, scene->memory, 2, 1, BYTES, scene->first);
    OK(stream_wait, scene->second, scene->event);
    OK(stream_synchronize, scene->second);
    assert_int_equal(scene->memory[0], 1);
    OK(event_synchronize, scene->event);
    assert_int_equal(scene->memory[0], 1);
    assert_int_equal(ferryi_device_synchronize(scene->device), FERRY_OK);
    assert_int_equal(scene->memory[0], 2);
}

static void
test_the_third_query_performs(void **state)
{
    struct scene *scene = *state;
    bool done = true;
    for (int round = 1; round <= 2; round++) {
        OK(fill, scene->memory, (uint32_t)round, 1, BYTES, scene->first);
        OK(event_record, scene->event, scene->first);
        for (int i = 0; i < 2; i++) {
            OK(event_query, scene->event, &done);
            assert_false(done);
            assert_int_not_equal(scene->memory[0], round);
        }
        OK(event_query, scene->event, &done);
        assert_true(done);
        assert_int_equal(scene->memory[0], round);
    }
}

static void
set_flag(void *flag)
{
    *(bool *)flag = true;
}

static void
test_host_functions_are_lazy_too(void **state)
{
    struct scene *scene = *state;
    bool called = false;
    OK(host_call, scene->first, set_flag, &called);
    OK(event_record, scene->event, scene->first);
    ferryi_sleep_ns(5000000);
    assert_false(called);
    OK(stream_wait, scene->second, scene->event);
    assert_false(called);
    OK(stream_synchronize, scene->second);
    assert_true(called);
}

static void
test_devices_are_lazy_across(void **state)
{
    struct scene *scene = *state;
    ferryi_device *other = scene->devices[1];
    OK(fill, scene->memory, 9, 1, BYTES, scene->first);
    OK(event_record, scene->event, scene->first);
    assert_int_equal(FERRYI_CALL(other, stream_wait, other->default_stream, scene->event),
                     FERRY_OK);
    assert_int_equal((unsigned char)scene->memory[0], 0xCD);
    assert_int_equal(ferryi_device_synchronize(other), FERRY_OK);
    assert_int_equal(scene->memory[0], 9);
}

static void
test_destroyed_streams_stay_lazy(void **state)
{
    struct scene *scene = *state;
    OK(fill, scene->memory, 5, 1, BYTES, scene->first);
    OK(event_record, scene->event, scene->first);
    OK(stream_destroy, scene->first);
    OK(stream_create, &scene->first);
    /* The new stream has the same handle as the destroyed stream, but must not perform the
     * destroyed stream's work. */
    OK(stream_synchronize, scene->first);
    assert_int_equal((unsigned char)scene->memory[0], 0xCD);
    OK(stream_wait, scene->first, scene->event);
    OK(stream_synchronize, scene->first);
    assert_int_equal(scene->memory[0], 5);
}

static void
test_memory_given_back_too_early_is_reported(void **state)
{
    struct scene *scene = *state;
    OK(copy_upload, scene->memory, scene->pinned, BYTES, scene->first);
    OK(memory_free, FERRY_MEMORY_DEVICE, scene->memory);
    scene->memory = NULL;
    assert_int_equal(FERRYI_CALL(scene->device, stream_synchronize, scene->first),
                     FERRY_ERROR_DEVICE);
    assert_non_null(strstr(ferry_last_error(), "freed while"));
    /* A failure is reported only once. */
    OK(stream_synchronize, scene->first);
}

int
main(void)
{
    lazy_register();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_is_performed_unasked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reusing_the_source_too_early_shows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_missing_wait_between_streams_shows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits_perform_no_more_than_needed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_third_query_performs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_host_functions_are_lazy_too, setup, teardown),
        cmocka_unit_test_setup_teardown(test_devices_are_lazy_across, setup, teardown),
        cmocka_unit_test_setup_teardown(test_destroyed_streams_stay_lazy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_given_back_too_early_is_reported, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
