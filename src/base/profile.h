/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PROFILE_H
#define FERRYI_PROFILE_H

/*
 * Ranges for profilers such as Nsight Systems, through the library NVTX. A profiler shows a
 * transfer, an eviction or a launch as a range on its thread, in the domain "ferry". A thread's
 * ranges can be nested.
 *
 * Builds without NVTX's headers do not define FERRYI_HAVE_NVTX_RANGES. In these builds, the
 * functions that begin and end a range are empty. In other builds, the functions return after one
 * check if no profiler is attached.
 */

#include <stdbool.h>
#include <stddef.h>

#ifdef FERRYI_HAVE_NVTX_RANGES
/* Returns NVTX's handle of the domain "ferry", or NULL if no profiler is attached. */
void *ferryi_profile_domain(void);
/* Begins a range of a profiler. Its name is, for example, `upload "heights" for read_device`.
 * `name` and `reason` may be NULL or "". Returns false if no profiler is attached. The caller must
 * end a range only if this function returned true. */
bool ferryi_profile_begin(const char *what, const char *name, const char *reason);
/* Ends the last range that this thread began. */
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
