/* SPDX-License-Identifier: MIT */
/* Tests what a pool allocates and frees: reuse, sizes, alignment, the limit, trims and statistics.
 */
#include "tests/unit/pool_backend.h"

#include "src/stream/stream.h"
#include "tests/support/short_memory.h"

/* -- reuse ------------------------------------------------------------------------------------- */

static void
test_a_thousand_takes_of_one_size_allocate_once(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 100 * KIB, MIB, MIB + 1, 20 * MIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fixture fixture;
        fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
        for (int n = 0; n < 1000; n++)
            give(take(&fixture, sizes[i]));
        ferry_pool_stats stats = statistics(&fixture);
        assert_int_equal(fixture.backend.allocations, 1);
        assert_int_equal(stats.allocations, 1000);
        assert_int_equal(stats.frees, 1000);
        assert_int_equal(stats.hits, 999);
        assert_int_equal(stats.misses, 1);
        fixture_close(&fixture);
    }
}

static void
test_a_hit_never_returns_less_than_asked(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    give(take(&fixture, 29 * MIB / 10));
    ferry_block *block = take(&fixture, 3 * MIB);
    memset(ferry_block_pointer(block), 1, 3 * MIB);
    give(block);

    /* A smaller request of the same size class must reuse the freed block. */
    uint64_t misses = statistics(&fixture).misses;
    give(take(&fixture, 3 * MIB - 1));
    assert_int_equal(statistics(&fixture).misses, misses);
    fixture_close(&fixture);
}

static void
test_above_the_largest_class_a_request_gets_its_size(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    ferry_block *block = take(&fixture, GIB + 5);
    assert_int_equal(block->bytes, GIB + 4096);
    give(block);
    block = take(&fixture, GIB + 4096); /* fits into the idle block */
    assert_int_equal(fixture.backend.allocations, 1);
    give(take(&fixture, GIB + 4097)); /* does not fit */
    assert_int_equal(fixture.backend.allocations, 2);
    give(block);
    assert_int_equal(idle_blocks(&fixture).all, 2);
    fixture_close(&fixture);
}

/* Checks that blocks that are allocated at the same time do not overlap. The test allocates and
 * frees random blocks. */
static void
test_live_blocks_do_not_overlap(void **state)
{
    (void)state;
    enum { HELD = 64 };
    struct fixture fixture;
    ferry_block *held[HELD] = {0};
    size_t bytes[HELD];
    uint64_t seed = 7;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    for (int n = 0; n < 4000; n++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t slot = (size_t)(seed >> 40) % HELD;
        if (held[slot]) {
            unsigned char *memory = ferry_block_pointer(held[slot]);
            assert_int_equal(memory[0], slot);
            assert_int_equal(memory[bytes[slot] / 2], slot);
            assert_int_equal(memory[bytes[slot] - 1], slot);
            give(held[slot]);
            held[slot] = NULL;
            continue;
        }
        bytes[slot] = (size_t)1 << ((seed >> 20) % 18);
        bytes[slot] += (size_t)(seed >> 33) % bytes[slot];
        held[slot] = take(&fixture, bytes[slot]);
        memset(ferry_block_pointer(held[slot]), (int)slot, bytes[slot]);
    }
    for (size_t i = 0; i < HELD; i++)
        if (held[i])
            give(held[i]);
    assert_agrees(&fixture);
    fixture_close(&fixture);
}

static void
test_alignment(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[14];
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    for (int n = 0; n < 14; n++) {
        void *pointer;
        size_t align = (size_t)256 << n;
        assert_int_equal(ferryi_pool_take(fixture.pool, 3000, align, NULL, &blocks[n], &pointer),
                         FERRY_OK);
        assert_int_equal((uintptr_t)pointer % align, 0);
        assert_true((char *)pointer >= (char *)blocks[n]->pointer);
        assert_true((char *)pointer + 3000 <= (char *)blocks[n]->pointer + blocks[n]->bytes);
        assert_int_equal((uintptr_t)ferry_block_pointer(blocks[n]) % 256, 0);
        memset(pointer, 0, 3000);
    }
    assert_int_equal(statistics(&fixture).requested_bytes, 14 * 3000);
    for (int n = 0; n < 14; n++)
        ferryi_pool_give(blocks[n], 0);
    fixture_close(&fixture);
}

