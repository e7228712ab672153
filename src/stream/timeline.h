/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TIMELINE_H
#define FERRYI_TIMELINE_H

/*
 * Timelines record the order of device work, so that Ferry knows this order without querying the
 * driver.
 *
 * A timeline represents one stream. It has a number from 1 to 62 and a tick, which counts the
 * events recorded on the stream. Its array `seen` stores, for every other timeline, the newest
 * event after which this timeline is ordered. A use of memory by queued work is stored as a sync
 * point: the timeline's number, and its tick at the time of the use. Event number n of a timeline
 * covers every sync point of this timeline with tick < n. The tick is raised before the driver call
 * that records the event. So a sync point that is taken during this call is covered only by the
 * next event. The array `done` of struct ferryi_order stores, for every timeline, the newest event
 * that is known to be complete. A timeline is ordered after a sync point if this test is true:
 *
 *     sync point is on the same timeline, or seen[number] > tick, or done[number] > tick
 *
 * This test takes a few loads, and a use that is already ordered needs no driver call. If the
 * result is false, the stream or the host waits once for an event. If no event covers the sync
 * point yet, one is recorded first. Then the number of this event is stored in `seen` if a stream
 * waits, or in `done` if the host has waited. The events in the array `seen` of the event's own
 * timeline are stored as well.
 *
 * Three kinds of streams have no number: those beyond the 62nd, those of green contexts, and CUDA's
 * per-thread stream, whose handle means a different stream in each thread. Their uses are joined
 * into a special timeline of their place, the join timeline: an event is recorded on the stream at
 * once, and the join timeline waits for this event. So ordering these uses always takes driver
 * calls. The host does not wait instead, because closing a scope must not block. The per-thread
 * stream does not have one number for each thread, because only the thread itself can record an
 * event on its stream. In addition, there may be more threads than numbers.
 *
 * All streams of a place that Ferry does not know share one timeline, which is created when it is
 * first needed. It has no native stream and no events. A sync point on it is complete when a later
 * synchronization of the device has ended. This timeline counts as ordered after every other
 * timeline of its device. If work on a stream depends on such a sync point, the host waits for the
 * sync point.
 *
 * A number is not reused while a sync point could refer to work in flight. When a stream is
 * destroyed, a last event, the closing event, is recorded on its timeline. The number is reused
 * only after the closing event is complete, and only on the same device. The tick continues to
 * rise, so old sync points stay valid. A timeline without a number can be reused as soon as its
 * stream is destroyed, because its work has been joined by then. The generation of a timeline rises
 * with each reuse. All timelines live as long as the struct ferryi_order that contains them.
 *
 * The owner of a guest, which is the stream of another library, may destroy the native stream
 * without notice. timeline_end.c says how such a timeline ends, and how a timeline ends whose
 * stream is being captured.
 *
 * Locks: each timeline has a mutex for its ring of events. Driver calls on the timeline's own
 * stream and events may happen under this mutex, for example event_record. Struct ferryi_order has
 * a mutex for the table of timelines. While a thread holds one of these mutexes, it takes only
 * locks of the device.
 */

#include <ferry/stream.h>

#include "src/base/interleave.h"
#include "src/device/device.h"

#define FERRYI_TIMELINES       63 /* timeline numbers: 1 to 62; 0 means the host or no timeline */
#define FERRYI_TIMELINE_EVENTS 16

/* A sync point represents a use of memory by work on a stream. The low 8 bits are the number of the
 * stream's timeline. The other bits are the timeline's tick (its event count) at the time of the
 * use. The value 0 means that no use is pending. */
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
    /* copy of the timeline's array `seen` when the event was recorded; a stream that waits for this
     * event is also ordered after all events in the copy */
    uint64_t seen[FERRYI_TIMELINES];
};

FERRYI_MUTEX_CLASS(ferryi_timeline_mutex);
FERRYI_MUTEX_CLASS(ferryi_order_mutex);
FERRYI_MUTEX_CLASS(ferryi_join_mutex);

/* The graph that is being recorded from a stream; src/buffer/recording.h has the rest. */
struct ferryi_recording_head {
    const char *name; /* of the graph, for messages */
};

