/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SCATTER_H
#define FERRYI_SCATTER_H

/*
 * Many small pieces between pinned host memory, such as a staging chunk, and device memory by one
 * kernel, for devices that run code. The kernel uses the host's memory where it is. A driver's
 * batched copy needs about a microsecond for each piece, and so does one call for each.
 */

#include "src/transfer/run.h"

/* Pieces above this are better off with the copy engine. */
#define FERRYI_SCATTER_PIECE_MAX ((size_t)8 << 10)

/* What the kernel reads of each piece: addresses as the device sees them, which are the host's too.
 */
struct ferryi_scatter_entry {
    uint64_t target, source, bytes;
};

/* Can pieces of this place's device go this way? Loads the kernel at the first call; a device that
 * does not take it is asked once. */
bool ferryi_scatter_is_ready(ferryi_engine *engine, int place);
/* Queue it for `count` copies, with `table`, pinned memory that stays until the work is done.
 * UNSUPPORTED: never ready again. */
ferry_status ferryi_scatter_launch(ferryi_engine *engine, int place, ferryi_timeline *timeline,
                                   const struct ferryi_copy *copies, size_t count,
                                   struct ferryi_scatter_entry *table);
/* Give the kernel back, at the engine's end. */
void ferryi_scatter_clear(ferryi_engine *engine, int place);

#endif
