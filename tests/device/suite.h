/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_SUITE_H
#define FERRY_TEST_SUITE_H

/*
 * Tests of the contract in src/device/device.h, which run on every device. The device's
 * capabilities decide which optional features are tested. The tests access device memory only
 * through copies, so the same tests can run on a GPU.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/device/device.h"

#define MEBIBYTE ((size_t)1 << 20)

struct suite {
    ferryi_device *devices[FERRYI_DEVICES_MAX];
    int count;
    /* Whether host_call runs the function on the calling thread before it returns, so that work is
     * never left queued. */
    bool immediate;
};

extern struct suite suite;

static inline ferryi_device *
suite_device(void)
{
    return suite.devices[0];
}

static inline bool
suite_can(uint64_t capability)
{
    return (suite.devices[0]->capabilities & capability) != 0;
}

/* Calls the function `slot` of the device and asserts that it succeeds. */
#define OK(device, slot, ...) assert_ok(FERRYI_CALL(device, slot, __VA_ARGS__), #slot)
/* Calls function `slot` of the device, and asserts that the call fails with status `expected` and a
 * message. */
#define FAILS(expected, device, slot, ...)                                                         \
    do {                                                                                           \
        ferryi_fail(FERRY_OK, "%s", "");                                                           \
        assert_int_equal(FERRYI_CALL(device, slot, __VA_ARGS__), expected);                        \
        assert_string_not_equal(ferry_last_error(), "");                                           \
    } while (0)
/* Calls function `slot`, which this device lacks, and asserts that the message names the function.
 */
#define LACKS(device, slot, ...)                                                                   \
    do {                                                                                           \
        FAILS(FERRY_ERROR_UNSUPPORTED, device, slot, __VA_ARGS__);                                 \
        assert_non_null(strstr(ferry_last_error(), #slot));                                        \
    } while (0)

void assert_ok(ferry_status status, const char *slot);

/* The next functions allocate and free memory and handles. If one of them fails, the test fails. */
void *take(ferryi_device *device, ferry_memory_kind kind, size_t bytes);
void give(ferryi_device *device, ferry_memory_kind kind, void *memory);
void *new_stream(ferryi_device *device);
void *new_event(ferryi_device *device);

/* write_pattern() writes a sequence of bytes that depends on the seed. assert_pattern() checks that
 * memory contains that sequence. */
void write_pattern(void *memory, size_t bytes, unsigned seed);
void assert_pattern(const void *memory, size_t bytes, unsigned seed);
/* write_device() writes the pattern of write_pattern() to device memory. assert_device() checks
 * device memory as assert_pattern() does. Both wait for the copy. */
void write_device(ferryi_device *device, void *target, size_t bytes, unsigned seed);
void assert_device(ferryi_device *device, const void *source, size_t bytes, unsigned seed);
void assert_device_byte(ferryi_device *device, const void *source, size_t bytes,
                        unsigned char value);

/* pass_gate() is a host function that blocks its stream until `open` is set. Then it sets `passed`.
 * A test should open the gate before its assertions: if one fails while the gate is closed, closing
 * the device waits for the stream forever. */
struct gate {
    atomic_bool open, passed;
};
void pass_gate(void *gate);
/* A host function that sleeps for 5 ms. The parameter `done` is NULL or points to an atomic_bool,
 * which the function sets at its end. */
void take_a_while(void *done);

extern const struct CMUnitTest memory_tests[], range_tests[], order_tests[], copy_tests[];
extern const size_t memory_test_count, range_test_count, order_test_count, copy_test_count;

#endif
