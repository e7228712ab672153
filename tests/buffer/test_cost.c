/* SPDX-License-Identifier: MIT */
/* Checks that no cell of the cost matrix makes more driver calls than its bound, with the sizes of
 * the shapes and with sizes drawn at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/cost_matrix.h"
#include "src/convert/converter.h"

static void
check_cells(unsigned seed)
{
    size_t failures = 0;
    for (size_t i = 0; i < cost_operation_count; i++)
        for (int shape = 0; shape < COST_SHAPES; shape++) {
            const struct cost_operation *operation = &cost_operations[i];
            struct cost cost;
            /* Builds without conversion kernels for the device convert in smaller parts. */
            if (strncmp(operation->name, "convert", 7) == 0 && ferryi_convert_image_bytes == 0)
                continue;
            assert_true(cost_count(i, (enum cost_shape)shape, seed, &cost));
            if (cost.calls <= operation->most[shape])
                continue;
            print_error("%s of %s with seed %u: %.1f driver calls, at most %d are allowed\n",
                        operation->name, cost_shape_names[shape], seed, cost.calls,
                        operation->most[shape]);
            failures++;
        }
    assert_int_equal(failures, 0);
}

static void
test_the_matrix(void **state)
{
    (void)state;
    check_cells(0);
}

static void
test_sizes_at_random(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 2; seed++)
        check_cells(seed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_matrix),
        cmocka_unit_test(test_sizes_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
