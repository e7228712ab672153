/* SPDX-License-Identifier: MIT */
/* Compares conversions between arrays with an independent oracle, for every pair of types and every
 * policy. Also tests which values the policy CHECK accepts. */
#include <complex.h>
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/bfloat16.h>
#include <ferry/bool.h>
#include <ferry/byte.h>
#include <ferry/byte_convert.h>
#include <ferry/complex_double.h>
#include <ferry/complex_double_convert.h>
#include <ferry/complex_float.h>
#include <ferry/double.h>
#include <ferry/double_convert.h>
#include <ferry/float.h>
#include <ferry/float_convert.h>
#include <ferry/generated.h>
#include <ferry/half.h>
#include <ferry/int.h>
#include <ferry/int16.h>
#include <ferry/int64.h>
#include <ferry/int8.h>
#include <ferry/int_convert.h>
#include <ferry/uint16.h>
#include <ferry/uint32.h>
#include <ferry/uint64.h>

#include "tests/support/long_double.h"

#define VALUE_COUNT 4096

enum number { FLOAT, INT, DOUBLE, BYTE };

static const char *const number_names[] = {"float", "int", "double", "byte"};
static const size_t number_bytes[] = {sizeof(float), sizeof(int32_t), sizeof(double),
                                      sizeof(uint8_t)};
static const long double lowest[] = {0, INT32_MIN, 0, 0}, highest[] = {0, INT32_MAX, 0, UINT8_MAX};

static const double specials[] = {
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    126.5,
    127.5,
    254.5,
    255.0,
    255.49,
    255.5,
    255.6,
    256.0,
    -0.6,
    -1.0,
    0.1,
    -0.1,
    2147483647.0,
    2147483647.4,
    2147483647.5,
    2147483646.5,
    2147483648.0,
    2147483520.0,
    -2147483648.0,
    -2147483648.5,
    -2147483648.6,
    -2147483649.0,
    16777217.0,
    -16777217.0,
    16777219.0,
    1e10,
    -1e10,
    1e300,
    -1e300,
    1e-300,
    5e-324,
    1e-40,
    3.4028234663852886e38,
    3.4028235677973362e38,
    3.4028235677973366e38,
    -3.4028235677973366e38,
    INFINITY,
    -INFINITY,
    NAN,
    -NAN,
};

static bool
is_floating(enum number number)
{
    return number == FLOAT || number == DOUBLE;
}

/* Stores a value as an element of the source type. If the value does not fit an integer type,
 * stores a small number instead. */
static void
put(enum number number, void *array, size_t index, double value)
{
    if (number == FLOAT)
        ((float *)array)[index] = (float)value;
    else if (number == DOUBLE)
        ((double *)array)[index] = value;
    else if (!(value >= (double)lowest[number] && value <= (double)highest[number]))
        put(number, array, index, (double)(index % 200));
    else if (number == INT)
        ((int32_t *)array)[index] = (int32_t)value;
    else
        ((uint8_t *)array)[index] = (uint8_t)value;
}

static long double
get(enum number number, const void *array, size_t index)
{
    if (number == FLOAT)
        return ((const float *)array)[index];
    if (number == DOUBLE)
        return ((const double *)array)[index];
    return number == INT ? ((const int32_t *)array)[index] : ((const uint8_t *)array)[index];
}

/* Returns the expected result of a conversion, which the processor computes in the rounding mode of
 * the policy. Sets `*out_fits` to whether the policy CHECK must accept the value. */
static long double
oracle(enum number to, long double value, ferry_convert_policy policy, bool *out_fits)
{
    volatile long double exact = value;
    volatile long double result;

    fesetround(policy == FERRY_CONVERT_TRUNCATE ? FE_TOWARDZERO : FE_TONEAREST);
    if (to == FLOAT)
        result = (float)exact;
    else if (to == DOUBLE)
        result = (double)exact;
    else
        result = nearbyintl(exact);
    fesetround(FE_TONEAREST);
    if (is_floating(to)) {
        *out_fits = !isinf(result) || isinf(value);
        return result;
    }
    *out_fits = result >= lowest[to] && result <= highest[to];
    if (isnan(value))
        return 0;
    return result < lowest[to] ? lowest[to] : result > highest[to] ? highest[to] : result;
}

