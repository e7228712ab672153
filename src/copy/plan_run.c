/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/observe.h"
#include "src/buffer/pending_calls.h"
#include "src/copy/copy.h"
#include "src/copy/plan.h"
#include "src/transfer/engine.h"

/* Runs plans. A plan is a list of copies, grouped into levels. A level begins after the previous
 * level has been submitted. The copies of a level are split into pieces, each with one source place
 * and one target place. Pieces between the same two places are combined into one transfer. */

static ferryi_store *
store_of(const void *owner)
{
    return (ferryi_store *)(uintptr_t)owner;
}

/* -- the pieces of a level --------------------------------------------------------------------- */

/* Returns whether the extents `last` and `next` of a transfer can be merged into one. `next` must
 * continue `last` in both the source and the target, and must have the same properties. */
static bool
continues(const struct ferryi_piece *last, const struct ferryi_piece *next)
{
    return last->target_owner == next->target_owner && last->source_owner == next->source_owner &&
           last->target_place == next->target_place && last->source_place == next->source_place &&
           last->note == next->note && last->zeros == next->zeros && last->pinned == next->pinned &&
           last->unit == next->unit && last->between == next->between &&
           (char *)last->target + last->bytes == next->target &&
           (last->zeros || (const char *)last->source + last->bytes == next->source);
}

/* Releases the room in the target's valid map that was reserved for this extent of a transfer. The
 * room is not needed, because the extent is not committed. Such room is reserved for each extent
 * whose target is a buffer (see valid_map.h). */
static void
release_reservation(const struct ferryi_piece *piece)
{
    if (!piece->target_owner)
        return;
    ferryi_store *store = store_of(piece->target_owner);
    ferryi_store_lock(store);
    ferryi_valid_map_unreserve(&store->map, 1);
    ferryi_store_unlock(store);
}

static ferry_status
add_piece(ferryi_plan *plan, const struct ferryi_piece *piece)
{
    if (plan->piece_count > 0 && continues(&plan->pieces[plan->piece_count - 1], piece)) {
        plan->pieces[plan->piece_count - 1].bytes += piece->bytes;
        return FERRY_OK;
    }
    size_t needed = plan->piece_room ? plan->piece_count + 1 : ferryi_max_size(plan->count, 4);
    if (!ferryi_grow(&plan->pieces, &plan->piece_room, needed, sizeof(*plan->pieces)))
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for a list of %zu pieces", needed);
    if (piece->target_owner)
        FERRYI_OR_RETURN(ferryi_store_reserve_changes(store_of(piece->target_owner), 1));
    plan->pieces[plan->piece_count++] = *piece;
    return FERRY_OK;
}

/* Returns the memory of a buffer's replica at a place, from offset `begin` on. If the place uses
 * host memory, the place in the result is the host. */
static struct ferryi_memory
memory_at(ferryi_store *store, int place, size_t begin)
{
    ferryi_claim_is_held();
    return ferryi_access_memory(store, ferryi_store_home(store, place), begin);
}

static void
set_target(struct ferryi_piece *piece, ferryi_store *store, int place, size_t begin)
{
    struct ferryi_memory memory = memory_at(store, place, begin);
    piece->target = memory.pointer;
    piece->target_owner = store;
    piece->target_place = (uint8_t)memory.place;
    piece->note = (uint8_t)place;
    piece->pinned = memory.place == 0 && memory.pinned;
}

static void
set_source(struct ferryi_piece *piece, ferryi_store *store, int place, size_t begin)
{
    struct ferryi_memory memory = memory_at(store, place, begin);
    piece->source = memory.pointer;
    piece->source_owner = store;
    piece->source_place = (uint8_t)memory.place;
    /* `pinned` describes the host's side of a transfer between host and device. It is false if both
     * sides are at the host. */
    if (memory.place == 0)
        piece->pinned = memory.pinned && piece->target_place != 0;
}

