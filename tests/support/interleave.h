/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_INTERLEAVE_H
#define FERRY_TEST_INTERLEAVE_H

/*
 * A seeded interleaver. It makes threads yield or sleep where they lock and unlock mutexes, and
 * where the library publishes data by an atomic variable. A race whose window is a few instructions
 * wide then occurs within seconds.
 *
 * libinterleave.so is preloaded (LD_PRELOAD) and wraps the mutexes, conditions and sleeps of the C
 * library. The points inside Ferry call ferryi_interleave (src/base/interleave.h). Only builds with
 * assertions contain these calls.
 *
 * The delay of a thread at a point depends on the seed, the point and the number of points that the
 * thread has passed. Each seed makes a few points hot. Threads often sleep at a hot point, which
 * widens the window after it. The priority changes of Burckhardt et al., A randomized scheduler
 * with probabilistic guarantees of finding bugs (2010), serve the same purpose.
 */

#include <stdbool.h>
#include <stdint.h>

/* Starts the interleaver for all threads. A seed of 0 stops it. Returns false if the library is not
 * preloaded. */
bool interleave(uint64_t seed);
/* Whether the library is preloaded. */
bool interleave_is_there(void);
/* Restarts the program with the library preloaded. Does nothing if the library is already loaded,
 * cannot be loaded, or FERRY_TEST_INTERLEAVE is "no". */
void interleave_preload(char **argv);

#endif
