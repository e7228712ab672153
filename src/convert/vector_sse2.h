/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_LANES_SSE2_H
#define FERRYI_CONVERT_LANES_SSE2_H

/* The vector type and the operations of vector.h, implemented with SSE2. SSE2 has no instructions
 * for narrow floats, so the operations on narrow floats follow the steps of scalar.h. */

#include <emmintrin.h>

typedef __m128i vector_i32;
typedef __m128 vector_f32;
typedef __m128d vector_f64;

/* -- load and widen ---------------------------------------------------------------------------- */

#define LOAD_8(p) _mm_loadl_epi64((const __m128i *)(const void *)(p))

STEP __m128i
load_4(const char *in)
{
    int32_t bits;
    memcpy(&bits, in, sizeof(bits));
    return _mm_cvtsi32_si128(bits);
}

STEP __m128i
load_byte(const char *in)
{
    const __m128i zero = _mm_setzero_si128();
    return _mm_unpacklo_epi16(_mm_unpacklo_epi8(load_4(in), zero), zero);
}

/* Extends the sign of bytes. Each byte is duplicated into the upper bits and then shifted down. */
STEP __m128i
load_int8(const char *in)
{
    __m128i twice = _mm_unpacklo_epi8(load_4(in), load_4(in));
    return _mm_srai_epi32(_mm_unpacklo_epi16(twice, twice), 24);
}

STEP __m128i load_int16(const char *in) { return _mm_srai_epi32(_mm_unpacklo_epi16(LOAD_8(in), LOAD_8(in)), 16); }
STEP __m128i load_uint16(const char *in) { return _mm_unpacklo_epi16(LOAD_8(in), _mm_setzero_si128()); }
STEP __m128i load_int(const char *in) { return _mm_loadu_si128((const __m128i *)(const void *)in); }
STEP __m128 load_bfloat16(const char *in) { return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), LOAD_8(in))); }
STEP __m128 load_float(const char *in) { return _mm_loadu_ps((const float *)(const void *)in); }
STEP __m128d load_double(const char *in) { return _mm_loadu_pd((const double *)(const void *)in); }

STEP __m128i
choose(__m128i mask, __m128i where_set, __m128i elsewhere)
{
    return _mm_or_si128(_mm_and_si128(mask, where_set), _mm_andnot_si128(mask, elsewhere));
}

/* Like widen_half(). */
STEP __m128
load_half(const char *in)
{
    __m128i bits = load_uint16(in), magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7fff));
    __m128i special = _mm_and_si128(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7bff)), _mm_set1_epi32(0x38000000));
    __m128i normal = _mm_add_epi32(_mm_slli_epi32(magnitude, 13), _mm_add_epi32(_mm_set1_epi32(0x38000000), special));
    __m128 subnormal = _mm_mul_ps(_mm_cvtepi32_ps(magnitude), _mm_set1_ps(0x1p-24f));
    __m128i is_small = _mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x400));
    __m128i sign = _mm_slli_epi32(_mm_xor_si128(bits, magnitude), 16);
    return _mm_castsi128_ps(_mm_or_si128(sign, choose(is_small, _mm_castps_si128(subnormal), normal)));
}

/* -- cross over -------------------------------------------------------------------------------- */

/* Converts to int32. Returns INT32_MIN for values below the range, INT32_MAX for values above the
 * range and 0 for NaN, like the function in vector_avx2.h. */
STEP __m128i
i32_of_f32(__m128 x)
{
    __m128i above = _mm_castps_si128(_mm_cmpge_ps(x, _mm_set1_ps(0x1p31f)));
    __m128i number = _mm_castps_si128(_mm_cmpord_ps(x, x));
    return _mm_and_si128(_mm_xor_si128(_mm_cvtps_epi32(x), above), number);
}

STEP __m128i
small_of_f32(__m128 x)
{
    return _mm_cvtps_epi32(_mm_and_ps(_mm_min_ps(_mm_set1_ps(0x1p24f), x), _mm_cmpord_ps(x, x)));
}

STEP __m128i unsigned_of_f32(__m128 x) { return _mm_cvtps_epi32(_mm_min_ps(_mm_set1_ps(0x1p24f), x)); }

STEP __m128i
half_i32_of_f64(__m128d x)
{
    return _mm_cvtpd_epi32(_mm_and_pd(_mm_min_pd(_mm_set1_pd(2147483647.0), x), _mm_cmpord_pd(x, x)));
}

STEP __m128i half_unsigned_of_f64(__m128d x) { return _mm_cvtpd_epi32(_mm_min_pd(_mm_set1_pd(2147483647.0), x)); }

STEP __m128i
i32_of_f64(__m128d low, __m128d high)
{
    return _mm_unpacklo_epi64(half_i32_of_f64(low), half_i32_of_f64(high));
}

STEP __m128i
unsigned_of_f64(__m128d low, __m128d high)
{
    return _mm_unpacklo_epi64(half_unsigned_of_f64(low), half_unsigned_of_f64(high));
}

STEP __m128 f32_of_f64(__m128d low, __m128d high) { return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high)); }
STEP __m128 f32_of_i32(__m128i x) { return _mm_cvtepi32_ps(x); }
STEP __m128d low_f64_of_i32(__m128i x) { return _mm_cvtepi32_pd(x); }
STEP __m128d high_f64_of_i32(__m128i x) { return _mm_cvtepi32_pd(_mm_unpackhi_epi64(x, x)); }
STEP __m128d low_f64_of_f32(__m128 x) { return _mm_cvtps_pd(x); }
STEP __m128d high_f64_of_f32(__m128 x) { return _mm_cvtps_pd(_mm_movehl_ps(x, x)); }

