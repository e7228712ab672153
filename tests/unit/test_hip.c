/* SPDX-License-Identifier: MIT */
/* Tests the differences of HIP from CUDA (src/device/hip) on devices of fakehip.
 *
 * Usage: test_hip [LIBRARY [kernels|long]]. The library is a build of fakehip; the default imitates
 * ROCm 6.3. With "kernels", tests that the library's kernels are launched, over a fake compiler.
 * With "long", hiprtc compiles every conversion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <ferry/buffer.h>
#include <ferry/ferry.h>
#include <ferry/float.h>
#include <ferry/int.h>
#include <ferry/int8.h>

#include "src/convert/converter.h"
#include "src/device/gpu/gpu_device.h"
#include "src/device/hip/hip.h"
#include "src/device/hip/hip_abi.h"
#include "src/stream/stream.h"
#include "src/transfer/scatter_hip.h"
#include "tests/support/convert_kernels.h"
#include "tests/support/convert_values.h"
#include "tests/support/fakecuda.h"
#include "tests/support/folder.h"
#include "tests/support/status.h"

/* Numbers of the fake's attributes are those of the CUDA driver. */
enum { FAKE_MANAGED_MEMORY = 83, FAKE_COOPERATIVE_LAUNCH = 95 };

static struct fakecuda fake;
static struct ferryi_gpu_driver driver;
static const struct ferryi_device_config config;
static bool is_release_5;

static ferryi_device *
open_hip(int ordinal)
{
    ferryi_device *device = NULL;
    OK(ferryi_gpu_open_on(&driver, ordinal, &config, &device));
    return device;
}

static void
close_hip(ferryi_device *device)
{
    device->ops->close(device);
}

static void
test_libraries_that_are_not_hip(void **state)
{
    struct ferryi_gpu_driver other;
    (void)state;
    assert_int_equal(ferryi_gpu_driver_load(&ferryi_hip_vendor, "/nowhere/libamdhip64.so", &other),
                     FERRY_ERROR_NO_DEVICE);
    assert_says("load the HIP driver: ");
    assert_int_equal(ferryi_gpu_driver_load(&ferryi_hip_vendor,
                                            FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda_missing.so",
                                            &other),
                     FERRY_ERROR_NO_DEVICE);
    assert_says("it has no hipInit: too old, or another library");
}

static void
test_properties(void **state)
{
    ferryi_device *device = open_hip(1);
    (void)state;
    assert_string_equal(device->kind, "hip");
    assert_int_equal(device->properties.language, FERRY_LANGUAGE_HIP);
    /* The name of the architecture has another place in each release's struct. */
    assert_string_equal(device->properties.target, "gfx90a:sramecc+:xnack-");
    assert_int_equal(device->properties.architecture, 0);
    assert_int_equal(device->properties.driver_version, is_release_5 ? 5020 : 6030);
    assert_false(device->capabilities & FERRY_CAN_BATCH);
    close_hip(device);

    setenv("FAKEHIP_TARGET", "Vega 20", 1);
    assert_int_equal(ferryi_gpu_open_on(&driver, 0, &config, &device), FERRY_ERROR_UNSUPPORTED);
    assert_says("no name of an architecture");
    unsetenv("FAKEHIP_TARGET");
}

/* The handle of the legacy stream is NULL, because not every release has another one. */
static void
test_default_streams(void **state)
{
    ferryi_device *device = open_hip(0);
    void *memory;
    (void)state;
    assert_null(device->default_stream);
    assert_ptr_equal(device->per_thread_stream, (void *)2);
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory));
    OK(device->ops->fill(device, memory, 1, 4, 16, device->default_stream));
    OK(device->ops->fill(device, memory, 1, 4, 16, device->per_thread_stream));
    OK(device->ops->synchronize(device));
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
    close_hip(device);
}

