/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CALLBACK_H
#define FERRYI_CALLBACK_H

/*
 * Callbacks of the program. While a callback runs, the library marks its thread. The "outer call"
 * is the library call that runs the callback. A call inside the callback is refused if it would
 * wait for the outer call, or would change an object that the outer call uses. <ferry/status.h>
 * states this rule for programs.
 */

#include "src/base/base.h"

/* Kinds of callbacks, from the least to the most strict. A strict kind allows few calls inside the
 * callback. If callbacks are nested, the strictest of their kinds applies. */
enum ferryi_callback_kind {
    FERRYI_CALLBACK_FREE = 1, /* the outer call holds no claims */
    FERRYI_CALLBACK_RELEASE,  /* on_release: the call that runs it may have claims, so calls inside
                                 the callback must not wait for other calls */
    FERRYI_CALLBACK_SHORTAGE, /* on_shortage: as strict as RELEASE; in addition, on_shortage is not
                                 called again if an allocation inside the callback runs out of
                                 memory */
    FERRYI_CALLBACK_ASK,      /* only queries are allowed inside */
    FERRYI_CALLBACK_LOG       /* like ASK; messages logged inside are dropped */
};

/* One running callback. The struct is on the stack of the thread that runs the callback. */
struct ferryi_callback {
    enum ferryi_callback_kind kind;
    const char *name;    /* name of the strictest callback */
    const void *lent;    /* a buffer that the callback may use but not destroy, or NULL */
    const void *context; /* context of the outer call; NULL: unknown */
    const struct ferryi_callback *outer;
    unsigned held; /* the thread's hold count (hold.h) when the callback started; the callback runs
                      without holds, and the count is restored afterwards */
};

extern _Thread_local struct ferryi_callback_thread {
    const struct ferryi_callback *innermost; /* NULL: no callback runs on this thread */
    const void *store;   /* the store for which this thread is allocating memory, or NULL */
    const void *context; /* the context that owns this thread and waits for the thread when the
                            context ends; NULL for a thread of the program */
} ferryi_callback_thread FERRYI_FAST_TLS;

void ferryi_callback_enter(struct ferryi_callback *callback, enum ferryi_callback_kind kind,
                           const char *name);
void ferryi_callback_leave(const struct ferryi_callback *callback);

static inline enum ferryi_callback_kind
ferryi_callback_kind(void)
{
    const struct ferryi_callback *innermost = ferryi_callback_thread.innermost;
    return innermost ? innermost->kind : (enum ferryi_callback_kind)0;
}

/* Returns INVALID_STATE, with a message that names the running callback. */
FERRYI_COLD ferry_status ferryi_callback_refuse(const char *what);
/* Like ferryi_callback_refuse(), for a call that would have to wait for a different call. */
FERRYI_COLD ferry_status ferryi_callback_refuse_wait(const char *what);

/* Fails with INVALID_STATE if this thread runs a callback in which only queries are allowed. */
static inline ferry_status
ferryi_callback_check(const char *what)
{
    return __builtin_expect(ferryi_callback_kind() >= FERRYI_CALLBACK_ASK, 0)
               ? ferryi_callback_refuse(what)
               : FERRY_OK;
}

/* Returns whether the thread may wait for other calls. Returns false inside a callback, if the call
 * that runs the callback may have claims. */
static inline bool
ferryi_callback_may_wait(void)
{
    return ferryi_callback_kind() < FERRYI_CALLBACK_RELEASE;
}

/* Serves functions that return nothing and so cannot report an error. If a callback of the given
 * kind or of a stricter kind runs on this thread, logs an error and returns true. Then the caller
 * must do nothing. */
bool ferryi_callback_refuses_end(const struct ferryi_log *log, enum ferryi_callback_kind kind,
                                 const char *what);

/* Returns whether a callback that runs on this thread may use the handle, but not destroy it. */
bool ferryi_callback_lends(const void *handle);

/* Returns whether a callback that runs on this thread may be part of a call on the context. If so,
 * the context must not end, because its end would not wait for that call. */
bool ferryi_callback_may_be_inside(const void *context);

#endif
