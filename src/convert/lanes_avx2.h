/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_LANES_AVX2_H
#define FERRYI_CONVERT_LANES_AVX2_H

/*
 * The steps of meaning.h on 32 elements at once, in AVX2 and F16C: load and widen, cross over, saturate and store.
 * Conversion instructions give INT32_MIN for what does not fit, and packing saturates; the steps are built on both.
 */

#include <immintrin.h>

enum { LANES = 32 };

typedef struct { __m256i a, b, c, d; } lanes_i32;
typedef struct { __m256 a, b, c, d; } lanes_f32;
typedef struct { __m256d a, b, c, d, e, f, g, h; } lanes_f64;

#define STEP static inline __attribute__((always_inline, unused))
#define EACH(step, x) {step((x).a), step((x).b), step((x).c), step((x).d)}

/* -- load and widen -------------------------------------------------------------------------------- */

#define LOAD_16(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define LOAD_8(p) _mm_loadl_epi64((const __m128i *)(const void *)(p))
#define LOAD_32(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define LOAD(type, number, load, step)                                                                                     \
    STEP lanes_##type lanes_load_##number(const void *source)                                                              \
    {                                                                                                                      \
        const number_##number *in = source;                                                                                \
        return (lanes_##type){step(load(in)), step(load(in + 8)), step(load(in + 16)), step(load(in + 24))};               \
    }

STEP __m256 from_bfloat16(__m128i bits) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)); }

LOAD(i32, int8, LOAD_8, _mm256_cvtepi8_epi32)
LOAD(i32, byte, LOAD_8, _mm256_cvtepu8_epi32)
LOAD(i32, int16, LOAD_16, _mm256_cvtepi16_epi32)
LOAD(i32, uint16, LOAD_16, _mm256_cvtepu16_epi32)
LOAD(i32, int, LOAD_32, )
LOAD(f32, half, LOAD_16, _mm256_cvtph_ps)
LOAD(f32, bfloat16, LOAD_16, from_bfloat16)
LOAD(f32, float, _mm256_loadu_ps, )

STEP lanes_f64
lanes_load_double(const void *source)
{
    const double *in = source;
    return (lanes_f64){_mm256_loadu_pd(in), _mm256_loadu_pd(in + 4), _mm256_loadu_pd(in + 8), _mm256_loadu_pd(in + 12),
                       _mm256_loadu_pd(in + 16), _mm256_loadu_pd(in + 20), _mm256_loadu_pd(in + 24),
                       _mm256_loadu_pd(in + 28)};
}

/* -- cross over ------------------------------------------------------------------------------------ */

/* INT32_MIN is right for what lies below; xor with all ones makes it INT32_MAX, which what lies above needs; NaN is 0. */
STEP __m256i
i32_of_f32(__m256 x)
{
    __m256i above = _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ));
    __m256i number = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q));
    return _mm256_and_si256(_mm256_xor_si256(_mm256_cvtps_epi32(x), above), number);
}

/* For what is packed to 16 bits or fewer, a limit that is a float will do. min takes its second operand where that is NaN. */
STEP __m256i
small_of_f32(__m256 x)
{
    __m256 number = _mm256_cmp_ps(x, x, _CMP_ORD_Q);
    return _mm256_cvtps_epi32(_mm256_and_ps(_mm256_min_ps(_mm256_set1_ps(0x1p24f), x), number));
}

/* To an unsigned target INT32_MIN, which NaN becomes, is 0. */
STEP __m256i
unsigned_of_f32(__m256 x)
{
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(0x1p24f), x));
}

