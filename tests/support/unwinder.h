/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TESTS_UNWINDER_H
#define FERRY_TESTS_UNWINDER_H

#include <dlfcn.h>
#include <stdbool.h>

/* Returns whether debug runs (FERRY_DEBUG) can report the callers of Ferry by name. This needs
 * libgcc_s, which walks the stack. */
static inline bool
has_unwinder(void)
{
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW);
    if (library)
        dlclose(library);
    return library != NULL;
}

#endif
