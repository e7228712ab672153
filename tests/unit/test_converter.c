/* SPDX-License-Identifier: MIT */
/* Tests how a CUDA device finds, compiles or loads the kernels that convert elements, and what its
 * converter does if there are no such kernels. The device runs on fakecuda, which imitates the
 * driver. */
#include "tests/unit/cuda_fixture.h"

#include <ferry/bool.h>
#include <ferry/byte.h>
#include <ferry/double.h>
#include <ferry/float.h>
#include <ferry/half.h>
#include <ferry/int.h>

#include "src/convert/converter.h"
#include "tests/support/convert_kernels.h"

enum { NO_BINARY = 209, LAUNCH_OUT_OF_MEMORY = 2 };

static int compiled, messages;
static char last_message[512];

static void
note(ferry_log_level level, const char *text, void *user)
{
    (void)user;
    assert_int_equal(level, FERRY_LOG_INFO);
    snprintf(last_message, sizeof(last_message), "%s", text);
    messages++;
}

static const struct ferryi_log notes = {note, NULL};
static struct ferryi_device_ops ops; /* of the device, with another compiler */

/* Replaces the compiler. Loads an image with the three entry points whose names begin with that of
 * the job. */
static ferry_status
build(ferryi_device *device, const struct ferryi_code_job *job, void **out_module)
{
    char image[512];
    assert_int_equal(job->code->kind, FERRY_CODE_CUDA);
    assert_int_equal(job->code->flags, FERRY_CODE_EXACT);
    assert_non_null(strstr(job->code->code, "#define PAIR_EXACT(from, to, working)"));
    assert_non_null(strrchr(job->code->code, '('));
    int bytes = snprintf(image, sizeof(image),
                         ".entry %s_nearest .entry %s_toward_zero .entry %s_first_unfit", job->name,
                         job->name, job->name);
    compiled++;
    return device->ops->code_load(device, image, (size_t)bytes + 1, out_module);
}

static ferry_status
build_nothing(ferryi_device *device, const struct ferryi_code_job *job, void **out_module)
{
    (void)device, (void)job, (void)out_module;
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "there is no compiler");
}

static const ferry_conversion *
double_to_int(void)
{
    static ferry_conversion conversion;
    conversion = (ferry_conversion){.from = ferry_double_element(), .to = ferry_int_element()};
    return &conversion;
}

/* Runs three conversions and a search in device memory. */
static void
use(ferryi_device *device, ferryi_converter *converter)
{
    double *source;
    int32_t *target;
    uint64_t *first;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 4096, (void **)&source));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 4096, (void **)&target));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 4096, (void **)&first));
    for (int i = 0; i < 300; i++)
        source[i] = i + 0.75;
    source[200] = 1e10;
    *first = UINT64_MAX;
    OK(ferryi_converter_run(converter, double_to_int(), FERRY_CONVERT_SATURATE, target, source, 300,
                            device->default_stream));
    OK(ferryi_converter_search(converter, double_to_int(), source, 300, first,
                               device->default_stream));
    OK(ferryi_device_synchronize(device));
    assert_int_equal(target[0], 1);
    assert_int_equal(target[299], 300);
    assert_int_equal(target[200], INT32_MAX);
    assert_int_equal(*first, 200);
    OK(ferryi_converter_run(converter, double_to_int(), FERRY_CONVERT_TRUNCATE, target, source, 300,
                            device->default_stream));
    OK(ferryi_converter_run(converter, double_to_int(), FERRY_CONVERT_TRUNCATE, target, source, 0,
                            device->default_stream));
    OK(ferryi_device_synchronize(device));
    assert_int_equal(target[0], 0);
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, source));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, target));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, first));
}

static ferryi_converter *
make(ferryi_device *device, FERRYI_SLOT_TYPE(code_build) * compiler)
{
    ferryi_converter *converter;
    compiled = messages = 0;
    ops = *device->ops;
    ops.code_build = compiler;
    device->ops = &ops;
    OK(ferryi_converter_create(device, &notes, &converter));
    return converter;
}

static void
finish(ferryi_device *device, ferryi_converter *converter)
{
    ferryi_converter_destroy(&converter);
    assert_null(converter);
    ferryi_converter_destroy(&converter);
    assert_int_equal(fake->fakecuda_live().modules, 0);
    close_device(device);
}

/* Checks that the image of conversion kernels that nvcc built into the library is loaded once for
 * all pairs of types. Nothing may be compiled. */
static void
test_image_is_used(void **state)
{
    (void)state;
    if (ferryi_convert_image_bytes == 0)
        skip();
    ferryi_device *device = open_build(NEW, 0);
    ferryi_converter *converter = make(device, build);
    uint64_t loads = fake->fakecuda_calls_of("cuModuleLoadDataEx");
    assert_true(ferryi_converter_can(converter, ferry_double_element(), ferry_int_element()));
    assert_true(ferryi_converter_can(converter, ferry_byte_element(), ferry_half_element()));
    use(device, converter);
    assert_int_equal(fake->fakecuda_calls_of("cuModuleLoadDataEx"), loads + 1);
    assert_int_equal(compiled + messages, 0);
    /* The types are equal, or the converter is NULL, so there is no code for these arguments. */
    assert_false(ferryi_converter_can(converter, ferry_int_element(), ferry_int_element()));
    assert_false(ferryi_converter_can(NULL, ferry_double_element(), ferry_int_element()));
    finish(device, converter);
}

