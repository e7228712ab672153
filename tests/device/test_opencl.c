/* SPDX-License-Identifier: MIT */
/* What a program sees of an OpenCL device beyond what the suites of all devices check. Skipped,
 * as TAP says it, on a machine without OpenCL. The argument is the SPIR-V of twice.cl; without it
 * none is built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <ferry/double.h>
#include <ferry/ferry.h>
#include <ferry/int.h>
#include <ferry/int8.h>

#include "src/convert/converter.h"
#include "src/device/opencl/opencl_device.h"
#include "src/stream/shell.h"
#include "tests/support/copy_slots.h"
#include "tests/support/status.h"

enum { COUNT = 1000 };

static ferry_context *context;
static struct ferryi_opencl_device *opencl;

/* -- queues of the program --------------------------------------------------------------------- */

static ferryi_cl_queue
new_queue(ferryi_cl_bits properties)
{
    ferryi_cl_int result = FERRYI_CL_SUCCESS;
    ferry_place_info info;
    OK(ferry_context_get_place_info(context, 1, &info));
    assert_int_equal(info.language, FERRY_LANGUAGE_OPENCL);
    ferryi_cl_queue queue = opencl->driver->clCreateCommandQueue(
        info.native_context, opencl->device, properties, &result);
    assert_int_equal(result, FERRYI_CL_SUCCESS);
    return queue;
}

/* Writes and reads a buffer on a stream. */
static void
use_stream(ferry_stream *stream)
{
    static int in[COUNT], out[COUNT];
    ferry_int_buffer x = {0};
    const ferry_copy_options on_stream = {.stream = stream};
    for (int i = 0; i < COUNT; i++)
        in[i] = i + 1;
    OK(ferry_int_create(context, COUNT, NULL, &x));
    int32_t *pointer;
    ferry_scope scope = {0};
    OK(ferry_int_copy_from(x, 0, COUNT, in, &on_stream));
    OK(ferry_int_update_device(x, stream, &scope, &pointer));
    ferry_scope_close(&scope);
    OK(ferry_int_copy_to(x, 0, COUNT, out, &on_stream));
    assert_memory_equal(in, out, sizeof(in));
    ferry_int_destroy(&x);
}

static void
test_a_programs_queue_is_a_stream(void **state)
{
    (void)state;
    ferryi_cl_queue queue = new_queue(0);
    ferry_stream *stream, *again;
    OK(ferry_stream_wrap(context, 1, queue, &stream));
    OK(ferry_stream_wrap(context, 1, queue, &again));
    assert_ptr_equal(stream, again);
    assert_ptr_equal(ferry_stream_native(stream), queue);
    use_stream(stream);
    ferry_stream_destroy(&again);
    ferry_stream_destroy(&stream);
    opencl->driver->clReleaseCommandQueue(queue);
    /* The device drops a queue that the program has released. */
    OK(ferry_stream_create(context, 1, &stream));
    OK(ferry_stream_synchronize(stream));
    ferry_stream_destroy(&stream);
}