static ferry_status
convert(enum number from, enum number to, void *target, const void *source, size_t count,
        ferry_convert_policy policy)
{
    switch (from * 4 + to) {
    case FLOAT * 4 + INT:
        return ferry_convert_float_to_int(target, source, count, policy);
    case FLOAT * 4 + DOUBLE:
        return ferry_convert_float_to_double(target, source, count, policy);
    case FLOAT * 4 + BYTE:
        return ferry_convert_float_to_byte(target, source, count, policy);
    case INT * 4 + FLOAT:
        return ferry_convert_int_to_float(target, source, count, policy);
    case INT * 4 + DOUBLE:
        return ferry_convert_int_to_double(target, source, count, policy);
    case INT * 4 + BYTE:
        return ferry_convert_int_to_byte(target, source, count, policy);
    case DOUBLE * 4 + FLOAT:
        return ferry_convert_double_to_float(target, source, count, policy);
    case DOUBLE * 4 + INT:
        return ferry_convert_double_to_int(target, source, count, policy);
    case DOUBLE * 4 + BYTE:
        return ferry_convert_double_to_byte(target, source, count, policy);
    case BYTE * 4 + FLOAT:
        return ferry_convert_byte_to_float(target, source, count, policy);
    case BYTE * 4 + INT:
        return ferry_convert_byte_to_int(target, source, count, policy);
    default:
        return ferry_convert_byte_to_double(target, source, count, policy);
    }
}

/* Fills the array with special values and with numbers of every magnitude between 2^-20 and 2^44.
 */
static void
fill_values(enum number number, void *array)
{
    const size_t special_count = sizeof(specials) / sizeof(specials[0]);
    uint64_t state = 88172645463325252u;

    for (size_t i = 0; i < VALUE_COUNT; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        double random = ldexp((double)(int64_t)state, (int)(state >> 7 & 63) - 83);
        put(number, array, i, i < special_count ? specials[i] : random);
    }
}

static void
assert_same(enum number from, enum number to, ferry_convert_policy policy, size_t index,
            long double value, long double got, long double expected)
{
    if (got == expected || (isnan(got) && isnan(expected)))
        return;
    fail_msg("%s to %s, policy %d, element %zu: %.20Lg became %.20Lg, not %.20Lg",
             number_names[from], number_names[to], (int)policy, index, value, got, expected);
}

static void
refuse_none(enum number from, enum number to)
{
    static double source[VALUE_COUNT], target[VALUE_COUNT];
    assert_int_equal(convert(from, to, target, source, VALUE_COUNT, FERRY_CONVERT_NONE),
                     FERRY_ERROR_INVALID_ARGUMENT);
}

static void
check_pair(enum number from, enum number to, ferry_convert_policy policy)
{
    static double source[VALUE_COUNT], target[VALUE_COUNT];
    bool fits;

    fill_values(from, source);
    assert_int_equal(convert(from, to, target, source, VALUE_COUNT, policy), FERRY_OK);
    for (size_t i = 0; i < VALUE_COUNT; i++) {
        long double value = get(from, source, i);
        assert_same(from, to, policy, i, value, get(to, target, i),
                    oracle(to, value, policy, &fits));
    }
}

/* Checks the results of the policies SATURATE and TRUNCATE for every pair of types. The value 0
 * must have the effect of SATURATE. */
static void
test_values(void **state)
{
    (void)state;
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            if (from != to) {
                check_pair(from, to, FERRY_CONVERT_SATURATE);
                refuse_none(from, to);
                check_pair(from, to, FERRY_CONVERT_TRUNCATE);
            }
}

/* Checks the policy CHECK on one value. If the oracle accepts the value, it must be converted. If
 * not, the call must fail and leave the target unchanged. */
static void
check_one(enum number from, enum number to, const unsigned char *source, long double value)
{
    unsigned char target[8], before[8];
    bool fits;
    long double expected = oracle(to, value, FERRY_CONVERT_CHECK, &fits);

    memset(target, 0x5a, sizeof(target));
    memcpy(before, target, sizeof(target));
    ferry_status status = convert(from, to, target, source, 1, FERRY_CONVERT_CHECK);
    if (status != (fits ? FERRY_OK : FERRY_ERROR_OUT_OF_RANGE))
        fail_msg("%s to %s, CHECK of %.20Lg: status %d", number_names[from], number_names[to],
                 value, (int)status);
    if (fits) {
        assert_same(from, to, FERRY_CONVERT_CHECK, 0, value, get(to, target, 0), expected);
        return;
    }
    assert_memory_equal(target, before, sizeof(target));
    assert_int_equal(ferry_error_index(), 0);
}

