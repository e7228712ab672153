/* SPDX-License-Identifier: MIT */
/*
 * Tests the conversion loops for every pair of number types, every policy and every instruction
 * set. The oracle computes in long double. Types of 8 and 16 bits are tested with all values. Other
 * types are tested with edge cases and random bits.
 */
#include <assert.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/sanitizer.h"
#include "src/convert/kernels.h"
#include "tests/support/long_double.h"

enum { VALUES = 65536, WIDEST = 16 };

enum shape { FLOAT, INTEGER, TRUTH, COMPLEX };

/* Describes the number types. The value of a floating-point type is whole * 2^lowest_exponent,
 * where `whole` has at most `digits` binary digits. */
static const struct number {
    const char *name;
    enum shape shape;
    size_t bytes;
    int digits, lowest_exponent;
    long double low, high;
    enum ferryi_number part; /* number type of the real and imaginary parts of a complex number */
} numbers[ferryi_number_count] = {
    [ferryi_number_float] = {"float", FLOAT, 4, 24, -149, 0, 0x1.fffffep127L, 0},
    [ferryi_number_double] = {"double", FLOAT, 8, 53, -1074, 0, 0x1.fffffffffffffp1023L, 0},
    [ferryi_number_half] = {"half", FLOAT, 2, 11, -24, 0, 65504, 0},
    [ferryi_number_bfloat16] = {"bfloat16", FLOAT, 2, 8, -133, 0, 0x1.fep127L, 0},
    [ferryi_number_int8] = {"int8", INTEGER, 1, 0, 0, INT8_MIN, INT8_MAX, 0},
    [ferryi_number_int16] = {"int16", INTEGER, 2, 0, 0, INT16_MIN, INT16_MAX, 0},
    [ferryi_number_int] = {"int", INTEGER, 4, 0, 0, INT32_MIN, INT32_MAX, 0},
    [ferryi_number_int64] = {"int64", INTEGER, 8, 0, 0, INT64_MIN, INT64_MAX, 0},
    [ferryi_number_byte] = {"byte", INTEGER, 1, 0, 0, 0, UINT8_MAX, 0},
    [ferryi_number_uint16] = {"uint16", INTEGER, 2, 0, 0, 0, UINT16_MAX, 0},
    [ferryi_number_uint32] = {"uint32", INTEGER, 4, 0, 0, 0, UINT32_MAX, 0},
    [ferryi_number_uint64] = {"uint64", INTEGER, 8, 0, 0, 0, UINT64_MAX, 0},
    [ferryi_number_bool8] = {"bool", TRUTH, 1, 0, 0, 0, 1, 0},
    [ferryi_number_complex_float] = {"complex_float", COMPLEX, 8, 0, 0, 0, 0, ferryi_number_float},
    [ferryi_number_complex_double] = {"complex_double", COMPLEX, 16, 0, 0, 0, 0,
                                      ferryi_number_double},
};

enum { MOST_SETS = 3 };

static const struct ferryi_convert_set *sets;
static size_t set_count;

static unsigned char source[VALUES * WIDEST], target[MOST_SETS][VALUES * WIDEST];

/* -- the oracle -------------------------------------------------------------------------------- */

/* Returns 2^exponent from a table, because tests call this function hundreds of millions of times.
 */
static long double
power_of_two(int exponent)
{
    static long double powers[4400];
    long double *power = &powers[exponent + 2200];
    if (*power == 0)
        *power = ldexpl(1, exponent);
    return *power;
}

static long double
decode_float(const struct number *number, uint64_t bits)
{
    int fraction_bits = number->digits - 1, exponent_bits = (int)number->bytes * 8 - number->digits;
    uint64_t fraction = bits & ((UINT64_C(1) << fraction_bits) - 1);
    int exponent = (int)(bits >> fraction_bits & ((UINT64_C(1) << exponent_bits) - 1));
    long double sign = bits >> (number->bytes * 8 - 1) & 1 ? -1 : 1;

    if (exponent == (1 << exponent_bits) - 1)
        return fraction ? (long double)NAN : sign * INFINITY;
    if (exponent > 0)
        fraction |= UINT64_C(1) << fraction_bits;
    return sign * (long double)fraction *
           power_of_two(number->lowest_exponent + (exponent > 0 ? exponent - 1 : 0));
}

static long double
decode(enum ferryi_number which, const void *memory)
{
    const struct number *number = &numbers[which];
    uint64_t bits = 0;
    memcpy(&bits, memory, number->bytes);
    if (number->shape == FLOAT)
        return decode_float(number, bits);
    if (number->shape == TRUTH)
        return bits != 0;
    if (number->low < 0 && bits >> (number->bytes * 8 - 1))
        return (long double)bits - power_of_two((int)number->bytes * 8);
    return (long double)bits;
}

