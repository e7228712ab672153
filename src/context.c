/* SPDX-License-Identifier: MIT */
#include "src/context.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/buffer/store.h"
#include "src/buffer/worker.h"
#include "src/kernel/kernel.h"

/* -- counting -------------------------------------------------------------------------------------- */

void
ferryi_context_retain(ferry_context *context)
{
    atomic_fetch_add(&context->references, 1);
}

void
ferryi_context_release(ferry_context *context)
{
    if (atomic_fetch_sub(&context->references, 1) != 1)
        return;
    ferryi_mutex_destroy(&context->pool_mutex);
    ferryi_mutex_destroy(&context->stream_mutex);
    ferryi_mutex_destroy(&context->store_mutex);
    ferryi_mutex_destroy(&context->park_mutex);
    ferryi_mutex_destroy(&context->worker_mutex);
    ferryi_cond_destroy(&context->park_cond);
    for (size_t i = 0; i < FERRYI_LONG_LOCKS; i++)
        ferryi_mutex_destroy(&context->long_locks[i]);
    free(context);
}

/* -- parking --------------------------------------------------------------------------------------- */

uint64_t
ferryi_context_park_epoch(ferry_context *context)
{
    return atomic_load_explicit(&context->park_epoch, memory_order_acquire);
}

bool
ferryi_context_park(ferry_context *context, uint64_t epoch, uint64_t deadline_ns)
{
    bool in_time = true;
    ferryi_mutex_lock(&context->park_mutex);
    while (in_time && atomic_load_explicit(&context->park_epoch, memory_order_relaxed) == epoch) {
        if (deadline_ns)
            in_time = ferryi_cond_wait_until(&context->park_cond, &context->park_mutex, deadline_ns);
        else
            ferryi_cond_wait(&context->park_cond, &context->park_mutex);
    }
    ferryi_mutex_unlock(&context->park_mutex);
    return in_time;
}

void
ferryi_context_unpark(ferry_context *context)
{
    ferryi_mutex_lock(&context->park_mutex);
    atomic_fetch_add_explicit(&context->park_epoch, 1, memory_order_release);
    ferryi_cond_broadcast(&context->park_cond);
    ferryi_mutex_unlock(&context->park_mutex);
}

/* -- creation -------------------------------------------------------------------------------------- */

static void
name_places(ferry_context *context)
{
    snprintf(context->names[0], sizeof(context->names[0]), "host");
    for (int place = 1; place <= context->place_count; place++) {
        ferryi_device *device = context->devices[place];
        bool plain = device->capabilities & FERRYI_DEVICE_COHERENT;
        if (plain)
            snprintf(context->names[place], sizeof(context->names[place]), "%s", device->kind);
        else
            snprintf(context->names[place], sizeof(context->names[place]), "%s:%d", device->kind, device->properties.native);
        context->coherent |= plain ? 1u << place : 0;
    }
    context->coherent |= context->coherent ? 1u : 0;
}

static ferry_status
open_default_streams(ferry_context *context)
{
    for (int place = 1; place <= context->place_count; place++) {
        ferry_stream *stream;
        ferry_status status = ferryi_stream_open_default(context, place, &stream);
        if (status != FERRY_OK)
            return status;
        context->defaults[place] = stream;
    }
    return FERRY_OK;
}

static ferry_status
open_engine(ferry_context *context, const ferry_context_options *options)
{
    struct ferryi_engine_config config = {
        .devices = context->devices,
        .count = context->place_count,
        .order = &context->order,
        .log = &context->log,
        .chunk_bytes = options->staging_chunk_bytes ? ferryi_max_size(options->staging_chunk_bytes, 4096) : (size_t)256 << 10,
        .chunk_count = options->staging_chunk_count ? ferryi_max_size(options->staging_chunk_count, 2) : 4,
        .trace = options->trace,
        .trace_user = options->trace_user,
    };
    return ferryi_engine_create(&config, &context->engine);
}

static ferry_status
open_devices(ferry_context *context, const ferry_context_options *options)
{
    ferryi_device *devices[FERRYI_DEVICES_MAX];
    struct ferryi_device_config config = {
        .log = context->log,
        .emulated_memory_bytes = options->emulated_memory_bytes,
        .emulated_latency_ns = options->emulated_latency_ns,
        .emulated_bytes_per_second = options->emulated_bytes_per_second,
    };
    const char *spec = options->devices ? options->devices : ferryi_getenv("FERRY_DEVICE");
    if (spec && !*spec && !options->devices)
        spec = NULL;
    ferry_status status = ferryi_devices_open(spec, &config, devices, &context->place_count);
    if (status != FERRY_OK)
        return status;
    for (int i = 0; i < context->place_count; i++)
        context->devices[i + 1] = devices[i];
    context->order.internal_reserve = 3 * context->place_count;
    name_places(context);
    return FERRY_OK;
}