static void
test_check_values(void **state)
{
    static double source[VALUE_COUNT];

    (void)state;
    if (!long_doubles_are_long())
        skip();
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            if (from != to) {
                fill_values(from, source);
                for (size_t i = 0; i < VALUE_COUNT; i++)
                    check_one(from, to, (const unsigned char *)source + i * number_bytes[from],
                              get(from, source, i));
            }
}

/* Checks that a conversion that fails under the policy CHECK writes nothing. The error index and
 * the message must name the first bad element. */
static void
test_check_names_first(void **state)
{
    const float source[] = {1, 2, 255.4f, 300, -5, 7};
    uint8_t target[6] = {9, 9, 9, 9, 9, 9};
    const uint8_t before[6] = {9, 9, 9, 9, 9, 9};

    (void)state;
    assert_int_equal(ferry_convert_float_to_byte(target, source, 6, FERRY_CONVERT_CHECK),
                     FERRY_ERROR_OUT_OF_RANGE);
    assert_int_equal(ferry_error_index(), 3);
    assert_memory_equal(target, before, sizeof(target));
    assert_string_equal(ferry_last_error(),
                        "convert from float to byte: element 3 does not fit uint8_t");
    assert_int_equal(ferry_convert_float_to_byte(NULL, source, 6, FERRY_CONVERT_CHECK),
                     FERRY_ERROR_OUT_OF_RANGE);
    assert_int_equal(ferry_convert_float_to_byte(NULL, source, 3, FERRY_CONVERT_CHECK), FERRY_OK);
    assert_int_equal(ferry_convert_float_to_byte(target, source, 3, FERRY_CONVERT_CHECK), FERRY_OK);
    assert_int_equal(target[2], 255);
    assert_int_equal(target[3], 9);
}

/* After a call with a bad element, makes calls that fail for a different reason. They must have no
 * error index. */
