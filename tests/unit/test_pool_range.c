/* SPDX-License-Identifier: MIT */
/* Tests pools whose backend has ranges: where they map handles, which they unmap, and what a
 * backend that fails leaves behind. */
#include "tests/unit/pool_backend.h"

#define HANDLE (2 * MIB)

static void
open_range(struct fixture *fixture, size_t capacity)
{
    backend_handle_bytes = HANDLE;
    fixture_open(fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    fixture->backend.capacity = capacity;
}

static char *
begin(const ferry_block *block)
{
    return ferry_block_pointer(block);
}

static size_t
reserved(struct fixture *fixture)
{
    assert_agrees(fixture);
    return (size_t)statistics(fixture).reserved_bytes;
}

/* Opens a range of ten handles, in which each second block of a handle is idle. */
static void
open_holed(struct fixture *fixture, ferry_block *kept[5])
{
    ferry_block *blocks[10];
    open_range(fixture, 10 * HANDLE);
    for (size_t i = 0; i < 10; i++)
        blocks[i] = take(fixture, HANDLE);
    for (size_t i = 0; i < 10; i += 2) {
        kept[i / 2] = blocks[i];
        give(blocks[i + 1]);
    }
    assert_int_equal(reserved(fixture), 10 * HANDLE);
}

static void
close_holed(struct fixture *fixture, ferry_block *kept[5])
{
    for (size_t i = 0; i < 5; i++)
        give(kept[i]);
    fixture_close(fixture);
}

static void
test_it_grows_at_its_end(void **state)
{
    (void)state;
    struct fixture fixture;
    open_range(&fixture, 0);
    assert_int_equal(reserved(&fixture), 0);
    ferry_block *first = take(&fixture, 3 * MIB), *second = take(&fixture, 3 * MIB),
                *small = take(&fixture, 4 * KIB);
    assert_ptr_equal(begin(second), begin(first) + 3 * MIB);
    assert_int_equal(fixture.backend.allocations,
                     4); /* three handles, and a slab of small blocks */
    assert_int_equal(reserved(&fixture), 3 * HANDLE + 2 * MIB);
    assert_false((uintptr_t)begin(small) - (uintptr_t)begin(first) < BACKEND_RANGE_BYTES);
    memset(begin(first), 1, 6 * MIB);
    give(first);
    give(second);
    give(small);
    fixture_close(&fixture);
}

/* A large block is split, and its parts are merged again. */
static void
test_idle_memory_serves_every_size(void **state)
{
    (void)state;
    struct fixture fixture;
    open_range(&fixture, 16 * MIB);
    ferry_block *block = take(&fixture, 16 * MIB), *parts[4];
    give(block);
    for (size_t i = 0; i < 4; i++)
        parts[i] = take(&fixture, 4 * MIB);
    for (size_t i = 0; i < 4; i++)
        give(parts[i]);
    block = take(&fixture, 14 * MIB);
    assert_int_equal(fixture.backend.allocations, 8);
    assert_int_equal(fixture.backend.frees, 0);
    give(block);
    fixture_close(&fixture);
}

/* Idle handles lie apart from each other, and together they are as large as the request. */
static void
test_scattered_handles_become_one_block(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *kept[5], *none = NULL;
    open_holed(&fixture, kept);
    ferry_block *block = take(&fixture, 5 * HANDLE);
    memset(begin(block), 2, 5 * HANDLE);
    assert_int_equal(reserved(&fixture), 10 * HANDLE);
    assert_int_equal(ferry_pool_allocate(fixture.pool, HANDLE, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_null(none);
    give(block);
    close_holed(&fixture, kept);
}

/* The range has a limit, too, and one byte less than a handle is no handle. */
static void
test_a_limit_counts_handles(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    backend_handle_bytes = HANDLE;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 3 * HANDLE - 1, NULL);
    ferry_block *block = take(&fixture, 2 * HANDLE), *small = take(&fixture, 256);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 3 * MIB / 2, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "limit"));
    give(block);
    give(small);
    fixture_close(&fixture);
}

