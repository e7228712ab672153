/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EMULATED_H
#define FERRYI_EMULATED_H

/*
 * The emulated device, inside: shared by emulated.c (the device and its threads), emulated_memory.c
 * (what is allocated), emulated_stream.c (queues, streams, events), emulated_follow.c (how queues
 * get on) and emulated_command.c (what queues perform). Other files include it only for devices
 * made of the same parts with another scheduler.
 *
 * Memory is remembered as ranges, so that every pointer can be checked: those of a device in the
 * device, those of the host (pinned, managed, registered) in one list of the process, because every
 * device may use them. Queued work holds its ranges: memory given back meanwhile goes away when the
 * last work that uses it is done.
 *
 * A stream is a handle to a queue. Commands are numbered 1, 2, 3 ... in the order of their
 * submission and performed in it; an event is (queue, number) and has happened when the queue has
 * performed that many. So recording makes no command, and a wait for what has happened neither.
 * Only the record of a timed event is a command: the queue writes down when it gets there. A
 * destroyed stream's handle is used again at once, as drivers do, while its queue finishes what it
 * has.
 *
 * Locks: device > event > queue, one queue's at a time; the link's and the ranges' are leaves. None
 * is held while work is performed.
 */

#include "src/device/device.h"

typedef struct ferryi_emulated ferryi_emulated;
typedef struct ferryi_emulated_queue ferryi_emulated_queue;

/* -- memory (emulated_memory.c) -- */

enum ferryi_range_origin {
    FERRYI_RANGE_DEVICE = 1,
    FERRYI_RANGE_PINNED = 2,
    FERRYI_RANGE_MANAGED = 4,
    FERRYI_RANGE_REGISTERED = 8,
};

struct ferryi_range {
    char *start;
    size_t bytes;
    enum ferryi_range_origin origin;
    _Atomic unsigned holders;             /* its list, and queued work */
    _Atomic bool gone;                    /* given back; only queued work holds it */
    _Atomic uint64_t prefetches, advices; /* managed memory: how often it was asked for */
};

FERRYI_MUTEX_CLASS(ferryi_ranges_mutex);

struct ferryi_ranges {
    struct ferryi_ranges_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_ranges_mutex) struct {
        struct ferryi_range **items; /* by start; they do not overlap */
        size_t count, room;
        size_t bytes; /* of all items that were allocated, not registered */
    };
};

/* Is the range of one of these origins, and are all of `bytes` at `pointer` in it? */
bool ferryi_range_has(const struct ferryi_range *range, const void *pointer, size_t bytes,
                      unsigned origins);
/* Find the live range of one of these origins that holds all of `bytes` > 0 at `pointer`, and hold
 * it; NULL when there is none. */
struct ferryi_range *ferryi_emulated_device_range(ferryi_emulated *emulated, const void *pointer,
                                                  size_t bytes);
struct ferryi_range *ferryi_emulated_host_range(const void *pointer, size_t bytes,
                                                unsigned origins);
void ferryi_range_release(struct ferryi_range *range);

ferry_status ferryi_emulated_memory_info(ferryi_device *device, size_t *out_free,
                                         size_t *out_total);
ferry_status ferryi_emulated_memory_alloc(ferryi_device *device, ferry_memory_kind kind,
                                          size_t bytes, void **out);
ferry_status ferryi_emulated_memory_free(ferryi_device *device, ferry_memory_kind kind,
                                         void *memory);
ferry_status ferryi_emulated_host_register(ferryi_device *device, void *memory, size_t bytes);
ferry_status ferryi_emulated_host_unregister(ferryi_device *device, void *memory);
ferry_status ferryi_emulated_prefetch(ferryi_device *device, void *memory, size_t bytes,
                                      ferryi_device *location, void *stream);
ferry_status ferryi_emulated_advise(ferryi_device *device, void *memory, size_t bytes, int advice,
                                    ferryi_device *location);
#define FERRYI_EMULATED_GARBAGE                                                                    \
    0xCD /* what fresh memory is filled with, so that whoever expects zeros finds out */
/* Give back what the device's own memory still has, at its end. */
void ferryi_ranges_clear(struct ferryi_ranges *ranges);

/* -- queues, streams and events (emulated_stream.c) -- */

