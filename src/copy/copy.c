/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/buffer/guard.h"
#include "src/copy/copy.h"
#include "src/transfer/engine.h"

/* Copies and fills: one claim for the whole call, bytes through the engine, commits for what
 * arrived. */

uint64_t
ferryi_copy_under(const struct ferryi_copy_whole *whole, const ferryi_store *store)
{
    size_t at = ferryi_claim_list_find(&whole->claims, store);
    return at < whole->claims.count ? whole->claims.items[at].id : 0;
}

void
ferryi_copy_note_whole(struct ferryi_copy_whole *whole, const struct ferryi_transfer_job *job,
                       uint64_t timelines)
{
    whole->job.done = job->done;
    whole->job.reported = job->reported;
    whole->timelines |= timelines;
}

/* A step goes on with the job of the whole call. */
static struct ferryi_transfer_job
job_of(const struct ferryi_copy_call *call, const char *reason)
{
    struct ferryi_transfer_job job = {.options = call->options,
                                      .cancelled = call->cancelled,
                                      .arrived = call->arrived,
                                      .total = call->main.end - call->main.begin};
    if (call->whole)
        job = call->whole->job;
    ferryi_store_name_job(call->main.store, &job, reason, call->main.begin - job.done);
    return job;
}

/* -- where ------------------------------------------------------------------------------------- */

int
ferryi_lowest_place(ferryi_places places)
{
    return places & 1 ? 0 : __builtin_ctz(places);
}

int
ferryi_copy_home(ferryi_store *store, struct ferryi_range range)
{
    struct ferryi_validity validity = ferryi_store_validity(store, range);
    ferryi_places known = (2u << store->context->place_count) - 1;
    if (!validity.written || !(validity.all & known))
        return FERRY_PLACE_HOST;
    return ferryi_lowest_place(validity.all & known);
}

/* -- into a buffer ----------------------------------------------------------------------------- */

ferry_status
ferryi_copy_finish(struct ferryi_copy_call *call, ferry_status status, size_t done)
{
    char *text = status == FERRY_OK ? NULL : ferryi_last_error_copy();
    size_t index = ferry_error_index();
    ferry_status closed =
        ferryi_access_close_part(&call->main, call->main.begin + done, call->main.timeline);
    if (text) {
        ferryi_fail(status, "%s", text);
        ferryi_fail_index(index);
    }
    free(text);
    return status != FERRY_OK ? status : closed;
}

static ferry_status
prepare(struct ferryi_copy_call *call)
{
    if (!call->other.store)
        return ferryi_access_prepare(&call->main, 1);
    struct ferryi_access both[2] = {call->main, call->other};
    return ferryi_access_prepare(both, 2);
}

/* From prepare to close; `step` moves the bytes. */
static ferry_status
run_into(struct ferryi_copy_call *call,
         ferry_status (*step)(struct ferryi_copy_call *call, struct ferryi_memory target,
                              size_t bytes, struct ferryi_transfer_job *job))
{
    ferryi_claim_is_held();
    struct ferryi_access *main = &call->main;
    ferry_status status = prepare(call);
    if (status != FERRY_OK)
        return status;
    size_t bytes = main->end - main->begin;
    struct ferryi_transfer_job job = job_of(call, main->reason);
    job.foreign_source = call->source || call->file.file;
    size_t before = job.done;
    status =
        step(call, ferryi_access_memory(main->store, main->timeline ? main->place : 0, main->begin),
             bytes, &job);
    ferryi_access_note_loss(main->store, main->place, status);
    if (call->whole)
        ferryi_copy_note_whole(call->whole, &job,
                               main->timeline ? UINT64_C(1) << main->timeline->number : 0);
    status = ferryi_copy_finish(call, status, status == FERRY_OK ? bytes : job.done - before);
    if (call->other.store)
        (void)ferryi_access_close(&call->other, FERRYI_CLOSE_COMMIT, call->other.timeline);
    return status;
}

static ferry_status
copy_from_memory(struct ferryi_copy_call *call, struct ferryi_memory target, size_t bytes,
                 struct ferryi_transfer_job *job)
{
    ferryi_engine *engine = call->main.store->context->engine;
    struct ferryi_memory source = {.place = 0, .pointer = (void *)(uintptr_t)call->source};
    if (call->file.file)
        return ferryi_engine_load(engine, target, call->file, bytes, call->main.timeline, job);
    return ferryi_engine_copy(engine, target, source, bytes, call->main.timeline, job);
}

