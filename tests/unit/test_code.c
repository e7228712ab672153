/* SPDX-License-Identifier: MIT */
/* Tests the codes of a kernel: their form, how long a text is, what reaches the compiler, and which
 * code a device runs. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/ferry.h>
#include <ferry/float.h>

#include "src/base/sanitizer.h"
#include "src/device/cuda/nvrtc.h"
#include "src/kernel/code.h"
#include "src/kernel/kernel.h"
#include "tests/support/code.h"
#include "tests/support/fakecuda.h"
#include "tests/support/status.h"

#define FAKENVRTC FERRY_TEST_FAKECUDA_FOLDER "/libfakenvrtc.so"
#define COUNT     100

#define SCALE     "extern \"C\" __global__ void scale(float *a, float v) { a[threadIdx.x] *= v; }\n"
static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry "
                          "scale(.param .u64 a, .param .f32 v) { ret; }\n";
static const uint32_t words[2] = {0x07230203, 0x00010000};

static struct fakecuda fake;
static int refused_images;
static const char *(*compiler_options)(void); /* of the fake compiler's last compilation */

static void
note(ferry_log_level level, const char *message, void *user)
{
    (void)level, (void)user;
    refused_images += strstr(message, "the driver refuses an image") != NULL;
}

static ferry_context *
open_context(const char *devices)
{
    const ferry_context_options options = {.devices = devices, .log = note};
    ferry_context *context;
    OK(ferry_context_create(&options, &context));
    return context;
}

/* -- form -------------------------------------------------------------------------------------- */

static const char *const no_option[] = {NULL}, *const one_option[] = {"-DX"};

#define TEXT(of)  .kind = FERRY_CODE_##of, .code = SCALE
#define IMAGE(of) .kind = FERRY_CODE_##of, .code = ptx, .bytes = sizeof(ptx)

static const struct malformed {
    ferry_kernel_code code;
    const char *says;
} malformed[] = {
    {{.kind = (ferry_code_kind)0, .code = SCALE}, "code 1 has the unknown kind 0"},
    {{.kind = (ferry_code_kind)8, .code = SCALE}, "code 1 has the unknown kind 8"},
    {{.kind = (ferry_code_kind)-1, .code = SCALE}, "code 1 has the unknown kind -1"},
    {{.kind = FERRY_CODE_OPENCL}, "code 1, OpenCL C source: it is NULL"},
    {{.kind = FERRY_CODE_HIP_IMAGE, .bytes = 5}, "code 1, a HIP image: it is NULL"},
    {{TEXT(HIP), .flags = 6}, "code 1, HIP source: it has the unknown flags 0x6"},
    {{IMAGE(CUDA_IMAGE), .flags = FERRY_CODE_EXACT},
     "code 1, a CUDA image: it has flags or options, but no compiler runs"},
    {{IMAGE(OPENCL_BINARY), .options = one_option, .option_count = 1},
     "code 1, an OpenCL binary: it has flags or options"},
    {{TEXT(HIP), .option_count = 2}, "code 1, HIP source: option_count is 2, but options is NULL"},
    {{TEXT(OPENCL), .options = no_option, .option_count = 1},
     "code 1, OpenCL C source: option 0 is NULL"},
    {{.kind = FERRY_CODE_CUDA_IMAGE, .code = ptx}, "code 1, a CUDA image: it has 0 bytes"},
    {{.kind = FERRY_CODE_SPIRV, .code = words}, "code 1, SPIR-V: it has 0 bytes"},
    {{.kind = FERRY_CODE_SPIRV, .code = words, .bytes = 7},
     "code 1, SPIR-V: it has 7 bytes, which are not whole words of 4 bytes"},
    {{.kind = FERRY_CODE_HIP, .code = "int a;\0int b;", .bytes = 13},
     "code 1, HIP source: it has a NUL at byte 6, before the end of its 13 bytes"},
    {{TEXT(HIP), .target = "gfx90a"},
     "code 1, HIP source: it has the target \"gfx90a\", but only an image has one"},
    {{.kind = FERRY_CODE_SPIRV, .code = words, .bytes = 8, .target = "spir64"},
     "code 1, SPIR-V: it has the target \"spir64\", but only an image has one"},
    {{IMAGE(CUDA_IMAGE), .target = "gfx90a"},
     "code 1, a CUDA image: the target \"gfx90a\" is none of CUDA"},
    {{IMAGE(CUDA_IMAGE), .target = ""}, "code 1, a CUDA image: the target \"\" is none of CUDA"},
    {{IMAGE(HIP_IMAGE), .target = "sm_90"},
     "code 1, a HIP image: the target \"sm_90\" is none of HIP"},
    {{IMAGE(OPENCL_BINARY), .target = ""}, "code 1, an OpenCL binary: the target is empty"},
    {{TEXT(CUDA)}, "code 1 is CUDA source, of which there may be only one"},
};

