# SPDX-License-Identifier: MIT
"""How the languages of devices spell what kernels consist of."""

from ferry_layout import CUDA_SCALARS, OPENCL_SCALARS

# Threads of a block of every launch. A compiler for HIP otherwise leaves registers for 1024, and one for OpenCL does not know any number.
BLOCK = 256

# Of (kind, bits): the least and the greatest value, in C, CUDA and OpenCL C.
LIMITS = {
    ("float", 32): ("-INFINITY", "INFINITY"), ("float", 64): ("-(double)INFINITY", "(double)INFINITY"),
    ("int", 8): ("-127 - 1", "127"), ("uint", 8): ("0", "255"), ("int", 16): ("-32767 - 1", "32767"), ("uint", 16): ("0", "65535"),
    ("int", 32): ("-2147483647 - 1", "2147483647"), ("uint", 32): ("0", "4294967295u"),
    ("int", 64): ("-9223372036854775807 - 1", "9223372036854775807"), ("uint", 64): ("0", "18446744073709551615u"),
}
CUDA_INFINITY = {"-INFINITY": "-__int_as_float(0x7f800000)", "INFINITY": "__int_as_float(0x7f800000)",
                 "-(double)INFINITY": "-__longlong_as_double(0x7ff0000000000000)",
                 "(double)INFINITY": "__longlong_as_double(0x7ff0000000000000)"}


class Dialect:
    """How a language of devices spells what kernels consist of."""

    def __init__(self, name, **words):
        self.name = name
        self.__dict__.update(words)

    def scalar(self, element):
        return self.scalars.get((element.kind, element.bits), element.c_type)

    def value(self, element):
        """The type of a variable or a function, which may be bool everywhere."""
        return "bool" if element.kind == "bool" else self.scalar(element)

    def head(self, name, declarations):
        return f"{self.kernel}\n{name}({', '.join(declarations)})\n{{\n"

    def strided(self, index, end):
        return f"    for (size_t {index} = {self.first}; {index} < {end}; {index} += {self.step}) {{\n"


CUDA = Dialect("cuda", kernel=f'extern "C" __global__ void __launch_bounds__({BLOCK})', function="static __device__", scalars=CUDA_SCALARS, memory="", shared="__shared__",
               first="blockIdx.x * (size_t)blockDim.x + threadIdx.x", step="(size_t)gridDim.x * blockDim.x", thread="threadIdx.x",
               block="blockIdx.x", blocks="gridDim.x", threads="blockDim.x", barrier="__syncthreads();", fence="__threadfence();",
               ticket="atomicAdd((unsigned int *)scratch_, 1u)", size="size_t", infinity=CUDA_INFINITY)
OPENCL = Dialect("opencl", kernel=f"__kernel __attribute__((reqd_work_group_size({BLOCK}, 1, 1))) void", function="static", scalars=OPENCL_SCALARS, memory="__global ", shared="__local",
                 first="get_global_id(0)", step="get_global_size(0)", thread="get_local_id(0)", block="get_group_id(0)",
                 blocks="get_num_groups(0)", threads="get_local_size(0)", barrier="barrier(CLK_LOCAL_MEM_FENCE);",
                 fence="mem_fence(CLK_GLOBAL_MEM_FENCE);", ticket="atomic_inc((volatile __global uint *)scratch_)", size="ferry_size", infinity={})


def indented(text, spaces=0):
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines())