/* Like f64_to_float_odd(). Each mask of 64 bits is narrowed to its low 32-bit word. */
STEP __m128
odd_of_f64(__m128d low, __m128d high)
{
#define NARROW_MASKS(x, y) _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(x), _mm_castpd_ps(y), 0x88))
    const __m128d sign = _mm_set1_pd(-0.0);
    __m128 nearest = f32_of_f64(low, high);
    __m128d low_back = low_f64_of_f32(nearest), high_back = high_f64_of_f32(nearest);
    __m128d low_away = _mm_cmpgt_pd(_mm_andnot_pd(sign, low_back), _mm_andnot_pd(sign, low));
    __m128d high_away = _mm_cmpgt_pd(_mm_andnot_pd(sign, high_back), _mm_andnot_pd(sign, high));
    __m128d low_lost = _mm_cmpneq_pd(low_back, low), high_lost = _mm_cmpneq_pd(high_back, high);
    __m128i bits = _mm_add_epi32(_mm_castps_si128(nearest), NARROW_MASKS(low_away, high_away));
    return _mm_castsi128_ps(_mm_or_si128(bits, _mm_srli_epi32(NARROW_MASKS(low_lost, high_lost), 31)));
#undef NARROW_MASKS
}

/* -- saturate and store ------------------------------------------------------------------------ */

STEP void store_int(char *out, __m128i x) { _mm_storeu_si128((__m128i *)(void *)out, x); }
STEP void store_float(char *out, __m128 x) { _mm_storeu_ps((float *)(void *)out, x); }
STEP void store_double(char *out, __m128d x) { _mm_storeu_pd((double *)(void *)out, x); }

STEP __m128i pack_int16(__m128i a, __m128i b) { return _mm_packs_epi32(a, b); }

/* Packs unsigned values. SSE2 packs only signed values, so 2^15 is subtracted before packing and
 * added again afterwards. */
STEP __m128i
moved_down(__m128i x)
{
    return _mm_sub_epi32(_mm_andnot_si128(_mm_srai_epi32(x, 31), x), _mm_set1_epi32(0x8000));
}

STEP __m128i
pack_uint16(__m128i a, __m128i b)
{
    return _mm_xor_si128(_mm_packs_epi32(moved_down(a), moved_down(b)), _mm_set1_epi16(INT16_MIN));
}

STEP __m128i
pack_int8(__m128i a, __m128i b, __m128i c, __m128i d)
{
    return _mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
}

STEP __m128i
pack_byte(__m128i a, __m128i b, __m128i c, __m128i d)
{
    return _mm_packus_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
}

/* Packs the lower 16 bits of each element. */
STEP __m128i
pack_bits(__m128i a, __m128i b)
{
    return _mm_packs_epi32(_mm_srai_epi32(_mm_slli_epi32(a, 16), 16), _mm_srai_epi32(_mm_slli_epi32(b, 16), 16));
}

/* Like f32_to_half_nearest(). */
STEP __m128i
half_of_f32(__m128 x)
{
    __m128i bits = _mm_castps_si128(x), magnitude = _mm_and_si128(bits, _mm_set1_epi32(INT32_MAX));
    __m128i is_small = _mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x38800000));
    __m128i tie = _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(1));
    __m128i normal = _mm_add_epi32(_mm_add_epi32(magnitude, tie), _mm_set1_epi32(0xfff - 0x38000000));
    __m128 shifted = _mm_add_ps(_mm_castsi128_ps(_mm_and_si128(is_small, magnitude)), _mm_set1_ps(0.5f));
    __m128i subnormal = _mm_sub_epi32(_mm_castps_si128(shifted), _mm_set1_epi32(0x3f000000));
    __m128i result = choose(is_small, subnormal, _mm_srli_epi32(normal, 13));
    result = choose(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x477fefff)), _mm_set1_epi32(0x7c00), result);
    result = choose(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7f800000)), _mm_set1_epi32(0x7e00), result);
    return _mm_or_si128(result, _mm_srli_epi32(_mm_xor_si128(bits, magnitude), 16));
}

/* Like f32_to_bfloat16_nearest(). */
STEP __m128i
bfloat16_of_f32(__m128 x)
{
    __m128i bits = _mm_castps_si128(x), upper = _mm_srli_epi32(bits, 16);
    __m128i rounded = _mm_add_epi32(_mm_and_si128(upper, _mm_set1_epi32(1)), _mm_set1_epi32(0x7fff));
    __m128i nan = _mm_castps_si128(_mm_cmpunord_ps(x, x));
    rounded = _mm_srli_epi32(_mm_add_epi32(bits, rounded), 16);
    return choose(nan, _mm_or_si128(upper, _mm_set1_epi32(0x40)), rounded);
}

STEP __m128i pack_half(__m128 a, __m128 b) { return pack_bits(half_of_f32(a), half_of_f32(b)); }
STEP __m128i pack_bfloat16(__m128 a, __m128 b) { return pack_bits(bfloat16_of_f32(a), bfloat16_of_f32(b)); }

#endif