static void
test_malformed_codes_are_refused(void **state)
{
    (void)state;
    ferry_context *context = open_context("emulated");
    ferry_kernel *kernel = NULL;
    ferry_kernel_code codes[2] = {{TEXT(CUDA)}};
    ferry_kernel_source source = {.name = "scale", .codes = codes, .code_count = 2};
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        codes[1] = malformed[i].code;
        assert_int_equal(ferry_kernel_create(context, &source, &kernel),
                         FERRY_ERROR_INVALID_ARGUMENT);
        assert_says("create kernel \"scale\": ");
        assert_says(malformed[i].says);
        assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_INVALID_ARGUMENT);
        assert_says("check kernel \"scale\": ");
        assert_says(malformed[i].says);
    }
    source.codes = NULL;
    assert_int_equal(ferry_kernel_create(context, &source, &kernel), FERRY_ERROR_INVALID_ARGUMENT);
    assert_says("create kernel \"scale\": code_count is 2, but codes is NULL");
    source.code_count = 0;
    assert_int_equal(ferry_kernel_create(context, &source, &kernel), FERRY_ERROR_INVALID_ARGUMENT);
    assert_says("create kernel \"scale\": it has no code and no host function");
    assert_null(kernel);
    ferry_context_destroy(&context);
}

/* One code of every kind, and two images of one kind. */
static void
test_codes_of_every_kind_are_taken(void **state)
{
    (void)state;
    ferry_context *context = open_context("emulated");
    const ferry_kernel_code codes[] = {
        {TEXT(OPENCL), .flags = FERRY_CODE_EXACT, .options = one_option, .option_count = 1},
        {TEXT(HIP), .flags = FERRY_CODE_EXACT},
        {IMAGE(CUDA_IMAGE), .target = "sm_75"},
        {IMAGE(CUDA_IMAGE), .target = "compute_90a"},
        {IMAGE(CUDA_IMAGE)},
        {IMAGE(HIP_IMAGE), .target = "gfx90a"},
        {IMAGE(HIP_IMAGE), .target = "gfx90a:xnack-"},
        {IMAGE(OPENCL_BINARY), .target = "a device"},
        {.kind = FERRY_CODE_SPIRV, .code = words, .bytes = 8, .flags = FERRY_CODE_EXACT},
        {TEXT(CUDA)}};
    const ferry_kernel_source source = {
        .name = "scale", .codes = codes, .code_count = sizeof(codes) / sizeof(codes[0])};
    ferry_kernel *kernel;
    OK(ferry_kernel_create(context, &source, &kernel));
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

/* -- texts ------------------------------------------------------------------------------------- */

static void
test_a_text_has_a_length_or_ends_at_its_nul(void **state)
{
    (void)state;
    static const char more[] = SCALE "#error";
    const ferry_kernel_code texts[] = {
        {.kind = FERRY_CODE_CUDA, .code = SCALE},
        {.kind = FERRY_CODE_CUDA, .code = SCALE, .bytes = sizeof(SCALE)},
        {.kind = FERRY_CODE_CUDA, .code = more, .bytes = sizeof(SCALE) - 1}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const ferry_kernel_source source = {.name = "scale", .codes = &texts[i], .code_count = 1};
        char *text;
        OK(ferryi_kernel_make_text(&texts[i], NULL, 0, &text));
        assert_string_equal(strstr(text, "extern"), SCALE);
        free(text);
        OK(ferry_kernel_check(&source, NULL));
    }
    const ferry_kernel_source whole = {.name = "scale", CUDA_SOURCE(more)};
    assert_int_equal(ferry_kernel_check(&whole, NULL), FERRY_ERROR_COMPILE);
}

/* -- the compiler ------------------------------------------------------------------------------ */

static void
scale_code(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)grid, (void)block;
    float *a = *(float **)parameters[0], value = *(float *)parameters[1];
    for (size_t i = 0; i < COUNT; i++)
        a[i] *= value;
}

