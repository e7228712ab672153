/* SPDX-License-Identifier: MIT */
/* A part of fakecuda, the library that imitates the CUDA driver: initialization, devices, contexts,
 * and the functions with which tests control the library. */
#include "tests/support/fakecuda_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct fake_state fake = {.last_location = -2};

#define STACK_MAX           32
#define ATTRIBUTE_MAX       256
#define ATTRIBUTE_MAX_PITCH 11 /* CU_DEVICE_ATTRIBUTE_MAX_PITCH, for which Ferry has no name */

static _Thread_local fake_context *stack[STACK_MAX];
static _Thread_local int depth;
static _Thread_local uint64_t thread_number;
static _Thread_local bool in_host_function;

static uint64_t threads, calls[FAKE_ENTRY_COUNT];
static struct {
    int code, countdown;
} wanted[FAKE_ENTRY_COUNT];
static int attributes[ATTRIBUTE_MAX];
static fake_result gone; /* error that every call returns while the devices are lost, or 0 */

#ifndef FAKEHIP
const char *
fake_name(enum fake_entry entry)
{
    static const char *const names[] = {
#define FAKE_NAME(group, name, parameters) #name,
        FERRYI_CUDA_SYMBOLS(FAKE_NAME)
#undef FAKE_NAME
    };
    return names[entry];
}

int
fake_attribute_number(unsigned attribute)
{
    return attribute < ATTRIBUTE_MAX ? (int)attribute : -1;
}
#endif

/* -- every call -- */

uint64_t
fake_thread(void)
{
    if (thread_number == 0)
        thread_number = ++threads;
    return thread_number;
}

bool
fake_is_fatal(fake_result code)
{
    return code == FERRYI_GPU_ERROR_ECC_UNCORRECTABLE ||
           code == FERRYI_GPU_ERROR_NVLINK_UNCORRECTABLE || code == FERRYI_GPU_ERROR_CONTAINED ||
           code == FERRYI_GPU_ERROR_ILLEGAL_ADDRESS || code == FERRYI_GPU_ERROR_LAUNCH_TIMEOUT ||
           code == FERRYI_GPU_ERROR_ASSERT || code == FERRYI_GPU_ERROR_TENSOR_MEMORY_LEAK ||
           code == FERRYI_GPU_ERROR_MPS_CLIENT_TERMINATED ||
           code == FERRYI_GPU_ERROR_EXTERNAL_DEVICE ||
           (code >= FERRYI_GPU_ERROR_HARDWARE_STACK_ERROR &&
            code <= FERRYI_GPU_ERROR_LAUNCH_FAILED);
}

void
fake_host_function(bool runs)
{
    in_host_function = runs;
}

/* Returns an error if the process must not call the driver at this moment: after exit(), in a
 * forked child, or, under the rule "host" of FAKECUDA_STRICT, in a host function. */
static fake_result
check_process(void)
{
    if (fake.ended)
        return FERRYI_GPU_ERROR_DEINITIALIZED;
    if (fake.process != getpid())
        return FERRYI_GPU_ERROR_NOT_INITIALIZED;
    if ((fake.strict & FAKE_STRICT_HOST) && in_host_function)
        return FERRYI_GPU_ERROR_NOT_PERMITTED;
    return FERRYI_GPU_SUCCESS;
}

/* The green contexts of the devices. Each is current in one thread at most. */
static fake_context greens[FAKE_DEVICES_MAX];
static uint64_t green_threads[FAKE_DEVICES_MAX];

fake_context *
fake_green(void)
{
    return depth > 0 && stack[depth - 1]->primary ? stack[depth - 1] : NULL;
}

