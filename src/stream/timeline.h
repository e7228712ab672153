/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TIMELINE_H
#define FERRYI_TIMELINE_H

/*
 * Timelines: the order of device work, known without asking the driver.
 *
 * A timeline is a stream's identity in the order: a number 1..62, a tick that counts the events
 * recorded on it, and for every other timeline how far this one is already ordered behind it
 * (`seen`). A use of memory is remembered as a sync point (number, tick): "used on that timeline
 * when its tick was so". Event number n of a timeline covers every sync point with tick < n. The
 * tick rises before the driver call that records, so a sync point taken while an event is being
 * recorded is covered only by the next one.
 *
 *   ordered(timeline, sync point) = same timeline, or seen[number] > tick, or done[number] > tick
 *
 * is a few loads, and the whole of the hit path's question. A miss records or reuses an event,
 * waits once, and raises `seen` (a stream waited) or `done` (the host waited), also for the
 * timelines that the event's timeline had seen.
 *
 * Two sorts of streams have no number of their own: those beyond the 62nd, and CUDA's per-thread
 * stream, which is another stream in each thread. Their uses are joined, when noted, into the join
 * timeline of their place: an event is recorded on them at once, and the join timeline waits for
 * it. They are never ordered without asking.
 *
 * Streams that Ferry does not know have one timeline for each place together, made at the first
 * need. It has no native stream and no events: a sync point on it is done once a synchronization of
 * the device that began later has ended. It counts as ordered after every other timeline of its
 * device. Work on a stream that needs such a sync point makes the host wait.
 *
 * Numbers are never freed while a sync point could name work in flight: a destroyed stream's
 * timeline records a closing event and its number is handed out again, on the same device, only
 * after that event is done; the tick goes on rising, so old sync points stay true.
 *
 * Locks: each timeline has a mutex around its ring of events; it is held across event_record only.
 * The order has a mutex around the table of timelines. Both are leaves below everything but the
 * device.
 */

#include <ferry/stream.h>

#include "src/base/interleave.h"
#include "src/device/device.h"

#define FERRYI_TIMELINES       63 /* numbers 1..62; 0 means the host, or nothing */
#define FERRYI_TIMELINE_EVENTS 16

/* A use on a timeline: number in the low 8 bits, tick above. 0: no pending use. */
typedef uint64_t ferryi_sync_point;

static inline ferryi_sync_point
ferryi_sync_point_make(unsigned number, uint64_t tick)
{
    return tick << 8 | number;
}

static inline unsigned
ferryi_sync_point_number(ferryi_sync_point point)
{
    return (unsigned)(point & 0xff);
}

static inline uint64_t
ferryi_sync_point_tick(ferryi_sync_point point)
{
    return point >> 8;
}

typedef struct ferryi_order ferryi_order;
typedef struct ferryi_timeline ferryi_timeline;

struct ferryi_timeline_event {
    void *event;                     /* the driver's; created at first use of the slot */
    uint64_t number;                 /* 0: never recorded */
    uint64_t seen[FERRYI_TIMELINES]; /* of the timeline, when it was recorded: a stream that waits
                                        for the event is ordered behind those too */
};

FERRYI_MUTEX_CLASS(ferryi_timeline_mutex);
FERRYI_MUTEX_CLASS(ferryi_order_mutex);
FERRYI_MUTEX_CLASS(ferryi_join_mutex);

struct ferryi_timeline {
    _Atomic uint64_t tick; /* events recorded, or being recorded */
    _Atomic uint64_t used; /* 1 + tick at the last noted use; 0: never used */
    uint64_t bit;          /* of the number in sets of timelines; 0: it has none */
    unsigned number;       /* 0: joins */
    int place;
    uint32_t place_bit;                      /* of the place in sets of places */
    _Atomic uint32_t generation;             /* rises each time the number is handed out */
    _Atomic uint32_t live_generation;        /* the same, until the timeline is retired; then 0 */
    _Atomic uint64_t seen[FERRYI_TIMELINES]; /* how far into each timeline this one is ordered */
    ferryi_order *order;
    ferryi_device *device;
    void *native;    /* NULL once retired (numbered timelines) */
    bool per_thread; /* CUDA's handle that means another stream in each thread */
    bool is_plain;   /* numbered, and not by_thread */
    bool by_thread;  /* uses by different threads are not in order: per_thread, and devices that run
                        on the caller */
    atomic_bool internal; /* the engine's own, and joins */
    bool is_unknown;      /* of the streams that Ferry does not know: no native stream, no events */
    bool owned;           /* retire destroys the native stream */
    _Atomic(ferryi_timeline *)
        uploads; /* of the program's stream: see ferryi_timeline_of_uploads(); NULL: not made yet */
    _Atomic int holders;                /* unnumbered timelines only: freed with the last */
    struct ferryi_timeline_mutex mutex; /* held also while it is retired */
    FERRYI_GUARDED_BY(ferryi_timeline_mutex) struct {
        struct ferryi_timeline_event ring[FERRYI_TIMELINE_EVENTS];
        unsigned next;
    };
};

