/* SPDX-License-Identifier: MIT */
#include "src/transfer/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/transfer/run.h"
#include "src/transfer/scatter.h"

/* Copies of one submission: what is above goes in several. */
#define ENTRIES_MAX 1024
/* Chunks of a download on their way at once. */
#define DEPTH 2
/* Registered ranges that one batch may use. */
#define PINS_MAX 8
/* The driver's two-dimensional copies take pitches up to this. */
#define PITCH_MAX ((size_t)INT32_MAX)

struct cursor {
    size_t piece, offset;
};

struct batch {
    struct ferryi_run *run;
    const struct ferryi_piece *pieces;
    size_t count;
    enum ferryi_layout layout;
    struct cursor at;            /* what is submitted next */
    ferryi_lane *lane;           /* of the submission being made */
    ferry_direction direction;
    struct ferryi_copy *entries;
    size_t room, entry_count;
    const void *last_owner;      /* on the side that is not the chunk's, of the last entry */
    struct ferryi_scatter_entry *table; /* behind the packed bytes of the chunk; NULL: there is none */
    size_t table_at;             /* in a chunk; its end: there is none */
    size_t packed_max;           /* bytes of a chunk that are used */
};

/* -- one submission -------------------------------------------------------------------------------- */

static struct ferryi_copy
entry(const struct batch *batch, void *target, const void *source, size_t bytes)
{
    bool peer = batch->direction == FERRY_DIRECTION_PEER;
    return (struct ferryi_copy){.target = target,
                                .source = source,
                                .bytes = bytes,
                                .direction = batch->direction,
                                .source_device = peer ? batch->run->engine->devices[batch->run->source_place] : NULL};
}

static void
add_entry(struct batch *batch, void *target, const void *source, size_t bytes, const void *owner)
{
    struct ferryi_copy *last = batch->entry_count > 0 ? &batch->entries[batch->entry_count - 1] : NULL;
    if (last && batch->last_owner == owner && (char *)last->target + last->bytes == target &&
        (const char *)last->source + last->bytes == source) {
        last->bytes += bytes;
        return;
    }
    assert(batch->entries);
    batch->entries[batch->entry_count++] = entry(batch, target, source, bytes);
    batch->last_owner = owner;
}

/* Are the entries rows of a rectangle, at equal steps on both sides? */
static bool
are_rows(const struct batch *batch, struct ferryi_copy_2d *out)
{
    const struct ferryi_copy *rows = batch->entries;
    const struct ferryi_copy *second = &rows[1];
    uintptr_t target_step = (uintptr_t)second->target - (uintptr_t)rows->target;
    uintptr_t source_step = (uintptr_t)second->source - (uintptr_t)rows->source;
    if (target_step < rows->bytes || source_step < rows->bytes || target_step > PITCH_MAX || source_step > PITCH_MAX)
        return false;
    for (size_t i = 1; i < batch->entry_count; i++) {
        if (rows[i].bytes != rows->bytes || (uintptr_t)rows[i].target - (uintptr_t)rows[i - 1].target != target_step ||
            (uintptr_t)rows[i].source - (uintptr_t)rows[i - 1].source != source_step)
            return false;
    }
    *out = (struct ferryi_copy_2d){.target = rows->target,
                                   .source = rows->source,
                                   .target_pitch = target_step,
                                   .source_pitch = source_step,
                                   .row_bytes = rows->bytes,
                                   .rows = batch->entry_count,
                                   .direction = rows->direction,
                                   .source_device = rows->source_device};
    return true;
}

static ferry_status
submit_entry(ferryi_lane *lane, const struct ferryi_copy *copy)
{
    switch (copy->direction) {
    case FERRY_DIRECTION_UPLOAD:
        return FERRYI_CALL(lane->device, copy_upload, copy->target, copy->source, copy->bytes, lane->native);
    case FERRY_DIRECTION_DOWNLOAD:
        return FERRYI_CALL(lane->device, copy_download, copy->target, copy->source, copy->bytes, lane->native);
    case FERRY_DIRECTION_PEER:
        return FERRYI_CALL(lane->device, copy_peer, copy->target, copy->source_device, copy->source, copy->bytes, lane->native);
    default: return FERRYI_CALL(lane->device, copy_device, copy->target, copy->source, copy->bytes, lane->native);
    }
}

