/* SPDX-License-Identifier: MIT */
/* Tests launches of kernels that are host functions: what they move, what they refuse, and what a
 * failure loses. */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/buffer.h>
#include <ferry/context.h>
#include <ferry/generated.h>
#include <ferry/kernel.h>
#include <ferry/stream.h>

#include "src/base/base.h"
#include "src/base/sanitizer.h"
#include "src/device/cuda/cuda.h"
#include "src/device/cuda/cuda_abi.h"
#include "src/device/gpu/gpu_device.h"
#include "src/stream/shell.h"
#include "tests/support/code.h"
#include "tests/support/fakecuda.h"
#include "tests/support/fault.h"
#include "tests/support/heap.h"
#include "tests/support/lazy.h"
#include "tests/support/status.h"

#define COUNT 1000

static ferry_element float_element = {.name = "float",
                                      .c_type = "float",
                                      .bytes = 4,
                                      .align = 4,
                                      .kind = FERRY_KIND_FLOAT,
                                      .bits = 32};
static ferry_element int_element = {
    .name = "int", .c_type = "int32_t", .bytes = 4, .align = 4, .kind = FERRY_KIND_INT, .bits = 32};

static ferry_context *
open_context(const char *devices)
{
    ferry_context_options options = {.devices = devices};
    ferry_context *context;
    OK(ferry_context_create(&options, &context));
    return context;
}

static ferry_buffer *
make_buffer(ferry_context *context, const float *values, size_t count)
{
    ferry_buffer *buffer;
    if (values)
        OK(ferry_buffer_create_from(context, &float_element, count, values, NULL, &buffer));
    else
        OK(ferry_buffer_create(context, &float_element, count, NULL, &buffer));
    return buffer;
}

static ferry_argument
whole(ferry_buffer *buffer)
{
    return ferry_buffer_argument(buffer, &float_element, 0, FERRY_REST);
}

static ferry_transfer_stats
stats(ferry_context *context)
{
    ferry_transfer_stats s;
    OK(ferry_context_get_transfer_stats(context, &s));
    return s;
}

/* -- host functions ---------------------------------------------------------------------------- */

/* c = a + b */
static ferry_status
add_body(const ferry_call *call, void *user)
{
    (void)user;
    size_t count;
    const float *a = ferry_call_array(call, &float_element, 0, NULL),
                *b = ferry_call_array(call, &float_element, 1, NULL);
    float *c = ferry_call_array(call, &float_element, 2, &count);
    for (size_t i = 0; i < count; i++)
        c[i] = a[i] + b[i];
    return FERRY_OK;
}

/* Host function that computes a[i] *= value. `user` is NULL or points to a counter of the calls. */
static ferry_status
scale_body(const ferry_call *call, void *user)
{
    size_t count;
    float *a = ferry_call_array(call, &float_element, 0, &count);
    const float *value = ferry_call_value(call, &float_element, 1, NULL);
    if (user)
        *(int *)user += 1;
    for (size_t i = 0; i < count; i++)
        a[i] *= *value;
    return FERRY_OK;
}

static ferry_status
failing_body(const ferry_call *call, void *user)
{
    (void)user;
    size_t count;
    float *a = ferry_call_array(call, &float_element, 0, &count);
    for (size_t i = 0; i < count; i++)
        a[i] = -1;
    ferry_call_fail(call, "the matrix is singular");
    return FERRY_ERROR_INVALID_STATE;
}

static const ferry_parameter add_parameters[] = {
    {.element = &float_element, .access = FERRY_READ},
    {.element = &float_element, .access = FERRY_READ},
    {.element = &float_element, .access = FERRY_OVERWRITE}};
static const ferry_parameter scale_parameters[] = {
    {.element = &float_element, .access = FERRY_UPDATE}, {.element = &float_element}};

static ferry_kernel *
make_kernel(ferry_context *context, const char *name, ferry_host_function *body, void *user,
            const ferry_parameter *parameters, size_t count)
{
    ferry_kernel_source source = {.name = name,
                                  .host_function = body,
                                  .user = user,
                                  .parameters = parameters,
                                  .parameter_count = count};
    ferry_kernel *kernel;
    OK(ferry_kernel_create(context, &source, &kernel));
    return kernel;
}

static ferry_kernel *
make_add(ferry_context *context)
{
    return make_kernel(context, "add", add_body, NULL, add_parameters, 3);
}

static ferry_kernel *
make_scale(ferry_context *context, int *runs)
{
    return make_kernel(context, "scale", scale_body, runs, scale_parameters, 2);
}

/* Creates a kernel with one array parameter, whose host function always fails. */
static ferry_kernel *
make_failing(ferry_context *context, const ferry_parameter *parameters)
{
    return make_kernel(context, "solve", failing_body, NULL, parameters, 1);
}

static void
assert_holds(ferry_buffer *buffer, float (*expected)(size_t i))
{
    ferry_scope scope;
    void *memory;
    OK(ferry_buffer_open_host(buffer, &float_element, FERRY_READ, 0, FERRY_REST, &scope, &memory));
    for (size_t i = 0; i < ferry_buffer_count(buffer); i++)
        if (((float *)memory)[i] != expected(i))
            fail_msg("element %zu is %g, not %g", i, ((float *)memory)[i], expected(i));
    OK(ferry_scope_close(&scope));
}

static float values[COUNT];

static float
as_is(size_t i)
{
    return (float)i;
}

static float
doubled(size_t i)
{
    return 2 * (float)i;
}

static float
sixfold(size_t i)
{
    return 6 * (float)i;
}

/* Devices on which each test runs. The lazy device performs work only when a caller waits for the
 * work. */
