/* SPDX-License-Identifier: MIT */
#ifndef FERRY_NUMBER_H
#define FERRY_NUMBER_H

#include <stdint.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * C types for 16-bit floating-point numbers and for complex numbers, for which C99 and C++ have no
 * common type. The structs only store values; headers such as <ferry/half_convert.h> convert them.
 */

/** An IEEE-754 binary16 number, with the layout of CUDA's __half and of _Float16. */
typedef struct ferry_half {
    uint16_t bits; /**< from the highest bit: sign, 5 bits of exponent, 10 of fraction */
} ferry_half;

/**
 * A bfloat16 number: the upper 16 bits of an IEEE-754 binary32, with the layout of CUDA's
 * __nv_bfloat16.
 */
typedef struct ferry_bfloat16 {
    uint16_t bits; /**< from the highest bit: sign, 8 bits of exponent, 7 of fraction */
} ferry_bfloat16;

/**
 * A complex number with the layout of C99's float _Complex, C++'s std::complex<float> and CUDA's
 * float2. A pointer to any of these types may be cast to a pointer to another of them.
 */
typedef struct ferry_complex_float {
    float real;
    float imaginary;
} ferry_complex_float;

/** The same with double: the layout of C99's double _Complex and C++'s std::complex<double>. */
typedef struct ferry_complex_double {
    double real;
    double imaginary;
} ferry_complex_double;

FERRY_END_DECLS

#endif