static void
test_a_queue_without_order_is_refused(void **state)
{
    (void)state;
    ferryi_cl_queue queue = new_queue(FERRYI_CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    ferry_stream *stream = NULL;
    assert_int_equal(ferry_stream_wrap(context, 1, queue, &stream), FERRY_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(ferry_last_error(), "out of order"));
    assert_int_equal(ferry_stream_wrap(context, 1, NULL, &stream), FERRY_ERROR_INVALID_ARGUMENT);
    opencl->driver->clReleaseCommandQueue(queue);
}

/* DLPack and Arrow have the number 4 for OpenCL. */
static void
test_its_exchange_device_is_opencl(void **state)
{
    (void)state;
    int32_t type = 0, number = -1;
    OK(ferry_context_exchange_device(context, 1, &type, &number));
    assert_int_equal(type, 4);
    assert_int_equal(number, opencl->base.properties.native);
    assert_int_equal(ferry_context_exchange_place(context, 4, number), 1);
}

/* -- code -------------------------------------------------------------------------------------- */

static const char text[] = "__kernel void twice(__global int *x, ulong count)\n"
                           "{\n"
                           "    for (ulong i = get_global_id(0); i < count; i += "
                           "get_global_size(0))\n"
                           "        x[i] *= FACTOR;\n"
                           "}\n";

static ferry_status
run_code(const ferry_kernel_code *code, int factor)
{
    const ferry_parameter parameters[] = {
        {.name = "x", .access = FERRY_UPDATE, .element = ferry_int_element()},
        {.name = "count", .element = ferry_size_element()}};
    const ferry_kernel_source source = {.name = "twice",
                                        .codes = code,
                                        .code_count = 1,
                                        .parameters = parameters,
                                        .parameter_count = 2};
    ferry_kernel *kernel = NULL;
    ferry_status status = ferry_kernel_create(context, &source, &kernel);
    if (status != FERRY_OK)
        return status;
    ferry_int_buffer x = {0};
    int out[COUNT];
    size_t count = COUNT;
    OK(ferry_int_create(context, COUNT, NULL, &x));
    OK(ferry_int_fill(x, 0, FERRY_REST, 21, NULL));
    const ferry_argument arguments[] = {ferry_int_argument(x),
                                        ferry_element_value(ferry_size_element(), &count)};
    status = ferry_kernel_launch(kernel, ferry_grid_for(COUNT, 64),
                                 ferry_context_stream(context, 1), arguments, 2);
    if (status == FERRY_OK) {
        OK(ferry_int_copy_to(x, 0, COUNT, out, NULL));
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(out[i], 21 * factor);
    }
    ferry_int_destroy(&x);
    ferry_kernel_destroy(&kernel);
    return status;
}

static void
test_a_text_takes_options(void **state)
{
    (void)state;
    const char *const options[] = {"-DFACTOR=3"};
    const ferry_kernel_code code = {.kind = FERRY_CODE_OPENCL,
                                    .flags = FERRY_CODE_EXACT,
                                    .code = text,
                                    .options = options,
                                    .option_count = 1};
    OK(run_code(&code, 3));
    const ferry_kernel_code wrong = {.kind = FERRY_CODE_OPENCL, .code = text};
    assert_int_equal(run_code(&wrong, 3), FERRY_ERROR_COMPILE);
    assert_non_null(strstr(ferry_last_error(), "FACTOR"));
}

/* Builds the text with OpenCL, and returns its binary. */
static unsigned char *
make_binary(size_t *out_bytes)
{
    enum { PROGRAM_BINARY_SIZES = 0x1165, PROGRAM_BINARIES = 0x1166 };
    ferryi_cl_int (*get_info)(ferryi_cl_program, ferryi_cl_uint, size_t, void *, size_t *);
    const struct ferryi_opencl_driver *driver = opencl->driver;
    const char *lines = text;
    ferryi_cl_int result;
    void *symbol =
        ferryi_library_symbol(ferryi_library_open("libOpenCL.so.1", NULL, 0), "clGetProgramInfo");
    assert_non_null(symbol);
    memcpy(&get_info, &symbol, sizeof(symbol));
    ferryi_cl_program program =
        driver->clCreateProgramWithSource(opencl->platform->context, 1, &lines, NULL, &result);
    assert_int_equal(driver->clBuildProgram(program, 1, &opencl->device, "-DFACTOR=5", NULL, NULL),
                     FERRYI_CL_SUCCESS);
    size_t sizes[FERRYI_OPENCL_DEVICES_MAX] = {0}, bytes = 0;
    unsigned char *binaries[FERRYI_OPENCL_DEVICES_MAX] = {NULL};
    get_info(program, PROGRAM_BINARY_SIZES, sizeof(sizes), sizes, &bytes);
    const size_t count = bytes / sizeof(size_t);
    for (size_t i = 0; i < count; i++)
        binaries[i] = sizes[i] > 0 ? malloc(sizes[i]) : NULL;
    get_info(program, PROGRAM_BINARIES, count * sizeof(binaries[0]), binaries, NULL);
    unsigned char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (binaries[i] && !found) {
            found = binaries[i];
            *out_bytes = sizes[i];
        } else {
            free(binaries[i]);
        }
    }
    driver->clReleaseProgram(program);
    return found;
}

static void
test_a_binary_is_of_one_target(void **state)
{
    (void)state;
    size_t bytes = 0;
    unsigned char *binary = make_binary(&bytes);
    assert_non_null(binary);
    ferry_kernel_code code = {.kind = FERRY_CODE_OPENCL_BINARY,
                              .code = binary,
                              .bytes = bytes,
                              .target = opencl->base.properties.target};
    OK(run_code(&code, 5));
    code.target = "another device, driver 1";
    assert_int_equal(run_code(&code, 5), FERRY_ERROR_UNSUPPORTED);
    free(binary);
}

