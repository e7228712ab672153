/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ASYNC_H
#define FERRYI_ASYNC_H

/* Asynchronous calls: the caller's thread claims the ranges, and the helper thread moves the bytes
 * and finishes the call's event. */

#include "src/buffer/buffer.h"
#include "src/buffer/worker.h"

/* The first member of each asynchronous call. */
struct ferryi_async {
    struct ferryi_job job;
    ferry_context *context;
    ferry_event *event; /* event->cancelled requests a cancel */
    ferryi_site site;   /* call site in the program, in a checked run */
    bool is_hint;       /* the call is a prefetch; lack of memory is no failure */
    struct ferryi_access *claims;
    size_t claim_count;
    ferry_status (*run)(
        struct ferryi_async *async,
        ferryi_sync_point *out_last); /* moves the bytes and ends the claims; *out_last: sync point
                                         of the last work on a device */
    void (*free)(struct ferryi_async *async);
};

/* Creates the event of a call that moves `bytes`, takes the claims, and submits the call to the
 * helper thread; without one, runs it on this thread. Frees the call, also after a failure. `out`
 * may be NULL. */
ferry_status ferryi_async_start(struct ferryi_async *async, ferry_context *context, size_t bytes,
                                ferry_event **out);

struct ferryi_copy_call;
/* Claims the ranges of a planned copy or fill, in the order of calls, and submits it to the helper
 * thread. `out` may be NULL. */
ferry_status ferryi_async_copy(const struct ferryi_copy_call *call, ferry_event **out);

/* Runs a planned call on this thread, or starts it asynchronously if its options have an event. */
ferry_status ferryi_async_run(struct ferryi_copy_call *call);

/* Sets *out to the place of a stream argument; -1 if it is NULL. */
ferry_status ferryi_async_place(ferry_context *context, ferry_stream *stream, const char *what,
                                int *out);
/* Creates a finished event, for calls that have nothing to do. `out` may be NULL. */
ferry_status ferryi_async_finished(ferry_context *context, ferry_event **out);

#endif
