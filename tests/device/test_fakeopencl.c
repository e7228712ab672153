/* SPDX-License-Identifier: MIT */
/* What the OpenCL device does with drivers that this machine does not have (fakeopencl.h). Skipped,
 * with exit status 77, on a machine without OpenCL. */
#include "tests/support/fakeopencl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "src/device/opencl/opencl_device.h"
#include "tests/support/copy_slots.h"
#include "tests/support/status.h"

enum { BYTES = 1 << 16, ROWS = 16, PITCH = 512, ROW = 100 };

static struct fakeopencl fake;
static ferryi_device *device;

static ferryi_device *
open_device(void)
{
    ferryi_device *devices[FERRYI_DEVICES_MAX];
    const struct ferryi_device_config config = {0};
    int count;
    return ferryi_devices_open("opencl", &config, devices, &count) == FERRY_OK ? devices[0] : NULL;
}

/* -- failing calls ----------------------------------------------------------------------------- */

static void
set_byte(void *byte)
{
    *(char *)byte = 1;
}

/* Memory and handles for operations on the device. */
struct scene {
    char *memory, *pinned;
    void *stream, *event, *timed;
    char called; /* set by a host function */
};

static void
open_scene(struct scene *s)
{
    *s = (struct scene){0};
    OK(FERRYI_CALL(device, memory_alloc, FERRY_MEMORY_DEVICE, BYTES, (void **)&s->memory));
    OK(FERRYI_CALL(device, memory_alloc, FERRY_MEMORY_PINNED, BYTES, (void **)&s->pinned));
    OK(FERRYI_CALL(device, stream_create, &s->stream));
    OK(FERRYI_CALL(device, event_create, false, &s->event));
    OK(FERRYI_CALL(device, event_create, true, &s->timed));
}

static void
close_scene(struct scene *s)
{
    OK(FERRYI_CALL(device, stream_synchronize, s->stream));
    OK(FERRYI_CALL(device, event_destroy, s->event));
    OK(FERRYI_CALL(device, event_destroy, s->timed));
    OK(FERRYI_CALL(device, stream_destroy, s->stream));
    OK(FERRYI_CALL(device, memory_free, FERRY_MEMORY_PINNED, s->pinned));
    OK(FERRYI_CALL(device, memory_free, FERRY_MEMORY_DEVICE, s->memory));
}

static ferry_status
copy_rows(struct scene *s, ferry_direction direction)
{
    const bool is_up = direction == FERRY_DIRECTION_UPLOAD;
    const struct ferryi_copy_2d copy = {.target = s->memory + (is_up ? 0 : BYTES / 2),
                                        .source = is_up ? s->pinned : s->memory,
                                        .target_pitch = PITCH,
                                        .source_pitch = 2 * PITCH,
                                        .row_bytes = ROW,
                                        .rows = ROWS,
                                        .direction = direction};
    return FERRYI_CALL(device, copy_2d, &copy, s->stream);
}

static ferry_status
use_stream(struct scene *s)
{
    FERRYI_OR_RETURN(FERRYI_CALL(device, fill, s->memory, 7, 1, BYTES, s->stream));
    FERRYI_OR_RETURN(device->ops->copy_upload(device, s->memory, s->pinned, 100, s->stream));
    FERRYI_OR_RETURN(copy_rows(s, FERRY_DIRECTION_UPLOAD));
    FERRYI_OR_RETURN(copy_rows(s, FERRY_DIRECTION_DEVICE));
    FERRYI_OR_RETURN(FERRYI_CALL(device, event_record, s->event, s->stream));
    FERRYI_OR_RETURN(FERRYI_CALL(device, event_record, s->timed, s->stream));
    FERRYI_OR_RETURN(FERRYI_CALL(device, host_call, s->stream, set_byte, &s->called));
    return FERRYI_CALL(device, stream_synchronize, s->stream);
}

/* Lets each call of a function fail in turn. The operation that needs it fails and names it, and
 * the device works afterwards. */