/* Messages have HIP's names of functions and errors. */
static void
test_errors_have_names_of_hip(void **state)
{
    ferryi_device *device = open_hip(0);
    void *memory = NULL;
    (void)state;
    fake.fakecuda_fail_next("hipMalloc", FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
    assert_int_equal(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, 64, &memory),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_says("allocate 64 bytes of device memory on hip:0: hipMalloc: hipErrorOutOfMemory");
    close_hip(device);
}

/* Attributes have other numbers, and one without a number counts as absent. */
static void
test_attributes(void **state)
{
    (void)state;
    fake.fakecuda_set_attribute(FAKE_MANAGED_MEMORY, 0);
    ferryi_device *device = open_hip(0);
    assert_false(device->capabilities & FERRY_CAN_MANAGE);
    close_hip(device);
    fake.fakecuda_set_attribute(FAKE_MANAGED_MEMORY, 1);
    device = open_hip(0);
    assert_true(device->capabilities & FERRY_CAN_MANAGE);
    assert_true(device->capabilities & FERRY_CAN_MANAGE_CONCURRENTLY);
    assert_true(device->capabilities & FERRYI_DEVICE_TRANSLATES);
    assert_false(device->capabilities & FERRYI_DEVICE_NO_REGISTER);
    close_hip(device);
}

static unsigned
users_of(ferryi_device *device, ferry_memory_kind kind)
{
    unsigned users = 0;
    void *memory;
    OK(device->ops->memory_alloc(device, kind, 64, &memory));
    OK(device->ops->memory_users(device, memory, &users));
    OK(device->ops->memory_free(device, kind, memory));
    return users;
}

/* Types of memory had other numbers before ROCm 6. */
static void
test_types_of_memory(void **state)
{
    ferryi_device *device = open_hip(0);
    unsigned users = 0;
    (void)state;
    assert_int_equal(users_of(device, FERRY_MEMORY_DEVICE), FERRYI_USER_DEVICE);
    assert_int_equal(users_of(device, FERRY_MEMORY_PINNED), FERRYI_USER_HOST | FERRYI_USER_DEVICE);
    assert_int_equal(users_of(device, FERRY_MEMORY_MANAGED), FERRYI_USER_HOST | FERRYI_USER_DEVICE);
    OK(device->ops->memory_users(device, &users, &users));
    assert_int_equal(users, FERRYI_USER_HOST);
    close_hip(device);
}

static void
test_prefetch_and_advice(void **state)
{
    ferryi_device *device = open_hip(0);
    void *memory;
    (void)state;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_MANAGED, 4096, &memory));
    OK(device->ops->prefetch(device, memory, 4096, device, NULL));
    OK(device->ops->prefetch(device, memory, 4096, NULL, NULL));
    OK(device->ops->advise(device, memory, 4096, FERRY_ADVISE_READ_MOSTLY, device));
    assert_int_equal(fake.fakecuda_calls_of("hipMemPrefetchAsync"), 2);
    assert_int_equal(fake.fakecuda_calls_of("hipMemAdvise"), 1);
    OK(device->ops->synchronize(device));
    OK(device->ops->memory_free(device, FERRY_MEMORY_MANAGED, memory));
    close_hip(device);
}

