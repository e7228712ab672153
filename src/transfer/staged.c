/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "src/transfer/run.h"

/* The host's side of a staged transfer: plain bytes, or elements that are transformed into and out of the chunk. */
struct host_side {
    const struct ferryi_transform *transform;
    size_t host_unit, device_unit; /* bytes of one element; 1 and 1 for plain bytes */
};

static struct host_side
upload_side(const struct ferryi_transform *transform)
{
    if (!transform)
        return (struct host_side){NULL, 1, 1};
    return (struct host_side){transform, transform->source_bytes, transform->target_bytes};
}

static struct host_side
download_side(const struct ferryi_transform *transform)
{
    if (!transform)
        return (struct host_side){NULL, 1, 1};
    return (struct host_side){transform, transform->target_bytes, transform->source_bytes};
}

/* `bytes` are the device's; the offset in host memory that belongs to one in device memory is host_offset(). */
static void
convey(const struct host_side *side, void *target, const void *source, size_t bytes)
{
    if (side->transform)
        side->transform->run(target, source, bytes / side->device_unit, side->transform->user);
    else
        memcpy(target, source, bytes);
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
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "one element of %zu bytes is larger than a staging chunk of %zu bytes", unit,
                       ring->chunk_bytes);
}

/* -- uploads --------------------------------------------------------------------------------------- */

/* Copy `chunk->bytes` out of the chunk to the next place of the target, on the run's lane, and give the chunk back. */
static ferry_status
send(struct ferryi_run *run, struct ferryi_ring *ring, struct ferryi_chunk *chunk, char *target)
{
    ferryi_lane *lane = run->lane;
    ferry_status status =
        FERRYI_CALL(lane->device, copy_upload, target + run->done, chunk->memory, chunk->bytes, lane->native);
    if (status == FERRY_OK) {
        run->queued = true;
        status = ferryi_chunk_mark(ring, chunk, ring->place, lane->native);
        size_t bytes = chunk->bytes;
        ferryi_ring_give(ring, chunk);
        ferryi_run_arrived(run, bytes);
        return status;
    }
    ferryi_ring_give(ring, chunk);
    return status;
}