/* The path of the SPIR-V of the kernel in twice.cl, or NULL. */
static const char *spirv_path;

static uint32_t *
read_spirv(size_t *out_bytes)
{
    enum { MOST = 1 << 20 };
    uint32_t *words = calloc(1, MOST);
    assert_non_null(words);
    if (!spirv_path) {
        words[0] = 0x07230203; /* the first word of every module */
        *out_bytes = 20;
        return words;
    }
    FILE *file = fopen(spirv_path, "rb");
    assert_non_null(file);
    *out_bytes = fread(words, 1, MOST, file);
    fclose(file);
    return words;
}

static void
test_spirv_is_built_where_the_driver_takes_it(void **state)
{
    (void)state;
    ferry_kernel_code code = {.kind = FERRY_CODE_SPIRV};
    uint32_t *words = read_spirv(&code.bytes);
    code.code = words;
    if (opencl->takes_spirv && spirv_path) {
        OK(run_code(&code, 7));
        words[0] = 0;
        assert_int_not_equal(run_code(&code, 7), FERRY_OK);
    } else if (!opencl->takes_spirv) {
        assert_int_equal(run_code(&code, 7), FERRY_ERROR_UNSUPPORTED);
        assert_non_null(strstr(ferry_last_error(), "takes no SPIR-V"));
    }
    free(words);
    if (opencl->takes_spirv && !spirv_path)
        skip();
}

/* -- searches ---------------------------------------------------------------------------------- */

/* Builds the search for doubles that fit no int8, as for a device without atomic operations on 64
 * bits. */
static void
build_search(void **out_module, void **out_function)
{
    const char *line = ferryi_convert_line(ferry_double_element(), ferry_int8_element());
    static const char before[] = "#undef cl_khr_int64_extended_atomics\n";
    char *all = malloc(sizeof(before) + ferryi_convert_opencl_bytes + strlen(line));
    assert_non_null(all);
    char *end = stpcpy(all, before);
    memcpy(end, ferryi_convert_opencl, ferryi_convert_opencl_bytes);
    strcpy(end + ferryi_convert_opencl_bytes, line);
    const ferry_kernel_code code = {.kind = FERRY_CODE_OPENCL, .code = all};
    const struct ferryi_code_job job = {.name = "search", .code = &code};
    OK(FERRYI_CALL(&opencl->base, code_build, &job, out_module));
    OK(FERRYI_CALL(&opencl->base, code_function, *out_module, "ferryi_double_to_int8_first_unfit",
                   out_function));
    free(all);
}

struct search {
    void *function;
    double *source;  /* device memory */
    uint64_t *first; /* device memory */
    void *stream;
};

static void
launch_search(const struct search *search, uint64_t start)
{
    size_t count = COUNT;
    void *source = search->source, *first = search->first;
    void *arguments[] = {&source, &count, &first, &start};
    const size_t bytes[] = {FERRYI_LAUNCH_ADDRESS, sizeof(count), FERRYI_LAUNCH_ADDRESS,
                            sizeof(start)};
    const ferry_grid grid = {.blocks = {2, 1, 1}, .threads = {256, 1, 1}};
    const struct ferryi_launch launch = {.function = search->function,
                                         .grid = &grid,
                                         .arguments = arguments,
                                         .bytes = bytes,
                                         .count = 4};
    OK(FERRYI_CALL(&opencl->base, launch, &launch, search->stream));
}

/* Searches parts that begin at the given indices, in which the elements from `unfit` on do not fit.
 * Returns the index that is found. */
static uint64_t
find(const struct search *search, size_t unfit, uint64_t begin, uint64_t next)
{
    static double values[COUNT];
    uint64_t found = UINT64_MAX;
    for (size_t i = 0; i < COUNT; i++)
        values[i] = i < unfit ? 100 : 1000;
    OK(opencl->base.ops->copy_upload(&opencl->base, search->source, values, sizeof(values),
                                     search->stream));
    OK(opencl->base.ops->copy_upload(&opencl->base, search->first, &found, sizeof(found),
                                     search->stream));
    launch_search(search, begin);
    launch_search(search, next);
    OK(opencl->base.ops->copy_download(&opencl->base, &found, search->first, sizeof(found),
                                       search->stream));
    OK(FERRYI_CALL(&opencl->base, stream_synchronize, search->stream));
    return found;
}

