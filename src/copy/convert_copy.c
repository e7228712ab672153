/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/convert/placement.h"
#include "src/copy/convert_copy.h"
#include "src/copy/copy.h"
#include "src/copy/device_convert.h"
#include "src/transfer/engine.h"

/*
 * Converting copies. The conversion runs on the side, host or device, where this needs the smaller
 * transfer. The engine converts on the host, into and out of its staging chunks. A device converts
 * in its own memory. A checked conversion checks every element before it writes any.
 */

/* Converts elements. Elements that the policy rejects were already found before this call, so only
 * the program's own conversion function can fail here. */
static ferry_status
run_conversion(void *target, const void *source, size_t count, const void *user)
{
    const struct ferryi_convert_call *call = user;
    return ferryi_conversion_apply(call->conversion, target, source, count, call->policy);
}

static ferry_status
check_values(const struct ferryi_convert_call *call, const void *source, size_t count)
{
    return call->policy == FERRY_CONVERT_CHECK
               ? ferryi_conversion_apply(call->conversion, NULL, source, count, call->policy)
               : FERRY_OK;
}

static struct ferryi_transform
transform_of(const struct ferryi_convert_call *call)
{
    return (struct ferryi_transform){.run = run_conversion,
                                     .source_bytes = call->conversion->from->bytes,
                                     .target_bytes = call->conversion->to->bytes,
                                     .user = call};
}

/* Returns whether the device at `place` can run the conversion and is the better side to run it. */
static bool
device_should(ferryi_store *store, int place, const ferry_conversion *conversion, bool from_device,
              bool to_device)
{
    struct ferryi_convert_path path = {.from_device = from_device,
                                       .to_device = to_device,
                                       .device_converts = true,
                                       .source_bytes = conversion->from->bytes,
                                       .target_bytes = conversion->to->bytes};
    /* The device is queried last, because the query loads the device's conversion code. */
    return ferryi_convert_side(&path) == FERRYI_CONVERT_ON_DEVICE &&
           ferryi_device_converts(store->context, place, conversion);
}

/* Prepares a transfer job whose target is not a buffer. The job counts the bytes of its target, and
 * has no offset in a buffer. */
static void
count_target(struct ferryi_transfer_job *job)
{
    job->offset = SIZE_MAX;
    job->foreign_target = true;
}

/* -- moves ------------------------------------------------------------------------------------- */

static struct ferryi_device_conversion
work_of(const struct ferryi_copy_call *call, int place, const struct ferryi_transform *transform)
{
    const struct ferryi_convert_call *user = call->user;
    return (struct ferryi_device_conversion){
        call->main.store, user->conversion, user->policy, place, call->main.timeline, transform};
}

static size_t
count_of(const struct ferryi_copy_call *call)
{
    const struct ferryi_convert_call *user = call->user;
    return call->bytes / user->conversion->to->bytes;
}

/* Checks that the conversion policy accepts all elements of the source, at the place where they are
 * stored. */
static ferry_status
check_source(const struct ferryi_copy_call *call, struct ferryi_memory source)
{
    const struct ferryi_convert_call *user = call->user;
    if (!source.place || user->policy != FERRY_CONVERT_CHECK)
        return check_values(user, source.pointer, count_of(call));
    const struct ferryi_device_conversion work = work_of(call, source.place, NULL);
    return ferryi_device_convert_check(&work, source.pointer, count_of(call));
}

/* Converts elements within one device, within the host, or between a device and the host. */
static ferry_status
convert(const struct ferryi_copy_call *call, struct ferryi_memory target,
        struct ferryi_memory source, struct ferryi_transfer_job *job)
{
    const struct ferryi_convert_call *user = call->user;
    const struct ferryi_transform transform = transform_of(user);
    ferryi_store *store = call->main.store;
    int place = target.place ? target.place : source.place;
    const struct ferryi_device_conversion work = work_of(call, place, &transform);
    if (target.place && source.place)
        return ferryi_device_convert(&work, target.pointer, source.pointer, count_of(call), job);
    if (place && device_should(store, place, user->conversion, source.place, target.place))
        return ferryi_device_convert_across(&work, target, source, count_of(call), job);
    return ferryi_engine_copy_transformed(store->context->engine, target, source, count_of(call),
                                          &transform, call->main.timeline, job);
}