static const char *const all_devices[] = {"host", "emulated", "lazy"};
#define FOR_EACH_DEVICE(device)                                                                    \
    for (size_t device##_ = 0; device##_ < 3; device##_++)                                         \
        for (const char *device = all_devices[device##_]; device; device = NULL)

/* -- what a launch does ------------------------------------------------------------------------ */

static void
test_vector_add_end_to_end(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(device)
    {
        ferry_context *context = open_context(device);
        ferry_buffer *a = make_buffer(context, values, COUNT),
                     *b = make_buffer(context, values, COUNT),
                     *c = make_buffer(context, NULL, COUNT);
        ferry_kernel *add = make_add(context);
        ferry_argument arguments[] = {whole(a), whole(b), whole(c)};
        OK(ferry_kernel_launch(add, ferry_grid_for(COUNT, 0), NULL, arguments, 3));
        assert_holds(c, doubled);
        assert_holds(a, as_is);
        ferry_kernel_destroy(&add);
        assert_null(add);
        ferry_kernel_destroy(&add);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
        ferry_buffer_destroy(&c);
        ferry_context_destroy(&context);
    }
}

static void
test_a_chain_moves_nothing_between(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(device)
    {
        int runs = 0;
        ferry_context *context = open_context(device);
        ferry_buffer *a = make_buffer(context, values, COUNT);
        ferry_kernel *scale = make_scale(context, &runs);
        float two = 2, three = 3;
        ferry_argument first[] = {whole(a), ferry_element_value(&float_element, &two)};
        ferry_argument second[] = {whole(a), ferry_element_value(&float_element, &three)};
        OK(ferry_kernel_launch(scale, ferry_grid_for(COUNT, 0), NULL, first, 2));
        ferry_transfer_stats before = stats(context);
        OK(ferry_kernel_launch(scale, ferry_grid_for(COUNT, 0), NULL, second, 2));
        ferry_transfer_stats after = stats(context);
        assert_int_equal(after.upload.copies, before.upload.copies);
        assert_int_equal(after.download.copies, before.download.copies);
        assert_int_equal(after.device.copies + after.fill.copies,
                         before.device.copies + before.fill.copies);
        /* The second launch makes only one device call, which runs the host function. The host
         * device needs none, except in a checked run. */
        assert_int_equal(after.device_calls - before.device_calls,
                         strcmp(device, "host") != 0 || context->debug);
        assert_holds(a, sixfold);
        assert_int_equal(runs, 2);
        ferry_kernel_destroy(&scale);
        ferry_buffer_destroy(&a);
        ferry_context_destroy(&context);
    }
}

static void
test_reading_does_not_dirty_and_writing_does(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(device)
    {
        ferry_context *context = open_context(device);
        ferry_buffer *a = make_buffer(context, values, COUNT),
                     *b = make_buffer(context, values, COUNT),
                     *c = make_buffer(context, NULL, COUNT);
        ferry_kernel *add = make_add(context);
        ferry_argument arguments[] = {whole(a), whole(b), whole(c)};
        OK(ferry_kernel_launch(add, ferry_grid_for(COUNT, 0), NULL, arguments, 3));
        assert_int_equal(ferry_buffer_state(a), FERRY_STATE_SYNCHRONIZED);
        assert_int_equal(ferry_buffer_state(c), FERRY_STATE_DEVICE_ONLY);
        /* Only the two inputs are uploaded. The output has OVERWRITE access, so none of its bytes
         * are uploaded. */
        if (strcmp(device, "host") != 0)
            assert_int_equal(stats(context).upload.bytes, 2 * COUNT * sizeof(float));
        assert_int_equal(stats(context).fill.copies, 0);
        ferry_kernel_destroy(&add);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
        ferry_buffer_destroy(&c);
        ferry_context_destroy(&context);
    }
}

static void
test_in_place_is_legal(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(device)
    {
        ferry_context *context = open_context(device);
        ferry_buffer *a = make_buffer(context, values, COUNT);
        ferry_kernel *add = make_add(context);
        ferry_argument arguments[] = {whole(a), whole(a), whole(a)};
        OK(ferry_kernel_launch(add, ferry_grid_for(COUNT, 0), NULL, arguments, 3));
        assert_holds(a, doubled);
        /* Element 10 is both inputs and element 11 is the output, so element 11 becomes twice
         * element 10. */
        arguments[0] = arguments[1] = ferry_buffer_argument(a, &float_element, 10, 1);
        arguments[2] = ferry_buffer_argument(a, &float_element, 11, 1);
        OK(ferry_kernel_launch(add, ferry_grid_for(1, 0), NULL, arguments, 3));
        float part[3];
        OK(ferry_buffer_copy_to(a, &float_element, 10, 3, part, NULL));
        assert_true(part[0] == 20 && part[1] == 40 && part[2] == 24);
        ferry_kernel_destroy(&add);
        ferry_buffer_destroy(&a);
        ferry_context_destroy(&context);
    }
}

struct large {
    double numbers[9];
    size_t index;
};

static ferry_status
values_body(const ferry_call *call, void *user)
{
    size_t bytes;
    const struct large *large = ferry_call_value(call, NULL, 0, &bytes);
    *(double *)user =
        bytes == sizeof(*large) && (uintptr_t)large % 64 == 0 ? large->numbers[large->index] : -1;
    *(double *)user += (double)ferry_call_size(call, 1) + ferry_call_grid(call).blocks[0] +
                       ferry_call_grid(call).threads[2];
    return FERRY_OK;
}

/* Checks that a launch copies values of any size, and that each copy has the alignment of its type.
 */
static void
test_values_are_copied(void **state)
{
    (void)state;
    static const ferry_parameter parameters[] = {{.element = NULL}, {.element = NULL}};
    FOR_EACH_DEVICE(device)
    {
        double result = 0;
        ferry_context *context = open_context(device);
        ferry_kernel *kernel = make_kernel(context, "values", values_body, &result, parameters, 2);
        struct large large = {.index = 4};
        large.numbers[4] = 500;
        ferry_argument arguments[] = {ferry_struct_value(&large, sizeof(large), 64),
                                      ferry_size_value(20)};
        OK(ferry_kernel_launch(kernel, ferry_grid_for(300, 100), NULL, arguments, 2));
        memset(&large, 0, sizeof(large));
        ferry_kernel_destroy(&kernel);
        OK(ferry_stream_synchronize(ferry_context_stream(context, 1)));
        assert_true(result == 500 + 20 + 3 + 1);
        ferry_context_destroy(&context);
    }
}

static ferry_status
empty_body(const ferry_call *call, void *user)
{
    size_t count = 9;
    *(bool *)user = ferry_call_array(call, &float_element, 0, &count) == NULL && count == 0;
    return FERRY_OK;
}

static void
test_empty_arrays_and_signatures(void **state)
{
    (void)state;
    static const ferry_parameter parameters[] = {
        {.element = &float_element, .access = FERRY_UPDATE}};
    FOR_EACH_DEVICE(device)
    {
        bool seen = false;
        ferry_context *context = open_context(device);
        ferry_buffer *a = make_buffer(context, values, COUNT);
        ferry_kernel *kernel = make_kernel(context, "empty", empty_body, &seen, parameters, 1);
        ferry_argument argument = ferry_buffer_argument(a, &float_element, COUNT, FERRY_REST);
        OK(ferry_kernel_launch(kernel, ferry_grid_for(0, 0), NULL, &argument, 1));
        OK(ferry_stream_synchronize(ferry_context_stream(context, 1)));
        assert_true(seen);
        assert_int_equal(ferry_buffer_state(a), FERRY_STATE_HOST_ONLY);
        ferry_kernel_destroy(&kernel);
        kernel = make_kernel(context, "nothing", empty_body, &seen, NULL, 0);
        OK(ferry_kernel_launch(kernel, ferry_grid_for(0, 0), NULL, NULL, 0));
        ferry_kernel_destroy(&kernel);
        ferry_buffer_destroy(&a);
        ferry_context_destroy(&context);
    }
}

static ferry_status
sum_body(const ferry_call *call, void *user)
{
    (void)user;
    float sum = 0;
    for (size_t i = 0; i < 19; i++)
        sum += *(float *)ferry_call_array(call, &float_element, i, NULL);
    *(float *)ferry_call_array(call, &float_element, 19, NULL) = sum;
    return FERRY_OK;
}

static void
test_many_arguments(void **state)
{
    (void)state;
    ferry_parameter parameters[20];
    ferry_argument arguments[20];
    ferry_context *context = open_context("emulated");
    ferry_buffer *a = make_buffer(context, values, COUNT);
    for (size_t i = 0; i < 20; i++) {
        parameters[i] = (ferry_parameter){.element = &float_element,
                                          .access = i < 19 ? FERRY_READ : FERRY_OVERWRITE};
        arguments[i] = ferry_buffer_argument(a, &float_element, i, 1);
    }
    ferry_kernel *kernel = make_kernel(context, "sum", sum_body, NULL, parameters, 20);
    OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), NULL, arguments, 20));
    float sum;
    OK(ferry_buffer_copy_to(a, &float_element, 19, 1, &sum, NULL));
    assert_true(sum == 18 * 19 / 2);
    ferry_kernel_destroy(&kernel);
    ferry_buffer_destroy(&a);
    ferry_context_destroy(&context);
}

/* -- misuse ------------------------------------------------------------------------------------ */

static void
refuse(ferry_kernel *kernel, ferry_status status, const char *says, const ferry_argument *arguments,
       size_t count)
{
    assert_int_equal(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), NULL, arguments, count),
                     status);
    assert_says(says);
}

