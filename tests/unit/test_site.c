/* SPDX-License-Identifier: MIT */
/* Tests call sites, which name the place in the program that called a public function. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/debug/site.h"
#include "tests/support/unwinder.h"

#define APART __attribute__((noinline))
/* Places a test function in the section in which FERRY_API places the library's public functions.
 */
#define AS_PUBLIC __attribute__((noinline, section("ferry_api")))

/* Makes a call that the compiler cannot turn into a tail call. A tail call would remove the stack
 * frame of the caller. */
#define HERE(call)                                                                                 \
    __extension__({                                                                                \
        ferryi_site here_ = (call);                                                                \
        __asm__ volatile("" : "+r"(here_));                                                        \
        here_;                                                                                     \
    })

APART static ferryi_site
inner(void)
{
    return HERE(ferryi_site_here());
}

AS_PUBLIC static ferryi_site
public_call(void)
{
    return HERE(inner());
}

AS_PUBLIC static ferryi_site
public_shim(void)
{
    return HERE(public_call());
}

/* Exported, so that the dynamic loader knows the names of these functions. */
ferryi_site program_call(void);
ferryi_site program_wrapper(void);

APART ferryi_site
program_call(void)
{
    return HERE(public_shim());
}

APART ferryi_site
program_wrapper(void)
{
    return HERE(program_call());
}

static void
test_a_site_names_the_callers_of_public_functions(void **state)
{
    (void)state;
    const char *text = ferryi_site_text(program_wrapper());
    assert_ptr_equal(strstr(text, "program_call+0x"), text);
    assert_non_null(strstr(text, ", program_wrapper+0x"));
    assert_non_null(strstr(text, "/test_site)"));
    assert_null(strstr(text, "public_shim"));
    /* All functions in the text are in one file. The text must contain the file name only once. */
    assert_ptr_equal(strchr(text, '('), strrchr(text, '('));
    assert_ptr_equal(strrchr(text, ','), strchr(strchr(text, ',') + 1, ','));
}

static void
test_each_call_has_its_own_site(void **state)
{
    (void)state;
    ferryi_site repeated[3], other;
    for (volatile int i = 0; i < 3; i++) /* volatile prevents unrolling */
        repeated[i] = HERE(public_call());
    other = HERE(public_call());
    assert_true(repeated[0] > FERRYI_SITE_UNKNOWN);
    assert_int_equal(repeated[1], repeated[0]);
    assert_int_equal(repeated[2], repeated[0]);
    assert_int_not_equal(other, repeated[0]);
    assert_string_not_equal(ferryi_site_text(other), ferryi_site_text(repeated[0]));
}

static void
test_outside_of_public_functions_nothing_is_known(void **state)
{
    (void)state;
    assert_int_equal(inner(), FERRYI_SITE_UNKNOWN);
    assert_string_equal(ferryi_site_text(FERRYI_SITE_UNKNOWN), "");
    assert_string_equal(ferryi_site_text(FERRYI_SITE_NONE), "");
}

static void
test_a_site_is_lent(void **state)
{
    (void)state;
    ferryi_site site = program_call();
    ferryi_site_lend(site);
    assert_int_equal(inner(), site);
    assert_int_equal(HERE(public_call()), site);
    ferryi_site_lend(FERRYI_SITE_NONE);
    assert_int_equal(inner(), FERRYI_SITE_UNKNOWN);
}

/* -- threads ----------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 2000 };

static void *
ask_often(void *user)
{
    ferryi_site *site = user;
    *site = HERE(public_call());
    for (int i = 0; i < ROUNDS && *site; i++)
        if (!strstr(ferryi_site_text(HERE(program_call())), "program_call+0x"))
            *site = FERRYI_SITE_NONE;
    return NULL;
}

static void
test_threads_find_the_same_site(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    ferryi_site sites[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &sites[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(sites[0] > FERRYI_SITE_UNKNOWN);
    for (int i = 1; i < THREADS; i++)
        assert_int_equal(sites[i], sites[0]);
}

/* -- room -------------------------------------------------------------------------------------- */

#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* Contains twelve recursive calls and twelve calls of a public function, all at different
 * addresses. Each base-12 digit of `path` selects a call. So each path has a different call stack.
 */
APART static ferryi_site
descend(unsigned path, unsigned levels)
{
    ferryi_site site;
    switch (path % 12) {
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        site = levels == 0 ? HERE(public_call()) : HERE(descend(path / 12, levels - 1));           \
        __asm__ volatile("" : : "i"(n)); /* prevents merging of the cases */                       \
        return site;
        TWELVE(CASE)
    default:
        return FERRYI_SITE_NONE;
    }
}

static void
test_when_there_is_no_room_sites_are_unknown(void **state)
{
    (void)state;
    ferryi_site of_program[2], last = FERRYI_SITE_NONE;
    unsigned known = 0;
    for (volatile int i = 0; i < 2; i++) {
        of_program[i] = HERE(program_call());
        for (unsigned path = 0; i == 0 && path < 12 * 12 * 12; path++) {
            last = descend(path, 2);
            known += last > FERRYI_SITE_UNKNOWN;
        }
    }
    assert_int_equal(last, FERRYI_SITE_UNKNOWN);
    assert_in_range(known, 1000, 12 * 12 * 12 - 1);
    assert_int_equal(of_program[1], of_program[0]);
    assert_non_null(strstr(ferryi_site_text(of_program[1]), "program_call+0x"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_site_names_the_callers_of_public_functions),
        cmocka_unit_test(test_each_call_has_its_own_site),
        cmocka_unit_test(test_outside_of_public_functions_nothing_is_known),
        cmocka_unit_test(test_a_site_is_lent),
        cmocka_unit_test(test_threads_find_the_same_site),
        cmocka_unit_test(test_when_there_is_no_room_sites_are_unknown),
    };
    if (!has_unwinder())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
