/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_SHORT_MEMORY_H
#define FERRY_TEST_SHORT_MEMORY_H

/*
 * Makes the N-th allocation of the C library's memory fail. The program is linked with
 * short_memory_dep, whose --wrap options redirect malloc(), calloc(), realloc(), aligned_alloc(),
 * strdup() and vasprintf() in all statically linked code to this file; shared libraries keep
 * theirs. Used as fault.h is: arm, call, query, disarm. One counter serves all threads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Resets the count and makes the `nth` allocation from now on fail, counted from 1. */
void short_memory_arm(uint64_t nth);
/* Like short_memory_arm(), but all later allocations fail as well. */
void short_memory_arm_for_good(uint64_t nth);
/* Calls `meet(user)` once during the next allocation of `bytes` bytes, on the same thread, as if
 * another thread had interfered. */
void short_memory_meet(size_t bytes, void (*meet)(void *user), void *user);
/* Lets all allocations through again; the count and short_memory_tripped() keep their values. */
void short_memory_disarm(void);
bool short_memory_tripped(void);
/* Returns the number of live allocations that were made through this file. */
int64_t short_memory_live(void);

#endif
