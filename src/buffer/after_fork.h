/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_AFTER_FORK_H
#define FERRYI_AFTER_FORK_H

/*
 * Forks. In the child every context is closed and every store dead, and nothing of them is given
 * back: the driver, threads and locks that this would take are the parent's. Their memory ends with
 * the process.
 */

#include "src/stream/shell.h"

/* Adds a context to those that a fork closes in the child, and removes it again. */
void ferryi_after_fork_add(ferry_context *context);
void ferryi_after_fork_remove(ferry_context *context);

#endif
