/* SPDX-License-Identifier: MIT */
#include "heaps.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *library;
} others[] = {
    {"tcmalloc", "libtcmalloc_minimal.so.4"},
    {"jemalloc", "libjemalloc.so.2"},
    {"mimalloc", "libmimalloc.so.2"},
};

enum { OTHERS = sizeof(others) / sizeof(others[0]) };
_Static_assert(OTHERS + 1 == HEAPS_MAX, "and the C library's");

void
heaps_prepare(char **argv)
{
    static const char tunable[] = "glibc.rtld.optional_static_tls=16384";
    const char *set = getenv("GLIBC_TUNABLES");
    char program[4096], tunables[1024];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length < 0 || (set && strstr(set, tunable)))
        return;
    program[length] = 0;
    snprintf(tunables, sizeof(tunables), "%s%s%s", set ? set : "", set && *set ? ":" : "", tunable);
    if (setenv("GLIBC_TUNABLES", tunables, 1) == 0)
        execv(program, argv);
}

/* Looks up a function in a library. dlsym() returns an object pointer, so memcpy() copies its value
 * into the function pointer. */
static void *
symbol(void *library, const char *name, void *function, size_t bytes)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, bytes);
    return address;
}

size_t
heaps_open(struct heap out[HEAPS_MAX])
{
    size_t count = 1;
    out[0] = (struct heap){"glibc", malloc, free};
    for (size_t i = 0; i < OTHERS; i++) {
        struct heap heap = {.name = others[i].name};
        void *library = dlopen(others[i].library, RTLD_NOW | RTLD_LOCAL);
        if (library && symbol(library, "malloc", &heap.take, sizeof(heap.take)) &&
            symbol(library, "free", &heap.give, sizeof(heap.give)))
            out[count++] = heap;
        else
            printf("no peer %s: %s\n", others[i].name, dlerror());
    }
    return count;
}
