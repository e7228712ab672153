/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/convert/placement.h"
#include "src/copy/convert_copy.h"
#include "src/copy/copy.h"
#include "src/copy/device_convert.h"
#include "src/transfer/engine.h"

/*
 * Copies that convert on the way, on the side that makes fewer bytes cross: the engine converts
 * into and out of its staging chunks, or a device converts in its own memory. Checked conversions
 * look at every element before anything is written.
 */

/* What the policy could refuse was refused before; a function of the program's may refuse still. */
static ferry_status
run_conversion(void *target, const void *source, size_t count, const void *user)
{
    const struct ferryi_convert_call *call = user;
    return ferryi_conversion_apply(call->conversion, target, source, count, call->policy);
}

static ferry_status
check_values(const ferry_conversion *conversion, const void *source, size_t count,
             ferry_convert_policy policy)
{
    return policy == FERRY_CONVERT_CHECK
               ? ferryi_conversion_apply(conversion, NULL, source, count, policy)
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

/* True where the device at `place` converts, and should. */
static bool
device_should(ferryi_store *store, int place, const ferry_conversion *conversion, bool from_device,
              bool to_device)
{
    struct ferryi_convert_path path = {.from_device = from_device,
                                       .to_device = to_device,
                                       .device_converts = true,
                                       .source_bytes = conversion->from->bytes,
                                       .target_bytes = conversion->to->bytes};
    /* Its code is loaded only where it would be used. */
    return ferryi_convert_side(&path) == FERRYI_CONVERT_ON_DEVICE &&
           ferryi_device_converts(store->context, place, conversion);
}

/* -- from the caller's memory ------------------------------------------------------------------ */

static ferry_status
move_converted(struct ferryi_copy_call *call, struct ferryi_memory target, size_t bytes,
               struct ferryi_transfer_job *job)
{
    const struct ferryi_convert_call *user = call->user;
    const struct ferryi_transform transform = transform_of(user);
    ferryi_store *store = call->main.store;
    const size_t count = bytes / transform.target_bytes;
    if (target.place && device_should(store, target.place, user->conversion, false, true)) {
        struct ferryi_device_conversion work = {store,        user->conversion,    user->policy,
                                                target.place, call->main.timeline, &transform};
        return ferryi_device_convert_upload(&work, target.pointer, call->source, count, job);
    }
    struct ferryi_memory source = {.place = 0, .pointer = (void *)(uintptr_t)call->source};
    return ferryi_engine_copy_transformed(store->context->engine, target, source, count, &transform,
                                          call->main.timeline, job);
}

ferry_status
ferryi_convert_from(ferryi_store *store, struct ferryi_range range, const void *source,
                    const struct ferryi_convert_call *convert, int place,
                    const ferry_copy_options *options, struct ferryi_copy_whole *whole)
{
    struct ferryi_copy_call call = {.options = options, .whole = whole};
    size_t count = (range.end - range.begin) / convert->conversion->to->bytes;
    ferry_status status = check_values(convert->conversion, source, count, convert->policy);
    if (status == FERRY_OK)
        status = ferryi_copy_plan_from(&call, store, range, source, place);
    call.move = move_converted;
    call.user = convert;
    return status == FERRY_OK ? ferryi_copy_run(&call) : status;
}

/* -- to the caller's memory -------------------------------------------------------------------- */

static struct ferryi_transfer_job
job_out(ferryi_store *store, const struct ferryi_convert_call *user, size_t count,
        const ferry_copy_options *options, const struct ferryi_copy_whole *whole)
{
    struct ferryi_transfer_job job = {.options = options,
                                      .total = count * user->conversion->to->bytes};
    if (whole)
        job = whole->job;
    ferryi_store_name_job(store, &job, "copy_to", SIZE_MAX);
    job.foreign_target = true;
    return job;
}

ferry_status
ferryi_convert_memory(ferryi_engine *engine, void *target, const void *source, size_t count,
                      const struct ferryi_convert_call *convert, struct ferryi_transfer_job *job)
{
    const struct ferryi_transform transform = transform_of(convert);
    struct ferryi_memory to = {.pointer = target}, from = {.pointer = (void *)(uintptr_t)source};
    return ferryi_engine_copy_transformed(engine, to, from, count, &transform, NULL, job);
}

/* keep_going of bytes that are no part of the result. */
static bool
ask_only(size_t bytes_done, size_t bytes_total, void *user)
{
    const struct ferryi_transfer_job *job = user;
    (void)bytes_done, (void)bytes_total;
    return job->options->keep_going(job->done, job->total, job->options->user);
}

void
ferryi_convert_be_quiet(struct ferryi_convert_quiet *quiet, const struct ferryi_transfer_job *job,
                        const struct ferryi_copy_whole *whole)
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

/* Where the device cannot look, checked values are fetched once, into memory of their own: none has
 * arrived until all are known to fit. */
static ferry_status
copy_to_checked(ferryi_store *store, struct ferryi_range range,
                const struct ferryi_convert_call *user, void *target,
                struct ferryi_transfer_job *job, struct ferryi_copy_whole *whole)
{
    size_t count = (range.end - range.begin) / user->conversion->from->bytes;
    struct ferryi_convert_quiet quiet;
    ferryi_convert_be_quiet(&quiet, job, whole);
    struct ferryi_copy_call call = {.options = &quiet.options,
                                    .whole = whole ? &quiet.whole : NULL};
    void *values = malloc(range.end - range.begin);
    if (!values)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "copy to converted: no memory for %zu elements", count);
    ferryi_copy_plan_to(&call, store, range, values);
    ferry_status status = ferryi_copy_run(&call);
    if (status == FERRY_ERROR_CANCELLED)
        ferryi_fail(status, "copy to converted: cancelled: %zu of %zu bytes arrived", job->done,
                    job->total);
    if (status == FERRY_OK)
        status = check_values(user->conversion, values, count, user->policy);
    if (status == FERRY_OK)
        status = ferryi_convert_memory(store->context->engine, target, values, count, user, job);
    free(values);
    return status;
}

