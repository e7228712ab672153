/* SPDX-License-Identifier: MIT */
/* Tests blocks for which the program requests an alignment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/context.h>
#include <ferry/pool.h>
#include <ferry/stream.h>

#define MIB  ((size_t)1 << 20)
#define MOST (4 * MIB)

static const size_t sizes[] = {1, 256, 1000, 4096, 65536, 300000, MIB, 3 * MIB};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Allocates memory whose address is an odd multiple of 256. */
static ferry_status
skewed_alloc(void *user, size_t bytes, void **out)
{
    char *memory = aligned_alloc(4096, (bytes + 256 + 4095) / 4096 * 4096);
    if (!memory)
        return FERRY_ERROR_OUT_OF_MEMORY;
    *out = memory + 256;
    ++*(size_t *)user;
    return FERRY_OK;
}

static ferry_status
skewed_free(void *user, void *memory, size_t bytes)
{
    (void)bytes;
    free((char *)memory - 256);
    --*(size_t *)user;
    return FERRY_OK;
}

static ferry_context *
context_new(void)
{
    ferry_context *context = NULL;
    const ferry_context_options options = {.devices = "emulated"};
    assert_int_equal(ferry_context_create(&options, &context), FERRY_OK);
    return context;
}

static ferry_block *
take(ferry_pool *pool, size_t bytes, size_t alignment, ferry_stream *stream)
{
    ferry_block *block = NULL;
    assert_int_equal(ferry_pool_allocate_aligned(pool, bytes, alignment, stream, &block), FERRY_OK);
    assert_int_equal((uintptr_t)ferry_block_pointer(block) % alignment, 0);
    assert_true(ferry_block_bytes(block) >= bytes);
    return block;
}

static uint64_t
misses(ferry_pool *pool)
{
    ferry_pool_stats stats;
    assert_int_equal(ferry_pool_get_stats(pool, &stats), FERRY_OK);
    assert_true(stats.requested_bytes <= stats.live_bytes);
    return stats.misses;
}

/* Allocates blocks of all sizes, writes them if they are host memory, and then frees all of them.
 * The first and last bytes must keep their values, so blocks that overlap are detected. */
static void
take_all(ferry_pool *pool, size_t alignment, ferry_stream *stream, bool writable)
{
    ferry_block *blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        blocks[i] = take(pool, sizes[i], alignment, stream);
        if (writable)
            memset(ferry_block_pointer(blocks[i]), (int)i + 1, ferry_block_bytes(blocks[i]));
    }
    for (size_t i = 0; i < SIZES; i++) {
        const unsigned char *bytes = ferry_block_pointer(blocks[i]);
        assert_true(!writable ||
                    (bytes[0] == i + 1 && bytes[ferry_block_bytes(blocks[i]) - 1] == i + 1));
        assert_int_equal(ferry_block_free(&blocks[i], stream), FERRY_OK);
    }
}

static void
exercise(ferry_pool *pool, ferry_stream *stream, bool writable)
{
    for (size_t alignment = 1; alignment <= MOST; alignment *= 2) {
        assert_int_equal(ferry_pool_trim(pool, 0), FERRY_OK);
        take_all(pool, alignment, stream, writable);
        uint64_t before = misses(pool);
        take_all(pool, alignment, stream, writable);
        assert_int_equal(
            misses(pool),
            before); /* the second round reuses the aligned blocks of the first round */
    }
}

static void
test_every_kind_and_alignment(void **state)
{
    (void)state;
    static const struct {
        int place;
        ferry_memory_kind kind;
    } pools[] = {{0, FERRY_MEMORY_PAGEABLE}, {0, FERRY_MEMORY_PINNED}, {1, FERRY_MEMORY_DEVICE}};
    ferry_context *context = context_new();
    for (size_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
        ferry_pool *pool;
        assert_int_equal(ferry_context_pool(context, pools[i].place, pools[i].kind, &pool),
                         FERRY_OK);
        exercise(pool, pools[i].place ? ferry_context_stream(context, pools[i].place) : NULL,
                 pools[i].place == 0);
    }
    ferry_context_destroy(&context);
}

static void
test_a_backend_that_aligns_no_better_than_it_must(void **state)
{
    (void)state;
    size_t count = 0;
    ferry_pool *pool;
    ferry_context *context = context_new();
    const ferry_pool_backend backend = {.alloc = skewed_alloc, .free = skewed_free, .user = &count};
    assert_int_equal(
        ferry_pool_create(context, FERRY_PLACE_HOST, FERRY_MEMORY_PAGEABLE, &backend, NULL, &pool),
        FERRY_OK);
    exercise(pool, NULL, true);
    ferry_pool_destroy(&pool);
    assert_int_equal(count, 0);
    ferry_context_destroy(&context);
}

static bool
is_at(const ferry_block_info *block, void *user)
{
    void **pointer = user;
    if (block->is_held && block->pointer == *pointer)
        *pointer = NULL;
    return *pointer != NULL;
}

static void
test_a_walk_tells_where_the_holder_is(void **state)
{
    (void)state;
    ferry_pool *pool;
    ferry_context *context = context_new();
    assert_int_equal(ferry_context_pool(context, 0, FERRY_MEMORY_PAGEABLE, &pool), FERRY_OK);
    ferry_block *first = take(pool, 1000, 256, NULL), *block = take(pool, 1000, 16384, NULL);
    void *pointer = ferry_block_pointer(block);
    assert_int_equal(ferry_pool_for_each_block(pool, is_at, &pointer), FERRY_OK);
    assert_null(pointer);
    assert_int_equal(ferry_block_free(&first, NULL), FERRY_OK);
    assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
    ferry_context_destroy(&context);
}

static void
test_arguments(void **state)
{
    (void)state;
    static const size_t bad[] = {3, 255, 257, 768, 4095, SIZE_MAX};
    ferry_pool *pool;
    ferry_block *block = NULL;
    ferry_context *context = context_new();
    assert_int_equal(ferry_context_pool(context, 0, FERRY_MEMORY_PAGEABLE, &pool), FERRY_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(ferry_pool_allocate_aligned(pool, 1000, bad[i], NULL, &block),
                         FERRY_ERROR_INVALID_ARGUMENT);
    assert_non_null(
        strstr(ferry_last_error(),
               "take 1000 bytes aligned to 18446744073709551615 from host pageable memory"));
    assert_int_equal(ferry_pool_allocate_aligned(NULL, 1000, 512, NULL, &block),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_allocate_aligned(pool, 1000, 512, NULL, NULL),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_pool_allocate_aligned(pool, SIZE_MAX - 4096, 8192, NULL, &block),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_null(block);

    assert_int_equal(ferry_pool_allocate_aligned(pool, 1000, 0, NULL, &block),
                     FERRY_OK); /* an alignment of 0 selects that of ferry_pool_allocate() */
    assert_int_equal((uintptr_t)ferry_block_pointer(block) % 256, 0);
    assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
    assert_int_equal(ferry_pool_allocate_aligned(pool, 0, MIB, NULL, &block), FERRY_OK);
    assert_null(ferry_block_pointer(block));
    assert_int_equal(ferry_block_bytes(block), 0);
    assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
    ferry_context_destroy(&context);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_and_alignment),
        cmocka_unit_test(test_a_backend_that_aligns_no_better_than_it_must),
        cmocka_unit_test(test_a_walk_tells_where_the_holder_is),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
