/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MACHINE_H
#define FERRYI_MACHINE_H

/* What the files of the system report of the machine. `root` is the folder that has proc/ and sys/:
 * "" or one of a test. */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Processors that the CPU quotas of this process's control group and of those above it allow,
 * rounded up; 0: no quota. Groups of version 2 and of version 1. */
unsigned ferryi_machine_quota(const char *root);

/* Bytes per second and direction that the PCI link of a device carries, at the speed that both ends
 * have, which is not the one that an idle device shows; 0 where that is unknown. `address` is one
 * such as "0000:01:00.0". */
uint64_t ferryi_machine_link(const char *root, const char *address);

/* Is there more than one NUMA node with processors? */
bool ferryi_machine_has_nodes(const char *root);
/* The NUMA node that a PCI device is attached to; -1: unknown. */
int ferryi_machine_node(const char *root, const char *address);
/* The processors of a NUMA node. False: unknown. */
bool ferryi_machine_node_processors(const char *root, int node, cpu_set_t *out);
/* Bytes of memory that programs may still have, those of the page cache included; 0: unknown. */
uint64_t ferryi_machine_available(const char *root);

#endif
