/* SPDX-License-Identifier: MIT */
#include "src/device/gpu/gpu_device.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/base/hold.h"
#include "src/base/machine.h"
#include "src/device/image.h"

/* Converts a driver error to a ferry_status. Returns DEVICE_LOST for every error that all later
 * calls of the process return, too. */
static ferry_status
status_of(ferryi_gpu_result result)
{
#define CASE(Y, name, value, status)                                                               \
    case (value):                                                                                  \
        return (status);
    switch (result) {
    case FERRYI_GPU_SUCCESS:
        return FERRY_OK;
        /* The lint check is off, because consecutive errors often return the same status. */
        FERRYI_GPU_ERRORS(CASE, )       /* NOLINT(bugprone-branch-clone) */
        FERRYI_GPU_LATER_ERRORS(CASE, ) /* NOLINT(bugprone-branch-clone) */
    default:
        return FERRY_ERROR_DEVICE;
    }
}

/* Returns whether the error `result` shows that other code in the process has reset the device. A
 * reset frees Ferry's streams, events and memory. A later call that uses such an object may return
 * INVALID_VALUE, INVALID_HANDLE or INVALID_CONTEXT. A reset also changes the context's id, so the
 * function checks the id after one of these errors. */
static bool
is_reset(const struct ferryi_gpu_device *gpu, ferryi_gpu_result result)
{
    unsigned long long id = 0;
    bool dangles = result == FERRYI_GPU_ERROR_INVALID_VALUE ||
                   result == FERRYI_GPU_ERROR_INVALID_HANDLE ||
                   result == FERRYI_GPU_ERROR_INVALID_CONTEXT;
    return dangles && gpu->context_id != 0 &&
           (gpu->driver->context_id(gpu->context, &id) != FERRYI_GPU_SUCCESS ||
            id != gpu->context_id);
}

/* Returns whether the error may mean that the device has fallen off the bus, or that its driver or
 * MPS server has ended. Such an error alone proves nothing, because a call on a working device can
 * also return it. */
static bool
may_mean_gone(ferryi_gpu_result result)
{
    switch (result) {
    case FERRYI_GPU_ERROR_NO_DEVICE:
    case FERRYI_GPU_ERROR_OPERATING_SYSTEM:
    case FERRYI_GPU_ERROR_ILLEGAL_STATE:
    case FERRYI_GPU_ERROR_SYSTEM_NOT_READY:
    case FERRYI_GPU_ERROR_SYSTEM_DRIVER_MISMATCH:
    case FERRYI_GPU_ERROR_MPS_CONNECTION_FAILED:
    case FERRYI_GPU_ERROR_MPS_RPC_FAILURE:
    case FERRYI_GPU_ERROR_UNKNOWN:
        return true;
    default:
        return false;
    }
}

/* Returns whether the open device no longer works. The function makes a query that succeeds on
 * every working device. */
static bool
is_gone(const struct ferryi_gpu_device *gpu)
{
    ferryi_gpu_context current = NULL;
    size_t free_bytes, total_bytes;
    /* If the device's context is not current, the failed call is the one that should have made it
     * current. The query below needs a current context. So the device counts as lost. */
    if (gpu->driver->context_current(&current) != FERRYI_GPU_SUCCESS || current != gpu->context)
        return true;
    ferryi_gpu_result result = gpu->driver->memory_info(&free_bytes, &total_bytes);
    return may_mean_gone(result) || status_of(result) == FERRY_ERROR_DEVICE_LOST;
}

/* Returns what the error of the call means, if its name does not say so; otherwise "". */
static const char *
cause_of(enum ferryi_gpu_call call, ferryi_gpu_result result)
{
    const bool opens = call == FERRYI_GPU_CALL_memory_open || call == FERRYI_GPU_CALL_event_open;
    if (result == FERRYI_GPU_ERROR_NOT_PERMITTED)
        return ": called in a host function of a stream, which may not use the driver";
    if (opens && result == FERRYI_GPU_ERROR_INVALID_CONTEXT)
        return ": this process shares it itself";
    if (opens &&
        (result == FERRYI_GPU_ERROR_INVALID_VALUE || result == FERRYI_GPU_ERROR_INVALID_HANDLE ||
         result == FERRYI_GPU_ERROR_MAP_FAILED))
        return ": no other process shares it, or does so no longer";
    return "";
}