/* Converts elements from the caller's memory. The elements were checked before the ranges were
 * claimed. */
static ferry_status
move_in(struct ferryi_copy_call *call, struct ferryi_memory target, struct ferryi_transfer_job *job)
{
    struct ferryi_memory source = {.pointer = (void *)(uintptr_t)call->source};
    return convert(call, target, source, job);
}

static ferry_status
move_out(struct ferryi_copy_call *call, struct ferryi_memory source,
         struct ferryi_transfer_job *job)
{
    struct ferryi_memory target = {.pointer = call->target};
    ferry_status status = check_source(call, source);
    count_target(job);
    return status == FERRY_OK ? convert(call, target, source, job) : status;
}

/* Converts elements from buffer to buffer. Both buffers are accessed at the same place, or the
 * source is accessed at the host. */
static ferry_status
move_between(struct ferryi_copy_call *call, struct ferryi_memory target,
             struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    int place = call->other.timeline ? target.place : FERRY_PLACE_HOST;
    struct ferryi_memory source = {
        .place = place,
        .pointer = ferryi_access_memory(call->other.store, place, call->from).pointer};
    ferry_status status = check_source(call, source);
    return status == FERRY_OK ? convert(call, target, source, job) : status;
}

/* -- to the caller's memory -------------------------------------------------------------------- */

ferry_status
ferryi_convert_memory(ferryi_engine *engine, void *target, const void *source, size_t count,
                      const struct ferryi_convert_call *convert, struct ferryi_transfer_job *job)
{
    const struct ferryi_transform transform = transform_of(convert);
    struct ferryi_memory to = {.pointer = target}, from = {.pointer = (void *)(uintptr_t)source};
    return ferryi_engine_copy_transformed(engine, to, from, count, &transform, NULL, job);
}

/* keep_going callback of an additional step, such as a fetch, that moves no bytes of the result. It
 * reports the progress of the result's job instead of the step's own progress. */
static bool
ask_only(size_t bytes_done, size_t bytes_total, void *user)
{
    const struct ferryi_transfer_job *job = user;
    (void)bytes_done, (void)bytes_total;
    return job->options->keep_going(job->done, job->total, job->options->user);
}

void
ferryi_convert_be_quiet(struct ferryi_convert_quiet *quiet, const struct ferryi_transfer_job *job,
                        const struct ferryi_whole_call *whole)
{
    const ferry_copy_options *options = job->options;
    *quiet = (struct ferryi_convert_quiet){.job = job};
    quiet->options =
        (ferry_copy_options){.chunk_bytes = options ? options->chunk_bytes : 0,
                             .keep_going = options && options->keep_going ? ask_only : NULL,
                             .user = (void *)(uintptr_t)job};
    if (whole) {
        quiet->whole = *whole;
        quiet->whole.job =
            (struct ferryi_transfer_job){.options = &quiet->options, .cancelled = job->cancelled};
    }
}

/* Fetches all elements into the temporary memory `values`, checks them there, and converts them
 * only after the check. */
static ferry_status
move_fetched(struct ferryi_copy_call *call, void *values, struct ferryi_transfer_job *job)
{
    const struct ferryi_convert_call *user = call->user;
    ferryi_engine *engine = call->main.store->context->engine;
    struct ferryi_convert_quiet quiet;
    ferryi_convert_be_quiet(&quiet, job, call->whole);
    struct ferryi_copy_call fetch = *call;
    fetch.target = values;
    fetch.bytes = call->main.end - call->main.begin;
    fetch.options = &quiet.options;
    fetch.whole = call->whole ? &quiet.whole : NULL;
    ferry_status status = ferryi_copy_run_to(&fetch);
    if (status == FERRY_ERROR_CANCELLED)
        ferryi_fail(status, "copy to converted: cancelled: %zu of %zu bytes arrived", job->done,
                    job->total);
    if (status == FERRY_OK)
        status = check_values(user, values, count_of(call));
    return status == FERRY_OK
               ? ferryi_convert_memory(engine, call->target, values, count_of(call), user, job)
               : status;
}

/* Runs a copy with the policy CHECK if the device cannot check the elements. First fetches all
 * elements into temporary memory and checks them there. So no byte of the target changes if an
 * element does not fit. */
