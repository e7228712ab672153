/* SPDX-License-Identifier: MIT */
/* Checks that frequently used calls make no more driver calls than the benchmark `calls` allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/call_cases.h"
#include "src/convert/converter.h"
#include "src/debug/debug.h"

static void
test_no_path_makes_more_calls(void **state)
{
    struct call_world *world = call_world_open(true);
    (void)state;
    assert_non_null(world);
    for (size_t i = 0; i < call_case_count; i++) {
        struct call_counts counts;
        assert_true(call_case_count_calls(world, i, &counts));
        /* In builds without conversion kernels for the device, the host converts. It converts in
         * smaller parts, which takes more driver calls. */
        if (strncmp(call_cases[i].name, "convert/", 8) == 0 && ferryi_convert_image_bytes == 0)
            continue;
        if (counts.calls > call_cases[i].most)
            fail_msg("%s: %.1f driver calls, at most %g are allowed", call_cases[i].name,
                     counts.calls, call_cases[i].most);
    }
    call_world_close(world);
}

/* If the CUDA context is not current in the calling thread, each Ferry call pushes and pops it at
 * most once. */
static void
test_the_context_is_pushed_once(void **state)
{
    struct call_world *with = call_world_open(true), *without = call_world_open(false);
    (void)state;
    assert_non_null(with);
    call_world_close(with);
    assert_non_null(without);
    for (size_t i = 0; i < call_case_count; i++) {
        struct call_counts counts;
        assert_true(call_case_count_calls(without, i, &counts));
        if (strncmp(call_cases[i].name, "convert/", 8) == 0 && ferryi_convert_image_bytes == 0)
            continue;
        /* If the thread has no current CUDA context, each Ferry call that needs the driver also
         * pushes a context and pops it again. A case makes at most four such calls, so it may make
         * eight driver calls more than with a current context. */
        if (counts.calls > call_cases[i].most + 8)
            fail_msg("%s: %.1f driver calls without a current context", call_cases[i].name,
                     counts.calls);
    }
    call_world_close(without);
}

int
main(void)
{
    /* A checked run asks the driver more. */
    if (ferryi_is_debug_run())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_path_makes_more_calls),
        cmocka_unit_test(test_the_context_is_pushed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
