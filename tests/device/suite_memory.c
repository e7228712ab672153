/* SPDX-License-Identifier: MIT */
/* Checks memory of the device table: allocation, alignment, registration and managed memory. */
#include "tests/device/suite.h"
#include "tests/support/copy_slots.h"

#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>

static void
test_properties_are_filled_in(void **state)
{
    (void)state;
    for (int i = 0; i < suite.count; i++) {
        const struct ferryi_device_properties properties = suite.devices[i]->properties;
        assert_string_not_equal(properties.name, "");
        assert_true(properties.total_bytes > 0);
        assert_true(properties.architecture >= 0);
    }
}

static void
test_calls_are_counted(void **state)
{
    (void)state;
    uint64_t before = atomic_load(&suite_device()->calls);
    assert_ok(ferryi_device_synchronize(suite_device()), "synchronize");
    assert_ok(ferryi_device_synchronize(suite_device()), "synchronize");
    assert_int_equal(atomic_load(&suite_device()->calls), before + 2);
}

static void
test_memory_info_has_free_within_total(void **state)
{
    (void)state;
    size_t free_bytes = SIZE_MAX, total_bytes = 0;
    OK(suite_device(), memory_info, &free_bytes, &total_bytes);
    assert_true(total_bytes > 0);
    assert_true(free_bytes <= total_bytes);
}

static void
check_alignment(ferry_memory_kind kind)
{
    static const size_t sizes[] = {1, 3, 255, 256, 257, 4096, MEBIBYTE + 1};
    void *memory[sizeof(sizes) / sizeof(sizes[0])];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memory[i] = take(suite_device(), kind, sizes[i]);
        assert_int_equal((uintptr_t)memory[i] % 256, 0);
        for (size_t k = 0; k < i; k++)
            assert_true((char *)memory[i] >= (char *)memory[k] + sizes[k] ||
                        (char *)memory[k] >= (char *)memory[i] + sizes[i]);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        give(suite_device(), kind, memory[i]);
}

static void
test_memory_is_aligned_and_apart(void **state)
{
    (void)state;
    check_alignment(FERRY_MEMORY_DEVICE);
    check_alignment(FERRY_MEMORY_PINNED);
    if (suite_can(FERRY_CAN_MANAGE))
        check_alignment(FERRY_MEMORY_MANAGED);
}

static void
check_too_much(ferry_memory_kind kind)
{
    void *memory = (void *)16;
    FAILS(FERRY_ERROR_OUT_OF_MEMORY, suite_device(), memory_alloc, kind, (size_t)1 << 50, &memory);
    assert_ptr_equal(memory, (void *)16);
}

static void
test_too_much_memory_is_out_of_memory(void **state)
{
    (void)state;
    check_too_much(FERRY_MEMORY_DEVICE);
    check_too_much(FERRY_MEMORY_PINNED);
    /* The device must still work after an allocation has failed. */
    give(suite_device(), FERRY_MEMORY_DEVICE, take(suite_device(), FERRY_MEMORY_DEVICE, MEBIBYTE));
}

static void
test_freeing_null_does_nothing(void **state)
{
    (void)state;
    OK(suite_device(), memory_free, FERRY_MEMORY_DEVICE, NULL);
    OK(suite_device(), memory_free, FERRY_MEMORY_PINNED, NULL);
}

static void
test_freed_memory_comes_back(void **state)
{
    (void)state;
    size_t bytes = suite_device()->properties.total_bytes / 8 < 64 * MEBIBYTE
                       ? suite_device()->properties.total_bytes / 8
                       : 64 * MEBIBYTE;
    for (int i = 0; i < 20; i++)
        give(suite_device(), FERRY_MEMORY_DEVICE, take(suite_device(), FERRY_MEMORY_DEVICE, bytes));
}