static ferry_status
copy_from_buffer(struct ferryi_copy_call *call, struct ferryi_memory target, size_t bytes,
                 struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    struct ferryi_memory source =
        ferryi_access_memory(call->other.store, target.place, call->other.begin);
    return ferryi_engine_copy(call->main.store->context->engine, target, source, bytes,
                              call->main.timeline, job);
}

static ferry_status
fill_with_value(struct ferryi_copy_call *call, struct ferryi_memory target, size_t bytes,
                struct ferryi_transfer_job *job)
{
    return ferryi_engine_fill(call->main.store->context->engine, target, bytes, call->value,
                              call->value_bytes, call->main.timeline, job);
}

static ferry_status
run_copy_from(struct ferryi_copy_call *call)
{
    return run_into(call, call->move ? call->move : copy_from_memory);
}

static ferry_status
run_copy(struct ferryi_copy_call *call)
{
    return run_into(call, call->move ? call->move : copy_from_buffer);
}

static ferry_status
run_fill(struct ferryi_copy_call *call)
{
    return run_into(call, fill_with_value);
}

/* -- out of a buffer --------------------------------------------------------------------------- */

/* Bytes of the range from `begin` on, into the caller's memory or file. A NULL source stands for
 * zeros. */
static ferry_status
deliver(struct ferryi_copy_call *call, struct ferryi_memory source, size_t begin, size_t bytes,
        ferryi_timeline *timeline, struct ferryi_transfer_job *job)
{
    ferryi_engine *engine = call->main.store->context->engine;
    size_t at = begin - call->main.begin;
    if (call->file.file)
        return ferryi_engine_store(
            engine, (struct ferryi_file_range){call->file.file, call->file.offset + at}, source,
            bytes, timeline, job);
    struct ferryi_memory target = {.place = 0, .pointer = (char *)call->target + at};
    return source.pointer ? ferryi_engine_copy(engine, target, source, bytes, timeline, job)
                          : ferryi_engine_fill(engine, target, bytes, "", 1, NULL, job);
}

/* One stretch of bytes with the same places. */
static ferry_status
copy_out(struct ferryi_copy_call *call, struct ferryi_segment segment, size_t begin, size_t end,
         struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    ferryi_store *store = call->main.store;
    if (segment.places & FERRYI_LOST)
        return ferryi_access_fail_lost(&call->main);
    if (!ferryi_places_written(segment.places))
        return deliver(call, (struct ferryi_memory){0}, begin, end - begin, NULL, job);

    ferryi_places on_hosts = segment.places & store->shared;
    int place = ferryi_lowest_place(on_hosts ? on_hosts : segment.places);
    ferryi_timeline *timeline = NULL;
    ferry_status status = FERRY_OK;
    bool on_host = ferryi_store_same_memory(store, place, 0);
    if (!on_host)
        status = ferryi_engine_timeline(store->context->engine, 0, place, &timeline);
    if (status == FERRY_OK)
        status = ferryi_store_order(store, place, timeline, false);
    if (status == FERRY_OK)
        status = deliver(call, ferryi_access_memory(store, on_host ? 0 : place, begin), begin,
                         end - begin, timeline, job);
    /* A cancelled one leaves behind what it had queued. */
    if (status != FERRY_OK && timeline)
        ferryi_store_note_read(store, place, timeline);
    return ferryi_access_note_loss(store, place, status);
}

static ferry_status
run_copy_to(struct ferryi_copy_call *call)
{
    struct ferryi_access *main = &call->main;
    ferry_status status = ferryi_access_prepare(main, 1);
    assert(status == FERRY_OK); /* on bytes, not on a copy: there is nothing to prepare */
    struct ferryi_transfer_job job = job_of(call, main->reason);
    job.foreign_target = true;
    for (size_t at = main->begin; status == FERRY_OK && at < main->end;) {
        ferryi_store_lock(main->store);
        struct ferryi_segment segment = ferryi_valid_map_at(&main->store->map, at);
        ferryi_store_unlock(main->store);
        size_t end = ferryi_min_size(segment.end, main->end);
        status = copy_out(call, segment, at, end, &job);
        at = end;
    }
    if (call->whole)
        ferryi_copy_note_whole(call->whole, &job, 0);
    (void)ferryi_access_close(main, FERRYI_CLOSE_COMMIT, NULL);
    return status;
}

