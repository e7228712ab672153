/* SPDX-License-Identifier: MIT */
#ifndef BENCH_HEAPS_H
#define BENCH_HEAPS_H

#include <stddef.h>

/*
 * General-purpose allocators as peers: the C library's, and those of tcmalloc, jemalloc and
 * mimalloc where they are installed. Each is loaded beside the others and used through its own
 * malloc and free; the program's own are not replaced.
 */

enum { HEAPS_MAX = 4 };

struct heap {
    const char *name;
    void *(*take)(size_t bytes);
    void (*give)(void *memory);
};

/*
 * Some need more room for thread-local variables than a program leaves for libraries that come
 * late: run the program again with enough, as glibc takes it from GLIBC_TUNABLES. Call it first in
 * main; it returns in the second run, or where that cannot be done.
 */
void heaps_prepare(char **argv);

/* Those that are here; says on standard output which are not. @return how many */
size_t heaps_open(struct heap out[HEAPS_MAX]);

#endif
