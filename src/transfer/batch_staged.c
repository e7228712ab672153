/* SPDX-License-Identifier: MIT */
#include "src/transfer/batch_inside.h"

#include <string.h>

/* Copies pieces through chunks of a staging ring: packs them into chunks, and unpacks them on the
 * other side. */

/* Number of chunks in flight from a device at once. */
#define DEPTH 2

void
ferryi_batch_plan_chunks(struct ferryi_batch *batch, const struct ferryi_ring *ring)
{
    const ferryi_device *device = batch->run->timeline->device;
    size_t table_bytes = batch->room * sizeof(*batch->table);
    bool may_scatter = device->capabilities & FERRY_CAN_LOAD_CODE;
    batch->table_at = ring->chunk_bytes;
    if (may_scatter && table_bytes < ring->chunk_bytes / 2)
        batch->table_at = (ring->chunk_bytes - table_bytes) / sizeof(uint64_t) * sizeof(uint64_t);
    batch->packed_max = ferryi_run_part(
        batch->run, 0,
        ferryi_min_size(batch->table_at,
                        ferryi_staging_part(batch->run->engine, ring, batch->run->bytes)),
        1);
}

static struct ferryi_scatter_entry *
table_of(const struct ferryi_batch *batch, const struct ferryi_ring *ring,
         const struct ferryi_chunk *chunk)
{
    return batch->table_at < ring->chunk_bytes ? (void *)((char *)chunk->memory + batch->table_at)
                                               : NULL;
}

/* Sets the entries to the next copies between a chunk and the device, and for an upload packs the
 * bytes into the chunk. Sets chunk->bytes. */
static void
gather(struct ferryi_batch *batch, const struct ferryi_ring *ring, struct ferryi_chunk *chunk)
{
    bool up = batch->run->direction == FERRY_DIRECTION_UPLOAD;
    size_t whole = batch->packed_max;
    batch->table = table_of(batch, ring, chunk);
    batch->entry_count = 0;
    chunk->bytes = 0;
    while (batch->at.piece < batch->count && batch->entry_count < batch->room) {
        const struct ferryi_piece *piece = &batch->pieces[batch->at.piece];
        size_t bytes = ferryi_batch_part(batch, batch->at, whole - chunk->bytes, whole),
               offset = batch->at.offset;
        if (bytes == 0)
            break;
        char *packed = (char *)chunk->memory + chunk->bytes;
        if (up) {
            memcpy(packed, (const char *)piece->source + offset, bytes);
            ferryi_batch_add(batch, (char *)piece->target + offset, packed, bytes,
                             piece->target_owner);
        } else {
            ferryi_batch_add(batch, packed, (const char *)piece->source + offset, bytes,
                             piece->source_owner);
        }
        chunk->bytes += bytes;
        ferryi_batch_advance(batch, &batch->at, bytes);
    }
}

static ferry_status
upload_chunk(struct ferryi_batch *batch, struct ferryi_ring *ring)
{
    struct ferryi_run *run = batch->run;
    struct ferryi_chunk *chunk;
    ferry_status status = ferryi_ring_take(ring, true, &chunk), marked = FERRY_OK;
    if (status != FERRY_OK)
        return status;
    size_t bytes;
    gather(batch, ring, chunk);
    status = ferryi_batch_submit(batch, &bytes);
    if (bytes > 0)
        marked = ferryi_run_mark_sent(run, ring, chunk);
    else
        ferryi_ring_give(ring, chunk);
    if (bytes > 0) {
        ferryi_run_count_chunk(run);
        ferryi_run_count_copied(run, bytes);
        ferryi_run_arrived(run, bytes);
    }
    status = status == FERRY_OK ? marked : status;
    return status == FERRY_OK ? ferryi_run_progress(run) : status;
}

ferry_status
ferryi_batch_upload(struct ferryi_batch *batch, struct ferryi_ring *ring)
{
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && batch->at.piece < batch->count)
        status = upload_chunk(batch, ring);
    return status;
}

/* Chunks in flight from a device, and the position of the oldest chunk's first byte in the pieces.
 */
struct landings {
    struct ferryi_chain chunks;
    struct ferryi_cursor at;
};

/* Queues the download of one more chunk. Sets `*out_none` if no chunk is free while some of this
 * batch are in flight. */