static ferry_context *
context_new(const ferry_context_options *options)
{
    ferry_context *context = calloc(1, sizeof(*context));
    if (!context)
        return NULL;
    atomic_init(&context->references, 1);
    context->log = (struct ferryi_log){options->log, options->log_user};
    context->buffer_bytes_limit = options->buffer_bytes_limit ? options->buffer_bytes_limit : SIZE_MAX;
    context->device_bytes_limit = options->device_bytes_limit;
    context->host_bytes_limit = options->host_bytes_limit ? options->host_bytes_limit : ferryi_physical_memory();
    context->pinned_bytes_limit = options->pinned_bytes_limit ? options->pinned_bytes_limit : ferryi_physical_memory() / 4;
    ferryi_mutex_init(&context->pool_mutex);
    ferryi_mutex_init(&context->stream_mutex);
    ferryi_mutex_init(&context->store_mutex);
    ferryi_mutex_init(&context->park_mutex);
    ferryi_mutex_init(&context->worker_mutex);
    ferryi_cond_init(&context->park_cond);
    for (size_t i = 0; i < FERRYI_LONG_LOCKS; i++)
        ferryi_mutex_init(&context->long_locks[i]);
    return context;
}

static void context_close(ferry_context *context);

ferry_status
ferry_context_create(const ferry_context_options *options, ferry_context **out)
{
    static const ferry_context_options defaults;
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a context: out is NULL");
    if (!options)
        options = &defaults;
    ferry_context *context = context_new(options);
    if (!context)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create a context: no memory for %zu bytes", sizeof(*context));

    ferry_status status;
    FERRY_TRY(status, fail, ferryi_order_init(&context->order, &context->log));
    FERRY_TRY(status, fail, open_devices(context, options));
    FERRY_TRY(status, fail, open_engine(context, options));
    FERRY_TRY(status, fail, open_default_streams(context));
    *out = context;
    return FERRY_OK;

fail:
    context_close(context);
    return ferryi_fail_in(status, "create a context");
}

/* -- the end --------------------------------------------------------------------------------------- */

static void
report_and_kill_stores(ferry_context *context)
{
    for (;;) {
        ferryi_mutex_lock(&context->store_mutex);
        ferryi_store *store = context->stores;
        if (store) {
            context->stores = store->next;
            if (store->next)
                store->next->prev = NULL;
            store->next = NULL;
            ferryi_store_retain(store);
        }
        ferryi_mutex_unlock(&context->store_mutex);
        if (!store)
            break;
        /* Releasing wrapped memory calls the user, who may destroy buffers: no lock is held, and this one is kept until then. */
        ferryi_log(&context->log, FERRY_LOG_ERROR, "destroy a context: buffer \"%s\" of %zu bytes is still alive", ferryi_store_name(store),
                   store->map.bytes);
        ferryi_store_kill(store);
        ferryi_store_release(store);
    }
}

/* Also for a context that is only half made. */
static void
context_close(ferry_context *context)
{
    ferryi_worker_stop(context);
    for (int place = 1; place <= context->place_count; place++)
        if (ferryi_device_synchronize(context->devices[place]) != FERRY_OK)
            ferryi_log(&context->log, FERRY_LOG_ERROR, "destroy a context: %s", ferry_last_error());
    ferryi_kernels_close(context);
    report_and_kill_stores(context);
    ferryi_streams_close(context);
    for (int place = 0; place <= context->place_count; place++)
        for (int kind = 0; kind < FERRYI_MEMORY_KINDS; kind++)
            ferryi_pool_destroy(&context->pools[place][kind]);
    ferryi_engine_destroy(&context->engine);
    ferryi_order_clear(&context->order);
    for (int place = 1; place <= context->place_count; place++)
        context->devices[place]->ops->close(context->devices[place]);
    atomic_store(&context->closed, true);
    ferryi_context_release(context);
}

