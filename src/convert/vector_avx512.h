/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_LANES_AVX512_H
#define FERRYI_CONVERT_LANES_AVX512_H

/* The vector type and the vector operations that vector.h needs, implemented with AVX-512 F, BW, DQ
 * and VL. */

#include <immintrin.h>

typedef __m512i vector_i32;
typedef __m512 vector_f32;
typedef __m512d vector_f64;

/* -- load and widen ---------------------------------------------------------------------------- */

#define LOAD_32(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define LOAD_16(p) _mm_loadu_si128((const __m128i *)(const void *)(p))

STEP __m512i load_int8(const char *in) { return _mm512_cvtepi8_epi32(LOAD_16(in)); }
STEP __m512i load_byte(const char *in) { return _mm512_cvtepu8_epi32(LOAD_16(in)); }
STEP __m512i load_int16(const char *in) { return _mm512_cvtepi16_epi32(LOAD_32(in)); }
STEP __m512i load_uint16(const char *in) { return _mm512_cvtepu16_epi32(LOAD_32(in)); }
STEP __m512i load_int(const char *in) { return _mm512_loadu_si512(in); }
STEP __m512 load_half(const char *in) { return _mm512_cvtph_ps(LOAD_32(in)); }
STEP __m512 load_bfloat16(const char *in) { return _mm512_castsi512_ps(_mm512_slli_epi32(load_uint16(in), 16)); }
STEP __m512 load_float(const char *in) { return _mm512_loadu_ps(in); }
STEP __m512d load_double(const char *in) { return _mm512_loadu_pd(in); }

/* -- cross over -------------------------------------------------------------------------------- */

/* Converts floats to int32. The instruction returns INT32_MIN for values out of range, which is
 * correct for values below the range. For values above the range the result is replaced by
 * INT32_MAX. NaN becomes 0. */
STEP __m512i
i32_of_f32(__m512 x)
{
    __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(0x1p31f), _CMP_GE_OQ);
    __m512i whole = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x);
    return _mm512_mask_mov_epi32(whole, above, _mm512_set1_epi32(INT32_MAX));
}

/* Converts floats to int32 for a target type of at most 16 bits. Values are first limited to 2^24,
 * which is exact in a float. The limit does not change the result, because a later step saturates
 * to 16 bits or fewer. NaN becomes 0, because the mask clears it. */
STEP __m512i
small_of_f32(__m512 x)
{
    return _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), _mm512_min_ps(_mm512_set1_ps(0x1p24f), x));
}

/*
 * Converts floats to int32 for an unsigned target type of at most 16 bits. NaN becomes INT32_MIN,
 * which a later step saturates to zero.
 */
STEP __m512i
unsigned_of_f32(__m512 x)
{
    return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_set1_ps(0x1p24f), x));
}

STEP __m256i
half_i32_of_f64(__m512d x)
{
    return _mm512_maskz_cvtpd_epi32(_mm512_cmp_pd_mask(x, x, _CMP_ORD_Q), _mm512_min_pd(_mm512_set1_pd(2147483647.0), x));
}

STEP __m256i
half_unsigned_of_f64(__m512d x)
{
    return _mm512_cvtpd_epi32(_mm512_min_pd(_mm512_set1_pd(2147483647.0), x));
}

STEP __m512i
join(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

STEP __m512
join_f32(__m256 low, __m256 high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

STEP __m512i i32_of_f64(__m512d low, __m512d high) { return join(half_i32_of_f64(low), half_i32_of_f64(high)); }
STEP __m512i unsigned_of_f64(__m512d low, __m512d high) { return join(half_unsigned_of_f64(low), half_unsigned_of_f64(high)); }
STEP __m512 f32_of_f64(__m512d low, __m512d high) { return join_f32(_mm512_cvtpd_ps(low), _mm512_cvtpd_ps(high)); }
STEP __m512 f32_of_i32(__m512i x) { return _mm512_cvtepi32_ps(x); }
STEP __m512d low_f64_of_i32(__m512i x) { return _mm512_cvtepi32_pd(_mm512_castsi512_si256(x)); }
STEP __m512d high_f64_of_i32(__m512i x) { return _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(x, 1)); }
STEP __m512d low_f64_of_f32(__m512 x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
STEP __m512d high_f64_of_f32(__m512 x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }

/* Converts doubles to floats, rounded to odd, like f64_to_float_odd(): rounds toward zero, then
 * sets the last bit of inexact results. */
STEP __m512
odd_of_f64(__m512d low, __m512d high)
{
    __m256 low_kept = _mm512_cvt_roundpd_ps(low, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    __m256 high_kept = _mm512_cvt_roundpd_ps(high, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    __mmask8 low_lost = _mm512_cmp_pd_mask(_mm512_cvtps_pd(low_kept), low, _CMP_NEQ_UQ);
    __mmask8 high_lost = _mm512_cmp_pd_mask(_mm512_cvtps_pd(high_kept), high, _CMP_NEQ_UQ);
    __m512i bits = _mm512_castps_si512(join_f32(low_kept, high_kept));
    bits = _mm512_mask_or_epi32(bits, _mm512_kunpackb(high_lost, low_lost), bits, _mm512_set1_epi32(1));
    return _mm512_castsi512_ps(bits);
}

/* -- saturate and store ------------------------------------------------------------------------ */

STEP void store_int(char *out, __m512i x) { _mm512_storeu_si512(out, x); }
STEP void store_float(char *out, __m512 x) { _mm512_storeu_ps(out, x); }
STEP void store_double(char *out, __m512d x) { _mm512_storeu_pd(out, x); }

/* The pack instructions pack the four quarters of each vector separately, so the parts of the
 * result are reordered afterwards. */
STEP __m512i
in_order_16(__m512i packed)
{
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed);
}

STEP __m512i pack_int16(__m512i a, __m512i b) { return in_order_16(_mm512_packs_epi32(a, b)); }
STEP __m512i pack_uint16(__m512i a, __m512i b) { return in_order_16(_mm512_packus_epi32(a, b)); }

STEP __m512i
in_order_8(__m512i packed)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), packed);
}

STEP __m512i
pack_int8(__m512i a, __m512i b, __m512i c, __m512i d)
{
    return in_order_8(_mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d)));
}

STEP __m512i
pack_byte(__m512i a, __m512i b, __m512i c, __m512i d)
{
    return in_order_8(_mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d)));
}

STEP __m512i
pack_half(__m512 a, __m512 b)
{
    return join(_mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT), _mm512_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT));
}

/* Rounds floats to bfloat16. The upper half of each 32-bit element of the result is the bfloat16.
 */
STEP __m512i
bfloat16_of_f32(__m512 x)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i tie = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(tie, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
}

STEP __m512i
pack_bfloat16(__m512 a, __m512 b)
{
    const __m512i upper_halves = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                                                  25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(bfloat16_of_f32(a), upper_halves, bfloat16_of_f32(b));
}

#endif
