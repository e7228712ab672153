/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_SCALAR_H
#define FERRYI_CONVERT_SCALAR_H

/*
 * The conversion of one element. A source value is first widened to a working type (i32, i64, u64,
 * f32, f64; c32, c64), which is exact. The functions <working>_to_<target>_nearest, ..._toward_zero
 * and ..._fits then implement the three policies. All functions use selects instead of branches, so
 * that loops over them vectorise, and no cast is ever out of range.
 *
 * A conversion from a wide source to a narrow float goes through binary32 rounded to odd: the last
 * bit of an inexact value is set. The value then lies on the correct side of every tie, so the
 * second rounding gives the same result as a single rounding.
 */

/* A run-time compiler has no standard headers. There, kernels.cuh and kernels.cl declare what this
 * file needs. */
#if !defined(__CUDACC_RTC__) && !defined(__OPENCL_C_VERSION__)
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#endif

/* This file is compiled as C and, through kernels.cuh, as CUDA and as OpenCL C. Arrays in device
 * memory are aligned; arrays in host memory need not be aligned. */
#ifdef __CUDACC__
#define SCALAR static __device__ __forceinline__
#define UNALIGNED
#elif defined(__OPENCL_C_VERSION__)
#define SCALAR static inline
#define UNALIGNED
#else
#define SCALAR static inline __attribute__((always_inline, unused))
#ifndef UNALIGNED
#define UNALIGNED __attribute__((packed, may_alias))
#endif
#endif

/* The number types as they are stored in memory. A half or bfloat16 is stored as an integer with
 * the same bits. A stored bool may have any byte value. */
typedef float number_float;
typedef double number_double;
typedef uint16_t number_half;
typedef uint16_t number_bfloat16;
typedef int8_t number_int8;
typedef int16_t number_int16;
typedef int32_t number_int;
typedef int64_t number_int64;
typedef uint8_t number_byte;
typedef uint16_t number_uint16;
typedef uint32_t number_uint32;
typedef uint64_t number_uint64;
typedef uint8_t number_bool8;
typedef struct UNALIGNED { float real, imaginary; } number_complex_float;
typedef struct UNALIGNED { double real, imaginary; } number_complex_double;

/* -- bits and rounding ------------------------------------------------------------------------- */

#ifdef __OPENCL_C_VERSION__
SCALAR uint32_t bits_of(float value) { return as_uint(value); }
SCALAR float float_of(uint32_t bits) { return as_float(bits); }
#else
SCALAR uint32_t
bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

SCALAR float
float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
#endif

/* Functions that round to the nearest integer, ties to even. The result must be representable. */
#ifdef __CUDACC__
SCALAR int32_t round_f32(float value) { return __float2int_rn(value); }
SCALAR int32_t round_f64(double value) { return __double2int_rn(value); }
SCALAR int64_t round_wide(double value) { return __double2ll_rn(value); }
SCALAR double magnitude_of(double value) { return fabs(value); }
SCALAR int leading_zeros(uint64_t value) { return __clzll((long long)value); }
#elif defined(__OPENCL_C_VERSION__)
SCALAR int32_t round_f32(float value) { return convert_int_rte(value); }
SCALAR int32_t round_f64(double value) { return convert_int_rte(value); }
SCALAR int64_t round_wide(double value) { return convert_long_rte(value); }
SCALAR double magnitude_of(double value) { return fabs(value); }
SCALAR int leading_zeros(uint64_t value) { return (int)clz(value); }
#else
#ifdef __clang__
SCALAR int32_t round_f32(float value) { return (int32_t)__builtin_rintf(value); }
SCALAR int32_t round_f64(double value) { return (int32_t)__builtin_rint(value); }
#else
SCALAR int32_t round_f32(float value) { return __builtin_irintf(value); }
/* AArch64 has no vector instruction that rounds double to int32. After 1.5 * 2^52 is added, the low
 * bits of the double are the rounded integer. */
#ifdef __aarch64__
SCALAR int32_t
round_f64(double value)
{
    double moved = value + 0x1.8p52;
    int64_t bits;
    memcpy(&bits, &moved, sizeof(bits));
    return (int32_t)bits;
}
#else
SCALAR int32_t round_f64(double value) { return __builtin_irint(value); }
#endif
#endif
SCALAR double magnitude_of(double value) { return __builtin_fabs(value); }
SCALAR int leading_zeros(uint64_t value) { return __builtin_clzll(value); }
/* With AVX-512 DQ, compilers vectorise casts to int64, but not calls that round. So a magnitude
 * below 2^52 is rounded by adding 2^52 and subtracting it again. A larger double is already a whole
 * number. */
