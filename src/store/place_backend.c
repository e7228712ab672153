/* SPDX-License-Identifier: MIT */
#include "src/store/place_pool.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/debug/debug.h"
#include "src/transfer/engine.h"

const char *const ferryi_memory_kind_names[FERRYI_MEMORY_KINDS] = {"default", "device", "pinned",
                                                                   "pageable", "managed"};

/* Functions with which a context's pools allocate and free memory. */

static ferry_status
device_memory_alloc(void *user, size_t bytes, void **out)
{
    const struct ferryi_place_backend *from = user;
    return FERRYI_CALL(from->device, memory_alloc, from->kind, bytes, out);
}

static ferry_status
device_memory_free(void *user, void *memory, size_t bytes)
{
    const struct ferryi_place_backend *from = user;
    (void)bytes;
    return FERRYI_CALL(from->device, memory_free, from->kind, memory);
}

static ferry_status
device_range_reserve(void *user, size_t bytes, void **out)
{
    const struct ferryi_place_backend *from = user;
    return FERRYI_CALL(from->device, range_reserve, bytes, out);
}

static ferry_status
device_range_release(void *user, void *range, size_t bytes)
{
    const struct ferryi_place_backend *from = user;
    return FERRYI_CALL(from->device, range_release, range, bytes);
}

static ferry_status
device_range_map(void *user, void *memory, size_t bytes, void **out_handle)
{
    const struct ferryi_place_backend *from = user;
    return FERRYI_CALL(from->device, range_map, memory, bytes, out_handle);
}

static ferry_status
device_range_unmap(void *user, void *memory, size_t bytes, void *handle)
{
    const struct ferryi_place_backend *from = user;
    return FERRYI_CALL(from->device, range_unmap, memory, bytes, handle);
}

/* Allocates page-locked memory for a pool. One limit applies to the sum of this memory and the
 * replicas that Ferry has page-locked itself. If the sum would exceed the limit, some of these
 * replicas are unlocked first. */
static ferry_status
pinned_memory_alloc(void *user, size_t bytes, void **out)
{
    const struct ferryi_place_backend *from = user;
    struct ferryi_pins *pins = ferryi_engine_pins(from->engine);
    ferryi_pins_pool_takes(pins, bytes);
    ferry_status status = device_memory_alloc(user, bytes, out);
    if (status != FERRY_OK)
        ferryi_pins_pool_gave(pins, bytes);
    return status;
}

static ferry_status
pinned_memory_free(void *user, void *memory, size_t bytes)
{
    const struct ferryi_place_backend *from = user;
    ferry_status status = device_memory_free(user, memory, bytes);
    if (status == FERRY_OK)
        ferryi_pins_pool_gave(ferryi_engine_pins(from->engine), bytes);
    return status;
}

static ferry_status
device_memory_info(void *user, size_t *out_free, size_t *out_total)
{
    const struct ferryi_place_backend *from = user;
    return FERRYI_CALL(from->device, memory_info, out_free, out_total);
}

static ferry_status
system_memory_alloc(void *user, size_t bytes, void **out)
{
    (void)user;
    size_t align = ferryi_page_bytes(), rounded;
    void *memory = ferryi_round_up(bytes, align, &rounded) ? aligned_alloc(align, rounded) : NULL;
    if (!memory)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "allocate %zu bytes of host memory: the system has none", bytes);
    *out = memory;
    return FERRY_OK;
}

/* Frees system memory. Memory that Ferry has page-locked itself is usually unlocked before this
 * call. If the memory is still page-locked, this call unlocks it first. */
static ferry_status
system_memory_free(void *user, void *memory, size_t bytes)
{
    const struct ferryi_place_backend *from = user;
    ferryi_pins_remove_own(ferryi_engine_pins(from->engine), memory, bytes);
    free(memory);
    return FERRY_OK;
}

/* -- in a traced context ----------------------------------------------------------------------- */