static long double
round_value(long double value, bool toward_zero)
{
    return toward_zero ? truncl(value) : rintl(value);
}

static long double
round_to_float(const struct number *number, long double value, bool toward_zero)
{
    int exponent;
    if (value == 0 || !isfinite(value))
        return value;
    (void)frexpl(value, &exponent);
    exponent -= number->digits;
    exponent = exponent < number->lowest_exponent ? number->lowest_exponent : exponent;
    long double rounded =
        round_value(value * power_of_two(-exponent), toward_zero) * power_of_two(exponent);
    if (fabsl(rounded) <= number->high)
        return rounded;
    return copysignl(toward_zero ? number->high : (long double)INFINITY, value);
}

/* Returns the oracle's result of the conversion of `value`. Sets `*fits` to whether the policy
 * CHECK must accept the value. */
static long double
oracle(const struct number *number, long double value, bool toward_zero, bool *fits)
{
    if (number->shape == FLOAT) {
        *fits = !isinf(round_to_float(number, value, false)) || isinf(value);
        return round_to_float(number, value, toward_zero);
    }
    if (number->shape == TRUTH) {
        *fits = value == 0 || value == 1;
        return !(value == 0);
    }
    long double nearest = round_value(value, false), result = round_value(value, toward_zero);
    *fits = nearest >= number->low && nearest <= number->high;
    if (isnan(value))
        return 0;
    result += 0; /* an integer 0 has no sign */
    return result < number->low ? number->low : result > number->high ? number->high : result;
}

static bool
is_same(long double a, long double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* -- values ------------------------------------------------------------------------------------ */

static uint64_t
random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void
put(enum ferryi_number from, size_t index, const void *value)
{
    memcpy(source + index * numbers[from].bytes, value, numbers[from].bytes);
}

static void
put_float(enum ferryi_number from, size_t index, double value)
{
    float narrow = (float)value;
    put(from, index, from == ferryi_number_float ? (void *)&narrow : (void *)&value);
}

/* Fills `source` with powers of two and values near them. These include every limit of a number
 * type, every tie of rounding, and the first subnormals. */
static size_t
fill_float_edges(enum ferryi_number from)
{
    size_t count = 0;
    for (int exponent = -160; exponent <= 130; exponent++)
        for (int offset = -4; offset <= 4; offset++)
            for (int sign = -1; sign <= 1; sign += 2) {
                double power = ldexp(sign, exponent);
                put_float(from, count++, power + offset * 0.5);
                put_float(from, count++, power * (1 + offset * 0x1p-9));
                put_float(from, count++, power * (1 + offset * 0x1p-12));
                put_float(from, count++, power * (1 + offset * 0x1p-23));
                put_float(from, count++, power * (1 + offset * 0x1p-25));
                put_float(from, count++, power * (1 + offset * 0x1p-52));
            }
    const double specials[] = {0.0,
                               -0.0,
                               INFINITY,
                               -INFINITY,
                               NAN,
                               -NAN,
                               5e-324,
                               -5e-324,
                               1e300,
                               -1e300,
                               1e-300,
                               1e-45,
                               65504,
                               65519.99,
                               65520,
                               65535.5,
                               0x1.fffffep127,
                               0x1.ffffffp127,
                               0x1.fffffefffffffp127,
                               0x1.fep127,
                               0x1.ffp127,
                               0x1.fefffffffffffp127,
                               4294967295.5,
                               2147483647.5,
                               -2147483648.5};
    for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++)
        put_float(from, count++, specials[i]);
    return count;
}

static size_t
fill_integer_edges(enum ferryi_number from)
{
    size_t count = 0;
    for (int power = 0; power < 64; power++)
        for (int width = 0; width < 64; width += 3)
            for (int offset = -1; offset <= 1; offset++) {
                uint64_t value =
                    (UINT64_C(1) << power) + (UINT64_C(1) << width) + (uint64_t)(int64_t)offset;
                uint64_t negated = 0 - value;
                put(from, count++, &value);
                put(from, count++, &negated);
            }
    for (uint64_t value = 0; value < 300; value++)
        put(from, count++, &value);
    return count;
}

/* Fills `source` with VALUES numbers. For types of 8 and 16 bits these are all values. For other
 * types they are edge cases and random bits, including NaNs and numbers of every magnitude. */
