/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_FORK_H
#define FERRYI_FORK_H

/*
 * Fork handling. The child has the memory of all threads, but only the thread that forked. Locks
 * that other threads held stay locked in the child. Data that other threads were changing stays
 * inconsistent. Therefore each part of the library that has process-wide state registers its mutex
 * and its functions here. The mutex is held across the fork, and the functions run before and after
 * the fork.
 *
 * Mutexes registered with FERRYI_AT_FORK are leaves: a thread that holds one of these mutexes locks
 * no other registered mutex, and does not fork. Mutexes of the debug checks are different: they
 * may be locked while any other mutex is held. So a fork locks these mutexes after all others, in
 * the order of their depth.
 */

#include "src/base/base.h"

struct ferryi_fork_part {
    pthread_mutex_t *mutex; /* held across the fork; may be NULL */
    void (*before)(
        void); /* called in the parent before the fork, with the mutex held; may be NULL */
    void (*after)(bool in_child);  /* in both, with the mutex held; may be NULL */
    struct ferryi_fork_part *next; /* used by fork.c */
};

/* Registers a part of the library that has process-wide state. Used at file scope. */
#define FERRYI_AT_FORK(part)                                                                       \
    __attribute__((constructor)) static void part##_is_reported(void)                              \
    {                                                                                              \
        ferryi_fork_add(&(part));                                                                  \
    }

/* Like FERRYI_AT_FORK, for mutexes that are locked while others are held. Threads lock the mutexes
 * of FERRYI_AT_FORK first, then those of depth 3, then depth 2, then depth 1. The depth sets the
 * priority of the constructor. The constructor of the lowest depth runs first, and a fork locks its
 * mutex last. */
#define FERRYI_AT_FORK_UNDER(part, depth)                                                          \
    __attribute__((constructor(100 + (depth)))) static void part##_is_reported(void)               \
    {                                                                                              \
        ferryi_fork_add(&(part));                                                                  \
    }

void ferryi_fork_add(struct ferryi_fork_part *part);

/* Number of forks between the process that loaded the library and this process. If the number was
 * different when an object was created, a different process created the object. */
extern _Atomic unsigned ferryi_forks;

static inline unsigned
ferryi_fork_count(void)
{
    return atomic_load_explicit(&ferryi_forks, memory_order_relaxed);
}

#endif
