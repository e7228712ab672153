/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_INTERLEAVE_H
#define FERRYI_INTERLEAVE_H

/*
 * Points at which one thread hands something to another: locks, and atomic variables. A test sets
 * ferryi_interleave to a function that delays the thread there (tests/support/interleave.h). Builds
 * without assertions, as releases are, have no such points.
 */

#ifndef NDEBUG
#define FERRYI_INTERLEAVES 1

#include <stdatomic.h>

/* NULL, or the function; `site` is an address of the caller, NULL: the function's own return
 * address. */
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
