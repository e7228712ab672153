/* SPDX-License-Identifier: MIT */
#ifndef TEST_NVTX_TOOL_H
#define TEST_NVTX_TOOL_H

/*
 * A tool that listens to the ranges of the domain "ferry", and to NVTX's memory API as
 * compute-sanitizer does: a library that NVTX loads when NVTX_INJECTION64_PATH names it. It knows
 * the heaps and regions alive, and ends the process when a notification makes no sense:
 * overlapping heaps, a region outside of its heap or over another one, the end of what never began.
 */

#include <stddef.h>

struct nvtx_tool_count {
    size_t heaps, regions;             /* alive */
    size_t heaps_begun, regions_begun; /* ever */
    size_t heap_bytes, region_bytes;   /* alive */
};

/* What it has heard, as functions that a program finds in it with dlsym. */
typedef void nvtx_tool_count_function(struct nvtx_tool_count *out);
/* The bytes of the region that begins there; 0: none. */
typedef size_t nvtx_tool_region_function(const void *pointer);
/* Copies the ranges that were begun since the last call, a line for each, indented by two spaces
 * for each range around it. Returns how many ranges of this thread are open. */
typedef int nvtx_tool_ranges_function(char *text, size_t bytes);

#endif
