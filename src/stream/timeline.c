/* SPDX-License-Identifier: MIT */
#include "src/stream/timeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hold.h"

static void
raise_to(_Atomic uint64_t *value, uint64_t floor)
{
    uint64_t now = atomic_load_explicit(value, memory_order_relaxed);
    while (now < floor && !atomic_compare_exchange_weak_explicit(
                              value, &now, floor, memory_order_release, memory_order_relaxed))
        ;
}

/* -- the order --------------------------------------------------------------------------------- */

ferry_status
ferryi_order_init(ferryi_order *order, const struct ferryi_log *log)
{
    memset(order, 0, sizeof(*order));
    order->log = log;
    ferryi_mutex_is_needless(&order->mutex);
    order->internal_reserve = 3;
    ferryi_mutex_init(&order->mutex);
    ferryi_mutex_init(&order->join_mutex);
    return FERRY_OK;
}

void
ferryi_timeline_drop_events(ferryi_timeline *timeline)
{
    for (size_t i = 0; i < FERRYI_TIMELINE_EVENTS; i++) {
        if (timeline->ring[i].event &&
            FERRYI_CALL(timeline->device, event_destroy, timeline->ring[i].event) != FERRY_OK)
            ferryi_log(timeline->order->log, FERRY_LOG_WARNING, "%s", ferry_last_error());
        timeline->ring[i] = (struct ferryi_timeline_event){0};
    }
}

static void
timeline_free(ferryi_timeline *timeline)
{
    ferryi_mutex_is_needless(&timeline->mutex);
    ferryi_timeline_drop_events(timeline);
    ferryi_mutex_destroy(&timeline->mutex);
    free(timeline);
}

void
ferryi_timeline_destroy_native(ferryi_timeline *timeline)
{
    if (timeline->owned &&
        FERRYI_CALL(timeline->device, stream_destroy, timeline->native) != FERRY_OK)
        ferryi_log(timeline->order->log, FERRY_LOG_WARNING, "%s", ferry_last_error());
    timeline->native = NULL;
    timeline->owned = false;
}

void
ferryi_order_clear(ferryi_order *order)
{
    for (unsigned number = 0; number < FERRYI_TIMELINES; number++) {
        ferryi_timeline *timeline = order->timelines[number];
        if (!timeline)
            continue;
        ferryi_timeline_destroy_native(timeline);
        timeline_free(timeline);
        order->timelines[number] = NULL;
    }
    ferryi_mutex_is_needless(&order->mutex);
    while (order->unnumbered) {
        ferryi_timeline *timeline = order->unnumbered;
        order->unnumbered = timeline->next_unnumbered;
        ferryi_timeline_destroy_native(timeline);
        timeline_free(timeline);
    }
    for (int place = 0; place <= FERRYI_DEVICES_MAX; place++)
        atomic_store(&order->unknown[place], NULL);
    atomic_store(&order->unknown_set, 0);
    ferryi_mutex_destroy(&order->join_mutex);
    ferryi_mutex_destroy(&order->mutex);
}

/* -- opening and retiring ---------------------------------------------------------------------- */

FERRYI_REQUIRES(ferryi_timeline_mutex)
static struct ferryi_timeline_event *
newest_event(ferryi_timeline *timeline)
{
    struct ferryi_timeline_event *newest = NULL;
    for (size_t i = 0; i < FERRYI_TIMELINE_EVENTS; i++)
        if (timeline->ring[i].number != 0 && (!newest || timeline->ring[i].number > newest->number))
            newest = &timeline->ring[i];
    return newest;
}

/* Returns whether a new stream may reuse the number of `timeline`. This is so if the timeline's
 * stream was destroyed, and the last event on that stream, the closing event, is complete. */
