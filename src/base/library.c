/* SPDX-License-Identifier: MIT */
#include "src/base/base.h"

#include <dlfcn.h>
#include <stdio.h>

void *
ferryi_library_open(const char *name, char *reason, size_t reason_bytes)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library && reason && reason_bytes > 0) {
        const char *why = dlerror();
        snprintf(reason, reason_bytes, "%s", why ? why : "unknown reason");
    }
    return library;
}

void *
ferryi_library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}
