/* SPDX-License-Identifier: MIT */
/*
 * Generated reductions combine their elements in parts on the threads of the host. Their results
 * have the same bits with every number of threads.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/ferry.h>

#include "mylib/several_kernels.h"
#include "parts_kernels.h"
#include "src/kernel/host_threads.h"
#include "src/stream/shell.h"
#include "tests/support/status.h"

/* The counts have no part, exactly one, one and a bit, several, and the most, which grow. */
#define PART  ((size_t)16384)
#define PARTS ((size_t)256)
static const size_t counts[] = {0, 1, PART, PART + 1, 7 * PART + 5, PARTS *PART + 12345};
#define MOST (PARTS * PART + 12345)

static const unsigned threads[] = {1, 2, 3, 8};
static const char *const devices[] = {"host", "emulated"};

static double *numbers;
static float *floats;
static int16_t *small;

/* Everything that the kernels compute of one count. */
struct results {
    double dot;
    float total;
    int16_t least;
    uint64_t above;
    mylib_step_results step;
    mylib_extent_results extent;
    uint64_t digest; /* of the array that `step` changes */
};

struct arrays {
    ferry_double_buffer x, r, alpha;
    ferry_float_buffer f;
    ferry_int16_buffer s;
};

static int
create_inputs(void **state)
{
    (void)state;
    numbers = malloc(MOST * sizeof(*numbers));
    floats = malloc(MOST * sizeof(*floats));
    small = malloc(MOST * sizeof(*small));
    if (!numbers || !floats || !small)
        return -1;
    uint32_t random = 1;
    for (size_t i = 0; i < MOST; i++) {
        random = random * 1664525 + 1013904223;
        numbers[i] = ((double)random / 0x1p31 - 1) * (random & 1 ? 1e-3 : 1e3);
        floats[i] = (float)numbers[i];
        small[i] = (int16_t)(random >> 16);
    }
    return 0;
}

static int
free_inputs(void **state)
{
    (void)state;
    free(numbers);
    free(floats);
    free(small);
    return 0;
}

static uint64_t
digest(ferry_double_buffer array, size_t count)
{
    ferry_scope scope;
    const double *values;
    uint64_t sum = 14695981039346656037u, bits;
    OK(ferry_double_read_host(array, &scope, &values));
    for (size_t i = 0; i < count; i++) {
        memcpy(&bits, &values[i], sizeof(bits));
        sum = (sum ^ bits) * 1099511628211u;
    }
    OK(ferry_scope_close(&scope));
    return sum;
}

static void
create_arrays(ferry_context *context, size_t count, struct arrays *out)
{
    const double alpha = 0.3;
    *out = (struct arrays){.x = {0}};
    OK(ferry_double_create_from(context, count, numbers, NULL, &out->x));
    OK(ferry_double_create_from(context, count, numbers, NULL, &out->r));
    OK(ferry_double_create_from(context, 1, &alpha, NULL, &out->alpha));
    OK(ferry_float_create_from(context, count, floats, NULL, &out->f));
    OK(ferry_int16_create_from(context, count, small, NULL, &out->s));
}

static void
destroy_arrays(struct arrays *arrays)
{
    ferry_int16_destroy(&arrays->s);
    ferry_float_destroy(&arrays->f);
    ferry_double_destroy(&arrays->alpha);
    ferry_double_destroy(&arrays->r);
    ferry_double_destroy(&arrays->x);
}

/* `out` is compared as bytes. */
static void
compute(ferry_context *context, const mylib_several *kernels, size_t count, struct results *out)
{
    ferry_stream *stream = ferry_context_stream(context, 1);
    struct arrays arrays;
    create_arrays(context, count, &arrays);
    memset(out, 0, sizeof(*out));
    OK(mylib_dot(kernels, stream, arrays.x, arrays.r, &out->dot));
    OK(mylib_total(kernels, stream, arrays.f, &out->total));
    OK(mylib_least(kernels, stream, arrays.s, &out->least));
    OK(mylib_count_above(kernels, stream, arrays.f, 0.5f, &out->above));
    OK(mylib_extent(kernels, count, stream, arrays.s, &out->extent));
    /* The kernel changes x and r, in the same launch that sums. */
    OK(mylib_step(kernels, stream, arrays.alpha, arrays.x, arrays.r, arrays.r, arrays.x,
                  &out->step));
    out->digest = digest(arrays.r, count);
    destroy_arrays(&arrays);
}

