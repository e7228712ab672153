/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_WHOLE_CALL_H
#define FERRYI_WHOLE_CALL_H

/*
 * A call with many ranges: a plan, or a list of regions. It claims all its ranges at once, so that
 * later conflicting calls wait for it. Its steps run one after another and claim their own ranges
 * under those claims. All steps share one job, which counts the progress.
 */

#include "src/buffer/claim_list.h"
#include "src/copy/async.h"

struct ferryi_whole_call {
    struct ferryi_async async; /* must be the first member */
    ferry_context *context;
    /* copy of the caller's options, which may be freed before the call runs */
    ferry_copy_options options;
    struct ferryi_transfer_job job;
    struct ferryi_claim_list claims;
    uint64_t timelines; /* set of the timelines on which the call has queued work, as bits */
    ferry_status (*run)(struct ferryi_whole_call *call); /* called while the claims are held */
    void (*free)(struct ferryi_whole_call *call);        /* called after the claims are dropped */
};

/* Initialises a zeroed call with the context, the reason and the options. The options may be NULL.
 */
void ferryi_whole_call_init(struct ferryi_whole_call *call, ferry_context *context,
                            const char *reason, const ferry_copy_options *options);
/* Claims, runs and frees a call. Runs it on this thread, or on a worker if `event` is not NULL. */
ferry_status ferryi_whole_call_do(struct ferryi_whole_call *call, ferry_event **event);

/* Returns the id of the call's claim on a store. Returns 0 if the call has no claim on it. */
uint64_t ferryi_whole_call_claim(const struct ferryi_whole_call *call, const ferryi_store *store);
/* Stores the progress of a finished step in the call. Adds the timelines on which the step queued
 * work. */
void ferryi_whole_call_note(struct ferryi_whole_call *call, const struct ferryi_transfer_job *job,
                            uint64_t timelines);

#endif
