/* SPDX-License-Identifier: MIT */
#include "src/buffer/bring.h"

#include <assert.h>
#include <stdlib.h>

#include "src/buffer/buffer.h"
#include "src/buffer/claim.h"
#include "src/transfer/batch.h"
#include "src/transfer/engine.h"

/* Consecutive moves (copies of stale bytes) of up to this many bytes each are merged into one
 * transfer. Longer moves are not merged, because helper threads stage each long move separately. */
#define GATHERED_BYTES ((size_t)256 << 10)

/* Maximum size of an upload that may be queued directly on the program's stream, instead of on an
 * internal stream. */
#define STRAIGHT_BYTES ((size_t)64 << 10)

/* Handles a failed copy between two places. If a device at the target or at the source was lost,
 * marks all bytes of the buffer as lost at that device. `source` is FERRYI_ZERO if the bytes were
 * to be zeroed instead of copied. Returns `status`. */
static ferry_status
note_loss_of_move(ferryi_store *store, int place, int source, ferry_status status)
{
    ferryi_claim_is_held();
    ferryi_places lost = status == FERRY_ERROR_DEVICE_LOST
                             ? ferryi_access_lost_places(store->context, place, source)
                             : 0;
    for (; lost; lost &= lost - 1)
        (void)ferryi_access_note_loss(store, __builtin_ctz(lost), status);
    return status;
}

void
ferryi_bring_begin(struct ferryi_bringing *bringing, struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    bringing->access = access;
    bringing->same = ferryi_store_sharers(store, access->place);
    bringing->reachable = ferryi_engine_reachable(store->context->engine, access->place);
    bringing->part = (struct ferryi_range){0};
    bringing->count = bringing->transferred = 0;
    bringing->room = FERRYI_MOVES;
    bringing->many = NULL;
    bringing->lost = bringing->any = false;
}

void
ferryi_bring_end(struct ferryi_bringing *bringing)
{
    free(bringing->many);
}

void
ferryi_bring_see_uses(struct ferryi_bringing *bringing, int source)
{
    ferryi_store *store = bringing->access->store;
    bringing->target_uses = ferryi_store_uses(store, bringing->access->place);
    bringing->source = source;
    if (source != FERRYI_ZERO)
        bringing->source_uses = ferryi_store_uses(store, source);
}

static struct ferryi_map_move *
moves_of(struct ferryi_bringing *bringing)
{
    return bringing->many ? bringing->many : bringing->few;
}

/* -- settling ---------------------------------------------------------------------------------- */

/*
 * Records in the store which replicas the last transfer wrote and read. Sets `*out_written` to the
 * sync point of its write, or to 0 if it has none.
 *
 * If the replica was also written on a timeline that the transfer does not wait for, returns false
 * and changes nothing. `*out_other` is then the sync point of that write.
 */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
note_moved(struct ferryi_access *access, ferryi_sync_point *out_written,
           ferryi_sync_point *out_other)
{
    ferryi_store *store = access->store;
    struct ferryi_moved *moved = &access->moved;
    *out_written = 0;
    if (moved->writer) {
        *out_written = ferryi_store_try_note_write(store, access->place, moved->writer, out_other);
        if (!*out_written)
            return false;
    }
    if (moved->reader)
        ferryi_store_add_reader(store, moved->source, moved->reader);
    for (; moved->eager; moved->eager &= moved->eager - 1)
        ferryi_store_copy(store, __builtin_ctz(moved->eager))->eager = true;
    if (moved->host_waited)
        ferryi_store_forget_done(store, access->place, moved->lost);
    moved->writer = moved->reader = NULL;
    moved->host_waited = false;
    moved->lost = 0;
    return true;
}