static void
test_pinned_memory_serves_every_device(void **state)
{
    (void)state;
    char *pinned = take(suite_device(), FERRY_MEMORY_PINNED, 2 * MEBIBYTE);
    for (int i = 0; i < suite.count; i++) {
        ferryi_device *device = suite.devices[i];
        void *memory = take(device, FERRY_MEMORY_DEVICE, MEBIBYTE);
        write_pattern(pinned, MEBIBYTE, (unsigned)i);
        memset(pinned + MEBIBYTE, 0, MEBIBYTE);
        OK(device, copy_upload, memory, pinned, MEBIBYTE, device->default_stream);
        OK(device, copy_download, pinned + MEBIBYTE, memory, MEBIBYTE, device->default_stream);
        OK(device, stream_synchronize, device->default_stream);
        assert_pattern(pinned + MEBIBYTE, MEBIBYTE, (unsigned)i);
        give(device, FERRY_MEMORY_DEVICE, memory);
    }
    give(suite_device(), FERRY_MEMORY_PINNED, pinned);
}

/* The host uses its own memory, and every device uses the memory that it allocated. */
static void
test_memory_has_users(void **state)
{
    (void)state;
    static int of_host;
    unsigned users = 0;
    void *memory = take(suite_device(), FERRY_MEMORY_DEVICE, MEBIBYTE),
         *pinned = take(suite_device(), FERRY_MEMORY_PINNED, 100);
    OK(suite_device(), memory_users, memory, &users);
    assert_true(users & FERRYI_USER_DEVICE);
    assert_true(!(users & FERRYI_USER_HOST) || suite_can(FERRYI_DEVICE_COHERENT));
    OK(suite_device(), memory_users, (char *)memory + 100, &users);
    assert_true(users & FERRYI_USER_DEVICE);
    OK(suite_device(), memory_users, pinned, &users);
    assert_true(users & FERRYI_USER_HOST);
    /* A driver need not know memory that another allocator returned. */
    ferry_status status = FERRYI_CALL(suite_device(), memory_users, &of_host, &users);
    bool reaches = suite_can(FERRYI_DEVICE_COHERENT) || suite_can(FERRYI_DEVICE_TAKES_PAGEABLE);
    if (status != FERRY_ERROR_UNSUPPORTED) {
        assert_ok(status, "memory_users");
        assert_int_equal(users, FERRYI_USER_HOST | (reaches ? FERRYI_USER_DEVICE : 0));
    }
    give(suite_device(), FERRY_MEMORY_PINNED, pinned);
    give(suite_device(), FERRY_MEMORY_DEVICE, memory);
}

/* A device that finds page-locked memory finds what it allocated or registered, up to its end. */
static void
test_pinned_memory_is_known(void **state)
{
    (void)state;
    bool known = false;
    if (!suite_can(FERRYI_DEVICE_FINDS_PINNED)) {
        assert_int_equal(FERRYI_CALL(suite_device(), memory_is_pinned, &known, 1, &known),
                         FERRY_ERROR_UNSUPPORTED);
        return;
    }
    char *pinned = take(suite_device(), FERRY_MEMORY_PINNED, MEBIBYTE),
         *pageable = aligned_alloc(4096, MEBIBYTE);
    void *memory = take(suite_device(), FERRY_MEMORY_DEVICE, MEBIBYTE);
    assert_non_null(pageable);
    memset(pageable, 0,
           MEBIBYTE); /* a fake driver reads it to find out whether it may be written */
    OK(suite_device(), memory_is_pinned, pinned, MEBIBYTE, &known);
    assert_true(known);
    OK(suite_device(), memory_is_pinned, pinned + 100, MEBIBYTE - 100, &known);
    assert_true(known);
    OK(suite_device(), memory_is_pinned, pinned + 100, 64 * MEBIBYTE, &known);
    assert_false(known);
    OK(suite_device(), memory_is_pinned, memory, MEBIBYTE, &known);
    assert_false(known);
    OK(suite_device(), memory_is_pinned, pageable, MEBIBYTE, &known);
    assert_false(known);
    if (!suite_can(FERRYI_DEVICE_NO_REGISTER)) {
        OK(suite_device(), host_register, pageable, MEBIBYTE);
        OK(suite_device(), memory_is_pinned, pageable, MEBIBYTE, &known);
        assert_true(known);
        OK(suite_device(), host_unregister, pageable);
        OK(suite_device(), memory_is_pinned, pageable, MEBIBYTE, &known);
        assert_false(known);
    }
    give(suite_device(), FERRY_MEMORY_DEVICE, memory);
    give(suite_device(), FERRY_MEMORY_PINNED, pinned);
    free(pageable);
}

