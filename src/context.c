/* SPDX-License-Identifier: MIT */
#include "src/context.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fork.h"
#include "src/base/guarded.h"
#include "src/buffer/buffer.h"
#include "src/buffer/evict.h"
#include "src/buffer/store.h"
#include "src/buffer/worker.h"
#include "src/kernel/kernel.h"
#include "src/kernel/nvrtc.h"

/* A host copy that has crossed so often will go on crossing. */
#define PIN_AFTER 10
#define PIN_AFTER_MOST UINT16_MAX

/* -- counting -------------------------------------------------------------------------------------- */

void
ferryi_context_retain(ferry_context *context)
{
    atomic_fetch_add(&context->references, 1);
}

void
ferryi_context_release(ferry_context *context)
{
    if (context->inherited || atomic_fetch_sub(&context->references, 1) != 1)
        return;
    ferryi_stores_clear(context);
    ferryi_mutex_destroy(&context->pool_mutex);
    ferryi_mutex_destroy(&context->stream_mutex);
    ferryi_mutex_destroy(&context->store_mutex);
    ferryi_mutex_destroy(&context->park_mutex);
    ferryi_mutex_destroy(&context->worker_mutex);
    ferryi_cond_destroy(&context->park_cond);
    free(context->allocation_log);
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
        .chunk_bytes = options->staging_chunk_bytes ? ferryi_max_size(options->staging_chunk_bytes, 4096) : 0,
        .chunk_count = options->staging_chunk_count ? ferryi_max_size(options->staging_chunk_count, 2) : 0,
        .copy = (ferry_staging_copy)options->staging_copy,
        .threads = options->staging_threads,
        .pinned_bytes_limit = context->pinned_bytes_limit,
        .trace = options->trace,
        .trace_user = options->trace_user,
    };
    return ferryi_engine_create(&config, &context->engine);
}

static ferry_status
compile_conversion(const char *name, const char *text, int architecture, const struct ferryi_log *log, void **out_image, size_t *out_bytes)
{
    const char *const options[] = {"--fmad=false"};
    struct ferryi_nvrtc_source source = {.name = name, .text = text, .options = options, .option_count = 1, .architecture = architecture};
    struct ferryi_nvrtc_image image;
    ferry_status status = ferryi_nvrtc_compile(&source, log, &image);
    if (status == FERRY_OK) {
        *out_image = image.bytes;
        *out_bytes = image.size;
    }
    return status;
}

static ferry_status
open_converters(ferry_context *context)
{
    ferry_status status = FERRY_OK;
    for (int place = 1; place <= context->place_count && status == FERRY_OK; place++)
        if (!(context->coherent >> place & 1))
            status = ferryi_converter_create(context->devices[place], &context->log, compile_conversion, &context->converters[place]);
    return status;
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
        .emulated_without_peers = options->emulated_without_peers,
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

/* The environment speaks for all contexts of the process, whose logs must not overwrite each other. */
static ferry_status
name_allocation_log(ferry_context *context, const char *wanted)
{
    static _Atomic unsigned named;
    const char *from = wanted ? wanted : ferryi_getenv("FERRY_ALLOCATION_LOG");
    if (!from || !*from)
        return FERRY_OK;
    unsigned number = wanted ? 1 : atomic_fetch_add(&named, 1) + 1;
    int length = number > 1 ? asprintf(&context->allocation_log, "%s.%u", from, number) : asprintf(&context->allocation_log, "%s", from);
    if (length >= 0)
        return FERRY_OK;
    context->allocation_log = NULL;
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "name the allocation log: no host memory");
}

