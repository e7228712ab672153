/* SPDX-License-Identifier: MIT */
/* Memory made of granules. */
#include "tests/device/suite.h"

#include <stdlib.h>
#include <string.h>

static size_t
granule(void)
{
    return suite_device()->granule_bytes;
}

static void *
make(size_t granules)
{
    void *memory = NULL;
    OK(suite_device(), range_make, NULL, 0, granules * granule(), &memory);
    assert_non_null(memory);
    return memory;
}

static void *
remake(const struct ferryi_range_part *parts, size_t count, size_t granules)
{
    void *memory = NULL;
    OK(suite_device(), range_make, parts, count, granules * granule(), &memory);
    assert_non_null(memory);
    return memory;
}

static void
unmake(void *memory, size_t granules)
{
    OK(suite_device(), range_free, memory, granules * granule());
}

static bool
lacks_ranges(void)
{
    if (suite_can(FERRY_CAN_GROW))
        return false;
    void *memory = &memory;
    LACKS(suite_device(), range_make, NULL, 0, (size_t)2 << 20, &memory);
    LACKS(suite_device(), range_free, &memory, (size_t)2 << 20);
    assert_ptr_equal(memory, &memory);
    assert_int_equal(granule(), 0);
    return true;
}

static void
test_ranges_are_aligned_and_apart(void **state)
{
    (void)state;
    if (lacks_ranges())
        return;
    assert_true(ferryi_is_power_of_two(granule()));
    char *memory[4];
    for (size_t i = 0; i < 4; i++) {
        memory[i] = make(i + 1);
        assert_int_equal((uintptr_t)memory[i] % granule(), 0);
        write_device(suite_device(), memory[i], (i + 1) * granule(), (unsigned)i);
    }
    for (size_t i = 0; i < 4; i++)
        assert_device(suite_device(), memory[i], (i + 1) * granule(), (unsigned)i);
    for (size_t i = 0; i < 4; i++)
        unmake(memory[i], i + 1);
    OK(suite_device(), range_free, NULL, granule());
}

static void
test_a_range_is_filled_and_copied_across_granules(void **state)
{
    (void)state;
    if (lacks_ranges())
        return;
    ferryi_device *device = suite_device();
    char *first = make(3), *second = make(3);
    OK(device, fill, first, 0x5A, 1, 3 * granule(), device->default_stream);
    OK(device, copy_device, second + 512, first, 3 * granule() - 512, device->default_stream);
    OK(device, stream_synchronize, device->default_stream);
    assert_device_byte(device, second + 512, 3 * granule() - 512, 0x5A);
    unmake(first, 3);
    unmake(second, 3);
}

static void
test_parts_keep_their_bytes_in_order(void **state)
{
    (void)state;
    if (lacks_ranges())
        return;
    ferryi_device *device = suite_device();
    char *first = make(1), *between = make(1), *second = make(2);
    write_device(device, first, granule(), 1);
    write_device(device, between, granule(), 2);
    write_device(device, second, 2 * granule(), 3);
    const struct ferryi_range_part parts[] = {{second, 2 * granule()}, {first, granule()}};
    char *made = remake(parts, 2, 5);
    assert_device(device, made, 2 * granule(), 3);
    assert_device(device, made + 2 * granule(), granule(), 1);
    assert_device(device, between, granule(), 2);
    write_device(device, made, 5 * granule(), 4);
    assert_device(device, made, 5 * granule(), 4);
    unmake(made, 5);
    unmake(between, 1);
}

static void
test_a_made_range_is_a_part_again(void **state)
{
    (void)state;
    if (lacks_ranges())
        return;
    ferryi_device *device = suite_device();
    char *memory = make(1);
    write_device(device, memory, granule(), 9);
    for (size_t granules = 2; granules < 6; granules++) {
        const struct ferryi_range_part part = {memory, (granules - 1) * granule()};
        memory = remake(&part, 1, granules);
    }
    const struct ferryi_range_part part = {memory, 5 * granule()};
    memory = remake(&part, 1, 2); /* granules that are too many go back */
    assert_device(device, memory, granule(), 9);
    unmake(memory, 2);
}

/* Far more than there is goes through the device: what is too many went back, and so did the parts.
 */
static void
test_granules_come_back(void **state)
{
    (void)state;
    if (lacks_ranges())
        return;
    size_t most = suite_device()->properties.total_bytes / granule() / 4;
    size_t granules = ferryi_min_size(most, 16);
    for (int i = 0; i < 10; i++) {
        void *first = make(granules), *second = make(granules);
        const struct ferryi_range_part parts[] = {{first, granules * granule()},
                                                  {second, granules * granule()}};
        unmake(remake(parts, 2, i % 2 ? granules : 2 * granules), i % 2 ? granules : 2 * granules);
    }
}

static void
test_too_many_granules_leave_the_parts(void **state)
{
    (void)state;
    if (lacks_ranges())
        return;
    ferryi_device *device = suite_device();
    void *memory = make(2), *out = (void *)16;
    const struct ferryi_range_part part = {memory, 2 * granule()};
    /* More than any device has, and little enough for the list of so many granules. */
    const size_t sizes[] = {(size_t)1 << 44,
                            2 * (device->properties.total_bytes / granule()) * granule()};
    write_device(device, memory, 2 * granule(), 6);
    for (size_t i = 0; i < 2; i++) {
        if (sizes[i] <= (size_t)1 << 30 || i == 0)
            FAILS(FERRY_ERROR_OUT_OF_MEMORY, device, range_make, &part, 1, sizes[i], &out);
        assert_ptr_equal(out, (void *)16);
    }
    assert_device(device, memory, 2 * granule(), 6);
    unmake(memory, 2);
    unmake(make(1), 1);
}

static void
test_ranges_serve_other_devices(void **state)
{
    (void)state;
    if (!suite_can(FERRY_CAN_GROW) || !suite_can(FERRY_CAN_PEER) || suite.count < 2)
        skip();
    ferryi_device *device = suite.devices[0], *other = suite.devices[1];
    char *here = make(2), *there = NULL;
    OK(other, range_make, NULL, 0, 2 * granule(), (void **)&there);
    write_device(device, here, 2 * granule(), 7);
    OK(other, copy_peer, there, device, here, 2 * granule(), other->default_stream);
    OK(other, stream_synchronize, other->default_stream);
    assert_device(other, there, 2 * granule(), 7);
    unmake(here, 2);
    OK(other, range_free, there, 2 * granule());
}

const struct CMUnitTest range_tests[] = {
    cmocka_unit_test(test_ranges_are_aligned_and_apart),
    cmocka_unit_test(test_a_range_is_filled_and_copied_across_granules),
    cmocka_unit_test(test_parts_keep_their_bytes_in_order),
    cmocka_unit_test(test_a_made_range_is_a_part_again),
    cmocka_unit_test(test_granules_come_back),
    cmocka_unit_test(test_too_many_granules_leave_the_parts),
    cmocka_unit_test(test_ranges_serve_other_devices),
};
const size_t range_test_count = sizeof(range_tests) / sizeof(range_tests[0]);
