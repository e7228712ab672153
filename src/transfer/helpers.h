/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HELPERS_H
#define FERRYI_HELPERS_H

/*
 * The helpers are threads of the engine that copy between pageable memory and staging chunks. They
 * and the caller of a transfer work on several chunks at once, and they continue while the caller
 * waits for the device. They only copy memory: they make no driver call and no callback, and they
 * cannot fail. Each copy is called a task.
 *
 * The helpers start at the first large transfer and end with the engine. If there are no helpers,
 * for example in the child of a fork, the caller makes all copies. A thread that waits for a task
 * makes the copies of queued tasks during the wait, so no task depends on a free helper. Filling a
 * chunk is slow if its cache lines are in the cache of a different processor. So each thread
 * prefers chunks that it has filled before.
 *
 * One mutex guards the list of queued tasks and the states of all tasks. No thread holds the mutex
 * while it copies bytes. A waiting thread polls for a while before it sleeps.
 */

#include <sched.h>

#include "src/base/base.h"
#include "src/base/copy_loop.h"

#define FERRYI_HELPERS_MOST 15

#define FERRYI_HELPERS_NONE 0
/* the number of every thread that submits tasks; the numbers of helper threads are higher */
#define FERRYI_HELPERS_SUBMITTER 1

/* One copy that a helper thread may make. The thread that submits the task owns it. This thread
 * must keep the task, the source memory and the target memory until the task is finished. */
struct ferryi_task {
    /* Makes the copy. NULL: the loop `loop` copies `bytes` bytes from `source` to `target`. The
     * function must not fail, and it makes no driver call and no callback. */
    void (*copy)(const struct ferryi_task *task);
    enum ferryi_copy_loop loop;
    void *target;
    const void *source;
    size_t bytes;
    /* Used only by `copy`: its data, the index of the first of several memory pieces, and the
     * offset of the first byte in that piece. */
    const void *user;
    size_t piece, offset;
    bool given;       /* whether the task was queued for the helpers */
    atomic_bool done; /* whether the copy has been made */
    unsigned helper;  /* before the copy: the thread that should make the copy, because its caches
                         may hold the memory. After the copy: the thread that made it. The value is
                         FERRYI_HELPERS_* or a helper's number */
    struct ferryi_task *next;
};

FERRYI_MUTEX_CLASS(ferryi_helpers_mutex);

struct ferryi_helpers {
    struct ferryi_helpers_mutex mutex;
    ferryi_cond given, done;
    _Atomic uint64_t shared; /* number of tasks that were ever queued */
    /* id of the process that started the helper threads; 0: none were started */
    _Atomic uint64_t process;
    cpu_set_t near; /* the processors that are near the devices; valid if `bound` is set */
    bool bound; /* whether new helpers run only on `near`, if the program's affinity allows this */
    FERRYI_GUARDED_BY(ferryi_helpers_mutex) struct {
        struct ferryi_task *first, **last; /* queued tasks */
        unsigned idle, waiting; /* `idle`: number of helpers that sleep; `waiting`: number of
                                   threads that sleep until a task is done */
        unsigned wanted;        /* number of threads to start */
        unsigned count;         /* number of running threads */
        unsigned numbered;      /* number of helper threads to which a number has been assigned */
        bool stopping;
        ferryi_thread threads[FERRYI_HELPERS_MOST];
    };
};

/* Initialises the helpers. Their threads start at the first transfer that needs them. If `near`
 * contains at least one processor for each helper, the helpers run only on the processors in
 * `near`. NULL means all processors. */
void ferryi_helpers_init(struct ferryi_helpers *helpers, const cpu_set_t *near);
/* Ends the helper threads. All submitted tasks must be finished. */
void ferryi_helpers_clear(struct ferryi_helpers *helpers);

/* Starts `wanted` helper threads, unless helpers were started before.
 * @return number of helper threads in this process; fewer than `wanted` if the system refuses to
 * start more */
unsigned ferryi_helpers_start(struct ferryi_helpers *helpers, unsigned wanted);

/* Submits a task. If `shared` is true, the task is queued and any thread may make its copy.
 * Otherwise the copy is made before the function returns. */
void ferryi_helpers_submit(struct ferryi_helpers *helpers, struct ferryi_task *task, bool shared);
/* Waits until the task is done. During the wait, the calling thread makes the copies of queued
 * tasks. */
void ferryi_helpers_finish(struct ferryi_helpers *helpers, struct ferryi_task *task);

#endif
