/* SPDX-License-Identifier: MIT */
/* Checks that the size class of a request is the smallest class that fits. Also checks the limit on
 * the bytes that a class may waste. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/pool/slab.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static void
check_size(size_t bytes)
{
    uint32_t size_class;
    size_t block = ferryi_pool_class_bytes(bytes, &size_class);

    assert_true(block >= bytes);
    assert_int_equal(block % FERRYI_POOL_ALIGN, 0);
    if (bytes > FERRYI_POOL_LARGEST) {
        assert_int_equal(size_class, FERRYI_POOL_CLASSES);
        assert_true(block - bytes < 4096);
        return;
    }
    assert_true(size_class < FERRYI_POOL_CLASSES);
    assert_int_equal(ferryi_pool_bytes_of_class(size_class), block);
    if (bytes >= 2 * KIB)
        assert_true(block - bytes <= bytes / 8);
    else
        assert_true(block - bytes < 256);
    if (size_class > 0)
        assert_true(ferryi_pool_bytes_of_class(size_class - 1) < bytes);
}

static void
test_small_sizes_are_multiples_of_256(void **state)
{
    uint32_t size_class;
    (void)state;
    assert_int_equal(ferryi_pool_class_bytes(1, &size_class), 256);
    assert_int_equal(size_class, 0);
    assert_int_equal(ferryi_pool_class_bytes(256, &size_class), 256);
    assert_int_equal(ferryi_pool_class_bytes(257, &size_class), 512);
    assert_int_equal(ferryi_pool_class_bytes(2048, &size_class), 2048);
    assert_int_equal(size_class, 7);
    assert_int_equal(ferryi_pool_class_bytes(2049, &size_class), 2304);
    assert_int_equal(size_class, 8);
}

static void
test_every_size_has_the_smallest_class_that_fits(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes <= 64 * KIB; bytes++)
        check_size(bytes);
    for (uint32_t size_class = 0; size_class < FERRYI_POOL_CLASSES; size_class++) {
        size_t bytes = ferryi_pool_bytes_of_class(size_class);
        check_size(bytes - 1);
        check_size(bytes);
        check_size(bytes + 1);
    }
    uint64_t seed = 1;
    for (int i = 0; i < 100000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        check_size((size_t)(seed >> 33) + 1);
    }
}

static void
test_there_are_eight_classes_per_doubling(void **state)
{
    uint32_t first, last;
    (void)state;
    for (size_t bytes = 2 * KIB; bytes < FERRYI_POOL_LARGEST; bytes *= 2) {
        ferryi_pool_class_bytes(bytes, &first);
        ferryi_pool_class_bytes(2 * bytes, &last);
        assert_int_equal(last - first, 8);
    }
    assert_int_equal(ferryi_pool_class_bytes(FERRYI_POOL_LARGEST, &last), FERRYI_POOL_LARGEST);
    assert_int_equal(last, FERRYI_POOL_CLASSES - 1);
}

static void
test_above_the_largest_class_sizes_are_exact(void **state)
{
    uint32_t size_class;
    (void)state;
    assert_int_equal(ferryi_pool_class_bytes(FERRYI_POOL_LARGEST + 1, &size_class),
                     FERRYI_POOL_LARGEST + 4096);
    assert_int_equal(size_class, FERRYI_POOL_CLASSES);
    assert_int_equal(ferryi_pool_class_bytes(3 * FERRYI_POOL_LARGEST, &size_class),
                     3 * FERRYI_POOL_LARGEST);
    assert_int_equal(ferryi_pool_class_bytes(SIZE_MAX, &size_class), 0);
    assert_int_equal(ferryi_pool_class_bytes(SIZE_MAX - 4094, &size_class), 0);
    assert_int_equal(ferryi_pool_class_bytes(SIZE_MAX - 4095, &size_class), SIZE_MAX - 4095);
}

static void
test_slabs_waste_little(void **state)
{
    (void)state;
    for (uint32_t size_class = 0; size_class < FERRYI_POOL_CLASSES; size_class++) {
        size_t block = ferryi_pool_bytes_of_class(size_class);
        assert_int_equal(block <= MIB, size_class < FERRYI_POOL_SMALL_CLASSES);
        if (block > MIB)
            continue;
        size_t bytes = ferryi_pool_slab_bytes(block, 0);
        assert_true(bytes >= 2 * MIB && bytes <= 16 * MIB);
        assert_int_equal(bytes % (2 * MIB), 0);
        assert_true(bytes % block <= bytes / 16);
        assert_true(ferryi_pool_class_of(bytes) < FERRYI_POOL_SMALL_BINS);
        /* A limit leaves room for other slabs. */
        for (size_t limit = MIB; limit <= 256 * MIB; limit *= 2)
            assert_true(ferryi_pool_slab_bytes(block, limit) <=
                        (limit > 8 * MIB ? limit / 4 : 2 * MIB));
    }
}

static void
test_statistics_classes_are_doublings_from_1_kib(void **state)
{
    (void)state;
    assert_int_equal(ferryi_pool_statistics_class(0), 0);
    assert_int_equal(ferryi_pool_statistics_class(1), 0);
    for (unsigned class = 0; class < 20; class ++) {
        assert_int_equal(ferryi_pool_statistics_class(KIB << class), class);
        assert_int_equal(ferryi_pool_statistics_class((KIB << class) + 1), class + 1);
    }
    assert_int_equal(ferryi_pool_statistics_class(SIZE_MAX), 20);
}

static size_t
planned(size_t bytes, size_t align, size_t backend_align)
{
    struct ferryi_pool_request request = {.bytes = bytes, .align = align};
    const struct ferryi_pool_backend backend = {.align = backend_align};
    return ferryi_pool_request_plan(&request, 0, &backend) ? request.need : 0;
}

static void
test_alignment_costs_only_what_the_memory_lacks(void **state)
{
    (void)state;
    assert_int_equal(planned(1000, 256, 256), 1024);
    assert_int_equal(planned(32 * KIB, 4096, 4096),
                     32 * KIB); /* blocks of 8 or more pages are aligned to a page */
    assert_int_equal(planned(32 * KIB, 4096, 256), 36 * KIB);
    assert_int_equal(planned(4096, 4096, 4096), 8 * KIB); /* 4096 + 3840 */
    assert_int_equal(planned(MIB, 4096, 4096), MIB);
    assert_int_equal(planned(3 * MIB, 65536, 65536),
                     3 * MIB); /* large blocks have the alignment of the memory of the backend */
    assert_int_equal(planned(3 * MIB, 65536, 4096), 3 * MIB + 256 * KIB);
    assert_int_equal(planned(SIZE_MAX - 4096, 8192, 256), 0);
    assert_int_equal(planned(SIZE_MAX, 256, 256), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_sizes_are_multiples_of_256),
        cmocka_unit_test(test_every_size_has_the_smallest_class_that_fits),
        cmocka_unit_test(test_there_are_eight_classes_per_doubling),
        cmocka_unit_test(test_above_the_largest_class_sizes_are_exact),
        cmocka_unit_test(test_slabs_waste_little),
        cmocka_unit_test(test_statistics_classes_are_doublings_from_1_kib),
        cmocka_unit_test(test_alignment_costs_only_what_the_memory_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
