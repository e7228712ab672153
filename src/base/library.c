/* SPDX-License-Identifier: MIT */
#include "src/base/base.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/stat.h>

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

void
ferryi_library_mark(const void *address, uint64_t out[3])
{
    Dl_info info;
    struct stat file = {0};
    if (dladdr(address, &info) == 0 || stat(info.dli_fname, &file) != 0)
        file = (struct stat){0};
    out[0] = (uint64_t)file.st_size;
    out[1] = (uint64_t)file.st_mtim.tv_sec;
    out[2] = (uint64_t)file.st_mtim.tv_nsec;
}

void
ferryi_address_describe(const void *address, char *text, size_t text_bytes)
{
    Dl_info info;
    if (!address || dladdr(address, &info) == 0) {
        snprintf(text, text_bytes, "%p", address);
        return;
    }
    const char *base = info.dli_sname ? info.dli_saddr : info.dli_fbase;
    snprintf(text, text_bytes, "%s+0x%zx (%s)", info.dli_sname ? info.dli_sname : "",
             (size_t)((const char *)address - base), info.dli_fname);
}
