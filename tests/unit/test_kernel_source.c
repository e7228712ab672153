/* SPDX-License-Identifier: MIT */
/* Tests how the source of a kernel is compiled: targets, options, entry points, images and
 * messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/kernel.h>

#include "src/device/cuda/nvrtc.h"
#include "src/device/cuda/ptx.h"
#include "src/kernel/kernel.h"
#include "tests/support/code.h"
#include "tests/support/status.h"

static const char add_source[] =
    "extern \"C\" __global__ void add(float *a, const float *b, size_t n)\n"
    "{\n"
    "    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;\n"
    "    if (i < n)\n"
    "        a[i] += b[i];\n"
    "}\n";

static const ferry_element float_element = {.name = "float",
                                            .c_type = "float",
                                            .identity = UINT64_C(0x7226fb1ddcc03084),
                                            .bytes = 4,
                                            .align = 4,
                                            .kind = FERRY_KIND_FLOAT,
                                            .bits = 32};

static const ferry_parameter add_parameters[] = {
    {.element = &float_element, .access = FERRY_UPDATE},
    {.element = &float_element, .access = FERRY_READ},
    {.element = NULL}};

/* The description of the kernel `add`. */
#define ADD                                                                                        \
    {                                                                                              \
        .name = "add", CUDA_SOURCE(add_source), .parameters = add_parameters, .parameter_count = 3 \
    }

static bool
have_nvrtc(void)
{
    const ferry_kernel_source source = ADD;
    return ferry_kernel_check(&source, NULL) != FERRY_ERROR_UNSUPPORTED;
}

#define NEEDS_NVRTC()                                                                              \
    do {                                                                                           \
        if (!have_nvrtc()) {                                                                       \
            print_message("skipped: %s\n", ferry_last_error());                                    \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

static ferry_element
make_struct(const char *name, const ferry_field *fields, size_t count, size_t bytes,
            const char *declaration)
{
    ferry_element element = {.name = name,
                             .c_type = name,
                             .bytes = bytes,
                             .align = 4,
                             .kind = FERRY_KIND_STRUCT,
                             .fields = fields,
                             .field_count = count,
                             .cuda_declaration = declaration};
    element.identity = ferry_element_identity(&element);
    assert_true(element.identity != 0);
    return element;
}

static void
test_good_source_compiles(void **state)
{
    (void)state;
    NEEDS_NVRTC();
    ferry_kernel_source source = ADD;
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_OK);
    assert_int_equal(ferry_kernel_check(&source, "sm_75"), FERRY_OK);
    assert_int_equal(ferry_kernel_check(&source, "sm_90"), FERRY_OK);
    assert_int_equal(ferry_kernel_check(&source, "compute_90"), FERRY_OK);
    const char *options[] = {"-use_fast_math", "--std=c++14"};
    const ferry_kernel_code fast = {
        .kind = FERRY_CODE_CUDA, .code = add_source, .options = options, .option_count = 2};
    source.codes = &fast;
    assert_int_equal(ferry_kernel_check(&source, "sm_90"), FERRY_OK);
}

/* Without a target the source is compiled for "sm_75". An option of the source overrides both. */
static void
test_the_target_reaches_the_compiler(void **state)
{
    (void)state;
    NEEDS_NVRTC();
    static const char *const only_90[] = {"--gpu-architecture=compute_90a"};
    static const struct {
        const char *wanted, *target;
        size_t option_count;
    } cases[] = {{"750", NULL, 0},         {"750", "sm_75", 0}, {"900", "sm_90", 0},
                 {"900", "compute_90", 0}, {"900", NULL, 1},    {"900", "sm_75", 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[200];
        snprintf(text, sizeof(text),
                 "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != %s\n#error\n#endif\n"
                 "extern \"C\" __global__ void none() {}\n",
                 cases[i].wanted);
        const ferry_kernel_source source = {.name = "none",
                                            CODE_OF(.kind = FERRY_CODE_CUDA, .code = text,
                                                    .options = only_90,
                                                    .option_count = cases[i].option_count)};
        OK(ferry_kernel_check(&source, cases[i].target));
        if (cases[i].option_count == 0)
            assert_int_equal(ferry_kernel_check(&source, "sm_80"), FERRY_ERROR_COMPILE);
    }
}

static void
test_bad_source_shows_the_compilers_words(void **state)
{
    (void)state;
    NEEDS_NVRTC();
    const ferry_kernel_source source = {
        .name = "wrong",
        CUDA_SOURCE(
            "extern \"C\" __global__ void wrong(float *a)\n{\n    a[0] = nothing_such;\n}\n")};
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_COMPILE);
    assert_says("wrong");
    assert_says("nothing_such");
    assert_says("wrong.cu(3)");
    assert_says("NVRTC_ERROR_COMPILATION");
}

static void
test_bad_options_are_named(void **state)
{
    (void)state;
    NEEDS_NVRTC();
    const char *options[] = {"--no-such-option"};
    const ferry_kernel_source source = {.name = "add",
                                        CODE_OF(.kind = FERRY_CODE_CUDA, .code = add_source,
                                                .options = options, .option_count = 1)};
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_COMPILE);
    assert_says("no-such-option");
}