#ifdef __AVX512DQ__
SCALAR int64_t
round_wide(double value)
{
    double magnitude = magnitude_of(value), rounded = (magnitude + 0x1p52) - 0x1p52;
    int64_t whole = (int64_t)(magnitude < 0x1p52 ? rounded : magnitude < 0x1p63 ? magnitude : 0);
    whole = value < 0 ? -whole : whole;
    return value == -0x1p63 ? INT64_MIN : whole;
}
#else
SCALAR int64_t round_wide(double value) { return (int64_t)__builtin_llrint(value); }
#endif
#endif

/* -- sources ----------------------------------------------------------------------------------- */

SCALAR float widen_float(number_float value) { return value; }
SCALAR double widen_double(number_double value) { return value; }
SCALAR float widen_bfloat16(number_bfloat16 value) { return float_of((uint32_t)value << 16); }
SCALAR int32_t widen_int8(number_int8 value) { return value; }
SCALAR int32_t widen_int16(number_int16 value) { return value; }
SCALAR int32_t widen_int(number_int value) { return value; }
SCALAR int64_t widen_int64(number_int64 value) { return value; }
SCALAR int32_t widen_byte(number_byte value) { return value; }
SCALAR int32_t widen_uint16(number_uint16 value) { return value; }
SCALAR int64_t widen_uint32(number_uint32 value) { return value; }
SCALAR uint64_t widen_uint64(number_uint64 value) { return value; }
SCALAR int32_t widen_bool8(number_bool8 value) { return value != 0; }
SCALAR number_complex_float widen_complex_float(number_complex_float value) { return value; }
SCALAR number_complex_double widen_complex_double(number_complex_double value) { return value; }

/* Converts a half to a float. A subnormal half is a multiple of 2^-24. For other finite values the
 * exponent field increases by 112, and for infinity and NaN by 224. */
SCALAR float
widen_half(number_half value)
{
    uint32_t magnitude = value & 0x7fffu;
    uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
    uint32_t subnormal = bits_of((float)(int32_t)magnitude * 0x1p-24f);
    return float_of((magnitude < 0x400u ? subnormal : normal) | (uint32_t)(value & 0x8000u) << 16);
}

/* -- integers to integers: clamped at each limit that the source can exceed -------------------- */

#define INTEGER_STEP(working, to, type, clamped, inside)                                                              \
    SCALAR bool working##_to_##to##_fits(type value) { (void)value; return inside; }                                 \
    SCALAR number_##to working##_to_##to##_nearest(type value) { return (number_##to)(clamped); }                    \
    SCALAR number_##to working##_to_##to##_toward_zero(type value) { return (number_##to)(clamped); }
#define INTEGER_KEPT(working, to, type) INTEGER_STEP(working, to, type, value, true)
#define INTEGER_RAISED(working, to, type, low) INTEGER_STEP(working, to, type, value < low ? low : value, value >= low)
#define INTEGER_LOWERED(working, to, type, high) INTEGER_STEP(working, to, type, value > high ? high : value, value <= high)
#define INTEGER_CLAMPED(working, to, type, low, high)                                                                 \
    INTEGER_STEP(working, to, type, value < low ? low : value > high ? high : value, value >= low && value <= high)

/* -- floats to integers ------------------------------------------------------------------------ */

/* Defines a function that returns whether a float fits into an integer type after rounding to
 * nearest, ties to even. The lowest value of the type is even, so the tie just below it rounds into
 * the range. The highest value is odd, so the tie just above it rounds out of the range. */
#define FLOAT_FITS(working, to, type, low, high)                                                                      \
    SCALAR bool working##_to_##to##_fits(type value) { return value >= (type)(low - 0.5) && value < (type)(high + 0.5); }

/* Defines conversions to integers of at most 16 bits. The value is clamped to the limits of the
 * type before it is rounded. This is possible because the limits are exact in every float type. NaN
 * becomes 0. */
