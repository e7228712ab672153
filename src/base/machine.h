/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_MACHINE_H
#define FERRYI_MACHINE_H

/* Properties of the machine, read from the system's files. The parameter `root` is the folder that
 * contains proc/ and sys/. It is "" for the real system, or a folder that a test has prepared. */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns the smallest CPU quota of this process's control group and its ancestors, as a number of
 * processors, rounded up. Returns 0 if there is no quota. Supports control groups of versions 1 and
 * 2. */
unsigned ferryi_machine_quota(const char *root);

/* Returns the rank of this process in its job as text, from the variables that launchers set, or
 * NULL. If `of_mpi` is true, ignores variables that are also set for programs without MPI. */
const char *ferryi_machine_rank(bool of_mpi);
/* Returns whether this thread may run on all processors of the machine. */
bool ferryi_machine_is_unbound(void);

/* Returns the bandwidth of a device's PCI link in bytes per second in one direction, or 0 if it is
 * unknown. The result assumes the link's full speed, because an idle link reports a lower speed.
 * `address` is a PCI address such as "0000:01:00.0". */
uint64_t ferryi_machine_link(const char *root, const char *address);

/* Returns whether more than one NUMA node has processors. */
bool ferryi_machine_has_nodes(const char *root);
/* Returns the NUMA node to which a PCI device is attached, or -1 if the node is unknown. */
int ferryi_machine_node(const char *root, const char *address);
/* Writes the set of processors that belong to a NUMA node. Returns false if the set is unknown. */
bool ferryi_machine_node_processors(const char *root, int node, cpu_set_t *out);
/* Returns the number of bytes that programs can still allocate, including page cache memory that
 * the system can free. Returns 0 if the number is unknown. */
uint64_t ferryi_machine_available(const char *root);

#endif
