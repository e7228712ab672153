/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_NODE_H
#define FERRYI_NODE_H

/* NUMA nodes of the host: the memory and the processors that are near a device. They only affect
 * the speed of transfers. If the system refuses a call, the failure is therefore ignored and not
 * reported. */

#include <sched.h>
#include <stdbool.h>

/* Until ferryi_node_end(), the system takes new pages of the calling thread from `node` while the
 * node has free memory. Returns false if the thread already has a memory policy or the system
 * refuses; then ferryi_node_end() must not be called. */
bool ferryi_node_begin(int node);
void ferryi_node_end(void);

/* Sets `out` to the processors of `allowed` that are near a device (in `near`), for `threads`
 * threads. Returns false if all allowed processors are near, or if `out` has fewer processors than
 * there are threads. In both cases the threads should not be bound. */
bool ferryi_node_choose(const cpu_set_t *allowed, const cpu_set_t *near, unsigned threads,
                        cpu_set_t *out);
/* Binds the calling thread, which is one of `threads` threads, to the processors that
 * ferryi_node_choose() selects. Does nothing if it returns false. */
void ferryi_node_bind(const cpu_set_t *near, unsigned threads);

#endif
