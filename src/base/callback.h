/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CALLBACK_H
#define FERRYI_CALLBACK_H

/*
 * Callbacks of the program. While a thread runs a callback, the library records this in a
 * thread-local variable. The "surrounding call" is the library call that runs the callback.
 *
 * Inside the callback, the library refuses a call that would wait for the surrounding call. It also
 * refuses a call that would destroy an object that the surrounding call uses. <ferry/status.h>
 * states these rules for programs.
 */

#include "src/base/base.h"
#include "src/base/blocked.h"

/* Kinds of callbacks. Every callback inside a watching one is watching, too. */
enum ferryi_callback_kind {
    FERRYI_CALLBACK_WORKING = 1, /* every call is allowed inside, but must not wait for a call that
                                    is blocked (blocked.h) */
    FERRYI_CALLBACK_WATCHING     /* only queries and calls that hit are allowed inside */
};

/* One running callback. The struct is on the stack of the thread that runs the callback. */
struct ferryi_callback {
    enum ferryi_callback_kind kind;
    const char *name;    /* name of this callback, or of the outermost watching one around it */
    bool in_any_call;    /* whether a surrounding call may be any call of the library, which may be
                            using streams and kernels */
    const void *lent;    /* a buffer or pool that the callback may use but not destroy, or NULL */
    const void *context; /* context of the surrounding call; NULL: unknown */
    const struct ferryi_callback *outer;
    unsigned held;   /* number of holds (hold.h) of the thread when the callback started. The thread
                        has no holds during the callback, so that the callback does not run prepared
                        for driver calls. The number is restored afterwards */
    uint64_t errors; /* ferryi_error_count() when the callback started */
    struct ferryi_blocked blocked; /* used if `kind` is WORKING */
};

extern _Thread_local struct ferryi_callback_thread {
    const struct ferryi_callback *innermost; /* NULL: no callback runs on this thread */
    /* Storage of the buffer for which this thread is allocating memory, or NULL. */
    const void *store;
    const void *context; /* the context that owns this thread and waits for the thread when the
                            context ends; NULL for a thread of the program */
    bool logs;           /* the thread runs a log callback */
    bool is_short;       /* the thread runs on_shortage of a pool */
} ferryi_callback_thread FERRYI_FAST_TLS;

void ferryi_callback_enter(struct ferryi_callback *callback, enum ferryi_callback_kind kind,
                           const char *name);
void ferryi_callback_leave(struct ferryi_callback *callback);

/* Sets the error message of a callback that has returned `status`, which is not FERRY_OK. The
 * message says what it returned, and after that the last message that was set inside the callback.
 * An earlier message of the thread, which has nothing to do with the callback, is not used. The
 * status need not be one of enum ferry_status. Returns `status`. */
FERRYI_COLD ferry_status ferryi_callback_failed(const struct ferryi_callback *callback,
                                                ferry_status status);

/* Returns whether this thread runs a callback in which only queries and hits are allowed. */
static inline bool
ferryi_callback_only_watches(void)
{
    const struct ferryi_callback *innermost = ferryi_callback_thread.innermost;
    return innermost && innermost->kind == FERRYI_CALLBACK_WATCHING;
}

/* Refuses a call inside the running watching callback. Returns FERRY_ERROR_INVALID_STATE, with a
 * message that contains `what` and the name of the callback. */
FERRYI_COLD ferry_status ferryi_callback_refuse(const char *what);
/* Refuses a call that would wait for a blocked call, or destroy an object that the surrounding call
 * may be using. Returns FERRY_ERROR_BUSY, with a message that contains `what` and the name of the
 * callback. */
FERRYI_COLD ferry_status ferryi_callback_refuse_wait(const char *what);

/* The check at the entry of each public call that a watching callback may not make. Fails with
 * INVALID_STATE inside such a callback. */
static inline ferry_status
ferryi_callback_check(const char *what)
{
    return __builtin_expect(ferryi_callback_only_watches(), 0) ? ferryi_callback_refuse(what)
                                                               : FERRY_OK;
}

/* Returns whether this thread must not wait for the call that `runner` runs: this thread runs a
 * working callback, and that call is blocked. */
static inline bool
ferryi_callback_must_not_wait(struct ferryi_runner runner)
{
    return ferryi_callback_thread.innermost && ferryi_blocked_includes(runner);
}

/* Returns the deadline of a wait for another call, after which the thread checks again whether it
 * may wait. Returns 0, which means no deadline, outside of callbacks. */
static inline uint64_t
ferryi_callback_look_again_ns(void)
{
    return ferryi_callback_thread.innermost ? ferryi_now_ns() + FERRYI_BLOCKED_LOOK_NS : 0;
}

/* Checks whether a callback may call a function that returns no status, such as a destroy function.
 * If this thread runs a watching callback, or if `in_use` says that a surrounding call may be using
 * the object, logs an error and returns true. The caller must then return without an effect. */
bool ferryi_callback_refuses_end(const struct ferryi_log *log, bool in_use, const char *what);

/* Returns whether this thread runs a callback whose surrounding calls may be using any stream and
 * kernel. */
bool ferryi_callback_in_any_call(void);

/* Returns whether a callback that runs on this thread may use the handle, but not destroy it. */
bool ferryi_callback_lends(const void *handle);

/* Returns whether this thread runs a callback that may be part of a call on the context. If so, the
 * context must not be destroyed, because the destruction would not wait for that call. */
bool ferryi_callback_may_be_inside(const void *context);

#endif
