/* SPDX-License-Identifier: MIT */
#include "src/device/emulated/emulated.h"

#include <assert.h>
#include <stdlib.h>

FERRYI_MUTEX_CLASS(ferryi_emulated_event_mutex);

/* An event of an emulated device: a queue, and the number of commands that were submitted to the
 * queue when the event was recorded. */
struct event {
    struct ferryi_emulated_event_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_emulated_event_mutex) struct {
        ferryi_emulated_queue *queue; /* NULL: never recorded */
        uint64_t number;
        /* number of queries that have found the event incomplete since it was last recorded */
        unsigned asked;
        struct ferryi_emulated_mark *mark; /* for a timed event: a reference to the mark that stores
                                              the time of the last record; NULL for other events */
    };
    bool timed; /* constant */
};

/* A point in a queue's sequence of commands, and a reference to the queue. The point is reached
 * when the queue has performed `number` commands. */
struct position {
    ferryi_emulated_queue *queue;
    uint64_t number;
};

/* -- queues -- */

static ferryi_emulated_queue *
create_queue(const struct ferryi_emulated_scheduler *scheduler)
{
    ferryi_emulated_queue *queue = calloc(1, sizeof(*queue));
    if (!queue) {
        ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "stream_create: no memory for %zu bytes",
                    sizeof(*queue));
        return NULL;
    }
    queue->scheduler = scheduler;
    queue->holders = 1;
    ferryi_mutex_is_needless(&queue->mutex);
    ferryi_mutex_init_brief(&queue->mutex);
    ferryi_cond_init(&queue->given);
    ferryi_cond_init(&queue->done);
    queue->awaited = UINT64_MAX;
    if (scheduler->begin(queue) != FERRY_OK) {
        ferryi_emulated_queue_release(queue);
        return NULL;
    }
    return queue;
}

static ferryi_emulated_queue *
hold_queue(ferryi_emulated_queue *queue)
{
    atomic_fetch_add(&queue->holders, 1);
    return queue;
}

void
ferryi_emulated_queue_release(ferryi_emulated_queue *queue)
{
    if (!queue || atomic_fetch_sub(&queue->holders, 1) != 1)
        return;
    ferryi_mutex_is_needless(&queue->mutex);
    assert(!queue->first);
    ferryi_cond_destroy(&queue->done);
    ferryi_cond_destroy(&queue->given);
    ferryi_mutex_destroy(&queue->mutex);
    free(queue->failure_text);
    free(queue);
}

/* Removes and frees the queue's first command, which has been performed. */
FERRYI_REQUIRES(ferryi_queue_mutex)
static void
take_first_away(ferryi_emulated_queue *queue)
{
    struct ferryi_emulated_command *command = queue->first;
    queue->first = command->next;
    if (!queue->first)
        queue->last = NULL;
    free(command);
    if (queue->performed + 1 >= queue->awaited) {
        queue->awaited = UINT64_MAX;
        ferryi_cond_broadcast(&queue->done);
    }
    /* Threads read `performed` without the mutex, so it is stored only after the command is done
     * and freed. A thread that sees the new value must still lock the mutex before it reads the
     * queue's other members. */
    atomic_store_explicit(&queue->performed, queue->performed + 1, memory_order_release);
}

void
ferryi_emulated_step(ferryi_emulated_queue *queue)
{
    struct ferryi_emulated_command *command = queue->first;
    assert(command && !queue->busy);
    queue->busy = true;
    ferryi_mutex_unlock(&queue->mutex);
    ferryi_emulated_command_perform(command, queue);
    ferryi_emulated_command_let_go(command);
    ferryi_mutex_lock(&queue->mutex);
    queue->busy = false;
    take_first_away(queue);
}

/* Returns whether copies take no more time than the processor needs. */
static bool
takes_no_time(const ferryi_emulated *emulated)
{
    return emulated->bytes_per_second == 0 && emulated->latency_ns == 0;
}

/* Returns whether this thread can perform the command that it submits to the queue. */
FERRYI_REQUIRES(ferryi_queue_mutex)
static bool
is_done_here(const ferryi_emulated_queue *queue, const struct ferryi_emulated_command *command)
{
    return !queue->first && command->bytes <= queue->scheduler->here_bytes;
}

static uint64_t
queue_submitted(ferryi_emulated_queue *queue)
{
    return atomic_load_explicit(&queue->submitted, memory_order_acquire);
}