struct ferryi_order {
    _Atomic uint64_t done[FERRYI_TIMELINES]; /* events of each timeline known to have happened */
    ferryi_timeline *timelines[FERRYI_TIMELINES]; /* by number; NULL until first handed out */
    _Atomic(ferryi_timeline *) joins[FERRYI_DEVICES_MAX + 1]; /* by place; made at first need */
    _Atomic(ferryi_timeline *)
        unknown[FERRYI_DEVICES_MAX +
                1]; /* by place: of the streams that Ferry does not know; made at first need */
    _Atomic uint64_t unknown_set; /* their bits */
    struct ferryi_order_mutex mutex;
    struct ferryi_join_mutex join_mutex; /* held while a join timeline is opened: a second one would
                                            take another timeline's number */
    FERRYI_GUARDED_BY(ferryi_order_mutex)
    int internal_reserve; /* numbers kept for internal timelines not opened yet: three a device */
    const struct ferryi_log *log;
};

ferry_status ferryi_order_init(ferryi_order *order, const struct ferryi_log *log);
/* Gives events and the timelines' own streams back; the devices are still open and idle. */
void ferryi_order_clear(ferryi_order *order);

/* A timeline over a native stream. `native` NULL makes a stream, which retire destroys. */
ferry_status ferryi_timeline_open(ferryi_order *order, ferryi_device *device, int place,
                                  void *native, bool internal, ferryi_timeline **out);
/*
 * The timeline of the place's streams that Ferry does not know. Makes no driver call. Fails with
 * OUT_OF_MEMORY when there is no number left; the caller then waits for the device.
 */
ferry_status ferryi_timeline_of_unknown(ferryi_order *order, ferryi_device *device, int place,
                                        ferryi_timeline **out);
/* The timeline into which uses of the place's unnumbered streams, and of sets of timelines, are
 * joined. Made at first need. */
ferry_status ferryi_timeline_of_joins(ferryi_order *order, ferryi_device *device, int place,
                                      ferryi_timeline **out);
/*
 * The timeline of the uploads that Ferry puts on a stream of the program. It has the same native
 * stream, but another number and other events, so that waiting for an upload does not wait for work
 * that was queued on the stream later. Each sync point on it is followed by
 * ferryi_timeline_record_upload(). False where numbers are short, or there is no memory. The stream
 * is none that joins.
 */
bool ferryi_timeline_of_uploads(ferryi_timeline *timeline, ferryi_timeline **out);
/* Records the event of an upload on the timeline of uploads, or waits for the upload where the
 * driver records none. */
void ferryi_timeline_record_upload(ferryi_timeline *uploads);
/* Record the closing event and let the number go when it is done. Never fails; what goes wrong is
 * logged. */
void ferryi_timeline_retire(ferryi_timeline *timeline);
/* Keep an unnumbered timeline's memory; numbered timelines live as long as the order. */
void ferryi_timeline_hold(ferryi_timeline *timeline);
void ferryi_timeline_let_go(ferryi_timeline *timeline);

/* Fails with UNSUPPORTED when the stream is being captured. The driver is not asked about Ferry's
 * own streams, which a program cannot capture. */
ferry_status ferryi_timeline_check_capture(ferryi_timeline *timeline);
/* As check_capture, for the stream that this call of the program is about. The driver is asked once
 * while the thread has a hold. */
ferry_status ferryi_timeline_check_own(ferryi_timeline *timeline);

/* As query, where an event stands for the sync point already. Records nothing. */
void ferryi_sync_point_poll(ferryi_order *order, ferryi_sync_point point);

/* Block until everything that was queued on the timeline before this call is done. */
ferry_status ferryi_timeline_synchronize(ferryi_timeline *timeline);

/*
 * Returns a sync point for a use that was queued on the timeline before this call. For numbered
 * timelines it is two stores and cannot fail. For the others it records and joins, with driver
 * calls; `opened_by` is the thread that queued the work: when it is another thread's per-thread
 * stream, or when the driver fails, the whole device is waited for and the sync point is 0.
 */
ferry_status ferryi_timeline_note(ferryi_timeline *timeline, uint64_t opened_by,
                                  ferryi_sync_point *out);
/* As note, for a numbered timeline that was retired, or handed out again, since `generation`: its
 * closing event covers the use. */
