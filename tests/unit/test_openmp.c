/* SPDX-License-Identifier: MIT */
/*
 * A host function that was written by hand uses OpenMP. Its threads have finished when it returns,
 * so its stream needs to know nothing of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <ferry/double.h>
#include <ferry/ferry.h>
#include <ferry/uint64.h>

#include "src/base/sanitizer.h"
#include "tests/support/status.h"

#if defined(_OPENMP) && !FERRYI_THREAD_SANITIZER && !FERRYI_MEMORY_SANITIZER

enum { COUNT = 100003, LAUNCHES = 5, THREADS = 4 };

/* x[i] += i, and the sum of all x. */
static ferry_status
add_indices(const ferry_call *call, void *user)
{
    size_t count;
    double *x = ferry_double_call_array(call, 0, &count), sum = 0;
    uint64_t *threads = ferry_uint64_call_array(call, 2, NULL), seen = 0;
    (void)user;
#pragma omp parallel num_threads(THREADS) reduction(+ : sum) reduction(max : seen)
    {
        seen = (uint64_t)omp_get_num_threads();
#pragma omp for
        for (size_t i = 0; i < count; i++) {
            x[i] += (double)i;
            sum += x[i];
        }
    }
    ferry_double_call_array(call, 1, NULL)[0] = sum;
    threads[0] = seen;
    return FERRY_OK;
}

static void
check_sums(ferry_double_buffer x, ferry_double_buffer sum, ferry_uint64_buffer threads)
{
    static double values[COUNT];
    double found;
    uint64_t seen;
    OK(ferry_double_copy_to(x, 0, COUNT, values, NULL));
    OK(ferry_double_copy_to(sum, 0, 1, &found, NULL));
    OK(ferry_uint64_copy_to(threads, 0, 1, &seen, NULL));
    for (size_t i = 0; i < COUNT; i++)
        assert_true(values[i] == LAUNCHES * (double)i);
    assert_true(found == LAUNCHES * (COUNT - 1.0) * COUNT / 2);
    assert_true(seen >= 1 && seen <= THREADS);
}

static void
test_a_host_function_uses_openmp(void **state)
{
    const ferry_context_options options = {.devices = *state};
    const ferry_parameter parameters[] = {
        {.element = ferry_double_element(), .access = FERRY_UPDATE, .name = "x"},
        {.element = ferry_double_element(), .access = FERRY_OVERWRITE, .name = "sum"},
        {.element = ferry_uint64_element(), .access = FERRY_OVERWRITE, .name = "threads"}};
    const ferry_kernel_source source = {.name = "add_indices",
                                        .host_function = add_indices,
                                        .parameters = parameters,
                                        .parameter_count = 3};
    ferry_context *context;
    ferry_kernel *kernel;
    ferry_double_buffer x, sum;
    ferry_uint64_buffer threads;
    OK(ferry_context_create(&options, &context));
    OK(ferry_kernel_create(context, &source, &kernel));
    OK(ferry_double_create(context, COUNT, NULL, &x));
    OK(ferry_double_create(context, 1, NULL, &sum));
    OK(ferry_uint64_create(context, 1, NULL, &threads));
    const ferry_argument arguments[] = {ferry_double_argument(x), ferry_double_argument(sum),
                                        ferry_uint64_argument(threads)};
    /* Each launch needs what the one before it has written. */
    for (int i = 0; i < LAUNCHES; i++)
        OK(ferry_kernel_launch(kernel, ferry_grid_for(COUNT, 0), ferry_context_stream(context, 1),
                               arguments, 3));
    check_sums(x, sum, threads);
    ferry_uint64_destroy(&threads);
    ferry_double_destroy(&sum);
    ferry_double_destroy(&x);
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
}

#else

/* The compiler has no OpenMP, or a sanitizer does not see what the runtime of OpenMP does: how its
 * threads synchronize, and what it writes. */
static void
test_a_host_function_uses_openmp(void **state)
{
    (void)state;
    skip();
}

#endif

int
main(void)
{
    char host[] = "host", emulated[] = "emulated";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_a_host_function_uses_openmp, host),
        cmocka_unit_test_prestate(test_a_host_function_uses_openmp, emulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
