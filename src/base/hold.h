/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HOLD_H
#define FERRYI_HOLD_H

/*
 * Holds: when a call of the program makes several driver calls, its thread is prepared for them
 * only once.
 *
 * A device prepares the thread before a driver call and cleans up after it. While the thread has a
 * hold, the clean-up is deferred to the end of the outermost hold. Without a hold, each driver call
 * prepares and cleans up. Callbacks of the program run without the hold (callback.h), so that the
 * program's code does not run on a prepared thread. Taking or ending a hold makes no driver call.
 */

#include "src/base/base.h"

extern _Thread_local struct ferryi_hold_thread {
    unsigned depth;         /* number of nested holds of this thread */
    void (*clean_up)(void); /* NULL: nothing was prepared */
    const void *uncaptured; /* the stream of this call, once it is known that the stream is not
                               being captured; or NULL */
} ferryi_hold_thread FERRYI_FAST_TLS;

/* Cleans up what was prepared under the holds of this thread. The holds stay in effect, so the next
 * driver call prepares again. */
static inline void
ferryi_hold_clean_up(void)
{
    ferryi_hold_thread.uncaptured = 0;
    if (ferryi_hold_thread.clean_up)
        ferryi_hold_thread.clean_up();
}

static inline void
ferryi_hold_begin(void)
{
    ferryi_hold_thread.depth++;
}

static inline void
ferryi_hold_end(void)
{
    if (--ferryi_hold_thread.depth == 0)
        ferryi_hold_clean_up();
}

#endif
