/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONTEXT_H
#define FERRYI_CONTEXT_H

/* Contexts. The code of contexts is the top layer: it creates and destroys devices, pools, streams
 * and the registry. */

#include "src/stream/shell.h"

/*
 * Waits for all work, reports leaks and frees everything except the context's struct (its shell;
 * see shell.h). Accepts a partly created context. Must not run on a thread of the context.
 */
void ferryi_context_end(ferry_context *context);
/* Implements ferryi_shell_disown(). */
void ferryi_context_disown(ferry_context **context);

#endif
