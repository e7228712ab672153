/* SPDX-License-Identifier: MIT */
#ifndef BENCH_HEAPS_H
#define BENCH_HEAPS_H

#include <stddef.h>

/*
 * General-purpose allocators as peers: the C library's, and each of tcmalloc, jemalloc and mimalloc
 * that is installed. Each is loaded as a separate library and called through pointers to its malloc
 * and free. The program's own malloc and free are not replaced.
 */

enum { HEAPS_MAX = 4 };

struct heap {
    const char *name;
    void *(*take)(size_t bytes);
    void (*give)(void *memory);
};

/*
 * Some allocators need more space for thread-local variables than glibc reserves for libraries that
 * are loaded later. This function executes the program again with GLIBC_TUNABLES, which enlarges
 * that space. It must be the first call in main(). It returns only in the second run, or if the
 * program cannot be executed again.
 */
void heaps_prepare(char **argv);

/* Loads the installed allocators, and prints the missing ones on standard output. @return the
 * number of allocators that were loaded */
size_t heaps_open(struct heap out[HEAPS_MAX]);

#endif
