/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HOLD_H
#define FERRYI_HOLD_H

/*
 * Holds: a call of the program that makes several driver calls sets its thread up for them once.
 *
 * A device prepares the thread for a driver call and cleans up after it. While the thread has a
 * hold, the device leaves what it prepared, and the end of the outermost hold cleans up. Callbacks
 * of the program run without the hold (callback.h), so that no code of the program sees what was
 * prepared. A hold by itself makes no driver call, and a thread that has none pays for each call.
 */

#include "src/base/base.h"

extern _Thread_local struct ferryi_hold_thread {
    unsigned depth;         /* holds of this thread, one inside the other */
    void (*clean_up)(void); /* NULL: nothing is prepared */
    const void *uncaptured; /* the stream of this call, once it is known that it is not being
                               captured; or NULL */
} ferryi_hold_thread FERRYI_FAST_TLS;

/* Ends what the holds of this thread have prepared. The holds go on, and prepare again at the next
 * need. */
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
