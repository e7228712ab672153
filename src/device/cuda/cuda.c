/* SPDX-License-Identifier: MIT */
#include "src/device/cuda/cuda_device.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/base/hold.h"
#include "src/base/machine.h"

/* Converts a driver error to a ferry_status. Returns DEVICE_LOST for every error of which the
 * header cuda.h says that "any further CUDA work will return the same error". */
static ferry_status
status_of(ferryi_cu_result result)
{
#define CASE(name, value, status)                                                                  \
    case (value):                                                                                  \
        return (status);
    switch (result) {
        /* The lint check is off, because consecutive errors often return the same status. */
        FERRYI_CUDA_ERRORS(CASE)    /* NOLINT(bugprone-branch-clone) */
        FERRYI_CUDA_ERRORS_12(CASE) /* NOLINT(bugprone-branch-clone) */
    default:
        return FERRY_ERROR_DEVICE;
    }
}

/* Returns whether the error `result` shows that other code in the process has reset the device. A
 * reset frees Ferry's streams, events and memory. A later call that uses such an object may return
 * INVALID_VALUE, INVALID_HANDLE or INVALID_CONTEXT. A reset also changes the context's id, so the
 * function checks the id after one of these errors. */
static bool
is_reset(const struct ferryi_cuda_device *cuda, ferryi_cu_result result)
{
    unsigned long long id = 0;
    bool dangles = result == FERRYI_CUDA_ERROR_INVALID_VALUE ||
                   result == FERRYI_CUDA_ERROR_INVALID_HANDLE ||
                   result == FERRYI_CUDA_ERROR_INVALID_CONTEXT;
    return dangles && cuda->context_id != 0 &&
           (cuda->driver->cuCtxGetId(cuda->context, &id) != FERRYI_CUDA_SUCCESS ||
            id != cuda->context_id);
}

/* Returns whether the error may mean that the device has fallen off the bus, or that its driver or
 * MPS server has ended. Such an error alone proves nothing, because a call on a working device can
 * also return it. */
static bool
may_mean_gone(ferryi_cu_result result)
{
    switch (result) {
    case FERRYI_CUDA_ERROR_NO_DEVICE:
    case FERRYI_CUDA_ERROR_OPERATING_SYSTEM:
    case FERRYI_CUDA_ERROR_ILLEGAL_STATE:
    case FERRYI_CUDA_ERROR_SYSTEM_NOT_READY:
    case FERRYI_CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case FERRYI_CUDA_ERROR_MPS_CONNECTION_FAILED:
    case FERRYI_CUDA_ERROR_MPS_RPC_FAILURE:
    case FERRYI_CUDA_ERROR_UNKNOWN:
        return true;
    default:
        return false;
    }
}

/* Returns whether the open device no longer works. The function makes a query that succeeds on
 * every working device. */
static bool
is_gone(const struct ferryi_cuda_device *cuda)
{
    ferryi_cu_context current = NULL;
    size_t free_bytes, total_bytes;
    /* If the device's context is not current, the failed call is the one that should have made it
     * current. The query below needs a current context. So the device counts as lost. */
    if (cuda->driver->cuCtxGetCurrent(&current) != FERRYI_CUDA_SUCCESS || current != cuda->context)
        return true;
    ferryi_cu_result result = cuda->driver->cuMemGetInfo_v2(&free_bytes, &total_bytes);
    return may_mean_gone(result) || status_of(result) == FERRY_ERROR_DEVICE_LOST;
}

ferry_status
ferryi_cuda_check(struct ferryi_cuda_device *cuda, const char *call, ferryi_cu_result result)
{
    char number[32];
    if (is_reset(cuda, result))
        result = FERRYI_CUDA_ERROR_CONTEXT_IS_DESTROYED;
    ferry_status st = status_of(result);
    if (st == FERRY_OK)
        return st;
    if (cuda->is_open && may_mean_gone(result) && is_gone(cuda))
        st = FERRY_ERROR_DEVICE_LOST;
    if (st == FERRY_ERROR_DEVICE_LOST) {
        unsigned int none = 0;
        atomic_compare_exchange_strong(&cuda->lost, &none, result);
    }
    const char *why = result == FERRYI_CUDA_ERROR_NOT_PERMITTED
                          ? ": called in a CUDA host function, which may not use the driver"
                          : "";
    return ferryi_fail(st, "%s: %s%s", call, ferryi_cuda_error_name(cuda->driver, result, number),
                       why);
}

