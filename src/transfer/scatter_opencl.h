/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SCATTER_OPENCL_H
#define FERRYI_SCATTER_OPENCL_H

/* The kernel of scatter_cuda.cu in OpenCL C, which has no pointers in structs: each work-group
 * copies one piece of memory. */
static const char ferryi_scatter_opencl[] =
    "struct entry { ulong target, source, bytes; };\n"
    "#define COPY(unit)                                               \\\n"
    "    for (ulong i = first; i < e.bytes / sizeof(unit); i += step) \\\n"
    "        ((__global unit *)e.target)[i] = ((__global const unit *)e.source)[i];\n"
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void\n"
    "ferry_scatter(__global const struct entry *entries)\n"
    "{\n"
    "    const struct entry e = entries[get_group_id(0)];\n"
    "    const ulong step = get_local_size(0), first = get_local_id(0);\n"
    "    const ulong lies = e.target | e.source;\n"
    "    ulong done = 0;\n"
    "    if ((lies & 15) == 0) {\n"
    "        COPY(uint4)\n"
    "        done = e.bytes & ~15ul;\n"
    "    } else if ((lies & 3) == 0) {\n"
    "        COPY(uint)\n"
    "        done = e.bytes & ~3ul;\n"
    "    }\n"
    "    for (ulong i = done + first; i < e.bytes; i += step)\n"
    "        ((__global uchar *)e.target)[i] = ((__global const uchar *)e.source)[i];\n"
    "}\n";

#endif