static void
trace_memory(struct ferryi_place_backend *from, const char *name, uint64_t begun_ns, size_t bytes,
             uint64_t all)
{
    ferryi_trace *trace = from->context->trace;
    const struct ferryi_trace_text place = ferryi_trace_place(trace, from->place),
                                   kind = FERRYI_TRACE_ANY(ferryi_memory_kind_names[from->kind]);
    const struct ferryi_trace_argument arguments[] = {FERRYI_TRACE_TEXT("place", place),
                                                      FERRYI_TRACE_TEXT("memory", kind),
                                                      FERRYI_TRACE_NUMBER("bytes", bytes)};
    ferryi_trace_add(trace, &(struct ferryi_trace_entry){.phase = 'X',
                                                         .category = FERRYI_TRACE_PLAIN("pool"),
                                                         .name = FERRYI_TRACE_ANY(name),
                                                         .begun_ns = begun_ns,
                                                         .arguments = arguments,
                                                         .argument_count = 3});
    char counter[64];
    snprintf(counter, sizeof(counter), "%s memory of %s", kind.text, place.text);
    const struct ferryi_trace_argument value = FERRYI_TRACE_NUMBER("bytes", all);
    ferryi_trace_add(trace, &(struct ferryi_trace_entry){.phase = 'C',
                                                         .category = FERRYI_TRACE_PLAIN("pool"),
                                                         .name = FERRYI_TRACE_ANY(counter),
                                                         .arguments = &value,
                                                         .argument_count = 1});
}

/* Traces a call that has allocated memory, or has failed to. */
static void
trace_growth(struct ferryi_place_backend *from, ferry_status status, uint64_t begun, size_t bytes)
{
    if (status == FERRY_OK)
        trace_memory(from, "grow", begun, bytes,
                     atomic_fetch_add(&from->traced_bytes, bytes) + bytes);
    else
        trace_memory(from, "grow refused", begun, bytes, atomic_load(&from->traced_bytes));
}

/* Traces a call that has freed memory, or has failed to. */
static void
trace_shrinking(struct ferryi_place_backend *from, ferry_status status, uint64_t begun,
                size_t bytes)
{
    if (status == FERRY_OK)
        trace_memory(from, "shrink", begun, bytes,
                     atomic_fetch_sub(&from->traced_bytes, bytes) - bytes);
    else
        trace_memory(from, "shrink refused", begun, bytes, atomic_load(&from->traced_bytes));
}

static ferry_status
traced_alloc(void *user, size_t bytes, void **out)
{
    struct ferryi_place_backend *from = user;
    uint64_t begun = ferryi_now_ns();
    ferry_status status = from->untraced.alloc(user, bytes, out);
    trace_growth(from, status, begun, bytes);
    return status;
}

static ferry_status
traced_free(void *user, void *memory, size_t bytes)
{
    struct ferryi_place_backend *from = user;
    uint64_t begun = ferryi_now_ns();
    ferry_status status = from->untraced.free(user, memory, bytes);
    trace_shrinking(from, status, begun, bytes);
    return status;
}

static ferry_status
traced_range_map(void *user, void *memory, size_t bytes, void **out_handle)
{
    struct ferryi_place_backend *from = user;
    uint64_t begun = ferryi_now_ns();
    ferry_status status = from->untraced.range_map(user, memory, bytes, out_handle);
    trace_growth(from, status, begun, bytes);
    return status;
}

static ferry_status
traced_range_unmap(void *user, void *memory, size_t bytes, void *handle)
{
    struct ferryi_place_backend *from = user;
    uint64_t begun = ferryi_now_ns();
    ferry_status status = from->untraced.range_unmap(user, memory, bytes, handle);
    trace_shrinking(from, status, begun, bytes);
    return status;
}

static void
trace_backend(ferry_context *context, int place, struct ferryi_place_backend *from,
              struct ferryi_pool_backend *backend)
{
    from->context = context;
    from->place = place;
    from->untraced = *backend;
    backend->alloc = traced_alloc;
    backend->free = traced_free;
    if (backend->range_map) {
        backend->range_map = traced_range_map;
        backend->range_unmap = traced_range_unmap;
    }
}

