/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONTEXT_H
#define FERRYI_CONTEXT_H

/*
 * The context: devices, order, pools, engine, log, and the list of what lives in it. It wires them
 * and owns nothing else.
 *
 * It has two counts. The owners are what the program counts: the last one ends the context. The
 * references hold its memory: all owners have one together, and each store has one, so that a
 * buffer that outlives ferry_context_destroy() finds a closed shell instead of freed memory.
 */

#include <ferry/context.h>
#include <ferry/pool.h>

#include "src/base/base.h"
#include "src/base/trace.h"
#include "src/convert/converter.h"
#include "src/debug/site.h"
#include "src/device/traced.h"
#include "src/pool/pool.h"
#include "src/stream/stream.h"
#include "src/transfer/engine.h"

struct ferryi_store;
struct ferryi_worker;

#define FERRYI_MEMORY_KINDS 5
extern const char *const ferryi_memory_kind_names[FERRYI_MEMORY_KINDS]; /* context_pool.c */
#define FERRYI_LONG_LOCKS 16
#define FERRYI_WAYS       (2 * FERRYI_DEVICES_MAX + 2) /* see worker.h */

FERRYI_MUTEX_CLASS(ferryi_pools_mutex);
FERRYI_MUTEX_CLASS(ferryi_stores_mutex);
FERRYI_MUTEX_CLASS(ferryi_park_mutex);
FERRYI_MUTEX_CLASS(ferryi_workers_mutex);
FERRYI_MUTEX_CLASS(ferryi_event_times_mutex); /* below all but the device */

struct ferry_context {
    atomic_int references;   /* of the shell: one for all owners together, and one for each store */
    _Atomic unsigned owners; /* of the context: see src/context_owners.c. 0: its end has begun */
    atomic_bool closed;
    atomic_bool closing; /* its destruction has begun: callbacks of that find it closed */
    bool shared;         /* the process-wide one */
    bool inherited; /* it belongs to the process that this one was forked from; closed as well */
    struct ferry_context *next_living,
        **living; /* all of the process, from the end of their creation on */
    bool debug;   /* a checked run: see src/buffer/guard.h; constant */
    struct ferryi_log log;
    size_t buffer_bytes_limit, device_bytes_limit, host_bytes_limit, pinned_bytes_limit;
    bool grows;       /* device memory is made of granules where it can be */
    size_t pin_after; /* crossings of a host copy; SIZE_MAX: never */

    ferryi_device *devices[FERRYI_DEVICES_MAX + 1]; /* by place; 0 is NULL */
    char names[FERRYI_DEVICES_MAX + 1][32];         /* "host", "cuda:0" */
    int place_count;
    uint32_t coherent; /* bit p: place p uses the host's copy */
    ferryi_order order;
    ferryi_engine *engine;
    ferryi_converter
        *converters[FERRYI_DEVICES_MAX + 1]; /* by place; NULL where the host converts */

    ferryi_trace *trace;                  /* NULL: none */
    struct ferryi_traced_ops *traced_ops; /* of devices in a traced context; by place */
    uint64_t store_word;                  /* that a new store begins with */
    _Atomic uint32_t last_number;         /* of a store, in a traced context */

    char *allocation_log; /* how the pools' logs begin their names; NULL: none */
    struct ferryi_pools_mutex pool_mutex;
    FERRYI_GUARDED_BY(ferryi_pools_mutex)
    ferry_pool *pools[FERRYI_DEVICES_MAX + 1][FERRYI_MEMORY_KINDS];
    struct ferryi_place_backend {
        ferryi_device *device; /* NULL: the system's memory */
        ferry_memory_kind kind;
        ferryi_engine *engine; /* knows what is page-locked */
        ferry_context *context;
        int place;
        struct ferryi_pool_backend
            untraced; /* in a traced context: what the traced functions call */
        _Atomic uint64_t traced_bytes;
    } backends[FERRYI_DEVICES_MAX + 1][FERRYI_MEMORY_KINDS] FERRYI_GUARDED_BY(
        ferryi_pools_mutex); /* what each pool asks for memory */

    struct ferryi_place_own_pool {
        ferry_pool *pool;
        ferry_pool_backend backend; /* the program's */
        struct ferryi_place_own_pool *next;
    } * own_pools FERRYI_GUARDED_BY(ferryi_pools_mutex); /* made over backends of the program's */

    struct ferryi_streams_mutex stream_mutex;
    FERRYI_GUARDED_BY(ferryi_streams_mutex)
    ferry_stream *streams; /* all, the defaults among them */
    ferry_stream *defaults[FERRYI_DEVICES_MAX + 1];

    struct ferryi_event_times_mutex event_times_mutex;
    FERRYI_GUARDED_BY(ferryi_event_times_mutex)
    struct ferry_event *event_times; /* the timed ones: see buffer/event_time.h */