ferry_status
ferryi_gpu_check(struct ferryi_gpu_device *gpu, enum ferryi_gpu_call call, ferryi_gpu_result result)
{
    char number[32];
    if (is_reset(gpu, result))
        result = FERRYI_GPU_ERROR_CONTEXT_IS_DESTROYED;
    ferry_status st = status_of(result);
    if (st == FERRY_OK)
        return st;
    if (gpu->is_open && may_mean_gone(result) && is_gone(gpu))
        st = FERRY_ERROR_DEVICE_LOST;
    if (st == FERRY_ERROR_DEVICE_LOST) {
        unsigned int none = 0;
        atomic_compare_exchange_strong(&gpu->lost, &none, result);
    }
    return ferryi_fail(st, "%s: %s%s", gpu->driver->vendor->names[call],
                       ferryi_gpu_error_name(gpu->driver, result, number), cause_of(call, result));
}

void
ferryi_gpu_log_undo(const struct ferryi_gpu_device *gpu, const char *what, ferry_status status)
{
    if (status != FERRY_OK)
        ferryi_log(&gpu->log, FERRY_LOG_ERROR, "%s on %s: %s; it is lost", what, gpu->name,
                   ferry_last_error());
}

static ferry_status
push_context(struct ferryi_gpu_device *gpu)
{
    ferryi_gpu_result result = gpu->driver->context_push(gpu->context);
    /* Ferry retains the device's context, so the context can be invalid only if other code has
     * reset the device. A reset also frees Ferry's memory, so the device counts as lost. */
    if (result == FERRYI_GPU_ERROR_INVALID_CONTEXT)
        result = FERRYI_GPU_ERROR_CONTEXT_IS_DESTROYED;
    return FERRYI_GPU_CHECK(gpu, context_push, result);
}

static ferry_status
make_current(struct ferryi_gpu_device *gpu, bool *out_pushed)
{
    ferryi_gpu_context current = NULL;
    if (gpu->driver->context_current(&current) == FERRYI_GPU_SUCCESS && current == gpu->context)
        return FERRY_OK;
    ferry_status st = push_context(gpu);
    *out_pushed = st == FERRY_OK;
    return st;
}

static void
undo(const struct ferryi_gpu_driver *driver, const struct ferryi_gpu_entry *entry)
{
    /* Errors of the driver calls below are ignored. The calls only restore the capture mode and the
     * context that this thread had before. */
    ferryi_gpu_capture_mode mode = entry->previous_mode;
    ferryi_gpu_context context;
    if (entry->exchanged)
        driver->capture_mode(&mode);
    if (entry->pushed)
        driver->context_pop(&context);
}

/* The changes to this thread's driver state that must be undone when the thread's hold ends. A hold
 * (src/base/hold.h) is a series of device calls that share these changes. */