/* If the device cannot run the library's image, the conversion of each pair of types must be
 * compiled at its first use. */
static void
test_pairs_are_compiled(void **state)
{
    (void)state;
    ferryi_device *device = open_build(NEW, 0);
    ferryi_converter *converter = make(device, build);
    if (ferryi_convert_image_bytes)
        fake->fakecuda_fail_next("cuModuleLoadDataEx", NO_BINARY, 1);
    assert_true(ferryi_converter_can(converter, ferry_double_element(), ferry_int_element()));
    use(device, converter);
    assert_int_equal(compiled, 1);
    assert_true(ferryi_converter_can(converter, ferry_float_element(), ferry_bool_element()));
    assert_true(ferryi_converter_can(converter, ferry_float_element(), ferry_bool_element()));
    assert_int_equal(compiled, 2);
    assert_int_equal(fake->fakecuda_live().modules, 2);
    finish(device, converter);
}

/* Checks that the first use of conversion kernels, which loads them, does not invalidate a capture
 * on a different stream. */
static void
test_captures_go_on(void **state)
{
    (void)state;
    fake->fakecuda_set_strict("load");
    ferryi_device *device = open_build(NEW, 0);
    ferryi_converter *converter = make(device, build);
    void *captured, *stream, *source, *target;
    int nodes = 0;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 4096, &source));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 4096, &target));
    memset(source, 0, 4096);
    OK(device->ops->stream_create(device, &captured));
    OK(device->ops->stream_create(device, &stream));
    assert_int_equal(fake->fakecuda_begin_capture(captured, FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL),
                     0);
    OK(ferryi_converter_run(converter, double_to_int(), FERRY_CONVERT_SATURATE, target, source, 100,
                            stream));
    OK(device->ops->stream_synchronize(device, stream));
    assert_int_equal(fake->fakecuda_end_capture(captured, &nodes), 0);
    assert_int_equal(nodes, 0);
    OK(device->ops->stream_destroy(device, captured));
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, source));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, target));
    finish(device, converter);
    fake->fakecuda_set_strict("");
}

/* Checks that a device without an image and without a compiler cannot convert. The reason must be
 * logged once for each pair of types. */
static void
test_without_code(void **state)
{
    (void)state;
    ferryi_device *device = open_build(NEW, 0);
    ferryi_converter *converter = make(device, build_nothing);
    if (ferryi_convert_image_bytes)
        fake->fakecuda_fail_next("cuModuleLoadDataEx", NO_BINARY, 1);
    assert_false(ferryi_converter_can(converter, ferry_double_element(), ferry_int_element()));
    assert_non_null(strstr(last_message, "ferryi_double_to_int is run by the host"));
    assert_non_null(strstr(last_message, "there is no compiler"));
    int reported = messages;
    assert_false(ferryi_converter_can(converter, ferry_double_element(), ferry_int_element()));
    assert_int_equal(messages, reported);
    assert_int_equal(ferryi_converter_run(converter, double_to_int(), FERRY_CONVERT_SATURATE, NULL,
                                          NULL, 1, NULL),
                     FERRY_ERROR_UNSUPPORTED);
    assert_says("without code");
    assert_int_equal(ferryi_converter_search(converter, double_to_int(), NULL, 1, NULL, NULL),
                     FERRY_ERROR_UNSUPPORTED);
    assert_says("without code");
    finish(device, converter);
}

/* Checks that an image without the requested entry point counts as missing code. A load that failed
 * for lack of memory must be retried at the next use. */
static void
test_failures(void **state)
{
    (void)state;
    ferryi_device *device = open_build(NEW, 0);
    ferryi_converter *converter = make(device, build);
    fake->fakecuda_fail_next("cuModuleLoadDataEx", LAUNCH_OUT_OF_MEMORY, 1);
    assert_false(ferryi_converter_can(converter, ferry_double_element(), ferry_int_element()));
    assert_true(ferryi_converter_can(converter, ferry_double_element(), ferry_int_element()));
    fake->fakecuda_fail_next("cuModuleGetFunction", 500, 2);
    assert_false(ferryi_converter_can(converter, ferry_double_element(), ferry_byte_element()));
    assert_false(ferryi_converter_can(converter, ferry_double_element(), ferry_byte_element()));
    use(device, converter);
    finish(device, converter);
}

static int
start(void **state)
{
    convert_kernels_register();
    return load_builds(state);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_image_is_used),  CUDA_TEST(test_pairs_are_compiled),
        CUDA_TEST(test_captures_go_on), CUDA_TEST(test_without_code),
        CUDA_TEST(test_failures),
    };
    name_fakecuda();
    return cmocka_run_group_tests(tests, start, NULL);
}
