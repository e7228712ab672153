/* SPDX-License-Identifier: MIT */
#include "src/copy/copy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/store/claim.h"
#include "src/store/watch.h"
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

/* -- locks ------------------------------------------------------------------------------------- */

/* Adds a lock on a range to a call. The ranges of all accesses of a call are locked together. */
static void
add_lock(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
         uint8_t access, const char *reason)
{
    struct ferryi_access *added = &call->accesses[call->access_count++];
    *added = ferryi_access_of(store, range, access, FERRYI_PLACE_NONE, reason);
    added->derives = true;
}

/* -- moving ------------------------------------------------------------------------------------ */

ferry_status
ferryi_copy_make_middle(const ferryi_store *target, const ferryi_store *source, size_t bytes,
                        ferryi_store **out)
{
    const ferryi_store *store = target ? target : source;
    const ferry_buffer_options options = {.zero_on_release = store->zero_on_release ||
                                                             (source && source->zero_on_release)};
    ferryi_store *middle;
    FERRYI_OR_RETURN(ferryi_store_create(store->context, bytes, &options, false, &middle));
    struct ferryi_store_cold *cold = ferryi_store_make_cold(middle);
    if (!cold) {
        ferryi_store_release(middle);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "copy buffer \"%s\": no memory to describe its temporary storage",
                           ferryi_store_name(store));
    }
    cold->stands_for = store;
    *out = middle;
    return FERRY_OK;
}

void
ferryi_copy_free_fetched(void *memory, size_t bytes, const ferryi_store *store)
{
    if (memory && store->zero_on_release)
        explicit_bzero(memory, bytes);
    free(memory);
}

ferry_status
ferryi_copy_add_middle(struct ferryi_copy_call *call, size_t bytes, ferryi_store **out)
{
    assert(call->middle_count < sizeof(call->middles) / sizeof(call->middles[0]));
    FERRYI_OR_RETURN(ferryi_copy_make_middle(call->row.target_store, call->row.source_store, bytes,
                                             &call->middles[call->middle_count]));
    *out = call->middles[call->middle_count++];
    return FERRY_OK;
}

ferry_status
ferryi_row_reserve(const struct ferryi_row *row, int *place, bool is_any_place)
{
    ferryi_store *store = row->target_store;
    if (!store)
        return FERRY_OK;
    ferry_status status = ferryi_store_reserve(store, *place, NULL);
    if (status != FERRY_ERROR_OUT_OF_MEMORY || !is_any_place ||
        ferryi_store_same_memory(store, *place, FERRY_PLACE_HOST))
        return status;
    *place = FERRY_PLACE_HOST;
    return ferryi_store_reserve(store, *place, NULL);
}

ferry_status
ferryi_row_add(struct ferryi_move *move, const struct ferryi_row *row, int *place,
               bool is_any_place)
{
    FERRYI_OR_RETURN(ferryi_row_reserve(row, place, is_any_place));
    const struct ferryi_range from = {row->source, row->source + row->source_bytes};
    struct ferryi_piece part = {.target = (void *)row->target,
                                .source = (const void *)row->source,
                                .bytes = row->bytes,
                                .unit = row->unit,
                                .zeros = !row->source_store && row->source_bytes == 0,
                                .between = row->between};
    if (row->target_store)
        ferryi_part_set_target(&part, row->target_store, *place, row->target);
    return row->source_store ? ferryi_move_add_from(move, row->source_store, from, part)
                             : ferryi_move_add(move, &part);
}

ferry_status
ferryi_row_move(struct ferryi_move *move, const struct ferryi_row *row, int *place,
                bool is_any_place)
{
    return ferryi_move_run(move, ferryi_row_add(move, row, place, is_any_place));
}

/* Reports the use of the buffers to their watchers. `done` is the number of bytes that were copied.
 */
static void
report_use(const struct ferryi_copy_call *call, size_t done)
{
    const struct ferryi_row *row = &call->row;
    if (row->source_store)
        ferryi_watch_used(
            row->source_store, (struct ferryi_range){row->source, row->source + row->source_bytes},
            FERRY_READ, row->target_store ? call->place : FERRYI_PLACE_NONE, call->main.reason);
    if (row->target_store && done > 0)
        ferryi_watch_used(row->target_store, (struct ferryi_range){row->target, row->target + done},
                          FERRY_OVERWRITE, call->place, call->main.reason);
}

