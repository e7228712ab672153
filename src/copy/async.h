/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ASYNC_H
#define FERRYI_ASYNC_H

/* Calls that claim now and move later, on the helper thread, and the event that ends them. */

#include "src/buffer/buffer.h"
#include "src/buffer/worker.h"

/* The head of such a call. */
struct ferryi_async {
    struct ferryi_job job;
    ferry_context *context;
    ferry_event *event; /* its flag asks for a cancel */
    ferryi_site site;   /* of the call, in a checked run */
    bool is_hint;       /* a prefetch: without memory for it nothing is lost */
    struct ferryi_access *claims;
    size_t claim_count;
    ferry_status (*run)(
        struct ferryi_async *async,
        ferryi_sync_point *out_last); /* ends the claims; sets the last work on a device */
    void (*free)(struct ferryi_async *async);
};

/* Makes the event of a call that brings `bytes`, takes the claims, and hands the call to the helper
 * thread, or runs it here where there is none. Frees the call after a failure too. `out` may be
 * NULL. */
ferry_status ferryi_async_start(struct ferryi_async *async, ferry_context *context, size_t bytes,
                                ferry_event **out);

struct ferryi_copy_call;
/* Claims a planned copy or fill now, in the order of calls, and lets the helper thread run it.
 * `out` may be NULL. */
ferry_status ferryi_async_copy(const struct ferryi_copy_call *call, ferry_event **out);

/* Runs it on this thread, or starts it where its options have an event. */
ferry_status ferryi_async_run(struct ferryi_copy_call *call);

/* The place that a stream argument means; -1 without one. */
ferry_status ferryi_async_place(ferry_context *context, ferry_stream *stream, const char *what,
                                int *out);
/* For calls that had nothing to do. `out` may be NULL. */
ferry_status ferryi_async_finished(ferry_context *context, ferry_event **out);

#endif