/* Compares with plain loops. Whole numbers are equal, and sums are within their promised error. */
static void
check_values(const struct results *found, size_t count)
{
    double dot = 0, size = 0, total = 0;
    uint64_t above = 0;
    int64_t sum = 0;
    int16_t least = INT16_MAX, most = INT16_MIN;
    for (size_t i = 0; i < count; i++) {
        dot += numbers[i] * numbers[i];
        total += floats[i];
        size += fabs(floats[i]);
        above += floats[i] > 0.5f;
        sum += small[i];
        least = small[i] < least ? small[i] : least;
        most = small[i] > most ? small[i] : most;
    }
    assert_true(fabs(found->dot - dot) <= 0x1p-52 * (double)count * dot);
    assert_true(fabs(found->total - total) <= 0x1p-23 * (double)count * size);
    assert_int_equal(found->above, above);
    assert_int_equal(found->least, least);
    assert_int_equal(found->extent.least, least);
    assert_int_equal(found->extent.most, most);
    assert_int_equal(found->extent.total, sum);
}

static void
run(const char *device, unsigned thread_count, size_t count, struct results *out)
{
    char tuning[32];
    mylib_several kernels;
    ferry_context *context;
    snprintf(tuning, sizeof(tuning), "host.threads=%u", thread_count);
    const ferry_context_options options = {.devices = device, .tuning = tuning};
    OK(ferry_context_create(&options, &context));
    OK(mylib_several_create(context, &kernels));
    compute(context, &kernels, count, out);
    /* One part wakes no thread. */
    assert_int_equal(ferryi_host_threads_started(context->host_threads),
                     count > PART ? thread_count - 1 : 0);
    mylib_several_destroy(&kernels);
    ferry_context_destroy(&context);
}

static void
test_bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    struct results expected, found;
    for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
        run("host", 1, counts[c], &expected);
        check_values(&expected, counts[c]);
        for (size_t d = 0; d < 2; d++)
            for (size_t t = 0; t < sizeof(threads) / sizeof(*threads); t++) {
                run(devices[d], threads[t], counts[c], &found);
                assert_memory_equal(&found, &expected, sizeof(expected));
            }
    }
}

/* The function for fake drivers combines in the same order. */
static void
test_run_has_the_same_bits(void **state)
{
    (void)state;
    size_t count = 7 * PART + 5;
    struct results results;
    double dot, *out = &dot;
    run("host", 3, count, &results);
    mylib_dot_run((void *[]){&numbers, &numbers, &out, &count});
    assert_memory_equal(&dot, &results.dot, sizeof(dot));
}

/* NaN is the greatest value, in whichever part it is. */
static void
test_nan_of_any_part(void **state)
{
    (void)state;
    const size_t count = 7 * PART + 5, at[] = {0, PART - 1, PART, count - 1};
    for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
        const double kept = numbers[at[i]];
        struct results results;
        numbers[at[i]] = NAN;
        run("host", 3, count, &results);
        numbers[at[i]] = kept;
        assert_true(isnan(results.step.largest));
    }
}

enum { KEYS = 5 };

/* What the kernels that write a common array leave in it. */
struct written {
    int counts[KEYS];
    double sums[KEYS];
    parts_tally_results tally;
    parts_collect_results collect;
};

