/* SPDX-License-Identifier: MIT */
#ifndef FERRY_NUMBER_H
#define FERRY_NUMBER_H

#include <stdint.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/**
 * @file
 * C types of the elements for which C99 and C++ have none in common. They hold bits and are converted, not computed
 * with: <ferry/convert.h> goes to and from the others.
 */

/** IEEE-754 binary16. Laid out as __half of CUDA and as _Float16. A struct, so that the compiler tells it from uint16_t. */
typedef struct ferry_half {
    uint16_t bits; /**< sign, 5 bits of exponent, 10 of fraction */
} ferry_half;

/** The upper half of an IEEE-754 binary32. Laid out as __nv_bfloat16 of CUDA. */
typedef struct ferry_bfloat16 {
    uint16_t bits; /**< sign, 8 bits of exponent, 7 of fraction */
} ferry_bfloat16;

/** Laid out as float _Complex of C99, std::complex<float> of C++ and float2 of CUDA: pointers to them may be cast. */
typedef struct ferry_complex_float {
    float real;
    float imaginary;
} ferry_complex_float;

/** Laid out as double _Complex of C99 and std::complex<double> of C++: pointers to them may be cast. */
typedef struct ferry_complex_double {
    double real;
    double imaginary;
} ferry_complex_double;

FERRY_END_DECLS

#endif
