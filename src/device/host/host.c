/* SPDX-License-Identifier: MIT */
#include "src/device/device.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/*
 * The host device is Ferry's device on machines without a GPU. Its memory is host memory. Its work
 * runs in the calling thread, and a call that queues work returns only after the work is done. So
 * every event is complete as soon as it is recorded.
 */

#define ALIGN 4096

struct host_device {
    ferryi_device head;
    struct ferryi_device_ops ops;
    /* Bytes that memory_alloc has allocated and memory_free has not yet freed. */
    _Atomic size_t used_bytes;
    char default_stream; /* its address is the handle */
};

/* Header at the start of each allocation of the host device. It stores the size of the allocation,
 * so that memory_free can update the number of used bytes. */
struct allocation {
    size_t bytes; /* including this header */
};

static struct host_device *
self(ferryi_device *device)
{
    return (struct host_device *)device;
}

/* -- the device -- */

static void
host_close(ferryi_device *device)
{
    free(device);
}

static ferry_status
host_memory_info(ferryi_device *device, size_t *out_free, size_t *out_total)
{
    size_t total = device->properties.total_bytes;
    size_t used = atomic_load(&self(device)->used_bytes);
    *out_free = used < total ? total - used : 0;
    *out_total = total;
    return FERRY_OK;
}

static ferry_status
host_synchronize(ferryi_device *device)
{
    (void)device;
    return FERRY_OK;
}

/* -- memory -- */

static ferry_status
host_memory_alloc(ferryi_device *device, ferry_memory_kind kind, size_t bytes, void **out)
{
    if (kind != FERRY_MEMORY_DEVICE && kind != FERRY_MEMORY_PINNED)
        return ferryi_unsupported_ops.memory_alloc(device, kind, bytes, out);
    size_t total = device->properties.total_bytes, padded;
    struct allocation *allocation = NULL;
    /* Allocations larger than the machine's memory are refused here, because many systems would
     * grant them and later kill the program. */
    if (bytes <= total && ferryi_add_size(bytes, ALIGN, &padded) &&
        ferryi_round_up(padded, ALIGN, &padded))
        allocation = aligned_alloc(ALIGN, padded);
    if (!allocation)
        return ferryi_fail(
            FERRY_ERROR_OUT_OF_MEMORY,
            "memory_alloc of %zu bytes on host:0: aligned_alloc: the machine has %zu bytes in all",
            bytes, total);
    allocation->bytes = padded;
    atomic_fetch_add(&self(device)->used_bytes, padded);
    *out = (char *)allocation + ALIGN;
    return FERRY_OK;
}

static ferry_status
host_memory_free(ferryi_device *device, ferry_memory_kind kind, void *memory)
{
    (void)kind;
    if (!memory)
        return FERRY_OK;
    struct allocation *allocation = (struct allocation *)((char *)memory - ALIGN);
    atomic_fetch_sub(&self(device)->used_bytes, allocation->bytes);
    free(allocation);
    return FERRY_OK;
}

static ferry_status
host_memory_users(ferryi_device *device, const void *memory, unsigned *out)
{
    (void)device, (void)memory;
    *out = FERRYI_USER_HOST | FERRYI_USER_DEVICE;
    return FERRY_OK;
}

/* -- streams: handles that mean nothing -- */

static ferry_status
host_stream_create(ferryi_device *device, void **out)
{
    (void)device;
    void *handle = malloc(1);
    if (!handle)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "stream_create on host:0: no memory for 1 byte");
    *out = handle;
    return FERRY_OK;
}

static ferry_status
host_free_handle(ferryi_device *device, void *handle)
{
    (void)device;
    free(handle);
    return FERRY_OK;
}

/* No work is pending when a call returns, so a wait for a stream or an event does nothing. */
static ferry_status
host_wait(ferryi_device *device, void *handle)
{
    (void)device, (void)handle;
    return FERRY_OK;
}

static ferry_status
host_stream_is_capturing(ferryi_device *device, void *stream, bool *out)
{
    (void)device, (void)stream;
    *out = false;
    return FERRY_OK;
}

static ferry_status
host_stream_wait(ferryi_device *device, void *stream, void *event)
{
    (void)device, (void)stream, (void)event;
    return FERRY_OK;
}

static ferry_status
host_host_call(ferryi_device *device, void *stream, void (*run)(void *user), void *user)
{
    (void)device, (void)stream;
    run(user);
    return FERRY_OK;
}

/* -- events -- */

/* An event of the host device. It stores only whether it is timed and when it was last recorded. */
struct event {
    bool timed;
    /* Time of the last record; 0 if the event was never recorded or is not timed. */
    _Atomic uint64_t reached_ns;
};

