/* SPDX-License-Identifier: MIT */
#include "tests/device/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/copy_slots.h"
#include "tests/support/fault.h"
#include "tests/support/lazy.h"

/* Usage: suite [DEVICES]. If DEVICES is missing, FERRY_DEVICE names the devices. The exit status is
 * 77 (skipped) if this machine has no such device. */

#define EXIT_SKIPPED 77

struct suite suite;

void
assert_ok(ferry_status status, const char *slot)
{
    if (status != FERRY_OK)
        fail_msg("%s: %s: %s", slot, ferry_status_name(status), ferry_last_error());
}

void *
take(ferryi_device *device, ferry_memory_kind kind, size_t bytes)
{
    void *memory = NULL;
    OK(device, memory_alloc, kind, bytes, &memory);
    assert_non_null(memory);
    return memory;
}

void
give(ferryi_device *device, ferry_memory_kind kind, void *memory)
{
    OK(device, memory_free, kind, memory);
}

void *
new_stream(ferryi_device *device)
{
    void *stream = NULL;
    OK(device, stream_create, &stream);
    assert_non_null(stream);
    return stream;
}

void *
new_event(ferryi_device *device)
{
    void *event = NULL;
    OK(device, event_create, false, &event);
    assert_non_null(event);
    return event;
}

/* -- patterns -- */

static unsigned char
pattern_byte(size_t index, unsigned seed)
{
    uint32_t x = (uint32_t)index * 2654435761u + seed * 40503u + 1;
    return (unsigned char)(x >> 24 ^ x >> 8);
}

void
write_pattern(void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)memory)[i] = pattern_byte(i, seed);
}

void
assert_pattern(const void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        if (((const unsigned char *)memory)[i] != pattern_byte(i, seed))
            fail_msg("byte %zu of %zu is %d and not %d", i, bytes,
                     ((const unsigned char *)memory)[i], pattern_byte(i, seed));
    }
}

void
write_device(ferryi_device *device, void *target, size_t bytes, unsigned seed)
{
    void *pinned = take(device, FERRY_MEMORY_PINNED, bytes);
    write_pattern(pinned, bytes, seed);
    OK(device, copy_upload, target, pinned, bytes, device->default_stream);
    OK(device, stream_synchronize, device->default_stream);
    give(device, FERRY_MEMORY_PINNED, pinned);
}

/* Downloads device memory into a new pinned buffer and returns the buffer. */
static unsigned char *
fetch(ferryi_device *device, const void *source, size_t bytes)
{
    unsigned char *pinned = take(device, FERRY_MEMORY_PINNED, bytes);
    memset(pinned, 0xEE, bytes);
    OK(device, copy_download, pinned, source, bytes, device->default_stream);
    OK(device, stream_synchronize, device->default_stream);
    return pinned;
}

void
assert_device(ferryi_device *device, const void *source, size_t bytes, unsigned seed)
{
    void *pinned = fetch(device, source, bytes);
    assert_pattern(pinned, bytes, seed);
    give(device, FERRY_MEMORY_PINNED, pinned);
}

void
assert_device_byte(ferryi_device *device, const void *source, size_t bytes, unsigned char value)
{
    unsigned char *pinned = fetch(device, source, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(pinned[i], value);
    give(device, FERRY_MEMORY_PINNED, pinned);
}

/* -- host functions -- */

void
pass_gate(void *opaque)
{
    struct gate *gate = opaque;
    while (!atomic_load(&gate->open))
        ferryi_sleep_ns(100000);
    atomic_store(&gate->passed, true);
}

void
take_a_while(void *done)
{
    ferryi_sleep_ns(5000000);
    if (done)
        atomic_store((atomic_bool *)done, true);
}

struct caller {
    uint64_t thread;
    atomic_bool called;
};

static void
note_caller(void *opaque)
{
    struct caller *caller = opaque;
    caller->thread = ferryi_thread_id();
    atomic_store(&caller->called, true);
}

/* Determines whether the device performs work immediately. On such a device, a host function runs
 * on the calling thread before host_call returns. */
static void
find_out_immediate(void)
{
    struct caller caller = {0};
    OK(suite_device(), host_call, suite_device()->default_stream, note_caller, &caller);
    suite.immediate = atomic_load(&caller.called) && caller.thread == ferryi_thread_id();
    OK(suite_device(), stream_synchronize, suite_device()->default_stream);
    assert_true(atomic_load(&caller.called));
}

/* -- running -- */

static int
group_setup(void **state)
{
    (void)state;
    find_out_immediate();
    return 0;
}

static int
run_group(const char *name, const struct CMUnitTest *tests, size_t count)
{
    return _cmocka_run_group_tests(name, tests, count, group_setup, NULL);
}

int
main(int argc, char **argv)
{
    const char *spec = argc > 1 ? argv[1] : getenv("FERRY_DEVICE");
    lazy_register();
    fault_register();
    struct ferryi_device_config config = {0};
    ferry_status status = ferryi_devices_open(spec, &config, suite.devices, &suite.count);
    if (status == FERRY_ERROR_NO_DEVICE) {
        printf("skipped: %s\n", ferry_last_error());
        return EXIT_SKIPPED;
    }
    if (status != FERRY_OK) {
        fprintf(stderr, "%s\n", ferry_last_error());
        return EXIT_FAILURE;
    }
    int failures = run_group("memory", memory_tests, memory_test_count);
    failures += run_group("ranges", range_tests, range_test_count);
    failures += run_group("order", order_tests, order_test_count);
    failures += run_group("copies", copy_tests, copy_test_count);
    for (int i = 0; i < suite.count; i++)
        suite.devices[i]->ops->close(suite.devices[i]);
    if (fault_live() != 0) {
        fprintf(stderr, "%lld things were not given back\n", (long long)fault_live());
        failures++;
    }
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
