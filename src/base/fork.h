/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_FORK_H
#define FERRYI_FORK_H

/*
 * What happens at a fork. The child has the memory of all threads and none of them but the one that
 * forked, so whatever others held or were changing at that moment stays so for ever. A part of the
 * library with state of the whole process says here what must be whole at that moment: its mutex is
 * held across the fork, and its functions run around it.
 *
 * Mutexes named here are leaves: who holds one takes no other of them, and does not fork. Those of
 * checked runs are taken under any other, so they are held after all others, in the order of their
 * depth.
 */

#include "src/base/base.h"

struct ferryi_fork_part {
    pthread_mutex_t *mutex;        /* held across the fork; may be NULL */
    void (*before)(void);          /* in the parent, with the mutex held; may be NULL */
    void (*after)(bool in_child);  /* in both, with the mutex held; may be NULL */
    struct ferryi_fork_part *next; /* fork.c's */
};

/* At the top level of a file, once for each part. */
#define FERRYI_AT_FORK(part)                                                                       \
    __attribute__((constructor)) static void part##_is_reported(void)                              \
    {                                                                                              \
        ferryi_fork_add(&(part));                                                                  \
    }

/* The same for what is taken under others: 3 under any, 2 under 3, 1 under 2. Constructors of less
 * priority come first, and who came first is held last. */
#define FERRYI_AT_FORK_UNDER(part, depth)                                                          \
    __attribute__((constructor(100 + (depth)))) static void part##_is_reported(void)               \
    {                                                                                              \
        ferryi_fork_add(&(part));                                                                  \
    }

void ferryi_fork_add(struct ferryi_fork_part *part);

/* Forks on the way from the process that loaded the library to this one. What was made at another
 * count belongs to another process. */
extern _Atomic unsigned ferryi_forks;

static inline unsigned
ferryi_fork_count(void)
{
    return atomic_load_explicit(&ferryi_forks, memory_order_relaxed);
}

#endif