static ferry_context *
open_fake(void)
{
    static const size_t sizes[] = {sizeof(void *), sizeof(float)};
    fake.fakecuda_register_kernel("scale", scale_code, 2, sizes);
    return open_context("cuda");
}

static void
make_parameters(ferry_parameter parameters[2])
{
    parameters[0] = (ferry_parameter){.element = ferry_float_element(), .access = FERRY_UPDATE};
    parameters[1] = (ferry_parameter){.element = ferry_float_element()};
}

static ferry_status
create(ferry_context *context, const ferry_kernel_code *codes, size_t count, ferry_kernel **out)
{
    ferry_parameter parameters[2];
    make_parameters(parameters);
    const ferry_kernel_source source = {.name = "scale",
                                        .codes = codes,
                                        .code_count = count,
                                        .parameters = parameters,
                                        .parameter_count = 2};
    *out = NULL;
    return ferry_kernel_create(context, &source, out);
}

/* The fake compiler writes its options into the code. The exact option comes after the program's,
 * because of several the last one counts. */
static void
test_exact_code_is_compiled_without_fused_operations(void **state)
{
    (void)state;
    static const char *const options[] = {"--fmad=true"};
    ferry_context *context = open_fake();
    for (int exact = 0; exact < 2; exact++) {
        const ferry_kernel_code code = {TEXT(CUDA), .flags = exact ? FERRY_CODE_EXACT : 0,
                                        .options = options, .option_count = 1};
        ferry_kernel *kernel;
        OK(create(context, &code, 1, &kernel));
        const char *made = kernel->images->bytes;
        const char *fused = strstr(made, "--fmad=true"), *apart = strstr(made, "--fmad=false");
        assert_non_null(fused);
        assert_true(exact ? apart && fused < apart : !apart);
        ferry_kernel_destroy(&kernel);
    }
    ferry_context_destroy(&context);
}

/* ferry_kernel_check() compiles as ferry_kernel_create() does. */
static void
test_a_check_is_exact_too(void **state)
{
    (void)state;
    ferry_kernel_code code = {TEXT(CUDA), .options = one_option, .option_count = 1};
    const ferry_kernel_source source = {.name = "scale", .codes = &code, .code_count = 1};
    OK(ferry_kernel_check(&source, NULL));
    assert_string_equal(compiler_options(), " --gpu-architecture=compute_75 -DX");
    code.flags = FERRY_CODE_EXACT;
    OK(ferry_kernel_check(&source, "sm_90"));
    assert_string_equal(compiler_options(), " --gpu-architecture=compute_90 -DX --fmad=false");
}

/* The same of the real compiler. */
static void
test_the_real_compiler_fuses_unless_exact(void **state)
{
    (void)state;
    static const char *const options[] = {"--fmad=true"};
    struct ferryi_nvrtc_source source = {
        .options = options,
        .option_count = 1,
        .name = "axpy",
        .text = "extern \"C\" __global__ void axpy(float *a, float b) { a[0] = a[0] * b + b; }\n",
        .architecture = 90,
        .portable = true};
    if (FERRYI_MEMORY_SANITIZER) /* which does not see what NVRTC writes */
        skip();
    unsetenv("FERRY_NVRTC_LIBRARY");
    for (int exact = 0; exact < 2; exact++) {
        struct ferryi_compiled image;
        source.exact = exact;
        ferry_status status = ferryi_nvrtc_compile(&source, NULL, &image);
        if (status == FERRY_ERROR_UNSUPPORTED)
            skip();
        OK(status);
        assert_int_equal(strstr(image.bytes, "fma.rn.f32") == NULL, exact);
        free(image.bytes);
    }
}

