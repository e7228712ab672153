/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TESTS_HEAP_H
#define FERRY_TESTS_HEAP_H

/* Functions that report the number of bytes on the heap, if the C library counts them. glibc does
 * and musl does not. */

#include <malloc.h>
#include <stddef.h>

#include "src/base/sanitizer.h"

/* 1 if the C library counts the bytes on the heap, otherwise 0. The count needs mallinfo2(), which
 * exists in glibc 2.33 and newer. The malloc() of a sanitizer does not count. */
#define HEAP_IS_COUNTED 0
#if defined(__GLIBC__) && !FERRYI_SANITIZED_MALLOC
#if __GLIBC_PREREQ(2, 33)
#undef HEAP_IS_COUNTED
#define HEAP_IS_COUNTED 1
#endif
#endif

/* Returns the number of allocated bytes, or 0 if the C library does not report it. */
static inline size_t
heap_bytes(void)
{
#if HEAP_IS_COUNTED
    struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
#else
    return 0;
#endif
}

/* Returns free memory to the system. */
static inline void
heap_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* Stops malloc() from filling new memory, even if MALLOC_PERTURB_ requests that. */
static inline void
heap_leave_unfilled(void)
{
#ifdef __GLIBC__
    mallopt(M_PERTURB, 0);
#endif
}

#endif
