/* SPDX-License-Identifier: MIT */
/* Tests how a pool splits and merges blocks in slabs, and how it finds large blocks by size. */
#include "tests/unit/pool_backend.h"

/* -- pieces of slabs --------------------------------------------------------------------------- */

static void
test_classes_share_a_slab(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[4];
    const size_t sizes[] = {300, 5000, 100 * KIB, MIB};
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    for (size_t i = 0; i < 4; i++)
        blocks[i] = take(&fixture, sizes[i]);
    assert_int_equal(fixture.backend.allocations, 1);
    for (size_t i = 0; i < 4; i++)
        give(blocks[i]);
    fixture_close(&fixture);
}

/* Checks that adjacent idle blocks are merged, whatever the order in which they are freed. */
static void
test_neighbours_that_came_back_make_a_larger_block(void **state)
{
    (void)state;
    const size_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 2, 0}};
    for (size_t o = 0; o < 4; o++) {
        struct fixture fixture;
        ferry_block *blocks[8];
        fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
        for (size_t i = 0; i < 8; i++)
            blocks[i] = take(&fixture, 256 * KIB);
        void *low = blocks[0]->pointer;
        for (size_t i = 0; i < 4; i++)
            give(blocks[orders[o][i]]);
        assert_int_equal(idle_blocks(&fixture).all, 1);
        ferry_block *whole = take(&fixture, MIB);
        assert_int_equal(fixture.backend.allocations, 1);
        assert_ptr_equal(ferry_block_pointer(whole), low);
        assert_true(ferryi_pool_check(fixture.pool));
        for (size_t i = 4; i < 8; i++)
            give(blocks[i]);
        give(whole);
        assert_int_equal(statistics(&fixture).cached_bytes, 2 * MIB);
        fixture_close(&fixture);
    }
}

/* Frees one block and, elsewhere in the slab, two adjacent blocks. An allocation must use the
 * smallest idle block that is large enough, although a larger one was freed later. */
static void
test_a_small_take_gets_the_best_fit(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[8];
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(&fixture, 128 * KIB);
    void *single = blocks[1]->pointer, *pair = blocks[3]->pointer;
    give(blocks[1]);
    give(blocks[3]);
    give(blocks[4]);
    assert_int_equal(idle_blocks(&fixture).all,
                     3); /* and the part of the slab that was never used */
    ferry_block *smaller = take(&fixture, 112 * KIB), *larger = take(&fixture, 256 * KIB);
    assert_ptr_equal(smaller->pointer, single);
    assert_ptr_equal(larger->pointer, pair);
    assert_int_equal(idle_blocks(&fixture).all, 2); /* the other one was cut from `single` */
    give(smaller);
    give(larger);
    for (size_t i = 0; i < 8; i++)
        if (i != 1 && i != 3 && i != 4)
            give(blocks[i]);
    fixture_close(&fixture);
}

static void
test_a_held_block_keeps_its_neighbours_apart(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[8];
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 2 * MIB, NULL);
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(&fixture, 256 * KIB);
    for (size_t i = 0; i < 8; i += 2)
        give(blocks[i]);
    ferry_block *none = NULL;
    assert_int_equal(ferry_pool_allocate(fixture.pool, 512 * KIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "cached 1048576, largest free 262144"));
    for (size_t i = 1; i < 8; i += 2)
        give(blocks[i]);
    give(take(&fixture, MIB));
    fixture_close(&fixture);
}

static void
test_pages_in_a_slab(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[60];
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    for (size_t i = 0; i < 60; i += 2) {
        blocks[i] = take(&fixture, 300 + i * 10);
        blocks[i + 1] = take(&fixture, 32 * KIB + i * 500);
        assert_int_equal((uintptr_t)ferry_block_pointer(blocks[i + 1]) % 4096, 0);
    }
    assert_true(ferryi_pool_check(fixture.pool));
    for (size_t i = 0; i < 60; i++)
        give(blocks[i]);
    fixture_close(&fixture);
}

/* -- large blocks ------------------------------------------------------------------------------ */

/* The sizes of the idle blocks increase from the oldest to the newest, so a search that uses the
 * newest block that fits would find the largest one. The first blocks that the test needs are in
 * the middle of their bin. A search of other bins examines only eight blocks from each end. */
static void
test_a_large_take_gets_the_best_fit(void **state)
{
    (void)state;
    enum { SIZES = 20 };
    struct fixture fixture;
    ferry_block *blocks[SIZES];
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    for (size_t i = 0; i < SIZES; i++)
        blocks[i] = take(&fixture, GIB + (i + 1) * 32 * MIB);
    for (size_t i = 0; i < SIZES; i++)
        give(blocks[i]);
    for (size_t k = 0; k < SIZES; k++) {
        size_t i = (SIZES / 2 + SIZES - k) % SIZES;
        blocks[i] = take(&fixture, GIB + (i + 1) * 32 * MIB - 100);
        assert_int_equal(blocks[i]->bytes, GIB + (i + 1) * 32 * MIB);
    }
    assert_int_equal(fixture.backend.allocations, SIZES);
    for (size_t i = 0; i < SIZES; i++)
        give(blocks[i]);
    fixture_close(&fixture);
}

static void
test_a_fit_wastes_an_eighth_at_most(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    give(take(&fixture, 9 * MIB));
    ferry_block *next_class = take(&fixture, 8 * MIB);
    assert_int_equal(next_class->bytes, 9 * MIB);
    give(next_class);
    ferry_block *own = take(&fixture, 8 * MIB - 1); /* 9 MiB would waste too much */
    assert_int_equal(own->bytes, 8 * MIB);
    give(own);
    assert_int_equal(fixture.backend.allocations, 2);
    fixture_close(&fixture);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_share_a_slab),
        cmocka_unit_test(test_neighbours_that_came_back_make_a_larger_block),
        cmocka_unit_test(test_a_small_take_gets_the_best_fit),
        cmocka_unit_test(test_a_held_block_keeps_its_neighbours_apart),
        cmocka_unit_test(test_pages_in_a_slab),
        cmocka_unit_test(test_a_large_take_gets_the_best_fit),
        cmocka_unit_test(test_a_fit_wastes_an_eighth_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