/* Another description of the kernel `add`, or other code, and the message about it. */
struct mismatch {
    const char *source;
    ferry_parameter parameters[4];
    size_t count;
    ferry_status status;
    const char *says;
};

#define ARRAY                                                                                      \
    {                                                                                              \
        .element = &float_element, .access = FERRY_READ                                            \
    }
#define VALUE                                                                                      \
    {                                                                                              \
        .element = &float_element                                                                  \
    }

static const char struct_source[] =
    "struct pair { float a; double b; };\n"
    "extern \"C\" __global__ void other() {}\n"
    "extern \"C\" __global__ void add(float *a, const pair b, bool c, unsigned short d)\n"
    "{\n    a[0] = b.a + (float)b.b + c + d;\n}\n";
static const char mangled_source[] = "__global__ void add(float *a) { a[0] = 1; }\n";
static const char device_source[] =
    "extern \"C\" __device__ float add(float a) { return a + 1; }\n";

static const struct mismatch mismatches[] = {
    {add_source, {ARRAY, ARRAY, {.element = NULL}}, 3, FERRY_OK, NULL},
    {struct_source,
     {ARRAY, {.element = NULL}, {.element = NULL}, {.element = NULL}},
     4,
     FERRY_OK,
     NULL},
    {add_source,
     {ARRAY},
     1,
     FERRY_ERROR_INVALID_ARGUMENT,
     "parameter 1 of the code, 8 bytes, is not declared; 1 are"},
    {add_source,
     {ARRAY, ARRAY, ARRAY, ARRAY},
     4,
     FERRY_ERROR_INVALID_ARGUMENT,
     "parameter 3, an array of float, is not in the code, which takes 3; 4 are declared"},
    {add_source,
     {ARRAY, ARRAY, VALUE},
     3,
     FERRY_ERROR_WRONG_TYPE,
     "parameter 2 is float, 4 bytes, but the code takes 8 bytes"},
    {struct_source,
     {ARRAY, VALUE, {.element = NULL}, {.element = NULL}},
     4,
     FERRY_ERROR_WRONG_TYPE,
     "parameter 1 is float, 4 bytes, but the code takes 16 bytes"},
    {struct_source,
     {ARRAY, {.element = NULL}, VALUE, {.element = NULL}},
     4,
     FERRY_ERROR_WRONG_TYPE,
     "parameter 2 is float, 4 bytes, but the code takes 1 bytes"},
    {struct_source,
     {ARRAY, {.element = NULL}, {.element = NULL}, VALUE},
     4,
     FERRY_ERROR_WRONG_TYPE,
     "parameter 3 is float, 4 bytes, but the code takes 2 bytes"},
    {mangled_source,
     {ARRAY},
     1,
     FERRY_ERROR_INVALID_ARGUMENT,
     "the code has no entry point of this name, but \"_Z3addPf\"; declare the function as extern"},
    {device_source,
     {VALUE},
     1,
     FERRY_ERROR_INVALID_ARGUMENT,
     "the code has no entry point of this name; declare the function as extern"},
};

static void
test_the_entry_point_is_compared(void **state)
{
    (void)state;
    NEEDS_NVRTC();
    for (size_t i = 0; i < sizeof(mismatches) / sizeof(mismatches[0]); i++) {
        const struct mismatch *one = &mismatches[i];
        const ferry_kernel_source source = {.name = "add",
                                            CUDA_SOURCE(one->source),
                                            .parameters = one->parameters,
                                            .parameter_count = one->count};
        assert_int_equal(ferry_kernel_check(&source, NULL), one->status);
        if (one->says) {
            assert_says("check kernel \"add\"");
            assert_says(one->says);
        }
    }
}

/* Stands for a compiler: the text is its result. */
static ferry_status
read_text(const struct ferryi_code_job *job, const char *target, size_t most, size_t *out_bytes,
          size_t *out_count)
{
    (void)target;
    return ferryi_ptx_read(job->code->code, job->name, most, out_bytes, out_count);
}

