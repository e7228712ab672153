/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TIMELINE_H
#define FERRYI_TIMELINE_H

/*
 * Timelines: the order of device work, known without querying the driver.
 *
 * A timeline represents a stream in the order of all work. It has a number from 1 to 62 and a tick,
 * which counts the events recorded on it. Its array `seen` stores, for every other timeline, the
 * newest event after which this timeline is ordered. A use of memory is stored as a sync point: the
 * timeline's number, and its tick at the time of the use. Event number n of a timeline covers every
 * sync point with tick < n. The tick is raised before the driver call that records the event. So a
 * sync point that is taken during this call is covered only by the next event.
 *
 *   ordered(timeline, sync point) = same timeline, or seen[number] > tick, or done[number] > tick
 *
 * This test takes a few loads, and a use that is already ordered needs nothing else. If the result
 * is false, the stream or the host waits once for an event. The event is recorded first if no
 * earlier event covers the sync point. Then the number of this event is entered in `seen` if a
 * stream waits, or in `done` if the host has waited. The events that the event's timeline had seen
 * are entered as well.
 *
 * Two kinds of streams have no number: those beyond the 62nd, and CUDA's per-thread stream, whose
 * handle means a different stream in each thread. Their uses are joined into a special timeline of
 * their place, the join timeline: an event is recorded on the stream at once, and the join timeline
 * waits for this event. So ordering these uses always takes driver calls. The host does not wait
 * instead, because closing a scope must not block. The per-thread stream does not have one number
 * for each thread, because only the thread itself can record an event on its stream. In addition,
 * there may be more threads than numbers.
 *
 * All streams of a place that Ferry does not know share one timeline, which is created when it is
 * first needed. It has no native stream and no events. A sync point on it is complete when a later
 * synchronization of the device has ended. The timeline counts as ordered after every other
 * timeline of its device. If work on a stream depends on such a sync point, the host waits for it.
 *
 * A number is not reused while a sync point could refer to work in flight. When a stream is
 * destroyed, a closing event is recorded on its timeline. The number is reused only after that
 * event is complete, and only on the same device. The tick continues to rise, so old sync points
 * stay valid. A timeline without a number can be reused as soon as its stream is destroyed, because
 * its work has been joined by then. The generation of a timeline rises with each reuse. All
 * timelines live as long as the order, which is the struct that contains them.
 *
 * Locks: each timeline has a mutex for its ring of events. Two driver calls happen under this
 * mutex: event_record, and the wait of a join timeline for that event. The order has a mutex for
 * the table of timelines. While one of these mutexes is held, only locks of the device are taken.
 */

#include <ferry/stream.h>

#include "src/base/interleave.h"
#include "src/device/device.h"

#define FERRYI_TIMELINES       63 /* a number is 1 to 62; 0 means the host, or no timeline */
#define FERRYI_TIMELINE_EVENTS 16

/* A use of memory on a timeline. The low 8 bits are the timeline's number, and the other bits are
 * its tick at the time of the use. 0 means that no use is pending. */
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
    void *event;     /* the driver's event; created when this element of the ring is first used */
    uint64_t number; /* 0: the event was never recorded */
    /* copy of the timeline's `seen` at the time of the record; a stream that waits for this event
     * is ordered after all the events in the copy as well */
    uint64_t seen[FERRYI_TIMELINES];
};

FERRYI_MUTEX_CLASS(ferryi_timeline_mutex);
FERRYI_MUTEX_CLASS(ferryi_order_mutex);
FERRYI_MUTEX_CLASS(ferryi_join_mutex);

