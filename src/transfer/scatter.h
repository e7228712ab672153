/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SCATTER_H
#define FERRYI_SCATTER_H

/*
 * Copies many small pieces between pinned host memory, such as a staging chunk, and device memory
 * with one kernel, on devices that run code. The kernel accesses the host memory directly. A
 * driver's batched copy takes about a microsecond for each piece, and so does a separate call for
 * each.
 */

#include "src/transfer/run.h"

/* Larger pieces are copied faster by the copy engine. */
#define FERRYI_SCATTER_PIECE_MAX ((size_t)8 << 10)

/* One piece, as the kernel reads it. Addresses are the device's, which equal the host's. */
struct ferryi_scatter_entry {
    uint64_t target, source, bytes;
};

/* Whether the device of this place can run the scatter kernel. Loads the kernel at the first call;
 * a failure to load is remembered. */
bool ferryi_scatter_is_ready(ferryi_engine *engine, int place);
/* Queues the kernel for `count` copies. `table` is pinned memory for `count` entries that must stay
 * valid until the kernel has finished. After UNSUPPORTED the kernel is never ready again. */
ferry_status ferryi_scatter_launch(ferryi_engine *engine, int place, ferryi_timeline *timeline,
                                   const struct ferryi_copy *copies, size_t count,
                                   struct ferryi_scatter_entry *table);
/* Unloads the kernel; called when the engine is destroyed. */
void ferryi_scatter_clear(ferryi_engine *engine, int place);

#endif
