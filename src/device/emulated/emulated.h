/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EMULATED_H
#define FERRYI_EMULATED_H

/*
 * Internal interface of the emulated device. The implementation consists of emulated.c (the device
 * and its threads), emulated_memory.c (allocations), emulated_stream.c (queues, streams, events)
 * and emulated_command.c (the commands). Other files include this header only to build devices
 * whose queued work is scheduled differently.
 *
 * Memory is recorded as ranges, so that every pointer can be checked. Each device has a list of the
 * ranges of its memory. The process has one list of the ranges of host memory (pinned, managed,
 * registered), because every device may use that memory. Queued work holds references to the ranges
 * that it uses. So freed memory stays allocated until the last work that uses the memory is done.
 * Reserved addresses are one range, too, of which only the parts that have memory can be used.
 *
 * A stream is a handle to a queue. The commands of a queue are numbered 1, 2, 3 ... and are
 * performed in the order of submission. An event is a pair of a queue and a number. The event is
 * complete when the queue has performed that number of commands. So recording an event queues no
 * command, unless the event is timed. Recording a timed event queues a command that stores the
 * time. Waiting for an event that is already complete queues no command. When a stream is
 * destroyed, its handle may be reused immediately, while its queue still finishes its work.
 *
 * Lock order: device, event, queue. A thread holds at most one queue's mutex. A thread that holds
 * the mutex of the link or of a list of ranges locks no further mutex. No mutex is held while work
 * is performed.
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

struct ferryi_emulated_range {
    char *start;
    size_t bytes;
    enum ferryi_range_origin origin;
    _Atomic unsigned holders; /* number of references to this range, held by the list of ranges and
                                 by queued work */
    /* whether the memory was freed, so that only queued work still refers to it */
    _Atomic bool gone;
    /* Of reserved addresses: whether each part of FERRYI_EMULATED_HANDLE bytes has memory. NULL for
     * other memory, which is there as a whole. Changed under the mutex of the list. */
    _Atomic bool *parts;
    bool is_mapped; /* whether the memory is a mapped file, which other processes may map, too */
    _Atomic uint64_t prefetches,
        advices; /* number of prefetch and advise calls for this range of managed memory */
};

/* Granularity of handles. That of most GPUs is 2 MiB; a small one suits small emulated devices. */
#define FERRYI_EMULATED_HANDLE ferryi_page_bytes()

FERRYI_MUTEX_CLASS(ferryi_ranges_mutex);

struct ferryi_ranges {
    struct ferryi_ranges_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_ranges_mutex) struct {
        /* Pointers to the ranges, sorted by start address; the ranges do not overlap. */
        struct ferryi_emulated_range **items;
        size_t count, room;
        size_t bytes; /* total bytes of the allocated memory; registered ranges do not count, and of
                         reserved addresses only the parts that have memory */
    };
};

/* Returns whether the range contains all `bytes` at `pointer`, has memory there, and has an origin
 * that is in the set `origins`. */
bool ferryi_range_has(const struct ferryi_emulated_range *range, const void *pointer, size_t bytes,
                      unsigned origins);
/* These functions return the range that contains all `bytes` at `pointer`. They return NULL if
 * there is no such range or its memory was freed. `bytes` must not be 0. The caller must release
 * the range with ferryi_range_release(). */
struct ferryi_emulated_range *ferryi_emulated_device_range(ferryi_emulated *emulated,
                                                           const void *pointer, size_t bytes);
struct ferryi_emulated_range *ferryi_emulated_host_range(const void *pointer, size_t bytes,
                                                         unsigned origins);
void ferryi_range_release(struct ferryi_emulated_range *range);

/* Value of every byte of uninitialised memory. It is not zero, so that code that expects zeros
 * fails. */
#define FERRYI_EMULATED_GARBAGE 0xCD
/* Removes all ranges from a device's list, and frees their memory when no work uses it. Called when
 * the device is closed. */
void ferryi_ranges_clear(struct ferryi_ranges *ranges);

/* -- queues, streams and events (emulated_stream.c) -- */

/* A scheduler decides which thread performs the queued work of emulated devices, and when. */
struct ferryi_emulated_scheduler {
    const char *kind;
    bool strict; /* whether queued work fails if the memory that it uses is freed before the work
                    runs; if false, the work still uses that memory */
    size_t here_bytes; /* a copy or fill of at most this many bytes is performed by the thread that
                          submits it to an empty queue, because that takes less time than waking
                          another thread; 0: none is */
    bool is_lost;      /* for tests: whether copies and fills do nothing, as on a lost device */
    /* Acquires what the scheduler needs to perform the work of a new queue, for example a thread.
     */
    ferry_status (*begin)(ferryi_emulated_queue *queue);
    /* Performs the queue's remaining work, and frees what the function `begin` acquired. */
    void (*end)(ferryi_emulated_queue *queue);
    /* Blocks until the queue has performed its commands up to `number`. */
    void (*wait)(ferryi_emulated_queue *queue, uint64_t number);
    /* Called when a query finds that an event is not complete yet. `times` is the number of such
     * queries since the event's last record. */
    void (*asked)(ferryi_emulated_queue *queue, uint64_t number, unsigned times);
};

/* A mark stores the time at which a queue reaches one record of a timed event. The event and the
 * queued command that stores the time each hold a reference to the mark. */
struct ferryi_emulated_mark {
    _Atomic unsigned holders;
    /* Time at which the queue reached the record of the event; 0 before that. */
    _Atomic uint64_t reached_ns;
};

/* The base of every command that a queue performs. emulated_command.c embeds it in a larger struct,
 * whose other members are private. */
