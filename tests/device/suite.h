/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_SUITE_H
#define FERRY_TEST_SUITE_H

/*
 * The contract of src/device/device.h as tests that run on every device. What only some devices can
 * do is asked of their capabilities. Device memory is only looked at through copies, so that a GPU
 * runs the same tests.
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
    bool immediate; /* work is done by the caller before the call returns, so that nothing is ever
                       queued */
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

/* Call a slot that must succeed. */
#define OK(device, slot, ...) assert_ok(FERRYI_CALL(device, slot, __VA_ARGS__), #slot)
/* Call a slot that must fail with this status, and with a message. */
#define FAILS(expected, device, slot, ...)                                                         \
    do {                                                                                           \
        ferryi_fail(FERRY_OK, "%s", "");                                                           \
        assert_int_equal(FERRYI_CALL(device, slot, __VA_ARGS__), expected);                        \
        assert_string_not_equal(ferry_last_error(), "");                                           \
    } while (0)
/* Call a slot that this device lacks; the message names the slot. */
#define LACKS(device, slot, ...)                                                                   \
    do {                                                                                           \
        FAILS(FERRY_ERROR_UNSUPPORTED, device, slot, __VA_ARGS__);                                 \
        assert_non_null(strstr(ferry_last_error(), #slot));                                        \
    } while (0)

void assert_ok(ferry_status status, const char *slot);

/* Memory and handles that must be had. */
void *take(ferryi_device *device, ferry_memory_kind kind, size_t bytes);
void give(ferryi_device *device, ferry_memory_kind kind, void *memory);
void *new_stream(ferryi_device *device);
void *new_event(ferryi_device *device);

/* A sequence of bytes that depends on the seed, and a check that memory holds it. */
void write_pattern(void *memory, size_t bytes, unsigned seed);
void assert_pattern(const void *memory, size_t bytes, unsigned seed);
/* The same on device memory, with waiting. */
void write_device(ferryi_device *device, void *target, size_t bytes, unsigned seed);
void assert_device(ferryi_device *device, const void *source, size_t bytes, unsigned seed);
void assert_device_byte(ferryi_device *device, const void *source, size_t bytes,
                        unsigned char value);

/* A host function that stays in its stream until it is let through, and one that takes a while. */
struct gate {
    atomic_bool open, passed;
};
void pass_gate(void *gate);
void take_a_while(void *done); /* atomic_bool, or NULL */

extern const struct CMUnitTest memory_tests[], order_tests[], copy_tests[];
extern const size_t memory_test_count, order_test_count, copy_test_count;

#endif
