/* SPDX-License-Identifier: MIT */
#ifndef FERRY_NUMBER_H
#define FERRY_NUMBER_H

#include <stdint.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * C types of elements that C99 and C++ have no common type for. They hold bits and support no
 * arithmetic; <ferry/half_convert.h> and its kin converts them.
 */

/**
 * IEEE-754 binary16, with the layout of CUDA's __half and of _Float16. A struct, so that the
 * compiler distinguishes it from uint16_t.
 */
typedef struct ferry_half {
    uint16_t bits; /**< sign, 5 bits of exponent, 10 of fraction */
} ferry_half;

/** The upper half of an IEEE-754 binary32, with the layout of CUDA's __nv_bfloat16. */
typedef struct ferry_bfloat16 {
    uint16_t bits; /**< sign, 8 bits of exponent, 7 of fraction */
} ferry_bfloat16;

/**
 * Layout of C99's float _Complex, C++'s std::complex<float> and CUDA's float2. Pointers may be cast
 * between them.
 */
typedef struct ferry_complex_float {
    float real;
    float imaginary;
} ferry_complex_float;

/**
 * Layout of C99's double _Complex and C++'s std::complex<double>. Pointers may be cast between
 * them.
 */
typedef struct ferry_complex_double {
    double real;
    double imaginary;
} ferry_complex_double;

FERRY_END_DECLS

#endif
