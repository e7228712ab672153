/* SPDX-License-Identifier: MIT */
/* Tests the ranges that the library reports to a profiler through NVTX. The variable
 * NVTX_INJECTION64_PATH names a test library that acts as the profiler. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include <ferry/ferry.h>
#include <ferry/int.h>

#include "tests/support/nvtx_tool.h"

enum { COUNT = 60000 };

static nvtx_tool_ranges_function *ranges_of_tool;
static char seen[1 << 16];

#define OK(call) assert_int_equal((call), FERRY_OK)

/* Returns the profiler ranges that have begun since the previous call of this function. Checks that
 * all of them have ended. */
static const char *
look(void)
{
    assert_int_equal(ranges_of_tool(seen, sizeof(seen)), 0);
    return seen;
}

static ferry_int_buffer
make(ferry_context *context, const char *name)
{
    ferry_int_buffer buffer;
    ferry_scope scope;
    int32_t *values;
    OK(ferry_int_create(context, COUNT, &(ferry_buffer_options){.name = name}, &buffer));
    OK(ferry_int_overwrite_host(buffer, &scope, &values));
    for (int i = 0; i < COUNT; i++)
        values[i] = i;
    OK(ferry_scope_close(&scope));
    return buffer;
}

static ferry_context *
open_context(size_t device_bytes_limit)
{
    ferry_context *context;
    OK(ferry_context_create(
        &(ferry_context_options){.devices = "emulated", .device_bytes_limit = device_bytes_limit},
        &context));
    (void)look();
    return context;
}

static void
test_transfers_are_ranges(void **state)
{
    (void)state;
    ferry_context *context = open_context(0);
    ferry_int_buffer heights = make(context, "heights"), unnamed = make(context, NULL);
    ferry_scope scope;
    const int32_t *values;
    int32_t *device;
    assert_string_equal(look(), "");
    OK(ferry_int_update_device(heights, ferry_context_stream(context, 1), &scope, &device));
    OK(ferry_scope_close(&scope));
    assert_string_equal(look(), "upload \"heights\" for update_device\n");
    OK(ferry_int_read_host(heights, &scope, &values));
    OK(ferry_scope_close(&scope));
    assert_string_equal(look(), "download \"heights\" for read_host\n");
    OK(ferry_int_read_host(heights, &scope, &values)); /* a hit */
    OK(ferry_scope_close(&scope));
    assert_string_equal(look(), "");
    OK(ferry_int_update_device(unnamed, ferry_context_stream(context, 1), &scope, &device));
    OK(ferry_scope_close(&scope));
    assert_string_equal(look(), "upload for update_device\n");
    ferry_int_destroy(&heights);
    ferry_int_destroy(&unnamed);
    ferry_context_destroy(&context);
}

static bool
stop(size_t done, size_t total, void *user)
{
    (void)done, (void)total, (void)user;
    return false;
}

static void
test_ranges_of_what_fails_end(void **state)
{
    (void)state;
    static int32_t values[COUNT];
    ferry_context *context = open_context(0);
    ferry_int_buffer x = make(context, "x");
    ferry_scope scope;
    int32_t *device;
    OK(ferry_int_update_device(x, ferry_context_stream(context, 1), &scope, &device));
    OK(ferry_scope_close(&scope));
    (void)look();
    assert_int_equal(
        ferry_int_copy_from(x, 0, COUNT, values,
                            &(ferry_copy_options){.chunk_bytes = 4096, .keep_going = stop}),
        FERRY_ERROR_CANCELLED);
    assert_string_equal(look(), "upload \"x\" for copy_from\n");
    ferry_int_destroy(&x);
    ferry_context_destroy(&context);
}

static ferry_status
do_nothing(const ferry_call *call, void *user)
{
    (void)call, (void)user;
    return FERRY_OK;
}

static void
test_launches_are_ranges_around_their_transfers(void **state)
{
    (void)state;
    ferry_context *context = open_context(0);
    ferry_kernel *kernel;
    ferry_int_buffer x = make(context, "x");
    const ferry_parameter parameter = {.element = ferry_int_element(), .access = FERRY_UPDATE};
    OK(ferry_kernel_create(context,
                           &(ferry_kernel_source){.name = "smooth",
                                                  .host_function = do_nothing,
                                                  .parameters = &parameter,
                                                  .parameter_count = 1},
                           &kernel));
    const ferry_argument argument = ferry_int_argument(x);
    OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, &argument, 1));
    assert_string_equal(look(), "launch \"smooth\"\n  upload \"x\" for launch\n");
    OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, &argument, 1));
    assert_string_equal(look(), "launch \"smooth\"\n");
    ferry_int_destroy(&x);
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

/* Checks that each eviction is reported as a range that contains the range of the download of the
 * evicted bytes. The device has memory for only two of the three buffers. */
static void
test_evictions_are_ranges(void **state)
{
    (void)state;
    ferry_context *context = open_context(2 * (256 << 10));
    ferry_int_buffer set[3] = {make(context, "a"), make(context, "b"), make(context, "c")};
    for (int i = 0; i < 3; i++) {
        ferry_scope scope;
        int32_t *device;
        OK(ferry_int_update_device(set[i], ferry_context_stream(context, 1), &scope, &device));
        OK(ferry_scope_close(&scope));
        OK(ferry_stream_synchronize(ferry_context_stream(context, 1)));
    }
    const char *text = look();
    assert_non_null(strstr(text, "\nevict for want of memory\n  evict \"a\" for want of memory\n   "
                                 " download \"a\" for evict\n"));
    for (int i = 0; i < 3; i++)
        ferry_int_destroy(&set[i]);
    ferry_context_destroy(&context);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfers_are_ranges),
        cmocka_unit_test(test_ranges_of_what_fails_end),
        cmocka_unit_test(test_launches_are_ranges_around_their_transfers),
        cmocka_unit_test(test_evictions_are_ranges),
    };
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *tool = path ? dlopen(path, RTLD_NOW) : NULL;
    void *found = tool ? dlsym(tool, "nvtx_tool_ranges") : NULL;
    if (!found) {
        fputs("test_profile: NVTX_INJECTION64_PATH names no tool\n", stderr);
        return 77;
    }
    *(void **)&ranges_of_tool = found;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