static bool
queue_has_performed(ferryi_emulated_queue *queue, uint64_t number)
{
    return atomic_load_explicit(&queue->performed, memory_order_acquire) >= number;
}

FERRYI_REQUIRES(ferryi_queue_mutex)
static bool
has_nothing_left(ferryi_emulated_queue *queue)
{
    return queue_has_performed(queue, queue_submitted(queue)) && !queue->failure;
}

static bool
queue_is_idle(ferryi_emulated_queue *queue)
{
    ferryi_mutex_lock(&queue->mutex);
    bool idle = has_nothing_left(queue);
    ferryi_mutex_unlock(&queue->mutex);
    return idle;
}

static bool
queue_is_over(ferryi_emulated_queue *queue)
{
    ferryi_mutex_lock(&queue->mutex);
    bool over = queue->closed && has_nothing_left(queue);
    ferryi_mutex_unlock(&queue->mutex);
    return over;
}

static void
close_queue(ferryi_emulated_queue *queue)
{
    ferryi_mutex_lock(&queue->mutex);
    queue->closed = true;
    ferryi_cond_broadcast(&queue->given);
    ferryi_mutex_unlock(&queue->mutex);
}

/* Returns the failure that the queue has stored, and clears it so that it is reported only once. */
static ferry_status
take_failure(ferryi_emulated_queue *queue)
{
    ferryi_mutex_lock(&queue->mutex);
    ferry_status status = queue->failure;
    char *text = queue->failure_text;
    queue->failure = FERRY_OK;
    queue->failure_text = NULL;
    ferryi_mutex_unlock(&queue->mutex);
    if (status != FERRY_OK)
        ferryi_fail(status, "%s", text ? text : "work on the device failed");
    free(text);
    return status;
}

void
ferryi_emulated_queue_fail(ferryi_emulated_queue *queue, ferry_status status)
{
    char *text = ferryi_last_error_copy();
    ferryi_mutex_lock(&queue->mutex);
    if (queue->failure == FERRY_OK) {
        queue->failure = status;
        queue->failure_text = text;
        text = NULL;
    }
    ferryi_mutex_unlock(&queue->mutex);
    free(text);
}

void
ferryi_emulated_sleep(ferryi_emulated_queue *queue, uint64_t number)
{
    if (number < queue->awaited)
        queue->awaited = number;
    ferryi_cond_wait(&queue->done, &queue->mutex);
}

static ferry_status
wait_for(ferryi_emulated_queue *queue, uint64_t number)
{
    queue->scheduler->wait(queue, number);
    return take_failure(queue);
}

/* -- streams -- */

/* Returns the queue of a stream, with a new reference. Fails if the stream was destroyed or belongs
 * to a different device. */
static ferry_status
find_queue(ferryi_device *device, const char *call, void *handle, ferryi_emulated_queue **out)
{
    ferryi_emulated *emulated = ferryi_emulated_of(device);
    struct ferryi_emulated_stream *stream = handle;
    if (!stream)
        return ferryi_fail(FERRY_ERROR_DEVICE, "%s on %s:%d: the stream is NULL", call,
                           device->kind, device->properties.native);
    if (stream->emulated != emulated)
        return ferryi_fail(FERRY_ERROR_DEVICE, "%s on %s:%d: the stream belongs to another device",
                           call, device->kind, device->properties.native);
    ferryi_mutex_lock(&emulated->mutex);
    /* The stream holds a reference to its queue. So the queue still exists, even if an earlier
     * caller has released the reference that it got from this function. */
    ferryi_emulated_queue *queue =
        stream->alive ? hold_queue(stream->queue) : NULL; /* NOLINT(clang-analyzer-unix.Malloc) */
    ferryi_mutex_unlock(&emulated->mutex);
    if (!queue)
        return ferryi_fail(FERRY_ERROR_DEVICE, "%s on %s:%d: the stream was destroyed", call,
                           device->kind, device->properties.native);
    *out = queue;
    return FERRY_OK;
}