static void
test_holes_are_filled_first(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *kept[5];
    open_holed(&fixture, kept);
    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    assert_int_equal(reserved(&fixture), 5 * HANDLE);
    ferry_block *block = take(&fixture, HANDLE), *other = take(&fixture, 2 * HANDLE);
    assert_ptr_equal(begin(block), begin(kept[0]) + HANDLE);
    assert_ptr_equal(begin(other), begin(kept[4]) + HANDLE);
    assert_int_equal(reserved(&fixture), 8 * HANDLE);
    give(block);
    give(other);
    close_holed(&fixture, kept);
}

/* A trim unmaps whole handles only, as many as it must, from the end. */
static void
test_a_trim_unmaps_whole_handles(void **state)
{
    (void)state;
    struct fixture fixture;
    open_range(&fixture, 0);
    ferry_block *first = take(&fixture, 3 * MIB), *block = take(&fixture, 8 * MIB),
                *last = take(&fixture, 3 * MIB);
    assert_int_equal(reserved(&fixture), 7 * HANDLE);
    give(block);
    assert_int_equal(ferry_pool_trim(fixture.pool, 6 * MIB), FERRY_OK);
    assert_int_equal(reserved(&fixture), 6 * HANDLE);
    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    assert_int_equal(reserved(&fixture), 4 * HANDLE);
    memset(begin(first), 3, 3 * MIB);
    memset(begin(last), 3, 3 * MIB);
    /* The idle end of the first handle and the hole become one block. */
    ferry_block *again = take(&fixture, 7 * MIB);
    assert_ptr_equal(begin(again), begin(first) + 3 * MIB);
    memset(begin(again), 4, 7 * MIB);
    assert_int_equal(reserved(&fixture), 7 * HANDLE);
    give(first);
    give(again);
    give(last);
    fixture_close(&fixture);
}

static void
test_old_memory_is_unmapped(void **state)
{
    (void)state;
    struct fixture fixture;
    open_range(&fixture, 0);
    ferry_block *block = take(&fixture, 4 * HANDLE);
    give(block);
    assert_int_equal(ferry_pool_trim_older(fixture.pool, 3600000), FERRY_OK);
    assert_int_equal(reserved(&fixture), 4 * HANDLE);
    ferryi_sleep_ns(2000000);
    assert_int_equal(ferry_pool_trim_older(fixture.pool, 1), FERRY_OK);
    assert_int_equal(reserved(&fixture), 0);
    fixture_close(&fixture);
}

/* One of four handles is not mapped. What was mapped before stays as idle memory, and the next
 * allocation uses it. */
static void
test_a_failing_map_loses_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    open_range(&fixture, 0);
    ferry_block *first = take(&fixture, 3 * MIB);
    for (unsigned long nth = 1; nth <= 4; nth++) {
        fixture.backend.fail_with = FERRY_ERROR_DEVICE;
        fixture.backend.fail_at = fixture.backend.calls + nth;
        assert_int_equal(ferry_pool_allocate(fixture.pool, 4 * HANDLE, NULL, &none),
                         FERRY_ERROR_DEVICE);
        assert_non_null(strstr(ferry_last_error(), "made to fail"));
        assert_null(none);
        assert_int_equal(reserved(&fixture), (1 + nth) * HANDLE);
        assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
        assert_int_equal(reserved(&fixture), 2 * HANDLE);
    }
    ferry_block *block = take(&fixture, 4 * HANDLE);
    assert_ptr_equal(begin(block), begin(first) + 3 * MIB);
    give(block);
    give(first);
    fixture_close(&fixture);
}

/* A handle that the backend fails to unmap stays in the pool. */
static void
test_a_failing_unmap_loses_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    open_range(&fixture, 0);
    ferry_block *block = take(&fixture, 4 * HANDLE);
    give(block);
    (void)statistics(&fixture);
    fixture.backend.fail_at = fixture.backend.calls + 2;
    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    assert_non_null(strstr(fixture.logged, "made to fail"));
    assert_int_equal(reserved(&fixture), 3 * HANDLE);
    block = take(&fixture, 3 * HANDLE);
    memset(begin(block), 5, 3 * HANDLE);
    assert_int_equal(fixture.backend.allocations, 4);
    give(block);
    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    assert_int_equal(reserved(&fixture), 0);
    fixture_close(&fixture);
}