static bool
are_small(const struct batch *batch)
{
    for (size_t i = 0; i < batch->entry_count; i++)
        if (batch->entries[i].bytes > FERRYI_SCATTER_PIECE_MAX)
            return false;
    return true;
}

/* By the scatter kernel; `*out_none`: it cannot be had, and nothing was done. */
static ferry_status
scatter(struct batch *batch, bool *out_none)
{
    ferryi_engine *engine = batch->run->engine;
    int place = batch->lane->place;
    ferry_status status = FERRY_ERROR_UNSUPPORTED;
    if (ferryi_scatter_is_ready(engine, place))
        status = ferryi_scatter_launch(engine, place, batch->lane, batch->entries, batch->entry_count, batch->table);
    *out_none = status == FERRY_ERROR_UNSUPPORTED;
    return *out_none ? FERRY_OK : status;
}

/* One device call if the device has one for this, else one for each entry. `*out_bytes` is what was queued, also after a failure. */
static ferry_status
submit(struct batch *batch, size_t *out_bytes)
{
    ferryi_lane *lane = batch->lane;
    ferryi_device *device = lane->device;
    struct ferryi_copy_2d rows;
    bool can_batch = device->capabilities & FERRY_CAN_BATCH, none = false; /* none of them queued yet */
    ferry_status status = FERRY_OK;
    *out_bytes = 0;
    if (batch->entry_count > 1 && (batch->layout == FERRYI_LAYOUT_ROWS || !can_batch) && are_rows(batch, &rows))
        status = FERRYI_CALL(device, copy_2d, &rows, lane->native);
    else if (batch->entry_count > 1 && can_batch)
        status = FERRYI_CALL(device, copy_batch, batch->entries, batch->entry_count, lane->native);
    else if (batch->entry_count > 1 && batch->table && are_small(batch))
        status = scatter(batch, &none);
    else
        none = true;
    for (size_t i = 0; i < batch->entry_count && status == FERRY_OK; i++) {
        if (none)
            status = submit_entry(lane, &batch->entries[i]);
        if (status == FERRY_OK)
            *out_bytes += batch->entries[i].bytes;
    }
    batch->run->queued |= *out_bytes > 0;
    return status;
}

/* How much of the piece at the cursor goes where there is `room` left of `whole`; 0 when it is better off in the next. */
static size_t
part_of(const struct batch *batch, struct cursor at, size_t room, size_t whole)
{
    size_t left = batch->pieces[at.piece].bytes - at.offset;
    if (left <= room)
        return left;
    return room < whole && left <= whole ? 0 : room;
}

static void
advance(const struct batch *batch, struct cursor *at, size_t bytes)
{
    at->offset += bytes;
    if (at->offset == batch->pieces[at->piece].bytes)
        *at = (struct cursor){at->piece + 1, 0};
}

/* -- pinned memory, inside a device, and between those that reach each other ------------------------- */

/* The next entries straight between the two memories, of `whole` bytes at most. */
static void
gather_direct(struct batch *batch, size_t whole)
{
    batch->entry_count = 0;
    for (size_t gathered = 0; batch->at.piece < batch->count && batch->entry_count < batch->room;) {
        const struct ferryi_piece *piece = &batch->pieces[batch->at.piece];
        size_t bytes = part_of(batch, batch->at, whole - gathered, whole), offset = batch->at.offset;
        if (bytes == 0)
            break;
        /* Who could be joined was joined before: both sides must touch. */
        batch->entries[batch->entry_count++] = entry(batch, (char *)piece->target + offset, (const char *)piece->source + offset, bytes);
        gathered += bytes;
        advance(batch, &batch->at, bytes);
    }
}

/* One submission after the other; where somebody may stop them, at the pace of the device. With `waits` nothing has arrived before the
 * device is done with it. */
