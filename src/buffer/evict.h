/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_EVICT_H
#define FERRYI_EVICT_H

/*
 * What buffers do for a pool: they give up unused copies when it runs short, and move copies when
 * it compacts.
 *
 * The stores of a context are visited in a circle, oldest first. A store that was opened since the
 * last visit is spared once: every open takes a new claim number, so that this costs those who open
 * nothing. Only copies from the pool's own blocks are considered, and never one that is pinned,
 * borrowed, managed, that a scope or a running call uses, or that others are writing to anywhere.
 *
 * A clean copy, whose bytes other places hold too, just goes. A dirty one of a device is written
 * back to the host first, each byte that only it holds once, under a claim of the whole buffer,
 * after the kernels that still write it; if that fails it stays. Dirty host copies stay: they have
 * nowhere to go.
 *
 * Threads: any, several at once. The evicting thread may hold claims itself, so it never waits for
 * a claim, except briefly when only calls of other threads are in the way.
 */

#include "src/stream/shell.h"

/* `user` is the context, as in struct ferryi_pool_holders. */
size_t ferryi_evict(void *user, ferry_pool *pool, size_t needed, bool dirty_too);
/* For memory of devices: addresses of host copies stay as long as the copies. What a scope, a call
 * or a pin uses stays where it is. */
size_t ferryi_relocate(void *user, ferry_pool *pool);

#endif