static ferry_status
launch(struct ferryi_batch *batch, struct ferryi_ring *ring, struct landings *landings,
       bool *out_none)
{
    struct ferryi_run *run = batch->run;
    ferryi_timeline *timeline = run->second ? run->second : run->timeline;
    struct ferryi_chunk *chunk;
    ferry_status status = ferryi_ring_take(ring, landings->chunks.count == 0, &chunk);
    *out_none = status == FERRY_OK && !chunk;
    if (status != FERRY_OK || !chunk)
        return status;
    size_t bytes;
    batch->timeline = timeline;
    batch->direction = FERRY_DIRECTION_DOWNLOAD;
    gather(batch, ring, chunk);
    status = ferryi_batch_submit(batch, &bytes);
    if (status == FERRY_OK)
        status = ferryi_chunk_mark(chunk, timeline);
    else if (bytes > 0) /* some copies into the chunk are on their way */
        (void)ferryi_chunk_settle(chunk, timeline);
    if (status == FERRY_OK)
        status = ferryi_timeline_flush(timeline);
    if (status == FERRY_OK)
        ferryi_chain_push(&landings->chunks, chunk);
    else
        ferryi_ring_give(ring, chunk);
    return status;
}

static ferry_status
land(struct ferryi_batch *batch, struct ferryi_ring *ring, struct landings *landings)
{
    struct ferryi_cursor *at = &landings->at;
    struct ferryi_chunk *chunk = ferryi_chain_pop(&landings->chunks);
    ferry_status status = ferryi_chunk_wait(ring, chunk);
    size_t bytes = chunk->bytes;
    for (size_t done = 0; status == FERRY_OK && done < bytes;) {
        size_t part = ferryi_min_size(batch->pieces[at->piece].bytes - at->offset, bytes - done);
        memcpy((char *)batch->pieces[at->piece].target + at->offset, (char *)chunk->memory + done,
               part);
        ferryi_batch_advance(batch, at, part);
        done += part;
    }
    ferryi_ring_give(ring, chunk);
    if (status == FERRY_OK) {
        ferryi_run_count_chunk(batch->run);
        ferryi_run_count_copied(batch->run, bytes);
        ferryi_run_arrived(batch->run, bytes);
    }
    return status == FERRY_OK ? ferryi_run_progress(batch->run) : status;
}

/* Sets the entries to the copies from a chunk, from byte `*done` on, to the pieces that the bytes
 * belong to. Advances `*done`. */
static void
unpack(struct ferryi_batch *batch, struct ferryi_cursor *at, const struct ferryi_chunk *chunk,
       size_t *done)
{
    batch->entry_count = 0;
    while (*done < chunk->bytes && batch->entry_count < batch->room) {
        const struct ferryi_piece *piece = &batch->pieces[at->piece];
        size_t part = ferryi_min_size(piece->bytes - at->offset, chunk->bytes - *done);
        ferryi_batch_add(batch, (char *)piece->target + at->offset,
                         (const char *)chunk->memory + *done, part, piece->target_owner);
        ferryi_batch_advance(batch, at, part);
        *done += part;
    }
}

/* Waits for the oldest chunk that the source's device packed, and queues its copies to the target's
 * device. */
static ferry_status
send_on(struct ferryi_batch *batch, struct ferryi_ring *ring, struct landings *landings)
{
    struct ferryi_run *run = batch->run;
    struct ferryi_chunk *chunk = ferryi_chain_pop(&landings->chunks);
    ferry_status status = ferryi_chunk_wait(ring, chunk), marked = FERRY_OK;
    size_t sent = 0, bytes;
    batch->timeline = run->timeline;
    batch->direction = FERRY_DIRECTION_UPLOAD;
    batch->table = table_of(batch, ring, chunk);
    for (size_t done = 0; status == FERRY_OK && done < chunk->bytes; sent += bytes) {
        unpack(batch, &landings->at, chunk, &done);
        status = ferryi_batch_submit(batch, &bytes);
        batch->table = NULL; /* the kernel may still read the table */
    }
    if (sent > 0)
        marked = ferryi_run_mark_sent(run, ring, chunk);
    else
        ferryi_ring_give(ring, chunk);
    if (sent > 0) {
        ferryi_run_count_chunk(run);
        ferryi_run_arrived(run, sent);
    }
    status = status == FERRY_OK ? marked : status;
    return status == FERRY_OK ? ferryi_run_progress(run) : status;
}

ferry_status
ferryi_batch_download(struct ferryi_batch *batch, struct ferryi_ring *ring)
{
    struct landings landings = {.at = batch->at};
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && batch->run->done < batch->run->bytes) {
        bool none = true;
        if (batch->at.piece < batch->count && landings.chunks.count < DEPTH)
            status = launch(batch, ring, &landings, &none);
        if (status == FERRY_OK && none)
            status =
                batch->run->second ? send_on(batch, ring, &landings) : land(batch, ring, &landings);
    }
    while (landings.chunks.count > 0)
        ferryi_ring_give(ring, ferryi_chain_pop(&landings.chunks));
    return status;
}
