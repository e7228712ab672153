/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TIMELINE_H
#define FERRYI_TIMELINE_H

/*
 * Timelines: the order of device work, known without querying the driver.
 *
 * A timeline represents a stream in the order. It has a number 1..62, a tick that counts the events
 * recorded on it, and for every other timeline how far this one is ordered after it (`seen`). A use
 * of memory is stored as a sync point (number, tick): the timeline and its tick at the time of the
 * use. Event number n of a timeline covers every sync point with tick < n. The tick is raised
 * before the driver call that records, so a sync point taken while an event is being recorded is
 * covered only by the next event.
 *
 *   ordered(timeline, sync point) = same timeline, or seen[number] > tick, or done[number] > tick
 *
 * is a few loads, and all that the hit path needs. If the result is false, an event is recorded or
 * reused and waited for once. Then `seen` (a stream waited) or `done` (the host waited) is raised,
 * also for the timelines that the event's timeline had seen.
 *
 * Two kinds of streams have no number: those beyond the 62nd, and CUDA's per-thread stream, which
 * is another stream in each thread. Their uses are joined into the join timeline of their place: an
 * event is recorded on them at once, and the join timeline waits for it. Ordering them always needs
 * driver calls.
 *
 * All streams of a place that Ferry does not know share one timeline, created when first needed. It
 * has no native stream and no events: a sync point on it is complete when a later synchronization
 * of the device has ended. It counts as ordered after every other timeline of its device. Work on a
 * stream that depends on such a sync point makes the host wait.
 *
 * A number is not reused while a sync point could refer to work in flight. A destroyed stream's
 * timeline records a closing event, and its number is reused, on the same device, only after that
 * event is complete. The tick continues to rise, so old sync points stay valid.
 *
 * Locks: each timeline has a mutex for its ring of events, which is held across event_record only.
 * The order has a mutex for the table of timelines. While one of them is held, only locks of the
 * device are taken.
 */

#include <ferry/stream.h>

#include "src/base/interleave.h"
#include "src/device/device.h"

#define FERRYI_TIMELINES       63 /* numbers are 1..62; 0 means the host, or no timeline */
#define FERRYI_TIMELINE_EVENTS 16

/* A use on a timeline: the number in the low 8 bits, the tick above them. 0: no pending use. */
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
    void *event;     /* the driver's event; created at the first use of the slot */
    uint64_t number; /* 0: never recorded */
    uint64_t
        seen[FERRYI_TIMELINES]; /* `seen` of the timeline when the event was recorded: a stream that
                                   waits for the event is ordered after those sync points too */
};

FERRYI_MUTEX_CLASS(ferryi_timeline_mutex);
FERRYI_MUTEX_CLASS(ferryi_order_mutex);
FERRYI_MUTEX_CLASS(ferryi_join_mutex);

struct ferryi_timeline {
    _Atomic uint64_t tick; /* number of events recorded or being recorded */
    _Atomic uint64_t used; /* 1 + tick at the last noted use; 0: never used */
    uint64_t bit;          /* bit of the number in sets of timelines; 0: no number */
    unsigned number;       /* 0: uses are joined */
    int place;
    uint32_t place_bit;          /* bit of the place in sets of places */
    _Atomic uint32_t generation; /* rises each time the number is reused */
    _Atomic uint32_t
        live_generation; /* equal to `generation` until the timeline is retired; then 0 */
    _Atomic uint64_t seen[FERRYI_TIMELINES]; /* per timeline: number of its newest event that this
                                                one is ordered after */
    ferryi_order *order;
    ferryi_device *device;
    void *native;    /* NULL once retired (numbered timelines only) */
    bool per_thread; /* CUDA's handle of the per-thread stream, a different stream in each thread */
    bool is_plain;   /* numbered, and not by_thread */
    bool by_thread;  /* uses by different threads are not ordered: per_thread, and devices that run
                        work on the caller */
    atomic_bool internal; /* a timeline of the engine, or a join timeline */
    bool is_unknown; /* represents the streams that Ferry does not know: no native stream, no events
                      */
    bool owned;      /* the native stream is destroyed when the timeline is retired */
    _Atomic(ferryi_timeline *) uploads; /* uploads on a stream of the program: see
                                           ferryi_timeline_of_uploads(); NULL: not created yet */
    _Atomic int holders; /* counted for unnumbered timelines only; the last one frees it */
    struct ferryi_timeline_mutex mutex; /* held also while the timeline is retired */
    FERRYI_GUARDED_BY(ferryi_timeline_mutex) struct {
        struct ferryi_timeline_event ring[FERRYI_TIMELINE_EVENTS];
        unsigned next;
    };
};

