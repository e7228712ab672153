/* SPDX-License-Identifier: MIT */
#include "src/transfer/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/transfer/batch_inside.h"
#include "src/transfer/file_transfer.h"

/* Maximum number of copies in one submission to a device. A longer batch takes several submissions.
 */
#define ENTRIES_MAX 1024
/* Maximum number of registered memory ranges that one batch can hold. A range that is held cannot
 * be unregistered. */
#define PINS_MAX 8
/* Maximum pitch, in bytes, that the driver's two-dimensional copies accept. */
#define PITCH_MAX ((size_t)INT32_MAX)
/* A device fills up to this many pieces one by one. If there are more, it fills the first one, and
 * copies it to the others together. */
#define REPEAT_FROM 8

/* -- one submission ---------------------------------------------------------------------------- */

static struct ferryi_copy
entry(const struct ferryi_batch *batch, void *target, const void *source, size_t bytes)
{
    bool peer = batch->direction == FERRY_DIRECTION_PEER;
    return (struct ferryi_copy){
        .target = target,
        .source = source,
        .bytes = bytes,
        .direction = batch->direction,
        .source_device = peer ? batch->run->engine->devices[batch->run->source_place] : NULL};
}

/* Returns whether the copies of a batch form the rows of a two-dimensional copy. All rows then have
 * the same size, and the sources and the targets each have a constant pitch. If so, sets `*out` to
 * the two-dimensional copy. */
