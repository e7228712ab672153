/* SPDX-License-Identifier: MIT */
#include "rig.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ferryi_mutex rig_mutex = FERRYI_MUTEX_INITIALIZER;
static struct rig_allocation *allocations;

static rig *
self(ferryi_device *device)
{
    return (rig *)device;
}

/* Locks the mutex that all rigs (simulated devices) share. If the test has selected this call to
 * fail, returns an error without locking. */
static ferry_status
enter(ferryi_device *device, const char *slot)
{
    rig *r = self(device);
    ferryi_mutex_lock(&rig_mutex);
    bool counts = !r->fail_slot || strcmp(r->fail_slot, slot) == 0;
    if (counts && r->fail_in >= 0 && r->fail_in-- == 0) {
        r->tripped = true;
        ferryi_mutex_unlock(&rig_mutex);
        return ferryi_fail(r->fail_with, "%s: told to fail", slot);
    }
    return FERRY_OK;
}

static ferry_status
leave(void)
{
    ferryi_mutex_unlock(&rig_mutex);
    return FERRY_OK;
}

#define ENTER(device)                                                                              \
    do {                                                                                           \
        ferry_status entered = enter(device, __func__ + 5);                                        \
        if (entered != FERRY_OK)                                                                   \
            return entered;                                                                        \
    } while (0)

static bool
lies_in(const rig *owner, const void *pointer, size_t bytes, bool host)
{
    for (struct rig_allocation *a = allocations; a; a = a->next) {
        bool kind_fits = host ? a->kind != FERRY_MEMORY_DEVICE : a->kind == FERRY_MEMORY_DEVICE;
        if (kind_fits && (host || a->owner == owner) && (const char *)pointer >= a->memory &&
            (const char *)pointer + bytes <= a->memory + a->bytes)
            return true;
    }
    return false;
}

/* Returns whether copies on this rig accept the host memory, because it is pinned or the rig
 * accepts pageable memory. The caller must hold the mutex of the rigs. */
static bool
takes(const rig *r, const void *pointer, size_t bytes)
{
    return (r->head.capabilities & FERRYI_DEVICE_TAKES_PAGEABLE) ||
           lies_in(NULL, pointer, bytes, true);
}

static bool
refuses(const rig *r, const char *pointer, size_t bytes)
{
    return r->refused_bytes > 0 && pointer < r->refused + r->refused_bytes &&
           r->refused < pointer + bytes;
}

static ferry_status
refuse(const char *slot)
{
    ferryi_mutex_unlock(&rig_mutex);
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s: told to refuse", slot);
}

#define MUST(condition, slot)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ferryi_mutex_unlock(&rig_mutex);                                                       \
            fail_msg("%s was called against its contract: %s", slot, #condition);                  \
        }                                                                                          \
    } while (0)

/* -- work -------------------------------------------------------------------------------------- */

static void
perform(struct rig_stream *stream, size_t until)
{
    while (stream->performed < until) {
        struct rig_operation operation = stream->operations[stream->performed++];
        if (operation.what == RIG_WAIT) {
            perform(operation.stream, operation.until);
        } else if (operation.what == RIG_COPY) {
            memcpy(operation.target, operation.source, operation.bytes);
        } else {
            for (size_t i = 0; i < operation.bytes; i++)
                memcpy(operation.target + i * operation.pattern_bytes, &operation.pattern,
                       operation.pattern_bytes);
        }
    }
}

static void
queue(struct rig_stream *stream, struct rig_operation operation)
{
    if (stream->count == stream->capacity) {
        stream->capacity = stream->capacity ? stream->capacity * 2 : 16;
        stream->operations = realloc(stream->operations, stream->capacity * sizeof(operation));
        assert_non_null(stream->operations);
    }
    stream->operations[stream->count++] = operation;
}

static struct rig_stream *
new_stream(rig *r)
{
    struct rig_stream *stream = calloc(1, sizeof(*stream));
    assert_non_null(stream);
    stream->next = r->streams;
    r->streams = stream;
    return stream;
}

/* -- slots ------------------------------------------------------------------------------------- */

static ferry_status
slot_synchronize(ferryi_device *device)
{
    ENTER(device);
    for (struct rig_stream *stream = self(device)->streams; stream; stream = stream->next)
        perform(stream, stream->count);
    return leave();
}

static ferry_status
slot_memory_alloc(ferryi_device *device, ferry_memory_kind kind, size_t bytes, void **out)
{
    ENTER(device);
    struct rig_allocation *a = calloc(1, sizeof(*a));
    assert_non_null(a);
    *a = (struct rig_allocation){.memory = malloc(bytes),
                                 .bytes = bytes,
                                 .owner = self(device),
                                 .kind = kind,
                                 .next = allocations};
    assert_non_null(a->memory);
    memset(a->memory, 0xEE, bytes);
    allocations = a;
    self(device)->live_allocations++;
    *out = a->memory;
    return leave();
}

