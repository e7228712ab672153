/* SPDX-License-Identifier: MIT */
#include "tests/unit/pool_backend.h"

#include "tests/support/fault.h"

/* Memory made of granules: what is idle in other sizes becomes one piece. */

#define GRANULE (2 * MIB)

enum { LARGE = 12 };

/* Large and small blocks in turn, until there is no more; then the large ones come back. Of 56 MiB,
 * 48 are idle, in pieces of 4. */
static void
scatter(struct fixture *fixture, size_t granule, ferry_block *small[LARGE])
{
    ferry_block *large[LARGE];
    fixture_open_growing(fixture, FERRY_MEMORY_DEVICE, 0, NULL, granule);
    fixture->backend.capacity = 50 * MIB;
    for (size_t i = 0; i < LARGE; i++) {
        large[i] = take(fixture, 4 * MIB);
        small[i] = take(fixture, 64 * KIB);
    }
    for (size_t i = 0; i < LARGE; i++)
        give(large[i]);
    assert_int_equal(fixture->backend.bytes, 50 * MIB);
}

static void
gather(struct fixture *fixture, ferry_block *small[LARGE])
{
    for (size_t i = 0; i < LARGE; i++)
        give(small[i]);
    fixture_close(fixture);
}

static void
test_scattered_memory_becomes_one_block(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *small[LARGE];
    scatter(&fixture, GRANULE, small);
    ferry_block *block = take(&fixture, 48 * MIB);
    struct ferryi_pool_details stats = statistics(&fixture);
    assert_int_equal(stats.saved_by_merge, 1);
    assert_int_equal(stats.shortages, 1);
    assert_int_equal(stats.trims, 0);
    assert_int_equal(stats.misses, LARGE + 1 + 1);
    assert_int_equal(stats.reserved_bytes, 50 * MIB);
    assert_int_equal(fixture.backend.fresh_bytes, 50 * MIB); /* nothing was asked for anew */
    assert_int_equal(fixture.backend.peak_bytes, 50 * MIB);
    memset(ferry_block_pointer(block), 1, 48 * MIB);
    assert_agrees(&fixture);
    give(block);
    assert_ptr_equal(take(&fixture, 48 * MIB), block); /* it is cached like any other */
    give(block);
    gather(&fixture, small);
}

/* Where memory cannot be put together anew, it must go back and come again. */
static void
test_without_granules_it_goes_back_first(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *small[LARGE];
    scatter(&fixture, 0, small);
    give(take(&fixture, 48 * MIB));
    struct ferryi_pool_details stats = statistics(&fixture);
    assert_int_equal(stats.saved_by_merge, 0);
    assert_int_equal(stats.saved_by_trim, 1);
    assert_int_equal(fixture.backend.fresh_bytes, 98 * MIB);
    gather(&fixture, small);
}

static void
test_only_what_is_missing_is_asked_for(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_growing(&fixture, FERRY_MEMORY_DEVICE, 24 * MIB, NULL, GRANULE);
    ferry_block *first = take(&fixture, 4 * MIB), *second = take(&fixture, 8 * MIB);
    give(first);
    give(second);
    ferry_block *block = take(&fixture, 20 * MIB);
    assert_int_equal(statistics(&fixture).saved_by_merge, 1);
    assert_int_equal(fixture.backend.fresh_bytes, 20 * MIB);
    assert_int_equal(fixture.backend.peak_bytes, 20 * MIB);
    assert_int_equal(statistics(&fixture).reserved_bytes, 20 * MIB);
    give(block);
    fixture_close(&fixture);
}

/* Longest idle first, and no more of them than it takes; what is left over of the last one goes
 * back. */
static void
test_what_is_left_over_goes_back(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_growing(&fixture, FERRY_MEMORY_DEVICE, 24 * MIB, NULL, GRANULE);
    ferry_block *blocks[3] = {take(&fixture, 8 * MIB), take(&fixture, 8 * MIB),
                              take(&fixture, 6 * MIB)};
    for (size_t i = 0; i < 3; i++)
        give(blocks[i]);
    assert_int_equal(statistics(&fixture).reserved_bytes, 22 * MIB);
    ferry_block *block = take(&fixture, 14 * MIB);
    assert_int_equal(statistics(&fixture).reserved_bytes, 20 * MIB);
    assert_ptr_equal(take(&fixture, 6 * MIB), blocks[2]);
    assert_int_equal(statistics(&fixture).hits, 1);
    assert_agrees(&fixture);
    give(blocks[2]);
    give(block);
    fixture_close(&fixture);
}

/* Empty slabs of small blocks are made of granules too, and are made of them: not what is no
 * multiple of one. */
static void
test_slabs_and_large_blocks_exchange_granules(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_growing(&fixture, FERRY_MEMORY_DEVICE, 20 * MIB, NULL, GRANULE);
    ferry_block *small[8 * 2], *odd = take(&fixture, 3 * MIB);
    for (size_t i = 0; i < 16; i++)
        small[i] = take(&fixture, MIB);
    for (size_t i = 0; i < 16; i++)
        give(small[i]);
    give(odd);
    ferry_block *block = take(&fixture, 16 * MIB);
    assert_int_equal(statistics(&fixture).saved_by_merge, 1);
    assert_ptr_equal(take(&fixture, 3 * MIB), odd);
    give(odd);
    give(block);
    for (size_t i = 0; i < 16; i++)
        small[i] = take(&fixture, MIB);
    assert_int_equal(statistics(&fixture).saved_by_merge + statistics(&fixture).saved_by_trim,
                     1 + 1);
    for (size_t i = 0; i < 16; i++)
        give(small[i]);
    fixture_close(&fixture);
}

