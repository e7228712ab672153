/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BLOCKED_H
#define FERRYI_BLOCKED_H

/*
 * The list of blocked threads. A thread is blocked while it runs a working callback of the program,
 * and while its library call waits for the call of another thread.
 *
 * A call inside a working callback searches this list before it waits for another call. The other
 * call may be waiting for the surrounding call, which proceeds only after the callback has
 * returned. Both would then wait forever.
 */

#include "src/base/base.h"

/* Who runs the call for which another one waits: a thread; or, if the call is queued, any of the
 * threads that run the queued calls of a context. */
struct ferryi_runner {
    uint64_t thread;     /* id of the thread; 0 if the call is queued */
    const void *context; /* the context whose threads run the queued call; unused otherwise */
};

/* One reason why a thread is blocked. The struct is on the stack of this thread. */
struct ferryi_blocked {
    struct ferryi_runner self, behind; /* behind: who runs the call that the thread waits for */
    bool in_callback;                  /* the thread runs a callback, and `behind` is unused */
    struct ferryi_blocked *next, **link;
};

/* Adds this thread to the list because it begins to run a working callback. */
void ferryi_blocked_in_callback(struct ferryi_blocked *blocked);
/* Adds this thread to the list because it begins to wait for the call of `behind`. */
void ferryi_blocked_behind(struct ferryi_blocked *blocked, struct ferryi_runner behind);
void ferryi_blocked_end(struct ferryi_blocked *blocked);

/*
 * Returns whether the call that `runner` runs may be blocked until this thread proceeds. This is so
 * if the call is inside a working callback, or waits for a call of which this is true. The caller
 * runs a working callback, so its own calls count too. Any other call proceeds by itself, because
 * calls outside of callbacks lock their ranges in one order.
 */
bool ferryi_blocked_includes(struct ferryi_runner runner);

/* Time, in nanoseconds, after which a call that waits inside a callback searches the list again.
 * The other call may have entered a callback meanwhile. */
#define FERRYI_BLOCKED_LOOK_NS 1000000

#endif
