/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_AFTER_FORK_H
#define FERRYI_AFTER_FORK_H

/*
 * Handles forks. In the child every context is closed and every store is dead. The child frees
 * nothing, because freeing needs the parent's driver, threads and locks. The memory of contexts and
 * stores is freed when the child process ends.
 */

#include "src/stream/shell.h"

/* The first adds a context to the list of contexts that a fork closes in the child. The second
 * removes it from that list. */
void ferryi_after_fork_add(ferry_context *context);
void ferryi_after_fork_remove(ferry_context *context);

#endif
