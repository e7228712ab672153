/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_LANES_AVX2_H
#define FERRYI_CONVERT_LANES_AVX2_H

/* The vector type and the vector operations that vector.h needs, implemented with AVX2 and F16C. */

#include <immintrin.h>

typedef __m256i vector_i32;
typedef __m256 vector_f32;
typedef __m256d vector_f64;

/* -- load and widen ---------------------------------------------------------------------------- */

#define LOAD_16(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define LOAD_8(p) _mm_loadl_epi64((const __m128i *)(const void *)(p))

STEP __m256i load_int8(const char *in) { return _mm256_cvtepi8_epi32(LOAD_8(in)); }
STEP __m256i load_byte(const char *in) { return _mm256_cvtepu8_epi32(LOAD_8(in)); }
STEP __m256i load_int16(const char *in) { return _mm256_cvtepi16_epi32(LOAD_16(in)); }
STEP __m256i load_uint16(const char *in) { return _mm256_cvtepu16_epi32(LOAD_16(in)); }
STEP __m256i load_int(const char *in) { return _mm256_loadu_si256((const __m256i *)(const void *)in); }
STEP __m256 load_half(const char *in) { return _mm256_cvtph_ps(LOAD_16(in)); }
STEP __m256 load_bfloat16(const char *in) { return _mm256_castsi256_ps(_mm256_slli_epi32(load_uint16(in), 16)); }
STEP __m256 load_float(const char *in) { return _mm256_loadu_ps((const float *)(const void *)in); }
STEP __m256d load_double(const char *in) { return _mm256_loadu_pd((const double *)(const void *)in); }

/* -- cross over -------------------------------------------------------------------------------- */

/* Converts floats to int32. The instruction returns INT32_MIN for values out of range, which is
 * correct for values below the range. For values above the range, an xor with all ones makes the
 * result INT32_MAX. NaN becomes 0. */
STEP __m256i
i32_of_f32(__m256 x)
{
    __m256i above = _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ));
    __m256i number = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q));
    return _mm256_and_si256(_mm256_xor_si256(_mm256_cvtps_epi32(x), above), number);
}

/* Converts floats to int32 for a target type of at most 16 bits. Values are first limited to 2^24,
 * which is exact in a float. The limit does not change the result, because a later step saturates
 * to 16 bits or fewer. NaN becomes 0: the min instruction returns its second operand, which is the
 * NaN, and the mask then clears it. */
STEP __m256i
small_of_f32(__m256 x)
{
    __m256 number = _mm256_cmp_ps(x, x, _CMP_ORD_Q);
    return _mm256_cvtps_epi32(_mm256_and_ps(_mm256_min_ps(_mm256_set1_ps(0x1p24f), x), number));
}

/*
 * Converts floats to int32 for an unsigned target type of at most 16 bits. NaN becomes INT32_MIN,
 * which a later step saturates to zero.
 */
STEP __m256i
unsigned_of_f32(__m256 x)
{
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(0x1p24f), x));
}

STEP __m128i
half_i32_of_f64(__m256d x)
{
    __m256d number = _mm256_cmp_pd(x, x, _CMP_ORD_Q);
    return _mm256_cvtpd_epi32(_mm256_and_pd(_mm256_min_pd(_mm256_set1_pd(2147483647.0), x), number));
}

STEP __m128i
half_unsigned_of_f64(__m256d x)
{
    return _mm256_cvtpd_epi32(_mm256_min_pd(_mm256_set1_pd(2147483647.0), x));
}

STEP __m256i
join(__m128i low, __m128i high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

STEP __m256i i32_of_f64(__m256d low, __m256d high) { return join(half_i32_of_f64(low), half_i32_of_f64(high)); }
STEP __m256i unsigned_of_f64(__m256d low, __m256d high) { return join(half_unsigned_of_f64(low), half_unsigned_of_f64(high)); }

STEP __m256
f32_of_f64(__m256d low, __m256d high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high), 1);
}

STEP __m256 f32_of_i32(__m256i x) { return _mm256_cvtepi32_ps(x); }
STEP __m256d low_f64_of_i32(__m256i x) { return _mm256_cvtepi32_pd(_mm256_castsi256_si128(x)); }
STEP __m256d high_f64_of_i32(__m256i x) { return _mm256_cvtepi32_pd(_mm256_extracti128_si256(x, 1)); }
STEP __m256d low_f64_of_f32(__m256 x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
STEP __m256d high_f64_of_f32(__m256 x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }

/* Converts doubles to floats, rounded to odd, like f64_to_float_odd(). If the instruction rounded
 * away from zero, the result is replaced by the next value toward zero. Then the last bit of
 * inexact results is set. */
STEP __m256
odd_of_f64(__m256d low, __m256d high)
{
    const __m256d sign = _mm256_set1_pd(-0.0);
    const __m256i even_words = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    __m256 nearest = f32_of_f64(low, high);
    __m256d low_back = low_f64_of_f32(nearest), high_back = high_f64_of_f32(nearest);
    __m256d low_away = _mm256_cmp_pd(_mm256_andnot_pd(sign, low_back), _mm256_andnot_pd(sign, low), _CMP_GT_OQ);
    __m256d high_away = _mm256_cmp_pd(_mm256_andnot_pd(sign, high_back), _mm256_andnot_pd(sign, high), _CMP_GT_OQ);
    __m256d low_lost = _mm256_cmp_pd(low_back, low, _CMP_NEQ_UQ), high_lost = _mm256_cmp_pd(high_back, high, _CMP_NEQ_UQ);
#define NARROW_MASKS(x, y)                                                                                            \
    _mm256_blend_epi32(_mm256_permutevar8x32_epi32(_mm256_castpd_si256(x), even_words),                               \
                       _mm256_permutevar8x32_epi32(_mm256_castpd_si256(y), even_words), 0xf0)
    __m256i bits = _mm256_castps_si256(nearest);
    bits = _mm256_add_epi32(bits, NARROW_MASKS(low_away, high_away));
    bits = _mm256_or_si256(bits, _mm256_srli_epi32(NARROW_MASKS(low_lost, high_lost), 31));
#undef NARROW_MASKS
    return _mm256_castsi256_ps(bits);
}

/* -- saturate and store ------------------------------------------------------------------------ */

STEP void store_int(char *out, __m256i x) { _mm256_storeu_si256((__m256i *)(void *)out, x); }
STEP void store_float(char *out, __m256 x) { _mm256_storeu_ps((float *)(void *)out, x); }
STEP void store_double(char *out, __m256d x) { _mm256_storeu_pd((double *)(void *)out, x); }

/* The pack instruction packs the two 128-bit halves separately, so the quarters of the result are
 * reordered afterwards. */
STEP __m256i pack_int16(__m256i a, __m256i b) { return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8); }
STEP __m256i pack_uint16(__m256i a, __m256i b) { return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8); }

STEP __m256i
in_order(__m256i packed)
{
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

STEP __m256i
pack_int8(__m256i a, __m256i b, __m256i c, __m256i d)
{
    return in_order(_mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)));
}

STEP __m256i
pack_byte(__m256i a, __m256i b, __m256i c, __m256i d)
{
    return in_order(_mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)));
}

STEP __m256i
pack_half(__m256 a, __m256 b)
{
    return join(_mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT), _mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT));
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

STEP __m256i pack_bfloat16(__m256 a, __m256 b) { return pack_uint16(bfloat16_of_f32(a), bfloat16_of_f32(b)); }

#endif
