/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_INTERLEAVE_H
#define FERRYI_INTERLEAVE_H

/*
 * Marks points at which one thread passes data to another: locks and atomic variables. A test sets
 * ferryi_interleave to a function that delays the thread at such a point
 * (tests/support/interleave.h). Builds without assertions, such as releases, have no such points.
 */

#ifndef NDEBUG
#define FERRYI_INTERLEAVES 1

#include <stdatomic.h>

/* Function that a test sets to delay threads at marked points, or NULL. The argument `site` is a
 * code address that identifies the point. If `site` is NULL, the return address of the function
 * identifies the point. */
extern _Atomic(void (*)(const void *site)) ferryi_interleave;

#define FERRYI_INTERLEAVE_AT(site)                                                                 \
    do {                                                                                           \
        void (*point)(const void *) =                                                              \
            atomic_load_explicit(&ferryi_interleave, memory_order_acquire);                        \
        if (__builtin_expect(point != NULL, 0))                                                    \
            point(site);                                                                           \
    } while (0)
#else
#define FERRYI_INTERLEAVE_AT(site) ((void)0)
#endif

#define FERRYI_INTERLEAVE() FERRYI_INTERLEAVE_AT(NULL)

#endif
