/* SPDX-License-Identifier: MIT */
#include "src/buffer/access.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hold.h"
#include "src/buffer/buffer.h"
#include "src/buffer/checked.h"
#include "src/buffer/claim.h"
#include "src/buffer/observe.h"
#include "src/buffer/pending_calls.h"
#include "src/transfer/batch.h"
#include "src/transfer/engine.h"

/* This file implements the two main steps of an access to a range of a buffer. "Prepare" copies
 * stale bytes to the place of the access. "Close" records the use of the range and commits a write.
 */

/* Capacities of a list of moves. A move copies one range of stale bytes. The moves are planned
 * while the buffer's spin lock is held, so their number is limited. If a list of MOVES_PER_STEP
 * moves is too short, a list of MOVES_PER_LONG_STEP moves is allocated. */
#define MOVES_PER_STEP      16
#define MOVES_PER_LONG_STEP 1024
/* Consecutive moves (copies of stale bytes) of up to this many bytes each are merged into one
 * transfer. Longer moves are not merged, because helper threads stage each long move separately. */
#define GATHERED_BYTES ((size_t)256 << 10)

/* Maximum size of an upload that may be queued directly on the program's stream, instead of on an
 * internal stream. */
#define STRAIGHT_BYTES ((size_t)64 << 10)

/* -- moving ------------------------------------------------------------------------------------ */

struct ferryi_memory
ferryi_access_memory(ferryi_store *store, int place, size_t begin)
{
    const struct ferryi_place_copy *copy = ferryi_claimed_copy(store, place);
    /* Managed memory counts as pinned, because the copy engine of a GPU can use managed memory
     * directly, like pinned memory. */
    bool pinned = copy->pinned || store->memory == FERRY_MEMORY_MANAGED;
    return (struct ferryi_memory){
        .place = place, .pointer = (char *)copy->pointer + begin, .pinned = pinned};
}

ferry_status
ferryi_access_note_loss(ferryi_store *store, int place, ferry_status status)
{
    if (status == FERRY_ERROR_DEVICE_LOST && place > 0) {
        struct ferryi_kept_error why;
        ferryi_last_error_keep(&why);
        ferryi_store_lose(store, place, 0, ferryi_claimed_bytes(store), status, why.message);
    }
    return status;
}

ferryi_places
ferryi_access_lost_places(ferry_context *context, int first, int second)
{
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    const int both[] = {first, second};
    ferryi_places lost = 0;
    for (size_t i = 0; i < 2; i++) {
        size_t free_bytes, total_bytes;
        ferryi_device *device = both[i] > 0 ? context->devices[both[i]] : NULL;
        if (device &&
            FERRYI_CALL(device, memory_info, &free_bytes, &total_bytes) == FERRY_ERROR_DEVICE_LOST)
            lost |= FERRYI_PLACE_BIT(both[i]);
    }
    ferryi_last_error_restore(&why);
    if (!lost && (first > 0 || second > 0))
        lost = FERRYI_PLACE_BIT(first > 0 ? first : second);
    return lost;
}

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

static struct ferryi_transfer_job
job_of(const struct ferryi_access *access)
{
    struct ferryi_transfer_job job = {0};
    if (access->job)
        job = *access->job;
    job.moves = true;
    ferryi_store_name_job(access->store, &job, access->reason, access->begin);
    return job;
}

