/* SPDX-License-Identifier: MIT */
#include <ferry/batch.h>

#include <stdlib.h>

#include "src/base/callback.h"
#include "src/base/guarded.h"
#include "src/buffer/copy.h"
#include "src/buffer/plan.h"

/* The public batch: a list of copies that keeps their stores alive. What runs is a plan of it. */

struct ferry_batch {
    ferry_context *context; /* counted */
    struct ferryi_plan_copy *copies;
    size_t count, room;
    bool gone; /* destroyed: a checked run keeps it */
    bool submitting; /* a callback of that must leave the list alone */
};

static ferry_status
check(const ferry_batch *batch, const char *what)
{
    if (!batch)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the batch is NULL", what);
    if (batch->gone)
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s: the batch was destroyed", what);
    ferry_status status = ferryi_context_check_open(batch->context, what);
    if (status == FERRY_OK && batch->submitting)
        status = ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s: the batch is being submitted", what);
    return status;
}

ferry_status
ferry_batch_create(ferry_context *context, ferry_batch **out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a batch: %s is NULL", context ? "out" : "the context");
    ferry_status status = ferryi_context_check_open(context, "create a batch");
    if (status != FERRY_OK)
        return status;
    ferry_batch *batch = calloc(1, sizeof(*batch));
    if (!batch)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create a batch: no memory for %zu bytes", sizeof(*batch));
    batch->context = context;
    ferryi_context_retain(context);
    *out = batch;
    return FERRY_OK;
}

static ferry_status
fail_resized(const ferryi_store *store, const char *what)
{
    return ferryi_fail(FERRY_ERROR_OUT_OF_RANGE, "%s: buffer \"%s\" was resized meanwhile", what, ferryi_store_name(store));
}

static ferry_status
add(ferry_batch *batch, const struct ferryi_plan_copy *copy, const char *what)
{
    const ferryi_store *stores[2] = {copy->target_store, copy->source_store};
    for (int i = 0; i < 2; i++)
        if (stores[i] && stores[i]->context != batch->context)
            return ferryi_fail(FERRY_ERROR_WRONG_CONTEXT, "%s: buffer \"%s\" belongs to another context than the batch", what,
                               ferryi_store_name(stores[i]));
    if (copy->bytes == 0)
        return FERRY_OK;
    if (batch->count == batch->room) {
        size_t room = batch->room ? 2 * batch->room : 16;
        struct ferryi_plan_copy *grown = realloc(batch->copies, room * sizeof(*grown));
        if (!grown)
            return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s: no memory for %zu copies", what, room);
        batch->copies = grown;
        batch->room = room;
    }
    if (copy->target_store && !ferryi_store_retain(copy->target_store, copy->target + copy->bytes))
        return fail_resized(copy->target_store, what);
    if (copy->source_store && !ferryi_store_retain(copy->source_store, copy->source + copy->bytes)) {
        if (copy->target_store)
            ferryi_store_release(copy->target_store);
        return fail_resized(copy->source_store, what);
    }
    batch->copies[batch->count++] = *copy;
    return FERRY_OK;
}

ferry_status
ferry_batch_copy_from(ferry_batch *batch, ferry_buffer *buffer, const ferry_element *element, size_t offset, const void *source,
                      size_t count)
{
    static const char what[] = "add a copy from memory to a batch";
    struct ferryi_range range;
    ferry_status status = check(batch, what);
    if (status == FERRY_OK)
        status = ferryi_copy_check(buffer, element, offset, count, source, what, &range);
    if (status != FERRY_OK)
        return status;
    struct ferryi_plan_copy copy = {buffer->store, NULL, range.begin, (uintptr_t)source, range.end - range.begin, false};
    return add(batch, &copy, what);
}

