/* SPDX-License-Identifier: MIT */
/*
 * The conversion loops. The file defines one form for each class of pair, and instantiates the
 * pairs that ferry-gen lists from the built-in types. The file is compiled once for each
 * instruction set. FERRYI_CONVERT_TABLE is the name of the table that each compilation defines.
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
 * The iterations are independent because the functions' contract forbids any other overlap of the
 * arrays. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

/* Number of elements that CHECK examines before it branches on the result. */
enum { CHECK_BLOCK = 1024 };

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

#define LOOP(from, to, working, how)                                                               \
    static void from##_to_##to##_##how(void *target, const void *source, size_t count)             \
    {                                                                                              \
        element_##to *out = target;                                                                \
        const element_##from *in = source;                                                         \
        INDEPENDENT                                                                                \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = working##_to_##to##_##how(widen_##from(in[i]));                               \
    }

#define SEARCH(from, to, working)                                                                  \
    static size_t from##_to_##to##_first_unfit(const void *source, size_t count)                   \
    {                                                                                              \
        const element_##from *in = source;                                                         \
        size_t begin = 0;                                                                          \
        for (; begin < count; begin += CHECK_BLOCK) {                                              \
            size_t end = count - begin < CHECK_BLOCK ? count : begin + CHECK_BLOCK;                \
            unsigned int bad = 0;                                                                  \
            for (size_t i = begin; i < end; i++)                                                   \
                bad |= !working##_to_##to##_fits(widen_##from(in[i]));                             \
            if (bad)                                                                               \
                break;                                                                             \
        }                                                                                          \
        while (begin < count && working##_to_##to##_fits(widen_##from(in[begin])))                 \
            begin++;                                                                               \
        return begin < count ? begin : count;                                                      \
    }

/*
 * Converts whole groups in vector registers. If the target is unaligned or elements remain, the
 * first and the last group overlap other groups. The target may be the source. So these two groups
 * are converted before anything is written, and are stored last. An array that is smaller than a
 * group is first copied into a full group.
 */
#ifdef HAVE_LANES
static inline size_t
unaligned_count(const void *target, size_t element_bytes)
{
    return (0 - (uintptr_t)target) % sizeof(vector_i32) / element_bytes;
}

#define LOOP_LANES(from, to, working)                                                              \
    STEP void from##_to_##to##_group(void *target, const void *source)                             \
    {                                                                                              \
        lanes_store_##to(target, working##_lanes_to_##to(lanes_load_##from(source)));              \
    }                                                                                              \
    static __attribute__((noinline)) void from##_to_##to##_few(void *target, const void *source,   \
                                                               size_t count)                       \
    {                                                                                              \
        element_##from in[LANES] = {0};                                                            \
        element_##to out[LANES];                                                                   \
        memcpy(in, source, count * sizeof(in[0]));                                                 \
        from##_to_##to##_group(out, in);                                                           \
        memcpy(target, out, count * sizeof(out[0]));                                               \
    }                                                                                              \
    STEP void from##_to_##to##_groups(element_##to *out, const element_##from *in, size_t begin,   \
                                      size_t count)                                                \
    {                                                                                              \
        for (size_t i = begin; i + LANES <= count; i += LANES)                                     \
            from##_to_##to##_group(out + i, in + i);                                               \
    }                                                                                              \
    static __attribute__((noinline)) void from##_to_##to##_ragged(                                 \
        void *target, const void *source, size_t count)                                            \
    {                                                                                              \
        element_##to *out = target, first[LANES], last[LANES];                                     \
        const element_##from *in = source;                                                         \
        from##_to_##to##_group(first, in);                                                         \
        from##_to_##to##_group(last, in + count - LANES);                                          \
        from##_to_##to##_groups(out, in, unaligned_count(target, sizeof(*out)), count);            \
        memcpy(out + count - LANES, last, sizeof(last));                                           \
        memcpy(out, first, sizeof(first));                                                         \
    }                                                                                              \
    static void from##_to_##to##_nearest(void *target, const void *source, size_t count)           \
    {                                                                                              \
        if (count < LANES)                                                                         \
            from##_to_##to##_few(target, source, count);                                           \
        else if (unaligned_count(target, sizeof(element_##to)) > 0 || count % LANES > 0)           \
            from##_to_##to##_ragged(target, source, count);                                        \
        else                                                                                       \
            from##_to_##to##_groups(target, source, 0, count);                                     \
    }
#else
#define LOOP_LANES(from, to, working) LOOP(from, to, working, nearest)
#endif

/*
 * An array of complex numbers is converted as an array of twice as many parts, with the loops for
 * the parts. A loop over the complex numbers is not used, because GCC 12 miscompiles it for
 * AVX-512: under TRUNCATE it rounds the last elements to nearest.
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

#define PAIR_EXACT(from, to, working)   LOOP(from, to, working, nearest)
#define PAIR_CLAMPED(from, to, working) LOOP(from, to, working, nearest) SEARCH(from, to, working)
#define PAIR_INEXACT(from, to, working)                                                            \
    LOOP(from, to, working, nearest) LOOP(from, to, working, toward_zero)
#define PAIR_ROUNDED(from, to, working)     PAIR_INEXACT(from, to, working) SEARCH(from, to, working)
#define PAIR_EXACT_LANES(from, to, working) LOOP_LANES(from, to, working)
#define PAIR_CLAMPED_LANES(from, to, working)                                                      \
    LOOP_LANES(from, to, working) SEARCH(from, to, working)
#define PAIR_INEXACT_LANES(from, to, working)                                                      \
    LOOP_LANES(from, to, working) LOOP(from, to, working, toward_zero)
#define PAIR_ROUNDED_LANES(from, to, working)                                                      \
    PAIR_INEXACT_LANES(from, to, working) SEARCH(from, to, working)
#define PAIR_EXACT_PARTS(from, to, working) LOOP_PARTS(from, to, nearest)
#define PAIR_ROUNDED_PARTS(from, to, working)                                                      \
    LOOP_PARTS(from, to, nearest) LOOP_PARTS(from, to, toward_zero) SEARCH_PARTS(from, to)
#undef INTEGER_STEPS
#include "src/convert/convert_pairs.h"

#undef PAIR_EXACT
#undef PAIR_CLAMPED
#undef PAIR_INEXACT
#undef PAIR_ROUNDED
#undef PAIR_EXACT_LANES
#undef PAIR_CLAMPED_LANES
#undef PAIR_INEXACT_LANES
#undef PAIR_ROUNDED_LANES
#undef PAIR_EXACT_PARTS
#undef PAIR_ROUNDED_PARTS
#define ENTRY(from, to, toward_zero, unfit)                                                        \
    [ferryi_number_##from][ferryi_number_##to] = {from##_to_##to##_nearest,                        \
                                                  from##_to_##to##_##toward_zero, unfit},
#define PAIR_EXACT(from, to, working)   ENTRY(from, to, nearest, NULL)
#define PAIR_CLAMPED(from, to, working) ENTRY(from, to, nearest, from##_to_##to##_first_unfit)
#define PAIR_INEXACT(from, to, working) ENTRY(from, to, toward_zero, NULL)
#define PAIR_ROUNDED(from, to, working) ENTRY(from, to, toward_zero, from##_to_##to##_first_unfit)
#define PAIR_EXACT_LANES                PAIR_EXACT
#define PAIR_CLAMPED_LANES              PAIR_CLAMPED
#define PAIR_INEXACT_LANES              PAIR_INEXACT
#define PAIR_ROUNDED_LANES              PAIR_ROUNDED
#define PAIR_EXACT_PARTS                PAIR_EXACT
#define PAIR_ROUNDED_PARTS              PAIR_ROUNDED

ferryi_convert_table FERRYI_CONVERT_TABLE = {
#include "src/convert/convert_pairs.h"
};
