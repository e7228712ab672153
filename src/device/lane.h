/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_LANE_H
#define FERRYI_LANE_H

/*
 * Lanes: the order of device work, known without asking the driver.
 *
 * A lane is a stream's identity in the order: a number 1..62, a tick that counts the events recorded on it, and
 * for every other lane how far this one is already ordered behind it (`seen`). A use of memory is remembered as a stamp
 * (number, tick): "used on that lane when its tick was so". Event number n of a lane covers every stamp with tick < n.
 * The tick rises before the driver call that records, so a stamp taken while an event is being recorded is covered only
 * by the next one.
 *
 *   ordered(lane, stamp) = same lane, or seen[number] > tick, or done[number] > tick
 *
 * is a few loads, and the whole of the hit path's question. A miss records or reuses an event, waits once, and raises
 * `seen` (a stream waited) or `done` (the host waited).
 *
 * Two sorts of streams have no number of their own: those beyond the 62nd, and CUDA's per-thread stream, which is
 * another stream in each thread. Their uses are joined, when noted, into the join lane of their place: an event is recorded on
 * them at once, and the join lane waits for it. They are never ordered without asking.
 *
 * Streams that Ferry does not know have one lane for each place together, made at the first need. It has no native stream and no
 * events: a stamp on it is done once a synchronization of the device that began later has ended. It counts as ordered after every
 * other lane of its device. Work on a stream that needs such a stamp makes the host wait.
 *
 * Numbers are never freed while a stamp could name work in flight: a destroyed stream's lane records a closing event
 * and its number is handed out again, on the same device, only after that event is done; the tick goes on rising, so old
 * stamps stay true.
 *
 * Locks: each lane has a mutex around its ring of events; it is held across event_record only. The order has a mutex
 * around the table of lanes. Both are leaves below everything but the device.
 */

#include <ferry/stream.h>

#include "src/base/interleave.h"
#include "src/device/device.h"

#define FERRYI_LANES 63 /* numbers 1..62; 0 means the host, or nothing */
#define FERRYI_LANE_EVENTS 16

/* A use on a lane: number in the low 8 bits, tick above. 0: no pending use. */
typedef uint64_t ferryi_stamp;

static inline ferryi_stamp
ferryi_stamp_make(unsigned number, uint64_t tick)
{
    return tick << 8 | number;
}

static inline unsigned
ferryi_stamp_number(ferryi_stamp stamp)
{
    return (unsigned)(stamp & 0xff);
}

static inline uint64_t
ferryi_stamp_tick(ferryi_stamp stamp)
{
    return stamp >> 8;
}

typedef struct ferryi_order ferryi_order;
typedef struct ferryi_lane ferryi_lane;

struct ferryi_lane_event {
    void *event;     /* the driver's; created at first use of the slot */
    uint64_t number; /* 0: never recorded */
};

FERRYI_MUTEX_CLASS(ferryi_lane_mutex);
FERRYI_MUTEX_CLASS(ferryi_order_mutex);
FERRYI_MUTEX_CLASS(ferryi_join_mutex);

struct ferryi_lane {
    _Atomic uint64_t tick;               /* events recorded, or being recorded */
    _Atomic uint64_t used;               /* 1 + tick at the last noted use; 0: never used */
    uint64_t bit;                        /* of the number in sets of lanes; 0: it has none */
    unsigned number;                     /* 0: joins */
    int place;
    uint32_t place_bit;                  /* of the place in sets of places */
    _Atomic uint32_t generation;         /* rises each time the number is handed out */
    _Atomic uint32_t live_generation;    /* the same, until the lane is retired; then 0 */
    _Atomic uint64_t seen[FERRYI_LANES]; /* how far into each lane this one is ordered */
    ferryi_order *order;
    ferryi_device *device;
    void *native;                        /* NULL once retired (numbered lanes) */
    bool per_thread;                     /* CUDA's handle that means another stream in each thread */
    bool is_plain;                       /* numbered, and not by_thread */
    bool by_thread;                      /* uses by different threads are not in order: per_thread, and devices that run on the caller */
    atomic_bool internal;                /* the engine's own, and joins */
    bool is_unknown;                     /* of the streams that Ferry does not know: no native stream, no events */
    bool owned;                          /* retire destroys the native stream */
    _Atomic int holders;                 /* unnumbered lanes only: freed with the last */
    struct ferryi_lane_mutex mutex;      /* held also while it is retired */
    FERRYI_GUARDED_BY(ferryi_lane_mutex) struct {
        struct ferryi_lane_event ring[FERRYI_LANE_EVENTS];
        unsigned next;
    };
};