/* Creates the traffic counters of the buffer for which a transfer counts, if it has none because it
 * never had a replica on a device. A transfer between two buffers counts for the target, and a
 * transfer into temporary storage for the source. */
static ferry_status
make_counters(const struct ferryi_piece *piece)
{
    const void *owner = piece->between ? piece->source_owner : piece->target_owner;
    bool counts = owner && piece->target_place != piece->source_place;
    return counts ? ferryi_store_make_counters(store_of(owner), "copy to") : FERRY_OK;
}

/* Adds a read of one segment of the source to the level's transfers. All bytes of a segment are
 * current at the same places. */
static ferry_status
add_stretch(ferryi_plan *plan, const struct ferryi_plan_copy *copy, struct ferryi_piece piece,
            struct ferryi_segment segment)
{
    ferryi_store *source = copy->source_store;
    if (segment.places & FERRYI_LOST) {
        struct ferryi_access access = {.store = source,
                                       .begin = segment.begin,
                                       .end = segment.end,
                                       .reason = plan->options.reason};
        return ferryi_access_fail_lost(&access);
    }
    piece.zeros = !ferryi_places_written(segment.places);
    if (!piece.zeros) {
        int place = piece.note;
        if (!piece.target_owner)
            place = __builtin_ctz(segment.places);
        else if (!(segment.places & FERRYI_PLACE_BIT(place)))
            place = ferryi_coherence_source(
                segment.places, place, ferryi_store_sharers(source, place),
                ferryi_engine_reachable(plan->call.async.context->engine, place));
        set_source(&piece, source, place, segment.begin);
        FERRYI_OR_RETURN(make_counters(&piece));
    }
    return add_piece(plan, &piece);
}

/* Splits a copy from a buffer by the segments of the source, and adds each part to the level's
 * transfers. Each part is read at a place where its segment is current. */
static ferry_status
add_from_store(ferryi_plan *plan, const struct ferryi_plan_copy *copy, struct ferryi_piece piece)
{
    ferry_status status = FERRY_OK;
    char *target = piece.target;
    for (size_t at = copy->source, end = copy->source + copy->bytes;
         at < end && status == FERRY_OK;) {
        ferryi_store_lock(copy->source_store);
        struct ferryi_segment segment = ferryi_valid_map_at(&copy->source_store->map, at);
        ferryi_store_unlock(copy->source_store);
        segment.begin = at;
        segment.end = ferryi_min_size(segment.end, end);
        piece.target = target + (at - copy->source);
        piece.bytes = segment.end - at;
        status = add_stretch(plan, copy, piece, segment);
        at = segment.end;
    }
    return status;
}

static ferry_status
add_copy(ferryi_plan *plan, const struct ferryi_plan_copy *copy)
{
    struct ferryi_piece piece = {.target = (void *)copy->target,
                                 .source = (const void *)copy->source,
                                 .bytes = copy->bytes,
                                 .unit = copy->unit,
                                 .between = copy->between};
    if (!copy->target_store)
        return add_from_store(plan, copy, piece);

    struct ferryi_range to = {copy->target, copy->target + copy->bytes},
                        from = {copy->source, copy->source + copy->bytes};
    int place = plan->place;
    if (place < 0)
        place = copy->source_store
                    ? ferryi_copy_meeting_place(copy->target_store, to, copy->source_store, from)
                    : ferryi_copy_home(copy->target_store, to);
    FERRYI_OR_RETURN(ferryi_store_reserve(copy->target_store, place, NULL));
    set_target(&piece, copy->target_store, place, copy->target);
    return copy->source_store ? add_from_store(plan, copy, piece) : add_piece(plan, &piece);
}

/* -- pieces that are alike --------------------------------------------------------------------- */

static uint32_t
sort_of(const struct ferryi_piece *piece)
{
    return (uint32_t)piece->between << 18 | (uint32_t)piece->zeros << 17 |
           (uint32_t)piece->target_place << 9 | (uint32_t)piece->source_place << 1 | piece->pinned;
}