static void
test_registered_memory_serves_copies(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    size_t bytes = 2 * MEBIBYTE;
    char *memory = aligned_alloc(ferryi_page_bytes(), bytes);
    assert_non_null(memory);
    if (!suite_can(FERRY_CAN_PIN) || suite_can(FERRYI_DEVICE_NO_REGISTER)) {
        LACKS(device, host_register, memory, bytes);
        LACKS(device, host_unregister, memory);
        free(memory);
        return;
    }
    memory[0] = 0; /* a fake driver looks whether it can be written */
    OK(device, host_register, memory, bytes);
    FAILS(FERRY_ERROR_CONFLICT, device, host_register, memory, bytes);
    void *target = take(device, FERRY_MEMORY_DEVICE, MEBIBYTE);
    write_pattern(memory, MEBIBYTE, 7);
    memset(memory + MEBIBYTE, 0, MEBIBYTE);
    OK(device, copy_upload, target, memory, MEBIBYTE, device->default_stream);
    OK(device, copy_download, memory + MEBIBYTE, target, MEBIBYTE, device->default_stream);
    OK(device, stream_synchronize, device->default_stream);
    OK(device, host_unregister, memory);
    /* The caller still owns the memory, and unregistering it did not change its contents. */
    assert_pattern(memory, MEBIBYTE, 7);
    assert_pattern(memory + MEBIBYTE, MEBIBYTE, 7);
    FAILS(FERRY_ERROR_DEVICE, device, host_unregister, memory);
    OK(device, host_register, memory, bytes);
    OK(device, host_unregister, memory);
    give(device, FERRY_MEMORY_DEVICE, target);
    free(memory);
}

static void
test_managed_memory_has_one_pointer(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    void *managed = NULL;
    if (!suite_can(FERRY_CAN_MANAGE)) {
        LACKS(device, memory_alloc, FERRY_MEMORY_MANAGED, MEBIBYTE, &managed);
        assert_null(managed);
        return;
    }
    managed = take(device, FERRY_MEMORY_MANAGED, MEBIBYTE);
    void *memory = take(device, FERRY_MEMORY_DEVICE, MEBIBYTE);
    write_pattern(managed, MEBIBYTE, 3);
    OK(device, copy_device, memory, managed, MEBIBYTE, device->default_stream);
    assert_ok(ferryi_device_synchronize(device), "synchronize");
    assert_device(device, memory, MEBIBYTE, 3);
    write_device(device, memory, MEBIBYTE, 4);
    OK(device, copy_device, managed, memory, MEBIBYTE, device->default_stream);
    assert_ok(ferryi_device_synchronize(device), "synchronize");
    assert_pattern(managed, MEBIBYTE, 4);
    give(device, FERRY_MEMORY_DEVICE, memory);
    give(device, FERRY_MEMORY_MANAGED, managed);
}

static void
check_advice(ferryi_device *device, void *managed, int set, int unset, ferryi_device *location)
{
    OK(device, advise, managed, MEBIBYTE, set, location);
    OK(device, advise, managed, MEBIBYTE, unset, location);
}

static void
test_prefetch_and_advice_keep_the_data(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    if (!suite_can(FERRY_CAN_MANAGE_CONCURRENTLY)) {
        char byte;
        LACKS(device, prefetch, &byte, 1, NULL, device->default_stream);
        LACKS(device, advise, &byte, 1, FERRY_ADVISE_READ_MOSTLY, NULL);
        return;
    }
    void *managed = take(device, FERRY_MEMORY_MANAGED, MEBIBYTE);
    write_pattern(managed, MEBIBYTE, 5);
    for (int i = -1; i < suite.count; i++) {
        ferryi_device *location = i < 0 ? NULL : suite.devices[i];
        check_advice(device, managed, FERRY_ADVISE_READ_MOSTLY, FERRY_ADVISE_UNSET_READ_MOSTLY,
                     location);
        check_advice(device, managed, FERRY_ADVISE_PREFERRED_LOCATION,
                     FERRY_ADVISE_UNSET_PREFERRED_LOCATION, location);
        check_advice(device, managed, FERRY_ADVISE_ACCESSED_BY, FERRY_ADVISE_UNSET_ACCESSED_BY,
                     location);
        OK(device, prefetch, managed, MEBIBYTE, location, device->default_stream);
        OK(device, stream_synchronize, device->default_stream);
        assert_pattern(managed, MEBIBYTE, 5);
    }
    OK(device, prefetch, managed, 0, NULL, device->default_stream);
    give(device, FERRY_MEMORY_MANAGED, managed);
}

