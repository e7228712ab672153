/* SPDX-License-Identifier: MIT */
#include "src/stream/shell.h"

#include <stdlib.h>

#include "src/base/callback.h"

/* -- counting ---------------------------------------------------------------------------------- */

void
ferryi_shell_retain(ferry_context *context)
{
    atomic_fetch_add(&context->references, 1);
}

void
ferryi_shell_release(ferry_context *context)
{
    if (context->inherited || atomic_fetch_sub(&context->references, 1) != 1)
        return;
    ferryi_mutex_destroy(&context->pool_mutex);
    ferryi_mutex_destroy(&context->stream_mutex);
    ferryi_mutex_destroy(&context->store_mutex);
    ferryi_mutex_destroy(&context->park_mutex);
    ferryi_mutex_destroy(&context->worker_mutex);
    ferryi_mutex_destroy(&context->event_times_mutex);
    ferryi_cond_destroy(&context->park_cond);
    free(context->allocation_log);
    free(context->snapshot_file);
    for (size_t i = 0; i < FERRYI_LONG_LOCKS; i++)
        ferryi_system_mutex_destroy(&context->long_locks[i]);
    free(context);
}

/* -- owners --- */

bool
ferryi_shell_try_own(ferry_context *context)
{
    unsigned owners = atomic_load(&context->owners);
    while (owners > 0 && !atomic_compare_exchange_weak(&context->owners, &owners, owners + 1))
        ;
    return owners > 0;
}

bool
ferryi_shell_is_last_refused(const ferry_context *context)
{
    return atomic_load(&context->owners) <= 1 && ferryi_callback_may_be_inside(context);
}

/* -- checks ------------------------------------------------------------------------------------ */

const char *
ferryi_shell_why_closed(const ferry_context *context)
{
    return context->inherited ? "belongs to the process that this one was forked from"
                              : "was destroyed";
}

ferry_status
ferryi_shell_check_alive(const ferry_context *context, const char *what)
{
    if (atomic_load_explicit(&context->closed, memory_order_relaxed))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s: the context %s", what,
                           ferryi_shell_why_closed(context));
    return FERRY_OK;
}

ferry_status
ferryi_shell_check_open(const ferry_context *context, const char *what)
{
    ferry_status status = ferryi_callback_check(what);
    if (status == FERRY_OK && atomic_load_explicit(&context->closing, memory_order_relaxed) &&
        !context->closed)
        status = ferryi_fail(FERRY_ERROR_INVALID_STATE, "%s: the context is being destroyed", what);
    return status == FERRY_OK ? ferryi_shell_check_alive(context, what) : status;
}

ferry_status
ferryi_shell_check_place(const ferry_context *context, int place, const char *what)
{
    FERRYI_OR_RETURN(ferryi_shell_check_open(context, what));
    if (place < 0 || place > context->place_count)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: there is no place %d, only 0 to %d",
                           what, place, context->place_count);
    return FERRY_OK;
}
