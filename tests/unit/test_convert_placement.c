/* SPDX-License-Identifier: MIT */
/* Tests whether the source or the target side of a copy converts the elements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/convert/placement.h"

static const size_t sizes[] = {1, 2, 4, 8, 16};

/* Returns the side that converts according to the documentation. The side with the wider elements
 * converts, so that fewer bytes are transferred. If both arrays are on one device, that device
 * converts. If the device cannot convert, the host converts. */
static enum ferryi_convert_side
expected(const struct ferryi_convert_path *path)
{
    if (!path->device_converts)
        return FERRYI_CONVERT_ON_HOST;
    if (path->from_device && path->to_device)
        return FERRYI_CONVERT_ON_DEVICE;
    if (path->to_device)
        return path->source_bytes < path->target_bytes ? FERRYI_CONVERT_ON_DEVICE
                                                       : FERRYI_CONVERT_ON_HOST;
    if (path->from_device)
        return path->target_bytes < path->source_bytes ? FERRYI_CONVERT_ON_DEVICE
                                                       : FERRYI_CONVERT_ON_HOST;
    return FERRYI_CONVERT_ON_HOST;
}

static void
for_every_path(void (*check)(const struct ferryi_convert_path *path))
{
    for (int bits = 0; bits < 8; bits++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
                struct ferryi_convert_path path = {.from_device = bits & 1,
                                                   .to_device = bits & 2,
                                                   .device_converts = bits & 4,
                                                   .source_bytes = sizes[i],
                                                   .target_bytes = sizes[j]};
                check(&path);
            }
}

static void
check_side(const struct ferryi_convert_path *path)
{
    assert_int_equal(ferryi_convert_side(path), expected(path));
}

static void
test_side(void **state)
{
    (void)state;
    for_every_path(check_side);
}

/* Checks that no other possible choice of the side that converts would transfer fewer bytes. */
static void
check_fewest(const struct ferryi_convert_path *path)
{
    size_t chosen = ferryi_convert_link_bytes(path, ferryi_convert_side(path));
    assert_true(chosen <= ferryi_convert_link_bytes(path, FERRYI_CONVERT_ON_HOST));
    if (path->device_converts)
        assert_true(chosen <= ferryi_convert_link_bytes(path, FERRYI_CONVERT_ON_DEVICE));
    if (path->from_device == path->to_device && path->device_converts)
        assert_int_equal(chosen, 0);
}

static void
test_fewest_bytes(void **state)
{
    (void)state;
    for_every_path(check_fewest);
}

/* Compares the numbers of bytes that copies transfer with numbers that were computed by hand. */
static void
test_crossing(void **state)
{
    (void)state;
    struct ferryi_convert_path up = {.to_device = true, .source_bytes = 8, .target_bytes = 4};
    assert_int_equal(ferryi_convert_link_bytes(&up, FERRYI_CONVERT_ON_HOST), 4);
    assert_int_equal(ferryi_convert_link_bytes(&up, FERRYI_CONVERT_ON_DEVICE), 8);
    struct ferryi_convert_path down = {.from_device = true, .source_bytes = 8, .target_bytes = 4};
    assert_int_equal(ferryi_convert_link_bytes(&down, FERRYI_CONVERT_ON_HOST), 8);
    assert_int_equal(ferryi_convert_link_bytes(&down, FERRYI_CONVERT_ON_DEVICE), 4);
    struct ferryi_convert_path inside = {
        .from_device = true, .to_device = true, .source_bytes = 8, .target_bytes = 4};
    assert_int_equal(ferryi_convert_link_bytes(&inside, FERRYI_CONVERT_ON_HOST), 12);
    assert_int_equal(ferryi_convert_link_bytes(&inside, FERRYI_CONVERT_ON_DEVICE), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_side),
        cmocka_unit_test(test_fewest_bytes),
        cmocka_unit_test(test_crossing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
