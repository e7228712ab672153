/* SPDX-License-Identifier: MIT */
#ifndef TEST_NVTX_TOOL_H
#define TEST_NVTX_TOOL_H

/*
 * An NVTX tool that receives the ranges of the domain "ferry" and the calls of the memory API, just
 * as compute-sanitizer does. NVTX loads this library if NVTX_INJECTION64_PATH names it. The tool
 * records live heaps and regions, which are NVTX's words for the slabs of a pool and their
 * allocated blocks. It ends the process if two heaps overlap, if a region is outside its heap or
 * overlaps a different region, or if a range ends that never began.
 */

#include <stddef.h>

struct nvtx_tool_count {
    size_t heaps, regions;             /* numbers of live ones */
    size_t heaps_begun, regions_begun; /* numbers of all so far */
    size_t heap_bytes, region_bytes;   /* bytes of live ones */
};

/* Types of the tool's functions that return the recorded data. A program finds these functions with
 * dlsym(). */
typedef void nvtx_tool_count_function(struct nvtx_tool_count *out);
/* Returns the number of bytes of the region that begins at `pointer`, or 0 if no region begins
 * there. */
typedef size_t nvtx_tool_region_function(const void *pointer);
/* Copies the names of the ranges that began since the previous call. Each name is a line that is
 * indented by two spaces for each enclosing range. Returns the number of ranges that this thread
 * has open. */
typedef int nvtx_tool_ranges_function(char *text, size_t bytes);

#endif