struct ferryi_timeline {
    _Atomic uint64_t tick; /* number of events recorded or being recorded */
    /* 1 + the tick of the newest noted use; 0 if no use was noted yet */
    _Atomic uint64_t used;
    uint64_t bit;    /* the bit that represents the timeline in sets of timelines; 0 if the timeline
                        has no number */
    unsigned number; /* 0: uses are joined */
    int place;
    uint32_t place_bit;          /* the bit that represents the place in sets of places */
    _Atomic uint32_t generation; /* increased each time the timeline is reused */
    /* equal to `generation` until the timeline is retired; then 0 */
    _Atomic uint32_t live_generation;
    /* by number of the other timeline: that timeline's newest event after which this timeline is
     * ordered */
    _Atomic uint64_t seen[FERRYI_TIMELINES];
    ferryi_order *order;
    ferryi_device *device;
    void *native;    /* NULL once retired (numbered timelines only) */
    bool per_thread; /* whether the stream is CUDA's per-thread stream, which is a different stream
                        in each thread */
    bool is_plain;   /* whether the timeline has a number and `by_thread` is false */
    bool by_thread;  /* whether uses by different threads are not ordered with each other. This is
                        true for the per-thread stream, and for devices that run work in the calling
                        thread */
    atomic_bool internal; /* whether capture checks are skipped, as for the timelines of the engine,
                             of joins, of uploads and of unknown streams */
    bool is_unknown; /* whether the timeline represents the streams that Ferry does not know; it
                        then has no native stream and no events */
    bool owned;      /* whether the native stream is destroyed when the timeline is retired */
    /* the timeline of Ferry's uploads on this stream of the program; see
     * ferryi_timeline_of_uploads(). NULL: not created yet */
    _Atomic(ferryi_timeline *) uploads;
    ferryi_timeline *next_unnumbered;   /* next timeline in the list of the order */
    struct ferryi_timeline_mutex mutex; /* held also while the timeline is retired */
    FERRYI_GUARDED_BY(ferryi_timeline_mutex) struct {
        struct ferryi_timeline_event ring[FERRYI_TIMELINE_EVENTS];
        unsigned next;
    };
};

struct ferryi_order {
    _Atomic uint64_t done[FERRYI_TIMELINES]; /* by number of the timeline: its newest event that is
                                                known to be complete */
    ferryi_timeline *timelines[FERRYI_TIMELINES]; /* by number; NULL if the number was never used */
    /* by place; created when first needed */
    _Atomic(ferryi_timeline *) joins[FERRYI_DEVICES_MAX + 1];
    /* by place: the timeline of the streams that Ferry does not know; NULL until it is first
     * needed */
    _Atomic(ferryi_timeline *) unknown[FERRYI_DEVICES_MAX + 1];
    _Atomic uint64_t unknown_set; /* bits of the timelines in `unknown` */
    FERRYI_GUARDED_BY(ferryi_order_mutex)
    ferryi_timeline *unnumbered; /* list of the timelines without a number */
    struct ferryi_order_mutex mutex;
    /* held while a join timeline is opened, so that each place has only one */
    struct ferryi_join_mutex join_mutex;
    FERRYI_GUARDED_BY(ferryi_order_mutex)
    int internal_reserve; /* how many unused numbers are reserved for internal timelines, of which
                             each device opens three */
    const struct ferryi_log *log;
};

ferry_status ferryi_order_init(ferryi_order *order, const struct ferryi_log *log);
/* Destroys all timelines of the order with their events. Also destroys the streams that the
 * timelines own. The devices must still be open and idle. */
void ferryi_order_clear(ferryi_order *order);

/* Opens a timeline for a native stream. If `native` is NULL, creates a stream, which is destroyed
 * when the timeline is retired. */
ferry_status ferryi_timeline_open(ferryi_order *order, ferryi_device *device, int place,
                                  void *native, bool internal, ferryi_timeline **out);
/*
 * Returns the timeline that all streams at the place share that Ferry does not know. Makes no
 * driver call. Fails with OUT_OF_MEMORY if no number is left; the caller must then wait for the
 * device instead.
 */
ferry_status ferryi_timeline_of_unknown(ferryi_order *order, ferryi_device *device, int place,
                                        ferryi_timeline **out);
/* Returns the join timeline of the place, and creates it if it does not exist yet. A join timeline
 * waits for several uses, so that one sync point on it covers them all. These are uses of streams
 * without a number, or of several timelines. */
ferry_status ferryi_timeline_of_joins(ferryi_order *order, ferryi_device *device, int place,
                                      ferryi_timeline **out);
