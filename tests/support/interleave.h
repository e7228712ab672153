/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_INTERLEAVE_H
#define FERRY_TEST_INTERLEAVE_H

/*
 * A seeded interleaver. It makes threads yield or sleep when they lock and unlock mutexes, and when
 * Ferry publishes data by an atomic variable. A race whose window is a few instructions wide then
 * occurs within seconds.
 *
 * The library libinterleave.so is preloaded with LD_PRELOAD. It wraps the mutexes, conditions and
 * sleeps of the C library. In builds with assertions, Ferry calls the function pointer
 * ferryi_interleave (src/base/interleave.h) at further points.
 *
 * The delay of a thread at a point depends on the seed, the point and the number of points that the
 * thread has passed. Each seed makes a few points hot. Threads often sleep at a hot point, which
 * widens the window after it. The priority changes of Burckhardt et al., A randomized scheduler
 * with probabilistic guarantees of finding bugs (2010), serve the same purpose.
 */

#include <stdbool.h>
#include <stdint.h>

/* Starts the interleaver for all threads of the process. A seed of 0 stops the interleaver. Returns
 * false if libinterleave.so is not preloaded. */
bool interleave(uint64_t seed);
/* Returns whether libinterleave.so is preloaded. */
bool interleave_is_there(void);
/* Restarts the program with libinterleave.so in LD_PRELOAD. Does nothing if that library is loaded
 * or cannot be loaded, or if FERRY_TEST_INTERLEAVE is "no". */
void interleave_preload(char **argv);

#endif