ferry_status
ferry_batch_copy_to(ferry_batch *batch, ferry_buffer *buffer, const ferry_element *element, size_t offset, void *target, size_t count)
{
    static const char what[] = "add a copy to memory to a batch";
    struct ferryi_range range;
    ferry_status status = check(batch, what);
    if (status == FERRY_OK)
        status = ferryi_copy_check(buffer, element, offset, count, target, what, &range);
    if (status != FERRY_OK)
        return status;
    struct ferryi_plan_copy copy = {NULL, buffer->store, (uintptr_t)target, range.begin, range.end - range.begin, false};
    return add(batch, &copy, what);
}

ferry_status
ferry_batch_copy(ferry_batch *batch, ferry_buffer *target, const ferry_element *element, size_t target_offset, ferry_buffer *source,
                 size_t source_offset, size_t count)
{
    static const char what[] = "add a copy of a buffer to a batch";
    struct ferryi_range to, from;
    ferry_status status = check(batch, what);
    if (status == FERRY_OK)
        status = ferryi_copy_check_pair(target, target_offset, source, source_offset, count, element, element, what, &to, &from);
    if (status != FERRY_OK)
        return status;
    struct ferryi_plan_copy copy = {target->store, source->store, to.begin, from.begin, to.end - to.begin, false};
    return add(batch, &copy, what);
}

size_t
ferry_batch_count(const ferry_batch *batch)
{
    return batch ? batch->count : 0;
}

ferry_status
ferry_batch_submit_with(ferry_batch *batch, const ferry_transfer_options *options)
{
    const struct ferryi_plan_options plan = {.reason = "batch", .place = -1, .transfer = options};
    ferry_status status = check(batch, "submit a batch");
    if (status != FERRY_OK || batch->count == 0)
        return status;
    batch->submitting = true;
    status = ferryi_plan_do(batch->context, batch->copies, batch->count, &plan);
    batch->submitting = false;
    return status;
}

ferry_status
ferry_batch_submit(ferry_batch *batch)
{
    return ferry_batch_submit_with(batch, NULL);
}

ferry_status
ferry_batch_submit_async(ferry_batch *batch, ferry_stream *stream, ferry_event **out)
{
    struct ferryi_plan_options options = {.reason = "batch"};
    ferry_status status = check(batch, "submit a batch");
    if (status == FERRY_OK)
        status = ferryi_async_place(batch->context, stream, "submit a batch", &options.place);
    if (status != FERRY_OK)
        return status;
    if (batch->count == 0)
        return ferryi_async_finished(batch->context, out);
    return ferryi_plan_start(batch->context, batch->copies, batch->count, &options, out);
}

/* Inside a callback: of a batch that is being submitted, or where buffers must not end. */
static bool
must_stay(const ferry_batch *batch, const char *what)
{
    return ferryi_callback_refuses_end(&batch->context->log, batch->submitting ? FERRYI_CALLBACK_FREE : FERRYI_CALLBACK_ASK, what);
}

static void
clear(ferry_batch *batch)
{
    while (batch->count > 0) {
        struct ferryi_plan_copy *copy = &batch->copies[--batch->count];
        if (copy->target_store)
            ferryi_store_release(copy->target_store);
        if (copy->source_store)
            ferryi_store_release(copy->source_store);
    }
}

void
ferry_batch_clear(ferry_batch *batch)
{
    if (batch && !must_stay(batch, "clear a batch"))
        clear(batch);
}

static void
release(void *header)
{
    ferry_batch *batch = header;
    ferryi_context_release(batch->context);
    free(batch);
}

void
ferry_batch_destroy(ferry_batch **batch)
{
    if (!batch || !*batch)
        return;
    ferry_batch *gone = *batch;
    if (must_stay(gone, "destroy a batch"))
        return;
    *batch = NULL;
    if (gone->gone) {
        ferryi_log(&gone->context->log, FERRY_LOG_ERROR, "destroy a batch: it was destroyed before");
        return;
    }
    clear(gone);
    free(gone->copies);
    gone->copies = NULL;
    gone->room = 0;
    gone->gone = true;
    if (gone->context->debug)
        ferryi_bury(gone, release);
    else
        release(gone);
}
