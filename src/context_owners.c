/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "src/base/callback.h"
#include "src/base/fork.h"
#include "src/buffer/buffer.h"
#include "src/context.h"

/*
 * The owners of a context are the calls that created it, requested the shared context or retained
 * it. When the last owner is dropped, the context ends: its work is completed and its memory is
 * freed.
 *
 * A thread of the context cannot end it, because the end joins that thread. A callback cannot end
 * it, because the Ferry call that runs the callback may hold locks and claims. In these cases a
 * separate thread ends the context, and the process waits for such threads before it exits. This is
 * safe if the callback runs on a thread of the context, because the end waits for that thread. It
 * is not safe if the callback runs on a thread of the program, so such a destroy is refused.
 */

/* -- ends on separate threads ------------------------------------------------------------------ */

#define EXIT_POLL_NS 1000000u

static _Atomic unsigned ends; /* number of separate threads that are ending a context */

/* Resets the number of threads that are ending a context in the child of a fork, because these
 * threads run only in the parent. */
static void
forget_ends(bool in_child)
{
    if (in_child)
        atomic_store(&ends, 0);
}

static struct ferryi_fork_part separate_ends = {.after = forget_ends};
FERRYI_AT_FORK(separate_ends)

/* Returns whether this thread may wait until a context has ended. Threads of a context and
 * callbacks may not, because the end may wait for them. */
static bool
may_wait_for_end(void)
{
    return !ferryi_callback_thread.context && !ferryi_callback_thread.innermost;
}

static void
wait_for_ends(void)
{
    while (may_wait_for_end() && atomic_load(&ends) > 0)
        ferryi_sleep_ns(EXIT_POLL_NS);
}

static void
register_wait(void)
{
    (void)atexit(wait_for_ends);
}

static void end(ferry_context *context);

static void
end_here(void *argument)
{
    ferry_context *context = argument;
    struct ferryi_log log = context->log;
    end(context);
    ferryi_log(&log, FERRY_LOG_INFO,
               "destroy a context: a separate thread has ended it, because its last owner was a "
               "callback or a lease");
    atomic_fetch_sub(&ends, 1);
}

static ferry_status
end_elsewhere(ferry_context *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    ferryi_thread thread;
    (void)pthread_once(&once, register_wait);
    atomic_fetch_add(&ends, 1);
    ferry_status status = ferryi_thread_start(&thread, "ferry-end", end_here, context);
    if (status == FERRY_OK)
        ferryi_thread_detach(thread);
    else
        atomic_fetch_sub(&ends, 1);
    return status;
}

/* -- the shared context ------------------------------------------------------------------------ */

FERRYI_MUTEX_CLASS(ferryi_shared_context_mutex);

static struct {
    struct ferryi_shared_context_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_shared_context_mutex)
    ferry_context *context; /* valid memory, but may have no owner left */
} shared = {.mutex = FERRYI_MUTEX_INITIALIZER};

/* Forgets the shared context in the child of a fork, and initializes its mutex again. The fork does
 * not lock this mutex, because it is held while a context is created, which may take long. */
static void
forget_shared(bool in_child)
{
    if (!in_child)
        return;
    ferryi_mutex_init(&shared.mutex);
    ferryi_mutex_is_needless(&shared.mutex);
    shared.context = NULL;
}

static struct ferryi_fork_part sharing = {.after = forget_shared};
FERRYI_AT_FORK(sharing)

ferry_status
ferry_context_shared(ferry_context **out)
{
    if (!out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "share a context: out is NULL");
    ferry_status status = ferryi_callback_check("share a context");
    if (status != FERRY_OK)
        return status;
    ferryi_mutex_lock(&shared.mutex);
    if (!shared.context || !ferryi_shell_try_own(shared.context)) {
        ferry_context *fresh;
        status = ferry_context_create(NULL, &fresh);
        if (status == FERRY_OK) {
            fresh->shared = true;
            shared.context = fresh;
        }
    }
    if (status == FERRY_OK)
        *out = shared.context;
    ferryi_mutex_unlock(&shared.mutex);
    return status;
}

/* Forgets the shared context if it is this one, before the context's memory is freed. The context
 * may have no owner left at that time. */
static void
stop_sharing(const ferry_context *context)
{
    ferryi_mutex_lock(&shared.mutex);
    if (shared.context == context)
        shared.context = NULL;
    ferryi_mutex_unlock(&shared.mutex);
}

/* -- owners ------------------------------------------------------------------------------------ */

ferry_context *
ferry_context_retain(ferry_context *context)
{
    if (!context || context->inherited || ferryi_shell_try_own(context))
        return context;
    ferryi_log(&context->log, FERRY_LOG_ERROR, "retain a context: its last owner has destroyed it");
    return NULL;
}

static void
end(ferry_context *context)
{
    if (context->shared)
        stop_sharing(context);
    ferryi_context_end(context);
}

/* Logs how many owners will remain, and the labels of the context's leases. Must be called before
 * an owner is dropped, because afterwards another thread may end the context and its log. */
static void
report_remaining(ferry_context *context)
{
    unsigned owners = atomic_load(&context->owners), remaining = owners - 1;
    char labels[512];
    if (owners <= 1 || !context->log.callback)
        return;
    ferryi_stores_lease_labels(context, labels, sizeof(labels));
    ferryi_log(&context->log, FERRY_LOG_INFO,
               "destroy a context: it goes on, because %u other owner%s%s%s", remaining,
               remaining == 1 ? " remains" : "s remain", *labels ? "; leases are held by " : "",
               labels);
}

/* Drops an owner and returns the previous number of owners. If there is no owner, or if the last
 * one must not be dropped on this thread, logs an error, drops nothing and returns 0. */
static unsigned
give_back(ferry_context *context)
{
    unsigned owners = atomic_load(&context->owners);
    do {
        bool last = owners <= 1;
        if (last && ferryi_callback_thread.innermost &&
            (owners == 0 || ferryi_callback_may_be_inside(context))) {
            (void)ferryi_callback_refuses_end(&context->log, FERRYI_CALLBACK_FREE,
                                              "destroy a context");
            return 0;
        }
        if (owners == 0) {
            ferryi_log(&context->log, FERRY_LOG_ERROR,
                       "destroy a context: its last owner has destroyed it");
            return 0;
        }
    } while (!atomic_compare_exchange_weak(&context->owners, &owners, owners - 1));
    return owners;
}

/* Drops an owner, and ends the context if it was the last one. `waits` is true for calls made by
 * the program: the calling thread may then end the context itself, and remaining owners are logged.
 */
static void
destroy(ferry_context **context, bool waits)
{
    ferry_context *given = *context;
    if (waits && !given->inherited)
        report_remaining(given);
    unsigned owners = given->inherited ? 2 : give_back(given);
    if (owners == 0)
        return;
    *context = NULL;
    if (owners > 1)
        return;
    bool may_end = may_wait_for_end();
    if (!(may_end && waits) && end_elsewhere(given) == FERRY_OK)
        return;
    if (may_end) {
        end(given);
    } else {
        atomic_store(&given->owners, 1);
        *context = given;
        ferryi_log(&given->log, FERRY_LOG_ERROR, "destroy a context: it stays: %s",
                   ferry_last_error());
    }
}

void
ferry_context_destroy(ferry_context **context)
{
    if (context && *context)
        destroy(context, true);
}

void
ferryi_context_disown(ferry_context **context)
{
    destroy(context, false);
}