/* Copies between devices take numbers of devices, and rows find out where their memory is. */
static void
test_copies_between_devices(void **state)
{
    enum { ROWS = 3, PITCH = 48, BYTES = ROWS * PITCH };
    ferryi_device *devices[2] = {open_hip(0), open_hip(1)};
    void *from, *to, *pinned;
    (void)state;
    OK(devices[0]->ops->memory_alloc(devices[0], FERRY_MEMORY_DEVICE, BYTES, &from));
    OK(devices[1]->ops->memory_alloc(devices[1], FERRY_MEMORY_DEVICE, BYTES, &to));
    OK(devices[0]->ops->memory_alloc(devices[0], FERRY_MEMORY_PINNED, BYTES, &pinned));
    OK(devices[0]->ops->fill(devices[0], from, 0x11, 1, BYTES, NULL));
    OK(devices[0]->ops->synchronize(devices[0]));
    OK(devices[1]->ops->fill(devices[1], to, 0, 1, BYTES, NULL));
    uint64_t peers = fake.fakecuda_calls_of("hipMemcpyPeerAsync");
    OK(devices[1]->ops->copy(devices[1],
                             &(struct ferryi_copy){.target = to,
                                                   .source = from,
                                                   .bytes = 16,
                                                   .direction = FERRY_DIRECTION_PEER,
                                                   .source_device = devices[0]},
                             NULL));
    assert_true(fake.fakecuda_calls_of("hipMemcpyPeerAsync") > peers);
    const struct ferryi_copy_2d rows = {.target = (char *)to + 16,
                                        .source = (char *)from + 16,
                                        .target_pitch = PITCH,
                                        .source_pitch = PITCH,
                                        .row_bytes = 8,
                                        .rows = ROWS - 1,
                                        .direction = FERRY_DIRECTION_PEER,
                                        .source_device = devices[0]};
    OK(devices[1]->ops->copy_2d(devices[1], &rows, NULL));
    const struct ferryi_copy_2d down = {.target = pinned,
                                        .source = to,
                                        .target_pitch = PITCH,
                                        .source_pitch = PITCH,
                                        .row_bytes = PITCH,
                                        .rows = ROWS,
                                        .direction = FERRY_DIRECTION_DOWNLOAD};
    OK(devices[1]->ops->copy_2d(devices[1], &down, NULL));
    OK(devices[1]->ops->synchronize(devices[1]));
    const unsigned char *bytes = pinned;
    for (int i = 0; i < BYTES; i++) {
        const bool copied = i < 24 || (i >= PITCH + 16 && i < PITCH + 24);
        assert_int_equal(bytes[i], copied ? 0x11 : 0);
    }
    OK(devices[0]->ops->memory_free(devices[0], FERRY_MEMORY_PINNED, pinned));
    OK(devices[1]->ops->memory_free(devices[1], FERRY_MEMORY_DEVICE, to));
    OK(devices[0]->ops->memory_free(devices[0], FERRY_MEMORY_DEVICE, from));
    close_hip(devices[1]);
    close_hip(devices[0]);
}

static void
count_call(void *user)
{
    ++*(int *)user;
}

/* Libraries without hipLaunchHostFunc() queue a callback. */
static void
test_host_functions(void **state)
{
    ferryi_device *device = open_hip(0);
    void *stream;
    int calls = 0;
    (void)state;
    OK(device->ops->stream_create(device, &stream));
    for (int i = 0; i < 10; i++)
        OK(device->ops->host_call(device, stream, count_call, &calls));
    OK(device->ops->stream_synchronize(device, stream));
    assert_int_equal(calls, 10);
    fake.fakecuda_fail_next("hipLaunchHostFunc", FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
    assert_int_equal(device->ops->host_call(device, stream, count_call, &calls),
                     FERRY_ERROR_OUT_OF_MEMORY);
    OK(device->ops->stream_destroy(device, stream));
    close_hip(device);
}

/* -- code -- */

static const char object[] = "\177ELF .visible .entry nothing() { ret; }",
                  bundle[] = "__CLANG_OFFLOAD_BUNDLE__ .visible .entry nothing() { ret; }",
                  text[] = ".visible .entry nothing() { ret; }";

static void
run_nothing(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
}

static void
test_forms_of_images(void **state)
{
    ferryi_device *device = open_hip(0);
    void *module = NULL;
    (void)state;
    OK(device->ops->code_load(device, object, sizeof(object), &module));
    OK(device->ops->code_unload(device, module));
    OK(device->ops->code_load(device, bundle, sizeof(bundle), &module));
    OK(device->ops->code_unload(device, module));
    assert_int_equal(device->ops->code_load(device, text, sizeof(text), &module),
                     FERRY_ERROR_DEVICE);
    assert_says("not a code object or a bundle of code objects");
    close_hip(device);
}

/* All shared memory may be used without an opt-in. A dimension has less than 2^32 threads. */
static void
test_limits_of_a_launch(void **state)
{
    ferryi_device *device = open_hip(0);
    void *module, *function, *stream;
    ferry_grid grid = {.blocks = {1, 1, 1}, .threads = {256, 1, 1}, .shared_bytes = 64 << 10};
    struct ferryi_launch launch = {.grid = &grid};
    (void)state;
    fake.fakecuda_register_kernel("nothing", run_nothing, 0, NULL);
    OK(device->ops->code_load(device, object, sizeof(object), &module));
    OK(device->ops->code_function(device, module, "nothing", &function));
    OK(device->ops->stream_create(device, &stream));
    launch.function = function;
    OK(device->ops->launch(device, &launch, stream));
    grid.shared_bytes = (64 << 10) + 1;
    assert_int_equal(device->ops->launch(device, &launch, stream), FERRY_ERROR_UNSUPPORTED);
    assert_says("allow 65537 bytes of shared memory on hip:0: no device has that much");
    grid.shared_bytes = 0;
    grid.blocks[0] = 1u << 24;
    assert_int_equal(device->ops->launch(device, &launch, stream), FERRY_ERROR_UNSUPPORTED);
    assert_says("dimension 0 has more than 4294967295 threads");
    grid.blocks[0] -= 1;
    OK(device->ops->launch(device, &launch, stream));
    OK(device->ops->stream_synchronize(device, stream));
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->code_unload(device, module));
    close_hip(device);
}

