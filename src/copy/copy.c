/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/buffer/claim.h"
#include "src/buffer/move.h"
#include "src/copy/copy.h"
#include "src/transfer/engine.h"

/* Copies and fills. The byte ranges that a call uses stay locked until the call ends. The transfer
 * engine moves the bytes. After a failure, only the bytes that have arrived are marked as current.
 */

struct ferryi_transfer_job
ferryi_copy_job(const struct ferryi_copy_call *call)
{
    struct ferryi_transfer_job job = {.options = call->options,
                                      .cancelled = call->cancelled,
                                      .arrived = call->arrived,
                                      .total = call->bytes};
    if (call->whole)
        job = call->whole->job;
    job.unit = call->unit;
    ferryi_store_name_job(call->main.store, &job, call->main.reason, call->begin - job.done);
    return job;
}

struct ferryi_transfer_job
ferryi_copy_quiet_job(const struct ferryi_transfer_job *job)
{
    return (struct ferryi_transfer_job){.buffer = job->buffer,
                                        .reason = job->reason,
                                        .traffic = job->traffic,
                                        .unit = job->unit,
                                        .foreign_source = job->foreign_source,
                                        .foreign_target = job->foreign_target,
                                        .id = job->id,
                                        .offset = SIZE_MAX};
}

/* -- where ------------------------------------------------------------------------------------- */

int
ferryi_copy_home(ferryi_store *store, struct ferryi_range range)
{
    struct ferryi_validity validity = ferryi_store_validity(store, range);
    ferryi_places known = (2u << store->context->place_count) - 1;
    if (!validity.written || !(validity.all & known))
        return FERRY_PLACE_HOST;
    return __builtin_ctz(validity.all & known);
}

/* -- into a buffer ----------------------------------------------------------------------------- */

/* Closes all accesses of a call. For accesses that write, marks the first `done` bytes of the call
 * as current. */
static ferry_status
close_all(struct ferryi_copy_call *call, size_t done)
{
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < call->access_count; i++) {
        struct ferryi_access *access = &call->accesses[i];
        bool reads = access->access == FERRY_READ;
        size_t end = reads ? access->end : ferryi_min_size(call->begin + done, access->end);
        ferry_status closed = ferryi_access_close_part(access, end, access->timeline);
        if (status == FERRY_OK && !reads)
            status = closed;
    }
    return status;
}

ferry_status
ferryi_copy_run_move(struct ferryi_copy_call *call)
{
    ferryi_claim_is_held();
    struct ferryi_access *main = &call->main;
    ferry_status status = ferryi_access_prepare(call->accesses, call->access_count);
    if (status != FERRY_OK)
        return status;
    struct ferryi_transfer_job job = ferryi_copy_job(call);
    job.foreign_source = call->source || call->file.file;
    size_t before = job.done;
    status = call->move(
        call, ferryi_access_memory(main->store, main->timeline ? main->place : 0, call->begin),
        &job);
    ferryi_access_note_loss(main->store, main->place, status);
    if (call->whole)
        ferryi_whole_call_note(call->whole, &job,
                               main->timeline && main->access != FERRY_READ
                                   ? UINT64_C(1) << main->timeline->number
                                   : 0);
    if (status == FERRY_OK)
        return close_all(call, call->bytes);
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    size_t done = job.done - before;
    (void)close_all(call, call->unit > 1 ? done - done % call->unit : done);
    ferryi_last_error_restore(&why);
    return status;
}

static ferry_status
copy_from_memory(struct ferryi_copy_call *call, struct ferryi_memory target,
                 struct ferryi_transfer_job *job)
{
    ferryi_engine *engine = call->main.store->context->engine;
    struct ferryi_memory source = {.place = 0, .pointer = (void *)(uintptr_t)call->source};
    if (call->file.file)
        return ferryi_engine_copy_file(engine, target, call->file, call->bytes, false,
                                       call->main.timeline, job);
    return ferryi_engine_copy(engine, target, source, call->bytes, call->main.timeline, job);
}