static void
test_wrong_arguments_move_nothing(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(device)
    {
        ferry_context *context = open_context(device), *other = open_context(device);
        ferry_buffer *a = make_buffer(context, values, COUNT),
                     *stranger = make_buffer(other, values, COUNT), *ints;
        OK(ferry_buffer_create(context, &int_element, COUNT, NULL, &ints));
        float two = 2;
        ferry_kernel *scale = make_scale(context, NULL);
        ferry_argument value = ferry_element_value(&float_element, &two);
        ferry_argument good[] = {whole(a), value, value};
        refuse(scale, FERRY_ERROR_INVALID_ARGUMENT, "takes 2 arguments, but there is 1", good, 1);
        refuse(scale, FERRY_ERROR_INVALID_ARGUMENT, "takes 2 arguments, but there are 3", good, 3);
        refuse(scale, FERRY_ERROR_INVALID_ARGUMENT, "NULL", NULL, 2);
        refuse(scale, FERRY_ERROR_INVALID_ARGUMENT, "argument 0", (ferry_argument[]){value, value},
               2);
        refuse(scale, FERRY_ERROR_INVALID_ARGUMENT, "argument 1",
               (ferry_argument[]){whole(a), whole(a)}, 2);
        refuse(scale, FERRY_ERROR_INVALID_ARGUMENT, "argument 0",
               (ferry_argument[]){whole(NULL), value}, 2);
        refuse(scale, FERRY_ERROR_WRONG_TYPE, "argument 0",
               (ferry_argument[]){ferry_buffer_argument(ints, &int_element, 0, 5), value}, 2);
        refuse(scale, FERRY_ERROR_WRONG_TYPE, "argument 0", (ferry_argument[]){whole(ints), value},
               2);
        refuse(scale, FERRY_ERROR_WRONG_TYPE, "argument 1",
               (ferry_argument[]){whole(a), ferry_size_value(1)}, 2);
        refuse(scale, FERRY_ERROR_WRONG_TYPE, "argument 1",
               (ferry_argument[]){whole(a), ferry_struct_value(&two, 4, 4)}, 2);
        refuse(scale, FERRY_ERROR_INVALID_ARGUMENT, "argument 1",
               (ferry_argument[]){whole(a), ferry_element_value(&float_element, NULL)}, 2);
        ferry_element namesake = int_element;
        namesake.name = float_element.name;
        refuse(scale, FERRY_ERROR_WRONG_TYPE, "but the parameter is float of other content",
               (ferry_argument[]){whole(a), ferry_element_value(&namesake, &two)}, 2);
        refuse(scale, FERRY_ERROR_OUT_OF_RANGE, "argument 0",
               (ferry_argument[]){ferry_buffer_argument(a, &float_element, 1, COUNT), value}, 2);
        refuse(scale, FERRY_ERROR_WRONG_CONTEXT, "argument 0",
               (ferry_argument[]){whole(stranger), value}, 2);
        assert_int_equal(ferry_kernel_launch(NULL, ferry_grid_for(1, 0), NULL, good, 2),
                         FERRY_ERROR_INVALID_ARGUMENT);
        assert_int_equal(ferry_kernel_launch(scale, ferry_grid_for(1, 0),
                                             ferry_context_stream(other, 1), good, 2),
                         FERRY_ERROR_WRONG_CONTEXT);
        const ferry_grid wrong[] = {{.shared_bytes = 0},
                                    {.blocks = {0, 1, 1}, .threads = {1, 1, 1}},
                                    {.blocks = {1, 1, 1}, .threads = {0, 1, 1}}};
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
            assert_int_equal(ferry_kernel_launch(scale, wrong[i], NULL, good, 2),
                             FERRY_ERROR_INVALID_ARGUMENT);
            assert_says("threads in x");
        }
        assert_int_equal(ferry_buffer_state(a), FERRY_STATE_HOST_ONLY);
        assert_int_equal(stats(context).upload.copies, 0);
        OK(ferry_kernel_launch(scale, ferry_grid_for(1, 1), NULL, good, 2));
        ferry_kernel_destroy(&scale);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&ints);
        ferry_buffer_destroy(&stranger);
        ferry_context_destroy(&context);
        ferry_context_destroy(&other);
    }
}

static void
test_messages_name_the_parameter(void **state)
{
    (void)state;
    static const ferry_parameter named[] = {
        {.element = &float_element, .access = FERRY_UPDATE, .name = "x"},
        {.element = &float_element, .name = "the\nfactor"}};
    ferry_context *context = open_context("emulated");
    ferry_kernel *scale = make_kernel(context, "scale", scale_body, NULL, named, 2);
    ferry_buffer *a = make_buffer(context, values, COUNT), *view;
    OK(ferry_buffer_view_read_only(a, &float_element, 0, FERRY_REST, &view));
    const float two = 2;
    ferry_argument value = ferry_element_value(&float_element, &two);
    refuse(scale, FERRY_ERROR_INVALID_ARGUMENT,
           "launch kernel \"scale\": argument 0 \"x\": this handle of buffer",
           (ferry_argument[]){whole(view), value}, 2);
    refuse(scale, FERRY_ERROR_OUT_OF_RANGE,
           "launch kernel \"scale\": argument 0 \"x\": 3 elements at offset",
           (ferry_argument[]){ferry_buffer_argument(a, &float_element, COUNT - 2, 3), value}, 2);
    refuse(scale, FERRY_ERROR_INVALID_ARGUMENT, "argument 0 \"x\": it is an empty handle",
           (ferry_argument[]){whole(NULL), value}, 2);
    refuse(scale, FERRY_ERROR_WRONG_TYPE,
           "argument 1 \"the factor\": it is size, but the parameter is float",
           (ferry_argument[]){whole(a), ferry_size_value(1)}, 2);
    ferry_kernel_destroy(&scale);
    char name[100] = {0};
    memset(name, 'x', sizeof(name) - 1);
    const ferry_parameter long_named = {
        .element = &float_element, .access = FERRY_UPDATE, .name = name};
    scale = make_kernel(context, "scale", scale_body, NULL, &long_named, 1);
    refuse(scale, FERRY_ERROR_INVALID_ARGUMENT, "xxx\": it is an empty handle",
           (ferry_argument[]){whole(NULL)}, 1);
    ferry_buffer_destroy(&view);
    ferry_buffer_destroy(&a);
    ferry_kernel_destroy(&scale);
    ferry_context_destroy(&context);
}

static void
test_open_scopes_refuse_a_launch(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(device)
    {
        ferry_context *context = open_context(device);
        ferry_buffer *a = make_buffer(context, values, COUNT);
        ferry_kernel *scale = make_scale(context, NULL);
        float two = 2;
        ferry_argument arguments[] = {whole(a), ferry_element_value(&float_element, &two)};
        ferry_scope scope;
        void *memory;
        OK(ferry_buffer_open_host(a, &float_element, FERRY_READ, 5, 1, &scope, &memory));
        assert_int_equal(ferry_kernel_launch(scale, ferry_grid_for(1, 0), NULL, arguments, 2),
                         FERRY_ERROR_BUSY);
        OK(ferry_scope_close(&scope));
        OK(ferry_kernel_launch(scale, ferry_grid_for(1, 0), NULL, arguments, 2));
        assert_holds(a, doubled);
        ferry_kernel_destroy(&scale);
        ferry_buffer_destroy(&a);
        ferry_context_destroy(&context);
    }
}

static void
test_a_kernel_needs_a_body(void **state)
{
    (void)state;
    ferry_context *context = open_context("emulated");
    ferry_kernel *kernel = NULL;
    ferry_kernel_source source = {.name = "none"};
    assert_int_equal(ferry_kernel_create(context, &source, &kernel), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_kernel_create(NULL, &source, &kernel), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_kernel_create(context, NULL, &kernel), FERRY_ERROR_INVALID_ARGUMENT);
    assert_null(kernel);
    /* A kernel with only CUDA source cannot run on a device that cannot load code. The library must
     * not compile the source. */
    const ferry_kernel_code broken = {.kind = FERRY_CODE_CUDA, .code = "this does not compile"};
    source.codes = &broken;
    source.code_count = 1;
    OK(ferry_kernel_create(context, &source, &kernel));
    assert_int_equal(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), NULL, NULL, 0),
                     FERRY_ERROR_UNSUPPORTED);
    assert_says("none");
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

/* Devices that run host functions take no attributes. The refused launch changes nothing. */
static void
test_host_functions_have_no_attributes(void **state)
{
    (void)state;
    static const struct {
        ferry_grid grid;
        ferry_status status;
        const char *says;
    } cases[] = {{{.blocks = {2}, .threads = {1}, .cluster = {2}},
                  FERRY_ERROR_UNSUPPORTED,
                  " does not take: that needs a CUDA device of compute capability 9.0"},
                 {{.blocks = {1}, .threads = {1}, .cluster = {0, 1, 0}},
                  FERRY_ERROR_UNSUPPORTED,
                  "the grid has clusters, which "},
                 {{.blocks = {1}, .threads = {1}, .cluster = {0, 0, 4}},
                  FERRY_ERROR_INVALID_ARGUMENT,
                  "the grid has 1 blocks in z, which is no multiple of the 4 of a cluster"},
                 {{.blocks = {1}, .threads = {1}, .flags = FERRY_LAUNCH_OVERLAP},
                  FERRY_ERROR_UNSUPPORTED,
                  "the grid has FERRY_LAUNCH_OVERLAP, which "},
                 {{.blocks = {1}, .threads = {1}, .flags = FERRY_LAUNCH_COOPERATIVE},
                  FERRY_ERROR_UNSUPPORTED,
                  "the grid has FERRY_LAUNCH_COOPERATIVE, which "},
                 {{.blocks = {1}, .threads = {1}, .flags = 0x80000001},
                  FERRY_ERROR_UNSUPPORTED,
                  "the grid has the flags 0x80000001, of which this library knows 0x3"}};
    FOR_EACH_DEVICE(device)
    {
        ferry_context *context = open_context(device);
        int calls = 0;
        ferry_kernel *scale = make_scale(context, &calls);
        ferry_buffer *a = make_buffer(context, values, COUNT);
        float two = 2;
        ferry_argument arguments[] = {whole(a), ferry_element_value(&float_element, &two)};
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            assert_int_equal(ferry_kernel_launch(scale, cases[i].grid, NULL, arguments, 2),
                             cases[i].status);
            assert_says("launch kernel \"scale\": ");
            assert_says(cases[i].says);
        }
        assert_int_equal(calls, 0);
        OK(ferry_kernel_launch(scale, ferry_grid_for(COUNT, 0), NULL, arguments, 2));
        assert_holds(a, doubled);
        assert_int_equal(calls, 1);
        ferry_kernel_destroy(&scale);
        ferry_buffer_destroy(&a);
        ferry_context_destroy(&context);
    }
}