/* -- the shared context ---------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    ferry_context *context;
    unsigned users;
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

ferry_status
ferry_context_shared(ferry_context **out)
{
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "share a context: out is NULL");
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&shared.mutex);
    if (!shared.context) {
        status = ferry_context_create(NULL, &shared.context);
        if (status == FERRY_OK)
            shared.context->shared = true;
    }
    if (status == FERRY_OK) {
        shared.users++;
        *out = shared.context;
    }
    ferryi_mutex_unlock(&shared.mutex);
    return status;
}

void
ferry_context_destroy(ferry_context **context)
{
    if (!context || !*context)
        return;
    ferry_context *closing = *context;
    *context = NULL;
    if (closing->shared) {
        ferryi_mutex_lock(&shared.mutex);
        bool last = --shared.users == 0;
        if (last)
            shared.context = NULL;
        ferryi_mutex_unlock(&shared.mutex);
        if (!last)
            return;
    }
    context_close(closing);
}

/* -- pools ----------------------------------------------------------------------------------------- */

static ferry_status
device_memory_alloc(void *user, size_t bytes, void **out)
{
    const struct ferryi_context_backend *from = user;
    return FERRYI_CALL(from->device, memory_alloc, from->kind, bytes, out);
}

static ferry_status
device_memory_free(void *user, void *memory, size_t bytes)
{
    const struct ferryi_context_backend *from = user;
    (void)bytes;
    return FERRYI_CALL(from->device, memory_free, from->kind, memory);
}

static ferry_status
system_memory_alloc(void *user, size_t bytes, void **out)
{
    (void)user;
    size_t align = bytes >= ((size_t)64 << 10) ? ferryi_page_bytes() : FERRYI_POOL_ALIGN;
    size_t rounded;
    void *memory = ferryi_round_up(bytes, align, &rounded) ? aligned_alloc(align, rounded) : NULL;
    if (!memory)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "allocate %zu bytes of host memory: the system has none", bytes);
    *out = memory;
    return FERRY_OK;
}

static ferry_status
system_memory_free(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
    return FERRY_OK;
}

static ferryi_device *
device_with(ferry_context *context, uint64_t capability)
{
    for (int place = 1; place <= context->place_count; place++)
        if (context->devices[place]->capabilities & capability)
            return context->devices[place];
    return NULL;
}

/* Fills in where the memory comes from. */
static ferry_status
choose_backend(ferry_context *context, int place, ferry_memory_kind kind, struct ferryi_pool_config *config,
               struct ferryi_context_backend *user)
{
    user->kind = kind;
    if (kind == FERRY_MEMORY_DEVICE)
        user->device = context->devices[place];
    else if (kind == FERRY_MEMORY_PINNED)
        user->device = device_with(context, FERRY_CAN_PIN);
    else if (kind == FERRY_MEMORY_MANAGED)
        user->device = device_with(context, FERRY_CAN_MANAGE);
    if (kind != FERRY_MEMORY_PAGEABLE && !user->device)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "make a pool of %s memory: no device of the context has it",
                           kind == FERRY_MEMORY_MANAGED ? "managed" : "pinned");
    config->backend = user->device ? (struct ferryi_pool_backend){.alloc = device_memory_alloc, .free = device_memory_free, .user = user}
                                   : (struct ferryi_pool_backend){.alloc = system_memory_alloc, .free = system_memory_free, .user = user};
    config->limit_bytes = kind == FERRY_MEMORY_DEVICE    ? context->device_bytes_limit
                          : kind == FERRY_MEMORY_PINNED  ? context->pinned_bytes_limit
                          : kind == FERRY_MEMORY_MANAGED ? context->device_bytes_limit
                                                         : context->host_bytes_limit;
    return FERRY_OK;
}

static ferry_status
make_pool(ferry_context *context, int place, ferry_memory_kind kind)
{
    static const char *const kinds[] = {"", "device", "pinned", "pageable", "managed"};
    char name[64];
    snprintf(name, sizeof(name), "%s %s memory", context->names[place], kinds[kind]);
    struct ferryi_pool_config config = {.order = &context->order, .log = &context->log, .context = context,
                                        .place = place, .kind = kind, .name = name};
    struct ferryi_context_backend *user = &context->backends[place][kind];
    ferry_status status = choose_backend(context, place, kind, &config, user);
    return status == FERRY_OK ? ferryi_pool_create(&config, &context->pools[place][kind]) : status;
}

ferry_status
ferryi_context_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out)
{
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&context->pool_mutex);
    if (!context->pools[place][kind])
        status = make_pool(context, place, kind);
    if (status == FERRY_OK)
        *out = context->pools[place][kind];
    ferryi_mutex_unlock(&context->pool_mutex);
    return status;
}