/* -- targets ----------------------------------------------------------------------------------- */

static void
test_targets_of_a_check(void **state)
{
    (void)state;
    static const char *const good[] = {"sm_75", "sm_90", "compute_75", "compute_90"};
    static const char *const wrong[] = {"",      "90",      "sm",      "sm_",        "sm_9",
                                        "sm_9x", "SM_90",   "sm_090",  "sm_9000",    "sm_90 ",
                                        "sm-90", "sm_90ab", "sm_90b",  "compute90",  "compute_",
                                        "gfx",   "opencl",  "sm_90\n", "compute_90z"};
    const ferry_kernel_source source = {.name = "scale", CUDA_SOURCE(SCALE)};
    OK(ferry_kernel_check(&source, NULL));
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        OK(ferry_kernel_check(&source, good[i]));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(ferry_kernel_check(&source, wrong[i]), FERRY_ERROR_INVALID_ARGUMENT);
        assert_says("check kernel \"scale\": the target \"");
        assert_says("\" is none of CUDA, such as \"sm_90\" or \"compute_90\"");
    }
    assert_int_equal(ferry_kernel_check(&source, "sm_90a"), FERRY_ERROR_UNSUPPORTED);
    assert_says("pass --gpu-architecture=sm_90a as an option");
}

static void
test_the_check_takes_the_cuda_source(void **state)
{
    (void)state;
    const ferry_kernel_code codes[] = {
        {.kind = FERRY_CODE_OPENCL, .code = "#error"}, {IMAGE(CUDA_IMAGE)}, {TEXT(CUDA)}};
    ferry_kernel_source source = {.name = "scale", .codes = codes, .code_count = 3};
    OK(ferry_kernel_check(&source, NULL));
    source.code_count = 2;
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    assert_says("check kernel \"scale\": it has no CUDA source");
}

/* -- choice ------------------------------------------------------------------------------------ */

static void
test_which_targets_suit_a_device(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int suits[8];
    } cases[] = {
        /*                75 80 86 89 90 100 103 120 */
        {NULL, {1, 1, 1, 1, 1, 1, 1, 1}},           {"sm_75", {1, 0, 0, 0, 0, 0, 0, 0}},
        {"sm_80", {0, 1, 1, 1, 0, 0, 0, 0}},        {"sm_86", {0, 0, 1, 1, 0, 0, 0, 0}},
        {"sm_90", {0, 0, 0, 0, 1, 0, 0, 0}},        {"sm_90a", {0, 0, 0, 0, 1, 0, 0, 0}},
        {"sm_100", {0, 0, 0, 0, 0, 1, 1, 0}},       {"sm_100a", {0, 0, 0, 0, 0, 1, 0, 0}},
        {"sm_100f", {0, 0, 0, 0, 0, 1, 1, 0}},      {"compute_75", {1, 1, 1, 1, 1, 1, 1, 1}},
        {"compute_86", {0, 0, 1, 1, 1, 1, 1, 1}},   {"compute_90a", {0, 0, 0, 0, 1, 0, 0, 0}},
        {"compute_100f", {0, 0, 0, 0, 0, 1, 1, 0}},
    };
    static const int architectures[8] = {75, 80, 86, 89, 90, 100, 103, 120};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t j = 0; j < 8; j++) {
            ferry_kernel_code code = {IMAGE(CUDA_IMAGE), .target = cases[i].target};
            const struct ferryi_codes codes = {.list = &code, .count = 1};
            ferryi_device device = {
                .capabilities = FERRY_CAN_LOAD_CODE,
                .properties = {.language = FERRY_LANGUAGE_CUDA, .architecture = architectures[j]}};
            if ((ferryi_codes_next(&codes, &device, NULL) == &code) != cases[i].suits[j])
                fail_msg("%s on %d", cases[i].target, architectures[j]);
            device.properties.language = FERRY_LANGUAGE_OPENCL;
            assert_null(ferryi_codes_next(&codes, &device, NULL));
        }
}

