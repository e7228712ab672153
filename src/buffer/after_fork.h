/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_AFTER_FORK_H
#define FERRYI_AFTER_FORK_H

/*
 * Handles forks. In the child every context is closed and every store is dead. Nothing is freed,
 * because that needs the driver, threads and locks of the parent. Their memory is freed when the
 * process ends.
 */

#include "src/stream/shell.h"

/* Adds a context to the list that a fork closes in the child, and removes it. */
void ferryi_after_fork_add(ferry_context *context);
void ferryi_after_fork_remove(ferry_context *context);

#endif
