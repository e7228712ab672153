/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_AFTER_FORK_H
#define FERRYI_AFTER_FORK_H

/*
 * Fork handlers. In the child every context is closed, and no store can be used any more. The child
 * frees nothing, because freeing needs the parent's driver, threads and locks. The memory of
 * contexts and stores is freed when the child process ends.
 */

#include "src/stream/shell.h"

/* ferryi_after_fork_add() adds a context to the list of contexts that a fork closes in the child.
 * ferryi_after_fork_remove() removes it. */
void ferryi_after_fork_add(ferry_context *context);
void ferryi_after_fork_remove(ferry_context *context);

#endif
