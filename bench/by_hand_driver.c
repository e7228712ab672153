/* SPDX-License-Identifier: MIT */
#include "by_hand_driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

bool
by_hand_driver_load(struct by_hand_driver *out)
{
    const char *name = getenv("FERRY_CUDA_LIBRARY");
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library || !dlsym(library, "fakecuda_calls"))
        return false;
#define FIND(name, parameters)                                                                     \
    {                                                                                              \
        void *address = dlsym(library, #name);                                                     \
        if (!address)                                                                              \
            return false;                                                                          \
        memcpy(&out->name, &address, sizeof(address));                                             \
    }
    BY_HAND_DRIVER(FIND)
#undef FIND
    return true;
}