static ferry_context *
context_new(const ferry_context_options *options)
{
    ferry_context *context = calloc(1, sizeof(*context));
    if (!context)
        return NULL;
    atomic_init(&context->references, 1);
    context->log = (struct ferryi_log){options->log, options->log_user};
    context->debug = ferryi_is_debug_run();
    context->buffer_bytes_limit = options->buffer_bytes_limit ? options->buffer_bytes_limit : SIZE_MAX;
    context->device_bytes_limit = options->device_bytes_limit;
    context->host_bytes_limit = options->host_bytes_limit ? options->host_bytes_limit : ferryi_physical_memory();
    context->pin_after = options->pin_after ? ferryi_min_size(options->pin_after, PIN_AFTER_MOST) : PIN_AFTER;
    if (options->pin_after == FERRY_PIN_NEVER)
        context->pin_after = SIZE_MAX;
    context->grows = options->growable_device_memory;
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
    if (options->staging_copy > FERRY_STAGING_COPY_STREAM)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a context: there is no staging copy %u", (unsigned)options->staging_copy);
    ferry_context *context = context_new(options);
    if (!context)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create a context: no memory for %zu bytes", sizeof(*context));

    ferry_status status;
    FERRY_TRY(status, fail, ferryi_order_init(&context->order, &context->log));
    FERRY_TRY(status, fail, name_allocation_log(context, options->allocation_log));
    FERRY_TRY(status, fail, open_devices(context, options));
    FERRY_TRY(status, fail, open_engine(context, options));
    FERRY_TRY(status, fail, open_converters(context));
    FERRY_TRY(status, fail, open_default_streams(context));
    ferryi_context_list(context);
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
            ferryi_store_unlist(store);
            ferryi_store_retain(store);
        }
        ferryi_mutex_unlock(&context->store_mutex);
        if (!store)
            break;
        /* Releasing wrapped memory calls the user, who may destroy buffers: no lock is held, and this one is kept until then. */
        char scopes[200];
        ferryi_store_describe_scopes(store, scopes, sizeof(scopes));
        ferryi_log(&context->log, FERRY_LOG_ERROR, "destroy a context: buffer \"%s\" of %zu bytes is still alive%s%s", ferryi_store_name(store),
                   store->map.bytes, *scopes ? "; open: " : "", scopes);
        ferryi_store_kill(store);
        ferryi_store_release(store);
    }
}

/* Pools that the program made and did not destroy. */
static void
close_own_pools(ferry_context *context)
{
    while (context->own_pools) {
        struct ferryi_context_own_pool *own = context->own_pools;
        ferryi_log(&context->log, FERRY_LOG_WARNING, "destroy a context: a pool that was made over a backend of the program's is still there, and destroyed now");
        context->own_pools = own->next;
        ferryi_pool_destroy(&own->pool);
        free(own);
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
    close_own_pools(context);
    ferryi_engine_destroy(&context->engine);
    for (int place = 1; place <= context->place_count; place++)
        ferryi_converter_destroy(&context->converters[place]);
    ferryi_order_clear(&context->order);
    for (int place = 1; place <= context->place_count; place++)
        context->devices[place]->ops->close(context->devices[place]);
    atomic_store(&context->closed, true);
    ferryi_context_unlist(context);
    ferryi_context_release(context);
}

/* -- the shared context ---------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    ferry_context *context;
    unsigned users;
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The mutex is held while a context is made, which may take long; so a fork does not wait for it. */
static void
forget_shared(bool in_child)
{
    if (!in_child)
        return;
    ferryi_mutex_init(&shared.mutex);
    shared.context = NULL;
    shared.users = 0;
}

static struct ferryi_fork_part sharing = {.after = forget_shared};
FERRYI_AT_FORK(sharing)

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
    if (closing->inherited)
        return;
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

/* Device memory of granules, where it is a multiple of them. */
static ferry_status
granule_memory_alloc(void *user, size_t bytes, void **out)
{
    const struct ferryi_context_backend *from = user;
    return bytes % from->device->granule_bytes == 0 ? FERRYI_CALL(from->device, range_make, NULL, 0, bytes, out)
                                                    : device_memory_alloc(user, bytes, out);
}

static ferry_status
granule_memory_free(void *user, void *memory, size_t bytes)
{
    const struct ferryi_context_backend *from = user;
    return bytes % from->device->granule_bytes == 0 ? FERRYI_CALL(from->device, range_free, memory, bytes)
                                                    : device_memory_free(user, memory, bytes);
}

static ferry_status
granule_memory_remake(void *user, const struct ferryi_range_part *parts, size_t count, size_t bytes, void **out)
{
    const struct ferryi_context_backend *from = user;
    return FERRYI_CALL(from->device, range_make, parts, count, bytes, out);
}

/* Page-locked memory shares its limit with copies that turned pinned by themselves, which make room for it. */
static ferry_status
pinned_memory_alloc(void *user, size_t bytes, void **out)
{
    const struct ferryi_context_backend *from = user;
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
    const struct ferryi_context_backend *from = user;
    ferry_status status = device_memory_free(user, memory, bytes);
    if (status == FERRY_OK)
        ferryi_pins_pool_gave(ferryi_engine_pins(from->engine), bytes);
    return status;
}

static ferry_status
device_memory_info(void *user, size_t *out_free, size_t *out_total)
{
    const struct ferryi_context_backend *from = user;
    return FERRYI_CALL(from->device, memory_info, out_free, out_total);
}

static ferry_status
system_memory_alloc(void *user, size_t bytes, void **out)
{
    (void)user;
    size_t align = ferryi_page_bytes(), rounded;
    void *memory = ferryi_round_up(bytes, align, &rounded) ? aligned_alloc(align, rounded) : NULL;
    if (!memory)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "allocate %zu bytes of host memory: the system has none", bytes);
    *out = memory;
    return FERRY_OK;
}

