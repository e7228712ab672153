/* SPDX-License-Identifier: MIT */
#include "src/stream/timeline.h"

#include "src/base/hold.h"
#include "src/stream/captures.h"

/*
 * The end of timelines, and what may end them without notice.
 *
 * A timeline usually ends with a closing event, which ferryi_timeline_retire() records on the
 * stream. While the stream is being captured into a graph, no event can be recorded: the graph
 * would contain the event, and a stream that waited for it would join the capture. So the timeline
 * is only marked as ending. It stays in use until a later call finds that the capture has ended.
 * That call records the closing event.
 *
 * By then the program may have destroyed the native stream, because its ferry_stream is gone. The
 * same is true for the native stream of a guest, which belongs to another library. The driver
 * numbers all streams it ever creates. So Ferry compares these numbers before it uses such a
 * stream. If they differ, the timeline is lost: it ends without a closing event. Uses that no
 * earlier event covers are then treated like the uses of streams that Ferry does not know.
 */

/* -- lost timelines ---------------------------------------------------------------------------- */

/* Marks the timeline of a stream's uploads as reusable, because the stream is being destroyed.
 * Records no closing event, because an event was recorded after each upload. */
static void
retire_uploads(ferryi_timeline *timeline)
{
    ferryi_timeline *uploads = atomic_exchange(&timeline->uploads, NULL);
    if (!uploads)
        return;
    ferryi_mutex_lock(&uploads->mutex);
    uploads->native = NULL;
    atomic_store(&uploads->live_generation, 0);
    ferryi_mutex_unlock(&uploads->mutex);
}

/* Ends the given generation of a timeline, whose native stream no longer exists. The native handle
 * is kept, because other threads may be reading it. If another thread has ended this generation
 * meanwhile, the timeline only counts as lost without need. */
static void
lose(ferryi_timeline *timeline, uint32_t generation)
{
    uint32_t live = generation;
    retire_uploads(timeline);
    atomic_store(&timeline->lost_generation, generation);
    if (atomic_compare_exchange_strong(&timeline->live_generation, &live, 0) &&
        atomic_exchange(&timeline->is_ending, false))
        atomic_fetch_sub(&timeline->order->ending, 1);
}

/* Returns whether the native stream of the timeline still exists. */
static bool
exists(ferryi_timeline *timeline)
{
    uint64_t id;
    if (!atomic_load(&timeline->is_guest))
        return true;
    FERRYI_KEEP_ERROR(kept);
    return FERRYI_CALL(timeline->device, stream_id, timeline->native, &id) == FERRY_OK &&
           id == timeline->native_id;
}

bool
ferryi_timeline_is_gone(ferryi_timeline *timeline)
{
    uint32_t generation = atomic_load(&timeline->live_generation);
    if (generation == 0)
        return true;
    if (exists(timeline))
        return false;
    lose(timeline, generation);
    return true;
}

ferry_status
ferryi_timeline_make_guest(ferryi_timeline *timeline)
{
    if (timeline->owned || timeline->per_thread ||
        timeline->native == timeline->device->default_stream || atomic_load(&timeline->is_guest))
        return FERRY_OK;
    FERRYI_OR_RETURN(
        FERRYI_CALL(timeline->device, stream_id, timeline->native, &timeline->native_id));
    atomic_store(&timeline->is_guest, true);
    return FERRY_OK;
}

/* -- capture ----------------------------------------------------------------------------------- */

static bool
can_be_captured(const ferryi_timeline *timeline)
{
    return (timeline->device->capabilities & FERRY_CAN_CAPTURE) &&
           !atomic_load(&timeline->internal);
}

void
ferryi_timeline_set_recording(ferryi_timeline *timeline, struct ferryi_recording_head *recording)
{
    atomic_store_explicit(&timeline->recording, recording, memory_order_release);
}

ferry_status
ferryi_timeline_refuse_recording(const ferryi_timeline *timeline)
{
    const struct ferryi_recording_head *recording = ferryi_timeline_recording(timeline);
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "the stream records graph \"%s\", and a graph contains kernels, fills and "
                       "copies within the device; make the call before ferry_graph_begin(), after "
                       "ferry_graph_end(), or on another stream",
                       recording ? recording->name : "");
}

