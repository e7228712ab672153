/* SPDX-License-Identifier: MIT */
#include "src/base/fork.h"
#include "src/store/store.h"

/*
 * Handlers of fork(). In the child process every context is closed, and no buffer can be used. The
 * child frees nothing, because freeing needs the parent's driver, threads and locks. The memory of
 * contexts and buffers is freed when the child process ends. The handlers visit the list of all
 * open contexts of the process.
 */

FERRYI_MUTEX_CLASS(ferryi_living_mutex);
static struct ferryi_living_mutex mutex = FERRYI_MUTEX_INITIALIZER;
FERRYI_GUARDED_BY(ferryi_living_mutex) static ferry_context *living;

void
ferryi_after_fork_add(ferry_context *context)
{
    ferryi_mutex_lock(&mutex);
    FERRYI_LIST_ADD(&living, context, next_living, living);
    ferryi_mutex_unlock(&mutex);
}

/* Removes a context from the list of open contexts. Does nothing if the context is not in the list.
 */
void
ferryi_after_fork_remove(ferry_context *context)
{
    ferryi_mutex_lock(&mutex);
    if (context->living)
        FERRYI_LIST_REMOVE(context, next_living, living);
    ferryi_mutex_unlock(&mutex);
}

/* Locks the mutex of each context's list of buffers before a fork, so that the lists are consistent
 * in the child. Clang's thread safety analysis skips this function, because the function locks one
 * mutex per context and a different function unlocks them. */
FERRYI_NOT_ANALYSED
static void
hold_lists(void)
{
    for (ferry_context *context = living; context; context = context->next_living)
        ferryi_mutex_lock(&context->store_mutex);
}

FERRYI_REQUIRES(ferryi_stores_mutex)
static void
inherit(ferry_context *context)
{
    for (ferryi_store *store = context->stores; store; store = store->next)
        ferryi_store_after_fork(store);
    context->inherited = true;
    atomic_store(&context->closed, true);
}

/* Unlocks the mutexes of the lists of buffers after a fork. Clang's thread safety analysis skips
 * this function, because the function hold_lists() locked these mutexes. */
FERRYI_NOT_ANALYSED
static void
let_lists_go(bool in_child)
{
    for (ferry_context *context = living; context; context = context->next_living) {
        if (in_child)
            inherit(context);
        ferryi_mutex_unlock(&context->store_mutex);
    }
    if (in_child)
        living = NULL;
}

static struct ferryi_fork_part contexts = {
    .mutex = FERRYI_SYSTEM_MUTEX(&mutex), .before = hold_lists, .after = let_lists_go};
FERRYI_AT_FORK(contexts)