static _Thread_local struct {
    const struct ferryi_gpu_driver *driver; /* NULL: there is nothing to undo */
    ferryi_gpu_context context; /* the thread's current context while `driver` is not NULL */
    struct ferryi_gpu_entry entry;
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
keep(const struct ferryi_gpu_device *gpu, struct ferryi_gpu_entry *entry)
{
    if (!kept.driver) {
        kept.driver = gpu->driver;
        kept.context = gpu->context;
        kept.entry = (struct ferryi_gpu_entry){.pushed = entry->pushed};
        entry->pushed = false;
        ferryi_hold_thread.clean_up = clean_up;
    }
    if (entry->exchanged && kept.driver == gpu->driver) {
        kept.entry.exchanged = true;
        kept.entry.previous_mode = entry->previous_mode;
        entry->exchanged = false;
    }
}

ferry_status
ferryi_gpu_enter(struct ferryi_gpu_device *gpu, enum ferryi_gpu_mode mode,
                 struct ferryi_gpu_entry *out)
{
    char number[32];
    unsigned int lost = atomic_load_explicit(&gpu->lost, memory_order_acquire);
    if (lost)
        return ferryi_fail(FERRY_ERROR_DEVICE_LOST, "the device was lost to %s",
                           ferryi_gpu_error_name(gpu->driver, lost, number));
    const bool held = kept.driver == gpu->driver;
    *out = (struct ferryi_gpu_entry){.previous_mode = FERRYI_GPU_STREAM_CAPTURE_MODE_RELAXED};
    if (!held || kept.context != gpu->context)
        FERRYI_OR_RETURN(make_current(gpu, &out->pushed));
    if (mode == FERRYI_GPU_ASIDE && !(held && kept.entry.exchanged) &&
        (gpu->driver->groups & FERRYI_GPU_CAPTURE))
        out->exchanged = gpu->driver->capture_mode(&out->previous_mode) == FERRYI_GPU_SUCCESS;
    if (ferryi_hold_thread.depth > 0)
        keep(gpu, out);
    return FERRY_OK;
}

void
ferryi_gpu_leave(struct ferryi_gpu_device *gpu, const struct ferryi_gpu_entry *entry)
{
    undo(gpu->driver, entry);
}

/* -- primary contexts that the process retains after their devices are closed -- */

static uint64_t
kept_bit(int ordinal)
{
    return ordinal < 64 ? (uint64_t)1 << ordinal : 0;
}

static void
keep_context(struct ferryi_gpu_device *gpu)
{
    _Atomic uint64_t *contexts = &gpu->driver->vendor->loaded->kept_contexts;
    uint64_t bit = kept_bit(gpu->ordinal);
    ferryi_gpu_context context;
    gpu->is_kept = true;
    if (bit && !(atomic_fetch_or(contexts, bit) & bit) &&
        gpu->driver->context_retain(&context, gpu->device) != FERRYI_GPU_SUCCESS)
        atomic_fetch_and(contexts, ~bit);
}

static void
release_kept(const struct ferryi_gpu_driver *driver, int ordinal)
{
    uint64_t bit = kept_bit(ordinal);
    ferryi_gpu_number device;
    if ((atomic_fetch_and(&driver->vendor->loaded->kept_contexts, ~bit) & bit) &&
        driver->device(&device, ordinal) == FERRYI_GPU_SUCCESS)
        driver->context_release(device);
}

void
ferryi_gpu_release_kept(const struct ferryi_gpu_vendor *vendor)
{
    const struct ferryi_gpu_driver *driver;
    for (int ordinal = 0; atomic_load(&vendor->loaded->kept_contexts) != 0 && ordinal < 64;
         ordinal++)
        if (ferryi_gpu_driver_get(vendor, &driver) == FERRY_OK)
            release_kept(driver, ordinal);
}

/* -- the device -- */

static void
close_device(ferryi_device *device)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferryi_gpu_functions_close(gpu);
    ferryi_gpu_files_end(gpu);
    if (gpu->context) {
        ferryi_gpu_result result = gpu->driver->context_release(gpu->device);
        if (result != FERRYI_GPU_SUCCESS) {
            char number[32];
            ferryi_log(&gpu->log, FERRY_LOG_ERROR, "close %s: %s: %s", gpu->name,
                       gpu->driver->vendor->names[FERRYI_GPU_CALL_context_release],
                       ferryi_gpu_error_name(gpu->driver, result, number));
        }
        if (gpu->is_kept && atomic_load(&gpu->lost))
            release_kept(gpu->driver, gpu->ordinal);
    }
    ferryi_mutex_destroy(&gpu->launch_mutex);
    free(gpu);
}

ferry_status
ferryi_gpu_memory_info(ferryi_device *device, size_t *out_free, size_t *out_total)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st;
    size_t free_bytes = 0, total_bytes = 0;
    FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, memory_info, &free_bytes, &total_bytes);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "get the free memory of %s", gpu->name);
    /* On an integrated device, the driver counts the system's page cache as used memory. Ferry
     * therefore also asks the system how much memory is available. */
    if (gpu->integrated)
        free_bytes = ferryi_max_size(free_bytes, (size_t)ferryi_machine_available(""));
    *out_free = ferryi_min_size(free_bytes, total_bytes);
    *out_total = total_bytes;
    return FERRY_OK;
}

ferry_status
ferryi_gpu_synchronize(ferryi_device *device)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_entry entry;
    ferry_status st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_GPU_CHECK(gpu, context_synchronize, gpu->driver->context_synchronize());
        ferryi_gpu_leave(gpu, &entry);
    }
    return FERRYI_GPU_TELL(st, "wait for all work of %s", gpu->name);
}