ferry_status
ferry_context_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out)
{
    if (!context || !out || kind < FERRY_MEMORY_DEFAULT || kind > FERRY_MEMORY_MANAGED)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "get a pool: context or out is NULL, or memory kind %d is unknown", (int)kind);
    ferry_status status = ferryi_context_check_place(context, place, "get a pool");
    if (status != FERRY_OK)
        return status;
    if (kind == FERRY_MEMORY_DEFAULT)
        kind = place == 0 ? FERRY_MEMORY_PAGEABLE : FERRY_MEMORY_DEVICE;
    if ((kind == FERRY_MEMORY_DEVICE) != (place != 0))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "get a pool: device memory is at places 1 to %d, other kinds at place 0, not at %d",
                           context->place_count, place);
    /* A coherent device's memory is the host's. */
    if (place != 0 && (context->coherent >> place & 1)) {
        place = 0;
        kind = FERRY_MEMORY_PAGEABLE;
    }
    return ferryi_context_pool(context, place, kind, out);
}

/* -- questions ------------------------------------------------------------------------------------- */

ferry_status
ferryi_context_check_place(const ferry_context *context, int place, const char *what)
{
    if (place < 0 || place > context->place_count)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: there is no place %d, only 0 to %d", what, place, context->place_count);
    return FERRY_OK;
}

ferry_status
ferryi_context_lane(ferry_context *context, ferry_stream *stream, const char *what, ferryi_lane **out)
{
    if (atomic_load_explicit(&context->closed, memory_order_relaxed))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s: the context was destroyed", what);
    if (!stream && context->place_count != 1)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: a stream is needed in a context with %d devices", what, context->place_count);
    if (!stream)
        stream = context->defaults[1];
    if (stream->context != context)
        return ferryi_fail(FERRY_ERROR_WRONG_CONTEXT, "%s: the stream belongs to another context", what);
    *out = stream->lane;
    return FERRY_OK;
}

int
ferry_context_place_count(const ferry_context *context)
{
    return context ? context->place_count : 0;
}

ferry_status
ferry_context_place_info(ferry_context *context, int place, ferry_place_info *out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "describe a place: context or out is NULL");
    ferry_status status = ferryi_context_check_place(context, place, "describe a place");
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

static void
add_pools(ferry_context *context, int place, ferry_memory_info *out)
{
    ferryi_mutex_lock(&context->pool_mutex);
    for (int kind = 0; kind < FERRYI_MEMORY_KINDS; kind++) {
        size_t live, cached, reserved;
        if (!context->pools[place][kind])
            continue;
        ferryi_pool_bytes(context->pools[place][kind], &live, &cached, &reserved);
        out->live += live;
        out->cached += cached;
        out->used += reserved;
    }
    ferryi_mutex_unlock(&context->pool_mutex);
}

ferry_status
ferry_context_memory_info(ferry_context *context, int place, ferry_memory_info *out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "ask for memory: context or out is NULL");
    ferry_status status = ferryi_context_check_place(context, place, "ask for memory");
    if (status != FERRY_OK)
        return status;
    ferry_memory_info info = {0};
    bool host = place == 0 || (context->coherent >> place & 1);
    add_pools(context, host ? 0 : place, &info);
    size_t limit = host ? context->host_bytes_limit : context->device_bytes_limit;
    if (host) {
        info.total = ferryi_min_size(limit, ferryi_physical_memory());
    } else {
        size_t device_free = 0;
        status = FERRYI_CALL(context->devices[place], memory_info, &device_free, &info.total);
        if (status != FERRY_OK)
            return status;
        info.used = ferryi_max_size(info.used, info.total - device_free);
        if (limit)
            info.total = ferryi_min_size(limit, info.total);
    }
    info.used = ferryi_min_size(info.used, info.total);
    info.free = info.total - info.used;
    *out = info;
    return FERRY_OK;
}

ferry_status
ferry_context_transfer_stats(ferry_context *context, ferry_transfer_stats *out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "ask for transfers: context or out is NULL");
    ferryi_engine_stats(context->engine, out);
    out->device_calls = 0;
    for (int place = 1; place <= context->place_count; place++)
        out->device_calls += atomic_load_explicit(&context->devices[place]->calls, memory_order_relaxed);
    return FERRY_OK;
}

ferry_stream *
ferry_context_stream(ferry_context *context, int place)
{
    return context && place >= 1 && place <= context->place_count ? context->defaults[place] : NULL;
}
