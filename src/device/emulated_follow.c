/* SPDX-License-Identifier: MIT */
#include "src/device/emulated.h"

#include <assert.h>
#include <stdlib.h>

/*
 * How the queues of emulated devices progress: from one command to the next, and from one queue to
 * the queues that wait for it. A queue whose first command only waits for a different queue is
 * parked: it becomes a follower of that queue. The thread that performs the awaited command then
 * removes the wait. So a waiting queue blocks no thread, just as on a real device. A thread never
 * holds the mutexes of two queues.
 */

/* Removes and frees the queue's first command, which has been performed. */
FERRYI_REQUIRES(ferryi_queue_mutex)
static void
take_first_away(ferryi_emulated_queue *queue)
{
    struct ferryi_emulated_command *command = queue->first;
    queue->first = command->next;
    if (!queue->first)
        queue->last = NULL;
    free(command);
    if (queue->performed + 1 >= queue->awaited) {
        queue->awaited = UINT64_MAX;
        ferryi_cond_broadcast(&queue->done);
    }
    /* `performed` is stored last, because a thread may read it without the mutex. A thread that
     * sees the new value locks the mutex before it reads the queue's other members. */
    atomic_store_explicit(&queue->performed, queue->performed + 1, memory_order_release);
}

/* Removes one follower from the queue's list and returns it. The follower must have waited for a
 * command that this queue has performed. Returns NULL if there is no such follower. */
FERRYI_REQUIRES(ferryi_queue_mutex)
static ferryi_emulated_queue *
take_follower(ferryi_emulated_queue *queue)
{
    for (ferryi_emulated_queue **link = &queue->followers; *link; link = &(*link)->next_follower) {
        ferryi_emulated_queue *follower = *link;
        if (follower->follows > queue->performed)
            continue;
        *link = follower->next_follower;
        return follower;
    }
    return NULL;
}

static void go_on(ferryi_emulated_queue *queue);

/* Continues the followers that waited for a command which this queue has performed. Unlocks the
 * mutex while a follower continues. */
FERRYI_REQUIRES(ferryi_queue_mutex)
static void
hand_on(ferryi_emulated_queue *queue)
{
    ferryi_emulated_queue *follower;
    while ((follower = take_follower(queue))) {
        ferryi_mutex_unlock(&queue->mutex);
        go_on(follower);
        ferryi_emulated_queue_release(follower);
        ferryi_mutex_lock(&queue->mutex);
    }
}

/* Removes the first command of a parked queue: a wait for another queue, which is over. The queue
 * is then no longer parked. */
FERRYI_REQUIRES(ferryi_queue_mutex)
static void
unpark(ferryi_emulated_queue *queue)
{
    ferryi_emulated_command_let_go(queue->first);
    queue->ready_ns = ferryi_now_ns();
    take_first_away(queue);
    atomic_store_explicit(&queue->parked, false, memory_order_release);
}

/* Makes the queue a follower of the queue `awaited`, and returns true. If `awaited` has already
 * performed the command for which the queue waits, does nothing and returns false. */
static bool
follow(ferryi_emulated_queue *queue, ferryi_emulated_queue *awaited)
{
    ferryi_mutex_lock(&awaited->mutex);
    bool waits = awaited->performed < queue->follows;
    if (waits) {
        queue->next_follower = awaited->followers;
        awaited->followers = ferryi_emulated_queue_hold(queue);
    }
    ferryi_mutex_unlock(&awaited->mutex);
    return waits;
}

void
ferryi_emulated_park(ferryi_emulated_queue *queue)
{
    while (queue->first && queue->first->awaits && !queue->parked && !queue->busy) {
        ferryi_emulated_queue *awaited = queue->first->awaits;
        queue->follows = queue->first->number;
        atomic_store_explicit(&queue->parked, true, memory_order_relaxed);
        ferryi_mutex_unlock(&queue->mutex);
        bool waits = follow(queue, awaited);
        ferryi_mutex_lock(&queue->mutex);
        if (waits)
            return;
        unpark(queue);
        hand_on(queue);
    }
}

static void
go_on(ferryi_emulated_queue *queue)
{
    ferryi_mutex_lock(&queue->mutex);
    unpark(queue);
    hand_on(queue);
    ferryi_emulated_park(queue);
    if (queue->first ? !queue->parked : queue->closed)
        ferryi_cond_signal(&queue->given);
    ferryi_mutex_unlock(&queue->mutex);
}

void
ferryi_emulated_step(ferryi_emulated_queue *queue)
{
    struct ferryi_emulated_command *command = queue->first;
    assert(command && !queue->busy);
    queue->busy = true;
    ferryi_mutex_unlock(&queue->mutex);
    ferryi_emulated_command_perform(command, queue);
    ferryi_emulated_command_let_go(command);
    ferryi_mutex_lock(&queue->mutex);
    queue->busy = false;
    take_first_away(queue);
    hand_on(queue);
}
