/* SPDX-License-Identifier: MIT */
#include "src/store/place_pool.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/base/callback.h"
#include "src/base/fork.h"
#include "src/base/output_file.h"
#include "src/buffer/buffer.h"
#include "src/buffer/evict.h"
#include "src/buffer/worker.h"
#include "src/context_tuning.h"
#include "src/convert/converter.h"
#include "src/debug/debug.h"
#include "src/kernel/host_threads.h"
#include "src/kernel/kernel.h"
#include "src/store/shared.h"
#include "src/store/store.h"
#include "src/stream/captures.h"
#include "src/stream/event.h"
#include "src/transfer/engine.h"

/*
 * The owners of a context are the calls that created it, requested the shared context or retained
 * it. When the last owner is dropped, the context ends: its work is completed and its memory is
 * freed.
 *
 * Ending a context joins its threads, so a thread of the context cannot end the context. A callback
 * cannot end it either, because the Ferry call that runs the callback may hold locks. In both cases
 * a separate thread ends the context. The process waits for such threads before it exits.
 *
 * One case is refused: a callback runs on a thread of the program, inside a call on the context,
 * and drops the last owner. The separate thread would not wait for that call. On a thread of the
 * context the same callback is safe, because ending the context waits for the thread.
 */

/* Default number of transfers after which a host replica is page-locked, because more transfers are
 * then likely. */
#define PIN_AFTER      10
#define PIN_AFTER_MOST (FERRYI_NEVER_PINNED - 1)

static void context_end(ferry_context *context, bool apart);
static void disown(ferry_context **context);

/* -- creation ---------------------------------------------------------------------------------- */

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
            snprintf(context->names[place], sizeof(context->names[place]), "%s:%d", device->kind,
                     device->properties.native);
        context->coherent |= plain ? 1u << place : 0;
    }
    context->coherent |= context->coherent ? 1u : 0;
}

/* Logs a warning if device_bytes_limit has no effect, because device memory is host memory. This is
 * not an error: a program that limits a GPU's memory may be meant to run on a machine without a GPU
 * as well. */
static void
warn_of_limit_without_effect(const ferry_context *context)
{
    uint32_t places = (2u << context->place_count) - 1;
    if (context->device_bytes_limit > 0 && context->coherent == places)
        ferryi_log(&context->log, FERRY_LOG_WARNING,
                   "create a context: device_bytes_limit %zu has no effect, because the device %s "
                   "uses the host's memory; host_bytes_limit bounds that",
                   context->device_bytes_limit, context->names[1]);
}

/* Lowers a limit of the context to that of the tuning string, in which 0 means none. */
static void
lower_limit(size_t *limit, uint64_t tuned)
{
    if (tuned > 0 && (*limit == 0 || tuned < *limit))
        *limit = (size_t)tuned;
}

static void
lower_limits(ferry_context *context, const struct ferryi_context_tuning *tuning)
{
    lower_limit(&context->device_bytes_limit, tuning->device_bytes_limit);
    lower_limit(&context->host_bytes_limit, tuning->host_bytes_limit);
    lower_limit(&context->pinned_bytes_limit, tuning->pinned_bytes_limit);
    context->device_handle_bytes = (size_t)tuning->device_handle_bytes;
}

static ferry_status
open_default_streams(ferry_context *context)
{
    for (int place = 1; place <= context->place_count; place++) {
        ferry_stream *stream;
        FERRYI_OR_RETURN(ferryi_stream_open_default(context, place, &stream));
        context->defaults[place] = stream;
    }
    if (context->place_count == 1 && context->defaults[1]->plain_context)
        context->only_timeline = context->defaults[1]->timeline;
    return FERRY_OK;
}

static ferry_status
open_engine(ferry_context *context, const ferry_context_options *options,
            const struct ferryi_context_tuning *tuning)
{
    struct ferryi_engine_config config = {
        .devices = context->devices,
        .count = context->place_count,
        .order = &context->order,
        .log = &context->log,
        .chunk_bytes = (size_t)tuning->staging_chunk_bytes,
        .chunk_count = (size_t)tuning->staging_chunk_count,
        .part_bytes = (size_t)tuning->staging_part_bytes,
        .copy = (enum ferryi_copy_loop)tuning->staging_loop,
        .threads = (unsigned)tuning->staging_threads,
        .pinned_bytes_limit = context->pinned_bytes_limit,
        .trace = options->trace,
        .trace_user = options->trace_user,
        .trace_sites = context->debug,
        .file_trace = context->trace,
    };
    return ferryi_engine_create(&config, &context->engine);
}

