/* SPDX-License-Identifier: MIT */
/* Tests the levels of a copy plan: rows that depend on each other are in different ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/transfer/levels.h"

static uint64_t
random_next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static const int spaces[3];
static struct ferryi_arena arena;

struct copy {
    struct ferryi_use reads, writes;
};

static bool
conflict(const struct ferryi_use *a, const struct ferryi_use *b)
{
    return a->space == b->space && a->begin < b->end && b->begin < a->end;
}

static bool
depends(const struct copy *later, const struct copy *earlier)
{
    return conflict(&later->reads, &earlier->writes) ||
           conflict(&later->writes, &earlier->writes) || conflict(&later->writes, &earlier->reads);
}

static struct ferryi_use
random_use(uint64_t *seed, uintptr_t limit, uintptr_t longest, uintptr_t scale, uint32_t copy,
           bool writes)
{
    uintptr_t begin = random_next(seed) % limit;
    size_t space = random_next(seed) % 4;
    return (struct ferryi_use){space ? &spaces[space - 1] : NULL, scale * begin,
                               scale * (begin + 1 + random_next(seed) % longest), copy, writes};
}

/* Tests how a batch of copies is divided into levels, so that each copy runs after those that it
 * depends on. The level of a copy must be one more than the highest level of these earlier copies.
 */
static void
test_levels_are_as_low_as_can_be(void **state)
{
    (void)state;
    enum { MOST = 400 };
    static const uintptr_t scales[] = {
        1, 77, 65536, UINTPTR_MAX / 6000}; /* factors for addresses; depending on the factor, the
                                              sort keys differ in few or in all digits */
    for (uint64_t round = 1; round <= 500; round++) {
        uint64_t seed = round;
        struct copy copies[MOST];
        struct ferryi_use uses[2 * MOST];
        uint32_t expected[MOST], levels[MOST], count, highest = 0;
        uint32_t copy_count = (uint32_t)(random_next(&seed) % MOST) + 1;
        uintptr_t limit = 10 + random_next(&seed) % 3000, longest = 1 + random_next(&seed) % 40;
        uintptr_t scale = scales[round % 4];
        for (uint32_t i = 0; i < copy_count; i++) {
            do {
                copies[i].reads = random_use(&seed, limit, longest, scale, i, false);
                copies[i].writes = random_use(&seed, limit, longest, scale, i, true);
            } while (conflict(&copies[i].reads, &copies[i].writes));
            uses[2 * i] = copies[i].reads;
            uses[2 * i + 1] = copies[i].writes;
            expected[i] = 0;
            for (uint32_t j = 0; j < i; j++)
                if (depends(&copies[i], &copies[j]) && expected[j] + 1 > expected[i])
                    expected[i] = expected[j] + 1;
            highest = expected[i] > highest ? expected[i] : highest;
        }
        assert_int_equal(
            ferryi_levels_cut(&arena, uses, 2 * copy_count, levels, copy_count, &count), FERRY_OK);
        for (uint32_t i = 0; i < copy_count; i++)
            if (levels[i] != expected[i])
                fail_msg("round %d: copy %u is at level %u instead of %u", (int)round, i, levels[i],
                         expected[i]);
        assert_int_equal(count, highest + 1);
        for (uint32_t i = 1; i < 2 * copy_count; i++)
            assert_true((uintptr_t)uses[i - 1].space < (uintptr_t)uses[i].space ||
                        (uses[i - 1].space == uses[i].space && uses[i - 1].begin <= uses[i].begin));
    }
}

/* Checks that copies that read the same bytes are independent. Copies whose ranges are adjacent but
 * do not overlap are also independent. */
static void
test_reads_and_neighbours_are_independent(void **state)
{
    (void)state;
    struct ferryi_use uses[] = {{&spaces[0], 0, 10, 0, false}, {&spaces[1], 0, 10, 0, true},
                                {&spaces[0], 5, 15, 1, false}, {&spaces[1], 10, 20, 1, true},
                                {&spaces[0], 0, 10, 2, false}, {&spaces[1], 20, 30, 2, true}};
    uint32_t levels[3], count;
    assert_int_equal(ferryi_levels_cut(&arena, uses, 6, levels, 3, &count), FERRY_OK);
    assert_int_equal(count, 1);
    assert_int_equal(ferryi_levels_cut(&arena, uses, 0, levels, 0, &count), FERRY_OK);
    assert_int_equal(count, 0);
}

/* Computes the levels of 2^18 copies, each of which depends on the previous copy. This must take
 * O(n log n) time. */
static void
test_many_copies_are_cut_quickly(void **state)
{
    (void)state;
    enum { MANY = 1 << 18 };
    struct ferryi_use *uses = malloc(2 * MANY * sizeof(*uses));
    uint32_t *levels = malloc(MANY * sizeof(*levels)), count;
    assert_non_null(uses);
    assert_non_null(levels);
    for (uint32_t i = 0; i < MANY; i++) {
        uses[2 * i] = (struct ferryi_use){NULL, 8 * i, 8 * i + 8, i, false};
        uses[2 * i + 1] = (struct ferryi_use){NULL, 8 * i + 8, 8 * i + 16, i, true};
    }
    assert_int_equal(ferryi_levels_cut(&arena, uses, 2 * MANY, levels, MANY, &count), FERRY_OK);
    assert_int_equal(count, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(levels[i], i);
    free(uses);
    free(levels);
}

static int
free_arena(void **state)
{
    (void)state;
    ferryi_arena_free(&arena);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_levels_are_as_low_as_can_be, free_arena),
        cmocka_unit_test_teardown(test_reads_and_neighbours_are_independent, free_arena),
        cmocka_unit_test_teardown(test_many_copies_are_cut_quickly, free_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
