/* SPDX-License-Identifier: MIT */
#include "src/store/place_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/store/store.h"

/* -- the context's pools ----------------------------------------------------------------------- */

/* Opens the file in which a pool logs its allocations. Sets `*out` to NULL if the context has no
 * such log. */
static ferry_status
open_allocation_log(const ferry_context *context, int place, ferry_memory_kind kind,
                    ferryi_allocation_log **out)
{
    char *path;
    *out = NULL;
    if (!context->allocation_log)
        return FERRY_OK;
    if (asprintf(&path, "%s.%s.%s.csv", context->allocation_log, context->names[place],
                 ferryi_memory_kind_names[kind]) < 0)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "name the allocation log of %s: no host memory", context->names[place]);
    char *colon = strchr(path + strlen(context->allocation_log), ':');
    if (colon)
        *colon = '-';
    ferry_status status = ferryi_allocation_log_open(path, out);
    free(path);
    return status;
}

/* Returns what every pool of the context has in common. */
static struct ferryi_pool_config
config_of(ferry_context *context, int place, ferry_memory_kind kind, const char *name)
{
    return (struct ferryi_pool_config){
        .order = &context->order,
        .log = &context->log,
        .housekeeper = context->housekeeper,
        .zero = ferryi_place_zero,
        .context = context,
        .host_reaches = kind != FERRY_MEMORY_DEVICE ||
                        (context->devices[place]->capabilities & FERRYI_DEVICE_HOST_VISIBLE) != 0,
        .place = place,
        .kind = kind,
        .name = name};
}

/* Explains an allocation that has failed. */
static void
explain_failure(void *user, ferry_pool *pool, char *text, size_t text_bytes)
{
    ferry_context *context = user;
    ferryi_holders_describe(context, pool, text, text_bytes);
    context->store_calls->out_of_memory(context);
}

FERRYI_REQUIRES(ferryi_pools_mutex)
static ferry_status
make_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out)
{
    char name[64];
    snprintf(name, sizeof(name), "%s %s memory", context->names[place],
             ferryi_memory_kind_names[kind]);
    struct ferryi_pool_config config = config_of(context, place, kind, name);
    /* In managed memory all places share one replica. An eviction would free the only copy of the
     * bytes, so pools of managed memory do not evict. */
    config.holders = (struct ferryi_pool_holders){
        .evict = kind == FERRY_MEMORY_MANAGED ? NULL : context->store_calls->evict,
        .relocate = kind == FERRY_MEMORY_DEVICE ? context->store_calls->relocate : NULL,
        .describe = explain_failure,
        .user = context};
    ferry_status status;
    FERRY_TRY(status, fail, ferryi_place_backend_choose(context, place, kind, &config));
    FERRY_TRY(status, fail, open_allocation_log(context, place, kind, &config.allocation_log));
    FERRY_TRY(status, fail, ferryi_pool_create(&config, out));
    return FERRY_OK;

fail:
    if (ferryi_allocation_log_close(&config.allocation_log) != FERRY_OK)
        ferryi_log(&context->log, FERRY_LOG_ERROR, "make the pool of %s: %s", name,
                   ferry_last_error());
    return status;
}

ferry_status
ferryi_place_pool_make(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out)
{
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&context->pool_mutex);
    ferry_pool *pool = context->pools[place][kind];
    if (!pool && (status = make_pool(context, place, kind, &pool)) == FERRY_OK)
        __atomic_store_n(&context->pools[place][kind], pool, __ATOMIC_RELEASE);
    ferryi_mutex_unlock(&context->pool_mutex);
    if (status == FERRY_OK)
        *out = pool;
    return status;
}

/* Checks the kind and the place of a pool. Replaces FERRY_MEMORY_DEFAULT with the default kind of
 * the place. */
static ferry_status
check_pool_kind(const ferry_context *context, int place, ferry_memory_kind *kind, const char *what)
{
    if (*kind < FERRY_MEMORY_DEFAULT || *kind > FERRY_MEMORY_MANAGED)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: memory kind %d is unknown", what,
                           (int)*kind);
    FERRYI_OR_RETURN(ferryi_shell_check_place(context, place, what));
    if (*kind == FERRY_MEMORY_DEFAULT)
        *kind = place == 0 ? FERRY_MEMORY_PAGEABLE : FERRY_MEMORY_DEVICE;
    if ((*kind == FERRY_MEMORY_DEVICE) != (place != 0))
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "%s: device memory is at places 1 to %d, other kinds at place 0, not at %d", what,
            context->place_count, place);
    return FERRY_OK;
}

ferry_status
ferry_context_pool(ferry_context *context, int place, ferry_memory_kind kind, ferry_pool **out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "get a pool: %s is NULL",
                           context ? "out" : "context");
    FERRYI_OR_RETURN(check_pool_kind(context, place, &kind, "get a pool"));
    /* A coherent device uses host memory. */
    if (place != 0 && (context->coherent >> place & 1)) {
        place = 0;
        kind = FERRY_MEMORY_PAGEABLE;
    }
    return ferryi_place_pool(context, place, kind, out);
}

/* -- pools of the program ---------------------------------------------------------------------- */

static ferry_status
check_backend(const ferry_context *context, const ferry_pool_backend *backend,
              ferry_pool *const *out)
{
    if (!context || !backend || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a pool: %s is NULL",
                           !context   ? "context"
                           : !backend ? "backend"
                                      : "out");
    if (!backend->alloc || !backend->free)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a pool: the backend has no %s",
                           backend->alloc ? "free" : "alloc");
    if (backend->align != 0 &&
        (!ferryi_is_power_of_two(backend->align) || backend->align < FERRYI_POOL_ALIGN))
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "create a pool: the backend's alignment is %zu, not a power of two from %d up",
            backend->align, FERRYI_POOL_ALIGN);
    return FERRY_OK;
}