STEP __m256i
join(__m128i low, __m128i high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

STEP __m128i
i32_of_f64(__m256d x)
{
    __m256d number = _mm256_cmp_pd(x, x, _CMP_ORD_Q);
    return _mm256_cvtpd_epi32(_mm256_and_pd(_mm256_min_pd(_mm256_set1_pd(2147483647.0), x), number));
}

STEP __m128i
unsigned_of_f64(__m256d x)
{
    return _mm256_cvtpd_epi32(_mm256_min_pd(_mm256_set1_pd(2147483647.0), x));
}

STEP __m256
join_f32(__m128 low, __m128 high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

/* As f64_to_float_odd(): back by one where rounding went away from zero, then the last digit where anything was lost. */
STEP __m256
odd_of_f64(__m256d low, __m256d high)
{
    const __m256d sign = _mm256_set1_pd(-0.0);
    const __m256i even_words = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    __m128 low_nearest = _mm256_cvtpd_ps(low), high_nearest = _mm256_cvtpd_ps(high);
    __m256d low_back = _mm256_cvtps_pd(low_nearest), high_back = _mm256_cvtps_pd(high_nearest);
    __m256d low_away = _mm256_cmp_pd(_mm256_andnot_pd(sign, low_back), _mm256_andnot_pd(sign, low), _CMP_GT_OQ);
    __m256d high_away = _mm256_cmp_pd(_mm256_andnot_pd(sign, high_back), _mm256_andnot_pd(sign, high), _CMP_GT_OQ);
    __m256d low_lost = _mm256_cmp_pd(low_back, low, _CMP_NEQ_UQ), high_lost = _mm256_cmp_pd(high_back, high, _CMP_NEQ_UQ);
#define NARROW_MASKS(x, y)                                                                                                 \
    _mm256_blend_epi32(_mm256_permutevar8x32_epi32(_mm256_castpd_si256(x), even_words),                                    \
                       _mm256_permutevar8x32_epi32(_mm256_castpd_si256(y), even_words), 0xf0)
    __m256i bits = _mm256_castps_si256(join_f32(low_nearest, high_nearest));
    bits = _mm256_add_epi32(bits, NARROW_MASKS(low_away, high_away));
    bits = _mm256_or_si256(bits, _mm256_srli_epi32(NARROW_MASKS(low_lost, high_lost), 31));
#undef NARROW_MASKS
    return _mm256_castsi256_ps(bits);
}

STEP lanes_i32 lanes_keep(lanes_i32 x) { return x; }
STEP lanes_i32 lanes_i32_of_f32(lanes_f32 x) { return (lanes_i32)EACH(i32_of_f32, x); }
STEP lanes_i32 lanes_small_of_f32(lanes_f32 x) { return (lanes_i32)EACH(small_of_f32, x); }
STEP lanes_i32 lanes_unsigned_of_f32(lanes_f32 x) { return (lanes_i32)EACH(unsigned_of_f32, x); }
STEP lanes_f32 lanes_f32_of_i32(lanes_i32 x) { return (lanes_f32)EACH(_mm256_cvtepi32_ps, x); }

#define PAIRWISE(join, step, x)                                                                                            \
    {join(step((x).a), step((x).b)), join(step((x).c), step((x).d)), join(step((x).e), step((x).f)),                       \
     join(step((x).g), step((x).h))}
STEP lanes_i32 lanes_i32_of_f64(lanes_f64 x) { return (lanes_i32)PAIRWISE(join, i32_of_f64, x); }
STEP lanes_i32 lanes_unsigned_of_f64(lanes_f64 x) { return (lanes_i32)PAIRWISE(join, unsigned_of_f64, x); }
STEP lanes_f32 lanes_f32_of_f64(lanes_f64 x) { return (lanes_f32)PAIRWISE(join_f32, _mm256_cvtpd_ps, x); }
STEP lanes_f32 lanes_odd_of_f64(lanes_f64 x) { return (lanes_f32)PAIRWISE(odd_of_f64, , x); }

STEP lanes_f64
lanes_f64_of_i32(lanes_i32 x)
{
#define LOW(v) _mm256_cvtepi32_pd(_mm256_castsi256_si128(v))
#define HIGH(v) _mm256_cvtepi32_pd(_mm256_extracti128_si256(v, 1))
    return (lanes_f64){LOW(x.a), HIGH(x.a), LOW(x.b), HIGH(x.b), LOW(x.c), HIGH(x.c), LOW(x.d), HIGH(x.d)};
#undef LOW
#undef HIGH
}

STEP lanes_f64
lanes_f64_of_f32(lanes_f32 x)
{
#define LOW(v) _mm256_cvtps_pd(_mm256_castps256_ps128(v))
#define HIGH(v) _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))
    return (lanes_f64){LOW(x.a), HIGH(x.a), LOW(x.b), HIGH(x.b), LOW(x.c), HIGH(x.c), LOW(x.d), HIGH(x.d)};
#undef LOW
#undef HIGH
}

/* What <working>_to_<target> is in whole groups. An int is no half unless binary32 holds it, or both are infinite. */
#define i32_lanes_to_int8 lanes_keep
#define i32_lanes_to_byte lanes_keep
#define i32_lanes_to_int16 lanes_keep
#define i32_lanes_to_uint16 lanes_keep
#define i32_lanes_to_int lanes_keep
#define i32_lanes_to_half lanes_f32_of_i32
#define i32_lanes_to_bfloat16(x) lanes_odd_of_f64(lanes_f64_of_i32(x))
#define i32_lanes_to_float lanes_f32_of_i32
#define i32_lanes_to_double lanes_f64_of_i32
#define f32_lanes_to_int8 lanes_small_of_f32
#define f32_lanes_to_byte lanes_unsigned_of_f32
#define f32_lanes_to_int16 lanes_small_of_f32
#define f32_lanes_to_uint16 lanes_unsigned_of_f32
#define f32_lanes_to_int lanes_i32_of_f32
#define f32_lanes_to_half
#define f32_lanes_to_bfloat16
#define f32_lanes_to_float
#define f32_lanes_to_double lanes_f64_of_f32
#define f64_lanes_to_int8 lanes_i32_of_f64
#define f64_lanes_to_byte lanes_unsigned_of_f64
#define f64_lanes_to_int16 lanes_i32_of_f64
#define f64_lanes_to_uint16 lanes_unsigned_of_f64
#define f64_lanes_to_int lanes_i32_of_f64
#define f64_lanes_to_half lanes_odd_of_f64
#define f64_lanes_to_bfloat16 lanes_odd_of_f64
#define f64_lanes_to_float lanes_f32_of_f64
#define f64_lanes_to_double

/* -- saturate and store ---------------------------------------------------------------------------- */

STEP void
store_32(void *target, size_t vector, __m256i value)
{
    _mm256_storeu_si256((__m256i *)target + vector, value);
}

STEP void
lanes_store_int(void *target, lanes_i32 x)
{
    store_32(target, 0, x.a);
    store_32(target, 1, x.b);
    store_32(target, 2, x.c);
    store_32(target, 3, x.d);
}

STEP void
lanes_store_float(void *target, lanes_f32 x)
{
    lanes_store_int(target, (lanes_i32)EACH(_mm256_castps_si256, x));
}

STEP void
lanes_store_double(void *target, lanes_f64 x)
{
    double *out = target;
    _mm256_storeu_pd(out, x.a);
    _mm256_storeu_pd(out + 4, x.b);
    _mm256_storeu_pd(out + 8, x.c);
    _mm256_storeu_pd(out + 12, x.d);
    _mm256_storeu_pd(out + 16, x.e);
    _mm256_storeu_pd(out + 20, x.f);
    _mm256_storeu_pd(out + 24, x.g);
    _mm256_storeu_pd(out + 28, x.h);
}

STEP void
lanes_store_half(void *target, lanes_f32 x)
{
#define TO_HALF(v) _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)
    store_32(target, 0, join(TO_HALF(x.a), TO_HALF(x.b)));
    store_32(target, 1, join(TO_HALF(x.c), TO_HALF(x.d)));
#undef TO_HALF
}

STEP __m256i
bfloat16_of_f32(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x), upper = _mm256_srli_epi32(bits, 16);
    __m256i tie = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(tie, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), nan);
}