/* -- failing host functions -------------------------------------------------------------------- */

static void
test_what_a_failing_body_writes_is_lost(void **state)
{
    (void)state;
    static const ferry_parameter parameters[] = {
        {.element = &float_element, .access = FERRY_OVERWRITE}};
    FOR_EACH_DEVICE(device)
    {
        ferry_context *context = open_context(device);
        ferry_buffer *a = make_buffer(context, values, COUNT);
        ferry_kernel *kernel = make_failing(context, parameters);
        ferry_argument argument = ferry_buffer_argument(a, &float_element, 100, 50);
        OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), NULL, &argument, 1));
        ferry_stream *stream = ferry_context_stream(context, 1);
        assert_int_equal(ferry_stream_synchronize(stream), FERRY_ERROR_INVALID_STATE);
        assert_says("solve");
        assert_says("the matrix is singular");
        /* A failure must be reported only once. */
        OK(ferry_stream_synchronize(stream));
        float part[50];
        assert_int_equal(ferry_buffer_copy_to(a, &float_element, 120, 10, part, NULL),
                         FERRY_ERROR_INVALID_STATE);
        assert_says("the matrix is singular");
        /* Bytes outside the range of the failed kernel must be unchanged. Lost bytes must be valid
         * after they are written again. */
        OK(ferry_buffer_copy_to(a, &float_element, 150, 50, part, NULL));
        assert_true(part[0] == 150 && part[49] == 199);
        OK(ferry_buffer_copy_from(a, &float_element, 100, 50, &values[100], NULL));
        assert_holds(a, as_is);
        ferry_kernel_destroy(&kernel);
        ferry_buffer_destroy(&a);
        ferry_context_destroy(&context);
    }
}

static ferry_status
silent_body(const ferry_call *call, void *user)
{
    const ferry_status *status = user;
    (void)call;
    return *status;
}

/* Lets a host function fail without a message. The error message must contain the number that the
 * function returned, even if this number is not a ferry_status. */
static void
test_a_failure_without_a_message_tells_its_number(void **state)
{
    (void)state;
    static const ferry_parameter parameters[] = {
        {.element = &float_element, .access = FERRY_UPDATE}};
    const struct {
        ferry_status status;
        const char *said;
    } cases[] = {{FERRY_ERROR_IO, "\"silent\": it returned 15, FERRY_ERROR_IO"},
                 {(ferry_status)77, "\"silent\": it returned 77, unknown status"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FOR_EACH_DEVICE(device)
        {
            ferry_status status = cases[i].status;
            ferry_context *context = open_context(device);
            ferry_buffer *a = make_buffer(context, values, COUNT);
            ferry_kernel *kernel =
                make_kernel(context, "silent", silent_body, &status, parameters, 1);
            ferry_argument argument = whole(a);
            OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), NULL, &argument, 1));
            assert_int_equal(ferry_stream_synchronize(ferry_context_stream(context, 1)), status);
            assert_says(cases[i].said);
            ferry_kernel_destroy(&kernel);
            ferry_buffer_destroy(&a);
            ferry_context_destroy(&context);
        }
    }
}

/* Reads the output of a failing kernel immediately after the launch. The read must return the
 * kernel's failure, even if the kernel runs only during the read. */
static void
test_reading_at_once_sees_the_failure(void **state)
{
    (void)state;
    static const ferry_parameter parameters[] = {
        {.element = &float_element, .access = FERRY_OVERWRITE}};
    for (int pinned = 0; pinned < 2; pinned++) {
        FOR_EACH_DEVICE(device)
        {
            ferry_context *context = open_context(device);
            ferry_buffer_options options = {.memory = pinned ? FERRY_MEMORY_PINNED
                                                             : FERRY_MEMORY_DEFAULT};
            ferry_buffer *a, *b = make_buffer(context, values, COUNT);
            if (pinned && strcmp(device, "host") == 0)
                options.memory = FERRY_MEMORY_DEFAULT;
            OK(ferry_buffer_create_from(context, &float_element, COUNT, values, &options, &a));
            ferry_kernel *kernel = make_failing(context, parameters);
            ferry_argument arguments[] = {whole(a), whole(b)};
            float got[COUNT];
            ferry_scope scope;
            void *memory;
            OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), NULL, &arguments[0], 1));
            assert_int_equal(ferry_buffer_open_host(a, &float_element, FERRY_READ, 0, FERRY_REST,
                                                    &scope, &memory),
                             FERRY_ERROR_INVALID_STATE);
            assert_says("the matrix is singular");
            OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), NULL, &arguments[1], 1));
            assert_int_equal(ferry_buffer_copy_to(b, &float_element, 0, COUNT, got, NULL),
                             FERRY_ERROR_INVALID_STATE);
            assert_says("the matrix is singular");
            ferry_kernel_destroy(&kernel);
            ferry_buffer_destroy(&a);
            ferry_buffer_destroy(&b);
            ferry_context_destroy(&context);
        }
    }
}

/* Lets a kernel read the lost output of a failed kernel. The output of the second kernel must also
 * be lost. Bytes that are written later must be valid. */
static void
test_failures_travel_with_the_data(void **state)
{
    (void)state;
    static const ferry_parameter parameters[] = {
        {.element = &float_element, .access = FERRY_OVERWRITE}};
    FOR_EACH_DEVICE(device)
    {
        ferry_context *context = open_context(device);
        ferry_buffer *a = make_buffer(context, values, COUNT),
                     *b = make_buffer(context, values, COUNT),
                     *c = make_buffer(context, NULL, COUNT);
        ferry_kernel *solve = make_failing(context, parameters);
        ferry_kernel *add = make_add(context);
        ferry_argument arguments[] = {whole(a), whole(b), whole(c)};
        float got[COUNT];
        OK(ferry_kernel_launch(solve, ferry_grid_for(1, 0), NULL, &arguments[0], 1));
        /* The launch of `add` fails at once if the host function of `solve` has already failed. */
        ferry_status status = ferry_kernel_launch(add, ferry_grid_for(1, 0), NULL, arguments, 3);
        if (strcmp(device, "emulated") != 0)
            assert_int_equal(status,
                             strcmp(device, "host") == 0 ? FERRY_ERROR_INVALID_STATE : FERRY_OK);
        if (status == FERRY_OK) {
            assert_int_equal(ferry_buffer_copy_to(c, &float_element, 0, COUNT, got, NULL),
                             FERRY_ERROR_INVALID_STATE);
            assert_says("its input was lost");
            assert_says("the matrix is singular");
        }
        OK(ferry_buffer_copy_from(a, &float_element, 0, COUNT, values, NULL));
        OK(ferry_kernel_launch(solve, ferry_grid_for(1, 0), NULL, &arguments[2], 1));
        OK(ferry_kernel_launch(add, ferry_grid_for(1, 0), NULL, arguments, 3));
        assert_holds(c, doubled);
        assert_int_equal(ferry_stream_synchronize(ferry_context_stream(context, 1)),
                         FERRY_ERROR_INVALID_STATE);
        ferry_kernel_destroy(&solve);
        ferry_kernel_destroy(&add);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
        ferry_buffer_destroy(&c);
        ferry_context_destroy(&context);
    }
}

