/* SPDX-License-Identifier: MIT */
#include "src/device/lane.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void
raise_to(_Atomic uint64_t *value, uint64_t floor)
{
    uint64_t now = atomic_load_explicit(value, memory_order_relaxed);
    while (now < floor && !atomic_compare_exchange_weak_explicit(value, &now, floor, memory_order_release,
                                                                 memory_order_relaxed))
        ;
}

/* -- the order ------------------------------------------------------------------------------------- */

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

static void
drop_events(ferryi_lane *lane)
{
    ferryi_mutex_is_needless(&lane->mutex);
    for (size_t i = 0; i < FERRYI_LANE_EVENTS; i++) {
        if (lane->ring[i].event && FERRYI_CALL(lane->device, event_destroy, lane->ring[i].event) != FERRY_OK)
            ferryi_log(lane->order->log, FERRY_LOG_WARNING, "%s", ferry_last_error());
        lane->ring[i] = (struct ferryi_lane_event){0};
    }
}

static void
lane_free(ferryi_lane *lane)
{
    drop_events(lane);
    ferryi_mutex_destroy(&lane->mutex);
    free(lane);
}

static void
destroy_native(ferryi_lane *lane)
{
    if (lane->owned && lane->native && FERRYI_CALL(lane->device, stream_destroy, lane->native) != FERRY_OK)
        ferryi_log(lane->order->log, FERRY_LOG_WARNING, "%s", ferry_last_error());
    lane->native = NULL;
    lane->owned = false;
}

void
ferryi_order_clear(ferryi_order *order)
{
    for (unsigned number = 0; number < FERRYI_LANES; number++) {
        ferryi_lane *lane = order->lanes[number];
        if (!lane)
            continue;
        destroy_native(lane);
        lane_free(lane);
        order->lanes[number] = NULL;
    }
    for (int place = 0; place <= FERRYI_DEVICES_MAX; place++)
        atomic_store(&order->unknown[place], NULL);
    atomic_store(&order->unknown_set, 0);
    ferryi_mutex_destroy(&order->join_mutex);
    ferryi_mutex_destroy(&order->mutex);
}

/* -- opening and retiring -------------------------------------------------------------------------- */

FERRYI_REQUIRES(ferryi_lane_mutex)
static struct ferryi_lane_event *
newest_event(ferryi_lane *lane)
{
    struct ferryi_lane_event *newest = NULL;
    for (size_t i = 0; i < FERRYI_LANE_EVENTS; i++)
        if (lane->ring[i].number != 0 && (!newest || lane->ring[i].number > newest->number))
            newest = &lane->ring[i];
    return newest;
}

/* A retired lane's number may be handed out once its closing event has happened. */
FERRYI_REQUIRES(ferryi_order_mutex)
static bool
is_free(ferryi_order *order, ferryi_lane *lane)
{
    if (!lane)
        return true;
    if (!ferryi_lane_is_retired(lane))
        return false;
    uint64_t tick = atomic_load(&lane->tick);
    if (atomic_load(&order->done[lane->number]) >= tick)
        return true;
    ferryi_mutex_lock(&lane->mutex);
    const struct ferryi_lane_event *newest = newest_event(lane);
    void *event = newest ? newest->event : NULL;
    ferryi_mutex_unlock(&lane->mutex);
    bool done = false;
    if (!event || FERRYI_CALL(lane->device, event_query, event, &done) != FERRY_OK || !done)
        return false;
    raise_to(&order->done[lane->number], tick);
    return true;
}

/* The lowest number that no lane had, where at least `wanted` of them are left; else 0. */
FERRYI_REQUIRES(ferryi_order_mutex)
static unsigned
find_new_number(const ferryi_order *order, int wanted)
{
    unsigned lowest = 0;
    int left = 0;
    for (unsigned number = FERRYI_LANES - 1; number > 0; number--)
        if (!order->lanes[number]) {
            lowest = number;
            left++;
        }
    return left >= wanted ? lowest : 0;
}

/*
 * A free number, or 0: one that the device had before, or else a new one. A number stays with its device, because others
 * may be about to wait for its last event. Users leave enough new ones for the internal lanes that are still to come.
 */
