/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CHECKED_H
#define FERRYI_CHECKED_H

/* What a checked run (a run with debug checks) asks about memory of the program, and how it
 * allocates host replicas. In other runs, each function returns after one branch. */

#include "src/store/store.h"

/* Rounds the size and the alignment of a host replica up to whole pages. */
void ferryi_checked_size(const ferryi_store *store, int place, size_t *bytes, size_t *align);

/* Checks `memory`, which the program passed as host memory. Fails with INVALID_ARGUMENT if `memory`
 * belongs to a device of the buffer's context. `what` is the beginning of the error message. */
ferry_status ferryi_checked_memory(ferryi_store *store, const void *memory, const char *what);

/* Checks memory that the program wraps at `place`. Fails with INVALID_ARGUMENT if the host cannot
 * use memory that is wrapped as its own, or a device cannot use memory that is wrapped as the
 * device's. `name` is the name of the buffer, or NULL. */
ferry_status ferryi_checked_wrap(const ferry_context *context, const char *name, const void *memory,
                                 size_t bytes, int place);
/* Logs a warning if another buffer of the context wraps some of the same bytes, and one of the two
 * may write. */
void ferryi_checked_wrapped(ferryi_store *store);

#endif
