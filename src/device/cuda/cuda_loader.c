/* SPDX-License-Identifier: MIT */
#include "src/device/cuda/cuda_loader.h"

#include <stdio.h>
#include <string.h>

#include "src/base/fork.h"

static const struct symbol {
    const char *name;
    size_t offset;
    unsigned int group;
} symbols[] = {
#define SYMBOL(tag, function, parameters)                                                          \
    {#function, offsetof(struct ferryi_cuda_driver, function), tag},
    FERRYI_CUDA_SYMBOLS(SYMBOL)
#undef SYMBOL
};

const char *
ferryi_cuda_error_name(const struct ferryi_cuda_driver *driver, ferryi_cu_result error,
                       char buffer[32])
{
    const char *name = NULL;
    if (driver->cuGetErrorName(error, &name) == FERRYI_CUDA_SUCCESS && name)
        return name;
    snprintf(buffer, 32, "CUDA error %u", error);
    return buffer;
}

static ferry_status
find_symbols(void *library, const char *library_name, struct ferryi_cuda_driver *out)
{
    unsigned int missing = 0;
    out->groups = 0;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        const struct symbol *symbol = &symbols[i];
        void *address = ferryi_library_symbol(library, symbol->name);
        /* POSIX guarantees that a void * can hold the address of a function. ISO C defines no cast
         * from void * to a function pointer, so the bytes of the address are copied. */
        memcpy((char *)out + symbol->offset, &address, sizeof(address));
        out->groups |= symbol->group;
        if (address)
            continue;
        missing |= symbol->group;
        if (symbol->group == FERRYI_CUDA_REQUIRED)
            return ferryi_fail(FERRY_ERROR_NO_DEVICE,
                               "load the CUDA driver %s: it has no %s: too old, or another library",
                               library_name, symbol->name);
    }
    out->groups &= ~missing;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_driver_load(const char *library_name, struct ferryi_cuda_driver *out)
{
    char reason[256] = "";
    struct ferryi_cuda_driver driver = {0};
    void *library = ferryi_library_open(library_name, reason, sizeof(reason));
    if (!library)
        return ferryi_fail(FERRY_ERROR_NO_DEVICE, "load the CUDA driver: %s", reason);
    FERRYI_OR_RETURN(find_symbols(library, library_name, &driver));
    ferryi_cu_result result = driver.cuInit(0);
    if (result != FERRYI_CUDA_SUCCESS) {
        char number[32];
        return ferryi_fail(FERRY_ERROR_NO_DEVICE, "start the CUDA driver %s: cuInit: %s",
                           library_name, ferryi_cuda_error_name(&driver, result, number));
    }
    *out = driver;
    return FERRY_OK;
}

/* Holds the result of loading the driver. load_once() sets it once per process, and afterwards it
 * stays constant. */
static struct {
    pthread_once_t once;
    struct ferryi_cuda_driver driver;
    ferry_status status;
    char message[512];
    unsigned forks; /* value of ferryi_fork_count() when the driver was loaded; a different value
                       means that this process is a forked child */
} loaded = {.once = PTHREAD_ONCE_INIT};

static void
load_once(void)
{
    const char *name = ferryi_getenv("FERRY_CUDA_LIBRARY");
    loaded.forks = ferryi_fork_count();
    loaded.status =
        ferryi_cuda_driver_load(name && name[0] ? name : "libcuda.so.1", &loaded.driver);
    if (loaded.status != FERRY_OK)
        snprintf(loaded.message, sizeof(loaded.message), "%s", ferry_last_error());
}

ferry_status
ferryi_cuda_driver_get(const struct ferryi_cuda_driver **out)
{
    pthread_once(&loaded.once, load_once);
    if (loaded.status != FERRY_OK)
        return ferryi_fail(loaded.status, "%s", loaded.message);
    /* CUDA cannot be used in the child of a fork. The error is reported here, because a driver call
     * in the child could wait forever for driver threads that exist only in the parent. */
    if (loaded.forks != ferryi_fork_count())
        return ferryi_fail(
            FERRY_ERROR_NO_DEVICE,
            "use the CUDA driver: it was started in the process that this one was forked from");
    *out = &loaded.driver;
    return FERRY_OK;
}
