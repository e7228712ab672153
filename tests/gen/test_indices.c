/* SPDX-License-Identifier: MIT */
/*
 * A checked run reports the indices of generated kernels that are outside of `whole` arrays, with
 * the kernel, the argument, the index and the length. It changes no result of a right kernel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/ferry.h>

#include "indices_kernels.h"
#include "tests/support/kept_log.h"
#include "tests/support/status.h"

#define TABLE  ((size_t)5)
#define COUNT  ((size_t)40000) /* more than one part of a reduction */
#define NO_ROW ((size_t)9)

static const char *const devices[] = {"host", "emulated"};

/* Everything that the kernels use. Index `wrong` of each array of indices is outside of the table.
 */
struct scene {
    ferry_context *context;
    ferry_stream *stream;
    at_kernels kernels;
    ferry_double_buffer table, x, y, sums;
    ferry_int_buffer k, counts;
    ferry_uint64_buffer sizes;
    ferry_int64_buffer next;
};

enum { WRONG = 1234 };

static void
create_scene(struct scene *scene, const char *device, const char *is_checked, int wrong)
{
    static int k[COUNT];
    static uint64_t sizes[COUNT];
    static double x[COUNT];
    const double table[TABLE] = {1, 2, 4, 8, 16};
    const int64_t next[TABLE] = {wrong < 0 ? 1 : 3, wrong < 0 ? -7 : 2, 3, 4, 0};
    *scene = (struct scene){.context = NULL};
    for (size_t i = 0; i < COUNT; i++) {
        k[i] = (int)(i % TABLE);
        sizes[i] = i % TABLE;
        x[i] = (double)i / 8;
    }
    k[WRONG] = wrong;
    k[WRONG + 1] = wrong;
    sizes[WRONG] = (uint64_t)wrong;
    assert_int_equal(setenv("FERRY_DEBUG", is_checked, 1), 0);
    logged[0] = 0;
    OK(ferry_context_create(&(ferry_context_options){.devices = device, .log = keep},
                            &scene->context));
    OK(at_kernels_create(scene->context, &scene->kernels));
    scene->stream = ferry_context_stream(scene->context, 1);
    OK(ferry_double_create_from(scene->context, TABLE, table, NULL, &scene->table));
    OK(ferry_double_create_from(scene->context, COUNT, x, NULL, &scene->x));
    OK(ferry_double_create_from(scene->context, COUNT, x, NULL, &scene->y));
    OK(ferry_double_create_from(scene->context, TABLE, table, NULL, &scene->sums));
    OK(ferry_int_create_from(scene->context, COUNT, k, NULL, &scene->k));
    OK(ferry_int_create(scene->context, TABLE, NULL, &scene->counts));
    OK(ferry_int_fill(scene->counts, 0, TABLE, 0, NULL));
    OK(ferry_uint64_create_from(scene->context, COUNT, sizes, NULL, &scene->sizes));
    OK(ferry_int64_create_from(scene->context, TABLE, next, NULL, &scene->next));
}

static void
destroy_scene(struct scene *scene)
{
    ferry_int64_destroy(&scene->next);
    ferry_uint64_destroy(&scene->sizes);
    ferry_int_destroy(&scene->counts);
    ferry_int_destroy(&scene->k);
    ferry_double_destroy(&scene->sums);
    ferry_double_destroy(&scene->y);
    ferry_double_destroy(&scene->x);
    ferry_double_destroy(&scene->table);
    at_kernels_destroy(&scene->kernels);
    ferry_context_destroy(&scene->context);
    unsetenv("FERRY_DEBUG");
}

static size_t
count_messages(const char *part)
{
    size_t found = 0;
    for (const char *at = strstr(logged, part); at; at = strstr(at + 1, part))
        found++;
    return found;
}

/* The kernel has reported this index, once, and nothing else. */
static void
assert_reported(struct scene *scene, const char *kernel, const char *argument, long long index,
                size_t count)
{
    char expected[400];
    OK(ferry_stream_synchronize(scene->stream));
    snprintf(expected, sizeof(expected),
             "run the host function of kernel \"at_%s\": it used index %lld of argument %s, which "
             "has %zu elements",
             kernel, index, argument, count);
    if (count_messages(expected) != 1 || count_messages("kernel \"") != 1)
        fail_msg("expected once: %s\nlogged: %s", expected, logged);
    logged[0] = 0;
}

/* The results of all kernels. */
struct results {
    double y[4][COUNT], sums[TABLE], placed[TABLE], total, sum;
    int counts[TABLE];
};