struct ferryi_timeline {
    _Atomic uint64_t tick; /* number of events recorded or being recorded */
    /* 1 + the value of `tick` when a use of memory was last noted; 0 if no use was noted yet */
    _Atomic uint64_t used;
    /* number that ferryi_timeline_synchronize() gave to the stream's last synchronization, in the
     * count of events */
    _Atomic uint64_t synchronized;
    uint64_t bit;    /* the bit that represents the timeline in sets of timelines; 0 if the timeline
                        has no number */
    unsigned number; /* 0: the timeline has no number, so its uses are joined into a join
                        timeline */
    int place;
    /* The graph that ferry_graph_begin() records from the stream, or NULL. */
    _Atomic(struct ferryi_recording_head *) recording;
    uint32_t place_bit;          /* the bit that represents the place in sets of places */
    _Atomic uint32_t generation; /* increased each time the timeline is reused */
    /* equal to `generation` while the timeline's stream exists; 0 after the stream was destroyed */
    _Atomic uint32_t live_generation;
    /* indexed by the number of another timeline: number of its newest event after which this
     * timeline is ordered */
    _Atomic uint64_t seen[FERRYI_TIMELINES];
    ferryi_order *order;
    ferryi_device *device;
    void *native; /* NULL for HIP's default stream, after the timeline was retired, and for unknown
                     streams */
    /* the driver's handle of the green context of the stream, in which its events are made; NULL
     * for all other streams. A timeline with a green context has no number. Its events are
     * destroyed when it is retired, because the program may then destroy the green context. */
    void *scope;
    bool per_thread; /* whether the stream is CUDA's per-thread stream, which is a different stream
                        in each thread */
    bool is_plain;   /* whether the timeline has a number and `by_thread` is false */
    bool by_thread;  /* whether work that different threads queue on the stream is unordered; true
                        for CUDA's per-thread stream, and for devices that run work in the calling
                        thread */
    atomic_bool internal; /* whether checks for graph capture are skipped; true for the timelines of
                             Ferry's transfers, of joins, of uploads and of unknown streams */
    bool is_unknown; /* whether the timeline represents the streams that Ferry does not know; it
                        then has no native stream and no events */
    bool owned;      /* whether the native stream is destroyed when the timeline is retired */
    /* whether the native stream may be destroyed without notice, so that its id is compared with
     * `native_id` before each use */
    atomic_bool is_guest;
    /* whether the stream's ferry_stream was destroyed while the stream was captured */
    atomic_bool is_ending;
    uint64_t native_id; /* the driver's id of the native stream; set before `is_guest` */
    /* The last generation that ended without a closing event; 0 if there was none. */
    _Atomic uint32_t lost_generation;
    /* timeline of the uploads that Ferry queues on this stream of the program; NULL until
     * ferryi_timeline_of_uploads() creates it */
    _Atomic(ferryi_timeline *) uploads;
    ferryi_timeline *next_unnumbered;   /* next timeline in the list order->unnumbered */
    struct ferryi_timeline_mutex mutex; /* held also while the timeline is retired */
    FERRYI_GUARDED_BY(ferryi_timeline_mutex) struct {
        struct ferryi_timeline_event ring[FERRYI_TIMELINE_EVENTS];
        unsigned next;
    };
};

struct ferryi_order {
    _Atomic uint64_t done[FERRYI_TIMELINES]; /* indexed by timeline number: number of the timeline's
                                                newest event that is known to be complete */
    ferryi_timeline *timelines[FERRYI_TIMELINES]; /* by number; NULL if the number was never used */
    /* indexed by place: the join timeline of the place; NULL until it is first needed */
    _Atomic(ferryi_timeline *) joins[FERRYI_DEVICES_MAX + 1];
    /* indexed by place: timeline of all streams that Ferry does not know; NULL until it is first
     * needed */
    _Atomic(ferryi_timeline *) unknown[FERRYI_DEVICES_MAX + 1];
    _Atomic uint64_t unknown_set; /* bits of the timelines in `unknown` */
    FERRYI_GUARDED_BY(ferryi_order_mutex)
    ferryi_timeline *unnumbered; /* list of the timelines without a number */
    struct ferryi_order_mutex mutex;
    /* held while a join timeline is opened, so that no place gets two join timelines */
    struct ferryi_join_mutex join_mutex;
    /* Number of unused timeline numbers that are reserved for internal timelines; each device
     * opens three internal timelines. */
    FERRYI_GUARDED_BY(ferryi_order_mutex) int internal_reserve;
    atomic_int ending; /* number of timelines whose member `is_ending` is true */
    const struct ferryi_log *log;
};