struct ferryi_order {
    _Atomic uint64_t
        done[FERRYI_TIMELINES]; /* number of events of each timeline known to be complete */
    ferryi_timeline
        *timelines[FERRYI_TIMELINES]; /* by number; NULL until the number is first used */
    _Atomic(ferryi_timeline *)
        joins[FERRYI_DEVICES_MAX + 1]; /* by place; created when first needed */
    _Atomic(ferryi_timeline *)
        unknown[FERRYI_DEVICES_MAX + 1]; /* by place, for the streams that Ferry does not know;
                                            created when first needed */
    _Atomic uint64_t unknown_set;        /* bits of the timelines in `unknown` */
    struct ferryi_order_mutex mutex;
    struct ferryi_join_mutex join_mutex; /* held while a join timeline is opened, so that no second
                                            one uses up another number */
    FERRYI_GUARDED_BY(ferryi_order_mutex)
    int internal_reserve; /* numbers reserved for internal timelines that are not opened yet: three
                             per device */
    const struct ferryi_log *log;
};

ferry_status ferryi_order_init(ferryi_order *order, const struct ferryi_log *log);
/* Destroys the events and the streams that timelines own. The devices are still open and idle. */
void ferryi_order_clear(ferryi_order *order);

/* Opens a timeline for a native stream. If `native` is NULL it creates a stream, which retiring
 * destroys. */
ferry_status ferryi_timeline_open(ferryi_order *order, ferryi_device *device, int place,
                                  void *native, bool internal, ferryi_timeline **out);
/*
 * Returns the timeline of the place's streams that Ferry does not know. Makes no driver call. Fails
 * with OUT_OF_MEMORY when no number is left; the caller then waits for the device.
 */
ferry_status ferryi_timeline_of_unknown(ferryi_order *order, ferryi_device *device, int place,
                                        ferryi_timeline **out);
/* Returns the timeline into which uses of the place's unnumbered streams, and of sets of timelines,
 * are joined. Creates it when first needed. */
ferry_status ferryi_timeline_of_joins(ferryi_order *order, ferryi_device *device, int place,
                                      ferryi_timeline **out);
/*
 * Returns the timeline of the uploads that Ferry queues on a stream of the program. It has the same
 * native stream, but another number and other events, so that a wait for an upload does not wait
 * for work that was queued on the stream later. The caller calls ferryi_timeline_record_upload()
 * after each sync point on it. Returns false when numbers are scarce or memory is short. The stream
 * must have a number.
 */
bool ferryi_timeline_of_uploads(ferryi_timeline *timeline, ferryi_timeline **out);
/* Records the event of an upload on the timeline of uploads. If the driver cannot record, it waits
 * for the upload. */
void ferryi_timeline_record_upload(ferryi_timeline *uploads);
/* Records the closing event; the number is reused after it is complete. Failures are logged. */
void ferryi_timeline_retire(ferryi_timeline *timeline);
/* Adds and drops a holder of an unnumbered timeline, which is freed with its last holder. Numbered
 * timelines live as long as the order. */
void ferryi_timeline_hold(ferryi_timeline *timeline);
void ferryi_timeline_let_go(ferryi_timeline *timeline);

/* Fails with UNSUPPORTED when the stream is being captured. Ferry's internal streams are not
 * checked, since a program cannot capture them. */
ferry_status ferryi_timeline_check_capture(ferryi_timeline *timeline);
/* Like ferryi_timeline_check_capture(), for the stream that was passed to the public call. While
 * the thread has a hold (base/hold.h) the driver is queried only once. */
ferry_status ferryi_timeline_check_own(ferryi_timeline *timeline);

/* Raises `done` if an event that covers the sync point is recorded already and complete. Records no
 * event. */
void ferryi_sync_point_poll(ferryi_order *order, ferryi_sync_point point);

/* Waits until all work that was queued on the timeline before this call is complete. */
ferry_status ferryi_timeline_synchronize(ferryi_timeline *timeline);

/*
 * Returns a sync point for a use that was queued on the timeline before this call. For numbered
 * timelines this is two stores and cannot fail. For others it records an event and joins, with
 * driver calls. `opened_by` is the thread that queued the work. For another thread's per-thread
 * stream, or when the driver fails, the call waits for the whole device and returns sync point 0.
 */
ferry_status ferryi_timeline_note(ferryi_timeline *timeline, uint64_t opened_by,
                                  ferryi_sync_point *out);
