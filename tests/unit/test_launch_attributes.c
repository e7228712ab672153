/* SPDX-License-Identifier: MIT */
/* Tests launches with attributes over fakecuda: cooperative ones, clusters and overlap. What
 * devices take, what reaches the driver, what is refused before and by it, and graphs of such
 * launches. */
#include <ferry/ferry.h>
#include <ferry/graph.h>
#include <ferry/int.h>

#include "tests/unit/cuda_fixture.h"

#define COUNT 1000

static const char ptx[] = ".entry add_one(.param .u64 x, .param .u64 n) { ret; }";

/* Runs on the host in place of the kernel. */
static void
add_one(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    int *x = *(int **)parameters[0];
    (void)grid;
    (void)block;
    for (size_t i = 0; i < *(size_t *)parameters[1]; i++)
        x[i]++;
}

static struct world {
    ferry_context *context;
    ferry_kernel *kernel;
    ferry_int_buffer x;
} w;

static int
open_world(void **state)
{
    static const size_t bytes[] = {sizeof(int *), sizeof(size_t)};
    const ferry_parameter parameters[] = {{ferry_int_element(), FERRY_UPDATE, .name = "x"},
                                          {ferry_size_element(), .name = "n"}};
    const ferry_kernel_code code = {
        .kind = FERRY_CODE_CUDA_IMAGE, .code = ptx, .bytes = sizeof(ptx)};
    const ferry_kernel_source source = {.name = "add_one",
                                        .codes = &code,
                                        .code_count = 1,
                                        .parameters = parameters,
                                        .parameter_count = 2};
    (void)state;
    fake->fakecuda_register_kernel("add_one", add_one, 2, bytes);
    OK(ferry_context_create(&(ferry_context_options){.devices = "cuda"}, &w.context));
    OK(ferry_kernel_create(w.context, &source, &w.kernel));
    OK(ferry_int_create(w.context, COUNT, NULL, &w.x));
    OK(ferry_int_fill(w.x, 0, COUNT, 0, NULL));
    return 0;
}

static int
close_world(void **state)
{
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1);
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1);
    fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9);
    ferry_int_destroy(&w.x);
    ferry_kernel_destroy(&w.kernel);
    ferry_context_destroy(&w.context);
    return clear_faults(state);
}

/* Opens the context again, which reads the attributes of the device. */
static void
reopen_with(int attribute, int value)
{
    assert_int_equal(close_world(NULL), 0);
    fake->fakecuda_set_attribute(attribute, value);
    assert_int_equal(open_world(NULL), 0);
}

static ferry_status
launch(ferry_grid grid, ferry_stream *stream)
{
    const ferry_argument arguments[] = {ferry_int_argument(w.x), ferry_size_value(COUNT)};
    return ferry_kernel_launch(w.kernel, grid, stream, arguments, 2);
}

static void
expect_all(int value)
{
    ferry_scope scope;
    const int32_t *x;
    OK(ferry_int_read_host(w.x, &scope, &x));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(x[i], value);
    OK(ferry_scope_close(&scope));
}

static uint64_t
calls(const char *symbol)
{
    return fake->fakecuda_calls_of(symbol);
}

/* -- what devices take ------------------------------------------------------------------------- */

#define ALL ((uint64_t)(FERRY_CAN_COOPERATE | FERRY_CAN_CLUSTER | FERRY_CAN_OVERLAP))

static uint64_t
capabilities_of(int build)
{
    ferryi_device *device = open_build(build, 0);
    const uint64_t can = device->capabilities & ALL;
    close_device(device);
    return can;
}

static uint64_t
capabilities_with(int attribute, int value, int otherwise)
{
    fake->fakecuda_set_attribute(attribute, value);
    const uint64_t can = capabilities_of(NEW);
    fake->fakecuda_set_attribute(attribute, otherwise);
    return can;
}

static void
test_capabilities(void **state)
{
    (void)state;
    assert_int_equal(capabilities_of(NEW), ALL);
    assert_int_equal(capabilities_of(MIDDLE), ALL);
    assert_int_equal(capabilities_of(OLD), 0); /* it has the attributes, but not the function */
    assert_int_equal(capabilities_with(FERRYI_CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0, 1),
                     ALL & ~(uint64_t)FERRY_CAN_COOPERATE);
    assert_int_equal(capabilities_with(FERRYI_CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0, 1),
                     ALL & ~(uint64_t)FERRY_CAN_CLUSTER);
    assert_int_equal(capabilities_with(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8, 9),
                     ALL & ~(uint64_t)FERRY_CAN_OVERLAP);
    ferry_place_info info;
    OK(ferry_context_get_place_info(w.context, 1, &info));
    assert_int_equal(info.capabilities & ALL, ALL);
}

/* -- what reaches the driver ------------------------------------------------------------------- */

