/* SPDX-License-Identifier: MIT */
#include "src/transfer/tuning.h"

#include <assert.h>

/* Trials of each candidate. The fastest one counts, since a disturbance can only make a trial
 * slower. */
#define ROUNDS 3

/* Time per byte of an unusable candidate: slower than any measured one. */
#define UNUSABLE 1e30

static void
add(struct ferryi_tuning *tuning, enum ferryi_copy_loop loop, bool large)
{
    assert(tuning->count < FERRYI_SETUPS);
    tuning->candidates[tuning->count++] = (struct ferryi_setup){loop, large};
}

/*
 * A small ring is filled fastest with stores that stay in the caches, a large one with stores that
 * bypass them. A download writes to memory that is in no cache. The C library's loop is a candidate
 * because processors differ.
 */
static void
add_candidates(struct ferryi_tuning *tuning, enum ferryi_copy_loop loop, bool fixed_ring)
{
    bool free_loop = loop == FERRYI_COPY_LOOPS;
    enum ferryi_copy_loop in_cache = tuning->download ? FERRYI_COPY_STREAM : FERRYI_COPY_PREFETCH;
    if (free_loop && ferryi_copy_loops_differ()) {
        add(tuning, in_cache, false);
        add(tuning, FERRYI_COPY_LIBC, false);
        add(tuning, FERRYI_COPY_STREAM, !fixed_ring);
    } else {
        add(tuning, free_loop ? FERRYI_COPY_LIBC : loop, false);
        if (!fixed_ring)
            add(tuning, free_loop ? FERRYI_COPY_LIBC : loop, true);
    }
}

void
ferryi_tuning_init(struct ferryi_tuning *tuning, bool download, size_t from,
                   enum ferryi_copy_loop loop, bool fixed_ring)
{
    *tuning = (struct ferryi_tuning){.download = download, .from = from, .large_from = from};
    ferryi_mutex_init(&tuning->mutex);
    add_candidates(tuning, loop, fixed_ring);
    tuning->usual = tuning->brief = tuning->candidates[0];
    /* The C library's loop is never much slower than the others. */
    if (loop == FERRYI_COPY_LOOPS)
        tuning->brief.loop = FERRYI_COPY_LIBC;
    if (!download)
        tuning->usual = tuning->brief;
    atomic_init(&tuning->chosen, tuning->count == 1 ? 0 : -1);
}

void
ferryi_tuning_prefer_large(struct ferryi_tuning *tuning)
{
    for (unsigned i = 0; i < tuning->count; i++)
        tuning->candidates[i].large = true;
    tuning->usual.large = true;
    tuning->large_from = FERRYI_HELP_FROM;
    /* Two candidates that differ only in the ring are the same now. */
    if (tuning->count == 2) {
        tuning->count = 1;
        atomic_init(&tuning->chosen, 0);
    }
}

void
ferryi_tuning_clear(struct ferryi_tuning *tuning)
{
    ferryi_mutex_destroy(&tuning->mutex);
}

struct ferryi_setup
ferryi_tuning_choose(const struct ferryi_tuning *tuning, size_t bytes)
{
    if (bytes < FERRYI_BRIEF_BYTES)
        return tuning->brief;
    int chosen = atomic_load_explicit(&tuning->chosen, memory_order_acquire);
    bool fits = chosen >= 0 && (bytes >= tuning->large_from || !tuning->candidates[chosen].large);
    struct ferryi_setup setup = fits ? tuning->candidates[chosen] : tuning->usual;
    setup.large = setup.large && bytes >= tuning->large_from;
    return setup;
}

int
ferryi_tuning_begin(struct ferryi_tuning *tuning)
{
    if (atomic_load_explicit(&tuning->chosen, memory_order_acquire) >= 0)
        return -1;
    int candidate = -1;
    ferryi_mutex_lock(&tuning->mutex);
    if (!tuning->busy && tuning->trials < ROUNDS * tuning->count) {
        tuning->busy = true;
        candidate = (int)(tuning->trials % tuning->count);
    }
    ferryi_mutex_unlock(&tuning->mutex);
    return candidate;
}

FERRYI_REQUIRES(ferryi_tuning_mutex)
static int
fastest(const struct ferryi_tuning *tuning)
{
    int best = 0;
    for (int i = 1; i < (int)tuning->count; i++)
        if (tuning->best[i] > 0 && tuning->best[i] < tuning->best[best])
            best = i;
    return best;
}

void
ferryi_tuning_end(struct ferryi_tuning *tuning, int candidate, double ns_per_byte, bool usable)
{
    ferryi_mutex_lock(&tuning->mutex);
    double *best = &tuning->best[candidate];
    tuning->busy = false;
    if (!usable)
        ns_per_byte = UNUSABLE;
    /* A trial that could not be timed, since the transfer failed, is repeated. */
    if (ns_per_byte > 0) {
        tuning->trials++;
        if (*best == 0 || ns_per_byte < *best)
            *best = ns_per_byte;
    }
    if (tuning->trials == ROUNDS * tuning->count)
        atomic_store_explicit(&tuning->chosen, fastest(tuning), memory_order_release);
    ferryi_mutex_unlock(&tuning->mutex);
}