static ferry_status
open_host_threads(ferry_context *context, const struct ferryi_context_tuning *tuning)
{
    context->host_threads = ferryi_host_threads_new((size_t)tuning->host_threads, context);
    return context->host_threads
               ? FERRY_OK
               : ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for the host threads");
}

static ferry_status
open_converters(ferry_context *context)
{
    ferry_status status = FERRY_OK;
    for (int place = 1; place <= context->place_count && status == FERRY_OK; place++)
        if (!(context->coherent >> place & 1))
            status = ferryi_converter_create(context->devices[place], &context->log,
                                             &context->converters[place]);
    return status;
}

static ferry_status
open_devices(ferry_context *context, const ferry_context_options *options,
             const struct ferryi_context_tuning *tuning)
{
    ferryi_device *devices[FERRYI_DEVICES_MAX];
    struct ferryi_device_config config = {
        .log = context->log,
        .emulated_memory_bytes = (size_t)tuning->emulated_memory_bytes,
        .emulated_latency_ns = tuning->emulated_latency_ns,
        .emulated_bytes_per_second = tuning->emulated_bytes_per_second,
        .emulated_without_peers = tuning->emulated_without_peers != 0,
        .cuda_without_batches = tuning->cuda_without_batches != 0,
    };
    const char *spec = options->devices ? options->devices : ferryi_getenv("FERRY_DEVICE");
    if (spec && !*spec && !options->devices)
        spec = NULL;
    FERRYI_OR_RETURN(ferryi_devices_open(spec, &config, devices, &context->place_count));
    for (int i = 0; i < context->place_count; i++)
        context->devices[i + 1] = devices[i];
    ferryi_mutex_is_needless(&context->order.mutex);
    context->order.internal_reserve = 3 * context->place_count;
    name_places(context);
    warn_of_limit_without_effect(context);
    return FERRY_OK;
}

/*
 * Sets `*out` to the path of a file that the context writes. The option `wanted` specifies this
 * path. If the option is not set, the environment variable `variable` specifies it. If neither is
 * set, leaves `*out` unchanged. Both may have the patterns of ferryi_output_name(). The variable
 * applies to all contexts of the process. Further contexts therefore append a number to the path,
 * so that they do not overwrite the first context's file.
 */
static ferry_status
name_file(const char *wanted, const char *variable, _Atomic unsigned *named, char **out)
{
    const char *from = wanted ? wanted : ferryi_getenv(variable);
    if (!from || !*from)
        return FERRY_OK;
    unsigned number = wanted ? 1 : atomic_fetch_add(named, 1) + 1;
    char *path = ferryi_output_name(from);
    if (path && number > 1) {
        if (asprintf(out, "%s.%u", path, number) < 0)
            *out = NULL;
        free(path);
    } else {
        *out = path;
    }
    if (*out)
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "name the file of %s: no host memory", variable);
}

static ferry_status
name_allocation_log(ferry_context *context, const char *wanted)
{
    static _Atomic unsigned named;
    return name_file(wanted, "FERRY_ALLOCATION_LOG", &named, &context->allocation_log);
}

static ferry_status
name_snapshot(ferry_context *context)
{
    static _Atomic unsigned named;
    return name_file(NULL, "FERRY_SNAPSHOT", &named, &context->snapshot_file);
}

static ferry_status
open_trace(ferry_context *context, const char *wanted)
{
    static _Atomic unsigned named;
    char *path = NULL;
    ferry_status status = name_file(wanted, "FERRY_TRACE", &named, &path);
    if (status == FERRY_OK && path)
        status = ferryi_trace_open(path, &context->log, &context->trace);
    if (context->trace)
        context->store_word |= FERRYI_STORE_WATCHED;
    free(path);
    return status;
}

static void
trace_wait(const ferryi_device *device, const char *what, uint64_t begun_ns)
{
    char name[48];
    snprintf(name, sizeof(name), "%s:%d", device->kind, device->properties.native);
    ferryi_trace_wait(device->watcher, what, name, begun_ns);
}

