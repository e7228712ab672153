/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CALLBACK_H
#define FERRYI_CALLBACK_H

/*
 * Callbacks of the program. The library marks its thread while a callback runs, so that a call from
 * inside it can be refused where it would have to wait for the call outside, or would change what
 * that call works on. <ferry/status.h> states the rule for programs.
 */

#include "src/base/base.h"

/* Sorted by what they forbid. A callback inside another one has the stricter kind of the two. */
enum ferryi_callback_kind {
    FERRYI_CALLBACK_FREE = 1, /* the call outside holds nothing */
    FERRYI_CALLBACK_RELEASE,  /* on_release: the call outside may hold ranges, so nothing waits for
                                 another call */
    FERRYI_CALLBACK_SHORTAGE, /* on_shortage: as RELEASE; a take inside it that runs short does not
                                 call it again */
    FERRYI_CALLBACK_ASK,      /* may only ask */
    FERRYI_CALLBACK_LOG       /* as ASK; a message from inside is dropped */
};

/* One running callback; lives on the stack of the thread that runs it. */
struct ferryi_callback {
    enum ferryi_callback_kind kind;
    const char *name;    /* of what forbids most */
    const void *lent;    /* a buffer that the callback may use but not destroy, or NULL */
    const void *context; /* what the call outside works on; NULL: it is not known */
    const struct ferryi_callback *outer;
    unsigned held; /* holds of the thread, which the callback runs without (hold.h) */
};

extern _Thread_local struct ferryi_callback_thread {
    const struct ferryi_callback *innermost; /* NULL: no callback runs on this thread */
    const void *store;   /* the store that this thread takes memory for, or NULL */
    const void *context; /* whose thread this is: its end waits for what runs here. NULL: the
                            program's thread */
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

/* Returns INVALID_STATE, with a message that names the callback. */
FERRYI_COLD ferry_status ferryi_callback_refuse(const char *what);
/* The same for a call that would have to wait for another call. */
FERRYI_COLD ferry_status ferryi_callback_refuse_wait(const char *what);

/* Fails with INVALID_STATE inside a callback that may only ask. */
static inline ferry_status
ferryi_callback_check(const char *what)
{
    return __builtin_expect(ferryi_callback_kind() >= FERRYI_CALLBACK_ASK, 0)
               ? ferryi_callback_refuse(what)
               : FERRY_OK;
}

/* False inside a callback that may run while the thread holds ranges of buffers. */
static inline bool
ferryi_callback_may_wait(void)
{
    return ferryi_callback_kind() < FERRYI_CALLBACK_RELEASE;
}

/* For functions that return nothing: true, with an error in the log, inside callbacks of this kind
 * and of stricter ones. */
bool ferryi_callback_refuses_end(const struct ferryi_log *log, enum ferryi_callback_kind kind,
                                 const char *what);

/* Is the handle lent to a callback that runs on this thread? */
bool ferryi_callback_lends(const void *handle);

/* May a call on the context be outside of the callbacks that run on this thread, so that the end of
 * the context would not wait for it? */
bool ferryi_callback_may_be_inside(const void *context);

#endif