/* Marks the bytes that were moved as current at the place of the access. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
commit_moved(struct ferryi_access *access)
{
    struct ferryi_moved *moved = &access->moved;
    ferryi_valid_map *map = &access->store->map;
    if (moved->reserved && moved->begin < moved->end)
        ferryi_valid_map_commit(map, access->place, FERRYI_CHANGE_READ, moved->begin, moved->end);
    else if (moved->reserved)
        ferryi_valid_map_unreserve(map, 1);
    *moved = (struct ferryi_moved){0};
}

/* Marks the access's claim (its range lock) as open. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
open_claim(struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    struct ferryi_claim *claim = &store->claims[access->slot];
    if (access->user) {
        ferryi_claim_end_relied(access, true);
        claim->state = FERRYI_CLAIM_HELD;
        claim->copy = ferryi_store_copy(store, claim->place);
    } else if (claim->state == FERRYI_CLAIM_MOVING) {
        claim->state = FERRYI_CLAIM_CALL;
    }
}

ferryi_sync_point
ferryi_bring_settle(struct ferryi_access *access, bool opens)
{
    ferryi_store *store = access->store;
    struct ferryi_to_pin to_pin = {0};
    ferryi_sync_point written = 0;
    for (bool noted = false; !noted;) {
        ferryi_sync_point other = 0;
        ferryi_store_lock(store);
        noted = note_moved(access, &written, &other);
        if (noted) {
            to_pin = ferryi_store_count(store, access->moved.transferred);
            commit_moved(access);
            if (opens)
                open_claim(access);
        }
        if (noted && opens)
            ferryi_store_unlock_waking(store);
        else
            ferryi_store_unlock(store);
        if (!noted)
            ferryi_store_await_write(store, access->place, access->moved.writer, other);
    }
    ferryi_store_pin(store, to_pin);
    return written;
}

/* Records the uses of the last transfer, and reads the uses that the next transfer must wait for.
 */
static void
see_again(struct ferryi_bringing *bringing, int source)
{
    struct ferryi_access *access = bringing->access;
    ferryi_store *store = access->store;
    for (bool noted = false; !noted;) {
        ferryi_sync_point written, other = 0;
        ferryi_store_lock(store);
        noted = note_moved(access, &written, &other);
        if (noted)
            ferryi_bring_see_uses(bringing, source);
        ferryi_store_unlock(store);
        if (!noted)
            ferryi_store_await_write(store, access->place, access->moved.writer, other);
    }
}

/* -- moving ------------------------------------------------------------------------------------ */

/* Orders `timeline` after uses of the replica at `place`. If `timeline` is NULL, the host waits. */
static ferry_status
await_uses(struct ferryi_access *access, int place, ferryi_timeline *timeline,
           const struct ferryi_uses *uses)
{
    ferryi_order *order = &access->store->context->order;
    if (ferryi_uses_are_ordered(order, timeline, uses))
        return FERRY_OK;
    if (ferryi_uses_are_of_users(order, uses))
        access->moved.eager |= FERRYI_PLACE_BIT(place);
    access->moved.host_waited = access->moved.host_waited || !timeline;
    return ferryi_uses_wait(order, timeline, uses, &access->moved.lost);
}

/* Orders the timeline of a transfer from the replica at `source`, or of a fill with zeros, after
 * the uses of both replicas. */
static ferry_status
order_transfer(struct ferryi_bringing *bringing, int source, ferryi_timeline *timeline)
{
    struct ferryi_access *access = bringing->access;
    if (access->moved.writer || access->moved.reader || source != bringing->source)
        see_again(bringing, source);
    if (source != FERRYI_ZERO) {
        const struct ferryi_uses reads = {.written = bringing->source_uses.written};
        FERRYI_OR_RETURN(await_uses(access, source, timeline, &reads));
    }
    return await_uses(access, access->place, timeline, &bringing->target_uses);
}

/* Zeroes the bytes [begin, end) of the replica at the place of the access. */
static ferry_status
fill_zero(struct ferryi_bringing *bringing, size_t begin, size_t end)
{
    ferryi_claim_is_held();
    struct ferryi_access *access = bringing->access;
    ferryi_store *store = access->store;
    ferryi_timeline *timeline;
    FERRYI_OR_RETURN(ferryi_place_timeline(store, access->place, &timeline));
    FERRYI_OR_RETURN(order_transfer(bringing, FERRYI_ZERO, timeline));
    struct ferryi_memory target = ferryi_access_memory(store, timeline ? access->place : 0, begin);
    ferry_status status = ferryi_engine_fill(store->context->engine, target, end - begin, "", 1,
                                             timeline, &bringing->job);
    access->moved.writer = timeline;
    return status;
}

/* Returns whether `place` is the host and the host replica is pageable memory. Devices do not
 * access pageable memory directly. So a transfer from or to pageable memory is complete when the
 * call that starts the transfer returns. */
static bool
is_pageable(ferryi_store *store, int place)
{
    ferryi_claim_is_held();
    return place == 0 && !ferryi_claimed_copy(store, 0)->pinned &&
           store->memory != FERRY_MEMORY_MANAGED;
}

