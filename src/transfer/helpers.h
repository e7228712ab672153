/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HELPERS_H
#define FERRYI_HELPERS_H

/*
 * The helpers: threads of the engine that copy between pageable memory and staging chunks, so that
 * a transfer's caller and they work on several chunks at once, and continue while the caller waits
 * for the device. They only copy memory: they make no driver call and no callback, and cannot fail.
 *
 * Threads start at the first large transfer and end with the engine. Without threads, as in the
 * child of a fork, the caller does everything. A thread that waits for a task performs queued ones
 * meanwhile, so that no task depends on a free thread. A chunk whose lines are in another
 * processor's cache takes much longer to fill, so a thread prefers chunks that it filled before.
 *
 * One mutex guards the list and the states of tasks; it is never held while bytes are copied. A
 * waiting thread polls for a while before it sleeps.
 */

#include <sched.h>

#include "src/base/base.h"
#include "src/base/copy_loop.h"

#define FERRYI_HELPERS_MOST 15

#define FERRYI_HELPERS_NONE 0
#define FERRYI_HELPERS_SUBMITTER                                                                   \
    1 /* whoever gave it, or another submitter; helpers have higher numbers */

/* One copy. The submitter owns it and lets nothing of it go before it was finished. */
struct ferryi_task {
    enum ferryi_copy_loop loop;
    void *target;
    const void *source;
    size_t bytes;
    bool given;       /* the helpers's */
    atomic_bool done; /* likewise */
    unsigned helper;  /* the one whose caches hold memory of it, who had better do it; then who did
                         it. FERRYI_HELPERS_* or a helper's number */
    struct ferryi_task *next;
};

FERRYI_MUTEX_CLASS(ferryi_helpers_mutex);

struct ferryi_helpers {
    struct ferryi_helpers_mutex mutex;
    ferryi_cond given, done;
    _Atomic uint64_t shared;  /* tasks that ever were in the list */
    _Atomic uint64_t process; /* that the threads were started in; 0: not yet */
    cpu_set_t near;           /* where `bound`: the processors that are near the devices */
    bool bound;               /* new threads run on those only, as far as the program allows */
    FERRYI_GUARDED_BY(ferryi_helpers_mutex) struct {
        struct ferryi_task *first, **last; /* not begun */
        unsigned idle, waiting;            /* helpers, and finishers that sleep */
        unsigned wanted;                   /* threads, while they are started */
        unsigned count;                    /* running threads */
        unsigned numbered;                 /* of them, those that have their number */
        bool stopping;
        ferryi_thread threads[FERRYI_HELPERS_MOST];
    };
};

/* `near`: the processors that threads run on where that leaves one for each; NULL: any. */
void ferryi_helpers_init(struct ferryi_helpers *helpers, const cpu_set_t *near);
/* Ends the threads. Every task was finished. */
void ferryi_helpers_clear(struct ferryi_helpers *helpers);

/* Start `wanted` threads if none were started yet. @return how many there are in this process;
 * fewer where the system gives no more */
unsigned ferryi_helpers_start(struct ferryi_helpers *helpers, unsigned wanted);

/* Hand out a task: with `shared` to whoever comes first, else it is done before this returns. */
void ferryi_helpers_submit(struct ferryi_helpers *helpers, struct ferryi_task *task, bool shared);
/* Return when the task is done. */
void ferryi_helpers_finish(struct ferryi_helpers *helpers, struct ferryi_task *task);

#endif