static void
test_host_visible_memory_is_read_and_written(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    if (!suite_can(FERRYI_DEVICE_HOST_VISIBLE))
        skip();
    void *memory = take(device, FERRY_MEMORY_DEVICE, MEBIBYTE);
    write_pattern(memory, MEBIBYTE, 8);
    assert_device(device, memory, MEBIBYTE, 8);
    write_device(device, memory, MEBIBYTE, 9);
    assert_pattern(memory, MEBIBYTE, 9);
    give(device, FERRY_MEMORY_DEVICE, memory);
}

/* A device that has a library for files refuses what is no file, or says that the library is
 * absent.
 */
static void
test_what_is_no_file(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    const struct ferryi_file_copy copy = {0};
    size_t bytes = 0;
    void *file = NULL;
    FAILS(FERRY_ERROR_UNSUPPORTED, device, file_open, -1, &file);
    assert_null(file);
    if (suite_can(FERRYI_DEVICE_TAKES_FILES))
        return;
    LACKS(device, file_open, -1, &file);
    LACKS(device, file_copy, &file, &copy, &bytes);
    LACKS(device, file_close, &file);
}

static void
test_code_that_cannot_be_loaded_says_so(void **state)
{
    (void)state;
    ferryi_device *device = suite_device();
    void *out = NULL;
    const ferry_kernel_code text = {.kind = FERRY_CODE_CUDA, .code = "#error no code\n"};
    const struct ferryi_code_job job = {.name = "nonsense", .code = &text};
    assert_int_not_equal(FERRYI_CALL(device, code_build, &job, NULL), FERRY_OK);
    if (suite_can(FERRY_CAN_LOAD_CODE)) {
        static const char nonsense[] = "this is no code";
        assert_int_not_equal(FERRYI_CALL(device, code_load, nonsense, sizeof(nonsense), &out),
                             FERRY_OK);
        assert_null(out);
        return;
    }
    char byte = 0;
    const ferry_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    struct ferryi_launch launch = {.grid = &grid};
    LACKS(device, code_load, &byte, 1, &out);
    LACKS(device, code_build, &job, &out);
    LACKS(device, code_unload, &byte);
    LACKS(device, code_function, &byte, "f", &out);
    LACKS(device, code_parameters, &byte, 1, NULL, NULL);
    LACKS(device, launch, &launch, device->default_stream);
    assert_null(out);
}

const struct CMUnitTest memory_tests[] = {
    cmocka_unit_test(test_properties_are_filled_in),
    cmocka_unit_test(test_calls_are_counted),
    cmocka_unit_test(test_memory_info_has_free_within_total),
    cmocka_unit_test(test_memory_is_aligned_and_apart),
    cmocka_unit_test(test_too_much_memory_is_out_of_memory),
    cmocka_unit_test(test_freeing_null_does_nothing),
    cmocka_unit_test(test_what_is_no_file),
    cmocka_unit_test(test_freed_memory_comes_back),
    cmocka_unit_test(test_pinned_memory_serves_every_device),
    cmocka_unit_test(test_memory_has_users),
    cmocka_unit_test(test_pinned_memory_is_known),
    cmocka_unit_test(test_registered_memory_serves_copies),
    cmocka_unit_test(test_managed_memory_has_one_pointer),
    cmocka_unit_test(test_prefetch_and_advice_keep_the_data),
    cmocka_unit_test(test_host_visible_memory_is_read_and_written),
    cmocka_unit_test(test_code_that_cannot_be_loaded_says_so),
};
const size_t memory_test_count = sizeof(memory_tests) / sizeof(memory_tests[0]);