/* Notes that a transfer writes the replica at the place of the access and reads the replica at
 * `source`. The engine has already queued the transfer on `timeline`. */
static void
note_transfer(struct ferryi_access *access, int source, ferryi_timeline *timeline)
{
    assert(timeline); /* one of the two places is a device */
    bool into_pageable = is_pageable(access->store, access->place);
    if (!into_pageable && !is_pageable(access->store, source)) {
        access->moved.reader = timeline;
        access->moved.source = source;
    }
    if (!into_pageable)
        access->moved.writer = timeline;
}

/*
 * Returns whether the copy `move` can be queued directly on the stream of the access. This costs
 * less than ordering an internal stream before and after the copy. The result is true only for
 * short uploads from pinned memory. The caller has checked that the stream is not being captured.
 *
 * Sets `*out_uploads` to the timeline on which the read of the host replica is recorded.
 */
static bool
goes_straight(const struct ferryi_access *access, const struct ferryi_map_move *move,
              ferryi_timeline **out_uploads)
{
    ferryi_claim_is_held();
    ferryi_timeline *timeline = access->timeline;
    return timeline && timeline->is_plain && !timeline->internal &&
           timeline->place == access->place && move->source == 0 &&
           move->end - move->begin <= STRAIGHT_BYTES &&
           ferryi_access_memory(access->store, 0, move->begin).pinned &&
           ferryi_timeline_of_uploads(timeline, out_uploads);
}

/* Records that an upload on the program's own stream reads the host replica and writes the device
 * replica. The next write to the host replica then waits for the upload, but not for later work on
 * that stream. */
static void
note_straight(struct ferryi_access *access, ferryi_timeline *uploads)
{
    ferryi_store_note_read(access->store, 0, uploads);
    access->moved.writer = access->timeline;
    ferryi_timeline_record_upload(uploads);
}

static ferry_status
move_one(struct ferryi_bringing *bringing, const struct ferryi_map_move *move)
{
    ferryi_claim_is_held();
    struct ferryi_access *access = bringing->access;
    ferryi_store *store = access->store;
    if (move->source == FERRYI_ZERO)
        return fill_zero(bringing, move->begin, move->end);

    /* Both places use the same memory, so no bytes are copied. The function ferryi_bring_order()
     * later orders the access after the last write of this memory. */
    if (ferryi_store_same_memory(store, access->place, move->source))
        return FERRY_OK;

    ferryi_engine *engine = store->context->engine;
    ferryi_timeline *uploads = NULL;
    bool straight = goes_straight(access, move, &uploads);
    ferryi_timeline *timeline = access->timeline;
    if (!straight)
        FERRYI_OR_RETURN(
            ferryi_store_timeline(store, access->place, move->source, access->reason, &timeline));
    FERRYI_OR_RETURN(order_transfer(bringing, move->source, timeline));
    ferry_status status =
        ferryi_engine_copy(engine, ferryi_access_memory(store, access->place, move->begin),
                           ferryi_access_memory(store, move->source, move->begin),
                           move->end - move->begin, timeline, &bringing->job);
    /* The use of both replicas is recorded even after a failure, because parts of the transfer may
     * already be queued. A transfer from or to pageable memory needs no record, because it is
     * complete when its call returns. */
    if (straight)
        note_straight(access, uploads);
    else
        note_transfer(access, move->source, timeline);
    return status;
}

static bool
is_gathered(const struct ferryi_access *access, const struct ferryi_map_move *move)
{
    return !access->job && move->source != FERRYI_ZERO &&
           move->end - move->begin <= GATHERED_BYTES &&
           !ferryi_store_same_memory(access->store, access->place, move->source);
}

/* Returns how many copies at the start of the list `moves` can be merged into one transfer. */
static size_t
count_gathered(const struct ferryi_access *access, const struct ferryi_map_move *moves,
               size_t count)
{
    size_t gathered = 0;
    while (gathered < count && moves[gathered].source == moves->source &&
           is_gathered(access, &moves[gathered]))
        gathered++;
    return ferryi_max_size(gathered, 1);
}

