/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SCATTER_H
#define FERRYI_SCATTER_H

/*
 * Copies many small pieces of memory between pinned host memory, such as a staging chunk, and
 * device memory. One kernel makes all copies and accesses the host memory directly. The device must
 * be able to run code.
 *
 * The driver takes about a microsecond for each piece, with a batched copy as well as with one call
 * for each piece. The kernel is faster.
 */

#include "src/transfer/run.h"

/* Maximum size of a piece of memory that the scatter kernel copies. The copy engine is faster for
 * larger pieces. */
#define FERRYI_SCATTER_PIECE_MAX ((size_t)8 << 10)

/* An entry of the scatter kernel's table: the addresses and the size of one copy. The device must
 * access pinned host memory at the same address as the host. */
struct ferryi_scatter_entry {
    uint64_t target, source, bytes;
};

/* Returns whether the library has a scatter kernel in the language of a device that loads code. */
bool ferryi_scatter_may_run(const ferryi_device *device);
/* Returns whether the device of this place can run the scatter kernel. The first call loads the
 * kernel. If loading fails, this call and all later calls return false. */
bool ferryi_scatter_is_ready(ferryi_engine *engine, int place);
/* Queues the scatter kernel for `count` copies. `table` must be pinned memory with room for `count`
 * entries, and must stay valid until the kernel has finished. Returns UNSUPPORTED and queues
 * nothing if the device cannot run the kernel. A different thread may find that out at any time. */
ferry_status ferryi_scatter_launch(ferryi_engine *engine, int place, ferryi_timeline *timeline,
                                   const struct ferryi_copy *copies, size_t count,
                                   struct ferryi_scatter_entry *table);
/* Unloads the scatter kernel. Must be called when the engine is destroyed. */
void ferryi_scatter_clear(ferryi_engine *engine, int place);

#endif
