/* SPDX-License-Identifier: MIT */
/* Checks ranges of the device table: reserved addresses that get memory in handles. */
#include "tests/device/suite.h"
#include "tests/support/copy_slots.h"

#include <string.h>

enum { PARTS = 8 };

/* Returns the granularity of handles, or 0 after checking that a device without ranges says so. */
static size_t
handle_bytes(ferryi_device *device)
{
    void *out = NULL;
    char byte;
    if (device->properties.handle_bytes > 0)
        return device->properties.handle_bytes;
    LACKS(device, range_reserve, MEBIBYTE, &out);
    LACKS(device, range_release, &byte, MEBIBYTE);
    LACKS(device, range_map, &byte, MEBIBYTE, &out);
    LACKS(device, range_unmap, &byte, MEBIBYTE, &byte);
    assert_null(out);
    return 0;
}

static char *
reserve(ferryi_device *device)
{
    void *range = NULL;
    size_t step = handle_bytes(device);
    OK(device, range_reserve, PARTS * step, &range);
    assert_non_null(range);
    assert_int_equal((uintptr_t)range % step, 0);
    return range;
}

static void *
map(ferryi_device *device, void *memory, size_t bytes)
{
    void *handle = NULL;
    OK(device, range_map, memory, bytes, &handle);
    assert_non_null(handle);
    return handle;
}

static size_t
free_bytes(ferryi_device *device)
{
    size_t left = 0, total = 0;
    OK(device, memory_info, &left, &total);
    return left;
}

/* Adjacent handles are one piece of memory, also for copies that cross from one to the next. */
static void
test_handles_are_memory(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    size_t step = handle_bytes(device);
    if (step == 0)
        return;
    char *range = reserve(device), *memory = range + step;
    void *first = map(device, memory, step), *second = map(device, memory + step, 2 * step);
    void *plain = take(device, FERRY_MEMORY_DEVICE, 3 * step);
    write_device(device, memory + 100, 3 * step - 100, 1);
    assert_device(device, memory + 100, 3 * step - 100, 1);
    OK(device, copy_device, plain, memory + step - 5, 10, device->default_stream);
    OK(device, fill, memory, 7, 1, 3 * step, device->default_stream);
    OK(device, stream_synchronize, device->default_stream);
    assert_device_byte(device, memory, 3 * step, 7);
    unsigned users = 0;
    OK(device, memory_users, memory + step, &users);
    assert_true(users & FERRYI_USER_DEVICE);
    give(device, FERRY_MEMORY_DEVICE, plain);
    OK(device, range_unmap, memory, step, first);
    write_device(device, memory + step, 2 * step, 2);
    assert_device(device, memory + step, 2 * step, 2);
    OK(device, range_unmap, memory + step, 2 * step, second);
    OK(device, range_release, range, PARTS * step);
}

/* Handles take memory only while they are mapped, and their addresses can be used again. */
static void
test_unmapped_memory_comes_back(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    size_t step = handle_bytes(device), before = free_bytes(device);
    if (step == 0)
        return;
    char *range = reserve(device);
    for (unsigned round = 0; round < 3; round++) {
        void *handles[PARTS];
        for (size_t i = 0; i < PARTS; i++)
            handles[i] = map(device, range + i * step, step);
        assert_true(free_bytes(device) <= before - PARTS * step);
        write_device(device, range, PARTS * step, round);
        assert_device(device, range, PARTS * step, round);
        for (size_t i = 0; i < PARTS; i++)
            OK(device, range_unmap, range + (i + round) % PARTS * step, step,
               handles[(i + round) % PARTS]);
    }
    assert_int_equal(free_bytes(device), before);
    OK(device, range_release, range, PARTS * step);
}

/* A call that fails has no effect. */
static void
test_wrong_uses_of_ranges_fail(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    size_t step = handle_bytes(device), before = free_bytes(device);
    if (step == 0)
        return;
    char *range = reserve(device);
    void *out = (void *)16, *handle = map(device, range + step, 2 * step);
    size_t left = free_bytes(device);
    FAILS(FERRY_ERROR_DEVICE, device, range_map, range + step, step, &out);
    FAILS(FERRY_ERROR_DEVICE, device, range_map, range, 2 * step, &out);
    FAILS(FERRY_ERROR_DEVICE, device, range_map, range + (PARTS - 1) * step, 2 * step, &out);
    FAILS(FERRY_ERROR_DEVICE, device, range_map, range + 4 * step + 256, step, &out);
    FAILS(FERRY_ERROR_DEVICE, device, range_map, range + 4 * step, step / 2, &out);
    FAILS(FERRY_ERROR_DEVICE, device, range_unmap, range + 4 * step, step, handle);
    FAILS(FERRY_ERROR_DEVICE, device, range_release, range, PARTS * step);
    FAILS(FERRY_ERROR_DEVICE, device, memory_free, FERRY_MEMORY_DEVICE, range);
    assert_int_equal(free_bytes(device), left);
    assert_ptr_equal(out, (void *)16);
    write_device(device, range + step, 2 * step, 3);
    assert_device(device, range + step, 2 * step, 3);
    OK(device, range_unmap, range + step, 2 * step, handle);
    FAILS(FERRY_ERROR_DEVICE, device, range_unmap, range + step, 2 * step, handle);
    FAILS(FERRY_ERROR_DEVICE, device, range_release, range, step);
    OK(device, range_release, range, PARTS * step);
    assert_int_equal(free_bytes(device), before);
}

