/* SPDX-License-Identifier: MIT */
/* Tests which conversion loops the library chooses for each value of an environment variable. A
 * process chooses only once, so each case runs in a child process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/convert/kernels.h"

/* Returns whether the library prefers some AVX2 loops to its AVX-512 loops on this processor. It
 * does so on processors without AVX-512 VBMI2. */
static bool
keeps_avx2(const struct ferryi_convert_set *set)
{
#ifdef __x86_64__
    return strcmp(set->name, "avx512") == 0 && !__builtin_cpu_supports("avx512vbmi2");
#else
    (void)set;
    return false;
#endif
}

/* Returns whether the library uses the loops of the instruction set `wish`. If the machine does not
 * have this set, the library must use the best available set. */
static bool
is_as_wished(const char *wish)
{
    const struct ferryi_convert_set *last = ferryi_convert_sets();
    while (last[1].table && (!wish || strcmp(last->name, wish) != 0))
        last++;
    const struct ferryi_convert_set *usual = keeps_avx2(last) ? last - 1 : last;
    ferryi_convert_table *here = ferryi_convert_table_here();
    return (*here)[ferryi_number_float][ferryi_number_byte].nearest ==
               (*usual->table)[ferryi_number_float][ferryi_number_byte].nearest &&
           (*here)[ferryi_number_double][ferryi_number_int64].nearest ==
               (*last->table)[ferryi_number_double][ferryi_number_int64].nearest;
}

static void
check(const char *wish)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (wish)
            setenv("FERRY_CONVERT_WITH", wish, 1);
        else
            unsetenv("FERRY_CONVERT_WITH");
        _exit(is_as_wished(wish) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("FERRY_CONVERT_WITH%s%s: other loops than that", wish ? "=" : " is not set",
                 wish ? wish : "");
}

static void
test_environment(void **state)
{
    (void)state;
    check("baseline");
    check("avx2");
    check("avx512");
}

/* Checks that the library chooses the best instruction set if the variable is not set or names no
 * instruction set. */
static void
test_best(void **state)
{
    (void)state;
    check(NULL);
    check("");
    check("avx");
    check("AVX2");
}

/* Checks that each instruction set has conversion loops for every pair of types. */
static void
test_whole(void **state)
{
    (void)state;
    for (const struct ferryi_convert_set *set = ferryi_convert_sets(); set->table; set++)
        for (enum ferryi_number from = 0; from < ferryi_number_count; from++)
            for (enum ferryi_number to = 0; to < ferryi_number_count; to++)
                assert_int_equal((*set->table)[from][to].nearest != NULL,
                                 (*ferryi_convert_table_here())[from][to].nearest != NULL);
}

int
main(void)
{
    /* test_whole() must be the last test. It makes this process choose its loops, which would
     * affect the child processes of later tests. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