FERRYI_REQUIRES(ferryi_order_mutex)
static bool
is_free(ferryi_order *order, ferryi_timeline *timeline)
{
    if (!timeline)
        return true;
    if (!ferryi_timeline_is_retired(timeline))
        return false;
    /* A lost timeline has no closing event, so an event must cover its last noted use. */
    uint64_t tick = ferryi_timeline_is_lost(timeline) ? atomic_load(&timeline->used)
                                                      : atomic_load(&timeline->tick);
    if (atomic_load(&order->done[timeline->number]) >= tick)
        return true;
    ferryi_mutex_lock(&timeline->mutex);
    const struct ferryi_timeline_event *newest = newest_event(timeline);
    void *event = newest && (newest->number >= tick || !ferryi_timeline_is_lost(timeline))
                      ? newest->event
                      : NULL;
    ferryi_mutex_unlock(&timeline->mutex);
    bool done = false;
    if (!event || FERRYI_CALL(timeline->device, event_query, event, &done) != FERRY_OK || !done)
        return false;
    raise_to(&order->done[timeline->number], tick);
    return true;
}

/* Returns the lowest timeline number that was never used. Returns 0 if fewer than `wanted` unused
 * numbers are left. */
FERRYI_REQUIRES(ferryi_order_mutex)
static unsigned
find_new_number(const ferryi_order *order, int wanted)
{
    unsigned lowest = 0;
    int left = 0;
    for (unsigned number = FERRYI_TIMELINES - 1; number > 0; number--)
        if (!order->timelines[number]) {
            lowest = number;
            left++;
        }
    return left >= wanted ? lowest : 0;
}

/*
 * Returns a number for a new timeline of the device, or 0 if no number is available. Prefers a
 * number that a destroyed stream of this device used. The function never returns a number that
 * another device used, because other threads may be about to wait for the last event of the old
 * timeline. Unless `internal` is true, the function leaves some unused numbers for internal
 * timelines that are opened later.
 */
FERRYI_REQUIRES(ferryi_order_mutex)
static unsigned
find_number(ferryi_order *order, const ferryi_device *device, bool internal)
{
    for (unsigned number = 1; number < FERRYI_TIMELINES; number++) {
        ferryi_timeline *timeline = order->timelines[number];
        if (timeline && timeline->device == device && is_free(order, timeline))
            return number;
    }
    return find_new_number(order, internal ? 1 : order->internal_reserve + 1);
}

/* Creates a timeline and adds it to `order`. ferryi_order_clear() frees the timeline. */
FERRYI_REQUIRES(ferryi_order_mutex)
static ferryi_timeline *
timeline_new(ferryi_order *order, ferryi_device *device, int place, unsigned number,
             bool per_thread)
{
    ferryi_timeline *timeline = calloc(1, sizeof(*timeline));
    if (!timeline)
        return NULL;
    timeline->order = order;
    timeline->device = device;
    timeline->place = place;
    timeline->number = number;
    timeline->bit = number ? UINT64_C(1) << number : 0;
    timeline->place_bit = UINT32_C(1) << place;
    timeline->per_thread = per_thread;
    timeline->by_thread = per_thread || (device->capabilities & FERRYI_DEVICE_COHERENT);
    timeline->is_plain = number && !timeline->by_thread;
    ferryi_mutex_init(&timeline->mutex);
    if (number) {
        order->timelines[number] = timeline;
    } else {
        timeline->next_unnumbered = order->unnumbered;
        order->unnumbered = timeline;
    }
    return timeline;
}

/* Returns a timeline of the device that can be reused: it has no number, and its stream was
 * destroyed. Returns NULL if there is no such timeline. */
FERRYI_REQUIRES(ferryi_order_mutex)
static ferryi_timeline *
find_unnumbered(const ferryi_order *order, const ferryi_device *device, bool per_thread)
{
    ferryi_timeline *timeline = order->unnumbered;
    while (timeline && !(timeline->device == device && timeline->per_thread == per_thread &&
                         ferryi_timeline_is_retired(timeline)))
        timeline = timeline->next_unnumbered;
    return timeline;
}