static ferry_status
push_context(struct ferryi_cuda_device *cuda)
{
    ferryi_cu_result result = cuda->driver->cuCtxPushCurrent_v2(cuda->context);
    /* Ferry retains the device's context, so the context can be invalid only if other code has
     * reset the device. A reset also frees Ferry's memory, so the device counts as lost. */
    if (result == FERRYI_CUDA_ERROR_INVALID_CONTEXT)
        result = FERRYI_CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return FERRYI_CUDA_CHECK(cuda, cuCtxPushCurrent_v2, result);
}

static ferry_status
make_current(struct ferryi_cuda_device *cuda, bool *out_pushed)
{
    ferryi_cu_context current = NULL;
    if (cuda->driver->cuCtxGetCurrent(&current) == FERRYI_CUDA_SUCCESS && current == cuda->context)
        return FERRY_OK;
    ferry_status st = push_context(cuda);
    *out_pushed = st == FERRY_OK;
    return st;
}

static void
undo(const struct ferryi_cuda_driver *driver, const struct ferryi_cuda_entry *entry)
{
    /* Errors of the driver calls below are ignored. The calls only restore the capture mode and the
     * context that this thread had before. */
    ferryi_cu_capture_mode mode = entry->previous_mode;
    ferryi_cu_context context;
    if (entry->exchanged)
        driver->cuThreadExchangeStreamCaptureMode(&mode);
    if (entry->pushed)
        driver->cuCtxPopCurrent_v2(&context);
}

/* The changes to this thread's driver state that must be undone when the thread's hold ends. A hold
 * (src/base/hold.h) is a series of device calls that share these changes. */
static _Thread_local struct {
    const struct ferryi_cuda_driver *driver; /* NULL: there is nothing to undo */
    ferryi_cu_context context; /* the thread's current context while `driver` is not NULL */
    struct ferryi_cuda_entry entry;
} kept;

static void
clean_up(void)
{
    undo(kept.driver, &kept.entry);
    kept.driver = NULL;
    ferryi_hold_thread.clean_up = NULL;
}

/* Moves changes from `entry` to `kept`, so that they are undone only when the thread's hold
 * (src/base/hold.h) ends. The changes are the thread's capture mode and its current context. Only
 * the first device that the thread uses during the hold leaves its context current. */
static void
keep(const struct ferryi_cuda_device *cuda, struct ferryi_cuda_entry *entry)
{
    if (!kept.driver) {
        kept.driver = cuda->driver;
        kept.context = cuda->context;
        kept.entry = (struct ferryi_cuda_entry){.pushed = entry->pushed};
        entry->pushed = false;
        ferryi_hold_thread.clean_up = clean_up;
    }
    if (entry->exchanged && kept.driver == cuda->driver) {
        kept.entry.exchanged = true;
        kept.entry.previous_mode = entry->previous_mode;
        entry->exchanged = false;
    }
}

ferry_status
ferryi_cuda_enter(struct ferryi_cuda_device *cuda, enum ferryi_cuda_mode mode,
                  struct ferryi_cuda_entry *out)
{
    char number[32];
    unsigned int lost = atomic_load_explicit(&cuda->lost, memory_order_acquire);
    if (lost)
        return ferryi_fail(FERRY_ERROR_DEVICE_LOST, "the device was lost to %s",
                           ferryi_cuda_error_name(cuda->driver, lost, number));
    const bool held = kept.driver == cuda->driver;
    *out = (struct ferryi_cuda_entry){.previous_mode = FERRYI_CU_STREAM_CAPTURE_MODE_RELAXED};
    if (!held || kept.context != cuda->context)
        FERRYI_OR_RETURN(make_current(cuda, &out->pushed));
    if (mode == FERRYI_CUDA_ASIDE && !(held && kept.entry.exchanged) &&
        (cuda->driver->groups & FERRYI_CUDA_CAPTURE))
        out->exchanged = cuda->driver->cuThreadExchangeStreamCaptureMode(&out->previous_mode) ==
                         FERRYI_CUDA_SUCCESS;
    if (ferryi_hold_thread.depth > 0)
        keep(cuda, out);
    return FERRY_OK;
}

void
ferryi_cuda_leave(struct ferryi_cuda_device *cuda, const struct ferryi_cuda_entry *entry)
{
    undo(cuda->driver, entry);
}

/* -- primary contexts that the process retains after their devices are closed, one bit for each
 * ordinal; the context of a lost device is released -- */

static _Atomic uint64_t kept_contexts;

