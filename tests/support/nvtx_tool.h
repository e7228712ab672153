/* SPDX-License-Identifier: MIT */
#ifndef TEST_NVTX_TOOL_H
#define TEST_NVTX_TOOL_H

/*
 * A tool for NVTX that receives the ranges of the domain "ferry" and the calls of the memory API,
 * as compute-sanitizer does. It is a library that NVTX loads if NVTX_INJECTION64_PATH names it. It
 * records live heaps and regions. It ends the process at an invalid call: overlapping heaps, a
 * region outside its heap or over a different region, or the end of a range that never began.
 */

#include <stddef.h>

struct nvtx_tool_count {
    size_t heaps, regions;             /* numbers of live ones */
    size_t heaps_begun, regions_begun; /* numbers of all so far */
    size_t heap_bytes, region_bytes;   /* bytes of live ones */
};

/* Types of functions that return the recorded data. A program looks the functions up in the tool
 * with dlsym. */
typedef void nvtx_tool_count_function(struct nvtx_tool_count *out);
/* Returns the number of bytes of the region that begins at `pointer`, or 0 if there is none. */
typedef size_t nvtx_tool_region_function(const void *pointer);
/* Copies the names of the ranges that began since the last call. Each name is a line, indented by
 * two spaces for each enclosing range. Returns the number of open ranges of this thread. */
typedef int nvtx_tool_ranges_function(char *text, size_t bytes);

#endif
