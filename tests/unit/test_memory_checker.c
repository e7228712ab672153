/* SPDX-License-Identifier: MIT */
/* Tests which bytes of a pool a memory checker lets a program use: all that were requested, and no
 * others. Needs AddressSanitizer or Valgrind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/context.h>
#include <ferry/pool.h>
#include <ferry/stream.h>

#include "src/base/sanitizer.h"
#include "src/pool/slab.h"
#include "tests/support/status.h"

#if FERRYI_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#elif defined(FERRYI_HAVE_MEMCHECK)
#include <valgrind/memcheck.h>
#endif

enum { HELD = 64, STEPS = 5000 };

static bool
is_accessible(const unsigned char *byte)
{
#if FERRYI_ADDRESS_SANITIZER
    return !__asan_address_is_poisoned(byte);
#elif defined(FERRYI_HAVE_MEMCHECK)
    unsigned char bits;
    return VALGRIND_GET_VBITS(byte, &bits, 1) == 1; /* 3: the byte is not addressable */
#else
    (void)byte;
    return true;
#endif
}

/* Checks all bytes of the first and the last page, and some of those between. */
static void
assert_all_accessible(const unsigned char *memory, size_t bytes, bool accessible)
{
    for (size_t i = 0; i < bytes; i += i < 4096 || i + 4096 >= bytes ? 1 : 509)
        if (is_accessible(memory + i) != accessible)
            fail_msg("byte %zu of %zu at %p is %saccessible", i, bytes, (const void *)memory,
                     accessible ? "not " : "");
}

/* Checks the requested bytes of a live block, and those before and behind them. */
static void
assert_exact(const ferry_block *block, size_t bytes)
{
    const unsigned char *memory = ferry_block_pointer(block);
    assert_int_equal(ferry_block_bytes(block), bytes);
    assert_all_accessible(memory, bytes, true);
    assert_true(memory + bytes + 64 <= (unsigned char *)block->pointer + block->bytes);
    assert_all_accessible(memory + bytes, 64, false);
    if (memory > (unsigned char *)block->pointer)
        assert_false(is_accessible(memory - 1));
}

/* -- a pool whose memory the program supplies -------------------------------------------------- */

struct supplier {
    size_t frees;
    bool refuses;
};

static ferry_status
supplier_alloc(void *user, size_t bytes, void **out)
{
    (void)user;
    *out = aligned_alloc(4096, bytes);
    return *out ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

/* The program may use the memory again, even before it reports a failure. */
static ferry_status
supplier_free(void *user, void *memory, size_t bytes)
{
    struct supplier *supplier = user;
    assert_all_accessible(memory, bytes, true);
    memset(memory, 0, bytes);
    supplier->frees++;
    if (supplier->refuses)
        return FERRY_ERROR_DEVICE;
    free(memory);
    return FERRY_OK;
}

struct fixture {
    ferry_context *context;
    ferry_pool *pool;
    struct supplier supplier;
};

static void
fixture_open(struct fixture *f)
{
    const ferry_context_options options = {.devices = "emulated"};
    const ferry_pool_backend backend = {
        .alloc = supplier_alloc, .free = supplier_free, .user = &f->supplier, .align = 4096};
    memset(f, 0, sizeof(*f));
    OK(ferry_context_create(&options, &f->context));
    OK(ferry_pool_create(f->context, FERRY_PLACE_HOST, FERRY_MEMORY_PAGEABLE, &backend, NULL,
                         &f->pool));
}

static void
fixture_close(struct fixture *f)
{
    ferry_pool_destroy(&f->pool);
    ferry_context_destroy(&f->context);
}

static void
test_exactly_the_requested_bytes_are_accessible(void **state)
{
    (void)state;
    static const size_t sizes[] = {1,    7,    8,    9,     63,    255,     256,    257,
                                   3000, 4095, 4096, 65536, 65537, 1 << 20, 3 << 20};
    struct fixture f;
    fixture_open(&f);
    for (size_t align = 1; align <= 65536; align *= 256)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            ferry_block *block;
            OK(ferry_pool_allocate_aligned(f.pool, sizes[i], align, NULL, &block));
            assert_exact(block, sizes[i]);
            const unsigned char *memory = ferry_block_pointer(block);
            OK(ferry_block_free(&block, NULL));
            assert_all_accessible(memory, sizes[i], false);
        }
    fixture_close(&f);
}

/* A new block is smaller than the one whose memory it reuses. */
static void
test_a_reused_block_has_its_own_end(void **state)
{
    (void)state;
    struct fixture f;
    ferry_block *block;
    fixture_open(&f);
    OK(ferry_pool_allocate(f.pool, 3001, NULL, &block));
    const void *memory = ferry_block_pointer(block);
    OK(ferry_block_free(&block, NULL));
    OK(ferry_pool_allocate(f.pool, 2999, NULL, &block));
    assert_ptr_equal(ferry_block_pointer(block), memory);
    assert_exact(block, 2999);
    OK(ferry_block_free(&block, NULL));
    fixture_close(&f);
}

