/* SPDX-License-Identifier: MIT */
#include "tests/support/fault.h"

#include <stdlib.h>

struct fault_device {
    ferryi_device head;
    ferryi_device *inner;
};

static struct {
    _Atomic(const ferryi_device_kind *) wrapped;
    _Atomic(const char *) slot;
    _Atomic int status;
    _Atomic uint64_t calls, nth; /* `nth` is 0 when disarmed */
    _Atomic int64_t live;
    _Atomic bool releases, tripped;
    ferry_status (*_Atomic hook)(const char *slot, void *user);
    void *_Atomic hook_user;
} fault = {.wrapped = &ferryi_emulated_kind, .status = FERRY_ERROR_DEVICE};

static ferryi_device *
inner(ferryi_device *device)
{
    return ((struct fault_device *)device)->inner;
}

/* Counts a call of the fault device. Returns the status that a test wants this call to return, or
 * FERRY_OK. */
static ferry_status
count_call(const char *slot)
{
    ferry_status (*hook)(const char *, void *) = atomic_load(&fault.hook);
    ferry_status refused = hook ? hook(slot, atomic_load(&fault.hook_user)) : FERRY_OK;
    if (refused != FERRY_OK)
        return ferryi_fail(refused, "%s: fault injected by a hook", slot);
    uint64_t call = atomic_fetch_add(&fault.calls, 1) + 1;
    uint64_t nth = atomic_load(&fault.nth);
    ferry_status status = (ferry_status)atomic_load(&fault.status);
    if (nth == 0 || call < nth || (call > nth && status != FERRY_ERROR_DEVICE_LOST))
        return FERRY_OK;
    atomic_store(&fault.slot, slot);
    atomic_store(&fault.tripped, true);
    return ferryi_fail(status, "%s: fault injected at call %llu", slot, (unsigned long long)call);
}

static ferry_status
count_release(const char *slot)
{
    return atomic_load(&fault.releases) ? count_call(slot) : FERRY_OK;
}

/* Adds `change` to the number of live objects if the call succeeded. `change` is 1 if the call
 * creates an object, and -1 if the call releases one. */
static ferry_status
count_live(ferry_status status, int change)
{
    if (status == FERRY_OK)
        atomic_fetch_add(&fault.live, change);
    return status;
}

/* Defines a function of the fault device that counts the call and passes it to the wrapped device.
 */
