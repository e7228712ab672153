/* SPDX-License-Identifier: MIT */
#ifndef FERRY_BENCH_BEST_FIT_H
#define FERRY_BENCH_BEST_FIT_H

#include "cli/allocator.h"

/*
 * Opens a coalescing best-fit allocator, the peer of the pool when traces are replayed. It works as
 * RMM's pool_memory_resource does: one arena of `limit_bytes` is reserved at once, and each stream
 * has a list of free memory by address. An allocation takes the best fit of its stream's list, then
 * of the other lists, and at last merges the other lists into its own, one after the other. A freed
 * block is merged with its neighbours. The lists are arrays here, which changes the times only. No
 * memory is behind the arena, and a block's bytes are a multiple of 256. Returns false when host
 * memory is short.
 */
bool best_fit_open(const struct allocator_options *options, struct allocator *out);

#endif