static void
fill(enum ferryi_number from)
{
    uint64_t state = 88172645463325252u;
    size_t count = 0;

    if (numbers[from].shape == COMPLEX) {
        fill(numbers[from].part);
        memcpy(source + VALUES * numbers[from].bytes / 2, source, VALUES * numbers[from].bytes / 2);
        return;
    }
    for (uint64_t value = 0; numbers[from].bytes <= 2 && value < VALUES; value++)
        put(from, count++, &value);
    if (count == 0)
        count = numbers[from].shape == FLOAT ? fill_float_edges(from) : fill_integer_edges(from);
    for (size_t i = count; i < VALUES; i++) {
        uint64_t bits = random_bits(&state);
        if (i % 2 && numbers[from].bytes == 8)
            bits >>= bits & 63;
        put(from, i, &bits);
    }
    assert_true(count <= VALUES);
}

/* -- every value ------------------------------------------------------------------------------- */

static void
check_value(const char *table, enum ferryi_number from, enum ferryi_number to, bool toward_zero,
            long double value, const void *result)
{
    bool fits;
    long double expected = oracle(&numbers[to], value, toward_zero, &fits),
                got = decode(to, result);
    if (!is_same(got, expected))
        fail_msg("%s: %s to %s, %s: %.25Lg became %.25Lg, not %.25Lg", table, numbers[from].name,
                 numbers[to].name, toward_zero ? "toward zero" : "nearest", value, got, expected);
}

static void
check_results(const char *table, enum ferryi_number from, enum ferryi_number to, bool toward_zero,
              const unsigned char *values, const unsigned char *results, size_t count)
{
    enum ferryi_number part = numbers[from].part, to_part = numbers[to].part;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *in = values + i * numbers[from].bytes,
                            *result = results + i * numbers[to].bytes;
        if (numbers[to].shape != COMPLEX) {
            check_value(table, from, to, toward_zero, decode(from, in), result);
        } else if (numbers[from].shape == COMPLEX) {
            check_value(table, part, to_part, toward_zero, decode(part, in), result);
            check_value(table, part, to_part, toward_zero, decode(part, in + numbers[part].bytes),
                        result + numbers[to_part].bytes);
        } else {
            check_value(table, from, to_part, toward_zero, decode(from, in), result);
            check_value(table, from, to_part, toward_zero, 0, result + numbers[to_part].bytes);
        }
    }
}

static bool
fits(enum ferryi_number from, enum ferryi_number to, const unsigned char *value)
{
    enum ferryi_number part = numbers[from].part,
                       to_part = numbers[to].shape == COMPLEX ? numbers[to].part : to;
    bool result, other = true;
    if (numbers[from].shape != COMPLEX) {
        (void)oracle(&numbers[to_part], decode(from, value), false, &result);
        return result;
    }
    (void)oracle(&numbers[to_part], decode(part, value), false, &result);
    (void)oracle(&numbers[to_part], decode(part, value + numbers[part].bytes), false, &other);
    return result && other;
}

static void
check_fits(enum ferryi_number from, enum ferryi_number to)
{
    for (size_t i = 0; i < VALUES; i++) {
        const unsigned char *value = source + i * numbers[from].bytes;
        bool expected = fits(from, to, value);
        for (size_t which = 0; which < set_count; which++) {
            ferryi_convert_search *search = (*sets[which].table)[from][to].first_unfit;
            bool said = !search || search(value, 1) == 1;
            if (said != expected)
                fail_msg("%s: %s to %s: %.25Lg: CHECK %s", sets[which].name, numbers[from].name,
                         numbers[to].name,
                         decode(numbers[from].shape == COMPLEX ? numbers[from].part : from, value),
                         said ? "takes what does not fit" : "refuses what fits");
        }
    }
}

/* Converts `source` with the loops of all instruction sets. If their results are not equal,
 * compares each with the oracle. If they are equal, compares them with the oracle only if
 * `compared` is true. */
static void
check_loops(enum ferryi_number from, enum ferryi_number to, bool toward_zero, bool compared)
{
    bool differ = false;
    for (size_t which = 0; which < set_count; which++) {
        const struct ferryi_convert_kernel *kernel = &(*sets[which].table)[from][to];
        (toward_zero ? kernel->toward_zero : kernel->nearest)(target[which], source, VALUES);
        differ = differ || memcmp(target[0], target[which], VALUES * numbers[to].bytes) != 0;
    }
    for (size_t which = 0; which < set_count; which++)
        if (differ || (compared && which == 0))
            check_results(sets[which].name, from, to, toward_zero, source, target[which], VALUES);
}

/* Returns whether the library can convert between the two types. It cannot convert complex numbers
 * to real ones, or a type to itself. */
