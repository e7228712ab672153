/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TESTS_UNWINDER_H
#define FERRY_TESTS_UNWINDER_H

#include <dlfcn.h>
#include <stdbool.h>

/* Returns whether a checked run (FERRY_DEBUG) can name the callers of the library. Naming them
 * needs a library that walks the stack. */
static inline bool
has_unwinder(void)
{
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW);
    if (library)
        dlclose(library);
    return library != NULL;
}

#endif