/* -- host functions that fail after later uses of their buffers were queued -------------------- */

static ferry_status
failing_late(const ferry_call *call, void *user)
{
    const atomic_bool *gate = user;
    while (!atomic_load(gate))
        ferryi_sleep_ns(100000);
    return failing_body(call, NULL);
}

static const ferry_parameter written[] = {{.element = &float_element, .access = FERRY_OVERWRITE}};

/* Fills a part of the buffer inside a scope on the default stream, like a kernel that the program
 * launches itself. */
static void
write_in_a_scope(ferry_context *context, ferry_buffer *buffer, size_t offset, size_t count,
                 uint32_t pattern)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    ferry_scope scope;
    void *memory;
    OK(ferry_buffer_open_device(buffer, &float_element, FERRY_OVERWRITE, offset, count, stream,
                                &scope, &memory));
    OK(FERRYI_CALL(context->devices[1], fill, memory, pattern, 4, count, stream->timeline->native));
    OK(ferry_scope_close(&scope));
}

static void
assert_all(ferry_buffer *buffer, size_t offset, size_t count, float value)
{
    float got[COUNT];
    OK(ferry_buffer_copy_to(buffer, &float_element, offset, count, got, NULL));
    for (size_t i = 0; i < count; i++)
        assert_true(got[i] == value);
}

static void
assert_lost(ferry_buffer *buffer, size_t offset, size_t count)
{
    float got[COUNT];
    assert_int_equal(ferry_buffer_copy_to(buffer, &float_element, offset, count, got, NULL),
                     FERRY_ERROR_INVALID_STATE);
    assert_says("the matrix is singular");
}

/* Queues a kernel that overwrites a buffer, and makes it fail after newer writes to parts of this
 * buffer were queued. These parts must stay valid. The rest of the buffer must be lost. */
static void
test_a_late_failure_loses_nothing_newer(void **state)
{
    (void)state;
    const char *const late[] = {"emulated", "lazy"};
    for (int d = 0; d < 2; d++) {
        atomic_bool gate = false;
        ferry_context *context = open_context(late[d]);
        ferry_buffer *a = make_buffer(context, values, COUNT),
                     *b = make_buffer(context, values, COUNT);
        ferry_kernel *solve = make_kernel(context, "solve", failing_late, &gate, written, 1);
        ferry_kernel *add = make_add(context);
        ferry_argument whole_a = whole(a);
        ferry_argument sum[] = {ferry_buffer_argument(b, &float_element, 0, 50),
                                ferry_buffer_argument(b, &float_element, 0, 50),
                                ferry_buffer_argument(a, &float_element, 200, 50)};
        float zero = 0;
        OK(ferry_kernel_launch(solve, ferry_grid_for(1, 0), NULL, &whole_a, 1));
        write_in_a_scope(context, a, 100, 50, 0x3f800000u);
        OK(ferry_kernel_launch(add, ferry_grid_for(1, 0), NULL, sum, 3));
        OK(ferry_buffer_discard(a, 300, 50));
        write_in_a_scope(context, a, COUNT - 50, 50, 0x40000000u);
        atomic_store(&gate, true);
        assert_int_equal(ferry_stream_synchronize(ferry_context_stream(context, 1)),
                         FERRY_ERROR_INVALID_STATE);
        assert_all(a, 100, 50, 1);
        assert_all(a, 300, 50, zero);
        assert_all(a, COUNT - 50, 50, 2);
        float got[50];
        OK(ferry_buffer_copy_to(a, &float_element, 200, 50, got, NULL));
        assert_true(got[49] == 2 * values[49]);
        assert_lost(a, 0, 1);
        assert_lost(a, 99, 1);
        assert_lost(a, 150, 50);
        assert_lost(a, 250, 50);
        assert_lost(a, 350, COUNT - 400);
        /* A kernel that is launched after the failure must succeed. */
        OK(ferry_buffer_copy_from(a, &float_element, 0, COUNT, values, NULL));
        sum[2] = whole(b);
        sum[0] = sum[1] = whole_a;
        OK(ferry_kernel_launch(add, ferry_grid_for(1, 0), NULL, sum, 3));
        assert_holds(b, doubled);
        ferry_kernel_destroy(&solve);
        ferry_kernel_destroy(&add);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
        ferry_context_destroy(&context);
    }
}

/* Queues a kernel that will fail, then kernels that read its output, and then a write that
 * overwrites this output. The result of the last kernel must be lost, because it depends on the
 * output of the failing kernel and not on the newer bytes. */
static void
test_an_input_is_lost_for_those_who_read_it_in_time(void **state)
{
    (void)state;
    const char *const late[] = {"emulated", "lazy"};
    for (int d = 0; d < 2; d++) {
        atomic_bool gate = false;
        ferry_context *context = open_context(late[d]);
        ferry_buffer *a = make_buffer(context, values, COUNT),
                     *b = make_buffer(context, values, COUNT),
                     *c = make_buffer(context, NULL, COUNT);
        ferry_kernel *solve = make_kernel(context, "solve", failing_late, &gate, written, 1);
        ferry_kernel *scale = make_scale(context, NULL);
        ferry_kernel *add = make_add(context);
        float two = 2;
        ferry_argument scaled[] = {whole(a), ferry_element_value(&float_element, &two)};
        ferry_argument sum[] = {whole(a), whole(b), whole(c)};
        OK(ferry_kernel_launch(solve, ferry_grid_for(1, 0), NULL, scaled, 1));
        OK(ferry_kernel_launch(scale, ferry_grid_for(COUNT, 0), NULL, scaled, 2));
        OK(ferry_kernel_launch(add, ferry_grid_for(1, 0), NULL, sum, 3));
        write_in_a_scope(context, a, 0, COUNT, 0x3f800000u);
        atomic_store(&gate, true);
        assert_int_equal(ferry_stream_synchronize(ferry_context_stream(context, 1)),
                         FERRY_ERROR_INVALID_STATE);
        assert_all(a, 0, COUNT, 1);
        assert_lost(c, 0, COUNT);
        assert_says("its input was lost");
        ferry_kernel_destroy(&solve);
        ferry_kernel_destroy(&scale);
        ferry_kernel_destroy(&add);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
        ferry_buffer_destroy(&c);
        ferry_context_destroy(&context);
    }
}

/* Queues a kernel that will fail, then overwrites its output, then queues a kernel that reads the
 * output. The second kernel must succeed. */
static void
test_an_input_written_anew_is_not_lost(void **state)
{
    (void)state;
    const char *const late[] = {"emulated", "lazy"};
    for (int d = 0; d < 2; d++) {
        atomic_bool gate = false;
        ferry_context *context = open_context(late[d]);
        ferry_buffer *a = make_buffer(context, values, COUNT),
                     *b = make_buffer(context, values, COUNT),
                     *c = make_buffer(context, NULL, COUNT);
        ferry_kernel *solve = make_kernel(context, "solve", failing_late, &gate, written, 1);
        ferry_kernel *add = make_add(context);
        ferry_argument whole_a = whole(a), sum[] = {whole(a), whole(a), whole(c)},
                       update[] = {whole(a), whole(b), whole(a)};
        OK(ferry_kernel_launch(solve, ferry_grid_for(1, 0), NULL, &whole_a, 1));
        write_in_a_scope(context, a, 0, COUNT, 0x3f800000u);
        OK(ferry_kernel_launch(add, ferry_grid_for(1, 0), NULL, sum, 3));
        OK(ferry_kernel_launch(add, ferry_grid_for(1, 0), NULL, update, 3));
        write_in_a_scope(context, a, 0, COUNT / 2, 0x40400000u);
        atomic_store(&gate, true);
        assert_int_equal(ferry_stream_synchronize(ferry_context_stream(context, 1)),
                         FERRY_ERROR_INVALID_STATE);
        assert_all(c, 0, COUNT, 2);
        assert_all(a, 0, COUNT / 2, 3);
        assert_all(a, COUNT - 1, 1, 1 + values[COUNT - 1]);
        ferry_kernel_destroy(&solve);
        ferry_kernel_destroy(&add);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
        ferry_buffer_destroy(&c);
        ferry_context_destroy(&context);
    }
}

/* -- long queues ------------------------------------------------------------------------------- */

/* Queues `count` launches of a kernel that updates the buffer `a`. Returns the number of heap bytes
 * per pending launch. */
