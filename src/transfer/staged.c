/* SPDX-License-Identifier: MIT */
#include "src/transfer/run.h"

/* The host's side of a staged transfer: plain bytes, or elements that are converted on the way into
 * or out of the chunk. */
struct host_side {
    const struct ferryi_transform *transform;
    size_t host_unit, device_unit; /* bytes of one element; 1 and 1 for plain bytes */
};

static struct host_side
upload_side(const struct ferryi_run *run)
{
    const struct ferryi_transform *transform = run->transform;
    if (!transform)
        return (struct host_side){NULL, 1, 1};
    return (struct host_side){transform, transform->source_bytes, transform->target_bytes};
}

static struct host_side
download_side(const struct ferryi_run *run)
{
    const struct ferryi_transform *transform = run->transform;
    if (!transform)
        return (struct host_side){NULL, 1, 1};
    return (struct host_side){transform, transform->target_bytes, transform->source_bytes};
}

static size_t
host_offset(const struct host_side *side, size_t device_bytes)
{
    return device_bytes / side->device_unit * side->host_unit;
}

static ferry_status
check_unit(const struct ferryi_ring *ring, size_t unit)
{
    if (unit <= ring->chunk_bytes)
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "one element of %zu bytes is larger than a staging chunk of %zu bytes", unit,
                       ring->chunk_bytes);
}

/* -- between host memory and a chunk ----------------------------------------------------------- */

/* Begins to fill or drain the chunk. Transforms run on the caller's thread: they may be functions
 * of the program, and may fail. */
static ferry_status
begin_convey(struct ferryi_run *run, const struct ferryi_staging *how, const struct host_side *side,
             struct ferryi_chunk *chunk, void *target, const void *source)
{
    struct ferryi_task *task = &chunk->task;
    if (side->transform) {
        *task = (struct ferryi_task){.done = true};
        return side->transform->run(target, source, chunk->bytes / side->device_unit,
                                    side->transform->user);
    }
    *task = (struct ferryi_task){.loop = how->loop,
                                 .target = target,
                                 .source = source,
                                 .bytes = chunk->bytes,
                                 .helper = task->helper};
    ferryi_helpers_submit(&run->engine->helpers, task, how->shared);
    return FERRY_OK;
}

/* Waits until the chunk is filled or drained. */
static void
end_convey(struct ferryi_run *run, struct ferryi_chunk *chunk)
{
    struct ferryi_task *task = &chunk->task;
    ferryi_engine *engine = run->engine;
    ferryi_helpers_finish(&engine->helpers, task);
    if (task->helper > FERRYI_HELPERS_SUBMITTER)
        atomic_fetch_add_explicit(&engine->helper_chunks, 1, memory_order_relaxed);
    if (task->bytes > 0)
        ferryi_run_count_copied(run, task->bytes);
}

/* -- uploads ----------------------------------------------------------------------------------- */

/* Returns how many bytes the next chunk holds, when `begun` bytes are in earlier ones. */
static size_t
upload_part(const struct ferryi_run *run, const struct ferryi_staging *how, size_t begun,
            size_t unit)
{
    size_t part = how->part;
    if (how->ramp > 0 && begun < part)
        part = ferryi_min_size(3 * begun + how->ramp, part);
    return ferryi_run_part(run, begun, part, unit);
}