/* ROCm 6 has a function for cooperative launches, and no release has one for the other attributes.
 */
static void
test_cooperative_launches(void **state)
{
    const uint64_t all = FERRY_CAN_COOPERATE | FERRY_CAN_CLUSTER | FERRY_CAN_OVERLAP;
    const uint64_t wanted = is_release_5 ? 0 : FERRY_CAN_COOPERATE;
    ferryi_device *device = open_hip(0);
    void *module, *function, *stream;
    ferry_grid grid = {
        .blocks = {2, 1, 1}, .threads = {256, 1, 1}, .flags = FERRY_LAUNCH_COOPERATIVE};
    struct ferryi_launch launch = {.grid = &grid};
    (void)state;
    assert_int_equal(device->capabilities & all, wanted);
    fake.fakecuda_set_attribute(FAKE_COOPERATIVE_LAUNCH, 0);
    ferryi_device *without = open_hip(1);
    assert_int_equal(without->capabilities & all, 0);
    close_hip(without);
    fake.fakecuda_set_attribute(FAKE_COOPERATIVE_LAUNCH, 1);
    if (is_release_5) {
        close_hip(device);
        return;
    }
    fake.fakecuda_register_kernel("nothing", run_nothing, 0, NULL);
    OK(device->ops->code_load(device, object, sizeof(object), &module));
    OK(device->ops->code_function(device, module, "nothing", &function));
    OK(device->ops->stream_create(device, &stream));
    launch.function = function;
    const uint64_t plain = fake.fakecuda_calls_of("hipModuleLaunchKernel");
    OK(device->ops->launch(device, &launch, stream));
    assert_true(fake.fakecuda_last_attributes().cooperative);
    assert_int_equal(fake.fakecuda_calls_of("hipModuleLaunchCooperativeKernel"), 1);
    assert_int_equal(fake.fakecuda_calls_of("hipModuleLaunchKernel"), plain);
    grid.blocks[0] = 10000;
    assert_int_equal(device->ops->launch(device, &launch, stream), FERRY_ERROR_UNSUPPORTED);
    assert_says("launch 10000x1x1 blocks of 256x1x1 threads on hip:0: "
                "hipModuleLaunchCooperativeKernel: hipErrorCooperativeLaunchTooLarge");
    grid.blocks[0] = 1u << 24;
    assert_int_equal(device->ops->launch(device, &launch, stream), FERRY_ERROR_UNSUPPORTED);
    assert_says("dimension 0 has more than 4294967295 threads");
    assert_int_equal(fake.fakecuda_calls_of("hipModuleLaunchCooperativeKernel"), 2);
    struct ferryi_gpu_launch_attribute overlap = {
        .id = FERRYI_GPU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.on = 1};
    const struct ferryi_gpu_launch_config config_of_overlap = {.attributes = &overlap,
                                                               .attribute_count = 1};
    assert_int_equal(driver.launch_with(&config_of_overlap, NULL, NULL, NULL),
                     FERRYI_GPU_ERROR_NOT_SUPPORTED);
    OK(device->ops->stream_synchronize(device, stream));
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->code_unload(device, module));
    close_hip(device);
}