static ferry_status
copy_direct(struct batch *batch, bool waits)
{
    struct ferryi_run *run = batch->run;
    struct ferryi_pace pace = {.lane = run->lane, .log = run->engine->config.log};
    size_t largest = ferryi_engine_part(run->engine, run->job);
    bool paced = largest < run->bytes && !waits;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && batch->at.piece < batch->count) {
        if (paced)
            status = ferryi_pace_begin(&pace);
        if (status != FERRY_OK)
            break;
        size_t bytes;
        gather_direct(batch, largest);
        status = submit(batch, &bytes);
        if (waits && status == FERRY_OK)
            status = FERRYI_CALL(run->lane->device, stream_synchronize, run->lane->native);
        if (bytes > 0 && (!waits || status == FERRY_OK))
            ferryi_run_arrived(run, bytes);
        if (paced && status == FERRY_OK)
            status = ferryi_pace_end(&pace);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    ferryi_pace_clear(&pace);
    return status;
}

/* -- memory that was page-locked later ------------------------------------------------------------- */

/* Registered ranges that the batch uses, held. */
struct holds {
    struct ferryi_pin *pins[PINS_MAX];
    size_t count;
};

static void
let_go(struct batch *batch, struct holds *holds)
{
    while (holds->count > 0)
        ferryi_pins_release(&batch->run->engine->pins, holds->pins[--holds->count]);
}

/* Does the piece lie in a range that is held already? `*out_whole`: and in one part of it, as driver calls must. */
static bool
is_held(const struct batch *batch, const struct holds *holds, const char *host, size_t bytes, bool *out_whole)
{
    for (size_t i = holds->count; i-- > 0;) {
        const struct ferryi_pin *pin = holds->pins[i];
        if (host >= pin->start && host + bytes <= pin->start + pin->bytes) {
            *out_whole = ferryi_pin_rest(&batch->run->engine->pins, pin, host) >= bytes;
            return true;
        }
    }
    return false;
}

/* True when every piece may go straight; then what it needs is held. */
static bool
hold_all(struct batch *batch, struct holds *holds)
{
    struct ferryi_pins *pins = &batch->run->engine->pins;
    bool up = batch->run->direction == FERRY_DIRECTION_UPLOAD, whole = true;
    holds->count = 0;
    if (!pins->device || !ferryi_engine_same_kind(pins->device, batch->run->lane->device))
        return false;
    for (size_t i = 0; i < batch->count && whole; i++) {
        const struct ferryi_piece *piece = &batch->pieces[i];
        const char *host = up ? piece->source : piece->target;
        if (is_held(batch, holds, host, piece->bytes, &whole))
            continue;
        struct ferryi_pin *pin = holds->count < PINS_MAX ? ferryi_pins_hold(pins, host, piece->bytes) : NULL;
        if (pin)
            holds->pins[holds->count++] = pin;
        whole = pin && ferryi_pin_rest(pins, pin, host) >= piece->bytes;
    }
    if (!whole)
        let_go(batch, holds);
    return whole;
}

/* As pageable memory, it is the caller's again when this returns. */
static ferry_status
copy_registered(struct batch *batch, struct holds *holds)
{
    ferry_status status = copy_direct(batch, true);
    if (status != FERRY_OK && batch->run->queued)
        ferryi_run_settle(batch->run);
    let_go(batch, holds);
    return status;
}

/* -- pageable memory ------------------------------------------------------------------------------- */

/* Room behind the packed bytes for what the scatter kernel reads, where it may be needed and leaves enough. */
static void
plan_chunks(struct batch *batch, const struct ferryi_ring *ring)
{
    const ferryi_device *device = batch->run->lane->device;
    size_t table_bytes = batch->room * sizeof(*batch->table);
    bool may_scatter = !(device->capabilities & FERRY_CAN_BATCH) && (device->capabilities & FERRY_CAN_LOAD_CODE);
    batch->table_at = ring->chunk_bytes;
    if (may_scatter && table_bytes < ring->chunk_bytes / 2)
        batch->table_at = (ring->chunk_bytes - table_bytes) / sizeof(uint64_t) * sizeof(uint64_t);
    batch->packed_max = ferryi_run_part(batch->run, 0, batch->table_at, 1);
}