#define FLOAT_TO_SMALL(working, to, type, low, high)                                                                  \
    FLOAT_FITS(working, to, type, low, high)                                                                          \
    SCALAR type working##_to_##to##_clamped(type value)                                                              \
    {                                                                                                                 \
        value = value == value ? value : 0;                                                                           \
        value = value < (type)low ? (type)low : value;                                                                \
        return value > (type)high ? (type)high : value;                                                               \
    }                                                                                                                 \
    SCALAR number_##to working##_to_##to##_nearest(type value)                                                       \
    {                                                                                                                 \
        return (number_##to)round_##working(working##_to_##to##_clamped(value));                                      \
    }                                                                                                                 \
    SCALAR number_##to working##_to_##to##_toward_zero(type value)                                                   \
    {                                                                                                                 \
        return (number_##to)(int32_t)working##_to_##to##_clamped(value);                                              \
    }

/* Defines conversions to int32. The value is rounded first and then clamped to the limits of int32,
 * because INT32_MAX is not exact in binary32. */
#define FLOAT_TO_INT(working, to, type)                                                                               \
    FLOAT_FITS(working, to, type, -0x1p31, 2147483647.0)                                                              \
    SCALAR number_int working##_to_int_nearest(type value)                                                           \
    {                                                                                                                 \
        int32_t result = round_##working(working##_to_int_fits(value) ? value : 0);                                   \
        result = value >= (type)2147483647.5 ? INT32_MAX : result;                                                    \
        return value < (type)-0x1p31 ? INT32_MIN : result;                                                            \
    }                                                                                                                 \
    SCALAR number_int working##_to_int_toward_zero(type value)                                                       \
    {                                                                                                                 \
        double number = value == value ? value : 0;                                                                   \
        number = number < -0x1p31 ? -0x1p31 : number;                                                                 \
        return (int32_t)(number > 2147483647.0 ? 2147483647.0 : number);                                              \
    }

/* Defines conversions to uint32. Adding 2^52 and subtracting it again rounds a value to the nearest
 * integer, ties to even. Subtracting 2^31 makes the result an int32, for which there are vector
 * instructions. */
#define FLOAT_TO_UINT32(working, to, type)                                                                            \
    FLOAT_FITS(working, to, type, 0.0, 4294967295.0)                                                                  \
    SCALAR double working##_to_uint32_clamped(double value)                                                          \
    {                                                                                                                 \
        value = value > 0 ? value : 0;                                                                                \
        return value > 4294967295.0 ? 4294967295.0 : value;                                                           \
    }                                                                                                                 \
    SCALAR number_uint32 working##_to_uint32_nearest(type value)                                                     \
    {                                                                                                                 \
        double whole = (working##_to_uint32_clamped(value) + 0x1p52) - 0x1p52;                                        \
        return (uint32_t)(int32_t)(whole - 0x1p31) + 0x80000000u;                                                     \
    }                                                                                                                 \
    SCALAR number_uint32 working##_to_uint32_toward_zero(type value)                                                 \
    {                                                                                                                 \
        return (uint32_t)(int64_t)working##_to_uint32_clamped(value);                                                 \
    }

/* Returns `inside`, the rounded value, clamped to the limits of int64. The limits are compared with
 * the unrounded value. Doubles of at least 2^53 are whole numbers, so rounding does not change
 * values at the limits. */
SCALAR int64_t
put_limits_int64(double value, int64_t inside)
{
    inside = value >= 0x1p63 ? INT64_MAX : inside;
    return value < -0x1p63 ? INT64_MIN : inside;
}

#define FLOAT_TO_INT64(working, to, type)                                                                             \
    FLOAT_FITS(working, to, type, -0x1p63, 0x1p63)                                                                    \
    SCALAR number_int64 working##_to_int64_nearest(type value)                                                       \
    {                                                                                                                 \
        return put_limits_int64(value, round_wide(working##_to_int64_fits(value) ? value : 0));                       \
    }                                                                                                                 \
    SCALAR number_int64 working##_to_int64_toward_zero(type value)                                                   \
    {                                                                                                                 \
        return put_limits_int64(value, (int64_t)(working##_to_int64_fits(value) ? value : 0));                        \
    }

/* Converts a double to uint64, and clamps the result to the limits of uint64. A value of at least
 * 2^63 is converted in two steps: 2^63 is subtracted before the cast, and added back as an integer.
 * `low` is the result for values below 2^63. */
SCALAR uint64_t
put_limits_uint64(double value, int64_t low)
{
    double upper = value >= 0x1p63 && value < 0x1p64 ? value - 0x1p63 : 0;
    uint64_t result = value >= 0x1p63 ? (uint64_t)(int64_t)upper + (UINT64_C(1) << 63) : (uint64_t)low;
    return value >= 0x1p64 ? UINT64_MAX : result;
}

SCALAR double
lower_half(double value)
{
    return value > 0 && value < 0x1p63 ? value : 0;
}

#define FLOAT_TO_UINT64(working, to, type)                                                                            \
    FLOAT_FITS(working, to, type, 0.0, 0x1p64)                                                                        \
    SCALAR number_uint64 working##_to_uint64_nearest(type value)                                                     \
    {                                                                                                                 \
        return put_limits_uint64(value, round_wide(lower_half(value)));                                               \
    }                                                                                                                 \
    SCALAR number_uint64 working##_to_uint64_toward_zero(type value)                                                 \
    {                                                                                                                 \
        return put_limits_uint64(value, (int64_t)lower_half(value));                                                  \
    }

/* -- to bool: values other than 0 become true, as in C; CHECK accepts only 0 and 1 ------------- */

#define TO_BOOL(working, type)                                                                                        \
    SCALAR bool working##_to_bool8_fits(type value) { return value == 0 || value == 1; }                             \
    SCALAR number_bool8 working##_to_bool8_nearest(type value) { return value != 0; }                                \
    SCALAR number_bool8 working##_to_bool8_toward_zero(type value) { return value != 0; }

TO_BOOL(i32, int32_t)
TO_BOOL(i64, int64_t)
TO_BOOL(u64, uint64_t)
TO_BOOL(f32, float)
TO_BOOL(f64, double)

/* -- binary32 to narrower floats --------------------------------------------------------------- */

/* Converts a float to a half, rounded to nearest. If the magnitude is below 2^-14, adding 0.5
 * rounds it to k * 2^-24 for an integer k. The low bits of the sum are then k. */
SCALAR number_half
f32_to_half_nearest(float value)
{
    uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
    uint32_t subnormal = bits_of(float_of(magnitude < 0x38800000u ? magnitude : 0) + 0.5f) - 0x3f000000u;
    uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
    result = magnitude >= 0x477ff000u ? 0x7c00u : result;
    result = magnitude > 0x7f800000u ? 0x7e00u : result;
    return (number_half)(result | (bits >> 16 & 0x8000u));
}

SCALAR number_half
f32_to_half_toward_zero(float value)
{
    uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - 0x38000000u) >> 13;
    uint32_t subnormal = (uint32_t)(int32_t)(float_of(magnitude < 0x38800000u ? magnitude : 0) * 0x1p24f);
    uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
    result = magnitude >= 0x47800000u ? 0x7bffu : result;
    result = magnitude == 0x7f800000u ? 0x7c00u : result;
    result = magnitude > 0x7f800000u ? 0x7e00u : result;
    return (number_half)(result | (bits >> 16 & 0x8000u));
}

SCALAR bool
f32_to_half_fits(float value)
{
    uint32_t magnitude = bits_of(value) & 0x7fffffffu;
    return magnitude < 0x477ff000u || magnitude >= 0x7f800000u;
}

SCALAR number_bfloat16
f32_to_bfloat16_nearest(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t result = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (number_bfloat16)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : result);
}

SCALAR number_bfloat16
f32_to_bfloat16_toward_zero(float value)
{
    uint32_t bits = bits_of(value);
    return (number_bfloat16)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : bits >> 16);
}

SCALAR bool
f32_to_bfloat16_fits(float value)
{
    uint32_t magnitude = bits_of(value) & 0x7fffffffu;
    return magnitude < 0x7f7f8000u || magnitude >= 0x7f800000u;
}

SCALAR float f32_to_float_nearest(float value) { return value; }
SCALAR double f32_to_double_nearest(float value) { return value; }

/* -- binary64 to narrower floats --------------------------------------------------------------- */

SCALAR double f64_to_double_nearest(double value) { return value; }
SCALAR float f64_to_float_nearest(double value) { return (float)value; }

/* Converts a double to a float, rounded toward zero. The cast rounds to nearest. If it rounded away
 * from zero, the result is replaced by the next value toward zero. For infinity, this is the
 * largest finite value. */
SCALAR float
f64_to_float_toward_zero(double value)
{
    float nearest = (float)value;
    return float_of(bits_of(nearest) - (magnitude_of((double)nearest) > magnitude_of(value)));
}

/* Converts a double to a float, rounded to odd: it rounds toward zero and sets the last bit of the
 * float if the result is inexact. */
SCALAR float
f64_to_float_odd(double value)
{
    float kept = f64_to_float_toward_zero(value);
    return float_of(bits_of(kept) | ((double)kept != value));
}

SCALAR bool
f64_to_float_fits(double value)
{
    return !(magnitude_of(value) >= 0x1.ffffffp127 && magnitude_of(value) <= 0x1.fffffffffffffp1023);
}

#define FLOAT_THROUGH_ODD(working, to, type, odd)                                                                     \
    SCALAR bool working##_to_##to##_fits(type value) { return f32_to_##to##_fits(odd); }                             \
    SCALAR number_##to working##_to_##to##_nearest(type value) { return f32_to_##to##_nearest(odd); }                \
    SCALAR number_##to working##_to_##to##_toward_zero(type value) { return f32_to_##to##_toward_zero(odd); }

FLOAT_THROUGH_ODD(f64, half, double, f64_to_float_odd(value))
FLOAT_THROUGH_ODD(f64, bfloat16, double, f64_to_float_odd(value))

/* -- integers to floats ------------------------------------------------------------------------ */

/* Converts the upper 53 significant bits of an integer magnitude to a double. If `odd` is true and
 * lower bits are lost, sets the last of the 53 bits. */
SCALAR double
cut_to_double(uint64_t magnitude, bool odd)
{
    int length = 64 - leading_zeros(magnitude | 1);
    int shift = length > 53 ? length - 53 : 0;
    uint64_t kept = magnitude >> shift;
    kept |= odd && kept << shift != magnitude;
    return (double)(int64_t)kept * (double)(int64_t)(UINT64_C(1) << shift);
}

SCALAR double
u64_cut_to_double(uint64_t value, bool odd)
{
    return cut_to_double(value, odd);
}

SCALAR double
i64_cut_to_double(int64_t value, bool odd)
{
    double magnitude = cut_to_double(value < 0 ? 0 - (uint64_t)value : (uint64_t)value, odd);
    return value < 0 ? -magnitude : magnitude;
}

#define INTEGER_TO_FLOATS(working, type, cut, odd)                                                                    \
    SCALAR double working##_to_double_nearest(type value) { return (double)value; }                                  \
    SCALAR double working##_to_double_toward_zero(type value) { return cut; }                                        \
    SCALAR float working##_to_float_nearest(type value) { return (float)value; }                                     \
    SCALAR float working##_to_float_toward_zero(type value) { return f64_to_float_toward_zero(cut); }                \
    FLOAT_THROUGH_ODD(working, half, type, f64_to_float_odd(odd))                                                     \
    FLOAT_THROUGH_ODD(working, bfloat16, type, f64_to_float_odd(odd))

INTEGER_TO_FLOATS(i32, int32_t, (double)value, (double)value)
INTEGER_TO_FLOATS(i64, int64_t, i64_cut_to_double(value, false), i64_cut_to_double(value, true))
INTEGER_TO_FLOATS(u64, uint64_t, u64_cut_to_double(value, false), u64_cut_to_double(value, true))

/* -- real to complex numbers: the real part is converted, the imaginary part is 0 -------------- */

#define TO_COMPLEX(working, type, number, how)                                                                        \
    SCALAR number_complex_##number working##_to_complex_##number##_##how(type value)                                 \
    {                                                                                                                 \
        number_complex_##number result = {working##_to_##number##_##how(value), 0};                                   \
        return result;                                                                                                \
    }

TO_COMPLEX(i32, int32_t, float, nearest)
TO_COMPLEX(i32, int32_t, float, toward_zero)
TO_COMPLEX(i32, int32_t, double, nearest)
TO_COMPLEX(i64, int64_t, float, nearest)
TO_COMPLEX(i64, int64_t, float, toward_zero)
TO_COMPLEX(i64, int64_t, double, nearest)
TO_COMPLEX(i64, int64_t, double, toward_zero)
TO_COMPLEX(u64, uint64_t, float, nearest)
TO_COMPLEX(u64, uint64_t, float, toward_zero)
TO_COMPLEX(u64, uint64_t, double, nearest)
TO_COMPLEX(u64, uint64_t, double, toward_zero)
TO_COMPLEX(f32, float, float, nearest)
TO_COMPLEX(f32, float, double, nearest)
TO_COMPLEX(f64, double, float, nearest)
TO_COMPLEX(f64, double, float, toward_zero)
TO_COMPLEX(f64, double, double, nearest)

SCALAR bool
f64_to_complex_float_fits(double value)
{
    return f64_to_float_fits(value);
}

SCALAR bool
c64_to_complex_float_fits(number_complex_double value)
{
    return f64_to_float_fits(value.real) && f64_to_float_fits(value.imaginary);
}

SCALAR number_complex_double
c32_to_complex_double_nearest(number_complex_float value)
{
    number_complex_double result = {value.real, value.imaginary};
    return result;
}

SCALAR number_complex_float
c64_to_complex_float_nearest(number_complex_double value)
{
    number_complex_float result = {(float)value.real, (float)value.imaginary};
    return result;
}

SCALAR number_complex_float
c64_to_complex_float_toward_zero(number_complex_double value)
{
    number_complex_float result = {f64_to_float_toward_zero(value.real), f64_to_float_toward_zero(value.imaginary)};
    return result;
}

#endif