/* Returns a reusable timeline, whose stream was destroyed, or else a new timeline. Returns NULL if
 * memory runs out. Also returns NULL if `internal` is true and no number is available, because an
 * internal timeline must have a number. */
FERRYI_REQUIRES(ferryi_order_mutex)
static ferryi_timeline *
find_timeline(ferryi_order *order, ferryi_device *device, int place, bool internal, bool spare,
              bool per_thread, bool has_scope)
{
    unsigned number = per_thread || has_scope ? 0 : find_number(order, device, internal && !spare);
    if (internal && !number)
        return NULL;
    ferryi_timeline *timeline =
        number ? order->timelines[number] : find_unnumbered(order, device, per_thread);
    return timeline ? timeline : timeline_new(order, device, place, number, per_thread);
}

/* Marks the device's timeline of unknown streams (streams that Ferry does not know), if it exists,
 * as ordered after the new timeline `timeline`. Ferry waits for unknown streams by synchronizing
 * the whole device, and this wait includes the work on the new timeline. */
FERRYI_REQUIRES(ferryi_order_mutex)
static void
order_unknown_after(ferryi_order *order, const ferryi_timeline *timeline)
{
    ferryi_timeline *unknown = atomic_load(&order->unknown[timeline->place]);
    if (unknown && unknown->device == timeline->device)
        atomic_store(&unknown->seen[timeline->number], UINT64_MAX);
}

/* Initialises a new or reused timeline. Other threads may still be reading a reused timeline during
 * this call. */
FERRYI_REQUIRES(ferryi_order_mutex)
static void
timeline_set_up(ferryi_timeline *timeline, void *native, bool internal, bool owned)
{
    for (size_t i = 0; i < FERRYI_TIMELINES; i++)
        atomic_store(&timeline->seen[i], 0);
    timeline->native = native;
    atomic_store(&timeline->internal, internal);
    timeline->owned = owned;
    atomic_store(&timeline->is_guest, false);
    /* A generation is never 0, because 0 in `live_generation` marks a retired timeline. */
    if (atomic_fetch_add(&timeline->generation, 1) == UINT32_MAX)
        atomic_store(&timeline->generation, 1);
    /* Skips one event number, so that the sync points of the new stream differ from those of the
     * destroyed stream that used this timeline. A timeline that has waited for the destroyed
     * stream's closing event must not count as ordered after work on the new stream. */
    raise_to(&timeline->order->done[timeline->number], atomic_fetch_add(&timeline->tick, 1) + 1);
    atomic_store(&timeline->live_generation, timeline->generation);
}

static ferry_status
open_native(ferryi_order *order, ferryi_device *device, int place,
            const struct ferryi_native *native, bool internal, bool spare, ferryi_timeline **out)
{
    void *stream = native ? native->stream : NULL;
    void *scope = native ? native->scope : NULL;
    bool per_thread = stream && stream == device->per_thread_stream;
    if (!native)
        FERRYI_OR_RETURN(FERRYI_CALL(device, stream_create, &stream));

    ferryi_mutex_lock(&order->mutex);
    ferryi_timeline *timeline =
        find_timeline(order, device, place, internal, spare, per_thread, scope);
    if (timeline) {
        /* A lost timeline may still have events of another context. */
        ferryi_mutex_is_needless(&timeline->mutex);
        if (timeline->scope)
            ferryi_timeline_drop_events(timeline);
        timeline->scope = scope;
        timeline_set_up(timeline, stream, internal, !native);
        if (ferryi_timeline_is_numbered(timeline))
            order_unknown_after(order, timeline);
        if (internal && !spare)
            order->internal_reserve--;
    }
    ferryi_mutex_unlock(&order->mutex);

    if (!timeline) {
        if (!native && FERRYI_CALL(device, stream_destroy, stream) != FERRY_OK)
            ferryi_log(order->log, FERRY_LOG_WARNING, "%s", ferry_last_error());
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "open a stream at place %d: no memory, or more than %d streams in use",
                           place, FERRYI_TIMELINES - 1);
    }
    *out = timeline;
    return FERRY_OK;
}