static struct ferryi_scatter_entry *
table_of(const struct batch *batch, const struct ferryi_ring *ring, const struct ferryi_chunk *chunk)
{
    return batch->table_at < ring->chunk_bytes ? (void *)((char *)chunk->memory + batch->table_at) : NULL;
}

/* The next entries between a chunk and the device, with the bytes of an upload packed into it. Sets chunk->bytes. */
static void
gather(struct batch *batch, const struct ferryi_ring *ring, struct ferryi_chunk *chunk)
{
    bool up = batch->run->direction == FERRY_DIRECTION_UPLOAD;
    size_t whole = batch->packed_max;
    batch->table = table_of(batch, ring, chunk);
    batch->entry_count = 0;
    chunk->bytes = 0;
    while (batch->at.piece < batch->count && batch->entry_count < batch->room) {
        const struct ferryi_piece *piece = &batch->pieces[batch->at.piece];
        size_t bytes = part_of(batch, batch->at, whole - chunk->bytes, whole), offset = batch->at.offset;
        if (bytes == 0)
            break;
        char *packed = (char *)chunk->memory + chunk->bytes;
        if (up) {
            memcpy(packed, (const char *)piece->source + offset, bytes);
            add_entry(batch, (char *)piece->target + offset, packed, bytes, piece->target_owner);
        } else {
            add_entry(batch, packed, (const char *)piece->source + offset, bytes, piece->source_owner);
        }
        chunk->bytes += bytes;
        advance(batch, &batch->at, bytes);
    }
}

static ferry_status
upload_chunk(struct batch *batch, struct ferryi_ring *ring)
{
    struct ferryi_run *run = batch->run;
    struct ferryi_chunk *chunk;
    ferry_status status = ferryi_ring_take(ring, ring->place, true, &chunk), marked = FERRY_OK;
    if (status != FERRY_OK)
        return status;
    size_t bytes;
    gather(batch, ring, chunk);
    status = submit(batch, &bytes);
    if (bytes > 0)
        marked = ferryi_chunk_mark(ring, chunk, ring->place, run->lane->native);
    ferryi_ring_give(ring, chunk);
    if (bytes > 0) {
        ferryi_run_count_chunk(run);
        ferryi_run_count_copied(run, FERRYI_COPY_LIBC, bytes);
        ferryi_run_arrived(run, bytes);
    }
    status = status == FERRY_OK ? marked : status;
    return status == FERRY_OK ? ferryi_run_progress(run) : status;
}

static ferry_status
upload(struct batch *batch, struct ferryi_ring *ring)
{
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && batch->at.piece < batch->count)
        status = upload_chunk(batch, ring);
    return status;
}

/* Chunks on their way from a device, and the bytes that the oldest begins with. */
struct landings {
    struct ferryi_chain chunks;
    struct cursor at;
};

/* `*out_none`: every chunk is with somebody else, and some of ours are on their way. */
static ferry_status
launch(struct batch *batch, struct ferryi_ring *ring, struct landings *landings, bool *out_none)
{
    struct ferryi_run *run = batch->run;
    ferryi_lane *lane = run->second ? run->second : run->lane;
    struct ferryi_chunk *chunk;
    ferry_status status = ferryi_ring_take(ring, run->source_place, landings->chunks.count == 0, &chunk);
    *out_none = status == FERRY_OK && !chunk;
    if (status != FERRY_OK || !chunk)
        return status;
    size_t bytes;
    batch->lane = lane;
    batch->direction = FERRY_DIRECTION_DOWNLOAD;
    gather(batch, ring, chunk);
    status = submit(batch, &bytes);
    if (status == FERRY_OK)
        status = ferryi_chunk_mark(ring, chunk, run->source_place, lane->native);
    else if (bytes > 0) /* some copies into the chunk are on their way */
        (void)ferryi_chunk_settle(ring, chunk, run->source_place, lane->native);
    if (status == FERRY_OK)
        ferryi_chain_push(&landings->chunks, chunk);
    else
        ferryi_ring_give(ring, chunk);
    return status;
}

