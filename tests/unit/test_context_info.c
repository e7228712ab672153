/* SPDX-License-Identifier: MIT */
/* Tests what a context reports about the code that its places run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <ferry/context.h>

#include "src/device/cuda/cuda_abi.h"
#include "src/device/gpu/gpu_device.h"
#include "src/stream/shell.h"
#include "tests/support/fakecuda.h"
#include "tests/support/status.h"

static struct fakecuda fake;

static ferry_context *
open_context(const char *devices)
{
    const ferry_context_options options = {.devices = devices};
    ferry_context *context;
    OK(ferry_context_create(&options, &context));
    return context;
}

static void
assert_runs_no_code(ferry_context *context, int place)
{
    ferry_place_info info;
    OK(ferry_context_get_place_info(context, place, &info));
    assert_int_equal(info.language, FERRY_LANGUAGE_NONE);
    assert_string_equal(info.target, "");
    assert_null(info.native_context);
    assert_int_equal(info.architecture, 0);
}

static void
test_the_host_and_emulated_devices_run_no_code(void **state)
{
    (void)state;
    static const char *const devices[] = {"host", "emulated"};
    for (int i = 0; i < 2; i++) {
        ferry_context *context = open_context(devices[i]);
        assert_runs_no_code(context, 0);
        assert_runs_no_code(context, 1);
        ferry_context_destroy(&context);
    }
}

static void
test_cuda_devices_say_language_target_and_context(void **state)
{
    (void)state;
    static const struct {
        int major, minor;
        const char *target;
    } cases[] = {{9, 0, "sm_90"}, {8, 6, "sm_86"}, {10, 3, "sm_103"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake.fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                    cases[i].major);
        fake.fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                    cases[i].minor);
        ferry_context *context = open_context("cuda");
        ferry_place_info info;
        OK(ferry_context_get_place_info(context, 1, &info));
        assert_int_equal(info.language, FERRY_LANGUAGE_CUDA);
        assert_string_equal(info.target, cases[i].target);
        assert_int_equal(info.architecture, 10 * cases[i].major + cases[i].minor);
        assert_non_null(info.native_context);
        assert_ptr_equal(info.native_context, ferryi_gpu_of(context->devices[1])->context);
        assert_runs_no_code(context, 0);
        ferry_context_destroy(&context);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_host_and_emulated_devices_run_no_code),
        cmocka_unit_test(test_cuda_devices_say_language_target_and_context),
    };
    if (!fakecuda_find(FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so", &fake))
        return EXIT_FAILURE;
    setenv("FERRY_CUDA_LIBRARY", FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so", 1);
    return cmocka_run_group_tests_name("context_info", tests, NULL, NULL);
}
