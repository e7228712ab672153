/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/convert.h"
#include "src/buffer/convert_device.h"
#include "src/buffer/copy.h"
#include "src/convert/placement.h"

/*
 * Copies that convert on the way, on the side that makes fewer bytes cross: the engine converts into and out of its
 * staging chunks, or a device converts in its own memory. Checked conversions look at every element before anything is
 * written.
 */

struct conversion_call {
    const ferry_conversion *conversion;
    ferry_convert_policy policy;
};

/* What the policy could refuse was refused before; a function of the program's may refuse still. */
static ferry_status
run_conversion(void *target, const void *source, size_t count, const void *user)
{
    const struct conversion_call *call = user;
    return ferryi_conversion_apply(call->conversion, target, source, count, call->policy);
}

static ferry_status
check_conversion(const ferry_conversion *conversion, ferry_convert_policy *policy, const char *what)
{
    ferry_status status = ferryi_conversion_check(conversion, what);
    if (status != FERRY_OK)
        return status;
    if (*policy == 0)
        *policy = FERRY_CONVERT_SATURATE;
    if ((unsigned)*policy > FERRY_CONVERT_TRUNCATE)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: conversion policy %d is unknown", what, (int)*policy);
    return FERRY_OK;
}

static ferry_status
check_values(const ferry_conversion *conversion, const void *source, size_t count, ferry_convert_policy policy)
{
    return policy == FERRY_CONVERT_CHECK ? ferryi_conversion_apply(conversion, NULL, source, count, policy) : FERRY_OK;
}

static struct ferryi_transform
transform_of(const struct conversion_call *call)
{
    return (struct ferryi_transform){.run = run_conversion, .source_bytes = call->conversion->from->bytes,
                                     .target_bytes = call->conversion->to->bytes, .user = call};
}

/* True where the device at `place` converts, and should. */
static bool
device_should(ferryi_store *store, int place, const ferry_conversion *conversion, bool from_device, bool to_device)
{
    struct ferryi_convert_path path = {.from_device = from_device, .to_device = to_device, .device_converts = true,
                                       .source_bytes = conversion->from->bytes, .target_bytes = conversion->to->bytes};
    /* Its code is loaded only where it would be used. */
    return ferryi_convert_side(&path) == FERRYI_CONVERT_ON_DEVICE && ferryi_device_converts(store->context, place, conversion);
}

/* -- from the caller's memory ---------------------------------------------------------------------- */

static ferry_status
move_converted(struct ferryi_copy_call *call, struct ferryi_memory target, size_t bytes, struct ferryi_transfer_job *job)
{
    const struct conversion_call *user = call->user;
    const struct ferryi_transform transform = transform_of(user);
    ferryi_store *store = call->main.store;
    const size_t count = bytes / transform.target_bytes;
    if (target.place && device_should(store, target.place, user->conversion, false, true)) {
        struct ferryi_device_conversion work = {store, user->conversion, user->policy, target.place, call->main.lane, &transform};
        return ferryi_device_convert_upload(&work, target.pointer, call->source, count, job);
    }
    struct ferryi_memory source = {.place = 0, .pointer = (void *)(uintptr_t)call->source};
    return ferryi_engine_copy_transformed(store->context->engine, target, source, count, &transform, call->main.lane, job);
}

ferry_status
ferry_buffer_copy_from_converted_with(ferry_buffer *buffer, const ferry_conversion *conversion, size_t offset, const void *source,
                                      size_t count, ferry_convert_policy policy, const ferry_transfer_options *options)
{
    struct ferryi_range range;
    ferry_status status = check_conversion(conversion, &policy, "copy from converted");
    if (status == FERRY_OK)
        status = ferryi_copy_check(buffer, conversion->to, offset, count, source, "copy from converted", &range);
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    count = (range.end - range.begin) / buffer->element_bytes;
    FERRY_TRY(status, out, check_values(conversion, source, count, policy));

    struct ferryi_copy_call call = {.options = options};
    FERRY_TRY(status, out, ferryi_copy_plan_from(&call, buffer->store, range, source, -1));
    struct conversion_call user = {conversion, policy};
    call.move = move_converted;
    call.user = &user;
    status = ferryi_copy_run(&call);
out:
    return status;
}

ferry_status
ferry_buffer_copy_from_converted(ferry_buffer *buffer, const ferry_conversion *conversion, size_t offset, const void *source,
                                 size_t count, ferry_convert_policy policy)
{
    return ferry_buffer_copy_from_converted_with(buffer, conversion, offset, source, count, policy, NULL);
}