static uint64_t
kept_bit(int ordinal)
{
    return ordinal < 64 ? (uint64_t)1 << ordinal : 0;
}

static void
keep_context(struct ferryi_cuda_device *cuda)
{
    uint64_t bit = kept_bit(cuda->ordinal);
    ferryi_cu_context context;
    cuda->is_kept = true;
    if (bit && !(atomic_fetch_or(&kept_contexts, bit) & bit) &&
        cuda->driver->cuDevicePrimaryCtxRetain(&context, cuda->device) != FERRYI_CUDA_SUCCESS)
        atomic_fetch_and(&kept_contexts, ~bit);
}

static void
release_kept(const struct ferryi_cuda_driver *driver, int ordinal)
{
    uint64_t bit = kept_bit(ordinal);
    ferryi_cu_device device;
    if ((atomic_fetch_and(&kept_contexts, ~bit) & bit) &&
        driver->cuDeviceGet(&device, ordinal) == FERRYI_CUDA_SUCCESS)
        driver->cuDevicePrimaryCtxRelease_v2(device);
}

void
ferryi_cuda_release_kept(void)
{
    const struct ferryi_cuda_driver *driver;
    for (int ordinal = 0; atomic_load(&kept_contexts) != 0 && ordinal < 64; ordinal++)
        if (ferryi_cuda_driver_get(&driver) == FERRY_OK)
            release_kept(driver, ordinal);
}

/* -- the device -- */

static void
close_device(ferryi_device *device)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferryi_cuda_functions_close(cuda);
    if (cuda->context) {
        ferryi_cu_result result = cuda->driver->cuDevicePrimaryCtxRelease_v2(cuda->device);
        if (result != FERRYI_CUDA_SUCCESS) {
            char number[32];
            ferryi_log(&cuda->log, FERRY_LOG_ERROR,
                       "close cuda:%d: cuDevicePrimaryCtxRelease_v2: %s", cuda->ordinal,
                       ferryi_cuda_error_name(cuda->driver, result, number));
        }
        if (cuda->is_kept && atomic_load(&cuda->lost))
            release_kept(cuda->driver, cuda->ordinal);
    }
    ferryi_mutex_destroy(&cuda->launch_mutex);
    free(cuda);
}

ferry_status
ferryi_cuda_memory_info(ferryi_device *device, size_t *out_free, size_t *out_total)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    ferry_status st;
    size_t free_bytes = 0, total_bytes = 0;
    FERRYI_CUDA_RUN(st, cuda, FERRYI_CUDA_ASIDE, cuMemGetInfo_v2, &free_bytes, &total_bytes);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "get the free memory of cuda:%d", cuda->ordinal);
    /* On an integrated device, the driver counts the system's page cache as used memory. Ferry
     * therefore also asks the system how much memory is available. */
    if (cuda->integrated)
        free_bytes = ferryi_max_size(free_bytes, (size_t)ferryi_machine_available(""));
    *out_free = ferryi_min_size(free_bytes, total_bytes);
    *out_total = total_bytes;
    return FERRY_OK;
}

ferry_status
ferryi_cuda_synchronize(ferryi_device *device)
{
    struct ferryi_cuda_device *cuda = ferryi_cuda_of(device);
    struct ferryi_cuda_entry entry;
    ferry_status st = ferryi_cuda_enter(cuda, FERRYI_CUDA_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_CUDA_CHECK(cuda, cuCtxSynchronize, cuda->driver->cuCtxSynchronize());
        ferryi_cuda_leave(cuda, &entry);
    }
    return FERRYI_CUDA_TELL(st, "wait for all work of cuda:%d", cuda->ordinal);
}

#define SLOT(slot) .slot = ferryi_cuda_##slot,

static const struct ferryi_device_ops cuda_ops = {.close = close_device, FERRYI_DEVICE_SLOTS(SLOT)};

/* -- opening -- */

static ferry_status
read_properties(struct ferryi_cuda_device *cuda)
{
    struct ferryi_device_properties *properties = &cuda->base.properties;
    ferry_status st;
    int major = 0, minor = 0;

    FERRY_TRY(st, fail,
              FERRYI_CUDA_CALL(cuda, cuDeviceGetName, properties->name,
                               (int)sizeof(properties->name), cuda->device));
    FERRY_TRY(st, fail,
              FERRYI_CUDA_CALL(cuda, cuDeviceTotalMem_v2, &properties->total_bytes, cuda->device));
    FERRY_TRY(st, fail, FERRYI_CUDA_CALL(cuda, cuDriverGetVersion, &properties->driver_version));
    FERRY_TRY(st, fail,
              FERRYI_CUDA_CALL(cuda, cuDeviceGetAttribute, &major,
                               FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, cuda->device));
    FERRY_TRY(st, fail,
              FERRYI_CUDA_CALL(cuda, cuDeviceGetAttribute, &minor,
                               FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, cuda->device));
    properties->architecture = 10 * major + minor;
    properties->native = cuda->ordinal;
    properties->language = FERRY_LANGUAGE_CUDA;
    snprintf(properties->target, sizeof(properties->target), "sm_%d", properties->architecture);
fail:
    return st;
}