static struct ferryi_piece
piece_of(const struct ferryi_access *access, const struct ferryi_map_move *move)
{
    ferryi_claim_is_held();
    ferryi_store *store = access->store;
    struct ferryi_memory target = ferryi_access_memory(store, access->place, move->begin),
                         source = ferryi_access_memory(store, move->source, move->begin);
    return (struct ferryi_piece){.target = target.pointer,
                                 .source = source.pointer,
                                 .bytes = move->end - move->begin,
                                 .target_owner = store,
                                 .source_owner = store,
                                 .target_place = (uint8_t)access->place,
                                 .source_place = (uint8_t)move->source,
                                 .pinned = ferryi_store_same_memory(store, access->place, 0)
                                               ? target.pinned
                                               : source.pinned};
}

static ferry_status
move_pieces(struct ferryi_bringing *bringing, const struct ferryi_piece *pieces, size_t count,
            int source)
{
    ferryi_claim_is_held();
    struct ferryi_access *access = bringing->access;
    ferryi_engine *engine = access->store->context->engine;
    ferryi_timeline *timeline;
    FERRYI_OR_RETURN(
        ferryi_store_timeline(access->store, access->place, source, access->reason, &timeline));
    FERRYI_OR_RETURN(order_transfer(bringing, source, timeline));
    ferry_status status = ferryi_engine_copy_pieces(engine, pieces, count, FERRYI_LAYOUT_ANY, NULL,
                                                    timeline, &bringing->job);
    note_transfer(access, source, timeline);
    return status;
}

/* Merges several copies from one source place into a single transfer, and runs this transfer. */
static ferry_status
move_many(struct ferryi_bringing *bringing, const struct ferryi_map_move *moves, size_t count)
{
    struct ferryi_piece *pieces = count > 1 ? malloc(count * sizeof(*pieces)) : NULL;
    ferry_status status = FERRY_OK;
    /* If the list for a merged transfer cannot be allocated, each range is copied by a separate
     * transfer. */
    for (size_t i = 0; i < count && status == FERRY_OK; i++) {
        if (pieces)
            pieces[i] = piece_of(bringing->access, &moves[i]);
        else
            status = move_one(bringing, &moves[i]);
    }
    if (pieces)
        status = move_pieces(bringing, pieces, count, moves->source);
    free(pieces);
    return status;
}

/* Returns whether the copy `move` transfers bytes between the host replica and a device. */
static bool
crosses(ferryi_store *store, int place, const struct ferryi_map_move *move)
{
    return move->source != FERRYI_ZERO && (place == 0 || move->source == 0) &&
           !ferryi_store_same_memory(store, place, move->source);
}

/* Makes the planned moves. */
static ferry_status
run_moves(struct ferryi_bringing *bringing)
{
    struct ferryi_access *access = bringing->access;
    ferryi_store *store = access->store;
    for (size_t i = 0, gathered; i < bringing->count; i += gathered) {
        const struct ferryi_map_move *moves = &moves_of(bringing)[i];
        gathered = count_gathered(access, moves, bringing->count - i);
        /* The progress callback counts every byte of the range, including bytes that need not be
         * moved. */
        bringing->job.done = moves->begin - access->begin;
        ferry_status status = move_many(bringing, moves, gathered);
        if (status != FERRY_OK)
            return note_loss_of_move(store, access->place, moves->source, status);
        bool copies = moves->source == FERRYI_ZERO ||
                      !ferryi_store_same_memory(store, access->place, moves->source);
        bringing->any = bringing->any || copies;
        for (size_t j = 0; j < gathered; j++)
            bringing->transferred +=
                crosses(store, access->place, &moves[j]) ? moves[j].end - moves[j].begin : 0;
    }
    return FERRY_OK;
}

bool
ferryi_bring_plan(struct ferryi_bringing *bringing, size_t at, struct ferryi_map_supply *supply)
{
    struct ferryi_access *access = bringing->access;
    ferryi_store *store = access->store;
    ferryi_bring_see_uses(bringing, FERRYI_ZERO);
    bringing->part = ferryi_claim_uncovered(store, access, at);
    bringing->count = 0;
    bringing->lost = false;
    if (bringing->part.begin == bringing->part.end)
        return true;
    if (!access->moved.reserved && !ferryi_valid_map_reserve(&store->map, 1, supply))
        return false;
    access->moved.reserved = true;
    struct ferryi_map_move *moves = moves_of(bringing);
    bringing->count = ferryi_valid_map_plan(
        &store->map, access->place, bringing->part.begin, bringing->part.end, bringing->same,
        bringing->reachable, moves, bringing->room, &bringing->next, &bringing->lost);
    if (bringing->count > 0)
        ferryi_bring_see_uses(bringing, moves->source);
    return true;
}

