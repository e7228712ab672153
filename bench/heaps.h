/* SPDX-License-Identifier: MIT */
#ifndef BENCH_HEAPS_H
#define BENCH_HEAPS_H

#include <stddef.h>

/*
 * General-purpose allocators with which Ferry's pool is compared: the C library's allocator, and
 * each of tcmalloc, jemalloc and mimalloc that is installed. Each allocator is loaded as a separate
 * library. The benchmark calls its malloc and free through pointers, so the program's malloc and
 * free are not replaced.
 */

enum { HEAPS_MAX = 4 };

struct heap {
    const char *name;
    void *(*take)(size_t bytes);
    void (*give)(void *memory);
};

/*
 * Executes the program again with GLIBC_TUNABLES set, so that glibc reserves more space for thread-
 * local variables of libraries that are loaded later. Some allocators need this space. Must be the
 * first call in main(). Returns only in the program that was executed again, or on failure.
 */
void heaps_prepare(char **argv);

/* Loads the allocators that are installed. Prints the names of the missing ones on standard output.
 * @return the number of allocators that were loaded */
size_t heaps_open(struct heap out[HEAPS_MAX]);

#endif
