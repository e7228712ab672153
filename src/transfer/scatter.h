/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SCATTER_H
#define FERRYI_SCATTER_H

/*
 * Copies many small pieces between pinned host memory, such as a staging chunk, and device memory
 * with one kernel, on devices that run code. The kernel accesses the host memory directly. It is
 * faster than a driver's batched copy and than a separate call for each piece, both of which take
 * about a microsecond for each piece.
 */

#include "src/transfer/run.h"

/* The copy engine copies larger pieces faster than the kernel does. */
#define FERRYI_SCATTER_PIECE_MAX ((size_t)8 << 10)

/* One piece in the layout that the kernel reads. The addresses are the device's, which equal the
 * host's. */
struct ferryi_scatter_entry {
    uint64_t target, source, bytes;
};

/* Whether the device of this place can run the scatter kernel. Loads the kernel at the first call.
 * If that fails, the function returns false from then on. */
bool ferryi_scatter_is_ready(ferryi_engine *engine, int place);
/* Queues the kernel for `count` copies. `table` must be pinned memory for `count` entries, and stay
 * valid until the kernel has finished. If the function returns UNSUPPORTED, the kernel is not ready
 * any more. */
ferry_status ferryi_scatter_launch(ferryi_engine *engine, int place, ferryi_timeline *timeline,
                                   const struct ferryi_copy *copies, size_t count,
                                   struct ferryi_scatter_entry *table);
/* Unloads the kernel. Must be called when the engine is destroyed. */
void ferryi_scatter_clear(ferryi_engine *engine, int place);

#endif