static ferry_status
host_event_create(ferryi_device *device, bool timed, void **out)
{
    (void)device;
    struct event *event = calloc(1, sizeof(*event));
    if (!event)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "event_create on host:0: no memory for %zu bytes", sizeof(*event));
    event->timed = timed;
    *out = event;
    return FERRY_OK;
}

static ferry_status
host_event_record(ferryi_device *device, void *handle, void *stream)
{
    struct event *event = handle;
    (void)device, (void)stream;
    if (event->timed)
        atomic_store(&event->reached_ns, ferryi_now_ns());
    return FERRY_OK;
}

static ferry_status
host_event_query(ferryi_device *device, void *event, bool *out_done)
{
    (void)device, (void)event;
    *out_done = true;
    return FERRY_OK;
}

static ferry_status
host_event_elapsed(ferryi_device *device, void *begin, void *end, double *out_seconds)
{
    (void)device;
    uint64_t first = atomic_load(&((struct event *)begin)->reached_ns),
             last = atomic_load(&((struct event *)end)->reached_ns);
    if (!first || !last)
        return ferryi_fail(FERRY_ERROR_DEVICE,
                           "event_elapsed on host:0: an event is not timed, or was never recorded");
    *out_seconds = ferryi_seconds_between(first, last);
    return FERRY_OK;
}

/* -- copies -- */

static ferry_status
host_copy(ferryi_device *device, const struct ferryi_copy *copy, void *stream)
{
    if (copy->direction == FERRY_DIRECTION_PEER)
        return ferryi_unsupported_ops.copy(device, copy, stream);
    if (copy->bytes > 0)
        memcpy(copy->target, copy->source, copy->bytes);
    return FERRY_OK;
}

static ferry_status
host_copy_2d(ferryi_device *device, const struct ferryi_copy_2d *copy, void *stream)
{
    (void)device, (void)stream;
    for (size_t row = 0; row < copy->rows && copy->row_bytes > 0; row++)
        memcpy((char *)copy->target + row * copy->target_pitch,
               (const char *)copy->source + row * copy->source_pitch, copy->row_bytes);
    return FERRY_OK;
}

static ferry_status
host_fill(ferryi_device *device, void *target, uint32_t pattern, size_t pattern_bytes, size_t count,
          void *stream)
{
    (void)device, (void)stream;
    if (pattern_bytes == 1) {
        if (count > 0)
            memset(target, (int)(pattern & 0xff), count);
    } else if (pattern_bytes == 2) {
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)target)[i] = (uint16_t)pattern;
    } else {
        assert(pattern_bytes == 4);
        for (size_t i = 0; i < count; i++)
            ((uint32_t *)target)[i] = pattern;
    }
    return FERRY_OK;
}

static struct ferryi_device_ops
make_ops(void)
{
    struct ferryi_device_ops ops = ferryi_unsupported_ops;
    ops.close = host_close;
    ops.memory_info = host_memory_info;
    ops.synchronize = host_synchronize;
    ops.memory_alloc = host_memory_alloc;
    ops.memory_free = host_memory_free;
    ops.memory_users = host_memory_users;
    ops.stream_create = host_stream_create;
    ops.stream_destroy = host_free_handle;
    ops.stream_synchronize = host_wait;
    ops.stream_is_capturing = host_stream_is_capturing;
    ops.stream_wait = host_stream_wait;
    ops.host_call = host_host_call;
    ops.event_create = host_event_create;
    ops.event_destroy = host_free_handle;
    ops.event_record = host_event_record;
    ops.event_query = host_event_query;
    ops.event_synchronize = host_wait;
    ops.event_elapsed = host_event_elapsed;
    ops.copy = host_copy;
    ops.copy_2d = host_copy_2d;
    ops.fill = host_fill;
    return ops;
}

/* -- the kind -- */

static int
host_count(void)
{
    return 1;
}

static ferry_status
host_open(int ordinal, const struct ferryi_device_config *config, ferryi_device **out)
{
    (void)config;
    assert(ordinal == 0);
    (void)ordinal;
    struct host_device *host = calloc(1, sizeof(*host));
    if (!host)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open host:0: no memory for %zu bytes",
                           sizeof(*host));
    host->ops = make_ops();
    host->head.ops = &host->ops;
    host->head.kind = ferryi_host_kind.name;
    host->head.capabilities = FERRY_CAN_RUN_HOST_FUNCTION | FERRYI_DEVICE_COHERENT |
                              FERRYI_DEVICE_HOST_VISIBLE | FERRYI_DEVICE_CALLS_HERE;
    host->head.default_stream = &host->default_stream;
    host->head.properties.total_bytes = ferryi_physical_memory();
    strcpy(host->head.properties.name, "host");
    *out = &host->head;
    return FERRY_OK;
}

const ferryi_device_kind ferryi_host_kind = {
    .name = "host", .count = host_count, .open = host_open};