/* -- buffer to buffer -------------------------------------------------------------------------- */

/* Both sides at the place where the source is current and, if there is a choice, the target too. */
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
    return good ? ferryi_lowest_place(good) : FERRY_PLACE_HOST;
}

static void
set_access(struct ferryi_access *access, ferryi_store *store, struct ferryi_range range,
           uint8_t kind, int place, ferryi_timeline *timeline, const char *reason)
{
    *access = (struct ferryi_access){.store = store,
                                     .begin = range.begin,
                                     .end = range.end,
                                     .access = kind,
                                     .place = (uint8_t)place,
                                     .timeline = timeline,
                                     .reason = reason,
                                     .derives = true,
                                     .writes_all = true};
}

/* Claiming sorts the list; each of it does something else. */
static struct ferryi_access
taken(const struct ferryi_access *list, const struct ferryi_access *planned)
{
    while (list->access != planned->access)
        list++;
    return *list;
}

ferry_status
ferryi_copy_claim(struct ferryi_copy_call *call)
{
    if (call->whole) {
        call->main.under = ferryi_copy_under(call->whole, call->main.store);
        call->other.under =
            call->other.store ? ferryi_copy_under(call->whole, call->other.store) : 0;
    }
    if (!call->other.store)
        return ferryi_access_claim(&call->main, 1);
    struct ferryi_access list[3] = {call->main, call->other, call->rest};
    ferry_status status = ferryi_access_claim(list, call->rest.store ? 3 : 2);
    if (status != FERRY_OK)
        return status;
    call->main = taken(list, &call->main);
    call->other = taken(list, &call->other);
    if (call->rest.store)
        call->rest = taken(list, &call->rest);
    return FERRY_OK;
}

ferry_status
ferryi_copy_run(struct ferryi_copy_call *call)
{
    ferry_status status = ferryi_copy_claim(call);
    return status == FERRY_OK ? call->run(call) : status;
}

ferry_status
ferryi_copy_plan(struct ferryi_copy_call *call, ferryi_store *target, struct ferryi_range to,
                 ferryi_store *source, struct ferryi_range from, int place)
{
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
    /* Managed memory counts as the device's where the other side is on the device. */
    timeline = timeline ? timeline : other;
    set_access(&call->main, target, to, FERRY_OVERWRITE, place, timeline, "copy");
    set_access(&call->other, source, from, FERRY_READ, place, timeline, "copy");
    call->run = run_copy;
    return FERRY_OK;
}

/* -- the public calls -------------------------------------------------------------------------- */

ferry_status
ferryi_copy_plan_from(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
                      const void *source, int place)
{
    ferryi_timeline *timeline;
    if (place < 0)
        place = ferryi_copy_home(store, range);
    ferry_status status = ferryi_place_timeline(store, place, &timeline);
    set_access(&call->main, store, range, FERRY_OVERWRITE, place, timeline, "copy_from");
    call->source = source;
    call->run = run_copy_from;
    return status;
}

void
ferryi_copy_plan_to(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
                    void *target)
{
    set_access(&call->main, store, range, FERRY_READ, FERRYI_PLACE_NONE, NULL, "copy_to");
    call->target = target;
    call->run = run_copy_to;
}

ferry_status
ferryi_copy_plan_fill(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
                      const void *value, size_t value_bytes, int place)
{
    ferryi_timeline *timeline;
    if (place < 0)
        place = ferryi_copy_home(store, range);
    ferry_status status = ferryi_place_timeline(store, place, &timeline);
    set_access(&call->main, store, range, FERRY_OVERWRITE, place, timeline, "fill");
    call->value = value;
    call->value_bytes = value_bytes;
    call->run = run_fill;
    return status;
}

ferry_status
ferryi_copy_check(ferry_buffer *buffer, const ferry_element *element, size_t offset, size_t count,
                  const void *memory, const char *what, struct ferryi_range *out)
{
    ferry_status status = ferryi_buffer_check(buffer, element, offset, count, what, out);
    if (status == FERRY_OK && out->begin != out->end && !memory)
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the memory of %zu elements is NULL",
                             what, count);
    return status == FERRY_OK ? ferryi_guard_check_memory(buffer->store, memory, what) : status;
}
