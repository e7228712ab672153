/* SPDX-License-Identifier: MIT */
/* A program that uses two libraries, mylib and yourlib, which both use Ferry. The libraries
 * exchange buffers of uint16_t. Elements of the struct type vec3 are copied to the device and back.
 */
#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>
#include <ferry/float.h>

#include "mylib/mylib_kernels.h"
#include "mylib/samples.h"
#include "mylib/vec3_buffer.h"
#include "mylib/vectors.h"
#include "yourlib/yourlib.h"

#define COUNT 1000

static void
must(ferry_status status, int line)
{
    if (status == FERRY_OK)
        return;
    fprintf(stderr, "program.c:%d: %s: %s\n", line, ferry_status_name(status), ferry_last_error());
    exit(1);
}

static void
expect(int condition, int line)
{
    if (condition)
        return;
    fprintf(stderr, "program.c:%d: not as expected\n", line);
    exit(1);
}

#define MUST(call)        must(call, __LINE__)
#define EXPECT(condition) expect(condition, __LINE__)

/* Checks that each library can use a buffer that the other library created, because both describe
 * the same element type. */
static void
exchange_numbers(ferry_context *context)
{
    mylib_uint16_buffer mine = {0}, copied = {0};
    yourlib_uint16_buffer yours = {0};
    uint16_t numbers[COUNT];
    size_t i;

    EXPECT(mylib_uint16_element() != yourlib_uint16_element());
    EXPECT(ferry_element_equal(mylib_uint16_element(), yourlib_uint16_element()));
    MUST(mylib_samples(context, COUNT, &mine));
    MUST(mylib_uint16_sync_to(mine, 1, NULL));
    MUST(yourlib_uint16_from_raw(mine.raw, &yours));
    MUST(yourlib_add(yours, 7));
    MUST(mylib_uint16_sync_to(mine, 1, NULL));
    MUST(mylib_uint16_copy_to(mine, 0, COUNT, numbers, NULL));
    for (i = 0; i < COUNT; i++)
        EXPECT(numbers[i] == i + 7);

    MUST(yourlib_uint16_create(context, COUNT, NULL, &yours));
    MUST(mylib_uint16_from_raw(yours.raw, &copied));
    MUST(mylib_uint16_copy(copied, 0, mine, 0, COUNT, NULL));
    MUST(yourlib_uint16_copy_to(yours, COUNT - 1, 1, numbers, NULL));
    EXPECT(numbers[0] == COUNT + 6);
    mylib_uint16_destroy(&mine);
    yourlib_uint16_destroy(&yours);
}

static void
move_vectors(ferry_context *context)
{
    struct mylib_vec3 vectors[COUNT], one;
    mylib_vec3_buffer buffer = {0}, other = {0};
    ferry_float_buffer wrong = {0};
    size_t i;

    for (i = 0; i < COUNT; i++) {
        vectors[i].x = (float)i;
        vectors[i].v[0] = vectors[i].v[1] = 1;
    }
    MUST(mylib_vec3_create_from(context, COUNT, vectors, NULL, &buffer));
    EXPECT(mylib_vec3_bytes(buffer) == sizeof(vectors));
    EXPECT(mylib_vec3_state(buffer) == FERRY_STATE_HOST_ONLY);
    MUST(mylib_vec3_sync_to(buffer, 1, NULL));
    EXPECT(mylib_vec3_state(buffer) == FERRY_STATE_SYNCHRONIZED);
    vectors[3].v[1] = -1;
    MUST(mylib_vec3_fill(buffer, 10, 2, vectors[3], NULL));
    MUST(mylib_vec3_copy_to(buffer, 11, 1, &one, NULL));
    EXPECT(one.x == 3 && one.v[0] == 1 && one.v[1] == -1);
    MUST(mylib_vec3_view(buffer, 9, 2, &other));
    MUST(mylib_vec3_copy_to(other, 1, 1, &one, NULL));
    EXPECT(one.v[1] == -1);
    EXPECT(ferry_float_from_raw(buffer.raw, &wrong) == FERRY_ERROR_WRONG_TYPE && wrong.raw == NULL);
    mylib_vec3_destroy(&other);
    mylib_vec3_destroy(&buffer);
}

/* Converts elements with the conversion functions of mylib: from and to the caller's memory,
 * between buffers, and between arrays. */