static bool
is_pair(enum ferryi_number from, enum ferryi_number to)
{
    return from != to && (numbers[from].shape != COMPLEX || numbers[to].shape == COMPLEX);
}

static void
test_values(void **state)
{
    (void)state;
    if (!long_doubles_are_long())
        skip();
    for (enum ferryi_number from = 0; from < ferryi_number_count; from++) {
        fill(from);
        for (enum ferryi_number to = 0; to < ferryi_number_count; to++) {
            for (size_t which = 0; which < set_count; which++)
                assert_int_equal((*sets[which].table)[from][to].nearest != NULL, is_pair(from, to));
            if (is_pair(from, to)) {
                check_loops(from, to, false, true);
                check_loops(from, to, true, true);
                check_fits(from, to);
            }
        }
    }
}

/* -- floats by stride -------------------------------------------------------------------------- */

/*
 * Converts binary32 values to four common targets: every 257th value, or every 4099th under a
 * sanitizer, or all values if FERRY_LONG is set. With all values, the oracle checks only one block
 * of values in 64, and the blocks for which the results of the instruction sets differ.
 */
static void
test_floats(void **state)
{
    static const enum ferryi_number targets[] = {ferryi_number_byte, ferryi_number_int,
                                                 ferryi_number_half, ferryi_number_bfloat16};
    const uint64_t stride = getenv("FERRY_LONG") ? 1 : FERRYI_SANITIZED_MALLOC ? 4099 : 257;
    uint64_t bits = 0;

    (void)state;
    for (size_t block = 0; bits <= UINT32_MAX; block++) {
        for (size_t i = 0; i < VALUES; i++, bits += stride)
            put(ferryi_number_float, i, &bits);
        for (size_t i = 0; i < 4; i++)
            check_loops(ferryi_number_float, targets[i], false, stride > 1 || block % 64 == 0);
    }
}

/* -- lengths, places --------------------------------------------------------------------------- */

/* Converts arrays of any length at any address. Checks that the results are those of one long
 * array, and that no byte outside the target is written. */
static void
check_counts(size_t which, enum ferryi_number from, enum ferryi_number to)
{
    static unsigned char in[400 * WIDEST], out[400 * WIDEST], before[400 * WIDEST];
    ferryi_convert_loop *loop = (*sets[which].table)[from][to].nearest;

    loop(target[0], source, 301);
    memset(before, 0xa5, sizeof(before));
    for (size_t count = 0; count <= 300; count++) {
        size_t in_shift = count % 7, out_shift = count % 5, bytes = count * numbers[to].bytes;
        memcpy(in + in_shift, source, count * numbers[from].bytes);
        memset(out, 0xa5, sizeof(out));
        loop(out + out_shift, in + in_shift, count);
        assert_memory_equal(out + out_shift, target[0], bytes);
        assert_memory_equal(out, before, out_shift);
        assert_memory_equal(out + out_shift + bytes, before, sizeof(out) - out_shift - bytes);
    }
}

static void
check_in_place(size_t which, enum ferryi_number from, enum ferryi_number to)
{
    ferryi_convert_loop *loop = (*sets[which].table)[from][to].nearest;
    const size_t counts[] = {1, 31, 32, 33, 100, 257, 4099};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        memcpy(target[1], source, counts[i] * numbers[from].bytes);
        loop(target[0], source, counts[i]);
        loop(target[1], target[1], counts[i]);
        assert_memory_equal(target[0], target[1], counts[i] * numbers[to].bytes);
    }
}

static void
test_counts(void **state)
{
    (void)state;
    for (enum ferryi_number from = 0; from < ferryi_number_count; from++) {
        fill(from);
        for (enum ferryi_number to = 0; to < ferryi_number_count; to++)
            for (size_t which = 0; which < set_count && is_pair(from, to); which++) {
                check_counts(which, from, to);
                if (numbers[to].bytes <= numbers[from].bytes)
                    check_in_place(which, from, to);
            }
    }
}

/*
 * Compares the conversion of short arrays with the oracle, for both rounding policies. A loop
 * treats the elements behind its last full vector separately. Their number depends on the length of
 * the array, so the test varies the length, and uses different values for each length.
 */
static void
check_short_counts(size_t which, enum ferryi_number from, enum ferryi_number to)
{
    const struct ferryi_convert_kernel *kernel = &(*sets[which].table)[from][to];
    for (size_t count = 0; count <= 67; count++) {
        const unsigned char *values = source + count * 953 * numbers[from].bytes;
        kernel->nearest(target[0], values, count);
        check_results(sets[which].name, from, to, false, values, target[0], count);
        kernel->toward_zero(target[0], values, count);
        check_results(sets[which].name, from, to, true, values, target[0], count);
    }
}

