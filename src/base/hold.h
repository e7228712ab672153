/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HOLD_H
#define FERRYI_HOLD_H

/*
 * Holds. A hold keeps a thread prepared for driver calls. On a CUDA device, the preparation makes
 * the device's CUDA context current in the thread. With a hold, a call of the program that makes
 * several driver calls prepares its thread only once.
 *
 * Without a hold, a device prepares the thread before each driver call and cleans up after each
 * driver call. With a hold, the clean-up is deferred until the thread's outermost hold ends.
 * Callbacks of the program run without holds (callback.h), so that the program's code does not run
 * on a prepared thread.
 *
 * Beginning a hold makes no driver call. The end of the outermost hold makes only the driver calls
 * of the deferred clean-up.
 */

#include "src/base/base.h"

extern _Thread_local struct ferryi_hold_thread {
    unsigned depth;         /* number of nested holds of this thread */
    void (*clean_up)(void); /* NULL: nothing was prepared */
    const void *uncaptured; /* a stream that this thread uses and that is known not to be in CUDA
                               stream capture; otherwise NULL */
} ferryi_hold_thread FERRYI_FAST_TLS;

/* Undoes the preparation of this thread for driver calls, although the thread still has holds. The
 * next driver call prepares the thread again. */
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
