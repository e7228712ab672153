/* SPDX-License-Identifier: MIT */
/*
 * The conversion loops of kernels.cuh in OpenCL C, with the same results. The driver compiles each
 * pair from this text when it is first needed.
 */
#ifdef FERRY_FLUSHES_DENORMALS
#error "this device flushes denormal floats to zero, and the host does not"
#endif
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
#define UINT64_C(value) value##ul
#define INT32_MIN       (-2147483647 - 1)
#define INT32_MAX       2147483647
#define INT64_MIN       (-9223372036854775807l - 1)
#define INT64_MAX       9223372036854775807l
#define UINT64_MAX      18446744073709551615ul

#define GLOBAL          __global
#define COUNT_TYPE      ulong /* a kernel takes no size_t */
#define KERNEL          __kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
#define FIRST_INDEX     get_global_id(0)
#define INDEX_STEP      get_global_size(0)

/*
 * Keeps the lowest index. Without atomic operations on 64 bits, the two halves of `*first` are kept
 * apart. A launch searches elements whose indices have the same upper half. It does nothing if an
 * earlier launch has found an element with a lower one, which IS_FOUND reports.
 */
#ifdef cl_khr_int64_extended_atomics
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#define IS_FOUND(first, start) false
#define KEEP_LOWEST(first, index) atom_min(first, index)
#else
#define IS_FOUND(first, start) (((__global volatile uint *)(first))[1] < (uint)((start) >> 32))
#define KEEP_LOWEST(first, index)                                                                  \
    do {                                                                                           \
        ((__global volatile uint *)(first))[1] = (uint)((index) >> 32);                            \
        atomic_min((__global volatile uint *)(first), (uint)(index));                              \
    } while (false)
#endif

/* As SEARCH in kernels.cuh, for a part of an array that begins at the index `start`. The parts are
 * searched in ascending order, and none crosses a multiple of 2^32. */
#define SEARCH(from, to, working)                                                                  \
    KERNEL ferryi_##from##_to_##to##_first_unfit(__global const number_##from *source,             \
                                                 ulong count, __global ulong *first, ulong start)  \
    {                                                                                              \
        size_t i = IS_FOUND(first, start) ? count : FIRST_INDEX;                                   \
        while (i < count && working##_to_##to##_fits(widen_##from(source[i])))                     \
            i += INDEX_STEP;                                                                       \
        if (i < count)                                                                             \
            KEEP_LOWEST(first, start + i);                                                         \
    }

#include "src/convert/kernels.cuh"
