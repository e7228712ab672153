/* SPDX-License-Identifier: MIT */
#include "src/transfer/flow.h"

/* Makes transfers through a staging ring, between one range of host memory and a device, or between
 * two devices. */

struct staged {
    struct ferryi_flow flow;
    const struct ferryi_staging *how;
};

/* Copies between host memory and the chunk. Helper threads may complete the copy after the function
 * has returned. */
static void
convey(const struct staged *staged, struct ferryi_chunk *chunk, void *target, const void *source)
{
    chunk->task = (struct ferryi_task){.loop = staged->how->loop,
                                       .target = target,
                                       .source = source,
                                       .bytes = chunk->bytes,
                                       .helper = chunk->task.helper};
    ferryi_helpers_submit(&staged->flow.run->engine->helpers, &chunk->task, staged->how->shared);
}

static ferry_status
fill_from_host(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct staged *staged = flow->user;
    chunk->bytes = ferryi_run_part(flow->run, flow->filled, staged->how->part, 1);
    convey(staged, chunk, chunk->memory, flow->source + flow->filled);
    return FERRY_OK;
}

static ferry_status
fill_from_device(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct staged *staged = flow->user;
    chunk->bytes = ferryi_run_part(flow->run, flow->filled, staged->how->part, 1);
    return ferryi_flow_fetch(flow, chunk);
}

static ferry_status
drain_to_host(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct staged *staged = flow->user;
    convey(staged, chunk, flow->target + flow->drained, chunk->memory);
    return FERRY_OK;
}

/* Returns how many bytes of the target of a transfer its thread loads into the caches while a
 * device copies: all of them in a short download from a device with a copy engine. */
static size_t
touched_by(const struct ferryi_run *run)
{
    return run->direction == FERRY_DIRECTION_DOWNLOAD && run->bytes <= FERRYI_STAGED_MOST &&
                   ferryi_engine_is_driven(run->engine, run->source_place)
               ? run->bytes
               : 0;
}

ferry_status
ferryi_staged_copy(struct ferryi_run *run, const struct ferryi_staging *how, void *target,
                   const void *source)
{
    const bool from_host = run->direction == FERRY_DIRECTION_UPLOAD;
    const bool to_host = run->direction == FERRY_DIRECTION_DOWNLOAD;
    struct staged staged = {.how = how};
    staged.flow = (struct ferryi_flow){.run = run,
                                       .ring = how->ring,
                                       .fill = from_host ? fill_from_host : fill_from_device,
                                       .drain = to_host ? drain_to_host : ferryi_flow_send,
                                       .limit = from_host ? how->window : how->ring->chunk_count,
                                       .window = to_host ? how->window : 1,
                                       .target = target,
                                       .source = source,
                                       .touched = touched_by(run),
                                       .user = &staged};
    return ferryi_flow_run(&staged.flow);
}
