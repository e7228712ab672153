/* SPDX-License-Identifier: MIT */
/* Tests the fault injection by which other tests make device calls fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/fault.h"
#include "tests/support/lazy.h"

static ferryi_device *devices[FERRYI_DEVICES_MAX];
static int count;

static int
setup(void **state)
{
    (void)state;
    struct ferryi_device_config config = {0};
    fault_disarm();
    fault_status(FERRY_ERROR_DEVICE);
    fault_include_releases(false);
    return ferryi_devices_open("fault:2", &config, devices, &count) == FERRY_OK ? 0 : 1;
}

static int
teardown(void **state)
{
    (void)state;
    fault_disarm();
    for (int i = 0; i < count; i++)
        devices[i]->ops->close(devices[i]);
    return fault_live() == 0 ? 0 : 1;
}

static ferry_status
query_memory(ferryi_device *device)
{
    size_t free_bytes, total_bytes;
    return FERRYI_CALL(device, memory_info, &free_bytes, &total_bytes);
}

static void
test_only_the_nth_call_fails(void **state)
{
    (void)state;
    fault_arm(3);
    assert_int_equal(query_memory(devices[0]), FERRY_OK);
    assert_int_equal(query_memory(devices[1]), FERRY_OK);
    assert_false(fault_tripped());
    assert_int_equal(query_memory(devices[0]), FERRY_ERROR_DEVICE);
    assert_string_equal(ferry_last_error(), "memory_info: fault injected at call 3");
    assert_true(fault_tripped());
    assert_string_equal(fault_tripped_slot(), "memory_info");
    assert_int_equal(query_memory(devices[0]), FERRY_OK);
    assert_int_equal(fault_calls(), 4);
    fault_arm(1);
    assert_false(fault_tripped());
    fault_disarm();
    assert_int_equal(query_memory(devices[0]), FERRY_OK);
}

static void
test_a_failed_call_has_done_nothing(void **state)
{
    (void)state;
    void *memory = (void *)16;
    fault_status(FERRY_ERROR_OUT_OF_MEMORY);
    fault_arm(1);
    assert_int_equal(FERRYI_CALL(devices[0], memory_alloc, FERRY_MEMORY_DEVICE, 100, &memory),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_ptr_equal(memory, (void *)16);
    assert_int_equal(fault_live(), 0);
}

static void
test_a_lost_device_stays_lost(void **state)
{
    (void)state;
    fault_status(FERRY_ERROR_DEVICE_LOST);
    fault_arm(2);
    assert_int_equal(query_memory(devices[0]), FERRY_OK);
    assert_int_equal(query_memory(devices[0]), FERRY_ERROR_DEVICE_LOST);
    assert_int_equal(query_memory(devices[0]), FERRY_ERROR_DEVICE_LOST);
    assert_int_equal(ferryi_device_synchronize(devices[1]), FERRY_ERROR_DEVICE_LOST);
}

static void
test_releases_fail_only_when_asked(void **state)
{
    (void)state;
    void *memory = NULL, *event = NULL;
    assert_int_equal(FERRYI_CALL(devices[0], memory_alloc, FERRY_MEMORY_DEVICE, 100, &memory),
                     FERRY_OK);
    assert_int_equal(FERRYI_CALL(devices[0], event_create, false, &event), FERRY_OK);
    fault_arm(1);
    assert_int_equal(FERRYI_CALL(devices[0], event_destroy, event), FERRY_OK);
    assert_int_equal(fault_calls(), 0);
    fault_include_releases(true);
    assert_int_equal(FERRYI_CALL(devices[0], memory_free, FERRY_MEMORY_DEVICE, memory),
                     FERRY_ERROR_DEVICE);
    assert_int_equal(fault_live(), 1);
    assert_int_equal(FERRYI_CALL(devices[0], memory_free, FERRY_MEMORY_DEVICE, memory), FERRY_OK);
    assert_int_equal(FERRYI_CALL(devices[0], memory_free, FERRY_MEMORY_DEVICE, NULL), FERRY_OK);
    assert_int_equal(fault_live(), 0);
}

static void
test_what_is_out_is_counted(void **state)
{
    (void)state;
    void *memory = NULL, *event = NULL, *stream = NULL;
    char mine[100];
    assert_int_equal(FERRYI_CALL(devices[0], memory_alloc, FERRY_MEMORY_PINNED, 100, &memory),
                     FERRY_OK);
    assert_int_equal(FERRYI_CALL(devices[1], event_create, false, &event), FERRY_OK);
    assert_int_equal(FERRYI_CALL(devices[0], stream_create, &stream), FERRY_OK);
    assert_int_equal(FERRYI_CALL(devices[0], host_register, mine, sizeof(mine)), FERRY_OK);
    assert_int_equal(fault_live(), 4);
    assert_int_equal(FERRYI_CALL(devices[0], host_unregister, mine), FERRY_OK);
    assert_int_equal(FERRYI_CALL(devices[0], stream_destroy, stream), FERRY_OK);
    assert_int_equal(FERRYI_CALL(devices[1], event_destroy, event), FERRY_OK);
    assert_int_equal(FERRYI_CALL(devices[0], memory_free, FERRY_MEMORY_PINNED, memory), FERRY_OK);
}

static void
test_other_kinds_can_be_wrapped(void **state)
{
    (void)state;
    struct ferryi_device_config config = {0};
    ferryi_device *wrapped;
    fault_wrap(&lazy_kind);
    ferry_status status = fault_kind.open(0, &config, &wrapped);
    fault_wrap(&ferryi_emulated_kind);
    assert_int_equal(status, FERRY_OK);
    assert_string_equal(wrapped->kind, "fault");
    assert_string_equal(wrapped->properties.name, "lazy device 0");
    wrapped->ops->close(wrapped);
    assert_string_equal(devices[0]->properties.name, "emulated device 0");
    assert_int_equal(devices[1]->properties.native, 1);
}

int
main(void)
{
    fault_register();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_only_the_nth_call_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_failed_call_has_done_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_lost_device_stays_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_releases_fail_only_when_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_out_is_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_kinds_can_be_wrapped, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
