/* SPDX-License-Identifier: MIT */
/* Tests ranges of the CUDA device, over the fake driver fakecuda: driver calls that fail half way,
 * captures, and drivers without ranges. */
#include "tests/unit/cuda_fixture.h"

#include <string.h>

static size_t
free_bytes(ferryi_device *device)
{
    size_t left = 0, total = 0;
    OK(device->ops->memory_info(device, &left, &total));
    return left;
}

/* Each driver call of a map fails in turn. Nothing stays mapped or allocated, and the message names
 * the call. */
static void
test_a_failing_map_undoes_itself(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    ferryi_device *device = open_build(NEW, 0);
    size_t step = device->properties.handle_bytes, before = free_bytes(device);
    const struct fakecuda_live live = fake->fakecuda_live();
    void *range, *handle = (void *)16;
    OK(device->ops->range_reserve(device, 4 * step, &range));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fake->fakecuda_fail_next(calls[i], FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
        assert_int_equal(device->ops->range_map(device, range, step, &handle),
                         FERRY_ERROR_OUT_OF_MEMORY);
        assert_non_null(strstr(ferry_last_error(), calls[i]));
        assert_ptr_equal(handle, (void *)16);
        assert_int_equal(free_bytes(device), before);
    }
    OK(device->ops->range_map(device, range, step, &handle));
    OK(device->ops->range_unmap(device, range, step, handle));
    OK(device->ops->range_release(device, range, 4 * step));
    assert_int_equal(free_bytes(device), before);
    assert_int_equal(fake->fakecuda_live().ranges, live.ranges);
    assert_int_equal(fake->fakecuda_live().allocations, live.allocations);
    close_device(device);
}

/* A failing unmap or release of addresses leaves both as they were. */
static void
test_a_failing_unmap_has_no_effect(void **state)
{
    (void)state;
    ferryi_device *device = open_build(NEW, 0);
    size_t step = device->properties.handle_bytes;
    void *range = (void *)16, *handle;
    fake->fakecuda_fail_next("cuMemAddressReserve", FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
    assert_int_equal(device->ops->range_reserve(device, 4 * step, &range),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "cuMemAddressReserve"));
    assert_ptr_equal(range, (void *)16);
    OK(device->ops->range_reserve(device, 4 * step, &range));
    OK(device->ops->range_map(device, range, step, &handle));
    fake->fakecuda_fail_next("cuMemUnmap", FERRYI_GPU_ERROR_INVALID_VALUE, 1);
    assert_int_equal(device->ops->range_unmap(device, range, step, handle), FERRY_ERROR_DEVICE);
    assert_non_null(strstr(ferry_last_error(), "cuMemUnmap"));
    OK(device->ops->fill(device, range, 1, 1, step, device->default_stream));
    OK(device->ops->synchronize(device));
    OK(device->ops->range_unmap(device, range, step, handle));
    fake->fakecuda_fail_next("cuMemAddressFree", FERRYI_GPU_ERROR_INVALID_VALUE, 1);
    assert_int_equal(device->ops->range_release(device, range, 4 * step), FERRY_ERROR_DEVICE);
    assert_non_null(strstr(ferry_last_error(), "cuMemAddressFree"));
    OK(device->ops->range_release(device, range, 4 * step));
    close_device(device);
}

/* A driver without these functions, a device that says that it lacks them, and a granularity that
 * is not known have no ranges. */
static void
test_devices_without_ranges(void **state)
{
    (void)state;
    void *out = NULL;
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            fake->fakecuda_set_attribute(
                FERRYI_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
        if (i == 2)
            fake->fakecuda_fail_next("cuMemGetAllocationGranularity",
                                     FERRYI_GPU_ERROR_NOT_SUPPORTED, 1);
        ferryi_device *device = open_build(i == 0 ? OLD : NEW, 0);
        assert_int_equal(device->properties.handle_bytes, 0);
        assert_int_equal(device->ops->range_reserve(device, KIBIBYTE, &out),
                         FERRY_ERROR_UNSUPPORTED);
        assert_int_equal(device->ops->range_map(device, &out, KIBIBYTE, &out),
                         FERRY_ERROR_UNSUPPORTED);
        assert_int_equal(device->ops->range_unmap(device, &out, KIBIBYTE, &out),
                         FERRY_ERROR_UNSUPPORTED);
        assert_int_equal(device->ops->range_release(device, &out, KIBIBYTE),
                         FERRY_ERROR_UNSUPPORTED);
        assert_null(out);
        close_device(device);
        fake->fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                     1);
    }
}

/* Memory may be mapped while a stream of the program is captured in the strictest mode. */
static void
test_a_map_leaves_a_capture_alone(void **state)
{
    (void)state;
    ferryi_device *device = open_build(NEW, 0);
    size_t step = device->properties.handle_bytes;
    void *range, *handle, *stream;
    int nodes = -1;
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->range_reserve(device, 4 * step, &range));
    assert_int_equal(fake->fakecuda_begin_capture(stream, FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL),
                     0);
    OK(device->ops->range_map(device, range, step, &handle));
    assert_int_equal(fake->fakecuda_end_capture(stream, &nodes), 0);
    assert_int_equal(nodes, 0);
    OK(device->ops->range_unmap(device, range, step, handle));
    OK(device->ops->range_release(device, range, 4 * step));
    OK(device->ops->stream_destroy(device, stream));
    close_device(device);
}

int
main(void)
{
    name_fakecuda();
    const struct CMUnitTest tests[] = {
        CUDA_TEST(test_a_failing_map_undoes_itself),
        CUDA_TEST(test_a_failing_unmap_has_no_effect),
        CUDA_TEST(test_devices_without_ranges),
        CUDA_TEST(test_a_map_leaves_a_capture_alone),
    };
    return cmocka_run_group_tests(tests, load_builds, NULL);
}
