/* SPDX-License-Identifier: MIT */
/* Tests which device memory the library reports through NVTX: a slab of a pool as a heap, and an
 * allocated block as a region. The variable NVTX_INJECTION64_PATH names a test library that
 * receives the reports. */
#include "tests/unit/pool_backend.h"

#include <dlfcn.h>
#include <stdio.h>

#include <ferry/context.h>

#include "tests/support/nvtx_tool.h"
#include "tests/support/status.h"

enum { HELD = 64, STEPS = 20000 };

static nvtx_tool_count_function *count_of_tool;
static nvtx_tool_region_function *region_of_tool;

static struct nvtx_tool_count
heard(void)
{
    struct nvtx_tool_count count;
    count_of_tool(&count);
    return count;
}

static void
test_a_slab_is_a_heap_and_a_block_a_region(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    assert_int_equal(heard().heaps, 0);
    ferry_block *block = take(&fixture, 100000);
    struct nvtx_tool_count count = heard();
    assert_int_equal(count.heaps, 1);
    assert_int_equal(count.heap_bytes, fixture.backend.bytes);
    assert_int_equal(count.regions, 1);
    assert_int_equal(
        region_of_tool(ferry_block_pointer(block)),
        100000); /* the library reports the requested size, not the size of the block */
    give(block);
    assert_int_equal(heard().regions, 0);
    assert_int_equal(heard().heaps, 1);
    fixture_close(&fixture);
    assert_int_equal(heard().heaps, 0);
}

static void
test_a_hit_is_a_region_of_its_own_size(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    size_t begun = heard().regions_begun;
    ferry_block *block = take(&fixture, 100000);
    give(block);
    assert_ptr_equal(take(&fixture, 99000), block);
    assert_int_equal(region_of_tool(ferry_block_pointer(block)), 99000);
    assert_int_equal(heard().regions_begun, begun + 2);
    give(block);
    fixture_close(&fixture);
}

static void
test_memory_of_the_host_is_not_reported(void **state)
{
    (void)state;
    const ferry_context_options options = {.devices = "emulated"};
    size_t begun = heard().heaps_begun;
    ferry_context *context;
    OK(ferry_context_create(&options, &context));
    for (int place = 0; place <= 1; place++) {
        ferry_pool *pool;
        ferry_block *block;
        OK(ferry_context_pool(context, place,
                              place == 0 ? FERRY_MEMORY_PAGEABLE : FERRY_MEMORY_DEVICE, &pool));
        OK(ferry_pool_allocate(pool, 100000, NULL, &block));
        OK(ferry_block_free(&block, NULL));
    }
    ferry_context_destroy(&context);
    assert_int_equal(heard().heaps_begun, begun);
}

static void
assert_reported(const struct fixture *fixture, size_t held)
{
    struct nvtx_tool_count count = heard();
    assert_int_equal(count.regions, held);
    assert_int_equal(count.heaps, fixture->backend.count);
    assert_int_equal(count.heap_bytes, fixture->backend.bytes);
}

static void
test_what_is_held_is_what_is_reported(void **state)
{
    (void)state;
    struct fixture fixture;
    ferry_block *blocks[HELD] = {NULL};
    uint64_t seed = 1;
    size_t held = 0;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 64 * MIB, NULL);
    for (size_t i = 0; i < STEPS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ferry_block **at = &blocks[(seed >> 33) % HELD];
        size_t bytes = 1 + (seed >> 20) % ((size_t)1 << (8 + (seed >> 50) % 14));
        if (*at) {
            give(*at);
            *at = NULL;
            held--;
        } else if (ferry_pool_allocate(fixture.pool, bytes, NULL, at) == FERRY_OK) {
            assert_int_equal(region_of_tool(ferry_block_pointer(*at)), bytes);
            held++;
        }
        if (i % 512 == 0)
            assert_int_equal(ferry_pool_trim(fixture.pool, 0), FERRY_OK);
        assert_reported(&fixture, held);
    }
    for (size_t i = 0; i < HELD; i++)
        if (blocks[i])
            give(blocks[i]);
    fixture_close(&fixture);
    assert_reported(&fixture, 0);
}

static void
test_a_leak_ends_with_the_pool(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, FERRY_MEMORY_DEVICE, 0, NULL);
    take(&fixture, 5 * MIB);
    fixture_close(&fixture);
    assert_reported(&fixture, 0);
}

static void *
symbol(void *tool, const char *name)
{
    void *found = tool ? dlsym(tool, name) : NULL;
    if (!found) {
        fprintf(stderr, "test_nvtx: %s: %s\n", name, dlerror());
        exit(EXIT_FAILURE);
    }
    return found;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slab_is_a_heap_and_a_block_a_region),
        cmocka_unit_test(test_a_hit_is_a_region_of_its_own_size),
        cmocka_unit_test(test_memory_of_the_host_is_not_reported),
        cmocka_unit_test(test_what_is_held_is_what_is_reported),
        cmocka_unit_test(test_a_leak_ends_with_the_pool),
    };
    const char *path = getenv("NVTX_INJECTION64_PATH");
    if (!path) {
        fputs("test_nvtx: NVTX_INJECTION64_PATH names no tool\n", stderr);
        return 77;
    }
    void *tool = dlopen(path, RTLD_NOW);
    *(void **)&count_of_tool = symbol(tool, "nvtx_tool_count");
    *(void **)&region_of_tool = symbol(tool, "nvtx_tool_region");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