static int
by_sort_and_target(const void *a, const void *b)
{
    const struct ferryi_piece *x = a, *y = b;
    uint32_t sort_x = sort_of(x), sort_y = sort_of(y);
    if (sort_x != sort_y)
        return sort_x < sort_y ? -1 : 1;
    if (x->target_owner != y->target_owner)
        return (uintptr_t)x->target_owner < (uintptr_t)y->target_owner ? -1 : 1;
    return (uintptr_t)x->target < (uintptr_t)y->target ? -1 : x->target != y->target;
}

/* Sorts the parts of a level, so that parts with the same places and properties are adjacent.
 * add_piece() has merged parts whose bytes are adjacent. */
static void
sort_pieces(ferryi_plan *plan)
{
    size_t sorted = 1;
    while (sorted < plan->piece_count &&
           by_sort_and_target(&plan->pieces[sorted - 1], &plan->pieces[sorted]) <= 0)
        sorted++;
    if (sorted < plan->piece_count)
        qsort(plan->pieces, plan->piece_count, sizeof(*plan->pieces), by_sort_and_target);
}

/* Extents that are moved in one transfer. */
struct group {
    const struct ferryi_piece *pieces;
    size_t count;
    ferryi_timeline *timeline;
    /* After a failure, those of the transfer's two places whose device was lost. */
    ferryi_places lost;
};

/* Calls `visit` for each source and target buffer of a transfer. A buffer may be visited more than
 * once. */
static ferry_status
each_store(const struct group *group,
           ferry_status (*visit)(const struct group *group, ferryi_store *store, bool is_target))
{
    const void *source = NULL, *target = NULL;
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < group->count && status == FERRY_OK; i++) {
        const struct ferryi_piece *piece = &group->pieces[i];
        if (piece->source_owner && piece->source_owner != source)
            status = visit(group, store_of(piece->source_owner), false);
        if (status == FERRY_OK && piece->target_owner && piece->target_owner != target)
            status = visit(group, store_of(piece->target_owner), true);
        source = piece->source_owner;
        target = piece->target_owner;
    }
    return status;
}

/* Orders a transfer after earlier uses of a buffer. Pageable memory is copied by the host itself,
 * so the host waits for earlier uses of such memory. */
static ferry_status
order_store(const struct group *group, ferryi_store *store, bool is_target)
{
    int place = is_target ? group->pieces->target_place : group->pieces->source_place;
    bool by_host = place == 0 && !group->pieces->pinned;
    return ferryi_store_order(store, place, by_host ? NULL : group->timeline, is_target);
}

static ferry_status
note_store(const struct group *group, ferryi_store *store, bool is_target)
{
    int place = is_target ? group->pieces->target_place : group->pieces->source_place;
    if (place == 0 && !group->pieces->pinned)
        return FERRY_OK;
    if (is_target)
        ferryi_store_note_write(store, place, group->timeline);
    else
        ferryi_store_note_read(store, place, group->timeline);
    return FERRY_OK;
}

static ferry_status
lose_store(const struct group *group, ferryi_store *store, bool is_target)
{
    ferryi_claim_is_held();
    int place = is_target ? group->pieces->target_place : group->pieces->source_place;
    if (group->lost & FERRYI_PLACE_BIT(place))
        (void)ferryi_access_note_loss(store, place, FERRY_ERROR_DEVICE_LOST);
    return FERRY_OK;
}

/* Marks the first `done` bytes of a transfer as current in the valid maps of the target buffers,
 * because these bytes have arrived. */