/* -- hiprtc, where it is installed -- */

#define SCALE "extern \"C\" __global__ void scale(float *x, float by) { x[threadIdx.x] *= BY; }\n"

static ferry_kernel_source
source_of(const ferry_kernel_code *code)
{
    return (ferry_kernel_source){.name = "scale", .codes = code, .code_count = 1};
}

static void
need_compiler(void)
{
    static const ferry_kernel_code code = {.kind = FERRY_CODE_HIP,
                                           .code = "extern \"C\" __global__ void scale() {}\n"};
    const ferry_kernel_source source = source_of(&code);
    ferry_status status = ferry_kernel_check(&source, "gfx90a");
    if (status == FERRY_ERROR_UNSUPPORTED && strstr(ferry_last_error(), "load hiprtc"))
        skip();
    OK(status);
}

static void
test_checks_of_texts(void **state)
{
    const char *const options[] = {"--define-macro=BY=by", "--use_fast_math"};
    ferry_kernel_code code = {
        .kind = FERRY_CODE_CUDA, .code = SCALE, .options = options, .option_count = 2};
    ferry_kernel_source source = source_of(&code);
    (void)state;
    need_compiler();
    /* Options of CUDA source are translated or left out. */
    OK(ferry_kernel_check(&source, "gfx90a:sramecc+:xnack-"));
    source.name = "other";
    assert_int_equal(ferry_kernel_check(&source, "gfx90a"), FERRY_ERROR_INVALID_ARGUMENT);
    assert_says("the code has no entry point of this name");
    source.name = "scale";
    code.kind = FERRY_CODE_HIP;
    assert_int_equal(ferry_kernel_check(&source, "gfx90a"), FERRY_ERROR_COMPILE);
    assert_says("hiprtcCompileProgram");
    code.option_count = 0;
    assert_int_equal(ferry_kernel_check(&source, "gfx90a"), FERRY_ERROR_COMPILE);
    assert_says("BY");
    /* Some compilers end the process for such a target. */
    assert_int_not_equal(ferry_kernel_check(&source, "gfx9999"), FERRY_OK);
}

static void
test_texts_are_compiled_for_a_device(void **state)
{
    const char *const options[] = {"-DBY=by"};
    const ferry_kernel_code code = {.kind = FERRY_CODE_CUDA,
                                    .flags = FERRY_CODE_EXACT,
                                    .code = SCALE,
                                    .options = options,
                                    .option_count = 1};
    const struct ferryi_code_job job = {.name = "scale", .code = &code};
    void *module = NULL;
    (void)state;
    need_compiler();
    char folder[FOLDER_PATH_BYTES];
    folder_make(folder);
    setenv("FERRY_CACHE_DIR", folder, 1);
    fake.fakecuda_take_binaries();
    ferryi_device *device = open_hip(0);
    for (int i = 0; i < 2; i++) {
        OK(device->ops->code_build(device, &job, &module));
        OK(device->ops->code_unload(device, module));
    }
    assert_int_equal(folder_count(folder), 1);
    close_hip(device);
    folder_remove(folder);
}

/* -- texts of the library ---------------------------------------------------------------------- */

/* Compiles a text of the library for MI200. */
static void
check_text(const char *name, ferry_code_kind kind, const char *lines)
{
    const ferry_kernel_code code = {.kind = kind, .flags = FERRY_CODE_EXACT, .code = lines};
    ferry_kernel_source source = source_of(&code);
    source.name = name;
    OK(ferry_kernel_check(&source, "gfx90a"));
}

