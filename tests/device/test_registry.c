/* SPDX-License-Identifier: MIT */
/* Tests how a list of devices is opened: what it may name, what is absent, and what the default
 * is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/device/device.h"
#include "tests/support/fault.h"

static ferryi_device *devices[FERRYI_DEVICES_MAX];
static int count;

static ferry_status
open_spec(const char *spec)
{
    struct ferryi_device_config config = {0};
    count = -1;
    return ferryi_devices_open(spec, &config, devices, &count);
}

static void
close_all(void)
{
    for (int i = 0; i < count; i++)
        devices[i]->ops->close(devices[i]);
}

static void
assert_opens(const char *spec, int expected_count, const char *last_kind, int last_native)
{
    if (open_spec(spec) != FERRY_OK)
        fail_msg("%s: %s", spec, ferry_last_error());
    assert_int_equal(count, expected_count);
    assert_string_equal(devices[count - 1]->kind, last_kind);
    assert_int_equal(devices[count - 1]->properties.native, last_native);
    close_all();
}

static void
assert_refuses(const char *spec, ferry_status expected)
{
    ferry_status status = open_spec(spec);
    if (status != expected)
        fail_msg("\"%s\": %s and not %s", spec, ferry_status_name(status),
                 ferry_status_name(expected));
    assert_int_equal(count, -1);
    /* The message quotes the list. */
    assert_non_null(strstr(ferry_last_error(), spec));
}

static void
test_lists_open(void **state)
{
    (void)state;
    assert_opens("host", 1, "host", 0);
    assert_opens("host:0", 1, "host", 0);
    assert_opens("emulated", 1, "emulated", 0);
    assert_opens("emulated:3", 3, "emulated", 2);
    assert_opens("emulated:15", 15, "emulated", 14);
    assert_opens("host,emulated:2", 3, "emulated", 1);
    assert_opens("emulated:2, host", 3, "host", 0);
    assert_opens("emulated,emulated:2", 3, "emulated", 2);
    assert_opens(" emulated ", 1, "emulated", 0);
    assert_opens("host:all", 1, "host", 0);
    assert_opens("emulated:2, host:all ", 3, "host", 0);
}

static void
test_malformed_lists_are_invalid(void **state)
{
    (void)state;
    static const char *const specs[] = {"",
                                        ",",
                                        "host,",
                                        ",host",
                                        "host,,emulated",
                                        "emulated:",
                                        "emulated:x",
                                        "emulated:-1",
                                        "emulated:2x",
                                        "host;emulated",
                                        ":2",
                                        "emulated:0",
                                        "emulated:16",
                                        "emulated:99999999999999999999",
                                        "emulated:15,host",
                                        "host,host",
                                        "host,host:all",
                                        "emulated:15,host:all",
                                        "host:allx",
                                        "host:al",
                                        "host emulated",
                                        "host, "};
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        assert_refuses(specs[i], FERRY_ERROR_INVALID_ARGUMENT);
    /* "all" is refused for a kind whose devices are created on request, because the number of such
     * devices is unlimited. */
    assert_refuses("emulated:all", FERRY_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(ferry_last_error(), "emulated:N makes N devices"));
    assert_refuses("emulated:0,emulated:1", FERRY_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(ferry_last_error(), "such as emulated:2 for two"));
}

static void
test_absent_devices_are_no_device(void **state)
{
    (void)state;
    assert_refuses("nonsense", FERRY_ERROR_NO_DEVICE);
    assert_non_null(strstr(ferry_last_error(),
                           "called \"nonsense\", only host, emulated, cuda, hip and opencl"));
    assert_refuses("host:1", FERRY_ERROR_NO_DEVICE);
    assert_refuses("host:99999999999999999999", FERRY_ERROR_NO_DEVICE);
    assert_refuses("emulated,hostess", FERRY_ERROR_NO_DEVICE);
}

/* Checks that a list with two kinds of devices is refused before the driver is loaded. The host can
 * be combined with every kind. */
static void
test_lists_of_two_kinds_are_unsupported(void **state)
{
    (void)state;
    assert_refuses("emulated:2,cuda", FERRY_ERROR_UNSUPPORTED);
    assert_non_null(strstr(ferry_last_error(), "cannot mix emulated and cuda devices"));
    assert_refuses("cuda:all, host, emulated", FERRY_ERROR_UNSUPPORTED);
    assert_non_null(strstr(ferry_last_error(), "cannot mix cuda and emulated devices"));
}

static void
test_without_a_driver_cuda_is_absent_and_null_is_the_host(void **state)
{
    (void)state;
    /* This path makes sure that the machine's real driver, if it has one, is not found. */
    setenv("FERRY_CUDA_LIBRARY", "/dev/null/absent/libcuda.so.1", 1);
    assert_refuses("cuda", FERRY_ERROR_NO_DEVICE);
    assert_refuses("cuda:0,cuda:1", FERRY_ERROR_NO_DEVICE);
    assert_refuses("cuda:all", FERRY_ERROR_NO_DEVICE);
    assert_non_null(strstr(ferry_last_error(), "there is no cuda device"));
    /* The message names only the kind of the device. If it named the device's number, a reader
     * might think that other numbers exist. */
    assert_refuses("cuda:1", FERRY_ERROR_NO_DEVICE);
    assert_non_null(strstr(ferry_last_error(), "there is no cuda device"));
    assert_non_null(strstr(ferry_last_error(), "/dev/null/absent/libcuda.so.1"));
}

struct said {
    int messages;
    ferry_log_level level;
    char text[512];
};

static void
note_message(ferry_log_level level, const char *message, void *user)
{
    struct said *said = user;
    said->messages++;
    said->level = level;
    strncpy(said->text, message, sizeof(said->text) - 1);
}