static void
check_failing(const char *name)
{
    unsigned met = 0;
    for (unsigned after = 0; after < 50; after++) {
        struct scene s;
        open_scene(&s);
        fake.fakeopencl_fail(name, after, FERRYI_CL_OUT_OF_HOST_MEMORY, false);
        const ferry_status status = use_stream(&s);
        const bool failed = fake.fakeopencl_failed() > 0;
        fake.fakeopencl_fail(NULL, 0, 0, false);
        if (failed) {
            met++;
            assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
            assert_says(name);
        } else {
            OK(status);
            assert_int_equal(s.called, 1);
        }
        s.called = 0;
        OK(use_stream(&s));
        assert_int_equal(s.called, 1);
        close_scene(&s);
        if (!failed)
            break;
    }
    assert_true(met > 0);
}

static void
test_each_failing_call_is_reported(void **state)
{
    (void)state;
    static const char *const names[] = {"clFlush",
                                        "clEnqueueMarkerWithWaitList",
                                        "clEnqueueSVMMemcpy",
                                        "clEnqueueSVMMemFill",
                                        "clEnqueueWriteBufferRect",
                                        "clEnqueueNDRangeKernel"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        check_failing(names[i]);
    if (device->capabilities & FERRYI_DEVICE_CALLS_APART) {
        check_failing("clEnqueueBarrierWithWaitList");
        check_failing("clCreateUserEvent");
    }
}

/* A driver may refuse a rectangle, or the kernel that copies rows: then rows are copied one by one.
 */
static void
test_rows_are_copied_one_by_one(void **state)
{
    (void)state;
    ferryi_device *own = open_device();
    ferryi_device *former = device;
    struct scene s;
    assert_non_null(own);
    device = own;
    open_scene(&s);
    for (int i = 0; i < BYTES; i++)
        s.pinned[i] = (char)(i * 31 + i / 256);
    fake.fakeopencl_fail("clEnqueueWriteBufferRect", 0, FERRYI_CL_INVALID_VALUE, true);
    OK(copy_rows(&s, FERRY_DIRECTION_UPLOAD));
    assert_int_equal(fake.fakeopencl_failed(), 1);
    fake.fakeopencl_fail("clBuildProgram", 0, FERRYI_CL_BUILD_PROGRAM_FAILURE, true);
    OK(copy_rows(&s, FERRY_DIRECTION_DEVICE));
    assert_int_equal(fake.fakeopencl_failed(), 1);
    fake.fakeopencl_fail(NULL, 0, 0, false);
    char *back = s.pinned + BYTES / 2;
    OK(device->ops->copy_download(device, back, s.memory + BYTES / 2, PITCH * ROWS / 2, s.stream));
    OK(FERRYI_CALL(device, stream_synchronize, s.stream));
    for (int row = 0; row < ROWS / 2; row++)
        assert_memory_equal(back + row * PITCH, s.pinned + row * 4 * PITCH, ROW);
    close_scene(&s);
    device->ops->close(device);
    device = former;
}

/* A driver may look for a kernel of the context's first device when memory is declared, and not
 * find that of another device. Other errors are reported. */
static void
test_memory_need_not_be_declared(void **state)
{
    (void)state;
    ferryi_device *own = open_device(), *former = device;
    struct scene s;
    assert_non_null(own);
    device = own;
    open_scene(&s);
    fake.fakeopencl_fail("clSetKernelExecInfo", 0, FERRYI_CL_INVALID_KERNEL, true);
    OK(copy_rows(&s, FERRY_DIRECTION_DEVICE));
    assert_int_equal(fake.fakeopencl_failed(), 1);
    close_scene(&s);
    open_scene(&s);
    fake.fakeopencl_fail("clSetKernelExecInfo", 0, FERRYI_CL_OUT_OF_HOST_MEMORY, true);
    assert_int_equal(copy_rows(&s, FERRY_DIRECTION_DEVICE), FERRY_ERROR_OUT_OF_MEMORY);
    assert_says("clSetKernelExecInfo");
    fake.fakeopencl_fail(NULL, 0, 0, false);
    close_scene(&s);
    device->ops->close(device);
    device = former;
}

static void
test_a_lost_device_is_found(void **state)
{
    (void)state;
    ferryi_device *lost = open_device();
    bool done;
    void *event;
    assert_non_null(lost);
    OK(FERRYI_CALL(lost, event_create, false, &event));
    OK(FERRYI_CALL(lost, event_record, event, lost->default_stream));
    fake.fakeopencl_fail("clFinish", 0, -36, false);
    assert_int_equal(FERRYI_CALL(lost, stream_synchronize, lost->default_stream),
                     FERRY_ERROR_DEVICE_LOST);
    assert_int_equal(fake.fakeopencl_failed(), 1);
    assert_int_equal(FERRYI_CALL(lost, event_record, event, lost->default_stream),
                     FERRY_ERROR_DEVICE_LOST);
    assert_int_equal(ferryi_device_synchronize(lost), FERRY_ERROR_DEVICE_LOST);
    (void)FERRYI_CALL(lost, event_query, event, &done);
    OK(FERRYI_CALL(lost, event_destroy, event));
    fake.fakeopencl_fail(NULL, 0, 0, false);
    lost->ops->close(lost);
}

/* -- what a driver has ------------------------------------------------------------------------- */

static bool
has_word(const char *word)
{
    const char *words = getenv("FAKEOPENCL");
    return words && strstr(words, word);
}

static void
test_capabilities_follow_the_driver(void **state)
{
    (void)state;
    const uint64_t can = device->capabilities;
    const struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    assert_int_equal((can & FERRYI_DEVICE_PINNED_APART) != 0, has_word("discrete"));
    assert_int_equal((can & FERRY_CAN_MANAGE) != 0, !has_word("discrete"));
    assert_int_equal((can & FERRYI_DEVICE_CALLS_APART) != 0, !has_word("stops"));
    assert_int_equal(opencl->calls_wait, has_word("stops"));
    if (has_word("discrete")) {
        unsigned users;
        assert_int_equal(FERRYI_CALL(device, memory_users, &users, &users),
                         FERRY_ERROR_UNSUPPORTED);
    }
}

static void
test_an_allocation_has_a_limit(void **state)
{
    (void)state;
    void *memory = NULL;
    if (!has_word("small"))
        return;
    assert_int_equal(
        FERRYI_CALL(device, memory_alloc, FERRY_MEMORY_DEVICE, FAKEOPENCL_SMALL, &memory),
        FERRY_ERROR_OUT_OF_MEMORY);
    assert_says("134217728");
    OK(FERRYI_CALL(device, memory_alloc, FERRY_MEMORY_DEVICE, FAKEOPENCL_SMALL / 2, &memory));
    OK(FERRYI_CALL(device, memory_free, FERRY_MEMORY_DEVICE, memory));
    fake.fakeopencl_fail("clSVMAlloc", 0, 1, false);
    assert_int_equal(FERRYI_CALL(device, memory_alloc, FERRY_MEMORY_DEVICE, 100, &memory),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_says("the driver has no memory");
    fake.fakeopencl_fail(NULL, 0, 0, false);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capabilities_follow_the_driver),
        cmocka_unit_test(test_an_allocation_has_a_limit),
        cmocka_unit_test(test_each_failing_call_is_reported),
        cmocka_unit_test(test_rows_are_copied_one_by_one),
        cmocka_unit_test(test_memory_need_not_be_declared),
        cmocka_unit_test(test_a_lost_device_is_found),
    };
    device = open_device();
    if (!device || !fakeopencl_find(&fake)) {
        printf("1..0 # SKIP %s\n",
               device ? "FERRY_OPENCL_LIBRARY is not fakeopencl" : ferry_last_error());
        return 77;
    }
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    device->ops->close(device);
    return failures;
}
