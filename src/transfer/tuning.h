/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TUNING_H
#define FERRYI_TUNING_H

/*
 * Which ring and which loop a staged transfer takes, by direction and size.
 *
 * Small chunks stay in the caches while they are filled and drained, so that the bytes cross memory
 * once less; large ones, filled past the caches, win where another core or a slow engine drains
 * them later. Which of the two holds is a matter of the machine and of the device, unless each
 * chunk costs calls of a driver, so the first large transfers of each direction find out: stretches
 * of them take turns through the candidates, each is timed, and the fastest stays; shorter ones
 * take it too if it is one of the small ring. They are the transfer's own bytes, so nothing is
 * moved for the measurement alone. A transfer that is watched, or whose chunks the caller chose, is
 * never measured.
 */

#include "src/base/base.h"
#include "src/base/copy_loop.h"

/* Of the ring of large chunks. */
#define FERRYI_LARGE_CHUNK_BYTES ((size_t)2 << 20)
/* From here on helpers take part, and threads are worth starting. */
#define FERRYI_HELP_FROM ((size_t)4 << 20)

/*
 * What a shorter download brings stays in the caches. A longer one has been through as many bytes
 * of the ring meanwhile, and takes longer to write into the caches than it takes to be read from
 * memory afterwards, even where it is read at once.
 */
#define FERRYI_BRIEF_BYTES ((size_t)1 << 20)

#define FERRYI_SETUPS      3

struct ferryi_setup {
    enum ferryi_copy_loop loop;
    bool large; /* the ring of large chunks */
};

FERRYI_MUTEX_CLASS(ferryi_tuning_mutex);

struct ferryi_tuning {
    struct ferryi_tuning_mutex mutex;
    bool download;
    size_t from;               /* bytes of a transfer that has room for a trial */
    size_t large_from;         /* bytes of a transfer that may take the ring of large chunks */
    struct ferryi_setup brief; /* of transfers below FERRYI_BRIEF_BYTES */
    struct ferryi_setup usual; /* of others, until it is known better */
    struct ferryi_setup candidates[FERRYI_SETUPS];
    unsigned count;
    FERRYI_GUARDED_BY(ferryi_tuning_mutex) struct {
        double best[FERRYI_SETUPS]; /* ns per byte; 0: not measured */
        unsigned trials;
        bool busy; /* a transfer is measuring */
    };
    atomic_int chosen; /* index, or -1 */
};

/* `loop` FERRYI_COPY_LOOPS and `fixed_ring` false: free to choose. Transfers below `from` bytes
 * neither measure nor choose. */
void ferryi_tuning_init(struct ferryi_tuning *tuning, bool download, size_t from,
                        enum ferryi_copy_loop loop, bool fixed_ring);
/* All transfers that helpers take part in take large chunks, where each chunk costs calls of a
 * driver. What is measured is the loop. */
void ferryi_tuning_prefer_large(struct ferryi_tuning *tuning);
void ferryi_tuning_clear(struct ferryi_tuning *tuning);

/* The setup for a transfer of `bytes`. */
struct ferryi_setup ferryi_tuning_choose(const struct ferryi_tuning *tuning, size_t bytes);

/* The next candidate to try, or -1: all is known, or another transfer is at it. Every begun trial
 * is ended. */
int ferryi_tuning_begin(struct ferryi_tuning *tuning);
/* `ns_per_byte` 0: it could not be timed, or cannot be used. */
void ferryi_tuning_end(struct ferryi_tuning *tuning, int candidate, double ns_per_byte,
                       bool usable);

#endif