static fake_result
check_call(enum fake_entry entry, int needs, fake_context **out_context)
{
    fake_context *context = depth > 0 ? stack[depth - 1] : NULL;
    if (context && context->primary)
        context = context->primary;
    calls[entry]++;
    fake_result allowed = fake.started ? check_process() : FERRYI_GPU_SUCCESS;
    if (allowed != FERRYI_GPU_SUCCESS)
        return allowed;
    if (wanted[entry].countdown > 0 && --wanted[entry].countdown == 0) {
        fake_result code = (fake_result)wanted[entry].code;
        if (context && fake_is_fatal(code))
            context->error = code;
        return code;
    }
    if (!fake.started && entry != FAKE_cuInit && entry != FAKE_cuGetErrorName &&
        entry != FAKE_cuDriverGetVersion)
        return FERRYI_GPU_ERROR_NOT_INITIALIZED;
    if (needs & FAKE_NEEDS_CONTEXT) {
        if (!context)
            return FERRYI_GPU_ERROR_INVALID_CONTEXT;
        if (context->retained == 0)
            return FERRYI_GPU_ERROR_CONTEXT_IS_DESTROYED;
        if (gone)
            return gone;
        if (context->error)
            return context->error;
        *out_context = context;
    }
    return (needs & FAKE_UNSAFE) && fake_capture_forbids()
               ? FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED
               : FERRYI_GPU_SUCCESS;
}

fake_result
fake_begin(enum fake_entry entry, int needs, fake_context **out_context)
{
    fake_cost_spin(entry);
    pthread_mutex_lock(&fake_lock);
    fake_result result = check_call(entry, needs, out_context);
    if (result != FERRYI_GPU_SUCCESS)
        pthread_mutex_unlock(&fake_lock);
    return result;
}

fake_result
fake_end(fake_result result)
{
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* -- starting -- */

static size_t
number_from(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text && text[0] ? (size_t)strtoull(text, NULL, 10) : otherwise;
}

/* Returns whether the word is an entry of the comma-separated list `rules`. */
static bool
has_rule(const char *rules, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = rules; at && *at;) {
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0))
            return true;
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return false;
}

static void
set_strict(const char *rules)
{
    static const char *const words[] = {"managed", "registered", "align",  "size",     "batch",
                                        "private", "pages",      "limits", "host",     "ptx",
                                        "parts",   "capture",    "sticky", "constant", "load"};
    fake.strict = 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (has_rule(rules, words[i]) || has_rule(rules, "all"))
            fake.strict |= 1u << i;
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS] =
        !(fake.strict & FAKE_STRICT_MANAGED);
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM] =
        !(fake.strict & FAKE_STRICT_REGISTERED);
    for (int i = 0; i < FAKE_DEVICES_MAX && !(fake.strict & FAKE_STRICT_STICKY); i++)
        if (fake.contexts[i].retained == 0)
            fake.contexts[i].error = FERRYI_GPU_SUCCESS;
}

static void
set_attributes(const char *list)
{
    for (const char *at = list; at && *at; at += *at == ',') {
        char *end;
        unsigned long attribute = strtoul(at, &end, 10);
        if (*end == '=' && attribute < ATTRIBUTE_MAX)
            attributes[attribute] = (int)strtol(end + 1, &end, 10);
        at = end + strcspn(end, ",");
    }
}

/* Ends the fake driver when the process exits. As with the real driver, later calls then fail. */
static void
end(void)
{
    /* A forked child does not take the lock. It has only one thread, and a thread of the parent may
     * have held the lock during the fork. */
    bool locks = fake.process == getpid();
    if (locks)
        pthread_mutex_lock(&fake_lock);
    fake.ended = true;
    if (locks)
        pthread_mutex_unlock(&fake_lock);
}

static void
start(void)
{
    size_t devices = number_from("FAKECUDA_DEVICES", 1);
    const char *mode = getenv("FAKECUDA_MODE");
    fake.devices = devices > FAKE_DEVICES_MAX ? FAKE_DEVICES_MAX : (int)devices;
    fake.memory_bytes = number_from("FAKECUDA_MEMORY_BYTES", (size_t)256 << 20);
    fake.lazy = mode && strcmp(mode, "lazy") == 0;
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        fake.contexts[i].device = i;
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9;
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1;
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1;
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED] = 1;
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1;
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH] = 1;
    attributes[ATTRIBUTE_MAX_PITCH] = FAKE_PITCH_MOST;
#ifdef FAKEHIP
    attributes[FAKEHIP_ATTRIBUTE_SHARED] = SHARED_BYTES_FREE;
#endif
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID] = -1; /* the system has no NUMA nodes */
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED] = 1;
    attributes[FERRYI_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1;
    set_strict(getenv("FAKECUDA_STRICT"));
    set_attributes(getenv("FAKECUDA_ATTRIBUTES"));
    fake.process = getpid();
    fake.started = atexit(end) == 0;
}

