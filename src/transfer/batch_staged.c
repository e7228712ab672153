/* SPDX-License-Identifier: MIT */
#include "src/transfer/batch_inside.h"
#include "src/transfer/flow.h"

/* Copies the pieces of a batch through chunks of a staging ring. The source side packs the pieces
 * into chunks, and the target side unpacks the chunks. */

/* Maximum number of chunks of the staging ring that one copy from a device holds at the same time.
 */
#define DEPTH 2

/* The state of a batch whose pieces are copied through a staging ring. */
struct packing {
    struct ferryi_batch *batch;
    size_t table_at;   /* offset in a chunk at which the scatter kernel's table begins; the chunk's
                          size if there is no table */
    size_t packed_max; /* maximum number of bytes of pieces in a chunk */
    const void *last_owner;        /* the allocation that the last copy in the batch's list reads or
                                      writes; the other side of this copy is a chunk */
    struct ferryi_cursor unpacked; /* the first byte that has not left a chunk yet */
};

/* Chooses how many bytes of the batch's pieces each chunk carries. Reserves space behind these
 * bytes for the scatter kernel's table of copies. If the table would take at least half of a chunk,
 * the chunks carry no table. */
static void
plan_chunks(struct packing *packing, const struct ferryi_ring *ring)
{
    const struct ferryi_batch *batch = packing->batch;
    const ferryi_device *device = batch->run->timeline->device;
    size_t table_bytes = batch->room * sizeof(*batch->table);
    bool may_scatter = device->capabilities & FERRY_CAN_LOAD_CODE;
    packing->table_at = ring->chunk_bytes;
    if (may_scatter && table_bytes < ring->chunk_bytes / 2)
        packing->table_at = (ring->chunk_bytes - table_bytes) / sizeof(uint64_t) * sizeof(uint64_t);
    packing->packed_max = ferryi_run_part(
        batch->run, 0,
        ferryi_min_size(packing->table_at,
                        ferryi_staging_part(batch->run->engine, ring, batch->run->bytes)),
        1);
}

/* Returns the address of the scatter kernel's table of copies in the chunk. Returns NULL if the
 * chunk has no table. */
static struct ferryi_scatter_entry *
table_of(const struct packing *packing, const struct ferryi_flow *flow,
         const struct ferryi_chunk *chunk)
{
    return packing->table_at < flow->ring->chunk_bytes
               ? (void *)((char *)chunk->memory + packing->table_at)
               : NULL;
}

/* Appends a copy to the batch's list of copies. If the copy continues the last copy in the list, in
 * both source and target, and has the same `owner`, extends the last copy instead. */
static void
add_copy(struct packing *packing, void *target, const void *source, size_t bytes, const void *owner)
{
    struct ferryi_batch *batch = packing->batch;
    struct ferryi_copy *last =
        batch->entry_count > 0 ? &batch->entries[batch->entry_count - 1] : NULL;
    if (last && packing->last_owner == owner && (char *)last->target + last->bytes == target &&
        (const char *)last->source + last->bytes == source) {
        last->bytes += bytes;
        return;
    }
    batch->entries[batch->entry_count++] = (struct ferryi_copy){
        .target = target, .source = source, .bytes = bytes, .direction = batch->direction};
    packing->last_owner = owner;
}

/* Fills the batch's list of copies with the next copies between the chunk and a device. For an
 * upload, also copies the bytes from host memory into the chunk. Sets `chunk->bytes`. */
static void
pack(struct packing *packing, struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    struct ferryi_batch *batch = packing->batch;
    bool up = flow->run->direction == FERRY_DIRECTION_UPLOAD;
    size_t whole = packing->packed_max;
    batch->table = table_of(packing, flow, chunk);
    batch->entry_count = 0;
    chunk->bytes = 0;
    while (batch->at.piece < batch->count && batch->entry_count < batch->room) {
        const struct ferryi_piece *piece = &batch->pieces[batch->at.piece];
        size_t bytes = ferryi_batch_part(batch, batch->at, whole - chunk->bytes, whole),
               offset = batch->at.offset;
        if (bytes == 0)
            break;
        char *packed = (char *)chunk->memory + chunk->bytes;
        const char *source = (const char *)piece->source + offset;
        if (up) {
            ferryi_copy_bytes(FERRYI_COPY_LIBC, packed, source, bytes);
            add_copy(packing, (char *)piece->target + offset, packed, bytes, piece->target_owner);
        } else {
            add_copy(packing, packed, source, bytes, piece->source_owner);
        }
        chunk->bytes += bytes;
        ferryi_batch_advance(batch, &batch->at, bytes);
    }
}