static void
test_zero_bytes_give_a_block_without_a_pointer(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    ferry_block *one = take(&fixture, 0), *other = take(&fixture, 0);
    assert_null(ferry_block_pointer(one));
    assert_int_equal(ferry_block_bytes(one), 0);
    assert_ptr_not_equal(one, other);
    assert_int_equal(statistics(&fixture).live_blocks, 2);
    assert_agrees(&fixture);
    give(one);
    give(other);
    assert_int_equal(fixture.backend.allocations, 1);
    other = take(&fixture, 1); /* reuses a descriptor of a block of 0 bytes, which had no pointer */
    assert_non_null(ferry_block_pointer(other));
    give(other);
    fixture_close(&fixture);
}

/* -- limits and shortage ----------------------------------------------------------------------- */

static void
test_the_limit_bounds_what_is_taken(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = (ferry_block *)&fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 8 * MIB, NULL);
    ferry_block *held = take(&fixture, 5 * MIB);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 4 * MIB, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_ptr_equal(none, (ferry_block *)&fixture);
    assert_int_equal(fixture.backend.peak_bytes, 5 * MIB);

    const char *message = ferry_last_error();
    assert_non_null(strstr(message, "take 4194304 bytes from test memory"));
    assert_non_null(strstr(message, "requested 4194304"));
    assert_non_null(strstr(message, "free 3145728"));
    assert_non_null(strstr(message, "total 8388608"));
    assert_non_null(strstr(message, "cached 0"));
    assert_non_null(strstr(message, "largest free 0"));

    /* After a failed allocation, a smaller block that needs the whole rest of the limit must be
     * available. */
    ferry_block *smaller = take(&fixture, 3 * MIB);
    assert_int_equal(statistics(&fixture).reserved_bytes, 8 * MIB);
    give(smaller);
    give(held);
    ferry_pool_stats stats = statistics(&fixture);
    assert_int_equal(stats.allocations, 2);
    fixture_close(&fixture);
}

static void
test_idle_memory_makes_room_oldest_first(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 12 * MIB, NULL);
    ferry_block *a = take(&fixture, 4 * MIB), *b = take(&fixture, 5 * MIB),
                *c = take(&fixture, 3 * MIB);
    give(b);
    give(a);
    give(c);
    give(
        take(&fixture,
             4 * MIB + 1)); /* size class of 4.5 MiB; the pool must free only the oldest block, b */
    assert_int_equal(fixture.backend.frees, 1);
    assert_int_equal(statistics(&fixture).reserved_bytes, 4 * MIB + 9 * MIB / 2 + 3 * MIB);
    uint64_t hits = statistics(&fixture).hits;
    give(take(&fixture, 4 * MIB));
    give(take(&fixture, 3 * MIB));
    assert_int_equal(statistics(&fixture).hits, hits + 2);
    give(take(&fixture, 12 * MIB)); /* the pool must free all three idle blocks */
    assert_int_equal(fixture.backend.count, 1);
    fixture_close(&fixture);
}

static void
test_a_backend_without_memory_gets_idle_memory_back_first(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    fixture.backend.capacity = 10 * MIB;
    give(take(&fixture, 100)); /* allocates a slab */
    give(take(&fixture, 3 * MIB));
    ferry_block *block = take(&fixture, 10 * MIB);
    assert_int_equal(fixture.backend.count, 1);

    ferry_block *none = NULL;
    assert_int_equal(ferry_pool_allocate(fixture.pool, 1, NULL, &none), FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "backend_alloc")); /* the message of the backend */
    give(block);
    give(take(&fixture, 1));
    fixture_close(&fixture);
}

/* Checks that the pool allocates a small block outside a slab if its limit leaves too little memory
 * for a slab. */