static ferry_status
land(struct batch *batch, struct ferryi_ring *ring, struct landings *landings)
{
    struct cursor *at = &landings->at;
    struct ferryi_chunk *chunk = ferryi_chain_pop(&landings->chunks);
    ferry_status status = ferryi_chunk_wait(ring, chunk);
    size_t bytes = chunk->bytes;
    for (size_t done = 0; status == FERRY_OK && done < bytes;) {
        size_t part = ferryi_min_size(batch->pieces[at->piece].bytes - at->offset, bytes - done);
        memcpy((char *)batch->pieces[at->piece].target + at->offset, (char *)chunk->memory + done, part);
        advance(batch, at, part);
        done += part;
    }
    ferryi_ring_give(ring, chunk);
    if (status == FERRY_OK) {
        ferryi_run_count_chunk(batch->run);
        ferryi_run_count_copied(batch->run, FERRYI_COPY_LIBC, bytes);
        ferryi_run_arrived(batch->run, bytes);
    }
    return status == FERRY_OK ? ferryi_run_progress(batch->run) : status;
}

/* The entries that take bytes of a chunk, from `*done` on, to the pieces that they belong to. */
static void
unpack(struct batch *batch, struct cursor *at, const struct ferryi_chunk *chunk, size_t *done)
{
    batch->entry_count = 0;
    while (*done < chunk->bytes && batch->entry_count < batch->room) {
        const struct ferryi_piece *piece = &batch->pieces[at->piece];
        size_t part = ferryi_min_size(piece->bytes - at->offset, chunk->bytes - *done);
        add_entry(batch, (char *)piece->target + at->offset, (const char *)chunk->memory + *done, part, piece->target_owner);
        advance(batch, at, part);
        *done += part;
    }
}

/* What the source's device has packed goes on to the target's. */
static ferry_status
send_on(struct batch *batch, struct ferryi_ring *ring, struct landings *landings)
{
    struct ferryi_run *run = batch->run;
    struct ferryi_chunk *chunk = ferryi_chain_pop(&landings->chunks);
    ferry_status status = ferryi_chunk_wait(ring, chunk), marked = FERRY_OK;
    if (status == FERRY_OK)
        status = ferryi_chunk_prepare(ring, chunk, ring->place);
    size_t sent = 0, bytes;
    batch->lane = run->lane;
    batch->direction = FERRY_DIRECTION_UPLOAD;
    batch->table = table_of(batch, ring, chunk);
    for (size_t done = 0; status == FERRY_OK && done < chunk->bytes; sent += bytes) {
        unpack(batch, &landings->at, chunk, &done);
        status = submit(batch, &bytes);
        batch->table = NULL; /* may be read still */
    }
    if (sent > 0)
        marked = ferryi_chunk_mark(ring, chunk, ring->place, run->lane->native);
    ferryi_ring_give(ring, chunk);
    if (sent > 0) {
        ferryi_run_count_chunk(run);
        ferryi_run_arrived(run, sent);
    }
    status = status == FERRY_OK ? marked : status;
    return status == FERRY_OK ? ferryi_run_progress(run) : status;
}

/* Chunk after chunk from the source's device, on to the host or to another device. */
static ferry_status
download(struct batch *batch, struct ferryi_ring *ring)
{
    struct landings landings = {.at = batch->at};
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && batch->run->done < batch->run->bytes) {
        bool none = true;
        if (batch->at.piece < batch->count && landings.chunks.count < DEPTH)
            status = launch(batch, ring, &landings, &none);
        if (status == FERRY_OK && none)
            status = batch->run->second ? send_on(batch, ring, &landings) : land(batch, ring, &landings);
    }
    while (landings.chunks.count > 0)
        ferryi_ring_give(ring, ferryi_chain_pop(&landings.chunks));
    return status;
}

/* -- without a batch ------------------------------------------------------------------------------- */