/* -- to the caller's memory ------------------------------------------------------------------------ */

static struct ferryi_transfer_job
job_out(const ferry_buffer *buffer, const struct conversion_call *user, size_t count, const ferry_transfer_options *options)
{
    return (struct ferryi_transfer_job){.buffer = ferryi_store_name(buffer->store), .reason = "copy_to", .foreign_target = true,
                                        .options = options, .total = count * user->conversion->to->bytes};
}

/* Between host memories, in parts that the job asks for. */
static ferry_status
convert_on_host(ferryi_engine *engine, void *target, const void *source, size_t count, const struct conversion_call *user,
                struct ferryi_transfer_job *job)
{
    const struct ferryi_transform transform = transform_of(user);
    struct ferryi_memory to = {.pointer = target}, from = {.pointer = (void *)(uintptr_t)source};
    return ferryi_engine_copy_transformed(engine, to, from, count, &transform, NULL, job);
}

/* keep_going of bytes that are no part of the result. */
static bool
ask_only(size_t bytes_done, size_t bytes_total, void *user)
{
    const struct ferryi_transfer_job *job = user;
    (void)bytes_done, (void)bytes_total;
    return job->options->keep_going(0, job->total, job->options->user);
}

/* Where the device cannot look, checked values are fetched once, into memory of their own: none has arrived until all are known to fit. */
static ferry_status
copy_to_checked(ferry_buffer *buffer, const struct conversion_call *user, size_t offset, void *target, size_t count,
                const ferry_transfer_options *options)
{
    const ferry_conversion *conversion = user->conversion;
    struct ferryi_transfer_job job = job_out(buffer, user, count, options);
    const ferry_transfer_options asking = {
        .chunk_bytes = options ? options->chunk_bytes : 0, .keep_going = options && options->keep_going ? ask_only : NULL, .user = &job};
    void *values = malloc(count * buffer->element_bytes);
    if (!values)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "copy to converted: no memory for %zu elements", count);
    ferry_status status = ferry_buffer_copy_to_with(buffer, conversion->from, offset, values, count, &asking);
    if (status == FERRY_ERROR_CANCELLED)
        ferryi_fail(status, "copy to converted: cancelled: 0 of %zu bytes arrived", job.total);
    if (status == FERRY_OK)
        status = check_values(conversion, values, count, user->policy);
    if (status == FERRY_OK)
        status = convert_on_host(buffer->store->context->engine, target, values, count, user, &job);
    free(values);
    return status;
}

/* The elements lie at `source`, at the access's place; a lane means a device. */
static ferry_status
copy_out_converted(const struct ferryi_access *access, struct ferryi_memory source, const struct conversion_call *user, void *target,
                   size_t count, struct ferryi_transfer_job *job)
{
    ferryi_store *store = access->store;
    const struct ferryi_transform transform = transform_of(user);
    struct ferryi_memory to = {.place = 0, .pointer = target};
    if (access->lane) {
        struct ferryi_device_conversion work = {store, user->conversion, user->policy, access->place, access->lane, &transform};
        ferry_status status = user->policy == FERRY_CONVERT_CHECK ? ferryi_device_convert_check(&work, source.pointer, count) : FERRY_OK;
        if (status != FERRY_OK)
            return status;
        if (device_should(store, access->place, user->conversion, true, false))
            return ferryi_device_convert_download(&work, target, source.pointer, count, job);
    }
    return ferryi_engine_copy_transformed(store->context->engine, to, source, count, &transform, access->lane, job);
}