static void
test_arguments(void **state)
{
    float source[2] = {1, 300};
    uint8_t target[2] = {9, 9};

    (void)state;
    assert_int_equal(ferry_convert_float_to_byte(target, source, 2, FERRY_CONVERT_CHECK),
                     FERRY_ERROR_OUT_OF_RANGE);
    assert_int_equal(ferry_convert_float_to_byte(target, source, 2, (ferry_convert_policy)4),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_error_index(), (size_t)-1);
    assert_non_null(strstr(ferry_last_error(), "policy 4"));
    assert_int_equal(ferry_convert_float_to_byte(target, source, 2, (ferry_convert_policy)-1),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_convert_float_to_byte(target, NULL, 2, FERRY_CONVERT_SATURATE),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_convert_float_to_byte(target, NULL, 2, FERRY_CONVERT_CHECK),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_convert_float_to_byte(NULL, source, 2, FERRY_CONVERT_SATURATE),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_convert_float_to_double(NULL, source, 2, FERRY_CONVERT_TRUNCATE),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(
        ferry_convert_float_to_byte(target, source, SIZE_MAX / 2, FERRY_CONVERT_SATURATE),
        FERRY_ERROR_OVERFLOW);
    assert_int_equal(ferry_convert_float_to_byte(NULL, NULL, 0, FERRY_CONVERT_SATURATE), FERRY_OK);
    assert_int_equal(ferry_convert_float_to_byte(NULL, NULL, 0, (ferry_convert_policy)9),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_conversion_run(NULL, target, source, 2, FERRY_CONVERT_SATURATE),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(target[0], 9);
}

/* Checks that the library converts to a number type that the program has described itself. The
 * library must refuse to convert to a struct type, or from a type to itself. */
static void
test_own_numbers(void **state)
{
    ferry_element half = {.name = "mine",
                          .c_type = "uint16_t",
                          .bytes = 2,
                          .align = 2,
                          .kind = FERRY_KIND_FLOAT,
                          .bits = 16};
    ferry_element record = {.name = "record",
                            .c_type = "struct record",
                            .bytes = 4,
                            .align = 4,
                            .kind = FERRY_KIND_STRUCT};
    const ferry_conversion to_half = {.from = ferry_float_element(), .to = &half};
    const ferry_conversion to_record = {.from = ferry_float_element(), .to = &record};
    const ferry_conversion to_itself = {.from = ferry_float_element(), .to = ferry_float_element()};
    const float source[] = {1, -2, 65520, 5.9604645e-8f};
    const uint16_t expected[] = {0x3c00, 0xc000, 0x7c00, 1};
    uint16_t target[4];

    (void)state;
    assert_int_equal(ferry_conversion_run(&to_half, target, source, 4, FERRY_CONVERT_SATURATE),
                     FERRY_OK);
    assert_memory_equal(target, expected, sizeof(target));
    assert_int_equal(ferry_conversion_run(&to_half, target, source, 4, FERRY_CONVERT_CHECK),
                     FERRY_ERROR_OUT_OF_RANGE);
    assert_int_equal(ferry_error_index(), 2);
    assert_int_equal(ferry_conversion_run(&to_record, target, source, 1, FERRY_CONVERT_SATURATE),
                     FERRY_ERROR_INVALID_ARGUMENT);
    assert_string_equal(ferry_last_error(),
                        "convert an array: the library has no conversion from float to record");
    assert_int_equal(ferry_conversion_run(&to_itself, target, source, 1, FERRY_CONVERT_SATURATE),
                     FERRY_ERROR_INVALID_ARGUMENT);
}

/* Conversion function that a program supplies. It stores its arguments through `target`, and fails
 * if it must convert exactly three elements. */
static ferry_status
refuse_three(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    (void)source;
    *(int *)target = (int)count * 10 + (int)policy;
    return count == 3 ? FERRY_ERROR_OUT_OF_RANGE : FERRY_OK;
}

static void
test_own_function(void **state)
{
    const ferry_conversion conversion = {
        .from = ferry_float_element(), .to = ferry_int_element(), .convert = refuse_three};
    const float source[3] = {0};
    int target = 0;

    (void)state;
    assert_int_equal(ferry_conversion_run(&conversion, &target, source, 2, FERRY_CONVERT_TRUNCATE),
                     FERRY_OK);
    assert_int_equal(target, 23);
    assert_int_equal(ferry_conversion_run(&conversion, &target, source, 3, FERRY_CONVERT_CHECK),
                     FERRY_ERROR_OUT_OF_RANGE);
}

/* Checks that the number types of <ferry/number.h> have the layout of the C types, so that pointers
 * to these types can be cast. */
static void
test_layouts(void **state)
{
    const float _Complex number = 3.0f + 4.0f * I;
    const ferry_complex_float *same = (const ferry_complex_float *)&number;
    ferry_complex_double wide;

    (void)state;
    assert_int_equal(sizeof(ferry_complex_float), sizeof(float _Complex));
    assert_int_equal(_Alignof(ferry_complex_float), _Alignof(float _Complex));
    assert_int_equal(sizeof(ferry_complex_double), sizeof(double _Complex));
    assert_int_equal(_Alignof(ferry_complex_double), _Alignof(double _Complex));
    assert_int_equal(sizeof(ferry_half) + sizeof(ferry_bfloat16), 4);
    assert_int_equal(
        ferry_convert_complex_float_to_complex_double(&wide, same, 1, FERRY_CONVERT_SATURATE),
        FERRY_OK);
    assert_true(wide.real == 3 && wide.imaginary == 4);
}

/* Checks that ferry-gen and the library compute the same identities of types. */
static void
test_identities(void **state)
{
    const ferry_element *elements[] = {
        ferry_float_element(),    ferry_int_element(),           ferry_double_element(),
        ferry_byte_element(),     ferry_int8_element(),          ferry_int16_element(),
        ferry_uint16_element(),   ferry_uint32_element(),        ferry_int64_element(),
        ferry_uint64_element(),   ferry_bool_element(),          ferry_half_element(),
        ferry_bfloat16_element(), ferry_complex_float_element(), ferry_complex_double_element(),
    };
    const size_t count = sizeof(elements) / sizeof(elements[0]);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(elements[i]->identity, ferry_element_identity(elements[i]));
        if (i < 4) {
            assert_int_equal(elements[i]->bytes, number_bytes[i]);
            assert_string_equal(elements[i]->name, number_names[i]);
        }
        for (size_t j = 0; j < count; j++)
            assert_int_equal(ferry_element_equal(elements[i], elements[j]), i == j);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_check_values),
        cmocka_unit_test(test_check_names_first),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_own_numbers),
        cmocka_unit_test(test_own_function),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_identities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
