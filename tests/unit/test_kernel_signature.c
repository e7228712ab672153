/* SPDX-License-Identifier: MIT */
/*
 * Tests that the declared parameters of a kernel are compared with those of its code. The first
 * argument of the program selects the driver. Drivers before CUDA 12.4 do not report the parameters
 * of code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/context.h>
#include <ferry/kernel.h>

#include "src/device/cuda/cuda_abi.h"
#include "tests/support/code.h"
#include "tests/support/fakecuda.h"
#include "tests/support/status.h"

static ferry_element float_element = {.name = "float",
                                      .c_type = "float",
                                      .bytes = 4,
                                      .align = 4,
                                      .kind = FERRY_KIND_FLOAT,
                                      .bits = 32};

static struct fakecuda fake;
static bool reports; /* whether the driver can report the parameters of code */
static ferry_context *context;

/* PTX of a kernel whose parameters are an array, a float and a struct of 24 bytes. */
static const char image[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                            ".visible .entry three(\n"
                            "    .param .u64 three_param_0,\n"
                            "    .param .f32 three_param_1,\n"
                            "    .param .align 8 .b8 three_param_2[24]\n"
                            ")\n{\n    ret;\n}\n"
                            ".visible .entry none()\n{\n    ret;\n}\n";

#define ARRAY                                                                                      \
    {                                                                                              \
        .element = &float_element, .access = FERRY_UPDATE                                          \
    }
#define VALUE                                                                                      \
    {                                                                                              \
        .element = &float_element                                                                  \
    }
#define ANY                                                                                        \
    {                                                                                              \
        .element = NULL                                                                            \
    }

static ferry_status
create(const char *name, const ferry_parameter *parameters, size_t count)
{
    const ferry_kernel_source source = {
        .name = name, CUDA_IMAGE(image), .parameters = parameters, .parameter_count = count};
    ferry_kernel *kernel = NULL;
    ferry_status status = ferry_kernel_create(context, &source, &kernel);
    assert_int_equal(fake.fakecuda_live().modules, status == FERRY_OK);
    ferry_kernel_destroy(&kernel);
    return status;
}

static void
test_the_right_declaration(void **state)
{
    (void)state;
    const ferry_parameter parameters[] = {ARRAY, VALUE, ANY};
    OK(create("three", parameters, 3));
    OK(create("none", NULL, 0));
    assert_int_equal(fake.fakecuda_calls_of("cuFuncGetParamInfo"), reports ? 5 : 0);
}

static void
test_declarations_that_differ(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        ferry_parameter parameters[4];
        size_t count;
        ferry_status status;
        const char *says;
    } cases[] = {
        {"three",
         {ARRAY, VALUE},
         2,
         FERRY_ERROR_INVALID_ARGUMENT,
         "parameter 2 of the code, 24 bytes, is not declared; 2 are"},
        {"three",
         {ARRAY},
         0,
         FERRY_ERROR_INVALID_ARGUMENT,
         "parameter 0 of the code, 8 bytes, is not declared; 0 are"},
        {"three",
         {ARRAY, VALUE, ANY, ARRAY},
         4,
         FERRY_ERROR_INVALID_ARGUMENT,
         "parameter 3, an array of float, is not in the code, which takes 3; 4 are declared"},
        {"none",
         {ANY},
         1,
         FERRY_ERROR_INVALID_ARGUMENT,
         "parameter 0, a struct without an element, is not in the code, which takes 0"},
        {"three",
         {VALUE, ARRAY, ANY},
         3,
         FERRY_ERROR_WRONG_TYPE,
         "parameter 0 is float, 4 bytes, but the code takes 8 bytes"},
        {"three",
         {ARRAY, VALUE, {.element = &float_element, .name = "factor"}},
         3,
         FERRY_ERROR_WRONG_TYPE,
         "parameter 2 \"factor\" is float, 4 bytes, but the code takes 24 bytes"},
        {"none",
         {{.element = &float_element, .name = "factor"}},
         1,
         FERRY_ERROR_INVALID_ARGUMENT,
         "parameter 0 \"factor\", float, is not in the code, which takes 0"},
        {"three",
         {ARRAY, ARRAY, ANY},
         3,
         FERRY_ERROR_WRONG_TYPE,
         "parameter 1 is an array of float, 8 bytes, but the code takes 4 bytes"},
        {"three",
         {ARRAY, VALUE, VALUE},
         3,
         FERRY_ERROR_WRONG_TYPE,
         "parameter 2 is float, 4 bytes, but the code takes 24 bytes"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ferry_status status = create(cases[i].name, cases[i].parameters, cases[i].count);
        assert_int_equal(status, reports ? cases[i].status : FERRY_OK);
        if (reports) {
            assert_says(cases[i].says);
            assert_says(cases[i].name);
        }
    }
}

static void
test_many_parameters(void **state)
{
    (void)state;
    ferry_parameter parameters[50] = {ARRAY, VALUE, ANY};
    assert_int_equal(create("three", parameters, 50),
                     reports ? FERRY_ERROR_INVALID_ARGUMENT : FERRY_OK);
    if (reports)
        assert_says("which takes 3; 50 are declared");
}

/* If the driver does not report the parameters of a kernel, the kernel must be accepted. Any other
 * failure of the driver must be returned. */
static void
test_the_driver_fails(void **state)
{
    (void)state;
    const ferry_parameter parameters[] = {ARRAY, VALUE};
    if (!reports)
        skip();
    fake.fakecuda_fail_next("cuFuncGetParamInfo", FERRYI_GPU_ERROR_NOT_SUPPORTED, 1);
    OK(create("three", parameters, 2));
    fake.fakecuda_fail_next("cuFuncGetParamInfo", FERRYI_GPU_ERROR_OUT_OF_MEMORY, 2);
    assert_int_equal(create("three", parameters, 2), FERRY_ERROR_OUT_OF_MEMORY);
    assert_says("cuFuncGetParamInfo: CUDA_ERROR_OUT_OF_MEMORY");
}

int
main(int count, char **arguments)
{
    const char *library = count > 1 ? arguments[1] : FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so";
    const ferry_context_options options = {.devices = "cuda"};
    reports = !strstr(library, "old");
    float_element.identity = ferry_element_identity(&float_element);
    setenv("FERRY_CUDA_LIBRARY", library, 1);
    if (!fakecuda_find(library, &fake) || ferry_context_create(&options, &context) != FERRY_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_right_declaration),
        cmocka_unit_test(test_declarations_that_differ),
        cmocka_unit_test(test_many_parameters),
        cmocka_unit_test(test_the_driver_fails),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ferry_context_destroy(&context);
    return failed;
}