/* Who performs what is queued, and when. */
struct ferryi_emulated_scheduler {
    const char *kind;
    bool hands_on; /* who performs a command goes on with the queues that waited for it, so that a
                      wait takes no thread's time */
    bool strict;   /* work that reaches memory which was freed meanwhile fails, instead of using it
                      once more */
    bool is_lost;  /* tests: copies and fills do nothing, as on a device that is lost */
    /* Get ready to perform the work of a new queue. */
    ferry_status (*begin)(ferryi_emulated_queue *queue);
    /* Perform what the queue still has, and give back what begin took. */
    void (*end)(ferryi_emulated_queue *queue);
    /* Return when the queue has performed its commands up to `number`. */
    void (*wait)(ferryi_emulated_queue *queue, uint64_t number);
    /* An event was queried and has not happened, for the `times`-th time since it was recorded. */
    void (*asked)(ferryi_emulated_queue *queue, uint64_t number, unsigned times);
};

/* When a queue reached one record of a timed event. The event and the command that the record
 * queued hold it. */
struct ferryi_emulated_mark {
    _Atomic unsigned holders;
    _Atomic uint64_t reached_ns; /* 0: not reached yet */
};

/* The head of every command; the rest is emulated_command.c's own. */
struct ferryi_emulated_command {
    struct ferryi_emulated_command *next;
    uint64_t queued_ns;            /* when it was, where there is a link to ask for it */
    ferryi_emulated_queue *awaits; /* held; all that this command is, is to wait until that queue
                                      has performed `number` */
    uint64_t number;
};

FERRYI_MUTEX_CLASS(ferryi_queue_mutex);
FERRYI_MUTEX_CLASS(ferryi_emulated_mutex);
FERRYI_MUTEX_CLASS(ferryi_link_mutex);

struct ferryi_emulated_queue {
    const struct ferryi_emulated_scheduler *scheduler;
    _Atomic unsigned holders;              /* its device, events, and waits of other queues */
    _Atomic uint64_t submitted, performed; /* they rise under the mutex */
    struct ferryi_queue_mutex mutex;
    ferryi_cond given;   /* work came, or no more will come */
    ferryi_cond done;    /* the work that a thread sleeps for was performed */
    _Atomic bool parked; /* the first command waits for another queue, whose thread takes it away;
                            it changes under the mutex */
    FERRYI_GUARDED_BY(ferryi_queue_mutex) struct {
        uint64_t awaited; /* the command that a thread sleeps for; UINT64_MAX: none sleeps */
        struct ferryi_emulated_command *first, *last;
        bool busy;                        /* a thread performs the first command */
        bool closed;                      /* no more work will come */
        ferryi_emulated_queue *followers; /* parked queues, held, that wait for this one */
        ferry_status failure;             /* of work already performed, until a call waits */
        char *failure_text;
    };
    ferryi_emulated_queue *next_follower; /* of the same queue; under that one's mutex */
    uint64_t follows;  /* how much of it this queue waits for; constant while it is parked */
    uint64_t ready_ns; /* of the busy thread: when the commands before were done, without delays of
                          wake-ups */
    ferryi_thread thread;                                                 /* the scheduler's */
    FERRYI_GUARDED_BY(ferryi_emulated_mutex) ferryi_emulated_queue *next; /* the device's list */
};

struct ferryi_emulated_stream {
    ferryi_emulated *emulated;
    FERRYI_GUARDED_BY(ferryi_emulated_mutex) struct {
        ferryi_emulated_queue *queue; /* of a dead stream: idle, to be used again, or NULL */
        bool alive;
        struct ferryi_emulated_stream *next; /* dead streams, the youngest first */
    };
};

struct ferryi_emulated {
    ferryi_device head;
    struct ferryi_device_ops ops;
    const struct ferryi_emulated_scheduler *scheduler;
    struct ferryi_ranges ranges;
    size_t limit_bytes;

    struct ferryi_emulated_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_emulated_mutex) struct {
        ferryi_emulated_queue *queues;
        struct ferryi_emulated_stream *dead;
    };

    struct ferryi_link_mutex link_mutex;
    FERRYI_GUARDED_BY(ferryi_link_mutex)
    uint64_t link_free_ns[2]; /* when each direction of the link has carried all it was given */
    uint64_t latency_ns, bytes_per_second;
};

static inline ferryi_emulated *
ferryi_emulated_of(ferryi_device *device)
{
    return (ferryi_emulated *)device;
}

/* Perform the first command; there is one and no thread is busy. The mutex is released meanwhile.
 */
FERRYI_REQUIRES(ferryi_queue_mutex) void ferryi_emulated_step(ferryi_emulated_queue *queue);
/* The first command, if it only waits, is left to the queue that it waits for, or taken away if
 * that is through. The mutex is let go meanwhile. */