ferry_status ferryi_order_init(ferryi_order *order, const struct ferryi_log *log);
/* Destroys all timelines of `order`, their events, and the native streams that Ferry created for
 * them. The devices must still be open and idle. */
void ferryi_order_clear(ferryi_order *order);

/* A native stream that exists. */
struct ferryi_native {
    void *stream; /* handle of the stream; NULL is the handle of HIP's default stream */
    void *scope;  /* the driver's handle of the green context of the stream, or NULL */
};

/* Opens a timeline for a native stream. If `native` is NULL, creates a native stream, which
 * ferryi_timeline_retire() or ferryi_order_clear() destroys. */
ferry_status ferryi_timeline_open(ferryi_order *order, ferryi_device *device, int place,
                                  const struct ferryi_native *native, bool internal,
                                  ferryi_timeline **out);
/* Opens one more internal timeline and its stream. Fails with OUT_OF_MEMORY if no number is left
 * except those that are reserved for the timelines that every device must have. */
ferry_status ferryi_timeline_open_spare(ferryi_order *order, ferryi_device *device, int place,
                                        ferryi_timeline **out);
/* Create and record an event for the timeline's stream. */
ferry_status ferryi_timeline_create_event(ferryi_timeline *timeline, bool timed, void **out);
ferry_status ferryi_timeline_record(ferryi_timeline *timeline, void *event);
/*
 * Sets `*out` to the timeline that represents all streams of the place that Ferry does not know.
 * Makes no driver call. Fails with OUT_OF_MEMORY if memory or timeline numbers run out. The caller
 * must then synchronize the device instead.
 */
ferry_status ferryi_timeline_of_unknown(ferryi_order *order, ferryi_device *device, int place,
                                        ferryi_timeline **out);
/* Sets `*out` to the join timeline of the place, and creates this timeline if it does not exist
 * yet. A join timeline waits for several uses of memory, so that one sync point on the join
 * timeline covers them all. These are uses on several timelines, or uses on streams whose timeline
 * has no number. */
ferry_status ferryi_timeline_of_joins(ferryi_order *order, ferryi_device *device, int place,
                                      ferryi_timeline **out);
/*
 * Sets `*out` to a separate timeline for the uploads that Ferry queues on a stream of the program.
 * The stream's own timeline must have a number. Both timelines have the same native stream, but
 * different numbers and different events. So a wait for an upload does not include work that was
 * queued on the stream later. The caller must call ferryi_timeline_record_upload() after each sync
 * point on the timeline of uploads. Returns false if too few numbers are left or memory runs out.
 */
bool ferryi_timeline_of_uploads(ferryi_timeline *timeline, ferryi_timeline **out);
/* Records an event after an upload on the timeline of a stream's uploads. If recording fails, waits
 * for the upload instead. */
void ferryi_timeline_record_upload(ferryi_timeline *uploads);

/* -- timeline_end.c ---------------------------------------------------------------------------- */

/* Closes the timeline of a stream that is being destroyed, so that the timeline can be reused
 * later. If the timeline has a number, records a last event, the closing event. If the timeline has
 * no number, makes the join timeline of the place wait for its work. If the stream is being
 * captured, a later call does so (ferryi_order_retire_ending()). Failures are logged. */
void ferryi_timeline_retire(ferryi_timeline *timeline);
/* Retires the timelines whose streams were captured when ferryi_timeline_retire() was called, and
 * are not captured any more. */
void ferryi_order_retire_ending(ferryi_order *order);
/* Returns a timeline of the native stream that waits for the end of a capture to be retired. The
 * timeline is then in use again. Returns NULL if there is none. */
ferryi_timeline *ferryi_order_adopt(ferryi_order *order, const ferryi_device *device,
                                    const void *native);
/* Marks the timeline as a guest: its native stream exists now, but may be destroyed without notice.
 * Streams that cannot be destroyed so are not marked. Fails if the driver has no ids of streams. */