ferry_status
ferryi_timeline_open(ferryi_order *order, ferryi_device *device, int place,
                     const struct ferryi_native *native, bool internal, ferryi_timeline **out)
{
    return open_native(order, device, place, native, internal, false, out);
}

ferry_status
ferryi_timeline_open_spare(ferryi_order *order, ferryi_device *device, int place,
                           ferryi_timeline **out)
{
    return open_native(order, device, place, NULL, true, true, out);
}

ferry_status
ferryi_timeline_create_event(ferryi_timeline *timeline, bool timed, void **out)
{
    return timeline->scope
               ? FERRYI_CALL(timeline->device, event_create_in, timeline->scope, timed, out)
               : FERRYI_CALL(timeline->device, event_create, timed, out);
}

ferry_status
ferryi_timeline_record(ferryi_timeline *timeline, void *event)
{
    return timeline->scope ? FERRYI_CALL(timeline->device, event_record_in, timeline->scope, event,
                                         timeline->native)
                           : FERRYI_CALL(timeline->device, event_record, event, timeline->native);
}

/* Creates the timeline that represents all streams of a place that Ferry does not know. This
 * timeline has no native stream. It receives a number that no other timeline has ever used. */
FERRYI_REQUIRES(ferryi_order_mutex)
static ferryi_timeline *
unknown_new(ferryi_order *order, ferryi_device *device, int place)
{
    unsigned number = find_new_number(order, order->internal_reserve + 1);
    ferryi_timeline *timeline = number ? timeline_new(order, device, place, number, false) : NULL;
    if (!timeline)
        return NULL;
    timeline->is_unknown = true;
    timeline_set_up(timeline, NULL, true, false);
    atomic_fetch_or(&order->unknown_set, timeline->bit);
    for (unsigned each = 1; each < FERRYI_TIMELINES; each++)
        if (order->timelines[each] && order->timelines[each]->device == device)
            atomic_store(&timeline->seen[each], UINT64_MAX);
    atomic_store(&order->unknown[place], timeline);
    return timeline;
}

ferry_status
ferryi_timeline_of_unknown(ferryi_order *order, ferryi_device *device, int place,
                           ferryi_timeline **out)
{
    ferryi_timeline *timeline = atomic_load(&order->unknown[place]);
    if (!timeline) {
        ferryi_mutex_lock(&order->mutex);
        timeline = atomic_load(&order->unknown[place]);
        if (!timeline)
            timeline = unknown_new(order, device, place);
        ferryi_mutex_unlock(&order->mutex);
    }
    if (!timeline)
        return ferryi_fail(
            FERRY_ERROR_OUT_OF_MEMORY,
            "note work of unknown streams at place %d: no memory, or more than %d streams in use",
            place, FERRYI_TIMELINES - 1);
    *out = timeline;
    return FERRY_OK;
}

/* Copies the timeline's array `seen` for an event. The array states after which events of other
 * timelines this timeline is ordered. The copy must be made before the driver records the event, so
 * that the event covers all work that the copy states. */
static void
read_seen(const ferryi_timeline *timeline, uint64_t seen[FERRYI_TIMELINES])
{
    for (unsigned number = 1; number < FERRYI_TIMELINES; number++)
        seen[number] = atomic_load_explicit(&timeline->seen[number], memory_order_acquire);
}

static void
raise_all(_Atomic uint64_t values[FERRYI_TIMELINES], const uint64_t floors[FERRYI_TIMELINES])
{
    for (unsigned number = 1; number < FERRYI_TIMELINES; number++)
        raise_to(&values[number], floors[number]);
}