FERRYI_REQUIRES(ferryi_queue_mutex) void ferryi_emulated_park(ferryi_emulated_queue *queue);
/* Sleep until commands up to `number` may have been performed. The mutex is let go of meanwhile. */
FERRYI_REQUIRES(ferryi_queue_mutex)
void ferryi_emulated_sleep(ferryi_emulated_queue *queue, uint64_t number);
/* Append a command to a stream's queue, which owns it then. On failure the command is discarded. */
ferry_status ferryi_emulated_submit(ferryi_device *device, const char *call, void *stream,
                                    struct ferryi_emulated_command *command);
/* Keep a failure of work being performed, with this thread's message, until a call waits for the
 * queue. */
void ferryi_emulated_queue_fail(ferryi_emulated_queue *queue, ferry_status status);
ferryi_emulated_queue *ferryi_emulated_queue_hold(ferryi_emulated_queue *queue);
void ferryi_emulated_queue_release(ferryi_emulated_queue *queue);

ferry_status ferryi_emulated_synchronize(ferryi_device *device);
ferry_status ferryi_emulated_stream_create(ferryi_device *device, void **out);
ferry_status ferryi_emulated_stream_destroy(ferryi_device *device, void *stream);
ferry_status ferryi_emulated_stream_synchronize(ferryi_device *device, void *stream);
ferry_status ferryi_emulated_stream_is_capturing(ferryi_device *device, void *stream, bool *out);
ferry_status ferryi_emulated_stream_wait(ferryi_device *device, void *stream, void *event);
ferry_status ferryi_emulated_event_create(ferryi_device *device, void **out);
ferry_status ferryi_emulated_event_create_timed(ferryi_device *device, void **out);
ferry_status ferryi_emulated_event_destroy(ferryi_device *device, void *event);
ferry_status ferryi_emulated_event_record(ferryi_device *device, void *event, void *stream);
ferry_status ferryi_emulated_event_query(ferryi_device *device, void *event, bool *out_done);
ferry_status ferryi_emulated_event_synchronize(ferryi_device *device, void *event);
ferry_status ferryi_emulated_event_elapsed(ferryi_device *device, void *begin, void *end,
                                           double *out_seconds);
/* Finish all queues and give streams back, at the device's end. */
void ferryi_emulated_streams_clear(ferryi_emulated *emulated);

/* -- commands (emulated_command.c) -- */

/* A new command that makes its stream wait for `number` of another queue; takes over the caller's
 * hold of that queue. NULL: no memory. */
struct ferryi_emulated_command *ferryi_emulated_command_wait(ferryi_emulated *emulated,
                                                             ferryi_emulated_queue *queue,
                                                             uint64_t number);
/* A new command that writes the time into the mark when its queue reaches it, and takes over one
 * hold of the mark. NULL: no memory. */
struct ferryi_emulated_command *ferryi_emulated_command_mark(ferryi_emulated *emulated,
                                                             struct ferryi_emulated_mark *mark);
void ferryi_emulated_mark_release(struct ferryi_emulated_mark *mark);
void ferryi_emulated_command_perform(struct ferryi_emulated_command *command,
                                     ferryi_emulated_queue *queue);
/* Let go of all that it holds; it is freed with free(). */
void ferryi_emulated_command_let_go(struct ferryi_emulated_command *command);
void ferryi_emulated_command_discard(struct ferryi_emulated_command *command);

ferry_status ferryi_emulated_host_call(ferryi_device *device, void *stream, void (*run)(void *user),
                                       void *user);
ferry_status ferryi_emulated_copy_upload(ferryi_device *device, void *target, const void *source,
                                         size_t bytes, void *stream);
ferry_status ferryi_emulated_copy_download(ferryi_device *device, void *target, const void *source,
                                           size_t bytes, void *stream);
ferry_status ferryi_emulated_copy_device(ferryi_device *device, void *target, const void *source,
                                         size_t bytes, void *stream);
ferry_status ferryi_emulated_copy_peer(ferryi_device *device, void *target,
                                       ferryi_device *source_device, const void *source,
                                       size_t bytes, void *stream);
ferry_status ferryi_emulated_copy_2d(ferryi_device *device, const struct ferryi_copy_2d *copy,
                                     void *stream);
ferry_status ferryi_emulated_copy_batch(ferryi_device *device, const struct ferryi_copy *copies,
                                        size_t count, void *stream);
ferry_status ferryi_emulated_fill(ferryi_device *device, void *target, uint32_t pattern,
                                  size_t pattern_bytes, size_t count, void *stream);

/* -- the device (emulated.c) -- */

ferry_status ferryi_emulated_open(const struct ferryi_emulated_scheduler *scheduler, int ordinal,
                                  const struct ferryi_device_config *config, ferryi_device **out);

#endif