/* In a pool that a memory checker watches, no block becomes longer. Checks that, and closes the
 * fixture, if this is such a pool. */
static bool
skips_growth(struct fixture *fixture)
{
    if (!fixture->pool->has_checker)
        return false;
    ferry_block *block = take(fixture, 3 * MIB);
    assert_null(ferryi_block_extend(block, 10 * MIB));
    give(block);
    fixture_close(fixture);
    return true;
}

/* Memory that the walk over blocks has seen to be filled by them. */
struct walk {
    void *slab;
    size_t slab_bytes, at, slabs, blocks;
};

static bool
check_neighbours(const ferry_block_info *info, void *user)
{
    struct walk *walk = user;
    if (info->slab != walk->slab) {
        assert_int_equal(walk->at, walk->slab_bytes);
        walk->slab = info->slab;
        walk->slab_bytes = info->slab_bytes;
        walk->at = 0;
        walk->slabs++;
    }
    assert_int_equal(info->slab_bytes, walk->slab_bytes);
    assert_in_range((char *)info->pointer - ((char *)info->slab + walk->at), 0, info->bytes - 1);
    walk->at += info->bytes;
    walk->blocks++;
    return true;
}

/* Without a hole between them, blocks are described as those of one slab, which they fill. */
static void
test_blocks_are_described_between_holes(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *kept[5];
    struct walk walk = {0};
    open_holed(&fixture, kept);
    assert_int_equal(ferry_pool_for_each_block(fixture.pool, check_neighbours, &walk), FERRY_OK);
    assert_int_equal(walk.slabs, 1);
    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    assert_int_equal(reserved(&fixture), 5 * HANDLE);
    walk = (struct walk){0};
    assert_int_equal(ferry_pool_for_each_block(fixture.pool, check_neighbours, &walk), FERRY_OK);
    assert_int_equal(walk.at, walk.slab_bytes);
    assert_int_equal(walk.slabs, 5);
    assert_int_equal(walk.blocks, 5);
    close_holed(&fixture, kept);
}

static void
retire(ferry_block **block, ferry_block *longer)
{
    assert_non_null(longer);
    assert_ptr_equal(begin(longer), begin(*block));
    if (longer != *block)
        ferryi_block_retire(*block);
    *block = longer;
}

/* A block becomes longer at its address: into the hole at the end, into idle memory, and into both.
 */
static void
test_a_block_becomes_longer_where_it_is(void **state)
{
    (void)state;
    struct fixture fixture;
    open_range(&fixture, 0);
    if (skips_growth(&fixture))
        return;
    ferry_block *block = take(&fixture, 3 * MIB);
    assert_int_equal(ferry_block_label(block, "grows"), FERRY_OK);
    memset(begin(block), 6, 3 * MIB);
    retire(&block, ferryi_block_extend(block, 2 * MIB)); /* it is long enough */
    retire(&block, ferryi_block_extend(block, 3 * MIB + 100));
    retire(&block, ferryi_block_extend(block, 9 * MIB));
    assert_string_equal(atomic_load(&block->label), "grows");
    assert_int_equal(block->requested, 9 * MIB);
    assert_int_equal(reserved(&fixture), 5 * HANDLE);
    memset(begin(block), 6, 9 * MIB);
    ferry_block *behind = take(&fixture, 3 * MIB), *end = take(&fixture, 2 * MIB);
    assert_null(ferryi_block_extend(block, 10 * MIB)); /* a live block is behind it */
    give(behind);
    (void)statistics(&fixture);
    retire(&block, ferryi_block_extend(block, 11 * MIB));
    assert_null(ferryi_block_extend(block, 14 * MIB));
    assert_int_equal(fixture.backend.allocations, 7);
    assert_int_equal(statistics(&fixture).live_blocks, 2);
    assert_agrees(&fixture);
    give(block);
    give(end);
    fixture_close(&fixture);
}