/* Plans the moves of the next part of the range, which begins at `at` or later. Stops when the list
 * of moves is full. */
static ferry_status
plan_next(struct ferryi_bringing *bringing, size_t at)
{
    ferryi_store *store = bringing->access->store;
    struct ferryi_map_supply supply = {0};
    ferry_status status = FERRY_OK;
    for (bool planned = false; !planned && status == FERRY_OK;) {
        ferryi_store_lock(store);
        planned = ferryi_bring_plan(bringing, at, &supply);
        ferryi_store_unlock(store);
        if (!planned)
            status = ferryi_map_supply_make(&supply);
    }
    ferryi_map_supply_free(&supply);
    return status;
}

/* If the list of moves is full, allocates a longer list and plans all the moves again. If no memory
 * can be allocated, the moves that fit into the short list are made first. */
static ferry_status
plan_more(struct ferryi_bringing *bringing)
{
    if (bringing->count < bringing->room || bringing->next == bringing->part.end ||
        bringing->room > FERRYI_MOVES)
        return FERRY_OK;
    bringing->many = malloc(FERRYI_MOVES_LONG * sizeof(*bringing->many));
    if (!bringing->many)
        return FERRY_OK;
    bringing->room = FERRYI_MOVES_LONG;
    return plan_next(bringing, bringing->part.begin);
}

ferry_status
ferryi_bring_run(struct ferryi_bringing *bringing)
{
    struct ferryi_access *access = bringing->access;
    struct ferryi_transfer_job *job = &bringing->job;
    *job = ferryi_access_job(access);
    job->total = access->end - access->begin;
    while (bringing->part.begin < bringing->part.end) {
        FERRYI_OR_RETURN(plan_more(bringing));
        if (bringing->lost)
            return ferryi_access_fail_lost(access);
        ferry_status status = run_moves(bringing);
        /* `end` is the end of the bytes that are current now. After a cancelled call, these are the
         * bytes that were moved before. After any other failure, no byte of the part counts as
         * current. */
        size_t end = status == FERRY_OK                ? bringing->next
                     : status == FERRY_ERROR_CANCELLED ? access->begin + job->done
                                                       : bringing->part.begin;
        access->moved.begin = bringing->part.begin;
        access->moved.end = end;
        if (status != FERRY_OK)
            return status;
        if (end == access->end)
            break;
        ferryi_bring_settle(access, false);
        FERRYI_OR_RETURN(plan_next(bringing, end));
    }
    access->moved.transferred = bringing->transferred;
    return bringing->any && job->reported < job->total
               ? ferryi_engine_reported(access->store->context->engine, job, job->total - job->done)
               : FERRY_OK;
}

ferry_status
ferryi_bring_claimed(struct ferryi_access *access)
{
    struct ferryi_bringing bringing;
    ferryi_bring_begin(&bringing, access);
    ferry_status status = plan_next(&bringing, access->begin);
    if (status == FERRY_OK)
        status = ferryi_bring_run(&bringing);
    ferryi_bring_end(&bringing);
    ferryi_bring_settle(access, false);
    return status;
}

ferry_status
ferryi_bring_zeros(struct ferryi_access *access)
{
    struct ferryi_bringing bringing;
    ferryi_bring_begin(&bringing, access);
    bringing.job = ferryi_access_job(access);
    see_again(&bringing, FERRYI_ZERO);
    ferry_status status = fill_zero(&bringing, access->begin, access->end);
    ferryi_bring_end(&bringing);
    ferryi_bring_settle(access, false);
    return status;
}

ferry_status
ferryi_bring_order(struct ferryi_bringing *bringing)
{
    struct ferryi_access *access = bringing->access;
    struct ferryi_moved *moved = &access->moved;
    struct ferryi_uses uses = bringing->target_uses;
    /* The stream of the access need not wait for these uses. It will wait for the last transfer,
     * which waits for them. */
    if (access->timeline && moved->writer)
        return FERRY_OK;
    if (!ferryi_claim_writes(access->access))
        uses.readers = 0;
    FERRYI_OR_RETURN(await_uses(access, access->place, access->timeline, &uses));
    if (!moved->writer)
        return FERRY_OK;
    FERRYI_OR_RETURN(ferryi_sync_point_wait(&access->store->context->order, NULL,
                                            ferryi_timeline_sync_point(moved->writer)));
    moved->writer = moved->reader = NULL;
    return FERRY_OK;
}