ferry_status
ferryi_staged_upload(struct ferryi_run *run, struct ferryi_ring *ring, void *target, const void *source,
                     const struct ferryi_transform *transform)
{
    const struct host_side side = upload_side(transform);
    ferry_status status = check_unit(ring, side.device_unit);
    while (status == FERRY_OK && run->done < run->bytes) {
        struct ferryi_chunk *chunk;
        status = ferryi_ring_take(ring, ring->place, true, &chunk);
        if (status != FERRY_OK)
            break;
        chunk->bytes = ferryi_run_part(run, run->done, ring->chunk_bytes, side.device_unit);
        convey(&side, chunk->memory, (const char *)source + host_offset(&side, run->done), chunk->bytes);
        status = send(run, ring, chunk, target);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    return status;
}

/* -- downloads and peers: chunks in flight from the source, oldest first --------------------------- */

struct flight {
    struct ferryi_run *run;
    struct ferryi_ring *ring;
    ferryi_lane *lane; /* of the source's device */
    int source_place;
    const char *source;
    char *target;
    struct host_side side;
    struct ferryi_chunk *first, **last;
    size_t count, limit;
    size_t submitted; /* bytes */
};

static void
flight_init(struct flight *flight, struct ferryi_run *run, struct ferryi_ring *ring, ferryi_lane *lane, int source_place)
{
    const ferry_transfer_options *options = run->job->options;
    *flight = (struct flight){.run = run, .ring = ring, .lane = lane, .source_place = source_place};
    flight->last = &flight->first;
    /* keep_going runs while chunks are in flight: one stays free, so that a transfer inside it can go on. */
    flight->limit = ring->chunk_count - (options && options->keep_going && ring->chunk_count > 1);
}

/* Queue one more chunk. *out_none is true when every chunk is with somebody else and some of ours are in flight. */
static ferry_status
submit(struct flight *flight, bool *out_none)
{
    struct ferryi_chunk *chunk;
    ferry_status status = ferryi_ring_take(flight->ring, flight->source_place, flight->count == 0, &chunk);
    *out_none = status == FERRY_OK && !chunk;
    if (status != FERRY_OK || !chunk)
        return status;
    chunk->bytes =
        ferryi_run_part(flight->run, flight->submitted, flight->ring->chunk_bytes, flight->side.device_unit);
    status = FERRYI_CALL(flight->lane->device, copy_download, chunk->memory, flight->source + flight->submitted,
                         chunk->bytes, flight->lane->native);
    if (status == FERRY_OK) {
        flight->run->queued = true;
        status = ferryi_chunk_mark(flight->ring, chunk, flight->source_place, flight->lane->native);
    }
    if (status != FERRY_OK) {
        ferryi_ring_give(flight->ring, chunk);
        return status;
    }
    flight->submitted += chunk->bytes;
    *flight->last = chunk;
    flight->last = &chunk->next;
    flight->count++;
    return FERRY_OK;
}

static struct ferryi_chunk *
pop(struct flight *flight)
{
    struct ferryi_chunk *chunk = flight->first;
    flight->first = chunk->next;
    if (!flight->first)
        flight->last = &flight->first;
    chunk->next = NULL;
    flight->count--;
    return chunk;
}

/* Run to the end: `land` waits for one chunk, hands its bytes on, and gives it back. */
static ferry_status
flight_run(struct flight *flight, ferry_status (*land)(struct flight *flight, struct ferryi_chunk *chunk))
{
    struct ferryi_run *run = flight->run;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && run->done < run->bytes) {
        bool none = true;
        if (flight->submitted < run->bytes && flight->count < flight->limit)
            status = submit(flight, &none);
        if (status != FERRY_OK || !none)
            continue;
        status = land(flight, pop(flight));
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    while (flight->count > 0)
        ferryi_ring_give(flight->ring, pop(flight));
    return status;
}

static ferry_status
land_on_host(struct flight *flight, struct ferryi_chunk *chunk)
{
    ferry_status status = ferryi_chunk_wait(flight->ring, chunk);
    size_t bytes = chunk->bytes;
    if (status == FERRY_OK)
        convey(&flight->side, flight->target + host_offset(&flight->side, flight->run->done), chunk->memory, bytes);
    ferryi_ring_give(flight->ring, chunk);
    if (status == FERRY_OK)
        ferryi_run_arrived(flight->run, bytes);
    return status;
}

/* All bytes fit one chunk: no event is needed. */
static ferry_status
download_at_once(struct flight *flight)
{
    struct ferryi_run *run = flight->run;
    ferryi_lane *lane = flight->lane;
    struct ferryi_chunk *chunk;
    ferry_status status = ferryi_ring_take(flight->ring, flight->source_place, true, &chunk);
    if (status != FERRY_OK)
        return status;
    status = FERRYI_CALL(lane->device, copy_download, chunk->memory, flight->source, run->bytes, lane->native);
    if (status == FERRY_OK) {
        run->queued = true;
        status = ferryi_chunk_settle(flight->ring, chunk, flight->source_place, lane->native);
    }
    if (status == FERRY_OK)
        convey(&flight->side, flight->target, chunk->memory, run->bytes);
    ferryi_ring_give(flight->ring, chunk);
    if (status != FERRY_OK)
        return status;
    ferryi_run_arrived(run, run->bytes);
    return ferryi_run_progress(run);
}

ferry_status
ferryi_staged_download(struct ferryi_run *run, struct ferryi_ring *ring, void *target, const void *source,
                       const struct ferryi_transform *transform)
{
    struct flight flight;
    flight_init(&flight, run, ring, run->lane, run->source_place);
    flight.side = download_side(transform);
    flight.source = source;
    flight.target = target;
    ferry_status status = check_unit(ring, flight.side.device_unit);
    if (status != FERRY_OK)
        return status;
    if (ferryi_run_part(run, 0, ring->chunk_bytes, flight.side.device_unit) == run->bytes)
        return download_at_once(&flight);
    return flight_run(&flight, land_on_host);
}

static ferry_status
land_on_peer(struct flight *flight, struct ferryi_chunk *chunk)
{
    ferry_status status = ferryi_chunk_wait(flight->ring, chunk);
    if (status == FERRY_OK)
        status = ferryi_chunk_prepare(flight->ring, chunk, flight->ring->place);
    if (status == FERRY_OK)
        return send(flight->run, flight->ring, chunk, flight->target);
    ferryi_ring_give(flight->ring, chunk);
    return status;
}

/* What the caller ordered the run's lane after must come before what `later`, of another device, does next. */
static ferry_status
order_after(struct ferryi_run *run, ferryi_lane *later)
{
    ferryi_lane *lane = run->lane;
    ferryi_device *device = lane->device;
    void *event;
    ferry_status status = FERRYI_CALL(device, event_create, &event);
    if (status != FERRY_OK)
        return status;
    status = FERRYI_CALL(device, event_record, event, lane->native);
    if (status == FERRY_OK && ferryi_engine_same_kind(device, later->device))
        status = FERRYI_CALL(later->device, stream_wait, later->native, event);
    else if (status == FERRY_OK)
        status = FERRYI_CALL(device, event_synchronize, event);
    ferryi_run_drop_event(run, device, event);
    return status;
}

ferry_status
ferryi_staged_peer(struct ferryi_run *run, struct ferryi_ring *ring, void *target, const void *source)
{
    ferry_status status = order_after(run, run->second);
    if (status != FERRY_OK)
        return status;
    struct flight flight;
    flight_init(&flight, run, ring, run->second, run->source_place);
    flight.side = (struct host_side){NULL, 1, 1};
    flight.source = source;
    flight.target = target;
    return flight_run(&flight, land_on_peer);
}
