/* SPDX-License-Identifier: MIT */
/*
 * The conversion loops between number types. The file defines macros that generate loops, one for
 * each class of type pairs. It uses them for the pairs that the tool ferry-gen lists from the
 * built-in types. The file is compiled once for each instruction set. Each compilation defines one
 * table of loops, whose name is FERRYI_CONVERT_TABLE.
 */
#include "src/convert/kernels.h"

#include "src/convert/scalar.h"

#define INTEGER_STEPS
#include "src/convert/convert_pairs.h"

#ifdef __SSE2__
#define HAVE_LANES
#include "src/convert/vector.h"
#endif

/* Declares that the iterations of a loop are independent, so that the compiler vectorises the loop.
 * The iterations are independent, because the source and the target are either separate arrays or
 * the same array. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

#define ELEMENT(name) typedef number_##name element_##name __attribute__((aligned(1), may_alias));
ELEMENT(float)
ELEMENT(double)
ELEMENT(half)
ELEMENT(bfloat16)
ELEMENT(int8)
ELEMENT(int16)
ELEMENT(int)
ELEMENT(int64)
ELEMENT(byte)
ELEMENT(uint16)
ELEMENT(uint32)
ELEMENT(uint64)
ELEMENT(bool8)

/* Types of complex targets. */
typedef number_complex_float element_complex_float;
typedef number_complex_double element_complex_double;

/* -- arrays of any length and alignment -------------------------------------------------------- */

#ifndef HAVE_LANES
enum { LANES = 16 };
#endif

/* A generated loop converts or checks only whole groups of elements. So it needs no code for a
 * remainder of elements at the end of an array. A group has as many elements as a vector register
 * has bytes. */
enum {
    LARGEST = sizeof(number_complex_double), /* bytes of the largest element */
    CHECK_BLOCK = 4096, /* number of elements that are checked between two branches */
};
typedef bool unfit_test(const void *source, size_t count);

/* Converts an array that has fewer elements than a group, which is the unit of the conversion
 * loops. The function copies the array and pads the copy with zeros to a whole group. */
static void
convert_few(void *target, const void *source, size_t count, ferryi_convert_loop *groups,
            size_t to_bytes, size_t from_bytes)
{
    _Alignas(LANES) char in[LANES * LARGEST], out[LANES * LARGEST];
    memcpy(in, source, count * from_bytes);
    memset(in + count * from_bytes, 0, (LANES - count) * from_bytes);
    groups(out, in, LANES);
    memcpy(target, out, count * to_bytes);
}

/* Converts an array in place, if it is unaligned or its length is not a multiple of a group of
 * elements. The first and the last group overlap the groups between them, which overwrite the
 * source. So the first and the last group are converted to temporary arrays before the other
 * groups, and copied to the array after them. */
static void
convert_in_place(char *array, size_t count, size_t begin, ferryi_convert_loop *groups,
                 size_t to_bytes, size_t from_bytes)
{
    _Alignas(LANES) char first[LANES * LARGEST], last[LANES * LARGEST];
    const size_t last_begin = count - LANES;
    groups(first, array, LANES);
    groups(last, array + last_begin * from_bytes, LANES);
    groups(array + begin * to_bytes, array + begin * from_bytes, count - begin);
    memcpy(array + last_begin * to_bytes, last, LANES * to_bytes);
    memcpy(array, first, LANES * to_bytes);
}

/* Converts an array of at least one group of elements, if its target is unaligned or its length is
 * not a multiple of a group. The function converts the first group, then the aligned groups, then
 * the last group of the array. These may overlap, so some elements are converted twice. */
