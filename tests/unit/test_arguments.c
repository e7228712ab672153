/* SPDX-License-Identifier: MIT */
/* Tests what the arguments of a launch become: ranges of buffers, values that are copied, and
 * grids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/kernel.h>

#include "src/kernel/call.h"

static const ferry_element float_element = {.name = "float",
                                            .c_type = "float",
                                            .identity = 11,
                                            .bytes = 4,
                                            .align = 4,
                                            .kind = FERRY_KIND_FLOAT,
                                            .bits = 32};
static const ferry_element int_element = {.name = "int",
                                          .c_type = "int32_t",
                                          .identity = 12,
                                          .bytes = 4,
                                          .align = 4,
                                          .kind = FERRY_KIND_INT,
                                          .bits = 32};

static void
test_a_buffer_argument_names_a_range(void **state)
{
    (void)state;
    ferry_buffer *buffer = (ferry_buffer *)(uintptr_t)0x1000;
    ferry_argument argument = ferry_buffer_argument(buffer, &float_element, 7, FERRY_REST);
    assert_ptr_equal(argument.buffer, buffer);
    assert_ptr_equal(argument.element, &float_element);
    assert_int_equal(argument.offset, 7);
    assert_true(argument.count == FERRY_REST);
    assert_int_equal(argument.is_value, 0);
    assert_int_equal(argument.access, 0);
    argument = ferry_argument_with(argument, FERRY_UPDATE);
    assert_int_equal(argument.access, FERRY_UPDATE);
    assert_int_equal(argument.offset, 7);
}

static void
test_a_scalar_is_copied(void **state)
{
    (void)state;
    float value = 2.5f;
    ferry_argument argument = ferry_element_value(&float_element, &value);
    value = 0;
    assert_int_equal(argument.is_value, 1);
    assert_int_equal(argument.bytes, 4);
    assert_int_equal(argument.align, 4);
    assert_null(argument.buffer);
    float kept;
    memcpy(&kept, argument.value.bytes, 4);
    assert_true(kept == 2.5f);
    argument = ferry_size_value(SIZE_MAX - 3);
    size_t size;
    memcpy(&size, argument.value.bytes, sizeof(size));
    assert_true(size == SIZE_MAX - 3);
    assert_ptr_equal(argument.element, ferry_size_element());
}

static void
test_a_struct_is_copied_up_to_32_bytes(void **state)
{
    (void)state;
    unsigned char small[FERRY_VALUE_BYTES], large[FERRY_VALUE_BYTES + 1];
    memset(small, 0x5A, sizeof(small));
    ferry_argument argument = ferry_struct_value(small, sizeof(small), 8);
    assert_null(argument.element);
    assert_null(argument.pointer);
    assert_memory_equal(argument.value.bytes, small, sizeof(small));
    assert_int_equal(argument.align, 8);
    argument = ferry_struct_value(large, sizeof(large), 1);
    assert_ptr_equal(argument.pointer, large);
    assert_int_equal(argument.bytes, sizeof(large));
}

/* Checks that a NULL value becomes an argument without bytes. Launches refuse such an argument. */
static void
test_a_missing_value_has_no_bytes(void **state)
{
    (void)state;
    assert_int_equal(ferry_element_value(&float_element, NULL).bytes, 0);
    assert_int_equal(ferry_element_value(NULL, &float_element).bytes, 0);
    assert_int_equal(ferry_struct_value(NULL, 100, 4).bytes, 0);
}

static void
test_grids(void **state)
{
    (void)state;
    ferry_grid grid = ferry_grid_for(1000, 0);
    assert_int_equal(grid.blocks[0], 4);
    assert_int_equal(grid.threads[0], 256);
    assert_int_equal(grid.blocks[1] * grid.blocks[2] * grid.threads[1] * grid.threads[2], 1);
    assert_int_equal(grid.shared_bytes, 0);
    assert_int_equal(grid.flags | grid.cluster[0] | grid.cluster[1] | grid.cluster[2], 0);
    assert_true((grid.reserved[0] | grid.reserved[1] | grid.reserved[2] | grid.reserved[3]) == 0);
    assert_int_equal(ferry_grid_for(0, 64).blocks[0], 1);
    assert_int_equal(ferry_grid_for(64, 64).blocks[0], 1);
    assert_int_equal(ferry_grid_for(65, 64).blocks[0], 2);
    assert_int_equal(ferry_grid_for(SIZE_MAX, 1).blocks[0], INT32_MAX);
}

/* Checks that a host function can read its arrays and values by their index. A read as the wrong
 * kind of argument or the wrong type must fail. */
static void
test_a_body_reads_its_call(void **state)
{
    (void)state;
    float array[3] = {1, 2, 3}, value = 9;
    size_t size = 77;
    struct {
        int a, b, c;
    } plain = {1, 2, 3};
    char text[FERRYI_CALL_TEXT_BYTES] = "";
    struct ferryi_call_argument arguments[] = {
        {.element = &float_element, .pointer = array, .count = 3},
        {.element = &float_element, .pointer = &value, .bytes = 4, .is_value = true},
        {.element = ferry_size_element(),
         .pointer = &size,
         .bytes = sizeof(size),
         .is_value = true},
        {.element = NULL, .pointer = &plain, .bytes = sizeof(plain), .is_value = true},
    };
    ferry_call call = {
        .grid = ferry_grid_for(10, 5), .arguments = arguments, .count = 4, .text = text};
    size_t count = 99;
    assert_ptr_equal(ferry_call_array(&call, &float_element, 0, &count), array);
    assert_int_equal(count, 3);
    assert_ptr_equal(ferry_call_array(&call, &float_element, 0, NULL), array);
    assert_null(ferry_call_array(&call, &int_element, 0, &count));
    assert_int_equal(count, 0);
    assert_null(ferry_call_array(&call, &float_element, 1, NULL));
    assert_null(ferry_call_array(&call, &float_element, 4, NULL));
    size_t bytes = 99;
    assert_ptr_equal(ferry_call_value(&call, &float_element, 1, &bytes), &value);
    assert_int_equal(bytes, 4);
    assert_null(ferry_call_value(&call, &int_element, 1, &bytes));
    assert_int_equal(bytes, 0);
    assert_null(ferry_call_value(&call, NULL, 0, NULL));
    assert_ptr_equal(ferry_call_value(&call, NULL, 3, &bytes), &plain);
    assert_int_equal(bytes, sizeof(plain));
    assert_int_equal(ferry_call_size(&call, 2), 77);
    assert_int_equal(ferry_call_size(&call, 1), 0);
    assert_int_equal(ferry_call_size(&call, 9), 0);
    assert_int_equal(ferry_call_grid(&call).blocks[0], 2);
    ferry_call_fail(&call, "no luck");
    ferry_call_fail(&call, NULL);
    ferry_call_fail(NULL, "no call");
    assert_string_equal(text, "no luck");
    assert_null(ferry_call_array(NULL, &int_element, 0, &count));
    assert_null(ferry_call_value(NULL, NULL, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_int_equal(ferry_call_size(NULL, 0), 0);
    assert_int_equal(ferry_call_grid(NULL).blocks[0], 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_buffer_argument_names_a_range),
        cmocka_unit_test(test_a_scalar_is_copied),
        cmocka_unit_test(test_a_struct_is_copied_up_to_32_bytes),
        cmocka_unit_test(test_a_missing_value_has_no_bytes),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_a_body_reads_its_call),
    };
    return cmocka_run_group_tests_name("arguments", tests, NULL, NULL);
}