static void
test_too_large_a_handle_is_out_of_memory(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    size_t step = handle_bytes(device), before = free_bytes(device);
    if (step == 0)
        return;
    size_t much = (device->properties.total_bytes / step + 1) * step;
    void *range = NULL, *out = (void *)16;
    OK(device, range_reserve, much, &range);
    FAILS(FERRY_ERROR_OUT_OF_MEMORY, device, range_map, range, much, &out);
    assert_ptr_equal(out, (void *)16);
    assert_int_equal(free_bytes(device), before);
    void *handle = map(device, range, step);
    OK(device, range_unmap, range, step, handle);
    OK(device, range_release, range, much);
}

/* A copy uses no part of a range that has no memory. A device that takes pageable memory loses its
 * context instead, as for any other address without memory. */
static void
test_addresses_without_memory_are_refused(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    size_t step = handle_bytes(device);
    if (step == 0 || (device->capabilities & FERRYI_DEVICE_TAKES_PAGEABLE))
        return;
    char *range = reserve(device), *pinned = take(device, FERRY_MEMORY_PINNED, 2 * step);
    void *handle = map(device, range, step);
    FAILS(FERRY_ERROR_DEVICE, device, copy_upload, range + step - 8, pinned, 16,
          device->default_stream);
    FAILS(FERRY_ERROR_DEVICE, device, copy_upload, range + 2 * step, pinned, 16,
          device->default_stream);
    OK(device, copy_upload, range + step - 16, pinned, 16, device->default_stream);
    OK(device, stream_synchronize, device->default_stream);
    OK(device, range_unmap, range, step, handle);
    FAILS(FERRY_ERROR_DEVICE, device, copy_upload, range, pinned, 16, device->default_stream);
    OK(device, range_release, range, PARTS * step);
    give(device, FERRY_MEMORY_PINNED, pinned);
}

/* Peers use mapped memory as they use allocated memory. */
static void
test_peers_reach_handles(void **state)
{
    (void)state;
    ferryi_device *device = suite_device(), *other = suite.devices[suite.count - 1];
    size_t step = handle_bytes(device);
    if (step == 0 || device == other || !suite_can(FERRY_CAN_PEER))
        return;
    char *range = reserve(device);
    void *handle = map(device, range, step), *memory = take(other, FERRY_MEMORY_DEVICE, step);
    write_device(device, range, step, 4);
    OK(other, copy_peer, memory, device, range, step, other->default_stream);
    OK(other, stream_synchronize, other->default_stream);
    assert_device(other, memory, step, 4);
    /* A batch accesses the memory of a peer directly. */
    write_device(device, range, step, 6);
    const struct ferryi_copy halves[] = {
        {memory, range, step / 2, FERRY_DIRECTION_PEER, device},
        {(char *)memory + step / 2, range + step / 2, step / 2, FERRY_DIRECTION_PEER, device}};
    void *stream = new_stream(other);
    if (FERRYI_CALL(other, copy_batch, halves, 2, stream) == FERRY_OK) {
        OK(other, stream_synchronize, stream);
        assert_device(other, memory, step, 6);
    }
    OK(other, stream_destroy, stream);
    write_device(other, memory, step, 5);
    OK(device, copy_peer, range, other, memory, step, device->default_stream);
    OK(device, stream_synchronize, device->default_stream);
    assert_device(device, range, step, 5);
    give(other, FERRY_MEMORY_DEVICE, memory);
    OK(device, range_unmap, range, step, handle);
    OK(device, range_release, range, PARTS * step);
}

const struct CMUnitTest range_tests[] = {
    cmocka_unit_test(test_handles_are_memory),
    cmocka_unit_test(test_unmapped_memory_comes_back),
    cmocka_unit_test(test_wrong_uses_of_ranges_fail),
    cmocka_unit_test(test_too_large_a_handle_is_out_of_memory),
    cmocka_unit_test(test_addresses_without_memory_are_refused),
    cmocka_unit_test(test_peers_reach_handles),
};
const size_t range_test_count = sizeof(range_tests) / sizeof(range_tests[0]);
