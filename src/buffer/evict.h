/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EVICT_H
#define FERRYI_EVICT_H

/*
 * Functions of the buffer layer that pools call. ferryi_evict() frees unused replicas when a pool
 * is short of memory. ferryi_relocate() moves replicas when a pool compacts.
 *
 * An eviction visits the buffers of a context in a circle, oldest first. A buffer that was opened
 * since its last visit is skipped once. Opening a scope does no extra work for this: every open
 * takes a new claim number, and the eviction compares these numbers. Only replicas in the pool's
 * own blocks are considered. A replica is skipped if it is pinned, borrowed, managed, or used by a
 * scope or a running call. It is also skipped while the buffer is being written at a different
 * place.
 *
 * A clean replica, whose bytes are current at another place, is freed at once. A dirty device
 * replica is first copied to the host. Before the copy, the eviction locks the whole buffer, and
 * waits for kernels that still write it. If the copy fails, the replica stays. Dirty host replicas
 * always stay, because an eviction copies bytes only to the host.
 *
 * Threads: any, several at once. The evicting thread may itself have locked ranges of buffers, so
 * it does not wait until other range locks are removed. There is one exception: if only calls in
 * other threads prevent the eviction, it waits for them for a short time.
 */

#include "src/stream/shell.h"

/* Frees replicas in blocks of the pool until `needed` bytes are freed or no more can be freed.
 * Dirty replicas are freed only if `dirty_too` is true. `user` is the context, as in struct
 * ferryi_pool_holders.
 * @return the number of bytes freed */
size_t ferryi_evict(void *user, ferry_pool *pool, size_t needed, bool dirty_too);
/* Moves replicas in device memory out of the blocks that a compaction of the pool is emptying. Does
 * not move host replicas, or replicas that a scope, a call or a pin uses. */
size_t ferryi_relocate(void *user, ferry_pool *pool);

#endif