/*
 * Returns the timeline of the uploads that Ferry queues on a program's stream. The timeline of that
 * stream must have a number. The timeline of uploads has the same native stream, but a different
 * number and different events. So a wait for an upload does not include work that was queued on the
 * stream later. The caller must call ferryi_timeline_record_upload() after each sync point on the
 * timeline of uploads. Returns false if too few numbers are left or memory runs out.
 */
bool ferryi_timeline_of_uploads(ferryi_timeline *timeline, ferryi_timeline **out);
/* Records an event for an upload on the timeline of a stream's uploads. If recording fails, waits
 * for the upload instead. */
void ferryi_timeline_record_upload(ferryi_timeline *uploads);
/* Retires the timeline of a stream that is destroyed, so that it can be reused later. Records a
 * closing event on a numbered timeline. The work of a timeline without a number is joined instead.
 * Failures are logged. */
void ferryi_timeline_retire(ferryi_timeline *timeline);

/* Fails with UNSUPPORTED if the timeline's stream is being captured. Ferry's internal streams are
 * not checked, because a program cannot capture them. */
ferry_status ferryi_timeline_check_capture(ferryi_timeline *timeline);
/* Performs the same check as ferryi_timeline_check_capture(), for the stream that was passed to the
 * current public call. During a hold of the thread (base/hold.h), the driver is queried only once
 * per hold. */
ferry_status ferryi_timeline_check_own(ferryi_timeline *timeline);

/* If an event that covers the sync point was already recorded and is complete, enters the event in
 * `done` of the order. Never records an event. */
void ferryi_sync_point_poll(ferryi_order *order, ferryi_sync_point point);

/* Waits until all work that was queued on the timeline before this call is complete. */
ferry_status ferryi_timeline_synchronize(ferryi_timeline *timeline);

/*
 * Returns the numbered timeline on which a use is noted. The use was queued on `timeline` before
 * this call, while the timeline had the given generation. `opened_by` is the thread that queued the
 * use.
 *
 * For a numbered timeline, the result is the same timeline, and the call makes no driver call. For
 * other timelines, the call records an event, makes the join timeline of the place wait for the
 * event, and returns the join timeline. `*out` is NULL if the use is complete. This is so if the
 * timeline was reused, or if this call has waited for the use. The call waits for the whole device
 * if the use is on the per-thread stream of a different thread. It waits for the stream if the
 * driver fails.
 * @return FERRY_OK; FERRY_ERROR_UNSUPPORTED (the stream is being captured, so nothing was noted);
 * the driver's failure
 */
ferry_status ferryi_timeline_join(ferryi_timeline *timeline, uint64_t opened_by,
                                  uint32_t generation, ferryi_timeline **out);
/* Notes a use like ferryi_timeline_join(), for the present generation of the timeline. Sets `*out`
 * to a sync point of the use, or to 0 if the use is complete. */
ferry_status ferryi_timeline_note(ferryi_timeline *timeline, uint64_t opened_by,
                                  ferryi_sync_point *out);
/* Returns a sync point of a use that was queued on a numbered timeline while it had the given
 * generation. If the timeline was retired since then, its closing event covers the use. If the
 * timeline was reused since then, the use is complete and the result is 0. */
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

/* Returns a sync point of a use that was queued on the timeline before this call. The timeline must
 * be numbered and must not be retired. */
static inline ferryi_sync_point
ferryi_timeline_sync_point(ferryi_timeline *timeline)
{
    uint64_t tick = atomic_load_explicit(&timeline->tick, memory_order_acquire);
    FERRYI_INTERLEAVE();
    /* `used` is only raised, never lowered: since `tick` was read, a different thread may have
     * noted a use with a higher tick. */
    uint64_t used = atomic_load_explicit(&timeline->used, memory_order_relaxed);
    while (used <= tick &&
           !atomic_compare_exchange_weak_explicit(&timeline->used, &used, tick + 1,
                                                  memory_order_release, memory_order_relaxed))
        ;
    return ferryi_sync_point_make(timeline->number, tick);
}

/* Returns whether a use was noted on the timeline since its last event. If so, a further call of
 * ferryi_timeline_sync_point() changes nothing. */