static ferry_status
check_ptx(const char *ptx)
{
    static const ferryi_device_kind compiler = {.name = "reader", .code_check = read_text};
    const ferry_kernel_source source = ADD;
    const ferry_kernel_code code = {.kind = FERRY_CODE_CUDA, .code = ptx};
    const struct ferryi_code_job job = {.name = "add", .code = &code};
    return ferryi_kernel_check_text(&source, &job, &compiler, NULL);
}

/* Text that is not PTX, and entry points whose parameters cannot be known. */
static void
test_unknown_code_is_accepted(void **state)
{
    (void)state;
    OK(check_ptx(""));
    OK(check_ptx(".entry other"));
    OK(check_ptx(".version 8.0\n.entry add"));
    OK(check_ptx(".version 8.0\n.entry add(.param .u64 a"));
    OK(check_ptx(".version 8.0\n.weak .entry add(\n.param .u64 .ptr .global .align 4 a,\n"
                 ".param .u64 b, .param .texref c)\n"));
    assert_int_equal(check_ptx(".version 8.0\n// .entry add\n.visible .func add()\n"),
                     FERRY_ERROR_INVALID_ARGUMENT);
}

struct lines {
    bool broken, tail_seen;
};

static void
on_log(ferry_log_level level, const char *message, void *user)
{
    struct lines *lines = user;
    (void)level;
    lines->broken |= strchr(message, '\n') != NULL;
    lines->tail_seen |= strstr(message, "missing_90") != NULL;
}

/* Compiles a source for which the compiler writes a long log. The error message must contain the
 * beginning of this log. The log callback must receive all of its lines. */
static void
test_long_logs_go_whole_to_the_log(void **state)
{
    (void)state;
    NEEDS_NVRTC();
    char text[16000], *end = text;
    for (int i = 0; i < 200; i++)
        end += sprintf(end, "__device__ int v%d = missing_%d;\n", i, i);
    struct lines lines = {0};
    const struct ferryi_log log = {on_log, &lines};
    struct ferryi_nvrtc_source source = {.name = "long", .text = text, .architecture = 90};
    struct ferryi_compiled image;
    assert_int_equal(ferryi_nvrtc_compile(&source, &log, &image), FERRY_ERROR_COMPILE);
    assert_says("missing_0");
    assert_null(strstr(ferry_last_error(), "missing_90"));
    assert_true(lines.tail_seen);
    assert_false(lines.broken);
}

/* Checks that a kernel is compiled to code for the device's architecture if the compiler supports
 * that architecture. If it does not, the result must be PTX, which the driver translates. */
static void
test_which_image_comes_out(void **state)
{
    (void)state;
    NEEDS_NVRTC();
    struct ferryi_nvrtc_source source = {.name = "add", .text = add_source, .architecture = 90};
    struct ferryi_compiled image;
    assert_int_equal(ferryi_nvrtc_compile(&source, NULL, &image), FERRY_OK);
    assert_memory_equal(image.bytes,
                        "\x7f"
                        "ELF",
                        4);
    free(image.bytes);
    source.portable = true;
    assert_int_equal(ferryi_nvrtc_compile(&source, NULL, &image), FERRY_OK);
    assert_non_null(strstr(image.bytes, ".entry add"));
    assert_non_null(strstr(image.bytes, "sm_90"));
    assert_int_equal(((char *)image.bytes)[image.size - 1], 0);
    free(image.bytes);
    source.portable = false;
    source.architecture = 999;
    assert_int_equal(ferryi_nvrtc_compile(&source, NULL, &image), FERRY_OK);
    assert_non_null(strstr(image.bytes, ".entry add"));
    free(image.bytes);
    source.architecture = 20;
    assert_int_equal(ferryi_nvrtc_compile(&source, NULL, &image), FERRY_ERROR_UNSUPPORTED);
    assert_says("2.0");
    const char *options[] = {"--gpu-architecture=compute_80"};
    source = (struct ferryi_nvrtc_source){.name = "add",
                                          .text = add_source,
                                          .architecture = 90,
                                          .options = options,
                                          .option_count = 1};
    assert_int_equal(ferryi_nvrtc_compile(&source, NULL, &image), FERRY_OK);
    assert_non_null(strstr(image.bytes, "sm_80"));
    free(image.bytes);
}