/* What turned pinned was unlocked when its block came back; this makes sure. */
static ferry_status
system_memory_free(void *user, void *memory, size_t bytes)
{
    const struct ferryi_context_backend *from = user;
    ferryi_pins_remove_own(ferryi_engine_pins(from->engine), memory, bytes);
    free(memory);
    return FERRY_OK;
}

/* Host memory of checked runs: see src/buffer/guard.h. */
static ferry_status
checked_memory_alloc(void *user, size_t bytes, void **out)
{
    (void)user;
    return ferryi_shared_alloc(bytes, out);
}

static ferry_status
checked_memory_free(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    ferryi_shared_free(memory);
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
    config->backend = user->device     ? (struct ferryi_pool_backend){.alloc = device_memory_alloc, .free = device_memory_free, .user = user}
                      : context->debug ? (struct ferryi_pool_backend){.alloc = checked_memory_alloc, .free = checked_memory_free, .user = user}
                                       : (struct ferryi_pool_backend){.alloc = system_memory_alloc, .free = system_memory_free, .user = user};
    user->engine = context->engine;
    if (kind == FERRY_MEMORY_PINNED) {
        config->backend.alloc = pinned_memory_alloc;
        config->backend.free = pinned_memory_free;
    }
    if (kind == FERRY_MEMORY_DEVICE && context->grows && (user->device->capabilities & FERRY_CAN_GROW)) {
        config->backend.alloc = granule_memory_alloc;
        config->backend.free = granule_memory_free;
        config->backend.remake = granule_memory_remake;
        config->backend.granule = user->device->granule_bytes;
    }
    config->backend.align = !user->device ? ferryi_page_bytes() : kind == FERRY_MEMORY_PINNED ? FERRYI_DEVICE_PAGE : FERRYI_POOL_ALIGN;
    if (kind == FERRY_MEMORY_DEVICE || kind == FERRY_MEMORY_MANAGED)
        config->backend.info = device_memory_info;
    config->limit_bytes = kind == FERRY_MEMORY_DEVICE    ? context->device_bytes_limit
                          : kind == FERRY_MEMORY_PINNED  ? context->pinned_bytes_limit
                          : kind == FERRY_MEMORY_MANAGED ? context->device_bytes_limit
                                                         : context->host_bytes_limit;
    return FERRY_OK;
}

static const char *const kind_names[] = {"", "device", "pinned", "pageable", "managed"};

/* NULL when no log is wanted. */
static ferry_status
open_allocation_log(const ferry_context *context, int place, ferry_memory_kind kind, ferryi_allocation_log **out)
{
    char *path;
    *out = NULL;
    if (!context->allocation_log)
        return FERRY_OK;
    if (asprintf(&path, "%s.%s.%s.csv", context->allocation_log, context->names[place], kind_names[kind]) < 0)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "name the allocation log of %s: no host memory", context->names[place]);
    char *colon = strchr(path + strlen(context->allocation_log), ':');
    if (colon)
        *colon = '-';
    ferry_status status = ferryi_allocation_log_open(path, out);
    free(path);
    return status;
}

