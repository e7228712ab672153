/* SPDX-License-Identifier: MIT */

/*
 * Checks that generated kernels compute correct results on a device. With the argument "check", the
 * program compiles every generated CUDA source with NVRTC and launches nothing. It then exits with
 * status 77 if NVRTC is not installed.
 *
 * With COUNT_LAUNCHES, checks that every kernel ran as code of the device, and none as a host
 * function. It then exits with status 77 if there is no such device.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>

#include "mylib/several_kernels.h"
#include "tests/support/fakecuda.h"
#ifdef COUNT_LAUNCHES
#include "tests/gen/count_launches.h"
#endif

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
            X(norm_into) X(blur) X(clip) X(slope) X(look_up) X(classify) X(special) X(swap_pairs) X(scatter) X(row_sum)   \
                X(row_sum_into) X(smooth) X(step) X(extent) X(tally) X(tally_floats) \
                    X(relax) X(heat) X(wave) X(solid) X(softened) X(painted) X(field_sum) X(field_sum_into) X(field_step)
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
        ferry_parameter parameters[24];                                                            \
        size_t bytes[24];                                                                          \
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
        ferry_parameter parameters[24];                                                            \
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
    EXPECT(strstr(ferry_last_error(), "\"out\": it is an empty") != NULL);
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

static ferry_box
box_of(size_t first_row, size_t first_column, size_t rows, size_t columns)
{
    const ferry_box box = {{0, first_row, first_column}, {1, rows, columns}};
    return box;
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
    const ferry_box parts[] = {box_of(0, 0, 7, FERRY_REST), box_of(7, 0, 1, 20),
                               box_of(7, 20, 1, FERRY_REST), box_of(8, 0, FERRY_REST, COLUMNS),
                               box_of(ROWS, 0, FERRY_REST, FERRY_REST)};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        MUST(mylib_blur(kernels, ROWS, COLUMNS, &parts[i], stream, now, 0.25f, next));
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
    const ferry_box low = box_of(1, 0, ROWS, COLUMNS), high = box_of(1, 0, (size_t)-2, COLUMNS),
                    wide = box_of(0, 3, 1, COLUMNS - 2), beyond = box_of(5, 0, 10, COLUMNS);
    EXPECT(mylib_blur(kernels, ROWS, COLUMNS, &low, stream, now, 0.25f, next) ==
           FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(mylib_blur(kernels, ROWS, COLUMNS, &high, stream, now, 0.25f, next) ==
           FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(mylib_blur(kernels, ROWS, COLUMNS, &wide, stream, now, 0.25f, next) ==
           FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(strstr(ferry_last_error(), "31 columns from number 3 on, but the arrays have 33") !=
           NULL);
    EXPECT(mylib_blur(kernels, ROWS + 1, COLUMNS, NULL, stream, now, 0.25f, next) ==
           FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(mylib_blur(kernels, 10, COLUMNS, &beyond, stream, now, 0.25f, next) ==
           FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(strstr(ferry_last_error(),
                  "\"mylib_blur\": 10 rows from number 5 on, but the arrays have 10") != NULL);
    EXPECT(mylib_blur(kernels, SIZE_MAX / 2, COLUMNS, NULL, stream, now, 0.25f, next) ==
           FERRY_ERROR_OVERFLOW);
    ferry_float_destroy(&next);
    ferry_float_destroy(&now);
}

/* Checks arrays that are passed whole, values that stand in buffers, and counts of launches. */
static void
test_whole_arrays(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    const double at[5] = {-1, 0, 0.5, 2, 9}, sorted[3] = {0, 1, 3};
    const struct mylib_vec3 ends[3] = {{.x = 10}, {.x = 20}, {.x = 40}};
    const float scale = 2;
    float found[5];
    ferry_double_buffer keys = {0}, x = {0};
    mylib_vec3_buffer values = {0};
    ferry_float_buffer factor = {0}, y = {0}, shorter = {0};
    MUST(ferry_double_create_from(context, 3, sorted, NULL, &keys));
    MUST(mylib_vec3_create_from(context, 3, ends, NULL, &values));
    MUST(ferry_double_create_from(context, 5, at, NULL, &x));
    MUST(ferry_float_create_from(context, 1, &scale, NULL, &factor));
    MUST(ferry_float_create(context, 5, NULL, &y));
    MUST(ferry_float_create(context, 4, NULL, &shorter));
    MUST(mylib_look_up(kernels, stream, keys, values, x, factor, y));
    MUST(ferry_float_copy_to(y, 0, 5, found, NULL));
    EXPECT(found[0] == 20 && found[1] == 20 && found[2] == 30 && found[3] == 60 && found[4] == 80);
    EXPECT(mylib_look_up(kernels, stream, keys, values, x, factor, shorter) ==
           FERRY_ERROR_OUT_OF_RANGE);
    /* A value stands in the first element of its buffer, so an empty buffer has none. */
    ferry_float_destroy(&factor);
    MUST(ferry_float_create(context, 0, NULL, &factor));
    EXPECT(mylib_look_up(kernels, stream, keys, values, x, factor, y) == FERRY_ERROR_OUT_OF_RANGE);
    ferry_float_destroy(&shorter);
    ferry_float_destroy(&y);
    ferry_float_destroy(&factor);
    ferry_double_destroy(&x);
    mylib_vec3_destroy(&values);
    ferry_double_destroy(&keys);
}

