/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_SHORT_MEMORY_H
#define FERRY_TEST_SHORT_MEMORY_H

/*
 * Makes the N-th allocation from the C library fail. The program must be linked with the Meson
 * dependency short_memory_dep. The --wrap options of this dependency redirect malloc(), calloc(),
 * realloc(), aligned_alloc(), strdup() and vasprintf() in all statically linked code to this file.
 * Shared libraries still call the original functions. A test arms a failure, calls the library,
 * queries whether the failure occurred, and disarms. All threads share one counter.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Resets the count and makes the `nth` allocation after this call fail. The next allocation is
 * number 1. */
void short_memory_arm(uint64_t nth);
/* Makes the `nth` allocation after this call fail, and all allocations after that one. */
void short_memory_arm_for_good(uint64_t nth);
/* Calls `meet(user)` once, inside the next allocation of exactly `bytes` bytes and on the thread of
 * that allocation. The callback may make calls that a second thread could make at that moment. */
void short_memory_meet(size_t bytes, void (*meet)(void *user), void *user);
/* Stops the injection of failures. The count and the result of short_memory_tripped() do not
 * change. */
void short_memory_disarm(void);
bool short_memory_tripped(void);
/* Returns the number of live allocations of all functions that this file replaces. */
int64_t short_memory_live(void);

#endif