ferry_status
ferryi_emulated_submit(ferryi_device *device, const char *call, void *stream,
                       struct ferryi_emulated_command *command)
{
    ferryi_emulated_queue *queue;
    ferry_status status = find_queue(device, call, stream, &queue);
    if (status != FERRY_OK) {
        ferryi_emulated_command_discard(command);
        return status;
    }
    const ferryi_emulated *emulated = ferryi_emulated_of(device);
    if (emulated->bytes_per_second > 0)
        command->queued_ns = ferryi_now_ns();
    ferryi_mutex_lock(&queue->mutex);
    assert(!queue->closed);
    const bool here = takes_no_time(emulated) && is_done_here(queue, command);
    if (queue->last)
        queue->last->next = command;
    else
        queue->first = command;
    queue->last = command;
    atomic_store_explicit(&queue->submitted, queue->submitted + 1, memory_order_release);
    if (here)
        ferryi_emulated_step(queue);
    /* The thread of the queue waits while another thread performs a command. */
    if (queue->first || queue->closed)
        ferryi_cond_signal(&queue->given);
    ferryi_mutex_unlock(&queue->mutex);
    ferryi_emulated_queue_release(queue);
    return FERRY_OK;
}

/* Ends and releases those queues of a device that are closed and have no work left. A queue is
 * closed when its stream is destroyed. */
FERRYI_REQUIRES(ferryi_emulated_mutex)
static void
reap_queues(ferryi_emulated *emulated)
{
    for (ferryi_emulated_queue **link = &emulated->queues; *link;) {
        ferryi_emulated_queue *queue = *link;
        if (!queue_is_over(queue)) {
            link = &queue->next;
            continue;
        }
        *link = queue->next;
        queue->scheduler->end(queue);
        ferryi_emulated_queue_release(queue);
    }
}

static struct ferryi_emulated_stream *
revive_stream(ferryi_emulated *emulated)
{
    ferryi_mutex_lock(&emulated->mutex);
    reap_queues(emulated);
    struct ferryi_emulated_stream *stream = emulated->dead;
    if (stream)
        emulated->dead = stream->next;
    ferryi_mutex_unlock(&emulated->mutex);
    if (stream)
        return stream;
    stream = calloc(1, sizeof(*stream));
    if (stream)
        stream->emulated = emulated;
    else
        ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "stream_create on %s:%d: no memory for %zu bytes",
                    emulated->head.kind, emulated->head.properties.native, sizeof(*stream));
    return stream;
}

FERRYI_REQUIRES(ferryi_emulated_mutex)
static void
quarantine_stream(ferryi_emulated *emulated, struct ferryi_emulated_stream *stream)
{
    stream->alive = false;
    stream->next = emulated->dead;
    emulated->dead = stream;
}

/* Returns whether the stream has a queue. Only the thread that is creating the stream may call this
 * function, so the function needs no lock. */
static bool
has_queue(const struct ferryi_emulated_stream *stream)
{
    ferryi_mutex_is_needless(&stream->emulated->mutex);
    return stream->queue != NULL;
}

ferry_status
ferryi_emulated_stream_create(ferryi_device *device, void **out)
{
    ferryi_emulated *emulated = ferryi_emulated_of(device);
    struct ferryi_emulated_stream *stream = revive_stream(emulated);
    if (!stream)
        return FERRY_ERROR_OUT_OF_MEMORY;
    bool has_one = has_queue(stream);
    ferryi_emulated_queue *fresh = has_one ? NULL : create_queue(emulated->scheduler);
    bool created = has_one || fresh;

    ferryi_mutex_lock(&emulated->mutex);
    if (fresh) {
        stream->queue = fresh;
        fresh->next = emulated->queues;
        emulated->queues = fresh;
    }
    if (created)
        stream->alive = true;
    else
        quarantine_stream(emulated, stream);
    ferryi_mutex_unlock(&emulated->mutex);

    if (!created)
        return FERRY_ERROR_OUT_OF_MEMORY;
    *out = stream;
    return FERRY_OK;
}

ferry_status
ferryi_emulated_stream_destroy(ferryi_device *device, void *handle)
{
    ferryi_emulated *emulated = ferryi_emulated_of(device);
    ferryi_emulated_queue *queue;
    FERRYI_OR_RETURN(find_queue(device, "stream_destroy", handle, &queue));
    struct ferryi_emulated_stream *stream = handle;
    ferryi_mutex_lock(&emulated->mutex);
    /* If the queue still has work, it finishes the work after the stream is destroyed. An idle
     * queue is kept for the next stream that reuses the handle. */
    if (!queue_is_idle(queue)) {
        close_queue(queue);
        stream->queue = NULL;
    }
    quarantine_stream(emulated, stream);
    ferryi_mutex_unlock(&emulated->mutex);
    ferryi_emulated_queue_release(queue);
    return FERRY_OK;
}