static void
take(struct scene *scene, double *out)
{
    OK(ferry_double_copy_to(scene->y, 0, COUNT, out, NULL));
}

static void
run_all(struct scene *scene, struct results *out)
{
    const at_kernels *kernels = &scene->kernels;
    at_both_results both;
    memset(out, 0, sizeof(*out));
    OK(at_gather(kernels, scene->stream, scene->table, scene->k, scene->y));
    take(scene, out->y[0]);
    OK(at_through(kernels, scene->stream, scene->table, scene->k, scene->y));
    take(scene, out->y[1]);
    OK(at_of_rows(kernels, TABLE, COUNT / TABLE, NULL, scene->stream, scene->table, scene->y));
    take(scene, out->y[2]);
    OK(at_follow(kernels, scene->stream, scene->next, scene->table, scene->sums));
    OK(ferry_double_copy_to(scene->sums, 0, TABLE, out->sums, NULL));
    OK(at_scatter(kernels, scene->stream, scene->k, scene->x, scene->sums));
    OK(at_tally_of_doubles(kernels, scene->stream, scene->k, scene->sums));
    OK(ferry_double_copy_to(scene->sums, 0, TABLE, out->sums, NULL));
    OK(at_place(kernels, scene->stream, scene->sizes, scene->x, scene->sums));
    OK(ferry_double_copy_to(scene->sums, 0, TABLE, out->placed, NULL));
    OK(at_tally(kernels, scene->stream, scene->k, scene->counts));
    OK(at_total(kernels, scene->stream, scene->table, scene->k, &out->total));
    OK(at_both(kernels, scene->stream, scene->k, scene->counts, scene->table, &both));
    out->sum = both.sum;
    OK(ferry_int_copy_to(scene->counts, 0, TABLE, out->counts, NULL));
}

static void
reports_reads(struct scene *scene, int wrong)
{
    const at_kernels *kernels = &scene->kernels;
    at_both_results both;
    double total;
    OK(at_gather(kernels, scene->stream, scene->table, scene->k, scene->y));
    assert_reported(scene, "gather", "0 \"table\"", wrong, TABLE);
    OK(at_through(kernels, scene->stream, scene->table, scene->k, scene->y));
    assert_reported(scene, "through", "0 \"table\"", wrong, TABLE);
    OK(at_total(kernels, scene->stream, scene->table, scene->k, &total));
    assert_reported(scene, "total", "0 \"table\"", wrong, TABLE);
    OK(at_of_rows(kernels, NO_ROW, 2, NULL, scene->stream, scene->table, scene->y));
    assert_reported(scene, "of_rows", "0 \"row_values\"", (long long)TABLE, TABLE);
    OK(at_both(kernels, scene->stream, scene->k, scene->counts, scene->table, &both));
    OK(ferry_stream_synchronize(scene->stream));
    assert_int_equal(count_messages("argument 1 \"counts\""), 1);
    assert_int_equal(count_messages("argument 2 \"table\""), 1);
    logged[0] = 0;
    if (wrong >= 0)
        return;
    OK(at_follow(kernels, scene->stream, scene->next, scene->table, scene->sums));
    OK(ferry_stream_synchronize(scene->stream));
    assert_int_equal(count_messages("index -7 of argument 0 \"next\""), 1);
    assert_int_equal(count_messages("index -7 of argument 1 \"table\""), 1);
    logged[0] = 0;
}

/* What is written outside is lost: the elements of the array have what the other indices gave. */
static void
reports_writes(struct scene *scene, int wrong)
{
    const at_kernels *kernels = &scene->kernels;
    int counts[TABLE], sum = 0;
    OK(at_scatter(kernels, scene->stream, scene->k, scene->x, scene->sums));
    assert_reported(scene, "scatter", "2 \"y\"", wrong, TABLE);
    OK(at_place(kernels, scene->stream, scene->sizes, scene->x, scene->sums));
    assert_reported(scene, "place", "2 \"y\"", wrong, TABLE);
    OK(at_tally_of_doubles(kernels, scene->stream, scene->k, scene->sums));
    assert_reported(scene, "tally_of_doubles", "1 \"sums\"", wrong, TABLE);
    OK(ferry_int_fill(scene->counts, 0, TABLE, 0, NULL));
    OK(at_tally(kernels, scene->stream, scene->k, scene->counts));
    assert_reported(scene, "tally", "1 \"counts\"", wrong, TABLE);
    OK(ferry_int_copy_to(scene->counts, 0, TABLE, counts, NULL));
    for (size_t i = 0; i < TABLE; i++)
        sum += counts[i];
    assert_int_equal(sum, COUNT - 2);
}