static void
run_writers(unsigned thread_count, const int *keys, size_t count, struct written *out)
{
    char tuning[32];
    parts_kernels kernels;
    ferry_context *context;
    ferry_int_buffer k, tallies;
    ferry_double_buffer x, sums;
    snprintf(tuning, sizeof(tuning), "host.threads=%u", thread_count);
    const ferry_context_options options = {.devices = "host", .tuning = tuning};
    OK(ferry_context_create(&options, &context));
    OK(parts_kernels_create(context, &kernels));
    ferry_stream *stream = ferry_context_stream(context, 1);
    OK(ferry_int_create_from(context, count, keys, NULL, &k));
    OK(ferry_double_create_from(context, count, numbers, NULL, &x));
    OK(ferry_int_create(context, KEYS, NULL, &tallies));
    OK(ferry_double_create(context, KEYS, NULL, &sums));
    OK(parts_collect(&kernels, stream, k, x, sums, &out->collect));
    /* A sum of floating point depends on the order, so no other thread takes part. */
    assert_int_equal(ferryi_host_threads_started(context->host_threads), 0);
    OK(parts_tally(&kernels, stream, k, tallies, &out->tally));
    if (!context->debug) /* a checked run looks at each index on one thread */
        assert_int_equal(ferryi_host_threads_started(context->host_threads), thread_count - 1);
    OK(ferry_int_copy_to(tallies, 0, KEYS, out->counts, NULL));
    OK(ferry_double_copy_to(sums, 0, KEYS, out->sums, NULL));
    ferry_double_destroy(&sums);
    ferry_int_destroy(&tallies);
    ferry_double_destroy(&x);
    ferry_int_destroy(&k);
    parts_kernels_destroy(&kernels);
    ferry_context_destroy(&context);
}

/* Elements that change a common array do so as in a loop: at once if they are integers, in order if
 * they are not. */
static void
test_writers_of_a_common_array(void **state)
{
    (void)state;
    enum { COUNT = 7 * 16384 + 5 };
    static int keys[COUNT];
    struct written expected = {.collect = {.most = -INFINITY}}, found;
    for (size_t i = 0; i < COUNT; i++) {
        keys[i] = (int)((uint16_t)small[i] % KEYS);
        expected.counts[keys[i]]++;
        expected.sums[keys[i]] += numbers[i];
        expected.tally.total += keys[i];
        expected.collect.most = fmax(expected.collect.most, numbers[i]);
    }
    for (size_t t = 0; t < sizeof(threads) / sizeof(*threads); t++) {
        memset(&found, 0, sizeof(found));
        run_writers(threads[t], keys, COUNT, &found);
        assert_memory_equal(found.counts, expected.counts, sizeof(expected.counts));
        assert_memory_equal(found.sums, expected.sums, sizeof(expected.sums));
        assert_int_equal(found.tally.total, expected.tally.total);
        assert_true(found.collect.most == expected.collect.most);
    }
}

/* The parts of a reduction of a box are lines of it. */
static void
test_boxes(void **state)
{
    (void)state;
    enum { ROWS = 701, COLUMNS = 513 };
    const ferry_box box = {.first = {0, 3, 5}, .count = {1, 600, 500}};
    double expected = 0, size = 0, first_found = 0;
    for (size_t row = 3; row < 603; row++)
        for (size_t column = 5; column < 505; column++) {
            double value = 0.5 * numbers[row * COLUMNS + column] + (double)(row * COLUMNS);
            expected += value;
            size += fabs(value);
        }
    for (size_t t = 0; t < sizeof(threads) / sizeof(*threads); t++) {
        char tuning[32];
        double found;
        mylib_several kernels;
        ferry_context *context;
        ferry_double_buffer x;
        snprintf(tuning, sizeof(tuning), "host.threads=%u", threads[t]);
        const ferry_context_options options = {.devices = "host", .tuning = tuning};
        OK(ferry_context_create(&options, &context));
        OK(mylib_several_create(context, &kernels));
        OK(ferry_double_create_from(context, (size_t)ROWS * COLUMNS, numbers, NULL, &x));
        OK(mylib_field_sum(&kernels, ROWS, COLUMNS, &box, ferry_context_stream(context, 1), x, 0.5,
                           &found));
        assert_int_equal(ferryi_host_threads_started(context->host_threads), threads[t] - 1);
        first_found = t == 0 ? found : first_found;
        assert_memory_equal(&found, &first_found, sizeof(found));
        ferry_double_destroy(&x);
        mylib_several_destroy(&kernels);
        ferry_context_destroy(&context);
    }
    assert_true(fabs(first_found - expected) <= 600.0 * 500.0 * 0x1p-52 * size);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_run_has_the_same_bits),
        cmocka_unit_test(test_nan_of_any_part),
        cmocka_unit_test(test_writers_of_a_common_array),
        cmocka_unit_test(test_boxes),
    };
    return cmocka_run_group_tests(tests, create_inputs, free_inputs);
}