static ferry_status
copy_on_host(struct batch *batch)
{
    ferry_status status = ferryi_run_wait_for_lane(batch->run);
    for (size_t i = 0; i < batch->count && status == FERRY_OK; i++)
        status = ferryi_run_copy_on_host(batch->run, batch->pieces[i].target, batch->pieces[i].source, batch->pieces[i].bytes);
    return status;
}

/* Each piece a transfer of its own. */
static ferry_status
fill_each(ferryi_engine *engine, const struct ferryi_piece *pieces, size_t count, ferryi_lane *lane, struct ferryi_transfer_job *job)
{
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < count && status == FERRY_OK; i++) {
        const struct ferryi_piece *piece = &pieces[i];
        struct ferryi_memory target = {.place = piece->target_place, .pointer = piece->target, .pinned = piece->pinned};
        status = ferryi_engine_fill(engine, target, piece->bytes, "", 1, lane, job);
    }
    return status;
}

/* -- which way ------------------------------------------------------------------------------------- */

static ferry_status
copy_between(struct batch *batch)
{
    struct ferryi_run *run = batch->run;
    ferryi_engine *engine = run->engine;
    if (ferryi_engine_reaches(engine, run->target_place, run->source_place)) {
        ferry_status status = copy_direct(batch, false);
        if (status != FERRY_ERROR_UNSUPPORTED || run->done > 0)
            return status;
        ferryi_engine_forget_peer(engine, run->target_place, run->source_place);
        batch->at = (struct cursor){0, 0};
    }
    run->staged = true;
    ferry_status status = ferryi_engine_open_lane(engine, run->source_place, true, &run->second);
    if (status == FERRY_OK)
        status = ferryi_run_order(run, run->second);
    if (status != FERRY_OK)
        return status;
    struct ferryi_ring *ring = ferryi_engine_ring(engine, run->target_place);
    plan_chunks(batch, ring);
    return download(batch, ring);
}

static ferry_status
copy(struct batch *batch)
{
    struct ferryi_run *run = batch->run;
    if (run->direction == FERRY_DIRECTION_HOST)
        return copy_on_host(batch);
    batch->room = ferryi_min_size(batch->count, ENTRIES_MAX);
    batch->entries = malloc(batch->room * sizeof(*batch->entries));
    if (!batch->entries)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory to list %zu copies", batch->room);
    ferry_status status;
    struct holds holds;
    batch->lane = run->lane;
    batch->direction = run->direction;
    if (run->direction == FERRY_DIRECTION_PEER) {
        status = copy_between(batch);
    } else if (run->staged && hold_all(batch, &holds)) {
        run->staged = false;
        status = copy_registered(batch, &holds);
    } else if (run->staged) {
        bool up = run->direction == FERRY_DIRECTION_UPLOAD;
        struct ferryi_ring *ring = ferryi_engine_ring(run->engine, up ? run->target_place : run->source_place);
        plan_chunks(batch, ring);
        status = up ? upload(batch, ring) : download(batch, ring);
    } else {
        status = copy_direct(batch, false);
    }
    free(batch->entries);
    return status;
}

ferry_status
ferryi_engine_copy_pieces(ferryi_engine *engine, const struct ferryi_piece *pieces, size_t count, enum ferryi_layout layout,
                          ferryi_lane *lane, struct ferryi_transfer_job *job)
{
    assert(count > 0);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].bytes;
    struct ferryi_run run = ferryi_run_make(engine, pieces->target_place, pieces->source_place, bytes, lane, job);
    if (pieces->zeros)
        return fill_each(engine, pieces, count, lane, job);

    run.staged = (run.direction == FERRY_DIRECTION_UPLOAD || run.direction == FERRY_DIRECTION_DOWNLOAD) && !pieces->pinned;
    struct batch batch = {.run = &run, .pieces = pieces, .count = count, .layout = layout};
    ferry_status status = ferryi_run_begin(&run);
    if (status == FERRY_OK)
        status = copy(&batch);
    if (run.done > 0) {
        atomic_fetch_add_explicit(&engine->batch_submissions, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&engine->batch_pieces, count, memory_order_relaxed);
    }
    return ferryi_run_end(&run, status);
}