/* Packing works on the two halves of each vector, so quarters are put in order afterwards. */
#define STORE_16_BITS(number, pack)                                                                                        \
    STEP void lanes_store_##number(void *target, lanes_i32 x)                                                              \
    {                                                                                                                      \
        store_32(target, 0, _mm256_permute4x64_epi64(pack(x.a, x.b), 0xd8));                                               \
        store_32(target, 1, _mm256_permute4x64_epi64(pack(x.c, x.d), 0xd8));                                               \
    }
#define STORE_8_BITS(number, pack)                                                                                         \
    STEP void lanes_store_##number(void *target, lanes_i32 x)                                                              \
    {                                                                                                                      \
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);                                                   \
        __m256i packed = pack(_mm256_packs_epi32(x.a, x.b), _mm256_packs_epi32(x.c, x.d));                                 \
        store_32(target, 0, _mm256_permutevar8x32_epi32(packed, order));                                                   \
    }

STORE_16_BITS(int16, _mm256_packs_epi32)
STORE_16_BITS(uint16, _mm256_packus_epi32)
STORE_8_BITS(int8, _mm256_packs_epi16)
STORE_8_BITS(byte, _mm256_packus_epi16)

STEP void
lanes_store_bfloat16(void *target, lanes_f32 x)
{
    lanes_store_uint16(target, (lanes_i32)EACH(bfloat16_of_f32, x));
}

#endif
