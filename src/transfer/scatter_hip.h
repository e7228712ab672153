/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SCATTER_HIP_H
#define FERRYI_SCATTER_HIP_H

/* The kernel of scatter_cuda.cu in HIP C++, which has images for single targets only. */
static const char ferryi_scatter_hip[] =
    "struct entry { char *target; const char *source; size_t bytes; };\n"
    "#define COPY(unit)                                                   \\\n"
    "    for (size_t i = threadIdx.x; i < done / sizeof(unit); i += step) \\\n"
    "        ((unit *)e.target)[i] = ((const unit *)e.source)[i];\n"
    "extern \"C\" __global__ void __launch_bounds__(128)\n"
    "ferry_scatter(const entry *entries)\n"
    "{\n"
    "    const entry e = entries[blockIdx.x];\n"
    "    const size_t step = blockDim.x, lies = (size_t)e.target | (size_t)e.source;\n"
    "    size_t done = 0;\n"
    "    if ((lies & 15) == 0) {\n"
    "        done = e.bytes & ~(size_t)15;\n"
    "        COPY(uint4)\n"
    "    } else if ((lies & 3) == 0) {\n"
    "        done = e.bytes & ~(size_t)3;\n"
    "        COPY(unsigned)\n"
    "    }\n"
    "    for (size_t i = done + threadIdx.x; i < e.bytes; i += step)\n"
    "        e.target[i] = e.source[i];\n"
    "}\n";

#endif