/* Unlocks the ranges of a call. If the call failed, preserves its error message. */
static void
unlock(struct ferryi_copy_call *call, ferry_status status)
{
    struct ferryi_kept_error why;
    if (status != FERRY_OK)
        ferryi_last_error_keep(&why);
    for (size_t i = 0; i < call->access_count; i++)
        ferryi_claim_drop(&call->accesses[i]);
    if (status != FERRY_OK)
        ferryi_last_error_restore(&why);
}

ferry_status
ferryi_copy_run_row(struct ferryi_copy_call *call,
                    ferry_status (*move_row)(struct ferryi_copy_call *call,
                                             struct ferryi_move *move))
{
    const struct ferryi_row *row = &call->row;
    struct ferryi_move move;
    struct ferryi_transfer_job job = ferryi_copy_job(call);
    const size_t before = job.done;
    ferryi_access_await_kernels(call->accesses, call->access_count);
    ferryi_move_begin(&move, call->main.store->context, call->main.reason, &job);
    move.subject = row->target_store ? row->target_store : row->source_store;
    if (call->value) {
        move.value = call->value;
        move.value_bytes = call->value_bytes;
    }
    if (call->file.file)
        move.host_side = (struct ferryi_host_side){
            .file = call->file.file, .offset = call->file.offset, .stores = !row->target_store};
    ferry_status status = move_row(call, &move);
    call->timelines = move.timelines;
    if (call->whole)
        ferryi_whole_call_note(call->whole, &job, move.timelines);
    ferryi_move_end(&move);
    for (size_t i = 0; i < call->middle_count; i++)
        ferryi_store_release(call->middles[i]);
    ferryi_copy_free_fetched(call->fetched, row->source_bytes, row->source_store);
    if (ferryi_store_is_watched(call->main.store))
        report_use(call, job.done - before);
    unlock(call, status);
    return status;
}

static ferry_status
move_row(struct ferryi_copy_call *call, struct ferryi_move *move)
{
    return ferryi_row_move(move, &call->row, &call->place, call->is_any_place);
}

static ferry_status
run_row(struct ferryi_copy_call *call)
{
    return ferryi_copy_run_row(call, move_row);
}

/* -- overlapping ranges of one buffer ---------------------------------------------------------- */

/* Returns whether one memmove() on the host copies the row, because all of its source is current
 * there together. */
static bool
is_one_memmove(const struct ferryi_copy_call *call)
{
    const struct ferryi_row *row = &call->row;
    const struct ferryi_range from = {row->source, row->source + row->source_bytes};
    return ferryi_store_same_memory(row->source_store, call->place, FERRY_PLACE_HOST) &&
           (ferryi_store_common_places(row->source_store, from) & FERRYI_PLACE_BIT(call->place));
}

/* Copies a row through the temporary storage `middle`. */
static ferry_status
move_through(struct ferryi_copy_call *call, struct ferryi_move *move, ferryi_store *middle)
{
    struct ferryi_row in = call->row, out = call->row;
    int between = call->place;
    in.target_store = out.source_store = middle;
    in.target = out.source = 0;
    in.between = true;
    FERRYI_OR_RETURN(ferryi_row_move(move, &in, &between, true));
    return ferryi_row_move(move, &out, &call->place, call->is_any_place);
}

/* Copies between overlapping ranges of one buffer, with the result of memmove(). */
static ferry_status
move_overlapping(struct ferryi_copy_call *call, struct ferryi_move *move)
{
    ferryi_store *middle;
    if (is_one_memmove(call))
        return move_row(call, move);
    FERRYI_OR_RETURN(ferryi_copy_add_middle(call, call->row.bytes, &middle));
    return move_through(call, move, middle);
}

static ferry_status
run_overlapping(struct ferryi_copy_call *call)
{
    return ferryi_copy_run_row(call, move_overlapping);
}

/* Adds one access for the bytes that are only written, one for those that are both read and
 * written, and one for those that are only read. Ranges that are locked together must be disjoint.
 */
