/* SPDX-License-Identifier: MIT */
/*
 * The conversion loops of kernels.c for CUDA devices, with the same results. nvcc compiles them for
 * all pairs of types (kernels.cu). If the library was built without nvcc, NVRTC compiles each pair
 * from this text when it is first needed, and for HIP devices hiprtc does. The text is also valid
 * C: a test defines the macro KERNEL and the macros below it, and runs the same loops on the host.
 * kernels.cl makes OpenCL C of it.
 *
 * The compiler must not contract or reorder floating-point arithmetic in a kernel: every step is
 * one that IEEE 754 defines, as on the host.
 */
#ifdef __HIPCC_RTC__
#define __CUDACC__
#define __CUDACC_RTC__
/* Atomic operations on host memory go through PCI Express, which has this one and no minimum. */
#define KEEP_LOWEST(memory, value) keep_lowest(memory, value)
static __device__ void
keep_lowest(unsigned long long *memory, unsigned long long value)
{
    unsigned long long seen = *memory;
    while (value < seen) {
        const unsigned long long before = atomicCAS(memory, seen, value);
        if (before == seen)
            return;
        seen = before;
    }
}
#endif
#ifdef __CUDACC_RTC__
/* The kernels of one pair of types use few of these functions, and NVRTC would warn about each
 * unused one. */
#pragma nv_diag_suppress 177
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef uint64_t uintptr_t;
#define UINT64_C(value) value##ull
#define INT32_MIN       (-2147483647 - 1)
#define INT32_MAX       2147483647
#define INT64_MIN       (-9223372036854775807ll - 1)
#define INT64_MAX       9223372036854775807ll
#define UINT64_MAX      18446744073709551615ull
#endif

#include "src/convert/scalar.h"

#define INTEGER_STEPS
#include "src/convert/convert_pairs.h"
#undef INTEGER_STEPS

#ifdef __CUDACC__
#define KERNEL      extern "C" __global__ void __launch_bounds__(256)
#define FIRST_INDEX ((size_t)blockIdx.x * blockDim.x + threadIdx.x)
#define INDEX_STEP  ((size_t)gridDim.x * blockDim.x)
#ifndef KEEP_LOWEST
#define KEEP_LOWEST(memory, value) atomicMin(memory, value)
#endif
#endif
#ifndef GLOBAL
#define GLOBAL     /* address space of an array */
#define COUNT_TYPE size_t
#endif

/* A vector of `count` elements. The macro LOOP uses as many elements as fit in 16 bytes of the
 * wider type. 16 bytes are the most that one instruction loads or stores. */
#define VECTOR_OF(number, count)                                                                   \
    struct __attribute__((aligned(sizeof(number) * count))) {                                      \
        number at[count];                                                                          \
    }
#define WIDER(from, to) (sizeof(from) > sizeof(to) ? sizeof(from) : sizeof(to))

/* Converts an array in a grid-stride loop over vectors. A remainder of elements at the end, and
 * arrays that are not aligned to vectors, are converted one element at a time. */
#define LOOP(from, to, working, how)                                                               \
    KERNEL ferryi_##from##_to_##to##_##how(GLOBAL number_##to *target,                             \
                                           GLOBAL const number_##from *source, COUNT_TYPE count)   \
    {                                                                                              \
        enum { GROUP = 16 / WIDER(number_##from, number_##to) };                                   \
        typedef VECTOR_OF(number_##from, GROUP) vector_in;                                         \
        typedef VECTOR_OF(number_##to, GROUP) vector_out;                                          \
        GLOBAL const vector_in *in = (GLOBAL const vector_in *)(GLOBAL const void *)source;        \
        GLOBAL vector_out *out = (GLOBAL vector_out *)(GLOBAL void *)target;                       \
        bool aligned =                                                                             \
            (uintptr_t)source % sizeof(*in) == 0 && (uintptr_t)target % sizeof(*out) == 0;         \
        size_t groups = aligned ? count / GROUP : 0;                                               \
        for (size_t i = FIRST_INDEX; i < groups; i += INDEX_STEP) {                                \
            vector_in x = in[i];                                                                   \
            vector_out y;                                                                          \
            for (int j = 0; j < GROUP; j++)                                                        \
                y.at[j] = working##_to_##to##_##how(widen_##from(x.at[j]));                        \
            out[i] = y;                                                                            \
        }                                                                                          \
        for (size_t i = groups * GROUP + FIRST_INDEX; i < count; i += INDEX_STEP)                  \
            target[i] = working##_to_##to##_##how(widen_##from(source[i]));                        \
    }

/* Finds the lowest index of an element that does not fit the target type. `*first` must initially
 * exceed every index. Each thread can stop at the first such element that it finds, because it
 * visits indices in ascending order. */
#ifndef SEARCH
#define SEARCH(from, to, working)                                                                  \
    KERNEL ferryi_##from##_to_##to##_first_unfit(const number_##from *source, size_t count,        \
                                                 unsigned long long *first)                        \
    {                                                                                              \
        size_t i = FIRST_INDEX;                                                                    \
        while (i < count && working##_to_##to##_fits(widen_##from(source[i])))                     \
            i += INDEX_STEP;                                                                       \
        if (i < count)                                                                             \
            KEEP_LOWEST(first, (unsigned long long)i);                                             \
    }
#endif

#define PAIR_EXACT(from, to, working)   LOOP(from, to, working, nearest)
#define PAIR_CLAMPED(from, to, working) LOOP(from, to, working, nearest) SEARCH(from, to, working)
#define PAIR_INEXACT(from, to, working)                                                            \
    LOOP(from, to, working, nearest) LOOP(from, to, working, toward_zero)
#define PAIR_ROUNDED(from, to, working) PAIR_INEXACT(from, to, working) SEARCH(from, to, working)
/* The macro ignores `way`, which says how the host vectorises a pair. */
#define PAIR(form, way, from, to, working) PAIR_##form(from, to, working)