static void
test_scattering(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static uint32_t reversed[COUNT];
    static float numbers[COUNT], turned[COUNT];
    ferry_complex_double state[8], swapped[8];
    ferry_uint32_buffer at = {0};
    ferry_float_buffer x = {0}, y = {0};
    ferry_complex_double_buffer amplitudes = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        reversed[i] = COUNT - 1 - i;
        numbers[i] = (float)i;
    }
    for (int i = 0; i < 8; i++) {
        state[i].real = i;
        state[i].imaginary = -i;
    }
    MUST(ferry_uint32_create_from(context, COUNT, reversed, NULL, &at));
    MUST(ferry_float_create_from(context, COUNT, numbers, NULL, &x));
    MUST(ferry_float_create(context, COUNT, NULL, &y));
    MUST(mylib_scatter(kernels, stream, at, x, y));
    MUST(ferry_float_copy_to(y, 0, COUNT, turned, NULL));
    for (size_t i = 0; i < COUNT && failures == 0; i++)
        EXPECT(turned[i] == (float)(COUNT - 1 - i));
    MUST(ferry_complex_double_create_from(context, 8, state, NULL, &amplitudes));
    MUST(mylib_swap_pairs(kernels, 4, stream, amplitudes, 2));
    MUST(ferry_complex_double_copy_to(amplitudes, 0, 8, swapped, NULL));
    for (int i = 0; i < 8; i++)
        EXPECT(swapped[i].real == (i ^ 2) && swapped[i].imaginary == -(i ^ 2));
    ferry_complex_double_destroy(&amplitudes);
    ferry_float_destroy(&y);
    ferry_float_destroy(&x);
    ferry_uint32_destroy(&at);
}

