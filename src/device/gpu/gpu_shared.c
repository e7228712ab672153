/* SPDX-License-Identifier: MIT */
/* Implements the memory and the events that a GPU shares with other processes. The driver names
 * each of them by a token. */
#include "src/device/gpu/gpu_device.h"

#include <string.h>

/* A driver may cut several allocations from one block, and shares whole blocks. An allocation whose
 * size is a multiple of these bytes has blocks for itself, so that other processes get nothing
 * else. The vendors' files name the sources. */
#define SHARED_GRANULARITY ((size_t)2 << 20)

_Static_assert(sizeof(struct ferryi_token) == sizeof(struct ferryi_gpu_memory_token) &&
                   sizeof(struct ferryi_token) == sizeof(struct ferryi_gpu_event_token),
               "a token has the bytes of the driver's");

static ferry_status
check_device(const struct ferryi_gpu_device *gpu, const char *slot)
{
    return gpu->base.capabilities & FERRY_CAN_SHARE
               ? FERRY_OK
               : ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                             "%s on %s: the driver shares nothing of this device with other "
                             "processes",
                             slot, gpu->name);
}

/* -- memory -- */

/* Gets the token of memory that was just allocated, and frees the memory if there is none. */
static ferry_status
name_memory(struct ferryi_gpu_device *gpu, ferryi_gpu_pointer memory, struct ferryi_token *out)
{
    struct ferryi_gpu_memory_token token;
    ferry_status st = FERRYI_GPU_CALL(gpu, memory_token, &token, memory);
    if (st == FERRY_OK) {
        memcpy(out->bytes, token.bytes, sizeof(token));
    } else {
        FERRYI_KEEP_ERROR(why);
        ferryi_gpu_log_undo(gpu, "free memory that cannot be shared",
                            FERRYI_GPU_CALL(gpu, memory_free, memory));
    }
    return st;
}

ferry_status
ferryi_gpu_shared_alloc(ferryi_device *device, struct ferryi_shared_memory *shared, void **out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_entry entry;
    ferryi_gpu_pointer memory = 0;
    size_t bytes = 0;
    ferry_status st = check_device(gpu, "shared_alloc");
    if (st == FERRY_OK && !ferryi_round_up(shared->bytes, SHARED_GRANULARITY, &bytes))
        st = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "there is not as much memory");
    if (st == FERRY_OK)
        st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_GPU_CALL(gpu, memory_alloc, &memory, bytes);
        if (st == FERRY_OK)
            st = name_memory(gpu, memory, &shared->token);
        ferryi_gpu_leave(gpu, &entry);
    }
    if (st == FERRY_OK)
        *out = (void *)(uintptr_t)memory;
    return FERRYI_GPU_TELL(st, "allocate %zu bytes of shared memory on %s", shared->bytes,
                           gpu->name);
}

/* The driver lets the process also write memory that it only reads. */
ferry_status
ferryi_gpu_shared_open(ferryi_device *device, const struct ferryi_shared_memory *shared, void **out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_memory_token token;
    ferryi_gpu_pointer memory = 0;
    ferry_status st = check_device(gpu, "shared_open");
    memcpy(token.bytes, shared->token.bytes, sizeof(token));
    if (st == FERRY_OK)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, memory_open, &memory, token,
                       FERRYI_GPU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (st == FERRY_OK)
        *out = (void *)(uintptr_t)memory;
    return FERRYI_GPU_TELL(st, "open %zu bytes of shared memory on %s", shared->bytes, gpu->name);
}

ferry_status
ferryi_gpu_shared_free(ferryi_device *device, const struct ferryi_shared_memory *shared,
                       void *memory)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    ferry_status st = check_device(gpu, "shared_free");
    if (st == FERRY_OK && shared->is_opened)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, memory_close, ferryi_gpu_address(memory));
    else if (st == FERRY_OK)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, memory_free, ferryi_gpu_address(memory));
    return FERRYI_GPU_TELL(st, "%s shared memory on %s", shared->is_opened ? "close" : "free",
                           gpu->name);
}

/* -- events -- */

/* Gets the token of an event that was just created, and destroys the event if there is none. */
static ferry_status
name_event(struct ferryi_gpu_device *gpu, ferryi_gpu_event event, struct ferryi_token *out)
{
    struct ferryi_gpu_event_token token;
    ferry_status st = FERRYI_GPU_CALL(gpu, event_token, &token, event);
    if (st == FERRY_OK) {
        memcpy(out->bytes, token.bytes, sizeof(token));
    } else {
        FERRYI_KEEP_ERROR(why);
        ferryi_gpu_log_undo(gpu, "destroy an event that cannot be shared",
                            FERRYI_GPU_CALL(gpu, event_destroy, event));
    }
    return st;
}

ferry_status
ferryi_gpu_shared_event_create(ferryi_device *device, struct ferryi_token *out_token, void **out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_entry entry;
    ferryi_gpu_event event = NULL;
    ferry_status st = check_device(gpu, "shared_event_create");
    if (st == FERRY_OK)
        st = ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry);
    if (st == FERRY_OK) {
        st = FERRYI_GPU_CALL(gpu, event_create, &event,
                             FERRYI_GPU_EVENT_INTERPROCESS | FERRYI_GPU_EVENT_DISABLE_TIMING);
        if (st == FERRY_OK)
            st = name_event(gpu, event, out_token);
        ferryi_gpu_leave(gpu, &entry);
    }
    if (st == FERRY_OK)
        *out = event;
    return FERRYI_GPU_TELL(st, "create a shared event on %s", gpu->name);
}

ferry_status
ferryi_gpu_shared_event_open(ferryi_device *device, const struct ferryi_token *token, void **out)
{
    struct ferryi_gpu_device *gpu = ferryi_gpu_of(device);
    struct ferryi_gpu_event_token name;
    ferryi_gpu_event event = NULL;
    ferry_status st = check_device(gpu, "shared_event_open");
    memcpy(name.bytes, token->bytes, sizeof(name));
    if (st == FERRY_OK)
        FERRYI_GPU_RUN(st, gpu, FERRYI_GPU_ASIDE, event_open, &event, name);
    if (st == FERRY_OK)
        *out = event;
    return FERRYI_GPU_TELL(st, "open a shared event on %s", gpu->name);
}