ferry_status
ferryi_emulated_stream_synchronize(ferryi_device *device, void *stream)
{
    ferryi_emulated_queue *queue;
    FERRYI_OR_RETURN(find_queue(device, "stream_synchronize", stream, &queue));
    ferry_status status = wait_for(queue, queue_submitted(queue));
    ferryi_emulated_queue_release(queue);
    return status;
}

ferry_status
ferryi_emulated_stream_is_capturing(ferryi_device *device, void *stream, bool *out)
{
    ferryi_emulated_queue *queue;
    FERRYI_OR_RETURN(find_queue(device, "stream_is_capturing", stream, &queue));
    ferryi_emulated_queue_release(queue);
    *out = false;
    return FERRY_OK;
}

/* A synchronization of a device with at most this many streams needs no memory. */
#define FEW_STREAMS 32

/* Returns an array with one position for each queue of the device. A position is a reference to a
 * queue, and the number of commands submitted to that queue so far. The array is `few` if this has
 * enough elements. Otherwise it is allocated, and the function returns NULL and sets `*out_count`
 * to 0 if memory is short. */
static struct position *
all_positions(ferryi_emulated *emulated, struct position few[FEW_STREAMS], size_t *out_count)
{
    size_t count = 0;
    ferryi_mutex_lock(&emulated->mutex);
    for (ferryi_emulated_queue *queue = emulated->queues; queue; queue = queue->next)
        count++;
    struct position *positions = count <= FEW_STREAMS ? few : calloc(count, sizeof(*positions));
    *out_count = positions ? count : 0;
    size_t i = 0;
    for (ferryi_emulated_queue *queue = emulated->queues; queue && positions; queue = queue->next)
        positions[i++] = (struct position){hold_queue(queue), queue_submitted(queue)};
    ferryi_mutex_unlock(&emulated->mutex);
    return positions;
}

ferry_status
ferryi_emulated_synchronize(ferryi_device *device)
{
    size_t count;
    struct position few[FEW_STREAMS] = {{NULL, 0}};
    struct position *positions = all_positions(ferryi_emulated_of(device), few, &count);
    if (!positions)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "synchronize on %s:%d: no memory for the list of streams", device->kind,
                           device->properties.native);
    for (size_t i = 0; i < count; i++) {
        assert(positions[i].queue);
        positions[i].queue->scheduler->wait(positions[i].queue, positions[i].number);
    }
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < count; i++) {
        if (status == FERRY_OK)
            status = take_failure(positions[i].queue);
        ferryi_emulated_queue_release(positions[i].queue);
    }
    if (positions != few)
        free(positions);
    return status;
}

void
ferryi_emulated_streams_clear(ferryi_emulated *emulated)
{
    ferryi_mutex_is_needless(&emulated->mutex);
    while (emulated->queues) {
        ferryi_emulated_queue *queue = emulated->queues;
        emulated->queues = queue->next;
        close_queue(queue);
        queue->scheduler->end(queue);
        ferryi_emulated_queue_release(queue);
    }
    while (emulated->dead) {
        struct ferryi_emulated_stream *stream = emulated->dead;
        emulated->dead = stream->next;
        free(stream);
    }
}

/* -- events -- */

ferry_status
ferryi_emulated_event_create(ferryi_device *device, bool timed, void **out)
{
    struct event *event = calloc(1, sizeof(*event));
    if (!event)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "event_create on %s:%d: no memory for %zu bytes", device->kind,
                           device->properties.native, sizeof(*event));
    event->timed = timed;
    ferryi_mutex_init(&event->mutex);
    *out = event;
    return FERRY_OK;
}

ferry_status
ferryi_emulated_event_destroy(ferryi_device *device, void *handle)
{
    (void)device;
    struct event *event = handle;
    ferryi_mutex_is_needless(&event->mutex);
    ferryi_emulated_queue_release(event->queue);
    ferryi_emulated_mark_release(event->mark);
    ferryi_mutex_destroy(&event->mutex);
    free(event);
    return FERRY_OK;
}

/* Queues a command that stores the time at which the stream reaches the command. `*out` is the mark
 * in which the time is stored. The caller owns a reference to the mark. */
static ferry_status
submit_mark(ferryi_device *device, void *stream, struct ferryi_emulated_mark **out)
{
    struct ferryi_emulated_mark *mark = calloc(1, sizeof(*mark));
    struct ferryi_emulated_command *command = NULL;
    if (mark) {
        atomic_init(&mark->holders, 2);
        command = ferryi_emulated_command_mark(ferryi_emulated_of(device), mark);
    }
    if (!command) {
        free(mark);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "event_record on %s:%d: no memory to queue it", device->kind,
                           device->properties.native);
    }
    ferry_status status = ferryi_emulated_submit(device, "event_record", stream, command);
    if (status != FERRY_OK)
        ferryi_emulated_mark_release(mark);
    else
        *out = mark;
    return status;
}

