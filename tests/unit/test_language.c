/* SPDX-License-Identifier: MIT */
/* Tests that the language of a device and its capabilities choose what the device runs: the code of
 * a kernel, the kernels of conversions, and the kernel of batches. The foreign device runs code of
 * any language. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/double.h>
#include <ferry/ferry.h>
#include <ferry/float.h>

#include "src/convert/converter.h"
#include "src/kernel/code.h"
#include "src/stream/shell.h"
#include "src/transfer/scatter.h"
#include "tests/support/foreign.h"
#include "tests/support/status.h"

#define COUNT 100
#define BOTH  (FERRY_CAN_COMPILE | FERRY_CAN_LOAD_CODE)

struct pair {
    int32_t factor;
    int16_t unused;
};

static const ferry_field pair_fields[] = {
    {.name = "factor", .kind = FERRY_KIND_INT, .bits = 32, .offset = 0, .count = 1},
    {.name = "unused", .kind = FERRY_KIND_INT, .bits = 16, .offset = 4, .count = 1}};
static const ferry_element pair_element = {
    .name = "pair",
    .c_type = "struct pair",
    .identity = 0xaa2576f56b01099a,
    .bytes = sizeof(struct pair),
    .align = 4,
    .kind = FERRY_KIND_STRUCT,
    .fields = pair_fields,
    .field_count = 2,
    .cuda_declaration = "struct pair { int factor; short unused; }; /* of CUDA */",
    .opencl_declaration = "struct pair { int factor; short unused; }; /* of OpenCL */"};

/* The code of each kind begins with its number, so that the device knows it. */
static const uint32_t spirv[] = {'0' + FERRY_CODE_SPIRV};
static const char *const options[] = {"-DX=1", "-w"};
#define TEXT(of, words)                                                                            \
    {                                                                                              \
        .kind = FERRY_CODE_##of, .code = (words)                                                   \
    }
#define IMAGE(of, digit)                                                                           \
    {                                                                                              \
        .kind = FERRY_CODE_##of, .code = (digit), .bytes = 2                                       \
    }

static ferry_context *
open_context(const char *devices)
{
    const ferry_context_options settings = {.devices = devices};
    ferry_context *context;
    OK(ferry_context_create(&settings, &context));
    return context;
}

static ferry_status
on_host(const ferry_call *call, void *user)
{
    float *a = ferry_call_array(call, ferry_float_element(), 0, NULL);
    (void)user;
    a[0] += 100;
    return FERRY_OK;
}

/* Creates the kernel `scale` of a, by and pair.factor, with its codes. */
static ferry_status
create(ferry_context *context, const ferry_kernel_code *codes, size_t count,
       ferry_host_function *host_function, ferry_kernel **out)
{
    const ferry_parameter parameters[] = {
        {.element = ferry_float_element(), .access = FERRY_UPDATE},
        {.element = ferry_float_element()},
        {.element = &pair_element}};
    const ferry_kernel_source source = {.name = "scale",
                                        .codes = codes,
                                        .code_count = count,
                                        .host_function = host_function,
                                        .parameters = parameters,
                                        .parameter_count = 3};
    *out = NULL;
    return ferry_kernel_create(context, &source, out);
}

static void
scale(const struct foreign_launch *launch)
{
    float *a = *(float **)launch->arguments[0];
    const struct pair *pair = launch->arguments[2];
    for (size_t i = 0; i < COUNT; i++)
        a[i] = a[i] * *(const float *)launch->arguments[1] * (float)pair->factor;
}

/* Launches the kernel once at a place. Returns the first element after it, which was 1. */
static float
launch(ferry_context *context, ferry_kernel *kernel, int place)
{
    const float by = 2;
    const struct pair pair = {.factor = 3};
    float values[COUNT] = {1};
    ferry_float_buffer a;
    OK(ferry_float_create_from(context, COUNT, values, NULL, &a));
    ferry_argument arguments[] = {ferry_float_argument(a), ferry_float_value(by),
                                  ferry_element_value(&pair_element, &pair)};
    arguments[0].bytes = 77; /* of a value; without a meaning for a buffer */
    OK(ferry_kernel_launch(kernel, ferry_grid_for(COUNT, 0), ferry_context_stream(context, place),
                           arguments, 3));
    OK(ferry_float_copy_to(a, 0, COUNT, values, NULL));
    ferry_float_destroy(&a);
    return values[0];
}

