/* SPDX-License-Identifier: MIT */
#include "src/move/move_inside.h"

#include <assert.h>
#include <string.h>

#include "src/store/pending_calls.h"
#include "src/store/watch.h"
#include "src/transfer/engine.h"

/* An access does not merge longer parts of pageable memory than this with others. */
#define MERGED_BYTES ((size_t)256 << 10)

/* Maximum size of an upload that may be queued directly on the program's stream, instead of on an
 * internal stream. */
#define STRAIGHT_BYTES ((size_t)64 << 10)

/* Releases the room in the target's valid map that was reserved for the part, because the part is
 * not committed (see valid_map.h). */
static void
release_reservation(const struct ferryi_move *move, const struct ferryi_piece *part)
{
    if (!part->target_owner || move->covers)
        return;
    ferryi_store *store = ferryi_part_store(part->target_owner);
    ferryi_store_lock(store);
    ferryi_valid_map_unreserve(&store->map, 1);
    ferryi_store_unlock(store);
}

/* -- order after earlier uses ------------------------------------------------------------------ */

/* Returns the uses of a buffer that the caller of the move has read, or NULL. They hold until the
 * first transfer has changed them. */
static const struct ferryi_uses *
seen_uses(const struct ferryi_move *move, const struct ferryi_piece *first, bool is_target)
{
    if (!move->seen || (!first->zeros && first->source_place != move->seen_source))
        return NULL;
    return is_target ? &move->target_uses : &move->source_uses;
}

/* Orders a transfer after earlier uses of a buffer. Pageable memory is copied by the host itself,
 * so the host waits for earlier uses of such memory. */
static ferry_status
order_store(const struct ferryi_group *group, ferryi_store *store, bool is_target)
{
    ferryi_claim_is_held();
    const bool by_host = ferryi_group_is_by_host(group, is_target);
    ferry_status status = ferryi_store_order_seen(store, ferryi_group_place(group, is_target),
                                                  by_host ? NULL : group->timeline, is_target,
                                                  seen_uses(group->move, group->parts, is_target));
    bool replaces = by_host && is_target && group->move->change == FERRYI_CHANGE_OVERWRITE;
    return status == FERRY_ERROR_DEVICE_LOST && replaces ? ferryi_store_give_host_copy_up(store)
                                                         : status;
}

static ferry_status
lose_store(const struct ferryi_group *group, ferryi_store *store, bool is_target)
{
    ferryi_claim_is_held();
    int place = is_target ? group->parts->target_place : group->parts->source_place;
    if (group->lost & FERRYI_PLACE_BIT(place))
        ferryi_store_note_loss(store, place);
    return FERRY_OK;
}

/* -- one transfer ------------------------------------------------------------------------------ */

/* Returns whether the trace names the buffer and the range of a transfer with the transfer itself,
 * and not with each of its pieces. */
static bool
names_itself(const struct ferryi_group *group)
{
    return group->move->subject && group->count == 1;
}

/* Returns the offset of a part in the buffer that is the subject of its move. */
static size_t
offset_of(const ferryi_store *subject, const struct ferryi_piece *part)
{
    ferryi_claim_is_held();
    const bool of_target = part->target_owner == subject;
    const void *owner = of_target ? part->target_owner : part->source_owner;
    const char *memory = of_target ? part->target : part->source;
    int place = of_target ? part->note : part->source_place;
    return owner == subject
               ? (size_t)(memory - (const char *)ferryi_claimed_copy(subject, place)->pointer)
               : SIZE_MAX;
}

/* Prepares the job of a transfer. `named` is the buffer that messages name, or NULL. */
static void
describe_job(const struct ferryi_group *group, struct ferryi_transfer_job *job,
             const ferryi_store *named)
{
    const struct ferryi_move *move = group->move;
    const struct ferryi_piece *first = group->parts;
    job->buffer = named ? ferryi_store_name(named) : "";
    job->offset = SIZE_MAX;
    job->id = 0;
    if (names_itself(group)) {
        const size_t offset = offset_of(move->subject, first);
        job->id = ferryi_store_number(move->subject);
        job->offset = offset == SIZE_MAX ? SIZE_MAX : offset - job->done;
    }
    /* The engine must not count the traffic, because it is counted for each buffer. */
    job->traffic = NULL;
    job->foreign_source = !first->source_owner && !first->zeros;
    job->foreign_target = !first->target_owner && !first->between;
}

/*
 * Returns whether a transfer can be queued on the stream of the access that needs its bytes. This
 * costs less than ordering an internal stream before and after it. The result is true only for
 * zeros and for short uploads from pinned memory. The caller has checked that the stream is not
 * being captured. For an upload, sets `group->uploads` to the timeline on which the read of the
 * host replica is recorded. The next write to the host replica then waits for the upload, but not
 * for later work on the stream.
 */
static bool
goes_straight(struct ferryi_group *group)
{
    const struct ferryi_piece *part = group->parts;
    ferryi_timeline *stream = group->move->stream;
    if (!stream || !stream->is_plain || stream->internal || stream->place != part->target_place)
        return false;
    return part->zeros ||
           (group->count == 1 && part->source_place == 0 && part->pinned &&
            part->bytes <= STRAIGHT_BYTES && ferryi_timeline_of_uploads(stream, &group->uploads));
}

/* Returns whether an upload must wait for work of the program that may still use the replaced
 * bytes, as far as Ferry knows without asking the driver. Looks at the first buffer only. */