ferry_status
ferryi_emulated_event_record(ferryi_device *device, void *handle, void *stream)
{
    struct event *event = handle;
    ferryi_emulated_queue *queue;
    struct ferryi_emulated_mark *mark = NULL;
    ferry_status status = find_queue(device, "event_record", stream, &queue);
    if (status != FERRY_OK)
        return status;
    if (event->timed)
        status = submit_mark(device, stream, &mark);
    if (status != FERRY_OK) {
        ferryi_emulated_queue_release(queue);
        return status;
    }
    ferryi_mutex_lock(&event->mutex);
    struct ferryi_emulated_mark *former = event->mark;
    event->mark = mark;
    ferryi_emulated_queue *before = event->queue;
    event->queue = queue;
    event->number = queue_submitted(queue); /* NOLINT(clang-analyzer-unix.Malloc): as above */
    event->asked = 0;
    ferryi_mutex_unlock(&event->mutex);
    ferryi_emulated_queue_release(before);
    ferryi_emulated_mark_release(former);
    return FERRY_OK;
}

/* Returns the position in a queue at which the event was last recorded, with a reference to the
 * queue. If the event was never recorded, the queue in the result is NULL. */
static struct position
position_of_event(struct event *event)
{
    ferryi_mutex_lock(&event->mutex);
    struct position position = {event->queue ? hold_queue(event->queue) : NULL, event->number};
    ferryi_mutex_unlock(&event->mutex);
    return position;
}

ferry_status
ferryi_emulated_event_query(ferryi_device *device, void *handle, bool *out_done)
{
    (void)device;
    struct event *event = handle;
    struct position position = position_of_event(event);
    bool done = !position.queue || queue_has_performed(position.queue, position.number);
    if (!done) {
        ferryi_mutex_lock(&event->mutex);
        unsigned times = ++event->asked;
        ferryi_mutex_unlock(&event->mutex);
        position.queue->scheduler->asked(position.queue, position.number, times);
        done = queue_has_performed(position.queue, position.number);
    }
    ferryi_emulated_queue_release(position.queue);
    *out_done = done;
    return FERRY_OK;
}

ferry_status
ferryi_emulated_event_synchronize(ferryi_device *device, void *handle)
{
    (void)device;
    struct position position = position_of_event(handle);
    ferry_status status = position.queue ? wait_for(position.queue, position.number) : FERRY_OK;
    ferryi_emulated_queue_release(position.queue);
    return status;
}

/* Returns the time at which a stream reached the event. Returns 0 if the event is not timed, was
 * never recorded, or is not done. */
static uint64_t
event_reached_ns(struct event *event)
{
    ferryi_mutex_lock(&event->mutex);
    uint64_t reached_ns = event->mark ? atomic_load(&event->mark->reached_ns) : 0;
    ferryi_mutex_unlock(&event->mutex);
    return reached_ns;
}

ferry_status
ferryi_emulated_event_elapsed(ferryi_device *device, void *begin, void *end, double *out_seconds)
{
    uint64_t first = event_reached_ns(begin), last = event_reached_ns(end);
    if (!first || !last)
        return ferryi_fail(
            FERRY_ERROR_DEVICE,
            "event_elapsed on %s:%d: an event is not timed, was never recorded, or is not done",
            device->kind, device->properties.native);
    *out_seconds = ferryi_seconds_between(first, last);
    return FERRY_OK;
}

ferry_status
ferryi_emulated_stream_wait(ferryi_device *device, void *stream, void *event)
{
    bool capturing;
    FERRYI_OR_RETURN(ferryi_emulated_stream_is_capturing(device, stream, &capturing));
    struct position position = position_of_event(event);
    if (!position.queue || queue_has_performed(position.queue, position.number)) {
        ferryi_emulated_queue_release(position.queue);
        return FERRY_OK;
    }
    struct ferryi_emulated_command *command =
        ferryi_emulated_command_wait(ferryi_emulated_of(device), position.queue, position.number);
    if (!command) {
        ferryi_emulated_queue_release(position.queue);
        return FERRY_ERROR_OUT_OF_MEMORY;
    }
    return ferryi_emulated_submit(device, "stream_wait", stream, command);
}
