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
static unsigned last_refused;

/* Replaces the compiler. Returns an image with the three entry points whose names begin with
 * `name`. */
static ferry_status
compile(const char *name, const char *text, const struct ferryi_device_properties *properties,
        unsigned refused, const struct ferryi_log *log, void **out_image, size_t *out_bytes)
{
    (void)log;
    assert_true(properties->architecture > 0 && properties->driver_version > 0);
    last_refused = refused;
    assert_non_null(strstr(text, "#define PAIR_EXACT(from, to, working)"));
    assert_non_null(strrchr(text, '('));
    char *image = malloc(512);
    assert_non_null(image);
    *out_bytes =
        1 + (size_t)snprintf(image, 512,
                             ".entry %s_nearest .entry %s_toward_zero .entry %s_first_unfit", name,
                             name, name);
    *out_image = image;
    compiled++;
    return FERRY_OK;
}

static ferry_status
compile_nothing(const char *name, const char *text,
                const struct ferryi_device_properties *properties, unsigned refused,
                const struct ferryi_log *log, void **out_image, size_t *out_bytes)
{
    (void)name, (void)text, (void)properties, (void)refused, (void)log, (void)out_image;
    (void)out_bytes;
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
make(ferryi_device *device, ferryi_convert_compiler *compiler)
{
    ferryi_converter *converter;
    compiled = messages = 0;
    OK(ferryi_converter_create(device, &notes, compiler, &converter));
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
    ferryi_converter *converter = make(device, compile);
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
    ferryi_converter *converter = make(device, compile);
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

/* Lets the driver refuse the code of the first compiler as too new. Checks that the second compiler
 * is called once. */
static void
test_another_compiler_is_asked(void **state)
{
    (void)state;
    ferryi_device *device = open_build(NEW, 0);
    ferryi_converter *converter = make(device, compile);
    int before = ferryi_convert_image_bytes ? 1 : 0;
    if (before) {
        fake->fakecuda_fail_next("cuModuleLoadDataEx", NO_BINARY, 1);
        assert_true(ferryi_converter_can(converter, ferry_float_element(), ferry_bool_element()));
        before = compiled;
    }
    fake->fakecuda_fail_next("cuModuleLoadDataEx", FERRYI_CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 1);
    assert_true(ferryi_converter_can(converter, ferry_double_element(), ferry_int_element()));
    assert_int_equal(compiled, before + 2);
    assert_int_equal(last_refused, 1);
    use(device, converter);
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
    ferryi_converter *converter = make(device, compile);
    void *captured, *stream, *source, *target;
    int nodes = 0;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 4096, &source));
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 4096, &target));
    memset(source, 0, 4096);
    OK(device->ops->stream_create(device, &captured));
    OK(device->ops->stream_create(device, &stream));
    assert_int_equal(fake->fakecuda_begin_capture(captured, FERRYI_CU_STREAM_CAPTURE_MODE_GLOBAL),
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
    ferryi_convert_compiler *compilers[] = {NULL, compile_nothing};
    static const char *const reasons[] = {"no compiler", "there is no compiler"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        ferryi_device *device = open_build(NEW, 0);
        ferryi_converter *converter = make(device, compilers[i]);
        if (ferryi_convert_image_bytes)
            fake->fakecuda_fail_next("cuModuleLoadDataEx", NO_BINARY, 1);
        assert_false(ferryi_converter_can(converter, ferry_double_element(), ferry_int_element()));
        assert_non_null(strstr(last_message, "ferryi_double_to_int is run by the host"));
        assert_non_null(strstr(last_message, reasons[i]));
        int reported = messages;
        assert_false(ferryi_converter_can(converter, ferry_double_element(), ferry_int_element()));
        assert_int_equal(messages, reported);
        assert_int_equal(ferryi_converter_run(converter, double_to_int(), FERRY_CONVERT_SATURATE,
                                              NULL, NULL, 1, NULL),
                         FERRY_ERROR_UNSUPPORTED);
        assert_says("without code");
        assert_int_equal(ferryi_converter_search(converter, double_to_int(), NULL, 1, NULL, NULL),
                         FERRY_ERROR_UNSUPPORTED);
        assert_says("without code");
        finish(device, converter);
    }
}

/* Checks that an image without the requested entry point counts as missing code. A load that failed
 * for lack of memory must be retried at the next use. */
static void
test_failures(void **state)
{
    (void)state;
    ferryi_device *device = open_build(NEW, 0);
    ferryi_converter *converter = make(device, compile);
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
        CUDA_TEST(test_image_is_used),
        CUDA_TEST(test_pairs_are_compiled),
        CUDA_TEST(test_another_compiler_is_asked),
        CUDA_TEST(test_captures_go_on),
        CUDA_TEST(test_without_code),
        CUDA_TEST(test_failures),
    };
    name_fakecuda();
    return cmocka_run_group_tests(tests, start, NULL);
}
