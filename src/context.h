/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONTEXT_H
#define FERRYI_CONTEXT_H

/* Contexts. This layer is above all others: it creates and destroys devices, pools, streams and the
 * registry. */

#include "src/stream/shell.h"

/*
 * Waits for all work, reports leaks and frees everything except the shell (shell.h). Accepts a
 * partly created context. Must not run on a thread of the context.
 */
void ferryi_context_end(ferry_context *context);
/* Implements ferryi_shell_disown(). */
void ferryi_context_disown(ferry_context **context);

#endif
