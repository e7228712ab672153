/* SPDX-License-Identifier: MIT */
#include "src/transfer/flow.h"

/* Makes transfers through a staging ring, between one range of host memory and a device, or between
 * two devices. */

struct staged {
    struct ferryi_flow flow;
    const struct ferryi_staging *how;
    /* size of an element in bytes on the host and on the device; both are 1 for plain bytes */
    size_t host_unit, device_unit;
};

static size_t
host_offset(const struct staged *staged, size_t device_bytes)
{
    return device_bytes / staged->device_unit * staged->host_unit;
}

static ferry_status
convert_chunk(const struct ferryi_task *task)
{
    const struct staged *staged = task->user;
    const struct ferryi_transform *transform = staged->flow.run->transform;
    return transform->run(task->target, task->source, task->bytes / staged->device_unit,
                          transform->user);
}

static void
convert_by_helper(const struct ferryi_task *task)
{
    (void)convert_chunk(task);
}

/* Copies between host memory and the chunk, and converts the elements if the transfer requires it.
 * Helper threads may complete the copy after the function has returned. A conversion that helper
 * threads must not call is made by the calling thread before the function returns. */
static ferry_status
convey(const struct staged *staged, struct ferryi_chunk *chunk, void *target, const void *source)
{
    const struct ferryi_run *run = staged->flow.run;
    const struct ferryi_transform *transform = run->transform;
    struct ferryi_task task = {.copy = transform ? convert_by_helper : NULL,
                               .loop = staged->how->loop,
                               .target = target,
                               .source = source,
                               .bytes = chunk->bytes,
                               .user = staged,
                               .helper = chunk->task.helper};
    if (transform && !transform->by_helpers)
        return convert_chunk(&task);
    chunk->task = task;
    ferryi_helpers_submit(&run->engine->helpers, &chunk->task, staged->how->shared);
    return FERRY_OK;
}

static ferry_status
fill_from_host(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct staged *staged = flow->user;
    chunk->bytes = ferryi_run_part(flow->run, flow->filled, staged->how->part, staged->device_unit);
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
ferryi_staged_copy(struct ferryi_run *run, const struct ferryi_staging *how, void *target,
                   const void *source)
{
    const struct ferryi_transform *transform = run->transform;
    const size_t chunk_bytes = how->ring->chunk_bytes;
    const bool from_host = run->direction == FERRY_DIRECTION_UPLOAD;
    const bool to_host = run->direction == FERRY_DIRECTION_DOWNLOAD;
    struct staged staged = {.how = how, .host_unit = 1, .device_unit = 1};
    staged.flow = (struct ferryi_flow){.run = run,
                                       .ring = how->ring,
                                       .fill = from_host ? fill_from_host : fill_from_device,
                                       .drain = to_host ? drain_to_host : ferryi_flow_send,
                                       .limit = from_host ? how->window : how->ring->chunk_count,
                                       .window = to_host ? how->window : 1,
                                       .target = target,
                                       .source = source,
                                       .user = &staged};
    if (transform) {
        staged.host_unit = to_host ? transform->target_bytes : transform->source_bytes;
        staged.device_unit = to_host ? transform->source_bytes : transform->target_bytes;
    }
    if (staged.device_unit <= chunk_bytes)
        return ferryi_flow_run(&staged.flow);
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "one element of %zu bytes is larger than a staging chunk of %zu bytes",
                       staged.device_unit, chunk_bytes);
}