struct ferryi_order {
    _Atomic uint64_t done[FERRYI_LANES]; /* events of each lane known to have happened */
    ferryi_lane *lanes[FERRYI_LANES];    /* by number; NULL until first handed out */
    _Atomic(ferryi_lane *) joins[FERRYI_DEVICES_MAX + 1]; /* by place; made at first need */
    _Atomic(ferryi_lane *) unknown[FERRYI_DEVICES_MAX + 1]; /* by place: of the streams that Ferry does not know; made at first need */
    _Atomic uint64_t unknown_set;        /* their bits */
    struct ferryi_order_mutex mutex;
    struct ferryi_join_mutex join_mutex;        /* held while a join lane is opened: a second one would take another lane's number */
    FERRYI_GUARDED_BY(ferryi_order_mutex) int internal_reserve; /* numbers kept for internal lanes not opened yet: three a device */
    const struct ferryi_log *log;
};

ferry_status ferryi_order_init(ferryi_order *order, const struct ferryi_log *log);
/* Gives events and the lanes' own streams back; the devices are still open and idle. */
void ferryi_order_clear(ferryi_order *order);

/* A lane over a native stream. `native` NULL makes a stream, which retire destroys. */
ferry_status ferryi_lane_open(ferryi_order *order, ferryi_device *device, int place, void *native, bool internal, ferryi_lane **out);
/*
 * The lane of the place's streams that Ferry does not know. Makes no driver call. Fails with OUT_OF_MEMORY when there is no number left;
 * the caller then waits for the device.
 */
ferry_status ferryi_lane_of_unknown(ferryi_order *order, ferryi_device *device, int place, ferryi_lane **out);
/* The lane into which uses of the place's unnumbered streams, and of sets of lanes, are joined. Made at first need. */
ferry_status ferryi_lane_of_joins(ferryi_order *order, ferryi_device *device, int place, ferryi_lane **out);
/* Record the closing event and let the number go when it is done. Never fails; what goes wrong is logged. */
void ferryi_lane_retire(ferryi_lane *lane);
/* Keep an unnumbered lane's memory; numbered lanes live as long as the order. */
void ferryi_lane_hold(ferryi_lane *lane);
void ferryi_lane_let_go(ferryi_lane *lane);

/* Fails with UNSUPPORTED when the stream is being captured. */
ferry_status ferryi_lane_check_capture(ferryi_lane *lane);

/*
 * Stamp a use that was queued on the lane before this call. For numbered lanes it is two stores and cannot fail. For the
 * others it records and joins, with driver calls; `opened_by` is the thread that queued the work: when it is another thread's
 * per-thread stream, or when the driver fails, the whole device is waited for and the stamp is 0.
 */
ferry_status ferryi_lane_note(ferryi_lane *lane, uint64_t opened_by, ferryi_stamp *out);
/* As note, for a numbered lane that was retired, or handed out again, since `generation`: its closing event covers the use. */
ferryi_stamp ferryi_lane_stamp_since(ferryi_lane *lane, uint32_t generation);

static inline bool
ferryi_lane_is_numbered(const ferryi_lane *lane)
{
    return lane->number != 0;
}

static inline bool
ferryi_lane_is_retired(const ferryi_lane *lane)
{
    return atomic_load(&lane->live_generation) == 0;
}