/* Writes the names of the places to the trace, and has the devices report how long threads wait for
 * them. Must run before any call that waits for a device. */
static void
trace_devices(ferry_context *context)
{
    for (int place = 0; context->trace && place <= context->place_count; place++) {
        ferryi_trace_name_place(context->trace, place, context->names[place]);
        if (place > 0) {
            context->devices[place]->on_wait = trace_wait;
            context->devices[place]->watcher = context->trace;
        }
    }
}

/* Log callback for a checked run (FERRY_DEBUG) of a program that sets no log callback. Writes
 * errors and warnings to stderr. */
static void
log_to_standard_error(ferry_log_level level, const char *line, void *user)
{
    (void)user;
    if (level <= FERRY_LOG_WARNING)
        fprintf(stderr, "ferry: %s\n", line);
}

static ferry_context *
context_new(const ferry_context_options *options)
{
    ferry_context *context = calloc(1, sizeof(*context));
    if (!context)
        return NULL;
    context->housekeeper = ferryi_housekeeper_new(context);
    if (!context->housekeeper) {
        free(context);
        return NULL;
    }
    atomic_init(&context->references, 1);
    atomic_init(&context->owners, 1);
    context->disown = disown;
    context->store_calls = &ferryi_buffer_calls;
    context->log = (struct ferryi_log){options->log, options->log_user};
    context->debug = ferryi_is_debug_run();
    if (context->debug && !context->log.callback)
        context->log.callback = log_to_standard_error;
    context->store_word = context->debug ? FERRYI_STORE_WATCHED : 0;
    context->buffer_bytes_limit =
        options->buffer_bytes_limit ? options->buffer_bytes_limit : SIZE_MAX;
    context->device_bytes_limit = options->device_bytes_limit;
    context->host_bytes_limit =
        options->host_bytes_limit ? options->host_bytes_limit : ferryi_physical_memory();
    context->pin_after =
        options->pin_after ? ferryi_min_size(options->pin_after, PIN_AFTER_MOST) : PIN_AFTER;
    if (options->pin_after == FERRY_PIN_NEVER)
        context->pin_after = SIZE_MAX;
    context->pinned_bytes_limit =
        options->pinned_bytes_limit ? options->pinned_bytes_limit : ferryi_physical_memory() / 4;
    ferryi_mutex_init(&context->pool_mutex);
    ferryi_mutex_init(&context->stream_mutex);
    ferryi_mutex_init(&context->store_mutex);
    ferryi_mutex_init(&context->park_mutex);
    ferryi_mutex_init(&context->worker_mutex);
    ferryi_mutex_init(&context->event_times_mutex);
    ferryi_cond_init(&context->park_cond);
    for (size_t i = 0; i < FERRYI_LONG_LOCKS; i++)
        ferryi_system_mutex_init(&context->long_locks[i]);
    return context;
}

ferry_status
ferry_context_create(const ferry_context_options *options, ferry_context **out)
{
    static const ferry_context_options defaults;
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a context: out is NULL");
    ferry_status status = ferryi_callback_check("create a context");
    if (status != FERRY_OK)
        return status;
    if (!options)
        options = &defaults;
    ferry_context *context = context_new(options);
    if (!context)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create a context: no memory for %zu bytes",
                           sizeof(*context));

    struct ferryi_context_tuning tuning;
    FERRY_TRY(status, fail, ferryi_order_init(&context->order, &context->log));
    FERRY_TRY(status, fail, ferryi_context_tuning_read(&tuning, options->tuning, &context->log));
    lower_limits(context, &tuning);
    FERRY_TRY(status, fail, name_allocation_log(context, options->allocation_log));
    FERRY_TRY(status, fail, name_snapshot(context));
    FERRY_TRY(status, fail, open_trace(context, options->trace_file));
    FERRY_TRY(status, fail, open_devices(context, options, &tuning));
    trace_devices(context);
    FERRY_TRY(status, fail, open_engine(context, options, &tuning));
    FERRY_TRY(status, fail, open_converters(context));
    FERRY_TRY(status, fail, open_default_streams(context));
    FERRY_TRY(status, fail, open_host_threads(context, &tuning));
    ferryi_after_fork_add(context);
    *out = context;
    return FERRY_OK;

