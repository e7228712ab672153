/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/convert.h"
#include "src/buffer/copy.h"

/*
 * Copies that convert on the way. The engine converts into and out of its staging chunks, so an upload crosses in the
 * target's size. Checked conversions look at every element before anything is written.
 */

struct conversion_call {
    const ferry_conversion *conversion;
    ferry_convert_policy policy;
};

static void
run_conversion(void *target, const void *source, size_t count, const void *user)
{
    const struct conversion_call *call = user;
    /* What the policy could refuse was refused before. */
    (void)!ferryi_conversion_apply(call->conversion, target, source, count, call->policy);
}

static ferry_status
check_conversion(const ferry_conversion *conversion, ferry_convert_policy *policy, const char *what)
{
    ferry_status status = ferryi_conversion_check(conversion, what);
    if (status != FERRY_OK)
        return status;
    if (*policy == 0)
        *policy = FERRY_CONVERT_SATURATE;
    if (*policy < FERRY_CONVERT_SATURATE || *policy > FERRY_CONVERT_TRUNCATE)
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

/* -- from the caller's memory ---------------------------------------------------------------------- */

ferry_status
ferry_buffer_copy_from_converted(ferry_buffer *buffer, const ferry_conversion *conversion, size_t offset, const void *source,
                                 size_t count, ferry_convert_policy policy)
{
    struct ferryi_range range;
    ferry_status status = check_conversion(conversion, &policy, "copy from converted");
    if (status == FERRY_OK)
        status = ferryi_copy_check(buffer, conversion->to, offset, count, source, "copy from converted", &range);
    if (status != FERRY_OK || range.begin == range.end)
        return status;
    count = (range.end - range.begin) / buffer->element_bytes;
    FERRY_TRY(status, out, check_values(conversion, source, count, policy));

    struct ferryi_copy_call call = {0};
    FERRY_TRY(status, out, ferryi_copy_plan_from(&call, buffer->store, range, source, -1));
    struct conversion_call user = {conversion, policy};
    struct ferryi_transform transform = transform_of(&user);
    call.transform = &transform;
    status = ferryi_copy_run(&call);
out:
    return status;
}

/* -- to the caller's memory ------------------------------------------------------------------------ */

/* Checked values are looked at in host memory first: what comes from a device is fetched once, into memory of its own. */
static ferry_status
copy_to_checked(ferry_buffer *buffer, const ferry_conversion *conversion, size_t offset, void *target, size_t count)
{
    void *values = malloc(count * buffer->element_bytes);
    if (!values)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "copy to converted: no memory for %zu elements", count);
    ferry_status status = ferry_buffer_copy_to(buffer, conversion->from, offset, values, count);
    if (status == FERRY_OK)
        status = ferryi_conversion_apply(conversion, target, values, count, FERRY_CONVERT_CHECK);
    free(values);
    return status;
}

ferry_status
ferry_buffer_copy_to_converted(ferry_buffer *buffer, const ferry_conversion *conversion, size_t offset, void *target, size_t count,
                               ferry_convert_policy policy)
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
    if (policy == FERRY_CONVERT_CHECK && !on_host)
        return copy_to_checked(buffer, conversion, offset, target, count);

    ferryi_lane *lane = NULL;
    if (!on_host)
        FERRY_TRY(status, out, ferryi_engine_lane(store->context->engine, 0, place, &lane));
    struct ferryi_access access = {.store = store, .begin = range.begin, .end = range.end, .access = FERRY_READ,
                                   .place = (uint8_t)place, .lane = lane, .reason = "copy_to"};
    FERRY_TRY(status, out, ferryi_access_open(&access, 1));
    status = check_values(conversion, access.pointer, count, policy);
    if (status == FERRY_OK) {
        struct conversion_call user = {conversion, policy};
        struct ferryi_transform transform = transform_of(&user);
        struct ferryi_transfer_job job = {.buffer = ferryi_store_name(store), .reason = "copy_to", .foreign_target = true};
        struct ferryi_memory to = {.place = 0, .pointer = target};
        status = ferryi_engine_copy_transformed(store->context->engine, to, ferryi_access_memory(store, on_host ? 0 : place, range.begin), count,
                                                &transform, lane, &job);
        ferryi_access_note_loss(store, place, status);
    }
    (void)ferryi_access_close(&access, FERRYI_CLOSE_COMMIT, NULL);
out:
    return status;
}

/* -- from buffer to buffer ------------------------------------------------------------------------- */

ferry_status
ferry_buffer_convert(ferry_buffer *target, const ferry_conversion *conversion, size_t target_offset, ferry_buffer *source,
                     size_t source_offset, size_t count, ferry_convert_policy policy)
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
    count = (to.end - to.begin) / target->element_bytes;

    struct ferryi_copy_call call = {0};
    FERRY_TRY(status, out, ferryi_copy_plan(&call, target->store, to, source->store, from, FERRY_PLACE_HOST));
    FERRY_TRY(status, out, ferryi_copy_claim(&call));
    struct ferryi_access both[2] = {call.main, call.other};
    FERRY_TRY(status, out, ferryi_access_prepare(both, 2));
    status = check_values(conversion, both[1].pointer, count, policy);
    if (status == FERRY_OK) {
        struct conversion_call user = {conversion, policy};
        run_conversion(both[0].pointer, both[1].pointer, count, &user);
        (void)ferryi_access_close(&call.main, FERRYI_CLOSE_COMMIT, NULL);
    } else {
        (void)ferryi_access_close(&call.main, FERRYI_CLOSE_CANCEL, NULL);
    }
    (void)ferryi_access_close(&call.other, FERRYI_CLOSE_COMMIT, NULL);
out:
    return status;
}