/* The inline part of ferryi_lane_note, for numbered lanes that are not retired. */
static inline ferryi_stamp
ferryi_lane_stamp(ferryi_lane *lane)
{
    uint64_t tick = atomic_load_explicit(&lane->tick, memory_order_acquire);
    FERRYI_INTERLEAVE();
    /* It only rises: another thread may have stamped behind a later event meanwhile. */
    uint64_t used = atomic_load_explicit(&lane->used, memory_order_relaxed);
    while (used <= tick && !atomic_compare_exchange_weak_explicit(&lane->used, &used, tick + 1, memory_order_release, memory_order_relaxed))
        ;
    return ferryi_stamp_make(lane->number, tick);
}

/* True when ferryi_lane_stamp() would have nothing to do: the lane was used since its last event. */
static inline bool
ferryi_lane_is_stamped(const ferryi_lane *lane)
{
    uint64_t tick = atomic_load_explicit(&lane->tick, memory_order_acquire);
    return atomic_load_explicit(&lane->used, memory_order_relaxed) > tick;
}

/* True when the stamp's work is known to have happened. */
static inline bool
ferryi_stamp_is_done(const ferryi_order *order, ferryi_stamp stamp)
{
    return stamp == 0 || atomic_load_explicit(&order->done[ferryi_stamp_number(stamp)], memory_order_acquire) >
                             ferryi_stamp_tick(stamp);
}

/* True when only the host can wait for the stamp, by a synchronization of the whole device. */
static inline bool
ferryi_stamp_is_unknown(const ferryi_order *order, ferryi_stamp stamp)
{
    return stamp && (atomic_load_explicit(&order->unknown_set, memory_order_acquire) >> ferryi_stamp_number(stamp) & 1);
}

/* True when a numbered lane has seen the stamp, or is its own. */
static inline bool
ferryi_lane_has_seen(const ferryi_lane *lane, ferryi_stamp stamp)
{
    unsigned number = ferryi_stamp_number(stamp);
    return atomic_load_explicit(&lane->seen[number], memory_order_acquire) > ferryi_stamp_tick(stamp) || lane->number == number;
}

/* True when later work of `lane` (NULL: of the host) is ordered after the stamp, without asking the driver. */
static inline bool
ferryi_stamp_is_ordered(const ferryi_order *order, const ferryi_lane *lane, ferryi_stamp stamp)
{
    /* What a stream waited for is asked first: of what another stream wrote it often is all that is known. */
    return (lane && ferryi_lane_is_numbered(lane) && ferryi_lane_has_seen(lane, stamp)) || ferryi_stamp_is_done(order, stamp);
}

/* Make later work of `lane` (NULL: the host, blocking) wait for the stamp, with driver calls where it is not ordered yet. */
ferry_status ferryi_stamp_wait(ferryi_order *order, ferryi_lane *lane, ferryi_stamp stamp);

/* Sets of lanes (lane_set.c): bit n stands for every use of lane n noted so far. */
bool ferryi_lanes_are_ordered(const ferryi_order *order, const ferryi_lane *lane, uint64_t set);
ferry_status ferryi_lanes_wait(ferryi_order *order, ferryi_lane *lane, uint64_t set);

/* One stamp for a stamp and a set: where they are several, a join lane waits for all of them. 0 when all are done. On failure
 * waits on the host instead; when that fails too, logs and returns 0 (the device is lost). */
ferryi_stamp ferryi_stamps_join(ferryi_order *order, ferryi_stamp stamp, uint64_t set);

/* Record an event now, for all uses so far, if there is a use that none covers yet. UNSUPPORTED while being captured. */
ferry_status ferryi_lane_flush(ferryi_lane *lane);
/* Ask the driver, without blocking, whether the stamp is done; raises `done`. False also when the driver cannot say, as for unknown streams. */
bool ferryi_stamp_query(ferryi_order *order, ferryi_stamp stamp);

#endif