static void
test_null_falls_back_to_the_host_and_says_so(void **state)
{
    (void)state;
    struct said said = {0};
    struct ferryi_device_config config = {.log = {note_message, &said}};
    assert_int_equal(ferryi_devices_open(NULL, &config, devices, &count), FERRY_OK);
    assert_int_equal(count, 1);
    assert_string_equal(devices[0]->kind, "host");
    assert_int_equal(said.messages, 1);
    assert_int_equal(said.level, FERRY_LOG_INFO);
    assert_non_null(strstr(said.text, "host"));
    close_all();
}

/* The test registers a kind of device. Opening the first `healthy` devices of this kind succeeds,
 * and opening the others fails. */
static int opened, present = 8, healthy = 2;

static int
flaky_count(void)
{
    return present;
}

static void
flaky_close(ferryi_device *device)
{
    opened--;
    free(device);
}

static struct ferryi_device_ops flaky_ops;

static ferry_status
flaky_open(int ordinal, const struct ferryi_device_config *config, ferryi_device **out)
{
    (void)config;
    if (ordinal >= healthy)
        return ferryi_fail(FERRY_ERROR_DEVICE, "flaky device %d does not start", ordinal);
    ferryi_device *device = calloc(1, sizeof(*device));
    assert_non_null(device);
    flaky_ops.close = flaky_close;
    device->ops = &flaky_ops;
    device->kind = "flaky";
    device->properties.native = ordinal;
    opened++;
    *out = device;
    return FERRY_OK;
}

static const ferryi_device_kind flaky_kind = {
    .name = "flaky", .count = flaky_count, .open = flaky_open};

static void
test_on_failure_nothing_stays_open(void **state)
{
    (void)state;
    ferryi_device_register(&flaky_kind);
    ferryi_device_register(&flaky_kind);
    assert_opens("flaky", 1, "flaky", 0);
    assert_opens("flaky:1,flaky:0", 2, "flaky", 0);
    assert_int_equal(opened, 0);
    assert_refuses("flaky:0,flaky:1,flaky:2", FERRY_ERROR_DEVICE);
    assert_non_null(strstr(ferry_last_error(), "flaky device 2 does not start"));
    assert_int_equal(opened, 0);
    assert_refuses("flaky:0,flaky:9", FERRY_ERROR_NO_DEVICE);
    assert_refuses("flaky:1,flaky:1", FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(opened, 0);
}

static void
test_all_are_opened(void **state)
{
    (void)state;
    struct said said = {0};
    struct ferryi_device_config config = {.log = {note_message, &said}};
    ferryi_device_register(&flaky_kind);
    assert_refuses("flaky:all", FERRY_ERROR_DEVICE);
    assert_int_equal(opened, 0);
    present = healthy = 3;
    assert_opens("flaky:all", 3, "flaky", 2);
    assert_opens("host,flaky:all", 4, "flaky", 2);
    assert_refuses("flaky:1,flaky:all", FERRY_ERROR_INVALID_ARGUMENT);
    present = healthy = 15;
    assert_int_equal(ferryi_devices_open("flaky:all", &config, devices, &count), FERRY_OK);
    assert_int_equal(count, 15);
    close_all();
    assert_int_equal(said.messages, 0);
    present = healthy = 16;
    assert_int_equal(ferryi_devices_open("flaky:all", &config, devices, &count), FERRY_OK);
    assert_int_equal(count, 15);
    assert_int_equal(devices[14]->properties.native, 14);
    close_all();
    assert_int_equal(said.messages, 1);
    assert_int_equal(said.level, FERRY_LOG_WARNING);
    assert_non_null(strstr(said.text, "15 of the 16 flaky devices"));
    present = healthy = 0;
    assert_refuses("flaky:all", FERRY_ERROR_NO_DEVICE);
    assert_int_equal(opened, 0);
    present = 8;
    healthy = 2;
}

static void
test_slots_of_the_unsupported_table_name_themselves(void **state)
{
    (void)state;
    assert_int_equal(open_spec("host"), FERRY_OK);
    assert_int_equal(ferryi_unsupported_ops.synchronize(devices[0]), FERRY_ERROR_UNSUPPORTED);
    assert_non_null(strstr(ferry_last_error(), "synchronize"));
    assert_non_null(strstr(ferry_last_error(), "host"));
    assert_int_equal(ferryi_unsupported_ops.copy_2d(devices[0], NULL, NULL),
                     FERRY_ERROR_UNSUPPORTED);
    assert_non_null(strstr(ferry_last_error(), "copy_2d"));
    assert_null(ferryi_unsupported_ops.close);
    /* Checks that no entry in a device's table of functions is NULL. In the table of unsupported
     * functions, only `close` is NULL. */
    void (*slots[sizeof(struct ferryi_device_ops) / sizeof(void (*)(void))])(void);
    memcpy(slots, devices[0]->ops, sizeof(slots));
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
        assert_true(slots[i] != NULL);
    close_all();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_open),
        cmocka_unit_test(test_malformed_lists_are_invalid),
        cmocka_unit_test(test_absent_devices_are_no_device),
        cmocka_unit_test(test_lists_of_two_kinds_are_unsupported),
        cmocka_unit_test(test_without_a_driver_cuda_is_absent_and_null_is_the_host),
        cmocka_unit_test(test_null_falls_back_to_the_host_and_says_so),
        cmocka_unit_test(test_on_failure_nothing_stays_open),
        cmocka_unit_test(test_all_are_opened),
        cmocka_unit_test(test_slots_of_the_unsupported_table_name_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