static void
commit(const struct group *group, size_t done)
{
    for (size_t i = 0; i < group->count; i++) {
        const struct ferryi_piece *piece = &group->pieces[i];
        size_t bytes = ferryi_min_size(piece->bytes, done);
        done -= bytes;
        if (bytes == 0) {
            release_reservation(piece);
        } else if (piece->target_owner) {
            ferryi_store *store = store_of(piece->target_owner);
            ferryi_store_lock(store);
            char *base = ferryi_store_copy(store, piece->note)->pointer;
            ferryi_store_unlock(store);
            size_t begin = (size_t)((char *)piece->target - base);
            ferryi_pending_calls_overwritten(store, piece->note, begin, begin + bytes);
            ferryi_store_lock(store);
            ferryi_valid_map_commit(&store->map, piece->note, FERRYI_CHANGE_OVERWRITE, begin,
                                    begin + bytes);
            ferryi_store_unlock(store);
        }
    }
}

/* Adds the first `done` bytes of a transfer to `sums`, which has one sum for each locked buffer.
 * `side` selects the buffer to which the bytes of an extent are added. TARGET_ELSE_SOURCE selects
 * the source only if the target is not a buffer. */
enum side { SOURCE, TARGET, TARGET_ELSE_SOURCE };
static void
add_bytes(const ferryi_plan *plan, const struct group *group, size_t done, enum side side,
          size_t *sums)
{
    const void *last = NULL;
    size_t claim = 0;
    for (size_t i = 0; i < group->count && done > 0; i++) {
        const struct ferryi_piece *piece = &group->pieces[i];
        bool of_source = side == SOURCE || (side == TARGET_ELSE_SOURCE && !piece->target_owner);
        const void *owner = of_source ? piece->source_owner : piece->target_owner;
        size_t bytes = ferryi_min_size(piece->bytes, done);
        if (owner && owner != last)
            claim = ferryi_claim_list_find(&plan->call.claims, store_of(last = owner));
        if (owner)
            sums[claim] += bytes;
        done -= bytes;
    }
}

/* If a transfer copies between pageable host memory and a device, adds its first `done` bytes to
 * plan->transferred. */
static void
count_transferred(ferryi_plan *plan, const struct group *group, size_t done)
{
    const struct ferryi_piece *first = group->pieces;
    bool up = first->source_place == 0;
    if (!first->zeros && !first->pinned && up != (first->target_place == 0))
        add_bytes(plan, group, done, up ? SOURCE : TARGET, plan->transferred);
}

/* Adds the first `done` bytes of a transfer to the traffic counters of each buffer, as one
 * transfer. If both sides are buffers, only the target's counters change, unless the target is
 * temporary storage. Bytes that stay at their place are not counted. */
static void
count_traffic(ferryi_plan *plan, const struct group *group, size_t done)
{
    const struct ferryi_piece *first = group->pieces;
    ferry_direction direction = first->target_place == 0   ? FERRY_DIRECTION_DOWNLOAD
                                : first->source_place == 0 ? FERRY_DIRECTION_UPLOAD
                                                           : FERRY_DIRECTION_PEER;
    if (first->zeros || done == 0 || first->target_place == first->source_place)
        return;
    add_bytes(plan, group, done, first->between ? SOURCE : TARGET_ELSE_SOURCE, plan->carried);
    for (size_t i = 0; i < plan->call.claims.count; i++) {
        if (plan->carried[i] > 0)
            ferryi_traffic_count(ferryi_store_traffic(plan->call.claims.items[i].store), direction,
                                 plan->carried[i]);
        plan->carried[i] = 0;
    }
}

