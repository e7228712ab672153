/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TUNING_H
#define FERRYI_TUNING_H

/*
 * Chooses the ring and the copy loop of a staged transfer, by direction and size.
 *
 * Small chunks stay in the caches while they are filled and drained, so that the bytes cross the
 * memory bus once less. Large chunks, filled with stores that bypass the caches, are faster where
 * another core or a slow copy engine drains them later. Which is faster depends on the machine and
 * the device, so the first large transfers of each direction measure it: consecutive stretches of
 * them use the candidates in turn, each is timed, and the fastest is kept. Shorter transfers use it
 * too if it is a setup of the small ring. The stretches are the transfer's bytes, so nothing is
 * copied only for the measurement. A transfer that is watched, or whose chunk size the caller
 * chose, is never measured. Where each chunk costs driver calls, large chunks are always used, and
 * only the loop is measured.
 */

#include "src/base/base.h"
#include "src/base/copy_loop.h"

/* Size of a chunk of the ring of large chunks. */
#define FERRYI_LARGE_CHUNK_BYTES ((size_t)2 << 20)
/* Transfers of at least this size use helpers and start their threads. */
#define FERRYI_HELP_FROM ((size_t)4 << 20)

/*
 * A shorter download leaves its bytes in the caches. A longer one has passed as many bytes through
 * the ring meanwhile, and writing its bytes into the caches costs more than reading them from
 * memory later, even if they are read at once.
 */
#define FERRYI_BRIEF_BYTES ((size_t)1 << 20)

#define FERRYI_SETUPS      3

struct ferryi_setup {
    enum ferryi_copy_loop loop;
    bool large; /* use the ring of large chunks */
};

FERRYI_MUTEX_CLASS(ferryi_tuning_mutex);

struct ferryi_tuning {
    struct ferryi_tuning_mutex mutex;
    bool download;
    size_t from;               /* least size of a transfer that can hold a trial */
    size_t large_from;         /* least size of a transfer that may use the ring of large chunks */
    struct ferryi_setup brief; /* setup of transfers below FERRYI_BRIEF_BYTES */
    struct ferryi_setup usual; /* setup of others until the trials are finished */
    struct ferryi_setup candidates[FERRYI_SETUPS];
    unsigned count;
    FERRYI_GUARDED_BY(ferryi_tuning_mutex) struct {
        double best[FERRYI_SETUPS]; /* ns per byte; 0: not measured */
        unsigned trials;
        bool busy; /* a transfer is measuring */
    };
    atomic_int chosen; /* index of the fastest candidate, or -1 */
};

/* Initializes the tuning. FERRYI_COPY_LOOPS as `loop` leaves the loop free to choose, and a false
 * `fixed_ring` the ring. Transfers below `from` bytes are not measured. */
void ferryi_tuning_init(struct ferryi_tuning *tuning, bool download, size_t from,
                        enum ferryi_copy_loop loop, bool fixed_ring);
/* Makes all transfers that helpers take part in use large chunks, for devices where each chunk
 * costs driver calls. Only the loop is measured then. */
void ferryi_tuning_prefer_large(struct ferryi_tuning *tuning);
void ferryi_tuning_clear(struct ferryi_tuning *tuning);

/* Returns the setup for a transfer of `bytes` bytes. */
struct ferryi_setup ferryi_tuning_choose(const struct ferryi_tuning *tuning, size_t bytes);

/* Begins a trial and returns its candidate, or returns -1 if all are measured or another transfer
 * is measuring. Every trial that was begun must be ended. */
int ferryi_tuning_begin(struct ferryi_tuning *tuning);
/* Ends a trial. `ns_per_byte` is 0 if the trial could not be timed; `usable` is false if the
 * candidate cannot be used at all. */
void ferryi_tuning_end(struct ferryi_tuning *tuning, int candidate, double ns_per_byte,
                       bool usable);

#endif
