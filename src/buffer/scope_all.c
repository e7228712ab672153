/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/buffer/checked.h"
#include "src/buffer/claim.h"
#include "src/buffer/observe.h"
#include "src/buffer/scope.h"

/* Opens several scopes at once: all of them or none. Scopes with overlapping ranges share one range
 * lock (claim). */

static ferry_status
check_argument(const ferry_argument *argument, size_t index, const ferry_context *context,
               struct ferryi_range *out)
{
    if (argument->is_value)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open several buffers: argument %zu is a value", index);
    if (argument->access < FERRY_READ || argument->access > FERRY_OVERWRITE)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "open several buffers: argument %zu has no access; see ferry_argument_with()", index);
    ferry_status status = ferryi_buffer_check(argument->buffer, argument->element, argument->offset,
                                              argument->count, "open several buffers", out);
    if (status == FERRY_OK && argument->buffer->store->context != context)
        status =
            ferryi_fail(FERRY_ERROR_WRONG_CONTEXT,
                        "open several buffers: argument %zu belongs to another context", index);
    return status;
}

/* Fills `wanted` with one access for each argument whose range is not empty. `index[i]` is the
 * index in `wanted` of the access of argument i, or SIZE_MAX if the argument's range is empty. */
static ferry_status
collect(const ferry_argument *arguments, size_t count, int place, ferryi_timeline *timeline,
        struct ferryi_access *wanted, size_t *index, size_t *out_used)
{
    ferry_context *context = arguments[0].buffer->store->context;
    ferryi_site site = ferryi_shell_site(context, FERRYI_SITE_NONE);
    *out_used = 0;
    for (size_t i = 0; i < count; i++) {
        struct ferryi_range range;
        ferry_status status = check_argument(&arguments[i], i, context, &range);
        if (status != FERRY_OK)
            return status;
        index[i] = range.begin == range.end ? SIZE_MAX : *out_used;
        if (range.begin != range.end)
            wanted[(*out_used)++] = (struct ferryi_access){.store = arguments[i].buffer->store,
                                                           .begin = range.begin,
                                                           .end = range.end,
                                                           .access = (uint8_t)arguments[i].access,
                                                           .place = (uint8_t)place,
                                                           .user = true,
                                                           .timeline = timeline,
                                                           .reason = "open_all",
                                                           .site = site};
    }
    return FERRY_OK;
}

/* Numbers the scope among the scopes that share its claim (range lock), starting with 1. Only a
 * scope that was opened alone has number 0, which allows the fast path to close it. */
static void
share_claim(const struct ferryi_access *from, struct ferryi_scope *scope)
{
    ferryi_store_lock(from->store);
    uint32_t *shares = &from->store->claims[from->slot].shares;
    if (*shares == 1) {
        *shares = 1u << 1;
        scope->share = 1;
    } else {
        scope->share = 32u - (uint32_t)__builtin_clz(*shares);
        *shares |= 1u << scope->share;
    }
    ferryi_store_unlock(from->store);
}

static void
hand_out(ferry_scope *scopes, void **pointers, size_t count, const struct ferryi_access *wanted,
         const struct ferryi_access *merged, const size_t *index, const size_t *group)
{
    for (size_t i = 0; i < count; i++) {
        memset(&scopes[i], 0, sizeof(scopes[i]));
        if (pointers)
            pointers[i] = NULL;
        if (index[i] == SIZE_MAX)
            continue;
        const struct ferryi_access *own = &wanted[index[i]], *from = &merged[group[index[i]]];
        void *pointer = (char *)from->pointer + (own->begin - from->begin);
        ferryi_scope_set(ferryi_scope_of(&scopes[i]), from);
        if (pointers)
            pointers[i] =
                ferryi_checked_opened(from->store, from->place, pointer, from->reason, from->site,
                                      (struct ferryi_range){own->begin, own->end});
        share_claim(from, ferryi_scope_of(&scopes[i]));
    }
}

/* Returns whether every group of overlapping ranges has few enough scopes to share one range lock
 * (claim). */
static bool
shares_suffice(const size_t *group, size_t used)
{
    for (size_t i = 0; i < used; i++) {
        size_t members = 0;
        for (size_t j = 0; j < used; j++)
            members += group[j] == group[i];
        if (members >= FERRYI_CLAIM_SHARES)
            return false;
    }
    return true;
}

ferry_status
ferry_scope_open_all(ferry_scope *scopes, void **out_pointers, const ferry_argument *arguments,
                     size_t count, int place, ferry_stream *stream)
{
    if (count == 0)
        return FERRY_OK;
    if (!scopes || !arguments || !arguments[0].buffer)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open several buffers: scopes, arguments or the first buffer is NULL");
    ferry_context *context = arguments[0].buffer->store->context;
    ferryi_timeline *timeline = NULL;
    ferry_status status = ferryi_shell_check_place(context, place, "open several buffers");
    if (status == FERRY_OK && place == 0 && stream)
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                             "open several buffers at the host: the stream is not NULL");
    if (status == FERRY_OK && place != 0)
        status = ferryi_stream_find_timeline(context, stream ? stream : context->defaults[place],
                                             "open several buffers", &timeline);
    if (status == FERRY_OK && timeline && timeline->place != place)
        status = ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                             "open several buffers at place %d on a stream of place %d", place,
                             timeline->place);
    if (status != FERRY_OK)
        return status;

    struct ferryi_access *wanted = calloc(count, 2 * sizeof(*wanted));
    size_t *index = calloc(count, 2 * sizeof(*index));
    if (wanted && index) {
        struct ferryi_access *merged = wanted + count;
        size_t *group = index + count;
        size_t used, left = 0;
        status = collect(arguments, count, place, timeline, wanted, index, &used);
        if (status == FERRY_OK) {
            left = ferryi_access_merge(wanted, used, merged, group);
            if (!shares_suffice(group, used))
                status = ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                                     "open %zu buffers: more than %d ranges of one buffer overlap",
                                     count, FERRYI_CLAIM_SHARES - 1);
        }
        if (status == FERRY_OK)
            status = ferryi_access_open(merged, left);
        if (status == FERRY_OK) {
            for (size_t i = 0; context->trace && i < left; i++)
                ferryi_observe_open(
                    merged[i].store, (struct ferryi_range){merged[i].begin, merged[i].end},
                    (ferry_access)merged[i].access, place, timeline, merged[i].id, "open_all");
            hand_out(scopes, out_pointers, count, wanted, merged, index, group);
        }
    } else {
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                             "open %zu buffers: no memory for their scopes", count);
    }
    free(wanted);
    free(index);
    return status;
}

void
ferry_scope_close_all(ferry_scope *scopes, size_t count)
{
    for (size_t i = 0; scopes && i < count; i++) {
        ferryi_store *store = ferryi_scope_of(&scopes[i])->store;
        ferry_context *context = store ? store->context : NULL;
        if (ferry_scope_close(&scopes[i]) != FERRY_OK && context)
            ferryi_log(&context->log, FERRY_LOG_ERROR, "close scope %zu of %zu: %s", i, count,
                       ferry_last_error());
    }
}
