/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SHELL_H
#define FERRYI_SHELL_H

/*
 * The struct of a context, which all layers above the devices share. Each group of members belongs
 * to one layer, and only that layer reads and writes the group. src/context.c, which is above all
 * layers, creates and destroys contexts.
 *
 * A context counts owners and references. The program adds and drops owners. When the program drops
 * the last owner, the context ends. The memory of this struct is called the shell. It is freed when
 * the last reference is dropped. All owners together have one reference. Each object that may
 * outlive the context, such as a buffer, a stream or an event, has one as well. So a buffer that
 * outlives its context refers to a closed shell instead of freed memory.
 */

#include <ferry/context.h>
#include <ferry/pool.h>

#include "src/base/base.h"
#include "src/debug/site.h"
#include "src/device/device.h"
#include "src/stream/stream.h"
#include "src/trace/trace.h"

#define FERRYI_MEMORY_KINDS 5
#define FERRYI_LONG_LOCKS   16
#define FERRYI_SPARE_ROWS   16
#define FERRYI_SPARE_SLOTS  8
#define FERRYI_WAYS         (2 * FERRYI_DEVICES_MAX + 2) /* see src/buffer/worker.h */

FERRYI_MUTEX_CLASS(ferryi_pools_mutex);
FERRYI_MUTEX_CLASS(ferryi_stores_mutex);
FERRYI_MUTEX_CLASS(ferryi_park_mutex);
FERRYI_MUTEX_CLASS(ferryi_workers_mutex);
FERRYI_MUTEX_CLASS(ferryi_event_times_mutex); /* this mutex is locked after all other locks except
                                                 the locks of devices */

struct ferry_context {
    /* Lifetime. */
    atomic_int references; /* number of references to this struct: one for all owners together, and
                              one for each object that may outlive the context, such as a buffer */
    _Atomic unsigned owners; /* 0: the context has begun to end */
    atomic_bool closed;
    atomic_bool closing; /* whether the context has begun to end. Callbacks of the program may still
                            run after that, but most calls that they make on the context fail */
    bool shared;         /* whether ferry_context_shared() has returned the context */
    bool inherited; /* whether a parent process created the context before it forked this process;
                       `closed` is then set as well */
    /* links of the list of open contexts, which src/store/after_fork.c maintains */
    ferry_context *next_living, **living;
    void (*disown)(ferry_context **context); /* function that ferryi_shell_disown() calls; set by
                                                src/context.c */
    /* functions of the layers above stores (src/store/store.h); set by src/context.c */
    const struct ferryi_store_calls *store_calls;

    /* Options. */
    bool debug; /* whether the context makes the additional checks of src/debug; does not change
                   after creation */
    struct ferryi_log log;
    size_t buffer_bytes_limit, device_bytes_limit, host_bytes_limit, pinned_bytes_limit;
    size_t device_handle_bytes; /* if this is not 0, pools of device memory map handles of at least
                                   this size, where the device can */
    size_t pin_after;           /* number of transfers after which the host memory of a replica is
                                   page-locked; SIZE_MAX: never */

    /* Places. */
    ferryi_device *devices[FERRYI_DEVICES_MAX + 1]; /* by place; 0 is NULL */
    char names[FERRYI_DEVICES_MAX + 1][32];         /* "host", "cuda:0" */
    int place_count;
    uint32_t coherent; /* bit p: place p uses the host's replica */
    ferryi_order order;
    struct ferryi_engine *engine;
    /* Indexed by place; NULL if the host converts the elements of this place. */
    struct ferryi_converter *converters[FERRYI_DEVICES_MAX + 1];

    /* Traces. */
    ferryi_trace *trace;          /* NULL: none */
    uint64_t store_word;          /* initial state word of a new store */
    _Atomic uint32_t last_number; /* highest id that a buffer has received for the trace; used only
                                     if the context is traced */

    /* Snapshots: src/buffer/snapshot.c. */
    char *snapshot_file;          /* file for the first allocation that fails; NULL: none */
    atomic_bool is_snapshot_made; /* whether one has failed */

    /* Pools: src/store/place_pool.c. */
    char *allocation_log; /* prefix of the names of the pools' log files; NULL: no log files */
    struct ferryi_pools_mutex pool_mutex;
    FERRYI_GUARDED_BY(ferryi_pools_mutex)
    ferry_pool *pools[FERRYI_DEVICES_MAX + 1][FERRYI_MEMORY_KINDS];
    FERRYI_GUARDED_BY(ferryi_pools_mutex)
    /* array indexed by place and kind of memory; NULL until the first pool is created */
    struct ferryi_place_backend *backends;
    FERRYI_GUARDED_BY(ferryi_pools_mutex)
    struct ferryi_place_own_pool *own_pools; /* the pools that use backends of the program */
    struct ferryi_housekeeper *housekeeper;  /* src/pool/housekeeper.h */