/* The elements lie at `source`, at the access's place; a timeline means a device. */
static ferry_status
copy_out_converted(const struct ferryi_access *access, struct ferryi_memory source,
                   const struct ferryi_convert_call *user, void *target, size_t count,
                   struct ferryi_transfer_job *job)
{
    ferryi_store *store = access->store;
    const struct ferryi_transform transform = transform_of(user);
    struct ferryi_memory to = {.place = 0, .pointer = target};
    if (access->timeline) {
        struct ferryi_device_conversion work = {store,         user->conversion, user->policy,
                                                access->place, access->timeline, &transform};
        ferry_status status = user->policy == FERRY_CONVERT_CHECK
                                  ? ferryi_device_convert_check(&work, source.pointer, count)
                                  : FERRY_OK;
        if (status != FERRY_OK)
            return status;
        if (device_should(store, access->place, user->conversion, true, false))
            return ferryi_device_convert_download(&work, target, source.pointer, count, job);
    }
    return ferryi_engine_copy_transformed(store->context->engine, to, source, count, &transform,
                                          access->timeline, job);
}

/* From where the range is current; a NULL timeline means from the host. */
static ferry_status
copy_to_converted(ferryi_store *store, struct ferryi_range range, int place,
                  ferryi_timeline *timeline, const struct ferryi_convert_call *user, void *target,
                  struct ferryi_transfer_job *job, struct ferryi_copy_whole *whole)
{
    size_t count = (range.end - range.begin) / user->conversion->from->bytes;
    struct ferryi_access access = {.store = store,
                                   .begin = range.begin,
                                   .end = range.end,
                                   .access = FERRY_READ,
                                   .place = (uint8_t)place,
                                   .timeline = timeline,
                                   .reason = "copy_to",
                                   .derives = true,
                                   .under = whole ? ferryi_copy_under(whole, store) : 0};
    ferry_status status = ferryi_access_open(&access, 1);
    if (status != FERRY_OK)
        return status;
    ferryi_claim_is_held();
    if (!timeline)
        status = check_values(user->conversion, access.pointer, count, user->policy);
    if (status == FERRY_OK)
        status = copy_out_converted(&access,
                                    ferryi_access_memory(store, timeline ? place : 0, range.begin),
                                    user, target, count, job);
    ferryi_access_note_loss(store, place, status);
    (void)ferryi_access_close(&access, FERRYI_CLOSE_COMMIT, timeline);
    return status;
}