ferry_status
ferryi_timeline_record_event(ferryi_timeline *timeline, struct ferryi_timeline_event **out)
{
    struct ferryi_timeline_event *slot = &timeline->ring[timeline->next];
    if (!slot->event)
        FERRYI_OR_RETURN(ferryi_timeline_create_event(timeline, false, &slot->event));
    uint64_t number = atomic_fetch_add_explicit(&timeline->tick, 1, memory_order_acq_rel) + 1;
    slot->number = 0;
    read_seen(timeline, slot->seen);
    FERRYI_OR_RETURN(ferryi_timeline_record(timeline, slot->event));
    slot->number = number;
    timeline->next = (timeline->next + 1) % FERRYI_TIMELINE_EVENTS;
    *out = slot;
    return FERRY_OK;
}

void
ferryi_timeline_settle(ferryi_timeline *timeline, const char *what)
{
    ferryi_log(timeline->order->log, FERRY_LOG_WARNING, "%s: %s; waiting for the stream", what,
               ferry_last_error());
    if (ferryi_timeline_synchronize(timeline) == FERRY_OK)
        return;
    ferryi_log(timeline->order->log, FERRY_LOG_ERROR, "%s: %s", what, ferry_last_error());
    if (ferryi_timeline_is_numbered(timeline))
        raise_to(&timeline->order->done[timeline->number], atomic_load(&timeline->tick));
}

ferry_status
ferryi_timeline_of_joins(ferryi_order *order, ferryi_device *device, int place,
                         ferryi_timeline **out)
{
    ferry_status status = FERRY_OK;
    ferryi_timeline *join = atomic_load(&order->joins[place]);
    if (!join) {
        ferryi_mutex_lock(&order->join_mutex);
        join = atomic_load(&order->joins[place]);
        if (!join)
            status = ferryi_timeline_open(order, device, place, NULL, true, &join);
        if (status == FERRY_OK)
            atomic_store(&order->joins[place], join);
        ferryi_mutex_unlock(&order->join_mutex);
    }
    if (status == FERRY_OK)
        *out = join;
    return status;
}

/* Records an event on `timeline`, which has no number, and makes the stream of the timeline `join`
 * wait for the event. Does nothing if the stream of the given generation was destroyed, because the
 * stream's work was joined at that time. */
static ferry_status
note_joined(ferryi_timeline *timeline, const ferryi_timeline *join, uint32_t generation)
{
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&timeline->mutex);
    if (atomic_load(&timeline->live_generation) == generation) {
        struct ferryi_timeline_event *event;
        status = ferryi_timeline_record_event(timeline, &event);
        if (status == FERRY_OK)
            status = FERRYI_CALL(timeline->device, stream_wait, join->native, event->event);
    }
    ferryi_mutex_unlock(&timeline->mutex);
    return status;
}

ferry_status
ferryi_timeline_join_queued(ferryi_timeline *timeline)
{
    ferryi_timeline *join;
    ferry_status status =
        ferryi_timeline_of_joins(timeline->order, timeline->device, timeline->place, &join);
    return status == FERRY_OK ? note_joined(timeline, join, timeline->generation) : status;
}

bool
ferryi_timeline_of_uploads(ferryi_timeline *timeline, ferryi_timeline **out)
{
    *out = atomic_load(&timeline->uploads);
    if (*out)
        return true;
    const struct ferryi_native native = {.stream = timeline->native};
    ferryi_timeline *fresh, *none = NULL;
    /* A stream whose timeline number is in the upper half of the range gets no separate timeline
     * for uploads. So enough numbers remain for other streams. */
    if (timeline->number == 0 || timeline->number > FERRYI_TIMELINES / 2 ||
        ferryi_timeline_open(timeline->order, timeline->device, timeline->place, &native, false,
                             &fresh) != FERRY_OK)
        return false;
    /* Marks the timeline of uploads as internal, so that its stream is not checked for graph
     * capture. The check is not needed: the uploads use the program's stream, and the caller has
     * already checked that stream. */
    atomic_store(&fresh->internal, true);
    if (fresh->number > 0 && atomic_compare_exchange_strong(&timeline->uploads, &none, fresh)) {
        *out = fresh;
        return true;
    }
    ferryi_timeline_retire(fresh);
    *out = none;
    return none;
}