    /* Streams and events. */
    struct ferryi_streams_mutex stream_mutex;
    FERRYI_GUARDED_BY(ferryi_streams_mutex)
    ferry_stream *streams; /* all streams, including the default ones */
    ferry_stream *defaults[FERRYI_DEVICES_MAX + 1];
    /* the timeline of the default stream in a context with one device, if the timeline is_plain;
     * otherwise NULL. The fast path of scopes uses it for accesses without a stream */
    ferryi_timeline *only_timeline;
    struct ferryi_event_times_mutex event_times_mutex;
    /* The list of timed events; see src/stream/event.c. */
    FERRYI_GUARDED_BY(ferryi_event_times_mutex) struct ferry_event *event_times;

    /* The registry of buffers: src/store/store.c. */
    atomic_uint ending_wraps; /* number of buffers that were removed from the context's list of
                                 buffers but are not completely freed yet */
    /* mutex of the list of buffers; locked only while a buffer is created, destroyed or listed */
    struct ferryi_stores_mutex store_mutex;
    FERRYI_GUARDED_BY(ferryi_stores_mutex) struct {
        struct ferryi_store *stores, *oldest_store; /* the list, newest first */
        /* the buffer (its storage) that eviction examines next; NULL: the oldest buffer */
        struct ferryi_store *hand;
        size_t store_count;
        struct ferryi_shared *shared_in_use; /* memory of destroyed buffers that other processes
                                                still use (src/store/shared.h) */
        uint64_t last_id; /* highest id of a range lock on any freed buffer; range locks of new
                             buffers continue from this id, so that ids are never reused */
    };
    /* Destroyed buffers whose storage waits for new ones: src/store/spare_stores.h. */
    _Atomic(struct ferryi_store *) spare_stores[FERRYI_SPARE_ROWS][FERRYI_SPARE_SLOTS];
    /* Mutexes for buffers with many segments or range locks. A thread that waits for the spin lock
     * of such a buffer sleeps on a mutex instead. The address of the buffer's storage selects one
     * of these mutexes. The mutexes have no class for the compiler's thread-safety analysis,
     * because a bit in the buffer's state word records whether the mutex is held. */
    pthread_mutex_t long_locks[FERRYI_LONG_LOCKS];

    /* Threads that wait until another thread releases a range lock of a buffer sleep on `park_cond`
     * with this mutex. See src/store/store_lock.c. */
    struct ferryi_park_mutex park_mutex;
    ferryi_cond park_cond;
    _Atomic uint64_t park_epoch;

    struct ferryi_host_threads *host_threads; /* src/kernel/host_threads.h */

    /* Worker threads, which run asynchronous calls. Each worker thread is started when it is first
     * needed. See src/buffer/worker.c. */
    struct ferryi_workers_mutex worker_mutex;
    FERRYI_GUARDED_BY(ferryi_workers_mutex)
    struct ferryi_worker *workers[FERRYI_WAYS];
};

void ferryi_shell_retain(ferry_context *context);
void ferryi_shell_release(ferry_context *context);

/* Adds an owner to the context. Returns false if the context has no owner left, because it has
 * begun to end. */
bool ferryi_shell_try_own(ferry_context *context);
/* Returns whether the caller must not drop an owner of the context. This is so if the context has
 * only one owner left and this thread may be inside a callback of the context. */
bool ferryi_shell_is_last_refused(const ferry_context *context);

/*
 * Drops an owner of the context like ferry_context_destroy(), but normally does not block. If that
 * owner was the last one, a separate thread ends the context. If this thread cannot be started, the
 * function ends the context itself and blocks.
 */
static inline void
ferryi_shell_disown(ferry_context **context)
{
    (*context)->disown(context);
}

/* Fails with INVALID_STATE if the context was destroyed or belongs to a different process. */
ferry_status ferryi_shell_check_alive(const ferry_context *context, const char *what);
/* Makes the checks of ferryi_shell_check_alive(). In addition, fails while the context is being
 * destroyed, and inside a callback in which only queries are allowed. */
ferry_status ferryi_shell_check_open(const ferry_context *context, const char *what);
/* Makes the checks of ferryi_shell_check_open(). In addition, fails with INVALID_ARGUMENT if
 * `place` is not a place of the context. */
ferry_status ferryi_shell_check_place(const ferry_context *context, int place, const char *what);
/* Returns the reason why the context is closed, worded as the end of an error message. */
const char *ferryi_shell_why_closed(const ferry_context *context);

/* Returns the place of the first device with the capability, or 0 if no device has it. No device
 * has the place 0, so `context->devices[0]` is NULL. */
static inline int
ferryi_shell_place_with(const ferry_context *context, uint64_t capability)
{
    for (int place = 1; place <= context->place_count; place++)
        if (context->devices[place]->capabilities & capability)
            return place;
    return 0;
}

/* Returns the call site of the current public call if the context makes the additional checks of
 * src/debug. Otherwise returns `unchecked`. */
static inline ferryi_site
ferryi_shell_site(const ferry_context *context, ferryi_site unchecked)
{
    return context->debug ? ferryi_site_here() : unchecked;
}

#endif