/* Compiles the conversions from the types whose numbers are below `count` to all types. */
static void
check_conversions(size_t count)
{
    char *lines = malloc(ferryi_convert_text_bytes + 64 * count * ferryi_number_count);
    assert_non_null(lines);
    memcpy(lines, ferryi_convert_text, ferryi_convert_text_bytes + 1);
    char *end = lines + ferryi_convert_text_bytes;
    for (size_t from = 0; from < count; from++)
        for (size_t to = 0; to < ferryi_number_count; to++) {
            const char *line =
                ferryi_convert_line(convert_numbers[from].element(), convert_numbers[to].element());
            end = stpcpy(end, line ? line : "");
        }
    check_text("ferryi_float_to_int8_first_unfit", FERRY_CODE_CUDA, lines);
    free(lines);
}

static void
test_texts_of_the_library_compile(void **state)
{
    (void)state;
    need_compiler();
    check_text("ferry_scatter", FERRY_CODE_HIP, ferryi_scatter_hip);
    check_conversions(1);
}

static void
test_all_conversions_compile(void **state)
{
    (void)state;
    need_compiler();
    check_conversions(ferryi_number_count);
}

/* -- the kernels of the library, from texts that fakehiprtc compiles --------------------------- */

struct scatter_entry {
    char *target;
    const char *source;
    uint64_t bytes;
};

/* Runs on the host in place of the library's scatter kernel, and makes the same copies. */
static void
scatter(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    const struct scatter_entry *entries = *(const struct scatter_entry **)parameters[0];
    (void)block;
    for (unsigned i = 0; i < grid[0]; i++)
        memcpy(entries[i].target, entries[i].source, entries[i].bytes);
}

static ferry_context *
open_context(void)
{
    const ferry_context_options options = {.devices = "hip"};
    ferry_context *context;
    setenv("FERRY_HIPRTC_LIBRARY", FERRY_TEST_FAKECUDA_FOLDER "/libfakehiprtc.so", 1);
    convert_kernels_register();
    fake.fakecuda_register_kernel("ferry_scatter", scatter, 1, (const size_t[]){sizeof(void *)});
    OK(ferry_context_create(&options, &context));
    return context;
}

static uint64_t
launches(void)
{
    return fake.fakecuda_calls_of("hipModuleLaunchKernel");
}