ferryi_gpu_result
cuInit(unsigned int flags)
{
    FAKE_BEGIN(cuInit, 0, NULL);
    if (flags != 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    if (!fake.started)
        start();
    return fake_end(fake.devices > 0 ? FERRYI_GPU_SUCCESS : FERRYI_GPU_ERROR_NO_DEVICE);
}

ferryi_gpu_result
cuGetErrorName(ferryi_gpu_result error, const char **out_name)
{
    switch (error) {
#define FAKE_CASE(name, value, status)                                                             \
    case value:                                                                                    \
        *out_name = #name;                                                                         \
        return FERRYI_GPU_SUCCESS;
        FERRYI_CUDA_ERRORS(FAKE_CASE)
        FERRYI_CUDA_ERRORS_12(FAKE_CASE)
#undef FAKE_CASE
    default:
        *out_name = NULL;
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    }
}

ferryi_gpu_result
cuDriverGetVersion(int *out_version)
{
    FAKE_BEGIN(cuDriverGetVersion, 0, NULL);
    *out_version = FAKECUDA_VERSION;
    return fake_end(FERRYI_GPU_SUCCESS);
}

/* -- devices -- */

static bool
is_device(ferryi_gpu_number device)
{
    return device >= 0 && device < fake.devices;
}

ferryi_gpu_result
cuDeviceGetCount(int *out_count)
{
    FAKE_BEGIN(cuDeviceGetCount, 0, NULL);
    *out_count = fake.devices;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuDeviceGet(ferryi_gpu_number *out_device, int ordinal)
{
    FAKE_BEGIN(cuDeviceGet, 0, NULL);
    if (!is_device(ordinal))
        return fake_end(FERRYI_GPU_ERROR_INVALID_DEVICE);
    *out_device = ordinal;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuDeviceGetName(char *name, int bytes, ferryi_gpu_number device)
{
    FAKE_BEGIN(cuDeviceGetName, 0, NULL);
    if (!is_device(device) || bytes <= 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_DEVICE);
    snprintf(name, (size_t)bytes, "fakecuda %d", device);
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuDeviceGetAttribute(int *out_value, ferryi_gpu_device_attribute attribute,
                     ferryi_gpu_number device)
{
    FAKE_BEGIN(cuDeviceGetAttribute, 0, NULL);
    if (!is_device(device))
        return fake_end(FERRYI_GPU_ERROR_INVALID_DEVICE);
    const int number = fake_attribute_number(attribute);
    if (number <= 0 ||
        (FAKECUDA_GENERATION < 12 && (number == FERRYI_CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID ||
                                      number == FERRYI_CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH ||
                                      number == FERRYI_CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED)))
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    *out_value = attributes[number];
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuDeviceTotalMem_v2(size_t *out_bytes, ferryi_gpu_number device)
{
    FAKE_BEGIN(cuDeviceTotalMem_v2, 0, NULL);
    if (!is_device(device))
        return fake_end(FERRYI_GPU_ERROR_INVALID_DEVICE);
    *out_bytes = fake.memory_bytes;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuDeviceCanAccessPeer(int *out_can, ferryi_gpu_number device, ferryi_gpu_number peer)
{
    FAKE_BEGIN(cuDeviceCanAccessPeer, 0, NULL);
    if (!is_device(device) || !is_device(peer))
        return fake_end(FERRYI_GPU_ERROR_INVALID_DEVICE);
    *out_can = device != peer;
    return fake_end(FERRYI_GPU_SUCCESS);
}

int
fake_attribute(int attribute)
{
    return attributes[attribute];
}

/* -- contexts -- */

static bool
is_context(const fake_context *context)
{
    for (int i = 0; i < fake.devices; i++)
        if (context == &fake.contexts[i])
            return context->retained > 0;
    return false;
}

static void
start_context(fake_context *context)
{
    static unsigned long long last_id;
    context->id = ++last_id;
    fake_context_start(context);
}

static void
end_context(fake_context *context)
{
    context->ending = true;
    fake_handles_end(context);
    fake_context_end(context);
    fake_modules_end(context);
    fake_blocks_end(context);
    if (!(fake.strict & FAKE_STRICT_STICKY))
        context->error = FERRYI_GPU_SUCCESS;
    context->peers = 0;
    context->ending = false;
}

ferryi_gpu_result
cuDevicePrimaryCtxRetain(ferryi_gpu_context *out_context, ferryi_gpu_number device)
{
    FAKE_BEGIN(cuDevicePrimaryCtxRetain, 0, NULL);
    if (!is_device(device))
        return fake_end(FERRYI_GPU_ERROR_INVALID_DEVICE);
    fake_context *context = &fake.contexts[device];
    while (context->ending) {
        pthread_mutex_unlock(&fake_lock);
        usleep(100);
        pthread_mutex_lock(&fake_lock);
    }
    if (context->retained++ == 0)
        start_context(context);
    *out_context = context;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuDevicePrimaryCtxRelease_v2(ferryi_gpu_number device)
{
    FAKE_BEGIN(cuDevicePrimaryCtxRelease_v2, 0, NULL);
    if (!is_device(device))
        return fake_end(FERRYI_GPU_ERROR_INVALID_DEVICE);
    if (fake.contexts[device].retained == 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_CONTEXT);
    fake_context *context = &fake.contexts[device];
    if (context->retained == 1)
        fake_wait_context(context);
    /* fake_wait_context() releases the lock while it waits. A second thread may have retained the
     * context meanwhile. */
    if (context->retained == 1)
        end_context(context);
    context->retained--;
    return fake_end(FERRYI_GPU_SUCCESS);
}

#if FAKECUDA_GENERATION >= 12
ferryi_gpu_result
cuCtxGetId(ferryi_gpu_context context, unsigned long long *out_id)
{
    FAKE_BEGIN(cuCtxGetId, 0, NULL);
    if (!is_context(context))
        return fake_end(FERRYI_GPU_ERROR_CONTEXT_IS_DESTROYED);
    *out_id = context->id;
    return fake_end(FERRYI_GPU_SUCCESS);
}
#endif

ferryi_gpu_result
cuCtxPushCurrent_v2(ferryi_gpu_context context)
{
    FAKE_BEGIN(cuCtxPushCurrent_v2, 0, NULL);
    if (!context)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    ptrdiff_t green = context->primary ? context - greens : -1;
    if (!is_context(green < 0 ? context : context->primary) || depth == STACK_MAX ||
        (green >= 0 && green_threads[green]))
        return fake_end(FERRYI_GPU_ERROR_INVALID_CONTEXT);
    if (green >= 0)
        green_threads[green] = fake_thread();
    stack[depth++] = context;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuCtxPopCurrent_v2(ferryi_gpu_context *out_context)
{
    FAKE_BEGIN(cuCtxPopCurrent_v2, 0, NULL);
    if (depth == 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_CONTEXT);
    *out_context = stack[--depth];
    if ((*out_context)->primary)
        green_threads[*out_context - greens] = 0;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuCtxGetCurrent(ferryi_gpu_context *out_context)
{
    FAKE_BEGIN(cuCtxGetCurrent, 0, NULL);
    *out_context = depth > 0 ? stack[depth - 1] : NULL;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuCtxEnablePeerAccess(ferryi_gpu_context peer, unsigned int flags)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuCtxEnablePeerAccess, FAKE_NEEDS_CONTEXT, &context);
    if (!is_context(peer))
        return fake_end(FERRYI_GPU_ERROR_INVALID_CONTEXT);
    if (peer == context)
        return fake_end(FERRYI_GPU_ERROR_PEER_ACCESS_UNSUPPORTED);
    if (flags != 0)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    if (context->peers & (1u << peer->device))
        return fake_end(FERRYI_GPU_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    context->peers |= 1u << peer->device;
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuCtxSynchronize(void)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuCtxSynchronize, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    if (fake_capture_of_context(context, true))
        return fake_end(FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    fake_wait_context(context);
    return fake_end(context->error);
}

/* -- controls -- */

#define FAKE_CONTROL(type, name, parameters) FAKE_EXPORT type name parameters;
FAKECUDA_CONTROLS(FAKE_CONTROL)
#undef FAKE_CONTROL

void
fakecuda_break_peers(bool broken)
{
    pthread_mutex_lock(&fake_lock);
    fake.broken_peers = broken;
    pthread_mutex_unlock(&fake_lock);
}

void *
fakecuda_green_stream(int device)
{
    void *stream = NULL;
    greens[device].primary = &fake.contexts[device];
    greens[device].device = device;
    if (cuCtxPushCurrent_v2(&greens[device]) == FERRYI_GPU_SUCCESS) {
        ferryi_gpu_stream made;
        fake_context *popped;
        if (cuStreamCreate(&made, FERRYI_GPU_STREAM_NON_BLOCKING) == FERRYI_GPU_SUCCESS)
            stream = made;
        cuCtxPopCurrent_v2(&popped);
    }
    return stream;
}

static int
entry_of(const char *symbol)
{
    for (int i = 0; i < FAKE_ENTRY_COUNT; i++)
        if (strcmp(fake_name((enum fake_entry)i), symbol) == 0)
            return i;
    fprintf(stderr, "fakecuda: there is no %s\n", symbol);
    abort();
}

uint64_t
fakecuda_calls(void)
{
    uint64_t sum = 0;
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < FAKE_ENTRY_COUNT; i++)
        sum += calls[i];
    pthread_mutex_unlock(&fake_lock);
    return sum;
}

uint64_t
fakecuda_calls_of(const char *symbol)
{
    int entry = entry_of(symbol);
    pthread_mutex_lock(&fake_lock);
    uint64_t count = calls[entry];
    pthread_mutex_unlock(&fake_lock);
    return count;
}

struct fakecuda_live
fakecuda_live(void)
{
    pthread_mutex_lock(&fake_lock);
    struct fakecuda_live live = fake.live;
    pthread_mutex_unlock(&fake_lock);
    return live;
}

uint64_t
fakecuda_pageable_copies(void)
{
    pthread_mutex_lock(&fake_lock);
    uint64_t count = fake.pageable_copies;
    pthread_mutex_unlock(&fake_lock);
    return count;
}

void
fakecuda_fail_next(const char *symbol, int code, int nth)
{
    int entry = entry_of(symbol);
    pthread_mutex_lock(&fake_lock);
    wanted[entry].code = code;
    wanted[entry].countdown = nth;
    pthread_mutex_unlock(&fake_lock);
}

void
fakecuda_lose(int code)
{
    pthread_mutex_lock(&fake_lock);
    gone = (fake_result)code;
    pthread_mutex_unlock(&fake_lock);
}

void
fakecuda_fail_none(void)
{
    pthread_mutex_lock(&fake_lock);
    memset(wanted, 0, sizeof(wanted));
    gone = FERRYI_GPU_SUCCESS;
    pthread_mutex_unlock(&fake_lock);
}

void *
fakecuda_current_context(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

int
fakecuda_context_depth(void)
{
    return depth;
}

void
fakecuda_set_attribute(int attribute, int value)
{
    pthread_mutex_lock(&fake_lock);
    attributes[attribute] = value;
    pthread_mutex_unlock(&fake_lock);
}

int
fakecuda_last_location(void)
{
    pthread_mutex_lock(&fake_lock);
    int location = fake.last_location;
    pthread_mutex_unlock(&fake_lock);
    return location;
}

bool
fakecuda_set_mode(const char *mode)
{
    pthread_mutex_lock(&fake_lock);
    bool idle = true;
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        idle = idle && fake.contexts[i].retained == 0;
    if (idle)
        fake.lazy = strcmp(mode, "lazy") == 0;
    pthread_mutex_unlock(&fake_lock);
    return idle;
}

void
fakecuda_set_strict(const char *rules)
{
    pthread_mutex_lock(&fake_lock);
    set_strict(rules);
    pthread_mutex_unlock(&fake_lock);
}

void
fakecuda_reset(int device)
{
    fake_context *context = &fake.contexts[device];
    pthread_mutex_lock(&fake_lock);
    fake_wait_context(context);
    end_context(context);
    start_context(context);
    pthread_mutex_unlock(&fake_lock);
}

unsigned
fakecuda_peers(int device)
{
    pthread_mutex_lock(&fake_lock);
    unsigned peers = fake.contexts[device].peers;
    pthread_mutex_unlock(&fake_lock);
    return peers;
}