static size_t
queue_updates(ferry_kernel *scale, ferry_buffer *a, size_t count)
{
    float one = 1;
    ferry_argument arguments[] = {whole(a), ferry_element_value(&float_element, &one)};
    size_t before = heap_bytes();
    for (size_t i = 0; i < count; i++)
        OK(ferry_kernel_launch(scale, ferry_grid_for(COUNT, 0), NULL, arguments, 2));
    return (heap_bytes() - before) / count;
}

static ferry_status
succeeding_late(const ferry_call *call, void *user)
{
    const atomic_bool *gate = user;
    while (!atomic_load(gate))
        ferryi_sleep_ns(100000);
    return scale_body(call, NULL);
}

/* Checks that the memory of a queued launch does not grow with the number of queued launches. All
 * memory must be freed when the launches end, even if the first launch fails. */
static void
test_a_queued_launch_takes_constant_memory(void **state)
{
    (void)state;
    const char *const late[] = {"emulated", "lazy"};
    for (int test = 0; test < 4; test++) {
        atomic_bool gate = false;
        bool fails = test % 2;
        ferry_context *context = open_context(late[test / 2]);
        ferry_buffer *a = make_buffer(context, values, COUNT);
        ferry_kernel *first = make_kernel(context, "first", fails ? failing_late : succeeding_late,
                                          &gate, scale_parameters, 2);
        ferry_kernel *scale = make_scale(context, NULL);
        (void)queue_updates(first, a, 1);
        size_t before = heap_bytes();
        size_t few = queue_updates(scale, a, 5000), many = queue_updates(scale, a, 15000);
        print_message("# %s: %zu bytes for each of 5000 launches, %zu for each of the next 15000\n",
                      late[test / 2], few, many);
        if (before > 0) { /* Valgrind's heap is not counted either */
            assert_in_range(few, 1, 600);
            assert_in_range(many, 1, 600);
        }
        atomic_store(&gate, true);
        assert_int_equal(ferry_stream_synchronize(ferry_context_stream(context, 1)),
                         fails ? FERRY_ERROR_INVALID_STATE : FERRY_OK);
        if (fails)
            assert_lost(a, 0, COUNT);
        else
            assert_holds(a, as_is);
        assert_true(FERRYI_SANITIZED_MALLOC || heap_bytes() < before + 20000 * 24);
        ferry_kernel_destroy(&first);
        ferry_kernel_destroy(&scale);
        ferry_buffer_destroy(&a);
        ferry_context_destroy(&context);
    }
}

/* Queues a failing kernel and then many kernels that update its output. The error message must name
 * only the failing kernel and the first kernel that read its output. */
static void
test_a_failure_passed_on_keeps_its_message(void **state)
{
    (void)state;
    FOR_EACH_DEVICE(device)
    {
        if (strcmp(device, "lazy") != 0)
            continue;
        ferry_context *context = open_context(device);
        ferry_buffer *a = make_buffer(context, values, COUNT),
                     *b = make_buffer(context, values, COUNT);
        static const ferry_parameter parameters[] = {
            {.element = &float_element, .access = FERRY_UPDATE}};
        ferry_kernel *solve = make_failing(context, parameters), *scale = make_scale(context, NULL),
                     *add = make_add(context);
        float one = 1;
        ferry_argument whole_a = whole(a),
                       scaled[] = {whole(a), ferry_element_value(&float_element, &one)};
        ferry_argument sum[] = {whole(a), whole(b), whole(b)};
        OK(ferry_kernel_launch(solve, ferry_grid_for(1, 0), NULL, &whole_a, 1));
        for (int i = 0; i < 50; i++)
            OK(ferry_kernel_launch(scale, ferry_grid_for(COUNT, 0), NULL, scaled, 2));
        OK(ferry_kernel_launch(add, ferry_grid_for(COUNT, 0), NULL, sum, 3));
        assert_lost(b, 0, COUNT);
        assert_says("kernel \"scale\": its input was lost: run the host function of kernel "
                    "\"solve\": the matrix is singular");
        assert_null(strstr(ferry_last_error(), "\"add\""));
        ferry_kernel_destroy(&solve);
        ferry_kernel_destroy(&scale);
        ferry_kernel_destroy(&add);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
        ferry_context_destroy(&context);
    }
}

struct launcher {
    ferry_context *context;
    ferry_kernel *kernel;
    ferry_buffer *buffer;
    bool ok;
};

static void
launch_often(void *user)
{
    struct launcher *l = user;
    float two = 2, half = 0.5f;
    ferry_stream *stream;
    l->ok = ferry_stream_create(l->context, 1, &stream) == FERRY_OK;
    for (int round = 0; l->ok && round < 100; round++) {
        ferry_argument arguments[] = {
            whole(l->buffer), ferry_element_value(&float_element, round % 2 ? &half : &two)};
        l->ok = ferry_kernel_launch(l->kernel, ferry_grid_for(COUNT, 0), stream, arguments, 2) ==
                FERRY_OK;
    }
    l->ok = l->ok && ferry_stream_synchronize(stream) == FERRY_OK;
    ferry_stream_destroy(&stream);
}

static void
test_threads_launch_one_kernel(void **state)
{
    (void)state;
    ferry_context *context = open_context("emulated");
    ferry_kernel *scale = make_scale(context, NULL);
    struct launcher launchers[4];
    ferryi_thread threads[4];
    for (int i = 0; i < 4; i++) {
        launchers[i] =
            (struct launcher){context, scale, make_buffer(context, values, COUNT), false};
        OK(ferryi_thread_start(&threads[i], "launch", launch_often, &launchers[i]));
    }
    for (int i = 0; i < 4; i++) {
        ferryi_thread_join(threads[i]);
        assert_true(launchers[i].ok);
        assert_holds(launchers[i].buffer, as_is);
        ferry_buffer_destroy(&launchers[i].buffer);
    }
    ferry_kernel_destroy(&scale);
    ferry_context_destroy(&context);
}

/* Destroys the kernel, buffer and stream of a launch before its host function runs. This must be
 * safe, because the library keeps copies of the arguments. The failure of the function is then not
 * reported. */
static void
test_everything_may_go_before_the_body_runs(void **state)
{
    (void)state;
    static const ferry_parameter parameters[] = {
        {.element = &float_element, .access = FERRY_UPDATE}};
    for (int i = 0; i < 2; i++) {
        ferry_context *context = open_context(i ? "lazy" : "emulated");
        ferry_stream *stream;
        OK(ferry_stream_create(context, 1, &stream));
        ferry_buffer *a = make_buffer(context, values, COUNT);
        ferry_kernel *kernel = make_failing(context, parameters);
        ferry_argument argument = whole(a);
        OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), stream, &argument, 1));
        ferry_kernel_destroy(&kernel);
        ferry_buffer_destroy(&a);
        ferry_stream_destroy(&stream);
        ferry_buffer *b = make_buffer(context, values, COUNT);
        ferry_context *gone = context;
        assert_holds(b, as_is);
        ferry_buffer_destroy(&b);
        ferry_context_destroy(&gone);
    }
}

static void
test_a_kernel_outlives_its_context(void **state)
{
    (void)state;
    ferry_context *context = open_context("emulated");
    ferry_kernel *scale = make_scale(context, NULL);
    ferry_context_destroy(&context);
    assert_int_equal(ferry_kernel_launch(scale, ferry_grid_for(1, 0), NULL, NULL, 0),
                     FERRY_ERROR_INVALID_STATE);
    ferry_kernel_destroy(&scale);
}

/* Makes each device call of a launch fail in turn. The launch must either take place completely, or
 * return an error and change nothing. */
static void
test_whatever_call_fails(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        int runs = 0;
        ferry_context *context = open_context("fault");
        ferry_buffer *a = make_buffer(context, values, COUNT);
        ferry_kernel *scale = make_scale(context, &runs);
        float two = 2;
        ferry_argument arguments[] = {whole(a), ferry_element_value(&float_element, &two)};
        fault_arm(nth);
        ferry_status status =
            ferry_kernel_launch(scale, ferry_grid_for(COUNT, 0), NULL, arguments, 2);
        bool tripped = fault_tripped();
        fault_disarm();
        if (!tripped)
            OK(status);
        if (status != FERRY_OK) {
            assert_says("fault injected");
            assert_true(ferry_buffer_is_current(a, FERRY_PLACE_HOST));
        }
        assert_holds(a, status == FERRY_OK ? doubled : as_is);
        assert_int_equal(runs, status == FERRY_OK);
        ferry_kernel_destroy(&scale);
        ferry_buffer_destroy(&a);
        ferry_context_destroy(&context);
        assert_int_equal(fault_live(), 0);
        if (!tripped)
            break;
    }
}