static ferry_status
make_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out)
{
    char name[64];
    snprintf(name, sizeof(name), "%s %s memory", context->names[place], kind_names[kind]);
    struct ferryi_pool_config config = {.order = &context->order, .log = &context->log, .context = context,
                                        .place = place, .kind = kind, .name = name};
    /* Managed memory is every place's at once: no copy of it can go. */
    if (kind != FERRY_MEMORY_MANAGED)
        config.holders = (struct ferryi_pool_holders){.evict = ferryi_evict, .relocate = kind == FERRY_MEMORY_DEVICE ? ferryi_relocate : NULL, .user = context};
    struct ferryi_context_backend *user = &context->backends[place][kind];
    ferry_status status;
    FERRY_TRY(status, fail, choose_backend(context, place, kind, &config, user));
    FERRY_TRY(status, fail, open_allocation_log(context, place, kind, &config.allocation_log));
    FERRY_TRY(status, fail, ferryi_pool_create(&config, out));
    return FERRY_OK;

fail:
    if (ferryi_allocation_log_close(&config.allocation_log) != FERRY_OK)
        ferryi_log(&context->log, FERRY_LOG_ERROR, "make the pool of %s: %s", name, ferry_last_error());
    return status;
}

ferry_status
ferryi_context_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out)
{
    ferry_status status = FERRY_OK;
    ferry_pool *pool = __atomic_load_n(&context->pools[place][kind], __ATOMIC_ACQUIRE);
    if (!pool) {
        ferryi_mutex_lock(&context->pool_mutex);
        pool = context->pools[place][kind];
        if (!pool && (status = make_pool(context, place, kind, &pool)) == FERRY_OK)
            __atomic_store_n(&context->pools[place][kind], pool, __ATOMIC_RELEASE);
        ferryi_mutex_unlock(&context->pool_mutex);
    }
    if (status == FERRY_OK)
        *out = pool;
    return status;
}

/* Which pools there can be; FERRY_MEMORY_DEFAULT becomes the kind it stands for. */
static ferry_status
check_pool_kind(const ferry_context *context, int place, ferry_memory_kind *kind, const char *what)
{
    if (*kind < FERRY_MEMORY_DEFAULT || *kind > FERRY_MEMORY_MANAGED)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: memory kind %d is unknown", what, (int)*kind);
    ferry_status status = ferryi_context_check_place(context, place, what);
    if (status != FERRY_OK)
        return status;
    if (*kind == FERRY_MEMORY_DEFAULT)
        *kind = place == 0 ? FERRY_MEMORY_PAGEABLE : FERRY_MEMORY_DEVICE;
    if ((*kind == FERRY_MEMORY_DEVICE) != (place != 0))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: device memory is at places 1 to %d, other kinds at place 0, not at %d", what,
                           context->place_count, place);
    return FERRY_OK;
}

ferry_status
ferry_context_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "get a pool: %s is NULL", context ? "out" : "context");
    ferry_status status = check_pool_kind(context, place, &kind, "get a pool");
    if (status != FERRY_OK)
        return status;
    /* A coherent device's memory is the host's. */
    if (place != 0 && (context->coherent >> place & 1)) {
        place = 0;
        kind = FERRY_MEMORY_PAGEABLE;
    }
    return ferryi_context_pool(context, place, kind, out);
}

/* -- memory of the program that it wants page-locked ----------------------------------------------- */

ferry_status
ferry_context_register_host(ferry_context *context, void *memory, size_t bytes)
{
    if (!context || !memory || bytes == 0 || bytes > SIZE_MAX - (uintptr_t)memory)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "register host memory: context or memory is NULL, or %zu bytes are none or too many", bytes);
    ferry_status status = ferryi_context_check_open(context, "register host memory");
    if (status != FERRY_OK)
        return status;
    return ferryi_pins_add(ferryi_engine_pins(context->engine), memory, bytes);
}

ferry_status
ferry_context_unregister_host(ferry_context *context, void *memory)
{
    if (!context || !memory)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "unregister host memory: context or memory is NULL");
    ferry_status status = ferryi_context_check_open(context, "unregister host memory");
    if (status != FERRY_OK)
        return status;
    return ferryi_pins_remove(ferryi_engine_pins(context->engine), memory);
}

/* -- pools over memory of the program's own --------------------------------------------------------- */

