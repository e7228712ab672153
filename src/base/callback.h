/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CALLBACK_H
#define FERRYI_CALLBACK_H

/*
 * Restrictions on callbacks of the program. While a thread runs a callback, the library records
 * this in a thread-local variable. The "outer call" is the library call that runs the callback.
 *
 * Inside the callback, the library refuses a call that would wait for the outer call. It also
 * refuses a call that would change an object that the outer call uses. <ferry/status.h> states this
 * rule for programs.
 */

#include "src/base/base.h"

/* Kinds of callbacks, ordered by strictness. The stricter a kind, the fewer library calls are
 * allowed inside the callback. If callbacks are nested, the strictest of their kinds applies. */
enum ferryi_callback_kind {
    FERRYI_CALLBACK_FREE = 1, /* the library call that runs the callback has locked no byte ranges
                                 of buffers */
    FERRYI_CALLBACK_RELEASE,  /* on_release: the library call that runs it may have locked byte
                                 ranges of buffers, so calls inside the callback must not wait for
                                 other calls */
    FERRYI_CALLBACK_SHORTAGE, /* on_shortage: has the restrictions of on_release; in addition, an
                                 allocation inside the callback that runs out of memory does not
                                 call on_shortage */
    FERRYI_CALLBACK_ASK,      /* only queries are allowed inside */
    FERRYI_CALLBACK_LOG /* the log callback: only queries are allowed inside, and messages that are
                           logged inside are dropped */
};

/* One running callback. The struct is on the stack of the thread that runs the callback. */
struct ferryi_callback {
    enum ferryi_callback_kind kind;
    const char *name;    /* name of the strictest callback */
    const void *lent;    /* a buffer that the callback may use but not destroy, or NULL */
    const void *context; /* context of the library call that runs the callback; NULL: unknown */
    const struct ferryi_callback *outer;
    unsigned held;   /* number of holds (hold.h) of the thread when the callback started. The thread
                        has no holds during the callback, so that the callback does not run prepared
                        for driver calls. The number is restored afterwards */
    uint64_t errors; /* ferryi_error_count() when the callback started */
};

extern _Thread_local struct ferryi_callback_thread {
    const struct ferryi_callback *innermost; /* NULL: no callback runs on this thread */
    /* Storage of the buffer for which this thread is allocating memory, or NULL. */
    const void *store;
    const void *context; /* the context that owns this thread and waits for the thread when the
                            context ends; NULL for a thread of the program */
} ferryi_callback_thread FERRYI_FAST_TLS;

void ferryi_callback_enter(struct ferryi_callback *callback, enum ferryi_callback_kind kind,
                           const char *name);
void ferryi_callback_leave(const struct ferryi_callback *callback);

/* Sets the error message of a callback that has returned `status`, which is not FERRY_OK. The
 * message says what it returned, and after that the last message that was set inside the callback.
 * An earlier message of the thread, which has nothing to do with the callback, is not used. The
 * status need not be one of enum ferry_status. Returns `status`. */
FERRYI_COLD ferry_status ferryi_callback_failed(const struct ferryi_callback *callback,
                                                ferry_status status);

static inline enum ferryi_callback_kind
ferryi_callback_kind(void)
{
    const struct ferryi_callback *innermost = ferryi_callback_thread.innermost;
    return innermost ? innermost->kind : (enum ferryi_callback_kind)0;
}

/* Refuses a call inside the running callback. Returns FERRY_ERROR_INVALID_STATE, with a message
 * that contains `what` and the name of the callback. */
FERRYI_COLD ferry_status ferryi_callback_refuse(const char *what);
/* Like ferryi_callback_refuse(), but the message says that the refused call would have to wait for
 * another library call. */
FERRYI_COLD ferry_status ferryi_callback_refuse_wait(const char *what);

/* Fails with INVALID_STATE if this thread runs a callback in which only queries are allowed. */
static inline ferry_status
ferryi_callback_check(const char *what)
{
    return __builtin_expect(ferryi_callback_kind() >= FERRYI_CALLBACK_ASK, 0)
               ? ferryi_callback_refuse(what)
               : FERRY_OK;
}

/* Returns whether this thread may wait for other library calls. Inside a callback, returns false if
 * the call that runs the callback may have locked byte ranges of buffers. */
static inline bool
ferryi_callback_may_wait(void)
{
    return ferryi_callback_kind() < FERRYI_CALLBACK_RELEASE;
}

/* Checks whether a callback may call a function that returns no status, such as a destroy function.
 * If this thread runs a callback of the given kind or of a stricter kind, logs an error and returns
 * true. In this case the caller must return without an effect. */
bool ferryi_callback_refuses_end(const struct ferryi_log *log, enum ferryi_callback_kind kind,
                                 const char *what);

/* Returns whether a callback that runs on this thread may use the handle, but not destroy it. */
bool ferryi_callback_lends(const void *handle);

/* Returns whether this thread runs a callback that may be part of a call on the context. If so, the
 * context must not be destroyed, because the destruction would not wait for that call. */
bool ferryi_callback_may_be_inside(const void *context);

#endif
