/* SPDX-License-Identifier: MIT */
#include "src/device/gpu/gpu_driver.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/fork.h"

/* The functions in the order of enum ferryi_gpu_call. */
static const struct member {
    size_t offset;
    unsigned int group;
} members[] = {
#define MEMBER(Y, tag, member, parameters)                                                         \
    {offsetof(struct ferryi_gpu_driver, member), FERRYI_GPU_##tag},
    FERRYI_GPU_FUNCTIONS(MEMBER, )
#undef MEMBER
};

const char *
ferryi_gpu_error_name(const struct ferryi_gpu_driver *driver, ferryi_gpu_result error,
                      char buffer[32])
{
    const char *name = NULL;
    if (driver->error_name(error, &name) == FERRYI_GPU_SUCCESS && name)
        return name;
    snprintf(buffer, 32, "%s error %u", driver->vendor->title, error);
    return buffer;
}

static void
find_functions(void *library, struct ferryi_gpu_driver *driver)
{
    for (size_t i = 0; i < FERRYI_GPU_CALL_COUNT; i++) {
        const char *name = driver->vendor->names[i];
        void *address = name ? ferryi_library_symbol(library, name) : NULL;
        /* POSIX guarantees that a void * can hold the address of a function. ISO C defines no cast
         * from void * to a function pointer, so the bytes of the address are copied. */
        memcpy((char *)driver + members[i].offset, &address, sizeof(address));
    }
    if (driver->vendor->adapt)
        driver->vendor->adapt(library, driver);
}

/* Determines the groups of functions that the driver has. A required function without a name is one
 * that Ferry does without. */
static ferry_status
find_groups(const char *library_name, struct ferryi_gpu_driver *driver)
{
    const struct ferryi_gpu_vendor *vendor = driver->vendor;
    unsigned int missing = 0;
    for (size_t i = 0; i < FERRYI_GPU_CALL_COUNT; i++) {
        void *address;
        memcpy(&address, (char *)driver + members[i].offset, sizeof(address));
        driver->groups |= members[i].group;
        if (address || (members[i].group == FERRYI_GPU_REQUIRED && !vendor->names[i]))
            continue;
        missing |= members[i].group;
        if (members[i].group == FERRYI_GPU_REQUIRED)
            return ferryi_fail(FERRY_ERROR_NO_DEVICE,
                               "load the %s driver %s: it has no %s: too old, or another library",
                               vendor->title, library_name, vendor->names[i]);
    }
    driver->groups &= ~missing;
    return FERRY_OK;
}

ferry_status
ferryi_gpu_driver_load(const struct ferryi_gpu_vendor *vendor, const char *library_name,
                       struct ferryi_gpu_driver *out)
{
    char reason[256] = "";
    struct ferryi_gpu_driver driver = {.vendor = vendor};
    void *library = ferryi_library_open(library_name, reason, sizeof(reason));
    if (!library)
        return ferryi_fail(FERRY_ERROR_NO_DEVICE, "load the %s driver: %s", vendor->title, reason);
    find_functions(library, &driver);
    FERRYI_OR_RETURN(find_groups(library_name, &driver));
    ferryi_gpu_result result = driver.init(0);
    if (result != FERRYI_GPU_SUCCESS) {
        char number[32];
        return ferryi_fail(FERRY_ERROR_NO_DEVICE, "start the %s driver %s: %s: %s", vendor->title,
                           library_name, vendor->names[FERRYI_GPU_CALL_init],
                           ferryi_gpu_error_name(&driver, result, number));
    }
    *out = driver;
    return FERRY_OK;
}

/* Loads the first of the vendor's libraries that exists. The message of a failure is about the last
 * library. Loading a library without a device may take a quarter of a second, so the system is
 * asked first. */
static ferry_status
load_usual(const struct ferryi_gpu_vendor *vendor, struct ferryi_gpu_driver *out)
{
    if (vendor->device_file && access(vendor->device_file, F_OK) != 0)
        return ferryi_fail(FERRY_ERROR_NO_DEVICE, "load the %s driver: there is no %s",
                           vendor->title, vendor->device_file);
    ferry_status status = FERRY_ERROR_NO_DEVICE;
    for (size_t i = 0; vendor->library_names[i] && status != FERRY_OK; i++)
        status = ferryi_gpu_driver_load(vendor, vendor->library_names[i], out);
    return status;
}

void
ferryi_gpu_driver_load_usual(const struct ferryi_gpu_vendor *vendor)
{
    struct ferryi_gpu_loaded *loaded = vendor->loaded;
    const char *name = ferryi_getenv(vendor->library_variable);
    loaded->forks = ferryi_fork_count();
    loaded->status = name && name[0] ? ferryi_gpu_driver_load(vendor, name, &loaded->driver)
                                     : load_usual(vendor, &loaded->driver);
    if (loaded->status != FERRY_OK)
        snprintf(loaded->message, sizeof(loaded->message), "%s", ferry_last_error());
}

ferry_status
ferryi_gpu_driver_get(const struct ferryi_gpu_vendor *vendor, const struct ferryi_gpu_driver **out)
{
    struct ferryi_gpu_loaded *loaded = vendor->loaded;
    pthread_once(&loaded->once, vendor->load_once);
    if (loaded->status != FERRY_OK)
        return ferryi_fail(loaded->status, "%s", loaded->message);
    /* A driver cannot be used in the child of a fork. The error is reported here, because a driver
     * call in the child could wait forever for driver threads that exist only in the parent. */
    if (loaded->forks != ferryi_fork_count())
        return ferryi_fail(
            FERRY_ERROR_NO_DEVICE,
            "use the %s driver: it was started in the process that this one was forked from",
            vendor->title);
    *out = &loaded->driver;
    return FERRY_OK;
}