FERRYI_REQUIRES(ferryi_order_mutex)
static unsigned
find_number(ferryi_order *order, const ferryi_device *device, bool internal)
{
    for (unsigned number = 1; number < FERRYI_LANES; number++) {
        ferryi_lane *lane = order->lanes[number];
        if (lane && lane->device == device && is_free(order, lane))
            return number;
    }
    return find_new_number(order, internal ? 1 : order->internal_reserve + 1);
}

static ferryi_lane *
lane_new(ferryi_order *order, ferryi_device *device, int place, unsigned number, bool per_thread)
{
    ferryi_lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->order = order;
    lane->device = device;
    lane->place = place;
    lane->number = number;
    lane->bit = number ? UINT64_C(1) << number : 0;
    lane->place_bit = UINT32_C(1) << place;
    lane->per_thread = per_thread;
    lane->by_thread = per_thread || (device->capabilities & FERRYI_DEVICE_COHERENT);
    lane->is_plain = number && !lane->by_thread;
    atomic_init(&lane->holders, 1);
    ferryi_mutex_init(&lane->mutex);
    return lane;
}

/* What is noted on a lane of unknown streams covers all work that the device has: it counts as ordered after the device's other lanes. */
FERRYI_REQUIRES(ferryi_order_mutex)
static void
order_unknown_after(ferryi_order *order, const ferryi_lane *lane)
{
    ferryi_lane *unknown = atomic_load(&order->unknown[lane->place]);
    if (unknown && unknown->device == lane->device)
        atomic_store(&unknown->seen[lane->number], UINT64_MAX);
}

/* Others may still look at a lane whose number is handed out again. */
FERRYI_REQUIRES(ferryi_order_mutex)
static void
lane_set_up(ferryi_lane *lane, void *native, bool internal, bool owned)
{
    for (size_t i = 0; i < FERRYI_LANES; i++)
        atomic_store(&lane->seen[i], 0);
    lane->native = native;
    atomic_store(&lane->internal, internal);
    lane->owned = owned;
    /* Never 0, which is what a retired lane has. */
    if (atomic_fetch_add(&lane->generation, 1) == UINT32_MAX)
        atomic_store(&lane->generation, 1);
    /* Who waited for the closing event is ordered behind all stamps of the former life, and none of this one. */
    raise_to(&lane->order->done[lane->number], atomic_fetch_add(&lane->tick, 1) + 1);
    atomic_store(&lane->live_generation, lane->generation);
}

ferry_status
ferryi_lane_open(ferryi_order *order, ferryi_device *device, int place, void *native, bool internal, ferryi_lane **out)
{
    bool owned = native == NULL;
    bool per_thread = native && native == device->per_thread_stream;
    if (owned) {
        ferry_status status = FERRYI_CALL(device, stream_create, &native);
        if (status != FERRY_OK)
            return status;
    }

    ferryi_mutex_lock(&order->mutex);
    unsigned number = per_thread ? 0 : find_number(order, device, internal);
    ferryi_lane *lane = number ? order->lanes[number] : NULL;
    if (!lane && (number || !internal))
        lane = lane_new(order, device, place, number, per_thread);
    if (lane) {
        lane_set_up(lane, native, internal, owned);
        if (number && !order->lanes[number])
            order->lanes[number] = lane;
        if (number)
            order_unknown_after(order, lane);
        if (internal)
            order->internal_reserve--;
    }
    ferryi_mutex_unlock(&order->mutex);

    if (!lane) {
        if (owned && FERRYI_CALL(device, stream_destroy, native) != FERRY_OK)
            ferryi_log(order->log, FERRY_LOG_WARNING, "%s", ferry_last_error());
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open a stream at place %d: no memory, or more than %d streams in use",
                           place, FERRYI_LANES - 1);
    }
    *out = lane;
    return FERRY_OK;
}

