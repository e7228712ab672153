/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_FORK_H
#define FERRYI_FORK_H

/*
 * Fork handling. The child has the memory of all threads, but only the thread that forked. Locks
 * that other threads held stay locked there, and data that they were changing stays inconsistent.
 * Each part of the library that has process-wide state therefore registers here. Its mutex is held
 * across the fork, and its functions run before and after the fork.
 *
 * Mutexes registered with FERRYI_AT_FORK are leaves: a thread that holds one locks no other
 * registered mutex, and does not fork. Mutexes of checked runs may be locked while any other mutex
 * is held, so they are locked after all others, in the order of their depth.
 */

#include "src/base/base.h"

struct ferryi_fork_part {
    pthread_mutex_t *mutex;        /* held across the fork; may be NULL */
    void (*before)(void);          /* in the parent, with the mutex held; may be NULL */
    void (*after)(bool in_child);  /* in both, with the mutex held; may be NULL */
    struct ferryi_fork_part *next; /* used by fork.c */
};

/* Registers a part. Used at file scope, once for each part that has state. */
#define FERRYI_AT_FORK(part)                                                                       \
    __attribute__((constructor)) static void part##_is_reported(void)                              \
    {                                                                                              \
        ferryi_fork_add(&(part));                                                                  \
    }

/* Like FERRYI_AT_FORK, for mutexes that are locked while others are held. A mutex of depth 3 may be
 * locked under any other, one of depth 2 under depth 3, one of depth 1 under depth 2. Constructors
 * with a lower priority number run first, and the mutex that is registered first is locked last. */
#define FERRYI_AT_FORK_UNDER(part, depth)                                                          \
    __attribute__((constructor(100 + (depth)))) static void part##_is_reported(void)               \
    {                                                                                              \
        ferryi_fork_add(&(part));                                                                  \
    }

void ferryi_fork_add(struct ferryi_fork_part *part);

/* Number of forks between the process that loaded the library and this one. An object that was
 * created at a different count belongs to a different process. */
extern _Atomic unsigned ferryi_forks;

static inline unsigned
ferryi_fork_count(void)
{
    return atomic_load_explicit(&ferryi_forks, memory_order_relaxed);
}

#endif