ferry_status ferryi_timeline_make_guest(ferryi_timeline *timeline);
/* Returns whether the timeline is retired. Retires a guest whose native stream was destroyed. */
bool ferryi_timeline_is_gone(ferryi_timeline *timeline);

/* Begin and end the recording of a graph from the stream of a timeline. */
void ferryi_timeline_set_recording(ferryi_timeline *timeline,
                                   struct ferryi_recording_head *recording);
/* Returns the graph that is being recorded from the timeline's stream, or NULL. */
static inline struct ferryi_recording_head *
ferryi_timeline_recording(const ferryi_timeline *timeline)
{
    return atomic_load_explicit(&timeline->recording, memory_order_acquire);
}
/* Returns the failure of a call that cannot be recorded. */
ferry_status ferryi_timeline_refuse_recording(const ferryi_timeline *timeline);

/* Fails with UNSUPPORTED if the timeline's stream is being captured. Ferry's internal streams are
 * not checked, because a program cannot capture them. If the native stream of a guest was
 * destroyed, retires the timeline and returns FERRY_OK. */
ferry_status ferryi_timeline_check_capture(ferryi_timeline *timeline);
/* Returns whether the timeline's stream is being captured. Returns false if the driver cannot tell.
 */
bool ferryi_timeline_is_captured(ferryi_timeline *timeline);
/* Visits every timeline: first those with numbers, in their order, then the others. `last` is the
 * one that was visited last, or NULL. Returns NULL at the end. Other threads may open timelines. */
ferryi_timeline *ferryi_timeline_next(ferryi_order *order, const ferryi_timeline *last);
/* Returns whether any stream that Ferry knows is being captured. Asks the driver about each. */
bool ferryi_order_is_captured(ferryi_order *order);
/* Waits for all work of the device. Fails with UNSUPPORTED, and does not wait, if a stream of the
 * device that Ferry knows is being captured, because the wait would invalidate all captures. */
ferry_status ferryi_order_synchronize(ferryi_order *order, ferryi_device *device);
/* Makes the check of ferryi_timeline_check_capture() for the stream that the program passed to the
 * current public call. If this thread has a hold (base/hold.h), which groups several driver calls,
 * the function queries the driver only once until the hold ends. */
ferry_status ferryi_timeline_check_own(ferryi_timeline *timeline);

/* -- for timeline_end.c only ------------------------------------------------------------------- */

/* Records an event in the next slot of the timeline's ring of events. Raises the timeline's event
 * counter `tick` before the driver call. So the event does not count as covering work that other
 * threads note during the call. */
FERRYI_REQUIRES(ferryi_timeline_mutex)
ferry_status ferryi_timeline_record_event(ferryi_timeline *timeline,
                                          struct ferryi_timeline_event **out);
/* Marks the timeline as retired. Its closing event, or the join timeline, covers its work. */
FERRYI_REQUIRES(ferryi_timeline_mutex) void ferryi_timeline_close(ferryi_timeline *timeline);
/* Destroys the events of the timeline. No other thread may use them. */
FERRYI_REQUIRES(ferryi_timeline_mutex)
void ferryi_timeline_drop_events(ferryi_timeline *timeline);
/* Destroys the native stream if Ferry has created it. */
void ferryi_timeline_destroy_native(ferryi_timeline *timeline);
/* Blocks until the timeline's stream is idle. Called if an event could not be recorded, or if
 * another stream could not be made to wait for this stream. All work that was queued before the
 * call then counts as complete. This is so even if the wait fails, because the device is lost in
 * that case. */
void ferryi_timeline_settle(ferryi_timeline *timeline, const char *what);
/* Makes the join timeline of the place wait for all work that is queued on `timeline`, which has no
 * number. One sync point on the join timeline then covers this work. */
ferry_status ferryi_timeline_join_queued(ferryi_timeline *timeline);

/* -- sync points ------------------------------------------------------------------------------- */

/* Checks whether a recorded event covers the sync point and is complete. If so, stores the event's
 * number in the array `done` of `order`. Never records an event. */
void ferryi_sync_point_poll(ferryi_order *order, ferryi_sync_point point);

/* Waits until all work that was queued on the timeline before this call is complete. */
ferry_status ferryi_timeline_synchronize(ferryi_timeline *timeline);

