/* SPDX-License-Identifier: MIT */
/* clang and llvm-spirv make the SPIR-V of test_opencl.c from this kernel. */
__kernel void
twice(__global int *x, ulong count)
{
    for (ulong i = get_global_id(0); i < count; i += get_global_size(0))
        x[i] *= 7;
}
