/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_INTERLEAVE_H
#define FERRY_TEST_INTERLEAVE_H

/*
 * A seeded interleaver: threads yield or sleep where they take and give locks, and where the
 * library hands something over by an atomic variable. A race whose window is some instructions wide
 * then shows in seconds.
 *
 * libinterleave.so is preloaded (LD_PRELOAD) and stands before the mutexes, conditions and sleeps
 * of the C library. The points inside the library call ferryi_interleave (src/base/interleave.h),
 * which only builds with assertions have.
 *
 * What a thread does at a point follows from the seed, the point and how many points the thread has
 * met. A few points of each seed are hot: threads sleep there every few times, which opens the
 * window behind each point in one seed or another (as the priority changes of Burckhardt et al., A
 * randomized scheduler with probabilistic guarantees of finding bugs, 2010).
 */

#include <stdbool.h>
#include <stdint.h>

/* Starts, for all threads; 0 stops. False: the library that is preloaded is not there. */
bool interleave(uint64_t seed);
/* Is it there? */
bool interleave_is_there(void);
/* Starts the program again with the library preloaded, unless it is there, cannot be, or
 * FERRY_TEST_INTERLEAVE is "no". */
void interleave_preload(char **argv);

#endif
