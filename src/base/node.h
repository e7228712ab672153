/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_NODE_H
#define FERRYI_NODE_H

/* NUMA nodes of the host: memory and processors that are near a device. They only make transfers
 * faster, so that a system that refuses a call changes nothing and is not reported. */

#include <sched.h>
#include <stdbool.h>

/* New pages of the calling thread come from `node`, while that has some, until ferryi_node_end().
 * False, and nothing to end, where the thread has a policy already or the system refuses. */
bool ferryi_node_begin(int node);
void ferryi_node_end(void);

/* The processors for `threads` threads near a device: those of `allowed` that are in `near`. False
 * where that leaves out none, or fewer than one for each thread are left. */
bool ferryi_node_choose(const cpu_set_t *allowed, const cpu_set_t *near, unsigned threads,
                        cpu_set_t *out);
/* Binds the calling thread, one of `threads`, to those processors. */
void ferryi_node_bind(const cpu_set_t *near, unsigned threads);

#endif
