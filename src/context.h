/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONTEXT_H
#define FERRYI_CONTEXT_H

/* The context, on top of all layers: it makes and ends devices, pools, streams and the registry. */

#include "src/stream/shell.h"

/*
 * Waits for all work, reports leaks and frees everything but the shell. Also for a context that is
 * only half made. Must not run on a thread of the context.
 */
void ferryi_context_end(ferry_context *context);
/* ferryi_shell_disown() calls it. */
void ferryi_context_disown(ferry_context **context);

#endif