static ferry_status
check_backend(const ferry_context *context, const ferry_pool_backend *backend, ferry_pool *const *out)
{
    if (!context || !backend || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a pool: %s is NULL", !context ? "context" : !backend ? "backend" : "out");
    if (!backend->alloc || !backend->free)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a pool: the backend has no %s", backend->alloc ? "free" : "alloc");
    if (backend->align != 0 && (!ferryi_is_power_of_two(backend->align) || backend->align < FERRYI_POOL_ALIGN))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a pool: the backend's alignment is %zu, not a power of two from %d up",
                           backend->align, FERRYI_POOL_ALIGN);
    return FERRY_OK;
}

ferry_status
ferry_pool_create(ferry_context *context, int place, ferry_memory_kind kind, const ferry_pool_backend *backend, const ferry_pool_options *options,
                  ferry_pool **out)
{
    ferry_status status = check_backend(context, backend, out);
    if (status == FERRY_OK)
        status = check_pool_kind(context, place, &kind, "create a pool");
    if (status != FERRY_OK)
        return status;
    struct ferryi_pool_config config = {
        .backend = {.alloc = backend->alloc, .free = backend->free, .user = backend->user, .align = backend->align},
        .order = &context->order,
        .log = &context->log,
        .context = context,
        .place = place,
        .kind = kind,
        .name = "a program's own memory",
    };
    if (options)
        config.options = *options;
    struct ferryi_context_own_pool *own = calloc(1, sizeof(*own));
    if (!own)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create a pool: no host memory");
    status = ferryi_pool_create(&config, &own->pool);
    if (status != FERRY_OK) {
        free(own);
        return status;
    }
    ferryi_mutex_lock(&context->pool_mutex);
    own->next = context->own_pools;
    context->own_pools = own;
    ferryi_mutex_unlock(&context->pool_mutex);
    *out = own->pool;
    return FERRY_OK;
}

/* Out of the list; NULL when it is not in it. */
static struct ferryi_context_own_pool *
disown(ferry_context *context, const ferry_pool *pool)
{
    struct ferryi_context_own_pool *own = NULL;
    ferryi_mutex_lock(&context->pool_mutex);
    for (struct ferryi_context_own_pool **at = &context->own_pools; *at; at = &(*at)->next)
        if ((*at)->pool == pool) {
            own = *at;
            *at = own->next;
            break;
        }
    ferryi_mutex_unlock(&context->pool_mutex);
    return own;
}

void
ferry_pool_destroy(ferry_pool **pool)
{
    if (!pool || !*pool)
        return;
    ferry_context *context = ferryi_pool_context(*pool);
    if (context->inherited) {
        *pool = NULL;
        return;
    }
    struct ferryi_context_own_pool *own = disown(context, *pool);
    if (own) {
        ferryi_pool_finish(own->pool);
        ferryi_pool_destroy(&own->pool);
        free(own);
    } else {
        ferryi_log(&context->log, FERRY_LOG_ERROR, "destroy a pool: it is the context's own, and stays");
    }
    *pool = NULL;
}

/* -- questions ------------------------------------------------------------------------------------- */

const char *
ferryi_context_why_closed(const ferry_context *context)
{
    return context->inherited ? "belongs to the process that this one was forked from" : "was destroyed";
}

ferry_status
ferryi_context_check_open(const ferry_context *context, const char *what)
{
    if (atomic_load_explicit(&context->closed, memory_order_relaxed))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s: the context %s", what, ferryi_context_why_closed(context));
    return FERRY_OK;
}

ferry_status
ferryi_context_check_place(const ferry_context *context, int place, const char *what)
{
    ferry_status status = ferryi_context_check_open(context, what);
    if (status != FERRY_OK)
        return status;
    if (place < 0 || place > context->place_count)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: there is no place %d, only 0 to %d", what, place, context->place_count);
    return FERRY_OK;
}

ferry_status
ferryi_context_lane(ferry_context *context, ferry_stream *stream, const char *what, ferryi_lane **out)
{
    ferry_status status = ferryi_context_check_open(context, what);
    if (status != FERRY_OK)
        return status;
    if (!stream && context->place_count != 1)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: a stream is needed in a context with %d devices", what, context->place_count);
    if (!stream)
        stream = context->defaults[1];
    if (stream->context != context)
        return ferryi_stream_refuse(stream, what);
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
    ferry_status status = ferryi_context_check_open(context, "ask for transfers");
    if (status != FERRY_OK)
        return status;
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