/* Blocks are cut and merged. */
static void
test_live_blocks_stay_exact_while_others_come_and_go(void **state)
{
    (void)state;
    struct fixture f;
    ferry_block *blocks[HELD] = {NULL};
    size_t sizes[HELD];
    uint64_t seed = 1;
    fixture_open(&f);
    for (size_t i = 0; i < STEPS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t at = (seed >> 33) % HELD;
        if (blocks[at]) {
            assert_exact(blocks[at], sizes[at]);
            OK(ferry_block_free(&blocks[at], NULL));
            continue;
        }
        sizes[at] = 1 + (seed >> 20) % ((size_t)1 << (8 + (seed >> 50) % 7));
        OK(ferry_pool_allocate_aligned(f.pool, sizes[at], (size_t)1 << (seed >> 40) % 14, NULL,
                                       &blocks[at]));
        if (i % 512 == 0)
            OK(ferry_pool_trim(f.pool, 0));
    }
    for (size_t at = 0; at < HELD; at++) {
        if (blocks[at])
            assert_exact(blocks[at], sizes[at]);
        OK(ferry_block_free(&blocks[at], NULL));
    }
    fixture_close(&f);
}

/* Memory that could not be freed is the pool's again. */
static void
test_memory_is_accessible_when_it_is_freed(void **state)
{
    (void)state;
    struct fixture f;
    ferry_block *block;
    fixture_open(&f);
    OK(ferry_pool_allocate(f.pool, 3 << 20, NULL, &block));
    const unsigned char *memory = ferry_block_pointer(block);
    OK(ferry_block_free(&block, NULL));
    f.supplier.refuses = true;
    (void)ferry_pool_trim(f.pool, 0);
    assert_int_equal(f.supplier.frees, 1);
    assert_all_accessible(memory, 3 << 20, false);
    f.supplier.refuses = false;
    OK(ferry_pool_trim(f.pool, 0));
    assert_int_equal(f.supplier.frees, 2);
    fixture_close(&f);
}

/* -- memory of a device that the host reaches -------------------------------------------------- */

static void
test_memory_that_queued_work_uses_stays_accessible(void **state)
{
    (void)state;
    const size_t bytes = (3 << 20) - 1; /* the only block of its slab */
    struct fixture f;
    ferry_pool *pool;
    ferry_stream *stream;
    ferry_block *block;
    fixture_open(&f);
    OK(ferry_context_pool(f.context, 1, FERRY_MEMORY_DEVICE, &pool));
    OK(ferry_stream_create(f.context, 1, &stream));
    OK(ferry_pool_allocate(pool, bytes, stream, &block));
    assert_exact(block, bytes);
    const unsigned char *memory = ferry_block_pointer(block);
    OK(ferry_block_free(&block, stream));
    assert_all_accessible(memory, bytes, true);
    OK(ferry_pool_allocate(pool, bytes - 1, stream, &block));
    assert_ptr_equal(ferry_block_pointer(block), memory);
    assert_all_accessible(memory, bytes, true);
    OK(ferry_block_free(&block, stream));

    OK(ferry_stream_synchronize(stream));
    OK(ferry_pool_allocate(pool, bytes - 1, NULL, &block));
    assert_ptr_equal(ferry_block_pointer(block), memory);
    assert_exact(block, bytes - 1);
    OK(ferry_block_free(&block, NULL));
    ferry_stream_destroy(&stream);
    fixture_close(&f);
}

static void
test_merged_memory_is_inaccessible(void **state)
{
    (void)state;
    struct fixture f;
    ferry_pool *pool;
    ferry_stream *stream;
    ferry_block *used, *after;
    ferry_pool_stats stats;
    fixture_open(&f);
    OK(ferry_context_pool(f.context, 1, FERRY_MEMORY_DEVICE, &pool));
    OK(ferry_stream_create(f.context, 1, &stream));
    OK(ferry_pool_allocate(pool, 3000, stream, &used));
    OK(ferry_pool_allocate(pool, 3000, NULL, &after));
    assert_ptr_equal(used->after, after);
    const unsigned char *memory = ferry_block_pointer(used);
    OK(ferry_block_free(&used, stream));
    OK(ferry_stream_synchronize(stream));
    OK(ferry_pool_get_stats(pool, &stats)); /* the pool asks whether the work has ended */
    assert_all_accessible(memory, 3000, true);
    OK(ferry_block_free(&after, NULL));
    assert_all_accessible(memory, 6000, false);
    ferry_stream_destroy(&stream);
    fixture_close(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exactly_the_requested_bytes_are_accessible),
        cmocka_unit_test(test_a_reused_block_has_its_own_end),
        cmocka_unit_test(test_live_blocks_stay_exact_while_others_come_and_go),
        cmocka_unit_test(test_memory_is_accessible_when_it_is_freed),
        cmocka_unit_test(test_memory_that_queued_work_uses_stays_accessible),
        cmocka_unit_test(test_merged_memory_is_inaccessible),
    };
    if (!ferryi_memory_checker_is_attached(true)) {
        fputs("test_memory_checker: no memory checker is attached\n", stderr);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