/* A lane without a native stream, with a number that no other lane had. */
FERRYI_REQUIRES(ferryi_order_mutex)
static ferryi_lane *
unknown_new(ferryi_order *order, ferryi_device *device, int place)
{
    unsigned number = find_new_number(order, order->internal_reserve + 1);
    ferryi_lane *lane = number ? lane_new(order, device, place, number, false) : NULL;
    if (!lane)
        return NULL;
    lane->is_unknown = true;
    lane_set_up(lane, NULL, true, false);
    atomic_fetch_or(&order->unknown_set, lane->bit);
    order->lanes[number] = lane;
    for (unsigned each = 1; each < FERRYI_LANES; each++)
        if (order->lanes[each] && order->lanes[each]->device == device)
            atomic_store(&lane->seen[each], UINT64_MAX);
    atomic_store(&order->unknown[place], lane);
    return lane;
}

ferry_status
ferryi_lane_of_unknown(ferryi_order *order, ferryi_device *device, int place, ferryi_lane **out)
{
    ferryi_lane *lane = atomic_load(&order->unknown[place]);
    if (!lane) {
        ferryi_mutex_lock(&order->mutex);
        lane = atomic_load(&order->unknown[place]);
        if (!lane)
            lane = unknown_new(order, device, place);
        ferryi_mutex_unlock(&order->mutex);
    }
    if (!lane)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "note work of unknown streams at place %d: no memory, or more than %d streams in use", place,
                           FERRYI_LANES - 1);
    *out = lane;
    return FERRY_OK;
}

void
ferryi_lane_hold(ferryi_lane *lane)
{
    if (!ferryi_lane_is_numbered(lane))
        atomic_fetch_add(&lane->holders, 1);
}

void
ferryi_lane_let_go(ferryi_lane *lane)
{
    if (!ferryi_lane_is_numbered(lane) && atomic_fetch_sub(&lane->holders, 1) == 1) {
        destroy_native(lane);
        lane_free(lane);
    }
}

/* The tick rises first: a use stamped meanwhile must not count as covered. */
FERRYI_REQUIRES(ferryi_lane_mutex)
static ferry_status
record_event(ferryi_lane *lane, struct ferryi_lane_event **out)
{
    struct ferryi_lane_event *slot = &lane->ring[lane->next];
    if (!slot->event) {
        ferry_status status = FERRYI_CALL(lane->device, event_create, &slot->event);
        if (status != FERRY_OK)
            return status;
    }
    uint64_t number = atomic_fetch_add_explicit(&lane->tick, 1, memory_order_acq_rel) + 1;
    slot->number = 0;
    ferry_status status = FERRYI_CALL(lane->device, event_record, slot->event, lane->native);
    if (status != FERRY_OK)
        return status;
    slot->number = number;
    lane->next = (lane->next + 1) % FERRYI_LANE_EVENTS;
    *out = slot;
    return FERRY_OK;
}

/* When no event can be had the device is waited for: everything so far has then happened. */
static void
settle(ferryi_lane *lane, const char *what)
{
    ferryi_log(lane->order->log, FERRY_LOG_WARNING, "%s: %s; waiting for the device", what, ferry_last_error());
    if (ferryi_device_synchronize(lane->device) != FERRY_OK)
        ferryi_log(lane->order->log, FERRY_LOG_ERROR, "%s: %s", what, ferry_last_error());
    if (ferryi_lane_is_numbered(lane))
        raise_to(&lane->order->done[lane->number], atomic_fetch_add(&lane->tick, 1) + 1);
}

ferry_status
ferryi_lane_of_joins(ferryi_order *order, ferryi_device *device, int place, ferryi_lane **out)
{
    ferry_status status = FERRY_OK;
    ferryi_lane *join = atomic_load(&order->joins[place]);
    if (!join) {
        ferryi_mutex_lock(&order->join_mutex);
        join = atomic_load(&order->joins[place]);
        if (!join)
            status = ferryi_lane_open(order, device, place, NULL, true, &join);
        if (status == FERRY_OK)
            atomic_store(&order->joins[place], join);
        ferryi_mutex_unlock(&order->join_mutex);
    }
    if (status == FERRY_OK)
        *out = join;
    return status;
}

