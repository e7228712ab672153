/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/copy/copy.h"
#include "src/transfer/engine.h"

/*
 * A copy between overlapping ranges of one buffer, under claims that hold all of it from beginning
 * to end: what is only written (main), what is read and written (other), what is only read (rest).
 * On the host it is one memmove(), on a device it goes by way of memory beside the buffer.
 */

static struct ferryi_access
part_of(ferryi_store *store, struct ferryi_range range, uint8_t kind, int place,
        ferryi_timeline *timeline)
{
    return (struct ferryi_access){.store = store,
                                  .begin = range.begin,
                                  .end = range.end,
                                  .access = kind,
                                  .place = (uint8_t)place,
                                  .timeline = timeline,
                                  .reason = "copy",
                                  .derives = true,
                                  .writes_all = true};
}

/* `middle` is the copy's own; the options see the second step only, which is the one that counts.
 */
static ferry_status
copy_through(const struct ferryi_copy_call *call, struct ferryi_memory target,
             struct ferryi_memory source, ferryi_store *middle, size_t bytes,
             struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    ferryi_engine *engine = middle->context->engine;
    int place = call->main.place;
    ferryi_timeline *timeline = call->main.timeline;
    struct ferryi_transfer_job first = {.buffer = job->buffer,
                                        .reason = job->reason,
                                        .traffic = job->traffic,
                                        .id = job->id,
                                        .offset = SIZE_MAX};
    ferry_status status = ferryi_store_reserve(middle, place);
    if (status == FERRY_OK)
        status = ferryi_store_order(middle, place, timeline, true);
    if (status != FERRY_OK)
        return status;
    struct ferryi_memory between = ferryi_access_memory(middle, place, 0);
    status = ferryi_engine_copy(engine, between, source, bytes, timeline, &first);
    if (status == FERRY_OK)
        status = ferryi_engine_copy(engine, target, between, bytes, timeline, job);
    /* Also after a failure: parts may be on their way. */
    ferryi_store_note_write(middle, place, timeline);
    return status;
}

static ferry_status
copy_by_way(const struct ferryi_copy_call *call, struct ferryi_memory target,
            struct ferryi_memory source, size_t bytes, struct ferryi_transfer_job *job)
{
    ferryi_store *middle;
    ferry_status status =
        ferryi_store_create(call->main.store->context, bytes, NULL, false, &middle);
    if (status != FERRY_OK)
        return status;
    status = copy_through(call, target, source, middle, bytes, job);
    ferryi_store_release(middle);
    return status;
}

/* Commit what arrived, the bytes before `done_end`; keeps the message of `status`. */
static ferry_status
finish(struct ferryi_copy_call *call, size_t done_end, ferry_status status)
{
    char *text = status == FERRY_OK ? NULL : ferryi_last_error_copy();
    struct ferryi_access *written[] = {&call->main, &call->other};
    for (size_t i = 0; i < 2; i++) {
        ferry_status closed = ferryi_access_close_part(
            written[i], ferryi_min_size(done_end, written[i]->end), written[i]->timeline);
        status = status == FERRY_OK ? closed : status;
    }
    (void)ferryi_access_close(&call->rest, FERRYI_CLOSE_COMMIT, call->rest.timeline);
    if (text)
        ferryi_fail(status, "%s", text);
    free(text);
    return status;
}

static ferry_status
run_overlapping(struct ferryi_copy_call *call)
{
    ferryi_claim_is_held();
    struct ferryi_access list[3] = {call->main, call->other, call->rest};
    ferryi_store *store = call->main.store;
    ferry_status status = ferryi_access_prepare(list, 3);
    if (status != FERRY_OK)
        return status;
    size_t begin = ferryi_min_size(call->main.begin, call->other.begin),
           end = ferryi_max_size(call->main.end, call->other.end);
    size_t from = ferryi_min_size(call->rest.begin, call->other.begin);
    struct ferryi_transfer_job job = {.options = call->options,
                                      .cancelled = call->cancelled,
                                      .arrived = call->arrived,
                                      .total = end - begin};
    ferryi_store_name_job(store, &job, "copy", begin);
    int place = call->main.timeline ? call->main.place : FERRY_PLACE_HOST;
    struct ferryi_memory target = ferryi_access_memory(store, place, begin),
                         source = ferryi_access_memory(store, place, from);
    /* A memmove cut in pieces is none: on the host, the options hear of it once, at its end. */
    if (!call->main.timeline)
        status =
            ferryi_engine_copy(store->context->engine, target, source, end - begin, NULL, &job);
    else
        status = copy_by_way(call, target, source, end - begin, &job);
    (void)ferryi_access_note_loss(store, call->main.place, status);
    return finish(call, begin + (status == FERRY_OK ? end - begin : job.done), status);
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
    call->main = part_of(store, written, FERRY_OVERWRITE, place, timeline);
    call->other = part_of(store, both, FERRY_UPDATE, place, timeline);
    call->rest = part_of(store, read, FERRY_READ, place, timeline);
    call->run = run_overlapping;
    return status;
}
