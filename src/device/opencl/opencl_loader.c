/* SPDX-License-Identifier: MIT */
#include "src/device/opencl/opencl_loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fork.h"

static const struct symbol {
    const char *name;
    size_t offset;
    unsigned int group;
} symbols[] =
    {
#define SYMBOL(tag, result, function, parameters)                                                  \
    {#function, offsetof(struct ferryi_opencl_driver, function), tag},
        FERRYI_OPENCL_SYMBOLS(SYMBOL)
#undef SYMBOL
},
  usm_symbols[] = {
#define SYMBOL(result, function, parameters)                                                       \
    {#function, offsetof(struct ferryi_opencl_usm, function), 0},
      FERRYI_OPENCL_USM_SYMBOLS(SYMBOL)
#undef SYMBOL
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *
ferryi_opencl_error_name(ferryi_cl_int error, char buffer[32])
{
    switch (error) {
#define NAME(name, value, status)                                                                  \
    case (value):                                                                                  \
        return #name;
        FERRYI_OPENCL_ERRORS(NAME)
#undef NAME
    default:
        snprintf(buffer, 32, "OpenCL error %d", error);
        return buffer;
    }
}

uint64_t
ferryi_opencl_number(const struct ferryi_opencl_driver *driver, ferryi_cl_device device,
                     ferryi_cl_uint name)
{
    /* A driver writes 4 or 8 bytes. All supported devices and hosts are little endian. */
    uint64_t value = 0;
    return driver->clGetDeviceInfo(device, name, sizeof(value), &value, NULL) == FERRYI_CL_SUCCESS
               ? value
               : 0;
}

/* -- the process's list of devices ------------------------------------------------------------- */

#define PLATFORMS_MAX 16

/* load_once() sets all members once per process, and afterwards they stay constant. */
static struct {
    pthread_once_t once;
    struct ferryi_opencl_driver driver;
    struct ferryi_opencl_platform platforms[PLATFORMS_MAX];
    struct ferryi_opencl_list list;
    enum ferryi_opencl_model most; /* the last memory model that the environment allows */
    ferry_status status;
    char message[512];
    unsigned forks; /* value of ferryi_fork_count() when OpenCL was loaded */
} loaded = {.once = PTHREAD_ONCE_INIT};

static ferry_status
find_symbols(void *library, const char *name)
{
    unsigned int missing = 0;
    for (size_t i = 0; i < COUNT(symbols); i++) {
        void *address = ferryi_library_symbol(library, symbols[i].name);
        memcpy((char *)&loaded.driver + symbols[i].offset, &address, sizeof(address));
        loaded.driver.groups |= symbols[i].group;
        missing |= address ? 0 : symbols[i].group;
        if (!address && symbols[i].group == FERRYI_OPENCL_REQUIRED)
            return ferryi_fail(FERRY_ERROR_NO_DEVICE,
                               "load OpenCL from %s: it has no %s: too old, or another library",
                               name, symbols[i].name);
    }
    loaded.driver.groups &= ~missing;
    return FERRY_OK;
}

static void
find_usm(struct ferryi_opencl_platform *platform)
{
    platform->has_usm = true;
    for (size_t i = 0; i < COUNT(usm_symbols); i++) {
        void *address = loaded.driver.clGetExtensionFunctionAddressForPlatform(platform->native,
                                                                               usm_symbols[i].name);
        memcpy((char *)&platform->usm + usm_symbols[i].offset, &address, sizeof(address));
        platform->has_usm = platform->has_usm && address;
    }
}

static bool
has_extension(ferryi_cl_device device, const char *name)
{
    size_t bytes = 0;
    if (loaded.driver.clGetDeviceInfo(device, FERRYI_CL_DEVICE_EXTENSIONS, 0, NULL, &bytes) !=
        FERRYI_CL_SUCCESS)
        return false;
    char *text = calloc(1, bytes + 1);
    const bool has = text &&
                     loaded.driver.clGetDeviceInfo(device, FERRYI_CL_DEVICE_EXTENSIONS, bytes, text,
                                                   NULL) == FERRYI_CL_SUCCESS &&
                     strstr(text, name);
    free(text);
    return has;
}

/* Returns the best memory model of a device that the environment allows. */
static enum ferryi_opencl_model
find_model(const struct ferryi_opencl_platform *platform, ferryi_cl_device device)
{
    const struct ferryi_opencl_driver *driver = &loaded.driver;
    const uint64_t svm =
        (driver->groups & FERRYI_OPENCL_2_0)
            ? ferryi_opencl_number(driver, device, FERRYI_CL_DEVICE_SVM_CAPABILITIES)
            : 0;
    if (loaded.most >= FERRYI_OPENCL_USM && platform->has_usm &&
        has_extension(device, "cl_intel_unified_shared_memory") &&
        (ferryi_opencl_number(driver, device, FERRYI_CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL) &
         1) &&
        (ferryi_opencl_number(driver, device, FERRYI_CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL) & 1))
        return FERRYI_OPENCL_USM;
    if (loaded.most >= FERRYI_OPENCL_FINE && (svm & FERRYI_CL_DEVICE_SVM_FINE_GRAIN_BUFFER))
        return FERRYI_OPENCL_FINE;
    return svm & FERRYI_CL_DEVICE_SVM_COARSE_GRAIN_BUFFER ? FERRYI_OPENCL_COARSE
                                                          : FERRYI_OPENCL_NO_MODEL;
}

/* Describes a device. Returns false if Ferry cannot use it. */
static bool
describe(struct ferryi_opencl_platform *platform, ferryi_cl_device device,
         struct ferryi_opencl_entry *out)
{
    static const ferryi_cl_uint required[] = {FERRYI_CL_DEVICE_AVAILABLE,
                                              FERRYI_CL_DEVICE_COMPILER_AVAILABLE,
                                              FERRYI_CL_DEVICE_ENDIAN_LITTLE};
    for (size_t i = 0; i < COUNT(required); i++)
        if (!ferryi_opencl_number(&loaded.driver, device, required[i]))
            return false;
    *out = (struct ferryi_opencl_entry){.platform = platform, .device = device};
    out->type = ferryi_opencl_number(&loaded.driver, device, FERRYI_CL_DEVICE_TYPE);
    out->model = find_model(platform, device);
    return out->model != FERRYI_OPENCL_NO_MODEL &&
           ferryi_opencl_number(&loaded.driver, device, FERRYI_CL_DEVICE_ADDRESS_BITS) == 64;
}

/* Adds the devices of a platform to the list, and creates their context. Ignores a platform that
 * cannot create one. */
static void
list_platform(struct ferryi_opencl_platform *platform)
{
    ferryi_cl_device devices[FERRYI_OPENCL_DEVICES_MAX], usable[FERRYI_OPENCL_DEVICES_MAX];
    ferryi_cl_uint count = 0, used = 0;
    ferryi_cl_int result;
    const int before = loaded.list.count;
    if (loaded.driver.clGetDeviceIDs(platform->native, FERRYI_CL_DEVICE_TYPE_ALL,
                                     FERRYI_OPENCL_DEVICES_MAX, devices,
                                     &count) != FERRYI_CL_SUCCESS)
        return;
    for (ferryi_cl_uint i = 0; i < count && i < FERRYI_OPENCL_DEVICES_MAX; i++)
        if (loaded.list.count < FERRYI_OPENCL_DEVICES_MAX &&
            describe(platform, devices[i], &loaded.list.entries[loaded.list.count])) {
            loaded.list.count++;
            usable[used++] = devices[i];
        }
    if (used == 0)
        return;
    const ferryi_cl_property properties[] = {FERRYI_CL_CONTEXT_PLATFORM,
                                             (ferryi_cl_property)platform->native, 0};
    platform->context =
        loaded.driver.clCreateContext(properties, used, usable, NULL, NULL, &result);
    if (!platform->context)
        loaded.list.count = before;
}

static int
rank_of(const struct ferryi_opencl_entry *entry)
{
    if (entry->type & FERRYI_CL_DEVICE_TYPE_GPU)
        return 0;
    return entry->type & FERRYI_CL_DEVICE_TYPE_CPU ? 2 : 1;
}

/* Sorts by insertion, which keeps the drivers' order of devices of one rank. */
static void
sort_list(void)
{
    struct ferryi_opencl_entry *entries = loaded.list.entries;
    for (int i = 1; i < loaded.list.count; i++) {
        const struct ferryi_opencl_entry entry = entries[i];
        int k = i;
        for (; k > 0 && rank_of(&entries[k - 1]) > rank_of(&entry); k--)
            entries[k] = entries[k - 1];
        entries[k] = entry;
    }
}

static ferry_status
list_platforms(void)
{
    ferryi_cl_platform natives[PLATFORMS_MAX];
    ferryi_cl_uint count = 0;
    char number[32];
    const ferryi_cl_int result = loaded.driver.clGetPlatformIDs(PLATFORMS_MAX, natives, &count);
    if (result != FERRYI_CL_SUCCESS || count == 0)
        return ferryi_fail(FERRY_ERROR_NO_DEVICE, "list OpenCL platforms: clGetPlatformIDs: %s",
                           result ? ferryi_opencl_error_name(result, number) : "there is none");
    for (ferryi_cl_uint i = 0; i < count && i < PLATFORMS_MAX; i++) {
        struct ferryi_opencl_platform *platform = &loaded.platforms[i];
        platform->native = natives[i];
        loaded.driver.clGetPlatformInfo(natives[i], FERRYI_CL_PLATFORM_NAME,
                                        sizeof(platform->name) - 1, platform->name, NULL);
        find_usm(platform);
        list_platform(platform);
    }
    sort_list();
    if (loaded.list.count == 0)
        return ferryi_fail(FERRY_ERROR_NO_DEVICE,
                           "list OpenCL devices: none of %u platforms has one with a compiler and "
                           "shared virtual memory",
                           count);
    return FERRY_OK;
}

/* Reads the memory model that FERRY_OPENCL_MEMORY allows at most. */
static ferry_status
read_most(void)
{
    static const char *const names[] = {[FERRYI_OPENCL_COARSE] = "coarse",
                                        [FERRYI_OPENCL_FINE] = "fine",
                                        [FERRYI_OPENCL_USM] = "usm"};
    const char *wanted = ferryi_getenv("FERRY_OPENCL_MEMORY");
    loaded.most = FERRYI_OPENCL_USM;
    if (!wanted || !*wanted)
        return FERRY_OK;
    for (int model = FERRYI_OPENCL_COARSE; model <= FERRYI_OPENCL_USM; model++)
        if (strcmp(wanted, names[model]) == 0) {
            loaded.most = (enum ferryi_opencl_model)model;
            return FERRY_OK;
        }
    return ferryi_fail(FERRY_ERROR_NO_DEVICE,
                       "load OpenCL: FERRY_OPENCL_MEMORY is \"%s\", and not coarse, fine or usm",
                       wanted);
}

static ferry_status
load(void)
{
    char reason[256] = "";
    const char *wanted = ferryi_getenv("FERRY_OPENCL_LIBRARY");
    const char *name = wanted && *wanted ? wanted : "libOpenCL.so.1";
    FERRYI_OR_RETURN(read_most());
    void *library = ferryi_library_open(name, reason, sizeof(reason));
    if (!library)
        return ferryi_fail(FERRY_ERROR_NO_DEVICE, "load OpenCL: %s", reason);
    FERRYI_OR_RETURN(find_symbols(library, name));
    loaded.list.driver = &loaded.driver;
    return list_platforms();
}

static void
load_once(void)
{
    loaded.forks = ferryi_fork_count();
    loaded.status = load();
    if (loaded.status != FERRY_OK)
        snprintf(loaded.message, sizeof(loaded.message), "%s", ferry_last_error());
}

ferry_status
ferryi_opencl_list_get(const struct ferryi_opencl_list **out)
{
    pthread_once(&loaded.once, load_once);
    if (loaded.status != FERRY_OK)
        return ferryi_fail(loaded.status, "%s", loaded.message);
    /* Most drivers have threads, which the child of a fork does not have: a call could wait for
     * them forever. */
    if (loaded.forks != ferryi_fork_count())
        return ferryi_fail(
            FERRY_ERROR_NO_DEVICE,
            "use OpenCL: it was started in the process that this one was forked from");
    *out = &loaded.list;
    return FERRY_OK;
}
