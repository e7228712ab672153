/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_FORK_H
#define FERRYI_FORK_H

/*
 * Fork handling. The child of a fork has a copy of the parent's memory, but only one thread. Locks
 * that other threads held stay locked in the child. Data that other threads were changing stays
 * inconsistent. Therefore each part of the library with process-wide state registers a mutex and
 * functions with FERRYI_AT_FORK. The mutex is held across the fork, and the functions run before
 * and after the fork.
 *
 * Mutexes registered with FERRYI_AT_FORK are leaves: a thread that holds one of these mutexes locks
 * no other mutex of FERRYI_AT_FORK, and does not fork. The mutexes of the debug checks may be
 * locked while any other mutex is held. So a fork locks the mutexes of the debug checks last, in
 * the order that FERRYI_AT_FORK_UNDER defines.
 */

#include "src/base/base.h"

struct ferryi_fork_part {
    pthread_mutex_t *mutex; /* held across the fork; may be NULL */
    void (*before)(
        void); /* called in the parent before the fork, with the mutex held; may be NULL */
    void (*after)(bool in_child);  /* called in the parent and in the child after the fork, with the
                                      mutex held; may be NULL */
    struct ferryi_fork_part *next; /* used by fork.c */
};

/* Registers `part`, a variable of type struct ferryi_fork_part, for fork handling. The macro must
 * be used at file scope. */
#define FERRYI_AT_FORK(part)                                                                       \
    __attribute__((constructor)) static void part##_is_reported(void)                              \
    {                                                                                              \
        ferryi_fork_add(&(part));                                                                  \
    }

/*
 * Same as FERRYI_AT_FORK, for a mutex that a thread may lock while it holds other registered
 * mutexes. A fork locks the mutexes of FERRYI_AT_FORK first, then those of depth 3, 2 and 1.
 *
 * The depth sets the priority of the constructor that registers the mutex. A constructor of a lower
 * depth runs earlier. A fork locks the mutexes in the reverse order of their registration.
 */
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