static void
test_two_devices_run_one_kernel(void **state)
{
    (void)state;
    ferry_context *context = open_context("emulated:2");
    ferry_buffer *buffers[2];
    ferry_kernel *scale = make_scale(context, NULL);
    float two = 2, half = 0.5f;
    for (int place = 1; place <= 2; place++) {
        buffers[place - 1] = make_buffer(context, values, COUNT);
        ferry_argument arguments[] = {whole(buffers[place - 1]),
                                      ferry_element_value(&float_element, &two)};
        for (int round = 0; round < 50; round++) {
            arguments[1] = ferry_element_value(&float_element, round % 2 ? &half : &two);
            OK(ferry_kernel_launch(scale, ferry_grid_for(COUNT, 0),
                                   ferry_context_stream(context, place), arguments, 2));
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_holds(buffers[i], as_is);
        ferry_buffer_destroy(&buffers[i]);
    }
    /* The launch names no stream, so in a context with two devices it must fail. */
    assert_int_equal(ferry_kernel_launch(scale, ferry_grid_for(1, 0), NULL, NULL, 0),
                     FERRY_ERROR_INVALID_ARGUMENT);
    ferry_kernel_destroy(&scale);
    ferry_context_destroy(&context);
}

/* -- loaded code, over fakecuda ---------------------------------------------------------------- */

static struct fakecuda fake;

static void
scale_code(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)grid, (void)block;
    float *a = *(float **)parameters[0], value = *(float *)parameters[1];
    for (size_t i = 0; i < COUNT; i++)
        a[i] *= value;
}

static const char scale_image[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry "
                                  "scale(.param .u64 a, .param .f32 v) { ret; }\n";
static const char scale_source[] =
    "extern \"C\" __global__ void scale(float *a, float v) { a[threadIdx.x] *= v; }\n";

static ferry_context *
open_fake(void)
{
    static const size_t sizes[] = {sizeof(void *), sizeof(float)};
    fake.fakecuda_register_kernel("scale", scale_code, 2, sizes);
    return open_context("cuda");
}

static void
launch_scale(ferry_kernel *kernel, ferry_stream *stream, ferry_buffer *a)
{
    float two = 2;
    ferry_argument arguments[] = {whole(a), ferry_element_value(&float_element, &two)};
    OK(ferry_kernel_launch(kernel, ferry_grid_for(COUNT, 0), stream, arguments, 2));
}

static void
test_an_image_is_loaded_and_launched(void **state)
{
    (void)state;
    ferry_context *context = open_fake();
    ferry_buffer *a = make_buffer(context, values, COUNT);
    ferry_kernel_source source = {.name = "scale",
                                  CUDA_IMAGE(scale_image),
                                  .parameters = scale_parameters,
                                  .parameter_count = 2};
    ferry_kernel *kernel;
    OK(ferry_kernel_create(context, &source, &kernel));
    assert_int_equal(fake.fakecuda_live().modules, 1);
    launch_scale(kernel, NULL, a);
    assert_holds(a, doubled);
    OK(ferry_stream_synchronize(ferry_context_stream(context, 1)));
    /* The stream is idle now, so destroying the kernel must unload its code. */
    ferry_kernel_destroy(&kernel);
    assert_int_equal(fake.fakecuda_live().modules, 0);
    ferry_buffer_destroy(&a);
    ferry_context_destroy(&context);
}

/* Destroys a kernel while its launch is queued. Its code must stay loaded until the launch has
 * completed, and must then be unloaded. */
static void
test_code_in_flight_is_not_unloaded(void **state)
{
    (void)state;
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    assert_true(fake.fakecuda_set_mode("lazy"));
    ferry_context *context = open_fake();
    ferry_buffer *a = make_buffer(context, values, COUNT);
    ferry_kernel_source source = {.name = "scale",
                                  CUDA_IMAGE(scale_image),
                                  .parameters = scale_parameters,
                                  .parameter_count = 2};
    ferry_kernel *kernel, *other;
    OK(ferry_kernel_create(context, &source, &kernel));
    ferry_stream *stream;
    OK(ferry_stream_create(context, 1, &stream));
    launch_scale(kernel, stream, a);
    ferry_kernel_destroy(&kernel);
    assert_int_equal(fake.fakecuda_live().modules, 1);
    assert_holds(a, doubled);
    OK(ferry_kernel_create(context, &source, &other));
    assert_int_equal(fake.fakecuda_live().modules, 1);
    ferry_stream_destroy(&stream);
    ferry_buffer_destroy(&a);
    ferry_context_destroy(&context);
    assert_int_equal(fake.fakecuda_live().modules, 0);
    ferry_kernel_destroy(&other);
    ferryi_gpu_release_kept(&ferryi_cuda_vendor);
    assert_true(fake.fakecuda_set_mode("thread"));
}

static void
test_images_that_are_wrong(void **state)
{
    (void)state;
    ferry_context *context = open_fake();
    ferry_kernel *kernel = NULL;
    ferry_kernel_source source = {.name = "scale", CUDA_IMAGE("nonsense")};
    assert_int_equal(ferry_kernel_create(context, &source, &kernel), FERRY_ERROR_DEVICE);
    assert_says("create kernel \"scale\"");
    source = (ferry_kernel_source){.name = "absent", CUDA_IMAGE(scale_image)};
    assert_int_equal(ferry_kernel_create(context, &source, &kernel), FERRY_ERROR_DEVICE);
    assert_says("absent");
    assert_null(kernel);
    assert_int_equal(fake.fakecuda_live().modules, 0);
    /* The kernel has only a host function. The device cannot run it, because the host cannot access
     * the device's memory. */
    source = (ferry_kernel_source){.name = "host_only", .host_function = scale_body};
    OK(ferry_kernel_create(context, &source, &kernel));
    assert_int_equal(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), NULL, NULL, 0),
                     FERRY_ERROR_UNSUPPORTED);
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

static void
test_source_is_compiled_at_creation(void **state)
{
    (void)state;
    ferry_kernel_source source = {.name = "scale",
                                  CUDA_SOURCE(scale_source),
                                  .parameters = scale_parameters,
                                  .parameter_count = 2};
    if (ferry_kernel_check(&source, NULL) == FERRY_ERROR_UNSUPPORTED)
        skip();
    /* The device is newer than the compiler, so the library must load PTX, which the fake driver
     * accepts. */
    fake.fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 99);
    ferry_context *context = open_fake();
    ferry_buffer *a = make_buffer(context, values, COUNT);
    ferry_kernel *kernel = NULL;
    OK(ferry_kernel_create(context, &source, &kernel));
    launch_scale(kernel, NULL, a);
    assert_holds(a, doubled);
    ferry_kernel_destroy(&kernel);
    const ferry_kernel_code broken = {
        .kind = FERRY_CODE_CUDA,
        .code = "extern \"C\" __global__ void scale(float *a) { unknown(); }"};
    source.codes = &broken;
    assert_int_equal(ferry_kernel_create(context, &source, &kernel), FERRY_ERROR_COMPILE);
    assert_says("unknown");
    setenv("FERRY_NVRTC_LIBRARY", "/dev/null/absent.so", 1);
    assert_int_equal(ferry_kernel_create(context, &source, &kernel), FERRY_ERROR_UNSUPPORTED);
    unsetenv("FERRY_NVRTC_LIBRARY");
    ferry_buffer_destroy(&a);
    ferry_context_destroy(&context);
    fake.fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9);
}

/* -- results in the program's memory -------------------------------------------------------------
 */

/* Writes the sum of the first argument, unless a value is negative. */
static ferry_status
total_body(const ferry_call *call, void *user)
{
    size_t count, results;
    const float *a = ferry_call_array(call, &float_element, 0, &count);
    float *sum = ferry_call_array(call, &float_element, 1, &results), total = 0;
    (void)user;
    for (size_t i = 0; i < count; i++) {
        if (a[i] < 0) {
            ferry_call_fail(call, "a value is negative");
            return FERRY_ERROR_OUT_OF_RANGE;
        }
        total += a[i];
    }
    assert(results == 1);
    *sum = total;
    return FERRY_OK;
}