static void
a_checked_run_reports_indices(void **state)
{
    static const int wrongs[] = {(int)TABLE, -1, 1000000000};
    struct scene scene;
    (void)state;
    for (size_t d = 0; d < sizeof(devices) / sizeof(*devices); d++) {
        for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
            create_scene(&scene, devices[d], "1", wrongs[i]);
            reports_reads(&scene, wrongs[i]);
            reports_writes(&scene, wrongs[i]);
            destroy_scene(&scene);
        }
    }
}

static void
an_array_without_elements_has_no_index(void **state)
{
    struct scene scene;
    ferry_double_buffer none;
    (void)state;
    create_scene(&scene, "host", "1", 0);
    OK(ferry_double_create(scene.context, 0, NULL, &none));
    OK(at_gather(&scene.kernels, scene.stream, none, scene.k, scene.y));
    assert_reported(&scene, "gather", "0 \"table\"", 0, 0);
    ferry_double_destroy(&none);
    destroy_scene(&scene);
}

static void
a_right_kernel_has_the_same_bits(void **state)
{
    static struct results plain, checked;
    struct scene scene;
    (void)state;
    for (size_t d = 0; d < sizeof(devices) / sizeof(*devices); d++) {
        create_scene(&scene, devices[d], "0", 2);
        run_all(&scene, &plain);
        destroy_scene(&scene);
        create_scene(&scene, devices[d], "1", 2);
        run_all(&scene, &checked);
        destroy_scene(&scene);
        assert_string_equal(logged, "");
        assert_memory_equal(&plain, &checked, sizeof(plain));
    }
}

enum { WIDE = 256 };

static ferry_status
use_outside(const ferry_call *call, void *user)
{
    static const char zeros[WIDE];
    const char *found = ferry_call_element(call, 1, -1);
    (void)user;
    if ((uintptr_t)found % WIDE == 0 && memcmp(found, zeros, WIDE) == 0)
        return FERRY_OK;
    ferry_call_fail(call, "the element is not aligned, or not zero");
    return FERRY_ERROR_INVALID_STATE;
}

/* What stands for an element outside of an array is aligned as the element. */
static void
an_element_outside_is_aligned(void **state)
{
    static const ferry_field field = {
        .name = "x", .kind = FERRY_KIND_FLOAT, .bits = 64, .count = WIDE / 8};
    ferry_element wide = {.name = "wide",
                          .c_type = "struct wide",
                          .bytes = WIDE,
                          .align = WIDE,
                          .kind = FERRY_KIND_STRUCT,
                          .fields = &field,
                          .field_count = 1};
    ferry_parameter parameters[] = {{.access = FERRY_READ, .name = "x"},
                                    {.access = FERRY_READ, .name = "table"}};
    const ferry_kernel_source source = {.name = "at_outside",
                                        .host_function = use_outside,
                                        .parameters = parameters,
                                        .parameter_count = 2};
    struct scene scene;
    ferry_buffer *table;
    (void)state;
    wide.identity = ferry_element_identity(&wide);
    parameters[0].element = ferry_double_element();
    parameters[1].element = &wide;
    for (size_t d = 0; d < sizeof(devices) / sizeof(*devices); d++) {
        ferry_kernel *kernel;
        create_scene(&scene, devices[d], "1", 0);
        OK(ferry_buffer_create(scene.context, &wide, 3, NULL, &table));
        OK(ferry_kernel_create(scene.context, &source, &kernel));
        const ferry_argument arguments[] = {ferry_double_argument(scene.x),
                                            ferry_buffer_argument(table, &wide, 0, FERRY_REST)};
        OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), scene.stream, arguments, 2));
        assert_reported(&scene, "outside", "1 \"table\"", -1, 3);
        ferry_kernel_destroy(&kernel);
        ferry_buffer_destroy(&table);
        destroy_scene(&scene);
    }
}

/* Only a checked run has the second text; its functions take no call of another. */
static void
other_calls_have_no_elements(void **state)
{
    (void)state;
    assert_int_equal(ferry_call_is_checked(NULL), 0);
    assert_null(ferry_call_element(NULL, 0, 0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checked_run_reports_indices),
        cmocka_unit_test(an_array_without_elements_has_no_index),
        cmocka_unit_test(an_element_outside_is_aligned),
        cmocka_unit_test(a_right_kernel_has_the_same_bits),
        cmocka_unit_test(other_calls_have_no_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
