/* SPDX-License-Identifier: MIT */
#include "src/buffer/buffer.h"
#include "src/store/place_pool.h"
#include "src/transfer/engine.h"

/* Queries about a context. */

int
ferry_context_place_count(const ferry_context *context)
{
    return context ? context->place_count : 0;
}

ferry_status
ferry_context_get_place_info(ferry_context *context, int place, ferry_place_info *out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "describe a place: context or out is NULL");
    ferry_status status = ferryi_shell_check_alive(context, "describe a place");
    if (status == FERRY_OK && (place < 0 || place > context->place_count))
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                             "describe a place: there is no place %d, only 0 to %d", place,
                             context->place_count);
    if (status != FERRY_OK)
        return status;
    *out =
        (ferry_place_info){.kind = "host", .name = "host memory", .coherent = true, .target = ""};
    if (place == 0)
        return FERRY_OK;
    const ferryi_device *device = context->devices[place];
    out->kind = device->kind;
    out->name = device->properties.name;
    out->native = device->properties.native;
    out->coherent = device->capabilities & FERRYI_DEVICE_COHERENT;
    out->capabilities = device->capabilities & 0xffff;
    out->architecture = device->properties.architecture;
    out->driver_version = device->properties.driver_version;
    out->language = device->properties.language;
    out->target = device->properties.target;
    out->native_context = device->properties.native_context;
    return FERRY_OK;
}

static size_t
left_of(size_t limit, size_t taken)
{
    return limit > taken ? limit - taken : 0;
}

ferry_status
ferry_context_get_memory_info(ferry_context *context, int place, ferry_memory_info *out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "get memory info: context or out is NULL");
    FERRYI_OR_RETURN(ferryi_shell_check_place(context, place, "ask for memory"));
    ferry_memory_info info = {0};
    bool host = place == 0 || (context->coherent >> place & 1);
    struct ferryi_place_memory memory;
    ferryi_place_pool_memory(context, host ? 0 : place, &memory);
    info.live = memory.live;
    info.cached = memory.cached;
    if (host) {
        info.total = ferryi_physical_memory();
        info.free = left_of(info.total, memory.reserved);
    } else {
        FERRYI_OR_RETURN(
            FERRYI_CALL(context->devices[place], memory_info, &info.free, &info.total));
    }
    if (memory.limit) {
        info.total = ferryi_min_size(info.total, memory.limit);
        info.free = ferryi_min_size(info.free, left_of(memory.limit, memory.limited));
    }
    info.used = info.total - info.free;
    *out = info;
    return FERRY_OK;
}

ferry_status
ferry_context_get_transfer_stats(ferry_context *context, ferry_transfer_stats *out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "get transfer statistics: context or out is NULL");
    FERRYI_OR_RETURN(ferryi_shell_check_alive(context, "ask for transfers"));
    ferryi_engine_stats(context->engine, out);
    out->device_calls = 0;
    for (int place = 1; place <= context->place_count; place++)
        out->device_calls +=
            atomic_load_explicit(&context->devices[place]->calls, memory_order_relaxed);
    return FERRY_OK;
}

ferry_status
ferry_context_reset_stats(ferry_context *context)
{
    if (!context)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "reset the statistics of a context: context is NULL");
    FERRYI_OR_RETURN(ferryi_shell_check_open(context, "reset the statistics of a context"));
    ferryi_engine_reset_stats(context->engine);
    for (int place = 1; place <= context->place_count; place++)
        atomic_store_explicit(&context->devices[place]->calls, 0, memory_order_relaxed);
    ferryi_place_pools_reset_stats(context);
    ferryi_stores_reset_traffic(context);
    return FERRY_OK;
}
