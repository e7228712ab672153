/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MACHINE_H
#define FERRYI_MACHINE_H

/* Properties of the machine, read from files of the system. `root` is the folder that contains
 * proc/ and sys/: "", or a folder of a test. */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns the number of processors that the CPU quotas of this process's control group and its
 * ancestors allow, rounded up; 0: no quota. Supports control groups of versions 1 and 2. */
unsigned ferryi_machine_quota(const char *root);

/* Returns the bandwidth of a device's PCI link in bytes per second and direction, at the full
 * speed, which an idle link does not show; 0: unknown. `address` is a PCI address such as
 * "0000:01:00.0". */
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