#define PASS(slot, parameters, ...)                                                                \
    static ferry_status fault_##slot parameters                                                    \
    {                                                                                              \
        ferry_status status = count_call(#slot);                                                   \
        return status == FERRY_OK ? inner(device)->ops->slot(inner(device), __VA_ARGS__) : status; \
    }

/* Defines a function of the fault device that creates an object. A successful call increments the
 * number of live objects. */
#define GIVE(slot, parameters, ...)                                                                \
    static ferry_status fault_##slot parameters                                                    \
    {                                                                                              \
        ferry_status status = count_call(#slot);                                                   \
        return status == FERRY_OK                                                                  \
                   ? count_live(inner(device)->ops->slot(inner(device), __VA_ARGS__), 1)           \
                   : status;                                                                       \
    }

/* Defines a function of the fault device that releases an object. A successful call decrements the
 * number of live objects. */
#define TAKE(slot, parameters, thing, ...)                                                         \
    static ferry_status fault_##slot parameters                                                    \
    {                                                                                              \
        ferry_status status = count_release(#slot);                                                \
        return status == FERRY_OK                                                                  \
                   ? count_live(inner(device)->ops->slot(inner(device), __VA_ARGS__),              \
                                (thing) != NULL ? -1 : 0)                                          \
                   : status;                                                                       \
    }

/* clang-format off */
PASS(memory_info, (ferryi_device *device, size_t *out_free, size_t *out_total), out_free, out_total)
GIVE(memory_alloc, (ferryi_device *device, ferry_memory_kind kind, size_t bytes, void **out), kind, bytes, out)
TAKE(memory_free, (ferryi_device *device, ferry_memory_kind kind, void *memory), memory, kind, memory)
GIVE(range_reserve, (ferryi_device *device, size_t bytes, void **out), bytes, out)
TAKE(range_release, (ferryi_device *device, void *range, size_t bytes), range, range, bytes)
GIVE(range_map, (ferryi_device *device, void *memory, size_t bytes, void **out_handle), memory, bytes, out_handle)
TAKE(range_unmap, (ferryi_device *device, void *memory, size_t bytes, void *handle), memory, memory, bytes, handle)
GIVE(shared_alloc, (ferryi_device *device, struct ferryi_shared_memory *shared, void **out), shared, out)
GIVE(shared_open, (ferryi_device *device, const struct ferryi_shared_memory *shared, void **out), shared, out)
TAKE(shared_free, (ferryi_device *device, const struct ferryi_shared_memory *shared, void *memory), memory, shared, memory)
GIVE(shared_event_create, (ferryi_device *device, struct ferryi_token *out_token, void **out), out_token, out)
GIVE(shared_event_open, (ferryi_device *device, const struct ferryi_token *token, void **out), token, out)
PASS(memory_users, (ferryi_device *device, const void *memory, unsigned *out), memory, out)
PASS(memory_is_pinned, (ferryi_device *device, const void *memory, size_t bytes, bool *out), memory, bytes, out)
GIVE(host_register, (ferryi_device *device, void *memory, size_t bytes), memory, bytes)
TAKE(host_unregister, (ferryi_device *device, void *memory), memory, memory)
GIVE(stream_create, (ferryi_device *device, void **out), out)
TAKE(stream_destroy, (ferryi_device *device, void *stream), stream, stream)
PASS(stream_synchronize, (ferryi_device *device, void *stream), stream)
PASS(stream_is_capturing, (ferryi_device *device, void *stream, bool *out), stream, out)
PASS(stream_check, (ferryi_device *device, void *stream, void **out_scope), stream, out_scope)
PASS(stream_id, (ferryi_device *device, void *stream, uint64_t *out), stream, out)
GIVE(event_create_in, (ferryi_device *device, void *scope, bool timed, void **out), scope, timed, out)
PASS(event_record_in, (ferryi_device *device, void *scope, void *event, void *stream), scope, event, stream)
PASS(stream_wait, (ferryi_device *device, void *stream, void *event), stream, event)
PASS(host_call, (ferryi_device *device, void *stream, void (*run)(void *user), void *user), stream, run, user)
GIVE(event_create, (ferryi_device *device, bool timed, void **out), timed, out)
TAKE(event_destroy, (ferryi_device *device, void *event), event, event)
PASS(event_record, (ferryi_device *device, void *event, void *stream), event, stream)
PASS(event_query, (ferryi_device *device, void *event, bool *out_done), event, out_done)
PASS(event_synchronize, (ferryi_device *device, void *event), event)
PASS(event_elapsed, (ferryi_device *device, void *begin, void *end, double *out_seconds), begin, end, out_seconds)
PASS(fill, (ferryi_device *device, void *target, uint32_t pattern, size_t pattern_bytes, size_t count, void *stream),
     target, pattern, pattern_bytes, count, stream)
GIVE(file_open, (ferryi_device *device, int fd, void **out), fd, out)
PASS(file_copy, (ferryi_device *device, void *file, const struct ferryi_file_copy *copy, size_t *out_bytes),
     file, copy, out_bytes)
TAKE(file_close, (ferryi_device *device, void *file), file, file)
GIVE(code_load, (ferryi_device *device, const void *image, size_t bytes, void **out_module), image, bytes, out_module)
TAKE(code_unload, (ferryi_device *device, void *module), module, module)
PASS(code_function, (ferryi_device *device, void *module, const char *name, void **out_function), module, name, out_function)
PASS(code_parameters, (ferryi_device *device, void *function, size_t most, size_t *out_bytes, size_t *out_count),
     function, most, out_bytes, out_count)
PASS(launch, (ferryi_device *device, const struct ferryi_launch *launch, void *stream), launch, stream)
PASS(capture_begin, (ferryi_device *device, void *stream), stream)
GIVE(capture_end, (ferryi_device *device, void *stream, void **out_graph), stream, out_graph)
PASS(graph_launch, (ferryi_device *device, void *graph, void *stream), graph, stream)
TAKE(graph_destroy, (ferryi_device *device, void *graph), graph, graph)
/* clang-format on */

static ferry_status
fault_code_build(ferryi_device *device, const struct ferryi_code_job *job, void **out_module)
{
    ferry_status status = count_call("code_build");
    if (status != FERRY_OK)
        return status;
    status = inner(device)->ops->code_build(inner(device), job, out_module);
    return count_live(status, out_module ? 1 : 0);
}

static ferry_status
fault_synchronize(ferryi_device *device)
{
    ferry_status status = count_call("synchronize");
    return status == FERRY_OK ? inner(device)->ops->synchronize(inner(device)) : status;
}

/* Returns the device that a fault device wraps. Returns a device of a different kind unchanged, and
 * also NULL, which means the host. */
static ferryi_device *
unwrap(ferryi_device *device)
{
    return device && device->kind == fault_kind.name ? inner(device) : device;
}

static ferry_status
fault_copy_2d(ferryi_device *device, const struct ferryi_copy_2d *copy, void *stream)
{
    struct ferryi_copy_2d inside = *copy;
    inside.source_device = unwrap(copy->source_device);
    ferry_status status = count_call("copy_2d");
    return status == FERRY_OK ? inner(device)->ops->copy_2d(inner(device), &inside, stream)
                              : status;
}

static ferry_status
fault_copy_batch(ferryi_device *device, const struct ferryi_copy *copies, size_t count,
                 void *stream)
{
    ferry_status status = count_call("copy_batch");
    if (status != FERRY_OK)
        return status;
    struct ferryi_copy *inside = malloc((count + 1) * sizeof(*inside));
    if (!inside)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "copy_batch: no memory for %zu copies",
                           count);
    for (size_t i = 0; i < count; i++) {
        inside[i] = copies[i];
        inside[i].source_device = unwrap(copies[i].source_device);
    }
    status = inner(device)->ops->copy_batch(inner(device), inside, count, stream);
    free(inside);
    return status;
}

/* Counts the call and passes it to the wrapped device. The name of the call depends on the
 * direction of the copy, such as "copy_upload". */
static ferry_status
fault_copy(ferryi_device *device, const struct ferryi_copy *copy, void *stream)
{
    static const char *const names[] = {[FERRY_DIRECTION_UPLOAD] = "copy_upload",
                                        [FERRY_DIRECTION_DOWNLOAD] = "copy_download",
                                        [FERRY_DIRECTION_DEVICE] = "copy_device",
                                        [FERRY_DIRECTION_PEER] = "copy_peer"};
    struct ferryi_copy inside = *copy;
    inside.source_device = unwrap(copy->source_device);
    ferry_status status = count_call(names[copy->direction]);
    return status == FERRY_OK ? inner(device)->ops->copy(inner(device), &inside, stream) : status;
}

static ferry_status
fault_prefetch(ferryi_device *device, void *memory, size_t bytes, ferryi_device *location,
               void *stream)
{
    ferry_status status = count_call("prefetch");
    if (status != FERRY_OK)
        return status;
    return inner(device)->ops->prefetch(inner(device), memory, bytes, unwrap(location), stream);
}

static ferry_status
fault_advise(ferryi_device *device, void *memory, size_t bytes, int advice, ferryi_device *location)
{
    ferry_status status = count_call("advise");
    if (status != FERRY_OK)
        return status;
    return inner(device)->ops->advise(inner(device), memory, bytes, advice, unwrap(location));
}

static void
fault_close(ferryi_device *device)
{
    inner(device)->ops->close(inner(device));
    free(device);
}

#define SLOT(slot) .slot = fault_##slot

static const struct ferryi_device_ops fault_ops = {
    SLOT(close),
    SLOT(memory_info),
    SLOT(synchronize),
    SLOT(memory_alloc),
    SLOT(memory_free),
    SLOT(range_reserve),
    SLOT(range_release),
    SLOT(range_map),
    SLOT(range_unmap),
    SLOT(shared_alloc),
    SLOT(shared_open),
    SLOT(shared_free),
    SLOT(shared_event_create),
    SLOT(shared_event_open),
    SLOT(memory_users),
    SLOT(memory_is_pinned),
    SLOT(host_register),
    SLOT(host_unregister),
    SLOT(stream_create),
    SLOT(stream_destroy),
    SLOT(stream_synchronize),
    SLOT(stream_is_capturing),
    SLOT(stream_check),
    SLOT(stream_id),
    SLOT(event_create_in),
    SLOT(event_record_in),
    SLOT(stream_wait),
    SLOT(host_call),
    SLOT(event_create),
    SLOT(event_destroy),
    SLOT(event_record),
    SLOT(event_query),
    SLOT(event_synchronize),
    SLOT(copy),
    SLOT(copy_2d),
    SLOT(copy_batch),
    SLOT(fill),
    SLOT(file_open),
    SLOT(file_copy),
    SLOT(file_close),
    SLOT(prefetch),
    SLOT(advise),
    SLOT(code_load),
    SLOT(code_build),
    SLOT(code_unload),
    SLOT(code_function),
    SLOT(code_parameters),
    SLOT(launch),
    SLOT(capture_begin),
    SLOT(capture_end),
    SLOT(graph_launch),
    SLOT(graph_destroy),
    SLOT(event_elapsed),
};

/* -- the kind -- */

static int
fault_count(void)
{
    return 1;
}

static ferry_status
fault_open(int ordinal, const struct ferryi_device_config *config, ferryi_device **out)
{
    struct fault_device *device = calloc(1, sizeof(*device));
    if (!device)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open fault:%d: no memory", ordinal);
    ferry_status status = atomic_load(&fault.wrapped)->open(ordinal, config, &device->inner);
    if (status != FERRY_OK) {
        free(device);
        return status;
    }
    device->head.ops = &fault_ops;
    device->head.kind = fault_kind.name;
    device->head.capabilities = device->inner->capabilities;
    device->head.default_stream = device->inner->default_stream;
    device->head.per_thread_stream = device->inner->per_thread_stream;
    device->head.properties = device->inner->properties;
    device->head.default_is_null = device->inner->default_is_null;
    *out = &device->head;
    return FERRY_OK;
}

const ferryi_device_kind fault_kind = {
    .name = "fault", .count = fault_count, .open = fault_open, .made_up = true};

void
fault_register(void)
{
    ferryi_device_register(&fault_kind);
}

/* -- for tests -- */

void
fault_wrap(const ferryi_device_kind *kind)
{
    atomic_store(&fault.wrapped, kind);
}

void
fault_status(ferry_status status)
{
    atomic_store(&fault.status, (int)status);
}

void
fault_include_releases(bool include)
{
    atomic_store(&fault.releases, include);
}

void
fault_arm(uint64_t nth)
{
    atomic_store(&fault.nth, 0);
    atomic_store(&fault.calls, 0);
    atomic_store(&fault.tripped, false);
    atomic_store(&fault.nth, nth);
}

void
fault_disarm(void)
{
    atomic_store(&fault.nth, 0);
}

uint64_t
fault_calls(void)
{
    return atomic_load(&fault.calls);
}

bool
fault_tripped(void)
{
    return atomic_load(&fault.tripped);
}

const char *
fault_tripped_slot(void)
{
    return atomic_load(&fault.slot);
}

void
fault_hook(ferry_status (*hook)(const char *slot, void *user), void *user)
{
    atomic_store(&fault.hook_user, user);
    atomic_store(&fault.hook, hook);
}

int64_t
fault_live(void)
{
    return atomic_load(&fault.live);
}