/* Returns the status that a function of the program's backend has returned. Explains it if it is a
 * failure. */
static ferry_status
program_ended(const struct ferryi_callback *running, ferry_status status, const char *function)
{
    if (status == FERRY_OK)
        return status;
    (void)ferryi_callback_failed(running, status);
    return ferryi_fail_in(status, "call %s of the pool's backend", function);
}

static ferry_status
program_alloc(void *user, size_t bytes, void **out)
{
    const ferry_pool_backend *backend = user;
    struct ferryi_callback running;
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WATCHING, "alloc of a pool's backend");
    ferry_status status = backend->alloc(backend->user, bytes, out);
    ferryi_callback_leave(&running);
    return program_ended(&running, status, "alloc");
}

static ferry_status
program_free(void *user, void *memory, size_t bytes)
{
    const ferry_pool_backend *backend = user;
    struct ferryi_callback running;
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WATCHING, "free of a pool's backend");
    ferry_status status = backend->free(backend->user, memory, bytes);
    ferryi_callback_leave(&running);
    return program_ended(&running, status, "free");
}

ferry_status
ferry_pool_create(ferry_context *context, int place, ferry_memory_kind kind,
                  const ferry_pool_backend *backend, const ferry_pool_options *options,
                  ferry_pool **out)
{
    FERRYI_OR_RETURN(check_backend(context, backend, out));
    FERRYI_OR_RETURN(check_pool_kind(context, place, &kind, "create a pool"));
    struct ferryi_place_own_pool *own = calloc(1, sizeof(*own));
    if (!own)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create a pool: no host memory");
    own->backend = *backend;
    struct ferryi_pool_config config = config_of(context, place, kind, "a program's own memory");
    config.backend = (struct ferryi_pool_backend){.alloc = program_alloc,
                                                  .free = program_free,
                                                  .user = &own->backend,
                                                  .align = backend->align};
    if (options)
        config.options = *options;
    ferry_status status = ferryi_pool_create(&config, &own->pool);
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

/* Removes a pool that the program created from the context's list of such pools. Returns NULL if
 * the pool is not in the list. */
static struct ferryi_place_own_pool *
disown(ferry_context *context, const ferry_pool *pool)
{
    struct ferryi_place_own_pool *own = NULL;
    ferryi_mutex_lock(&context->pool_mutex);
    for (struct ferryi_place_own_pool **at = &context->own_pools; *at; at = &(*at)->next)
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
    if (ferryi_callback_refuses_end(&context->log, ferryi_callback_lends(*pool), "destroy a pool"))
        return;
    if (context->inherited) {
        *pool = NULL;
        return;
    }
    struct ferryi_place_own_pool *own = disown(context, *pool);
    if (own) {
        ferryi_pool_finish(own->pool);
        ferryi_pool_destroy(&own->pool);
        free(own);
    } else {
        ferryi_log(&context->log, FERRY_LOG_ERROR,
                   "destroy a pool: it is the context's own, and stays");
    }
    *pool = NULL;
}

/* -- the end ----------------------------------------------------------------------------------- */

/* Destroys the pools that the program created but did not destroy. */
static void
close_own_pools(ferry_context *context)
{
    ferryi_mutex_is_needless(&context->pool_mutex);
    while (context->own_pools) {
        struct ferryi_place_own_pool *own = context->own_pools;
        ferryi_log(&context->log, FERRY_LOG_WARNING,
                   "destroy a context: a pool over the program's backend is still alive, and is "
                   "destroyed now");
        context->own_pools = own->next;
        ferryi_pool_destroy(&own->pool);
        free(own);
    }
    free(context->backends);
    context->backends = NULL;
}

void
ferryi_place_pools_close(ferry_context *context)
{
    for (int place = 0; place <= context->place_count; place++)
        for (int kind = 0; kind < FERRYI_MEMORY_KINDS; kind++)
            ferryi_pool_destroy(&context->pools[place][kind]);
    close_own_pools(context);
}

/* -- statistics -------------------------------------------------------------------------------- */

void
ferryi_place_pool_memory(ferry_context *context, int place, struct ferryi_place_memory *out)
{
    const int limited = place ? FERRY_MEMORY_DEVICE : FERRY_MEMORY_PAGEABLE;
    *out = (struct ferryi_place_memory){.limit = place ? context->device_bytes_limit
                                                       : context->host_bytes_limit};
    ferryi_mutex_lock(&context->pool_mutex);
    for (int kind = 0; kind < FERRYI_MEMORY_KINDS; kind++) {
        struct ferryi_pool_counters counters;
        if (!context->pools[place][kind])
            continue;
        ferryi_pool_get_counters(context->pools[place][kind], &counters);
        out->live += counters.live_bytes;
        out->cached += counters.cached_bytes;
        out->reserved += counters.reserved_bytes;
        if (kind == limited) {
            out->limited = counters.reserved_bytes;
            out->limit = counters.limit_bytes;
        }
        for (size_t i = 0; i < FERRY_POOL_CLASS_COUNT; i++) {
            out->hits += counters.classes[i].hits;
            out->misses += counters.classes[i].allocations - counters.classes[i].hits;
        }
        out->device_allocations += counters.device_allocations;
        out->trims += counters.trims;
        out->evictions += counters.evictions;
        out->waits += counters.waits;
        out->shortages += counters.shortages;
    }
    ferryi_mutex_unlock(&context->pool_mutex);
}

void
ferryi_place_pools_reset_stats(ferry_context *context)
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