static void
test_struct_declarations_come_first_and_once(void **state)
{
    (void)state;
    const ferry_field fields[] = {
        {.name = "x", .kind = FERRY_KIND_FLOAT, .bits = 32, .offset = 0, .count = 1},
        {.name = "y", .kind = FERRY_KIND_FLOAT, .bits = 32, .offset = 4, .count = 1}};
    ferry_element pair = make_struct("pair", fields, 2, 8, "struct pair { float x, y; };");
    ferry_element one = make_struct("one", fields, 1, 4, "struct one { float x; };");
    ferry_parameter parameters[] = {{.element = &pair, .access = FERRY_READ},
                                    {.element = &one, .access = FERRY_UPDATE},
                                    {.element = &pair, .access = FERRY_UPDATE},
                                    {.element = NULL}};
    ferry_kernel_code code = {
        .kind = FERRY_CODE_CUDA,
        .code = "extern \"C\" __global__ void swap(const pair *a, one *b, pair *c, int n)\n"
                "{\n    c->x = a->y; b->x = (float)n;\n}\n"};
    ferry_kernel_source source = {.name = "swap",
                                  .codes = &code,
                                  .code_count = 1,
                                  .parameters = parameters,
                                  .parameter_count = 4};
    ferry_parameter *interned;
    char *text;
    assert_int_equal(ferryi_kernel_copy_parameters(&source, &interned), FERRY_OK);
    assert_int_equal(ferryi_kernel_make_text(&code, interned, 4, &text), FERRY_OK);
    char *at_pair = strstr(text, "struct pair {"), *at_one = strstr(text, "struct one {"),
         *at_kernel = strstr(text, "extern");
    assert_true(at_pair && at_one && at_kernel && at_pair < at_one && at_one < at_kernel);
    assert_null(strstr(at_pair + 1, "struct pair {"));
    free(text);
    free(interned);

    NEEDS_NVRTC();
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_OK);
    /* Line numbers in messages must refer to the author's source. They must not count the lines
     * that the library adds before it. */
    code.code = "extern \"C\" __global__ void swap(const pair *a)\n{\n    nope;\n}\n";
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_COMPILE);
    assert_says("swap.cu(3)");
    /* Without declared parameters, the library does not declare the struct type `pair`, so the
     * source does not compile. */
    source.parameter_count = 0;
    code.code = "extern \"C\" __global__ void swap(const pair *a) {}\n";
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_COMPILE);
}

static void
test_a_missing_nvrtc_is_unsupported(void **state)
{
    (void)state;
    const ferry_kernel_source source = ADD;
    bool had = have_nvrtc();
    const char *asked = getenv("FERRY_NVRTC_LIBRARY");
    char *before = asked ? strdup(asked) : NULL;
    setenv("FERRY_NVRTC_LIBRARY", "/dev/null/absent/libnvrtc.so", 1);
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_UNSUPPORTED);
    assert_says("/dev/null/absent/libnvrtc.so");
    /* FERRY_NVRTC_LIBRARY names a library that is not NVRTC, so compiling must fail. */
    setenv("FERRY_NVRTC_LIBRARY", "libm.so.6", 1);
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_UNSUPPORTED);
    if (before)
        setenv("FERRY_NVRTC_LIBRARY", before, 1);
    else
        unsetenv("FERRY_NVRTC_LIBRARY");
    free(before);
    assert_int_equal(ferry_kernel_check(&source, NULL), had ? FERRY_OK : FERRY_ERROR_UNSUPPORTED);
}

static void
test_malformed_descriptions_are_refused(void **state)
{
    (void)state;
    ferry_kernel_source source = {CUDA_SOURCE(add_source)};
    assert_int_equal(ferry_kernel_check(NULL, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    source.name = "";
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    source.name = "add\n";
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    assert_says("control character");
    source.name = "add";
    source.parameter_count = 1;
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    ferry_parameter parameter = {.element = NULL, .access = FERRY_READ};
    source.parameters = &parameter;
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    assert_says("parameter 0");
    parameter = (ferry_parameter){.element = ferry_size_element(), .access = (ferry_access)9};
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    ferry_element malformed = {
        .name = "odd", .bytes = 3, .align = 2, .kind = FERRY_KIND_INT, .bits = 24};
    parameter = (ferry_parameter){.element = &malformed, .access = FERRY_READ};
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    source.parameter_count = 0;
    source.code_count = 0;
    assert_int_equal(ferry_kernel_check(&source, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    assert_says("check kernel \"add\": it has no CUDA source");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_source_compiles),
        cmocka_unit_test(test_the_target_reaches_the_compiler),
        cmocka_unit_test(test_bad_source_shows_the_compilers_words),
        cmocka_unit_test(test_bad_options_are_named),
        cmocka_unit_test(test_the_entry_point_is_compared),
        cmocka_unit_test(test_unknown_code_is_accepted),
        cmocka_unit_test(test_long_logs_go_whole_to_the_log),
        cmocka_unit_test(test_which_image_comes_out),
        cmocka_unit_test(test_struct_declarations_come_first_and_once),
        cmocka_unit_test(test_a_missing_nvrtc_is_unsupported),
        cmocka_unit_test(test_malformed_descriptions_are_refused),
    };
    return cmocka_run_group_tests_name("kernel_source", tests, NULL, NULL);
}
