/* SPDX-License-Identifier: MIT */
/* Declarations of the built-in element types that OpenCL C lacks. They precede every text of a kernel. ferry_size is size_t of
 * the host, because kernels take no size_t; a line before this text defines FERRY_SIZE_32 where that has 32 bits. */
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifndef FERRY_NO_OPENCL_TYPES
typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
#ifdef FERRY_SIZE_32
typedef uint ferry_size;
#else
typedef ulong ferry_size;
#endif
typedef struct ferry_half { ushort bits; } ferry_half;
typedef struct ferry_bfloat16 { ushort bits; } ferry_bfloat16;
typedef struct ferry_complex_float { float real, imaginary; } ferry_complex_float;
#ifdef cl_khr_fp64
typedef struct ferry_complex_double { double real, imaginary; } ferry_complex_double;
#endif
#endif