static void
test_the_limit_holds(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    fixture_open_growing(&fixture, FERRY_MEMORY_DEVICE, 16 * MIB, NULL, GRANULE);
    ferry_block *held = take(&fixture, 8 * MIB);
    give(take(&fixture, 4 * MIB));
    assert_int_equal(ferry_pool_allocate(fixture.pool, 10 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_agrees(&fixture);
    give(take(&fixture, 8 * MIB));
    assert_true(fixture.backend.peak_bytes <= 16 * MIB);
    give(held);
    fixture_close(&fixture);
}

/* Each call of the backend fails in turn: the take may fail, the pool goes on, and no byte is lost.
 */
static void
test_a_call_that_fails_changes_nothing(void **state)
{
    (void)state;
    const ferry_status statuses[] = {FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE};
    bool remake_failed = false;
    for (unsigned long nth = 1; nth <= 4; nth++)
        for (size_t i = 0; i < 2; i++) {
            struct fixture fixture;
            ferry_block *small[LARGE], *block = NULL;
            scatter(&fixture, GRANULE, small);
            fixture.backend.fail_with = statuses[i];
            fixture.backend.fail_at = fixture.backend.calls + nth;
            ferry_status status = ferry_pool_allocate(fixture.pool, 48 * MIB, NULL, &block);
            remake_failed |= nth == 2 && status == FERRY_ERROR_DEVICE;
            assert_true(status == FERRY_OK || status == statuses[i]);
            assert_agrees(&fixture);
            fixture.backend.fail_at = 0;
            give(status == FERRY_OK ? block : take(&fixture, 48 * MIB));
            gather(&fixture, small);
        }
    assert_true(remake_failed);
}

static void
test_exact_sizes_are_whole_granules(void **state)
{
    (void)state;
    const struct ferryi_pool_backend backend = {.align = 256, .granule = GRANULE};
    struct ferryi_pool_request request = {.bytes = GIB + 1, .align = 256};
    assert_true(ferryi_pool_request_plan(&request, &backend));
    assert_int_equal(request.need, GIB + GRANULE);
    request = (struct ferryi_pool_request){.bytes = SIZE_MAX - 8192, .align = 256};
    assert_false(ferryi_pool_request_plan(&request, &backend));
    for (size_t bytes = 16 * MIB; bytes <= GIB; bytes += MIB) {
        request = (struct ferryi_pool_request){.bytes = bytes, .align = 256};
        assert_true(ferryi_pool_request_plan(&request, &backend));
        assert_int_equal(request.need % GRANULE, 0);
    }
}

/* -- over devices ------------------------------------------------------------------------------ */

/* A context's pool of 64 MiB of device memory, with 56 idle in pieces of 8. */
static ferry_context *
open_scattered(const char *devices, ferry_pool **out)
{
    ferry_context *context = NULL;
    const ferry_context_options options = {
        .devices = devices, .tuning = "emulated.memory=64M", .growable_device_memory = true};
    ferry_block *blocks[7];
    assert_int_equal(ferry_context_create(&options, &context), FERRY_OK);
    assert_int_equal(ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, out), FERRY_OK);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(ferry_pool_allocate(*out, 8 * MIB, NULL, &blocks[i]), FERRY_OK);
    for (size_t i = 0; i < 7; i++)
        give(blocks[i]);
    return context;
}

static void
test_a_device_puts_its_memory_together(void **state)
{
    (void)state;
    ferry_pool *pool;
    struct ferryi_pool_details stats;
    ferry_block *block = NULL;
    ferry_place_info info;
    ferry_context *context = open_scattered("emulated", &pool);
    assert_int_equal(ferry_context_get_place_info(context, 1, &info), FERRY_OK);
    assert_true(info.capabilities & FERRY_CAN_GROW);
    assert_int_equal(ferry_pool_allocate(pool, 64 * MIB, NULL, &block), FERRY_OK);
    memset(ferry_block_pointer(block), 1, 64 * MIB);
    ferry_pool_stats public_stats;
    assert_int_equal(ferry_pool_get_stats(pool, &public_stats), FERRY_OK);
    ferryi_pool_get_details(pool, &stats);
    assert_int_equal(stats.saved_by_merge, 1);
    assert_int_equal(stats.reserved_bytes, 64 * MIB);
    give(block);
    ferry_context_destroy(&context);
}

/* Whichever call of the device fails, the pool goes on with all its memory. */
static void
test_a_failing_device_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 4; nth++) {
        ferry_pool *pool;
        ferry_block *block = NULL;
        ferry_context *context = open_scattered("fault", &pool);
        fault_arm(nth);
        ferry_status status = ferry_pool_allocate(pool, 64 * MIB, NULL, &block);
        assert_int_equal(fault_tripped(), nth < 4);
        assert_int_equal(status, nth < 4 ? FERRY_ERROR_DEVICE : FERRY_OK);
        fault_disarm();
        assert_true(ferryi_pool_check(pool));
        if (!block)
            assert_int_equal(ferry_pool_allocate(pool, 64 * MIB, NULL, &block), FERRY_OK);
        give(block);
        ferry_context_destroy(&context);
        assert_int_equal(fault_live(), 0);
    }
}

int
main(void)
{
    fault_register();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scattered_memory_becomes_one_block),
        cmocka_unit_test(test_without_granules_it_goes_back_first),
        cmocka_unit_test(test_only_what_is_missing_is_asked_for),
        cmocka_unit_test(test_what_is_left_over_goes_back),
        cmocka_unit_test(test_slabs_and_large_blocks_exchange_granules),
        cmocka_unit_test(test_the_limit_holds),
        cmocka_unit_test(test_a_call_that_fails_changes_nothing),
        cmocka_unit_test(test_exact_sizes_are_whole_granules),
        cmocka_unit_test(test_a_device_puts_its_memory_together),
        cmocka_unit_test(test_a_failing_device_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