/* A conversion with a check launches a search and the conversion, and no host function. */
static void
test_conversions_run_as_device_code(void **state)
{
    enum { COUNT = 1000 };
    ferry_context *context = open_context();
    ferry_float_buffer x = {0};
    ferry_int8_buffer y = {0};
    int8_t out[COUNT];
    (void)state;
    OK(ferry_float_create(context, COUNT, NULL, &x));
    OK(ferry_int8_create(context, COUNT, NULL, &y));
    const ferry_copy_options on_device = {.stream = ferry_context_stream(context, 1)},
                             checked = {.stream = on_device.stream, .convert = FERRY_CONVERT_CHECK};
    const ferry_copy_region region = {
        .target = {.buffer = y.raw}, .source = {.buffer = x.raw}, .count = COUNT};
    OK(ferry_float_fill(x, 0, FERRY_REST, 25.0f, &on_device));
    const uint64_t before = launches(), calls = fake.fakecuda_calls_of("hipLaunchHostFunc");
    OK(ferry_copy(&region, 1, &checked));
    assert_int_equal(launches() - before, 2);
    assert_int_equal(fake.fakecuda_calls_of("hipLaunchHostFunc"), calls);
    OK(ferry_int8_copy_to(y, 0, COUNT, out, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(out[i], 25);
    OK(ferry_float_fill(x, 700, 1, 1000.0f, &on_device));
    assert_int_equal(ferry_copy(&region, 1, &checked), FERRY_ERROR_OUT_OF_RANGE);
    assert_says("700");
    ferry_int8_destroy(&y);
    ferry_float_destroy(&x);
    ferry_context_destroy(&context);
}

/* Small ranges at odd distances are one launch. */
static void
test_batches_run_as_device_code(void **state)
{
    enum { COUNT = 1000, RANGES = 20 };
    ferry_context *context = open_context();
    ferry_float_buffer x = {0};
    static float in[COUNT], out[COUNT];
    ferry_copy_region regions[RANGES] = {0};
    const ferry_copy_options on_device = {.stream = ferry_context_stream(context, 1)};
    (void)state;
    OK(ferry_float_create(context, COUNT, NULL, &x));
    OK(ferry_float_fill(x, 0, FERRY_REST, 0, NULL));
    OK(ferry_float_sync_to(x, 1, NULL));
    for (size_t i = 0; i < COUNT; i++)
        in[i] = (float)i;
    for (size_t i = 0; i < RANGES; i++)
        regions[i] = (ferry_copy_region){.target = {.buffer = x.raw, .offset = i * i},
                                         .source = {.memory = in + i * i},
                                         .count = 1 + i % 3};
    const uint64_t before = launches(), copies = fake.fakecuda_calls_of("hipMemcpyHtoDAsync");
    OK(ferry_copy(regions, RANGES, &on_device));
    assert_int_equal(launches() - before, 1);
    assert_int_equal(fake.fakecuda_calls_of("hipMemcpyHtoDAsync"), copies);
    OK(ferry_float_copy_to(x, 0, COUNT, out, NULL));
    for (size_t i = 0; i < RANGES; i++)
        assert_memory_equal(out + i * i, in + i * i, (1 + i % 3) * sizeof(float));
    ferry_float_destroy(&x);
    ferry_context_destroy(&context);
}

enum { FILLS = 1 << 16 };

/* Queues a fill of the whole buffer on `queue`, under a scope on `stream`. */
static void
fill_under(ferry_stream *stream, void *queue, ferry_buffer *buffer, uint32_t value)
{
    ferryi_device *device = ferryi_stream_timeline(stream)->device;
    ferry_scope scope;
    void *memory;
    OK(ferry_buffer_open_device(buffer, ferry_int_element(), FERRY_OVERWRITE, 0, FERRY_REST, stream,
                                &scope, &memory));
    OK(device->ops->fill(device, memory, value, 4, FILLS, queue));
    OK(ferry_scope_close(&scope));
}

static void
expect_filled(ferry_buffer *buffer, int value)
{
    static int out[FILLS];
    OK(ferry_buffer_copy_to(buffer, ferry_int_element(), 0, FILLS, out, NULL));
    assert_int_equal(out[0], value);
    assert_int_equal(out[FILLS - 1], value);
}

/* The program's work on HIP's NULL stream is ordered with uses on the context's default stream, and
 * on the stream that wraps NULL. The lazy mode runs only the work that a call waits for, so a
 * missing order shows each time. */
static void
test_the_null_stream_is_ordered(void **state)
{
    const ferry_context_options options = {.devices = "hip"};
    ferry_context *context;
    ferry_buffer *buffer;
    ferry_stream *other, *wrapped, *again, *legacy;
    (void)state;
    ferryi_gpu_release_kept(&ferryi_hip_vendor);
    assert_true(fake.fakecuda_set_mode("lazy"));
    OK(ferry_context_create(&options, &context));
    uint64_t created = fake.fakecuda_calls_of("hipStreamCreateWithFlags");
    OK(ferry_stream_wrap(context, 1, NULL, &wrapped));
    OK(ferry_stream_wrap(context, 1, NULL, &again));
    OK(ferry_stream_wrap(context, 1, FERRY_STREAM_LEGACY, &legacy));
    assert_ptr_equal(wrapped, again);
    assert_ptr_equal(wrapped, legacy);
    assert_ptr_equal(wrapped, ferry_context_stream(context, 1));
    assert_null(ferry_stream_native(wrapped));
    assert_int_equal(fake.fakecuda_calls_of("hipStreamCreateWithFlags"), created);
    OK(ferry_stream_create(context, 1, &other));
    assert_non_null(ferry_stream_native(other));
    assert_ptr_not_equal(other, wrapped);
    OK(ferry_buffer_create(context, ferry_int_element(), FILLS, NULL, &buffer));

    for (uint32_t i = 1; i <= 3; i++) {
        fill_under(wrapped, NULL, buffer, i);
        expect_filled(buffer, (int)i);
        fill_under(wrapped, NULL, buffer, 10 * i);
        fill_under(other, ferry_stream_native(other), buffer, 100 * i);
        expect_filled(buffer, 100 * (int)i);
        fill_under(other, ferry_stream_native(other), buffer, 7);
        fill_under(ferry_context_stream(context, 1), NULL, buffer, 5 * i);
        expect_filled(buffer, 5 * (int)i);
        /* The default stream must wait for the upload. */
        int one = 1;
        OK(ferry_buffer_copy_from(buffer, ferry_int_element(), 0, 1, &one, NULL));
        fill_under(wrapped, NULL, buffer, i);
        expect_filled(buffer, (int)i);
    }
    ferry_buffer_destroy(&buffer);
    uint64_t destroyed = fake.fakecuda_calls_of("hipStreamDestroy");
    ferry_stream_destroy(&wrapped);
    ferry_stream_destroy(&again);
    ferry_stream_destroy(&legacy);
    assert_int_equal(fake.fakecuda_calls_of("hipStreamDestroy"), destroyed);
    ferry_stream_destroy(&other);
    assert_int_equal(fake.fakecuda_calls_of("hipStreamDestroy"), destroyed + 1);
    ferry_context_destroy(&context);
    /* Each stream that was created is destroyed, and no other. */
    assert_int_equal(fake.fakecuda_calls_of("hipStreamDestroy"),
                     fake.fakecuda_calls_of("hipStreamCreateWithFlags"));
    ferryi_gpu_release_kept(&ferryi_hip_vendor);
    assert_true(fake.fakecuda_set_mode("thread"));
}

static const char *library = FERRY_TEST_FAKECUDA_FOLDER "/libfakehip.so";

static int
start(void **state)
{
    (void)state;
    is_release_5 = strstr(library, "fakehip_5");
    setenv("FAKECUDA_DEVICES", "2", 1);
    return fakecuda_find(library, &fake) &&
                   ferryi_gpu_driver_load(&ferryi_hip_vendor, library, &driver) == FERRY_OK
               ? 0
               : -1;
}

static int
clear_faults(void **state)
{
    (void)state;
    fake.fakecuda_fail_none();
    return fake.fakecuda_context_depth() == 0 ? 0 : -1;
}

#define HIP_TEST(name) cmocka_unit_test_teardown(name, clear_faults)

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        HIP_TEST(test_libraries_that_are_not_hip),
        HIP_TEST(test_properties),
        HIP_TEST(test_default_streams),
        HIP_TEST(test_the_null_stream_is_ordered),
        HIP_TEST(test_errors_have_names_of_hip),
        HIP_TEST(test_attributes),
        HIP_TEST(test_types_of_memory),
        HIP_TEST(test_prefetch_and_advice),
        HIP_TEST(test_copies_between_devices),
        HIP_TEST(test_host_functions),
        HIP_TEST(test_forms_of_images),
        HIP_TEST(test_limits_of_a_launch),
        HIP_TEST(test_cooperative_launches),
        HIP_TEST(test_checks_of_texts),
        HIP_TEST(test_texts_are_compiled_for_a_device),
        HIP_TEST(test_texts_of_the_library_compile),
    };
    const struct CMUnitTest kernel_tests[] = {
        HIP_TEST(test_conversions_run_as_device_code),
        HIP_TEST(test_batches_run_as_device_code),
    };
    const struct CMUnitTest long_tests[] = {HIP_TEST(test_all_conversions_compile)};
    const char *part = argc > 2 ? argv[2] : "";
    if (argc > 1)
        library = argv[1];
    setenv("FERRY_HIP_LIBRARY", library, 1);
    if (strcmp(part, "kernels") == 0)
        return cmocka_run_group_tests(kernel_tests, start, NULL);
    if (strcmp(part, "long") == 0)
        return cmocka_run_group_tests(long_tests, start, NULL);
    return cmocka_run_group_tests(tests, start, NULL);
}