static const struct attributes {
    uint32_t flags, cluster[3];
    struct fakecuda_attributes wanted;
} cases[] = {
    {FERRY_LAUNCH_COOPERATIVE, {0}, {.cooperative = true}},
    {FERRY_LAUNCH_OVERLAP, {0}, {.overlap = true}},
    {0, {2, 1, 4}, {.cluster = {2, 1, 4}}},
    {0, {8}, {.cluster = {8, 1, 1}}},
    {0, {0, 3}, {.cluster = {1, 3, 1}}},
    {FERRY_LAUNCH_COOPERATIVE | FERRY_LAUNCH_OVERLAP,
     {4, 1, 2},
     {.cooperative = true, .overlap = true, .cluster = {4, 1, 2}}},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static ferry_grid
grid_of(const struct attributes *attributes)
{
    ferry_grid grid = {
        .blocks = {8, 3, 4}, .threads = {32}, .shared_bytes = 512, .flags = attributes->flags};
    memcpy(grid.cluster, attributes->cluster, sizeof(grid.cluster));
    return grid;
}

static void
expect_attributes(const struct fakecuda_attributes *wanted)
{
    const struct fakecuda_attributes last = fake->fakecuda_last_attributes();
    assert_int_equal(last.cooperative, wanted->cooperative);
    assert_int_equal(last.overlap, wanted->overlap);
    for (int i = 0; i < 3; i++)
        assert_int_equal(last.cluster[i], wanted->cluster[i]);
}

/* Each launch is one call, and only launches with attributes are the call that takes them. */
static void
test_attributes_reach_the_driver(void **state)
{
    const uint64_t plain = calls("cuLaunchKernel"), with = calls("cuLaunchKernelEx");
    (void)state;
    for (unsigned i = 0; i < CASES; i++) {
        OK(launch(grid_of(&cases[i]), NULL));
        expect_attributes(&cases[i].wanted);
        assert_int_equal(fake->fakecuda_last_attributes().shared_bytes, 512);
        assert_int_equal(calls("cuLaunchKernelEx"), with + i + 1);
        assert_int_equal(calls("cuLaunchKernel"), plain);
    }
    OK(launch(ferry_grid_for(COUNT, 0), NULL));
    expect_attributes(&(struct fakecuda_attributes){.overlap = false});
    assert_int_equal(calls("cuLaunchKernelEx"), with + CASES);
    assert_int_equal(calls("cuLaunchKernel"), plain + 1);
    expect_all(CASES + 1);
}

/* An access on another stream waits for an event that is recorded behind the launch. */
static void
test_other_streams_wait_for_a_launch_that_overlaps(void **state)
{
    ferry_stream *other;
    ferry_scope scope;
    int32_t *pointer;
    (void)state;
    OK(ferry_stream_create(w.context, 1, &other));
    OK(launch((ferry_grid){.blocks = {1}, .threads = {1}, .flags = FERRY_LAUNCH_OVERLAP}, NULL));
    const uint64_t records = calls("cuEventRecord"), waits = calls("cuStreamWaitEvent");
    OK(ferry_int_update_device(w.x, other, &scope, &pointer));
    assert_int_equal(calls("cuEventRecord"), records + 1);
    assert_int_equal(calls("cuStreamWaitEvent"), waits + 1);
    OK(ferry_scope_close(&scope));
    expect_all(1);
    ferry_stream_destroy(&other);
}

/* -- what is refused --------------------------------------------------------------------------- */

/* A refused launch makes no driver call and leaves the buffer as it is. */
static void
refuses(ferry_grid grid, ferry_status status, const char *text)
{
    const uint64_t before = calls("cuLaunchKernel") + calls("cuLaunchKernelEx") +
                            calls("cuMemcpyHtoDAsync_v2") + calls("cuMemsetD8Async");
    assert_int_equal(launch(grid, NULL), status);
    assert_says("launch kernel \"add_one\": ");
    assert_says(text);
    assert_int_equal(calls("cuLaunchKernel") + calls("cuLaunchKernelEx") +
                         calls("cuMemcpyHtoDAsync_v2") + calls("cuMemsetD8Async"),
                     before);
    expect_all(0);
}

static void
test_a_device_without_an_attribute_refuses_it(void **state)
{
    const ferry_grid cooperative = {
        .blocks = {2}, .threads = {1}, .flags = FERRY_LAUNCH_COOPERATIVE};
    const ferry_grid overlap = {.blocks = {2}, .threads = {1}, .flags = FERRY_LAUNCH_OVERLAP};
    const ferry_grid cluster = {.blocks = {2}, .threads = {1}, .cluster = {2}};
    (void)state;
    reopen_with(FERRYI_CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0);
    refuses(cooperative, FERRY_ERROR_UNSUPPORTED,
            "the grid has FERRY_LAUNCH_COOPERATIVE, which cuda:0 (sm_90, driver 13.0) does not "
            "take: that needs a CUDA device with cooperative launches and a driver of CUDA 12.0");
    OK(launch(overlap, NULL));
    OK(launch(cluster, NULL));
    reopen_with(FERRYI_CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0);
    refuses(cluster, FERRY_ERROR_UNSUPPORTED,
            "the grid has clusters, which cuda:0 (sm_90, driver 13.0) does not take: that needs a "
            "CUDA device of compute capability 9.0 and a driver of CUDA 12.0");
    OK(launch(cooperative, NULL));
    reopen_with(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8);
    refuses(overlap, FERRY_ERROR_UNSUPPORTED,
            "the grid has FERRY_LAUNCH_OVERLAP, which cuda:0 (sm_80, driver 13.0) does not take");
    OK(launch(cooperative, NULL));
}

static void
test_clusters_fit_the_grid(void **state)
{
    (void)state;
    refuses((ferry_grid){.blocks = {9}, .threads = {1}, .cluster = {2}},
            FERRY_ERROR_INVALID_ARGUMENT,
            "the grid has 9 blocks in x, which is no multiple of the 2 of a cluster");
    refuses((ferry_grid){.blocks = {4, 2, 5}, .threads = {1}, .cluster = {2, 1, 3}},
            FERRY_ERROR_INVALID_ARGUMENT, "the grid has 5 blocks in z");
    refuses((ferry_grid){.blocks = {4}, .threads = {1}, .cluster = {0, 2}},
            FERRY_ERROR_INVALID_ARGUMENT, "the grid has 1 blocks in y");
    refuses((ferry_grid){.blocks = {9}, .threads = {1}, .cluster = {9}},
            FERRY_ERROR_INVALID_ARGUMENT,
            "the grid has clusters of 9x1x1 blocks, but a cluster has at most 8");
    /* The product of these has the low bits of a small number. */
    refuses((ferry_grid){.blocks = {1u << 31, 1u << 31, 4},
                         .threads = {1},
                         .cluster = {1u << 31, 1u << 31, 4}},
            FERRY_ERROR_INVALID_ARGUMENT, "but a cluster has at most 8");
    refuses((ferry_grid){.blocks = {1}, .threads = {1}, .flags = 4}, FERRY_ERROR_UNSUPPORTED,
            "the grid has the flags 0x4, of which this library knows 0x3");
}

/* A launch that the driver refuses changes nothing. */
static void
test_failing_launches(void **state)
{
    (void)state;
    assert_int_equal(
        launch((ferry_grid){.blocks = {1000}, .threads = {512}, .flags = FERRY_LAUNCH_COOPERATIVE},
               NULL),
        FERRY_ERROR_UNSUPPORTED);
    assert_says("launch kernel \"add_one\": launch 1000x1x1 blocks of 512x1x1 threads on cuda:0: "
                "cuLaunchKernelEx: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE");
    expect_all(0);
    fake->fakecuda_fail_next("cuLaunchKernelEx", FERRYI_GPU_ERROR_INVALID_CLUSTER_SIZE, 1);
    assert_int_equal(launch(grid_of(&cases[2]), NULL), FERRY_ERROR_UNSUPPORTED);
    assert_says("cuLaunchKernelEx: CUDA_ERROR_INVALID_CLUSTER_SIZE");
    fake->fakecuda_fail_next("cuLaunchKernelEx", FERRYI_GPU_ERROR_INVALID_VALUE, 1);
    assert_int_equal(launch(grid_of(&cases[1]), NULL), FERRY_ERROR_DEVICE);
    expect_all(0);
    OK(launch(grid_of(&cases[1]), NULL));
    expect_all(1);
}

/* -- graphs ------------------------------------------------------------------------------------ */

static void
test_a_graph_records_attributes(void **state)
{
    ferry_stream *stream;
    ferry_graph *graph;
    (void)state;
    OK(ferry_stream_create(w.context, 1, &stream));
    OK(ferry_graph_begin(stream, NULL, &graph));
    for (unsigned i = 0; i < CASES; i++) {
        OK(launch(grid_of(&cases[i]), stream));
        expect_attributes(&cases[i].wanted);
    }
    /* A launch that fails is not recorded. */
    assert_int_equal(launch((ferry_grid){.blocks = {3}, .threads = {1}, .cluster = {2}}, stream),
                     FERRY_ERROR_INVALID_ARGUMENT);
    fake->fakecuda_fail_next("cuLaunchKernelEx", FERRYI_GPU_ERROR_INVALID_VALUE, 1);
    assert_int_equal(launch(grid_of(&cases[0]), stream), FERRY_ERROR_DEVICE);
    OK(ferry_graph_end(graph));
    expect_all(0);
    OK(ferry_graph_launch(graph, stream));
    OK(ferry_graph_launch(graph, NULL));
    expect_all(2 * CASES);
    ferry_graph_destroy(&graph);
    ferry_stream_destroy(&stream);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_capabilities),
        WORLD_TEST(test_attributes_reach_the_driver),
        WORLD_TEST(test_other_streams_wait_for_a_launch_that_overlaps),
        WORLD_TEST(test_a_device_without_an_attribute_refuses_it),
        WORLD_TEST(test_clusters_fit_the_grid),
        WORLD_TEST(test_failing_launches),
        WORLD_TEST(test_a_graph_records_attributes),
    };
    name_fakecuda();
    return cmocka_run_group_tests(tests, load_builds, NULL);
}