static ferry_status
copy_from_buffer(struct ferryi_copy_call *call, struct ferryi_memory target,
                 struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    struct ferryi_memory source = ferryi_access_memory(call->other.store, target.place, call->from);
    return ferryi_engine_copy(call->main.store->context->engine, target, source, call->bytes,
                              call->main.timeline, job);
}

static ferry_status
fill_with_value(struct ferryi_copy_call *call, struct ferryi_memory target,
                struct ferryi_transfer_job *job)
{
    return ferryi_engine_fill(call->main.store->context->engine, target, call->bytes, call->value,
                              call->value_bytes, call->main.timeline, job);
}

/* -- out of a buffer --------------------------------------------------------------------------- */

ferry_status
ferryi_copy_run_to(struct ferryi_copy_call *call)
{
    struct ferryi_access *main = &call->main;
    const struct ferryi_range range = {main->begin, main->end};
    struct ferryi_piece part = {.target = call->target, .unit = (uint32_t)call->unit};
    struct ferryi_move move;
    ferry_status status = ferryi_access_prepare(main, 1);
    /* ferryi_access_prepare() cannot fail here, because an access without a place needs no
     * preparation */
    assert(status == FERRY_OK);
    struct ferryi_transfer_job job = ferryi_copy_job(call);
    ferryi_move_begin(&move, main->store->context, main->reason, &job);
    move.subject = main->store;
    if (call->file.file) {
        move.host_side = (struct ferryi_host_side){
            .file = call->file.file, .offset = call->file.offset, .stores = true};
        part.target = NULL;
    }
    status = ferryi_move_run(&move, ferryi_move_add_from(&move, main->store, range, part));
    if (call->whole)
        ferryi_whole_call_note(call->whole, &job, 0);
    ferryi_move_end(&move);
    (void)ferryi_access_close(main, FERRYI_CLOSE_COMMIT, NULL);
    return status;
}

/* -- buffer to buffer -------------------------------------------------------------------------- */

/* Returns the place at which a copy between two buffers accesses both of them. The source is
 * current at this place. If possible, the target is current at this place, too. If the source is
 * current nowhere, returns the host. */
int
ferryi_copy_meeting_place(ferryi_store *target, struct ferryi_range to, ferryi_store *source,
                          struct ferryi_range from)
{
    struct ferryi_validity there = ferryi_store_validity(target, to),
                           here = ferryi_store_validity(source, from);
    ferryi_places known = (2u << source->context->place_count) - 1;
    ferryi_places good = here.all & known;
    if (there.written && (good & there.all))
        good &= there.all;
    return good ? __builtin_ctz(good) : FERRY_PLACE_HOST;
}

void
ferryi_copy_add_access(struct ferryi_copy_call *call, ferryi_store *store,
                       struct ferryi_range range, uint8_t access, int place,
                       ferryi_timeline *timeline, const char *reason)
{
    call->accesses[call->access_count++] = (struct ferryi_access){.store = store,
                                                                  .begin = range.begin,
                                                                  .end = range.end,
                                                                  .access = access,
                                                                  .place = (uint8_t)place,
                                                                  .timeline = timeline,
                                                                  .reason = reason,
                                                                  .derives = true,
                                                                  .writes_all = true};
}

ferry_status
ferryi_copy_run_claimed(struct ferryi_copy_call *call)
{
    /* Locking the ranges has sorted the accesses by buffer and range. So `main` may now be the
     * access to the source. `main` must be the access to the target, so the two are swapped back.
     */
    if (call->access_count > 1 && call->main.access == FERRY_READ) {
        struct ferryi_access reads = call->main;
        call->main = call->other;
        call->other = reads;
    }
    return call->run(call);
}

ferry_status
ferryi_copy_run(struct ferryi_copy_call *call)
{
    for (size_t i = 0; call->whole && i < call->access_count; i++)
        call->accesses[i].under = ferryi_whole_call_claim(call->whole, call->accesses[i].store);
    ferry_status status = ferryi_access_claim(call->accesses, call->access_count);
    return status == FERRY_OK ? ferryi_copy_run_claimed(call) : status;
}