static bool
waits_for_work(const struct ferryi_group *group)
{
    const struct ferryi_piece *first = group->parts;
    const struct ferryi_uses *seen = seen_uses(group->move, first, true);
    struct ferryi_uses uses = {0};
    if (seen) {
        uses = *seen;
    } else if (first->target_owner) {
        ferryi_store *store = ferryi_part_store(first->target_owner);
        ferryi_store_lock(store);
        uses = ferryi_store_uses(store, first->target_place);
        ferryi_store_unlock(store);
    }
    return ferryi_uses_of_users_are_pending(&group->move->context->order, &uses);
}

static ferry_status
open_timeline(struct ferryi_group *group, const ferryi_store *named)
{
    const struct ferryi_move *move = group->move;
    const struct ferryi_piece *first = group->parts;
    int source_place = first->zeros ? first->target_place : first->source_place;
    if (goes_straight(group)) {
        group->timeline = move->stream;
        return FERRY_OK;
    }
    FERRYI_OR_RETURN(named ? ferryi_store_timeline(named, first->target_place, source_place,
                                                   move->reason, &group->timeline)
                           : ferryi_engine_timeline(move->context->engine, first->target_place,
                                                    source_place, &group->timeline));
    if (group->timeline && !first->zeros && source_place == FERRY_PLACE_HOST &&
        waits_for_work(group))
        group->timeline = ferryi_engine_late_timeline(move->context->engine, group->timeline);
    return FERRY_OK;
}

static ferry_status
transfer(struct ferryi_group *group, struct ferryi_transfer_job *job)
{
    struct ferryi_move *move = group->move;
    ferryi_engine *engine = move->context->engine;
    const bool passes = move->host_side.file || move->host_side.transform;
    ferry_status status =
        group->parts->zeros && !move->host_side.file
            ? ferryi_engine_fill_pieces(engine, group->parts, group->count, move->value,
                                        move->value_bytes, group->timeline, job)
            : ferryi_engine_copy_pieces(engine, group->parts, group->count, move->layout,
                                        passes ? &move->host_side : NULL, group->timeline, job);
    /* A transfer into pageable memory is complete when it returns. */
    group->complete =
        status == FERRY_OK && ferryi_part_is_download(group->parts) && !group->parts->pinned;
    if (group->timeline)
        move->timelines |= UINT64_C(1) << group->timeline->number;
    return status;
}

static ferry_status
run_group(struct ferryi_group *group)
{
    struct ferryi_move *move = group->move;
    const struct ferryi_piece *first = group->parts;
    const ferryi_store *named = ferryi_part_buffer(move, first);
    struct ferryi_transfer_job quiet = {.reason = move->reason},
                               *job = first->between ? &quiet : move->job;
    describe_job(group, job, named);
    size_t before = job->done;
    ferry_status status = open_timeline(group, named);
    if (status == FERRY_OK)
        status = ferryi_group_each_store(group, order_store);
    group->queued = status == FERRY_OK;
    if (group->queued)
        status = transfer(group, job);
    const size_t done = job->done - before;
    if (move->context->trace && job != &quiet && !names_itself(group))
        ferryi_watch_pieces(move->context, group->parts,
                            ferryi_part_counted(move, first, done, false), move->reason);
    ferryi_group_settle(group, done);
    if (move->covers && status != FERRY_OK)
        ferryi_group_commit_arrived(group, done);
    move->seen = false;
    if (move->count == 1)
        ferryi_part_count(move, first, ferryi_part_counted(move, first, done, false));
    else
        ferryi_group_count(group, ferryi_part_counted(move, first, done, false));
    if (status == FERRY_ERROR_DEVICE_LOST) {
        group->lost = ferryi_lost_places(move->context, first->target_place, first->source_place);
        (void)ferryi_group_each_store(group, lose_store);
    }
    return status;
}

/* Releases the room that was reserved for parts that are not moved. */
static void
commit_nothing(const struct ferryi_group *group)
{
    FERRYI_EACH_PART (group, part)
        release_reservation(group->move, part);
}

/* Returns how many parts from `first` on, which are alike, are moved in one transfer. An access
 * brings each long part of pageable memory by itself, because helper threads stage only single
 * parts. */
static size_t
count_alike(const struct ferryi_move *move, size_t first)
{
    const struct ferryi_piece *parts = &move->parts[first];
    size_t count = 1;
    while (first + count < move->count &&
           ferryi_part_sort(&parts[count]) == ferryi_part_sort(parts) &&
           !(move->covers && ferryi_part_crosses(parts) &&
             (parts[0].bytes > MERGED_BYTES || parts[count].bytes > MERGED_BYTES)))
        count++;
    return count;
}

/* Marks the range that a move covers as current, or releases the room that was reserved for it. */
static void
end_covered(const struct ferryi_move *move, bool arrived_all)
{
    ferryi_store *store = ferryi_part_store(move->subject);
    ferryi_store_lock(store);
    if (arrived_all)
        ferryi_valid_map_commit(&store->map, move->covered_place, move->change, move->covered.begin,
                                move->covered.end);
    else
        ferryi_valid_map_unreserve(&store->map, 1);
    ferryi_store_unlock(store);
}

ferry_status
ferryi_move_run(struct ferryi_move *move, ferry_status status)
{
    if (status == FERRY_OK)
        ferryi_move_sort(move);
    for (size_t i = 0; i < move->count;) {
        struct ferryi_group group = {
            .move = move, .parts = &move->parts[i], .count = count_alike(move, i)};
        if (status == FERRY_OK)
            status = run_group(&group);
        else
            commit_nothing(&group);
        i += group.count;
    }
    move->count = 0;
    if (move->covers && move->covered.begin < move->covered.end)
        end_covered(move, status == FERRY_OK);
    return status;
}