ferry_status
ferryi_convert_to(ferryi_store *store, struct ferryi_range range, void *target,
                  const struct ferryi_convert_call *convert, const ferry_copy_options *options,
                  struct ferryi_copy_whole *whole)
{
    int place = ferryi_copy_home(store, range);
    bool on_host = ferryi_store_same_memory(store, place, 0);
    size_t count = (range.end - range.begin) / convert->conversion->from->bytes;
    struct ferryi_transfer_job job = job_out(store, convert, count, options, whole);
    ferryi_timeline *timeline = NULL;
    ferry_status status = FERRY_OK;
    if (convert->policy == FERRY_CONVERT_CHECK && !on_host &&
        !ferryi_device_converts(store->context, place, convert->conversion)) {
        status = copy_to_checked(store, range, convert, target, &job, whole);
    } else {
        if (!on_host)
            status = ferryi_engine_timeline(store->context->engine, 0, place, &timeline);
        if (status == FERRY_OK)
            status = copy_to_converted(store, range, place, timeline, convert, target, &job, whole);
    }
    if (whole)
        ferryi_copy_note_whole(whole, &job, 0);
    return status;
}

/* -- from buffer to buffer --------------------------------------------------------------------- */

/* Both at one place; a timeline means that a device converts. */
static ferry_status
move_between(struct ferryi_copy_call *call, struct ferryi_memory target, size_t bytes,
             struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    const struct ferryi_convert_call *user = call->user;
    ferryi_store *store = call->main.store;
    ferryi_timeline *timeline = call->main.timeline;
    const void *source =
        ferryi_access_memory(call->other.store, target.place, call->other.begin).pointer;
    const size_t count = bytes / user->conversion->to->bytes;
    struct ferryi_device_conversion work = {
        store, user->conversion, user->policy, call->main.place, timeline, NULL};
    ferry_status status = FERRY_OK;
    if (timeline && user->policy == FERRY_CONVERT_CHECK)
        status = ferryi_device_convert_check(&work, source, count);
    else
        status = check_values(user->conversion, source, count, user->policy);
    if (status != FERRY_OK)
        return status;
    return timeline ? ferryi_device_convert(&work, target.pointer, source, count, job)
                    : ferryi_convert_memory(store->context->engine, target.pointer, source, count,
                                            user, job);
}

/* The source at the host, the target at a device: as from the caller's memory. */
static ferry_status
move_up(struct ferryi_copy_call *call, struct ferryi_memory target, size_t bytes,
        struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    const struct ferryi_convert_call *user = call->user;
    call->source = ferryi_access_memory(call->other.store, 0, call->other.begin).pointer;
    ferry_status status = check_values(user->conversion, call->source,
                                       bytes / user->conversion->to->bytes, user->policy);
    return status == FERRY_OK ? move_converted(call, target, bytes, job) : status;
}

/* Would the host convert what both stores have at this place? */
static bool
host_reaches(ferryi_store *target, ferryi_store *source, int place)
{
    return ferryi_store_same_memory(target, place, 0) && ferryi_store_same_memory(source, place, 0);
}

/* Both sides at one place, or with a place that the caller chose, the source at the host where that
 * place's device does not convert. */
static ferry_status
plan_between(struct ferryi_copy_call *call, ferryi_store *target, struct ferryi_range to,
             ferryi_store *source, struct ferryi_range from, const ferry_conversion *conversion,
             int place)
{
    int meeting = place < 0 ? ferryi_copy_meeting_place(target, to, source, from) : place;
    bool there = place < 0 || (ferryi_store_validity(source, from).all & FERRYI_PLACE_BIT(place));
    call->move = move_between;
    if (host_reaches(target, source, meeting) ||
        (there && device_should(target, meeting, conversion, true, true)))
        return ferryi_copy_plan(call, target, to, source, from, meeting);
    if (place < 0 || ferryi_store_same_memory(target, place, 0))
        return ferryi_copy_plan(call, target, to, source, from, FERRY_PLACE_HOST);
    struct ferryi_copy_call at_host = {0};
    ferry_status status = ferryi_copy_plan(&at_host, target, to, source, from, FERRY_PLACE_HOST);
    if (status == FERRY_OK)
        status = ferryi_copy_plan(call, target, to, source, from, place);
    call->other = at_host.other;
    call->move = move_up;
    return status;
}

ferry_status
ferryi_convert_between(ferryi_store *target, struct ferryi_range to, ferryi_store *source,
                       struct ferryi_range from, const struct ferryi_convert_call *convert,
                       int place, const ferry_copy_options *options,
                       struct ferryi_copy_whole *whole)
{
    struct ferryi_copy_call call = {.user = convert, .options = options, .whole = whole};
    ferry_status status = plan_between(&call, target, to, source, from, convert->conversion, place);
    call.main.reason = call.other.reason = "convert";
    return status == FERRY_OK ? ferryi_copy_run(&call) : status;
}