/* A launch on the host device writes a result to memory of the program, with no buffer, and returns
 * the failure of the host function. It does so on the hit path, and also while another scope on the
 * array is open. Other devices refuse the argument. */
static void
test_results_in_memory_of_the_program(void **state)
{
    (void)state;
    static const ferry_parameter parameters[] = {
        {.element = &float_element, .access = FERRY_READ},
        {.element = &float_element, .access = FERRY_OVERWRITE}};
    const char *const devices[] = {"host", "emulated"};
    for (size_t d = 0; d < 2; d++) {
        ferry_context *context = open_context(devices[d]);
        ferry_buffer *a = make_buffer(context, values, 4);
        ferry_kernel *kernel = make_kernel(context, "sum", total_body, NULL, parameters, 2);
        float sum = -1, bad[4] = {1, 2, -3, 4};
        const void *pointer;
        ferry_scope scope;
        ferry_argument arguments[] = {whole(a), ferry_result_argument(&float_element, &sum)};
        assert_int_equal(ferry_kernel_runs_here(kernel, NULL), d == 0);
        assert_int_equal(ferry_kernel_runs_here(NULL, NULL), 0);
        if (d > 0) {
            assert_int_equal(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, arguments, 2),
                             FERRY_ERROR_UNSUPPORTED);
            assert_says("memory for a result");
        }
        for (int scoped = 0; d == 0 && scoped < 2; scoped++) {
            OK(ferry_buffer_copy_from(a, &float_element, 0, 4, values, NULL));
            if (scoped)
                OK(ferry_buffer_open_host(a, &float_element, FERRY_READ, 0, FERRY_REST, &scope,
                                          (void **)&pointer));
            sum = -1;
            OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, arguments, 2));
            assert_true(sum == values[0] + values[1] + values[2] + values[3]);
            if (scoped)
                OK(ferry_scope_close(&scope));
            OK(ferry_buffer_copy_from(a, &float_element, 0, 4, bad, NULL));
            assert_int_equal(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, arguments, 2),
                             FERRY_ERROR_OUT_OF_RANGE);
            assert_says("\"sum\": a value is negative");
            assert_int_equal(ferry_stream_synchronize(ferry_context_stream(context, 1)),
                             FERRY_ERROR_OUT_OF_RANGE);
            OK(ferry_stream_synchronize(ferry_context_stream(context, 1)));
        }
        arguments[0] = ferry_result_argument(&float_element, &sum);
        assert_int_equal(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, arguments, 2),
                         FERRY_ERROR_INVALID_ARGUMENT);
        arguments[0] = whole(a);
        arguments[1] = ferry_result_argument(&int_element, &sum);
        assert_int_equal(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, arguments, 2),
                         FERRY_ERROR_WRONG_TYPE);
        ferry_kernel_destroy(&kernel);
        assert_int_equal(ferry_kernel_runs_here(kernel, NULL), 0);
        ferry_buffer_destroy(&a);
        ferry_context_destroy(&context);
    }
}

/* Adds 1 to the first half of an array. */
static ferry_status
half_body(const ferry_call *call, void *user)
{
    size_t count;
    const float *a = ferry_call_array(call, &float_element, 0, &count);
    float *b = ferry_call_array(call, &float_element, 1, NULL);
    (void)user;
    for (size_t i = 0; i < count / 2; i++)
        b[i] = a[i] + 1;
    return FERRY_OK;
}

static void
count_messages(ferry_log_level level, const char *message, void *user)
{
    (void)message;
    *(int *)user += level <= FERRY_LOG_WARNING;
}

/* A checked run reports a part of an OVERWRITE array that is left unwritten. It reports and changes
 * nothing where the launch works in place, or keeps what is not written. */
static void
test_checked_runs_know_what_may_stay_unwritten(void **state)
{
    (void)state;
    static const ferry_parameter parameters[] = {
        {.element = &float_element, .access = FERRY_READ},
        {.element = &float_element, .access = FERRY_OVERWRITE}};
    const char *const devices[] = {"host", "emulated"};
    for (size_t d = 0; d < 2; d++) {
        int messages = 0;
        const ferry_context_options options = {
            .devices = devices[d], .log = count_messages, .log_user = &messages};
        ferry_context *context;
        float found[16];
        setenv("FERRY_DEBUG", "1", 1);
        OK(ferry_context_create(&options, &context));
        unsetenv("FERRY_DEBUG");
        ferry_buffer *a = make_buffer(context, values, 16), *b = make_buffer(context, values, 16);
        ferry_kernel *kernel = make_kernel(context, "half", half_body, NULL, parameters, 2);
        ferry_argument in_place[] = {whole(a), whole(a)}, both[] = {whole(a), whole(b)};
        ferry_argument kept[] = {whole(a), ferry_argument_with(whole(b), FERRY_UPDATE)};
        OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, in_place, 2));
        OK(ferry_buffer_copy_to(a, &float_element, 0, 16, found, NULL));
        assert_true(found[7] == values[7] + 1 && found[8] == values[8]);
        OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, kept, 2));
        OK(ferry_buffer_copy_to(b, &float_element, 0, 16, found, NULL));
        assert_true(found[7] == values[7] + 2 && found[8] == values[8]);
        assert_int_equal(messages, 0);
        OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, both, 2));
        OK(ferry_stream_synchronize(ferry_context_stream(context, 1)));
        assert_int_equal(messages, 1);
        ferry_kernel_destroy(&kernel);
        ferry_buffer_destroy(&b);
        ferry_buffer_destroy(&a);
        ferry_context_destroy(&context);
    }
}

static int
set_up(void **state)
{
    (void)state;
    float_element.identity = ferry_element_identity(&float_element);
    int_element.identity = ferry_element_identity(&int_element);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)i;
    lazy_register();
    fault_register();
    setenv("FERRY_CUDA_LIBRARY", FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so", 1);
    return fakecuda_find(FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so", &fake) ? 0 : -1;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector_add_end_to_end),
        cmocka_unit_test(test_a_chain_moves_nothing_between),
        cmocka_unit_test(test_reading_does_not_dirty_and_writing_does),
        cmocka_unit_test(test_in_place_is_legal),
        cmocka_unit_test(test_values_are_copied),
        cmocka_unit_test(test_empty_arrays_and_signatures),
        cmocka_unit_test(test_many_arguments),
        cmocka_unit_test(test_wrong_arguments_move_nothing),
        cmocka_unit_test(test_messages_name_the_parameter),
        cmocka_unit_test(test_open_scopes_refuse_a_launch),
        cmocka_unit_test(test_a_kernel_needs_a_body),
        cmocka_unit_test(test_host_functions_have_no_attributes),
        cmocka_unit_test(test_what_a_failing_body_writes_is_lost),
        cmocka_unit_test(test_a_failure_without_a_message_tells_its_number),
        cmocka_unit_test(test_reading_at_once_sees_the_failure),
        cmocka_unit_test(test_failures_travel_with_the_data),
        cmocka_unit_test(test_a_late_failure_loses_nothing_newer),
        cmocka_unit_test(test_an_input_is_lost_for_those_who_read_it_in_time),
        cmocka_unit_test(test_an_input_written_anew_is_not_lost),
        cmocka_unit_test(test_a_queued_launch_takes_constant_memory),
        cmocka_unit_test(test_a_failure_passed_on_keeps_its_message),
        cmocka_unit_test(test_threads_launch_one_kernel),
        cmocka_unit_test(test_everything_may_go_before_the_body_runs),
        cmocka_unit_test(test_a_kernel_outlives_its_context),
        cmocka_unit_test(test_whatever_call_fails),
        cmocka_unit_test(test_two_devices_run_one_kernel),
        cmocka_unit_test(test_an_image_is_loaded_and_launched),
        cmocka_unit_test(test_code_in_flight_is_not_unloaded),
        cmocka_unit_test(test_images_that_are_wrong),
        cmocka_unit_test(test_source_is_compiled_at_creation),
        cmocka_unit_test(test_results_in_memory_of_the_program),
        cmocka_unit_test(test_checked_runs_know_what_may_stay_unwritten),
    };
    return cmocka_run_group_tests_name("launch", tests, set_up, NULL);
}