ferry_status
ferryi_staged_upload(struct ferryi_run *run, const struct ferryi_staging *how, void *target,
                     const void *source)
{
    const struct host_side side = upload_side(run);
    const size_t end = run->bytes;
    struct ferryi_ring *ring = how->ring;
    struct ferryi_chain filling = {0};
    size_t begun = run->done;
    ferry_status status = check_unit(ring, side.device_unit);
    while (status == FERRY_OK && run->done < end) {
        struct ferryi_chunk *chunk = NULL;
        if (begun < end && filling.count < how->window)
            status = ferryi_ring_take(ring, filling.count == 0, &chunk);
        if (status != FERRY_OK)
            break;
        if (chunk) {
            chunk->bytes = upload_part(run, how, begun, side.device_unit);
            status = begin_convey(run, how, &side, chunk, chunk->memory,
                                  (const char *)source + host_offset(&side, begun));
            begun += chunk->bytes;
            ferryi_chain_push(&filling, chunk);
            if (status != FERRY_OK)
                break;
            if (filling.count < how->window && begun < end)
                continue;
        }
        chunk = ferryi_chain_pop(&filling);
        end_convey(run, chunk);
        status = ferryi_run_send(run, ring, chunk, target);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    while (filling.count > 0) {
        struct ferryi_chunk *chunk = ferryi_chain_pop(&filling);
        ferryi_helpers_finish(&run->engine->helpers, &chunk->task);
        ferryi_ring_give(ring, chunk);
    }
    return status;
}

/* -- downloads and peers: chunks in flight from the source, then on their way out of the ring ---
 */

struct flight {
    struct ferryi_run *run;
    const struct ferryi_staging *how;
    struct ferryi_ring *ring;
    const char *source;
    char *target;
    struct host_side side;
    struct ferryi_chain flying, landing;
    size_t limit;     /* limit of chunks in both lists together */
    size_t submitted; /* bytes whose download was queued */
    size_t touched;   /* bytes in chunks that have arrived from the device */
};

static void
flight_init(struct flight *flight, struct ferryi_run *run, const struct ferryi_staging *how)
{
    *flight = (struct flight){.run = run,
                              .how = how,
                              .ring = how->ring,
                              .limit = how->ring->chunk_count,
                              .submitted = run->done,
                              .touched = run->done};
}

/* Queues the download of one more chunk. Sets *out_none if no chunk is free while some of this
 * transfer are in use. */
static ferry_status
submit(struct flight *flight, bool *out_none)
{
    struct ferryi_chunk *chunk;
    bool block = flight->flying.count + flight->landing.count == 0;
    ferry_status status = ferryi_ring_take(flight->ring, block, &chunk);
    *out_none = status == FERRY_OK && !chunk;
    if (status != FERRY_OK || !chunk)
        return status;
    chunk->bytes = ferryi_run_part(flight->run, flight->submitted, flight->how->part,
                                   flight->side.device_unit);
    status = ferryi_run_fetch(flight->run, flight->ring, chunk, flight->source + flight->submitted,
                              false);
    if (status != FERRY_OK)
        return status;
    flight->submitted += chunk->bytes;
    ferryi_chain_push(&flight->flying, chunk);
    return FERRY_OK;
}

/* The steps for a chunk that the device has filled: `touch` begins to process the chunk; `land`
 * waits for the end of that, and returns the chunk to the ring. */
struct landing {
    ferry_status (*touch)(struct flight *flight, struct ferryi_chunk *chunk);
    ferry_status (*land)(struct flight *flight, struct ferryi_chunk *chunk);
};

/* Waits for the oldest chunk in flight, and begins to process it. */
static ferry_status
touch_down(struct flight *flight, const struct landing *landing)
{
    struct ferryi_chunk *chunk = flight->flying.first;
    ferry_status status = ferryi_chunk_wait(flight->ring, chunk);
    if (status == FERRY_OK)
        status = landing->touch(flight, chunk);
    if (status != FERRY_OK)
        return status;
    ferryi_chain_push(&flight->landing, ferryi_chain_pop(&flight->flying));
    flight->touched += chunk->bytes;
    return FERRY_OK;
}

static void
abort_flight(struct flight *flight)
{
    while (flight->landing.count > 0) {
        struct ferryi_chunk *chunk = ferryi_chain_pop(&flight->landing);
        ferryi_helpers_finish(&flight->run->engine->helpers, &chunk->task);
        ferryi_ring_give(flight->ring, chunk);
    }
    while (flight->flying.count > 0)
        ferryi_ring_give(flight->ring, ferryi_chain_pop(&flight->flying));
}

static ferry_status
flight_run(struct flight *flight, const struct landing *landing)
{
    struct ferryi_run *run = flight->run;
    const size_t end = run->bytes;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < end) {
        bool none = true;
        if (flight->submitted < end && flight->flying.count + flight->landing.count < flight->limit)
            status = submit(flight, &none);
        if (status != FERRY_OK || !none)
            continue;
        if (flight->flying.count > 0 && flight->landing.count < flight->how->window)
            status = touch_down(flight, landing);
        if (status == FERRY_OK &&
            (flight->landing.count >= flight->how->window || flight->flying.count == 0))
            status = landing->land(flight, ferryi_chain_pop(&flight->landing));
        else
            continue;
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    abort_flight(flight);
    return status;
}

static ferry_status
touch_host(struct flight *flight, struct ferryi_chunk *chunk)
{
    return begin_convey(flight->run, flight->how, &flight->side, chunk,
                        flight->target + host_offset(&flight->side, flight->touched),
                        chunk->memory);
}

static ferry_status
land_on_host(struct flight *flight, struct ferryi_chunk *chunk)
{
    size_t bytes = chunk->bytes;
    end_convey(flight->run, chunk);
    ferryi_ring_give(flight->ring, chunk);
    ferryi_run_count_chunk(flight->run);
    ferryi_run_arrived(flight->run, bytes);
    return FERRY_OK;
}

/* Downloads a transfer that fits into one chunk, without recording an event. */
static ferry_status
download_at_once(struct flight *flight)
{
    struct ferryi_run *run = flight->run;
    struct ferryi_chunk *chunk;
    ferry_status status = ferryi_ring_take(flight->ring, true, &chunk);
    if (status != FERRY_OK)
        return status;
    chunk->bytes = run->bytes;
    status = ferryi_run_fetch(run, flight->ring, chunk, flight->source, true);
    if (status != FERRY_OK)
        return status;
    status = touch_host(flight, chunk);
    if (status != FERRY_OK) {
        ferryi_ring_give(flight->ring, chunk);
        return status;
    }
    status = land_on_host(flight, chunk);
    return status == FERRY_OK ? ferryi_run_progress(run) : status;
}

ferry_status
ferryi_staged_download(struct ferryi_run *run, const struct ferryi_staging *how, void *target,
                       const void *source)
{
    static const struct landing landing = {touch_host, land_on_host};
    struct flight flight;
    flight_init(&flight, run, how);
    flight.side = download_side(run);
    flight.source = source;
    flight.target = target;
    ferry_status status = check_unit(how->ring, flight.side.device_unit);
    if (status != FERRY_OK)
        return status;
    if (ferryi_run_part(run, 0, how->part, flight.side.device_unit) == run->bytes)
        return download_at_once(&flight);
    return flight_run(&flight, &landing);
}

static ferry_status
touch_peer(struct flight *flight, struct ferryi_chunk *chunk)
{
    (void)flight;
    chunk->task = (struct ferryi_task){.done = true};
    return FERRY_OK;
}

static ferry_status
land_on_peer(struct flight *flight, struct ferryi_chunk *chunk)
{
    return ferryi_run_send(flight->run, flight->ring, chunk, flight->target);
}

ferry_status
ferryi_run_order(struct ferryi_run *run, ferryi_timeline *later)
{
    ferryi_timeline *timeline = run->timeline;
    ferryi_device *device = timeline->device;
    void *event;
    ferry_status status = FERRYI_CALL(device, event_create, &event);
    if (status != FERRY_OK)
        return status;
    status = FERRYI_CALL(device, event_record, event, timeline->native);
    if (status == FERRY_OK && ferryi_engine_same_kind(device, later->device))
        status = FERRYI_CALL(later->device, stream_wait, later->native, event);
    else if (status == FERRY_OK)
        status = FERRYI_CALL(device, event_synchronize, event);
    ferryi_throttle_drop_event(run->engine->config.log, device, event);
    return status;
}

ferry_status
ferryi_staged_peer(struct ferryi_run *run, const struct ferryi_staging *how, void *target,
                   const void *source)
{
    static const struct landing landing = {touch_peer, land_on_peer};
    ferry_status status = ferryi_run_order(run, run->second);
    if (status != FERRY_OK)
        return status;
    struct flight flight;
    flight_init(&flight, run, how);
    flight.side = (struct host_side){NULL, 1, 1};
    flight.source = source;
    flight.target = target;
    return flight_run(&flight, &landing);
}
