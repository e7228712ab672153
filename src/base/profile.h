/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PROFILE_H
#define FERRYI_PROFILE_H

/*
 * Ranges for profilers such as Nsight Systems, through NVTX: a transfer, an eviction or a launch is
 * a range of its thread, in the domain "ferry". Without the headers of NVTX
 * (FERRYI_HAVE_NVTX_RANGES) both functions are empty; without a tool they return after one test.
 * Ranges of a thread nest.
 */

#include <stdbool.h>
#include <stddef.h>

#ifdef FERRYI_HAVE_NVTX_RANGES
/* NVTX's handle of the domain "ferry"; NULL: no tool listens. */
void *ferryi_profile_domain(void);
/* Begins a range named `upload "heights" for read_device`; `name` and `reason` may be NULL or "".
 * False: no tool listens, and there is nothing to end. */
bool ferryi_profile_begin(const char *what, const char *name, const char *reason);
/* Ends the range that this thread began last. */
void ferryi_profile_end(void);
#else
static inline bool
ferryi_profile_begin(const char *what, const char *name, const char *reason)
{
    (void)what, (void)name, (void)reason;
    return false;
}

static inline void
ferryi_profile_end(void)
{
}
#endif

#endif
