/* SPDX-License-Identifier: MIT */
#include "src/transfer/flow.h"

/* Staged transfers between one range of host memory and a device, and between two devices. */

struct staged {
    struct ferryi_flow flow;
    const struct ferryi_staging *how;
    /* size of an element in bytes on the host and on the device; both are 1 for plain bytes */
    size_t host_unit, device_unit;
};

static struct staged
make(struct ferryi_run *run, const struct ferryi_staging *how, void *target, const void *source)
{
    const struct ferryi_transform *transform = run->transform;
    struct staged staged = {
        .flow = {.run = run, .ring = how->ring, .target = target, .source = source},
        .how = how,
        .host_unit = 1,
        .device_unit = 1};
    if (transform && run->direction == FERRY_DIRECTION_DOWNLOAD) {
        staged.host_unit = transform->target_bytes;
        staged.device_unit = transform->source_bytes;
    } else if (transform) {
        staged.host_unit = transform->source_bytes;
        staged.device_unit = transform->target_bytes;
    }
    return staged;
}

static ferry_status
run_flow(struct staged *staged)
{
    const size_t unit = staged->device_unit, chunk_bytes = staged->how->ring->chunk_bytes;
    staged->flow.user = staged;
    if (unit <= chunk_bytes)
        return ferryi_flow_run(&staged->flow);
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "one element of %zu bytes is larger than a staging chunk of %zu bytes", unit,
                       chunk_bytes);
}

static size_t
host_offset(const struct staged *staged, size_t device_bytes)
{
    return device_bytes / staged->device_unit * staged->host_unit;
}

/* Begins to copy between host memory and the chunk. Converts elements at once, on the caller's
 * thread, because the conversion may be a function of the program and may fail. */
static ferry_status
convey(const struct staged *staged, struct ferryi_chunk *chunk, void *target, const void *source)
{
    const struct ferryi_run *run = staged->flow.run;
    const struct ferryi_transform *transform = run->transform;
    if (transform)
        return transform->run(target, source, chunk->bytes / staged->device_unit, transform->user);
    chunk->task = (struct ferryi_task){.loop = staged->how->loop,
                                       .target = target,
                                       .source = source,
                                       .bytes = chunk->bytes,
                                       .helper = chunk->task.helper};
    ferryi_helpers_submit(&run->engine->helpers, &chunk->task, staged->how->shared);
    return FERRY_OK;
}

/* Fills a chunk of a staged transfer. The first chunks of a long upload hold fewer bytes, so that
 * the device starts early. */
static ferry_status
fill_from_host(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct staged *staged = flow->user;
    size_t part = staged->how->part;
    if (staged->how->ramp > 0 && flow->filled < part)
        part = ferryi_min_size(3 * flow->filled + staged->how->ramp, part);
    chunk->bytes = ferryi_run_part(flow->run, flow->filled, part, staged->device_unit);
    return convey(staged, chunk, chunk->memory, flow->source + host_offset(staged, flow->filled));
}

static ferry_status
fill_from_device(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct staged *staged = flow->user;
    chunk->bytes = ferryi_run_part(flow->run, flow->filled, staged->how->part, staged->device_unit);
    return ferryi_flow_fetch(flow, chunk);
}

static ferry_status
drain_to_host(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct staged *staged = flow->user;
    ferry_status status =
        convey(staged, chunk, flow->target + host_offset(staged, flow->drained), chunk->memory);
    if (status != FERRY_OK)
        chunk->bytes = 0;
    return status;
}

ferry_status
ferryi_staged_upload(struct ferryi_run *run, const struct ferryi_staging *how, void *target,
                     const void *source)
{
    struct staged staged = make(run, how, target, source);
    staged.flow.fill = fill_from_host;
    staged.flow.drain = ferryi_flow_send;
    staged.flow.limit = how->window;
    return run_flow(&staged);
}

ferry_status
ferryi_staged_download(struct ferryi_run *run, const struct ferryi_staging *how, void *target,
                       const void *source)
{
    struct staged staged = make(run, how, target, source);
    staged.flow.fill = fill_from_device;
    staged.flow.drain = drain_to_host;
    staged.flow.limit = how->ring->chunk_count;
    staged.flow.window = how->window;
    return run_flow(&staged);
}

ferry_status
ferryi_staged_peer(struct ferryi_run *run, const struct ferryi_staging *how, void *target,
                   const void *source)
{
    struct staged staged = make(run, how, target, source);
    staged.flow.fill = fill_from_device;
    staged.flow.drain = ferryi_flow_send;
    staged.flow.limit = how->ring->chunk_count;
    return run_flow(&staged);
}