/* Begins a call that frees an object. The object is freed even if the call fails, because otherwise
 * a test could not distinguish a leak from an injected failure. */
#define ENTER_TO_FREE(device)                                                                      \
    ferry_status entered = enter(device, __func__ + 5);                                            \
    if (entered != FERRY_OK)                                                                       \
    ferryi_mutex_lock(&rig_mutex)

static ferry_status
slot_memory_free(ferryi_device *device, ferry_memory_kind kind, void *memory)
{
    ENTER_TO_FREE(device);
    struct rig_allocation **link = &allocations;
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    MUST(*link && (*link)->kind == kind, "memory_free");
    struct rig_allocation *a = *link;
    *link = a->next;
    free(a->memory);
    free(a);
    self(device)->live_allocations--;
    leave();
    return entered;
}

static ferry_status
slot_stream_create(ferryi_device *device, void **out)
{
    ENTER(device);
    *out = new_stream(self(device));
    self(device)->live_streams++;
    return leave();
}

static ferry_status
slot_stream_destroy(ferryi_device *device, void *stream)
{
    ENTER_TO_FREE(device);
    self(device)->live_streams--;
    (void)stream;
    leave();
    return entered;
}

static ferry_status
slot_stream_synchronize(ferryi_device *device, void *stream)
{
    ENTER(device);
    perform(stream, ((struct rig_stream *)stream)->count);
    return leave();
}

static ferry_status
slot_stream_is_capturing(ferryi_device *device, void *stream, bool *out)
{
    (void)device, (void)stream;
    *out = false;
    return FERRY_OK;
}

static ferry_status
slot_stream_wait(ferryi_device *device, void *stream, void *event)
{
    ENTER(device);
    struct rig_event *e = event;
    if (e->stream)
        queue(stream,
              (struct rig_operation){.what = RIG_WAIT, .stream = e->stream, .until = e->until});
    return leave();
}

static ferry_status
slot_event_create(ferryi_device *device, bool timed, void **out)
{
    (void)timed;
    ENTER(device);
    *out = calloc(1, sizeof(struct rig_event));
    assert_non_null(*out);
    self(device)->live_events++;
    return leave();
}

static ferry_status
slot_event_destroy(ferryi_device *device, void *event)
{
    ENTER_TO_FREE(device);
    free(event);
    self(device)->live_events--;
    leave();
    return entered;
}

static ferry_status
slot_event_record(ferryi_device *device, void *event, void *stream)
{
    ENTER(device);
    *(struct rig_event *)event = (struct rig_event){stream, ((struct rig_stream *)stream)->count};
    return leave();
}

static ferry_status
slot_event_query(ferryi_device *device, void *event, bool *out_done)
{
    ENTER(device);
    struct rig_event *e = event;
    *out_done = !e->stream || e->stream->performed >= e->until;
    return leave();
}

static ferry_status
slot_event_synchronize(ferryi_device *device, void *event)
{
    ENTER(device);
    struct rig_event *e = event;
    if (e->stream)
        perform(e->stream, e->until);
    return leave();
}

static ferry_status
copy_upload(ferryi_device *device, void *target, const void *source, size_t bytes, void *stream)
{
    ENTER(device);
    MUST(lies_in(self(device), target, bytes, false) && takes(self(device), source, bytes),
         "copy_upload");
    if (refuses(self(device), source, bytes))
        return refuse("copy_upload");
    queue(stream, (struct rig_operation){
                      .what = RIG_COPY, .target = target, .source = source, .bytes = bytes});
    return leave();
}

static ferry_status
copy_download(ferryi_device *device, void *target, const void *source, size_t bytes, void *stream)
{
    ENTER(device);
    MUST(lies_in(self(device), source, bytes, false) && takes(self(device), target, bytes),
         "copy_download");
    if (refuses(self(device), target, bytes))
        return refuse("copy_download");
    queue(stream, (struct rig_operation){
                      .what = RIG_COPY, .target = target, .source = source, .bytes = bytes});
    return leave();
}

static ferry_status
copy_device(ferryi_device *device, void *target, const void *source, size_t bytes, void *stream)
{
    ENTER(device);
    MUST(lies_in(self(device), source, bytes, false) && lies_in(self(device), target, bytes, false),
         "copy_device");
    MUST((char *)target + bytes <= (const char *)source ||
             (const char *)source + bytes <= (char *)target,
         "copy_device");
    queue(stream, (struct rig_operation){
                      .what = RIG_COPY, .target = target, .source = source, .bytes = bytes});
    return leave();
}

