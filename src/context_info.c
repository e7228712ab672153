/* SPDX-License-Identifier: MIT */
#include "src/shell/shell.h"

/* What a context tells about itself. */

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
    *out = (ferry_place_info){.kind = "host", .name = "host memory", .coherent = true};
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
    return FERRY_OK;
}

static size_t
left_of(size_t limit, size_t taken)
{
    return limit > taken ? limit - taken : 0;
}

/* *out_limited is what the place's limit counts: pinned and managed memory have limits of their
 * own. */
static void
add_pools(ferry_context *context, int place, ferry_memory_info *out, size_t *out_limited)
{
    const int limited = place ? FERRY_MEMORY_DEVICE : FERRY_MEMORY_PAGEABLE;
    *out_limited = 0;
    ferryi_mutex_lock(&context->pool_mutex);
    for (int kind = 0; kind < FERRYI_MEMORY_KINDS; kind++) {
        size_t live, cached, reserved;
        if (!context->pools[place][kind])
            continue;
        ferryi_pool_bytes(context->pools[place][kind], &live, &cached, &reserved);
        out->live += live;
        out->cached += cached;
        out->used += reserved;
        if (kind == limited)
            *out_limited = reserved;
    }
    ferryi_mutex_unlock(&context->pool_mutex);
}

void
ferryi_place_pool_bytes(ferry_context *context, int place, size_t *out_live, size_t *out_idle)
{
    ferry_memory_info info = {0};
    size_t limited;
    add_pools(context, place, &info, &limited);
    *out_live = info.live;
    *out_idle = info.cached;
}

void
ferryi_place_pool_work(ferry_context *context, int place, struct ferryi_pool_work *out)
{
    *out = (struct ferryi_pool_work){0};
    ferryi_mutex_lock(&context->pool_mutex);
    for (int kind = 0; kind < FERRYI_MEMORY_KINDS; kind++) {
        struct ferryi_pool_details details;
        if (!context->pools[place][kind])
            continue;
        ferryi_pool_get_details(context->pools[place][kind], &details);
        out->hits += details.hits;
        out->misses += details.misses;
        out->device_allocations += details.device_allocations;
        out->trims += details.trims;
        out->evictions += details.evictions;
        out->waits += details.waits;
        out->shortages += details.shortages;
    }
    ferryi_mutex_unlock(&context->pool_mutex);
}

static void
reset_pool_stats(ferry_context *context)
{
    ferryi_mutex_lock(&context->pool_mutex);
    for (int place = 0; place <= context->place_count; place++)
        for (int kind = 0; kind < FERRYI_MEMORY_KINDS; kind++)
            if (context->pools[place][kind])
                ferryi_pool_reset_stats(context->pools[place][kind]);
    for (struct ferryi_place_own_pool *own = context->own_pools; own; own = own->next)
        ferryi_pool_reset_stats(own->pool);
    ferryi_mutex_unlock(&context->pool_mutex);
}

ferry_status
ferry_context_get_memory_info(ferry_context *context, int place, ferry_memory_info *out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "get memory info: context or out is NULL");
    ferry_status status = ferryi_shell_check_place(context, place, "ask for memory");
    if (status != FERRY_OK)
        return status;
    ferry_memory_info info = {0};
    bool host = place == 0 || (context->coherent >> place & 1);
    size_t limited;
    add_pools(context, host ? 0 : place, &info, &limited);
    size_t limit = host ? context->host_bytes_limit : context->device_bytes_limit;
    if (host) {
        info.total = ferryi_physical_memory();
        info.free = left_of(info.total, info.used);
    } else {
        status = FERRYI_CALL(context->devices[place], memory_info, &info.free, &info.total);
        if (status != FERRY_OK)
            return status;
    }
    if (limit) {
        info.total = ferryi_min_size(info.total, limit);
        info.free = ferryi_min_size(info.free, left_of(limit, limited));
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
    ferry_status status = ferryi_shell_check_alive(context, "ask for transfers");
    if (status != FERRY_OK)
        return status;
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
    ferry_status status = ferryi_shell_check_open(context, "reset the statistics of a context");
    if (status != FERRY_OK)
        return status;
    ferryi_engine_reset_stats(context->engine);
    for (int place = 1; place <= context->place_count; place++)
        atomic_store_explicit(&context->devices[place]->calls, 0, memory_order_relaxed);
    reset_pool_stats(context);
    ferryi_stores_reset_traffic(context);
    return FERRY_OK;
}