static ferry_status
run_fetched(struct ferryi_copy_call *call)
{
    struct ferryi_transfer_job job = ferryi_copy_job(call);
    count_target(&job);
    void *values = malloc(call->main.end - call->main.begin);
    ferry_status status = FERRY_OK;
    if (values) {
        status = move_fetched(call, values, &job);
    } else {
        (void)ferryi_access_close(&call->main, FERRYI_CLOSE_CANCEL, NULL);
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                             "copy to converted: no memory for %zu elements", count_of(call));
    }
    if (call->whole)
        ferryi_whole_call_note(call->whole, &job, 0);
    free(values);
    return status;
}

/* Plans a converting copy to the caller's memory. The copy reads the range at a place where it is
 * current. */
static ferry_status
plan_out(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
         void *target)
{
    const struct ferryi_convert_call *convert = call->user;
    const ferry_conversion *conversion = convert->conversion;
    int place = ferryi_copy_home(store, range);
    bool on_host = ferryi_store_same_memory(store, place, 0);
    bool fetches = convert->policy == FERRY_CONVERT_CHECK && !on_host &&
                   !ferryi_device_converts(store->context, place, conversion);
    ferryi_timeline *timeline = NULL;
    ferry_status status = FERRY_OK;
    if (!on_host && !fetches)
        status = ferryi_engine_timeline(store->context->engine, 0, place, &timeline);
    ferryi_copy_add_access(call, store, range, FERRY_READ, fetches ? FERRYI_PLACE_NONE : place,
                           timeline, "copy_to");
    call->begin = range.begin;
    call->bytes = (range.end - range.begin) / conversion->from->bytes * conversion->to->bytes;
    call->target = target;
    call->move = move_out;
    call->run = fetches ? run_fetched : ferryi_copy_run_move;
    return status;
}

/* -- from buffer to buffer --------------------------------------------------------------------- */

/* Returns whether both stores use host memory at this place, so that the host would convert there.
 */
static bool
host_reaches(ferryi_store *target, ferryi_store *source, int place)
{
    return ferryi_store_same_memory(target, place, 0) && ferryi_store_same_memory(source, place, 0);
}

/* Plans to access the source and the target at the same place. If the caller chose a place whose
 * device cannot convert, plans to access the source at the host instead. */
static ferry_status
plan_between(struct ferryi_copy_call *call, ferryi_store *target, struct ferryi_range to,
             ferryi_store *source, struct ferryi_range from, const ferry_conversion *conversion,
             int place)
{
    int meeting = place < 0 ? ferryi_copy_meeting_place(target, to, source, from) : place;
    bool there = place < 0 || (ferryi_store_validity(source, from).all & FERRYI_PLACE_BIT(place));
    bool meets = host_reaches(target, source, meeting) ||
                 (there && device_should(target, meeting, conversion, true, true));
    bool at_host = !meets && (place < 0 || ferryi_store_same_memory(target, place, 0));
    ferry_status status =
        ferryi_copy_plan(call, target, to, source, from, at_host ? FERRY_PLACE_HOST : meeting);
    call->move = move_between;
    if (status != FERRY_OK || meets || at_host)
        return status;
    struct ferryi_copy_call host = {0};
    status = ferryi_copy_plan(&host, target, to, source, from, FERRY_PLACE_HOST);
    call->other = host.other;
    return status;
}

ferry_status
ferryi_convert_plan(struct ferryi_copy_call *call, const struct ferryi_convert_call *convert,
                    ferryi_store *target, struct ferryi_range to, ferryi_store *source,
                    struct ferryi_range from, int place)
{
    call->user = convert;
    if (!target)
        return plan_out(call, source, from, (void *)to.begin);
    ferry_status status = FERRY_OK;
    if (source) {
        status = plan_between(call, target, to, source, from, convert->conversion, place);
        call->main.reason = call->other.reason = "convert";
        return status;
    }
    status = check_values(convert, (const void *)from.begin,
                          (to.end - to.begin) / convert->conversion->to->bytes);
    if (status == FERRY_OK)
        status = ferryi_copy_plan(call, target, to, NULL, from, place);
    call->move = move_in;
    return status;
}