/*
 * Finds a timeline with a number, on which a use of memory can be noted. The use was queued on
 * `timeline` before this call, while `timeline` had the generation `generation`. `opened_by` is the
 * thread that queued the use.
 *
 * If `timeline` has a number, sets `*out` to `timeline` and makes no driver call. If `timeline` has
 * no number, records an event, makes the join timeline of the place wait for the event, and sets
 * `*out` to the join timeline. Sets `*out` to NULL if the use is complete. This is so if the
 * timeline was reused, or if this call has waited for the use. The call waits for the whole device
 * if the use is on CUDA's per-thread stream of a different thread. The call waits for the stream if
 * the driver fails.
 * @return FERRY_OK; FERRY_ERROR_UNSUPPORTED (the stream is being captured, so nothing was noted);
 * the driver's failure
 */
ferry_status ferryi_timeline_join(ferryi_timeline *timeline, uint64_t opened_by,
                                  uint32_t generation, ferryi_timeline **out);
/* Notes a use of memory that was queued on `timeline` before this call. Works like
 * ferryi_timeline_join() for the present generation of the timeline. Sets `*out` to a sync point of
 * the use, or to 0 if the use is complete. */
ferry_status ferryi_timeline_note(ferryi_timeline *timeline, uint64_t opened_by,
                                  ferryi_sync_point *out);
/* Returns a sync point for a use of memory that was queued on `timeline` while the timeline had the
 * generation `generation`. The timeline must have a number. If its stream was destroyed in the
 * meantime, the closing event covers the use. If the timeline was reused in the meantime, the use
 * is complete, and the function returns 0. */
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

/* Returns whether the given generation of the timeline, or a later one, ended without a closing
 * event. The uses of the given generation are then treated like those of unknown streams. */
static inline bool
ferryi_timeline_lost(const ferryi_timeline *timeline, uint32_t generation)
{
    return generation <= atomic_load(&timeline->lost_generation) &&
           !(atomic_load(&timeline->live_generation) == generation);
}

/* Returns whether the timeline is retired, and has no closing event. */
static inline bool
ferryi_timeline_is_lost(const ferryi_timeline *timeline)
{
    return ferryi_timeline_is_retired(timeline) &&
           atomic_load(&timeline->lost_generation) == atomic_load(&timeline->generation);
}

/* Returns a sync point for a use of memory that was queued on the timeline before this call. The
 * timeline must have a number, and its stream must not be destroyed. */
static inline ferryi_sync_point
ferryi_timeline_sync_point(ferryi_timeline *timeline)
{
    uint64_t tick = atomic_load_explicit(&timeline->tick, memory_order_acquire);
    FERRYI_INTERLEAVE();
    /* The loop never lowers timeline->used, because a different thread may have noted a use with a
     * higher tick since `tick` was read. */
    uint64_t used = atomic_load_explicit(&timeline->used, memory_order_relaxed);
    while (used <= tick &&
           !atomic_compare_exchange_weak_explicit(&timeline->used, &used, tick + 1,
                                                  memory_order_release, memory_order_relaxed))
        ;
    return ferryi_sync_point_make(timeline->number, tick);
}

/* If a use of memory was noted on the timeline since the timeline's last event, sets `*out` to the
 * result of ferryi_timeline_sync_point(), which would change nothing. Otherwise returns false. */
FERRYI_INLINE bool
ferryi_timeline_noted_point(const ferryi_timeline *timeline, ferryi_sync_point *out)
{
    uint64_t tick = atomic_load_explicit(&timeline->tick, memory_order_acquire);
    if (atomic_load_explicit(&timeline->used, memory_order_relaxed) <= tick)
        return false;
    *out = ferryi_sync_point_make(timeline->number, tick);
    return true;
}

/* Returns whether the work that the sync point represents is known to be complete. */
static inline bool
ferryi_sync_point_is_done(const ferryi_order *order, ferryi_sync_point point)
{
    return point == 0 || atomic_load_explicit(&order->done[ferryi_sync_point_number(point)],
                                              memory_order_acquire) > ferryi_sync_point_tick(point);
}