static ferry_status
note_joined(ferryi_lane *lane, ferryi_stamp *out)
{
    ferryi_lane *join;
    struct ferryi_lane_event *event;
    ferry_status status = ferryi_lane_of_joins(lane->order, lane->device, lane->place, &join);
    if (status != FERRY_OK)
        return status;
    ferryi_mutex_lock(&lane->mutex);
    status = record_event(lane, &event);
    if (status == FERRY_OK)
        status = FERRYI_CALL(lane->device, stream_wait, join->native, event->event);
    ferryi_mutex_unlock(&lane->mutex);
    if (status == FERRY_OK)
        *out = ferryi_lane_stamp(join);
    return status;
}

void
ferryi_lane_retire(ferryi_lane *lane)
{
    if (!ferryi_lane_is_numbered(lane)) {
        /* Scopes may still be open on it: what they queued is joined now, while the native stream is there. */
        ferryi_stamp stamp;
        if (atomic_load(&lane->holders) > 1 && note_joined(lane, &stamp) != FERRY_OK)
            settle(lane, "close a stream");
        atomic_store(&lane->live_generation, 0);
        ferryi_lane_let_go(lane);
        return;
    }
    ferryi_mutex_lock(&lane->mutex);
    struct ferryi_lane_event *closing;
    if (record_event(lane, &closing) != FERRY_OK)
        settle(lane, "close a stream");
    destroy_native(lane);
    atomic_store(&lane->live_generation, 0);
    ferryi_mutex_unlock(&lane->mutex);
}

/* -- stamps ---------------------------------------------------------------------------------------- */

ferry_status
ferryi_lane_check_capture(ferryi_lane *lane)
{
    bool capturing = false;
    if (!(lane->device->capabilities & FERRY_CAN_CAPTURE))
        return FERRY_OK;
    ferry_status status = FERRYI_CALL(lane->device, stream_is_capturing, lane->native, &capturing);
    if (status == FERRY_OK && capturing)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "use a stream of place %d that is being captured into a graph: the call needs the driver "
                                                    "(bring the data before the capture and use pin, or flush the stream)",
                           lane->place);
    return status;
}

/* The oldest event that covers `tick`, recorded now when there is none. Called without the lane's mutex. */
static ferry_status
event_after(ferryi_lane *lane, uint64_t tick, struct ferryi_lane_event *out)
{
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&lane->mutex);
    struct ferryi_lane_event *found = NULL;
    for (size_t i = 0; i < FERRYI_LANE_EVENTS; i++) {
        struct ferryi_lane_event *slot = &lane->ring[i];
        if (slot->number > tick && (!found || slot->number < found->number))
            found = slot;
    }
    if (!found && ferryi_lane_is_retired(lane)) {
        found = newest_event(lane);
    } else if (!found) {
        status = ferryi_lane_check_capture(lane);
        if (status == FERRY_OK)
            status = record_event(lane, &found);
    }
    *out = found ? *found : (struct ferryi_lane_event){0};
    /* The closing event covers also what was stamped while it was being recorded: nothing was queued behind it. */
    if (found && found->number <= tick)
        out->number = tick + 1;
    ferryi_mutex_unlock(&lane->mutex);
    return status;
}

static ferryi_lane *
lane_of(ferryi_order *order, ferryi_stamp stamp)
{
    ferryi_lane *lane = order->lanes[ferryi_stamp_number(stamp)];
    assert(lane);
    return lane;
}

/* The tick rises first: only stamps from before the synchronization began count as covered. All threads that wait get by with what one waited for. */
static ferry_status
wait_for_unknown(ferryi_lane *unknown)
{
    uint64_t tick = atomic_fetch_add_explicit(&unknown->tick, 1, memory_order_acq_rel) + 1;
    ferry_status status = ferryi_device_synchronize(unknown->device);
    if (status == FERRY_OK)
        raise_to(&unknown->order->done[unknown->number], tick);
    return status;
}

