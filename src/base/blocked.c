/* SPDX-License-Identifier: MIT */
#include "src/base/blocked.h"

#include "src/base/callback.h"
#include "src/base/fork.h"

FERRYI_MUTEX_CLASS(ferryi_blocked_mutex);
static struct ferryi_blocked_mutex mutex = FERRYI_MUTEX_INITIALIZER;
FERRYI_GUARDED_BY(ferryi_blocked_mutex) static struct ferryi_blocked *all;

/* Maximum number of threads that wait behind each other. If there are more, the call counts as
 * blocked. */
#define LONGEST_QUEUE 64

static void
add(struct ferryi_blocked *blocked)
{
    blocked->self = (struct ferryi_runner){ferryi_thread_id(), ferryi_callback_thread.context};
    ferryi_mutex_lock(&mutex);
    FERRYI_LIST_ADD(&all, blocked, next, link);
    ferryi_mutex_unlock(&mutex);
}

void
ferryi_blocked_in_callback(struct ferryi_blocked *blocked)
{
    *blocked = (struct ferryi_blocked){.in_callback = true};
    add(blocked);
}

void
ferryi_blocked_behind(struct ferryi_blocked *blocked, struct ferryi_runner behind)
{
    *blocked = (struct ferryi_blocked){.behind = behind};
    add(blocked);
}

void
ferryi_blocked_end(struct ferryi_blocked *blocked)
{
    ferryi_mutex_lock(&mutex);
    FERRYI_LIST_REMOVE(blocked, next, link);
    ferryi_mutex_unlock(&mutex);
}

static bool
is_of(const struct ferryi_blocked *blocked, struct ferryi_runner runner)
{
    return runner.thread ? blocked->self.thread == runner.thread
                         : runner.context && blocked->self.context == runner.context;
}

FERRYI_REQUIRES(ferryi_blocked_mutex)
static bool
is_blocked(struct ferryi_runner runner, unsigned queue)
{
    if (queue == LONGEST_QUEUE)
        return true;
    for (const struct ferryi_blocked *each = all; each; each = each->next)
        if (is_of(each, runner) && (each->in_callback || is_blocked(each->behind, queue + 1)))
            return true;
    return false;
}

bool
ferryi_blocked_includes(struct ferryi_runner runner)
{
    ferryi_mutex_lock(&mutex);
    bool has = is_blocked(runner, 0);
    ferryi_mutex_unlock(&mutex);
    return has;
}

/* Removes the other threads from the list in the child, where only the thread that forks exists. */
static void
keep_own(bool in_child)
{
    struct ferryi_blocked *next;
    if (!in_child)
        return;
    ferryi_mutex_is_needless(&mutex);
    struct ferryi_blocked *each = all;
    all = NULL;
    for (; each; each = next) {
        next = each->next;
        if (each->self.thread == ferryi_thread_id())
            FERRYI_LIST_ADD(&all, each, next, link);
    }
}

static struct ferryi_fork_part listing = {.mutex = FERRYI_SYSTEM_MUTEX(&mutex), .after = keep_own};
FERRYI_AT_FORK(listing)
