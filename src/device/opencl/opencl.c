/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/device/opencl/opencl_device.h"

static ferry_status
status_of(ferryi_cl_int result)
{
    switch (result) {
#define CASE(name, value, status)                                                                  \
    case (value):                                                                                  \
        return (status);
        FERRYI_OPENCL_ERRORS(CASE) /* NOLINT(bugprone-branch-clone) */
#undef CASE
    default:
        return FERRY_ERROR_DEVICE;
    }
}

ferry_status
ferryi_opencl_check(struct ferryi_opencl_device *opencl, const char *call, ferryi_cl_int result)
{
    char number[32];
    if (result == FERRYI_CL_SUCCESS)
        return FERRY_OK;
    const ferry_status status = status_of(result);
    if (status == FERRY_ERROR_DEVICE_LOST)
        atomic_store(&opencl->is_lost, true);
    return ferryi_fail(status, "%s on opencl:%d: %s", call, opencl->ordinal,
                       ferryi_opencl_error_name(result, number));
}

ferry_status
ferryi_opencl_refuse(const struct ferryi_opencl_device *opencl, const char *call)
{
    return ferryi_fail(FERRY_ERROR_DEVICE_LOST,
                       "%s on opencl:%d: not called, because the device is lost", call,
                       opencl->ordinal);
}

/* -- the device -------------------------------------------------------------------------------- */

ferry_status
ferryi_opencl_memory_info(ferryi_device *device, size_t *out_free, size_t *out_total)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    const size_t total = device->properties.total_bytes, used = atomic_load(&opencl->used_bytes);
    uint64_t free_kib[2] = {0};
    size_t unused = used < total ? total - used : 0;
    /* Only AMD's driver reports what other processes leave free. */
    if (opencl->driver->clGetDeviceInfo(opencl->device, FERRYI_CL_DEVICE_GLOBAL_FREE_MEMORY_AMD,
                                        sizeof(free_kib), free_kib, NULL) == FERRYI_CL_SUCCESS)
        unused = ferryi_min_size(free_kib[0] << 10, total);
    *out_free = unused;
    *out_total = total;
    return FERRY_OK;
}

static void
close_device(ferryi_device *device)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    ferryi_opencl_streams_close(opencl);
    ferryi_opencl_rows_close(opencl);
    ferryi_opencl_memory_close(opencl);
    if (opencl->service)
        opencl->driver->clReleaseCommandQueue(opencl->service);
    ferryi_mutex_destroy(&opencl->mutex);
    free(opencl);
}

static uint64_t
number_of(const struct ferryi_opencl_device *opencl, ferryi_cl_uint name)
{
    return ferryi_opencl_number(opencl->driver, opencl->device, name);
}

/* Reads the beginning of a text that a device reports. Drivers fill only space for the whole text.
 */
static void
read_text(const struct ferryi_opencl_device *opencl, ferryi_cl_uint name, char *text, size_t bytes)
{
    const struct ferryi_opencl_driver *driver = opencl->driver;
    size_t whole_bytes = 0;
    *text = 0;
    if (driver->clGetDeviceInfo(opencl->device, name, 0, NULL, &whole_bytes) != FERRYI_CL_SUCCESS)
        return;
    char *whole = calloc(1, whole_bytes + 1);
    if (whole && driver->clGetDeviceInfo(opencl->device, name, whole_bytes, whole, NULL) ==
                     FERRYI_CL_SUCCESS)
        snprintf(text, bytes, "%s", whole);
    free(whole);
}

/* Reads the properties of which the target consists: code is compiled for a device and a driver. */
static void
read_names(struct ferryi_opencl_device *opencl)
{
    struct ferryi_device_properties *properties = &opencl->base.properties;
    char name[96], version[32];
    read_text(opencl, FERRYI_CL_DEVICE_NAME, name, sizeof(name));
    read_text(opencl, FERRYI_CL_DRIVER_VERSION, version, sizeof(version));
    snprintf(properties->name, sizeof(properties->name), "%.*s, %.*s", 80, name, 40,
             opencl->platform->name);
    snprintf(properties->target, sizeof(properties->target), "%s, driver %s", name, version);
}