/* -- kernels ----------------------------------------------------------------------------------- */

/* Of all texts, the device gets the one of its language, with the declarations of this language.
 * The launch says how large each value is, and which arguments are addresses. */
static void
test_a_device_gets_the_text_of_its_language(void **state)
{
    (void)state;
    const ferry_kernel_code codes[] = {TEXT(CUDA, "of CUDA"),
                                       TEXT(HIP, "of HIP"),
                                       {.kind = FERRY_CODE_OPENCL,
                                        .flags = FERRY_CODE_EXACT,
                                        .code = "of OpenCL C",
                                        .options = options,
                                        .option_count = 2}};
    foreign_begin(FERRY_LANGUAGE_OPENCL, "a device", BOTH);
    foreign.run = scale;
    ferry_context *context = open_context("foreign");
    ferry_kernel *kernel;
    OK(create(context, codes, 3, on_host, &kernel));
    assert_int_equal(foreign.kind, FERRY_CODE_OPENCL);
    assert_string_equal(foreign.options, " -DX=1 -w");
    assert_true(foreign.exact);
    const char *exact = strstr(foreign.text, "#pragma OPENCL FP_CONTRACT OFF\n"),
               *pair = strstr(foreign.text, "/* of OpenCL */"),
               *own = strstr(foreign.text, "#line 1\nof OpenCL C");
    assert_non_null(strstr(foreign.text, "typedef ulong uint64_t;"));
    assert_true(exact && exact < pair && pair < own);
    assert_null(strstr(foreign.text, "CUDA"));
    assert_true(launch(context, kernel, 1) == 6);
    assert_int_equal(foreign.launches, 1);
    assert_int_equal(foreign.launch.count, 3);
    assert_int_equal(foreign.launch.bytes[0], FERRYI_LAUNCH_ADDRESS);
    assert_int_equal(foreign.launch.bytes[1], sizeof(float));
    assert_int_equal(foreign.launch.bytes[2], sizeof(struct pair));
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

/* A text that may fuse operations has no word that forbids it. */
static void
test_a_text_that_is_not_exact(void **state)
{
    (void)state;
    const ferry_kernel_code code = TEXT(OPENCL, "of OpenCL C");
    foreign_begin(FERRY_LANGUAGE_OPENCL, "a device", BOTH);
    ferry_context *context = open_context("foreign");
    ferry_kernel *kernel;
    OK(create(context, &code, 1, NULL, &kernel));
    assert_null(strstr(foreign.text, "FP_CONTRACT"));
    assert_false(foreign.exact);
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

/* The binary for the device goes first, then SPIR-V, then the text. What the driver refuses is
 * passed over, and the failure of the last code is that of the call. */
static void
test_the_order_of_codes(void **state)
{
    (void)state;
    const ferry_kernel_code codes[] = {
        TEXT(OPENCL, "of OpenCL C"),
        {.kind = FERRY_CODE_OPENCL_BINARY, .code = "7", .bytes = 2, .target = "another"},
        {.kind = FERRY_CODE_SPIRV, .code = spirv, .bytes = sizeof(spirv)},
        {.kind = FERRY_CODE_OPENCL_BINARY, .code = "7", .bytes = 2, .target = "a device"}};
    static const ferry_code_kind order[] = {FERRY_CODE_OPENCL_BINARY, FERRY_CODE_SPIRV,
                                            FERRY_CODE_OPENCL};
    foreign_begin(FERRY_LANGUAGE_OPENCL, "a device", BOTH);
    ferry_context *context = open_context("foreign");
    for (int refused = 0; refused <= 3; refused++) {
        ferry_kernel *kernel;
        foreign.loads = foreign.builds = 0;
        foreign.kind = FERRY_CODE_OPENCL_BINARY;
        if (refused > 0)
            foreign.refuses[order[refused - 1]] = FERRY_ERROR_UNSUPPORTED;
        assert_int_equal(create(context, codes, 4, NULL, &kernel),
                         refused < 3 ? FERRY_OK : FERRY_ERROR_UNSUPPORTED);
        assert_int_equal(foreign.loads, 1);
        assert_int_equal(foreign.builds, refused < 2 ? refused : 2);
        if (refused < 3)
            assert_int_equal(foreign.kind, order[refused]);
        ferry_kernel_destroy(&kernel);
    }
    ferry_context_destroy(&context);
}

/* A source that does not compile is an error, whatever else there is. */
static void
test_a_source_that_does_not_compile(void **state)
{
    (void)state;
    const ferry_kernel_code code = TEXT(OPENCL, "of OpenCL C");
    foreign_begin(FERRY_LANGUAGE_OPENCL, "a device", BOTH);
    foreign.refuses[FERRY_CODE_OPENCL] = FERRY_ERROR_COMPILE;
    ferry_context *context = open_context("foreign");
    ferry_kernel *kernel;
    assert_int_equal(create(context, &code, 1, on_host, &kernel), FERRY_ERROR_COMPILE);
    assert_string_equal(ferry_last_error(),
                        "create kernel \"scale\": the foreign device refuses it");
    ferry_context_destroy(&context);
}

/* The second device only compiles when the kernel is created, and loads at its first launch. */
static void
test_further_devices_compile_first(void **state)
{
    (void)state;
    const ferry_kernel_code code = TEXT(OPENCL, "of OpenCL C");
    foreign_begin(FERRY_LANGUAGE_OPENCL, "a device", BOTH);
    foreign.run = scale;
    ferry_context *context = open_context("foreign:2");
    ferry_kernel *kernel;
    OK(create(context, &code, 1, NULL, &kernel));
    assert_int_equal(foreign.builds, 1);
    assert_int_equal(foreign.checks, 1);
    assert_true(launch(context, kernel, 2) == 6);
    assert_true(launch(context, kernel, 1) == 6);
    assert_int_equal(foreign.builds, 2);
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

/* A device of HIP takes CUDA source, but only if there is no HIP source. */
static void
test_a_hip_device_takes_cuda_source(void **state)
{
    (void)state;
    const ferry_kernel_code codes[] = {TEXT(CUDA, "of CUDA"), TEXT(HIP, "of HIP")};
    foreign_begin(FERRY_LANGUAGE_HIP, "gfx90a:xnack-", BOTH);
    ferry_context *context = open_context("foreign");
    for (size_t count = 1; count <= 2; count++) {
        ferry_kernel *kernel;
        OK(create(context, codes, count, NULL, &kernel));
        assert_int_equal(foreign.kind, count == 1 ? FERRY_CODE_CUDA : FERRY_CODE_HIP);
        assert_non_null(strstr(foreign.text, "/* of CUDA */"));
        ferry_kernel_destroy(&kernel);
    }
    foreign.refuses[FERRY_CODE_HIP] = FERRY_ERROR_UNSUPPORTED;
    ferry_kernel *kernel;
    assert_int_equal(create(context, codes, 2, NULL, &kernel), FERRY_ERROR_UNSUPPORTED);
    ferry_context_destroy(&context);
}

static void
test_which_targets_suit_a_hip_device(void **state)
{
    (void)state;
    static const struct {
        const char *target, *device;
        bool suits;
    } cases[] = {
        {"gfx90a", "gfx90a", true},
        {"gfx90a", "gfx90a:sramecc+:xnack-", true},
        {"gfx90a:xnack-", "gfx90a:sramecc+:xnack-", true},
        {"gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-", true},
        {"gfx90a:xnack+", "gfx90a:sramecc+:xnack-", false},
        {"gfx90a:xnack-", "gfx90a", false},
        {"gfx90", "gfx90a", false},
        {"gfx90a", "gfx90", false},
        {"gfx90a:xnack", "gfx90a:xnack-", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ferry_kernel_code code = {
            .kind = FERRY_CODE_HIP_IMAGE, .code = "6", .bytes = 2, .target = cases[i].target};
        const struct ferryi_codes codes = {.list = &code, .count = 1};
        ferryi_device device = {.capabilities = FERRY_CAN_LOAD_CODE,
                                .properties = {.language = FERRY_LANGUAGE_HIP}};
        snprintf(device.properties.target, sizeof(device.properties.target), "%s", cases[i].device);
        if ((ferryi_codes_next(&codes, &device, NULL) != NULL) != cases[i].suits)
            fail_msg("%s on %s", cases[i].target, cases[i].device);
    }
}

/* -- what is refused --------------------------------------------------------------------------- */

/* Without code of its language, a device runs the host function if it can. */
static void
test_the_host_function_comes_last(void **state)
{
    (void)state;
    const ferry_kernel_code codes[] = {TEXT(CUDA, "of CUDA"), IMAGE(CUDA_IMAGE, "5")};
    foreign_begin(FERRY_LANGUAGE_OPENCL, "a device", BOTH);
    ferry_context *context = open_context("foreign");
    ferry_kernel *kernel;
    OK(create(context, codes, 2, on_host, &kernel));
    assert_true(launch(context, kernel, 1) == 101);
    assert_int_equal(foreign.builds + foreign.loads + foreign.launches, 0);
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

static const struct refusal {
    ferry_language language;
    const char *target;
    uint64_t capabilities;
    bool hides_memory;
    const char *says;
} refusals[] = {
    {FERRY_LANGUAGE_OPENCL, "a device", BOTH, false,
     "OpenCL C source, SPIR-V or an OpenCL binary for a device, or a host function; add one of "
     "them"},
    {FERRY_LANGUAGE_OPENCL, "a device", BOTH, true,
     "OpenCL C source, SPIR-V or an OpenCL binary for a device; add such code"},
    {FERRY_LANGUAGE_OPENCL, "a device", FERRY_CAN_LOAD_CODE, true,
     "an OpenCL binary for a device; add such code"},
    {FERRY_LANGUAGE_OPENCL, "a device", FERRY_CAN_COMPILE, true,
     "OpenCL C source or SPIR-V for a device; add such code"},
    {FERRY_LANGUAGE_NONE, "", 0, false, "a host function; add one"},
};

static void
test_what_a_device_takes_is_said(void **state)
{
    (void)state;
    const ferry_kernel_code codes[] = {TEXT(CUDA, "of CUDA"), TEXT(HIP, "of HIP")};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *one = &refusals[i];
        foreign_begin(one->language, one->target, one->capabilities);
        foreign.hides_memory = one->hides_memory;
        ferry_context *context = open_context("foreign");
        const ferry_kernel_source source = {.name = "scale", .codes = codes, .code_count = 2};
        char sentence[256];
        ferry_kernel *kernel;
        OK(ferry_kernel_create(context, &source, &kernel));
        assert_int_equal(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), NULL, NULL, 0),
                         FERRY_ERROR_UNSUPPORTED);
        snprintf(sentence, sizeof(sentence),
                 "launch kernel \"scale\": it has CUDA source and HIP source only, and foreign:0 "
                 "takes %s",
                 one->says);
        assert_string_equal(ferry_last_error(), sentence);
        ferry_kernel_destroy(&kernel);
        ferry_context_destroy(&context);
    }
}

/* A text needs a device that compiles, and an image one that loads. */
static void
test_a_code_needs_a_capability(void **state)
{
    (void)state;
    ferry_kernel_code codes[] = {TEXT(OPENCL, "of OpenCL C"), IMAGE(OPENCL_BINARY, "7")};
    for (int loads = 0; loads < 2; loads++) {
        ferry_kernel *kernel;
        foreign_begin(FERRY_LANGUAGE_OPENCL, "a device",
                      loads ? FERRY_CAN_LOAD_CODE : FERRY_CAN_COMPILE);
        ferry_context *context = open_context("foreign");
        OK(create(context, codes, 2, NULL, &kernel));
        assert_int_equal(foreign.loads, loads);
        assert_int_equal(foreign.builds, !loads);
        ferry_kernel_destroy(&kernel);
        ferry_context_destroy(&context);
    }
}

/* -- the library's own kernels ----------------------------------------------------------------- */

/* The library has conversions and the kernel of batches in each language. A device that takes no
 * code must get none of them: the host's loops convert, or nothing on the device does. */
static void
test_own_kernels_are_in_the_language_of_the_device(void **state)
{
    (void)state;
    static const struct {
        ferry_language language;
        uint64_t capabilities;
        bool hides_memory, converts, scatters;
    } cases[] = {
        {FERRY_LANGUAGE_CUDA, BOTH, false, true, true},
        {FERRY_LANGUAGE_CUDA, BOTH, true, true, true},
        {FERRY_LANGUAGE_CUDA, 0, true, false, false},
        {FERRY_LANGUAGE_OPENCL, BOTH, false, true, true},
        {FERRY_LANGUAGE_OPENCL, BOTH, true, true, true},
        {FERRY_LANGUAGE_OPENCL, 0, true, false, false},
        {FERRY_LANGUAGE_HIP, BOTH, true, true, true},
        {FERRY_LANGUAGE_HIP, 0, true, false, false},
        {FERRY_LANGUAGE_NONE, 0, false, true, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bool has_kernels = cases[i].scatters;
        foreign_begin(cases[i].language, "a device", cases[i].capabilities);
        foreign.hides_memory = cases[i].hides_memory;
        ferry_context *context = open_context("foreign");
        assert_int_equal(ferryi_scatter_is_ready(context->engine, 1), cases[i].scatters);
        assert_int_equal(foreign.loads + foreign.builds, cases[i].scatters);
        foreign.loads = foreign.builds = 0;
        assert_int_equal(ferryi_converter_can(context->converters[1], ferry_float_element(),
                                              ferry_double_element()),
                         cases[i].converts);
        assert_int_equal(foreign.loads + foreign.builds > 0, has_kernels);
        ferry_context_destroy(&context);
    }
}

/* A conversion between buffers has its result on every device, also where the kernels do not
 * compile. */
static void
test_conversions_without_kernels(void **state)
{
    (void)state;
    for (int hides = 0; hides < 2; hides++) {
        float values[COUNT];
        double result[COUNT];
        ferry_float_buffer source;
        ferry_double_buffer target;
        foreign_begin(FERRY_LANGUAGE_OPENCL, "a device", BOTH);
        foreign.refuses[FERRY_CODE_OPENCL] = FERRY_ERROR_COMPILE;
        foreign.hides_memory = hides;
        ferry_context *context = open_context("foreign");
        for (int i = 0; i < COUNT; i++)
            values[i] = (float)i / 4;
        OK(ferry_float_create_from(context, COUNT, values, NULL, &source));
        OK(ferry_double_create(context, COUNT, NULL, &target));
        OK(ferry_buffer_sync_to(source.raw, 0, FERRY_REST, 1, NULL));
        ferry_copy_region region =
            ferry_buffer_region(target.raw, ferry_double_element(), 0, source.raw, 0, COUNT);
        region.source.element = ferry_float_element();
        const ferry_copy_options how = {.convert = FERRY_CONVERT_CHECK,
                                        .stream = ferry_context_stream(context, 1)};
        OK(ferry_copy(&region, 1, &how));
        OK(ferry_double_copy_to(target, 0, COUNT, result, NULL));
        for (int i = 0; i < COUNT; i++)
            assert_true(result[i] == values[i]);
        assert_int_equal(foreign.launches, 0);
        ferry_float_destroy(&source);
        ferry_double_destroy(&target);
        ferry_context_destroy(&context);
    }
}

/* -- exchange ---------------------------------------------------------------------------------- */

static void
test_dlpack_types_are_of_languages(void **state)
{
    (void)state;
    static const int32_t types[] = {[FERRY_LANGUAGE_NONE] = 12,
                                    [FERRY_LANGUAGE_CUDA] = 2,
                                    [FERRY_LANGUAGE_HIP] = 10,
                                    [FERRY_LANGUAGE_OPENCL] = 4};
    for (int language = FERRY_LANGUAGE_NONE; language <= FERRY_LANGUAGE_OPENCL; language++) {
        int32_t type, id;
        foreign_begin((ferry_language)language, "a device", 0);
        ferry_context *context = open_context("foreign:2");
        OK(ferry_context_exchange_device(context, 2, &type, &id));
        assert_int_equal(type, types[language]);
        assert_int_equal(id, 1);
        assert_int_equal(ferry_context_exchange_place(context, type, 1), 2);
        ferry_context_destroy(&context);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_device_gets_the_text_of_its_language),
        cmocka_unit_test(test_a_text_that_is_not_exact),
        cmocka_unit_test(test_the_order_of_codes),
        cmocka_unit_test(test_a_source_that_does_not_compile),
        cmocka_unit_test(test_further_devices_compile_first),
        cmocka_unit_test(test_a_hip_device_takes_cuda_source),
        cmocka_unit_test(test_which_targets_suit_a_hip_device),
        cmocka_unit_test(test_the_host_function_comes_last),
        cmocka_unit_test(test_what_a_device_takes_is_said),
        cmocka_unit_test(test_a_code_needs_a_capability),
        cmocka_unit_test(test_own_kernels_are_in_the_language_of_the_device),
        cmocka_unit_test(test_conversions_without_kernels),
        cmocka_unit_test(test_dlpack_types_are_of_languages),
    };
    return cmocka_run_group_tests_name("language", tests, NULL, NULL);
}