fail:
    context_end(context, false);
    return ferryi_fail_in(status, "create a context");
}

/* -- the shared context ------------------------------------------------------------------------ */

FERRYI_MUTEX_CLASS(ferryi_shared_context_mutex);

static struct {
    struct ferryi_shared_context_mutex mutex;
    /* Valid memory, but may have no owner left. */
    FERRYI_GUARDED_BY(ferryi_shared_context_mutex) ferry_context *context;
} shared = {.mutex = FERRYI_MUTEX_INITIALIZER};

/* Forgets the shared context in the child of a fork, and initializes the mutex of the shared
 * context again. The fork handlers do not lock this mutex, because it is held while a context is
 * created, which may take long. */
static void
forget_shared(bool in_child)
{
    if (!in_child)
        return;
    ferryi_mutex_init(&shared.mutex);
    ferryi_mutex_is_needless(&shared.mutex);
    shared.context = NULL;
}

static struct ferryi_fork_part sharing = {.after = forget_shared};
FERRYI_AT_FORK(sharing)

ferry_status
ferry_context_shared(ferry_context **out)
{
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "share a context: out is NULL");
    ferry_status status = ferryi_callback_check("share a context");
    if (status != FERRY_OK)
        return status;
    ferryi_mutex_lock(&shared.mutex);
    if (!shared.context || !ferryi_shell_try_own(shared.context)) {
        ferry_context *fresh;
        status = ferry_context_create(NULL, &fresh);
        if (status == FERRY_OK) {
            fresh->shared = true;
            shared.context = fresh;
        }
    }
    if (status == FERRY_OK)
        *out = shared.context;
    ferryi_mutex_unlock(&shared.mutex);
    return status;
}

/* If `context` is the shared context of the process, forgets it before its memory is freed. The
 * context may have no owner left at that time. */
static void
stop_sharing(const ferry_context *context)
{
    ferryi_mutex_lock(&shared.mutex);
    if (shared.context == context)
        shared.context = NULL;
    ferryi_mutex_unlock(&shared.mutex);
}

/* -- the end ----------------------------------------------------------------------------------- */

/* Removes the newest buffer from the context's list of buffers and returns its storage with a
 * reference. Returns NULL if the list is empty. Waits for buffers that other threads are freeing.
 */
static ferryi_store *
take_store(ferry_context *context)
{
    for (;;) {
        ferryi_mutex_lock(&context->store_mutex);
        ferryi_store *store = context->stores;
        bool going = store && !ferryi_store_retain_living(store);
        if (store && !going)
            ferryi_store_unlist(store);
        ferryi_mutex_unlock(&context->store_mutex);
        if (!going && (store || atomic_load(&context->ending_wraps) == 0))
            return store;
        if (!ferryi_stores_free_spare(context))
            ferryi_sleep_ns(10000);
    }
}

/* Returns whether there was any buffer, whose release may have called the program. */
static bool
report_and_kill_stores(ferry_context *context)
{
    ferryi_store *store;
    bool any = false;
    for (; (store = take_store(context)); any = true) {
        /* Releasing wrapped memory calls a callback of the program, which may destroy buffers. So
         * no lock is held during the release, and a reference keeps the buffer's storage alive. */
        char scopes[FERRYI_SCOPES_TEXT];
        const char *site = ferryi_site_text(atomic_load(&store->site));
        ferryi_store_describe_scopes(store, scopes, sizeof(scopes));
        ferryi_store_lock(store);
        size_t bytes = store->map.bytes;
        ferryi_store_unlock(store);
        ferryi_log(&context->log, FERRY_LOG_ERROR,
                   "destroy a context: buffer \"%s\" of %zu bytes is still alive%s%s%s%s",
                   ferryi_store_name(store), bytes, *site ? "; made by " : "", site,
                   *scopes ? "; open: " : "", scopes);
        ferryi_store_kill(store);
        ferryi_store_release(store);
    }
    return any;
}

/* Waits for all work at a place. Waits for single streams if possible, because waiting for the
 * whole device would break graph captures in other threads. The per-thread streams of other threads
 * can only be reached by waiting for the device. */