static ferry_status
fill_from_host(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    pack(flow->user, flow, chunk);
    ferryi_run_count_copied(flow->run, chunk->bytes);
    return FERRY_OK;
}

/* Submits the copies that fill_from_host() has listed. They copy from the chunk to the device. */
static ferry_status
drain_to_device(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct packing *packing = flow->user;
    ferry_status status = ferryi_batch_submit(packing->batch, &chunk->bytes);
    if (chunk->bytes == 0)
        return status;
    ferry_status marked = ferryi_run_mark_sent(flow->run, flow->ring, chunk);
    return status == FERRY_OK ? marked : status;
}

static ferry_status
fill_from_device(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    struct packing *packing = flow->user;
    struct ferryi_batch *batch = packing->batch;
    ferryi_timeline *timeline = ferryi_run_source_timeline(flow->run);
    size_t bytes;
    batch->timeline = timeline;
    batch->direction = FERRY_DIRECTION_DOWNLOAD;
    pack(packing, flow, chunk);
    ferry_status status = ferryi_batch_submit(batch, &bytes);
    if (status == FERRY_OK)
        return ferryi_flow_mark_fetched(flow, chunk);
    if (bytes > 0) /* copies into the chunk may be in flight */
        (void)ferryi_chunk_settle(chunk, timeline);
    return status;
}

static ferry_status
drain_to_host(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    struct packing *packing = flow->user;
    const struct ferryi_batch *batch = packing->batch;
    struct ferryi_cursor *at = &packing->unpacked;
    for (size_t done = 0, part; done < chunk->bytes; done += part) {
        const struct ferryi_piece *piece = &batch->pieces[at->piece];
        part = ferryi_min_size(piece->bytes - at->offset, chunk->bytes - done);
        ferryi_copy_bytes(FERRYI_COPY_LIBC, (char *)piece->target + at->offset,
                          (const char *)chunk->memory + done, part);
        ferryi_batch_advance(batch, at, part);
    }
    ferryi_run_count_copied(flow->run, chunk->bytes);
    return FERRY_OK;
}

/* Fills the batch's list of copies with copies from the chunk to the batch's pieces. The first copy
 * begins at byte `*done` of the chunk. Increases `*done` by the number of bytes that the copies
 * cover. */
static void
unpack(struct packing *packing, const struct ferryi_chunk *chunk, size_t *done)
{
    struct ferryi_batch *batch = packing->batch;
    struct ferryi_cursor *at = &packing->unpacked;
    batch->entry_count = 0;
    while (*done < chunk->bytes && batch->entry_count < batch->room) {
        const struct ferryi_piece *piece = &batch->pieces[at->piece];
        size_t part = ferryi_min_size(piece->bytes - at->offset, chunk->bytes - *done);
        add_copy(packing, (char *)piece->target + at->offset, (const char *)chunk->memory + *done,
                 part, piece->target_owner);
        ferryi_batch_advance(batch, at, part);
        *done += part;
    }
}

/* Queues the copies from a chunk to the target device. The source device has already packed the
 * pieces into the chunk. */
static ferry_status
drain_to_peer(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    struct packing *packing = flow->user;
    struct ferryi_batch *batch = packing->batch;
    ferry_status status = FERRY_OK;
    size_t sent = 0;
    batch->timeline = flow->run->timeline;
    batch->direction = FERRY_DIRECTION_UPLOAD;
    batch->table = table_of(packing, flow, chunk);
    for (size_t done = 0, bytes; status == FERRY_OK && done < chunk->bytes; sent += bytes) {
        unpack(packing, chunk, &done);
        status = ferryi_batch_submit(batch, &bytes);
        batch->table = NULL; /* the kernel may still read the table */
    }
    chunk->bytes = sent;
    if (sent == 0)
        return status;
    ferry_status marked = ferryi_run_mark_sent(flow->run, flow->ring, chunk);
    return status == FERRY_OK ? marked : status;
}

ferry_status
ferryi_batch_stage(struct ferryi_batch *batch, struct ferryi_ring *ring)
{
    struct ferryi_run *run = batch->run;
    struct packing packing = {.batch = batch, .unpacked = batch->at};
    struct ferryi_flow flow = {.run = run, .ring = ring, .user = &packing};
    plan_chunks(&packing, ring);
    if (run->direction == FERRY_DIRECTION_UPLOAD) {
        flow.fill = fill_from_host;
        flow.drain = drain_to_device;
        flow.limit = 1; /* the entries are those of one chunk */
    } else {
        flow.fill = fill_from_device;
        flow.drain = run->second ? drain_to_peer : drain_to_host;
        flow.limit = DEPTH;
    }
    return ferryi_flow_run(&flow);
}