/* Returns the value of an attribute, or `unknown` if the driver does not know the attribute. */
static int
attribute_of(const struct ferryi_cuda_device *cuda, ferryi_cu_device_attribute attribute,
             int unknown)
{
    int value;
    return cuda->driver->cuDeviceGetAttribute(&value, attribute, cuda->device) ==
                   FERRYI_CUDA_SUCCESS
               ? value
               : unknown;
}

/* Returns whether the device has the feature. A feature whose attribute the driver does not know
 * counts as absent. */
static bool
has_attribute(const struct ferryi_cuda_device *cuda, ferryi_cu_device_attribute attribute)
{
    return attribute_of(cuda, attribute, 0) != 0;
}

static bool
has_peer(const struct ferryi_cuda_device *cuda)
{
    int count = 0;
    if (cuda->driver->cuDeviceGetCount(&count) != FERRYI_CUDA_SUCCESS)
        return false;
    for (int i = 0; i < count; i++) {
        ferryi_cu_device other;
        int can = 0;
        if (i != cuda->ordinal && cuda->driver->cuDeviceGet(&other, i) == FERRYI_CUDA_SUCCESS &&
            cuda->driver->cuDeviceCanAccessPeer(&can, cuda->device, other) == FERRYI_CUDA_SUCCESS &&
            can)
            return true;
    }
    return false;
}