static ferry_status
wait_for_work(ferry_context *context, int place)
{
    ferryi_device *device = context->devices[place];
    bool whole = !(device->capabilities & FERRY_CAN_CAPTURE);
    ferryi_mutex_lock(&context->stream_mutex);
    for (const ferry_stream *stream = context->streams; stream; stream = stream->next)
        whole = whole || (stream->timeline->per_thread && stream->timeline->place == place);
    ferryi_mutex_unlock(&context->stream_mutex);
    ferry_status status = FERRY_ERROR_UNSUPPORTED;
    if (whole)
        status = ferryi_order_synchronize(&context->order, device);
    return status == FERRY_ERROR_UNSUPPORTED ? ferryi_timelines_wait_all(&context->order, device)
                                             : status;
}

/* Waits for all work of the context. Returns the first failure. */
static ferry_status
wait_everywhere(ferry_context *context)
{
    ferry_status first = FERRY_OK;
    for (int place = 1; place <= context->place_count; place++) {
        const ferry_status status = wait_for_work(context, place);
        if (status == FERRY_OK)
            continue;
        first = first == FERRY_OK ? status : first;
        ferryi_log(&context->log, FERRY_LOG_ERROR, "destroy a context: %s", ferry_last_error());
    }
    return first;
}

/* Waits for all work, reports leaks and frees everything except the context's struct (its shell;
 * see shell.h). Accepts a partly created context. Must not run on a thread of the context. If
 * `apart` is true, this is a separate thread, and no capture goes on while memory is freed.
 * Captures are not held off while functions of the program run, which may wait for one. */
static void
context_end(ferry_context *context, bool apart)
{
    if (context->shared)
        stop_sharing(context);
    atomic_store(&context->closing, true);
    ferryi_housekeeper_stop(context->housekeeper);
    ferryi_worker_stop(context);
    const ferry_status status = wait_everywhere(context);
    ferryi_host_threads_free(&context->host_threads);
    ferryi_kernels_close(context);
    /* A callback of a buffer that was released may have queued work. */
    if (report_and_kill_stores(context) && status == FERRY_OK)
        (void)wait_everywhere(context);
    (void)ferryi_shared_sweep(context, true);
    ferryi_streams_close(context);
    ferryi_event_times_close(context);
    if (apart)
        ferryi_captures_hold_off();
    ferryi_place_pools_close(context);
    ferryi_engine_destroy(&context->engine);
    for (int place = 1; place <= context->place_count; place++)
        ferryi_converter_destroy(&context->converters[place]);
    ferryi_order_clear(&context->order);
    for (int place = 1; place <= context->place_count; place++)
        context->devices[place]->ops->close(context->devices[place]);
    if (apart)
        ferryi_captures_release();
    atomic_store(&context->closed, true);
    ferryi_trace_close(&context->trace);
    ferryi_after_fork_remove(context);
    ferryi_housekeeper_free(&context->housekeeper);
    ferryi_shell_release(context);
}

/* -- ends on separate threads ------------------------------------------------------------------ */

#define EXIT_POLL_NS 1000000u

static _Atomic unsigned ends; /* number of separate threads that are ending a context */

/* Resets the number of threads that are ending a context in the child of a fork, because these
 * threads run only in the parent. */
static void
forget_ends(bool in_child)
{
    if (in_child)
        atomic_store(&ends, 0);
}

static struct ferryi_fork_part separate_ends = {.after = forget_ends};
FERRYI_AT_FORK(separate_ends)

/* Returns whether this thread may wait until a context has ended. Threads of a context and
 * callbacks may not, because the end may wait for them. */
static bool
may_wait_for_end(void)
{
    return !ferryi_callback_thread.context && !ferryi_callback_thread.innermost;
}

static void
wait_for_ends(void)
{
    ferryi_captures_exit();
    while (may_wait_for_end() && atomic_load(&ends) > 0)
        ferryi_sleep_ns(EXIT_POLL_NS);
}

static void
register_wait(void)
{
    (void)atexit(wait_for_ends);
}

static void
end_here(void *argument)
{
    ferry_context *context = argument;
    struct ferryi_log log = context->log;
    context_end(context, true);
    ferryi_log(&log, FERRY_LOG_INFO,
               "destroy a context: a separate thread has ended it, because its last owner was a "
               "callback or a lease");
    atomic_fetch_sub(&ends, 1);
}

