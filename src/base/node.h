/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_NODE_H
#define FERRYI_NODE_H

/* These functions place memory and threads on NUMA nodes of the host. A node is near a device if
 * the device is attached to it. Placement affects only the speed of transfers, so no error is
 * reported if the system refuses a call. */

#include <sched.h>
#include <stdbool.h>

/* Until ferryi_node_end(), the system takes new pages of the calling thread from `node` while the
 * node has free memory. Returns false if the thread already has a memory policy, or if the system
 * refuses the call. If the result is false, ferryi_node_end() must not be called. */
bool ferryi_node_begin(int node);
void ferryi_node_end(void);

/*
 * Selects processors for `threads` threads near a device. `near` is the set of processors on the
 * device's NUMA node. Sets `out` to the processors that are in both `allowed` and `near`.
 *
 * Returns false if all allowed processors are near, or if `out` has fewer processors than there are
 * threads. In both cases the threads should not be bound.
 */
bool ferryi_node_choose(const cpu_set_t *allowed, const cpu_set_t *near, unsigned threads,
                        cpu_set_t *out);
/* Binds the calling thread, which is one of `threads` threads, to the processors that
 * ferryi_node_choose() selects. Does nothing if ferryi_node_choose() returns false. */
void ferryi_node_bind(const cpu_set_t *near, unsigned threads);

#endif
