/* SPDX-License-Identifier: MIT */
#include "src/transfer/crew.h"

#include <assert.h>
#include <stdlib.h>

void
ferryi_crew_init(struct ferryi_crew *crew)
{
    *crew = (struct ferryi_crew){.last = &crew->first};
    ferryi_mutex_init_brief(&crew->mutex);
    ferryi_cond_init(&crew->given);
    ferryi_cond_init(&crew->done);
}

/* In the child of a fork the threads are not there, and the mutex may be held for ever by one of them. */
static bool
is_lost(struct ferryi_crew *crew)
{
    uint64_t process = atomic_load_explicit(&crew->process, memory_order_acquire);
    return process != 0 && process != ferryi_process_id();
}

/* Nobody starts more of them any more. */
static void
join_threads(const struct ferryi_crew *crew)
{
    ferryi_mutex_is_needless(&crew->mutex);
    for (unsigned i = 0; i < crew->count; i++)
        ferryi_thread_join(crew->threads[i]);
}

void
ferryi_crew_clear(struct ferryi_crew *crew)
{
    if (is_lost(crew))
        return;
    ferryi_mutex_lock(&crew->mutex);
    assert(!crew->first);
    crew->stopping = true;
    ferryi_cond_broadcast(&crew->given);
    ferryi_mutex_unlock(&crew->mutex);
    join_threads(crew);
    ferryi_cond_destroy(&crew->done);
    ferryi_cond_destroy(&crew->given);
    ferryi_mutex_destroy(&crew->mutex);
}

/* -- working --------------------------------------------------------------------------------------- */

/* The first that suits the doer, else the first; there is one. */
FERRYI_REQUIRES(ferryi_crew_mutex)
static struct ferryi_task *
take_task(struct ferryi_crew *crew, unsigned doer)
{
    struct ferryi_task **link = &crew->first;
    while (*link && (*link)->doer != doer)
        link = &(*link)->next;
    if (!*link)
        link = &crew->first;
    struct ferryi_task *task = *link;
    assert(task);
    *link = task->next;
    if (!*link)
        crew->last = link;
    return task;
}

/* Do a task of the list. The mutex is let go of meanwhile. */
FERRYI_REQUIRES(ferryi_crew_mutex)
static void
do_one(struct ferryi_crew *crew, unsigned doer)
{
    struct ferryi_task *task = take_task(crew, doer);
    ferryi_mutex_unlock(&crew->mutex);
    ferryi_copy_bytes(task->loop, task->target, task->source, task->bytes);
    task->doer = doer;
    ferryi_mutex_lock(&crew->mutex);
    if (crew->waiting > 0)
        ferryi_cond_broadcast(&crew->done);
    atomic_store_explicit(&task->done, true, memory_order_release);
}

/* The mutex is let go of meanwhile. */
FERRYI_REQUIRES(ferryi_crew_mutex)
static void
wait_for_task(struct ferryi_crew *crew)
{
    uint64_t shared = crew->shared, end = ferryi_spin_end();
    ferryi_mutex_unlock(&crew->mutex);
    while (atomic_load_explicit(&crew->shared, memory_order_relaxed) == shared && ferryi_spin(end))
        ;
    ferryi_mutex_lock(&crew->mutex);
    if (crew->first || crew->stopping)
        return;
    crew->idle++;
    ferryi_cond_wait(&crew->given, &crew->mutex);
    crew->idle--;
}

static void
helper_main(void *argument)
{
    struct ferryi_crew *crew = argument;
    ferryi_mutex_lock(&crew->mutex);
    unsigned number = FERRYI_CREW_GIVER + ++crew->numbered;
    while (!crew->stopping) {
        if (crew->first)
            do_one(crew, number);
        else
            wait_for_task(crew);
    }
    ferryi_mutex_unlock(&crew->mutex);
}

unsigned
ferryi_crew_start(struct ferryi_crew *crew, unsigned wanted)
{
    if (wanted == 0 || is_lost(crew))
        return 0;
    ferryi_mutex_lock(&crew->mutex);
    if (atomic_load_explicit(&crew->process, memory_order_relaxed) == 0) {
        atomic_store_explicit(&crew->process, ferryi_process_id(), memory_order_release);
        wanted = wanted < FERRYI_CREW_MOST ? wanted : FERRYI_CREW_MOST;
        char *before = ferryi_last_error_copy();
        while (crew->count < wanted &&
               ferryi_thread_start(&crew->threads[crew->count], "ferry-staging", helper_main, crew) == FERRY_OK)
            crew->count++;
        /* Fewer threads are no failure of the transfer. */
        if (crew->count < wanted)
            ferryi_explain("%s", before ? before : "");
        free(before);
    }
    unsigned count = crew->count;
    ferryi_mutex_unlock(&crew->mutex);
    return count;
}

/* -- tasks ----------------------------------------------------------------------------------------- */

void
ferryi_crew_give(struct ferryi_crew *crew, struct ferryi_task *task, bool shared)
{
    task->next = NULL;
    task->given = shared;
    task->done = !shared;
    if (!shared) {
        task->doer = FERRYI_CREW_GIVER;
        ferryi_copy_bytes(task->loop, task->target, task->source, task->bytes);
        return;
    }
    ferryi_mutex_lock(&crew->mutex);
    *crew->last = task;
    crew->last = &task->next;
    atomic_store_explicit(&crew->shared, crew->shared + 1, memory_order_relaxed);
    if (crew->idle > 0)
        ferryi_cond_signal(&crew->given);
    ferryi_mutex_unlock(&crew->mutex);
}

/* A helper is at the task. The mutex is let go of meanwhile. */
FERRYI_REQUIRES(ferryi_crew_mutex)
static void
wait_for_helper(struct ferryi_crew *crew, struct ferryi_task *task)
{
    uint64_t end = ferryi_spin_end();
    ferryi_mutex_unlock(&crew->mutex);
    while (!atomic_load_explicit(&task->done, memory_order_acquire) && ferryi_spin(end))
        ;
    ferryi_mutex_lock(&crew->mutex);
    if (task->done)
        return;
    crew->waiting++;
    ferryi_cond_wait(&crew->done, &crew->mutex);
    crew->waiting--;
}

void
ferryi_crew_finish(struct ferryi_crew *crew, struct ferryi_task *task)
{
    if (!task->given)
        return;
    ferryi_mutex_lock(&crew->mutex);
    while (!task->done) {
        if (crew->first)
            do_one(crew, FERRYI_CREW_GIVER);
        else
            wait_for_helper(crew, task);
    }
    ferryi_mutex_unlock(&crew->mutex);
}
