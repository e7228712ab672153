/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ASYNC_H
#define FERRYI_ASYNC_H

/* Asynchronous calls. The caller's thread claims the ranges that a call uses. A helper thread
 * (worker.h) then moves the bytes and completes the call's event. */

#include "src/buffer/buffer.h"
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
    void (*free)(struct ferryi_async *async);
};

/* Creates the event of a call that moves `bytes`, takes the claims, and submits the call to a
 * worker. If no worker accepts the call, runs it on this thread. Frees the call, even after a
 * failure. `out` may be NULL. */
ferry_status ferryi_async_start(struct ferryi_async *async, ferry_context *context, size_t bytes,
                                ferry_event **out);

struct ferryi_copy_call;
/* Starts a planned copy or fill asynchronously. Claims its ranges on this thread, so that later
 * conflicting calls wait for it, and submits it to a worker. `out` may be NULL. */
ferry_status ferryi_async_copy(const struct ferryi_copy_call *call, ferry_event **out);

/* Runs a planned call on this thread. If its options contain an event, starts it asynchronously
 * instead. */
ferry_status ferryi_async_run(struct ferryi_copy_call *call);

/* Sets *out to the place of a stream argument. If the stream is NULL, sets *out to -1. */
ferry_status ferryi_async_place(ferry_context *context, ferry_stream *stream, const char *what,
                                int *out);
/* Creates an event that is already complete, for a call that has nothing to do. `out` may be NULL.
 */
ferry_status ferryi_async_finished(ferry_context *context, ferry_event **out);

#endif