static inline bool
ferryi_timeline_is_noted(const ferryi_timeline *timeline)
{
    uint64_t tick = atomic_load_explicit(&timeline->tick, memory_order_acquire);
    return atomic_load_explicit(&timeline->used, memory_order_relaxed) > tick;
}

/* Returns whether the work that the sync point represents is known to be complete. */
static inline bool
ferryi_sync_point_is_done(const ferryi_order *order, ferryi_sync_point point)
{
    return point == 0 || atomic_load_explicit(&order->done[ferryi_sync_point_number(point)],
                                              memory_order_acquire) > ferryi_sync_point_tick(point);
}

/* Returns whether the sync point is on a timeline of streams that Ferry does not know. Only the
 * host can wait for such a sync point, by synchronizing the whole device. */
static inline bool
ferryi_sync_point_is_unknown(const ferryi_order *order, ferryi_sync_point point)
{
    return point && (atomic_load_explicit(&order->unknown_set, memory_order_acquire) >>
                         ferryi_sync_point_number(point) &
                     1);
}

/* Returns whether the sync point is on this numbered timeline, or whether this timeline is ordered
 * after it. */
static inline bool
ferryi_timeline_has_seen(const ferryi_timeline *timeline, ferryi_sync_point point)
{
    unsigned number = ferryi_sync_point_number(point);
    return atomic_load_explicit(&timeline->seen[number], memory_order_acquire) >
               ferryi_sync_point_tick(point) ||
           timeline->number == number;
}

/* Returns whether later work of `timeline` is known to be ordered after the sync point. If
 * `timeline` is NULL, returns this for later work of the host. Does not query the driver. */
static inline bool
ferryi_sync_point_is_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                             ferryi_sync_point point)
{
    /* `seen` is checked before `done`: after a write on a different stream, often only `seen` shows
     * that the work is ordered. */
    return (timeline && ferryi_timeline_is_numbered(timeline) &&
            ferryi_timeline_has_seen(timeline, point)) ||
           ferryi_sync_point_is_done(order, point);
}

/* Makes later work of `timeline` wait for the sync point. If `timeline` is NULL, blocks until the
 * sync point is complete. Makes no driver call if the timeline or the host is already ordered after
 * the sync point. */
ferry_status ferryi_sync_point_wait(ferryi_order *order, ferryi_timeline *timeline,
                                    ferryi_sync_point point);

/* The functions of timeline_set.c handle a set of timelines: bit n represents all uses of timeline
 * n that were noted so far. ferryi_timelines_are_ordered() returns whether later work of `timeline`
 * is known to be ordered after these uses. ferryi_timelines_wait() makes later work of `timeline`
 * wait for these uses. If `timeline` is NULL, the functions check, or wait, for the host. */
bool ferryi_timelines_are_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                                  uint64_t set);
ferry_status ferryi_timelines_wait(ferryi_order *order, ferryi_timeline *timeline, uint64_t set);

/* Blocks until all work that Ferry noted on the device's numbered timelines is complete. Also waits
 * for all other work on Ferry's streams and on the default stream. Waits for the whole device only
 * if unknown streams were used. No other thread may use the order during the call. */
ferry_status ferryi_timelines_wait_all(ferryi_order *order, const ferryi_device *device);

/* Returns one sync point that covers both `point` and the uses of the set of timelines. Returns 0
 * if all these uses are complete. If several uses are pending, a join timeline waits for all of
 * them. If joining fails, the host waits for them instead. If that wait fails as well, because the
 * device is lost, logs the failure and returns 0. */
ferryi_sync_point ferryi_sync_points_join(ferryi_order *order, ferryi_sync_point point,
                                          uint64_t set);

/* Records an event on a numbered timeline now, unless an earlier event already covers all noted
 * uses. Returns UNSUPPORTED if the stream is being captured. */
ferry_status ferryi_timeline_flush(ferryi_timeline *timeline);
/* Returns whether the sync point is complete, without blocking. Queries the driver if Ferry does
 * not know the answer. If the sync point is complete, enters the event that covers it in `done` of
 * the order. Returns false if the driver cannot answer, for example for streams that Ferry does not
 * know. */
bool ferryi_sync_point_query(ferryi_order *order, ferryi_sync_point point);

#endif