static void
test_a_search_needs_no_wide_atomics(void **state)
{
    (void)state;
    const uint64_t far = (uint64_t)3 << 32, half = far + ((uint64_t)1 << 31);
    struct search search = {.stream = opencl->base.default_stream};
    void *module;
    build_search(&module, &search.function);
    OK(FERRYI_CALL(&opencl->base, memory_alloc, FERRY_MEMORY_DEVICE, COUNT * sizeof(double),
                   (void **)&search.source));
    OK(FERRYI_CALL(&opencl->base, memory_alloc, FERRY_MEMORY_DEVICE, sizeof(uint64_t),
                   (void **)&search.first));
    assert_int_equal(find(&search, COUNT, 0, far), UINT64_MAX);
    assert_int_equal(find(&search, 700, 0, far), 700);
    assert_int_equal(find(&search, 700, far, half), far + 700);
    assert_int_equal(find(&search, 0, far, far + ((uint64_t)1 << 32)), far);
    OK(FERRYI_CALL(&opencl->base, memory_free, FERRY_MEMORY_DEVICE, search.first));
    OK(FERRYI_CALL(&opencl->base, memory_free, FERRY_MEMORY_DEVICE, search.source));
    OK(FERRYI_CALL(&opencl->base, code_unload, module));
}

/* -- the process ------------------------------------------------------------------------------- */

static void
test_a_forked_child_is_refused(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        ferry_context *mine = NULL;
        const ferry_context_options options = {.devices = "opencl"};
        _exit(ferry_context_create(&options, &mine) == FERRY_ERROR_NO_DEVICE &&
                      strstr(ferry_last_error(), "forked")
                  ? 0
                  : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A driver reports a lost device as an invalid queue. Each later call fails without the driver. */
static void
test_a_lost_device_stays_lost(void **state)
{
    (void)state;
    ferryi_device *devices[FERRYI_DEVICES_MAX];
    const struct ferryi_device_config config = {0};
    int count;
    OK(ferryi_devices_open("opencl", &config, devices, &count));
    ferryi_device *device = devices[0];
    struct ferryi_opencl_device *lost = ferryi_opencl_of(device);
    assert_int_equal(ferryi_opencl_check(lost, "clFinish", -36), FERRY_ERROR_DEVICE_LOST);
    assert_non_null(strstr(ferry_last_error(), "CL_INVALID_COMMAND_QUEUE"));
    void *memory = NULL;
    assert_int_equal(FERRYI_CALL(device, stream_synchronize, device->default_stream),
                     FERRY_ERROR_DEVICE_LOST);
    assert_int_equal(FERRYI_CALL(device, memory_alloc, FERRY_MEMORY_DEVICE, 10, &memory),
                     FERRY_ERROR_DEVICE_LOST);
    atomic_store(&lost->is_lost, false);
    assert_int_equal(ferryi_opencl_check(lost, "clFlush", -2), FERRY_ERROR_DEVICE_LOST);
    device->ops->close(device);
}

static int
finish(void **state)
{
    (void)state;
    ferry_context_destroy(&context);
    return 0;
}

int
main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_programs_queue_is_a_stream),
        cmocka_unit_test(test_a_queue_without_order_is_refused),
        cmocka_unit_test(test_its_exchange_device_is_opencl),
        cmocka_unit_test(test_a_text_takes_options),
        cmocka_unit_test(test_a_binary_is_of_one_target),
        cmocka_unit_test(test_spirv_is_built_where_the_driver_takes_it),
        cmocka_unit_test(test_a_search_needs_no_wide_atomics),
        cmocka_unit_test(test_a_forked_child_is_refused),
        cmocka_unit_test(test_a_lost_device_stays_lost),
    };
    const ferry_context_options options = {.devices = "opencl"};
    spirv_path = count > 1 ? arguments[1] : NULL;
    if (ferry_context_create(&options, &context) != FERRY_OK) {
        printf("1..0 # SKIP %s\n", ferry_last_error());
        return EXIT_SUCCESS;
    }
    opencl = ferryi_opencl_of(context->devices[1]);
    return cmocka_run_group_tests(tests, NULL, finish);
}