static void
convert_vectors(ferry_context *context)
{
    const float numbers[] = {1.5f, 2.5f, 3.5f};
    mylib_vec3_buffer vectors = {0};
    ferry_float_buffer source = {0};
    ferry_double_buffer squares = {0};
    struct mylib_vec3 got[6];
    double one[2];

    MUST(mylib_vec3_create(context, 6, NULL, &vectors));
    MUST(ferry_float_create_from(context, 3, numbers, NULL, &source));
    MUST(mylib_vec3_copy_from_float(vectors, 0, 3, numbers, FERRY_CONVERT_SATURATE, NULL));
    MUST(mylib_vec3_convert_from_float(vectors, 3, source, 1, 2, FERRY_CONVERT_CHECK, NULL));
    MUST(mylib_vec3_copy_to(vectors, 0, 6, got, NULL));
    EXPECT(got[0].x == 1.5f && got[2].x == 3.5f && got[3].x == 2.5f && got[4].x == 3.5f &&
           got[5].x == 0);
    EXPECT(got[4].v[0] == 0 && got[4].v[1] == 0);
    MUST(ferry_double_create(context, 4, NULL, &squares));
    MUST(mylib_vec3_copy_to_double(vectors, 1, 2, one, FERRY_CONVERT_SATURATE, NULL));
    EXPECT(one[0] == 6.25 && one[1] == 12.25);
    MUST(mylib_vec3_convert_to_double(squares, 1, vectors, 0, 3, FERRY_CONVERT_TRUNCATE, NULL));
    MUST(ferry_double_copy_to(squares, 2, 2, one, NULL));
    EXPECT(one[0] == 6.25 && one[1] == 12.25);
    MUST(mylib_convert_float_to_vec3(got, numbers, 3, FERRY_CONVERT_SATURATE));
    MUST(mylib_convert_vec3_to_double(one, got + 1, 2, FERRY_CONVERT_SATURATE));
    EXPECT(one[0] == 6.25 && one[1] == 12.25);
    ferry_double_destroy(&squares);
    ferry_float_destroy(&source);
    mylib_vec3_destroy(&vectors);
}

static ferry_status
scale_body(const ferry_call *call, void *user)
{
    size_t count, i;
    struct mylib_vec3 *vectors = mylib_vec3_call_array(call, 0, &count);
    struct mylib_vec3 shift = mylib_vec3_call_value(call, 1);
    float factor = ferry_float_call_value(call, 2);

    (void)user;
    for (i = 0; i < count; i++)
        vectors[i].x = vectors[i].x * factor + shift.x;
    return mylib_uint16_call_array(call, 0, NULL) == NULL && mylib_uint16_call_value(call, 1) == 0
               ? FERRY_OK
               : FERRY_ERROR_WRONG_TYPE;
}

/* Launches a kernel over a range of a buffer. The kernel also has a struct and a number as
 * arguments. */
static void
scale_vectors(ferry_context *context)
{
    struct mylib_vec3 vector = {1, {2, 3}};
    mylib_vec3_buffer vectors = {0};
    ferry_parameter parameters[3] = {{0}, {0}, {0}};
    ferry_argument arguments[3];
    ferry_kernel_source source = {0};
    ferry_kernel *kernel = NULL;

    parameters[0].element = parameters[1].element = mylib_vec3_element();
    parameters[2].element = ferry_float_element();
    parameters[0].access = FERRY_UPDATE;
    parameters[1].access = parameters[2].access = (ferry_access)0;
    source.name = "scale";
    source.host_function = scale_body;
    source.parameters = parameters;
    source.parameter_count = 3;
    MUST(ferry_kernel_create(context, &source, &kernel));
    MUST(mylib_vec3_create(context, 8, NULL, &vectors));
    MUST(mylib_vec3_fill(vectors, 0, FERRY_REST, vector, NULL));
    arguments[0] = mylib_vec3_argument_range(vectors, 4, FERRY_REST);
    arguments[1] = mylib_vec3_value(vector);
    arguments[2] = ferry_float_value(10);
    MUST(ferry_kernel_launch(kernel, ferry_grid_for(4, 0), ferry_context_stream(context, 1),
                             arguments, 3));
    MUST(mylib_vec3_copy_to(vectors, 3, 1, &vector, NULL));
    EXPECT(vector.x == 1);
    MUST(mylib_vec3_copy_to(vectors, 4, 1, &vector, NULL));
    EXPECT(vector.x == 11 && vector.v[1] == 3);
    mylib_vec3_destroy(&vectors);
    ferry_kernel_destroy(&kernel);
}

