/* SPDX-License-Identifier: MIT */
/*
 * The scatter kernel: each block of threads copies one piece of memory. Source and target of a
 * piece may be in any memory that the device can access, including pinned host memory.
 * scatter_cuda.h is this file as PTX, which every driver since CUDA 6.5 accepts;
 * tests/lint/scatter.py --update generates it with clang 14:
 *
 *     clang -x cuda --cuda-device-only --cuda-gpu-arch=sm_50 -nocudainc -nocudalib -O1
 *         -fno-unroll-loops -S scatter_cuda.cu
 */
#define __global__ __attribute__((global))
typedef unsigned long long size;
typedef unsigned vec __attribute__((ext_vector_type(4)));

struct entry {
    char *target;
    const char *source;
    size bytes;
};

extern "C" __global__ void
ferry_scatter(const entry *entries)
{
    const entry e = entries[__nvvm_read_ptx_sreg_ctaid_x()];
    size step = __nvvm_read_ptx_sreg_ntid_x(), first = __nvvm_read_ptx_sreg_tid_x(), done = 0;
    size lies = (size)e.target | (size)e.source;
    if ((lies & 15) == 0) {
        done = e.bytes & ~(size)15;
        for (size i = first; i < done / 16; i += step)
            ((vec *)e.target)[i] = ((const vec *)e.source)[i];
    } else if ((lies & 3) == 0) {
        done = e.bytes & ~(size)3;
        for (size i = first; i < done / 4; i += step)
            ((unsigned *)e.target)[i] = ((const unsigned *)e.source)[i];
    }
    for (size i = done + first; i < e.bytes; i += step)
        e.target[i] = e.source[i];
}
