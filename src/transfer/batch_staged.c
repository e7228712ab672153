/* SPDX-License-Identifier: MIT */
#include "src/transfer/batch_inside.h"

#include "src/transfer/flow.h"
#include <assert.h>

/* Copies the pieces of a batch through chunks of a staging ring. The source side packs the pieces
 * into chunks, and the target side unpacks the chunks. */

/* Maximum number of chunks of the staging ring that one copy from a device holds at the same time
 * if no helper threads take part. */
#define DEPTH 2

/* The state of a batch whose pieces are copied through a staging ring. */
struct packing {
    struct ferryi_batch *batch;
    const struct ferryi_staging *how;
    size_t table_at;   /* offset in a chunk at which the scatter kernel's table begins; the chunk's
                          size if there is no table */
    size_t packed_max; /* maximum number of bytes of pieces in a chunk */
    const void *last_owner;        /* the allocation that the last copy in the batch's list reads or
                                      writes; the other side of this copy is a chunk */
    struct ferryi_cursor unpacked; /* the first byte that has not left a chunk yet */
    /* size of an element in bytes on the host and on the device; both are 1 if the host does not
     * convert */
    size_t host_unit, device_unit;
};

/* Chooses how many bytes of the batch's pieces each chunk carries. Reserves space behind these
 * bytes for the scatter kernel's table of copies. If the table would take at least half of a chunk,
 * the chunks carry no table. */
