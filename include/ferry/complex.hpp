/* SPDX-License-Identifier: MIT */
#ifndef FERRY_COMPLEX_HPP
#define FERRY_COMPLEX_HPP

/**
 * @file
 * Makes std::complex<float> and std::complex<double> element types of ferry::buffer. They are equal
 * to ferry_complex_float and ferry_complex_double.
 */

#include <complex>

#include <ferry/complex_double.h>
#include <ferry/complex_float.h>

FERRY_CPP_ELEMENT(std::complex<float>, ferry_complex_float_element)
FERRY_CPP_ELEMENT(std::complex<double>, ferry_complex_double_element)

#endif
