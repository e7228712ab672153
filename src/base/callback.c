/* SPDX-License-Identifier: MIT */
#include "src/base/callback.h"

#include <assert.h>
#include <stdio.h>

#include "src/base/hold.h"

_Thread_local struct ferryi_hold_thread ferryi_hold_thread;
_Thread_local struct ferryi_callback_thread ferryi_callback_thread;

void
ferryi_callback_enter(struct ferryi_callback *callback, enum ferryi_callback_kind kind,
                      const char *name)
{
    const struct ferryi_callback *outer = ferryi_callback_thread.innermost;
    *callback = (struct ferryi_callback){.kind = kind,
                                         .name = name,
                                         .in_any_call = outer && outer->in_any_call,
                                         .outer = outer,
                                         .held = ferryi_hold_thread.depth,
                                         .errors = ferryi_error_count()};
    if (ferryi_callback_only_watches()) {
        assert(outer);
        callback->kind = FERRYI_CALLBACK_WATCHING;
        callback->name = outer->name;
    }
    if (callback->kind == FERRYI_CALLBACK_WORKING)
        ferryi_blocked_in_callback(&callback->blocked);
    ferryi_callback_thread.innermost = callback;
    ferryi_hold_clean_up();
    ferryi_hold_thread.depth = 0;
}

void
ferryi_callback_leave(struct ferryi_callback *callback)
{
    ferryi_callback_thread.innermost = callback->outer;
    ferryi_hold_thread.depth = callback->held;
    if (callback->kind == FERRYI_CALLBACK_WORKING)
        ferryi_blocked_end(&callback->blocked);
}

ferry_status
ferryi_callback_failed(const struct ferryi_callback *callback, ferry_status status)
{
    char own[64];
    snprintf(own, sizeof(own), "it returned %d, %s", (int)status, ferry_status_name(status));
    if (ferryi_error_count() == callback->errors)
        ferryi_explain("%s", own);
    else
        ferryi_explain_in("%s", own);
    ferryi_fail_of_program();
    return status;
}

ferry_status
ferryi_callback_refuse(const char *what)
{
    return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                       "%s: the callback %s may not do this; do it when the callback has returned",
                       what, ferryi_callback_thread.innermost->name);
}

ferry_status
ferryi_callback_refuse_wait(const char *what)
{
    return ferryi_fail(FERRY_ERROR_BUSY,
                       "%s: the call around the callback %s, or a call that is inside a callback "
                       "itself, may be using it; do it when the callback has returned",
                       what, ferryi_callback_thread.innermost->name);
}

bool
ferryi_callback_refuses_end(const struct ferryi_log *log, bool in_use, const char *what)
{
    if (ferryi_callback_only_watches())
        (void)ferryi_callback_refuse(what);
    else if (in_use)
        (void)ferryi_callback_refuse_wait(what);
    else
        return false;
    ferryi_log(log, FERRY_LOG_ERROR, "%s", ferry_last_error());
    return true;
}

bool
ferryi_callback_in_any_call(void)
{
    return ferryi_callback_thread.innermost && ferryi_callback_thread.innermost->in_any_call;
}

bool
ferryi_callback_lends(const void *handle)
{
    for (const struct ferryi_callback *callback = ferryi_callback_thread.innermost; callback;
         callback = callback->outer)
        if (callback->lent == handle)
            return true;
    return false;
}

bool
ferryi_callback_may_be_inside(const void *context)
{
    if (ferryi_callback_thread.context == context)
        return false;
    for (const struct ferryi_callback *callback = ferryi_callback_thread.innermost; callback;
         callback = callback->outer)
        if (!callback->context || callback->context == context)
            return true;
    return false;
}