ferry_status
ferryi_stamp_wait(ferryi_order *order, ferryi_lane *lane, ferryi_stamp stamp)
{
    if (ferryi_stamp_is_ordered(order, lane, stamp))
        return FERRY_OK;
    ferryi_lane *behind = lane_of(order, stamp);
    /* Streams that Ferry does not know cannot be made to wait: the host waits for them. */
    if (lane && lane->is_unknown)
        lane = NULL;
    ferry_status status = lane ? ferryi_lane_check_capture(lane) : FERRY_OK;
    if (behind->is_unknown)
        return status == FERRY_OK ? wait_for_unknown(behind) : status;
    struct ferryi_lane_event event = {0};
    if (status == FERRY_OK)
        status = event_after(behind, ferryi_stamp_tick(stamp), &event);
    if (status != FERRY_OK || !event.event)
        return status;

    /* Devices of different kinds cannot wait for each other's events: the host waits between them. */
    bool on_device = lane && strcmp(lane->device->kind, behind->device->kind) == 0;
    if (on_device) {
        status = FERRYI_CALL(lane->device, stream_wait, lane->native, event.event);
        if (status == FERRY_OK && ferryi_lane_is_numbered(lane))
            raise_to(&lane->seen[behind->number], event.number);
    } else {
        status = FERRYI_CALL(behind->device, event_synchronize, event.event);
        if (status == FERRY_OK)
            raise_to(&order->done[behind->number], event.number);
    }
    return status;
}

bool
ferryi_stamp_query(ferryi_order *order, ferryi_stamp stamp)
{
    if (ferryi_stamp_is_done(order, stamp))
        return true;
    ferryi_lane *lane = lane_of(order, stamp);
    struct ferryi_lane_event event = {0};
    bool done = false;
    if (lane->is_unknown)
        return false;
    if (event_after(lane, ferryi_stamp_tick(stamp), &event) != FERRY_OK || !event.event)
        return false;
    if (FERRYI_CALL(lane->device, event_query, event.event, &done) != FERRY_OK || !done)
        return false;
    raise_to(&order->done[lane->number], event.number);
    return true;
}

ferry_status
ferryi_lane_note(ferryi_lane *lane, uint64_t opened_by, ferryi_stamp *out)
{
    *out = 0;
    if (ferryi_lane_is_numbered(lane)) {
        *out = ferryi_lane_is_retired(lane) ? ferryi_lane_stamp_since(lane, lane->generation) : ferryi_lane_stamp(lane);
        return FERRY_OK;
    }
    if (ferryi_lane_is_retired(lane)) {
        ferryi_lane *join;
        if (ferryi_lane_of_joins(lane->order, lane->device, lane->place, &join) == FERRY_OK)
            *out = ferryi_lane_stamp(join);
        return FERRY_OK;
    }
    ferry_status status = ferryi_lane_check_capture(lane);
    if (status == FERRY_ERROR_UNSUPPORTED)
        return status;
    if (status == FERRY_OK && lane->per_thread && opened_by != ferryi_thread_id())
        return ferryi_device_synchronize(lane->device);
    if (status == FERRY_OK)
        status = note_joined(lane, out);
    if (status != FERRY_OK) {
        *out = 0;
        settle(lane, "join a stream");
    }
    return status;
}

ferryi_stamp
ferryi_lane_stamp_since(ferryi_lane *lane, uint32_t generation)
{
    if (lane->generation != generation)
        return 0;
    uint64_t tick = atomic_load(&lane->tick);
    if (!ferryi_lane_is_retired(lane))
        return ferryi_lane_stamp(lane);
    raise_to(&lane->used, tick);
    return ferryi_stamp_make(lane->number, tick - 1);
}

ferry_status
ferryi_lane_flush(ferryi_lane *lane)
{
    if (!ferryi_lane_is_numbered(lane))
        return FERRY_OK;
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&lane->mutex);
    if (!ferryi_lane_is_retired(lane) && atomic_load(&lane->used) > atomic_load(&lane->tick)) {
        struct ferryi_lane_event *event;
        status = ferryi_lane_check_capture(lane);
        if (status == FERRY_OK)
            status = record_event(lane, &event);
    }
    ferryi_mutex_unlock(&lane->mutex);
    return status;
}
