/* SPDX-License-Identifier: MIT */
#include "src/base/node.h"

#include <limits.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Constants of set_mempolicy(2). They are declared here because some systems lack the header that
 * defines them. */
enum { POLICY_DEFAULT = 0, POLICY_PREFERRED = 1 };

#define NODES_MOST    1024
#define BITS_PER_WORD (sizeof(unsigned long) * CHAR_BIT)

bool
ferryi_node_begin(int node)
{
    unsigned long mask[NODES_MOST / BITS_PER_WORD] = {0};
    int policy = POLICY_DEFAULT;
    if (node < 0 || node >= NODES_MOST ||
        syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) != 0 || policy != POLICY_DEFAULT)
        return false;
    mask[(size_t)node / BITS_PER_WORD] = 1ul << (size_t)node % BITS_PER_WORD;
    /* The kernel reads one bit less than the size that is passed to it. So this call passes the
     * number of bits plus one. */
    return syscall(SYS_set_mempolicy, POLICY_PREFERRED, mask, (unsigned long)NODES_MOST + 1) == 0;
}

void
ferryi_node_end(void)
{
    (void)syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0ul);
}

bool
ferryi_node_choose(const cpu_set_t *allowed, const cpu_set_t *near, unsigned threads,
                   cpu_set_t *out)
{
    CPU_AND(out, allowed, near);
    int chosen = CPU_COUNT(out);
    return chosen < CPU_COUNT(allowed) && (unsigned)chosen >= threads;
}

void
ferryi_node_bind(const cpu_set_t *near, unsigned threads)
{
    cpu_set_t allowed, chosen;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 &&
        ferryi_node_choose(&allowed, near, threads, &chosen))
        (void)sched_setaffinity(0, sizeof(chosen), &chosen);
}