static ferry_status
run_group(ferryi_plan *plan, struct group *group)
{
    const struct ferryi_piece *first = group->pieces;
    ferryi_engine *engine = plan->call.async.context->engine;
    bool of_source = !first->target_owner || (first->between && first->source_owner);
    const void *named = of_source ? first->source_owner : first->target_owner;
    struct ferryi_transfer_job quiet = {.reason = plan->options.reason},
                               *job = first->between ? &quiet : &plan->call.job;
    job->buffer = named ? ferryi_store_name(store_of(named)) : "";
    job->traffic = NULL; /* the engine must not count the traffic, because count_traffic() counts it
                            for each buffer */
    job->foreign_source = !first->source_owner && !first->zeros;
    job->foreign_target = !first->target_owner;
    size_t before = job->done;
    int source_place = first->zeros ? first->target_place : first->source_place;
    ferry_status status =
        named ? ferryi_store_timeline(store_of(named), first->target_place, source_place,
                                      plan->options.reason, &group->timeline)
              : ferryi_engine_timeline(engine, first->target_place, source_place, &group->timeline);
    if (status == FERRY_OK)
        status = each_store(group, order_store);
    if (status == FERRY_OK) {
        status = ferryi_engine_copy_pieces(engine, first, group->count, plan->options.layout,
                                           group->timeline, job);
        /* The transfer's use of the buffers is recorded even after a failure, because parts of the
         * transfer may already be queued. */
        if (group->timeline) {
            (void)each_store(group, note_store);
            plan->call.timelines |= UINT64_C(1) << group->timeline->number;
        }
    }
    if (plan->call.async.context->trace && job != &quiet)
        ferryi_observe_pieces(plan->call.async.context, group->pieces, group->count,
                              job->done - before, plan->options.reason);
    commit(group, job->done - before);
    count_transferred(plan, group, job->done - before);
    count_traffic(plan, group, job->done - before);
    if (status == FERRY_ERROR_DEVICE_LOST) {
        group->lost = ferryi_access_lost_places(plan->call.async.context, first->target_place,
                                                first->source_place);
        (void)each_store(group, lose_store);
    }
    return status;
}

/* -- level by level ---------------------------------------------------------------------------- */

static ferry_status
run_level(ferryi_plan *plan, size_t begin, size_t end)
{
    ferry_status status = FERRY_OK;
    plan->piece_count = 0;
    for (size_t i = begin; i < end && status == FERRY_OK; i++)
        status = add_copy(plan, &plan->copies[i]);
    if (status == FERRY_OK)
        sort_pieces(plan);
    for (size_t i = 0; i < plan->piece_count;) {
        struct group group = {.pieces = &plan->pieces[i], .count = 1};
        while (i + group.count < plan->piece_count &&
               sort_of(&group.pieces[group.count]) == sort_of(group.pieces))
            group.count++;
        if (status == FERRY_OK)
            status = run_group(plan, &group);
        else
            commit(&group, 0);
        i += group.count;
    }
    return status;
}

static ferry_status
run_levels(ferryi_plan *plan)
{
    ferry_status status = FERRY_OK;
    for (uint32_t level = 0; level < plan->level_count && status == FERRY_OK; level++)
        status = run_level(plan, level ? plan->level_ends[level - 1] : 0, plan->level_ends[level]);
    return status;
}

/* Counts the bytes that the plan has copied between pageable host memory and devices, as one
 * transfer of each buffer. Ferry page-locks host replicas that are transferred often. Preserves the
 * thread's error message. */
static void
count_transfers(const ferryi_plan *plan)
{
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    for (size_t i = 0; i < plan->call.claims.count; i++)
        if (plan->transferred[i] > 0)
            ferryi_store_count_transfer(plan->call.claims.items[i].store, plan->transferred[i]);
    ferryi_last_error_restore(&why);
}

ferry_status
ferryi_plan_run(struct ferryi_whole_call *call)
{
    ferryi_plan *plan = (ferryi_plan *)call;
    struct ferryi_whole_call *whole = plan->options.whole;
    if (whole)
        call->job = whole->job;
    call->job.reason = plan->options.reason;
    ferry_status status = run_levels(plan);
    if (whole)
        ferryi_whole_call_note(whole, &call->job, call->timelines);
    count_transfers(plan);
    return status == FERRY_OK
               ? FERRY_OK
               : ferryi_fail_in(status, "%s of %zu copies, %zu of %zu bytes of which arrived",
                                plan->options.reason, plan->count, call->job.done, call->job.total);
}