void
ferryi_timeline_record_upload(ferryi_timeline *uploads)
{
    if (ferryi_timeline_flush(uploads) != FERRY_OK)
        ferryi_timeline_settle(uploads, "record an upload");
}

/* -- sync points ------------------------------------------------------------------------------- */

/* Returns the oldest event in the timeline's ring whose number is greater than `tick`. Such an
 * event covers all work that was noted at `tick`. Returns NULL if there is no such event. */
FERRYI_REQUIRES(ferryi_timeline_mutex)
static struct ferryi_timeline_event *
find_event(ferryi_timeline *timeline, uint64_t tick)
{
    struct ferryi_timeline_event *found = NULL;
    for (size_t i = 0; i < FERRYI_TIMELINE_EVENTS; i++) {
        struct ferryi_timeline_event *slot = &timeline->ring[i];
        if (slot->number > tick && (!found || slot->number < found->number))
            found = slot;
    }
    return found;
}

/* Sets `*out` to the oldest event of the timeline that covers work noted at `tick`. If there is no
 * such event and the timeline's stream was destroyed, uses the last event of that stream. If there
 * is no such event and the stream exists, records one if `may_record` is true, and sets
 * `out->event` to NULL otherwise. Also sets `out->event` to NULL if the timeline is lost and no
 * event covers the work. The caller must not hold the timeline's mutex. */
static ferry_status
event_after(ferryi_timeline *timeline, uint64_t tick, bool may_record,
            struct ferryi_timeline_event *out)
{
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&timeline->mutex);
    struct ferryi_timeline_event *found = find_event(timeline, tick);
    if (!found && !ferryi_timeline_is_retired(timeline) && may_record) {
        status = ferryi_timeline_check_capture(timeline);
        if (status == FERRY_OK && !ferryi_timeline_is_retired(timeline)) {
            status = ferryi_timeline_record_event(timeline, &found);
            if (status == FERRY_OK && atomic_load(&timeline->is_ending))
                ferryi_timeline_close(timeline);
        }
    }
    if (!found && status == FERRY_OK && ferryi_timeline_is_retired(timeline) &&
        !ferryi_timeline_is_lost(timeline))
        found = newest_event(timeline);
    *out = found ? *found : (struct ferryi_timeline_event){0};
    /* The event may be the closing event of a destroyed stream. No work was queued after the
     * closing event. So this event covers even work that was noted while the driver recorded the
     * event. */
    if (found && found->number <= tick)
        out->number = tick + 1;
    ferryi_mutex_unlock(&timeline->mutex);
    return status;
}

static ferryi_timeline *
timeline_of(ferryi_order *order, ferryi_sync_point point)
{
    ferryi_timeline *timeline = order->timelines[ferryi_sync_point_number(point)];
    assert(timeline);
    return timeline;
}

/* Waits for the work of a timeline without an event, by synchronizing the device. Raises the
 * timeline's event counter `tick` before the synchronization, so that only earlier work counts as
 * covered. Stores the counter in the array `done`, so that other threads need not synchronize again
 * for this work. */
static ferry_status
wait_for_device(ferryi_timeline *behind)
{
    uint64_t tick = atomic_fetch_add_explicit(&behind->tick, 1, memory_order_acq_rel) + 1;
    ferry_status status = ferryi_order_synchronize(behind->order, behind->device);
    if (status == FERRY_OK)
        raise_to(&behind->order->done[behind->number], tick);
    return status;
}

ferry_status
ferryi_sync_point_wait_for_device(ferryi_order *order, ferryi_sync_point point)
{
    return wait_for_device(timeline_of(order, point));
}

/* Records that a timeline or the host is now ordered after `event`, which was recorded on the
 * timeline `behind`. `values` is the array `seen` of the timeline that waits, or the array `done`
 * of struct ferryi_order if the host has waited. */
