/* SPDX-License-Identifier: MIT */
#include "by_hand_driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const char *
by_hand_driver_find(void *library, struct by_hand_driver *out)
{
#define FIND(name, parameters)                                                                     \
    {                                                                                              \
        void *address = dlsym(library, #name);                                                     \
        if (!address)                                                                              \
            return #name;                                                                          \
        memcpy(&out->name, &address, sizeof(address));                                             \
    }
    BY_HAND_DRIVER(FIND)
#undef FIND
    return NULL;
}

bool
by_hand_driver_load_fake(struct by_hand_driver *out)
{
    const char *name = getenv("FERRY_CUDA_LIBRARY");
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    return library && dlsym(library, "fakecuda_calls") && !by_hand_driver_find(library, out);
}