/* Zeroes the bytes [begin, end) of the replica at the access's place. */
static ferry_status
fill_zero(struct ferryi_access *access, size_t begin, size_t end, struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    ferryi_store *store = access->store;
    ferryi_timeline *timeline;
    ferry_status status = ferryi_place_timeline(store, access->place, &timeline);
    if (status == FERRY_OK)
        status = ferryi_store_order(store, access->place, timeline, true);
    if (status != FERRY_OK)
        return status;
    struct ferryi_memory target = ferryi_access_memory(store, timeline ? access->place : 0, begin);
    status = ferryi_engine_fill(store->context->engine, target, end - begin, "", 1, timeline, job);
    if (timeline)
        ferryi_store_note_write(store, access->place, timeline);
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

void
ferryi_access_note_transfer(ferryi_store *target, int target_place, ferryi_store *source,
                            int source_place, ferryi_timeline *timeline)
{
    assert(timeline); /* one of the two places is a device */
    bool into_pageable = is_pageable(target, target_place);
    if (!into_pageable && !is_pageable(source, source_place))
        ferryi_store_note_read(source, source_place, timeline);
    if (!into_pageable)
        ferryi_store_note_write(target, target_place, timeline);
}

/*
 * Returns whether the copy `move` can be queued directly on the stream of the access. This costs
 * less than ordering an internal stream before and after the copy. The result is true only for
 * short uploads from pinned memory. The caller has checked that the stream is not being captured.
 *
 * Sets `*out_uploads` to the timeline on which the read of the host replica is recorded.
 */
static bool
goes_straight(const struct ferryi_access *access, const struct ferryi_move *move,
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
note_straight(const struct ferryi_access *access, ferryi_timeline *uploads)
{
    ferryi_store_note_read(access->store, 0, uploads);
    ferryi_store_note_write(access->store, access->place, access->timeline);
    ferryi_timeline_record_upload(uploads);
}

static ferry_status
move_one(struct ferryi_access *access, const struct ferryi_move *move,
         struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    ferryi_store *store = access->store;
    if (move->source == FERRYI_ZERO)
        return fill_zero(access, move->begin, move->end, job);

    /* Both places use the same memory, so no bytes are copied. The function prepare_one() later
     * orders the access after the last write of this memory. */
    if (ferryi_store_same_memory(store, access->place, move->source))
        return FERRY_OK;

    ferryi_engine *engine = store->context->engine;
    ferryi_timeline *uploads = NULL;
    bool straight = goes_straight(access, move, &uploads);
    ferryi_timeline *timeline = access->timeline;
    ferry_status status =
        straight ? FERRY_OK
                 : ferryi_engine_timeline(engine, access->place, move->source, &timeline);
    if (status == FERRY_OK)
        status = ferryi_store_order_move(store, move->source, access->place, timeline);
    if (status != FERRY_OK)
        return status;
    status = ferryi_engine_copy(engine, ferryi_access_memory(store, access->place, move->begin),
                                ferryi_access_memory(store, move->source, move->begin),
                                move->end - move->begin, timeline, job);
    /* The use of both replicas is recorded even after a failure, because parts of the transfer may
     * already be queued. A transfer from or to pageable memory needs no record, because it is
     * complete when its call returns. */
    if (straight)
        note_straight(access, uploads);
    else
        ferryi_access_note_transfer(store, access->place, store, move->source, timeline);
    return status;
}

static bool
is_gathered(const struct ferryi_access *access, const struct ferryi_move *move)
{
    return !access->job && move->source != FERRYI_ZERO &&
           move->end - move->begin <= GATHERED_BYTES &&
           !ferryi_store_same_memory(access->store, access->place, move->source);
}

/* Returns how many copies at the start of the list `moves` can be merged into one transfer. */
static size_t
count_gathered(const struct ferryi_access *access, const struct ferryi_move *moves, size_t count)
{
    size_t gathered = 0;
    while (gathered < count && moves[gathered].source == moves->source &&
           is_gathered(access, &moves[gathered]))
        gathered++;
    return ferryi_max_size(gathered, 1);
}

static struct ferryi_piece
piece_of(const struct ferryi_access *access, const struct ferryi_move *move)
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
move_pieces(struct ferryi_access *access, const struct ferryi_piece *pieces, size_t count,
            int source, struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    ferryi_store *store = access->store;
    ferryi_engine *engine = store->context->engine;
    ferryi_timeline *timeline;
    ferry_status status = ferryi_engine_timeline(engine, access->place, source, &timeline);
    if (status == FERRY_OK)
        status = ferryi_store_order_move(store, source, access->place, timeline);
    if (status != FERRY_OK)
        return status;
    status = ferryi_engine_copy_pieces(engine, pieces, count, FERRYI_LAYOUT_ANY, timeline, job);
    ferryi_access_note_transfer(store, access->place, store, source, timeline);
    return status;
}

/* Merges several copies from one source place into a single transfer, and runs this transfer. */
static ferry_status
move_many(struct ferryi_access *access, const struct ferryi_move *moves, size_t count,
          struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    struct ferryi_piece *pieces = count > 1 ? malloc(count * sizeof(*pieces)) : NULL;
    ferry_status status = FERRY_OK;
    /* If the list for a merged transfer cannot be allocated, each range is copied by a separate
     * transfer. */
    for (size_t i = 0; i < count && status == FERRY_OK; i++) {
        if (pieces)
            pieces[i] = piece_of(access, &moves[i]);
        else
            status = move_one(access, &moves[i], job);
    }
    if (pieces)
        status = move_pieces(access, pieces, count, moves->source, job);
    free(pieces);
    return status;
}

ferry_status
ferryi_access_fail_lost(const struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    char text[512];
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    ferryi_store_lock(store);
    ferry_status status = cold && cold->lost_status ? cold->lost_status : FERRY_ERROR_DEVICE_LOST;
    snprintf(text, sizeof(text), "%s", ferryi_store_lost_text(cold));
    ferryi_store_unlock(store);
    return ferryi_fail(status, "%s bytes %zu to %zu of buffer \"%s\", which were lost: %s",
                       access->reason, access->begin, access->end, ferryi_store_name(store), text);
}

/* Returns whether the copy `move` transfers bytes between the host replica and a device. */
static bool
crosses(ferryi_store *store, int place, const struct ferryi_move *move)
{
    return move->source != FERRYI_ZERO && (place == 0 || move->source == 0) &&
           !ferryi_store_same_memory(store, place, move->source);
}

/* Marks the bytes [begin, end) as current at the place of the access. Each such change of the valid
 * map uses up one reservation, which the access made in advance. If the range is empty, the
 * function only releases the reservation. */
static void
join(const struct ferryi_access *access, size_t begin, size_t end)
{
    ferryi_store *store = access->store;
    ferryi_store_lock(store);
    if (begin < end)
        ferryi_valid_map_commit(&store->map, access->place, FERRYI_CHANGE_READ, begin, end);
    else
        ferryi_valid_map_unreserve(&store->map, 1);
    ferryi_store_unlock(store);
}

/* Result of the function bring(): the number of bytes that were transferred between the host
 * replica and a device, and whether any bytes were copied or zeroed at all. */
struct brought {
    size_t transferred;
    bool any;
};

/* List of moves (copies of stale bytes) that were planned together under the buffer's lock. */
struct step {
    struct ferryi_move few[MOVES_PER_STEP], *moves;
    size_t room, count, next;
};

/* Plans the copies that make the bytes [at, end) current at the place of the access. Plans only as
 * many copies as fit into the list of `step`. If this list is full, allocates a longer list and
 * plans all the copies again. */
static ferry_status
plan_step(const struct ferryi_access *access, size_t at, size_t end, struct step *step)
{
    ferryi_store *store = access->store;
    ferryi_places same = ferryi_store_sharers(store, access->place);
    ferryi_places reachable = ferryi_engine_reachable(store->context->engine, access->place);
    for (;;) {
        bool lost;
        ferryi_store_lock(store);
        step->count = ferryi_valid_map_plan(&store->map, access->place, at, end, same, reachable,
                                            step->moves, step->room, &step->next, &lost);
        ferryi_store_unlock(store);
        if (lost)
            return ferryi_access_fail_lost(access);
        bool more = step->room == MOVES_PER_STEP && step->count == step->room && step->next < end;
        struct ferryi_move *many = more ? malloc(MOVES_PER_LONG_STEP * sizeof(*many)) : NULL;
        if (!many)
            return FERRY_OK;
        step->moves = many;
        step->room = MOVES_PER_LONG_STEP;
    }
}

static ferry_status
run_step(struct ferryi_access *access, const struct step *step, struct ferryi_transfer_job *job,
         struct brought *brought, size_t *out_end)
{
    ferryi_store *store = access->store;
    for (size_t i = 0, gathered; i < step->count; i += gathered) {
        const struct ferryi_move *moves = &step->moves[i];
        gathered = count_gathered(access, moves, step->count - i);
        /* The progress callback counts every byte of the range, including bytes that need not be
         * moved. */
        job->done = moves->begin - access->begin;
        ferry_status status = move_many(access, moves, gathered, job);
        if (status == FERRY_ERROR_CANCELLED)
            *out_end = access->begin + job->done;
        if (status != FERRY_OK)
            return note_loss_of_move(store, access->place, moves->source, status);
        bool copies = moves->source == FERRYI_ZERO ||
                      !ferryi_store_same_memory(store, access->place, moves->source);
        brought->any = brought->any || copies;
        for (size_t j = 0; j < gathered; j++)
            brought->transferred +=
                crosses(store, access->place, &moves[j]) ? moves[j].end - moves[j].begin : 0;
    }
    return FERRY_OK;
}

/* Copies stale bytes of `part` to the access's place. On return, the bytes from `part.begin` to
 * `*out_end` are current at this place, even if the program cancelled the call. */
static ferry_status
move_part(struct ferryi_access *access, struct ferryi_range part, struct ferryi_transfer_job *job,
          struct brought *brought, size_t *out_end)
{
    struct step step = {.room = MOVES_PER_STEP};
    ferry_status status = FERRY_OK;
    step.moves = step.few;
    *out_end = part.begin;
    for (size_t at = part.begin; at < part.end && status == FERRY_OK; at = step.next) {
        status = plan_step(access, at, part.end, &step);
        if (status == FERRY_OK)
            status = run_step(access, &step, job, brought, out_end);
    }
    if (status == FERRY_OK)
        *out_end = part.end;
    if (step.moves != step.few)
        free(step.moves);
    return status;
}

/* Finds the first part of [at, end of the access) that the access must make current, and makes a
 * reservation in the valid map for it. If there is no such part, `*out` is empty, and no
 * reservation is made. */
static ferry_status
next_part(const struct ferryi_access *access, size_t at, struct ferryi_range *out)
{
    ferryi_store *store = access->store;
    struct ferryi_map_supply supply = {0};
    ferry_status status = FERRY_OK;
    for (bool ready = false; !ready && status == FERRY_OK;) {
        ferryi_store_lock(store);
        *out = ferryi_claim_uncovered(store, access, at);
        ready = out->begin == out->end || ferryi_valid_map_reserve(&store->map, 1, &supply);
        ferryi_store_unlock(store);
        if (!ready)
            status = ferryi_map_supply_make(&supply);
    }
    ferryi_map_supply_free(&supply);
    return status;
}

/* Copies the stale bytes of the range to the place of the access. Skips bytes that an open write of
 * the same stream covers, because they need no copy. */
ferry_status
ferryi_access_bring_claimed(struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    struct ferryi_transfer_job job = job_of(access);
    struct brought brought = {0};
    job.total = access->end - access->begin;
    for (size_t at = access->begin; at < access->end;) {
        struct ferryi_range part;
        FERRYI_OR_RETURN(next_part(access, at, &part));
        at = part.end;
        if (part.begin == part.end)
            continue;
        size_t end;
        ferry_status status = move_part(access, part, &job, &brought, &end);
        join(access, part.begin, end);
        if (status != FERRY_OK)
            return status;
    }
    if (brought.transferred > 0)
        ferryi_store_count_transfer(store, brought.transferred);
    return brought.any && job.reported < job.total
               ? ferryi_engine_reported(store->context->engine, &job, job.total - job.done)
               : FERRY_OK;
}

static bool
is_scrubbed(const struct ferryi_access *access)
{
    return access->access == FERRY_OVERWRITE && access->store->scrub && !access->writes_all &&
           access->place != FERRYI_PLACE_NONE;
}

static ferry_status
scrub(struct ferryi_access *access)
{
    ferryi_claim_is_held();
    ferryi_store *store = access->store;
    if (!access->timeline || ferryi_store_same_memory(store, access->place, 0)) {
        struct ferryi_transfer_job job = job_of(access);
        ferry_status status = fill_zero(access, access->begin, access->end, &job);
        return status == FERRY_OK ? ferryi_store_order(store, access->place, access->timeline, true)
                                  : status;
    }
    /* The zeroing is queued on the timeline of the access, which is already ordered after all
     * previous uses of the range. Closing the access records the zeroing as a use. No later step of
     * opening the access can fail, so the access is always closed. */
    struct ferryi_transfer_job job = job_of(access);
    return ferryi_engine_fill(store->context->engine,
                              ferryi_access_memory(store, access->place, access->begin),
                              access->end - access->begin, "", 1, access->timeline, &job);
}

/*
 * Marks the whole host replica as lost. Called before the host overwrites a range, if a device was
 * lost while its work on the host replica was still queued. It is unknown how much of that work was
 * done. Bytes become valid again when they are overwritten.
 */
static ferry_status
give_host_copy_up(struct ferryi_access *access)
{
    ferryi_claim_is_held();
    ferryi_store *store = access->store;
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    for (int place = 0; place <= store->context->place_count; place++)
        if (ferryi_store_same_memory(store, place, 0))
            ferryi_store_lose(store, place, 0, ferryi_claimed_bytes(store), FERRY_ERROR_DEVICE_LOST,
                              why.message);
    ferryi_store_lock(store);
    ferryi_store_copy(store, 0)->written = 0;
    ferryi_store_unlock(store);
    return ferryi_store_order(store, 0, NULL, true);
}

static ferry_status
prepare_one(struct ferryi_access *access)
{
    ferryi_claim_is_held();
    ferryi_store *store = access->store;
    ferry_status status = FERRY_OK;
    if (access->place == FERRYI_PLACE_NONE || access->access == FERRYI_ACCESS_DROP)
        return FERRY_OK;
    struct ferryi_place_copy none = {0};
    ferryi_store_lock(store);
    ferryi_claim_rely(access);
    bool is_hit = ferryi_claim_is_hit(store, access);
    bool has_memory = ferryi_store_install(store, access->place, &none);
    if (is_hit)
        access->pointer = (char *)ferryi_store_copy(store, access->place)->pointer + access->begin;
    ferryi_store_unlock(store);
    if (access->relied > 0)
        status = ferryi_store_reserve_changes(store, access->relied);
    if (status != FERRY_OK)
        access->relied = 0;
    if (status != FERRY_OK || is_hit)
        return status;

    if (access->timeline)
        status = ferryi_timeline_check_own(access->timeline);
    if (status == FERRY_OK && !has_memory)
        status = ferryi_store_reserve(store, access->place,
                                      access->access == FERRY_OVERWRITE ? access->timeline : NULL);
    if (status == FERRY_OK && access->access != FERRY_OVERWRITE)
        status = ferryi_access_bring_claimed(access);
    if (status == FERRY_OK) {
        bool replaces = !access->timeline && access->access == FERRY_OVERWRITE &&
                        ferryi_store_same_memory(store, access->place, 0);
        status = ferryi_store_order(store, access->place, access->timeline,
                                    ferryi_claim_writes(access->access));
        if (status == FERRY_ERROR_DEVICE_LOST && replaces)
            status = give_host_copy_up(access);
    }
    if (status == FERRY_OK)
        access->pointer =
            (char *)ferryi_claimed_copy(store, access->place)->pointer + access->begin;
    return status;
}

/* Zeroes the ranges that will be overwritten. Zeroing destroys the old values, so it is the last
 * step of opening a list of accesses. If an earlier step fails, every buffer is unchanged. */
static ferry_status
scrub_all(struct ferryi_access *list, size_t count)
{
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < count && status == FERRY_OK; i++)
        if (is_scrubbed(&list[i]))
            status = scrub(&list[i]);
    if (status == FERRY_OK)
        return FERRY_OK;
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    for (size_t i = 0; i < count; i++)
        (void)ferryi_access_close(&list[i], FERRYI_CLOSE_CANCEL, list[i].timeline);
    ferryi_last_error_restore(&why);
    return status;
}

/* Marks the access's claim (its range lock) as open. Called when all accesses that are opened
 * together are prepared. Cannot fail. */
static void
hold(struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    ferryi_store_lock(store);
    struct ferryi_claim *claim = &store->claims[access->slot];
    if (access->user) {
        ferryi_claim_end_relied(access, true);
        claim->state = FERRYI_CLAIM_HELD;
        claim->copy = ferryi_store_copy(store, claim->place);
    } else if (claim->state == FERRYI_CLAIM_MOVING) {
        claim->state = FERRYI_CLAIM_CALL;
    }
    ferryi_store_unlock_waking(store);
}

ferry_status
ferryi_access_prepare(struct ferryi_access *list, size_t count)
{
    ferry_status status = FERRY_OK;
    ferryi_hold_begin();
    for (size_t i = 0; i < count && status == FERRY_OK; i++)
        status = prepare_one(&list[i]);
    ferryi_hold_end();
    if (status != FERRY_OK) {
        for (size_t i = 0; i < count; i++)
            ferryi_claim_drop(&list[i]);
        return status;
    }
    status = scrub_all(list, count);
    for (size_t i = 0; i < count && status == FERRY_OK; i++)
        hold(&list[i]);
    return status;
}

ferry_status
ferryi_access_open(struct ferryi_access *list, size_t count)
{
    ferry_status status = ferryi_access_claim(list, count);
    return status == FERRY_OK ? ferryi_access_prepare(list, count) : status;
}

/* -- closing ----------------------------------------------------------------------------------- */

ferry_status
ferryi_access_note_use(ferryi_store *store, const struct ferryi_claim *claim,
                       ferryi_timeline *timeline)
{
    int place = claim->place;
    if (!timeline || place == FERRYI_PLACE_NONE || claim->access == FERRYI_ACCESS_DROP)
        return FERRY_OK;
    bool is_own = timeline == claim->timeline;
    ferryi_timeline *on;
    ferry_status status =
        ferryi_timeline_join(timeline, is_own ? claim->thread : ferryi_thread_id(),
                             is_own ? claim->generation : timeline->generation, &on);
    if (!on)
        return status;
    if (ferryi_claim_writes(claim->access))
        ferryi_store_note_write(store, place, on);
    else
        ferryi_store_note_read(store, place, on);

    ferryi_store_lock(store);
    struct ferryi_place_copy *copy = ferryi_store_copy(store, place);
    bool eager = copy->eager && on == timeline && !timeline->internal;
    copy->eager = copy->eager && !eager;
    ferryi_store_unlock(store);
    if (eager && ferryi_timeline_flush(on) != FERRY_OK)
        ferryi_log(&store->context->log, FERRY_LOG_DEBUG, "record an event early: %s",
                   ferry_last_error());
    return status;
}

/* Returns the change that closing a write makes to the valid map. `how` states whether the write is
 * committed, abandoned or cancelled. */
static enum ferryi_change
change_of(uint8_t access, enum ferryi_close how)
{
    if (how == FERRYI_CLOSE_ABANDON)
        return FERRYI_CHANGE_FORGET;
    return access == FERRY_UPDATE ? FERRYI_CHANGE_WRITE : FERRYI_CHANGE_OVERWRITE;
}

/* Returns the places other than `place` that use the same memory as the replica at `place`. The set
 * is empty if `place` is FERRYI_PLACE_NONE. */
static ferryi_places
other_sharers(const ferryi_store *store, int place)
{
    if (place == FERRYI_PLACE_NONE)
        return 0;
    ferryi_places known = (2u << store->context->place_count) - 1;
    return ferryi_store_sharers(store, place) & known & ~FERRYI_PLACE_BIT(place);
}

static ferry_status
close_at(struct ferryi_access *access, enum ferryi_close how, size_t done_end,
         ferryi_timeline *timeline)
{
    ferryi_store *store = access->store;
    ferry_status status = FERRY_OK;
    ferryi_store_lock(store);
    struct ferryi_claim claim = store->claims[access->slot];
    ferryi_store_unlock(store);
    bool changes = claim.access == FERRY_UPDATE || claim.access == FERRY_OVERWRITE;
    /* The range was zeroed when this write was opened, so the place has lost the old value.
     * Therefore a cancelled write is closed in the same way as an abandoned one. */
    if (how == FERRYI_CLOSE_CANCEL && claim.access == FERRY_OVERWRITE && is_scrubbed(access))
        how = FERRYI_CLOSE_ABANDON;

    if (how != FERRYI_CLOSE_CANCEL)
        status = ferryi_access_note_use(store, &claim, timeline);

    /* Records that this write replaced the bytes of its range. If a kernel that was queued before
     * this write fails, these bytes are then not marked as lost. Nothing is recorded if a later
     * scope or launch on the same stream has already committed this write. */
    if (claim.access == FERRY_OVERWRITE && claim.place != FERRYI_PLACE_NONE &&
        how == FERRYI_CLOSE_COMMIT && !claim.same_timeline_seen && !access->is_launch)
        ferryi_pending_calls_overwritten(store, claim.place, claim.begin, done_end);

    ferryi_places scribbled =
        changes && how == FERRYI_CLOSE_ABANDON ? other_sharers(store, claim.place) : 0;
    bool room = scribbled && ferryi_store_reserve_changes(
                                 store, (uint32_t)__builtin_popcount(scribbled)) == FERRY_OK;
    ferryi_store_lock(store);
    ferryi_claim_end_relied(access, how == FERRYI_CLOSE_COMMIT);
    if (changes && claim.place != FERRYI_PLACE_NONE && how != FERRYI_CLOSE_CANCEL &&
        done_end > claim.begin)
        ferryi_claim_commit(store, &store->claims[access->slot], claim.place,
                            change_of(claim.access, how), claim.begin, done_end);
    for (; scribbled; scribbled &= scribbled - 1)
        ferryi_store_withdraw(store, __builtin_ctz(scribbled), FERRYI_CHANGE_FORGET, claim.begin,
                              done_end, room);
    if (atomic_load_explicit(&store->word, memory_order_relaxed) &
        (FERRYI_STORE_CHECKED | FERRYI_STORE_TRACED)) {
        /* The claim (range lock) of this access still exists. So the buffer's storage stays alive
         * while it is unlocked. Scopes can no longer find the claim. */
        ferryi_store_unlock(store);
        ferryi_checked_closed(store);
        ferryi_observe_close(access, &claim, done_end, how);
        ferryi_store_lock(store);
    }
    ferryi_access_remove_claim(store, access->slot);
    bool last = ferryi_store_is_over(store);
    struct ferryi_map_supply excess = {0};
    if (ferryi_valid_map_has_excess(&store->map))
        ferryi_valid_map_take_excess(&store->map, &excess);
    ferryi_store_unlock_waking(store);
    ferryi_map_supply_free(&excess);
    if (last)
        ferryi_store_free(store);
    return status;
}

ferry_status
ferryi_access_close(struct ferryi_access *access, enum ferryi_close how, ferryi_timeline *timeline)
{
    return close_at(access, how, access->end, timeline);
}

ferry_status
ferryi_access_close_part(struct ferryi_access *access, size_t done_end, ferryi_timeline *timeline)
{
    return close_at(access, FERRYI_CLOSE_COMMIT, done_end, timeline);
}
