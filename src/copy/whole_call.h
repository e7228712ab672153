/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_WHOLE_CALL_H
#define FERRYI_WHOLE_CALL_H

/*
 * A copy call with many ranges, which runs as a plan (plan.c) or as a list of regions
 * (region_list.c). The call claims all its ranges at once, so that later conflicting calls wait for
 * it. Its steps run one after another, and each step claims its own ranges under the claims of the
 * call. All steps share one job, which counts the progress.
 */

#include "src/buffer/claim_list.h"
#include "src/copy/async.h"

struct ferryi_whole_call {
    struct ferryi_async async; /* must be the first member */
    ferry_context *context;
    /* copy of the caller's options, because the caller may free its own before the call runs */
    ferry_copy_options options;
    struct ferryi_transfer_job job;
    struct ferryi_claim_list claims;
    uint64_t timelines; /* set of the timelines on which the call has queued work, as bits */
    ferry_status (*run)(struct ferryi_whole_call *call); /* called while the claims are held */
    void (*free)(struct ferryi_whole_call *call);        /* called after the claims are dropped */
};

/* Initialises a zeroed call. `reason` names the call in messages. `options` may be NULL. */
void ferryi_whole_call_init(struct ferryi_whole_call *call, ferry_context *context,
                            const char *reason, const ferry_copy_options *options);
/* Claims the ranges of a call, runs the call and frees it. Runs it on this thread, or on a worker
 * if `event` is not NULL. */
ferry_status ferryi_whole_call_do(struct ferryi_whole_call *call, ferry_event **event);

/* Returns the id of the call's claim on a store. Returns 0 if the call has no claim on it. */
uint64_t ferryi_whole_call_claim(const struct ferryi_whole_call *call, const ferryi_store *store);
/* Takes over the progress of a finished step into the call. `timelines` is the set of timelines on
 * which the step queued work. */
void ferryi_whole_call_note(struct ferryi_whole_call *call, const struct ferryi_transfer_job *job,
                            uint64_t timelines);

#endif
