/* SPDX-License-Identifier: MIT */
#ifndef FERRY_BENCH_BEST_FIT_H
#define FERRY_BENCH_BEST_FIT_H

#include "cli/allocator.h"

/*
 * Opens a coalescing best-fit allocator, with which the pool is compared when allocation traces are
 * replayed. It works like RMM's pool_memory_resource: it reserves one arena of `limit_bytes` bytes
 * at once. Each stream has a list of free blocks, sorted by address.
 *
 * An allocation takes the best fit from the list of its stream. If there is none, it takes the best
 * fit from another list. If there is still none, it merges the other lists into the list of its
 * stream, one after the other. A freed block is merged with its free neighbours.
 *
 * Unlike RMM, this allocator stores the lists as arrays, which affects only the times. The arena
 * has no memory behind it. Block sizes are rounded up to a multiple of 256 bytes. The function
 * returns false if host memory is short.
 */
bool best_fit_open(const struct allocator_options *options, struct allocator *out);

#endif