static void
convert_ragged(void *target, const void *source, size_t count, ferryi_convert_loop *groups,
               size_t to_bytes, size_t from_bytes)
{
    const size_t begin = (0 - (uintptr_t)target) % LANES / to_bytes, last_begin = count - LANES;
    const char *in = source;
    char *out = target;
    if (out == in) {
        convert_in_place(out, count, begin, groups, to_bytes, from_bytes);
        return;
    }
    if (begin > 0)
        groups(out, in, LANES);
    groups(out + begin * to_bytes, in + begin * from_bytes, count - begin);
    groups(out + last_begin * to_bytes, in + last_begin * from_bytes, LANES);
}

static __attribute__((noinline)) void
convert_any(void *target, const void *source, size_t count, ferryi_convert_loop *groups,
            size_t to_bytes, size_t from_bytes)
{
    if (count < LANES)
        convert_few(target, source, count, groups, to_bytes, from_bytes);
    else if ((uintptr_t)target % LANES > 0 || count % LANES > 0)
        convert_ragged(target, source, count, groups, to_bytes, from_bytes);
    else
        groups(target, source, count);
}

/* Returns whether the policy FERRY_CONVERT_CHECK refuses any element of the array. An incomplete
 * group of elements at the end is padded with zeros, which the policy always accepts. */
static bool
has_unfit(const char *source, size_t count, unfit_test *test, size_t bytes)
{
    const size_t rest = count % LANES;
    _Alignas(LANES) char last[LANES * LARGEST];
    if (count >= LANES && test(source, count))
        return true;
    if (rest == 0)
        return false;
    memcpy(last, source + (count - rest) * bytes, rest * bytes);
    memset(last + rest * bytes, 0, (LANES - rest) * bytes);
    return test(last, LANES);
}

/* Returns the index of the first element that the policy FERRY_CONVERT_CHECK refuses, or `count` if
 * there is none. Searches for the first block that has such an element, and then finds the element
 * in this block by bisection. */
static __attribute__((noinline)) size_t
find_unfit(const void *source, size_t count, unfit_test *test, size_t bytes)
{
    const char *in = source;
    size_t begin = 0, length = 0;
    for (; begin < count; begin += length) {
        length = count - begin < CHECK_BLOCK ? count - begin : CHECK_BLOCK;
        if (has_unfit(in + begin * bytes, length, test, bytes))
            break;
    }
    while (begin < count && length > 1) {
        size_t half = length / 2;
        bool is_lower = has_unfit(in + begin * bytes, half, test, bytes);
        begin += is_lower ? 0 : half;
        length = is_lower ? half : length - half;
    }
    return begin;
}

/* -- loops of the pairs ------------------------------------------------------------------------ */