static void
note_seen(_Atomic uint64_t values[FERRYI_TIMELINES], const ferryi_timeline *behind,
          const struct ferryi_timeline_event *event)
{
    raise_all(values, event->seen);
    raise_to(&values[behind->number], event->number);
}

static ferry_status
wait_for(ferryi_order *order, ferryi_timeline *timeline, ferryi_sync_point point)
{
    ferryi_timeline *behind = timeline_of(order, point);
    /* Ferry cannot make an unknown stream wait for an event, so the host waits instead. */
    if (timeline && timeline->is_unknown)
        timeline = NULL;
    ferry_status status = timeline ? ferryi_timeline_check_capture(timeline) : FERRY_OK;
    if (behind->is_unknown)
        return status == FERRY_OK ? wait_for_device(behind) : status;
    struct ferryi_timeline_event event = {0};
    if (status == FERRY_OK)
        status = event_after(behind, ferryi_sync_point_tick(point), true, &event);
    if (status == FERRY_OK && !event.event && ferryi_timeline_is_lost(behind))
        status = wait_for_device(behind);
    if (status != FERRY_OK || !event.event)
        return status;

    /* Only peers can wait for each other's events. For other devices the host waits instead. */
    bool on_device = timeline && ferryi_device_is_peer(timeline->device, behind->device);
    if (on_device) {
        status = FERRYI_CALL(timeline->device, stream_wait, timeline->native, event.event);
        if (status == FERRY_OK && ferryi_timeline_is_numbered(timeline))
            note_seen(timeline->seen, behind, &event);
    } else {
        status = ferryi_device_wait_event(behind->device, event.event);
        if (status == FERRY_OK)
            note_seen(order->done, behind, &event);
    }
    return status;
}

ferry_status
ferryi_sync_point_wait(ferryi_order *order, ferryi_timeline *timeline, ferryi_sync_point point)
{
    if (ferryi_sync_point_is_ordered(order, timeline, point))
        return FERRY_OK;
    ferryi_hold_begin();
    ferry_status status = wait_for(order, timeline, point);
    ferryi_hold_end();
    return status;
}

/* Implements ferryi_sync_point_query() and ferryi_sync_point_poll(). Records an event only if
 * `may_record` is true. */
static bool
query(ferryi_order *order, ferryi_sync_point point, bool may_record)
{
    if (ferryi_sync_point_is_done(order, point))
        return true;
    ferryi_timeline *timeline = timeline_of(order, point);
    struct ferryi_timeline_event event = {0};
    bool done = false;
    if (timeline->is_unknown ||
        event_after(timeline, ferryi_sync_point_tick(point), may_record, &event) != FERRY_OK ||
        !event.event)
        return false;
    if (FERRYI_CALL(timeline->device, event_query, event.event, &done) != FERRY_OK || !done)
        return false;
    note_seen(order->done, timeline, &event);
    return true;
}

bool
ferryi_sync_point_query(ferryi_order *order, ferryi_sync_point point)
{
    return query(order, point, true);
}

void
ferryi_sync_point_poll(ferryi_order *order, ferryi_sync_point point)
{
    (void)query(order, point, false);
}

/* Raises the timeline's event counter `tick` before the synchronization, just as before an event is
 * recorded. So only work that was noted before the synchronization counts as covered. */
ferry_status
ferryi_timeline_synchronize(ferryi_timeline *timeline)
{
    if (!ferryi_timeline_is_numbered(timeline))
        return ferryi_device_wait_stream(timeline->device, timeline->native);
    struct ferryi_timeline_event all = {
        .number = atomic_fetch_add_explicit(&timeline->tick, 1, memory_order_acq_rel) + 1};
    read_seen(timeline, all.seen);
    ferry_status status = ferryi_device_wait_stream(timeline->device, timeline->native);
    if (status == FERRY_OK) {
        note_seen(timeline->order->done, timeline, &all);
        raise_to(&timeline->synchronized, all.number);
    }
    return status;
}