static bool
are_rows(const struct ferryi_batch *batch, struct ferryi_copy_2d *out)
{
    const struct ferryi_copy *rows = batch->entries;
    const struct ferryi_copy *second = &rows[1];
    uintptr_t target_step = (uintptr_t)second->target - (uintptr_t)rows->target;
    uintptr_t source_step = (uintptr_t)second->source - (uintptr_t)rows->source;
    if (target_step < rows->bytes || source_step < rows->bytes || target_step > PITCH_MAX ||
        source_step > PITCH_MAX)
        return false;
    for (size_t i = 1; i < batch->entry_count; i++) {
        if (rows[i].bytes != rows->bytes ||
            (uintptr_t)rows[i].target - (uintptr_t)rows[i - 1].target != target_step ||
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

static bool
are_small(const struct ferryi_batch *batch)
{
    for (size_t i = 0; i < batch->entry_count; i++)
        if (batch->entries[i].bytes > FERRYI_SCATTER_PIECE_MAX)
            return false;
    return true;
}

/* Submits all copies of the batch in one call, which queues either all or none. Returns UNSUPPORTED
 * if the copies must be submitted one by one. */
static ferry_status
submit_together(struct ferryi_batch *batch)
{
    ferryi_timeline *timeline = batch->timeline;
    ferryi_device *device = timeline->device;
    struct ferryi_copy_2d rows;
    bool can_batch = device->capabilities & FERRY_CAN_BATCH;
    if (batch->entry_count > 1 && (batch->layout == FERRYI_LAYOUT_ROWS || !can_batch) &&
        are_rows(batch, &rows))
        return FERRYI_CALL(device, copy_2d, &rows, timeline->native);
    if (batch->entry_count < 2)
        return FERRY_ERROR_UNSUPPORTED;
    /* For small copies, one launch of the scatter kernel is faster than the driver's batched copy.
     */
    ferry_status status = FERRY_ERROR_UNSUPPORTED;
    if (batch->table && are_small(batch))
        status = ferryi_scatter_launch(batch->run->engine, timeline->place, timeline,
                                       batch->entries, batch->entry_count, batch->table);
    if (status == FERRY_ERROR_UNSUPPORTED && can_batch)
        status =
            FERRYI_CALL(device, copy_batch, batch->entries, batch->entry_count, timeline->native);
    return status;
}

ferry_status
ferryi_batch_submit(struct ferryi_batch *batch, size_t *out_bytes)
{
    ferry_status status = submit_together(batch);
    bool none = status == FERRY_ERROR_UNSUPPORTED; /* no entry is queued yet */
    if (none)
        status = FERRY_OK;
    *out_bytes = 0;
    for (size_t i = 0; i < batch->entry_count && status == FERRY_OK; i++) {
        if (none)
            status = FERRYI_CALL(batch->timeline->device, copy, &batch->entries[i],
                                 batch->timeline->native);
        if (status == FERRY_OK)
            *out_bytes += batch->entries[i].bytes;
    }
    batch->run->queued |= *out_bytes > 0;
    return status;
}

size_t
ferryi_batch_part(const struct ferryi_batch *batch, struct ferryi_cursor at, size_t room,
                  size_t whole)
{
    const struct ferryi_piece *piece = &batch->pieces[at.piece];
    const size_t left = piece->bytes - at.offset, unit = ferryi_max_size(piece->unit, 1),
                 first = unit - at.offset % unit;
    if (left <= room)
        return left;
    if (room < whole && (left <= whole || first > room))
        return 0;
    return first <= room ? room - (room - first) % unit : room;
}

void
ferryi_batch_advance(const struct ferryi_batch *batch, struct ferryi_cursor *at, size_t bytes)
{
    at->offset += bytes;
    if (at->offset == batch->pieces[at->piece].bytes)
        *at = (struct ferryi_cursor){at->piece + 1, 0};
}

/* -- direct copies: pinned memory, within a device, or between devices ------------------------- */

/* Returns the address of a piece's host side. The batch is an upload or a download. */
static const char *
host_of(const struct ferryi_batch *batch, const struct ferryi_piece *piece)
{
    return batch->direction == FERRY_DIRECTION_UPLOAD ? piece->source : piece->target;
}

/* Host memory is registered in separate parts. Returns the number of bytes from byte `offset` of
 * the batch's only piece to the end of the registered part that contains this byte. */
static size_t
rest_of_part(const struct ferryi_batch *batch, const struct ferryi_piece *piece, size_t offset)
{
    return ferryi_pin_rest(&batch->run->engine->pins, batch->pin, host_of(batch, piece) + offset);
}

/* Fills the batch's list with the next copies, which go directly from the source memory to the
 * target memory. Together, these copies have at most `whole` bytes. */
static void
gather_direct(struct ferryi_batch *batch, size_t whole)
{
    batch->entry_count = 0;
    for (size_t gathered = 0; batch->at.piece < batch->count && batch->entry_count < batch->room;) {
        const struct ferryi_piece *piece = &batch->pieces[batch->at.piece];
        size_t bytes = ferryi_batch_part(batch, batch->at, whole - gathered, whole),
               offset = batch->at.offset;
        if (bytes == 0)
            break;
        if (batch->pin)
            bytes = ferryi_min_size(bytes, rest_of_part(batch, piece, offset));
        /* Adjacent copies need not be joined here, because the caller has already joined adjacent
         * pieces of memory. */
        batch->entries[batch->entry_count++] = entry(batch, (char *)piece->target + offset,
                                                     (const char *)piece->source + offset, bytes);
        gathered += bytes;
        ferryi_batch_advance(batch, &batch->at, bytes);
    }
}

/*
 * Takes a chunk of the staging ring as memory for the scatter kernel's table of copies. Returns
 * NULL if the scatter kernel cannot make the copies, or if one of the copies is so large that the
 * copy engine is faster.
 *
 * The table contains the host's addresses of pinned memory. So the kernel cannot be used if this
 * memory has different addresses on the device.
 */
static struct ferryi_chunk *
take_table(struct ferryi_batch *batch, struct ferryi_ring *ring)
{
    const uint64_t can = batch->timeline->device->capabilities;
    struct ferryi_chunk *chunk;
    batch->table = NULL;
    if (batch->entry_count < 2 || batch->direction == FERRY_DIRECTION_PEER ||
        (can & FERRYI_DEVICE_TRANSLATES) || !are_small(batch) ||
        batch->entry_count * sizeof(*batch->table) > ring->chunk_bytes ||
        !ferryi_scatter_is_ready(batch->run->engine, batch->timeline->place) ||
        ferryi_ring_take(ring, true, &chunk) != FERRY_OK)
        return NULL;
    batch->table = chunk->memory;
    return chunk;
}

/* Submits the batch's copies as ferryi_batch_submit() does. If the scatter kernel is expected to be
 * faster, first provides memory for the kernel's table of copies. */
static ferry_status
submit_direct(struct ferryi_batch *batch, size_t *out_bytes)
{
    struct ferryi_ring *ring = &batch->run->engine->ports[batch->timeline->place].ring;
    struct ferryi_chunk *chunk = take_table(batch, ring);
    ferry_status status = ferryi_batch_submit(batch, out_bytes);
    if (!chunk)
        return status;
    chunk->bytes = *out_bytes;
    ferry_status marked = *out_bytes > 0 ? ferryi_run_mark_sent(batch->run, ring, chunk) : FERRY_OK;
    ferryi_ring_give(ring, chunk);
    return status == FERRY_OK ? marked : status;
}

/*
 * Submits all pieces of the batch, in one or several submissions. If the job can be cancelled, the
 * submissions do not run far ahead of the device.
 *
 * If `waits` is true, the function waits for each submission before it counts the bytes as arrived.
 * If the function then fails, the batch's cursor is at the first byte that has not arrived.
 */
static ferry_status
copy_direct(struct ferryi_batch *batch, bool waits)
{
    struct ferryi_run *run = batch->run;
    struct ferryi_throttle throttle = {.timeline = run->timeline};
    size_t largest = ferryi_engine_part(run->engine, run->job);
    bool paced = largest < run->bytes && !waits;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && batch->at.piece < batch->count) {
        if (paced)
            status = ferryi_throttle_begin(&throttle);
        if (status != FERRY_OK)
            break;
        size_t bytes;
        const struct ferryi_cursor before = batch->at;
        gather_direct(batch, largest);
        status = submit_direct(batch, &bytes);
        if (waits && status == FERRY_OK)
            status = ferryi_timeline_synchronize(run->timeline);
        if (waits && status != FERRY_OK)
            batch->at = before;
        if (bytes > 0 && (!waits || status == FERRY_OK))
            ferryi_run_arrived(run, bytes);
        if (paced && status == FERRY_OK)
            status = ferryi_throttle_end(&throttle);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    return status;
}

/* -- memory that was page-locked later --------------------------------------------------------- */

/* The registered memory ranges that a batch holds during its copies. A range that is held cannot be
 * unregistered. */
struct holds {
    struct ferryi_pin *pins[PINS_MAX];
    size_t count;
};

static void
let_go(struct ferryi_batch *batch, struct holds *holds)
{
    while (holds->count > 0)
        ferryi_pins_release(&batch->run->engine->pins, holds->pins[--holds->count]);
}

/* Returns whether the batch already holds the registered range that contains the `bytes` bytes at
 * `host`. If so, sets `*out_whole` to whether these bytes lie within one separately registered part
 * of the range. A driver call must not copy across the end of such a part. */
static bool
is_held(const struct ferryi_batch *batch, const struct holds *holds, const char *host, size_t bytes,
        bool *out_whole)
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

/* Returns whether the device can copy registered memory in this batch. Some drivers translate the
 * addresses of registered memory in single copies, but not in batched copies. */
static bool
takes_registered(const struct ferryi_batch *batch)
{
    const ferryi_device *device = batch->run->timeline->device;
    return batch->count == 1 || !(device->capabilities & FERRYI_DEVICE_TRANSLATES) ||
           !(device->capabilities & FERRY_CAN_BATCH);
}

/*
 * Tries to hold the registered ranges that contain the pieces of the batch. Returns true if all
 * pieces can be copied directly from or to these ranges. Otherwise holds no range.
 *
 * If the batch has only one piece, the piece may extend over several separately registered parts,
 * because it is copied part by part.
 */
static bool
hold_all(struct ferryi_batch *batch, struct holds *holds)
{
    struct ferryi_pins *pins = &batch->run->engine->pins;
    bool alone = batch->count == 1, whole = true;
    holds->count = 0;
    ferryi_device *device = batch->run->timeline->device;
    if (atomic_load_explicit(&pins->count, memory_order_relaxed) == 0 ||
        !ferryi_device_is_peer(pins->device, device) || !takes_registered(batch))
        return false;
    for (size_t i = 0; i < batch->count && whole; i++) {
        const struct ferryi_piece *piece = &batch->pieces[i];
        const char *host = host_of(batch, piece);
        if (is_held(batch, holds, host, piece->bytes, &whole))
            continue;
        struct ferryi_pin *pin =
            holds->count < PINS_MAX ? ferryi_pins_hold(pins, host, piece->bytes) : NULL;
        if (pin)
            holds->pins[holds->count++] = pin;
        whole = pin && (alone || ferryi_pin_rest(pins, pin, host) >= piece->bytes);
    }
    if (!whole)
        let_go(batch, holds);
    else if (alone)
        batch->pin = holds->pins[0];
    return whole;
}

/* Copies the pieces, which lie in registered memory that the batch holds. Waits until the copies
 * are complete, and then releases the holds. */
static ferry_status
copy_registered(struct ferryi_batch *batch, struct holds *holds)
{
    ferry_status status = copy_direct(batch, true);
    if (status != FERRY_OK)
        ferryi_run_settle(batch->run);
    let_go(batch, holds);
    return status;
}

/* -- pageable memory --------------------------------------------------------------------------- */

static ferry_status
copy_staged(struct ferryi_batch *batch)
{
    struct ferryi_run *run = batch->run;
    run->staged = true;
    if (batch->count > 1)
        return ferryi_batch_stage(batch);
    const struct ferryi_staging how = ferryi_staging_choose(run);
    return ferryi_staged_copy(run, &how, batch->pieces->target, batch->pieces->source);
}

/* Copies memory that Ferry has not page-locked directly, without the staging ring. If the device
 * returns UNSUPPORTED, copies the bytes that have not arrived through the staging ring. */
static ferry_status
copy_unstaged(struct ferryi_batch *batch)
{
    struct ferryi_kept_error before;
    ferryi_last_error_keep(&before);
    ferry_status status = copy_direct(batch, true);
    if (status != FERRY_ERROR_UNSUPPORTED)
        return status;
    ferryi_run_settle(batch->run);
    ferryi_last_error_restore(&before);
    return copy_staged(batch);
}

/* Returns whether the batch's pageable memory is copied directly, without the staging ring. The
 * device must support such copies, and the pieces must be large on average. A direct copy is
 * asynchronous, so the caller must wait for it. Even a device that supports direct copies may
 * refuse a batch if the program has registered only a part of the memory. */
static bool
takes_pageable(const struct ferryi_batch *batch)
{
    const ferryi_device *device = batch->run->timeline->device;
    return (device->capabilities & FERRYI_DEVICE_TAKES_PAGEABLE) &&
           batch->run->bytes / batch->count > FERRYI_STAGED_MOST && takes_registered(batch);
}

/* Returns whether a library other than Ferry, or the program, has page-locked the host memory of
 * all pieces in one range. Nothing prevents the owner from freeing such memory after the transfer,
 * so the caller must wait for the copies. The driver is not asked for short transfers, because the
 * question costs as much as it would save. */
static bool
is_locked_by_others(const struct ferryi_batch *batch)
{
    const struct ferryi_run *run = batch->run;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    if (run->bytes <= FERRYI_STAGED_MOST || !takes_registered(batch))
        return false;
    for (size_t i = 0; i < batch->count; i++) {
        const struct ferryi_piece *piece = &batch->pieces[i];
        uintptr_t host = (uintptr_t)host_of(batch, piece);
        begin = host < begin ? host : begin;
        end = host + piece->bytes > end ? host + piece->bytes : end;
    }
    return ferryi_pins_are_foreign(&run->engine->pins, run->timeline->device, (void *)begin,
                                   end - begin);
}

/* Returns whether the batch is a short upload. Through the staging ring, it need not wait for the
 * device. A direct copy must wait, also one from registered memory, which may be unregistered as
 * soon as the transfer has returned. */
static bool
is_short_upload(const struct ferryi_batch *batch)
{
    return batch->direction == FERRY_DIRECTION_UPLOAD && batch->run->bytes <= FERRYI_STAGED_MOST;
}

/* Copies memory that the program has not declared as pinned. */
static ferry_status
copy_pageable(struct ferryi_batch *batch)
{
    struct holds holds;
    if (is_short_upload(batch))
        return copy_staged(batch);
    if (hold_all(batch, &holds))
        return copy_registered(batch, &holds);
    return takes_pageable(batch) || is_locked_by_others(batch) ? copy_unstaged(batch)
                                                               : copy_staged(batch);
}

/* -- without a batch --------------------------------------------------------------------------- */

static ferry_status
copy_on_host(struct ferryi_batch *batch)
{
    ferry_status status = ferryi_run_wait_for_timeline(batch->run);
    for (size_t i = 0; i < batch->count && status == FERRY_OK; i++) {
        batch->run->unit = ferryi_max_size(batch->pieces[i].unit, 1);
        batch->run->unit_begin = batch->run->done;
        status = ferryi_run_copy_on_host(batch->run, batch->pieces[i].target,
                                         batch->pieces[i].source, batch->pieces[i].bytes);
    }
    return status;
}

/* Returns the address, in the source of a piece, of the byte at the cursor. The cursor counts bytes
 * of the target. Returns NULL if the source is zeros. */
static const void *
converted_from(const struct ferryi_batch *batch, struct ferryi_cursor at)
{
    const struct ferryi_transform *transform = batch->host_side->transform;
    size_t offset =
        transform ? at.offset / transform->target_bytes * transform->source_bytes : at.offset;
    const struct ferryi_piece *piece = &batch->pieces[at.piece];
    return piece->zeros ? NULL : (const void *)((uintptr_t)piece->source + offset);
}

/* Moves pieces between host memory and a file, or converts them between two host memories. */
static ferry_status
pass_on_host(struct ferryi_batch *batch)
{
    struct ferryi_run *run = batch->run;
    const size_t most = ferryi_run_is_watched(run) && !batch->host_side->file
                            ? run->engine->config.chunk_bytes
                            : FERRYI_HOST_SIDE_PART;
    const size_t whole = ferryi_run_part(run, 0, ferryi_min_size(most, run->bytes), 1);
    ferry_status status = ferryi_run_wait_for_timeline(run);
    while (status == FERRY_OK && batch->at.piece < batch->count) {
        const struct ferryi_piece *piece = &batch->pieces[batch->at.piece];
        const size_t room = ferryi_max_size(whole, piece->unit);
        void *target = (void *)((uintptr_t)piece->target + batch->at.offset);
        size_t moved;
        status =
            ferryi_host_side_run(batch->host_side, target, converted_from(batch, batch->at),
                                 ferryi_batch_part(batch, batch->at, room, room), true, &moved);
        if (moved > 0) {
            ferryi_run_arrived(run, moved);
            ferryi_batch_advance(batch, &batch->at, moved);
        }
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    return status;
}

/* Converts pieces within the memory of a device. If the job can be cancelled, converts part by
 * part, not far ahead of the device. */
static ferry_status
convert_on_device(struct ferryi_batch *batch)
{
    struct ferryi_run *run = batch->run;
    const struct ferryi_transform *transform = batch->host_side->transform;
    assert(transform);
    struct ferryi_throttle throttle = {.timeline = run->timeline};
    const size_t part = ferryi_engine_part(run->engine, run->job),
                 whole = ferryi_max_size(part, transform->target_bytes);
    const bool paced = part < run->bytes;
    ferry_status status = FERRY_OK;
    while (status == FERRY_OK && batch->at.piece < batch->count) {
        const size_t bytes = ferryi_batch_part(batch, batch->at, whole, whole);
        void *target = (char *)batch->pieces[batch->at.piece].target + batch->at.offset;
        if (paced)
            FERRYI_OR_RETURN(ferryi_throttle_begin(&throttle));
        FERRYI_OR_RETURN(transform->queue(transform->user, run->timeline, target,
                                          converted_from(batch, batch->at),
                                          bytes / transform->target_bytes));
        run->queued = true;
        ferryi_run_arrived(run, bytes);
        ferryi_batch_advance(batch, &batch->at, bytes);
        if (paced)
            status = ferryi_throttle_end(&throttle);
        if (status == FERRY_OK)
            status = ferryi_run_progress(run);
    }
    return status;
}

/* -- which way --------------------------------------------------------------------------------- */

/* Returns whether the target device of a transfer can copy directly from the source device. */
static bool
reaches(const struct ferryi_run *run)
{
    return ferryi_engine_reachable(run->engine, run->target_place) >> run->source_place & 1;
}

/* Records that the target device of a transfer cannot copy directly from the source device. */
static void
forget_peer(struct ferryi_run *run)
{
    atomic_fetch_and_explicit(&run->engine->ports[run->target_place].reachable,
                              ~((uint32_t)1 << run->source_place), memory_order_relaxed);
}

static ferry_status
copy_between(struct ferryi_batch *batch)
{
    struct ferryi_run *run = batch->run;
    ferryi_engine *engine = run->engine;
    if (reaches(run)) {
        ferry_status status = copy_direct(batch, false);
        if (status != FERRY_ERROR_UNSUPPORTED || run->done > 0)
            return status;
        forget_peer(run);
        batch->at = (struct ferryi_cursor){0, 0};
    }
    run->staged = true;
    FERRYI_OR_RETURN(ferryi_engine_open_timeline(engine, run->source_place, true, &run->second));
    FERRYI_OR_RETURN(ferryi_run_order(run, run->second));
    if (batch->count == 1) {
        struct ferryi_staging how = ferryi_staging_plain(engine, run->target_place);
        return ferryi_staged_copy(run, &how, batch->pieces->target, batch->pieces->source);
    }
    return ferryi_batch_stage(batch);
}

/* Returns whether a transfer of these pieces is between a device and pageable host memory. */
static bool
is_pageable(const struct ferryi_run *run, const struct ferryi_piece *pieces)
{
    return (run->direction == FERRY_DIRECTION_UPLOAD ||
            run->direction == FERRY_DIRECTION_DOWNLOAD) &&
           !pieces->pinned;
}

static ferry_status
copy_listed(struct ferryi_batch *batch)
{
    if (batch->host_side) {
        batch->run->staged = true;
        return ferryi_batch_stage(batch);
    }
    if (batch->direction == FERRY_DIRECTION_PEER)
        return copy_between(batch);
    return is_pageable(batch->run, batch->pieces) ? copy_pageable(batch)
                                                  : copy_direct(batch, false);
}

/* Copies the pieces of the batch. Allocates the list of copies only if the batch has several
 * pieces. */
static ferry_status
copy(struct ferryi_batch *batch)
{
    if (batch->direction == FERRY_DIRECTION_HOST)
        return batch->host_side ? pass_on_host(batch) : copy_on_host(batch);
    if (batch->direction == FERRY_DIRECTION_DEVICE && batch->host_side)
        return convert_on_device(batch);
    struct ferryi_copy single;
    batch->room = ferryi_min_size(batch->count, ENTRIES_MAX);
    batch->entries = batch->count == 1 ? &single : malloc(batch->room * sizeof(*batch->entries));
    if (!batch->entries)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory to list %zu copies", batch->room);
    ferry_status status = copy_listed(batch);
    if (batch->entries != &single)
        free(batch->entries);
    return status;
}

/* Returns whether a single call of the device's copy function can copy the whole piece of memory.
 */
static bool
is_one_call(const struct ferryi_run *run, const struct ferryi_piece *piece)
{
    return run->direction != FERRY_DIRECTION_HOST && run->direction != FERRY_DIRECTION_PEER &&
           !is_pageable(run, piece) && ferryi_engine_part(run->engine, run->job) >= run->bytes;
}

/* Makes the transfer with a single call of the device's copy function. This is faster than a batch
 * with one entry. */
static ferry_status
copy_in_one_call(struct ferryi_run *run, const struct ferryi_piece *piece)
{
    const struct ferryi_copy whole = {.target = piece->target,
                                      .source = piece->source,
                                      .bytes = piece->bytes,
                                      .direction = run->direction};
    FERRYI_OR_RETURN(FERRYI_CALL(run->timeline->device, copy, &whole, run->timeline->native));
    run->queued = true;
    ferryi_run_arrived(run, run->bytes);
    return ferryi_run_progress(run);
}

static ferry_status
copy_pieces(struct ferryi_run *run, const struct ferryi_piece *pieces, size_t count,
            enum ferryi_layout layout, const struct ferryi_host_side *host_side)
{
    FERRYI_OR_RETURN(ferryi_run_begin(run));
    if (count == 1 && !host_side && is_one_call(run, pieces))
        return copy_in_one_call(run, pieces);
    struct ferryi_batch batch = {.run = run,
                                 .pieces = pieces,
                                 .count = count,
                                 .layout = layout,
                                 .host_side = host_side,
                                 .timeline = run->timeline,
                                 .direction = run->direction};
    return copy(&batch);
}

ferry_status
ferryi_engine_copy(ferryi_engine *engine, struct ferryi_memory target, struct ferryi_memory source,
                   size_t bytes, ferryi_timeline *timeline, struct ferryi_transfer_job *job)
{
    if (bytes == 0)
        return FERRY_OK;
    struct ferryi_run run =
        ferryi_run_make(engine, target.place, source.place, bytes, timeline, job);
    bool up = run.direction == FERRY_DIRECTION_UPLOAD;
    const struct ferryi_piece piece = {.target = target.pointer,
                                       .source = source.pointer,
                                       .bytes = bytes,
                                       .unit = (uint32_t)job->unit,
                                       .pinned = up ? source.pinned : target.pinned};
    ferry_status status = copy_pieces(&run, &piece, 1, FERRYI_LAYOUT_ANY, NULL);
    return ferryi_run_end(&run, status);
}

/* Copies the first bytes of `seed` to all pieces, which lie on the same device and are no longer.
 * The transfer counts as a fill. */
static ferry_status
repeat_seed(ferryi_engine *engine, const struct ferryi_piece *seed,
            const struct ferryi_piece *pieces, size_t count, ferryi_timeline *timeline,
            struct ferryi_transfer_job *job)
{
    struct ferryi_piece *copies = malloc(count * sizeof(*copies));
    size_t bytes = 0;
    if (!copies)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory to list %zu copies", count);
    for (size_t i = 0; i < count; i++) {
        copies[i] = pieces[i];
        copies[i].source = seed->target;
        copies[i].source_owner = seed->target_owner;
        copies[i].source_place = seed->target_place;
        copies[i].zeros = false;
        bytes += pieces[i].bytes;
    }
    struct ferryi_run run =
        ferryi_run_make(engine, seed->target_place, seed->target_place, bytes, timeline, job);
    run.direction = FERRY_DIRECTION_FILL;
    run.source_place = -1;
    run.unit = 1;
    ferry_status status = ferryi_run_begin(&run);
    struct ferryi_batch batch = {.run = &run,
                                 .pieces = copies,
                                 .count = count,
                                 .layout = FERRYI_LAYOUT_ANY,
                                 .timeline = timeline,
                                 .direction = FERRY_DIRECTION_DEVICE};
    if (status == FERRY_OK)
        status = copy(&batch);
    free(copies);
    return ferryi_run_end(&run, status);
}

ferry_status
ferryi_engine_fill_pieces(ferryi_engine *engine, const struct ferryi_piece *pieces, size_t count,
                          const void *value, size_t value_bytes, ferryi_timeline *timeline,
                          struct ferryi_transfer_job *job)
{
    const bool by_host = ferryi_engine_is_host(engine, pieces->target_place);
    ferry_status status = FERRY_OK;
    for (size_t i = 0, next; i < count && status == FERRY_OK; i = next) {
        const struct ferryi_piece *piece = &pieces[i];
        const struct ferryi_memory target = {
            .place = piece->target_place, .pointer = piece->target, .pinned = piece->pinned};
        job->unit = piece->unit;
        status =
            ferryi_engine_fill(engine, target, piece->bytes, value, value_bytes, timeline, job);
        next = i + 1;
        while (!by_host && next < count && pieces[next].bytes <= piece->bytes)
            next++;
        if (next - i <= REPEAT_FROM)
            next = i + 1;
        else if (status == FERRY_OK)
            status = repeat_seed(engine, piece, piece + 1, next - i - 1, timeline, job);
    }
    return status;
}

/* Moves a single range between memory and a file. */
static ferry_status
copy_file(ferryi_engine *engine, const struct ferryi_piece *piece,
          const struct ferryi_host_side *host_side, ferryi_timeline *timeline,
          struct ferryi_transfer_job *job)
{
    const bool stores = host_side->stores;
    const struct ferryi_memory memory = {
        .place = stores && !piece->zeros ? piece->source_place : piece->target_place,
        .pointer = stores ? (void *)(uintptr_t)piece->source : piece->target,
        .pinned = piece->pinned};
    const uintptr_t at = stores ? (uintptr_t)piece->target : (uintptr_t)piece->source;
    const struct ferryi_file_range range = {host_side->file, host_side->offset + at};
    job->unit = piece->unit;
    return ferryi_engine_copy_file(engine, memory, range, piece->bytes, stores, timeline, job);
}

ferry_status
ferryi_engine_copy_pieces(ferryi_engine *engine, const struct ferryi_piece *pieces, size_t count,
                          enum ferryi_layout layout, const struct ferryi_host_side *host_side,
                          ferryi_timeline *timeline, struct ferryi_transfer_job *job)
{
    assert(count > 0);
    if (count == 1 && host_side && host_side->file && !host_side->transform)
        return copy_file(engine, pieces, host_side, timeline, job);
    size_t bytes = 0;
    job->unit = 1;
    for (size_t i = 0; i < count; i++) {
        bytes += pieces[i].bytes;
        job->unit = ferryi_max_size(job->unit, pieces[i].unit);
    }
    struct ferryi_run run =
        ferryi_run_make(engine, pieces->target_place, pieces->source_place, bytes, timeline, job);
    if (count > 1 || host_side)
        run.unit = 1;
    if (host_side && host_side->transform) {
        run.transform = host_side->transform;
        job->unit = host_side->transform->target_bytes;
    }
    ferry_status status = copy_pieces(&run, pieces, count, layout, host_side);
    if (run.done > 0 && count > 1) {
        atomic_fetch_add_explicit(&engine->batch_submissions, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&engine->batch_copies, count, memory_order_relaxed);
    }
    return ferryi_run_end(&run, status);
}