static uint64_t
read_capabilities(const struct ferryi_cuda_device *cuda)
{
    uint64_t can =
        FERRY_CAN_PIN | FERRY_CAN_LOAD_CODE | FERRY_CAN_COMPILE | FERRYI_DEVICE_FREE_WAITS;
    unsigned int groups = cuda->driver->groups;
    /* If a device has no concurrent access, the host must not touch managed memory while any kernel
     * of the process runs. Ferry cannot make the rest of the program obey this rule. So such a
     * device reports that it has no managed memory. */
    if (has_attribute(cuda, FERRYI_CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) &&
        has_attribute(cuda, FERRYI_CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
        can |= FERRY_CAN_MANAGE;
    if ((can & FERRY_CAN_MANAGE) && (groups & (FERRYI_CUDA_PREFETCH_8 | FERRYI_CUDA_PREFETCH_12_2)))
        can |= FERRY_CAN_MANAGE_CONCURRENTLY;
    if (!has_attribute(cuda, FERRYI_CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM))
        can |= FERRYI_DEVICE_TRANSLATES;
    /* A driver that does not know the attribute HOST_REGISTER_SUPPORTED can register host memory
     * for all its devices. */
    if (attribute_of(cuda, FERRYI_CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1) == 0)
        can |= FERRYI_DEVICE_NO_REGISTER;
    if (groups & (FERRYI_CUDA_BATCH_12_8 | FERRYI_CUDA_BATCH_13))
        can |= FERRY_CAN_BATCH;
    if (groups & FERRYI_CUDA_CAPTURE)
        can |= FERRY_CAN_CAPTURE;
    /* Peer access is checked with all devices of the machine, because it is not yet known which of
     * them the context will open. */
    if (has_peer(cuda))
        can |= FERRY_CAN_PEER;
    /* If the device walks the host's page tables, kernels may use any host memory. Copies are
     * unnecessary only if device and host share the physical memory, too. A discrete device on a
     * coherent link, such as GH200, has separate, fast memory, so copying data into that memory
     * pays off. */
    if (has_attribute(cuda,
                      FERRYI_CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES))
        can |= cuda->integrated ? FERRYI_DEVICE_COHERENT : FERRYI_DEVICE_TAKES_PAGEABLE;
    return can;
}

/* Reads the bandwidth of the device's link and the number of the NUMA node nearest to the device.
 * The system reports both values for the device's PCI address. If the driver also reports a NUMA
 * node, the driver's value is used. */
static void
read_place(struct ferryi_cuda_device *cuda)
{
    char address[32];
    int node = attribute_of(cuda, FERRYI_CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
    int domain = attribute_of(cuda, FERRYI_CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, -1);
    int bus = attribute_of(cuda, FERRYI_CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, -1);
    int slot = attribute_of(cuda, FERRYI_CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, -1);
    if (node >= 0)
        cuda->base.host_node = (unsigned)node + 1;
    if (domain < 0 || bus < 0 || slot < 0)
        return;
    snprintf(address, sizeof(address), "%04x:%02x:%02x.0", (unsigned)domain, (unsigned)bus,
             (unsigned)slot);
    cuda->base.link_bytes = ferryi_machine_link("", address);
    if (cuda->base.host_node == 0)
        cuda->base.host_node = (unsigned)(ferryi_machine_node("", address) + 1);
}

ferry_status
ferryi_cuda_open_on(const struct ferryi_cuda_driver *driver, int ordinal,
                    const struct ferryi_device_config *config, ferryi_device **out)
{
    ferry_status st;
    struct ferryi_cuda_device *cuda = calloc(1, sizeof(*cuda));
    if (!cuda)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open cuda:%d: no host memory", ordinal);
    cuda->driver = driver;
    cuda->ordinal = ordinal;
    cuda->log = config->log;
    cuda->base.ops = &cuda_ops;
    cuda->base.kind = "cuda";
    cuda->base.default_stream = FERRYI_CU_STREAM_LEGACY;
    cuda->base.per_thread_stream = FERRYI_CU_STREAM_PER_THREAD;
    cuda->base.default_is_null = true;
    ferryi_mutex_init(&cuda->launch_mutex);

    FERRY_TRY(st, fail, FERRYI_CUDA_CALL(cuda, cuDeviceGet, &cuda->device, ordinal));
    FERRY_TRY(st, fail, read_properties(cuda));
    FERRY_TRY(st, fail,
              FERRYI_CUDA_CALL(cuda, cuDevicePrimaryCtxRetain, &cuda->context, cuda->device));
    cuda->base.properties.native_context = cuda->context;
    if (driver->groups & FERRYI_CUDA_CONTEXT_ID)
        FERRY_TRY(st, fail, FERRYI_CUDA_CALL(cuda, cuCtxGetId, cuda->context, &cuda->context_id));
    cuda->integrated = has_attribute(cuda, FERRYI_CU_DEVICE_ATTRIBUTE_INTEGRATED);
    cuda->registers_read_only =
        has_attribute(cuda, FERRYI_CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
    cuda->base.capabilities = read_capabilities(cuda);
    if (config->cuda_without_batches)
        cuda->base.capabilities &= ~(uint64_t)FERRY_CAN_BATCH;
    read_place(cuda);
    cuda->is_open = true;
    *out = &cuda->base;
    return FERRY_OK;

fail:
    ferryi_fail_in(st, "open cuda:%d", ordinal);
    close_device(&cuda->base);
    return st;
}

static ferry_status
open_device(int ordinal, const struct ferryi_device_config *config, ferryi_device **out)
{
    const struct ferryi_cuda_driver *driver;
    ferry_status st = ferryi_cuda_driver_get(&driver);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "open cuda:%d", ordinal);
    st = ferryi_cuda_open_on(driver, ordinal, config, out);
    if (st == FERRY_OK)
        keep_context(ferryi_cuda_of(*out));
    return st;
}

static int
count_devices(void)
{
    const struct ferryi_cuda_driver *driver;
    char number[32];
    int count = 0;
    if (ferryi_cuda_driver_get(&driver) != FERRY_OK)
        return 0;
    ferryi_cu_result result = driver->cuDeviceGetCount(&count);
    if (result != FERRYI_CUDA_SUCCESS) {
        ferryi_fail(FERRY_ERROR_NO_DEVICE, "count CUDA devices: cuDeviceGetCount: %s",
                    ferryi_cuda_error_name(driver, result, number));
        return 0;
    }
    if (count == 0)
        ferryi_fail(FERRY_ERROR_NO_DEVICE, "count CUDA devices: the driver has none");
    return count;
}

/* By default, the driver lists the fastest device first, so ordinal 0 is the best device. The
 * environment variable CUDA_DEVICE_ORDER can change the order. */
const ferryi_device_kind ferryi_cuda_kind = {.name = "cuda",
                                             .count = count_devices,
                                             .open = open_device,
                                             .made_up = false,
                                             .language = FERRY_LANGUAGE_CUDA,
                                             .code_check = ferryi_cuda_code_check};
