/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ASYNC_H
#define FERRYI_ASYNC_H

/* Asynchronous calls. The caller's thread claims the ranges that a call uses. A helper thread
 * (worker.h) then moves the bytes and completes the call's event. */

#include "src/buffer/buffer.h"
#include "src/buffer/claim_list.h"
#include "src/buffer/worker.h"

/* The first member of each asynchronous call. */
struct ferryi_async {
    struct ferryi_job job;
    ferry_context *context;
    ferry_event *event; /* event->cancelled requests a cancel */
    ferryi_site site;   /* call site in the program, in a checked run */
    bool is_hint;       /* whether the call is a prefetch, which does not fail if memory cannot be
                           allocated */
    struct ferryi_access *claims;
    size_t claim_count;
    ferry_status (*run)(
        struct ferryi_async *async,
        ferryi_sync_point *out_last); /* moves the bytes and removes the claims; sets *out_last to
                                         the sync point of the last device work */
    void (*free)(struct ferryi_async *async); /* called after the claims are removed */
};

struct ferryi_copy_call;
/* Starts a planned copy or fill asynchronously. Claims its ranges on this thread, so that later
 * conflicting calls wait for it, and submits it to a worker. `out` may be NULL. */
ferry_status ferryi_async_copy(const struct ferryi_copy_call *call, ferry_event **out);

/* Runs a planned call on this thread. If its options contain an event, starts it asynchronously
 * instead. */
ferry_status ferryi_async_run(struct ferryi_copy_call *call);

/* Sets *out to the place of the stream that a call's options name. Sets *out to -1 if there is no
 * stream. `options` may be NULL. */
ferry_status ferryi_async_place(ferry_context *context, const ferry_copy_options *options,
                                const char *what, int *out);
/* Ends a call that has nothing to do. If its options contain an event, creates this event, which is
 * already complete. `options` may be NULL. */
ferry_status ferryi_async_finished(ferry_context *context, const ferry_copy_options *options);

/*
 * A copy call with many ranges, which runs as a plan (plan.c) or as a list of regions
 * (region_list.c). The call claims all its ranges at once, so that later conflicting calls wait for
 * it. Its steps run one after another, and each step claims its own ranges under the claims of the
 * call. All steps share one job, which counts the progress.
 */
struct ferryi_whole_call {
    struct ferryi_async async; /* must be the first member */
    /* copy of the caller's options, because the caller may free its own before the call runs */
    ferry_copy_options options;
    struct ferryi_transfer_job job;
    struct ferryi_claim_list claims;
    uint64_t timelines; /* set of the timelines on which the call has queued work, as bits */
    ferry_status (*run)(struct ferryi_whole_call *call); /* called while the claims are held */
};

/* Initialises a zeroed call, except its `async.free` and its `run`. `reason` names the call in
 * messages. `options` may be NULL. */
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