/* Runs a copy of a range onto itself. The bytes are new when the call begins, so it only reports
 * them as progress. */
static ferry_status
run_onto_itself(struct ferryi_copy_call *call)
{
    struct ferryi_transfer_job job = ferryi_copy_job(call);
    ferry_status status =
        ferryi_engine_reported(call->main.store->context->engine, &job, call->bytes);
    if (call->whole)
        ferryi_whole_call_note(call->whole, &job, 0);
    ferryi_claim_drop(&call->main);
    return status;
}

/* Prepares a copy of a range onto itself. It locks the range as a write does, so that it waits for
 * the same calls and fails beside the same scopes as any other copy to this range. */
static ferry_status
plan_onto_itself(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range)
{
    ferryi_copy_add_access(call, store, range, FERRY_UPDATE, FERRYI_PLACE_NONE, NULL, "copy");
    call->begin = call->from = range.begin;
    call->bytes = range.end - range.begin;
    call->run = run_onto_itself;
    return FERRY_OK;
}

static ferry_status
plan_between(struct ferryi_copy_call *call, ferryi_store *target, struct ferryi_range to,
             ferryi_store *source, struct ferryi_range from, int place)
{
    if (target == source && to.begin == from.begin)
        return plan_onto_itself(call, target, to);
    if (place < 0)
        place = ferryi_copy_meeting_place(target, to, source, from);
    if (target == source && to.begin < from.end && from.begin < to.end)
        return ferryi_copy_plan_overlapping(call, target, to, from, place);
    ferryi_timeline *timeline, *other;
    ferry_status status = ferryi_place_timeline(target, place, &timeline);
    if (status == FERRY_OK)
        status = ferryi_place_timeline(source, place, &other);
    if (status != FERRY_OK)
        return status;
    /* If the target is in managed memory, it has no timeline at this place. The copy then uses the
     * timeline of the source, which belongs to the device. */
    timeline = timeline ? timeline : other;
    call->begin = to.begin;
    call->bytes = to.end - to.begin;
    call->from = from.begin;
    ferryi_copy_add_access(call, target, to, FERRY_OVERWRITE, place, timeline, "copy");
    ferryi_copy_add_access(call, source, from, FERRY_READ, place, timeline, "copy");
    call->move = copy_from_buffer;
    call->run = ferryi_copy_run_move;
    return FERRY_OK;
}

/* -- buffer and memory ------------------------------------------------------------------------- */

static ferry_status
plan_write(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range, int place,
           const char *reason)
{
    ferryi_timeline *timeline;
    if (place < 0)
        place = ferryi_copy_home(store, range);
    ferry_status status = ferryi_place_timeline(store, place, &timeline);
    ferryi_copy_add_access(call, store, range, FERRY_OVERWRITE, place, timeline, reason);
    call->begin = range.begin;
    call->bytes = range.end - range.begin;
    call->run = ferryi_copy_run_move;
    return status;
}

ferry_status
ferryi_copy_plan_fill(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
                      const void *value, size_t value_bytes, int place)
{
    call->value = value;
    call->value_bytes = value_bytes;
    call->move = fill_with_value;
    return plan_write(call, store, range, place, "fill");
}

static void
plan_to(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range, void *target)
{
    ferryi_copy_add_access(call, store, range, FERRY_READ, FERRYI_PLACE_NONE, NULL,
                           call->file.file ? "store" : "copy_to");
    call->begin = range.begin;
    call->bytes = range.end - range.begin;
    call->target = target;
    call->run = ferryi_copy_run_to;
}

ferry_status
ferryi_copy_plan(struct ferryi_copy_call *call, ferryi_store *target, struct ferryi_range to,
                 ferryi_store *source, struct ferryi_range from, int place)
{
    if (target && source)
        return plan_between(call, target, to, source, from, place);
    if (!target) {
        plan_to(call, source, from, (void *)to.begin);
        return FERRY_OK;
    }
    if (!call->file.file)
        call->source = (const void *)from.begin;
    call->move = copy_from_memory;
    return plan_write(call, target, to, place, call->file.file ? "load" : "copy_from");
}
