/* SPDX-License-Identifier: MIT */
#include "src/copy/whole_call.h"

#include "src/buffer/claim.h"
#include "src/stream/event.h"

void
ferryi_whole_call_init(struct ferryi_whole_call *call, ferry_context *context, const char *reason,
                       const ferry_copy_options *options)
{
    call->context = context;
    call->job.reason = reason;
    if (options) {
        call->options = *options;
        call->job.options = &call->options;
    }
}

uint64_t
ferryi_whole_call_claim(const struct ferryi_whole_call *call, const ferryi_store *store)
{
    size_t at = ferryi_claim_list_find(&call->claims, store);
    return at < call->claims.count ? call->claims.items[at].id : 0;
}

void
ferryi_whole_call_note(struct ferryi_whole_call *call, const struct ferryi_transfer_job *job,
                       uint64_t timelines)
{
    call->job.done = job->done;
    call->job.reported = job->reported;
    call->timelines |= timelines;
}

/* Runs a call and then removes its claims. If the call fails, preserves its error message. Unless
 * `out_last` is NULL, sets it to the sync point of the work that the call queued. */
static ferry_status
run(struct ferryi_whole_call *call, ferryi_sync_point *out_last)
{
    struct ferryi_claim_list *claims = &call->claims;
    struct ferryi_kept_error why;
    ferry_status status = call->run(call);
    if (status != FERRY_OK)
        ferryi_last_error_keep(&why);
    if (out_last)
        *out_last = ferryi_sync_points_join(&call->context->order, 0, call->timelines);
    for (size_t i = 0; i < claims->count; i++)
        ferryi_claim_drop(&claims->items[i]);
    claims->count = 0;
    if (status != FERRY_OK)
        ferryi_last_error_restore(&why);
    return status;
}

static ferry_status
run_started(struct ferryi_async *async, ferryi_sync_point *out_last)
{
    struct ferryi_whole_call *call = (struct ferryi_whole_call *)async;
    call->job.cancelled = &async->event->cancelled;
    call->job.arrived = &async->event->arrived;
    return run(call, out_last);
}

static void
free_started(struct ferryi_async *async)
{
    struct ferryi_whole_call *call = (struct ferryi_whole_call *)async;
    call->free(call);
}

ferry_status
ferryi_whole_call_do(struct ferryi_whole_call *call, ferry_event **event)
{
    if (event) {
        call->async = (struct ferryi_async){.claims = call->claims.items,
                                            .claim_count = call->claims.count,
                                            .run = run_started,
                                            .free = free_started};
        return ferryi_async_start(&call->async, call->context, call->job.total, event);
    }
    ferry_status status = ferryi_access_claim(call->claims.items, call->claims.count);
    if (status == FERRY_OK)
        status = run(call, NULL);
    call->free(call);
    return status;
}