static ferry_status
end_elsewhere(ferry_context *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    ferryi_thread thread;
    (void)pthread_once(&once, register_wait);
    atomic_fetch_add(&ends, 1);
    ferry_status status = ferryi_thread_start(&thread, "ferry-end", end_here, context);
    if (status == FERRY_OK)
        ferryi_thread_detach(thread);
    else
        atomic_fetch_sub(&ends, 1);
    return status;
}

/* -- owners ------------------------------------------------------------------------------------ */

ferry_context *
ferry_context_retain(ferry_context *context)
{
    if (!context || context->inherited || ferryi_shell_try_own(context))
        return context;
    ferryi_log(&context->log, FERRY_LOG_ERROR, "retain a context: its last owner has destroyed it");
    return NULL;
}

/* Logs how many owners will remain, and the labels of the context's leases. Must be called before
 * an owner is dropped, because afterwards another thread may end the context and its log. */
static void
report_remaining(ferry_context *context)
{
    unsigned owners = atomic_load(&context->owners), remaining = owners - 1;
    char labels[512];
    if (owners <= 1 || !context->log.callback)
        return;
    ferryi_stores_lease_labels(context, labels, sizeof(labels));
    ferryi_log(&context->log, FERRY_LOG_INFO,
               "destroy a context: it goes on, because %u other owner%s%s%s", remaining,
               remaining == 1 ? " remains" : "s remain", *labels ? "; leases are held by " : "",
               labels);
}

/* Drops an owner and returns the previous number of owners. If there is no owner, or if the last
 * one must not be dropped on this thread, logs an error, drops nothing and returns 0. */
static unsigned
give_back(ferry_context *context)
{
    unsigned owners = atomic_load(&context->owners);
    do {
        bool last = owners <= 1;
        if (last && ferryi_callback_thread.innermost &&
            (owners == 0 || ferryi_callback_may_be_inside(context))) {
            (void)ferryi_callback_refuses_end(&context->log, true, "destroy a context");
            return 0;
        }
        if (owners == 0) {
            ferryi_log(&context->log, FERRY_LOG_ERROR,
                       "destroy a context: its last owner has destroyed it");
            return 0;
        }
    } while (!atomic_compare_exchange_weak(&context->owners, &owners, owners - 1));
    return owners;
}

/* Drops an owner, and ends the context if it was the last one. `waits` is true for calls made by
 * the program: the calling thread may then end the context itself, and remaining owners are logged.
 */
static void
destroy(ferry_context **context, bool waits)
{
    ferry_context *given = *context;
    if (waits && !given->inherited)
        report_remaining(given);
    unsigned owners = given->inherited ? 2 : give_back(given);
    if (owners == 0)
        return;
    *context = NULL;
    if (owners > 1)
        return;
    bool may_end = may_wait_for_end();
    if (!(may_end && waits) && end_elsewhere(given) == FERRY_OK)
        return;
    if (may_end) {
        context_end(given, false);
    } else {
        atomic_store(&given->owners, 1);
        *context = given;
        ferryi_log(&given->log, FERRY_LOG_ERROR, "destroy a context: it stays: %s",
                   ferry_last_error());
    }
}

void
ferry_context_destroy(ferry_context **context)
{
    if (context && *context)
        destroy(context, true);
}

/* Implements ferryi_shell_disown(). */
static void
disown(ferry_context **context)
{
    destroy(context, false);
}

/* -- page-locked memory of the program --------------------------------------------------------- */

ferry_status
ferry_context_register_host(ferry_context *context, void *memory, size_t bytes)
{
    if (!context || !memory || bytes == 0 || bytes > SIZE_MAX - (uintptr_t)memory)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "register host memory: context or memory is NULL, or %zu bytes is 0 or too large",
            bytes);
    FERRYI_OR_RETURN(ferryi_shell_check_open(context, "register host memory"));
    return ferryi_pins_add(ferryi_engine_pins(context->engine), memory, bytes);
}

ferry_status
ferry_context_unregister_host(ferry_context *context, void *memory)
{
    if (!context || !memory)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "unregister host memory: context or memory is NULL");
    FERRYI_OR_RETURN(ferryi_shell_check_open(context, "unregister host memory"));
    return ferryi_pins_remove(ferryi_engine_pins(context->engine), memory);
}