#define ANY_LENGTH(from, to, how)                                                                  \
    static void from##_to_##to##_##how(void *target, const void *source, size_t count)             \
    {                                                                                              \
        convert_any(target, source, count, from##_to_##to##_##how##_groups, sizeof(element_##to),  \
                    sizeof(element_##from));                                                       \
    }

#define LOOP(from, to, working, how)                                                               \
    static void from##_to_##to##_##how##_groups(void *target, const void *source, size_t count)    \
    {                                                                                              \
        element_##to *out = target;                                                                \
        const element_##from *in = source;                                                         \
        count -= count % LANES;                                                                    \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = working##_to_##to##_##how(widen_##from(in[i]));                               \
    }                                                                                              \
    ANY_LENGTH(from, to, how)

#define SEARCH(from, to, working)                                                                  \
    static bool from##_to_##to##_has_unfit(const void *source, size_t count)                       \
    {                                                                                              \
        const element_##from *in = source;                                                         \
        unsigned int bad = 0;                                                                      \
        count -= count % LANES;                                                                    \
        for (size_t i = 0; i < count; i++)                                                         \
            bad |= !working##_to_##to##_fits(widen_##from(in[i]));                                 \
        return bad;                                                                                \
    }                                                                                              \
    static size_t from##_to_##to##_first_unfit(const void *source, size_t count)                   \
    {                                                                                              \
        return find_unfit(source, count, from##_to_##to##_has_unfit, sizeof(element_##from));      \
    }

/* Defines a loop that converts in vector registers, with the functions of vector.h. */
#ifdef HAVE_LANES
#define LOOP_LANES(from, to, working)                                                              \
    static void from##_to_##to##_nearest_groups(void *target, const void *source, size_t count)    \
    {                                                                                              \
        element_##to *out = target;                                                                \
        const element_##from *in = source;                                                         \
        for (size_t i = 0; i + LANES <= count; i += LANES)                                         \
            lanes_store_##to(out + i, working##_lanes_to_##to(lanes_load_##from(in + i)));         \
    }                                                                                              \
    ANY_LENGTH(from, to, nearest)
#else
#define LOOP_LANES(from, to, working) LOOP(from, to, working, nearest)
#endif

/*
 * An array of complex numbers is converted as an array of real numbers that is twice as long. A
 * loop over the complex numbers is not used, because GCC 12 miscompiles it for AVX-512: under
 * TRUNCATE it rounds the last elements to nearest.
 */
#define PART_OF_complex_float          float
#define PART_OF_complex_double         double
#define FUNCTION_NAMED(from, to, what) from##_to_##to##_##what
#define FUNCTION_OF(from, to, what)    FUNCTION_NAMED(from, to, what)
#define LOOP_PARTS(from, to, how)                                                                  \
    static void from##_to_##to##_##how(void *target, const void *source, size_t count)             \
    {                                                                                              \
        FUNCTION_OF(PART_OF_##from, PART_OF_##to, how)(target, source, 2 * count);                 \
    }
#define SEARCH_PARTS(from, to)                                                                     \
    static size_t from##_to_##to##_first_unfit(const void *source, size_t count)                   \
    {                                                                                              \
        return FUNCTION_OF(PART_OF_##from, PART_OF_##to, first_unfit)(source, 2 * count) / 2;      \
    }

#define EXACT_PLAIN(from, to, working)   LOOP(from, to, working, nearest)
#define CLAMPED_PLAIN(from, to, working) LOOP(from, to, working, nearest) SEARCH(from, to, working)
#define INEXACT_PLAIN(from, to, working)                                                           \
    LOOP(from, to, working, nearest) LOOP(from, to, working, toward_zero)
#define ROUNDED_PLAIN(from, to, working) INEXACT_PLAIN(from, to, working) SEARCH(from, to, working)
#define EXACT_LANES(from, to, working)   LOOP_LANES(from, to, working)
#define CLAMPED_LANES(from, to, working) LOOP_LANES(from, to, working) SEARCH(from, to, working)
#define INEXACT_LANES(from, to, working)                                                           \
    LOOP_LANES(from, to, working) LOOP(from, to, working, toward_zero)
#define ROUNDED_LANES(from, to, working) INEXACT_LANES(from, to, working) SEARCH(from, to, working)
#define EXACT_PARTS(from, to, working)   LOOP_PARTS(from, to, nearest)
#define ROUNDED_PARTS(from, to, working)                                                           \
    LOOP_PARTS(from, to, nearest) LOOP_PARTS(from, to, toward_zero) SEARCH_PARTS(from, to)
#define PAIR(form, way, from, to, working) form##_##way(from, to, working)
#undef INTEGER_STEPS
#include "src/convert/convert_pairs.h"

#define ENTRY_EXACT(name)   name##_nearest, name##_nearest, NULL
#define ENTRY_CLAMPED(name) name##_nearest, name##_nearest, name##_first_unfit
#define ENTRY_INEXACT(name) name##_nearest, name##_toward_zero, NULL
#define ENTRY_ROUNDED(name) name##_nearest, name##_toward_zero, name##_first_unfit
#undef PAIR
#define PAIR(form, way, from, to, working)                                                         \
    [ferryi_number_##from][ferryi_number_##to] = {ENTRY_##form(from##_to_##to)},

ferryi_convert_table FERRYI_CONVERT_TABLE = {
#include "src/convert/convert_pairs.h"
};