static void
test_short_counts(void **state)
{
    (void)state;
    if (!long_doubles_are_long())
        skip();
    for (enum ferryi_number from = 0; from < ferryi_number_count; from++) {
        fill(from);
        for (enum ferryi_number to = 0; to < ferryi_number_count; to++)
            for (size_t which = 0; which < set_count && is_pair(from, to); which++)
                check_short_counts(which, from, to);
    }
}

/* Checks the function with which the policy CHECK searches an array. It must return the first
 * element that does not fit into the target type. The test varies the position of this element, and
 * also adds such elements behind it. */
static void
check_first_unfit(ferryi_convert_search *search, enum ferryi_number from, enum ferryi_number to)
{
    const size_t places[] = {0, 1, 31, 1023, 1024, 1025, 2047, 5000, 9998};
    size_t bytes = numbers[from].bytes, bad = 0;

    fill(from);
    while (fits(from, to, source + bad * bytes))
        bad++;
    memcpy(target[0], source + bad * bytes, bytes);
    memset(source, 0, 10000 * bytes);
    assert_int_equal(search(source, 10000), 10000);
    for (size_t i = sizeof(places) / sizeof(places[0]); i-- > 0;) {
        memcpy(source + places[i] * bytes, target[0], bytes);
        assert_int_equal(search(source, 10000), places[i]);
        assert_int_equal(search(source, places[i]), places[i]);
    }
}

static void
test_first_unfit(void **state)
{
    (void)state;
    if (!long_doubles_are_long())
        skip();
    for (enum ferryi_number from = 0; from < ferryi_number_count; from++)
        for (enum ferryi_number to = 0; to < ferryi_number_count; to++)
            for (size_t which = 0; which < set_count; which++)
                if ((*sets[which].table)[from][to].first_unfit)
                    check_first_unfit((*sets[which].table)[from][to].first_unfit, from, to);
}

/* -- large arrays ------------------------------------------------------------------------------ */

/* Converts large arrays, for which the library uses non-temporal stores. Checks that the result
 * equals that of ordinary stores. The arrays are unaligned, end in a partial group of pages, or are
 * converted in place. */
static void
check_large(enum ferryi_number from, enum ferryi_number to, size_t in_shift, size_t out_shift)
{
    const size_t count = (40u << 20) / (numbers[from].bytes + numbers[to].bytes) + 77;
    ferryi_convert_loop *loop = (*ferryi_convert_table_here())[from][to].nearest;
    unsigned char *in = malloc(count * numbers[from].bytes + 64),
                  *expected = malloc(count * numbers[to].bytes);
    unsigned char *out = malloc(count * numbers[to].bytes + 64);
    assert_true(in && expected && out);

    fill(from);
    for (size_t done = 0; done < count; done += VALUES)
        memcpy(in + in_shift + done * numbers[from].bytes, source,
               (count - done < VALUES ? count - done : VALUES) * numbers[from].bytes);
    memset(out, 0xa5, count * numbers[to].bytes + 64);
    loop(expected, in + in_shift, count);
    ferryi_convert_array(loop, out + out_shift, numbers[to].bytes, in + in_shift,
                         numbers[from].bytes, count);
    assert_memory_equal(out + out_shift, expected, count * numbers[to].bytes);
    assert_int_equal(out[out_shift + count * numbers[to].bytes], 0xa5);
    if (numbers[to].bytes <= numbers[from].bytes) {
        ferryi_convert_array(loop, in + in_shift, numbers[to].bytes, in + in_shift,
                             numbers[from].bytes, count);
        assert_memory_equal(in + in_shift, expected, count * numbers[to].bytes);
    }
    free(in);
    free(expected);
    free(out);
}

static void
test_large(void **state)
{
    (void)state;
    check_large(ferryi_number_float, ferryi_number_byte, 0, 0);
    check_large(ferryi_number_byte, ferryi_number_double, 1, 8);
    check_large(ferryi_number_double, ferryi_number_float, 3, 4);
    check_large(ferryi_number_int, ferryi_number_float, 0, 3);
    check_large(ferryi_number_half, ferryi_number_complex_double, 2, 48);
    check_large(ferryi_number_int64, ferryi_number_int16, 0, 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),      cmocka_unit_test(test_floats),
        cmocka_unit_test(test_counts),      cmocka_unit_test(test_short_counts),
        cmocka_unit_test(test_first_unfit), cmocka_unit_test(test_large),
    };
    for (sets = ferryi_convert_sets(); sets[set_count].table;)
        set_count++;
    assert(set_count <= MOST_SETS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