/* Like ferryi_timeline_note(), for a numbered timeline that was retired or reused since
 * `generation`. Its closing event covers the use. */
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

/* Inline part of ferryi_timeline_note(), for numbered timelines that are not retired. */
static inline ferryi_sync_point
ferryi_timeline_sync_point(ferryi_timeline *timeline)
{
    uint64_t tick = atomic_load_explicit(&timeline->tick, memory_order_acquire);
    FERRYI_INTERLEAVE();
    /* `used` only rises: another thread may have noted a use after a later event in the
     * meantime. */
    uint64_t used = atomic_load_explicit(&timeline->used, memory_order_relaxed);
    while (used <= tick &&
           !atomic_compare_exchange_weak_explicit(&timeline->used, &used, tick + 1,
                                                  memory_order_release, memory_order_relaxed))
        ;
    return ferryi_sync_point_make(timeline->number, tick);
}

/* Whether the timeline was used since its last event, so that ferryi_timeline_sync_point() would
 * change nothing. */
static inline bool
ferryi_timeline_is_noted(const ferryi_timeline *timeline)
{
    uint64_t tick = atomic_load_explicit(&timeline->tick, memory_order_acquire);
    return atomic_load_explicit(&timeline->used, memory_order_relaxed) > tick;
}

/* Whether the work before the sync point is known to be complete. */
static inline bool
ferryi_sync_point_is_done(const ferryi_order *order, ferryi_sync_point point)
{
    return point == 0 || atomic_load_explicit(&order->done[ferryi_sync_point_number(point)],
                                              memory_order_acquire) > ferryi_sync_point_tick(point);
}

/* Whether only the host can wait for the sync point, by synchronizing the whole device. */
static inline bool
ferryi_sync_point_is_unknown(const ferryi_order *order, ferryi_sync_point point)
{
    return point && (atomic_load_explicit(&order->unknown_set, memory_order_acquire) >>
                         ferryi_sync_point_number(point) &
                     1);
}

/* Whether a numbered timeline is ordered after the sync point, or the sync point is on this
 * timeline. */
static inline bool
ferryi_timeline_has_seen(const ferryi_timeline *timeline, ferryi_sync_point point)
{
    unsigned number = ferryi_sync_point_number(point);
    return atomic_load_explicit(&timeline->seen[number], memory_order_acquire) >
               ferryi_sync_point_tick(point) ||
           timeline->number == number;
}

/* Whether later work of `timeline` (NULL: of the host) is ordered after the sync point, without
 * querying the driver. */
static inline bool
ferryi_sync_point_is_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                             ferryi_sync_point point)
{
    /* `seen` is checked first, because for a write of another stream it is often the only
     * information. */
    return (timeline && ferryi_timeline_is_numbered(timeline) &&
            ferryi_timeline_has_seen(timeline, point)) ||
           ferryi_sync_point_is_done(order, point);
}

/* Makes later work of `timeline` (NULL: the host, which blocks) wait for the sync point. Makes
 * driver calls if it is not ordered yet. */
ferry_status ferryi_sync_point_wait(ferryi_order *order, ferryi_timeline *timeline,
                                    ferryi_sync_point point);

/* Sets of timelines (timeline_set.c): bit n represents all uses of timeline n noted so far. */
bool ferryi_timelines_are_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                                  uint64_t set);
ferry_status ferryi_timelines_wait(ferryi_order *order, ferryi_timeline *timeline, uint64_t set);

/* Blocks until all work that Ferry noted on the device's numbered timelines is done, and all work
 * of Ferry's streams and of the default one. Waits for the whole device only where unknown streams
 * were used. Called when no other thread uses the order. */
ferry_status ferryi_timelines_wait_all(ferryi_order *order, const ferryi_device *device);

/* Returns one sync point that covers a sync point and a set. If there are several pending uses, a
 * join timeline waits for all of them. Returns 0 when all are complete. If joining fails the host
 * waits instead; if that fails too (the device is lost), it logs the failure and returns 0. */
ferryi_sync_point ferryi_sync_points_join(ferryi_order *order, ferryi_sync_point point,
                                          uint64_t set);

/* Records an event now, unless an event covers all uses so far. Returns UNSUPPORTED while the
 * stream is being captured. */
ferry_status ferryi_timeline_flush(ferryi_timeline *timeline);
/* Queries the driver, without blocking, whether the sync point is complete, and raises `done`.
 * Returns false also when the driver cannot answer, as for unknown streams. */
bool ferryi_sync_point_query(ferryi_order *order, ferryi_sync_point point);

#endif
