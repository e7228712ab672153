/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_WHOLE_CALL_H
#define FERRYI_WHOLE_CALL_H

/*
 * A call of many ranges: a plan, or a list of regions. It claims everything that it uses at once,
 * which fixes its place in the order of calls. Its steps may claim under those claims, one after
 * the other; they share one job, in which progress is counted.
 */

#include "src/buffer/claim_list.h"
#include "src/copy/async.h"

struct ferryi_whole_call {
    struct ferryi_async async; /* first */
    ferry_context *context;
    ferry_copy_options options; /* of the job: the caller's may be gone before they are needed */
    struct ferryi_transfer_job job;
    struct ferryi_claim_list claims;
    uint64_t timelines;                                  /* that work was queued on */
    ferry_status (*run)(struct ferryi_whole_call *call); /* under the claims */
    void (*free)(struct ferryi_whole_call *call);        /* after they are gone */
};

/* `options` or NULL. */
void ferryi_whole_call_init(struct ferryi_whole_call *call, ferry_context *context,
                            const char *reason, const ferry_copy_options *options);
/* Claims, runs and frees the call: on this thread, or on the helper thread where `event` is not
 * NULL. */
ferry_status ferryi_whole_call_do(struct ferryi_whole_call *call, ferry_event **event);

/* The call's claim on a store; 0: it has none. */
uint64_t ferryi_whole_call_claim(const struct ferryi_whole_call *call, const ferryi_store *store);
/* A step has ended: how far the job came, and the timelines that it used. */
void ferryi_whole_call_note(struct ferryi_whole_call *call, const struct ferryi_transfer_job *job,
                            uint64_t timelines);

#endif
