/* SPDX-License-Identifier: MIT */
#include "src/transfer/helpers.h"

#include <assert.h>
#include <stdlib.h>

#include "src/base/node.h"

void
ferryi_helpers_init(struct ferryi_helpers *helpers, const cpu_set_t *near)
{
    *helpers = (struct ferryi_helpers){.last = &helpers->first, .bound = near != NULL};
    if (near)
        helpers->near = *near;
    ferryi_mutex_init_brief(&helpers->mutex);
    ferryi_cond_init(&helpers->given);
    ferryi_cond_init(&helpers->done);
}

/* Returns whether this process is a child of the process that started the helper threads. The child
 * has no helpers. It must not lock the mutex, because a helper may have held the mutex during the
 * fork. */
static bool
is_lost(struct ferryi_helpers *helpers)
{
    uint64_t process = atomic_load_explicit(&helpers->process, memory_order_acquire);
    return process != 0 && process != ferryi_process_id();
}

/* Joins all helper threads. No helper may be started during the call. */
static void
join_threads(const struct ferryi_helpers *helpers)
{
    ferryi_mutex_is_needless(&helpers->mutex);
    for (unsigned i = 0; i < helpers->count; i++)
        ferryi_thread_join(helpers->threads[i]);
}

void
ferryi_helpers_clear(struct ferryi_helpers *helpers)
{
    if (is_lost(helpers))
        return;
    ferryi_mutex_lock(&helpers->mutex);
    assert(!helpers->first);
    helpers->stopping = true;
    ferryi_cond_broadcast(&helpers->given);
    ferryi_mutex_unlock(&helpers->mutex);
    join_threads(helpers);
    ferryi_cond_destroy(&helpers->done);
    ferryi_cond_destroy(&helpers->given);
    ferryi_mutex_destroy(&helpers->mutex);
}

/* -- working ----------------------------------------------------------------------------------- */

/* Removes and returns the first queued task whose member `helper` is the number of this helper. If
 * there is no such task, removes and returns the first task. The list of queued tasks must not be
 * empty. */
FERRYI_REQUIRES(ferryi_helpers_mutex)
static struct ferryi_task *
take_task(struct ferryi_helpers *helpers, unsigned helper)
{
    struct ferryi_task **link = &helpers->first;
    while (*link && (*link)->helper != helper)
        link = &(*link)->next;
    if (!*link)
        link = &helpers->first;
    struct ferryi_task *task = *link;
    assert(task);
    *link = task->next;
    if (!*link)
        helpers->last = link;
    return task;
}

static void
make_copy(const struct ferryi_task *task)
{
    if (task->copy)
        task->copy(task);
    else
        ferryi_copy_bytes(task->loop, task->target, task->source, task->bytes);
}

/* Removes a task from the list of queued tasks and makes its copy. The mutex is unlocked during the
 * copy. */
FERRYI_REQUIRES(ferryi_helpers_mutex)
static void
do_one(struct ferryi_helpers *helpers, unsigned helper)
{
    struct ferryi_task *task = take_task(helpers, helper);
    ferryi_mutex_unlock(&helpers->mutex);
    make_copy(task);
    task->helper = helper;
    ferryi_mutex_lock(&helpers->mutex);
    if (helpers->waiting > 0)
        ferryi_cond_broadcast(&helpers->done);
    atomic_store_explicit(&task->done, true, memory_order_release);
}

/* Waits until a task is queued or the helpers are stopped. The mutex is unlocked during the wait.
 */
FERRYI_REQUIRES(ferryi_helpers_mutex)
static void
wait_for_task(struct ferryi_helpers *helpers)
{
    uint64_t shared = helpers->shared, end = ferryi_spin_end();
    ferryi_mutex_unlock(&helpers->mutex);
    while (atomic_load_explicit(&helpers->shared, memory_order_relaxed) == shared &&
           ferryi_spin(end))
        ;
    ferryi_mutex_lock(&helpers->mutex);
    if (helpers->first || helpers->stopping)
        return;
    helpers->idle++;
    ferryi_cond_wait(&helpers->given, &helpers->mutex);
    helpers->idle--;
}

static void
helper_main(void *argument)
{
    struct ferryi_helpers *helpers = argument;
    ferryi_mutex_lock(&helpers->mutex);
    unsigned number = FERRYI_HELPERS_SUBMITTER + ++helpers->numbered;
    if (helpers->bound)
        ferryi_node_bind(&helpers->near, helpers->wanted);
    while (!helpers->stopping) {
        if (helpers->first)
            do_one(helpers, number);
        else
            wait_for_task(helpers);
    }
    ferryi_mutex_unlock(&helpers->mutex);
}

unsigned
ferryi_helpers_start(struct ferryi_helpers *helpers, unsigned wanted)
{
    if (wanted == 0 || is_lost(helpers))
        return 0;
    ferryi_mutex_lock(&helpers->mutex);
    if (atomic_load_explicit(&helpers->process, memory_order_relaxed) == 0) {
        atomic_store_explicit(&helpers->process, ferryi_process_id(), memory_order_release);
        wanted = wanted < FERRYI_HELPERS_MOST ? wanted : FERRYI_HELPERS_MOST;
        helpers->wanted = wanted;
        struct ferryi_kept_error before;
        ferryi_last_error_keep(&before);
        while (helpers->count < wanted &&
               ferryi_thread_start(&helpers->threads[helpers->count], "ferry-staging", helper_main,
                                   helpers) == FERRY_OK)
            helpers->count++;
        /* If the system starts fewer threads than wanted, the transfer continues with those that
         * were started. */
        if (helpers->count < wanted)
            ferryi_last_error_restore(&before);
    }
    unsigned count = helpers->count;
    ferryi_mutex_unlock(&helpers->mutex);
    return count;
}

/* -- tasks ------------------------------------------------------------------------------------- */

void
ferryi_helpers_submit(struct ferryi_helpers *helpers, struct ferryi_task *task, bool shared)
{
    task->next = NULL;
    task->given = shared;
    task->done = !shared;
    if (!shared) {
        task->helper = FERRYI_HELPERS_SUBMITTER;
        make_copy(task);
        return;
    }
    ferryi_mutex_lock(&helpers->mutex);
    *helpers->last = task;
    helpers->last = &task->next;
    atomic_store_explicit(&helpers->shared, helpers->shared + 1, memory_order_relaxed);
    if (helpers->idle > 0)
        ferryi_cond_signal(&helpers->given);
    ferryi_mutex_unlock(&helpers->mutex);
}

/* Waits for a different thread to make the copy of the task. May return before the copy is made.
 * The mutex is unlocked during the wait. */
FERRYI_REQUIRES(ferryi_helpers_mutex)
static void
wait_for_helper(struct ferryi_helpers *helpers, struct ferryi_task *task)
{
    uint64_t end = ferryi_spin_end();
    ferryi_mutex_unlock(&helpers->mutex);
    while (!atomic_load_explicit(&task->done, memory_order_acquire) && ferryi_spin(end))
        ;
    ferryi_mutex_lock(&helpers->mutex);
    if (task->done)
        return;
    helpers->waiting++;
    ferryi_cond_wait(&helpers->done, &helpers->mutex);
    helpers->waiting--;
}

void
ferryi_helpers_finish(struct ferryi_helpers *helpers, struct ferryi_task *task)
{
    if (!task->given)
        return;
    ferryi_mutex_lock(&helpers->mutex);
    while (!task->done) {
        if (helpers->first)
            do_one(helpers, FERRYI_HELPERS_SUBMITTER);
        else
            wait_for_helper(helpers, task);
    }
    ferryi_mutex_unlock(&helpers->mutex);
}