struct ferryi_emulated_command {
    struct ferryi_emulated_command *next;
    uint64_t queued_ns; /* time of submission; set only if the device emulates the speed of the link
                           to the host */
    ferryi_emulated_queue *awaits; /* queue for which this command waits, with a reference; NULL if
                                      the command waits for no queue. The command waits until that
                                      queue has performed its command `number` */
    uint64_t number;
    size_t bytes; /* bytes that a copy or fill writes; SIZE_MAX for any other command */
};

FERRYI_MUTEX_CLASS(ferryi_queue_mutex);
FERRYI_MUTEX_CLASS(ferryi_emulated_mutex);
FERRYI_MUTEX_CLASS(ferryi_link_mutex);

struct ferryi_emulated_queue {
    const struct ferryi_emulated_scheduler *scheduler;
    _Atomic unsigned holders; /* number of references, which are held by the queue's device, by
                                 events, and by waits of other queues */
    _Atomic uint64_t submitted,
        performed; /* numbers of commands that were submitted to the queue and that it has
                      performed; changed only under the mutex */
    struct ferryi_queue_mutex mutex;
    ferryi_cond given; /* signalled when work is submitted or the queue is closed */
    ferryi_cond done;  /* signalled when the command with the number `awaited` has been performed */
    FERRYI_GUARDED_BY(ferryi_queue_mutex) struct {
        uint64_t awaited; /* the lowest command number for which a thread waits; UINT64_MAX if no
                             thread waits */
        struct ferryi_emulated_command *first, *last;
        bool busy;            /* whether a thread is performing the first command */
        bool closed;          /* whether no more work will be submitted */
        ferry_status failure; /* first failure of performed work that no call has reported yet */
        char *failure_text;
    };
    uint64_t ready_ns;    /* emulated time at which the last performed command ended, without the
                             delays in waking up threads; used only by the thread that performs the
                             commands */
    ferryi_thread thread; /* used by the scheduler */
    FERRYI_GUARDED_BY(ferryi_emulated_mutex)
    ferryi_emulated_queue *next; /* next in the device's list */
};

struct ferryi_emulated_stream {
    ferryi_emulated *emulated;
    FERRYI_GUARDED_BY(ferryi_emulated_mutex) struct {
        /* queue of the stream. If the stream was destroyed, this is an idle queue for the next
         * stream that reuses the handle, or NULL */
        ferryi_emulated_queue *queue;
        bool alive;
        struct ferryi_emulated_stream *next; /* next stream in the list of destroyed streams; the
                                                most recently destroyed stream is first */
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
    /* For each direction of the link: the time at which the link will have carried all data
     * submitted so far. */
    FERRYI_GUARDED_BY(ferryi_link_mutex) uint64_t link_free_ns[2];
    uint64_t latency_ns, bytes_per_second;
};

static inline ferryi_emulated *
ferryi_emulated_of(ferryi_device *device)
{
    return (ferryi_emulated *)device;
}

/* Performs the queue's first command. The queue must have a command, and no other thread may be
 * performing that command. The queue's mutex is unlocked while the command is performed. */
FERRYI_REQUIRES(ferryi_queue_mutex) void ferryi_emulated_step(ferryi_emulated_queue *queue);
/* Blocks until the queue has performed its commands up to `number`. The wait can end early, so the
 * caller must check the condition again. The queue's mutex is unlocked during the wait. */
FERRYI_REQUIRES(ferryi_queue_mutex)
void ferryi_emulated_sleep(ferryi_emulated_queue *queue, uint64_t number);
/* Appends a command to a stream's queue. The queue then owns the command. On failure, the function
 * frees the command. */
ferry_status ferryi_emulated_submit(ferryi_device *device, const char *call, void *stream,
                                    struct ferryi_emulated_command *command);
/* Stores the failure of queued work together with this thread's message. A later call that waits
 * for the queue reports the failure. */
void ferryi_emulated_queue_fail(ferryi_emulated_queue *queue, ferry_status status);
void ferryi_emulated_queue_release(ferryi_emulated_queue *queue);

/* Finishes the work of all queues and frees all streams. Called when the device closes. */
void ferryi_emulated_streams_clear(ferryi_emulated *emulated);

/* -- commands (emulated_command.c) -- */

/* Creates a command that makes its stream wait until `queue` has performed the command with the
 * given number. Takes over the caller's reference to `queue`. Returns NULL if memory is short. */
struct ferryi_emulated_command *ferryi_emulated_command_wait(ferryi_emulated *emulated,
                                                             ferryi_emulated_queue *queue,
                                                             uint64_t number);
/* Creates a command that stores the current time in `mark` when its queue performs the command.
 * Takes over one reference to `mark`. Returns NULL if memory is short. */
struct ferryi_emulated_command *ferryi_emulated_command_mark(ferryi_emulated *emulated,
                                                             struct ferryi_emulated_mark *mark);
void ferryi_emulated_mark_release(struct ferryi_emulated_mark *mark);
void ferryi_emulated_command_perform(struct ferryi_emulated_command *command,
                                     ferryi_emulated_queue *queue);
/* Releases all references that the command holds. The caller must then free the command with
 * free(). */
void ferryi_emulated_command_let_go(struct ferryi_emulated_command *command);
void ferryi_emulated_command_discard(struct ferryi_emulated_command *command);

/* -- the device (emulated.c) -- */

/* Declares ferryi_emulated_memory_alloc() and the other functions of the device table. */
#define DECLARE(slot) FERRYI_SLOT_TYPE(slot) ferryi_emulated_##slot;
FERRYI_EMULATED_SLOTS(DECLARE)
#undef DECLARE

ferry_status ferryi_emulated_open(const struct ferryi_emulated_scheduler *scheduler, int ordinal,
                                  const struct ferryi_device_config *config, ferryi_device **out);

#endif