/* Sets the functions that allocate and free the backend's kind of memory. */
static void
choose_callbacks(const ferry_context *context, struct ferryi_place_backend *user,
                 struct ferryi_pool_backend *out)
{
    out->user = user;
    if (user->kind == FERRY_MEMORY_PINNED) {
        out->alloc = pinned_memory_alloc;
        out->free = pinned_memory_free;
    } else if (user->device) {
        out->alloc = device_memory_alloc;
        out->free = device_memory_free;
    } else if (context->debug) {
        out->alloc = ferryi_double_map_alloc;
        out->free = ferryi_double_map_free;
    } else {
        out->alloc = system_memory_alloc;
        out->free = system_memory_free;
    }
}

/* The addresses of a range are this many times as many as the device has memory, so that holes
 * between blocks that stay do not use them up. */
#define ADDRESSES_PER_BYTE 8

/* Lets the pool of a device's memory map handles, if the context's tuning wants it and the device
 * can. */
static void
choose_range(const ferry_context *context, const struct ferryi_place_backend *user,
             struct ferryi_pool_backend *out)
{
    size_t step = user->device ? user->device->properties.handle_bytes : 0, bytes, handle;
    if (user->kind != FERRY_MEMORY_DEVICE || context->device_handle_bytes == 0 || step == 0 ||
        !ferryi_round_up(context->device_handle_bytes, step, &handle) ||
        !ferryi_mul_size(user->device->properties.total_bytes, ADDRESSES_PER_BYTE, &bytes) ||
        bytes < handle)
        return;
    out->range_reserve = device_range_reserve;
    out->range_release = device_range_release;
    out->range_map = device_range_map;
    out->range_unmap = device_range_unmap;
    out->range_bytes = bytes - bytes % handle;
    out->handle_bytes = handle;
}

static void
choose_limit(const ferry_context *context, ferry_memory_kind kind,
             struct ferryi_pool_config *config)
{
    if (kind == FERRY_MEMORY_PINNED) {
        config->limit_bytes = context->pinned_bytes_limit;
        config->limit_name = "pinned_bytes_limit";
    } else if (kind == FERRY_MEMORY_PAGEABLE) {
        config->limit_bytes = context->host_bytes_limit;
        config->limit_name = "host_bytes_limit";
    } else {
        config->limit_bytes = context->device_bytes_limit;
        config->limit_name = "device_bytes_limit";
    }
}

ferry_status
ferryi_place_backend_choose(ferry_context *context, int place, ferry_memory_kind kind,
                            struct ferryi_pool_config *config)
{
    if (!context->backends)
        context->backends = calloc((size_t)(context->place_count + 1) * FERRYI_MEMORY_KINDS,
                                   sizeof(*context->backends));
    if (!context->backends)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "make a pool: no host memory");
    struct ferryi_place_backend *user = &context->backends[place * FERRYI_MEMORY_KINDS + (int)kind];
    user->kind = kind;
    if (kind == FERRY_MEMORY_DEVICE)
        user->device = context->devices[place];
    else if (kind == FERRY_MEMORY_PINNED)
        user->device = context->devices[ferryi_shell_place_with(context, FERRY_CAN_PIN)];
    else if (kind == FERRY_MEMORY_MANAGED)
        user->device = context->devices[ferryi_shell_place_with(context, FERRY_CAN_MANAGE)];
    if (kind != FERRY_MEMORY_PAGEABLE && !user->device)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "make a pool of %s memory: no device of the context has it",
                           ferryi_memory_kind_names[kind]);
    user->engine = context->engine;
    config->backend = (struct ferryi_pool_backend){0};
    choose_callbacks(context, user, &config->backend);
    choose_range(context, user, &config->backend);
    if (context->trace)
        trace_backend(context, place, user, &config->backend);
    config->backend.align = user->device ? FERRYI_POOL_ALIGN : ferryi_page_bytes();
    if (kind == FERRY_MEMORY_DEVICE || kind == FERRY_MEMORY_MANAGED)
        config->backend.info = device_memory_info;
    config->backend.free_waits =
        user->device && (user->device->capabilities & FERRYI_DEVICE_FREE_WAITS);
    choose_limit(context, kind, config);
    return FERRY_OK;
}