#define SLOT(slot) .slot = ferryi_gpu_##slot,

static const struct ferryi_device_ops gpu_ops = {.close = close_device, FERRYI_DEVICE_SLOTS(SLOT)};

/* -- opening -- */

static ferry_status
read_properties(struct ferryi_gpu_device *gpu)
{
    struct ferryi_device_properties *properties = &gpu->base.properties;
    FERRYI_OR_RETURN(FERRYI_GPU_CALL(gpu, device_name, properties->name,
                                     (int)sizeof(properties->name), gpu->device));
    FERRYI_OR_RETURN(FERRYI_GPU_CALL(gpu, device_bytes, &properties->total_bytes, gpu->device));
    properties->native = gpu->ordinal;
    properties->language = gpu->driver->vendor->language;
    return gpu->driver->vendor->describe(gpu);
}

/* Returns the value of an attribute, or `unknown` if the driver does not know the attribute. */
static int
attribute_of(const struct ferryi_gpu_device *gpu, enum ferryi_gpu_attribute attribute, int unknown)
{
    unsigned int number = gpu->driver->vendor->attributes[attribute];
    int value;
    return number &&
                   gpu->driver->device_attribute(&value, number, gpu->device) == FERRYI_GPU_SUCCESS
               ? value
               : unknown;
}

/* Returns whether the device has the feature. A feature whose attribute the driver does not know
 * counts as absent. */
static bool
has_attribute(const struct ferryi_gpu_device *gpu, enum ferryi_gpu_attribute attribute)
{
    return attribute_of(gpu, attribute, 0) != 0;
}

static bool
has_peer(const struct ferryi_gpu_device *gpu)
{
    int count = 0;
    if (gpu->driver->device_count(&count) != FERRYI_GPU_SUCCESS)
        return false;
    for (int i = 0; i < count; i++) {
        ferryi_gpu_number other;
        int can = 0;
        if (i != gpu->ordinal && gpu->driver->device(&other, i) == FERRYI_GPU_SUCCESS &&
            gpu->driver->can_access_peer(&can, gpu->device, other) == FERRYI_GPU_SUCCESS && can)
            return true;
    }
    return false;
}

/* Returns whether the driver shares memory of the device with other processes. A driver that does
 * not know one of the attributes has no device that lacks the feature. */
static bool
can_share(const struct ferryi_gpu_device *gpu)
{
    return (!gpu->integrated || gpu->driver->vendor->shares_integrated) &&
           attribute_of(gpu, FERRYI_GPU_ATTRIBUTE_UNIFIED_ADDRESSING, 1) != 0 &&
           attribute_of(gpu, FERRYI_GPU_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1) != 0;
}

/* Returns which attributes launches may have, if the driver has a function for them. No attribute
 * of a device says whether kernels may overlap: all have it from this architecture on. */
static uint64_t
read_launch_capabilities(const struct ferryi_gpu_device *gpu)
{
    uint64_t can = 0;
    if (has_attribute(gpu, FERRYI_GPU_ATTRIBUTE_COOPERATIVE_LAUNCH))
        can |= FERRY_CAN_COOPERATE;
    if (has_attribute(gpu, FERRYI_GPU_ATTRIBUTE_CLUSTER_LAUNCH))
        can |= FERRY_CAN_CLUSTER;
    if (gpu->base.properties.architecture >= 90)
        can |= FERRY_CAN_OVERLAP;
    return can;
}