static ferry_status
copy_peer(ferryi_device *device, void *target, ferryi_device *source_device, const void *source,
          size_t bytes, void *stream)
{
    ENTER(device);
    MUST(lies_in(self(source_device), source, bytes, false) &&
             lies_in(self(device), target, bytes, false),
         "copy_peer");
    bool reaches = !self(device)->no_peers;
    if (reaches)
        queue(stream, (struct rig_operation){
                          .what = RIG_COPY, .target = target, .source = source, .bytes = bytes});
    leave();
    return reaches ? FERRY_OK : ferryi_fail(FERRY_ERROR_UNSUPPORTED, "copy_peer: no way");
}

static ferry_status
slot_copy(ferryi_device *device, const struct ferryi_copy *copy, void *stream)
{
    switch (copy->direction) {
    case FERRY_DIRECTION_UPLOAD:
        return copy_upload(device, copy->target, copy->source, copy->bytes, stream);
    case FERRY_DIRECTION_DOWNLOAD:
        return copy_download(device, copy->target, copy->source, copy->bytes, stream);
    case FERRY_DIRECTION_PEER:
        return copy_peer(device, copy->target, copy->source_device, copy->source, copy->bytes,
                         stream);
    default:
        return copy_device(device, copy->target, copy->source, copy->bytes, stream);
    }
}

static ferry_status
slot_fill(ferryi_device *device, void *target, uint32_t pattern, size_t pattern_bytes, size_t count,
          void *stream)
{
    ENTER(device);
    MUST(lies_in(self(device), target, pattern_bytes * count, false), "fill");
    MUST((uintptr_t)target % pattern_bytes == 0, "fill");
    MUST(pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4, "fill");
    queue(stream, (struct rig_operation){.what = RIG_FILL,
                                         .target = target,
                                         .bytes = count,
                                         .pattern = pattern,
                                         .pattern_bytes = pattern_bytes});
    return leave();
}

/* -- life -------------------------------------------------------------------------------------- */

static struct ferryi_device_ops rig_ops;

static void
set_up_ops(void)
{
    rig_ops = ferryi_unsupported_ops;
    rig_ops.synchronize = slot_synchronize;
    rig_ops.memory_alloc = slot_memory_alloc;
    rig_ops.memory_free = slot_memory_free;
    rig_ops.stream_create = slot_stream_create;
    rig_ops.stream_destroy = slot_stream_destroy;
    rig_ops.stream_synchronize = slot_stream_synchronize;
    rig_ops.stream_is_capturing = slot_stream_is_capturing;
    rig_ops.stream_wait = slot_stream_wait;
    rig_ops.event_create = slot_event_create;
    rig_ops.event_destroy = slot_event_destroy;
    rig_ops.event_record = slot_event_record;
    rig_ops.event_query = slot_event_query;
    rig_ops.event_synchronize = slot_event_synchronize;
    rig_ops.copy = slot_copy;
    rig_ops.fill = slot_fill;
}

rig *
rig_open(int ordinal)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up_ops);
    rig *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->head.ops = &rig_ops;
    r->head.kind = "rig";
    r->head.capabilities = FERRY_CAN_PEER | FERRY_CAN_PIN;
    r->head.properties.native = ordinal;
    r->head.default_stream = new_stream(r);
    rig_fail(r, -1);
    return r;
}

void
rig_pin(rig *device, void *memory, size_t bytes)
{
    (void)device;
    struct rig_allocation *a = calloc(1, sizeof(*a));
    assert_non_null(a);
    *a = (struct rig_allocation){
        .memory = memory, .bytes = bytes, .kind = FERRY_MEMORY_PAGEABLE, .next = allocations};
    allocations = a;
}

void
rig_fail(rig *device, int calls)
{
    device->fail_in = calls;
    device->fail_with = FERRY_ERROR_DEVICE;
    device->tripped = false;
}

static void
forget_pinned(void)
{
    for (struct rig_allocation **link = &allocations; *link;) {
        struct rig_allocation *a = *link;
        if (a->kind != FERRY_MEMORY_PAGEABLE) {
            link = &a->next;
            continue;
        }
        *link = a->next;
        free(a);
    }
}

void
rig_close(rig *device)
{
    assert_int_equal(device->live_allocations, 0);
    assert_int_equal(device->live_events, 0);
    assert_int_equal(device->live_streams, 0);
    while (device->streams) {
        struct rig_stream *stream = device->streams;
        device->streams = stream->next;
        free(stream->operations);
        free(stream);
    }
    forget_pinned();
    free(device);
}
