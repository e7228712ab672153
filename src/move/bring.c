/* SPDX-License-Identifier: MIT */
#include "src/move/bring.h"

#include <stdlib.h>

#include "src/move/move.h"
#include "src/store/claim.h"
#include "src/store/watch.h"

void
ferryi_bring_begin(struct ferryi_bringing *bringing, struct ferryi_access *access)
{
    ferryi_store *store = access->store;
    bringing->access = access;
    bringing->same = ferryi_store_sharers(store, access->place);
    bringing->reachable = ferryi_engine_reachable(store->context->engine, access->place);
    bringing->part = (struct ferryi_range){0};
    bringing->count = 0;
    bringing->room = FERRYI_COPIES;
    bringing->many = NULL;
    bringing->lost = bringing->reserved = bringing->any = false;
}

void
ferryi_bring_end(struct ferryi_bringing *bringing)
{
    ferryi_store *store = bringing->access->store;
    free(bringing->many);
    if (!bringing->reserved)
        return;
    ferryi_store_lock(store);
    ferryi_valid_map_unreserve(&store->map, 1);
    ferryi_store_unlock(store);
}

static struct ferryi_map_move *
copies_of(struct ferryi_bringing *bringing)
{
    return bringing->many ? bringing->many : bringing->few;
}

/* -- planning ---------------------------------------------------------------------------------- */

void
ferryi_bring_see_uses(struct ferryi_bringing *bringing)
{
    bringing->target_uses = ferryi_store_uses(bringing->access->store, bringing->access->place);
}

bool
ferryi_bring_plan(struct ferryi_bringing *bringing, size_t at, struct ferryi_map_supply *supply)
{
    struct ferryi_access *access = bringing->access;
    ferryi_store *store = access->store;
    ferryi_bring_see_uses(bringing);
    bringing->part = ferryi_claim_uncovered(store, access, at);
    bringing->count = 0;
    bringing->lost = false;
    if (bringing->part.begin == bringing->part.end)
        return true;
    if (!bringing->reserved && !ferryi_valid_map_reserve(&store->map, 1, supply))
        return false;
    bringing->reserved = true;
    struct ferryi_map_move *copies = copies_of(bringing);
    bringing->count = ferryi_valid_map_plan(
        &store->map, access->place, bringing->part.begin, bringing->part.end, bringing->same,
        bringing->reachable, copies, bringing->room, &bringing->next, &bringing->lost);
    bringing->source = bringing->count > 0 ? copies->source : FERRYI_ZERO;
    if (bringing->source != FERRYI_ZERO) {
        bringing->source = ferryi_store_home(store, bringing->source);
        bringing->source_uses = ferryi_store_uses(store, bringing->source);
    }
    return true;
}

/* Plans the copies of the next part of the range, which begins at `at` or later. Stops when the
 * list of copies is full. */
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

/* If the list of copies is full, allocates a longer list and plans all the copies again. If no
 * memory can be allocated, the copies that fit into the short list are made first. */
static ferry_status
plan_more(struct ferryi_bringing *bringing)
{
    if (bringing->count < bringing->room || bringing->next == bringing->part.end ||
        bringing->room > FERRYI_COPIES)
        return FERRY_OK;
    bringing->many = malloc(FERRYI_COPIES_LONG * sizeof(*bringing->many));
    if (!bringing->many)
        return FERRY_OK;
    bringing->room = FERRYI_COPIES_LONG;
    return plan_next(bringing, bringing->part.begin);
}

/* -- moving ------------------------------------------------------------------------------------ */

/* Adds one copy to the move. A copy between two places that use the same memory moves nothing. The
 * function ferryi_bring_order() later orders the access after the last write of this memory. */
static ferry_status
add_copy(struct ferryi_move *move, const struct ferryi_access *access,
         const struct ferryi_map_move *copy)
{
    ferryi_store *store = access->store;
    struct ferryi_piece part = {.bytes = copy->end - copy->begin,
                                .zeros = copy->source == FERRYI_ZERO};
    if (!part.zeros && ferryi_store_same_memory(store, access->place, copy->source))
        return FERRY_OK;
    ferryi_part_set_target(&part, store, access->place, copy->begin);
    if (!part.zeros) {
        ferryi_part_set_source(&part, store, copy->source, copy->begin);
        ferryi_watch_fetched(access, copy);
    }
    return ferryi_move_add(move, &part);
}