/* The sum of a part, whose begin is in a buffer and whose length is the count of the launch. */
static void
test_counts(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    const uint64_t from = 100;
    double numbers[300], twos[50], sum = 0, kept = 0;
    ferry_double_buffer x = {0}, weight = {0}, out = {0};
    ferry_uint64_buffer first = {0};
    for (int i = 0; i < 300; i++)
        numbers[i] = i;
    for (int i = 0; i < 50; i++)
        twos[i] = 2;
    MUST(ferry_double_create_from(context, 300, numbers, NULL, &x));
    MUST(ferry_double_create_from(context, 50, twos, NULL, &weight));
    MUST(ferry_uint64_create_from(context, 1, &from, NULL, &first));
    MUST(ferry_double_create(context, 1, NULL, &out));
    MUST(mylib_row_sum(kernels, 50, stream, x, first, weight, &sum));
    EXPECT(sum == 2 * (50 * 100 + 49 * 25));
    MUST(mylib_row_sum_into(kernels, 2, stream, x, first, weight, out));
    MUST(ferry_double_copy_to(out, 0, 1, &kept, NULL));
    EXPECT(kept == 2 * (100 + 101));
    MUST(mylib_row_sum(kernels, 0, stream, x, first, weight, &sum));
    EXPECT(sum == 0);
    EXPECT(mylib_row_sum(kernels, 51, stream, x, first, weight, &sum) == FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(strstr(ferry_last_error(), "argument 2") != NULL);
    ferry_uint64_destroy(&first);
    ferry_double_destroy(&out);
    ferry_double_destroy(&weight);
    ferry_double_destroy(&x);
}

/* A stencil whose weights stand in an array of their count, and whose factor in a buffer. */
static void
test_stencil_with_table(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    const float row[4] = {1, 2, 4, 8}, weights[3] = {1, 10, 100}, scale = 0.5f;
    float smoothed[4];
    ferry_float_buffer now = {0}, table = {0}, factor = {0}, next = {0};
    MUST(ferry_float_create_from(context, 4, row, NULL, &now));
    MUST(ferry_float_create_from(context, 3, weights, NULL, &table));
    MUST(ferry_float_create_from(context, 1, &scale, NULL, &factor));
    MUST(ferry_float_create(context, 4, NULL, &next));
    MUST(mylib_smooth(kernels, 1, 4, NULL, stream, now, table, factor, next));
    MUST(ferry_float_copy_to(next, 0, 4, smoothed, NULL));
    EXPECT(smoothed[0] == 105.5f && smoothed[1] == 210.5f && smoothed[2] == 421 &&
           smoothed[3] == 442);
    ferry_float_destroy(&next);
    ferry_float_destroy(&factor);
    ferry_float_destroy(&table);
    ferry_float_destroy(&now);
}

/* The number of launches so far, of a driver that counts them; 0 on other devices. */
static uint64_t
launches(void)
{
    struct fakecuda fake;
    if (!getenv("FERRY_CUDA_LIBRARY") || !fakecuda_find_driver(&fake))
        return 0;
    return fake.fakecuda_calls_of("cuLaunchKernel");
}

/* Returns the number of allocations from the pools of the host and of the device. */
static uint64_t
allocations(ferry_context *context)
{
    uint64_t all = 0;
    for (int place = 0; place < 2; place++) {
        ferry_pool *pool = NULL;
        ferry_pool_stats stats;
        MUST(ferry_context_pool(context, place, FERRY_MEMORY_DEFAULT, &pool));
        MUST(ferry_pool_get_stats(pool, &stats));
        all += stats.allocations;
    }
    return all;
}

/* Where the host function runs before the launch returns, results need no temporary buffer. */
static void
test_results_in_place(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    const double numbers[3] = {1, 2, 4}, half = 0.5;
    ferry_double_buffer alpha = {0}, x = {0}, r = {0}, p = {0}, w = {0}, rr = {0}, most = {0};
    ferry_uint64_buffer many = {0};
    mylib_step_results results = {0};
    uint64_t before = 0;
    if (!ferry_kernel_runs_here(kernels->step, stream))
        return;
    MUST(ferry_double_create_from(context, 1, &half, NULL, &alpha));
    MUST(ferry_double_create_from(context, 3, numbers, NULL, &x));
    MUST(ferry_double_create_from(context, 3, numbers, NULL, &r));
    MUST(ferry_double_create_from(context, 3, numbers, NULL, &p));
    MUST(ferry_double_create_from(context, 3, numbers, NULL, &w));
    MUST(ferry_double_create(context, 1, NULL, &rr));
    MUST(ferry_double_create(context, 1, NULL, &most));
    MUST(ferry_uint64_create(context, 1, NULL, &many));
    for (int launch = 0; launch < 2; launch++) {
        /* The first launch may provide memory for buffers that have none. */
        before = allocations(context);
        MUST(mylib_step_into(kernels, stream, alpha, x, r, p, w, rr, most, many));
        MUST(mylib_step(kernels, stream, alpha, x, r, p, w, &results));
    }
    EXPECT(allocations(context) == before);
    EXPECT(results.largest == 4 && results.many == 2); /* r is -1, -2, -4 after four steps */
    ferry_uint64_destroy(&many);
    ferry_double_destroy(&most);
    ferry_double_destroy(&rr);
    ferry_double_destroy(&w);
    ferry_double_destroy(&p);
    ferry_double_destroy(&r);
    ferry_double_destroy(&x);
    ferry_double_destroy(&alpha);
}

/* A map with three results is one launch, and gives what separate loops give. */
static void
test_results(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static double numbers[COUNT], weights[COUNT], left[COUNT];
    const double half = 0.5;
    ferry_double_buffer alpha = {0}, x = {0}, r = {0}, p = {0}, w = {0}, rr = {0}, most = {0};
    ferry_uint64_buffer many = {0};
    mylib_step_results results = {0}, again = {0};
    double sum = 0, largest = 0;
    uint64_t above = 0, before, launched;
    for (size_t i = 0; i < COUNT; i++) {
        numbers[i] = (double)(i * i % 1013) - 500;
        weights[i] = (double)(i % 7);
        left[i] = numbers[i] - 0.5 * weights[i];
        sum += left[i] * left[i];
        largest = fmax(largest, fabs(left[i]));
        above += fabs(left[i]) > 1.0;
    }
    MUST(ferry_double_create_from(context, 1, &half, NULL, &alpha));
    MUST(ferry_double_create_from(context, COUNT, numbers, NULL, &x));
    MUST(ferry_double_create_from(context, COUNT, numbers, NULL, &r));
    MUST(ferry_double_create_from(context, COUNT, numbers, NULL, &p));
    MUST(ferry_double_create_from(context, COUNT, weights, NULL, &w));
    MUST(ferry_double_create(context, 1, NULL, &rr));
    MUST(ferry_double_create(context, 1, NULL, &most));
    MUST(ferry_uint64_create(context, 1, NULL, &many));
    before = launches();
    MUST(mylib_step(kernels, stream, alpha, x, r, p, w, &results));
    launched = launches() - before;
    EXPECT(launched == (before > 0));
    EXPECT(results.rr == sum && results.largest == largest && results.many == above);
    MUST(ferry_double_copy_to(r, COUNT - 1, 1, &sum, NULL));
    EXPECT(sum == left[COUNT - 1]);
    MUST(ferry_double_copy_to(x, COUNT - 1, 1, &sum, NULL));
    EXPECT(sum == 1.5 * numbers[COUNT - 1]);
    /* The same into buffers, of which the first is the value of the second step. */
    MUST(ferry_double_copy_from(r, 0, COUNT, numbers, NULL));
    MUST(mylib_step_into(kernels, stream, alpha, x, r, p, w, rr, most, many));
    MUST(ferry_double_copy_to(rr, 0, 1, &again.rr, NULL));
    MUST(ferry_uint64_copy_to(many, 0, 1, &again.many, NULL));
    EXPECT(again.rr == results.rr && again.many == above);
    EXPECT(mylib_step_into(kernels, stream, rr, x, r, p, w, rr, most, many) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(ferry_last_error(), "\"alpha\"") && strstr(ferry_last_error(), "\"rr\""));
    EXPECT(mylib_step(kernels, stream, alpha, x, rr, p, w, &again) == FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(again.rr == results.rr);
    ferry_uint64_destroy(&many);
    ferry_double_destroy(&most);
    ferry_double_destroy(&rr);
    ferry_double_destroy(&w);
    ferry_double_destroy(&p);
    ferry_double_destroy(&r);
    ferry_double_destroy(&x);
    ferry_double_destroy(&alpha);
}

/* Results without a map, of narrow numbers, of none, and of fewer than a block. */
static void
test_extents(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    int16_t numbers[37];
    ferry_int16_buffer x = {0};
    mylib_extent_results found = {0};
    for (int i = 0; i < 37; i++)
        numbers[i] = (int16_t)(1000 * i - 20000);
    MUST(ferry_int16_create_from(context, 37, numbers, NULL, &x));
    MUST(mylib_extent(kernels, 37, stream, x, &found));
    EXPECT(found.least == -20000 && found.most == 16000 && found.total == -74000);
    MUST(mylib_extent(kernels, 5, stream, x, &found));
    EXPECT(found.least == -20000 && found.most == 16000 && found.total == -90000);
    MUST(mylib_extent(kernels, 0, stream, x, &found));
    EXPECT(found.least == INT16_MAX && found.most == INT16_MIN && found.total == 0);
    ferry_int16_destroy(&x);
}

/* Many elements change the same few ones. */
static void
test_atomics(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static int numbers[COUNT];
    int32_t tally[3], found[3] = {0};
    uint32_t most[3];
    int64_t least[3];
    uint64_t sums[3], sum[3] = {0};
    float halves[4] = {0, 0, 0, 0};
    double lowest[3] = {1, 1, 1}, total = 0;
    ferry_int_buffer keys = {0}, counts = {0};
    ferry_uint32_buffer top = {0};
    ferry_int64_buffer low = {0};
    ferry_uint64_buffer added = {0};
    ferry_float_buffer parts = {0};
    ferry_double_buffer minima = {0}, whole = {0};
    for (int i = 0; i < COUNT; i++) {
        numbers[i] = i * 7919 % 4001;
        found[numbers[i] % 3]++;
        sum[numbers[i] % 3] += numbers[i] > 10 ? (uint64_t)numbers[i] : 0;
        total += numbers[i];
    }
    MUST(ferry_int_create_from(context, COUNT, numbers, NULL, &keys));
    MUST(ferry_int_create(context, 3, NULL, &counts));
    MUST(ferry_uint32_create(context, 3, NULL, &top));
    MUST(ferry_int64_create(context, 3, NULL, &low));
    MUST(ferry_uint64_create(context, 3, NULL, &added));
    MUST(mylib_tally(kernels, stream, keys, counts, top, low, added));
    MUST(ferry_int_copy_to(counts, 0, 3, tally, NULL));
    MUST(ferry_uint32_copy_to(top, 0, 3, most, NULL));
    MUST(ferry_int64_copy_to(low, 0, 3, least, NULL));
    MUST(ferry_uint64_copy_to(added, 0, 3, sums, NULL));
    EXPECT(memcmp(tally, found, sizeof(tally)) == 0 && memcmp(sums, sum, sizeof(sums)) == 0);
    EXPECT(most[0] == 3999 && most[1] == 4000 && most[2] == 3998 && least[1] == -4000);
    MUST(ferry_float_create_from(context, 4, halves, NULL, &parts));
    MUST(ferry_double_create_from(context, 3, lowest, NULL, &minima));
    MUST(ferry_double_create(context, 1, NULL, &whole));
    MUST(mylib_tally_floats(kernels, stream, keys, parts, minima, whole));
    MUST(ferry_float_copy_to(parts, 0, 4, halves, NULL));
    MUST(ferry_double_copy_to(minima, 0, 3, lowest, NULL));
    EXPECT(halves[0] == 0.5f * (float)found[0] && halves[2] == 0.5f * (float)found[2]);
    EXPECT(halves[3] == 2 && lowest[0] == -0.25 * 3999 && lowest[1] == -1000);
    MUST(ferry_double_copy_to(whole, 0, 1, lowest, NULL));
    EXPECT(lowest[0] == total);
    ferry_double_destroy(&whole);
    ferry_double_destroy(&minima);
    ferry_float_destroy(&parts);
    ferry_uint64_destroy(&added);
    ferry_int64_destroy(&low);
    ferry_uint32_destroy(&top);
    ferry_int_destroy(&counts);
    ferry_int_destroy(&keys);
}

/* A return ends one element, and the others go on. */
static void
test_returns(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    const int edges[6] = {0, 2, 3, 4, 4, 6}, ends[6] = {1, 2, 3, 4, -1, 0};
    const int far = 99;
    const struct mylib_vec3 unused = {.x = 1};
    int found[5], first = 0;
    bool seen[5];
    ferry_int_buffer starts = {0}, targets = {0}, levels = {0};
    ferry_bool_buffer reached = {0};
    MUST(ferry_int_create_from(context, 6, edges, NULL, &starts));
    MUST(ferry_int_create_from(context, 6, ends, NULL, &targets));
    MUST(ferry_int_create(context, 5, NULL, &levels));
    MUST(ferry_int_fill(levels, 0, FERRY_REST, far, NULL));
    MUST(ferry_int_copy_from(levels, 0, 1, &first, NULL));
    MUST(ferry_bool_create(context, 5, NULL, &reached));
    MUST(mylib_relax(kernels, stream, starts, targets, levels, 0, reached, unused));
    MUST(ferry_bool_copy_to(reached, 0, 5, seen, NULL));
    EXPECT(seen[0] && !seen[1] && !seen[2] && !seen[3] && !seen[4]);
    MUST(mylib_relax(kernels, stream, starts, targets, levels, 1, reached, unused));
    MUST(mylib_relax(kernels, stream, starts, targets, levels, 2, reached, unused));
    MUST(ferry_int_copy_to(levels, 0, 5, found, NULL));
    EXPECT(found[0] == 0 && found[1] == 1 && found[2] == 1 && found[3] == 2 && found[4] == 2);
    MUST(ferry_bool_copy_to(reached, 0, 5, seen, NULL));
    EXPECT(!seen[0] && !seen[3] && !seen[4]);
    ferry_bool_destroy(&reached);
    ferry_int_destroy(&levels);
    ferry_int_destroy(&targets);
    ferry_int_destroy(&starts);
}

/* A whole array, or a value in a buffer, must not overlap an array that is written, also as views
 * of one buffer. */
static void
test_whole_overlaps(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    ferry_float_buffer y = {0}, front = {0}, back = {0}, factor = {0};
    ferry_double_buffer keys = {0}, x = {0};
    ferry_uint32_buffer at = {0};
    mylib_vec3_buffer values = {0};
    MUST(ferry_float_create(context, 20, NULL, &y));
    MUST(ferry_float_view(y, 0, 10, &front));
    MUST(ferry_float_view(y, 10, 10, &back));
    MUST(ferry_float_view(y, 5, 1, &factor));
    MUST(ferry_uint32_create(context, 10, NULL, &at));
    MUST(ferry_double_create(context, 2, NULL, &keys));
    MUST(ferry_double_create(context, 10, NULL, &x));
    MUST(mylib_vec3_create(context, 2, NULL, &values));
    EXPECT(mylib_scatter(kernels, stream, at, front, y) == FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(ferry_last_error(), "\"x\"") && strstr(ferry_last_error(), "\"y\""));
    EXPECT(mylib_scatter(kernels, stream, at, front, front) == FERRY_ERROR_INVALID_ARGUMENT);
    MUST(mylib_scatter(kernels, stream, at, front, back));
    EXPECT(mylib_look_up(kernels, stream, keys, values, x, factor, front) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(ferry_last_error(), "\"scale\"") && strstr(ferry_last_error(), "\"y\""));
    MUST(mylib_look_up(kernels, stream, keys, values, x, factor, back));
    mylib_vec3_destroy(&values);
    ferry_double_destroy(&x);
    ferry_double_destroy(&keys);
    ferry_uint32_destroy(&at);
    ferry_float_destroy(&factor);
    ferry_float_destroy(&back);
    ferry_float_destroy(&front);
    ferry_float_destroy(&y);
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
    const ferry_box fourth = box_of(3, 0, 1, COLUMNS);
    EXPECT(mylib_blur(kernels, ROWS, COLUMNS, NULL, stream, plate, 1, plate) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(ferry_last_error(), "\"now\"") && strstr(ferry_last_error(), "\"next\"") &&
           strstr(ferry_last_error(), "buffer \"plate\""));
    EXPECT(mylib_blur(kernels, 10, COLUMNS, NULL, stream, plate, 1, above) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    EXPECT(mylib_blur(kernels, ROWS, COLUMNS, &fourth, stream, plate, 1, plate) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    MUST(mylib_blur(kernels, 10, COLUMNS, NULL, stream, above, 1, below));
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

/* A stencil of the cells that have all neighbours, in two boxes. The ring keeps its values, also of
 * the array that is overwritten. */
static void
test_inner_cells(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static float plate[ROWS * COLUMNS], old[ROWS * COLUMNS], warmed[ROWS * COLUMNS];
    static int counted[ROWS * COLUMNS];
    const ferry_box left = box_of(1, 1, FERRY_REST, 9), right = box_of(1, 10, ROWS - 2, FERRY_REST);
    const ferry_box ring = box_of(0, 1, 2, 3);
    ferry_float_buffer now = {0}, next = {0};
    ferry_int_buffer visits = {0};
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        plate[i] = (float)(i * 7919 % 997) / 8.0f;
        old[i] = -(float)i;
    }
    MUST(ferry_float_create_from(context, ROWS * COLUMNS, plate, NULL, &now));
    MUST(ferry_float_create_from(context, ROWS * COLUMNS, old, NULL, &next));
    MUST(ferry_int_create(context, ROWS * COLUMNS, NULL, &visits));
    MUST(mylib_heat(kernels, ROWS, COLUMNS, &left, stream, now, 0.25f, next, visits));
    MUST(mylib_heat(kernels, ROWS, COLUMNS, &right, stream, now, 0.25f, next, visits));
    MUST(ferry_float_copy_to(next, 0, ROWS * COLUMNS, warmed, NULL));
    MUST(ferry_int_copy_to(visits, 0, ROWS * COLUMNS, counted, NULL));
    for (long row = 0; row < ROWS; row++) {
        for (long column = 0; column < COLUMNS && failures == 0; column++) {
            long i = row * COLUMNS + column;
            bool inner = row > 0 && row < ROWS - 1 && column > 0 && column < COLUMNS - 1;
            float sum = (near(plate, row - 1, column) + near(plate, row + 1, column)) +
                        (near(plate, row, column - 1) + near(plate, row, column + 1)) -
                        4 * plate[i];
            EXPECT(warmed[i] == (inner ? plate[i] + 0.25f * sum : old[i]));
            EXPECT(counted[i] == (inner ? row + 10 * column : 0));
        }
    }
    MUST(mylib_heat(kernels, ROWS, COLUMNS, NULL, stream, now, 0.25f, next, visits));
    MUST(ferry_int_copy_to(visits, COLUMNS + 2, 1, counted, NULL));
    EXPECT(counted[0] == 2 * (1 + 10 * 2));
    MUST(mylib_heat(kernels, 2, COLUMNS, NULL, stream, now, 0.25f, next, visits)); /* no cell */
    EXPECT(mylib_heat(kernels, ROWS, COLUMNS, &ring, stream, now, 0.25f, next, visits) ==
           FERRY_ERROR_OUT_OF_RANGE);
    EXPECT(
        strstr(ferry_last_error(),
               "2 rows from number 0 on, but of 20 only those from 1 to 18 have all neighbours") !=
        NULL);
    ferry_int_destroy(&visits);
    ferry_float_destroy(&next);
    ferry_float_destroy(&now);
}

enum {
    PLANES = 5,
    SOLID_ROWS = 6,
    SOLID_COLUMNS = 19,
    SOLID = PLANES * SOLID_ROWS * SOLID_COLUMNS
};

/* The index of a cell of the solid, from indices that have left it by wrapping or by stopping. */
static size_t
cell_of(long plane, long row, long column, bool wraps)
{
    const long at[3] = {plane, row, column}, sizes[3] = {PLANES, SOLID_ROWS, SOLID_COLUMNS};
    size_t cell = 0;
    for (int d = 0; d < 3; d++) {
        long stopped = at[d] < 0 ? 0 : at[d] >= sizes[d] ? sizes[d] - 1 : at[d];
        cell = cell * (size_t)sizes[d] + (size_t)(wraps ? (at[d] + sizes[d]) % sizes[d] : stopped);
    }
    return cell;
}

static double
wave_at(const double *now, long plane, long row, long column, const double weights[3])
{
#define AT(p, r, c) now[cell_of(plane + (p), row + (r), column + (c), true)]
    double sum = weights[0] * AT(0, 0, 0);
    sum += weights[1] * ((AT(-1, 0, 0) + AT(1, 0, 0)) + (AT(0, -1, 0) + AT(0, 1, 0)) +
                         (AT(0, 0, -1) + AT(0, 0, 1)));
    sum += weights[2] * ((AT(-2, 0, 0) + AT(2, 0, 0)) + (AT(0, -2, 0) + AT(0, 2, 0)) +
                         (AT(0, 0, -2) + AT(0, 0, 2)));
    return sum + 0.125 * AT(1, -1, 2);
#undef AT
}

/* A periodic stencil of three dimensions, whole and in boxes of which some need no other end. */
static void
test_periodic(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static double solid[SOLID], found[SOLID];
    const double weights[3] = {0.5, 0.25, -0.125};
    const ferry_box inner = {{2, 2, 2}, {1, 2, 9}}, corner = {{3, 0, 15}, {2, 3, 4}};
    const ferry_box *boxes[] = {NULL, &inner, &corner};
    ferry_double_buffer now = {0}, table = {0}, next = {0};
    for (size_t i = 0; i < SOLID; i++)
        solid[i] = (double)(i * 7919 % 997) / 8;
    MUST(ferry_double_create_from(context, SOLID, solid, NULL, &now));
    MUST(ferry_double_create_from(context, 3, weights, NULL, &table));
    for (size_t b = 0; b < 3; b++) {
        const ferry_box all = {{0, 0, 0}, {PLANES, SOLID_ROWS, SOLID_COLUMNS}};
        const ferry_box *box = boxes[b] ? boxes[b] : &all;
        MUST(ferry_double_create(context, SOLID, NULL, &next));
        MUST(mylib_wave(kernels, PLANES, SOLID_ROWS, SOLID_COLUMNS, boxes[b], stream, now, table,
                        next));
        MUST(ferry_double_copy_to(next, 0, SOLID, found, NULL));
        for (size_t i = 0; i < SOLID && failures == 0; i++) {
            const size_t at[3] = {i / (SOLID_ROWS * SOLID_COLUMNS), i / SOLID_COLUMNS % SOLID_ROWS,
                                  i % SOLID_COLUMNS};
            bool inside = true;
            for (int d = 0; d < 3; d++)
                inside = inside && at[d] >= box->first[d] && at[d] - box->first[d] < box->count[d];
            EXPECT(found[i] ==
                   (inside ? wave_at(solid, (long)at[0], (long)at[1], (long)at[2], weights) : 0));
        }
        ferry_double_destroy(&next);
    }
    ferry_double_destroy(&table);
    ferry_double_destroy(&now);
}

/* Stencils of three dimensions with the other edges. */
static void
test_solids(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static float solid[SOLID], inner[SOLID], soft[SOLID];
    ferry_float_buffer now = {0}, next = {0}, other = {0};
    for (size_t i = 0; i < SOLID; i++)
        solid[i] = (float)(i * 7919 % 997) / 8;
    MUST(ferry_float_create_from(context, SOLID, solid, NULL, &now));
    MUST(ferry_float_create(context, SOLID, NULL, &next));
    MUST(ferry_float_create(context, SOLID, NULL, &other));
    MUST(mylib_solid(kernels, PLANES, SOLID_ROWS, SOLID_COLUMNS, NULL, stream, now, next));
    MUST(mylib_softened(kernels, PLANES, SOLID_ROWS, SOLID_COLUMNS, NULL, stream, now, other));
    MUST(ferry_float_copy_to(next, 0, SOLID, inner, NULL));
    MUST(ferry_float_copy_to(other, 0, SOLID, soft, NULL));
    for (size_t i = 0; i < SOLID && failures == 0; i++) {
        long p = (long)(i / (SOLID_ROWS * SOLID_COLUMNS)),
             r = (long)(i / SOLID_COLUMNS % SOLID_ROWS), c = (long)(i % SOLID_COLUMNS);
        bool has_all = p > 0 && p < PLANES - 1 && r > 0 && r < SOLID_ROWS - 1 && c > 0 &&
                       c < SOLID_COLUMNS - 1;
        float sum = (solid[cell_of(p - 1, r, c, false)] + solid[cell_of(p + 1, r, c, false)]) +
                    (solid[cell_of(p, r - 1, c + 1, false)] - solid[cell_of(p, r + 1, c, false)]) *
                        (float)(i + (size_t)p + PLANES);
        EXPECT(inner[i] == (has_all ? sum : 0));
        EXPECT(soft[i] ==
               solid[cell_of(p - 1, r + 1, c, false)] + 2 * solid[cell_of(p + 1, r, c - 1, false)]);
    }
    ferry_float_destroy(&other);
    ferry_float_destroy(&next);
    ferry_float_destroy(&now);
}

/* A map, a reduction, and a map with results, over rectangles and cuboids. */
static void
test_boxes(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static double field[ROWS * COLUMNS];
    static int image[ROWS * COLUMNS];
    int32_t rows_of[ROWS];
    const ferry_box part = box_of(2, 3, 5, 20), none = box_of(2, 3, 0, 20);
    const ferry_box cuboid = {{1, 2, 0}, {2, 3, FERRY_REST}};
    double sum = 0, expected = 0;
    mylib_field_step_results results = {0};
    ferry_int_buffer pixels = {0}, bins = {0};
    ferry_double_buffer x = {0}, y = {0};
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        field[i] = (double)(i % 61);
        image[i] = -5;
    }
    MUST(ferry_int_create_from(context, ROWS * COLUMNS, image, NULL, &pixels));
    MUST(ferry_int_create(context, ROWS, NULL, &bins));
    MUST(mylib_painted(kernels, ROWS, COLUMNS, &part, stream, pixels, bins, 412));
    MUST(ferry_int_copy_to(pixels, 0, ROWS * COLUMNS, image, NULL));
    MUST(ferry_int_copy_to(bins, 0, ROWS, rows_of, NULL));
    MUST(ferry_double_create_from(context, ROWS * COLUMNS, field, NULL, &x));
    for (int row = 0; row < ROWS; row++) {
        int added = 0;
        for (int column = 0; column < COLUMNS; column++) {
            bool inside = row >= 2 && row < 7 && column >= 3 && column < 23;
            int i = row * COLUMNS + column, colour = 100 * row + column;
            EXPECT(image[i] == (inside ? colour : -5));
            added += inside && colour <= 412 ? i : 0;
            expected += inside ? 0.5 * field[i] + row * COLUMNS : 0;
        }
        EXPECT(rows_of[row] == added);
    }
    MUST(mylib_field_sum(kernels, ROWS, COLUMNS, &part, stream, x, 0.5, &sum));
    EXPECT(sum == expected);
    MUST(mylib_field_sum(kernels, ROWS, COLUMNS, &none, stream, x, 0.5, &sum));
    EXPECT(sum == 0);
    EXPECT(mylib_field_sum(kernels, ROWS + 1, COLUMNS, NULL, stream, x, 0.5, &sum) ==
           FERRY_ERROR_OUT_OF_RANGE);
    /* Four planes of five rows. */
    MUST(ferry_double_create_from(context, ROWS * COLUMNS, field, NULL, &y));
    MUST(mylib_field_step(kernels, 4, 5, COLUMNS, &cuboid, stream, x, y, &results));
    MUST(ferry_double_copy_to(x, 0, ROWS * COLUMNS, field, NULL));
    expected = 0;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        size_t plane = i / (5 * COLUMNS), row = i / COLUMNS % 5;
        bool inside = (plane == 1 || plane == 2) && row >= 2;
        EXPECT(field[i] == (double)(i % 61) * (inside ? 2 : 1));
        expected += inside ? field[i] : 0;
    }
    EXPECT(results.total == expected && results.last == 2 + 4 + 32 + 15 * COLUMNS - 1);
    ferry_double_destroy(&y);
    ferry_double_destroy(&x);
    ferry_int_destroy(&bins);
    ferry_int_destroy(&pixels);
}

/* Functions that take whole arrays, of which one calls the other, and atomic operations in them.
 * Typedefs, enumerators and constants have their values. */
static void
test_functions_of_arrays(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    static double numbers[COUNT], found[COUNT];
    const double sorted[5] = {0, 10, 20, 40, 80};
    int32_t marks[5], wanted[5] = {0};
    ferry_double_buffer keys = {0}, x = {0}, below = {0};
    ferry_int_buffer counts = {0};
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = (double)(i * 7 % 90);
    MUST(ferry_double_create_from(context, 5, sorted, NULL, &keys));
    MUST(ferry_double_create_from(context, COUNT, numbers, NULL, &x));
    MUST(ferry_double_create(context, COUNT, NULL, &below));
    MUST(ferry_int_create(context, 5, NULL, &counts));
    MUST(mylib_classify(kernels, stream, keys, x, below, counts));
    MUST(ferry_double_copy_to(below, 0, COUNT, found, NULL));
    MUST(ferry_int_copy_to(counts, 0, 5, marks, NULL));
    for (size_t i = 0; i < COUNT && failures == 0; i++) {
        int at = numbers[i] < 10 ? 0 : numbers[i] < 20 ? 1 : numbers[i] < 40 ? 2 : 3;
        wanted[at] += 1 + MYLIB_GREEN;
        EXPECT(found[i] == sorted[at] + 0.125 + 1.0 / 3);
    }
    EXPECT(memcmp(marks, wanted, sizeof(marks)) == 0);
    EXPECT(mylib_classify(kernels, stream, keys, keys, keys, counts) ==
           FERRY_ERROR_INVALID_ARGUMENT);
    ferry_int_destroy(&counts);
    ferry_double_destroy(&below);
    ferry_double_destroy(&x);
    ferry_double_destroy(&keys);
}

/* Functions of C that are exact enough on every device only for those that ask for them. */
static void
test_inexact(ferry_context *context, const mylib_several *kernels)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    const double numbers[3] = {0.5, 1.25, 3};
    const float others[3] = {8, -0.5f, 0.125f};
    double sums[3];
    float roots[3];
    ferry_double_buffer x = {0}, z = {0};
    ferry_float_buffer y = {0}, w = {0};
    MUST(ferry_double_create_from(context, 3, numbers, NULL, &x));
    MUST(ferry_double_create(context, 3, NULL, &z));
    MUST(ferry_float_create_from(context, 3, others, NULL, &y));
    MUST(ferry_float_create(context, 3, NULL, &w));
    MUST(mylib_special(kernels, stream, x, y, z, w));
    MUST(ferry_double_copy_to(z, 0, 3, sums, NULL));
    MUST(ferry_float_copy_to(w, 0, 3, roots, NULL));
    for (int i = 0; i < 3; i++) {
        EXPECT(fabs(sums[i] - (cbrt(numbers[i]) + tgamma(numbers[i]))) < 1e-14);
        EXPECT(fabsf(roots[i] - (cbrtf(others[i]) + erff(others[i]))) < 1e-6f);
    }
    ferry_float_destroy(&w);
    ferry_float_destroy(&y);
    ferry_double_destroy(&z);
    ferry_double_destroy(&x);
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

static void
test_all(ferry_context *context, const mylib_several *kernels)
{
    test_maps(context, kernels);
    test_structs(context, kernels);
    test_reductions(context, kernels);
    test_functions(context, kernels);
    test_stencils(context, kernels);
    test_whole_arrays(context, kernels);
    test_scattering(context, kernels);
    test_counts(context, kernels);
    test_stencil_with_table(context, kernels);
    test_results(context, kernels);
    test_results_in_place(context, kernels);
    test_extents(context, kernels);
    test_atomics(context, kernels);
    test_returns(context, kernels);
    test_overlaps(context, kernels);
    test_whole_overlaps(context, kernels);
    test_constants(context, kernels);
    test_inner_cells(context, kernels);
    test_periodic(context, kernels);
    test_solids(context, kernels);
    test_boxes(context, kernels);
    test_functions_of_arrays(context, kernels);
    test_inexact(context, kernels);
}

#ifdef COUNT_LAUNCHES
static void
test_counted(ferry_context *context, const mylib_several *kernels)
{
    count_launches_begin(context);
    test_all(context, kernels);
    const struct launch_counts counts = count_launches_end();
    printf("%u launches of code, %u of host functions\n", counts.launches, counts.host_functions);
    EXPECT(counts.launches > 0 && counts.host_functions == 0);
}
#endif

int
main(int argc, char **argv)
{
    ferry_context *context = NULL;
    mylib_several kernels = {0};
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return check_sources();
    register_entries();
#ifdef COUNT_LAUNCHES
    if (ferry_context_create(NULL, &context) == FERRY_ERROR_NO_DEVICE) {
        printf("skipped: %s\n", ferry_last_error());
        return SKIPPED;
    }
#else
    MUST(ferry_context_create(NULL, &context));
#endif
    MUST(mylib_several_create(context, &kernels));
    if (failures == 0)
#ifdef COUNT_LAUNCHES
        test_counted(context, &kernels);
#else
        test_all(context, &kernels);
#endif
    mylib_several_destroy(&kernels);
    mylib_several_destroy(&kernels);
    mylib_several_destroy(NULL);
    EXPECT(!kernels.dot && !kernels.dot_into && !kernels.context);
    ferry_context_destroy(&context);
    return failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