ferry_status
ferry_buffer_copy_to_converted_with(ferry_buffer *buffer, const ferry_conversion *conversion, size_t offset, void *target, size_t count,
                                    ferry_convert_policy policy, const ferry_transfer_options *options)
{
    struct ferryi_range range;
    ferry_status status = check_conversion(conversion, &policy, "copy to converted");
    if (status == FERRY_OK)
        status = ferryi_copy_check(buffer, conversion->from, offset, count, target, "copy to converted", &range);
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    ferryi_store *store = buffer->store;
    count = (range.end - range.begin) / buffer->element_bytes;
    int place = ferryi_copy_home(store, range);
    bool on_host = ferryi_store_same_memory(store, place, 0);
    const struct conversion_call user = {conversion, policy};
    if (policy == FERRY_CONVERT_CHECK && !on_host && !ferryi_device_converts(store->context, place, conversion))
        return copy_to_checked(buffer, &user, offset, target, count, options);

    ferryi_lane *lane = NULL;
    if (!on_host)
        FERRY_TRY(status, out, ferryi_engine_lane(store->context->engine, 0, place, &lane));
    struct ferryi_access access = {.store = store, .begin = range.begin, .end = range.end, .access = FERRY_READ,
                                   .place = (uint8_t)place, .lane = lane, .reason = "copy_to", .derives = true};
    FERRY_TRY(status, out, ferryi_access_open(&access, 1));
    ferryi_claim_is_held();
    struct ferryi_transfer_job job = job_out(buffer, &user, count, options);
    if (on_host)
        status = check_values(conversion, access.pointer, count, policy);
    if (status == FERRY_OK)
        status = copy_out_converted(&access, ferryi_access_memory(store, on_host ? 0 : place, range.begin), &user, target, count, &job);
    ferryi_access_note_loss(store, place, status);
    (void)ferryi_access_close(&access, FERRYI_CLOSE_COMMIT, lane);
out:
    return status;
}

ferry_status
ferry_buffer_copy_to_converted(ferry_buffer *buffer, const ferry_conversion *conversion, size_t offset, void *target, size_t count,
                               ferry_convert_policy policy)
{
    return ferry_buffer_copy_to_converted_with(buffer, conversion, offset, target, count, policy, NULL);
}

/* -- from buffer to buffer ------------------------------------------------------------------------- */

/* Both at one place; a lane means that a device converts. */
static ferry_status
move_between(struct ferryi_copy_call *call, struct ferryi_memory target, size_t bytes, struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    const struct conversion_call *user = call->user;
    ferryi_store *store = call->main.store;
    ferryi_lane *lane = call->main.lane;
    const void *source = ferryi_access_memory(call->other.store, target.place, call->other.begin).pointer;
    const size_t count = bytes / user->conversion->to->bytes;
    struct ferryi_device_conversion work = {store, user->conversion, user->policy, call->main.place, lane, NULL};
    ferry_status status = FERRY_OK;
    if (lane && user->policy == FERRY_CONVERT_CHECK)
        status = ferryi_device_convert_check(&work, source, count);
    else
        status = check_values(user->conversion, source, count, user->policy);
    if (status != FERRY_OK)
        return status;
    return lane ? ferryi_device_convert(&work, target.pointer, source, count, job)
                : convert_on_host(store->context->engine, target.pointer, source, count, user, job);
}

ferry_status
ferry_buffer_convert_with(ferry_buffer *target, const ferry_conversion *conversion, size_t target_offset, ferry_buffer *source,
                          size_t source_offset, size_t count, ferry_convert_policy policy, const ferry_transfer_options *options)
{
    struct ferryi_range to, from;
    ferry_status status = check_conversion(conversion, &policy, "convert a buffer");
    if (status == FERRY_OK)
        status = ferryi_copy_check_pair(target, target_offset, source, source_offset, count, conversion->to, conversion->from, "convert a buffer", &to,
                                        &from);
    if (status != FERRY_OK || to.begin == to.end)
        return status;
    if (target->store == source->store && to.begin < from.end && from.begin < to.end)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "convert buffer \"%s\": source and target overlap", ferryi_store_name(target->store));

    int place = ferryi_copy_meeting_place(target->store, to, source->store, from);
    bool host_reaches = ferryi_store_same_memory(target->store, place, 0) && ferryi_store_same_memory(source->store, place, 0);
    if (!host_reaches && !device_should(target->store, place, conversion, true, true))
        place = FERRY_PLACE_HOST;
    struct conversion_call user = {conversion, policy};
    struct ferryi_copy_call call = {.move = move_between, .user = &user, .options = options};
    status = ferryi_copy_plan(&call, target->store, to, source->store, from, place);
    call.main.reason = call.other.reason = "convert";
    return status == FERRY_OK ? ferryi_copy_run(&call) : status;
}

ferry_status
ferry_buffer_convert(ferry_buffer *target, const ferry_conversion *conversion, size_t target_offset, ferry_buffer *source,
                     size_t source_offset, size_t count, ferry_convert_policy policy)
{
    return ferry_buffer_convert_with(target, conversion, target_offset, source, source_offset, count, policy, NULL);
}