static void
test_small_blocks_fit_where_slabs_do_not(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 8 * KIB, NULL);
    ferry_block *a = take(&fixture, 4 * KIB), *b = take(&fixture, 4 * KIB), *none = NULL;
    assert_int_equal(statistics(&fixture).reserved_bytes, 8 * KIB);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 1, NULL, &none), FERRY_ERROR_OUT_OF_MEMORY);
    void *room = ferry_block_pointer(a);
    give(a);
    ferry_block *c = take(&fixture, 300); /* reuses the memory of a */
    assert_ptr_equal(ferry_block_pointer(c), room);
    assert_int_equal(fixture.backend.frees, 0);
    give(b);
    give(c);
    assert_agrees(&fixture);
    fixture_close(&fixture);
}

static void
test_sizes_beyond_everything_fail(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    assert_int_equal(ferry_pool_allocate(fixture.pool, SIZE_MAX, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    fixture.backend.capacity = MIB;
    assert_int_equal(ferry_pool_allocate(fixture.pool, SIZE_MAX - 8191, NULL, &none),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_null(none);
    give(take(&fixture, 1));
    fixture_close(&fixture);
}

static void
test_a_device_error_is_passed_on(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *none = NULL;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    fixture.backend.fail_at = 1;
    fixture.backend.fail_with = FERRY_ERROR_DEVICE_LOST;
    assert_int_equal(ferry_pool_allocate(fixture.pool, 77, NULL, &none), FERRY_ERROR_DEVICE_LOST);
    assert_non_null(strstr(ferry_last_error(), "take 77 bytes from test memory: backend_alloc"));
    assert_int_equal(fixture.backend.calls, 1); /* the pool does not retry */
    give(take(&fixture, 77));
    fixture_close(&fixture);
}

/* -- trim -------------------------------------------------------------------------------------- */

static void
test_trim_gives_everything_idle_back(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[100];
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    for (size_t i = 0; i < 100; i++)
        blocks[i] = take(&fixture, (i + 1) * 50 * KIB);
    for (size_t i = 0; i < 100; i++)
        give(blocks[i]);
    assert_true(fixture.backend.count > 70);
    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    assert_int_equal(fixture.backend.count, 0);
    ferry_pool_stats stats = statistics(&fixture);
    struct ferryi_pool_counters all = counters(&fixture);
    assert_int_equal(stats.cached_bytes, 0);
    assert_int_equal(idle_blocks(&fixture).all, 0);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(all.trims, 1);
    fixture_close(&fixture);
}

static void
test_trim_leaves_live_blocks_and_their_slabs(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *small[20];
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    ferry_block *large = take(&fixture, 7 * MIB);
    memset(ferry_block_pointer(large), 42, 7 * MIB);
    for (size_t i = 0; i < 20; i++)
        small[i] = take(&fixture, 256 * KIB);
    memset(ferry_block_pointer(small[19]), 43, 256 * KIB);
    for (size_t i = 0; i < 19; i++)
        give(small[i]);
    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    /* After the trim, the pool still has the allocation of `large`, and the slab that contains
     * small[19]. */
    assert_int_equal(fixture.backend.count, 2);
    assert_int_equal(((char *)ferry_block_pointer(large))[7 * MIB - 1], 42);
    assert_int_equal(((char *)ferry_block_pointer(small[19]))[256 * KIB - 1], 43);
    assert_agrees(&fixture);
    give(large);
    give(small[19]);
    fixture_close(&fixture);
}

static void
test_trim_keeps_what_it_is_reported_and_frees_the_oldest_first(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[4];
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    const size_t bytes[] = {2 * MIB, 3 * MIB, 4 * MIB, 5 * MIB}, order[] = {2, 0, 3, 1};
    for (size_t i = 0; i < 4; i++)
        blocks[i] = take(&fixture, bytes[i]);
    for (size_t i = 0; i < 4; i++)
        give(blocks[order[i]]);
    assert_int_equal(ferry_pool_trim(fixture.pool, 9 * MIB), FERRY_OK);
    ferry_pool_stats stats = statistics(&fixture);
    assert_int_equal(stats.cached_bytes,
                     8 * MIB); /* the pool has freed the two oldest blocks, of 4 and 2 MiB */
    give(take(&fixture, 5 * MIB));
    give(take(&fixture, 3 * MIB));
    assert_int_equal(statistics(&fixture).misses, stats.misses);
    give(take(&fixture, 2 * MIB));
    assert_int_equal(statistics(&fixture).misses, stats.misses + 1);
    assert_int_equal(ferry_pool_trim(fixture.pool, SIZE_MAX), FERRY_OK);
    assert_int_equal(statistics(&fixture).cached_bytes, 10 * MIB);
    fixture_close(&fixture);
}

/* -- statistics -------------------------------------------------------------------------------- */

static void
test_statistics_say_what_happened(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    ferry_pool_stats stats = statistics(&fixture);
    assert_true(stats.fragmentation == 0);

    ferry_block *small = take(&fixture, 1000), *large = take(&fixture, 3 * MIB - 1);
    stats = statistics(&fixture);
    assert_int_equal(stats.live_blocks, 2);
    assert_int_equal(stats.live_bytes, 1024 + 3 * MIB);
    assert_int_equal(stats.requested_bytes, 1000 + 3 * MIB - 1);
    assert_int_equal(stats.reserved_bytes, 2 * MIB + 3 * MIB);
    assert_int_equal(idle_blocks(&fixture).all, 1); /* the rest of the slab */
    assert_int_equal(stats.cached_bytes, 2 * MIB - 1024);
    assert_true(stats.fragmentation == 0); /* the free memory is contiguous */
    assert_int_equal(class_stats(&fixture, 0).allocations, 1);
    assert_int_equal(class_stats(&fixture, 0).hits, 0);
    assert_int_equal(class_stats(&fixture, 0).live_blocks, 1);
    assert_int_equal(class_stats(&fixture, 0).live_bytes, 1024);
    assert_int_equal(class_stats(&fixture, 12).allocations,
                     1); /* size class 12 has the blocks of more than 2 MiB and up to 4 MiB */
    assert_int_equal(class_stats(&fixture, 12).live_bytes, 3 * MIB);
    assert_int_equal(class_stats(&fixture, 12).requested_bytes, 3 * MIB - 1);
    assert_int_equal(class_stats(&fixture, 12).hits, 0);

    give(large);
    stats = statistics(&fixture);
    assert_int_equal(stats.live_bytes, 1024);
    assert_int_equal(counters(&fixture).peak_live_bytes, 1024 + 3 * MIB);
    assert_int_equal(class_stats(&fixture, 12).live_blocks, 0);
    assert_int_equal(class_stats(&fixture, 12).requested_bytes, 0);
    assert_int_equal(class_stats(&fixture, 12).cached_bytes, 3 * MIB);
    double fragmentation = 1.0 - 3.0 * MIB / (5.0 * MIB - 1024);
    assert_true(stats.fragmentation == fragmentation);

    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    stats = statistics(&fixture);
    assert_int_equal(stats.peak_reserved_bytes, 5 * MIB);
    assert_int_equal(stats.reserved_bytes, 2 * MIB);
    assert_int_equal(counters(&fixture).device_frees, 1);
    give(small);
    fixture_close(&fixture);
}

static void
test_fragmentation_sees_holes(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[8];
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(&fixture, 256 * KIB); /* fills the slab */
    for (size_t i = 0; i < 8; i += 2)
        give(blocks[i]);
    assert_true(statistics(&fixture).fragmentation == 0.75); /* four holes of one size */
    for (size_t i = 1; i < 8; i += 2)
        give(blocks[i]);
    assert_true(statistics(&fixture).fragmentation == 0);
    fixture_close(&fixture);
}

static void
test_bytes_for_memory_info(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    ferry_block *a = take(&fixture, 2 * MIB), *b = take(&fixture, 3 * MIB);
    give(b);
    struct ferryi_pool_counters all = counters(&fixture);
    assert_int_equal(all.live_bytes, 2 * MIB);
    assert_int_equal(all.cached_bytes, 3 * MIB);
    assert_int_equal(all.reserved_bytes, 5 * MIB);
    give(a);
    ferryi_pool_count_eviction(fixture.pool);
    assert_int_equal(statistics(&fixture).evictions, 1);
    fixture_close(&fixture);
}

/* -- bad input --------------------------------------------------------------------------------- */

static void
test_arguments_are_checked(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *block = NULL;
    ferry_pool_stats stats;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    assert_int_equal(ferry_pool_allocate(NULL, 1, NULL, &block), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 1, NULL, NULL),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_block_free(NULL, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
    assert_int_equal(ferry_pool_get_stats(NULL, &stats), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_get_stats(fixture.pool, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_trim(NULL, 0), FERRY_ERROR_INVALID_ARGUMENT);
    assert_null(ferry_block_pointer(NULL));
    assert_int_equal(ferry_block_bytes(NULL), 0);
    ferryi_pool_give(NULL, 0);
    assert_null(ferryi_pool_context(fixture.pool));
    fixture_close(&fixture);
    ferryi_pool_destroy(&fixture.pool);
}

static void
test_a_pool_is_not_made_without_host_memory(void **state)
{
    (void)state;
    ferry_pool *pool = NULL;
    const struct ferryi_pool_config config = {
        .backend = {.alloc = backend_alloc, .free = backend_free}, .name = "test memory"};
    int64_t live = short_memory_live();
    for (uint64_t nth = 1; nth <= 2; nth++) {
        short_memory_arm(nth);
        assert_int_equal(ferryi_pool_create(&config, &pool), FERRY_ERROR_OUT_OF_MEMORY);
        assert_true(short_memory_tripped());
        short_memory_disarm();
        assert_null(pool);
        assert_int_equal(short_memory_live(), live);
    }
}

static void
test_streams_of_another_context_are_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    struct ferry_stream stream = {.context = (ferry_context *)&fixture};
    ferry_block *block = NULL;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    assert_int_equal(ferry_pool_allocate(fixture.pool, 1, &stream, &block),
                     FERRY_ERROR_WRONG_CONTEXT);
    assert_null(block);
    give(take(&fixture, 1)); /* the next allocation of this size finds a block in a magazine */
    assert_int_equal(ferry_pool_allocate(fixture.pool, 1, &stream, &block),
                     FERRY_ERROR_WRONG_CONTEXT);
    assert_null(block);
    ferry_block *held = block = take(&fixture, 1);
    assert_int_equal(ferry_block_free(&block, &stream), FERRY_ERROR_WRONG_CONTEXT);
    assert_ptr_equal(block, held);
    give(block);
    fixture_close(&fixture);
}

#ifdef FERRYI_DEBUG_CHECKS
static void
test_a_second_give_is_refused_by_name(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    ferry_block *block = take(&fixture, 3 * MIB), *copy = block;
    give(block);
    assert_int_equal(ferry_block_free(&copy, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(ferry_last_error(), "given back already"));
    assert_non_null(strstr(ferry_last_error(), "test memory"));
    assert_non_null(copy);

    /* The pool must detect the second free of a block even after it has freed the block's memory.
     * It keeps the descriptor of the block for this. */
    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    assert_int_equal(ferry_block_free(&copy, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    ferryi_pool_give(copy, 0);
    assert_non_null(strstr(fixture.logged, "given back already"));
    assert_int_equal(statistics(&fixture).frees, 1);
    fixture_close(&fixture);
}
#endif

static void
test_destroy_reports_live_blocks(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    take(&fixture, 1000);
    take(&fixture, 2 * MIB);
    ferryi_pool_destroy(&fixture.pool);
    assert_int_equal(fixture.backend.count, 0);
    assert_non_null(strstr(fixture.logged, "2 blocks of 2098176 bytes"));
}

/* -- failing at every call --------------------------------------------------------------------- */

/* Allocates blocks of many sizes and frees all of them. An allocation that fails must not return a
 * block. */
static void
use_pool(struct fixture *fixture)
{
    static const size_t sizes[] = {1, 300, 5000, 64 * KIB, MIB, 3 * MIB, 6 * MIB, GIB + 1};
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    for (int round = 0; round < 2; round++) {
        ferry_block *blocks[SIZES] = {0};
        for (size_t i = 0; i < SIZES; i++) {
            ferry_status status = ferry_pool_allocate(fixture->pool, sizes[i], NULL, &blocks[i]);
            assert_int_equal(status == FERRY_OK, blocks[i] != NULL);
        }
        assert_true(ferryi_pool_check(fixture->pool));
        for (size_t i = 0; i < SIZES; i++)
            if (blocks[i])
                give(blocks[i]);
        assert_int_equal(ferry_pool_trim(fixture->pool, round == 0 ? 4 * MIB : 0), FERRY_OK);
    }
}

static void
test_nothing_is_lost_whatever_call_fails(void **state)
{
    (void)state;
    const ferry_status statuses[] = {FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE};
    for (size_t s = 0; s < 2; s++) {
        for (unsigned long nth = 1;; nth++) {
            struct fixture fixture;
            fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
            fixture.backend.fail_at = nth;
            fixture.backend.fail_with = statuses[s];
            use_pool(&fixture);
            bool tripped = fixture.backend.calls >= nth;
            fixture.backend.fail_at = 0;
            assert_int_equal(statistics(&fixture).live_blocks, 0);
            assert_agrees(&fixture);
            assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
            assert_int_equal(fixture.backend.count, 0);
            fixture_close(&fixture);
            if (!tripped)
                break;
        }
    }
}

static void
test_memory_that_cannot_be_freed_stays_usable(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    give(take(&fixture, 3 * MIB));
    fixture.backend.fail_at = 2;
    assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
    assert_non_null(strstr(fixture.logged, "told to fail"));
    assert_int_equal(statistics(&fixture).cached_bytes, 3 * MIB);
    ferry_block *block = take(&fixture, 3 * MIB);
    assert_int_equal(fixture.backend.allocations, 1);
    memset(ferry_block_pointer(block), 0, 3 * MIB);
    give(block);
    fixture_close(&fixture);
}

static void
test_public_statistics_and_those_of_classes(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    ferry_block *small = take(&fixture, 1000), *large = take(&fixture, 3 * MIB - 1);
    give(large);
    large = take(&fixture, 3 * MIB - 1);
    ferry_pool_stats stats = statistics(&fixture);
    assert_int_equal(stats.allocations, 3);
    assert_int_equal(stats.frees, 1);
    assert_int_equal(stats.hits, 1);
    assert_int_equal(stats.misses, 2);
    assert_int_equal(stats.live_blocks, 2);
    assert_int_equal(stats.live_bytes, ferry_block_bytes(small) + ferry_block_bytes(large));
    assert_int_equal(stats.requested_bytes, 1000 + 3 * MIB - 1);
    assert_int_equal(stats.reserved_bytes, fixture.backend.bytes);
    assert_int_equal(stats.peak_reserved_bytes, fixture.backend.bytes);
    assert_true(stats.largest_free_bytes > 0 && stats.largest_free_bytes <= stats.cached_bytes);
    assert_int_equal(stats.pending_bytes, 0);
    assert_int_equal(stats.evictions, 0);

    ferry_pool_class_stats classes[FERRY_POOL_CLASS_COUNT], sum = {0};
    for (int i = 0; i < FERRY_POOL_CLASS_COUNT; i++) {
        classes[i] = class_stats(&fixture, i);
        sum.allocations += classes[i].allocations;
        sum.hits += classes[i].hits;
        sum.live_blocks += classes[i].live_blocks;
        sum.live_bytes += classes[i].live_bytes;
        sum.cached_bytes += classes[i].cached_bytes;
        sum.requested_bytes += classes[i].requested_bytes;
    }
    assert_int_equal(sum.allocations, stats.allocations);
    assert_int_equal(sum.hits, stats.hits);
    assert_int_equal(sum.live_blocks, stats.live_blocks);
    assert_int_equal(sum.live_bytes, stats.live_bytes);
    assert_int_equal(sum.cached_bytes, stats.cached_bytes);
    assert_int_equal(sum.requested_bytes, stats.requested_bytes);
    assert_int_equal(classes[12].allocations, 2);
    assert_int_equal(classes[12].hits, 1);
    assert_int_equal(classes[12].live_bytes, ferry_block_bytes(large));
    assert_int_equal(ferry_pool_get_class_stats(fixture.pool, -1, classes),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_get_class_stats(fixture.pool, FERRY_POOL_CLASS_COUNT, classes),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_get_class_stats(NULL, 0, classes), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_get_class_stats(fixture.pool, 0, NULL),
                     FERRY_ERROR_INVALID_ARGUMENT);
    give(small);
    give(large);
    fixture_close(&fixture);
}

/* Checks that a reset of the statistics keeps the counts of allocated blocks. It must also keep the
 * internal counters on which decisions of the pool depend. */
static void
test_a_reset_starts_counters_and_peaks_anew(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_PAGEABLE, 0, NULL);
    ferry_block *kept = take(&fixture, 2 * MIB), *gone = take(&fixture, 8 * MIB);
    give(gone);
    (void)ferry_pool_trim(fixture.pool, 0);
    ferry_pool_stats before = statistics(&fixture);
    assert_int_equal(before.peak_reserved_bytes, 10 * MIB);
    ferryi_pool_reset_stats(fixture.pool);
    fixture.backend.peak_bytes = fixture.backend.bytes;
    ferry_pool_stats after = statistics(&fixture);
    assert_int_equal(after.allocations + after.frees + after.hits + after.misses + after.evictions,
                     0);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_int_equal(after.live_blocks, 1);
    assert_int_equal(after.requested_bytes, before.requested_bytes);
    assert_int_equal(after.reserved_bytes, 2 * MIB);
    assert_int_equal(after.peak_reserved_bytes, after.reserved_bytes);
    for (int i = 0; i < FERRY_POOL_CLASS_COUNT; i++)
        assert_true(class_stats(&fixture, i).allocations == 0 &&
                    class_stats(&fixture, i).hits == 0);
    assert_int_equal(counters(&fixture).device_allocations, 2);

    gone = take(&fixture, 4 * MIB);
    give(gone);
    give(kept);
    after = statistics(&fixture);
    assert_int_equal(after.allocations, 1);
    assert_int_equal(after.misses, 1);
    assert_int_equal(after.frees, 2);
    assert_int_equal(after.peak_reserved_bytes, 6 * MIB);
    fixture_close(&fixture);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_public_statistics_and_those_of_classes),
        cmocka_unit_test(test_a_reset_starts_counters_and_peaks_anew),
        cmocka_unit_test(test_a_thousand_takes_of_one_size_allocate_once),
        cmocka_unit_test(test_a_hit_never_returns_less_than_asked),
        cmocka_unit_test(test_above_the_largest_class_a_request_gets_its_size),
        cmocka_unit_test(test_live_blocks_do_not_overlap),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_zero_bytes_give_a_block_without_a_pointer),
        cmocka_unit_test(test_the_limit_bounds_what_is_taken),
        cmocka_unit_test(test_idle_memory_makes_room_oldest_first),
        cmocka_unit_test(test_a_backend_without_memory_gets_idle_memory_back_first),
        cmocka_unit_test(test_small_blocks_fit_where_slabs_do_not),
        cmocka_unit_test(test_sizes_beyond_everything_fail),
        cmocka_unit_test(test_a_device_error_is_passed_on),
        cmocka_unit_test(test_trim_gives_everything_idle_back),
        cmocka_unit_test(test_trim_leaves_live_blocks_and_their_slabs),
        cmocka_unit_test(test_trim_keeps_what_it_is_reported_and_frees_the_oldest_first),
        cmocka_unit_test(test_statistics_say_what_happened),
        cmocka_unit_test(test_fragmentation_sees_holes),
        cmocka_unit_test(test_bytes_for_memory_info),
        cmocka_unit_test(test_arguments_are_checked),
        cmocka_unit_test(test_a_pool_is_not_made_without_host_memory),
        cmocka_unit_test(test_streams_of_another_context_are_refused),
        cmocka_unit_test(test_destroy_reports_live_blocks),
        cmocka_unit_test(test_nothing_is_lost_whatever_call_fails),
        cmocka_unit_test(test_memory_that_cannot_be_freed_stays_usable),
#ifdef FERRYI_DEBUG_CHECKS
        cmocka_unit_test(test_a_second_give_is_refused_by_name),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