/* Implements ferryi_timeline_join() for a use whose native stream was destroyed without notice. The
 * use is noted on the timeline of the streams that Ferry does not know. */
static ferry_status
join_lost(const ferryi_timeline *timeline, ferryi_timeline **out)
{
    FERRYI_KEEP_ERROR(kept);
    if (ferryi_timeline_of_unknown(timeline->order, timeline->device, timeline->place, out) ==
        FERRY_OK)
        return FERRY_OK;
    return ferryi_order_synchronize(timeline->order, timeline->device);
}

/* Implements ferryi_timeline_join() for a timeline without a number. */
static ferry_status
join_use(ferryi_timeline *timeline, uint64_t opened_by, uint32_t generation, ferryi_timeline **out)
{
    bool lives = atomic_load(&timeline->live_generation) == generation;
    ferry_status status = lives ? ferryi_timeline_check_capture(timeline) : FERRY_OK;
    if (status == FERRY_ERROR_UNSUPPORTED)
        return status;
    lives = lives && atomic_load(&timeline->live_generation) == generation;
    if (!lives && ferryi_timeline_lost(timeline, generation))
        return join_lost(timeline, out);
    if (status == FERRY_OK && lives && timeline->per_thread && opened_by != ferryi_thread_id())
        return ferryi_order_synchronize(timeline->order, timeline->device);
    ferryi_timeline *join;
    if (status == FERRY_OK)
        status =
            ferryi_timeline_of_joins(timeline->order, timeline->device, timeline->place, &join);
    if (status == FERRY_OK)
        status = note_joined(timeline, join, generation);
    if (status == FERRY_OK)
        *out = join;
    else if (lives)
        ferryi_timeline_settle(timeline, "join a stream");
    return lives ? status : FERRY_OK;
}

ferry_status
ferryi_timeline_join(ferryi_timeline *timeline, uint64_t opened_by, uint32_t generation,
                     ferryi_timeline **out)
{
    *out = NULL;
    if (!ferryi_timeline_is_numbered(timeline))
        return join_use(timeline, opened_by, generation, out);
    if (ferryi_timeline_lost(timeline, generation))
        return join_lost(timeline, out);
    if (timeline->generation == generation)
        *out = timeline;
    return FERRY_OK;
}

ferry_status
ferryi_timeline_note(ferryi_timeline *timeline, uint64_t opened_by, ferryi_sync_point *out)
{
    ferryi_timeline *on;
    ferry_status status = ferryi_timeline_join(timeline, opened_by, timeline->generation, &on);
    *out = on ? ferryi_timeline_sync_point_since(on, on->generation) : 0;
    return status;
}

ferryi_sync_point
ferryi_timeline_sync_point_since(ferryi_timeline *timeline, uint32_t generation)
{
    if (timeline->generation != generation)
        return 0;
    uint64_t tick = atomic_load(&timeline->tick);
    if (!ferryi_timeline_is_retired(timeline) || ferryi_timeline_is_lost(timeline))
        return ferryi_timeline_sync_point(timeline);
    raise_to(&timeline->used, tick);
    return ferryi_sync_point_make(timeline->number, tick - 1);
}

ferry_status
ferryi_timeline_flush(ferryi_timeline *timeline)
{
    if (!ferryi_timeline_is_numbered(timeline))
        return FERRY_OK;
    ferry_status status = FERRY_OK;
    ferryi_hold_begin();
    ferryi_mutex_lock(&timeline->mutex);
    if (!ferryi_timeline_is_retired(timeline) &&
        atomic_load(&timeline->used) > atomic_load(&timeline->tick)) {
        struct ferryi_timeline_event *event;
        status = ferryi_timeline_check_capture(timeline);
        if (status == FERRY_OK && !ferryi_timeline_is_retired(timeline))
            status = ferryi_timeline_record_event(timeline, &event);
    }
    ferryi_mutex_unlock(&timeline->mutex);
    ferryi_hold_end();
    return status;
}
