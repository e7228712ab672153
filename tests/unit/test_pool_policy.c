/* SPDX-License-Identifier: MIT */
/* Tests the options of a pool that limit how much idle memory the pool keeps. */
#include "tests/unit/pool_backend.h"

#define MS UINT64_C(1000000)

static void
configure(struct fixture *fixture, ferry_pool_options options)
{
    assert_int_equal(ferry_pool_configure(fixture->pool, &options), FERRY_OK);
}

static void
test_the_limit_can_be_changed(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 8 * MIB, NULL);
    configure(&fixture, (ferry_pool_options){.limit_bytes = 4 * MIB});
    assert_int_equal(ferry_pool_allocate(fixture.pool, 5 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "free 4194304, total 4194304"));
    assert_int_equal(ferry_pool_configure(fixture.pool, NULL),
                     FERRY_OK); /* restores the defaults */
    give(take(&fixture, 5 * MIB));
    assert_int_equal(ferry_pool_configure(NULL, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    fixture_close(&fixture);
}

static void
test_above_the_mark_idle_memory_goes_back(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[8];
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    configure(&fixture, (ferry_pool_options){.high_water_bytes = 10 * MIB});
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(&fixture, 4 * MIB); /* allocated blocks may exceed the high-water mark */
    assert_int_equal(fixture.backend.bytes, 32 * MIB);
    for (size_t i = 0; i < 8; i++)
        give(blocks[i]);
    assert_true(fixture.backend.bytes <= 10 * MIB);
    assert_true(fixture.backend.bytes > 0); /* memory below the mark is kept */
    uint64_t misses = statistics(&fixture).misses;
    give(take(&fixture, 4 * MIB));
    assert_int_equal(statistics(&fixture).misses, misses);
    fixture_close(&fixture);
}

/* Checks that a pool that grows above its high-water mark frees its oldest idle memory, even if
 * those blocks are in magazines. */
static void
test_growth_above_the_mark_gives_older_memory_back(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    configure(&fixture, (ferry_pool_options){.high_water_bytes = 16 * MIB});
    give(take(&fixture, 5 * MIB));
    give(take(&fixture, 6 * MIB));
    ferry_block *held = take(&fixture, 10 * MIB);
    assert_true(fixture.backend.bytes <= 16 * MIB);
    assert_int_equal(fixture.backend.frees, 1); /* the pool needed to free only its oldest block */
    give(held);
    fixture_close(&fixture);
}

static void
test_the_mark_leaves_the_threshold(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[4];
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    configure(&fixture,
              (ferry_pool_options){.high_water_bytes = 1, .release_threshold_bytes = 8 * MIB});
    for (size_t i = 0; i < 4; i++)
        blocks[i] = take(&fixture, 4 * MIB);
    for (size_t i = 0; i < 4; i++)
        give(blocks[i]);
    assert_int_equal(statistics(&fixture).cached_bytes, 8 * MIB);
    assert_int_equal(fixture.backend.frees, 2);
    fixture_close(&fixture);
}

static void
test_old_memory_goes_back_when_the_period_is_over(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    give(take(&fixture, 5 * MIB));
    ferryi_sleep_ns(1100 * MS);
    configure(&fixture, (ferry_pool_options){.trim_period_ms = 20, .trim_age_ms = 1000});
    give(take(&fixture, 4 * MIB)); /* the period has not passed */
    assert_int_equal(fixture.backend.frees, 0);
    ferryi_sleep_ns(25 * MS);
    give(take(&fixture, 3 * MIB));
    assert_int_equal(fixture.backend.frees,
                     1); /* only the block of 5 MiB was idle for more than a second */
    assert_int_equal(statistics(&fixture).cached_bytes, 7 * MIB);
    fixture_close(&fixture);
}

/* Checks that a thread trims idle memory after the trim period of the pool. The thread must do so
 * although all of its allocations find their block in a magazine, which is the fast path. */
static void
test_the_period_is_seen_by_a_thread_that_only_hits(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    give(take(&fixture, 5 * MIB));
    give(take(&fixture, 3 * MIB));
    statistics(&fixture); /* reading the statistics empties the magazines, which records when each
                             block was freed */
    configure(&fixture, (ferry_pool_options){.trim_period_ms = 5});
    ferryi_sleep_ns(10 * MS);
    for (int n = 0; n < 300; n++)
        give(take(&fixture, 3 * MIB));
    assert_int_equal(fixture.backend.frees, 1);
    fixture_close(&fixture);
}

/* Allocates and frees blocks of increasing sizes, so that no idle block is large enough for the
 * next allocation. */
static void
take_many_sizes(struct fixture *fixture, size_t step)
{
    for (size_t i = 1; i < 20; i++)
        give(take(fixture, i * step));
}

static void
test_growth_gives_back_what_is_idle_beyond_half_the_peak(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    take_many_sizes(&fixture, 16 * MIB);
    ferry_pool_stats stats = statistics(&fixture);
    struct ferryi_pool_counters all = counters(&fixture);
    assert_int_equal(all.peak_live_bytes, 320 * MIB); /* the size class of 304 MiB */
    assert_true(stats.peak_reserved_bytes <= 480 * MIB);
    fixture_close(&fixture);
}

/* Lets a pool grow while all of its idle blocks are in the magazines of this thread. The pool must
 * free the oldest of these blocks. */
static void
test_growth_gives_the_oldest_back(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    give(take(&fixture, 128 * MIB));
    give(take(&fixture, 40 * MIB));
    give(take(&fixture, 48 * MIB));
    assert_int_equal(fixture.backend.frees, 1);
    uint64_t misses = statistics(&fixture).misses;
    give(take(&fixture, 40 * MIB));
    give(take(&fixture, 48 * MIB));
    assert_int_equal(statistics(&fixture).misses, misses);
    fixture_close(&fixture);
}

static void
test_growth_leaves_the_threshold(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    configure(&fixture, (ferry_pool_options){.release_threshold_bytes = SIZE_MAX});
    take_many_sizes(&fixture, 16 * MIB);
    assert_int_equal(fixture.backend.frees, 0);
    fixture_close(&fixture);
}

static void
test_little_memory_is_kept(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    for (size_t i = 1; i < 11; i++)
        give(take(
            &fixture,
            i * 2 * MIB)); /* 110 MiB in total, but at most 20 MiB are allocated at the same time */
    assert_int_equal(fixture.backend.frees, 0);
    fixture_close(&fixture);
}

static void
test_without_a_policy_and_growth_nothing_goes_back(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[8];
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(&fixture, (i + 1) * 2 * MIB);
    for (size_t i = 0; i < 8; i++)
        give(blocks[i]);
    ferryi_sleep_ns(5 * MS);
    for (int n = 0; n < 600; n++)
        give(take(&fixture, 4 * MIB));
    assert_int_equal(fixture.backend.frees, 0);
    fixture_close(&fixture);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_limit_can_be_changed),
        cmocka_unit_test(test_above_the_mark_idle_memory_goes_back),
        cmocka_unit_test(test_growth_above_the_mark_gives_older_memory_back),
        cmocka_unit_test(test_the_mark_leaves_the_threshold),
        cmocka_unit_test(test_old_memory_goes_back_when_the_period_is_over),
        cmocka_unit_test(test_the_period_is_seen_by_a_thread_that_only_hits),
        cmocka_unit_test(test_growth_gives_back_what_is_idle_beyond_half_the_peak),
        cmocka_unit_test(test_growth_gives_the_oldest_back),
        cmocka_unit_test(test_growth_leaves_the_threshold),
        cmocka_unit_test(test_little_memory_is_kept),
        cmocka_unit_test(test_without_a_policy_and_growth_nothing_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
