/* SPDX-License-Identifier: MIT */
#include "src/base/fork.h"

_Atomic unsigned ferryi_forks;

static struct ferryi_fork_part *parts;

static void
before(void)
{
    for (struct ferryi_fork_part *part = parts; part; part = part->next) {
        if (part->mutex)
            ferryi_system_mutex_lock(part->mutex);
        if (part->before)
            part->before();
    }
}

static void
after(bool in_child)
{
    for (struct ferryi_fork_part *part = parts; part; part = part->next) {
        if (part->after)
            part->after(in_child);
        if (part->mutex)
            ferryi_system_mutex_unlock(part->mutex);
    }
}

static void
after_in_parent(void)
{
    after(false);
}

static void
after_in_child(void)
{
    atomic_fetch_add_explicit(&ferryi_forks, 1, memory_order_relaxed);
    after(true);
}

/* Registers a part of the library for fork handling. Only constructors call this function, so no
 * two calls run at the same time. pthread_atfork() fails only if memory is short. The failure is
 * ignored, because a constructor cannot report it. */
void
ferryi_fork_add(struct ferryi_fork_part *part)
{
    if (!parts)
        (void)pthread_atfork(before, after_in_parent, after_in_child);
    part->next = parts;
    parts = part;
}
