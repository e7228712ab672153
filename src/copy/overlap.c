/* SPDX-License-Identifier: MIT */
#include "src/copy/copy.h"
#include "src/transfer/engine.h"

/*
 * Copies between overlapping ranges of one buffer. Three accesses lock both ranges during the whole
 * call. One access covers the bytes that are only written, one the bytes that are both read and
 * written, and one the bytes that are only read. On the host, the copy is one memmove(). A device
 * copies through temporary memory.
 */

/* Copies a range into the temporary storage `middle`, and from there to the target. Only the copy
 * to the target reports progress. */
static ferry_status
copy_through(const struct ferryi_copy_call *call, struct ferryi_memory target,
             struct ferryi_memory source, ferryi_store *middle, struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    ferryi_engine *engine = middle->context->engine;
    int place = call->main.place;
    ferryi_timeline *timeline = call->main.timeline;
    struct ferryi_transfer_job first = ferryi_copy_quiet_job(job);
    FERRYI_OR_RETURN(ferryi_store_reserve(middle, place, NULL));
    FERRYI_OR_RETURN(ferryi_store_order(middle, place, timeline, true));
    struct ferryi_memory between = ferryi_access_memory(middle, place, 0);
    ferry_status status =
        ferryi_engine_copy(engine, between, source, call->bytes, timeline, &first);
    if (status == FERRY_OK)
        status = ferryi_engine_copy(engine, target, between, call->bytes, timeline, job);
    /* The write to the temporary storage is recorded even after a failure, because parts of the
     * write may be queued. */
    ferryi_store_note_write(middle, place, timeline);
    return status;
}

static ferry_status
copy_through_temporary(const struct ferryi_copy_call *call, struct ferryi_memory target,
                       struct ferryi_memory source, struct ferryi_transfer_job *job)
{
    ferryi_store *middle, *store = call->main.store;
    const ferry_buffer_options options = {.zero_on_release = store->zero_on_release};
    FERRYI_OR_RETURN(ferryi_store_create(store->context, call->bytes, &options, false, &middle));
    ferry_status status = copy_through(call, target, source, middle, job);
    ferryi_store_release(middle);
    return status;
}

/* Moves the bytes of an overlapping copy. On the host, the copy is one memmove(), so its progress
 * is reported only at the end. */
static ferry_status
move_overlapping(struct ferryi_copy_call *call, struct ferryi_memory target,
                 struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    ferryi_store *store = call->main.store;
    struct ferryi_memory source = ferryi_access_memory(store, target.place, call->from);
    return call->main.timeline
               ? copy_through_temporary(call, target, source, job)
               : ferryi_engine_copy(store->context->engine, target, source, call->bytes, NULL, job);
}

ferry_status
ferryi_copy_plan_overlapping(struct ferryi_copy_call *call, ferryi_store *store,
                             struct ferryi_range to, struct ferryi_range from, int place)
{
    ferryi_timeline *timeline;
    ferry_status status = ferryi_place_timeline(store, place, &timeline);
    bool upwards = from.begin < to.begin;
    struct ferryi_range written = {to.begin, from.begin}, both = {from.begin, to.end},
                        read = {to.end, from.end};
    if (upwards) {
        written = (struct ferryi_range){from.end, to.end};
        both = (struct ferryi_range){to.begin, from.end};
        read = (struct ferryi_range){from.begin, to.begin};
    }
    ferryi_copy_add_access(call, store, written, FERRY_OVERWRITE, place, timeline, "copy");
    ferryi_copy_add_access(call, store, both, FERRY_UPDATE, place, timeline, "copy");
    ferryi_copy_add_access(call, store, read, FERRY_READ, place, timeline, "copy");
    call->begin = to.begin;
    call->bytes = to.end - to.begin;
    call->from = from.begin;
    call->move = move_overlapping;
    call->run = ferryi_copy_run_move;
    return status;
}
