/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_REPLAY_H
#define FERRY_CLI_REPLAY_H

#include "cli/allocator.h"
#include "cli/script.h"

/*
 * Running a script with an allocator, by the calling thread. A take that finds no memory is
 * counted, and the script goes on without its block.
 */

/* Nanoseconds of one operation; the clock's own cost is in it. */
struct replay_times {
    double median_ns, p99_ns;
    size_t count;
};

struct replay_failure {
    size_t operation, line; /* of the script and of the log, both from 1 */
    uint64_t bytes;         /* asked for */
    uint64_t live_bytes;    /* that were asked for by others at that time */
    char why[512];
};

struct replay_result {
    struct replay_times take, give;
    double clock_ns;             /* what telling the time once costs, in every operation's time */
    size_t failed_takes;         /* of the log's takes */
    size_t saved_tries;          /* of those that failed when the log was written */
    uint64_t failed_bytes;       /* asked for, together */
    struct replay_failure first; /* where failed_takes > 0 */
    double requested_total, given_total; /* bytes of all takes that worked */
    struct allocator_state state;        /* at the end, before what is left was given back */
};

/* Fresh allocators. False without host memory. */
bool replay_run(const struct script *script, const struct allocator *allocator,
                struct replay_result *out);

/* The most of each in a stretch of operations, fragmentation at its end. */
struct replay_sample {
    size_t operation; /* its last, from 1 */
    uint64_t time_us;
    uint64_t requested_bytes, given_bytes, reserved_bytes;
    double fragmentation;
    bool failed; /* a take found no memory */
};

/* As run, but looks on instead of measuring time: at most `room` samples. @return how many */
size_t replay_watch(const struct script *script, const struct allocator *allocator,
                    struct replay_sample *samples, size_t room);

/* Does every take find memory? Stops at the first that does not. */
bool replay_fits(const struct script *script, const struct allocator *allocator);

/*
 * The smallest limit in which a script fits, by bisection between its live peak and `most_bytes`,
 * to 1/1000 of the peak. Where a larger limit fails and a smaller one does not, it is one at which
 * failing ends. 0: it does not even fit in `most_bytes`, or the allocator cannot be opened.
 */
typedef bool replay_opener(const struct allocator_options *options, struct allocator *out);
uint64_t replay_smallest_limit(const struct script *script, replay_opener *open,
                               const struct allocator_options *options, uint64_t most_bytes);

#endif
