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
 * scope or a running call. It is also skipped while a write of the buffer is open at any place.
 *
 * A clean replica, whose bytes are current at another place, is freed at once. A dirty device
 * replica is first copied to the host. Before the copy, the eviction locks the whole buffer, and
 * waits for kernels that still write it. If the copy fails, the replica stays. Dirty host replicas
 * always stay, because an eviction copies bytes only to the host.
 *
 * Any thread may call these functions, and several threads may do so at once. The calling thread
 * may itself have locked ranges of buffers. So an eviction does not wait until a range lock is
 * removed, because two threads could then wait for each other. There is one exception: if nothing
 * can be freed and calls in other threads use replicas, the eviction retries for a short, limited
 * time. Two evictions never wait for each other: an eviction waits for the calls of a thread that
 * itself waits in an eviction only if that one began to wait later.
 */

#include "src/store/store.h"

/*
 * Frees replicas in blocks of the pool until `needed` bytes are freed or no more can be freed.
 * Dirty replicas are freed only if `dirty_too` is true. `user` must be the context. It is a void *
 * because the pool calls this function as a callback (struct ferryi_pool_holders).
 *
 * Waits at most `*wait_ns`, and subtracts the time that it waited. Without any, it frees only
 * replicas that no queued work writes. Copies of dirty replicas are no waits.
 *
 * @return the number of bytes freed
 */
size_t ferryi_evict(void *user, ferry_pool *pool, size_t needed, bool dirty_too, uint64_t *wait_ns);
/* Moves replicas in device memory out of the blocks that a compaction of the pool is emptying. Does
 * not move host replicas, or replicas that a scope, a call or a pin uses. */
size_t ferryi_relocate(void *user, ferry_pool *pool);

extern const struct ferryi_store_calls ferryi_buffer_calls;

#endif
