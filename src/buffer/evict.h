/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EVICT_H
#define FERRYI_EVICT_H

/*
 * Services of buffers for a pool: they free unused replicas when the pool is short of memory, and
 * move replicas when it compacts.
 *
 * The stores of a context are visited in a circle, oldest first. A store that was opened since the
 * last visit is skipped once. Opening a scope does no extra work for this: every open takes a new
 * claim number, and eviction compares these numbers. Only replicas in the pool's own blocks are
 * considered. A replica is skipped if it is pinned, borrowed, managed, or used by a scope or a
 * running call. It is also skipped while the store is being written at a different place.
 *
 * A clean replica, whose bytes other places hold too, is freed at once. A dirty device replica is
 * first copied to the host, under a claim of the whole buffer and after the kernels that still
 * write it have run. If the copy fails, the replica stays. Dirty host replicas always stay, because
 * there is no place to copy them to.
 *
 * Threads: any, several at once. The evicting thread may hold claims itself, so it does not wait
 * for a claim, except briefly when only calls in other threads conflict.
 */

#include "src/stream/shell.h"

/* Frees replicas in blocks of the pool, if possible until `needed` bytes are freed. Dirty replicas
 * are freed only if `dirty_too` is true. `user` is the context, as in struct ferryi_pool_holders.
 * @return the number of bytes freed */
size_t ferryi_evict(void *user, ferry_pool *pool, size_t needed, bool dirty_too);
/* Moves replicas of device memory, for compaction. Host replicas keep their address, and so do
 * replicas that a scope, a call or a pin uses. */
size_t ferryi_relocate(void *user, ferry_pool *pool);

#endif
