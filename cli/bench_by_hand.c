/* SPDX-License-Identifier: MIT */
#include "cli/bench_by_hand.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/by_hand_driver.h"

static struct by_hand_driver loaded;

static bool
failed(const char *what)
{
    fprintf(stderr, "ferry bench: cannot call the driver directly: %s\n", what);
    return false;
}

static bool
load(struct by_hand *by_hand)
{
    const char *name = secure_getenv("FERRY_CUDA_LIBRARY");
    by_hand->library = dlopen(name && *name ? name : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!by_hand->library)
        return failed(dlerror());
    const char *missing = by_hand_driver_find(by_hand->library, &loaded);
    if (missing) {
        char text[96];
        snprintf(text, sizeof(text), "%s is missing", missing);
        return failed(text);
    }
    by_hand->driver = &loaded;
    return true;
}

bool
by_hand_open(struct by_hand *out, const ferry_place_info *info)
{
    void *context;

    memset(out, 0, sizeof(*out));
    if (strcmp(info->kind, "cuda") != 0)
        return true;
    if (!load(out))
        return false;
    if (loaded.cuInit(0) != 0 || loaded.cuDeviceGet(&out->device, info->native) != 0)
        return failed("cuDeviceGet");
    if (loaded.cuDevicePrimaryCtxRetain(&context, out->device) != 0)
        return failed("cuDevicePrimaryCtxRetain");
    out->context = context;
    return loaded.cuCtxPushCurrent_v2(context) == 0 || failed("cuCtxPushCurrent_v2");
}

void
by_hand_close(struct by_hand *by_hand)
{
    void *context;

    /* The library is not closed: Ferry uses it too, and its threads would not survive that. */
    if (!by_hand->context)
        return;
    (void)loaded.cuCtxPopCurrent_v2(&context);
    (void)loaded.cuDevicePrimaryCtxRelease_v2(by_hand->device);
    by_hand->context = NULL;
}

void *
by_hand_allocate(const struct by_hand *by_hand, size_t bytes)
{
    uint64_t memory = 0;

    if (!by_hand->driver)
        return malloc(bytes);
    return by_hand->driver->cuMemAlloc_v2(&memory, bytes) == 0 ? (void *)(uintptr_t)memory : NULL;
}

void
by_hand_free(const struct by_hand *by_hand, void *memory)
{
    if (!by_hand->driver)
        free(memory);
    else if (memory)
        (void)by_hand->driver->cuMemFree_v2((uint64_t)(uintptr_t)memory);
}

bool
by_hand_upload(const struct by_hand *by_hand, void *device, const void *host, size_t bytes)
{
    if (!by_hand->driver) {
        memcpy(device, host, bytes);
        return true;
    }
    return by_hand->driver->cuMemcpyHtoDAsync_v2((uint64_t)(uintptr_t)device, host, bytes, NULL) ==
               0 &&
           by_hand->driver->cuStreamSynchronize(NULL) == 0;
}

bool
by_hand_download(const struct by_hand *by_hand, void *host, const void *device, size_t bytes)
{
    if (!by_hand->driver) {
        memcpy(host, device, bytes);
        return true;
    }
    return by_hand->driver->cuMemcpyDtoHAsync_v2(host, (uint64_t)(uintptr_t)device, bytes, NULL) ==
               0 &&
           by_hand->driver->cuStreamSynchronize(NULL) == 0;
}