/* A block whose further handles cannot be mapped stays as it is, and so it does at the limit. */
static void
test_a_block_that_cannot_become_longer(void **state)
{
    (void)state;
    struct fixture fixture;
    open_range(&fixture, 0);
    if (skips_growth(&fixture))
        return;
    ferry_block *block = take(&fixture, 3 * MIB);
    for (unsigned long nth = 1; nth <= 3; nth++) {
        fixture.backend.fail_at = fixture.backend.calls + nth;
        assert_null(ferryi_block_extend(block, 10 * MIB));
        assert_int_equal(block->requested, 3 * MIB);
        assert_int_equal(reserved(&fixture), (1 + nth) * HANDLE);
        assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
        assert_int_equal(reserved(&fixture), 2 * HANDLE);
    }
    const ferry_pool_options options = {.limit_bytes = 8 * MIB};
    assert_int_equal(ferry_pool_configure(fixture.pool, &options), FERRY_OK);
    assert_null(ferryi_block_extend(block, 9 * MIB));
    assert_null(ferryi_block_extend(block, SIZE_MAX));
    retire(&block, ferryi_block_extend(block, 8 * MIB));
    assert_int_equal(reserved(&fixture), 4 * HANDLE);
    give(block);
    block = take(&fixture, 100);
    assert_null(ferryi_block_extend(block, 200)); /* a small block is in a slab */
    give(block);
    fixture_close(&fixture);
    backend_handle_bytes = 0;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    block = take(&fixture, 3 * MIB);
    assert_null(ferryi_block_extend(block, 4 * MIB)); /* a slab does not grow */
    give(block);
    fixture_close(&fixture);
}

/* Blocks above the largest size class, and more than there are addresses. */
static void
test_very_large_blocks(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    backend_handle_bytes = 256 * MIB;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    ferry_block *large = take(&fixture, 3 * GIB), *other = take(&fixture, 2 * GIB + 1);
    give(large);
    (void)statistics(&fixture);
    large = take(&fixture, 3 * GIB - 5 * MIB);
    assert_int_equal(fixture.backend.bytes, 21 * 256 * MIB);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 15 * GIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "addresses"));
    give(large);
    give(other);
    fixture_close(&fixture);
}

static ferry_status
no_addresses(void *user, size_t bytes, void **out)
{
    (void)user, (void)out;
    return ferryi_fail(FERRY_ERROR_DEVICE, "reserve %zu bytes: made to fail", bytes);
}

/* No pool is made without its addresses. */
static void
test_addresses_that_are_refused(void **state)
{
    (void)state;
    struct backend backend = {0};
    ferry_pool *pool = NULL;
    struct ferryi_pool_config config = {
        .backend = {.alloc = backend_alloc, .free = backend_free, .user = &backend},
        .name = "test memory"};
    backend_add_ranges(&config.backend, HANDLE);
    config.backend.range_reserve = no_addresses;
    assert_int_equal(ferryi_pool_create(&config, &pool), FERRY_ERROR_DEVICE);
    assert_non_null(strstr(ferry_last_error(), "create a pool of test memory"));
    assert_null(pool);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_grows_at_its_end),
        cmocka_unit_test(test_idle_memory_serves_every_size),
        cmocka_unit_test(test_scattered_handles_become_one_block),
        cmocka_unit_test(test_a_limit_counts_handles),
        cmocka_unit_test(test_holes_are_filled_first),
        cmocka_unit_test(test_a_trim_unmaps_whole_handles),
        cmocka_unit_test(test_old_memory_is_unmapped),
        cmocka_unit_test(test_a_failing_map_loses_nothing),
        cmocka_unit_test(test_a_failing_unmap_loses_nothing),
        cmocka_unit_test(test_blocks_are_described_between_holes),
        cmocka_unit_test(test_a_block_becomes_longer_where_it_is),
        cmocka_unit_test(test_a_block_that_cannot_become_longer),
        cmocka_unit_test(test_very_large_blocks),
        cmocka_unit_test(test_addresses_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