/* Makes some of the planned copies, and marks the range as current. */
static ferry_status
move_copies(struct ferryi_bringing *bringing, struct ferryi_move *move,
            const struct ferryi_map_move *copies, size_t count, struct ferryi_range covered)
{
    ferry_status status = FERRY_OK;
    move->covered = covered;
    move->seen = true;
    move->target_uses = bringing->target_uses;
    move->source_uses = bringing->source_uses;
    move->seen_source = bringing->source;
    for (size_t i = 0; i < count && status == FERRY_OK; i++)
        status = add_copy(move, bringing->access, &copies[i]);
    bringing->reserved = false;
    bringing->any = bringing->any || move->count > 0;
    /* The last transfer waits for all other uses of the replica. */
    if (move->count > 0)
        bringing->target_uses = (struct ferryi_uses){0};
    status = ferryi_move_run(move, status);
    bringing->target_uses.written = move->written ? move->written : bringing->target_uses.written;
    return status;
}

/* Makes the planned copies one by one in the order of the bytes, for a call whose progress counts
 * every byte of the range, including bytes that need not be moved. If the call is cancelled, the
 * first bytes of the range are current. */
static ferry_status
move_in_order(struct ferryi_bringing *bringing, struct ferryi_move *move)
{
    struct ferryi_access *access = bringing->access;
    for (size_t i = 0; i < bringing->count; i++) {
        const struct ferryi_map_move *copy = &copies_of(bringing)[i];
        if (!bringing->reserved)
            FERRYI_OR_RETURN(ferryi_store_reserve_changes(access->store, 1));
        move->job->done = copy->begin - access->begin;
        FERRYI_OR_RETURN(
            move_copies(bringing, move, copy, 1, (struct ferryi_range){copy->begin, copy->end}));
    }
    return FERRY_OK;
}

static ferry_status
run_parts(struct ferryi_bringing *bringing, struct ferryi_move *move)
{
    struct ferryi_access *access = bringing->access;
    while (bringing->part.begin < bringing->part.end) {
        FERRYI_OR_RETURN(plan_more(bringing));
        if (bringing->lost)
            return ferryi_store_fail_lost(
                access->store, (struct ferryi_range){access->begin, access->end}, access->reason);
        const struct ferryi_range covered = {bringing->part.begin, bringing->next};
        FERRYI_OR_RETURN(access->job ? move_in_order(bringing, move)
                                     : move_copies(bringing, move, copies_of(bringing),
                                                   bringing->count, covered));
        if (bringing->next == access->end)
            break;
        FERRYI_OR_RETURN(plan_next(bringing, bringing->next));
    }
    struct ferryi_transfer_job *job = move->job;
    return bringing->any && job->reported < job->total
               ? ferryi_engine_reported(access->store->context->engine, job, job->total - job->done)
               : FERRY_OK;
}

/* Returns the job of the transfers that the access needs. */
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

static void
begin_move(struct ferryi_move *move, struct ferryi_access *access, struct ferryi_transfer_job *job)
{
    *job = job_of(access);
    ferryi_move_begin(move, access->store->context, access->reason, job);
    move->subject = access->store;
    move->change = FERRYI_CHANGE_READ;
    move->covers = true;
    move->covered_place = access->place;
    move->covered = (struct ferryi_range){0};
}

ferry_status
ferryi_bring_run(struct ferryi_bringing *bringing)
{
    struct ferryi_access *access = bringing->access;
    struct ferryi_transfer_job job;
    struct ferryi_move move;
    if (bringing->part.begin == bringing->part.end)
        return FERRY_OK;
    begin_move(&move, access, &job);
    move.stream = access->timeline;
    job.total = access->end - access->begin;
    ferry_status status = run_parts(bringing, &move);
    ferryi_move_end(&move);
    return status;
}

ferry_status
ferryi_bring_zeros(struct ferryi_access *access)
{
    struct ferryi_piece part = {.bytes = access->end - access->begin, .zeros = true};
    struct ferryi_transfer_job job;
    struct ferryi_move move;
    begin_move(&move, access, &job);
    move.stream = access->timeline;
    ferryi_part_set_target(&part, access->store, access->place, access->begin);
    ferry_status status = ferryi_move_run(&move, ferryi_move_add(&move, &part));
    ferryi_move_end(&move);
    return status;
}

ferry_status
ferryi_bring_order(struct ferryi_bringing *bringing)
{
    struct ferryi_access *access = bringing->access;
    return ferryi_store_order_seen(access->store, access->place, access->timeline,
                                   ferryi_claim_writes(access->access), &bringing->target_uses);
}
