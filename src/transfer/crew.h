/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CREW_H
#define FERRYI_CREW_H

/*
 * The crew: threads of the engine that copy between pageable memory and staging chunks, so that a transfer's caller and they
 * work on several chunks at once, and go on while the caller waits for the device. They touch memory and nothing else: no driver
 * call, no callback and no failing happens on them.
 *
 * Threads start at the first large transfer and end with the engine. A crew without threads, and a crew in the child of a
 * fork, where its threads do not exist, does everything on the caller. Who waits for a task does waiting ones meanwhile, so that no
 * task depends on a thread being free. Chunks of a ring come again and again, and one whose lines are in another processor's cache takes much
 * longer to fill, so who has the choice takes one that he did before.
 *
 * One mutex guards the list and the states of tasks; it is never held while bytes are copied. Who waits looks for a while before it sleeps.
 */

#include "src/base/base.h"
#include "src/base/copy_loop.h"

#define FERRYI_CREW_MOST 15

#define FERRYI_CREW_NOBODY 0
#define FERRYI_CREW_GIVER 1 /* whoever gave it, or another giver; helpers have higher numbers */

/* One copy. The giver owns it and lets nothing of it go before it was finished. */
struct ferryi_task {
    enum ferryi_copy_loop loop;
    void *target;
    const void *source;
    size_t bytes;
    bool given;        /* the crew's */
    atomic_bool done;  /* likewise */
    unsigned doer;     /* the one whose caches hold memory of it, who had better do it; then who did it. FERRYI_CREW_* or a helper's number */
    struct ferryi_task *next;
};

FERRYI_MUTEX_CLASS(ferryi_crew_mutex);

struct ferryi_crew {
    struct ferryi_crew_mutex mutex;
    ferryi_cond given, done;
    _Atomic uint64_t shared;           /* tasks that ever were in the list */
    _Atomic uint64_t process;          /* that the threads were started in; 0: not yet */
    FERRYI_GUARDED_BY(ferryi_crew_mutex) struct {
        struct ferryi_task *first, **last; /* nobody has begun them */
        unsigned idle, waiting;            /* helpers, and finishers that sleep */
        unsigned count;                    /* running threads */
        unsigned numbered;                 /* of them, those that have their number */
        bool stopping;
        ferryi_thread threads[FERRYI_CREW_MOST];
    };
};

void ferryi_crew_init(struct ferryi_crew *crew);
/* Ends the threads. Every task was finished. */
void ferryi_crew_clear(struct ferryi_crew *crew);

/* Start `wanted` threads if none were started yet. @return how many there are in this process; fewer where the system gives no more */
unsigned ferryi_crew_start(struct ferryi_crew *crew, unsigned wanted);

/* Hand out a task: with `shared` to whoever comes first, else it is done before this returns. */
void ferryi_crew_give(struct ferryi_crew *crew, struct ferryi_task *task, bool shared);
/* Return when the task is done. */
void ferryi_crew_finish(struct ferryi_crew *crew, struct ferryi_task *task);

#endif