static void
plan_chunks(struct packing *packing)
{
    const struct ferryi_batch *batch = packing->batch;
    const struct ferryi_ring *ring = packing->how->ring;
    const ferryi_device *device = batch->run->timeline->device;
    size_t table_bytes = batch->room * sizeof(*batch->table);
    const size_t unit = packing->device_unit > 1 ? packing->device_unit : batch->run->job->unit;
    packing->table_at = ring->chunk_bytes;
    if (ferryi_scatter_may_run(device) && table_bytes < ring->chunk_bytes / 2 &&
        packing->device_unit + table_bytes + sizeof(uint64_t) <= ring->chunk_bytes)
        packing->table_at = (ring->chunk_bytes - table_bytes) / sizeof(uint64_t) * sizeof(uint64_t);
    const size_t most = ferryi_min_size(packing->table_at, packing->how->part);
    packing->packed_max = ferryi_min_size(most, ferryi_run_part(batch->run, 0, most, unit));
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
    assert(batch->entries);
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

/* -- between the host and a chunk -------------------------------------------------------------- */

/* Copies between memory of a chunk and the host's side of a piece, which lies `offset` bytes of the
 * device behind the piece's begin. Sets `*out_bytes` to the number of bytes of the chunk that were
 * copied, even if the call fails. */
static ferry_status
copy_part(const struct packing *packing, const struct ferryi_piece *piece, size_t offset,
          char *chunk, size_t bytes, size_t *out_bytes)
{
    const struct ferryi_host_side *host_side = packing->batch->host_side;
    const bool packs = packing->batch->run->direction == FERRY_DIRECTION_UPLOAD;
    const size_t at = offset / packing->device_unit * packing->host_unit;
    void *target = packs ? chunk : (void *)((uintptr_t)piece->target + at);
    const void *source = packs ? (const void *)((uintptr_t)piece->source + at) : chunk;
    if (host_side)
        return ferryi_host_side_run(host_side, target, source, bytes, packs, out_bytes);
    ferryi_copy_bytes(FERRYI_COPY_LIBC, target, source, bytes);
    *out_bytes = bytes;
    return FERRY_OK;
}

/* Copies between the chunk of the task and pieces of host memory. Sets `*out_bytes` to the number
 * of bytes that were copied. */
static ferry_status
copy_task(const struct ferryi_task *task, size_t *out_bytes)
{
    const struct packing *packing = task->user;
    const struct ferryi_piece *piece = &packing->batch->pieces[task->piece];
    ferry_status status = FERRY_OK;
    size_t offset = task->offset;
    for (*out_bytes = 0; status == FERRY_OK && *out_bytes < task->bytes; piece++, offset = 0) {
        size_t part = ferryi_min_size(piece->bytes - offset, task->bytes - *out_bytes), copied;
        status =
            copy_part(packing, piece, offset, (char *)task->target + *out_bytes, part, &copied);
        *out_bytes += copied;
    }
    return status;
}

/* The function of a task, which cannot fail: submit_pieces() makes the others itself. */
static void
copy_pieces(const struct ferryi_task *task)
{
    size_t bytes;
    (void)copy_task(task, &bytes);
}

/* Returns whether helper threads may copy between chunks and the host's side of the pieces. */
static bool
is_for_helpers(const struct ferryi_host_side *host_side)
{
    return !host_side || (!host_side->file && host_side->transform->by_helpers);
}

/* Copies between the chunk and the pieces of host memory that begin at the cursor `at`, or begins
 * to. If the copy may fail, it is made at once. Sets `chunk->bytes` to the number of bytes that
 * were copied if it fails. */
static ferry_status
submit_pieces(const struct packing *packing, struct ferryi_chunk *chunk, struct ferryi_cursor at)
{
    const struct ferryi_task task = {.copy = copy_pieces,
                                     .target = chunk->memory,
                                     .bytes = chunk->bytes,
                                     .user = packing,
                                     .piece = at.piece,
                                     .offset = at.offset,
                                     .helper = chunk->task.helper};
    if (!is_for_helpers(packing->batch->host_side))
        return copy_task(&task, &chunk->bytes);
    chunk->task = task;
    ferryi_helpers_submit(&packing->batch->run->engine->helpers, &chunk->task,
                          packing->how->shared);
    return FERRY_OK;
}

/* Chooses the next pieces for the chunk, and begins to copy them into the chunk. */
static ferry_status
fill_from_host(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    const struct packing *packing = flow->user;
    struct ferryi_batch *batch = packing->batch;
    const struct ferryi_cursor begin = batch->at;
    const size_t whole = packing->packed_max;
    chunk->bytes = 0;
    for (size_t i = 0, bytes; batch->at.piece < batch->count && i < batch->room; i++) {
        bytes = ferryi_batch_part(batch, batch->at, whole - chunk->bytes, whole);
        if (bytes == 0)
            break;
        chunk->bytes += bytes;
        ferryi_batch_advance(batch, &batch->at, bytes);
    }
    return submit_pieces(packing, chunk, begin);
}

static ferry_status
drain_to_host(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
{
    struct packing *packing = flow->user;
    const struct ferryi_batch *batch = packing->batch;
    struct ferryi_cursor *at = &packing->unpacked;
    const struct ferryi_cursor begin = *at;
    for (size_t done = 0, part; done < chunk->bytes; done += part) {
        part = ferryi_min_size(batch->pieces[at->piece].bytes - at->offset, chunk->bytes - done);
        ferryi_batch_advance(batch, at, part);
    }
    return submit_pieces(packing, chunk, begin);
}

/* -- between a chunk and a device -------------------------------------------------------------- */

/* Submits copies from the chunk to the target device. */
static ferry_status
drain_to_device(struct ferryi_flow *flow, struct ferryi_chunk *chunk)
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

/* Fills the batch's list of copies with the next copies from the source device to the chunk. Sets
 * `chunk->bytes`. */
static void
pack(struct packing *packing, struct ferryi_chunk *chunk)
{
    struct ferryi_batch *batch = packing->batch;
    size_t whole = packing->packed_max;
    batch->entry_count = 0;
    chunk->bytes = 0;
    while (batch->at.piece < batch->count && batch->entry_count < batch->room) {
        const struct ferryi_piece *piece = &batch->pieces[batch->at.piece];
        size_t bytes = ferryi_batch_part(batch, batch->at, whole - chunk->bytes, whole);
        if (bytes == 0)
            break;
        add_copy(packing, (char *)chunk->memory + chunk->bytes,
                 (const char *)piece->source + batch->at.offset, bytes, piece->source_owner);
        chunk->bytes += bytes;
        ferryi_batch_advance(batch, &batch->at, bytes);
    }
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
    batch->table = table_of(packing, flow, chunk);
    pack(packing, chunk);
    ferry_status status = ferryi_batch_submit(batch, &bytes);
    if (status == FERRY_OK)
        return ferryi_flow_mark_fetched(flow, chunk);
    if (bytes > 0) /* copies into the chunk may be in flight */
        (void)ferryi_chunk_settle(chunk, timeline);
    return status;
}

/* Returns how the batch is staged. Helper threads are for what helpers may copy. A long batch fills
 * whole chunks, because each chunk costs a launch or a batched copy. */
static struct ferryi_staging
choose_staging(const struct ferryi_batch *batch)
{
    const struct ferryi_run *run = batch->run;
    bool down = run->direction == FERRY_DIRECTION_DOWNLOAD;
    if (!is_for_helpers(batch->host_side))
        return ferryi_staging_plain(run->engine, down ? run->source_place : run->target_place);
    struct ferryi_staging how = ferryi_staging_choose(run);
    if (run->bytes >= FERRYI_HELP_FROM)
        how.part = how.ring->chunk_bytes;
    return how;
}

static void
set_units(struct packing *packing)
{
    const struct ferryi_batch *batch = packing->batch;
    const struct ferryi_transform *transform =
        batch->host_side ? batch->host_side->transform : NULL;
    const bool down = batch->run->direction == FERRY_DIRECTION_DOWNLOAD;
    packing->host_unit = packing->device_unit = 1;
    if (!transform)
        return;
    packing->host_unit = down ? transform->target_bytes : transform->source_bytes;
    packing->device_unit = down ? transform->source_bytes : transform->target_bytes;
}

ferry_status
ferryi_batch_stage(struct ferryi_batch *batch)
{
    struct ferryi_run *run = batch->run;
    const struct ferryi_staging how = choose_staging(batch);
    struct packing packing = {.batch = batch, .how = &how, .unpacked = batch->at};
    const bool from_host = run->direction == FERRY_DIRECTION_UPLOAD;
    const bool to_host = run->direction == FERRY_DIRECTION_DOWNLOAD;
    set_units(&packing);
    plan_chunks(&packing);
    if (packing.device_unit > packing.packed_max)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "one element of %zu bytes is larger than a staging chunk of %zu bytes",
                           packing.device_unit, how.ring->chunk_bytes);
    struct ferryi_flow flow = {.run = run,
                               .ring = how.ring,
                               .fill = from_host ? fill_from_host : fill_from_device,
                               .drain = to_host ? drain_to_host : drain_to_device,
                               .limit = from_host    ? how.window
                                        : how.shared ? how.ring->chunk_count
                                                     : DEPTH,
                               .window = to_host ? how.window : 1,
                               .user = &packing};
    return ferryi_flow_run(&flow);
}
