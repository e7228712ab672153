/* SPDX-License-Identifier: MIT */
#include "src/transfer/flow.h"

#include "src/base/copy_loop.h"

/* -- device memory as source and sink ---------------------------------------------------------- */

/* Loads the cache lines into which the host will write next, unless they were loaded before. The
 * device copies meanwhile, so this takes no time of the transfer. */
static void
touch_target(struct ferryi_flow *flow)
{
    for (size_t at = 0; at < flow->touched; at += FERRYI_LINE)
        __builtin_prefetch(flow->target + at, 1);
    flow->touched = 0;
}

/*
 * Records that the queued downloads use the chunk into which they copy.
 *
 * If the chunk holds the whole transfer, waits for the downloads at once. The host could not fill a
 * different chunk during the downloads, and a wait without an event costs fewer driver calls.
 * Otherwise, records an event at once, so that a wait for this chunk does not include downloads
 * into later chunks.
 */
ferry_status
ferryi_flow_mark_fetched(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    ferryi_timeline *timeline = ferryi_run_source_timeline(flow->run);
    if (chunk->bytes == flow->run->bytes) {
        touch_target(flow);
        return ferryi_chunk_settle(chunk, timeline);
    }
    ferry_status status = ferryi_chunk_mark(chunk, timeline);
    return status == FERRY_OK ? ferryi_timeline_flush(timeline) : status;
}

ferry_status
ferryi_flow_fetch(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    struct ferryi_run *run = flow->run;
    ferryi_timeline *timeline = ferryi_run_source_timeline(run);
    const struct ferryi_copy copy = {chunk->memory, flow->source + flow->filled, chunk->bytes,
                                     FERRY_DIRECTION_DOWNLOAD, NULL};
    FERRYI_OR_RETURN(FERRYI_CALL(timeline->device, copy, &copy, timeline->native));
    run->queued = true;
    return ferryi_flow_mark_fetched(flow, chunk);
}

ferry_status
ferryi_flow_send(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    struct ferryi_run *run = flow->run;
    ferryi_timeline *timeline = run->timeline;
    const struct ferryi_copy copy = {flow->target + flow->drained, chunk->memory, chunk->bytes,
                                     FERRY_DIRECTION_UPLOAD, NULL};
    ferry_status status = FERRYI_CALL(timeline->device, copy, &copy, timeline->native);
    if (status != FERRY_OK) {
        chunk->bytes = 0;
        return status;
    }
    run->queued = true;
    return ferryi_run_mark_sent(run, flow->ring, chunk);
}

/* -- the loop ---------------------------------------------------------------------------------- */

static size_t
held(const struct ferryi_flow *flow)
{
    return flow->filling.count + flow->draining.count;
}

/* Begins to fill one more chunk. Sets `*out_none` to whether no chunk can be filled now. There are
 * three possible reasons: all bytes of the transfer are in chunks already, the flow holds its
 * maximum number of chunks, or other transfers hold the remaining chunks. */
static ferry_status
fill_next(struct ferryi_flow *flow, bool *out_none)
{
    struct ferryi_chunk *chunk = NULL;
    ferry_status status = FERRY_OK;
    if (flow->filled < flow->run->bytes && held(flow) < flow->limit)
        status = ferryi_ring_take(flow->ring, held(flow) == 0, &chunk);
    *out_none = status == FERRY_OK && !chunk;
    if (status != FERRY_OK || !chunk)
        return status;
    chunk->task.given = false;
    chunk->task.bytes = 0;
    ferryi_chain_push(&flow->filling, chunk);
    status = flow->fill(flow, chunk);
    flow->filled += chunk->bytes;
    return status;
}

/* Waits for the chunk's task, a copy that a helper thread may make. Adds the copy to the
 * statistics. Does nothing if the chunk has no task. */
static void
finish_task(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    ferryi_engine *engine = flow->run->engine;
    struct ferryi_task *task = &chunk->task;
    ferryi_helpers_finish(&engine->helpers, task);
    if (task->bytes == 0)
        return;
    if (!flow->run->transform)
        ferryi_run_count_copied(flow->run, task->bytes);
    if (task->helper > FERRYI_HELPERS_SUBMITTER)
        atomic_fetch_add_explicit(&engine->helper_chunks, 1, memory_order_relaxed);
    task->given = false;
    task->bytes = 0;
}

static void
count(struct ferryi_flow *flow, size_t bytes)
{
    if (bytes == 0)
        return;
    atomic_fetch_add_explicit(&flow->run->engine->chunks, 1, memory_order_relaxed);
    ferryi_run_arrived(flow->run, bytes);
}

/* Waits until the oldest chunk of the flow is filled, and then begins to drain it. */
static ferry_status
drain_next(struct ferryi_flow *flow)
{
    struct ferryi_chunk *chunk = flow->filling.first;
    finish_task(flow, chunk);
    touch_target(flow);
    FERRYI_OR_RETURN(ferryi_chunk_wait(flow->ring, chunk));
    ferry_status status = flow->drain(flow, chunk);
    flow->drained += chunk->bytes;
    if (status == FERRY_OK)
        ferryi_chain_push(&flow->draining, ferryi_chain_pop(&flow->filling));
    else
        count(flow, chunk->bytes);
    return status;
}

/* Waits until the host has drained the oldest chunk of the flow, and then returns the chunk to the
 * ring. Does not wait for a device that still reads the chunk. */
static ferry_status
finish_next(struct ferryi_flow *flow)
{
    struct ferryi_chunk *chunk = ferryi_chain_pop(&flow->draining);
    const size_t bytes = chunk->bytes;
    finish_task(flow, chunk);
    ferryi_ring_give(flow->ring, chunk);
    count(flow, bytes);
    return ferryi_run_progress(flow->run);
}

/* Returns all chunks of a list to the ring after a failure. Each chunk records the queued work that
 * still uses it, so the next transfer that takes the chunk waits for that work. */
static void
give_all(struct ferryi_flow *flow, struct ferryi_chain *chain)
{
    while (chain->count > 0) {
        struct ferryi_chunk *chunk = ferryi_chain_pop(chain);
        ferryi_helpers_finish(&flow->run->engine->helpers, &chunk->task);
        ferryi_ring_give(flow->ring, chunk);
    }
}

/* Returns whether a helper thread has filled the oldest chunk, which can therefore be drained. */
static bool
is_filled(const struct ferryi_flow *flow)
{
    const struct ferryi_chunk *chunk = flow->filling.first;
    return flow->filling.count > 0 && chunk->task.given &&
           atomic_load_explicit(&chunk->task.done, memory_order_acquire);
}

ferry_status
ferryi_flow_run(struct ferryi_flow *flow)
{
    struct ferryi_run *run = flow->run;
    const size_t window = ferryi_max_size(flow->window, 1);
    ferry_status status = FERRY_OK;
    flow->filled = flow->drained = run->done;
    while (status == FERRY_OK && run->done < run->bytes) {
        bool none = is_filled(flow);
        if (!none)
            status = fill_next(flow, &none);
        if (status != FERRY_OK || !none)
            continue;
        if (flow->filling.count > 0 && flow->draining.count < window)
            status = drain_next(flow);
        if (status == FERRY_OK && (flow->draining.count >= window || flow->filling.count == 0))
            status = finish_next(flow);
    }
    give_all(flow, &flow->draining);
    give_all(flow, &flow->filling);
    return status;
}
