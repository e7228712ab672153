/* SPDX-License-Identifier: MIT */

/*
 * Checks that generated kernels compute correct results on a device. With the argument "check", the
 * program compiles every generated CUDA source with NVRTC and launches nothing. It then exits with
 * status 77 if NVRTC is not installed.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>

#include "mylib/several_kernels.h"
#include "tests/support/fakecuda.h"

enum { SKIPPED = 77, COUNT = 5000, ROWS = 20, COLUMNS = 33 };

/* Calls the macro X(name) for each kernel. `name` is the kernel's entry point without the prefix
 * mylib_. */
/* clang-format off */
#define ENTRIES(X)                                                                                 \
    X(linear_sum)                                                                                  \
    X(roots)                                                                                       \
    X(functions)                                                                                   \
    X(shift)                                                                                       \
    X(scale)                                                                                       \
    X(dot) X(dot_into) X(total) X(total_into) X(longest) X(longest_into) X(least)            \
        X(least_into) X(count_above) X(count_above_into) X(lengths) X(move) X(norm)            \
            X(norm_into) X(blur) X(clip) X(slope)
/* clang-format on */

#define FAKE_BODY(name)                                                                            \
    static void fake_##name(void **values, const unsigned *grid, const unsigned *block)            \
    {                                                                                              \
        (void)grid;                                                                                \
        (void)block;                                                                               \
        mylib_##name##_run(values);                                                                \
    }
ENTRIES(FAKE_BODY)

static int failures;

static void
expect(int condition, const char *what, int line)
{
    if (condition)
        return;
    printf("test_kernels.c:%d: %s; %s\n", line, what, ferry_last_error());
    failures++;
}

#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define MUST(call)        expect((call) == FERRY_OK, #call, __LINE__)

/* Registers a host function for each kernel with the fake driver, so that the fake driver can run
 * the kernel. */
static void
register_entries(void)
{
    struct fakecuda fake;
    if (!getenv("FERRY_CUDA_LIBRARY") || !fakecuda_find_driver(&fake))
        return;
#define REGISTER(entry)                                                                            \
    {                                                                                              \
        ferry_parameter parameters[16];                                                            \
        size_t bytes[16];                                                                          \
        const ferry_kernel_source source = mylib_##entry##_source(parameters);                     \
        for (size_t i = 0; i < source.parameter_count; i++)                                        \
            bytes[i] = parameters[i].access != 0 ? sizeof(void *) : parameters[i].element->bytes;  \
        fake.fakecuda_register_kernel(source.name, fake_##entry, (int)source.parameter_count,      \
                                      bytes);                                                      \
    }
    ENTRIES(REGISTER)
}

