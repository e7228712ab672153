/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/buffer/buffer.h"
#include "src/buffer/scope.h"
#include "src/store/claim.h"
#include "src/store/watch.h"

/* Opens several scopes at once: all of them or none. Ranges that overlap, and are only read, are
 * opened as one range, which is then split. */

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
    if (argument->buffer && !argument->element)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open several buffers: the element of argument %zu is NULL", index);
    ferry_status status =
        ferryi_buffer_check(argument->buffer, argument->element, argument->access, argument->offset,
                            argument->count, "open several buffers", out);
    if (status != FERRY_OK)
        return status;
    assert(argument->buffer);
    return argument->buffer->store->context == context
               ? FERRY_OK
               : ferryi_fail(FERRY_ERROR_WRONG_CONTEXT,
                             "open several buffers: argument %zu belongs to another context",
                             index);
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
            wanted[(*out_used)++] = (struct ferryi_access){
                .store = arguments[i].buffer->store,
                .begin = range.begin,
                .end = range.end,
                .access = (uint8_t)arguments[i].access,
                .place = (uint8_t)place,
                .user = true,
                .to_end = ferryi_scope_goes_to_end(arguments[i].buffer, arguments[i].count),
                .timeline = timeline,
                .reason = "open_all",
                .site = site};
    }
    return FERRY_OK;
}

/* The ranges that one call opens. Arrays of `count` elements are indexed by argument. */
struct opening {
    const ferry_argument *arguments;
    size_t count;
    struct ferryi_access *wanted; /* one access for each range that is not empty */
    size_t used;                  /* number of these accesses */
    struct ferryi_access *merged; /* the same, with ranges that overlap joined */
    size_t merged_count;
    size_t *index;   /* index in `wanted`, or SIZE_MAX */
    size_t *group;   /* for each access of `wanted`, its index in `merged` */
    size_t *members; /* for each access of `merged`, how many accesses were merged into it */
};

static void
opening_free(struct opening *o)
{
    free(o->wanted);
    free(o->index);
}

static ferry_status
opening_new(struct opening *o, const ferry_argument *arguments, size_t count)
{
    *o = (struct opening){.arguments = arguments, .count = count};
    o->wanted = calloc(count, 2 * sizeof(*o->wanted));
    o->index = calloc(count, 3 * sizeof(*o->index));
    if (!o->wanted || !o->index) {
        opening_free(o);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "open %zu buffers: no memory for their scopes", count);
    }
    o->merged = o->wanted + count;
    o->group = o->index + count;
    o->members = o->group + count;
    return FERRY_OK;
}

/* Joins the ranges that overlap. Fails if one of them is written. */
static ferry_status
merge(struct opening *o)
{
    o->merged_count = ferryi_access_merge(o->wanted, o->used, o->merged, o->group);
    for (size_t i = 0; i < o->used; i++)
        o->members[o->group[i]]++;
    for (size_t i = 0; i < o->merged_count; i++)
        if (o->merged[i].access != FERRY_READ && o->members[i] > 1)
            return ferryi_fail(FERRY_ERROR_BUSY,
                               "open %zu buffers: %zu ranges of buffer \"%s\" overlap, and one of "
                               "them is written; open bytes %zu to %zu once, with FERRY_UPDATE",
                               o->count, o->members[i], ferryi_store_name(o->merged[i].store),
                               o->merged[i].begin, o->merged[i].end);
    return FERRY_OK;
}

/* Returns whether several accesses were joined, each of which gets its own claim (range lock). */
static bool
is_split(const struct opening *o, size_t merged)
{
    return o->members[merged] > 1;
}

/* Gives each of several READ scopes that overlap a separate claim (range lock). The claim of the
 * merged access is then no longer needed. If memory is short, closes every scope of the call. */
static ferry_status
split_reads(struct opening *o)
{
    ferry_status status = FERRY_OK;
    size_t done = 0;
    for (; done < o->used && status == FERRY_OK; done++)
        if (is_split(o, o->group[done]))
            status = ferryi_claim_share_read(&o->merged[o->group[done]], &o->wanted[done]);
    for (size_t i = 0; i + 1 < done && status != FERRY_OK; i++)
        if (is_split(o, o->group[i]))
            ferryi_claim_drop(&o->wanted[i]);
    for (size_t i = 0; i < o->merged_count; i++)
        if (status != FERRY_OK || is_split(o, i))
            (void)ferryi_access_close(&o->merged[i], FERRYI_CLOSE_CANCEL, o->merged[i].timeline);
    return status;
}

static ferry_status
open_ranges(struct opening *o)
{
    FERRYI_OR_RETURN(merge(o));
    FERRYI_OR_RETURN(ferryi_access_open(o->merged, o->merged_count));
    return split_reads(o);
}

static bool
has_rest(const struct opening *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->arguments[i].count == FERRY_REST)
            return true;
    return false;
}

/* Opens the ranges of all arguments. Starts over if an argument is the rest of a buffer that
 * another thread resized before the range was locked. */
static ferry_status
open_arguments(struct opening *o, int place, ferryi_timeline *timeline)
{
    ferry_status status;
    do {
        memset(o->members, 0, o->count * sizeof(*o->members));
        status = collect(o->arguments, o->count, place, timeline, o->wanted, o->index, &o->used);
        if (status == FERRY_OK)
            status = open_ranges(o);
    } while (ferryi_buffer_starts_over(status, FERRY_REST) && has_rest(o));
    return status;
}

static void
hand_out(const struct opening *o, ferry_scope *scopes, void **pointers)
{
    for (size_t i = 0; i < o->merged_count; i++)
        if (!is_split(o, i))
            ferryi_watch_opened(&o->merged[i]);
    for (size_t i = 0; i < o->count; i++) {
        memset(&scopes[i], 0, sizeof(scopes[i]));
        if (pointers)
            pointers[i] = NULL;
        if (o->index[i] == SIZE_MAX)
            continue;
        size_t group = o->group[o->index[i]];
        const struct ferryi_access *own = &o->wanted[o->index[i]], *merged = &o->merged[group],
                                   *from = is_split(o, group) ? own : merged;
        void *pointer = (char *)merged->pointer + (own->begin - merged->begin);
        ferryi_scope_set(ferryi_scope_of(&scopes[i]), from);
        if (from == own)
            ferryi_watch_opened(own);
        if (pointers)
            pointers[i] =
                ferryi_watch_pointer(from->store, from->place, pointer, from->reason, from->site,
                                     (struct ferryi_range){own->begin, own->end});
    }
}

ferry_status
ferry_scope_open_all(const ferry_argument *arguments, size_t count, int place, ferry_stream *stream,
                     ferry_scope *scopes, void **out_pointers)
{
    FERRYI_OR_RETURN(ferryi_callback_check("open several buffers"));
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

    struct opening opening;
    FERRYI_OR_RETURN(opening_new(&opening, arguments, count));
    status = open_arguments(&opening, place, timeline);
    if (status == FERRY_OK)
        hand_out(&opening, scopes, out_pointers);
    opening_free(&opening);
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
