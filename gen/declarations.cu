/* SPDX-License-Identifier: MIT */
/* Declarations of the built-in element types that CUDA C++ and HIP C++ lack. They precede every text of a kernel. The 64-bit
 * integers have the types of <cuda/std/cstdint>, so that a text may include that header or repeat the declarations. */
#ifndef FERRY_NO_CUDA_TYPES
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
struct ferry_half { uint16_t bits; };
struct ferry_bfloat16 { uint16_t bits; };
struct ferry_complex_float { float real, imaginary; };
struct ferry_complex_double { double real, imaginary; };
#endif
