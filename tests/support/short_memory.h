/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_SHORT_MEMORY_H
#define FERRY_TEST_SHORT_MEMORY_H

/*
 * The N-th allocation of the C library's memory fails. The program is linked with short_memory_dep,
 * whose --wrap options lead malloc(), calloc(), realloc(), aligned_alloc(), strdup() and
 * vasprintf() of everything that is linked statically through here; shared libraries keep their
 * own. Used as fault.h is: arm, call, ask, disarm. One counter serves all threads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Forget earlier counts and make the `nth` allocation from now on fail, counted from 1. */
void short_memory_arm(uint64_t nth);
/* The same, and all later ones fail as well. */
void short_memory_arm_for_good(uint64_t nth);
/* In the middle of the next allocation of `bytes` bytes, calls `meet(user)` once on the same
 * thread, as if another thread had interfered. */
void short_memory_meet(size_t bytes, void (*meet)(void *user), void *user);
/* Let all allocations through again; the count and short_memory_tripped() stay. */
void short_memory_disarm(void);
bool short_memory_tripped(void);
/* Allocations that were made through here and not freed. */
int64_t short_memory_live(void);

#endif