/* Returns whether the sync point is on a timeline of streams that Ferry does not know, or on a lost
 * timeline. Only the host can wait for such a sync point, by synchronizing the whole device. */
static inline bool
ferryi_sync_point_is_unknown(const ferryi_order *order, ferryi_sync_point point)
{
    unsigned number = ferryi_sync_point_number(point);
    return point &&
           ((atomic_load_explicit(&order->unknown_set, memory_order_acquire) >> number & 1) ||
            ferryi_timeline_is_lost(order->timelines[number]));
}

/* Returns whether later work on `timeline`, which must have a number, is ordered after the sync
 * point. This is so if the sync point is on this timeline, or if this timeline has waited for it.
 */
static inline bool
ferryi_timeline_has_seen(const ferryi_timeline *timeline, ferryi_sync_point point)
{
    unsigned number = ferryi_sync_point_number(point);
    return timeline->number == number ||
           atomic_load_explicit(&timeline->seen[number], memory_order_acquire) >
               ferryi_sync_point_tick(point);
}

/* Returns whether later work on `timeline` is known to be ordered after the sync point. If
 * `timeline` is NULL, checks later work of the host instead. Does not query the driver. */
static inline bool
ferryi_sync_point_is_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                             ferryi_sync_point point)
{
    /* The array `seen` is checked before the array `done`. After a write on a different stream,
     * often only `seen` shows that the work is ordered. */
    return (timeline && ferryi_timeline_is_numbered(timeline) &&
            ferryi_timeline_has_seen(timeline, point)) ||
           ferryi_sync_point_is_done(order, point);
}

/* Makes later work of `timeline` wait for the sync point. If `timeline` is NULL, blocks until the
 * sync point is complete. Makes no driver call if the timeline or the host is already ordered after
 * the sync point. */
ferry_status ferryi_sync_point_wait(ferryi_order *order, ferryi_timeline *timeline,
                                    ferryi_sync_point point);
/* Makes the host wait for the sync point by synchronizing the device, which needs neither an event
 * nor memory. For a caller that must not give up when ferryi_sync_point_wait() fails. */
ferry_status ferryi_sync_point_wait_for_device(ferryi_order *order, ferryi_sync_point point);

/* The functions of timeline_set.c take a set of timelines. Bit n of the set represents all uses of
 * memory that were noted on timeline n so far. ferryi_timelines_are_ordered() returns whether later
 * work on `timeline` is known to be ordered after these uses. ferryi_timelines_wait() makes later
 * work on `timeline` wait for these uses. If `timeline` is NULL, both functions apply to the host
 * instead. */
bool ferryi_timelines_are_ordered(const ferryi_order *order, const ferryi_timeline *timeline,
                                  uint64_t set);
ferry_status ferryi_timelines_wait(ferryi_order *order, ferryi_timeline *timeline, uint64_t set);

/* Blocks until all work that Ferry noted on the device's numbered timelines is complete. Also waits
 * for all other work on the streams that Ferry created and on the default stream. Synchronizes the
 * whole device only if streams that Ferry does not know were used. No other thread may use `order`
 * during the call. */
ferry_status ferryi_timelines_wait_all(ferryi_order *order, const ferryi_device *device);

/* Returns one sync point that covers both `point` and all uses of memory on the timelines of `set`.
 * Returns 0 if all these uses are complete. If several uses are pending, makes a join timeline wait
 * for all of them. If this fails, the host waits for the uses instead. If the host's wait fails as
 * well, because the device is lost, logs the failure and returns 0. */
ferryi_sync_point ferryi_sync_points_join(ferryi_order *order, ferryi_sync_point point,
                                          uint64_t set);

/* Records an event on the timeline now, unless an existing event already covers all uses that were
 * noted. Does nothing if the timeline has no number. Returns UNSUPPORTED if the stream is being
 * captured. */
ferry_status ferryi_timeline_flush(ferryi_timeline *timeline);
/* Returns whether the sync point is complete, without blocking. Queries the driver if Ferry does
 * not know the answer. If the sync point is complete, stores the number of an event that covers the
 * sync point in the array `done` of `order`. Returns false if the driver cannot answer, for example
 * for streams that Ferry does not know. */
bool ferryi_sync_point_query(ferryi_order *order, ferryi_sync_point point);

#endif