static uint64_t
read_capabilities(const struct ferryi_gpu_device *gpu)
{
    uint64_t can =
        FERRY_CAN_PIN | FERRY_CAN_LOAD_CODE | FERRY_CAN_COMPILE | FERRYI_DEVICE_FREE_WAITS;
    unsigned int groups = gpu->driver->groups;
    /* If a device has no concurrent access, the host must not touch managed memory while any kernel
     * of the process runs. Ferry cannot make the rest of the program obey this rule. So such a
     * device reports that it has no managed memory. */
    if (has_attribute(gpu, FERRYI_GPU_ATTRIBUTE_MANAGED_MEMORY) &&
        has_attribute(gpu, FERRYI_GPU_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
        can |= FERRY_CAN_MANAGE;
    if ((can & FERRY_CAN_MANAGE) && (groups & (FERRYI_GPU_PREFETCH | FERRYI_GPU_PREFETCH_2)))
        can |= FERRY_CAN_MANAGE_CONCURRENTLY;
    if (!has_attribute(gpu, FERRYI_GPU_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM))
        can |= FERRYI_DEVICE_TRANSLATES;
    /* A driver that does not know the attribute HOST_REGISTER_SUPPORTED can register host memory
     * for all its devices. */
    if (attribute_of(gpu, FERRYI_GPU_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1) == 0)
        can |= FERRYI_DEVICE_NO_REGISTER;
    if (groups & (FERRYI_GPU_BATCH | FERRYI_GPU_BATCH_2))
        can |= FERRY_CAN_BATCH;
    if (groups & FERRYI_GPU_CAPTURE)
        can |= FERRY_CAN_CAPTURE;
    if (groups & FERRYI_GPU_LAUNCH)
        can |= read_launch_capabilities(gpu);
    if ((groups & FERRYI_GPU_SHARE) && can_share(gpu))
        can |= FERRY_CAN_SHARE;
    if (gpu->driver->vendor->tells_ranges)
        can |= FERRYI_DEVICE_FINDS_PINNED;
    if (gpu->driver->vendor->files)
        can |= FERRYI_DEVICE_TAKES_FILES;
    /* Peer access is checked with all devices of the machine, because it is not yet known which of
     * them the context will open. */
    if (has_peer(gpu))
        can |= FERRY_CAN_PEER;
    /* If the device walks the host's page tables, kernels may use any host memory. Copies are
     * unnecessary only if device and host share the physical memory, too. A discrete device on a
     * coherent link, such as GH200, has separate, fast memory, so copying data into that memory
     * pays off. */
    if (has_attribute(gpu, FERRYI_GPU_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES))
        can |= gpu->integrated ? FERRYI_DEVICE_COHERENT : FERRYI_DEVICE_TAKES_PAGEABLE;
    return can;
}

/* Reads the bandwidth of the device's link and the number of the NUMA node nearest to the device.
 * The system reports both values for the device's PCI address. If the driver also reports a NUMA
 * node, the driver's value is used. */
static void
read_place(struct ferryi_gpu_device *gpu)
{
    char address[32];
    int node = attribute_of(gpu, FERRYI_GPU_ATTRIBUTE_HOST_NUMA_ID, -1);
    int domain = attribute_of(gpu, FERRYI_GPU_ATTRIBUTE_PCI_DOMAIN_ID, -1);
    int bus = attribute_of(gpu, FERRYI_GPU_ATTRIBUTE_PCI_BUS_ID, -1);
    int slot = attribute_of(gpu, FERRYI_GPU_ATTRIBUTE_PCI_DEVICE_ID, -1);
    if (node >= 0)
        gpu->base.host_node = (unsigned)node + 1;
    if (domain < 0 || bus < 0 || slot < 0)
        return;
    snprintf(address, sizeof(address), "%04x:%02x:%02x.0", (unsigned)domain, (unsigned)bus,
             (unsigned)slot);
    gpu->base.link_bytes = ferryi_machine_link("", address);
    if (gpu->base.host_node == 0)
        gpu->base.host_node = (unsigned)(ferryi_machine_node("", address) + 1);
}

/* Bytes of shared memory that a thread block may use without an opt-in, if the driver does not
 * report them. */
#define USUAL_SHARED_BYTES (48 << 10)

static ferry_status
open_driver(struct ferryi_gpu_device *gpu, const struct ferryi_device_config *config)
{
    const struct ferryi_gpu_driver *driver = gpu->driver;
    FERRYI_OR_RETURN(FERRYI_GPU_CALL(gpu, device, &gpu->device, gpu->ordinal));
    FERRYI_OR_RETURN(read_properties(gpu));
    FERRYI_OR_RETURN(FERRYI_GPU_CALL(gpu, context_retain, &gpu->context, gpu->device));
    gpu->base.properties.native_context = gpu->context;
    gpu->peer = driver->vendor->copies_between_numbers
                    ? (ferryi_gpu_context)(uintptr_t)(unsigned int)gpu->device
                    : gpu->context;
    if (driver->groups & FERRYI_GPU_CONTEXT_ID)
        FERRYI_OR_RETURN(FERRYI_GPU_CALL(gpu, context_id, gpu->context, &gpu->context_id));
    gpu->integrated = has_attribute(gpu, FERRYI_GPU_ATTRIBUTE_INTEGRATED);
    gpu->registers_read_only =
        has_attribute(gpu, FERRYI_GPU_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
    gpu->shared_bytes = (uint32_t)attribute_of(
        gpu, FERRYI_GPU_ATTRIBUTE_SHARED_BYTES_WITHOUT_OPT_IN, USUAL_SHARED_BYTES);
    gpu->base.capabilities = read_capabilities(gpu);
    if (config->cuda_without_batches)
        gpu->base.capabilities &= ~(uint64_t)FERRY_CAN_BATCH;
    if (has_attribute(gpu, FERRYI_GPU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
        (driver->groups & FERRYI_GPU_RANGE))
        ferryi_gpu_ranges_begin(gpu);
    read_place(gpu);
    return FERRY_OK;
}

ferry_status
ferryi_gpu_open_on(const struct ferryi_gpu_driver *driver, int ordinal,
                   const struct ferryi_device_config *config, ferryi_device **out)
{
    const struct ferryi_gpu_vendor *vendor = driver->vendor;
    struct ferryi_gpu_device *gpu = calloc(1, sizeof(*gpu));
    if (!gpu)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open %s:%d: no host memory", vendor->kind,
                           ordinal);
    snprintf(gpu->name, sizeof(gpu->name), "%s:%d", vendor->kind, ordinal);
    gpu->driver = driver;
    gpu->ordinal = ordinal;
    gpu->log = config->log;
    gpu->base.ops = &gpu_ops;
    gpu->base.kind = vendor->kind;
    gpu->base.default_stream = vendor->legacy_stream;
    gpu->base.per_thread_stream = vendor->per_thread_stream;
    gpu->base.default_is_null = true;
    ferryi_mutex_init(&gpu->launch_mutex);
    ferry_status st = open_driver(gpu, config);
    if (st != FERRY_OK) {
        ferryi_fail_in(st, "open %s", gpu->name);
        close_device(&gpu->base);
        return st;
    }
    gpu->is_open = true;
    *out = &gpu->base;
    return FERRY_OK;
}

ferry_status
ferryi_gpu_open(const struct ferryi_gpu_vendor *vendor, int ordinal,
                const struct ferryi_device_config *config, ferryi_device **out)
{
    const struct ferryi_gpu_driver *driver;
    ferry_status st = ferryi_gpu_driver_get(vendor, &driver);
    if (st != FERRY_OK)
        return ferryi_fail_in(st, "open %s:%d", vendor->kind, ordinal);
    st = ferryi_gpu_open_on(driver, ordinal, config, out);
    if (st == FERRY_OK)
        keep_context(ferryi_gpu_of(*out));
    return st;
}

int
ferryi_gpu_count(const struct ferryi_gpu_vendor *vendor)
{
    const struct ferryi_gpu_driver *driver;
    char number[32];
    int count = 0;
    if (ferryi_gpu_driver_get(vendor, &driver) != FERRY_OK)
        return 0;
    ferryi_gpu_result result = driver->device_count(&count);
    if (result != FERRYI_GPU_SUCCESS) {
        ferryi_fail(FERRY_ERROR_NO_DEVICE, "count %s devices: %s: %s", vendor->title,
                    vendor->names[FERRYI_GPU_CALL_device_count],
                    ferryi_gpu_error_name(driver, result, number));
        return 0;
    }
    if (count == 0)
        ferryi_fail(FERRY_ERROR_NO_DEVICE, "count %s devices: the driver has none", vendor->title);
    return count;
}

ferry_status
ferryi_gpu_code_build(ferryi_device *device, const struct ferryi_code_job *job, void **out_module)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_image *own = NULL;
    ferry_status status =
        gpu->driver->vendor->build(gpu, job, job->images ? job->images : &own, out_module);
    ferryi_images_free(&own);
    return status;
}
