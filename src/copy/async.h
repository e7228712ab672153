/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ASYNC_H
#define FERRYI_ASYNC_H

/* Asynchronous calls. The caller's thread locks the byte ranges that a call uses. A worker thread
 * (worker.h) then moves the bytes, unlocks the ranges and completes the call's event. A lock on a
 * range is called a claim. */

#include "src/buffer/buffer.h"
#include "src/buffer/worker.h"
#include "src/store/claim_list.h"

/* State of an asynchronous call. Each struct of such a call has this struct as its first member. */
struct ferryi_async {
    struct ferryi_job job;
    ferry_context *context;
    ferry_event *event; /* event->cancelled is set to cancel the call */
    ferryi_site site;   /* address of the call in the program; set only with debug checks */
    const char *hint;   /* the name of the call if it is a hint; or NULL */
    struct ferryi_access *claims;
    size_t claim_count;
    ferry_status (*run)(
        struct ferryi_async *async,
        ferryi_sync_point *out_last); /* moves the bytes and unlocks the ranges; sets *out_last to
                                         the sync point of the last device work */
    /* Frees the call; called after its ranges were unlocked. */
    void (*free)(struct ferryi_async *async);
};

/* What the caller of a copy does: it waits for the copy, or it goes on while a worker thread runs
 * the copy. */
struct ferryi_caller {
    bool goes_on;
    ferry_event **event; /* receives the event of a copy whose caller goes on. NULL: the caller will
                            not wait for this copy */
};

/* Returns whether no one will learn from an event that the copy failed. */
static inline bool
ferryi_caller_never_waits(struct ferryi_caller caller)
{
    return caller.goes_on && !caller.event;
}

struct ferryi_copy_call;
/* Starts a prepared copy or fill asynchronously. Locks its ranges on this thread, so that later
 * conflicting calls wait for it, and submits it to a worker thread. `out` may be NULL. */
ferry_status ferryi_async_copy(const struct ferryi_copy_call *call, ferry_event **out);

/* Runs a prepared copy or fill: on a worker thread if the caller goes on, otherwise on this thread.
 */
ferry_status ferryi_async_run(struct ferryi_copy_call *call, struct ferryi_caller caller);

/* Returns INVALID_ARGUMENT if the options contain a conversion policy that does not exist.
 * `options` may be NULL. */
ferry_status ferryi_async_check_policy(const ferry_copy_options *options, const char *what);
/* Sets *out to the place of the stream that a call's options name. Sets *out to -1 if there is no
 * stream. Checks the conversion policy, too. `options` may be NULL. */
ferry_status ferryi_async_place(ferry_context *context, const ferry_copy_options *options,
                                const char *what, int *out);
struct ferryi_recording;
/* Returns the graph that is being recorded from the stream that a call's options name. Returns NULL
 * if there is none, and for a call that a graph cannot contain, which ferryi_async_place() then
 * refuses. */
struct ferryi_recording *ferryi_async_recording(ferry_context *context,
                                                const ferry_copy_options *options,
                                                struct ferryi_caller caller);
/* Completes a call that has nothing to do. If the caller wants an event, creates one that is
 * already complete. */
ferry_status ferryi_async_finished(ferry_context *context, struct ferryi_caller caller);

/*
 * A copy call with many ranges, which runs as a plan, a list of copies (plan.c), or as a list of
 * regions (region_list.c). The call locks all its ranges at once, so that later conflicting calls
 * wait for it. Its steps run one after another. Each step locks its own ranges under the locks of
 * the call. All steps share one transfer job, which counts the progress.
 */
struct ferryi_whole_call {
    struct ferryi_async async; /* must be the first member */
    /* copy of the caller's options, because the caller may free the options before the call runs */
    ferry_copy_options options;
    struct ferryi_transfer_job job;
    struct ferryi_claim_list claims;
    struct ferryi_arena arena; /* the memory of `claims` and of the lists of the call */
    uint64_t timelines; /* bit set: numbers of the timelines on which the call has queued work */
    /* Runs the call while its ranges are locked. */
    ferry_status (*run)(struct ferryi_whole_call *call);
};

/* Initialises a zeroed call, except its `async.free` and its `run`. `reason` names the call in
 * messages. `options` may be NULL. */
void ferryi_whole_call_init(struct ferryi_whole_call *call, ferry_context *context,
                            const char *reason, const ferry_copy_options *options);
/* Locks the ranges of a call, runs the call and frees it: on a worker thread if the caller goes on,
 * otherwise on this thread. */
ferry_status ferryi_whole_call_do(struct ferryi_whole_call *call, struct ferryi_caller caller);

/* Returns the id of the call's lock on a buffer's storage. Returns 0 if the call has no lock on it.
 */
uint64_t ferryi_whole_call_claim(const struct ferryi_whole_call *call, const ferryi_store *store);
/* Adds the progress of a finished step to the progress of its call. `timelines` is the set of
 * timelines on which the step queued work. */
void ferryi_whole_call_note(struct ferryi_whole_call *call, const struct ferryi_transfer_job *job,
                            uint64_t timelines);

#endif