static int
check_sources(void)
{
#define CHECK(entry)                                                                               \
    {                                                                                              \
        ferry_parameter parameters[16];                                                            \
        const ferry_kernel_source source = mylib_##entry##_source(parameters);                     \
        for (int newest = 0; newest < 2; newest++) {                                               \
            ferry_status status = ferry_kernel_check(&source, newest ? "sm_90" : NULL);            \
            if (status == FERRY_ERROR_UNSUPPORTED)                                                 \
                return SKIPPED;                                                                    \
            if (status != FERRY_OK)                                                                \
                printf("%s: %s\n", source.name, ferry_last_error());                               \
            failures += status != FERRY_OK;                                                        \
        }                                                                                          \
    }
    ENTRIES(CHECK)
    return failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void
test_maps(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static double numbers[COUNT], sums[COUNT];
    ferry_double_buffer x = {0}, z = {0}, shorter = {0};
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = (double)i / 7.0;
    MUST(ferry_double_create_from(context, COUNT, numbers, NULL, &x));
    MUST(ferry_double_create(context, COUNT, NULL, &z));
    MUST(ferry_double_create(context, COUNT - 1, NULL, &shorter));
    MUST(mylib_linear_sum(kernels, stream, 1.0 / 3.0, x, -0.3, x, z));
    MUST(ferry_double_copy_to(z, 0, COUNT, sums, NULL));
    for (size_t i = 0; i < COUNT && failures == 0; i++) {
        volatile double left = 1.0 / 3.0 * numbers[i], right = -0.3 * numbers[i];
        EXPECT(sums[i] == left + right);
    }
    /* One array may be both input and output of a kernel. If arrays have different lengths, the
     * launch must fail. */
    MUST(mylib_linear_sum(kernels, stream, 2.0, z, 0.0, z, z));
    MUST(ferry_double_copy_to(z, 7, 1, sums, NULL));
    EXPECT(fabs(sums[0] - 2.0 * (1.0 / 3.0 - 0.3)) < 1e-12);
    EXPECT(mylib_linear_sum(kernels, stream, 1.0, x, 1.0, x, shorter) == FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(mylib_linear_sum(kernels, stream, 1.0, shorter, 1.0, x, z) == FERRY_ERROR_OUT_OF_RANGE);
    ferry_double_destroy(&shorter);
    ferry_double_destroy(&z);
    ferry_double_destroy(&x);
}

static void
test_structs(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    struct mylib_vec3 by = {.x = 2, .v = {3, 4}}, one = {.x = 1, .v = {5, 6}};
    mylib_large many = {{{0}}};
    mylib_vec3_buffer points = {0};
    float longest = 0;
    many.cells[1][2] = 10;
    MUST(mylib_vec3_create(context, 100, NULL, &points));
    MUST(mylib_vec3_fill(points, 0, FERRY_REST, one, NULL));
    MUST(mylib_shift(kernels, stream, points, by, many, 9));
    MUST(mylib_vec3_copy_to(points, 99, 1, &one, NULL));
    EXPECT(one.x == 13 && one.v[0] == 5 && one.v[1] == 18 && one.label.tag == 9);
    one.x = -20;
    MUST(mylib_vec3_copy_from(points, 50, 1, &one, NULL));
    MUST(mylib_longest(kernels, stream, points, &longest));
    EXPECT(longest == 400);
    mylib_vec3_destroy(&points);
}

static void
test_reductions(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static double numbers[COUNT];
    ferry_double_buffer x = {0}, out = {0}, empty = {0};
    double dot = 0, again = 1, exact = 0, sum = 0;
    for (size_t i = 0; i < COUNT; i++) {
        numbers[i] = (i % 3 == 0 ? -1.0 : 1.0) * (double)(i * i % 1013) / 3.0;
        exact += numbers[i] * numbers[i];
    }
    MUST(ferry_double_create_from(context, COUNT, numbers, NULL, &x));
    MUST(ferry_double_create(context, 1, NULL, &out));
    MUST(ferry_double_create(context, 0, NULL, &empty));
    MUST(mylib_dot(kernels, stream, x, x, &dot));
    EXPECT(fabs(dot - exact) <= COUNT * 2.3e-16 * exact);
    for (int i = 0; i < 3; i++) {
        MUST(mylib_dot_into(kernels, stream, x, x, out));
        MUST(ferry_double_copy_to(out, 0, 1, &again, NULL));
        EXPECT(memcmp(&dot, &again, sizeof(dot)) == 0);
    }
    MUST(mylib_dot(kernels, stream, empty, empty, &sum));
    EXPECT(sum == 0);
    EXPECT(mylib_dot_into(kernels, stream, x, x, empty) == FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(strstr(ferry_last_error(), "\"mylib_dot") != NULL);
    EXPECT(mylib_dot_into(kernels, stream, x, x, (ferry_double_buffer){NULL}) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(ferry_last_error(), "(\"out\") is an empty") != NULL);
    EXPECT(mylib_dot(kernels, stream, x, out, &sum) == FERRY_ERROR_OUT_OF_RANGE);
    ferry_double_destroy(&empty);
    ferry_double_destroy(&out);
    ferry_double_destroy(&x);
}

/* Checks that a kernel can call functions of its source file, including a function that calls a
 * second function. */
static void
test_functions(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    const double sides[3] = {3, 0.25, -5}, others[3] = {4, 0, 12};
    struct mylib_vec3 point = {.x = 1, .v = {5, 6}};
    double lengths[3], norm = 0;
    ferry_double_buffer x = {0}, y = {0}, z = {0};
    mylib_vec3_buffer points = {0};
    MUST(ferry_double_create_from(context, 3, sides, NULL, &x));
    MUST(ferry_double_create_from(context, 3, others, NULL, &y));
    MUST(ferry_double_create(context, 3, NULL, &z));
    MUST(mylib_lengths(kernels, stream, x, y, 0.5, z));
    MUST(ferry_double_copy_to(z, 0, 3, lengths, NULL));
    EXPECT(lengths[0] == 9 && lengths[1] == 4.5 && lengths[2] == 17);
    MUST(mylib_norm(kernels, stream, x, &norm));
    EXPECT(norm == 9 + 0.0625 + 25);
    MUST(mylib_vec3_create_from(context, 1, &point, NULL, &points));
    MUST(mylib_move(kernels, stream, points, 2.5f));
    MUST(mylib_vec3_copy_to(points, 0, 1, &point, NULL));
    EXPECT(point.x == 3.5f && point.v[1] == 6);
    mylib_vec3_destroy(&points);
    ferry_double_destroy(&z);
    ferry_double_destroy(&y);
    ferry_double_destroy(&x);
}

static float
near(const float *plate, long row, long column)
{
    row = row < 0 ? 0 : row >= ROWS ? ROWS - 1 : row;
    column = column < 0 ? 0 : column >= COLUMNS ? COLUMNS - 1 : column;
    return plate[row * COLUMNS + column];
}

static void
test_stencils(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static float plate[ROWS * COLUMNS], blurred[ROWS * COLUMNS];
    ferry_float_buffer now = {0}, next = {0};
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        plate[i] = (float)(i * 7919 % 997) / 10.0f;
    MUST(ferry_float_create_from(context, ROWS * COLUMNS, plate, NULL, &now));
    MUST(ferry_float_create(context, ROWS * COLUMNS, NULL, &next));
    /* Three launches compute all rows. Each launch also reads the two rows above its rows and the
     * two rows below them. */
    MUST(mylib_blur(kernels, ROWS, COLUMNS, 0, 7, stream, now, 0.25f, next));
    MUST(mylib_blur(kernels, ROWS, COLUMNS, 7, 1, stream, now, 0.25f, next));
    MUST(mylib_blur(kernels, ROWS, COLUMNS, 8, FERRY_REST, stream, now, 0.25f, next));
    MUST(mylib_blur(kernels, ROWS, COLUMNS, ROWS, FERRY_REST, stream, now, 0.25f, next));
    MUST(ferry_float_copy_to(next, 0, ROWS * COLUMNS, blurred, NULL));
    for (long row = 0; row < ROWS; row++) {
        for (long column = 0; column < COLUMNS && failures == 0; column++) {
            volatile float middle = 0.25f * near(plate, row, column);
            EXPECT(blurred[row * COLUMNS + column] ==
                   middle + (near(plate, row - 2, column) + near(plate, row + 2, column)) +
                       (near(plate, row, column - 2) + near(plate, row, column + 2)) +
                       near(plate, row - 1, column + 1));
        }
    }
    EXPECT(mylib_blur(kernels, ROWS, COLUMNS, 1, ROWS, stream, now, 0.25f, next) ==
           FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(mylib_blur(kernels, ROWS + 1, COLUMNS, 0, FERRY_REST, stream, now, 0.25f, next) ==
           FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(mylib_blur(kernels, ROWS, COLUMNS, 1, (size_t)-2, stream, now, 0.25f, next) ==
           FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(mylib_blur(kernels, 10, COLUMNS, 5, 10, stream, now, 0.25f, next) ==
           FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(strstr(ferry_last_error(), "\"mylib_blur\": rows 5 to 15, but the arrays have 10") !=
           NULL);
    EXPECT(mylib_blur(kernels, SIZE_MAX / 2, COLUMNS, 0, 1, stream, now, 0.25f, next) ==
           FERRY_ERROR_OVERFLOW);
    ferry_float_destroy(&next);
    ferry_float_destroy(&now);
}

/* Checks which overlaps of arguments a launch refuses, also through views. */
static void
test_overlaps(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    const ferry_buffer_options named = {.name = "plate"};
    ferry_float_buffer plate = {0}, above = {0}, below = {0};
    ferry_double_buffer x = {0}, front = {0}, back = {0}, again = {0};
    MUST(ferry_float_create(context, ROWS * COLUMNS, &named, &plate));
    MUST(ferry_float_view(plate, 0, 10 * COLUMNS, &above));
    MUST(ferry_float_view(plate, 10 * COLUMNS, 10 * COLUMNS, &below));
    EXPECT(mylib_blur(kernels, ROWS, COLUMNS, 0, ROWS, stream, plate, 1, plate) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(ferry_last_error(), "\"now\"") && strstr(ferry_last_error(), "\"next\"") &&
           strstr(ferry_last_error(), "buffer \"plate\""));
    EXPECT(mylib_blur(kernels, 10, COLUMNS, 0, 10, stream, plate, 1, above) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT(mylib_blur(kernels, ROWS, COLUMNS, 3, 1, stream, plate, 1, plate) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    MUST(mylib_blur(kernels, 10, COLUMNS, 0, 10, stream, above, 1, below));
    /* A map may be given the same elements twice, and no others of the array that it writes. */
    MUST(ferry_double_create(context, COUNT, NULL, &x));
    MUST(ferry_double_view(x, 0, COUNT - 1, &front));
    MUST(ferry_double_view(x, 1, COUNT - 1, &back));
    MUST(ferry_double_view(x, 1, COUNT - 1, &again));
    MUST(mylib_linear_sum(kernels, stream, 1, x, 1, x, x));
    MUST(mylib_linear_sum(kernels, stream, 1, back, 1, again, back));
    EXPECT(mylib_linear_sum(kernels, stream, 1, front, 1, back, back) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT(mylib_linear_sum(kernels, stream, 1, back, 1, back, front) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    /* A map that reads other elements may not write the array. */
    EXPECT(mylib_slope(kernels, stream, x, x) == FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(ferry_last_error(), "\"x\"") && strstr(ferry_last_error(), "\"z\""));
    ferry_double_destroy(&again);
    ferry_double_destroy(&back);
    ferry_double_destroy(&front);
    ferry_double_destroy(&x);
    ferry_float_destroy(&below);
    ferry_float_destroy(&above);
    ferry_float_destroy(&plate);
}

/* Checks that constants have the values of the file and of the C library. */
static void
test_constants(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    const double numbers[3] = {1, 200, -INFINITY};
    double clipped[3];
    ferry_double_buffer x = {0}, z = {0};
    MUST(ferry_double_create_from(context, 3, numbers, NULL, &x));
    MUST(ferry_double_create(context, 3, NULL, &z));
    MUST(mylib_clip(kernels, stream, x));
    MUST(ferry_double_copy_to(x, 0, 3, clipped, NULL));
    EXPECT(clipped[0] == 1 && clipped[1] == 100 && clipped[2] == -1.79769313486231570815e+308);
    MUST(mylib_slope(kernels, stream, x, z));
    MUST(ferry_double_copy_to(z, 0, 2, clipped, NULL));
    EXPECT(clipped[0] == (100 - 1) * 3.14159265358979323846);
    ferry_double_destroy(&z);
    ferry_double_destroy(&x);
}

int
main(int argc, char **argv)
{
    ferry_context *context = NULL;
    mylib_several kernels = {0};
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return check_sources();
    register_entries();
    MUST(ferry_context_create(NULL, &context));
    MUST(mylib_several_create(context, &kernels));
    if (failures == 0) {
        test_maps(context, &kernels);
        test_structs(context, &kernels);
        test_reductions(context, &kernels);
        test_functions(context, &kernels);
        test_stencils(context, &kernels);
        test_overlaps(context, &kernels);
        test_constants(context, &kernels);
    }
    mylib_several_destroy(&kernels);
    mylib_several_destroy(&kernels);
    mylib_several_destroy(NULL);
    EXPECT(!kernels.dot && !kernels.dot_into && !kernels.context);
    ferry_context_destroy(&context);
    return failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