    atomic_uint ending_wraps; /* those that threads are freeing and that are in no list any more,
                                 because that calls the program */
    struct ferryi_stores_mutex store_mutex; /* creation and destruction of buffers only */
    FERRYI_GUARDED_BY(ferryi_stores_mutex) struct {
        struct ferryi_store *stores, *oldest_store; /* the list, youngest first */
        struct ferryi_store *hand; /* where eviction goes on; NULL: with the oldest */
        size_t store_count;
        struct ferryi_store *spare_stores; /* used again for the next buffers */
        size_t spare_store_count;
        uint64_t last_id; /* the highest id that a claim had on a store that is gone: ids never come
                             again */
    };

    pthread_mutex_t
        long_locks[FERRYI_LONG_LOCKS]; /* for crowded stores, by address; in no class, since a bit
                                          of the store's word says whether it is held */

    /* Where threads sleep until a claim on some store is gone. */
    struct ferryi_park_mutex park_mutex;
    ferryi_cond park_cond;
    _Atomic uint64_t park_epoch;

    struct ferryi_workers_mutex worker_mutex;
    FERRYI_GUARDED_BY(ferryi_workers_mutex)
    struct ferryi_worker
        *workers[FERRYI_WAYS]; /* run asynchronous calls; each started at first need */
};

void ferryi_shell_retain(ferry_context *context);
void ferryi_shell_release(ferry_context *context);

/* Adds an owner. False when no owner is left: the end of the context has begun. */
bool ferryi_shell_try_own(ferry_context *context);
/* As ferry_context_destroy(), but never blocks: a separate thread runs the end. Blocks only where
 * that thread cannot be started. */
void ferryi_shell_disown(ferry_context **context);
/* In a callback: is this thread the context's last owner, and may it not give that back? */
bool ferryi_shell_is_last_refused(const ferry_context *context);
/* Waits for all work, reports leaks and frees everything but the shell. Also for a context that is
 * only half made. Not on its own threads. */
void ferryi_context_end(ferry_context *context);

/*
 * Forks (buffer/inherit.c). In the child every context is closed and every store dead, and nothing
 * of them is given back: the driver, threads and locks that this would take are the parent's. Its
 * memory goes with the process.
 */
void ferryi_context_list(ferry_context *context);
void ferryi_context_unlist(ferry_context *context);

/* Sets the counters of all buffers to zero (buffer/info.c). */
void ferryi_stores_reset_traffic(ferry_context *context);
/* The labels of the live leases of all buffers, as ferryi_lease_labels() writes them; "" for none.
 * `text_bytes` is not 0. */
void ferryi_stores_lease_labels(ferry_context *context, char *text, size_t text_bytes);

/* Fails with INVALID_STATE when the context was destroyed, or this process is not the one that made
 * it. */
ferry_status ferryi_shell_check_alive(const ferry_context *context, const char *what);
/* The same, and in a callback that may only ask. */
ferry_status ferryi_shell_check_open(const ferry_context *context, const char *what);
/* Why a context that is closed is: the end of such a message. */
const char *ferryi_shell_why_closed(const ferry_context *context);

/* The pool of a place and kind, made at the first call. */
ferry_status ferryi_place_pool(ferry_context *context, int place, ferry_memory_kind kind,
                               ferry_pool **out);
/* Fills in where such a pool's memory comes from, and its limit. */
FERRYI_REQUIRES(ferryi_pools_mutex)
ferry_status ferryi_place_backend_choose(ferry_context *context, int place, ferry_memory_kind kind,
                                         struct ferryi_pool_config *config);
/* What the pools of a place have live and idle, of all kinds. */
void ferryi_place_pool_bytes(ferry_context *context, int place, size_t *out_live, size_t *out_idle);
/* What the pools of a place did since they were created, for descriptions. */
struct ferryi_pool_work {
    uint64_t hits, misses, device_allocations, trims, evictions, waits, shortages;
};
void ferryi_place_pool_work(ferry_context *context, int place, struct ferryi_pool_work *out);
/* All pools, those that the program made and did not destroy among them. */
void ferryi_place_pools_close(ferry_context *context);

/* The timeline of a stream argument: NULL means the default stream of a context with one device.
 * Checks the context. */
ferry_status ferryi_stream_find_timeline(ferry_context *context, ferry_stream *stream,
                                         const char *what, ferryi_timeline **out);

/* Fails with INVALID_ARGUMENT unless `place` is one. Checks the context. */
ferry_status ferryi_shell_check_place(const ferry_context *context, int place, const char *what);

/* Of the call that runs now, in a checked run; otherwise `unchecked`. */
static inline ferryi_site
ferryi_shell_site(const ferry_context *context, ferryi_site unchecked)
{
    return context->debug ? ferryi_site_here() : unchecked;
}

/* The thread has waited since begun_ns; in a traced context. */
void ferryi_shell_trace_wait(ferry_context *context, const char *name, uint64_t begun_ns);

/* Parking: read the epoch while the condition cannot change, then sleep until it moved. False when
 * the deadline (0: none) passed. */
uint64_t ferryi_store_park_epoch(ferry_context *context);
bool ferryi_store_park(ferry_context *context, uint64_t epoch, uint64_t deadline_ns);
void ferryi_store_unpark(ferry_context *context);

#endif