static void
read_properties(struct ferryi_opencl_device *opencl)
{
    struct ferryi_device_properties *properties = &opencl->base.properties;
    char il_version[8];
    read_names(opencl);
    properties->native = opencl->ordinal;
    properties->language = FERRY_LANGUAGE_OPENCL;
    properties->native_context = opencl->platform->context;
    properties->total_bytes = (size_t)number_of(opencl, FERRYI_CL_DEVICE_GLOBAL_MEM_SIZE);
    opencl->most_bytes = (size_t)number_of(opencl, FERRYI_CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    const uint64_t floats = number_of(opencl, FERRYI_CL_DEVICE_SINGLE_FP_CONFIG);
    opencl->rounds_division = floats & FERRYI_CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    opencl->has_denormals = floats & FERRYI_CL_FP_DENORM;
    opencl->reaches_host = number_of(opencl, FERRYI_CL_DEVICE_SVM_CAPABILITIES) &
                           FERRYI_CL_DEVICE_SVM_FINE_GRAIN_SYSTEM;
    read_text(opencl, FERRYI_CL_DEVICE_IL_VERSION, il_version, sizeof(il_version));
    opencl->takes_spirv = (opencl->driver->groups & FERRYI_OPENCL_IL) && *il_version;
}

static uint64_t
read_capabilities(const struct ferryi_opencl_device *opencl)
{
    uint64_t can = FERRY_CAN_LOAD_CODE | FERRY_CAN_COMPILE | FERRY_CAN_RUN_HOST_FUNCTION |
                   FERRY_CAN_BATCH | FERRY_CAN_PEER | FERRY_CAN_PIN | FERRYI_DEVICE_NO_REGISTER;
    if (!opencl->calls_wait)
        can |= FERRYI_DEVICE_CALLS_APART;
    if (opencl->model >= FERRYI_OPENCL_FINE)
        can |= FERRY_CAN_MANAGE;
    else
        can |= FERRYI_DEVICE_PINNED_APART;
    if (number_of(opencl, FERRYI_CL_DEVICE_HOST_UNIFIED_MEMORY))
        can |= FERRYI_DEVICE_TAKES_PAGEABLE;
    return can;
}

/* Finds out how host functions are run. FERRY_OPENCL_CALLS overrides what the driver can do. */
static ferry_status
choose_calls(struct ferryi_opencl_device *opencl)
{
    const char *wanted = ferryi_getenv("FERRY_OPENCL_CALLS");
    if (wanted && *wanted) {
        opencl->calls_wait = strcmp(wanted, "wait") == 0;
        if (!opencl->calls_wait && strcmp(wanted, "thread") != 0)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "FERRY_OPENCL_CALLS is \"%s\", and not thread or wait", wanted);
        return FERRY_OK;
    }
    opencl->calls_wait = !ferryi_opencl_calls_test(opencl);
    if (opencl->calls_wait)
        ferryi_log(&opencl->log, FERRY_LOG_WARNING,
                   "opencl:%d: the driver stops a queue while another one waits for a host "
                   "function, so that each host function waits for the work before it",
                   opencl->ordinal);
    return FERRY_OK;
}

static ferry_status
start(struct ferryi_opencl_device *opencl)
{
    FERRYI_OR_RETURN(ferryi_opencl_queue_create(opencl, false, &opencl->service));
    FERRYI_OR_RETURN(choose_calls(opencl));
    opencl->base.capabilities = read_capabilities(opencl);
    return ferryi_opencl_stream_create(&opencl->base, &opencl->base.default_stream);
}

/* Returns the functions of the device. Those that OpenCL has no counterpart of stay unsupported. */
static struct ferryi_device_ops
make_ops(void)
{
    struct ferryi_device_ops ops = ferryi_unsupported_ops;
    ops.close = close_device;
#define SET(slot) ops.slot = ferryi_opencl_##slot;
    FERRYI_OPENCL_SLOTS(SET)
#undef SET
    return ops;
}

static ferry_status
open_device(int ordinal, const struct ferryi_device_config *config, ferryi_device **out)
{
    const struct ferryi_opencl_list *list;
    ferry_status status = ferryi_opencl_list_get(&list);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "open opencl:%d", ordinal);
    const struct ferryi_opencl_entry *entry = &list->entries[ordinal];
    struct ferryi_opencl_device *opencl = calloc(1, sizeof(*opencl));
    if (!opencl)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open opencl:%d: no host memory", ordinal);
    opencl->ops = make_ops();
    opencl->base.ops = &opencl->ops;
    opencl->base.kind = "opencl";
    opencl->driver = list->driver;
    opencl->platform = entry->platform;
    opencl->base.group = entry->platform; /* platforms have no common OpenCL context */
    opencl->device = entry->device;
    opencl->model = entry->model;
    opencl->ordinal = ordinal;
    opencl->log = config->log;
    ferryi_mutex_init(&opencl->mutex);
    read_properties(opencl);
    status = start(opencl);
    if (status != FERRY_OK) {
        close_device(&opencl->base);
        return ferryi_fail_in(status, "open opencl:%d", ordinal);
    }
    *out = &opencl->base;
    return FERRY_OK;
}

static int
count_devices(void)
{
    const struct ferryi_opencl_list *list;
    return ferryi_opencl_list_get(&list) == FERRY_OK ? list->count : 0;
}

const ferryi_device_kind ferryi_opencl_kind = {.name = "opencl",
                                               .count = count_devices,
                                               .open = open_device,
                                               .made_up = false,
                                               .language = FERRY_LANGUAGE_OPENCL};