static void
use(ferry_context *context, ferry_kernel *kernel)
{
    float values[COUNT] = {1, 2, 3};
    ferry_float_buffer a;
    OK(ferry_float_create_from(context, COUNT, values, NULL, &a));
    const ferry_argument arguments[] = {ferry_float_argument(a), ferry_float_value(2)};
    OK(ferry_kernel_launch(kernel, ferry_grid_for(COUNT, 0), NULL, arguments, 2));
    OK(ferry_float_copy_to(a, 0, COUNT, values, NULL));
    assert_true(values[0] == 2 && values[1] == 4 && values[2] == 6);
    ferry_float_destroy(&a);
}

/* An image goes before the source, wherever they stand in the list. An image for another device is
 * passed over, and so are the codes of other languages. */
static void
test_images_go_before_the_source(void **state)
{
    (void)state;
    ferry_context *context = open_fake();
    ferry_kernel *kernel;
    ferry_kernel_code codes[] = {{TEXT(HIP)},
                                 {TEXT(CUDA)},
                                 {IMAGE(HIP_IMAGE)},
                                 {IMAGE(CUDA_IMAGE), .target = "sm_75"},
                                 {IMAGE(CUDA_IMAGE), .target = "sm_90"}};
    OK(create(context, codes, 5, &kernel));
    assert_null(kernel->images);
    use(context, kernel);
    ferry_kernel_destroy(&kernel);
    OK(create(context, codes, 4, &kernel));
    assert_non_null(kernel->images);
    use(context, kernel);
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

/* If the driver refuses an image, the next one is tried, and then the source. Any other failure
 * ends the call. */
static void
test_a_refused_image_is_replaced(void **state)
{
    (void)state;
    enum { OUT_OF_MEMORY = 2, NO_BINARY = 209 };
    ferry_context *context = open_fake();
    ferry_kernel *kernel;
    /* The first image is always refused, because it is none. */
    const ferry_kernel_code codes[] = {
        {.kind = FERRY_CODE_CUDA_IMAGE, .code = "nonsense", .bytes = 8},
        {IMAGE(CUDA_IMAGE)},
        {TEXT(CUDA)}};
    for (int refusals = 1; refusals <= 2; refusals++) {
        refused_images = 0;
        if (refusals == 2)
            fake.fakecuda_fail_next("cuModuleLoadDataEx", NO_BINARY, 1);
        OK(create(context, codes, 3, &kernel));
        assert_int_equal(refused_images, refusals);
        assert_int_equal(kernel->images != NULL, refusals == 2);
        use(context, kernel);
        ferry_kernel_destroy(&kernel);
    }
    fake.fakecuda_fail_next("cuModuleLoadDataEx", NO_BINARY, 1);
    assert_int_not_equal(create(context, codes, 2, &kernel), FERRY_OK);
    refused_images = 0;
    fake.fakecuda_fail_next("cuModuleLoadDataEx", OUT_OF_MEMORY, 1);
    assert_int_equal(create(context, codes + 1, 2, &kernel), FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(refused_images, 0);
    assert_null(kernel);
    fake.fakecuda_fail_none();
    ferry_context_destroy(&context);
}

static ferry_status
scale_on_host(const ferry_call *call, void *user)
{
    float *a = ferry_call_array(call, ferry_float_element(), 0, NULL);
    (void)user;
    for (size_t i = 0; i < COUNT; i++)
        a[i] *= 2;
    return FERRY_OK;
}

static void
assert_refused(ferry_context *context, const ferry_kernel_code *codes, size_t count,
               ferry_host_function *host_function, const char *sentence)
{
    const ferry_kernel_source source = {
        .name = "scale", .codes = codes, .code_count = count, .host_function = host_function};
    ferry_kernel *kernel;
    OK(ferry_kernel_create(context, &source, &kernel));
    assert_int_equal(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), NULL, NULL, 0),
                     FERRY_ERROR_UNSUPPORTED);
    assert_string_equal(ferry_last_error(), sentence);
    ferry_kernel_destroy(&kernel);
}