ferry_status
ferryi_timeline_check_capture(ferryi_timeline *timeline)
{
    bool capturing = false;
    if (ferryi_timeline_recording(timeline))
        return ferryi_timeline_refuse_recording(timeline);
    if (!can_be_captured(timeline) || ferryi_hold_thread.uncaptured == timeline)
        return FERRY_OK;
    if (atomic_load_explicit(&timeline->is_guest, memory_order_acquire) &&
        ferryi_timeline_is_gone(timeline))
        return FERRY_OK;
    ferry_status status =
        FERRYI_CALL(timeline->device, stream_is_capturing, timeline->native, &capturing);
    if (status == FERRY_OK && capturing)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "use a stream of place %d that is being captured into a graph: the call "
                           "needs the driver "
                           "(bring the data before the capture and use pin, or flush the stream)",
                           timeline->place);
    return status;
}

ferry_status
ferryi_timeline_check_own(ferryi_timeline *timeline)
{
    ferry_status status = ferryi_timeline_check_capture(timeline);
    if (status == FERRY_OK && ferryi_hold_thread.depth > 0)
        ferryi_hold_thread.uncaptured = timeline;
    return status;
}

bool
ferryi_timeline_is_captured(ferryi_timeline *timeline)
{
    bool capturing = false;
    if (ferryi_timeline_recording(timeline))
        return true;
    return can_be_captured(timeline) && ferryi_hold_thread.uncaptured != timeline &&
           !ferryi_timeline_is_gone(timeline) &&
           FERRYI_CALL(timeline->device, stream_is_capturing, timeline->native, &capturing) ==
               FERRY_OK &&
           capturing;
}

ferryi_timeline *
ferryi_timeline_next(ferryi_order *order, const ferryi_timeline *last)
{
    ferryi_mutex_lock(&order->mutex);
    bool is_numbered = !last || ferryi_timeline_is_numbered(last);
    ferryi_timeline *next = is_numbered ? order->unnumbered : last->next_unnumbered;
    for (unsigned number = FERRYI_TIMELINES - 1; is_numbered && number > (last ? last->number : 0);
         number--)
        if (order->timelines[number])
            next = order->timelines[number];
    ferryi_mutex_unlock(&order->mutex);
    return next;
}

/* Returns a timeline of the device whose stream is being captured, or NULL if none is known. If
 * `device` is NULL, any device counts. */
static ferryi_timeline *
find_captured(ferryi_order *order, const ferryi_device *device)
{
    FERRYI_KEEP_ERROR(kept);
    for (ferryi_timeline *timeline = ferryi_timeline_next(order, NULL); timeline;
         timeline = ferryi_timeline_next(order, timeline))
        if ((!device || timeline->device == device) && ferryi_timeline_is_captured(timeline))
            return timeline;
    return NULL;
}

bool
ferryi_order_is_captured(ferryi_order *order)
{
    return find_captured(order, NULL);
}

ferry_status
ferryi_order_synchronize(ferryi_order *order, ferryi_device *device)
{
    if (!(device->capabilities & FERRY_CAN_CAPTURE))
        return ferryi_device_synchronize(device);
    const ferryi_timeline *captured = find_captured(order, device);
    if (captured)
        return ferryi_fail(
            FERRY_ERROR_UNSUPPORTED,
            "wait for all work of place %d: a stream of this place is being captured into a graph, "
            "and the wait would invalidate the capture. Only such a wait covers work on streams "
            "that Ferry does not know; end the capture first",
            captured->place);
    if (!ferryi_captures_try_hold_off())
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "wait for all work of a device: a graph is being recorded, and the wait "
                           "would invalidate that");
    ferry_status status = ferryi_device_synchronize(device);
    ferryi_captures_release();
    return status;
}

/* -- retiring ---------------------------------------------------------------------------------- */

void
ferryi_timeline_close(ferryi_timeline *timeline)
{
    ferryi_timeline_destroy_native(timeline);
    if (timeline->scope)
        ferryi_timeline_drop_events(timeline);
    atomic_store(&timeline->live_generation, 0);
    if (atomic_exchange(&timeline->is_ending, false))
        atomic_fetch_sub(&timeline->order->ending, 1);
}