ferryi_sync_point ferryi_timeline_sync_point_since(ferryi_timeline *timeline, uint32_t generation);

static inline bool
ferryi_timeline_is_numbered(const ferryi_timeline *timeline)
{
    return timeline->number != 0;
}

static inline bool
ferryi_timeline_is_retired(const ferryi_timeline *timeline)
{
    return atomic_load(&timeline->live_generation) == 0;
}

/* The inline part of ferryi_timeline_note, for numbered timelines that are not retired. */
static inline ferryi_sync_point
ferryi_timeline_sync_point(ferryi_timeline *timeline)
{
    uint64_t tick = atomic_load_explicit(&timeline->tick, memory_order_acquire);
    FERRYI_INTERLEAVE();
    /* It only rises: another thread may have noted a use behind a later event meanwhile. */
    uint64_t used = atomic_load_explicit(&timeline->used, memory_order_relaxed);
    while (used <= tick &&
           !atomic_compare_exchange_weak_explicit(&timeline->used, &used, tick + 1,
                                                  memory_order_release, memory_order_relaxed))
        ;
    return ferryi_sync_point_make(timeline->number, tick);
}

/* True when ferryi_timeline_sync_point() would have nothing to do: the timeline was used since its
 * last event. */
static inline bool
ferryi_timeline_is_noted(const ferryi_timeline *timeline)
{
    uint64_t tick = atomic_load_explicit(&timeline->tick, memory_order_acquire);
    return atomic_load_explicit(&timeline->used, memory_order_relaxed) > tick;
}

/* True when the sync point's work is known to have happened. */
static inline bool
ferryi_sync_point_is_done(const ferryi_order *order, ferryi_sync_point point)
{
    return point == 0 || atomic_load_explicit(&order->done[ferryi_sync_point_number(point)],
                                              memory_order_acquire) > ferryi_sync_point_tick(point);
}

/* True when only the host can wait for the sync point, by a synchronization of the whole device. */
static inline bool
ferryi_sync_point_is_unknown(const ferryi_order *order, ferryi_sync_point point)
{
    return point && (atomic_load_explicit(&order->unknown_set, memory_order_acquire) >>
                         ferryi_sync_point_number(point) &
                     1);
}

/* True when a numbered timeline has seen the sync point, or is its own. */
static inline bool
ferryi_timeline_has_seen(const ferryi_timeline *timeline, ferryi_sync_point point)
{
    unsigned number = ferryi_sync_point_number(point);
    return atomic_load_explicit(&timeline->seen[number], memory_order_acquire) >
               ferryi_sync_point_tick(point) ||
           timeline->number == number;
}

/* True when later work of `timeline` (NULL: of the host) is ordered after the sync point, without
 * asking the driver. */
static inline bool
ferryi_sync_point_is_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                             ferryi_sync_point point)
{
    /* What a stream waited for is asked first: of what another stream wrote it often is all that is
     * known. */
    return (timeline && ferryi_timeline_is_numbered(timeline) &&
            ferryi_timeline_has_seen(timeline, point)) ||
           ferryi_sync_point_is_done(order, point);
}

/* Make later work of `timeline` (NULL: the host, blocking) wait for the sync point, with driver
 * calls where it is not ordered yet. */
ferry_status ferryi_sync_point_wait(ferryi_order *order, ferryi_timeline *timeline,
                                    ferryi_sync_point point);

/* Sets of timelines (timeline_set.c): bit n stands for every use of timeline n noted so far. */
bool ferryi_timelines_are_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                                  uint64_t set);
ferry_status ferryi_timelines_wait(ferryi_order *order, ferryi_timeline *timeline, uint64_t set);

/* Blocks until all work that Ferry noted on the device's numbered timelines is done, and all work
 * of Ferry's streams and of the default one. Waits for the whole device only where unknown streams
 * were used. Called when no other thread uses the order. */
ferry_status ferryi_timelines_wait_all(ferryi_order *order, const ferryi_device *device);

/* One sync point for a sync point and a set: where they are several, a join timeline waits for all
 * of them. 0 when all are done. On failure waits on the host instead; when that fails too, logs and
 * returns 0 (the device is lost). */
ferryi_sync_point ferryi_sync_points_join(ferryi_order *order, ferryi_sync_point point,
                                          uint64_t set);

/* Record an event now, for all uses so far, if there is a use that none covers yet. UNSUPPORTED
 * while being captured. */
ferry_status ferryi_timeline_flush(ferryi_timeline *timeline);
/* Ask the driver, without blocking, whether the sync point is done; raises `done`. False also when
 * the driver cannot say, as for unknown streams. */
bool ferryi_sync_point_query(ferryi_order *order, ferryi_sync_point point);

#endif