static void
test_a_place_without_code_says_what_it_takes(void **state)
{
    (void)state;
    const ferry_kernel_code other[] = {{TEXT(HIP)},
                                       {TEXT(OPENCL)},
                                       {.kind = FERRY_CODE_SPIRV, .code = words, .bytes = 8},
                                       {IMAGE(HIP_IMAGE)},
                                       {IMAGE(OPENCL_BINARY)}},
                            image[] = {{IMAGE(CUDA_IMAGE), .target = "sm_75"}},
                            text[] = {{TEXT(CUDA)}};
    ferry_context *context = open_fake();
#define LAUNCH "launch kernel \"scale\": it has "
#define CUDA   " only, and cuda:0 takes CUDA source or a CUDA image for sm_90; add such code"
    assert_refused(context, other, 1, NULL, LAUNCH "HIP source" CUDA);
    assert_refused(context, other, 2, NULL, LAUNCH "HIP source and OpenCL C source" CUDA);
    assert_refused(context, other, 5, NULL,
                   LAUNCH
                   "HIP source, OpenCL C source, SPIR-V, a HIP image and an OpenCL binary" CUDA);
    assert_refused(context, image, 1, NULL, LAUNCH "a CUDA image" CUDA);
    assert_refused(context, NULL, 0, scale_on_host, LAUNCH "a host function" CUDA);
    assert_refused(context, other, 2, scale_on_host,
                   LAUNCH "HIP source, OpenCL C source and a host function" CUDA);
    ferry_context_destroy(&context);
    context = open_context("emulated");
#define EMULATED " only, and emulated:0 takes a host function; add one"
    assert_refused(context, text, 1, NULL, LAUNCH "CUDA source" EMULATED);
    assert_refused(context, other, 2, NULL, LAUNCH "HIP source and OpenCL C source" EMULATED);
    ferry_context_destroy(&context);
}

/* Where no device takes the code, the host function runs. */
static void
test_the_host_function_comes_last(void **state)
{
    (void)state;
    ferry_context *context = open_context("emulated");
    const ferry_kernel_code codes[] = {{TEXT(CUDA)}, {TEXT(HIP)}, {IMAGE(CUDA_IMAGE)}};
    ferry_parameter parameters[2];
    make_parameters(parameters);
    const ferry_kernel_source source = {.name = "scale",
                                        .codes = codes,
                                        .code_count = 3,
                                        .host_function = scale_on_host,
                                        .parameters = parameters,
                                        .parameter_count = 2};
    ferry_kernel *kernel;
    OK(ferry_kernel_create(context, &source, &kernel));
    use(context, kernel);
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

static int
set_up(void **state)
{
    (void)state;
    setenv("FERRY_NVRTC_LIBRARY", FAKENVRTC, 1);
    setenv("FERRY_CACHE_DIR", "", 1);
    void *address = dlsym(dlopen(FAKENVRTC, RTLD_NOW | RTLD_LOCAL), "fakenvrtc_options");
    memcpy(&compiler_options, &address, sizeof(address));
    return address ? 0 : -1;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_malformed_codes_are_refused, set_up),
        cmocka_unit_test_setup(test_codes_of_every_kind_are_taken, set_up),
        cmocka_unit_test_setup(test_a_text_has_a_length_or_ends_at_its_nul, set_up),
        cmocka_unit_test_setup(test_exact_code_is_compiled_without_fused_operations, set_up),
        cmocka_unit_test_setup(test_a_check_is_exact_too, set_up),
        cmocka_unit_test_setup(test_the_real_compiler_fuses_unless_exact, set_up),
        cmocka_unit_test_setup(test_targets_of_a_check, set_up),
        cmocka_unit_test_setup(test_the_check_takes_the_cuda_source, set_up),
        cmocka_unit_test_setup(test_which_targets_suit_a_device, set_up),
        cmocka_unit_test_setup(test_images_go_before_the_source, set_up),
        cmocka_unit_test_setup(test_a_refused_image_is_replaced, set_up),
        cmocka_unit_test_setup(test_a_place_without_code_says_what_it_takes, set_up),
        cmocka_unit_test_setup(test_the_host_function_comes_last, set_up),
    };
    if (!fakecuda_find(FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so", &fake))
        return EXIT_FAILURE;
    setenv("FERRY_CUDA_LIBRARY", FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so", 1);
    return cmocka_run_group_tests_name("code", tests, NULL, NULL);
}