/* Retires a timeline whose stream exists and is not being captured. If `was_ending` is true, does
 * so only if the timeline is still marked as ending. */
static void
retire_now(ferryi_timeline *timeline, bool was_ending)
{
    /* Scopes may still be open on this stream. If its timeline has no number, closing such a scope
     * would record an event on the native stream, which no longer exists by then. So the join
     * timeline of the place waits for the stream's work now. */
    if (!ferryi_timeline_is_numbered(timeline) && ferryi_timeline_join_queued(timeline) != FERRY_OK)
        ferryi_timeline_settle(timeline, "close a stream");
    ferryi_mutex_lock(&timeline->mutex);
    struct ferryi_timeline_event *closing;
    bool ends =
        !ferryi_timeline_is_retired(timeline) && (!was_ending || atomic_load(&timeline->is_ending));
    if (ends && ferryi_timeline_is_numbered(timeline) &&
        ferryi_timeline_record_event(timeline, &closing) != FERRY_OK)
        ferryi_timeline_settle(timeline, "close a stream");
    if (ends)
        ferryi_timeline_close(timeline);
    ferryi_mutex_unlock(&timeline->mutex);
}

/* Marks a timeline as ending, because its stream is being captured. If the driver does not number
 * streams, Ferry could not tell later whether the stream still exists, so the timeline is lost. */
static void
retire_later(ferryi_timeline *timeline)
{
    FERRYI_KEEP_ERROR(kept);
    if (ferryi_timeline_make_guest(timeline) != FERRY_OK) {
        lose(timeline, atomic_load(&timeline->live_generation));
        return;
    }
    atomic_fetch_add(&timeline->order->ending, 1);
    atomic_store(&timeline->is_ending, true);
}

void
ferryi_timeline_retire(ferryi_timeline *timeline)
{
    if (ferryi_timeline_is_gone(timeline))
        return;
    retire_uploads(timeline);
    if (ferryi_timeline_check_capture(timeline) == FERRY_ERROR_UNSUPPORTED)
        retire_later(timeline);
    else if (!ferryi_timeline_is_retired(timeline))
        retire_now(timeline, false);
}

static void
try_retire(ferryi_timeline *timeline)
{
    if (atomic_load(&timeline->is_ending) && ferryi_timeline_check_capture(timeline) == FERRY_OK &&
        !ferryi_timeline_is_retired(timeline))
        retire_now(timeline, true);
}

void
ferryi_order_retire_ending(ferryi_order *order)
{
    FERRYI_KEEP_ERROR(kept);
    if (atomic_load_explicit(&order->ending, memory_order_relaxed) == 0)
        return;
    for (ferryi_timeline *timeline = ferryi_timeline_next(order, NULL); timeline;
         timeline = ferryi_timeline_next(order, timeline))
        try_retire(timeline);
}

/* -- adopting a timeline that is ending -------------------------------------------------------- */

static bool
adopt(ferryi_timeline *timeline, const ferryi_device *device, const void *native)
{
    bool adopted = false;
    if (!atomic_load(&timeline->is_ending) || timeline->device != device ||
        timeline->native != native || ferryi_timeline_is_gone(timeline))
        return false;
    ferryi_mutex_lock(&timeline->mutex);
    if (!ferryi_timeline_is_retired(timeline) && atomic_exchange(&timeline->is_ending, false)) {
        atomic_fetch_sub(&timeline->order->ending, 1);
        atomic_store(&timeline->is_guest, false);
        adopted = true;
    }
    ferryi_mutex_unlock(&timeline->mutex);
    return adopted;
}

ferryi_timeline *
ferryi_order_adopt(ferryi_order *order, const ferryi_device *device, const void *native)
{
    if (atomic_load(&order->ending) == 0)
        return NULL;
    for (ferryi_timeline *timeline = ferryi_timeline_next(order, NULL); timeline;
         timeline = ferryi_timeline_next(order, timeline))
        if (adopt(timeline, device, native))
            return timeline;
    return NULL;
}