/* Launches a generated kernel over a view. The kernel's host function and its CUDA code are
 * generated from one source. */
static void
scale_from_one_source(ferry_context *context)
{
    struct mylib_vec3 vector = {1, {2, 3}};
    mylib_vec3_buffer vectors = {0}, view = {0};
    mylib_kernels kernels = {0};
    double sum = 0;

    MUST(mylib_kernels_create(context, &kernels));
    MUST(mylib_vec3_create(context, 8, NULL, &vectors));
    MUST(mylib_vec3_fill(vectors, 0, FERRY_REST, vector, NULL));
    MUST(mylib_vec3_view(vectors, 4, 4, &view));
    MUST(mylib_scale(&kernels, ferry_context_stream(context, 1), view, vector, 10));
    MUST(mylib_length(&kernels, ferry_context_stream(context, 1), vectors, &sum));
    EXPECT(sum == 4 * 1 + 4 * 11);
    mylib_vec3_destroy(&view);
    mylib_vec3_destroy(&vectors);
    mylib_kernels_destroy(&kernels);
}

/* Launches a generated kernel, which uses a nested array and an enumerator of mylib, and converts
 * the results. A device that compiles kernels runs the kernel's text, because the host function is
 * taken away. */
static void
raise_on_device(ferry_context *context)
{
    struct mylib_vec3 vector = {1, {2, 3}};
    mylib_vec3_buffer vectors = {0};
    ferry_double_buffer squares = {0};
    ferry_parameter parameters[3];
    ferry_kernel_source source = mylib_raise_source(parameters);
    mylib_kernels kernels = {0};
    ferry_place_info info;
    double square = 0;

    MUST(ferry_context_get_place_info(context, 1, &info));
    MUST(mylib_kernels_create(context, &kernels));
    if (info.language != FERRY_LANGUAGE_NONE) {
        ferry_kernel_destroy(&kernels.raise);
        source.host_function = NULL;
        MUST(ferry_kernel_create(context, &source, &kernels.raise));
    }
    MUST(mylib_vec3_create(context, 8, NULL, &vectors));
    MUST(mylib_vec3_fill(vectors, 0, FERRY_REST, vector, NULL));
    MUST(mylib_raise(&kernels, ferry_context_stream(context, 1), vectors, 0.5f));
    MUST(ferry_double_create(context, 8, NULL, &squares));
    MUST(mylib_vec3_convert_to_double(squares, 0, vectors, 0, 8, FERRY_CONVERT_SATURATE, NULL));
    MUST(ferry_double_copy_to(squares, 7, 1, &square, NULL));
    EXPECT(square == 1 + 4 + 16);
    ferry_double_destroy(&squares);
    mylib_vec3_destroy(&vectors);
    mylib_kernels_destroy(&kernels);
}

/* Calls the functions that mylib offers to programs in other languages. */
static void
shift_vectors(ferry_context *context)
{
    ferry_buffer *line = NULL;
    ferry_float_buffer numbers = {0};
    mylib_vec3_buffer vectors = {0};
    struct mylib_vec3 one;

    MUST(mylib_line(context, 10, &line));
    MUST(mylib_shift(line, 0.5f));
    MUST(mylib_vec3_from_raw(line, &vectors));
    MUST(mylib_vec3_copy_to(vectors, 9, 1, &one, NULL));
    EXPECT(one.x == 9.5f && one.v[1] == 1);
    ferry_buffer_destroy(&line);
    MUST(ferry_float_create(context, 10, NULL, &numbers));
    EXPECT(mylib_shift(numbers.raw, 0.5f) == FERRY_ERROR_WRONG_TYPE);
    ferry_float_destroy(&numbers);
}

int
main(void)
{
    ferry_context *context = NULL;
    ferry_status status = ferry_context_create(NULL, &context);

    if (status == FERRY_ERROR_NO_DEVICE) {
        fprintf(stderr, "%s\n", ferry_last_error());
        return 77; /* Meson skips the test */
    }
    MUST(status);
    exchange_numbers(context);
    move_vectors(context);
    convert_vectors(context);
    scale_vectors(context);
    scale_from_one_source(context);
    raise_on_device(context);
    shift_vectors(context);
    ferry_context_destroy(&context);
    return 0;
}