static void
add_overlapping(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range to,
                struct ferryi_range from)
{
    const bool upwards = from.begin < to.begin;
    struct ferryi_range written = {to.begin, from.begin}, both = {from.begin, to.end},
                        read = {to.end, from.end};
    if (upwards) {
        written = (struct ferryi_range){from.end, to.end};
        both = (struct ferryi_range){to.begin, from.end};
        read = (struct ferryi_range){from.begin, to.begin};
    }
    add_lock(call, store, written, FERRY_OVERWRITE, "copy");
    add_lock(call, store, both, FERRY_UPDATE, "copy");
    add_lock(call, store, read, FERRY_READ, "copy");
    call->run = run_overlapping;
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

ferry_status
ferryi_copy_run(struct ferryi_copy_call *call)
{
    for (size_t i = 0; call->whole && i < call->access_count; i++)
        call->accesses[i].under = ferryi_whole_call_claim(call->whole, call->accesses[i].store);
    ferry_status status = ferryi_access_claim(call->accesses, call->access_count);
    return status == FERRY_OK ? call->run(call) : status;
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
static void
plan_onto_itself(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range)
{
    add_lock(call, store, range, FERRY_UPDATE, "copy");
    call->place = FERRY_PLACE_HOST; /* it uses no device */
    call->run = run_onto_itself;
}

static void
plan_between(struct ferryi_copy_call *call, ferryi_store *target, struct ferryi_range to,
             ferryi_store *source, struct ferryi_range from)
{
    if (call->place < 0)
        call->place = ferryi_copy_meeting_place(target, to, source, from);
    if (target == source && ferryi_overlap(to.begin, to.end, from.begin, from.end)) {
        add_overlapping(call, target, to, from);
        return;
    }
    const char *reason = call->convert ? "convert" : "copy";
    add_lock(call, target, to, FERRY_OVERWRITE, reason);
    add_lock(call, source, from, FERRY_READ, reason);
    call->run = run_row;
}

/* -- a plan of one row ------------------------------------------------------------------------- */

static void
plan_write(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
           const char *reason)
{
    if (call->place < 0)
        call->place = ferryi_copy_home(store, range);
    add_lock(call, store, range, FERRY_OVERWRITE, reason);
    call->run = run_row;
}

/* Sets what the call copies from a range of a buffer, memory, or a file, to another one. */
static void
set_row(struct ferryi_copy_call *call, ferryi_store *target, struct ferryi_range to,
        ferryi_store *source, struct ferryi_range from, int place)
{
    const size_t target_bytes = to.end - to.begin, source_bytes = from.end - from.begin;
    call->bytes = target_bytes > 0 ? target_bytes : source_bytes;
    call->begin = target ? to.begin : from.begin;
    call->place = place;
    call->is_any_place = place < 0;
    call->row = (struct ferryi_row){.target_store = target,
                                    .source_store = source,
                                    .target = to.begin,
                                    .source = from.begin,
                                    .bytes = call->bytes,
                                    .source_bytes = source_bytes > 0 ? source_bytes : call->bytes,
                                    .unit = (uint32_t)call->unit};
}

void
ferryi_copy_plan_fill(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
                      const void *value, size_t value_bytes, int place)
{
    set_row(call, store, range, NULL, (struct ferryi_range){0}, place);
    call->row.source_bytes = 0;
    call->value = value;
    call->value_bytes = value_bytes;
    plan_write(call, store, range, "fill");
}

void
ferryi_copy_plan(struct ferryi_copy_call *call, ferryi_store *target, struct ferryi_range to,
                 ferryi_store *source, struct ferryi_range from, int place)
{
    const bool of_file = call->file.file;
    set_row(call, target, to, source, from, place);
    if (target && target == source && to.begin == from.begin) {
        plan_onto_itself(call, target, to);
    } else if (target && source) {
        plan_between(call, target, to, source, from);
    } else if (target) {
        plan_write(call, target, to, of_file ? ferryi_copy_file_reason(false) : "copy_from");
    } else {
        add_lock(call, source, from, FERRY_READ,
                 of_file ? ferryi_copy_file_reason(true) : "copy_to");
        call->run = run_row;
    }
}
